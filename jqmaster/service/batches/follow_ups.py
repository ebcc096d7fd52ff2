"""The follow-ups of batches: their callbacks, the jobs to cancel or to retry, and their end."""

import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from jqmaster.domain.batches.batch import BatchFigures
from jqmaster.domain.ids import is_id
from jqmaster.domain.jobs.job import FINISHED, JobState
from jqmaster.live_value import LiveValue
from jqmaster.service.constraints.cache import ConstraintCache
from jqmaster.service.jobs.follow_ups import CarryOut
from jqmaster.service.jobs.operator_actions import JobActions
from jqmaster.store.batches.batches import BatchStore, due_callbacks
from jqmaster.store.jobs.records import RecordStore
from jqmaster.store.link.pages import MAX_PER_CALL, RECORDS_PER_READ, pages

# One call handles at most this many pages of members, so that other follow-ups need not wait for long.
PAGES_AT_ONCE: Final = 20
# Maximum number of jobs that one step cancels. Each job takes a separate call.
CANCELS_PER_CALL: Final = 100

Act = Callable[[str, Sequence[str]], Awaitable[None]]


class BatchFollowUps:
    """Carries out the follow-ups of batches on one shard. Each follow-up may be carried out again at any time."""

    def __init__(
        self,
        store: BatchStore,
        records: RecordStore,
        actions: JobActions,
        constraints: ConstraintCache,
        figures: BatchFigures,
    ) -> None:
        self._store = store
        self._records = records
        self._actions = actions
        self._constraints = constraints
        self._figures = figures
        # Maps each entry to the last member that was handled. The map is not stored, so a new leader begins with the
        # first member.
        self._places: dict[tuple[str, str], str] = {}

    def kinds(self) -> dict[str, CarryOut]:
        """Return the function that carries out each kind of entry."""
        return {
            "batch": self.start_callbacks,
            "batch_cancel": functools.partial(self._go_through, "batch_cancel", self._cancel_page),
            "batch_retry": functools.partial(self._go_through, "batch_retry", self._retry_page),
        }

    async def start_callbacks(self, batch_ids: Sequence[str], epoch: str) -> Sequence[str]:
        """Enqueue the due callbacks of batches. Skip a batch that was removed or that already has its callbacks."""
        batches = await self._store.get_all([one for one in batch_ids if is_id(one)])
        due = due_callbacks(batches)
        if due:
            start = functools.partial(self._store.start_callbacks, due, epoch=epoch)
            started = await self._constraints.under(start)
            self._figures.callbacks.update(
                str(one.callback) for one, is_new in zip(due, started, strict=True) if is_new
            )
        return ()

    async def _go_through(self, kind: str, act: Act, batch_ids: Sequence[str], epoch: str) -> Sequence[str]:
        """Act on the members of batches, page by page. Return the batches that have more members than one call
        handles."""
        del epoch  # not needed: each call for a member checks the member's state
        unfinished = []
        for batch_id in filter(is_id, batch_ids):
            place = kind, batch_id
            for _ in range(PAGES_AT_ONCE):
                page = await self._store.members(batch_id, self._places.get(place, ""))
                await act(batch_id, page)
                if len(page) < MAX_PER_CALL:
                    self._places.pop(place, None)
                    await self._visit_nested(kind, batch_id)
                    break
                self._places[place] = page[-1]
            else:
                unfinished.append(batch_id)
        return unfinished

    async def _visit_nested(self, kind: str, batch_id: str) -> None:
        """Cancel the nested batches or request their retry, as `kind` says."""
        for child in await self._store.children(batch_id):
            if kind == "batch_cancel":
                await self._store.cancel(child)
            else:
                await self._store.ask_retry(child)

    async def _cancel_page(self, batch_id: str, job_ids: Sequence[str]) -> None:
        del batch_id
        unfinished = [
            job_id
            for job_id, state in await self._store.states(job_ids)
            if state is not None and state not in FINISHED
        ]
        for some in pages(unfinished, CANCELS_PER_CALL):
            await self._actions.cancel_all(some)

    async def _retry_page(self, batch_id: str, job_ids: Sequence[str]) -> None:
        until_ms = await self._store.retry_until_ms(batch_id)
        failed = [job_id for job_id, state in await self._store.states(job_ids) if state is JobState.FAILED]
        for some in pages(failed, RECORDS_PER_READ):
            jobs = (await self._records.get_all(some)).values()
            # Leave out jobs that ended after the request: these have already been retried, and have failed again.
            await self._actions.retry_all([job for job in jobs if 0 < job.finished_at_ms <= until_ms])


class BatchExpiry:
    """Cancels batches that expire, and removes complete ones after `retention_ms`. Methods raise what the store
    raises."""

    def __init__(self, store: BatchStore, *, retention_ms: LiveValue[int], figures: BatchFigures) -> None:
        self._store = store
        self._retention_ms = retention_ms
        self._figures = figures

    async def end_due(self, epoch: str) -> int | None:
        """End a page of the due batches, as the leader of `epoch`. Return the milliseconds until the next batch is due.
        None: no batch will be due."""
        ended = await self._store.end_due(epoch, retention_ms=self._retention_ms.current)
        self._figures.expired += ended.canceled
        return ended.next_ms
