"""Reads the request IDs that callers present, and limits guesses."""

from typing import Final, NoReturn

from jqmaster.clock import Clock
from jqmaster.domain.challenges.challenge import CallbackAnswer, RequestId, read_request_id
from jqmaster.domain.identity.caller import caller_of
from jqmaster.domain.identity.quota import Quota
from jqmaster.errors import ChallengeOverError, ConflictError, NotFoundError, RateLimitedError

# Maximum number of unknown request IDs that an address may send in a minute. After that, it gets 429.
MAX_MISSES: Final = 30


class RequestIds:
    """Counts the unknown request IDs of each address.

    The limit applies only to unknown IDs. Many people and systems may share an address, so valid IDs always work.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._misses = Quota()

    def read(self, text: str, address: str) -> RequestId:
        """Return the parts of a request ID. If the text is not a request ID, raise what `refuse` raises for an unknown
        ID."""
        request = read_request_id(text)
        if request is None:
            self.refuse(CallbackAnswer.UNKNOWN, address)
        return request

    def refuse(self, answer: CallbackAnswer, address: str) -> NoReturn:
        """Raise the error for a callback that is not accepted. If the request ID is unknown, count it for the address.
        Raise RateLimitedError if the address has presented too many."""
        if answer is CallbackAnswer.CONFLICT:
            raise ConflictError("another callback came before", code="callback_conflict")
        if answer is CallbackAnswer.OVER:
            raise ChallengeOverError(
                "the attempt that waited for this callback is over", code="challenge_over"
            )
        now_s = self._clock.monotonic_s()
        if self._misses.add(caller_of(address), now_s) > MAX_MISSES:
            raise RateLimitedError(
                "too many unknown request IDs; wait a moment",
                code="too_many_callbacks",
                retry_after_s=self._misses.left_s(now_s),
            )
        raise NotFoundError("no challenge has this request ID", code="unknown_challenge")
