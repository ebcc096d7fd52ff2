"""The backend of Django's tasks that enqueues jobs of jqmaster."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from asgiref.sync import sync_to_async
from django.db import connections, transaction
from django.utils import timezone

from worker_sdk.django.backend_outbox import BackendOutbox
from worker_sdk.django.calls import check_call
from worker_sdk.django.names import job_name
from worker_sdk.django.options import JqmasterTask, is_installed, options_fault, options_of
from worker_sdk.django.tasks_api import (
    BaseTaskBackend,
    InvalidTask,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_enqueued,
)
from worker_sdk.errors import RefusedError
from worker_sdk.pusher.jobs import make_job
from worker_sdk.tasks.client import OwnPushers, pushers_for
from worker_sdk.unsendable import sendable


@dataclass(slots=True)
class _Shared:
    """State that the backends of one alias share: Django makes a backend for each thread."""

    params: Mapping[str, Any]
    outbox: BackendOutbox
    pushers: OwnPushers | None


_shared: Final[dict[str, _Shared]] = {}
# All declared tasks, by alias and the path of their function. A task is declared once, when its module is imported, and
# stays declared when the settings change, as in tests.
_declared: Final[defaultdict[str, dict[str, Any]]] = defaultdict(dict)


class JqmasterBackend(BaseTaskBackend):
    """Run Django's tasks as jobs of jqmaster. `TASKS` in the settings names it, with these `OPTIONS`:

    * `master`, `token`: as for `Tasks`. Default: `JQMASTER_URL` and `JQMASTER_TOKEN`.
    * `namespace`: namespace of the jobs at this master. Default: the namespace of the address, of the process or of the
      running job.
    * `enqueue`: when to push a job that is enqueued inside a transaction. `outbox` (default): after the commit; the
      transaction stores the job, so it cannot be lost. `on_commit`: after the commit; the job is lost if the process
      dies in between. `immediately`: at once.
    * `database`: alias of the database with the transaction. Default: `default`.
    * `push_in_background`: let a thread push the outbox, so that a request does not wait for the master.
    * `commands`: names of the management commands that workers run as jobs.
    * the options of jobs that `JqmasterTask` lists. `keep_result` is True by default. Options of a task take precedence
      over these.

    For example:

        TASKS = {
            "default": {
                "BACKEND": "worker_sdk.django.JqmasterBackend",
                "OPTIONS": {"master": "http://127.0.0.1:8080", "timeout": 60},
            }
        }
    """

    task_class = JqmasterTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)
        self.defaults = {"keep_result": True, **self.options}
        shared = _shared.get(alias)
        if shared is None or shared.params != params:
            shared = _shared[alias] = self._new_shared(params)
        self._shared = shared

    def _new_shared(self, params: Mapping[str, Any]) -> _Shared:
        master, token = self.options.get("master"), self.options.get("token")
        pushers = None if master is None else OwnPushers(master, token)
        return _Shared(params, BackendOutbox(self.alias, self.options), pushers)

    def __repr__(self) -> str:
        return f"<JqmasterBackend {self.alias!r}>"

    @property
    def outbox(self) -> BackendOutbox:
        """The outbox of this backend."""
        return self._shared.outbox

    @property
    def tasks(self) -> Mapping[str, Any]:
        """The tasks of this backend that were declared so far, by the path of their function."""
        return _declared[self.alias]

    def validate_task(self, task: Any) -> None:
        """Raise InvalidTask if this backend cannot run a task.

        * `task`: the task.

        For example:

            task_backends["default"].validate_task(make_thumbnail)
        """
        super().validate_task(task)
        if fault := options_fault(task):
            raise InvalidTask(fault)
        # Django calls this for each task when it is declared.
        _declared[self.alias].setdefault(task.module_path, task)

    def job_of(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the job of a call, as `make_job` does.

        For example:

            job = task_backends["default"].job_of(make_thumbnail, [42], {})
        """
        run_at = task.run_after
        if run_at is not None and timezone.is_naive(run_at):
            run_at = timezone.make_aware(run_at)
        return make_job(
            job_name(task.module_path, task.queue_name),
            {"args": list(args), "kwargs": dict(kwargs)},
            priority=-task.priority,
            run_at=run_at,
            **options_of(task, self.defaults),
        )

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Enqueue a call of a task, and return its result object. Raise TypeError for arguments that the function does
        not take, or that JSON cannot encode.

        * `task`, `args`, `kwargs`: the call.

        For example:

            result = task_backends["default"].enqueue(make_thumbnail, [42], {})
        """
        self.validate_task(task)
        result, job = self._result_and_job(task, args, kwargs)

        def send_signal() -> None:
            task_enqueued.send(type(self), task_result=result)

        mode = self._mode()
        if mode == "immediately":
            object.__setattr__(result, "id", str(self.client().enqueue_job(job)))
            send_signal()
        elif mode == "on_commit":
            sendable(job)  # check it now: after the commit, it is too late for an error

            def push() -> None:
                self.client().enqueue_job(job)
                send_signal()

            self._on_commit(push)
        else:
            self.outbox.add(job)
            self.outbox.after_commit(send_signal)
        return result

    def enqueue_many(self, task: Any, calls: Iterable[Sequence[Any] | Mapping[str, Any]]) -> list[Any]:
        """Enqueue calls of a task, and return their result objects.

        * `task`, `calls`: as for `JqmasterTask.enqueue_many`.

        For example:

            results = task_backends["default"].enqueue_many(make_thumbnail, [[number] for number in range(20)])
        """
        self.validate_task(task)
        results: list[Any] = []

        def jobs() -> Iterator[dict[str, Any]]:
            for call in calls:
                args, kwargs = ((), call) if isinstance(call, Mapping) else (call, {})
                result, job = self._result_and_job(task, args, kwargs)
                results.append(result)
                yield job

        def send_signal() -> None:
            for result in results:
                task_enqueued.send(type(self), task_result=result)

        mode = self._mode()
        if mode == "immediately":
            ids = self.client().enqueue_many(jobs())
            for result, job_id in zip(results, ids, strict=True):
                object.__setattr__(result, "id", job_id)
            send_signal()
        elif mode == "on_commit":
            waiting = list(jobs())
            for job in waiting:
                sendable(job)

            def push() -> None:
                self.client().enqueue_many(waiting)
                send_signal()

            self._on_commit(push)
        else:
            self.outbox.add_many(jobs())
            self.outbox.after_commit(send_signal)
        return results

    def _mode(self) -> str:
        """Return how to enqueue now, according to the option `enqueue`. Without a transaction, jobs are pushed at
        once."""
        if not self.outbox.is_in_transaction():
            return "immediately"
        return str(self.options.get("enqueue", "outbox"))

    def _on_commit(self, push: Callable[[], None]) -> None:
        using = self.outbox.using
        if not connections[using].in_atomic_block:
            raise transaction.TransactionManagementError(
                f"autocommit of the database {using!r} is off, so Django runs no callbacks after a commit: enqueue in "
                'transaction.atomic(), or set the option enqueue to "outbox"'
            )
        transaction.on_commit(push, using=using)

    def _result_and_job(
        self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """Return the result object of a new call, and its job."""
        check_call(task, args, kwargs)
        result = TaskResult(
            task=task,
            id="",
            status=TaskResultStatus.READY,
            enqueued_at=timezone.now(),
            started_at=None,
            last_attempted_at=None,
            finished_at=None,
            args=args,
            kwargs=kwargs,
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )
        job = self.job_of(task, result.args, result.kwargs)
        object.__setattr__(result, "id", job["id"])
        return result, job

    def get_result(self, result_id: str) -> Any:
        """Return the result object of a job. Raise TaskResultDoesNotExist if no job of a task has this ID.

        * `result_id`: ID of the job.

        For example:

            result = task_backends["default"].get_result(job_id)
            print(result.status)
        """
        from worker_sdk.django.results import result_of

        try:
            view = self.client().status(result_id)
        except RefusedError as exc:
            if exc.status not in (400, 404, 422):
                raise
            view = self._waiting(result_id)
        if view is None or (found := result_of(view, self)) is None:
            raise TaskResultDoesNotExist(result_id)
        return found

    async def aget_result(self, result_id: str) -> Any:
        """Return the result object of a job. Raise TaskResultDoesNotExist if no job of a task has this ID.
        `aget_result` does not block the event loop.

        * `result_id`: ID of the job.

        For example:

            result = await task_backends["default"].aget_result(job_id)
            print(result.status)
        """
        return await sync_to_async(self.get_result)(result_id)

    def check(self, **kwargs: Any) -> Iterable[Any]:
        """Return the faults of the settings as Django's check messages.

        For example:

            for message in task_backends["default"].check():
                print(message)
        """
        from worker_sdk.django.checks import problems_of

        return problems_of(self)

    def client(self) -> Any:
        """Return the `SyncPusher` of this backend.

        For example:

            job = task_backends["default"].client().status(job_id)
        """
        own = self._shared.pushers
        namespace = self.options.get("namespace")
        found = pushers_for(own.now() if own else None, namespace=namespace, is_outbox_left_out=True)
        return found.sync_pusher()

    def _waiting(self, job_id: str) -> Mapping[str, Any] | None:
        """Return the view of a job that still waits in the outbox."""
        if not is_installed() or self.options.get("enqueue", "outbox") != "outbox":
            return None
        from worker_sdk.django.models import OutboxRow
        from worker_sdk.wire import decode

        row = OutboxRow.objects.using(self.outbox.using).filter(job_id=job_id).first()
        if row is None:
            return None
        created_at = datetime.fromtimestamp(row.created_ms / 1000, UTC)
        job = decode(bytes(row.body))
        state = "scheduled" if "run_at" in job else "ready"
        return {**job, "state": state, "created_at": created_at, "attempts": []}
