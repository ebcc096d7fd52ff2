"""Partial results of jobs: workers send them, and waiting callers get them."""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from typing import Final

from jqmaster.clock import Clock, wait_for_event
from jqmaster.domain.ids import is_id
from jqmaster.domain.jobs.parts import PartLimits, PartPage, PartPosition
from jqmaster.errors import ConflictError, TooLargeError
from jqmaster.live_value import LiveValue
from jqmaster.service.jobs.reader import LOOK_AGAIN_S, unknown_job
from jqmaster.service.jobs.waiters import FinishWaiters
from jqmaster.store.jobs.parts import PartStore

# Pause between the wake-up of a waiting caller and the read of the store. Partial results that arrive in this time
# reach the caller together.
MIN_PAUSE_S: Final = 0.02


class PartService:
    """Stores and reads partial results. Methods raise what the store raises."""

    def __init__(
        self, store: PartStore, waiters: FinishWaiters, clock: Clock, limits: LiveValue[PartLimits]
    ) -> None:
        self._store = store
        self._waiters = waiters
        self._clock = clock
        self._limits = limits

    async def save(
        self, worker_id: str, job_id: str, token: str, *, first: int, values: Sequence[bytes]
    ) -> None:
        """Store partial results of a running job: either all of them or none. A repeated partial result is stored once.

        Raise ConflictError for a stale token, and TooLargeError if the attempt would have too many partial results or
        bytes.
        """
        saved = (
            await self._store.save(worker_id, job_id, token, first, values) if is_id(worker_id) else "stale"
        )
        if saved == "stale":
            raise ConflictError("the worker does not hold the job under this token", code="stale_token")
        if saved == "full":
            limits = self._limits.current
            raise TooLargeError(
                f"an attempt may have {limits.max_parts:,} partial results, with {limits.max_bytes:,} bytes in all; "
                "keep more of them in a store of your own",
                code="too_many_parts",
            )

    @contextlib.contextmanager
    def listening(self, job_id: str) -> Iterator[asyncio.Event]:
        """Yield an event that is set when the job may have new partial results. Enter this context before reading the
        store."""
        with self._waiters.listening(job_id) as news:
            yield news

    async def page(self, job_id: str, after: PartPosition, *, wait_s: float, watch: bool = False) -> PartPage:
        """Return the partial results after a position as soon as there are any. Return a page without results as soon
        as the job is over or in another attempt, or after `wait_s`. Raise NotFoundError.

        `watch`: make the store announce the job's end even if this call does not wait.
        """
        if not is_id(job_id):
            raise unknown_job(job_id)
        ends_at_s = self._clock.monotonic_s() + wait_s
        with self._waiters.listening(job_id) as news:
            while True:
                left_s = ends_at_s - self._clock.monotonic_s()
                news.clear()
                page = await self._store.read(job_id, after, watch=watch or left_s > 0)
                if page is None:
                    raise unknown_job(job_id)
                if page.parts or page.is_last or page.attempt > max(after.attempt, 1) or left_s <= 0:
                    return page
                await wait_for_event(news, min(left_s, LOOK_AGAIN_S))
                await asyncio.sleep(MIN_PAUSE_S)
