"""Pushers' and operators' use cases of jobs."""

import asyncio
import contextlib
import hashlib
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NoReturn

from jqmaster.clock import Clock
from jqmaster.config import Durability
from jqmaster.domain.ids import is_id
from jqmaster.domain.job import CONTINUED, FINISHED, Attempt, Job, JobSpec, JobState
from jqmaster.domain.job_filter import JobFilter
from jqmaster.domain.ruleset import Ruleset
from jqmaster.errors import (
    ConflictError,
    FieldError,
    NotFoundError,
    RateLimitedError,
    after_it_was_done,
)
from jqmaster.service.constraints.cache import RuleCache
from jqmaster.service.jobs.batching import NaturalBatcher
from jqmaster.service.jobs.push_pace import PushPace
from jqmaster.service.jobs.waiters import FinishWaiters
from jqmaster.store.health.inspect import Inspector
from jqmaster.store.jobs.enqueue import AcceptanceStore, Accepted, BacklogFull
from jqmaster.store.jobs.operator_actions import (
    NOBODY,
    STALE_RULES,
    Changes,
    CountedBy,
    Refusal,
    StateConflict,
    SteeringStore,
)
from jqmaster.store.jobs.placement import StaleRules
from jqmaster.store.jobs.records import RecordStore
from jqmaster.store.jobs.results import ResultStore
from jqmaster.store.link.pages import MAX_PER_CALL
from jqmaster.tracing import Tracing

IDEMPOTENCY_LIFE_MS: Final = 24 * 3600 * 1000
# Enough for many thousands of pushes a second; beyond it the store is the bottleneck and waiting would only grow.
MAX_WAITING_ENQUEUES: Final = 5_000
# Pushes with an Idempotency-Key ask the store by themselves: heartbeats and results must find a connection besides.
KEYED_AT_A_TIME: Final = 8
# Likewise views of single jobs, which each answer to an order is: hundreds that waited for a connection would keep the leader's
# duties from getting one, which then take the store for away.
VIEWS_AT_A_TIME: Final = 16
# Jobs in one round trip; the store does nothing else meanwhile.
MAX_CANCELS: Final = 100
MAX_WAITING_CANCELS: Final = 5_000
# The store's word that a job ended can be lost; a long poll looks again this often.
MAX_ORDERS: Final = 200
LOOK_AGAIN_S: Final = 5.0
_READ_AGAIN: Final = 3
# A backlog that is full empties at the pace of its workers.
BACKLOG_RETRY_AFTER_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class JobDetail:
    """A job with everything that happened to it, the present attempt last. `events`: what happened within attempts;
    `result`: the encoded Result that is kept for its pusher, if there is one."""

    job: Job
    attempts: list[Attempt]
    events: list[Attempt]
    result: bytes | None = None


TellWorker = Callable[[str, str, str], Coroutine[None, None, None]]


class JobService:
    """Component. `tell_worker(worker_id, job_id, token)` orders a worker to stop a canceled job; its failure is made
    good by the answer to the worker's next heartbeat. `admit(durability)` raises while new jobs are refused; it tells how
    many replicas must have a job before it is accepted (`durability` None: what is configured). `pace` lets pushes rest."""

    def __init__(
        self,
        inspector: Inspector,
        waiters: FinishWaiters,
        clock: Clock,
        rules: RuleCache,
        *,
        acceptance: AcceptanceStore,
        steering: SteeringStore,
        records: RecordStore,
        results: ResultStore,
        tell_worker: TellWorker,
        admit: Callable[[Durability | None], int],
        tracing: Tracing | None = None,
        pace: PushPace | None = None,
    ) -> None:
        self._acceptance = acceptance
        self._steering = steering
        self._records = records
        self._results = results
        self._pace = pace
        self._tracing = tracing
        self._admit = admit
        self._inspector = inspector
        self._waiters = waiters
        self._tell_worker = tell_worker
        self._clock = clock
        self._rules = rules
        # By the number of replicas: a batch waits for them once, and nobody for more than was asked for.
        self._enqueues: dict[int, NaturalBatcher[JobSpec, Accepted | BacklogFull]] = {}
        self._keyed = asyncio.Semaphore(KEYED_AT_A_TIME)
        self._views = asyncio.Semaphore(VIEWS_AT_A_TIME)
        self._cancels: NaturalBatcher[str, tuple[str, str] | Refusal | Exception | None] = NaturalBatcher(
            steering.cancel_each, max_batch=MAX_CANCELS, max_waiting=MAX_WAITING_CANCELS
        )
        self._orders: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Nothing runs before the first call."""

    async def stop(self) -> None:
        for batcher in self._enqueues.values():
            await batcher.stop()
        await self._cancels.stop()
        await asyncio.gather(*self._orders, return_exceptions=True)

    def _batcher(self, replicas: int) -> NaturalBatcher[JobSpec, Accepted | BacklogFull]:
        batcher = self._enqueues.get(replicas)
        if batcher is None:
            batcher = self._enqueues[replicas] = self._new_batcher(replicas)
        return batcher

    def _new_batcher(self, replicas: int) -> NaturalBatcher[JobSpec, Accepted | BacklogFull]:
        async def flush(specs: Sequence[JobSpec]) -> list[Accepted | BacklogFull]:
            return await self._rules.under(
                lambda rules: self._acceptance.enqueue(specs, rules, replicas=replicas)
            )

        return NaturalBatcher(
            flush,
            max_batch=MAX_PER_CALL,
            max_waiting=MAX_WAITING_ENQUEUES,
            rest_s=self._pace.rest_s if self._pace else lambda took_s: 0.0,
        )

    async def enqueue(
        self,
        spec: JobSpec,
        idempotency_key: str | None = None,
        *,
        caller: str = "",
        durability: Durability | None = None,
    ) -> tuple[str, bool]:
        """Return the job's ID, and whether it is new. Each `caller` has idempotency keys of its own. Raise ConflictError when the ID or key stands for another request,
        RateLimitedError while as many wait as a constraint allows, StoreUnavailableError while the store is too full or
        cannot give `durability`, OutcomeUnknownError where it did not give it in time."""
        replicas = self._admit(durability)
        if idempotency_key is None:
            return await self._enqueue_one(spec, replicas)
        # A key has no blanks: no caller and key read as another pair.
        key = f"{caller} {idempotency_key}" if caller else idempotency_key
        digest = hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
        async with self._keyed:
            bound = await self._acceptance.reserve_id(
                digest, spec, life_ms=IDEMPOTENCY_LIFE_MS, replicas=replicas
            )
        if bound is None:
            raise ConflictError(
                "the Idempotency-Key was used for another request", code="idempotency_key_reused"
            )
        job_id, was_accepted = bound
        if was_accepted:
            return job_id, False
        answer = await self._enqueue_one(replace(spec, id=job_id), replicas)
        with after_it_was_done():
            async with self._keyed:
                await self._acceptance.mark_accepted(digest, replicas=replicas)
        return answer

    async def _enqueue_one(self, spec: JobSpec, replicas: int) -> tuple[str, bool]:
        if self._tracing is None:
            accepted = await self._batcher(replicas).submit(spec)
        else:
            with self._traced([spec]):
                accepted = await self._batcher(replicas).submit(spec)
        if isinstance(accepted, BacklogFull):
            raise self._backlog_full(accepted)
        if accepted is Accepted.TAKEN:
            raise ConflictError(f"the ID {spec.id} is taken", code="id_taken")
        return spec.id, accepted is Accepted.NEW

    @contextlib.contextmanager
    def _traced(self, specs: Sequence[JobSpec]) -> Iterator[None]:
        if self._tracing is None:
            yield
            return
        spans = self._tracing.begin("enqueue", ((spec.id, spec.name, spec.headers) for spec in specs))
        outcome = "failed"
        try:
            yield
            outcome = "answered"
        finally:
            self._tracing.end(spans, outcome)

    async def enqueue_bulk(
        self, specs: Sequence[JobSpec], *, durability: Durability | None = None
    ) -> list[str]:
        """Return the IDs, in order. Raise ConflictError that names each index whose ID is taken, RateLimitedError where a
        constraint has no room for all of them to wait, StoreUnavailableError as `enqueue`; then none is
        accepted. Only if an ID was taken by another call between the look and the
        write are the others in; the error says so. Of more than `MAX_PER_CALL` jobs a part may be in when the store
        fails: OutcomeUnknownError."""
        replicas = self._admit(durability)
        doubled = _doubled(specs) if len({spec.id for spec in specs}) < len(specs) else []
        if taken := doubled or await self._acceptance.find_taken(specs):
            raise _ids_taken(specs, taken, "no job was accepted")
        with self._traced(specs):
            accepted = await self._rules.under(
                lambda rules: self._acceptance.enqueue(specs, rules, is_whole=True, replicas=replicas)
            )
        if full := next((outcome for outcome in accepted if isinstance(outcome, BacklogFull)), None):
            raise self._backlog_full(full)
        # Only a call at this very instant, with the same ID, can still be in the way.
        if taken := [n for n, outcome in enumerate(accepted) if outcome is Accepted.TAKEN]:
            raise _ids_taken(specs, taken, "all other jobs were accepted")
        return [spec.id for spec in specs]

    async def name_of(self, job_id: str) -> str | None:
        """Return the name of a job; None if it does not exist, or no longer."""
        found = await self._records.get_without_argument([job_id]) if is_id(job_id) else {}
        return found[job_id].name if job_id in found else None

    async def view(self, job_id: str) -> JobDetail:
        """Return a job as its views need it. Raise NotFoundError."""
        async with self._views:
            return await self._view(job_id)

    async def _view(self, job_id: str) -> JobDetail:
        job = await self._get(job_id)
        history = await self._records.history(job_id)
        attempts = [entry for entry in history if entry.outcome != CONTINUED]
        events = [entry for entry in history if entry.outcome == CONTINUED]
        # Other ends of attempts are in the history; those that go well, and the one that runs, cost no entry.
        if job.state in (JobState.RUNNING, JobState.SUCCEEDED):
            outcome = "success" if job.state is JobState.SUCCEEDED else None
            attempts.append(
                Attempt(
                    job.attempt, job.worker_id, job.started_at_ms, job.finished_at_ms, outcome, None, None
                )
            )
        result = await self._results.look_at_result(job_id) if job.state in FINISHED else None
        return JobDetail(job, attempts, events, result)

    async def page(
        self, wanted: JobFilter, *, limit: int, cursor: str | None, is_backward: bool = False
    ) -> tuple[list[Job], str | None, dict[JobState, int]]:
        """Jobs, where to go on, and the counts by state. Raise InvalidError for a foreign cursor."""
        jobs, next_cursor = await self._inspector.page(
            wanted, limit=limit, cursor=cursor, is_backward=is_backward
        )
        return jobs, next_cursor, await self._inspector.counts()

    async def result(self, job_id: str, *, wait_s: float) -> bytes | JobState | None:
        """Return the encoded Result; or after `wait_s` the state of a job that is not over; or None: nothing is kept."""
        if not is_id(job_id):
            return None
        ends_at_s = self._clock.monotonic_s() + wait_s
        with self._waiters.listening(job_id) as ended:
            while True:
                left_s = ends_at_s - self._clock.monotonic_s()
                ended.clear()
                result = await self._results.fetch_result(job_id, watch=left_s > 0)
                if not isinstance(result, JobState) or left_s <= 0:
                    return result
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(left_s, LOOK_AGAIN_S)):
                        await ended.wait()

    async def cancel(self, job_id: str) -> None:
        """Cancel a job. Raise NotFoundError, ConflictError (it is over)."""
        if not is_id(job_id):
            raise _unknown(job_id)
        # Concurrent calls share a round trip, and a wait for the disk.
        end = await self._cancels.submit(job_id)
        if isinstance(end, Exception):
            raise end
        if isinstance(end, Refusal):
            try:
                end.throw()
            except KeyError:
                raise _unknown(job_id) from None
            except StateConflict as exc:
                _raise_conflict(exc, "be canceled")
        self._order_stop(end, job_id)

    def _order_stop(self, claim: tuple[str, str] | None, job_id: str) -> None:
        # If there are many at once, the rest learn of it by their heartbeats.
        if claim is None or len(self._orders) >= MAX_ORDERS:
            return
        worker_id, token = claim
        order = asyncio.create_task(self._tell_worker(worker_id, job_id, token))
        self._orders.add(order)
        order.add_done_callback(self._orders.discard)

    async def cancel_all(self, job_ids: Sequence[str], counted_by: CountedBy = NOBODY) -> list[bool]:
        """Cancel each job separately, and return whether it was done. Known IDs only."""
        ends = await self._steering.cancel_all(job_ids, counted_by)
        for job_id, end in zip(job_ids, ends, strict=True):
            if isinstance(end, tuple):
                self._order_stop(end, job_id)
        return [not isinstance(end, Refusal) for end in ends]

    async def delete_all(self, job_ids: Sequence[str], counted_by: CountedBy = NOBODY) -> list[bool]:
        """Delete each job separately, and return whether it was done. Known IDs only."""
        return [end is None for end in await self._steering.delete_all(job_ids, counted_by)]

    async def run_all_now(self, job_ids: Sequence[str], counted_by: CountedBy = NOBODY) -> list[bool]:
        """Run each job now, separately, and return whether it was done. Known IDs only."""
        return [end is None for end in await self._steering.run_all_now(job_ids, counted_by)]

    async def retry_all(self, jobs: Sequence[Job], counted_by: CountedBy = NOBODY) -> list[bool]:
        """Retry each job separately if it is unchanged since it was read, and return whether it was done. The jobs are whole."""

        def retry(some: Sequence[Job], rules: Ruleset) -> Awaitable[list[Refusal | None]]:
            return self._steering.retry_all(some, rules, counted_by)

        return await self._under_rules(jobs, retry)

    async def patch_all(
        self, jobs: Sequence[Job], changes: Changes, counted_by: CountedBy = NOBODY
    ) -> list[bool]:
        """Change each job separately, and return whether it was done. The jobs are whole."""

        def change(some: Sequence[Job], rules: Ruleset) -> Awaitable[list[Refusal | None]]:
            return self._steering.patch_all(some, changes, rules, counted_by)

        return await self._under_rules(jobs, change)

    async def _under_rules(
        self,
        jobs: Sequence[Job],
        act: Callable[[Sequence[Job], Ruleset], Awaitable[list[Refusal | None]]],
    ) -> list[bool]:
        """Match again those jobs that were matched against older constraints, and only those."""
        ends: dict[str, bool] = {}

        async def some(rules: Ruleset) -> None:
            todo = [job for job in jobs if job.id not in ends]
            for job, end in zip(todo, await act(todo, rules), strict=True):
                if end is None or end.word != STALE_RULES:
                    ends[job.id] = end is None
            if len(ends) < len(jobs):
                raise StaleRules

        await self._rules.under(some)
        return [ends[job.id] for job in jobs]

    async def retry(self, job_id: str) -> None:
        """Run a finished job again. Raise NotFoundError, ConflictError (it is not over)."""

        async def again(job_id: str) -> None:
            for _ in range(_READ_AGAIN):
                job = await self._get(job_id)
                try:
                    return await self._rules.under(lambda rules, job=job: self._steering.retry(job, rules))  # type: ignore[misc]
                except StateConflict as exc:
                    if exc.state not in FINISHED:
                        raise
                    # It ended, or ran once more, between the look and the write.
            raise StateConflict(job.state)

        await self._steer(again, job_id, "be retried")

    async def run_now(self, job_id: str) -> None:
        """Run a waiting job now. Raise NotFoundError, ConflictError (it does not wait)."""
        await self._steer(self._steering.run_now, job_id, "be run now")

    async def delete(self, job_id: str) -> None:
        """Delete a job. Raise NotFoundError, ConflictError (it runs)."""
        await self._steer(self._steering.delete, job_id, "be deleted")

    async def patch(self, job_id: str, changes: Changes) -> None:
        """Change a waiting job. Raise NotFoundError, ConflictError (it does not wait)."""

        async def change(known_id: str) -> None:
            job = await self._get(known_id)
            await self._rules.under(lambda rules: self._steering.patch(job, changes, rules))

        await self._steer(change, job_id, "be changed")

    async def _steer(self, change: Callable[[str], Awaitable[None]], job_id: str, what: str) -> None:
        if not is_id(job_id):
            raise _unknown(job_id)
        try:
            await change(job_id)
        except KeyError:
            raise _unknown(job_id) from None
        except StateConflict as exc:
            _raise_conflict(exc, what)

    def _backlog_full(self, full: BacklogFull) -> RateLimitedError:
        constraint = self._rules.current.of_gate(full.gate_id)
        which = (
            f"constraint {constraint.name} lets no more than {constraint.max_backlog}"
            if constraint
            else "a constraint lets no more"
        )
        return RateLimitedError(
            f"{which} of these jobs wait; no job was accepted",
            code="backlog_full",
            retry_after_s=BACKLOG_RETRY_AFTER_S,
        )

    async def _get(self, job_id: str) -> Job:
        job = await self._records.get(job_id) if is_id(job_id) else None
        if job is None:
            raise _unknown(job_id)
        return job


def _unknown(job_id: str) -> NotFoundError:
    return NotFoundError(f"no job {job_id[:64]}", code="unknown_job")


def _doubled(specs: Sequence[JobSpec]) -> list[int]:
    """Return the positions of jobs whose ID stands for another job before them."""
    first: dict[str, JobSpec] = {}
    return [
        n
        for n, spec in enumerate(specs)
        if (other := first.setdefault(spec.id, spec)) is not spec and other != spec
    ]


def _ids_taken(specs: Sequence[JobSpec], taken: Sequence[int], others: str) -> ConflictError:
    errors = [FieldError(("jobs", n, "id"), f"{specs[n].id} is the ID of another job already") for n in taken]
    return ConflictError(f"{len(taken)} of the IDs are taken; {others}", code="id_taken", errors=errors)


def _raise_conflict(conflict: StateConflict, what: str) -> NoReturn:
    raise ConflictError(f"a {conflict.state} job cannot {what}", code=f"job_{conflict.state}") from None
