"""The registered handlers of a worker, by name."""

import inspect
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from worker_sdk.dependencies.depends import Dependency, dependencies_of
from worker_sdk.worker.names import ATTRIBUTE, check_name
from worker_sdk.worker.policies import ExceptionType, RetryOn, as_discarded, as_retry_policies

if TYPE_CHECKING:
    from worker_sdk.sealing import Seal
    from worker_sdk.worker.context import Context
    from worker_sdk.worker.gather import Gather

Function = Callable[..., Any]


class HandlerKind(Enum):
    """The place where a handler runs."""

    ASYNC = "async"
    SYNC = "sync"
    ISOLATED = "isolated"
    GATHERED = "gathered"  # runs with other jobs in one call, in the event loop or in a thread


@dataclass(frozen=True, slots=True)
class FunctionOrigin:
    """Says where another process can import a function. `script`: the file that was started as `__main__`."""

    module: str
    qualname: str
    script: str | None = None
    is_module_run: bool = False


@dataclass(frozen=True, slots=True)
class Handler:
    """A handler. Its `function` is called with (argument, ctx) if `takes_context`, otherwise with (argument). The
    function also gets the values of `dependencies` by name.

    * `contract`: the contract of the name, for masters. It is a map of `version`, `argument_schema` and `options`, or a
      function that returns this map when a worker starts.
    * `around`: the middleware of an isolated handler. It runs in the worker, and is called with the context and with a
      function that waits for the process.
    """

    name: str
    kind: HandlerKind
    function: Function
    takes_context: bool
    is_coroutine: bool
    retry_on: tuple[RetryOn, ...] = ()
    discard_on: tuple[ExceptionType, ...] = ()
    confirm_start: bool = False
    origin: FunctionOrigin | None = None
    contract: Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None = None
    dependencies: Mapping[str, Dependency] = field(default_factory=dict)
    around: "Callable[[Context, Callable[[], Any]], Any] | None" = None
    # The codes of failures after which a job is retried. None: all codes.
    retry_codes: frozenset[str] | None = None
    # How jobs are collected for one call. None: the function runs one job at a time.
    gather: "Gather | None" = None
    # Opens the sealed values of jobs, and seals their results.
    seal: "Seal | None" = None

    def call(self, argument: Any, ctx: Any) -> Any:
        """Call the function. Return its result, or an awaitable of it if `is_coroutine`."""
        return self.function(argument, ctx) if self.takes_context else self.function(argument)


class Registry:
    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}
        self.get = self._handlers.get

    @property
    def names(self) -> list[str]:
        return sorted(self._handlers)

    def contracts(self) -> dict[str, Mapping[str, Any]]:
        """Return the contracts for masters, by name."""
        contracts = {}
        for name, handler in self._handlers.items():
            if contract := handler.contract() if callable(handler.contract) else handler.contract:
                contracts[name] = contract
        return contracts

    def add(
        self,
        name: str,
        function: Function,
        *,
        retry_on: Any = None,
        discard_on: Any = None,
        confirm_start: bool = False,
        isolated: bool = False,
        contract: Mapping[str, Any] | None = None,
        retry_codes: Iterable[str] | None = None,
    ) -> Handler:
        """Register a function. Raise ValueError for a name that is invalid or taken, and TypeError for a function with
        unsuitable parameters."""
        check_name(name)
        if name in self._handlers:
            raise ValueError(f"{name} has a handler already")
        is_coroutine = inspect.iscoroutinefunction(function)
        kind = HandlerKind.ISOLATED if isolated else HandlerKind.ASYNC if is_coroutine else HandlerKind.SYNC
        handler = Handler(
            name,
            kind,
            function,
            _takes_context(function),
            is_coroutine,
            as_retry_policies(retry_on),
            as_discarded(discard_on),
            confirm_start,
            origin_of(function) if isolated else None,
            contract,
            dependencies_of(function),
            retry_codes=None if retry_codes is None else frozenset(retry_codes),
        )
        if isolated:
            setattr(function, ATTRIBUTE, {**getattr(function, ATTRIBUTE, {}), name: handler})
        self.put(handler)
        return handler

    def put(self, handler: Handler) -> None:
        """Register a handler. Raise ValueError if the name is taken."""
        if handler.name in self._handlers:
            raise ValueError(f"{handler.name} has a handler already")
        self._handlers[handler.name] = handler


def _takes_context(function: Function) -> bool:
    """Return whether a function takes the context. Raise TypeError if it takes anything but (argument, ctx) or
    (argument)."""
    dependencies = dependencies_of(function)
    everything = list(inspect.signature(function).parameters.values())
    parameters = [p for p in everything if p.name not in dependencies]
    by_position = [p for p in everything if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if any(
        p.name in dependencies
        and (p.kind is p.POSITIONAL_ONLY or any(q in parameters for q in by_position[n:]))
        for n, p in enumerate(by_position)
    ):
        raise TypeError(
            "parameters with Depends must come after (argument, ctx) or (argument), and are passed by name"
        )
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters):
        raise TypeError("a handler takes (argument, ctx) or (argument)")
    required = sum(p.default is p.empty for p in positional)
    if any(p.kind is p.VAR_POSITIONAL for p in parameters) or len(positional) >= 2:
        if required > 2:
            raise TypeError("a handler takes (argument, ctx) or (argument)")
        return True
    if len(positional) != 1:
        raise TypeError("a handler takes (argument, ctx) or (argument)")
    return False


def origin_of(function: Function) -> FunctionOrigin:
    """Return where another process can import a function. Raise TypeError if another process cannot import it."""
    qualname = function.__qualname__
    if "<" in qualname:
        raise TypeError(
            "an isolated handler must be at the top level of a module, from which its process imports it"
        )
    if function.__module__ != "__main__":
        return FunctionOrigin(function.__module__, qualname)
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return FunctionOrigin(spec.name, qualname, is_module_run=True)
    script = getattr(main, "__file__", None)
    if script is None:
        raise TypeError("an isolated handler must be in a file")
    return FunctionOrigin("__main__", qualname, script=script)


async def call_async(handler: Handler, argument: Any, ctx: Any) -> Any:
    answer: Awaitable[Any] = handler.call(argument, ctx)
    return await answer
