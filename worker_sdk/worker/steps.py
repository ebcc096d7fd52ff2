"""Steps of a handler: calls that run once for a job. Later attempts get their results."""

import inspect
import threading
import time
import typing
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from worker_sdk import forked
from worker_sdk.errors import Fail
from worker_sdk.wire import decode, encode
from worker_sdk.worker.kept_steps import DoneStep, joined, split
from worker_sdk.worker.progress import MAX_CHECKPOINT_BYTES

if TYPE_CHECKING:
    from worker_sdk.tasks.value_codec import ResultCodec

MAX_NAME_CHARS: Final = 100
_NIL: Final = b"\xc0"
# Held while a job's steps are created, because several threads of its handler may call their first step at once.
MAKING: Final = threading.Lock()


class JobSteps:
    """The steps of one job, in one attempt. Threads of its handler may share it.

    * `checkpoint`: the encoded checkpoint of the previous attempt, if there is one.
    * `save`: saves an encoded checkpoint, as `Reports.save` does.
    * `reserved_bytes`: the bytes of a checkpoint that steps may not use.
    """

    def __init__(
        self, checkpoint: bytes | None, save: "Callable[[bytes], Future[None]]", reserved_bytes: int = 0
    ) -> None:
        self._own, self._done = split(checkpoint)
        self._most = MAX_CHECKPOINT_BYTES - reserved_bytes
        self._save = save
        # The names of the steps that this attempt has called.
        self._called: set[str] = set()
        self._changes = self._acknowledged = 0
        # Held while a checkpoint is saved. Each checkpoint replaces the earlier checkpoints, so it must also contain
        # their data.
        self._lock = threading.Lock()
        forked.renew_in_child(self)

    def renew(self) -> None:
        self._lock = threading.Lock()

    def run(self, name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Run a step, and block until its result is saved. If the step has already ended, return the saved result."""
        codec = self._begin(name, function, args)
        if (done := self._done.get(name)) is not None:
            return _restored(codec, done)
        began_s = time.monotonic()
        try:
            value = function(*args, **kwargs)
            if inspect.iscoroutine(value):
                value.close()  # this avoids a warning: the coroutine never runs
                raise TypeError(
                    f"step {name}: {_name_of(function)} is an async function, but the handler is a def: make the "
                    "handler an async def, or pass a def function"
                )
        except BaseException:
            self._called.discard(name)
            raise
        result, saved = self._end(name, codec, value, began_s)
        saved.result()
        return result

    async def arun(self, name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Run a step, and block until its result is saved. If the step has already ended, return the saved result.
        `arun` does not block the event loop."""
        import asyncio

        if inspect.isfunction(function) and not inspect.iscoroutinefunction(inspect.unwrap(function)):
            raise TypeError(
                f"step {name}: {_name_of(function)} is a def function, which would block the event loop: write "
                f"ctx.step({name!r}, asyncio.to_thread, {_name_of(function)}, …)"
            )
        codec = self._begin(name, function, args)
        if (done := self._done.get(name)) is not None:
            return _restored(codec, done)
        began_s = time.monotonic()
        try:
            value = function(*args, **kwargs)
            if inspect.isawaitable(value):
                value = await value
        except BaseException:
            self._called.discard(name)
            raise
        result, saved = self._end(name, codec, value, began_s)
        await asyncio.wrap_future(saved)
        return result

    def save_own(self, own: bytes) -> "Future[None]":
        """Save a value of the handler together with the steps. Raise ValueError if they are too large together."""
        with self._lock:
            data = joined(own, self._done.values())
            if len(data) > self._most:
                raise ValueError(
                    f"a checkpoint and the results of steps have at most {self._most} bytes together, but "
                    f"these have {len(data)}"
                )
            self._own = own
            return self._save_all(data)

    def unsaved(self, own: bytes | None) -> bytes | None:
        """Return the checkpoint to save before the end of the attempt is reported. None: masters already have
        everything. `own`: a position that the handler has reached since its last save."""
        with self._lock:
            if own is not None and len(data := joined(own, self._done.values())) <= self._most:
                return data
            return joined(self._own, self._done.values()) if self._changes > self._acknowledged else None

    # --- the parts of a call

    def _begin(self, name: str, function: Callable[..., Any], args: Any) -> "ResultCodec":
        """Check a call before its function runs. Return the codec of its result."""
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_CHARS:
            raise ValueError(f"a step has a name of 1 to {MAX_NAME_CHARS} characters")
        if not callable(function):
            raise TypeError(
                f"step {name}: pass the function and its arguments, not a {type(function).__name__}"
            )
        codec = _codec_of(name, function, args)
        with self._lock:
            if name in self._called:
                raise ValueError(
                    f"step {name} is called twice in one attempt: make the names different, for example with an ID"
                )
            if (
                name not in self._done
                and len(joined(self._own, [*self._done.values(), DoneStep(name, 1 << 42, 1 << 31, _NIL)]))
                > self._most
            ):
                raise _too_large(name, self._most)
            self._called.add(name)
        return codec

    def _end(self, name: str, codec: "ResultCodec", value: Any, began_s: float) -> "tuple[Any, Future[None]]":
        """Return the result in the form that later attempts get, and a future that completes when a master has it.
        Raise Fail for a result that cannot be stored, because every further attempt would run the step again."""
        took_ms = round((time.monotonic() - began_s) * 1000)
        try:
            sent = encode(codec.encode(value))
            result = codec.decode(decode(sent))
        except (TypeError, ValueError, OverflowError, RecursionError) as exc:
            raise Fail(f"the result of step {name} cannot be kept: {exc}") from exc
        if codec.takes_anything and result != value:
            raise Fail(
                f"the result of step {name} would come back as a {type(result).__name__}: annotate the result of the "
                f"function, or return a value that MessagePack has a type for, not a {type(value).__name__}"
            )
        done = DoneStep(name, time.time_ns() // 1_000_000, took_ms, sent)
        with self._lock:
            data = joined(self._own, [*self._done.values(), done])
            if len(data) > self._most:
                raise _too_large(name, self._most, len(sent))
            self._done[name] = done
            self._changes += 1
            return result, self._save_all(data)

    def _save_all(self, data: bytes) -> "Future[None]":
        changes = self._changes
        saved = self._save(data)

        def answered(answer: "Future[None]") -> None:
            if answer.exception() is None:
                self._acknowledged = max(self._acknowledged, changes)

        saved.add_done_callback(answered)
        return saved


def _too_large(name: str, most: int, result_bytes: int = 0) -> Fail:
    its = f"with its result of {result_bytes} bytes, " if result_bytes else ""
    return Fail(
        f"step {name} cannot be kept: {its}the checkpoint and the results of steps exceed {most} bytes "
        "together. Return the data that later steps need, such as an ID, and store the rest elsewhere."
    )


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _codec_of(name: str, function: Callable[..., Any], args: Any) -> "ResultCodec":
    """Return the codec of the function's result, according to its annotation. Raise TypeError for a type that cannot be
    sent."""
    from worker_sdk.tasks.value_codec import ResultCodec

    if _name_of(function) == "to_thread" and args and callable(args[0]):
        function = args[0]
    while isinstance(function, partial):
        function = function.func
    try:
        hints = typing.get_type_hints(inspect.unwrap(function), include_extras=True)
    except TypeError:  # a callable object
        hints = {}
    except NameError as exc:
        raise TypeError(
            f"step {name}: an annotation of {_name_of(function)} cannot be resolved, because {exc}. Import the type "
            "when the program runs too, not only under TYPE_CHECKING."
        ) from None
    returns = hints.get("return", Any)
    # If `function` is a class, a call returns an instance. The annotations of the class do not describe the instance.
    return ResultCodec(f"step {name}: the result", Any if inspect.isclass(function) else returns)


def _restored(codec: "ResultCodec", done: DoneStep) -> Any:
    try:
        return codec.decode(decode(done.result))
    except ValueError as exc:
        raise ValueError(
            f"step {done.name}: the saved result does not fit the current annotation of its function ({exc}). Give the "
            "step another name to run it again."
        ) from None
