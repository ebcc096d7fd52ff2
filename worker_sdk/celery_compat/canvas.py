"""Signatures, chains, groups and chords of Celery as flows of a master."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn

from worker_sdk.celery_compat.guide import GUIDE, missing
from worker_sdk.celery_compat.process import PROCESS, KnownTask
from worker_sdk.celery_compat.result import AsyncResult, GroupResult
from worker_sdk.tasks import flow as flows
from worker_sdk.tasks.client import substitutes
from worker_sdk.tasks.flow import Flow, FlowHandles
from worker_sdk.tasks.task import TaskJob

__all__ = ["Signature", "chain", "chord", "group", "maybe_signature", "signature", "subtask"]

_MISSING: Final = {
    "chunks": "use group, or task.many",
    "xmap": "use group, or task.many",
    "xstarmap": "use group, or task.many",
    "abstract": "use Signature",
    "StampingVisitor": "use tags or headers",
}
_NO_LINKS: Final = (
    "link and link_error of Celery are missing here: use chain, or give a job After(jobs, when='finished')"
)


class Canvas:
    """A step of a flow: a signature, a chain, a group or a chord."""

    # Whether this step has several results, so that the next step gets a list of them.
    ends_with_many = False

    def place(self, flow: "_Placing", takes: str | None) -> "TaskJob[Any] | Flow[Any]":
        """Add the jobs of this canvas to the flow. `takes`: which results of the previous step the first jobs get.
        None: no results."""
        raise NotImplementedError

    def result(self, handles: "FlowHandles[Any]", placed: "_Placing") -> Any:
        """Return the result object."""
        raise NotImplementedError

    def with_arguments(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], options: Mapping[str, Any]
    ) -> Any:
        """Return a copy of the canvas. Its first steps have further arguments in front, and these options."""
        raise NotImplementedError

    def __or__(self, other: Any) -> "chain":
        return chain(self, other)

    def apply_async(
        self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> Any:
        """Enqueue the jobs, and return the result object.

        * `args`, `kwargs`: further arguments of the first step.
        * `options`: options of the first step.
        """
        whole = self.with_arguments(args or (), kwargs or {}, options)
        placed = _Placing()
        made = whole.place(placed, None)
        flow: Flow[Any] = Flow()
        flow.add(made)
        conf = PROCESS.conf
        if conf["task_always_eager"] and not substitutes:
            from worker_sdk.testing.kit import inline

            with inline(raises=bool(conf["task_eager_propagates"])):
                return whole.result(flow.enqueue(), placed)
        return whole.result(flow.enqueue(), placed)

    def delay(self, *args: Any, **kwargs: Any) -> Any:
        """Enqueue the jobs, with further arguments of the first step.

        * `args`, `kwargs`: the arguments.
        """
        return self.apply_async(args, kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.apply_async(args, kwargs)

    def link(self, *args: Any) -> NoReturn:
        """Raise an error: use `chain` instead.

        * `args`: the steps that Celery would run next.
        """
        raise TypeError(f"{_NO_LINKS}; {GUIDE}")

    link_error = on_error = link


class _Placing:
    """The jobs made from a canvas.

    * `jobs`: the jobs, by the identity of their signature.
    """

    def __init__(self) -> None:
        self.jobs: dict[int, TaskJob[Any]] = {}


class Signature(Canvas):
    """A call of a task as data.

    * `task`: the task, or its name.
    * `args`, `kwargs`: arguments.
    * `immutable`: the call takes no result of the previous step.
    * `options`: options of the call.
    """

    def __init__(  # noqa: PLR0917  as Celery has it
        self,
        task: Any,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        immutable: bool = False,
        app: Any = None,
        **further: Any,
    ) -> None:
        self._given = task
        self.args = tuple(args or ())
        self.kwargs = dict(kwargs or {})
        self.options = {**(options or {}), **further}
        self.immutable = immutable

    def __repr__(self) -> str:
        given = [*map(repr, self.args), *(f"{name}={value!r}" for name, value in self.kwargs.items())]
        return f"{self.name}({', '.join(given)})"

    @property
    def name(self) -> str:
        """The name of the task."""
        return self._given if isinstance(self._given, str) else str(self._given.name)

    @property
    def task(self) -> str:
        """The name of the task, as Celery has it."""
        return self.name

    @property
    def type(self) -> KnownTask:
        """The task. Raise LookupError for a name that no task of this process has."""
        if not isinstance(self._given, str):
            found: KnownTask = self._given
            return found
        if PROCESS.application is not None:
            PROCESS.application.finalize()
        if self._given not in PROCESS.tasks:
            raise LookupError(f"no task {self._given} in this process: import its module; {GUIDE}")
        return PROCESS.tasks[self._given]

    def set(self, immutable: bool | None = None, **options: Any) -> "Signature":
        """Set options of the call, and return this signature.

        * `immutable`: the call takes no result of the previous step.
        * `options`: as for `apply_async`.
        """
        if immutable is not None:
            self.immutable = immutable
        self.options.update(options)
        return self

    def clone(
        self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> "Signature":
        """Return a copy with further arguments in front, and options.

        * `args`, `kwargs`: the arguments.
        * `options`: as for `apply_async`.
        """
        return self.with_arguments(args, kwargs or {}, options)

    partial = clone

    def with_arguments(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], options: Mapping[str, Any]
    ) -> "Signature":
        further = ((), {}) if self.immutable else (tuple(args), dict(kwargs))
        return Signature(
            self._given,
            further[0] + self.args,
            {**self.kwargs, **further[1]},
            {**self.options, **options},
            self.immutable,
        )

    def apply_async(
        self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> AsyncResult:
        """Enqueue the call, and return its result object.

        * `args`: further arguments, in front of the arguments of the signature.
        * `kwargs`: further arguments by name.
        * `options`: as for `apply_async` of the task.
        """
        whole = self.with_arguments(args or (), kwargs or {}, options)
        found: AsyncResult = whole.type.apply_async(whole.args, whole.kwargs, **whole.options)
        return found

    def apply(self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """Run the call here and now.

        * `args`, `kwargs`, `options`: as for `apply_async`.
        """
        whole = self.with_arguments(args or (), kwargs or {}, {})
        return whole.type.apply(whole.args, whole.kwargs, **options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        whole = self.with_arguments(args, kwargs, {})
        return whole.type(*whole.args, **whole.kwargs)

    def place(self, flow: _Placing, takes: str | None) -> TaskJob[Any]:
        job: TaskJob[Any] = self.type.to_job(
            self.args, self.kwargs, self.options, None if self.immutable else takes
        )
        flow.jobs[id(self)] = job
        return job

    def result(self, handles: FlowHandles[Any], placed: _Placing) -> AsyncResult:
        return AsyncResult(handles[placed.jobs[id(self)]])


class chain(Canvas):  # noqa: N801 - Celery's name
    """Steps that run one after the other. Each step except the first takes the result of the previous step in front of
    its arguments. An immutable step does not.

    * `steps`: signatures, groups, chords and chains, or an iterable of them.
    """

    def __init__(self, *steps: Any) -> None:
        given = steps[0] if len(steps) == 1 and _is_many(steps[0]) else steps
        self.steps: list[Canvas] = []
        for step in given:
            self.steps += step.steps if isinstance(step, chain) else [_canvas(step)]

    @property
    def tasks(self) -> list[Canvas]:
        """The members of this signature, in order."""
        return self.steps

    @property
    def ends_with_many(self) -> bool:  # type: ignore[override]
        return bool(self.steps) and self.steps[-1].ends_with_many

    def with_arguments(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], options: Mapping[str, Any]
    ) -> "chain":
        if not self.steps:
            raise ValueError("a chain needs at least one step")
        return chain(self.steps[0].with_arguments(args, kwargs, options), *self.steps[1:])

    def place(self, flow: _Placing, takes: str | None) -> Flow[Any]:
        placed = []
        for step in self.steps:
            placed.append(step.place(flow, takes))
            takes = "all" if step.ends_with_many else "one"
        return flows.chain(*placed)

    def result(self, handles: FlowHandles[Any], placed: _Placing) -> Any:
        last = None
        for step in self.steps:
            found = step.result(handles, placed)
            found.parent, last = last, found
        return last


class group(Canvas):  # noqa: N801 - Celery's name
    """Steps that do not wait for each other.

    * `steps`: signatures, chains, chords and groups, or an iterable of them.
    """

    ends_with_many = True

    def __init__(self, *steps: Any) -> None:
        given = steps[0] if len(steps) == 1 and _is_many(steps[0]) else steps
        self.steps = [_canvas(step) for step in given]

    @property
    def tasks(self) -> list[Canvas]:
        """The members of this signature, in order."""
        return self.steps

    def __iter__(self) -> Iterator[Canvas]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def __or__(self, other: Any) -> "chain":
        return chain(self, other)

    def with_arguments(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], options: Mapping[str, Any]
    ) -> "group":
        return group([step.with_arguments(args, kwargs, options) for step in self.steps])

    def place(self, flow: _Placing, takes: str | None) -> Flow[Any]:
        return flows.group([step.place(flow, takes) for step in self.steps])

    def result(self, handles: FlowHandles[Any], placed: _Placing) -> GroupResult:
        return GroupResult([step.result(handles, placed) for step in self.steps])


class chord(Canvas):  # noqa: N801 - Celery's name
    """Steps, and a callback that runs when all steps have succeeded, and takes the list of their results.

    * `header`: the steps, as for `group`.
    * `body`: the callback. `chord(header)(callback)` enqueues it.
    """

    def __init__(self, header: Any, body: Any = None, **options: Any) -> None:
        if options:
            raise TypeError(f"{', '.join(sorted(options))}: not an option of chord; {GUIDE}")
        self.header = header if isinstance(header, group) else group(header)
        self.body = None if body is None else _canvas(body)

    def __call__(self, body: Any = None, **options: Any) -> Any:
        return (self if body is None else chord(self.header, body)).apply_async(**options)

    def with_arguments(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], options: Mapping[str, Any]
    ) -> "chord":
        return chord(self.header.with_arguments(args, kwargs, options), self._body())

    def place(self, flow: _Placing, takes: str | None) -> Flow[Any]:
        header, body = self.header.place(flow, takes), self._body().place(flow, "all")
        return flows.chain(header, body)

    def result(self, handles: FlowHandles[Any], placed: _Placing) -> Any:
        found = self._body().result(handles, placed)
        found.parent = self.header.result(handles, placed)
        return found

    def _body(self) -> Canvas:
        if self.body is None:
            raise TypeError("a chord needs a callback: chord(header)(callback)")
        return self.body


def signature(task: Any, *args: Any, **options: Any) -> Signature:
    """Return a signature of a task.

    * `task`: the task, its name, or a signature, which is returned.
    * `args`, `options`: as for `Signature`.
    """
    if isinstance(task, Signature):
        return task
    return Signature(task, *args, **options)


subtask = maybe_signature = signature


def _canvas(step: Any) -> Canvas:
    if isinstance(step, Canvas):
        return step
    raise TypeError(
        f"a step is a signature such as add.s(1), or a chain, group or chord of them, not a {type(step).__name__}; "
        f"{GUIDE}"
    )


def _is_many(given: Any) -> bool:
    return isinstance(given, Iterable) and not isinstance(given, Canvas | str | Mapping)


def __getattr__(name: str) -> NoReturn:
    missing(__name__, name, _MISSING)
