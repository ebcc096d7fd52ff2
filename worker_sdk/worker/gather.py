"""`Gather`, and the context of a call for many jobs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from worker_sdk.worker.context import Context, pushers_of

if TYPE_CHECKING:
    from worker_sdk.worker.job_log import LogLines


@dataclass(frozen=True, slots=True)
class Gather:
    """Run many jobs of a task in one call of its function: `Tasks.task(gather=Gather(…))`.

    * `max`: maximum number of jobs of one call, 2 to 1000. No call gets more than `max_jobs` of the worker.
    * `within_s`: seconds that the first job of a call waits for other jobs, 0 to 60. The call begins sooner if it is
      full, or if the worker can hold no more jobs.

    Raise ValueError for a number out of range. For example:

        @tasks.task("row.insert", gather=Gather(max=500, within_s=0.5))
        def insert_rows(rows: list[int], ctx: GatherContext) -> None:
            print(len(rows))
    """

    max: int
    within_s: float = 0.1

    def __post_init__(self) -> None:
        if not 2 <= self.max <= 1000:
            raise ValueError("max of Gather must be 2 to 1000")
        if not 0 <= self.within_s <= 60:
            raise ValueError("within_s of Gather must be 0 to 60 seconds")


class GatherContext(Context):
    """One call of a task with `gather`: the parameter of its function that is annotated with `GatherContext`.

    * `jobs`: the contexts of the jobs, in the order of the arguments. Each job has its own `job_id`, `attempt`,
      `fence`, `headers`, `cancelled` and the other attributes and methods of a `Context`.
    * `cancelled`: the `CancelSignal` that is set when all jobs of the call are to stop.

    For middleware, dependencies and log records, it has the attributes of the first job's `Context`. `progress` reports
    the progress of all jobs, and lines of `logger` are kept with each job.

    For example:

        @tasks.task("row.insert", gather=Gather(max=500))
        def insert_rows(rows: list[int], ctx: GatherContext) -> list[int]:
            return [row + job.attempt for row, job in zip(rows, ctx.jobs, strict=True)]
    """

    __slots__ = ("jobs",)

    def __init__(self, jobs: Sequence[Context], log: "LogLines | None" = None) -> None:
        first = jobs[0]
        super().__init__(
            first.job_id,
            first.name,
            first.attempt,
            first.fence,
            first.headers,
            min(job.deadline_s for job in jobs),
            pushers_of(first),
            first._reports,
            first._token,
            batch=first.batch,
            log=log,
        )
        self.jobs = list(jobs)

    def __repr__(self) -> str:
        return f"<GatherContext of {len(self.jobs)} jobs of {self.name}>"

    def progress(self, fraction: float | None, message: str = "") -> None:
        """Report the progress of the call, for all of its jobs.

        * `fraction`, `message`: as for `Context.progress`.

        Raise ValueError if the fraction is out of range. For example:

            ctx.progress(0.5, "half of the rows")
        """
        for job in self.jobs:
            job.progress(fraction, message)

    def used(self, **units: float) -> None:
        """Report how many units of a limit the call has used. The units are divided equally among its jobs. To report
        units of one job, use `ctx.jobs[0].used(…)`.

        * `units`: as for `Context.used`.

        Raise ValueError for a number out of range. For example:

            ctx.used(tokens=1812)
        """
        for job in self.jobs:
            job.used(**{unit: round(number / len(self.jobs), 3) for unit, number in units.items()})

    def _of_one_job(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            "a call of gathered jobs has no checkpoint, step, partial result or challenge: use the context of a job, "
            "as in ctx.jobs[0].save(…)"
        )

    if not TYPE_CHECKING:
        save = save_and_wait = step = emit = iterate = open_challenge = _next_once_id = _of_one_job


class GatheredLog:
    """The log of a call. Its lines are kept with each job. `logs`: the logs of the jobs."""

    def __init__(self, logs: "Sequence[LogLines]") -> None:
        self._logs = logs

    def write(self, at_s: float, level: str, text: str) -> None:
        for log in self._logs:
            log.write(at_s, level, text)


def ends_of(name: str, value: Any, count: int) -> list[Any]:
    """Return the outcomes of a call for `count` jobs: one result or exception for each job. `value`: the return value
    of the call. Raise TypeError if it has another form."""
    if value is None:
        return [None] * count
    if not isinstance(value, Sequence) or isinstance(value, str | bytes | bytearray):
        raise TypeError(
            f"{name} returned a {type(value).__name__}: a handler of gathered jobs must return None, or a sequence "
            "with one result or exception for each job"
        )
    if len(value) != count:
        raise TypeError(f"{name} returned {len(value)} results for {count} jobs")
    return list(value)
