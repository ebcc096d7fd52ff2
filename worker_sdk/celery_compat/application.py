"""`Celery`, the application, as a collection of tasks."""

import importlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from worker_sdk.celery_compat.beat import definitions_of
from worker_sdk.celery_compat.bound import BoundTask
from worker_sdk.celery_compat.canvas import Signature
from worker_sdk.celery_compat.configuration import Conf, settings_of
from worker_sdk.celery_compat.guide import GUIDE, missing_attribute
from worker_sdk.celery_compat.options import job_fields
from worker_sdk.celery_compat.process import PROCESS, KnownTask
from worker_sdk.celery_compat.result import AsyncResult, result_of
from worker_sdk.celery_compat.signals import CelerySignal
from worker_sdk.celery_compat.task import decorated
from worker_sdk.tasks.client import pushers_for
from worker_sdk.tasks.collection import Tasks
from worker_sdk.tasks.task import Task as TypedTask

if TYPE_CHECKING:
    from worker_sdk.worker.registry import Handler

_ATTRIBUTE: Final = "jqmaster_tasks"
_RUN: Final = "run `jqmaster worker MODULE:app`"
_OF_BROKERS: Final = "there is no broker: JQMASTER_URL names the master"
_MISSING: Final = {
    "worker_main": _RUN,
    "start": _RUN,
    "Worker": _RUN,
    "WorkController": _RUN,
    "Beat": "run `jqmaster apply MODULE:app`, and the master starts the definitions",
    "events": "use middleware, or the stream of the master",
    "log": "set up logging where the module of the worker is imported",
    "steps": "use on_start of a Middleware",
    "user_options": "use the options of jqmaster worker",
    "backend": "results are kept by the master",
    "amqp": _OF_BROKERS,
    "broker_connection": _OF_BROKERS,
    "connection": _OF_BROKERS,
    "connection_or_acquire": _OF_BROKERS,
    "connection_for_read": _OF_BROKERS,
    "connection_for_write": _OF_BROKERS,
    "producer_pool": _OF_BROKERS,
    "pool": _OF_BROKERS,
    "loader": "use imports or autodiscover_tasks",
    "annotations": "give each task its options",
    "add_defaults": "use conf.update",
    "register_task": "decorate a function",
    "task_cls": "use a parameter with Depends instead of a base class",
    "select_queues": "use constraints",
    "canvas": "import from worker_sdk.celery_compat",
}
_OF_CONTROL: Final = {
    "inspect": "see `jqmaster workers list` and the page Workers",
    "ping": "see `jqmaster workers list`",
    "purge": "use `jqmaster cancel` with a filter",
    "discard_all": "use `jqmaster cancel` with a filter",
    "rate_limit": "use a constraint",
    "time_limit": "give the task a time_limit",
    "add_consumer": "a worker runs the jobs of all tasks that it knows",
    "cancel_consumer": "pause a task name with a constraint",
    "shutdown": "use `jqmaster workers drain`",
    "broadcast": "use middleware or the API",
    "pool_grow": "change max_jobs of the worker on the page Workers",
    "pool_shrink": "change max_jobs of the worker on the page Workers",
    "autoscale": "use the demand that the master reports",
    "enable_events": "the master has all events",
    "disable_events": "the master has all events",
    "election": "masters elect their leader themselves",
    "terminate": "use revoke",
}


class Control:
    """`app.control`. It can only cancel jobs."""

    def revoke(self, task_id: str | Iterable[str], **options: Any) -> None:
        """Cancel a job, or several. A running job is stopped.

        * `task_id`: ID of the job, or several.
        * `options`: `terminate` and `signal` change nothing.
        """
        for one in [task_id] if isinstance(task_id, str) else task_id:
            AsyncResult(one).revoke()

    def __getattr__(self, name: str) -> Any:
        missing_attribute(self, name, _OF_CONTROL)


class Celery(Tasks):
    """An application of Celery as a collection of tasks. `jqmaster worker MODULE:app` runs them, and `jqmaster apply
    MODULE:app` makes definitions of `beat_schedule`.

    * `main`: name of the application. It changes nothing.
    * `include`: modules of tasks, which are imported when the tasks are first needed.
    * `set_as_current`: shared tasks use the settings of this application.
    * `config_source`: as for `config_from_object`.
    * `options`: `broker`, `backend` and others are ignored: `JQMASTER_URL` names the master.

    It has the tasks that `app.task` declares, and the shared tasks of some modules: `autodiscover_tasks`, `include` and
    the setting `imports` name them.
    """

    def __init__(
        self,
        main: str | None = None,
        *,
        include: Iterable[str] = (),
        set_as_current: bool = True,
        config_source: Any = None,
        namespace: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.main = main
        self.conf = Conf()
        self.control = Control()
        self.on_configure = CelerySignal("on_configure")
        self.on_after_configure = CelerySignal("on_after_configure")
        self.on_after_finalize = CelerySignal("on_after_finalize")
        self.on_after_fork = CelerySignal("on_after_fork")
        self._modules = list(include)
        self._discoveries: list[tuple[Any, str | None]] = []
        self._shared: list[Tasks] = []
        self._periodic: dict[str, dict[str, Any]] = {}
        self._is_loading = self._is_loaded = False
        if config_source is not None:
            self.config_from_object(config_source, namespace=namespace)
        if set_as_current:
            PROCESS.application = self

    def __repr__(self) -> str:
        return f"<Celery {self.main or ''}>"

    def task(self, *args: Any, **options: Any) -> Any:
        """Decorate a function to make it a task, with or without options.

        * `args`: the function, if there are no options.
        * `options`: those of Celery.
        """
        return decorated(args, options, lambda function: self, lambda: self.conf)

    # --- settings

    def config_from_object(
        self, obj: Any, silent: bool = False, force: bool = False, namespace: str | None = None
    ) -> None:
        """Read settings from an object when the first setting is needed. `Conf` lists the supported settings.

        * `obj`: an object, a module, or the name of one, such as `"django.conf:settings"`.
        * `silent`: ignore a missing module.
        * `force`: read the settings now.
        * `namespace`: prefix of the names of settings, such as `"CELERY"`.
        """

        def read() -> Mapping[str, Any]:
            try:
                return settings_of(obj, namespace)
            except ImportError:
                if not silent:
                    raise
                return {}

        self.conf.add_source(read)
        if force:
            len(self.conf)

    def config_from_envvar(self, variable_name: str, silent: bool = False, force: bool = False) -> None:
        """Read settings from the module that an environment variable names, as `config_from_object` does.

        * `variable_name`: name of the variable.
        * `silent`, `force`: as for `config_from_object`.
        """
        if (module := os.environ.get(variable_name)) is not None:
            self.config_from_object(module, silent, force)
        elif not silent:
            raise KeyError(f"the environment variable {variable_name} is not set")

    # --- tasks of other modules

    def autodiscover_tasks(
        self,
        packages: Sequence[str] | Callable[[], Sequence[str]] | None = None,
        related_name: str | None = "tasks",
        force: bool = False,
    ) -> None:
        """Import the task modules of packages when the first task is needed.

        * `packages`: the packages, or a function that returns them. Default: the applications of Django.
        * `related_name`: name of the module in each package. None: the package itself.
        * `force`: import the modules now.
        """
        self._discoveries.append((packages, related_name))
        self._is_loaded = False
        if force:
            self.finalize()

    def finalize(self, auto: bool = False) -> None:
        """Import the named modules, and send `on_after_configure` and `on_after_finalize`. A worker does this itself.

        * `auto`: changes nothing.
        """
        if self._is_loaded or self._is_loading:
            return
        self._is_loading = True
        try:
            conf = self.conf
            names = [*self._modules, *conf["imports"], *conf["include"]]
            self._modules = []
            for module in names:
                self._add_shared(importlib.import_module(module))
            discoveries, self._discoveries = self._discoveries, []
            for packages, related_name in discoveries:
                for package in _packages(packages):
                    if (found := _related(package, related_name)) is not None:
                        self._add_shared(found)
            self.on_after_configure.send(self, source=conf)
            self.on_after_finalize.send(self)
            self._is_loaded = True
        finally:
            self._is_loading = False

    def _add_shared(self, module: Any) -> None:
        shared = vars(module).get(_ATTRIBUTE)
        if isinstance(shared, Tasks) and all(one is not shared for one in self._shared):
            self._shared.append(shared)

    @property
    def tasks(self) -> Mapping[str, KnownTask]:
        """The tasks of this process by name."""
        self.finalize()
        return dict(PROCESS.tasks)

    # --- calls

    def send_task(
        self,
        name: str,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> AsyncResult:
        """Enqueue a job by the name of its task.

        * `name`: name of the task.
        * `args`, `kwargs`: arguments. For positional arguments, this process must know the task.
        * `options`: as for `apply_async`.
        """
        if (task := self.tasks.get(name)) is not None:
            found: AsyncResult = task.apply_async(args, kwargs, **options)
            return found
        if args:
            raise TypeError(
                f"send_task: {name} is not a task of this process, so the names of its parameters are not known: give "
                f"kwargs instead of args; {GUIDE}"
            )
        queue = self.conf.queue_of(name)
        fields = job_fields(options, **({} if queue is None else {"queue": queue}))
        fields.setdefault("keep_result", not self.conf["task_ignore_result"])
        pushers = pushers_for(self.own_pushers())
        return AsyncResult(pushers.sync_pusher().enqueue(name, dict(kwargs or {}), **fields))

    def signature(self, task: Any, *args: Any, **options: Any) -> Signature:
        """Return a signature of a task.

        * `task`: the task, or its name.
        * `args`, `options`: as for `Signature`.
        """
        return Signature(task, *args, **options)

    def AsyncResult(self, task_id: str, **options: Any) -> AsyncResult:  # noqa: N802 - Celery's name
        """Return the result object of a job.

        * `task_id`: ID of the job.
        * `options`: change nothing.
        """
        return result_of(task_id)

    # --- schedules

    def add_periodic_task(
        self,
        schedule: Any,
        sig: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        name: str | None = None,
        **options: Any,
    ) -> str:
        """Declare a definition, as an entry of `beat_schedule` does. Return its name.

        * `schedule`: a crontab, a timedelta or seconds.
        * `sig`: a signature, or a task.
        * `args`, `kwargs`: arguments, if `sig` has none.
        * `name`: name of the entry. Default: the name of the task.
        * `options`: options of the call.
        """
        signature = sig if isinstance(sig, Signature) else Signature(sig, args, kwargs)
        name = name or signature.name
        if name in self._periodic:
            raise ValueError(f"there is a periodic task {name} already; give another name")
        self._periodic[name] = {
            "task": signature.name,
            "schedule": schedule,
            "args": signature.args,
            "kwargs": signature.kwargs,
            "options": {**signature.options, **options},
        }
        return name

    def definitions(self) -> dict[str, dict[str, Any]]:
        """Return the definitions of `beat_schedule`, of `add_periodic_task` and of this collection by name, as `PUT
        /api/definitions/{name}` takes them.

        Raise ValueError or TypeError for an entry that a master cannot express. The error names the entry."""
        tasks = self.tasks
        entries = {**self.conf["beat_schedule"], **self._periodic}
        declared = definitions_of(entries, tasks, self.conf.time_zone())
        return {**super().definitions(), **{name: one.document() for name, one in declared.items()}}

    # --- the tasks of a worker

    @property
    def names(self) -> list[str]:
        """The names of the tasks."""
        return sorted(self._all())

    def __iter__(self) -> Iterator[TypedTask[..., Any]]:
        return iter(list(self._all().values()))

    def __len__(self) -> int:
        return len(self._all())

    def __contains__(self, name: object) -> bool:
        return name in self._all()

    def __getitem__(self, name: str) -> TypedTask[..., Any]:
        return self._all()[name]

    def handler_of(self, name: str) -> "Handler":
        """Return the function that a worker calls to run the task. Raise TypeError if its types cannot be encoded."""
        from worker_sdk.tasks.handler import handler_of

        return handler_of(self._all()[name])

    def _all(self) -> dict[str, TypedTask[..., Any]]:
        self.finalize()
        return {**{task.name: task for shared in self._shared for task in shared}, **self._tasks}

    # --- methods without effect

    def set_current(self) -> None:
        """Use the settings of this application for shared tasks."""
        PROCESS.application = self

    set_default = set_current

    def close(self) -> None:
        """Do nothing: the process owns the connections."""

    @property
    def Task(self) -> type[BoundTask]:  # noqa: N802 - Celery's name
        """The class of the `self` of bound tasks, for annotations."""
        return BoundTask

    def __getattr__(self, name: str) -> Any:
        missing_attribute(self, name, _MISSING)


def shared_task(*args: Any, **options: Any) -> Any:
    """Decorate a function to make it a task, with or without options. The module of the function gets the attribute
    `jqmaster_tasks`, a `Tasks` for `jqmaster worker MODULE:jqmaster_tasks` and for `--autodiscover`.

    * `args`: the function, if there are no options.
    * `options`: those of Celery.
    """

    def tasks_of(function: Callable[..., Any]) -> Tasks:
        found: Tasks = function.__globals__.setdefault(_ATTRIBUTE, Tasks())
        return found

    return decorated(args, options, tasks_of, lambda: PROCESS.conf)


def _packages(given: Any) -> Sequence[str]:
    if callable(given):
        return list(given())
    if given is not None:
        return list(given)
    try:
        from django.apps import apps
    except ImportError:
        raise TypeError(
            f"autodiscover_tasks needs the names of packages outside of Django; {GUIDE}"
        ) from None
    return [config.name for config in apps.get_app_configs()]


def _related(package: str, related_name: str | None) -> Any:
    """Return a package's module of tasks, if it has one."""
    if related_name is None:
        return importlib.import_module(package)
    importlib.import_module(package)
    name = f"{package}.{related_name}"
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as exc:
        if exc.name != name:
            raise
        return None
