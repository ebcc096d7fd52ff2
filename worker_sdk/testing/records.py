"""Records of the test kit: jobs that were enqueued, and runs of jobs."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from worker_sdk.pusher.jobs import make_job
from worker_sdk.pusher.unique import EnqueuedId
from worker_sdk.tasks.collection import Tasks
from worker_sdk.tasks.task import Task, TaskJob
from worker_sdk.testing.challenges import KeptChallenges
from worker_sdk.testing.log import KeptLog
from worker_sdk.testing.progress import KeptReports
from worker_sdk.transport.suggestions import suggestion
from worker_sdk.unsendable import sendable
from worker_sdk.wire import decode
from worker_sdk.worker.kept_steps import own_value, results_of

if TYPE_CHECKING:
    from worker_sdk.sealing import Seal, What
    from worker_sdk.worker.observations import ObservedRoom

# How many characters of a job's arguments the text of a failed assertion shows.
_MAX_SHOWN = 200


@dataclass
class Run:
    """The run of a job in a test, with all its attempts.

    * `job`: the job.
    * `state`: state of the job, such as `succeeded`, `failed`, `discarded`, `scheduled`, `awaiting_jobs` or `canceled`.
    * `attempts`: number of attempts.
    * `result`: the return value of the function, if the job succeeded.
    * `exception`: the exception that ended the job, or the last one so far.
    * `fields`: the report to a master about the last attempt.
    * `reports`: the receiver of the job's progress and checkpoints.
    * `log`: the log lines of the last attempt, as a list of pairs (level, text).
    * `callbacks`: the callbacks of the job's challenge, as a worker gets them.
    * `challenges`: the challenges that the job opened.
    * `at_s`: virtual time of the job's next attempt, or of its end, in seconds from the start.
    * `first_s`: virtual time at which `drain` found the job.
    * `first_state`: the state that the job gets when it waits for no other job any more.
    * `is_awaited`: another job waited for this job before it was over, so the result is kept.
    * `skipped_by`: ID and state of the predecessor that caused the skip, directly or indirectly.
    * `seal`: opens the values of the job, if they are sealed.
    * `conflict`: `existing` or `replaced` while a call returns the ID of this job instead of the ID of a new job.

    For example:

        [run] = drain([make_thumbnail.to_job(42)])
        assert (run.state, run.result, run.attempts) == ("succeeded", 320, 1)
    """

    job: TaskJob[Any]
    state: str = "ready"
    attempts: int = 0
    result: Any = None
    exception: BaseException | None = None
    fields: Mapping[str, Any] | None = None
    at_s: float = 0.0
    first_s: float = field(default=0.0, repr=False, compare=False)
    first_state: str = field(default="ready", repr=False, compare=False)
    is_awaited: bool = field(default=False, repr=False, compare=False)
    skipped_by: tuple[str, str] | None = None
    conflict: str = field(default="", repr=False, compare=False)
    reports: KeptReports = field(default_factory=KeptReports, repr=False, compare=False)
    log: KeptLog = field(default_factory=KeptLog, repr=False, compare=False)
    callbacks: list[Mapping[str, Any]] = field(default_factory=list, repr=False, compare=False)
    challenges: KeptChallenges = field(default_factory=KeptChallenges, repr=False, compare=False)

    seal: "Seal | None" = field(default=None, repr=False, compare=False)

    @property
    def progress(self) -> tuple[float | None, str] | None:
        """Fraction and message of the last `ctx.progress`."""
        return self.reports.progress

    @property
    def checkpoint(self) -> Any:
        """The value that the next attempt finds in `ctx.checkpoint`."""
        return own_value(self._opened_checkpoint())

    @property
    def steps(self) -> Mapping[str, Any]:
        """The results of the steps that have ended, by name. The next attempt gets them."""
        return results_of(self._opened_checkpoint())

    @property
    def used(self) -> Mapping[str, float]:
        """The units that the last attempt reported with `ctx.used`."""
        return self.reports.used

    @property
    def observed(self) -> Sequence["ObservedRoom"]:
        """The limits of other services that the last attempt reported with `ctx.observed`, in order."""
        return self.reports.observed

    @property
    def parts(self) -> list[Any]:
        """The values that the last attempt emitted with `ctx.emit`."""
        return [self.known_value(decode(part), "part") for part in self.reports.parts]

    def known_value(self, value: Any, what: "What") -> Any:
        """Return a value of the job, opened if it is sealed."""
        return value if self.seal is None else self.seal.opened(value, what, self.job.id)

    def _opened_checkpoint(self) -> bytes | None:
        checkpoint = self.reports.checkpoint
        return checkpoint if self.seal is None else self.seal.opened_checkpoint(checkpoint, self.job.id)

    @property
    def keeps_result(self) -> bool:
        """Return whether the result is kept, either because the job says so or because another job waited for it."""
        return bool(self.job.get("keep_result")) or self.is_awaited

    @property
    def is_over(self) -> bool:
        """Return whether the job has ended."""
        return self.state in ("succeeded", "failed", "discarded", "canceled", "skipped")


class Recorded(list[TaskJob[Any]]):
    """The jobs that were enqueued, in order. Each job is the map that a master would get, with the attributes `task`,
    `arguments`, `options` and `id`. A job that no task made has None as its `task`.

    For example:

        with recording() as jobs:
            make_thumbnail.enqueue(42)
        assert [job.arguments for job in jobs] == [{"photo_id": 42}]
    """

    # The store that replaces the master for these jobs, even after the block that recorded them.
    _store: Any = None

    def note_store(self, store: Any) -> None:
        """Set the store that replaces the master of these jobs."""
        self._store = store

    def known_store(self) -> Any:
        """Return the store that replaces the master of these jobs. Return None for a slice of a recorded list, and for
        a list that the test made."""
        return self._store

    def run_of(self, job: TaskJob[Any]) -> Run:
        """Return the run of a job that was enqueued inside the block.

        * `job`: the job.

        For example:

            with recording() as jobs:
                handle = make_thumbnail.enqueue(42)
                job = jobs[0]
                drain(jobs)
                assert jobs.run_of(job).attempts == 1
        """
        run: Run = self._store.run_of(job)
        return run

    def of(self, task: "Task[..., Any] | Tasks | str", /, **arguments: Any) -> "Recorded":
        """Return the jobs of one task.

        * `task`: the task, or its name. `Tasks` mean all tasks that they contain.
        * `arguments`: arguments that the jobs must have, possibly among others. Raise TypeError for an argument that
          the task does not have.

        For example:

            with recording() as jobs:
                make_thumbnail.enqueue(42)
            assert len(jobs.of(make_thumbnail, photo_id=42)) == 1
        """
        return self._with(Recorded(job for job in self if job["name"] in _names_of(task)), task, arguments)

    def only(self, task: "Task[..., Any] | Tasks | str | None" = None, /, **arguments: Any) -> TaskJob[Any]:
        """Return the only job. Raise AssertionError if there is no job, or more than one.

        * `task`, `arguments`: as for `of`. Default: all jobs.

        For example:

            with recording() as jobs:
                make_thumbnail.using(priority=3).enqueue(42)
            assert jobs.only(make_thumbnail, photo_id=42).options["priority"] == 3
        """
        found = self._with(self, None, arguments) if task is None else self.of(task, **arguments)
        if len(found) != 1:
            raise AssertionError(f"expected one job, found {len(found)}; enqueued: {self._told()}")
        return found[0]

    def _with(self, jobs: "Recorded", task: Any, arguments: Mapping[str, Any]) -> "Recorded":
        """Return the jobs with these arguments."""
        _check_parameters([task] if isinstance(task, Task) else [job.task for job in jobs], arguments)
        return Recorded(
            job
            for job in jobs
            if all(key in job.arguments and job.arguments[key] == value for key, value in arguments.items())
        )

    def __repr__(self) -> str:
        # Show the arguments, which are hidden elsewhere: tests compare them.
        return f"<jobs: {self._told()}>"

    def _told(self) -> str:
        return ", ".join(map(_shown, self)) or "none"


def _names_of(task: "Task[..., Any] | Tasks | str") -> Collection[str]:
    if isinstance(task, str):
        return (task,)
    return task.names if isinstance(task, Tasks) else (task.name,)


def _check_parameters(tasks: "Iterable[Task[..., Any] | None]", arguments: Mapping[str, Any]) -> None:
    """Raise TypeError for arguments that none of the tasks has. Jobs that no task made may have any arguments."""
    known: dict[str, None] = {}
    names: dict[str, None] = {}
    for task in tasks:
        if task is None:
            return
        names[task.name] = None
        known |= dict.fromkeys(task.signature.annotations)
    if names and (unknown := sorted(arguments.keys() - known.keys())):
        told = ", ".join(f"{name}{suggestion(name, known)}" for name in unknown)
        raise TypeError(f"{' and '.join(names)} has no parameter {told}")


def _shown(job: TaskJob[Any]) -> str:
    given = job.arguments if job.arguments else job.get("argument")
    if isinstance(given, Mapping):
        text = ", ".join(f"{name}={value!r}" for name, value in given.items())
    else:
        text = "" if given is None else repr(given)
    return f"{job['name']}({text[:_MAX_SHOWN]}{'…' if len(text) > _MAX_SHOWN else ''})"


def recorded(job: Mapping[str, Any]) -> TaskJob[Any]:
    """Return a job as a `TaskJob`, even if no task made the job. If the job cannot be sent, raise the same exception as
    a pusher."""
    made = make_job(**job)
    sendable(job if isinstance(job, TaskJob) else made)
    if isinstance(job, TaskJob):
        return job
    one: TaskJob[Any] = TaskJob(made)
    one.task = None
    argument = made.get("argument")
    one.arguments = argument if isinstance(argument, dict) else {}
    one.options = {key: value for key, value in made.items() if key not in ("name", "argument", "id")}
    return one


def enqueued_id(run: Run) -> str:
    """Return the ID for a call that led to this job, with the conflict that it caused, and reset the conflict."""
    conflict, run.conflict = run.conflict, ""
    return EnqueuedId.of(run.job.id, is_duplicate=conflict == "existing", is_replaced=conflict == "replaced")


def as_maps(jobs: Iterable[Any]) -> Iterable[Mapping[str, Any]]:
    return ({"name": job[0], "argument": job[1]} if isinstance(job, tuple) else job for job in jobs)
