"""Calls of a handler's context that save data for later attempts: checkpoints and results of steps."""

from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast, overload

from worker_sdk.worker.enqueue_calls import EnqueueCalls, is_in_loop

if TYPE_CHECKING:  # these are slow to import, and modules of handlers do not need them
    from concurrent.futures import Future

    from worker_sdk.sealing import Seal
    from worker_sdk.worker.cancel_signal import CancelSignal
    from worker_sdk.worker.progress import Reports
    from worker_sdk.worker.steps import JobSteps

    class Saved:
        """The result of `ctx.save` and `ctx.emit`: an async handler awaits it."""

        def __await__(self) -> Generator[Any, None, None]: ...


T = TypeVar("T")
P = ParamSpec("P")


class CheckpointCalls(EnqueueCalls):
    """The part of a `Context` that saves checkpoints and runs steps. If the task of the job has a seal, all of this
    data is sealed.

    * `unsaved`: a position that `iterate` has reached since the last checkpoint.
    """

    __slots__ = ("_checkpoint", "_reports", "_seal", "_steps", "_token", "cancelled", "unsaved")

    cancelled: "CancelSignal"
    unsaved: int | None
    _token: str
    _reports: "Reports"
    _checkpoint: bytes | None
    _steps: "JobSteps | None"
    _seal: "Seal | None"

    @property
    def checkpoint(self) -> Any:
        """The last value that this job saved, in this attempt or an earlier attempt. None: it has saved no value."""
        if self._checkpoint is None:
            return None
        from worker_sdk.worker.kept_steps import own_value

        return own_value(self._checkpoint)

    def save(self, value: Any) -> "Saved":
        """Save a checkpoint, and return when a master has it. The next attempt finds the value in `checkpoint`, on any
        worker, even after a crash of this one.

        * `value`: any value that MessagePack can encode, up to 16 KiB together with the results of steps. Save a
          position or a cursor, not the work itself.

        Await it in an `async def` handler; in a `def` handler it blocks. Raise ValueError for a value that is too
        large, and CheckpointNotSaved if the attempt may not save checkpoints any more.

        For example:

            begin = ctx.checkpoint or 0
            ctx.save(begin + 100)
        """
        saved = self._begin_to_save(value)
        if not is_in_loop():
            return cast("Saved", saved.result())
        import asyncio

        return cast("Saved", asyncio.wrap_future(saved))

    def save_and_wait(self, value: Any) -> None:
        """Save a checkpoint as `save` does, but always block, even in an event loop.

        * `value`: as for `save`.

        Raise ValueError for a value that is too large, and CheckpointNotSaved if the attempt may not save checkpoints
        any more. For example:

            ctx.save_and_wait(100)
        """
        self._begin_to_save(value).result()

    def _begin_to_save(self, value: Any) -> "Future[None]":
        from worker_sdk.wire import encode
        from worker_sdk.worker.progress import MAX_CHECKPOINT_BYTES

        data = encode(value)
        if (steps := self._kept_steps()) is not None:
            return steps.save_own(data)
        most = (
            MAX_CHECKPOINT_BYTES if self._seal is None else MAX_CHECKPOINT_BYTES - self._seal.checkpoint_bytes
        )
        if len(data) > most:
            raise ValueError(f"a checkpoint has at most {most} bytes, but this one has {len(data)}")
        return self._save(data)

    def _save(self, data: bytes) -> "Future[None]":
        sent = data if self._seal is None else self._seal.sealed_checkpoint(data, self.job_id)
        saved = self._reports.save(self._token, sent)
        # Return a checkpoint to later calls of this attempt only after a master has saved it.
        saved.add_done_callback(lambda done: None if done.exception() else self._saved(data))
        return saved

    def _saved(self, data: bytes) -> None:
        self._checkpoint = data

    def take_unsaved(self) -> bytes | None:
        """Return the checkpoint that must be saved before the end of the attempt is reported. Return None if a master
        already has the newest checkpoint."""
        steps = self._kept_steps()
        if self.unsaved is None and steps is None:
            return None
        from worker_sdk.wire import encode

        position, self.unsaved = None if self.unsaved is None else encode(self.unsaved), None
        unsaved = position if steps is None else steps.unsaved(position)
        if unsaved is None or self._seal is None:
            return unsaved
        return self._seal.sealed_checkpoint(unsaved, self.job_id)

    def open_with(self, seal: "Seal") -> None:
        """Open the checkpoint and the inputs of the job, and seal the values that the handler saves and emits. Raise
        SealError if they cannot be opened."""
        if self._seal is None:
            self._seal = seal
            self._checkpoint = seal.opened_checkpoint(self._checkpoint, self.job_id)

    # --- steps

    @overload
    def step(
        self, name: str, function: "Callable[P, Coroutine[Any, Any, T]]", /, *args: P.args, **kwargs: P.kwargs
    ) -> "Coroutine[Any, Any, T]": ...
    @overload
    def step(self, name: str, function: "Callable[P, T]", /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function once in the life of the job, and return its result. Later attempts, on any worker, get the
        saved result without a call. The result is saved before the next step begins.

        * `name`: name of the step, the same in all attempts and versions. Each step of a job needs a different name.
        * `function`, `args`, `kwargs`: the call. In an `async def` handler, the function is `async def`, and you await
          the step. In a `def` handler, the function is `def`, and the step blocks. The result gets the annotated type.
          All results and the checkpoint together may have 16 KiB.

        A later attempt calls the function again only after a crash between the end of the function and the save.
        Exceptions of the function pass through, and nothing is saved. Raise Fail for a result that cannot be stored,
        Interrupted if the job is to stop, and CheckpointNotSaved if another worker has the job by now:

            def charge(order: int) -> str:
                return f"receipt-{order}"

            receipt = ctx.step("charge", charge, 42)
        """
        if self.cancelled:
            from worker_sdk.errors import Interrupted

            raise Interrupted
        steps = self._steps or self._new_steps()
        if is_in_loop():
            return steps.arun(name, function, args, kwargs)
        return steps.run(name, function, args, kwargs)

    def _kept_steps(self) -> "JobSteps | None":
        """Return the steps of this job. Return None if the job has no steps so far."""
        if self._steps is None and self._checkpoint is not None:
            from worker_sdk.worker.kept_steps import has_steps

            if has_steps(self._checkpoint):
                return self._new_steps()
        return self._steps

    def _new_steps(self) -> "JobSteps":
        from worker_sdk.worker.steps import MAKING, JobSteps

        with MAKING:
            if self._steps is None:
                self._steps = JobSteps(
                    self._checkpoint, self._save, 0 if self._seal is None else self._seal.checkpoint_bytes
                )
            return self._steps
