"""Whether a call comes from a master that knows the secret, and for the first time."""

import hashlib
import hmac
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from worker_sdk.recent import NonceCache

WINDOW_S: Final = 300.0

# The line feeds of a signed text have no place in it: else `/challenge` would sign forged requests for whoever asks.
_CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{16,128}")
_NONCE: Final = re.compile(rb"[\x21-\x7e]{8,128}")
_TIMESTAMP: Final = re.compile(rb"[0-9]{1,15}")
_SIGNATURE: Final = re.compile(rb"v1=([0-9a-f]{64})")


def signed_text(*, method: str, path: str, worker_id: str, timestamp: str, nonce: str, body: bytes) -> bytes:
    digest = hashlib.sha256(body).hexdigest()
    return "\n".join((method, path, worker_id, timestamp, nonce, digest)).encode()


class SignatureCheck:
    """`secrets`: the one that registers, then those that are still valid while it rotates."""

    def __init__(self, secrets: Sequence[str], wall_clock_s: Callable[[], float] = time.time) -> None:
        self._keys = [secret.encode() for secret in secrets]
        self._nonces = NonceCache(WINDOW_S)
        self._wall_clock_s = wall_clock_s

    def prove(self, nonce: object) -> str | None:
        """The answer to a challenge; None for a nonce that is not of the agreed form."""
        if not isinstance(nonce, str) or not _CHALLENGE.fullmatch(nonce):
            return None
        return hmac.digest(self._keys[0], nonce.encode(), "sha256").hex()

    def may_be_valid(self, headers: Mapping[bytes, bytes], worker_id: str) -> bool:
        """What can be told before the body is read: form, addressee and time."""
        timestamp = headers.get(b"x-jq-timestamp", b"")
        return (
            headers.get(b"x-jq-worker") == worker_id.encode()
            and _TIMESTAMP.fullmatch(timestamp) is not None
            and abs(self._wall_clock_s() - int(timestamp) / 1000) <= WINDOW_S
            and _NONCE.fullmatch(headers.get(b"x-jq-nonce", b"")) is not None
            and _SIGNATURE.fullmatch(headers.get(b"x-jq-signature", b"")) is not None
        )

    def is_valid(
        self, method: str, path: str, headers: Mapping[bytes, bytes], worker_id: str, body: bytes
    ) -> bool:
        """The whole check of a call that `may_be_valid`; uses its nonce up."""
        timestamp, nonce = headers[b"x-jq-timestamp"].decode(), headers[b"x-jq-nonce"].decode()
        text = signed_text(
            method=method, path=path, worker_id=worker_id, timestamp=timestamp, nonce=nonce, body=body
        )
        given = headers[b"x-jq-signature"][3:]
        # Every key is tried whatever the first says: the time taken tells nothing.
        matches = [
            hmac.compare_digest(hmac.digest(key, text, "sha256").hex().encode(), given) for key in self._keys
        ]
        # Only now: who cannot sign must not fill the cache.
        return any(matches) and self._nonces.is_fresh(nonce, int(timestamp), int(self._wall_clock_s() * 1000))
