"""Direct calls of tasks: the parameters that a worker would fill."""

from collections.abc import Mapping
from concurrent.futures import Future
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol

from worker_sdk.pusher.ids import new_job_id
from worker_sdk.worker.context import Context, running_job
from worker_sdk.worker.lease import now_s

if TYPE_CHECKING:
    from worker_sdk.pusher.by_process import Pushers
    from worker_sdk.tasks.signature import Signature

_TIMEOUT_S: Final = 30.0


class CalledTask(Protocol):
    """The task that is called."""

    name: str
    options: Mapping[str, Any]
    signature: "Signature"

    def pushers(self) -> "Pushers":
        """Return the clients with which the function's context enqueues jobs."""
        ...


def filled(task: CalledTask, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the named arguments of a direct call, with a context if the function takes one and the call omits it.
    Inside a job, this is the context of that job. Raise TypeError if the call omits another value that only a worker
    has."""
    omitted = task.signature.omitted(args, kwargs)
    if missing := [
        name for name in omitted if name in task.signature.dependencies or name in task.signature.inputs
    ]:
        raise TypeError(
            f"{task.name}: a direct call must give {', '.join(missing)}, because only a worker fills it. Or run "
            "the task with inline() or WorkerHarness of worker_sdk.testing"
        )
    try:
        name = task.signature.context
    except TypeError:  # a type that cannot be resolved prevents jobs, but not a direct call
        return kwargs
    if name is None or name not in omitted or not task.signature.has_default(name):
        return kwargs
    return {**kwargs, name: running_job.get() or _own_context(task)}


def _own_context(task: CalledTask) -> Context:
    timeout = task.options.get("timeout")
    timeout_s = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout or _TIMEOUT_S)
    return Context(
        job_id=new_job_id(),
        name=task.name,
        attempt=1,
        fence=1,
        headers={},
        deadline_s=now_s() + timeout_s,
        pushers=task.pushers(),
        reports=_NoReports(),
        token="",
        challenges=_NoChallenges(),
    )


class _NoReports:
    """Accepts the reports of a direct call, which no master gets."""

    def add_progress(self, token: str, fraction: float | None, message: str) -> None: ...

    def save(self, token: str, checkpoint: bytes) -> "Future[None]":
        return _done()

    def emit(self, job_id: str, token: str, value: bytes, deadline_s: float) -> "Future[None]":
        return _done()

    def add_used(self, token: str, used: Mapping[str, float]) -> None: ...

    def observe(self, token: str, observation: Any) -> None: ...


class _NoChallenges:
    """Refuses challenges: no answer can reach a direct call."""

    def open(
        self, job_id: str, token: str, fields: Mapping[str, Any], deadline_s: float
    ) -> "Future[Mapping[str, Any]]":
        raise RuntimeError(
            "a task that is called directly cannot open a challenge, because no answer can reach it: enqueue the task"
        )


def _done() -> "Future[None]":
    done: Future[None] = Future()
    done.set_result(None)
    return done
