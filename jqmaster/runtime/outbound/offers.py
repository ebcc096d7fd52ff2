"""Offer claimed jobs to one worker until each has an answer, or the offer is over.

A job that a worker cannot read must not block the others of its push. If a push is refused as a whole or gets an
invalid answer, its jobs are offered again in halves. This goes on until the job at fault is alone.
"""

import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

from jqmaster.clock import Clock
from jqmaster.domain.workers.breaker import Breaker
from jqmaster.runtime.outbound.worker_client import (
    Delivered,
    MaybeDelivered,
    NotDelivered,
    PushResult,
    Refused,
)
from jqmaster.store.jobs.claims import Claim

logger = logging.getLogger(__name__)

REPEAT_PUSH_S: Final = 0.2
# Maximum number of invalid answers to a push of a single job. After these, the offer ends and the lease settles the
# job.
MAX_NONSENSE: Final = 3


@dataclass(frozen=True, slots=True)
class Withheld:
    """The piece was not pushed, because the lead or the offer may have been over."""


@dataclass(frozen=True, slots=True)
class Deferred:
    """The piece was not delivered, probably because of the job itself: its worker takes other jobs."""

    why: str


OfferResult = PushResult | Withheld | Deferred


@dataclass(slots=True)
class _OfferPiece:
    """A piece of the claim that is offered in one push. `is_in_doubt`: an earlier push of these tokens, or the answer
    to a report, may have started the jobs, or even have killed the worker."""

    claim: Claim
    is_in_doubt: bool = False
    nonsense: int = 0

    @property
    def is_alone(self) -> bool:
        return len(self.claim.jobs) == 1

    def halves(self) -> "tuple[_OfferPiece, _OfferPiece]":
        jobs = self.claim.jobs
        middle = len(jobs) // 2
        first, second = replace(self.claim, jobs=jobs[:middle]), replace(self.claim, jobs=jobs[middle:])
        return _OfferPiece(first, self.is_in_doubt), _OfferPiece(second, self.is_in_doubt)


class Offers:
    """The offers of one claim.

    * `push`: sends jobs to their worker once.
    * `first`: the result of the first push, if it was made already.
    * `is_in_doubt`: the jobs may have reached the worker in another way before.
    * `may_push`: returns whether a push may begin; called before each push.
    * `is_stopping`: returns whether to stop; called before each repeat.

    Pushes without a valid answer are reported to `breaker` here; the consumer of the results reports all other pushes.
    """

    def __init__(
        self,
        claim: Claim,
        push: Callable[[Claim], Awaitable[PushResult]],
        breaker: Breaker,
        clock: Clock,
        *,
        worker_id: str,
        over_at_s: float,
        may_push: Callable[[], bool],
        is_stopping: Callable[[], bool],
        first: PushResult | None = None,
        is_in_doubt: bool = False,
    ) -> None:
        self._first = first
        self._push = push
        self._breaker = breaker
        self._clock = clock
        self._worker_id = worker_id
        self._over_at_s = over_at_s
        self._may_push = may_push
        self._is_stopping = is_stopping
        self._parts = deque([_OfferPiece(claim, is_in_doubt)])
        self._is_probe = breaker.open_s > 0.0
        self._is_heard = False

    async def results(self) -> AsyncGenerator[tuple[Claim, OfferResult]]:
        """Yield each piece of the claim with its outcome, as soon as the outcome is known."""
        while self._parts:
            part = self._parts.popleft()
            # The process may be suspended between this check and the push. A late push does no harm, because the worker
            # checks the offer's age and epoch.
            if self._first is not None:
                result, self._first = self._first, None
            elif self._may_push():
                result = await self._push(part.claim)
            else:
                yield part.claim, _without_push(part, "the lead is over")
                continue
            if part.is_in_doubt and isinstance(result, NotDelivered | Refused):
                result = MaybeDelivered(
                    result.why, is_answer=not isinstance(result, NotDelivered) or result.is_answer
                )
            if (final := self._judged(part, result)) is not None:
                yield part.claim, final
                continue
            if isinstance(result, MaybeDelivered):
                await self._clock.sleep(REPEAT_PUSH_S)
            assert not isinstance(result, Delivered)
            if self._should_give_up(result):
                for left in self._parts:
                    yield left.claim, _without_push(left, result.why)
                return

    def _should_give_up(self, last: PushResult) -> bool:
        now_s = self._clock.monotonic_s()
        if self._is_stopping() or now_s >= self._over_at_s:
            return True
        # Give up if the breaker has opened. The worker refused several times and took no job, so the worker is at
        # fault, and not the jobs.
        return isinstance(last, NotDelivered) and self._breaker.state(now_s) == "open"

    def _judged(self, part: _OfferPiece, result: PushResult) -> OfferResult | None:
        """Return the outcome of a piece, or None if its jobs have to be offered again."""
        match result:
            case Delivered():
                self._is_heard = True
                return result
            case Refused():
                if part.is_alone:
                    return result
                self._parts.extend(part.halves())
            case NotDelivered(why=why, is_answer=is_answer):
                if not is_answer:
                    return result
                if part.is_alone and self._is_heard:
                    return Deferred(why)
                if part.is_alone and not self._is_probe:
                    return result
                self._breaker.failed(self._clock.monotonic_s(), why)
                if part.is_alone:
                    # Defer the job, so that the next probe uses another one. Otherwise this job could keep the breaker
                    # open forever.
                    return Deferred(why)
                self._parts.extend(part.halves())
            case MaybeDelivered(why=why, is_answer=is_answer):
                part.is_in_doubt = True
                part.nonsense += is_answer
                logger.warning("push to worker %s: no valid answer (%s)", self._worker_id, why)
                is_odd_job = part.is_alone and is_answer and self._is_heard
                if not is_odd_job:
                    self._breaker.failed(self._clock.monotonic_s(), why)
                if is_odd_job or self._is_stopping() or (part.is_alone and part.nonsense >= MAX_NONSENSE):
                    return result
                self._parts.extend((part,) if part.is_alone else part.halves())
        return None


def _without_push(part: _OfferPiece, why: str) -> OfferResult:
    return MaybeDelivered(why) if part.is_in_doubt else Withheld()
