"""Results of jobs, with the interface of Celery's results."""

import json
import re
import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from worker_sdk.celery_compat import states
from worker_sdk.celery_compat.guide import missing_attribute
from worker_sdk.errors import Fail, JobCanceled, JobFailed, NotFinished
from worker_sdk.tasks.client import pushers_for
from worker_sdk.tasks.handle import AnyTask, JobHandle

if TYPE_CHECKING:
    from worker_sdk.celery_compat.process import KnownTask
    from worker_sdk.tasks.task import TaskJob

__all__ = ["AsyncResult", "EagerResult", "GroupResult", "ResultBase", "ResultSet"]

# The progress message in which `update_state` stores a state and a map.
_TOLD: Final = re.compile(r"([A-Z][A-Z_]*)(?: (.*))?", re.DOTALL)
_MISSING: Final = {
    "collect": "ask the results that you have",
    "iterdeps": "ask the results that you have",
    "get_leaf": "ask the results that you have",
    "then": "use chain",
    "on_ready": "use chain, or a webhook of the master",
    "supports_native_join": "use get",
    "iter_native": "use get of each result",
    "join_native": "use join",
    "save": "a batch of the master keeps a group: see Batch of worker_sdk",
    "restore": "a batch of the master keeps a group: see Batch of worker_sdk",
    "backend": "results are kept by the master",
    "app": "name the application",
    "build_graph": "see the page of the job",
}


class AsyncResult:
    """A job with the interface of Celery's `AsyncResult`.

    * `id`, `task_id`: ID of the job.
    * `handle`: the `JobHandle`, for new code.
    * `parent`: the result of the previous step in a chain.
    """

    def __init__(self, handle: JobHandle[Any] | str, **options: Any) -> None:
        self.handle = (
            JobHandle(AnyTask("a task"), handle, pushers_for(None)) if isinstance(handle, str) else handle
        )
        self.id = self.task_id = self.handle.id
        self.parent: AsyncResult | GroupResult | None = None

    def __str__(self) -> str:
        return self.id

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.id}>"

    def __eq__(self, other: object) -> bool:
        return self.id == (other.id if isinstance(other, AsyncResult) else other)

    def __hash__(self) -> int:
        return hash(self.id)

    def get(self, timeout: float | None = None, propagate: bool = True, **options: Any) -> Any:
        """Wait for the result, and return it.

        * `timeout`: seconds to wait.
        * `propagate`: True raises `JobFailed` if the job failed. False returns the exception.
        * `options`: other options of Celery, without effect.
        """
        try:
            return self.handle.get(timeout)
        except NotFinished:
            raise TimeoutError("the operation timed out") from None
        except (JobFailed, JobCanceled) as exc:
            if propagate:
                raise
            return exc

    wait = get

    @property
    def state(self) -> str:
        """The state of the job in Celery's words, or the state from its last `update_state`."""
        status = str(self.handle.refresh().status)
        found = states.state_of(status)
        return self._told()[0] or found if found == states.STARTED else found

    @property
    def status(self) -> str:
        """The same as `state`."""
        return self.state

    @property
    def result(self) -> Any:
        """The result, or the exception of a job that failed. While the job is not over, the `meta` of its last
        `update_state`."""
        if self.ready():
            return self.get(propagate=False)
        return self._told()[1]

    @property
    def info(self) -> Any:
        """The same as `result`."""
        return self.result

    @property
    def traceback(self) -> str | None:
        """The traceback of a job that failed, as text."""
        if not self.failed():
            return None
        ending = self.get(propagate=False)
        return (ending.traceback or None) if isinstance(ending, JobFailed) else None

    @property
    def name(self) -> str:
        """The name of the task."""
        return str((self.handle.refresh().job or {}).get("name") or self.handle.name)

    @property
    def date_done(self) -> Any:
        """The time at which the job ended. None: it has not ended."""
        return (self.handle.refresh().job or {}).get("finished_at")

    @property
    def children(self) -> list[Any]:
        """An empty list: a job does not know what it has enqueued."""
        return []

    def ready(self) -> bool:
        """Return whether the job is over."""
        return self.state in states.READY_STATES

    def successful(self) -> bool:
        """Return whether the job succeeded."""
        return self.state == states.SUCCESS

    def failed(self) -> bool:
        """Return whether the job failed."""
        return self.state == states.FAILURE

    def maybe_throw(self, propagate: bool = True, **options: Any) -> Any:
        """Raise the exception of a job that failed.

        * `propagate`: False raises nothing.
        * `options`: ignored.
        """
        return self.get(propagate=propagate) if self.ready() else None

    maybe_reraise = maybe_throw

    def revoke(self, **options: Any) -> None:
        """Cancel the job.

        * `options`: Celery's `terminate` and `signal` change nothing: a running job is stopped.
        """
        self.handle.cancel()

    def forget(self) -> None:
        """Do nothing: results expire."""

    def _told(self) -> tuple[str | None, Any]:
        """Return the state and the map of the last `update_state`."""
        progress = (self.handle.job or {}).get("progress")
        message = progress.get("message") if isinstance(progress, Mapping) else None
        found = _TOLD.fullmatch(message or "")
        if found is None:
            return None, None
        try:
            return found[1], json.loads(found[2]) if found[2] else None
        except ValueError:
            return None, None

    def __getattr__(self, name: str) -> Any:
        missing_attribute(self, name, _MISSING)


class EagerResult(AsyncResult):
    """The result of a call that ran at once. `get` raises the exception of the function itself."""

    def __init__(
        self, handle: JobHandle[Any], state: str, value: Any, exception: BaseException | None
    ) -> None:
        super().__init__(handle)
        self._state = state
        self._value = value
        self._exception = exception

    def get(self, timeout: float | None = None, propagate: bool = True, **options: Any) -> Any:
        """Return the result.

        * `timeout`: changes nothing.
        * `propagate`: True raises the exception of the function. False returns it.
        * `options`: ignored.
        """
        if self._exception is None:
            return self._value
        if propagate:
            raise self._exception
        return self._exception

    wait = get

    @property
    def state(self) -> str:
        """The state in Celery's words."""
        return self._state

    @property
    def result(self) -> Any:
        """The result, or the exception of the function."""
        return self.get(propagate=False)

    @property
    def traceback(self) -> str | None:
        """The traceback of the exception, as text."""
        if self._exception is None:
            return None
        return "".join(traceback.format_exception(self._exception))


class GroupResult:
    """The results of a group.

    * `results`, `children`: the results, in the order of the group.
    * `id`: ID of the first job.
    """

    def __init__(self, results: Sequence[Any]) -> None:
        self.results = list(results)
        self.id = self.results[0].id if self.results else ""
        self.parent: AsyncResult | GroupResult | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)}>"

    @property
    def children(self) -> list[Any]:
        """The results."""
        return self.results

    def get(self, timeout: float | None = None, propagate: bool = True, **options: Any) -> list[Any]:
        """Wait for all jobs, and return their results.

        * `timeout`: seconds to wait for each job.
        * `propagate`: as for `AsyncResult.get`.
        * `options`: ignored.
        """
        return [one.get(timeout=timeout, propagate=propagate) for one in self.results]

    join = get

    def ready(self) -> bool:
        """Return whether all jobs are over."""
        return all(one.ready() for one in self.results)

    def successful(self) -> bool:
        """Return whether all jobs succeeded."""
        return all(one.successful() for one in self.results)

    def failed(self) -> bool:
        """Return whether at least one job failed."""
        return any(one.failed() for one in self.results)

    def waiting(self) -> bool:
        """Return whether at least one job is not over."""
        return not self.ready()

    def completed_count(self) -> int:
        """Return how many jobs succeeded."""
        return sum(bool(one.successful()) for one in self.results)

    def revoke(self, **options: Any) -> None:
        """Cancel all jobs.

        * `options`: ignored.
        """
        for one in self.results:
            one.revoke()

    def forget(self) -> None:
        """Do nothing: results expire."""

    def __iter__(self) -> Iterator[Any]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, index: int) -> Any:
        return self.results[index]

    def __getattr__(self, name: str) -> Any:
        missing_attribute(self, name, _MISSING)


ResultSet = GroupResult
ResultBase = AsyncResult


def result_of(task_id: str) -> AsyncResult:
    """Return the result object of a job with an unknown task."""
    return AsyncResult(task_id)


def run_here(task: "KnownTask", job: "TaskJob[Any]", *, throw: bool) -> EagerResult:
    """Run a job of a task at once, and return how it ended. Raise the exception of the function if `throw`."""
    from worker_sdk.testing.kit import inline

    try:
        with inline(raises=throw) as jobs:
            pushers = task.task.pushers()
            handle = task.task.handle_of(job, pushers.sync_pusher().enqueue_job(job), pushers)
            run = jobs.run_of(job)
    except Fail as exc:
        raise exc.__cause__ or exc from None
    exception = run.exception
    if isinstance(exception, Fail) and exception.__cause__ is not None:
        exception = exception.__cause__
    state = states.state_of(run.state)
    return EagerResult(handle, state, run.result, exception if state != states.SUCCESS else None)
