"""A task: a function with calls that can be enqueued as jobs."""

from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, Protocol, TypeVar, Unpack

from worker_sdk.errors import InvalidArgument
from worker_sdk.job import Job
from worker_sdk.loading import OF_TASKS, load
from worker_sdk.option_types import check_options
from worker_sdk.tasks.shown_signature import WithParametersOfTask
from worker_sdk.tasks.signature import Signature
from worker_sdk.worker.policies import ExceptionType, RetryOn

if TYPE_CHECKING:
    from worker_sdk.pusher.by_process import LazyPushers, Pushers
    from worker_sdk.sealing import Seal
    from worker_sdk.tasks.codec import Codec
    from worker_sdk.tasks.handle import JobHandle
    from worker_sdk.tasks.options import TaskOptions
    from worker_sdk.worker.context import Context
    from worker_sdk.worker.gather import Gather, GatherContext

P = ParamSpec("P")
ResultT_co = TypeVar("ResultT_co", covariant=True)
ArgumentT = TypeVar("ArgumentT")


# If a job has one of these options, it may be enqueued without becoming ready at once.
_WAITS: Final = frozenset({"delay", "run_at", "debounce"})


class Owner(Protocol):
    """The part of `Tasks` that its tasks use."""

    seal: "Seal | None"

    def own_pushers(self) -> "LazyPushers | None":
        """Return the clients of the tasks' own master, if they have one."""
        ...


class TaskJob(Job, Generic[ResultT_co]):
    """A job as data: the map that `Pusher.enqueue_many` accepts, with an ID. `Task.to_job` makes it.

    * `task`: the task. None: a test recorded the job, and no task made it.
    * `arguments`: the arguments of the call, by parameter name.
    * `options`: the options of the call and of the task.

    For example:

        job = make_thumbnail.to_job(42)
        print(job.id, job.arguments)
    """

    __slots__ = ("arguments", "options", "task")

    task: "Task[..., ResultT_co] | None"
    arguments: Mapping[str, Any]
    options: Mapping[str, Any]

    def __repr__(self) -> str:
        # Do not show the arguments, which may be secret.
        return f"<job {self.get('id', 'without an ID')} of {self.get('name')}>"

    @property
    def id(self) -> str:
        """The ID of the job."""
        return str(self["id"])

    def argument_for_any_id(self) -> Any:
        """Return the argument for a copy of the job. A master will choose the ID of the copy."""
        if self.task is None or self.task.seal is None:
            return self["argument"]
        return self.task.seal.sealed_for_name(
            self.task.codec.encode_arguments(self.arguments), self.task.name
        )


class _Maker:
    """Make the jobs of one task with the same options. Raise TypeError if a type of the task cannot be encoded."""

    def __init__(
        self, task: "Task[..., Any]", options: Mapping[str, Any], namespace: str | None = None
    ) -> None:
        load(OF_TASKS)
        from worker_sdk.pusher.jobs import PLAIN_OPTIONS, give_id, wire_options

        self._task = task
        self._options = options
        # The options that `TaskJob.options` shows.
        self._told = options if namespace is None else {**options, "namespace": namespace}
        self._bind, self._encode = task.codec.bind, task.codec.encode_arguments
        self._wire_options, self._give_id = wire_options, give_id
        self._seal = task.seal
        # The wire fields that all jobs of this maker share. `_new_fields` copies values that a caller could change.
        self._fields: Mapping[str, Any] | None = None
        fields = self._new_fields()
        if self._seal is not None and any(
            "key" not in fields.get(option, "key") for option in ("unique", "debounce")
        ):
            raise TypeError(
                f"task {task.name}: its arguments are sealed, so masters cannot compare them: give Unique and "
                "Debounce a key"
            )
        if all(type(value) in PLAIN_OPTIONS for value in fields.values() if value is not None):
            self._fields = fields

    def make(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> TaskJob[Any]:
        """Return the job of one call. Raise InvalidArgument if the arguments do not fit."""
        arguments = self._bind(args, kwargs)
        job: TaskJob[Any] = TaskJob(self._fields or self._new_fields())
        job["argument"] = self._encode(arguments)
        if "id" not in job:
            self._give_id(job)
        if self._seal is not None:
            self._seal.seal_job(job)
        job.task, job.arguments, job.options = self._task, arguments, self._told
        return job

    def _new_fields(self) -> dict[str, Any]:
        return {"name": self._task.name, "argument": None, **self._wire_options(self._options)}


def _first_state(job: Mapping[str, Any]) -> str:
    if "after" in job:
        return "awaiting_jobs"
    return "ready" if _WAITS.isdisjoint(job) else "scheduled"


class Calls(Generic[P, ResultT_co]):
    """Ways to enqueue calls of a task, with the options that `using` has set.

    For example:

        handle = make_thumbnail.using(delay=60).enqueue(42)
    """

    __slots__ = ("_maker", "_namespace", "_options", "_task")

    def __init__(
        self, task: "Task[P, ResultT_co]", options: Mapping[str, Any], namespace: str | None = None
    ) -> None:
        self._task = task
        self._options = options
        self._namespace = namespace
        self._maker: _Maker | None = None

    def using(self, **options: "Unpack[TaskOptions]") -> "Calls[P, ResultT_co]":
        """Return the same task with options for the jobs that are enqueued through it. These options take precedence
        over the options of the task. Raise TypeError for an unknown option, and for a value of a wrong type. The call
        that enqueues raises ValueError for an invalid namespace.

        * `options`: see `TaskOptions`.

        For example:

            urgent = make_thumbnail.using(priority=-1, timeout=60)
            handle = urgent.enqueue(42)
        """
        load(("worker_sdk.pusher.jobs",))
        from worker_sdk.pusher.jobs import JobOptions, unknown_options

        namespace = options.pop("namespace", self._namespace)
        if unknown := options.keys() - JobOptions.__annotations__.keys():
            raise unknown_options(unknown)
        check_options(options)
        if namespace is not None and not isinstance(namespace, str):
            raise TypeError(f"namespace is {namespace!r}: give its name as text")
        return Calls(self._task, {**self._options, **options}, namespace)

    def __repr__(self) -> str:
        return f"<task {self._task.name} with {', '.join(self._options) or 'no options'}>"

    if not TYPE_CHECKING:  # hidden from type checkers, which would otherwise accept any attribute

        def __getattr__(self, name: str) -> Any:
            from worker_sdk.other_queues import TASK_METHODS, missing_attribute

            raise missing_attribute("a task", name, TASK_METHODS)

    def to_job(self, /, *args: P.args, **kwargs: P.kwargs) -> TaskJob[ResultT_co]:
        """Return the job of a call as data, without enqueueing it. `many` and `Pusher.enqueue_many` accept it.

        The arguments are those of the function. Raise TypeError if they do not fit. Also raise TypeError after
        `using(namespace=…)`, because the namespace is chosen by the call that enqueues the job.

        For example:

            jobs = [make_thumbnail.to_job(42), make_thumbnail.to_job(43, width=640)]
            handles = make_thumbnail.many(jobs)
        """
        if self._namespace is not None:
            raise TypeError(
                f"{self._task.name}: to_job makes a job that belongs to no namespace: call to_job on the task, and "
                "give the job to using(namespace=…).many"
            )
        try:
            return (self._maker or self._new_maker()).make(args, kwargs)
        except InvalidArgument as exc:
            # Mention INPUT, because jobs made by `to_job` are often steps of a flow.
            problems = [
                (name, f"{what}; give it the default INPUT, if it takes the result of the previous step")
                if what == "is missing"
                else (name, what)
                for name, what in exc.problems
            ]
            raise InvalidArgument(exc.task, problems) from None

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> "JobHandle[ResultT_co]":
        """Enqueue a call of the function as a job, and return its handle once a master has stored it.

        The arguments are those of the function, without the context. Raise InvalidArgument, which is a TypeError, if
        they do not fit. Raise RefusedError if the master refuses the job, and UnavailableError if no master answers:

            handle = make_thumbnail.enqueue(42, width=640)
            print(handle.id)
        """
        job = (self._maker or self._new_maker()).make(args, kwargs)
        pushers = self._task.pushers(self._namespace)
        return self._task.handle_of(job, pushers.sync_pusher().enqueue_job(job), pushers)

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> "JobHandle[ResultT_co]":
        """Enqueue a call of the function as a job, and return its handle once a master has stored it. `aenqueue` does
        not block the event loop.

        The arguments are those of the function, without the context. Raise InvalidArgument, which is a TypeError, if
        they do not fit. Raise RefusedError if the master refuses the job, and UnavailableError if no master answers:

            handle = await make_thumbnail.aenqueue(42, width=640)
            print(handle.id)
        """
        job = (self._maker or self._new_maker()).make(args, kwargs)
        pushers = self._task.pushers(self._namespace)
        return self._task.handle_of(job, await pushers.pusher().enqueue_job(job), pushers)

    def many(self, calls: Iterable[TaskJob[Any] | Mapping[str, Any]]) -> "list[JobHandle[ResultT_co]]":
        """Enqueue any number of calls, and return their handles in order.

        * `calls`: an iterable of jobs from `to_job` of this task, or of maps of arguments by name.

        The iterable is read while it is sent, in chunks of up to 1,000 jobs. Raise InvalidArgument for a call that does
        not fit, RefusedError if the master refuses a chunk, and UnavailableError if no master answers. `accepted_ids`
        of the error lists the jobs that were accepted before:

            handles = make_thumbnail.many({"photo_id": number} for number in range(20))
        """
        states: list[str] = []
        pushers = self._task.pushers(self._namespace)
        ids = pushers.sync_pusher().enqueue_many(self._recording_states(calls, states))
        return self._handles(states, ids, pushers)

    async def amany(
        self,
        calls: "Iterable[TaskJob[Any] | Mapping[str, Any]] | AsyncIterable[TaskJob[Any] | Mapping[str, Any]]",
    ) -> "list[JobHandle[ResultT_co]]":
        """Enqueue any number of calls, and return their handles in order. `amany` does not block the event loop.

        * `calls`: an iterable, or an async one, of jobs from `to_job` of this task, or of maps of arguments by name.

        The iterable is read while it is sent, in chunks of up to 1,000 jobs. Raise InvalidArgument for a call that
        does not fit, RefusedError if the master refuses a chunk, and UnavailableError if no master answers.
        `accepted_ids` of the error lists the jobs that were accepted before:

            handles = await make_thumbnail.amany({"photo_id": number} for number in range(20))
        """
        states: list[str] = []
        pushers = self._task.pushers(self._namespace)
        if isinstance(calls, AsyncIterable):
            ids = await pushers.pusher().enqueue_many(self._arecording_states(calls, states))
        else:
            ids = await pushers.pusher().enqueue_many(self._recording_states(calls, states))
        return self._handles(states, ids, pushers)

    def _handles(
        self, states: list[str], ids: Sequence[str], pushers: "Pushers"
    ) -> "list[JobHandle[ResultT_co]]":
        from worker_sdk.tasks.handle import JobHandle

        task = self._task
        return [
            JobHandle(task, job_id, pushers, status=state) for state, job_id in zip(states, ids, strict=True)
        ]

    def _recording_states(
        self, calls: Iterable[TaskJob[Any] | Mapping[str, Any]], states: list[str]
    ) -> Iterator[TaskJob[Any]]:
        for call in calls:
            job = self._job(call)
            states.append(_first_state(job))
            yield job

    async def _arecording_states(
        self, calls: "AsyncIterable[TaskJob[Any] | Mapping[str, Any]]", states: list[str]
    ) -> "AsyncIterator[TaskJob[Any]]":
        async for call in calls:
            job = self._job(call)
            states.append(_first_state(job))
            yield job

    def _new_maker(self) -> _Maker:
        self._maker = _Maker(self._task, self._options, self._namespace)
        return self._maker

    def _job(self, call: "TaskJob[Any] | Mapping[str, Any]") -> TaskJob[Any]:
        if isinstance(call, TaskJob):
            if call.task is not self._task:
                raise TypeError(
                    f"all jobs of one call must be of {self._task.name}, but one is of {call['name']}"
                )
            return call
        if not isinstance(call, Mapping):
            raise TypeError(
                f"{self._task.name}: a call is a job from to_job, or a map of arguments, not a {type(call).__name__}"
            )
        return (self._maker or self._new_maker()).make((), call)


if not TYPE_CHECKING:  # hidden from type checkers, which know the parameters from `P`

    def _handle_class() -> Any:
        from worker_sdk.tasks.handle import JobHandle

        return JobHandle

    Calls.to_job = WithParametersOfTask(Calls.to_job, lambda: TaskJob)
    Calls.enqueue = WithParametersOfTask(Calls.enqueue, _handle_class)
    Calls.aenqueue = WithParametersOfTask(Calls.aenqueue, _handle_class)


class Task(Calls[P, ResultT_co]):
    """A function with calls that can be enqueued as jobs. `Tasks.task` makes it. A call of the task calls the function
    directly:

        handle = make_thumbnail.enqueue(42)
        here = make_thumbnail(42)

    A direct call is not retried, and has no timeout. If it omits a `Context` with the default `INJECTED`, the function
    gets the context of the job that makes the call. Outside of a job, the function gets a new context, which drops
    progress and checkpoints. Raise TypeError if the call omits a parameter with `Depends` or `INPUT`.

    * `name`: name of its jobs.
    * `function`: the function.
    * `options`: options of its jobs, which `using` can replace.
    """

    __name__: str

    def __init__(
        self,
        tasks: Owner,
        name: str,
        function: Callable[..., Any],
        options: Mapping[str, Any],
        *,
        retry_on: tuple[RetryOn, ...],
        discard_on: tuple[ExceptionType, ...],
        confirm_start: bool,
        isolated: bool,
        version: str,
        gather: "Gather | None" = None,
    ) -> None:
        super().__init__(self, options)
        self.tasks = tasks
        self.name = name
        self.function = function
        self.options = options
        self.retry_on = retry_on
        self.discard_on = discard_on
        self.confirm_start = confirm_start
        self.isolated = isolated
        self.version = version
        self.gather = gather
        self.signature = Signature(name, function, gathers=gather is not None)
        self._codec: Codec | None = None
        # Methods that show the parameters of the function, by name.
        self.shown_methods: dict[str, Callable[..., Any]] = {}
        for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
            setattr(self, attribute, getattr(function, attribute))
        self.__wrapped__ = function

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if self.gather is not None or not self.signature.omitted(args, kwargs):
            return self.function(*args, **kwargs)
        from worker_sdk.tasks.direct_call import filled

        return self.function(*args, **filled(self, args, kwargs))

    def __repr__(self) -> str:
        return f"<task {self.name}>"

    def __reduce__(self) -> str:
        # Pickle a task by reference, like a function.
        return str(self.function.__qualname__)

    def handle(self, job_id: str) -> "JobHandle[ResultT_co]":
        """Return the handle of a job of this task that was enqueued elsewhere.

        * `job_id`: ID of the job.

        For example:

            handle = make_thumbnail.handle(job_id)
            print(handle.refresh().status)
        """
        load(OF_TASKS)
        from worker_sdk.tasks.handle import JobHandle

        return JobHandle(self, job_id, self.pushers())

    # --- for the rest of the package

    @property
    def seal(self) -> "Seal | None":
        """Return the `Seal` of the jobs of this task, if they are sealed."""
        return self.tasks.seal

    @property
    def codec(self) -> "Codec":
        """Return the codec of arguments and results. Raise TypeError if a type cannot be encoded."""
        if self._codec is None:
            load(("worker_sdk.tasks.codec",))
            from worker_sdk.tasks.codec import Codec

            self._codec = Codec(self.name, self.signature)
        return self._codec

    def decode_result(self, value: Any) -> ResultT_co:
        """Return the result as the type of the annotation. Raise ValueError if it does not fit."""
        found: ResultT_co = self.codec.decode_result(value)
        return found

    def pushers(self, namespace: str | None = None) -> "Pushers":
        """Return the clients for a call at this moment. `namespace`: the namespace to use instead of the namespace of
        the tasks or of the process."""
        from worker_sdk.tasks.client import pushers_for

        return pushers_for(self.tasks.own_pushers(), namespace=namespace)

    def handle_of(self, job: TaskJob[Any], job_id: str, pushers: "Pushers") -> "JobHandle[ResultT_co]":
        """Return the handle of a job that was enqueued. If the job has a key of any kind, `job_id` may be the ID of an
        earlier job."""
        from worker_sdk.tasks.handle import JobHandle

        return JobHandle(self, job_id, pushers, status=_first_state(job))


if TYPE_CHECKING:
    # The types of decorated functions, for type checkers. A direct call gives all parameters. A call that enqueues
    # omits the context.

    class SyncTask(Task[P, ResultT_co]):
        def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> ResultT_co: ...

    class AsyncTask(Task[P, ResultT_co]):
        def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, ResultT_co]: ...

    class SyncGatherTask(Task[[ArgumentT], ResultT_co]):
        def __call__(
            self, arguments: list[ArgumentT], ctx: GatherContext, /
        ) -> Sequence[ResultT_co | Exception] | None: ...

    class AsyncGatherTask(Task[[ArgumentT], ResultT_co]):
        def __call__(
            self, arguments: list[ArgumentT], ctx: GatherContext, /
        ) -> Coroutine[Any, Any, Sequence[ResultT_co | Exception] | None]: ...

    class SyncContextTask(Task[P, ResultT_co]):
        def __call__(self, ctx: Context, /, *args: P.args, **kwargs: P.kwargs) -> ResultT_co: ...

    class AsyncContextTask(Task[P, ResultT_co]):
        def __call__(
            self, ctx: Context, /, *args: P.args, **kwargs: P.kwargs
        ) -> Coroutine[Any, Any, ResultT_co]: ...
