"""`Tasks`: where a module declares its tasks."""

from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, Unpack, overload

from worker_sdk.loading import OF_TASKS, load
from worker_sdk.option_types import check_options
from worker_sdk.shown import some_of
from worker_sdk.suggesting import suggesting
from worker_sdk.tasks.task import Task
from worker_sdk.worker.names import ATTRIBUTE, check_name
from worker_sdk.worker.policies import ExceptionType, RetryOn, as_discarded, as_retry_policies

if TYPE_CHECKING:
    from datetime import timedelta

    from worker_sdk.pusher.by_process import LazyPushers
    from worker_sdk.pusher.unique import Debounce, Unique
    from worker_sdk.sealing import Seal
    from worker_sdk.tasks.client import OwnPushers
    from worker_sdk.tasks.command import CommandOutput
    from worker_sdk.tasks.options import CommandOptions
    from worker_sdk.tasks.scheduled import Declared, DefinitionOptions, Scheduled
    from worker_sdk.tasks.task import (
        AsyncContextTask,
        AsyncGatherTask,
        AsyncTask,
        SyncContextTask,
        SyncGatherTask,
        SyncTask,
    )
    from worker_sdk.worker.context import Context
    from worker_sdk.worker.gather import Gather, GatherContext
    from worker_sdk.worker.registry import Handler

P = ParamSpec("P")
ResultT = TypeVar("ResultT")
ArgumentT = TypeVar("ArgumentT")


class Tasks:
    """Declare tasks: functions with calls that can be enqueued. A module of tasks needs no master and no worker:

        tasks = Tasks()

        @tasks.task("thumbnail.make", timeout=60)
        def make_thumbnail(photo_id: int, width: int = 320) -> int:
            return width

    * `master`: address of the master that their jobs go to, or a list of addresses. Default inside a job: the master of
      the worker. Default elsewhere: the master of `configure`, or else `JQMASTER_URL`, or else `http://127.0.0.1:8080`.
    * `token`: bearer token with the scope `push`, and `read` for results. Give it only together with `master`.
    * `seal`: the `Seal` that hides the content of the jobs from masters and people. Default: no seal.
    """

    @suggesting("Tasks")
    def __init__(
        self,
        *,
        master: str | Sequence[str] | None = None,
        token: str | None = None,
        seal: "Seal | None" = None,
    ) -> None:
        if token is not None and master is None:
            raise TypeError(
                "give token only together with master; to set the token of the process, call configure(token=...)"
            )
        self._tasks: dict[str, Task[..., Any]] = {}
        self._access = (master, token) if master is not None else None
        self._own_pushers: OwnPushers | None = None
        self._definitions: dict[str, Declared] = {}
        self.seal = seal

    @suggesting("a task")
    def task(
        self,
        name: str,
        *,
        timeout: "float | timedelta | None" = None,
        max_retry: int | None = None,
        retry: Mapping[str, Any] | None = None,
        retry_on: RetryOn | ExceptionType | Iterable[RetryOn | ExceptionType] | None = None,
        discard_on: ExceptionType | Iterable[ExceptionType | tuple[ExceptionType, ...]] | None = None,
        priority: int | None = None,
        keep_result: bool | None = None,
        tags: Sequence[str] | None = None,
        expires: "float | timedelta | None" = None,
        rerun_lost: bool | None = None,
        requires: Mapping[str, str] | None = None,
        unique: "Unique | None" = None,
        debounce: "Debounce | None" = None,
        confirm_start: bool = False,
        isolated: bool = False,
        version: str = "",
        gather: "Gather | None" = None,
    ) -> "Decorator":
        """Make a function a task, and return the task. The function's parameters are the arguments of the job.

        An `async def` runs in the event loop of the worker, a `def` in a thread.

        The worker fills a parameter annotated with `Context`. Put it first, or give it the default `INJECTED`, so that
        type checkers let callers omit it.

        Arguments are checked by their annotations before the function runs. If the argument of a job does not fit, the
        job fails with the cause `invalid_argument`, and is not retried.

        * `name`: name of the jobs: letters, digits and `_ . : / -`, up to 200 characters. Workers find the task by this
          name, so keep it when you rename the function.
        * `retry_on`, `discard_on`: as for `Worker.handler`.
        * `expires`: time after the enqueue at which a job is skipped if it still waits.
        * `confirm_start`, `isolated`: as for `Worker.handler`.
        * `gather`: run many jobs in one call of the function, which takes a list of their arguments and a
          `GatherContext`. See `Gather`.
        * `version`: version of the arguments, shown on the web UI's page of the name. Default: a text that changes with
          the types of the parameters.
        * `timeout`, `max_retry`, `retry`, `priority`, `keep_result`, `tags`, `rerun_lost`, `requires`, `unique`,
          `debounce`: see `JobOptions`.

        Raise TypeError for an option that does not exist or has a wrong type, and for a function that cannot be a task.
        Raise ValueError for a name that is invalid or taken. For example:

            @tasks.task("mail.send", max_retry=3, retry_on=TimeoutError)
            def send_mail(user_id: int, subject: str) -> None:
                print(user_id, subject)
        """
        if not isinstance(name, str):
            raise TypeError('a task needs a name: write @tasks.task("…")')
        check_name(name)
        given = {
            "timeout": timeout,
            "max_retry": max_retry,
            "retry": retry,
            "priority": priority,
            "keep_result": keep_result,
            "tags": tags,
            "expires": expires,
            "rerun_lost": rerun_lost,
            "requires": requires,
            "unique": unique,
            "debounce": debounce,
        }
        if gather is not None and isolated:
            raise TypeError(
                f"task {name}: gather and isolated exclude each other, because the timeout of one job would kill the "
                "process that also runs the other jobs"
            )
        options = {option: value for option, value in given.items() if value is not None}
        check_options(options)
        policies, discarded = as_retry_policies(retry_on), as_discarded(discard_on)

        def add(function: Callable[..., Any]) -> Task[..., Any]:
            if name in self._tasks:
                raise ValueError(f"there is a task {name} already: {_place(self._tasks[name])}")
            task: Task[..., Any] = Task(
                self,
                name,
                function,
                options,
                retry_on=policies,
                discard_on=discarded,
                confirm_start=confirm_start,
                isolated=isolated,
                version=version,
                gather=gather,
            )
            self._tasks[name] = task
            return task

        return Decorator(add)

    def command(
        self,
        name: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        ok_codes: Collection[int] = (0,),
        retry_codes: Collection[int] | None = None,
        discard_codes: Collection[int] = (),
        cpu_s: int | None = None,
        memory_mb: int | None = None,
        file_mb: int | None = None,
        **options: "Unpack[CommandOptions]",
    ) -> "Task[..., CommandOutput]":
        """Make a command a task, and return the task.

        The placeholders in `argv` are the arguments of the job: texts and numbers. Each value becomes one argument of
        the command, or a part of an argument, whatever the value contains. No shell is involved. The command runs in
        its own process group. Its environment is that of the worker, with `JOB_ID`, `JOB_NAME` and `JOB_ATTEMPT` added.
        The result of the job is a `CommandOutput`.

        To stop the job, the worker sends SIGTERM to the group, and SIGKILL after at most 5 seconds. The worker reserves
        at most 15 % of the timeout for this. All processes that the command has started end together with the command,
        even if the worker dies.

        * `name`: as for `task`.
        * `argv`: the program and its arguments. `{day}` is a placeholder; `{{` and `}}` stand for braces.
        * `env`: variables in addition to those of the worker.
        * `cwd`: working directory. Default: the directory of the worker.
        * `ok_codes`: exit codes that mean success.
        * `retry_codes`: exit codes after which the job is retried. Default: all codes that are in no other list. If you
          give this option, a code that is in no list fails the job for good. If a signal ended the command, the code is
          the negative number of the signal.
        * `discard_codes`: exit codes that mean that nothing is left to do: the job ends as `discarded`.
        * `cpu_s`: seconds of CPU time, after which the system kills a process of the command.
        * `memory_mb`: MiB of address space of each process, where the system has such a limit.
        * `file_mb`: MiB that a process of the command may write to one file. When a file exceeds this size, the system
          ends the process with a signal. If the process ignores the signal, its write fails.
        * `options`: options of the jobs, as for `task`.

        Raise ValueError for an argv that cannot be run, and the errors of `task`. For example:

            report = tasks.command("report.nightly", ["python", "report.py", "--day", "{day}"], timeout=600)
            job = report.to_job(day="2026-05-01")
        """
        from worker_sdk.tasks.command import Command, function_of
        from worker_sdk.worker.command import Limits

        command = Command(
            argv,
            env=env or {},
            cwd=cwd,
            limits=Limits(cpu_s, memory_mb, file_mb),
            ok_codes=ok_codes,
            retry_codes=retry_codes,
            discard_codes=discard_codes,
        )
        task: Task[..., CommandOutput] = self.task(name, **options)(function_of(name, command))
        return task

    def every(
        self, *, minutes: int = 0, hours: int = 0, offset: int = 0, **options: "Unpack[DefinitionOptions]"
    ) -> "Scheduled":
        """Declare a definition that starts a task at this interval of real time: `tasks.every(minutes=5)(task)`.

        Workers ignore definitions: `jqmaster plan MODULE:tasks` shows what would change at the master, and `jqmaster
        apply` makes the changes. The call returns the task, so that it also works as a decorator above `@tasks.task`.

        * `minutes`, `hours`: length of the period.
        * `offset`: minutes from the start of each period to its instant. Periods are counted from midnight UTC of 1
          January 1970.
        * `options`: see `DefinitionOptions`.

        Raise TypeError for an option that no definition has, and ValueError for a name that is taken. For example:

            tasks.every(minutes=5)(clean_up)
        """
        return self._schedule({"every_minutes": minutes + 60 * hours, "offset": offset}, options)

    def cron(
        self, expression: str, *, tz: str = "UTC", **options: "Unpack[DefinitionOptions]"
    ) -> "Scheduled":
        """Declare a definition that starts a task by cron, as in `tasks.cron("0 3 * * *", tz="Asia/Tokyo")(task)`. The
        call returns the task. See `every`.

        * `expression`: five fields, with names, `L` and `#`, or `@daily` and the like.
        * `tz`: IANA name of the time zone.
        * `options`: see `DefinitionOptions`.

        Raise TypeError for an option that no definition has, and ValueError for a name that is taken. For example:

            tasks.cron("0 3 * * *", tz="Asia/Tokyo", arguments={"older_than_days": 30})(clean_up)
        """
        return self._schedule({"cron": expression}, {**options, "tz": tz})

    def definitions(self) -> dict[str, dict[str, Any]]:
        """Return the declared definitions by name, as `PUT /api/definitions/{name}` accepts them.

        Raise TypeError for arguments that do not fit their task, and for options that a definition cannot have.

        For example:

            print(list(tasks.definitions()))
        """
        return {name: declared.document() for name, declared in self._definitions.items()}

    def __repr__(self) -> str:
        return f"<Tasks: {some_of(self._tasks, 'none yet')}>"

    @property
    def names(self) -> list[str]:
        """The names of the tasks."""
        return sorted(self._tasks)

    def __iter__(self) -> Iterator[Task[..., Any]]:
        return iter(list(self._tasks.values()))

    def __len__(self) -> int:
        return len(self._tasks)

    def __contains__(self, name: object) -> bool:
        return name in self._tasks

    def __getitem__(self, name: str) -> Task[..., Any]:
        return self._tasks[name]

    async def aclose(self) -> None:
        """Close the connections to the `master` of these tasks. The tasks remain usable.

        For example:

            await tasks.aclose()
        """
        if (own := self._own_pushers) is not None:
            self._own_pushers = None
            await own.stop()

    def _schedule(self, schedule: Mapping[str, Any], options: Mapping[str, Any]) -> "Scheduled":
        from worker_sdk.tasks.scheduled import Declared, Scheduled

        def declare(task: Task[..., Any]) -> None:
            if not isinstance(task, Task) or task.tasks is not self:
                raise TypeError("`every` and `cron` accept only a task of the same Tasks object")
            declared = Declared(task, schedule, options)
            if declared.name in self._definitions:
                raise ValueError(f"there is a definition {declared.name} already; give another name")
            self._definitions[declared.name] = declared

        return Scheduled(declare)

    # --- for the rest of the package

    def handler_of(self, name: str) -> "Handler":
        """Return the handler that a worker calls to run the task. Raise TypeError if its types cannot be encoded."""
        from worker_sdk.tasks.handler import handler_of

        return handler_of(self._tasks[name])

    def own_pushers(self) -> "LazyPushers | None":
        """Return the clients for a call at this moment. Return None if these tasks have no master of their own. Inside
        a job, these clients wait longer for a master, as the clients of `ctx.enqueue` do."""
        if self._access is None:
            return None
        if self._own_pushers is None:
            load(OF_TASKS)
            from worker_sdk.tasks.client import OwnPushers

            self._own_pushers = OwnPushers(*self._access)
        return self._own_pushers.now()


def _handlers(task: Task[..., Any]) -> "dict[str, Handler]":
    from worker_sdk.tasks.handler import handler_of

    return {task.name: handler_of(task)}


# The child process of an isolated attempt looks up the handler in this attribute.
setattr(Task, ATTRIBUTE, property(_handlers))


def _place(task: Task[..., Any]) -> str:
    return f"{task.function.__module__}.{task.function.__qualname__}"


class _Anything:
    """If a function's first parameter accepts this type, it accepts anything, not only the context."""


class Decorator:
    """The result of `Tasks.task`, a decorator that makes a function a task."""

    __slots__ = ("_add",)

    def __init__(self, add: Callable[[Callable[..., Any]], Task[..., Any]]) -> None:
        self._add = add

    # A function with a GatherContext gets a list of arguments, one for each of several jobs.
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: "Callable[[list[ArgumentT], GatherContext], Coroutine[Any, Any, None]]", /
    ) -> "AsyncGatherTask[ArgumentT, None]": ...
    @overload
    def __call__(
        self, function: "Callable[[list[ArgumentT], GatherContext], None]", /
    ) -> "SyncGatherTask[ArgumentT, None]": ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self,
        function: (
            "Callable[[list[ArgumentT], GatherContext], Coroutine[Any, Any, Sequence[ResultT | Exception] | None]]"
        ),
        /,
    ) -> "AsyncGatherTask[ArgumentT, ResultT]": ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self,
        function: "Callable[[list[ArgumentT], GatherContext], Sequence[ResultT | Exception] | None]",
        /,
    ) -> "SyncGatherTask[ArgumentT, ResultT]": ...
    # A first parameter that is untyped or an `object` may or may not be the context, so accept calls with any
    # arguments.
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[_Anything, P], Coroutine[Any, Any, ResultT]], /
    ) -> "AsyncTask[..., ResultT]": ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[_Anything, P], ResultT], /
    ) -> "SyncTask[..., ResultT]": ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: "Callable[Concatenate[Context, P], Coroutine[Any, Any, ResultT]]", /
    ) -> "AsyncContextTask[P, ResultT]": ...
    @overload
    def __call__(
        self, function: "Callable[Concatenate[Context, P], ResultT]", /
    ) -> "SyncContextTask[P, ResultT]": ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[Any, Any, ResultT]], /
    ) -> "AsyncTask[P, ResultT]": ...
    @overload
    def __call__(self, function: Callable[P, ResultT], /) -> "SyncTask[P, ResultT]": ...
    def __call__(self, function: Callable[..., Any], /) -> Any:
        return self._add(function)

    def __repr__(self) -> str:
        return "<decorator of a task: write it above a function>"
