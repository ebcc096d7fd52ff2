"""`recording`, `inline` and `drain`: test code that enqueues, without a master."""

import contextlib
import threading
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from worker_sdk.blocks import either_with
from worker_sdk.enqueueing import EnqueueChain, around_all, around_one, chain_of
from worker_sdk.environment import middleware_or_default
from worker_sdk.errors import Duplicate, NotFinished, RefusedError
from worker_sdk.pusher.jobs import make_job
from worker_sdk.pusher.parts import BEGINNING
from worker_sdk.pusher.results import JobResult
from worker_sdk.tasks.client import substitutes
from worker_sdk.tasks.task import TaskJob
from worker_sdk.testing.batches import KeptBatches
from worker_sdk.testing.predecessors import FINISHED_AT, KeptPredecessors
from worker_sdk.testing.records import Recorded, Run, as_maps, enqueued_id, recorded
from worker_sdk.testing.runner import (
    MAX_DEFERRALS,
    Runner,
    count_nesting,
    due_s,
    max_wait_s,
    original,
    seconds_until,
)
from worker_sdk.testing.unique import UniqueRule
from worker_sdk.wire import decode
from worker_sdk.worker.context import running_job

if TYPE_CHECKING:
    from worker_sdk.protocol import JobInput
    from worker_sdk.pusher.by_process import Pushers
    from worker_sdk.tasks.collection import Tasks
    from worker_sdk.worker.worker import Worker


@either_with
def recording() -> Iterator[Recorded]:
    """Record the jobs of tasks instead of sending them, in all threads, until the block ends. Yield the list of jobs.
    Handlers do not run; `drain` runs them. `get` of a handle raises NotFinished.

    For example:

        with recording() as jobs:
            make_thumbnail.enqueue(42)
        assert jobs.only(make_thumbnail).arguments == {"photo_id": 42}
    """
    jobs = Recorded()
    store = _Store(jobs)
    jobs.note_store(store)
    with _substituted(store):
        yield jobs


@either_with
def inline(*, worker: "Worker | Tasks | None" = None, raises: bool = True) -> Iterator[Recorded]:
    """Run the jobs of tasks at once where they are enqueued, in all threads, until the block ends. Yield the list of
    jobs.

    Retries run at once, and delays are skipped. As with a master, only a job with `keep_result=True` has a
    result. The worker starts before the first job, with `on_start` of its middleware and the values that live as long
    as the worker. The worker stops at the end of the block.

    * `worker`: a worker, or `Tasks`, with the handlers of jobs that no task made. The middleware of this worker is
      used. Default: only jobs of tasks run, with the middleware of `configure`.
    * `raises`: if a job fails for good, raise its exception from the `enqueue` that made the job. Otherwise, only the
      handle shows the failure.

    For example:

        with inline():
            handle = make_thumbnail.using(keep_result=True).enqueue(42)
        assert handle.get(timeout=0) == 320
    """
    jobs = Recorded()
    store = _Store(jobs)
    jobs.note_store(store)
    store.run_with = _runner(store, worker)
    store.raises = raises
    with _substituted(store), contextlib.closing(store.run_with.worker):
        yield jobs


def drain(
    jobs: "Recorded | Iterable[Any]", *, worker: "Worker | Tasks | None" = None, raises: bool = True
) -> list[Run]:
    """Run recorded jobs, and the jobs that they enqueue, until none is left. Return how each job ended.

    A virtual clock skips delays and backoffs. The jobs run in the order in which they would be due: the lowest priority
    number first, then the oldest. A job with `after` runs after its predecessors, and is skipped where a master would
    skip it. Jobs of a task with `gather` that are due at the same time run in one call.

    Call `drain` inside the block of `recording`, or after it. Drained jobs are removed from `jobs`. Jobs whose
    predecessor did not end stay in the list.

    * `jobs`: the list from `recording`, or an iterable of jobs from `to_job`, maps or pairs, as for `enqueue_many`.
    * `worker`: as for `inline`.
    * `raises`: raise the exception of the first job that fails for good.

    For example:

        with recording() as jobs:
            make_thumbnail.using(delay=3600).enqueue(42)
        assert [run.state for run in drain(jobs)] == ["succeeded"]
    """
    if not isinstance(jobs, Recorded):
        jobs = Recorded(map(recorded, as_maps(jobs)))
    store = cast("_Store | None", jobs.known_store()) or _Store(jobs)
    runner = _runner(store, worker)
    with _substituted(store), contextlib.closing(runner.worker):
        return _Drain(jobs, store, runner, raises=raises).run()


class _Drain:
    """Runs recorded jobs, each at its time by a virtual clock."""

    def __init__(self, jobs: Recorded, store: "_Store", runner: Runner, *, raises: bool) -> None:
        self._jobs = jobs
        self._store = store
        self._runner = runner
        self._raises = raises
        self._waiting: list[Run] = []
        self._done: list[Run] = []
        self._clock_s = 0.0
        # The jobs to run now, at the current time of the clock.
        self._due: list[Run] = []

    def run(self) -> list[Run]:
        deferrals = 0
        while run := self._next():
            together = [run]
            if _has_expired(run, self._clock_s):
                run.state = "skipped"
            else:
                together = self._gathered(run)
                self._runner.attempt_at(self._clock_s, together)
            deferrals = deferrals + 1 if run.state == "scheduled" else 0
            if deferrals > MAX_DEFERRALS:
                raise RuntimeError(f"{run.job['name']} was deferred {MAX_DEFERRALS} times")
            for one in together:
                # A job that waits for a callback cannot continue here. `WorkerHarness` can run a handler with a
                # callback.
                if one.is_over or one.state == "awaiting_callback":
                    self._note_end(one)
            failed = [one for one in together if self._raises and one.state == "failed"]
            if failed:
                raise original(failed[0], failed[0].job["name"])
        self._jobs += [run.job for run in self._waiting]
        return self._done

    def _next(self) -> Run | None:
        """Return the job that runs next, and set the clock to its time. Return None if no job can run any more."""
        for job in self._jobs:
            run = self._store.run_of(job)
            if run.is_over:
                continue
            if all(run is not other for other in self._waiting):
                run.first_s = self._clock_s
                self._waiting.append(run)
            run.at_s = min(self._clock_s + due_s(job), run.first_s + max_wait_s(job))
        self._jobs.clear()
        self._waiting = [
            run for run in self._waiting if not (run.is_over or run.state == "awaiting_callback")
        ]
        able = [run for run in self._waiting if run.state != "awaiting_jobs"]
        if not able:
            return None
        self._clock_s = max(self._clock_s, min(run.at_s for run in able))
        self._due = [run for run in able if run.at_s <= self._clock_s]
        return min(self._due, key=lambda run: run.job.get("priority") or 0)

    def _gathered(self, run: Run) -> list[Run]:
        """Return the jobs that a worker would run in one call together with this job. This job comes first."""
        gather = self._runner.gather_of(run)
        if gather is None or run.attempts > 0:
            return [run]
        others = [
            one
            for one in self._due
            if one is not run
            and one.job["name"] == run.job["name"]
            and one.attempts == 0
            and not _has_expired(one, self._clock_s)
        ]
        return [run, *others][: gather.max]

    def _note_end(self, run: Run) -> None:
        """Release the jobs that waited for this job, and enqueue the callbacks of batches that it completed."""
        skipped = [one for one in self._store.released_by(run) if one.is_over]
        self._done += [run, *skipped]
        for callback in self._store.callbacks_after([run, *skipped]):
            self._store.bare_sync_pusher().enqueue_job(callback)


def _has_expired(run: Run, clock_s: float) -> bool:
    if (expires_s := run.job.get("expires_s")) is not None:
        return bool(run.first_s + expires_s <= clock_s)
    expires_at = run.job.get("expires_at")
    return expires_at is not None and seconds_until(expires_at) <= clock_s


@contextlib.contextmanager
def _substituted(store: "_Store") -> Iterator[None]:
    given = cast("Pushers", store)
    substitutes.append(given)
    try:
        yield
    finally:
        # Remove this entry by value: blocks of several threads may end in any order, so it may not be the last entry.
        substitutes.remove(given)


def _runner(store: "_Store", worker: "Worker | Tasks | None") -> Runner:
    runner = Runner(_OfJobs(store), store.inputs_of, worker)
    store.chain_of_jobs = runner.worker.chain
    return runner


class _Store:
    """Replaces a master and its clients."""

    def __init__(self, jobs: Recorded) -> None:
        self.jobs = jobs
        self.run_with: Runner | None = None
        self.raises = True
        # The enqueue middleware for jobs that are enqueued inside jobs.
        self.chain_of_jobs: EnqueueChain | None = None
        self._runs: dict[str, Run] = {}
        self._keys: dict[tuple[str, str], str] = {}
        # The job that last took each uniqueness key, by job name and key.
        self._unique: dict[tuple[str, bytes], Run] = {}
        self._batches = KeptBatches()
        self._predecessors = KeptPredecessors(self._runs)
        self._lock = threading.Lock()

    def pusher(self) -> "_AsyncKitClient":
        return _AsyncKitClient(self, self.chain())

    def sync_pusher(self) -> "_KitClient":
        return _KitClient(self, self.chain())

    @property
    def namespace(self) -> str:
        return "default"

    def in_namespace(self, namespace: str) -> "_Store":
        """Return this object: a job of any namespace is recorded, with its namespace among its options."""
        return self

    def bare_pusher(self) -> "_AsyncKitClient":
        return _AsyncKitClient(self, None)

    def bare_sync_pusher(self) -> "_KitClient":
        return _KitClient(self, None)

    def chain(self) -> EnqueueChain | None:
        """The middleware for jobs that are enqueued at this moment: inside a job, the middleware of the worker;
        otherwise, the middleware of the process."""
        if running_job.get() is not None:
            return self.chain_of_jobs
        return chain_of(middleware_or_default(None))

    def run_of(self, job: TaskJob[Any]) -> Run:
        if job.id not in self._runs:
            self._place(Run(job))
        return self._runs[job.id]

    def _place(self, run: Run) -> None:
        """Record a new job in the state that its predecessors allow. Raise RefusedError if a master would refuse its
        predecessors."""
        run.state = run.first_state = "scheduled" if due_s(run.job) else "ready"
        if run.job.get("after") is not None:
            self._predecessors.join(run)
        self._runs[run.job.id] = run

    def accept(self, given: TaskJob[Any]) -> Run:
        """Record a job, and return its run. If the ID, the key or the uniqueness key is in use, return the run of the
        existing job, or raise Duplicate."""
        job = recorded(given)
        with self._lock:
            if (key := job.get("key")) is not None:
                first_id = self._keys.setdefault((job["name"], key), job.id)
                if first_id in self._runs:
                    self._predecessors.note_same(job.id, first_id)
                    return self._runs[first_id]
            if job.id in self._runs:
                return self._runs[job.id]
            rule = UniqueRule.of(job)
            holder = self._unique.get(rule.key) if rule else None
            if rule and holder is not None and rule.is_held_by(holder):
                return self._conflict(rule, holder, job)
            run = Run(job)
            self._place(run)
            self.jobs.append(job)
            if rule:
                self._unique[rule.key] = run
            return run

    def accept_all(self, jobs: Sequence[TaskJob[Any]]) -> dict[int, Run]:
        """Record the jobs of one push, which may wait for each other. Return the runs by position, in the order in
        which the jobs run."""
        return {n: self.accept(jobs[n]) for n in self._predecessors.checked(jobs)}

    def released_by(self, run: Run) -> list[Run]:
        """Return the jobs that start or are skipped because a job has ended."""
        return self._predecessors.ended(run) if run.is_over else []

    def inputs_of(self, run: Run) -> "list[JobInput]":
        return self._predecessors.inputs_of(run)

    def _conflict(self, rule: UniqueRule, holder: Run, job: TaskJob[Any]) -> Run:
        """Apply the option `on_conflict` to a job, as a master does. Another job, `holder`, holds its key."""
        if rule.on_conflict == "reject":
            problem = {
                "code": "not_unique",
                "detail": f"job {holder.job.id} holds the key",
                "job_id": holder.job.id,
            }
            raise Duplicate(409, problem)
        holder.conflict = "existing"
        if rule.on_conflict == "replace" and holder.attempts == 0 and not holder.is_over:
            holder.conflict = "replaced"
            job["id"] = holder.job.id
            places = [n for n, other in enumerate(self.jobs) if other.id == job.id]
            if places:
                self.jobs[places[0]] = job
            else:
                self.jobs.append(job)
            holder.job = job
            holder.state = "scheduled" if due_s(job) else "ready"
        return holder

    def change_batch(self, batch_id: str, action: str) -> list[Mapping[str, Any]]:
        """Apply an action to a batch as a master does, and return the callbacks that start now."""
        batch = self._batches.known(batch_id)
        batch.is_sealed = batch.is_sealed or action != "retry"
        if action == "cancel":
            batch.is_canceled = True
            for run in [one for one in self._members(batch_id) if not one.is_over]:
                run.state = "canceled"
                self._predecessors.ended(run)
        if action == "retry":
            for run in self._members(batch_id):
                if run.state == "failed":
                    run.state, run.attempts = "ready", 0
                    self.jobs += [run.job, *(one.job for one in self._predecessors.revive(run))]
        return self.due_callbacks(batch_id)

    def make_batch(self, fields: Mapping[str, Any]) -> None:
        self._batches.make(fields)

    def due_callbacks(self, batch_id: str) -> list[Mapping[str, Any]]:
        """Return the callbacks that a batch starts now."""
        return self._batches.due(batch_id, list(self._runs.values()))

    def callbacks_after(self, runs: Iterable[Run]) -> list[Mapping[str, Any]]:
        """Return the callbacks that start because these jobs have ended."""
        batch_ids = dict.fromkeys(run.job.get("batch") for run in runs if run.is_over)
        return [due for batch_id in batch_ids if batch_id for due in self.due_callbacks(batch_id)]

    def batch_view(self, batch_id: str) -> dict[str, Any]:
        return self._batches.view(batch_id, list(self._runs.values()))

    def _members(self, batch_id: str) -> list[Run]:
        return [run for run in list(self._runs.values()) if run.job.get("batch") == batch_id]

    def runner_of(self, run: Run) -> Runner | None:
        """Return the runner of a job that was just accepted. Return None if the job is not to run at once."""
        can_run = run.attempts == 0 and not run.is_over and run.state != "awaiting_jobs"
        return self.run_with if can_run else None

    def known(self, job_id: str) -> Run:
        if job_id not in self._runs:
            raise RefusedError(404, {"code": "unknown_job", "detail": f"no job {job_id}"})
        return self._runs[job_id]

    def view(self, job_id: str) -> dict[str, Any]:
        run = self.known(job_id)
        fields = run.fields or {}
        reason = fields.get("reason", "other")
        attempt = {
            "attempt": run.attempts,
            "message": fields.get("message", ""),
            "error": fields.get("error"),
        }
        causes = {
            "failed": "error" if reason == "other" else reason,
            "skipped": "dependency" if run.skipped_by else "expired",
            "canceled": "canceled",
        }
        return {
            "id": job_id,
            "name": run.job["name"],
            "state": run.state,
            "cause": causes.get(run.state),
            "attempt": run.attempts,
            "attempts": [attempt] if run.attempts else [],
            "keep_result": run.keeps_result,
            "argument": run.job.get("argument"),
            "progress": run.reports.view(),
            **self._predecessors.view(run),
        }

    def parts(self, job_id: str) -> dict[str, Any]:
        run = self.known(job_id)
        if not run.is_over:
            raise _not_finished(job_id, run.state)
        parts = [
            {"attempt": run.attempts, "number": number, "value": value}
            for number, value in enumerate(map(decode, run.reports.parts), 1)
        ]
        return {
            "state": run.state,
            "attempt": run.attempts,
            "parts": parts,
            "next": f"{run.attempts}-{len(parts)}",
            "is_last": True,
        }

    def logs(self, job_id: str, *, wait: float, **selection: Any) -> dict[str, Any]:
        run = self.known(job_id)
        if wait and not run.is_over:
            raise _not_finished(job_id, run.state)
        return {"state": run.state, "is_last": run.is_over, **run.log.page(run.attempts, **selection)}

    def result(self, job_id: str) -> JobResult | None:
        if job_id not in self._runs:
            return None
        run = self._runs[job_id]
        if not run.is_over:
            raise _not_finished(job_id, run.state)
        if not run.keeps_result or run.fields is None or run.state not in ("succeeded", "failed"):
            return None
        known = {field: run.fields[field] for field in JobResult.__slots__ if field in run.fields}
        return JobResult(**{"finished_at": FINISHED_AT, **known})

    def cancel(self, job_id: str) -> dict[str, Any]:
        run = self.known(job_id)
        if run.is_over and run.state != "canceled":
            raise RefusedError(409, {"code": "conflict", "detail": f"the job is {run.state}"})
        run.state = "canceled"
        self._predecessors.ended(run)
        return self.view(job_id)


class _OfJobs:
    """The clients that `ctx.enqueue` uses."""

    def __init__(self, store: _Store) -> None:
        self._store = store

    def pusher(self) -> "_AsyncKitClient":
        return _AsyncKitClient(self._store, self._store.chain_of_jobs)

    def sync_pusher(self) -> "_KitClient":
        return _KitClient(self._store, self._store.chain_of_jobs)

    @property
    def namespace(self) -> str:
        return "default"

    def in_namespace(self, namespace: str) -> "_OfJobs":
        return self


class _KitClient:
    """Replaces `SyncPusher` in a test."""

    def __init__(self, store: _Store, chain: EnqueueChain | None) -> None:
        self._store = store
        self._chain = chain

    def enqueue(self, name: str, argument: Any = None, **options: Any) -> str:
        return self.enqueue_job(make_job(name, argument, **options))

    def enqueue_job(self, job: Mapping[str, Any]) -> str:
        with around_one(self._chain, recorded(job)) as sent:
            [run] = self._store.accept_all([sent]).values()
        return self._run(run)

    def _run(self, run: Run) -> str:
        """Run a job that was accepted, if it is to run at once. Return its ID."""
        store = self._store
        job_id = enqueued_id(run)
        # Running a job may append jobs to this list. A recursive call would exceed the maximum depth for a long chain.
        runs = [run]
        for one in runs:
            if (runner := store.runner_of(one)) is not None:
                leave = count_nesting()
                try:
                    for _ in range(MAX_DEFERRALS):
                        runner.attempt(one)
                        if one.is_over:
                            break
                finally:
                    leave()
                released = store.released_by(one)
                runs += released
                self._enqueue_callbacks(store.callbacks_after([one, *released]))
                _raise_failure(store, one)
        return job_id

    def _enqueue_callbacks(self, due: Iterable[Mapping[str, Any]]) -> None:
        for job in due:
            self.enqueue_job(job)

    def create_batch(self, fields: Mapping[str, Any]) -> None:
        self._store.make_batch(fields)

    def seal_batch(self, batch_id: str) -> None:
        self._enqueue_callbacks(self._store.change_batch(batch_id, "seal"))

    def cancel_batch(self, batch_id: str) -> None:
        self._enqueue_callbacks(self._store.change_batch(batch_id, "cancel"))

    def retry_batch(self, batch_id: str) -> None:
        self._enqueue_callbacks(self._store.change_batch(batch_id, "retry"))

    def batch_status(self, batch_id: str) -> Mapping[str, Any]:
        return self._store.batch_view(batch_id)

    def enqueue_many(self, jobs: Iterable[Any], *, in_one_call: bool = False) -> list[str]:
        with around_all(self._chain, map(recorded, as_maps(jobs))) as sent:
            if self._chain is None and not any(job.get("after") for job in sent):
                return [self._run(self._store.accept(job)) for job in sent]
            runs = self._store.accept_all(sent)
        ids = {n: self._run(run) for n, run in runs.items()}
        return [ids[n] for n in range(len(sent))]

    def result(self, job_id: str, *, wait: float = 0.0) -> JobResult | None:
        return self._store.result(job_id)

    def parts(self, job_id: str, *, after: str = BEGINNING, wait: float = 0.0) -> Mapping[str, Any]:
        return self._store.parts(job_id)

    def logs(
        self,
        job_id: str,
        *,
        after: int = 0,
        wait: float = 0.0,
        level: str | None = None,
        attempt: int | None = None,
        tail: int | None = None,
    ) -> Mapping[str, Any]:
        return self._store.logs(job_id, after=after, wait=wait, level=level, attempt=attempt, tail=tail)

    def status(self, job_id: str) -> Mapping[str, Any]:
        return self._store.view(job_id)

    def cancel(self, job_id: str) -> Mapping[str, Any]:
        return self._store.cancel(job_id)


class _AsyncKitClient:
    """Replaces `Pusher` in a test."""

    def __init__(self, store: _Store, chain: EnqueueChain | None) -> None:
        self._store = store
        self._chain = chain

    async def enqueue(self, name: str, argument: Any = None, **options: Any) -> str:
        return await self.enqueue_job(make_job(name, argument, **options))

    async def enqueue_job(self, job: Mapping[str, Any]) -> str:
        with around_one(self._chain, recorded(job)) as sent:
            [run] = self._store.accept_all([sent]).values()
        return await self._run(run)

    async def _run(self, run: Run) -> str:
        """Run a job that was accepted, if it is to run at once. Return its ID."""
        store = self._store
        job_id = enqueued_id(run)
        # Running a job may append jobs to this list. A recursive call would exceed the maximum depth for a long chain.
        runs = [run]
        for one in runs:
            if (runner := store.runner_of(one)) is not None:
                leave = count_nesting()
                try:
                    for _ in range(MAX_DEFERRALS):
                        await runner.attempt_async(one)
                        if one.is_over:
                            break
                finally:
                    leave()
                released = store.released_by(one)
                runs += released
                await self._enqueue_callbacks(store.callbacks_after([one, *released]))
                _raise_failure(store, one)
        return job_id

    async def _enqueue_callbacks(self, due: Iterable[Mapping[str, Any]]) -> None:
        for job in due:
            await self.enqueue_job(job)

    async def create_batch(self, fields: Mapping[str, Any]) -> None:
        self._store.make_batch(fields)

    async def seal_batch(self, batch_id: str) -> None:
        await self._enqueue_callbacks(self._store.change_batch(batch_id, "seal"))

    async def cancel_batch(self, batch_id: str) -> None:
        await self._enqueue_callbacks(self._store.change_batch(batch_id, "cancel"))

    async def retry_batch(self, batch_id: str) -> None:
        await self._enqueue_callbacks(self._store.change_batch(batch_id, "retry"))

    async def batch_status(self, batch_id: str) -> Mapping[str, Any]:
        return self._store.batch_view(batch_id)

    async def enqueue_many(
        self, jobs: Iterable[Any] | AsyncIterable[Any], *, in_one_call: bool = False
    ) -> list[str]:
        given = [job async for job in jobs] if isinstance(jobs, AsyncIterable) else jobs
        with around_all(self._chain, map(recorded, as_maps(given))) as sent:
            if self._chain is None and not any(job.get("after") for job in sent):
                return [await self._run(self._store.accept(job)) for job in sent]
            runs = self._store.accept_all(sent)
        ids = {n: await self._run(run) for n, run in runs.items()}
        return [ids[n] for n in range(len(sent))]

    async def result(self, job_id: str, *, wait: float = 0.0) -> JobResult | None:
        return self._store.result(job_id)

    async def parts(self, job_id: str, *, after: str = BEGINNING, wait: float = 0.0) -> Mapping[str, Any]:
        return self._store.parts(job_id)

    async def logs(
        self,
        job_id: str,
        *,
        after: int = 0,
        wait: float = 0.0,
        level: str | None = None,
        attempt: int | None = None,
        tail: int | None = None,
    ) -> Mapping[str, Any]:
        return self._store.logs(job_id, after=after, wait=wait, level=level, attempt=attempt, tail=tail)

    async def status(self, job_id: str) -> Mapping[str, Any]:
        return self._store.view(job_id)

    async def cancel(self, job_id: str) -> Mapping[str, Any]:
        return self._store.cancel(job_id)


def _raise_failure(store: _Store, run: Run) -> None:
    if store.raises and run.state == "failed":
        raise original(run, run.job["name"])


def _not_finished(job_id: str, state: str) -> NotFinished:
    error = NotFinished(job_id, state)
    error.args = (f"job {job_id} is {state}: the jobs of a test run in inline() or drain() only",)
    return error
