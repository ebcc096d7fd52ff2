"""Makes registering workers prove their addresses, and limits the failed proofs of each caller.

The master calls an address that a caller chose, so a caller could make it scan the network. Therefore, callers learn
only that an address was not proven. The reason is in the log.
"""

import hashlib
import hmac
import logging
import secrets
from collections import Counter
from typing import Any, Final, Protocol

from jqmaster.clock import Clock
from jqmaster.domain.identity.quota import Quota
from jqmaster.errors import AddressRefusedError, RateLimitedError
from jqmaster.live_value import LiveValue

logger = logging.getLogger(__name__)

# Maximum number of concurrent registrations of one caller. Even a whole fleet that restarts behind one address needs no
# more.
MAX_AT_ONCE: Final = 200
# If workers register at one address more often than this in a minute, a warning is logged. Either a worker keeps
# crashing, or two workers compete for the address.
OFTEN: Final = 5
_UNVERIFIED: Final = (
    "no worker that knows the secret answered POST {url}/challenge: either this master cannot reach anything "
    "there, or another program listens there. The master's log has the cause"
)
_BINARY: Final = "the proof is right, but sent as binary: it must be text (a MessagePack str)"


class AddressProver(Protocol):
    async def prove(self, url: str, nonce: str) -> Any:
        """Return the proof that the worker at `url` sent for `nonce`. Raise AddressRefusedError, with a text that is
        only for the log."""
        ...


class Registrations:
    """Checks the addresses of registering workers. After `failures_per_minute` failures of one caller, its further
    registrations are refused."""

    def __init__(self, prover: AddressProver, clock: Clock, *, failures_per_minute: LiveValue[int]) -> None:
        self._prover = prover
        self._clock = clock
        self._failures = Quota()
        self._under_way: Counter[str] = Counter()
        self._at_address = Quota()
        self._failures_per_minute = failures_per_minute

    async def check(self, url: str, secret: str, caller: str) -> None:
        """Make the server at `url` prove that it knows `secret`.

        Raise AddressRefusedError (`address_unverified`) if it does not. Raise RateLimitedError if the caller has failed
        too often in this minute, or has too many registrations in progress.
        """
        now_s = self._clock.monotonic_s()
        if self._failures.count(caller, now_s) >= self._failures_per_minute.current:
            raise RateLimitedError(
                "too many registrations failed; wait a moment",
                code="too_many_registrations",
                retry_after_s=self._failures.left_s(now_s),
            )
        if self._under_way[caller] >= MAX_AT_ONCE:
            raise RateLimitedError(
                "too many registrations at once; wait a moment",
                code="too_many_registrations",
                retry_after_s=1.0,
            )
        self._under_way[caller] += 1
        try:
            fault, told = await self._fault(url, secret)
        finally:
            self._under_way[caller] -= 1
            if not self._under_way[caller]:
                del self._under_way[caller]
        if fault:
            self._failures.add(caller, self._clock.monotonic_s())
            logger.warning("a registration at %s was refused (by %s): %s", url, caller, fault)
            raise AddressRefusedError(told, code="address_unverified")

    def note(self, address: str) -> None:
        """Count a registration at `address`. Log a warning if there are too many in a minute."""
        if self._at_address.add(address, self._clock.monotonic_s()) == OFTEN + 1:
            logger.warning(
                "workers register at %s more than %d times a minute: each registration ends the jobs of the "
                "previous worker. Does the worker crash?",
                address,
                OFTEN,
            )

    async def _fault(self, url: str, secret: str) -> tuple[str, str]:
        """Check the server, and return the text of its fault for the log and for the caller. Without a fault, both
        texts are empty."""
        nonce = secrets.token_urlsafe(32)
        expected = hmac.new(secret.encode(), nonce.encode(), hashlib.sha256).hexdigest()
        try:
            proof = await self._prover.prove(url, nonce)
        except AddressRefusedError as exc:
            return exc.detail, _UNVERIFIED
        if isinstance(proof, str):
            is_right = hmac.compare_digest(proof.encode(), expected.encode())
            return (
                ("", "")
                if is_right
                else ("the program that answers there does not know the secret", _UNVERIFIED)
            )
        if isinstance(proof, bytes) and hmac.compare_digest(proof, expected.encode()):
            # Tell the caller this fault in full. The proof is right, so the text reveals nothing about other servers.
            return _BINARY, _BINARY
        return "the answer contains no proof", _UNVERIFIED
