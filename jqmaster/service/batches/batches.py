"""Use cases of batches: create, fill, seal, cancel, retry and read batches."""

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from jqmaster.config import Durability
from jqmaster.domain.batches.batch import Batch, BatchFigures, BatchSpec, BatchState
from jqmaster.domain.identity.access import Principal
from jqmaster.domain.ids import is_id, new_id
from jqmaster.domain.jobs.job import FINISHED, Job, JobSpec, JobState
from jqmaster.errors import (
    ConflictError,
    FieldError,
    JqmasterError,
    NotFoundError,
    invalid,
)
from jqmaster.live_value import LiveValue
from jqmaster.service.jobs.enqueue import EnqueuedBulk, EnqueueService
from jqmaster.service.jobs.reach import CallerReach
from jqmaster.service.jobs.refusals import error_of
from jqmaster.store.batches.batches import BatchRefused, BatchStore
from jqmaster.store.jobs.enqueue_outcomes import PushExpired
from jqmaster.store.jobs.records import RecordStore

# Time within which an interrupted bulk call that fills a batch may be repeated. After that, the batch is canceled or,
# if no job was accepted, removed.
FILL_MS: Final = 10 * 60 * 1000
# Maximum number of members or batches that are examined for one page, even if none of them matches the filter.
MAX_LOOKED_AT: Final = 2_000
MEMBERS_PER_READ: Final = 500
BATCHES_PER_READ: Final = 100

_PARENT_RULES: Final = {
    "unknown": "no batch has this ID",
    "over": "the batch is complete or canceled",
    "too_deep": "batches can be 10 levels deep",
}


@dataclass(frozen=True, slots=True)
class ShownBatch:
    """A batch. `unfinished`: the number of its unfinished jobs by state. None: they were not counted."""

    batch: Batch
    unfinished: dict[JobState, int] | None = None


@dataclass(frozen=True, slots=True)
class BatchPage:
    """A page of batches. `next_at`: None if this is the last page."""

    batches: list[Batch]
    next_at: tuple[int, str] | None


@dataclass(frozen=True, slots=True)
class MemberPage:
    """A page of members. `next_after`: None if this is the last page."""

    jobs: list[Job]
    next_after: str | None


class BatchService:
    """Creates, fills, seals, cancels, retries and reads batches. Methods raise what the store raises.

    * `now_ms`: the store's time.
    * `reach`: decides which jobs and batches a `caller` may name. The caller None is the master itself.
    """

    def __init__(
        self,
        store: BatchStore,
        records: RecordStore,
        enqueue: EnqueueService,
        now_ms: Callable[[], Awaitable[int]],
        *,
        reach: CallerReach,
        life_ms: LiveValue[int],
        figures: BatchFigures,
    ) -> None:
        self._store = store
        self._reach = reach
        self._records = records
        self._enqueue = enqueue
        self._now_ms = now_ms
        self._life_ms = life_ms
        self._figures = figures

    async def create(self, spec: BatchSpec, *, caller: Principal | None = None) -> bool:
        """Create a batch, and return whether it is new. Raise:

        * ConflictError if the ID was used for another request, or the parent is over,
        * InvalidError if the parent does not exist for the caller,
        * ForbiddenError if the caller may not push one of the callbacks.
        """
        await self._check_reach(spec, caller)
        is_new = await self._put(spec)
        self._figures.made += is_new
        return is_new

    async def create_with(
        self,
        spec: BatchSpec,
        jobs: Sequence[JobSpec],
        *,
        caller: Principal | None = None,
        durability: Durability | None = None,
    ) -> EnqueuedBulk:
        """Create a batch, enqueue its jobs, and seal it. An interrupted call may be repeated with the same IDs. Raise
        what `create` and `EnqueueService.bulk` raise. After such an error, the batch exists only if some of its jobs
        were accepted."""
        members = [replace(job, batch=spec.id) for job in jobs]
        await self._check_reach(spec, caller)
        await self._enqueue.check_bulk(members, caller=caller, durability=durability)
        now_ms = await self._now_ms()
        expires_at_ms = spec.expires_at_ms or now_ms + (spec.life_ms or self._life_ms.current)
        call = new_id()
        is_new = await self._put(spec, min(expires_at_ms, now_ms + FILL_MS), call)
        try:
            answer = await self._enqueue.bulk(members, caller=caller, durability=durability)
        except JqmasterError:
            # If the store fails here, too, the leader will remove the empty batch after `FILL_MS`.
            with contextlib.suppress(JqmasterError):
                await self._store.drop(spec.id, call)
            raise
        self._figures.made += is_new
        await self._store.seal(spec.id, expires_at_ms=expires_at_ms)
        return answer

    async def find(self, batch_id: str) -> Batch:
        """Return a batch. Raise NotFoundError."""
        batch = await self._store.get(batch_id) if is_id(batch_id) else None
        if batch is None:
            raise unknown_batch(batch_id)
        return batch

    async def get(self, batch_id: str) -> ShownBatch:
        """Return a batch with its unfinished jobs by state. Raise NotFoundError."""
        batch = await self.find(batch_id)
        return ShownBatch(batch, await self._store.unfinished(batch))

    async def page(
        self,
        before: tuple[int, str] | None,
        limit: int,
        *,
        state: BatchState | None,
        tag: str | None,
        search: str,
    ) -> BatchPage:
        """Return batches that come after a position in the list, the newest first. Each of them has the given state,
        the given tag, and the given text in its ID or description."""
        found: list[Batch] = []
        looked_at = 0
        at = before
        # Read large pages, because the filter may select only a few of many batches.
        size = max(limit, BATCHES_PER_READ)
        while looked_at < MAX_LOOKED_AT:
            places = await self._store.newest(at, size)
            known = await self._store.get_all([batch_id for _, batch_id in places])
            for place in places:
                batch = known.get(place[1])
                at = place
                looked_at += 1
                if batch and _is_wanted(batch, state, tag, search):
                    found.append(batch)
                    if len(found) == limit:
                        return BatchPage(found, at)
            if len(places) < size:
                return BatchPage(found, None)
        return BatchPage(found, at)

    async def members(
        self, batch_id: str, after: str, limit: int, *, states: frozenset[JobState] | None
    ) -> MemberPage:
        """Return members of a batch, the oldest first, without their arguments. The page begins behind the member
        `after`. Raise NotFoundError."""
        await self.find(batch_id)
        found: list[Job] = []
        looked_at = 0
        size = min(limit, MEMBERS_PER_READ) if states is None else MEMBERS_PER_READ
        while looked_at < MAX_LOOKED_AT:
            page = await self._store.members(batch_id, after, size)
            jobs = await self._records.get_without_argument(page)
            for job_id in page:
                after = job_id
                looked_at += 1
                job = jobs.get(job_id)
                if job and (states is None or job.state in states):
                    found.append(job)
                    if len(found) == limit:
                        return MemberPage(found, after)
            if len(page) < size:
                return MemberPage(found, None)
        return MemberPage(found, after)

    async def seal(self, batch_id: str, *, caller: Principal | None = None) -> None:
        """Seal a batch. From then on, only its own jobs may add jobs to it. Raise NotFoundError if the batch does not
        exist or was made by another caller."""
        await self._check_owner(batch_id, caller)
        if not is_id(batch_id) or not await self._store.seal(batch_id):
            raise unknown_batch(batch_id)

    async def cancel(self, batch_id: str, *, caller: Principal | None = None) -> None:
        """Cancel a batch. The leader then cancels its members. Raise NotFoundError if the batch does not exist or was
        made by another caller, and ConflictError if it is complete."""
        await self._check_owner(batch_id, caller)
        word = await self._store.cancel(batch_id) if is_id(batch_id) else "unknown"
        if word == "unknown":
            raise unknown_batch(batch_id)
        if word == "complete":
            raise ConflictError("a complete batch cannot be canceled", code="batch_complete")

    async def retry(self, batch_id: str) -> int:
        """Make the leader retry the failed members of a batch. Return the current number of failed members. Raise
        NotFoundError."""
        batch = await self.find(batch_id)
        if not await self._store.ask_retry(batch_id):
            raise unknown_batch(batch_id)
        return batch.ended_as(JobState.FAILED)

    async def examples(self, batch: Batch, limit: int) -> list[Job]:
        """Return some unfinished members of a batch, the oldest first. Only a limited number of members is examined."""
        if not batch.unfinished:
            return []
        states = frozenset(state for state in JobState if state not in FINISHED)
        return (await self.members(batch.id, "", limit, states=states)).jobs

    async def count(self) -> int:
        return await self._store.count()

    async def _check_reach(self, spec: BatchSpec, caller: Principal | None) -> None:
        self._reach.check_names(caller, list(spec.callbacks.values()))
        if spec.parent is not None and await self._reach.hidden_batches(caller, {spec.parent}):
            raise invalid([FieldError(("batch",), _PARENT_RULES["unknown"])])

    async def _check_owner(self, batch_id: str, caller: Principal | None) -> None:
        if caller is None or caller.allows_name is None:
            return
        if not self._reach.made_batch(caller, await self.find(batch_id)):
            raise unknown_batch(batch_id)

    async def _put(self, spec: BatchSpec, expires_at_ms: int | None = None, filled_by: str = "") -> bool:
        try:
            return await self._store.put(
                spec,
                life_ms=spec.life_ms or self._life_ms.current,
                expires_at_ms=expires_at_ms,
                filled_by=filled_by,
            )
        except BatchRefused as exc:
            if exc.word == "taken":
                raise ConflictError(f"the ID {spec.id} belongs to another batch", code="id_taken") from None
            if exc.word == "expired":
                raise error_of({0: PushExpired(exc.now_ms)}) from None
            error = FieldError(("batch",), _PARENT_RULES[exc.word])
            if exc.word == "over":
                raise ConflictError(
                    f"batch {spec.parent}: {error.msg}", code="batch_over", errors=[error]
                ) from None
            raise invalid([error]) from None


def unknown_batch(batch_id: str) -> NotFoundError:
    """Return the error for a batch that does not exist."""
    return NotFoundError(f"no batch {batch_id[:64]}", code="unknown_batch")


def _is_wanted(batch: Batch, state: BatchState | None, tag: str | None, search: str) -> bool:
    spec = batch.spec
    return (
        (state is None or batch.state is state)
        and (tag is None or tag in spec.tags)
        and (not search or search in spec.id or search in spec.description)
    )
