"""The signature of a master's call to a worker: made by the master, checked by the worker.

The signature proves that the call comes from a master that knows the worker's secret, and that the call is not
repeated. The master sends no credential that could be used elsewhere.
"""

import hashlib
import hmac
import logging
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from worker_sdk.transport.recent import NonceCache

logger = logging.getLogger(__name__)

WINDOW_S: Final = 300.0
_WARN_EVERY_S: Final = 60.0

# The form of a challenge's nonce. It must exclude the line feeds that separate the fields of a signed text. Otherwise,
# `/challenge` would sign forged requests for anyone.
_CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{16,128}")
_NONCE: Final = re.compile(rb"[\x21-\x7e]{8,128}")
_TIMESTAMP: Final = re.compile(rb"[0-9]{1,15}")
_SIGNATURE: Final = re.compile(rb"v1=([0-9a-f]{64})")

# A hash object to copy. OpenSSL looks up the algorithm for each new object, but not for a copy. When calls are rare and
# the caches of the processor are cold, the look-up takes a third of the time of a signature.
_SHA256: Final = hashlib.sha256()


@lru_cache(maxsize=1_024)
def _key(secret: str) -> hmac.HMAC:
    return hmac.new(secret.encode(), digestmod="sha256")


def _mac(key: hmac.HMAC, text: bytes) -> str:
    """Return the HMAC of a text in hexadecimal digits."""
    mac = key.copy()
    mac.update(text)
    return mac.hexdigest()


def signed_text(*, method: str, path: str, worker_id: str, timestamp: str, nonce: str, body: bytes) -> bytes:
    """Return the text that is signed. docs/worker_protocol.md defines it."""
    digest = _SHA256.copy()
    digest.update(body)
    return "\n".join((method, path, worker_id, timestamp, nonce, digest.hexdigest())).encode()


def signed_headers(*, secret: str, method: str, path: str, worker_id: str, body: bytes) -> dict[str, str]:
    """Return the `X-JQ-…` headers of one call. `path`: the path as sent, with the prefix of the worker's URL."""
    # Use the wall clock, not the store's clock: a worker that does not know the store's clock must be able to check the
    # timestamp.
    timestamp = str(time.time_ns() // 1_000_000)
    nonce = secrets.token_urlsafe(16)
    text = signed_text(
        method=method, path=path, worker_id=worker_id, timestamp=timestamp, nonce=nonce, body=body
    )
    return {
        "X-JQ-Worker": worker_id,
        "X-JQ-Timestamp": timestamp,
        "X-JQ-Nonce": nonce,
        "X-JQ-Signature": f"v1={_mac(_key(secret), text)}",
    }


def _utc(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return f"{seconds:.0f} s since 1970"


class SignatureCheck:
    """Makes secrets for registrations, and checks signatures. `secrets`: first the secret to register, then others that
    remain valid during a rotation. Without secrets, each registration makes a new secret."""

    def __init__(
        self,
        secrets: Sequence[str] = (),
        wall_clock_s: Callable[[], float] = time.time,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._secrets = secrets
        self._keys = [_key(secret) for secret in secrets]
        self._nonces = NonceCache(WINDOW_S)
        self._wall_clock_s = wall_clock_s
        self._now_s = now_s
        self._warned_at_s = float("-inf")

    def secret_to_register(self) -> str:
        """Return the secret for the next registration. If no secrets were given, each registration gets a new one. A
        delayed older registration then fails the master's address check, so it cannot replace a newer registration."""
        if self._secrets:
            return self._secrets[0]
        secret = secrets.token_hex(32)
        self._keys = [_key(secret)]
        return secret

    def prove(self, nonce: object) -> str | None:
        """Return the answer to a challenge, or None if the nonce has an invalid form, or if no secret was registered
        yet."""
        if not self._keys or not isinstance(nonce, str) or not _CHALLENGE.fullmatch(nonce):
            return None
        return _mac(self._keys[0], nonce.encode())

    def may_be_valid(self, headers: Mapping[bytes, bytes], worker_id: str) -> bool:
        """Return whether everything is valid that can be checked before the body is read: form, addressee and time."""
        timestamp = headers.get(b"x-jq-timestamp", b"")
        has_form = (
            headers.get(b"x-jq-worker") == worker_id.encode()
            and _TIMESTAMP.fullmatch(timestamp) is not None
            and _NONCE.fullmatch(headers.get(b"x-jq-nonce", b"")) is not None
            and _SIGNATURE.fullmatch(headers.get(b"x-jq-signature", b"")) is not None
        )
        return has_form and self._is_recent(int(timestamp) / 1000)

    def _is_recent(self, signed_s: float) -> bool:
        here_s = self._wall_clock_s()
        if abs(here_s - signed_s) <= WINDOW_S:
            return True
        if self._now_s() - self._warned_at_s >= _WARN_EVERY_S:
            self._warned_at_s = self._now_s()
            logger.warning(
                "a master's call is refused because of its time: the master's clock says %s, this machine's %s. "
                "They must agree within %.0f s; until they do, this worker gets no jobs",
                _utc(signed_s), _utc(here_s), WINDOW_S,
            )  # fmt: skip
        return False

    def is_valid(
        self, method: str, path: str, headers: Mapping[bytes, bytes], worker_id: str, body: bytes
    ) -> bool:
        """Return whether a call that `may_be_valid` accepted has a valid signature and a new nonce. Remember the
        nonce."""
        timestamp, nonce = headers[b"x-jq-timestamp"].decode(), headers[b"x-jq-nonce"].decode()
        text = signed_text(
            method=method, path=path, worker_id=worker_id, timestamp=timestamp, nonce=nonce, body=body
        )
        given = headers[b"x-jq-signature"][3:]
        # Try every key even after a match, so that the time of the check reveals nothing.
        matches = [hmac.compare_digest(_mac(key, text).encode(), given) for key in self._keys]
        # Remember the nonce only if the signature is valid: callers that cannot sign must not fill the cache.
        return any(matches) and self._nonces.is_fresh(nonce, int(timestamp), int(self._wall_clock_s() * 1000))
