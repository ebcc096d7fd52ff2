"""Proof of a registering worker's address, and a limit on failed proofs per caller.

The master calls an address that somebody else chose, so a caller could use it to scan the network. Callers therefore
learn only that an address was not proven; the reason is in the log.
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

# Maximum number of concurrent registrations of one caller. The workers of a fleet behind one address may register at
# the same time, but no real fleet needs more.
MAX_AT_ONCE: Final = 200
# If more workers than this register at one address within a minute, a warning is logged: a worker keeps crashing, or
# two workers compete for the address.
OFTEN: Final = 5
_UNVERIFIED: Final = (
    "no worker that knows the secret answered POST {url}/challenge: either this master cannot reach anything "
    "there, or another program listens there. The master's log has the cause"
)
_BINARY: Final = "the proof is right, but sent as binary: it must be text (a MessagePack str)"


class AddressProver(Protocol):
    async def prove(self, url: str, nonce: str) -> Any:
        """Return the proof that the worker at `url` sent for `nonce`. Raise AddressRefusedError. Its text is for the
        log."""
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

        Raises AddressRefusedError (`address_unverified`), and RateLimitedError while the caller has failed
        too often.
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
        """Count a registration at `address`."""
        if self._at_address.add(address, self._clock.monotonic_s()) == OFTEN + 1:
            logger.warning(
                "workers register at %s more than %d times a minute: each registration ends the jobs of the "
                "previous worker. Does the worker crash?",
                address,
                OFTEN,
            )

    async def _fault(self, url: str, secret: str) -> tuple[str, str]:
        """Return the fault twice: its text for the log, and its text for the caller. Both are empty if there is
        none."""
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
            # Tell the caller this fault in full: because the proof is right, it reveals nothing about other servers.
            return _BINARY, _BINARY
        return "the answer contains no proof", _UNVERIFIED
