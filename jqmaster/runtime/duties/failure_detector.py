"""Find silent workers, ping them, detach those that do not answer, and forget those that are long gone."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from jqmaster.clock import Clock
from jqmaster.domain.workers.worker import Worker
from jqmaster.live_value import LiveValue
from jqmaster.runtime.duties.grace import Grace
from jqmaster.runtime.outbound.worker_client import WorkerClient
from jqmaster.runtime.periodic_loop import LeaderLoop
from jqmaster.store.leadership.leadership import Leadership
from jqmaster.store.operations.looks import Look
from jqmaster.store.workers.workers import WorkerStore

logger = logging.getLogger(__name__)

POLL_S: Final = 1.0
# Maximum number of pings under way. Even if none of 500 workers answers, a round then takes only a few seconds.
MAX_PINGS_AT_ONCE: Final = 64


@dataclass(frozen=True, slots=True)
class DetectorPolicy:
    """The limits of silence.

    * `stale_ms`: silence after which a worker is pinged.
    * `max_missed`: after this many pings without an answer, each of `ping_timeout_s`, the worker is detached.
    * `forget_ms`: silence after which a detached worker is removed.
    """

    stale_ms: int
    forget_ms: int
    ping_timeout_s: float
    max_missed: int


class FailureDetector(LeaderLoop):
    """A duty of one leadership: detaches silent workers. A worker is detached when it is silent and has missed too many
    pings in a row, one a second. It comes back by asking to continue. A worker that pulls has no address to ping, so
    each second of further silence counts as a missed ping.
    """

    is_vital = True
    poll_s = POLL_S

    def __init__(
        self,
        leadership: Leadership,
        workers: WorkerStore,
        client: WorkerClient,
        clock: Clock,
        grace: Grace,
        *,
        policy: LiveValue[DetectorPolicy],
        on_detached: Callable[[], None],
        on_stale: Callable[[], None],
    ) -> None:
        super().__init__(
            "failure_detector",
            clock,
            complaint="cannot check for silent workers",
            on_stale=on_stale,
            retry_s=POLL_S,
        )
        self._epoch = leadership.epoch
        self._workers = workers
        self._client = client
        self._grace = grace
        self._policy = policy
        self._on_detached = on_detached
        self._missed: dict[str, int] = {}
        self._watching_since_ms: int | None = None
        # The number of workers that the last round found; -1 before the first.
        self._known = -1
        self._pings = asyncio.Semaphore(MAX_PINGS_AT_ONCE)
        # Called with the registered workers and the store time of each look.
        self.on_look: Callable[[Sequence[Worker], int], None] = lambda workers, now_ms: None

    def wake(self) -> None:
        # While workers are silent, a message must not start a round early, because each round counts one missed ping
        # for each silent worker.
        if not self._missed:
            super().wake()

    def due_ms(self, look: Look) -> int:
        """Return the milliseconds until the next worker may count as silent. -1: no worker will, or one is silent
        already."""
        return max(-1, self._policy.current.stale_ms - look.silent_ms) if look.workers else -1

    def has_some(self, look: Look) -> bool:
        """Return whether workers are silent, or their number has changed. Missed pings in a row are counted by round,
        so a round is also needed after a silent worker was heard again."""
        is_silent = look.workers > 0 and look.silent_ms >= self._policy.current.stale_ms
        return is_silent or bool(self._missed) or look.workers != self._known

    async def _round(self) -> float:
        workers, now_ms = await self._workers.all_with_time()
        self._known = len(workers)
        self._grace.look(workers, now_ms)
        self.on_look(workers, now_ms)
        silent = [
            w for w in workers if not w.is_detached and not w.is_fresh(now_ms, self._policy.current.stale_ms)
        ]
        unresponsive = await self._unresponsive(silent)
        if self._missed:
            # Ignore messages that came during this round, for the same reason as in `wake`.
            self._wake.clear()
        await self._detach(unresponsive)
        await self._forget(workers, now_ms)
        return POLL_S

    async def _unresponsive(self, silent: Sequence[Worker]) -> list[Worker]:
        """Return the workers that have missed too many pings, to be detached."""
        answers = await asyncio.gather(*map(self._answers, silent))
        self._missed = {
            worker.id: self._missed.get(worker.id, 0) + 1
            for worker, is_answered in zip(silent, answers, strict=True)
            if not is_answered
        }
        return [
            worker for worker in silent if self._missed.get(worker.id, 0) >= self._policy.current.max_missed
        ]

    async def _answers(self, worker: Worker) -> bool:
        if worker.is_pulling:
            return False
        async with self._pings:
            return await self._client.ping(worker, self._policy.current.ping_timeout_s)

    async def _detach(self, deaf: Sequence[Worker]) -> None:
        for worker in deaf if self._grace.is_over else ():
            # The store decides whether the worker is silent: it may have sent a heartbeat while it was pinged.
            if await self._workers.detach_silent(
                self._epoch, worker.id, silent_ms=self._policy.current.stale_ms
            ):
                pings = "" if worker.is_pulling else f", and {self._missed[worker.id]} pings not answered"
                logger.warning("worker %s detached: silent%s", worker.id, pings)
                self._on_detached()

    async def _forget(self, workers: Sequence[Worker], now_ms: int) -> None:
        if self._watching_since_ms is None:
            self._watching_since_ms = now_ms
        for worker in workers:
            # Do not count silence before this leadership: the store or the masters may have been away.
            silent_ms = now_ms - max(worker.last_seen_ms, self._watching_since_ms)
            if (
                worker.busy == 0
                and silent_ms > self._policy.current.forget_ms
                and await self._workers.forget_silent(
                    self._epoch, worker.id, silent_ms=self._policy.current.forget_ms
                )
            ):
                logger.info("worker %s forgotten: silent for %d s", worker.id, silent_ms // 1000)
