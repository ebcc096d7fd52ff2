"""Run handlers in tests, without a master."""

import asyncio
import contextlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, cast

from worker_sdk.blocks import AsyncWithOnly
from worker_sdk.enqueueing import EnqueueChain, around_all, around_one, chain_of
from worker_sdk.errors import SealError
from worker_sdk.pusher.client import Pusher
from worker_sdk.pusher.jobs import make_job
from worker_sdk.pusher.sync_client import SyncPusher
from worker_sdk.tasks.task import Task, TaskJob
from worker_sdk.testing.challenges import KeptChallenges, callback_of
from worker_sdk.testing.lazy_worker import worker_of
from worker_sdk.testing.predecessors import FINISHED_AT
from worker_sdk.testing.progress import KeptReports, ReportsByToken
from worker_sdk.transport.suggestions import suggestion
from worker_sdk.wire import decode, encode
from worker_sdk.worker.assembly import Assembly
from worker_sdk.worker.executor import Executor
from worker_sdk.worker.kept_steps import own_value, results_of, with_results
from worker_sdk.worker.lease import now_s
from worker_sdk.worker.outcomes import Fields, success
from worker_sdk.worker.registry import Registry
from worker_sdk.worker.run import JobRun
from worker_sdk.worker.worker import Worker

if TYPE_CHECKING:
    from worker_sdk.conditions import Condition
    from worker_sdk.protocol import Dispatch, JobInput
    from worker_sdk.pusher.by_process import Pushers
    from worker_sdk.tasks.collection import Tasks
    from worker_sdk.worker.observations import ObservedRoom


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of an attempt.

    * `type`: `success`, `failure`, `discarded`, `deferred`, `challenged`, `canceled` or `handed_back`.
    * `fields`: further fields of the report to a master, which depend on the type. Success: `result`. Failure:
      `reason`, `should_retry`, `message`, `error`, `code`. Deferral: `retry_after`, `hold`, `not_ready`. Challenge:
      `request_id`.
    * `checkpoint`: the value that the next attempt would find in `ctx.checkpoint`.
    * `progress`: fraction and message of the last `ctx.progress`.
    * `parts`: the values that the handler emitted with `ctx.emit`.
    * `challenge`: the request of `ctx.open_challenge`, as a master gets it: `form`, `audience`, `expect`, `timeout_s`,
      `meta`. None: the handler opened no challenge.
    * `steps`: the results of all steps of the job that have ended so far, by name.
    * `used`: the units that the attempt reported with `ctx.used`.
    * `observed`: the limits of other services that the attempt reported with `ctx.observed`.

    For example:

        ending = await WorkerHarness(tasks).run(make_thumbnail.to_job(42))
        assert ending.type == "success"
    """

    type: str
    fields: Fields
    checkpoint: Any = None
    progress: tuple[float | None, str] | None = None
    parts: Sequence[Any] = ()
    challenge: Mapping[str, Any] | None = None
    steps: Mapping[str, Any] = field(default_factory=dict)
    used: Mapping[str, float] = field(default_factory=dict)
    observed: "Sequence[ObservedRoom]" = ()

    @property
    def result(self) -> Any:
        """The handler's return value, if it succeeded."""
        return self.fields.get("result")


@dataclass
class WorkerHarness(AsyncWithOnly):
    """Run a worker's handlers as the worker would, without a master: with the same threads, processes, timeouts,
    policies, middleware and dependencies.

    The block `async with WorkerHarness(worker) as harness` starts the worker once, and stops it at the end. Starting
    and stopping runs `on_start` and `on_stop`, and makes the values that live as long as the worker. Without the block,
    the worker starts and stops for each run.

    * `worker`: the worker, or `Tasks` for a new worker.
    * `enqueued`: the jobs that handlers enqueued with `ctx.enqueue`, as maps. Jobs of isolated handlers go to a real
      master.
    * `unmet`: the conditions of `ready_when` that are not met. All other conditions count as met, without calling a
      master.

    For example:

        async with WorkerHarness(tasks) as harness:
            ending = await harness.run(make_thumbnail.to_job(42))
        assert ending.result == 320
    """

    worker: "Worker | Tasks"
    enqueued: list[dict[str, Any]] = field(default_factory=list)
    unmet: "list[Condition]" = field(default_factory=list)
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    _assembly: Assembly | None = None

    def __post_init__(self) -> None:
        self._worker = worker_of(self.worker)

    def __repr__(self) -> str:
        return f"<WorkerHarness of {self._worker}>"

    async def __aenter__(self) -> Self:
        self._assembly = await _started(self._worker)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        assembly, self._assembly = self._assembly, None
        if assembly is not None:
            await assembly.stop()

    async def run(
        self,
        name: "str | Task[..., Any] | TaskJob[Any]",
        argument: Any = None,
        *,
        attempt: int = 1,
        timeout: float = 30.0,
        headers: Mapping[str, str] | None = None,
        job_id: str | None = None,
        checkpoint: Any = None,
        callback: Any = None,
        inputs: Sequence[Any] = (),
        steps: Mapping[str, Any] | None = None,
    ) -> Ending:
        """Run one attempt of a job to its end, and return how it ended.

        * `name`, `argument`: name and argument of the job. Instead of the name, pass the task, and its parameters as a
          map; or pass only `task.to_job(…)`. Raise LookupError if the name has no handler.
        * `attempt`: the attempt number, for `ctx.attempt` and policies.
        * `timeout`: seconds until the attempt is stopped.
        * `headers`: headers of the job.
        * `job_id`: ID of the job, a UUID. Default: a new ID for each run.
        * `checkpoint`: value of `ctx.checkpoint`, as if an earlier attempt had saved it. Default: none was saved.
        * `callback`: the callback of the outside system. Bytes are its body, and any other value is encoded as JSON. A
          `FormAnswer` is the answer of a person. With a callback, the handler runs as it does after a challenge.
          Default: there is no callback.
        * `inputs`: results of the job's predecessors, in order, for `ctx.inputs`. An `Ending` of another run means a
          predecessor that ended in this way. Default: the job has no predecessors.
        * `steps`: results of steps by name, as if an earlier attempt had run them. To run the next attempt, pass
          `Ending.steps` of the previous run. Default: no step has ended.

        For example:

            ending = await WorkerHarness(tasks).run(make_thumbnail, {"photo_id": 42}, attempt=3)
            assert (ending.type, ending.result) == ("success", 320)
        """
        if isinstance(name, TaskJob):
            headers = headers or name.get("headers")
            # If the task is sealed, use the ID of the given job: its sealed argument can be opened only for that ID.
            job_id = job_id or (name.id if name.task is not None and name.task.seal is not None else None)
        name, argument = _named(name, argument)
        if self._worker.find(name) is None:
            raise LookupError(f"no handler for {name}{suggestion(name, self._worker.names)}")
        saved = None if checkpoint is None else encode(checkpoint)
        kept = KeptReports(with_results(saved, steps or {}))
        fields: dict[str, Any] = {"attempt": attempt, "fence": attempt, "timeout": timeout}
        if job_id is not None:
            fields["job_id"] = job_id
        if kept.checkpoint is not None:
            fields["checkpoint"] = kept.checkpoint
        number = next(self._numbers)
        if inputs:
            fields["inputs"] = [_input_of(number, n, one) for n, one in enumerate(inputs)]
        if callback is not None:
            fields |= {"phase": "callback", "callback": callback_of(callback)}
        dispatch = {**_dispatch(number, name, argument, headers), **fields}
        async with contextlib.nullcontext() if self._assembly else self:
            [ending] = await self._run_all([(cast("Dispatch", dispatch), kept)])
        return ending

    async def run_together(
        self, jobs: "Sequence[TaskJob[Any]]", *, attempt: int = 1, timeout: float = 30.0
    ) -> list[Ending]:
        """Run one attempt of several jobs that a worker holds at the same time, and return their ends in order. Jobs of
        a task with `gather` run in one call.

        * `jobs`: jobs from `task.to_job(…)`.
        * `attempt`, `timeout`: as for `run`.

        For example:

            harness = WorkerHarness(tasks)
            endings = await harness.run_together([make_thumbnail.to_job(42), make_thumbnail.to_job(43)])
            assert [ending.result for ending in endings] == [320, 320]
        """
        runs = []
        for job in jobs:
            number = next(self._numbers)
            dispatch = _dispatch(number, str(job["name"]), job["argument"], job.get("headers"))
            dispatch.update({"job_id": job.id, "attempt": attempt, "fence": attempt, "timeout": timeout})
            runs.append((dispatch, KeptReports()))
        async with contextlib.nullcontext() if self._assembly else self:
            return await self._run_all(runs)

    async def _run_all(self, runs: "Sequence[tuple[Dispatch, KeptReports]]") -> list[Ending]:
        assert self._assembly is not None
        kept = {dispatch["token"]: reports for dispatch, reports in runs}
        sink, challenges = _Sink(kept), KeptChallenges()
        executor = Executor(
            max_jobs=len(runs),
            settlements=sink,
            starts=_AlwaysYes(),
            pushers=cast(
                "Pushers", _Recorder(self.enqueued, chain_of(self._assembly.middleware), self.unmet)
            ),
            reports=ReportsByToken(kept),
            challenges=challenges,
            child_access=(["http://127.0.0.1:8080"], None),
        )
        now = now_s()
        for dispatch, _ in runs:
            handler = self._assembly.registry.get(dispatch["name"])
            assert handler is not None
            executor.start(JobRun(dispatch, handler, now + 86_400), now)
        try:
            ended = [dict(await sink.endings[dispatch["token"]]) for dispatch, _ in runs]
        finally:
            executor.close()
        return [
            _ending_of(fields, reports, dispatch, self._assembly.registry, challenges)
            for fields, (dispatch, reports) in zip(ended, runs, strict=True)
        ]


def _ending_of(
    fields: Fields,
    reports: KeptReports,
    dispatch: "Dispatch",
    registry: Registry,
    challenges: KeptChallenges,
) -> Ending:
    """Return how a run ended, with the originals of sealed values."""
    handler, job_id = registry.get(dispatch["name"]), dispatch["job_id"]
    checkpoint, parts = reports.checkpoint, [decode(part) for part in reports.parts]
    if handler is not None and (seal := handler.seal) is not None:
        # If the checkpoint was sealed with another key, return it sealed: the job could not begin.
        with contextlib.suppress(SealError):
            checkpoint = seal.opened_checkpoint(checkpoint, job_id)
        parts = [seal.opened(part, "part", job_id) for part in parts]
        if "result" in fields:
            fields["result"] = seal.opened(fields["result"], "result", job_id)
        if "error" in fields:
            fields["error"], fields["message"] = seal.opened_failure(
                fields["error"], fields["message"], job_id
            )
    return Ending(
        fields.pop("type"),
        fields,
        own_value(checkpoint),
        reports.progress,
        parts,
        challenges.opened[-1] if challenges.opened else None,
        results_of(checkpoint),
        fields.pop("used", {}),
        reports.observed,
    )


def _dispatch(number: int, name: str, argument: Any, headers: Mapping[str, str] | None) -> "Dispatch":
    return {
        "job_id": f"00000000-0000-7000-8000-{number:012d}",
        "token": f"{number:032x}",
        "attempt": 1,
        "fence": 1,
        "phase": "run",
        "name": name,
        "argument": argument,
        "headers": dict(headers or {}),
        "timeout": 30.0,
        "not_after_ms": 0,
        "lease_until_ms": 0,
    }


def _named(name: "str | Task[..., Any] | TaskJob[Any]", argument: Any) -> tuple[str, Any]:
    """Return the name of a job, and its argument."""
    if isinstance(name, str):
        return name, argument
    if isinstance(name, TaskJob):
        if argument is not None:
            raise TypeError("a job from to_job already has its arguments: do not pass argument=")
        return str(name["name"]), name["argument"]
    if argument is not None and not isinstance(argument, Mapping):
        raise TypeError(
            f"{name.name} takes its parameters as a map, or pass a call: run({name.__name__}.to_job(…))"
        )
    return name.name, argument


async def _started(worker: Worker) -> Assembly:
    assembly = worker.assembly()
    try:
        await assembly.start()
    except BaseException:
        await assembly.stop()
        raise
    return assembly


# The final state of a job for each outcome of its last attempt.
_STATES: Final = {"success": "succeeded", "failure": "failed"}


def _input_of(number: int, position: int, given: Any) -> "JobInput":
    """Return the data about a predecessor that a worker gets."""
    ending = given if isinstance(given, Ending) else Ending("success", {"result": given})
    has_result = ending.type in _STATES
    result = {"finished_at": FINISHED_AT, "type": ending.type, **ending.fields} if has_result else None
    return {
        "job_id": f"00000000-0000-7000-8{position:03d}-{number:012d}",
        "state": _STATES.get(ending.type, ending.type),
        # Encode and decode the result, as if it came from a master.
        "result": decode(encode(result)),
        "omitted": None if has_result else "not_kept",
    }


class _Sink:
    is_full = False

    def __init__(self, tokens: Iterable[str]) -> None:
        loop = asyncio.get_running_loop()
        self.endings: dict[str, asyncio.Future[Fields]] = {token: loop.create_future() for token in tokens}

    def put(self, job_id: str, token: str, fields: Fields) -> None:
        self.endings[token].set_result(fields)

    def put_successes(self, ends: Iterable[tuple[str, str, Any]]) -> None:
        for job_id, token, value in ends:
            self.put(job_id, token, success(value))


class _AlwaysYes:
    async def may_start(self, job_id: str, token: str) -> bool:
        return True


class _Recorder:
    """Records the jobs of handlers, in place of both pushers."""

    def __init__(
        self, enqueued: list[dict[str, Any]], chain: EnqueueChain | None, unmet: "list[Condition]"
    ) -> None:
        self._enqueued = enqueued
        self._chain = chain
        self.unmet = unmet

    def pusher(self) -> Pusher:
        return cast(Pusher, _RecordingPusher(self._enqueued, self._chain))

    def sync_pusher(self) -> SyncPusher:
        return cast(SyncPusher, _RecordingSyncPusher(self._enqueued, self._chain))

    @property
    def namespace(self) -> str:
        return "default"

    def in_namespace(self, namespace: str) -> "_Recorder":
        return self


class _RecordingSyncPusher:
    def __init__(self, enqueued: list[dict[str, Any]], chain: EnqueueChain | None) -> None:
        self._enqueued = enqueued
        self._chain = chain

    def enqueue(self, name: str, argument: Any = None, **options: Any) -> str:
        return _RecordingSyncPusher.enqueue_job(self, make_job(name, argument, **options))

    def enqueue_many(self, jobs: Iterable[Any], *, in_one_call: bool = False) -> list[str]:
        made = [make_job(*job) if isinstance(job, tuple) else make_job(**job) for job in jobs]
        with around_all(self._chain, made) as sent:
            self._enqueued += sent
        return [str(job["id"]) for job in sent]

    def enqueue_job(self, job: dict[str, Any]) -> str:
        with around_one(self._chain, job) as sent:
            self._enqueued.append(sent)
        return str(sent["id"])


class _RecordingPusher(_RecordingSyncPusher):
    async def enqueue(self, name: str, argument: Any = None, **options: Any) -> str:  # type: ignore[override]
        return super().enqueue(name, argument, **options)

    async def enqueue_many(self, jobs: Iterable[Any], *, in_one_call: bool = False) -> list[str]:  # type: ignore[override]
        return super().enqueue_many(jobs)

    async def enqueue_job(self, job: dict[str, Any]) -> str:  # type: ignore[override]
        return super().enqueue_job(job)
