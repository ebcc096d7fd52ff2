"""The context of a handler: its job, and the calls that it may make."""

from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, cast, overload

from worker_sdk.worker.cancel_signal import CancelSignal
from worker_sdk.worker.enqueue_calls import EnqueueCalls, is_in_loop
from worker_sdk.worker.lease import now_s
from worker_sdk.worker.no_value import NO_VALUE

if TYPE_CHECKING:  # slow to import, and a module of handlers does not need it
    import logging
    from concurrent.futures import Future
    from datetime import datetime

    from worker_sdk.forms import Form
    from worker_sdk.protocol import JobInput
    from worker_sdk.pusher.by_process import Pushers
    from worker_sdk.sealing import Seal
    from worker_sdk.worker.challenge import Callback, Challenge, Opened
    from worker_sdk.worker.challenges import Challenges
    from worker_sdk.worker.inputs import Inputs
    from worker_sdk.worker.iteration import Iteration, Source
    from worker_sdk.worker.job_log import LogLines
    from worker_sdk.worker.progress import Reports
    from worker_sdk.worker.steps import JobSteps

    class Saved:
        """The result of `ctx.save` and `ctx.emit`: an awaitable in an async handler."""

        def __await__(self) -> Generator[Any, None, None]: ...


T = TypeVar("T")
P = ParamSpec("P")

# The context of the job that runs here, if it is a task, or a handler with middleware or dependencies.
running_job: Final[ContextVar["Context | None"]] = ContextVar("running_job", default=None)


def pushers_of(ctx: "Context") -> "Pushers":
    """Return the clients of the worker's masters."""
    return ctx._pushers


def _callbacks_of(sent: Iterable[Mapping[str, Any]]) -> "list[Callback]":
    from worker_sdk.worker.challenge import callback_of

    return [callback_of(one) for one in sent]


class Context(EnqueueCalls):
    """One attempt of a job: the second argument of a handler, and the parameter of a task that is annotated so:

        def resize(argument: list[str], ctx: Context) -> int:
            for path in ctx.track(argument):
                ctx.logger.info("resizing %s", path)
            return len(argument)

    * `job_id`, `name`: ID and name of the job.
    * `attempt`: number of this attempt, counted from 1.
    * `fence`: a number that grows with every claim of the job. Store it beside the data that the handler writes, and
      refuse to overwrite a greater one. Then a late run does no harm.
    * `headers`: the headers of the job.
    * `checkpoint`: what an earlier attempt saved.
    * `batch`: ID of the batch of which the job is a member, or for which it is a callback; None without one. A member
      adds further jobs with it: `task.using(batch=ctx.batch).enqueue(…)`.
    * `inputs`: the jobs for which this one waited, and their results.
    * `callbacks`: the callbacks of the challenge that this attempt opened; empty before they came.
    * `challenge`: the challenge that this call of the handler opened; None: it opened none.
    * `cancelled`: the `CancelSignal` that tells the handler to stop.
    """

    __slots__ = (
        "_challenges",
        "_checkpoint",
        "_inputs",
        "_log",
        "_logger",
        "_reports",
        "_seal",
        "_steps",
        "_token",
        "answer_within_s",
        "attempt",
        "batch",
        "callbacks",
        "cancelled",
        "challenge",
        "deadline_s",
        "fence",
        "headers",
        "name",
        "unsaved",
    )

    def __init__(  # noqa: PLR0917  named arguments would take a third of its time
        self,
        job_id: str,
        name: str,
        attempt: int,
        fence: int,
        headers: Mapping[str, str],
        deadline_s: float,
        pushers: "Pushers",
        reports: "Reports",
        token: str,
        checkpoint: bytes | None = None,
        batch: str | None = None,
        callbacks: Iterable[Mapping[str, Any]] = (),
        challenges: "Challenges | None" = None,
        inputs: "Iterable[JobInput]" = (),
        log: "LogLines | None" = None,
    ) -> None:
        self.job_id = job_id
        self.name = name
        self.attempt = attempt
        self.fence = fence
        self.headers = headers
        self.deadline_s = deadline_s  # of `lease.now_s`
        self.cancelled = CancelSignal()
        self._pushers = pushers
        self._once_calls = 0
        self._reports = reports
        self._token = token
        self._checkpoint = checkpoint
        self._steps: JobSteps | None = None
        self._seal: Seal | None = None
        self.batch = batch
        # A position that `iterate` has reached since the last checkpoint.
        self.unsaved: int | None = None
        self.callbacks: list[Callback] = _callbacks_of(callbacks) if callbacks else []
        self.challenge: Challenge | None = None
        self.answer_within_s = 86_400.0
        self._challenges = challenges
        # The inputs as they were received, until a handler reads them.
        self._inputs: Inputs | Iterable[JobInput] = inputs
        self._log = log
        self._logger: logging.LoggerAdapter[logging.Logger] | None = None

    def __repr__(self) -> str:
        return f"<Context of job {self.job_id} of {self.name}, attempt {self.attempt}>"

    @property
    def deadline(self) -> "datetime":
        """End of this attempt's time, in UTC."""
        from datetime import UTC, datetime, timedelta

        return datetime.now(UTC) + timedelta(seconds=self.deadline_s - now_s())

    def remaining(self) -> float:
        """Return the seconds until `deadline`, at least 0.

        For example:

            if ctx.remaining() < 5:
                raise Retry(message="too little time is left")
        """
        return max(0.0, self.deadline_s - now_s())

    # --- order

    @property
    def inputs(self) -> "Inputs":
        """The jobs for which this one waited (the option `after`), in the order in which they were named, with their
        results. Empty if it waited for none."""
        from worker_sdk.worker.inputs import Inputs

        if not isinstance(self._inputs, Inputs):
            self._inputs = Inputs(self._inputs, self._seal)
        return self._inputs

    # --- work that others do

    @property
    def callback(self) -> "Callback | None":
        """The callback of the outside system; the first callback, if several were expected. None before a callback has
        come."""
        return self.callbacks[0] if self.callbacks else None

    @property
    def idempotency_key(self) -> str:
        """A key for calls to other systems that is the same in all attempts of the job."""
        return self.job_id

    def open_challenge(
        self,
        *,
        timeout_s: float | None = None,
        expect: int = 1,
        meta: Any = None,
        signature: Mapping[str, str] | None = None,
        form: "Form | None" = None,
        audience: str = "link",
        remind_after_s: float | None = None,
    ) -> "Opened":
        """Open a challenge, and return its `request_id` and `callback_url` for the outside system, or for people.

        * `timeout_s`: time to wait for the callback, in seconds. Default: `answer_within_s` of `OutsideWork`, or a day.
        * `expect`: number of callbacks to wait for.
        * `meta`: a note for people, up to 4 KiB.
        * `signature`: the signature that callbacks must bear: `header`, `secret`, and maybe `prefix` and `encoding`.
        * `form`: a question to people, to whom `callback_url` shows a page. `ctx.callback.answer()` has what they say.
        * `audience`: people who may answer the form. `"link"`: whoever has the URL. `"users"`: those who are also
          logged in at the master, and may operate; each answers once, and `expect` is their number.
        * `remind_after_s`: seconds after which the master's notices `challenge_waiting` tell people that nobody has
          answered the form. 0: at once. None: never.

        Await it in an `async def` handler; in a `def` handler it blocks. Raise RefusedError if the master opens none,
        UnavailableError if no master answers.

        For example:

            opened = ctx.open_challenge(timeout_s=3600)
            print(opened.callback_url)
            raise Challenged(opened.request_id)
        """
        if self._challenges is None:
            raise RuntimeError("a process that a handler forked cannot open challenges")
        fields: dict[str, Any] = {
            "timeout_s": float(self.answer_within_s if timeout_s is None else timeout_s), "expect": expect
        }  # fmt: skip
        if meta is not None:
            fields["meta"] = meta
        if signature is not None:
            fields["signature"] = dict(signature)
        if form is not None:
            fields.update(form=form.request(), audience=audience)
            if remind_after_s is not None:
                fields["remind_after_s"] = float(remind_after_s)
        opening = self._challenges.open(self.job_id, self._token, fields, self.deadline_s)

        def opened(answer: Mapping[str, Any]) -> "Challenge":
            from worker_sdk.worker.challenge import Challenge

            self.challenge = Challenge(str(answer["request_id"]), str(answer["callback_url"]))
            return self.challenge

        if not is_in_loop():
            return cast("Opened", opened(opening.result()))

        async def wait() -> "Challenge":
            import asyncio

            return opened(await asyncio.wrap_future(opening))

        return cast("Opened", wait())

    # --- long jobs

    def progress(self, fraction: float | None, message: str = "") -> None:
        """Tell how far the job is. People see it in the web UI, the API and the CLI. Call it as often as you like: the
        worker sends the last one about once a second. It may be called from any thread.

        * `fraction`: share that is done, 0 to 1. None: unknown.
        * `message`: text to show to people, for example `"row 12,000"`. It is cut after 200 characters.

        Raise ValueError if the fraction is out of range.

        For example:

            ctx.progress(0.5, "row 12,000")
        """
        if fraction is not None and not 0 <= fraction <= 1:
            raise ValueError("fraction must be between 0 and 1")
        from worker_sdk.worker.progress import MAX_MESSAGE_CHARS

        told = None if fraction is None else float(fraction)
        # Replace characters that cannot be sent, which would keep the worker's heartbeats from being sent.
        text = str(message)[:MAX_MESSAGE_CHARS].encode(errors="replace").decode()
        self._reports.add_progress(self._token, told, text)

    # --- limits

    def used(self, **units: float) -> None:
        """Tell how much of a limit with a weight this attempt has used, for example the tokens of a model. When it
        ends, however it ends, the masters replace the estimate that was charged at its start. Call it as often as you
        like: the last number of each unit counts. It may be called from any thread.

        * `units`: number of each unit, 0 to a billion. The names are those of `unit` in the weights of constraints.

        Raise ValueError for a number out of range:

            ctx.used(tokens=1812)
        """
        from worker_sdk.worker.observations import checked_units

        self._reports.add_used(self._token, checked_units(units))

    def observed(self, constraint: str, value: Any = NO_VALUE, *, remaining: float, resets_s: float) -> None:
        """Tell how much room another service says it has left. Until then, the masters start no more jobs than fit.
        The room never becomes wider than the constraint. The call does not wait for a master, and may be made from any
        thread. `ApiLimits` reads the numbers from the headers of an answer.

        * `constraint`: name of the constraint that stands for the service's limit.
        * `value`: value of the constraint's key, if it has one.
        * `remaining`: units that may still be used, in the unit of the constraint.
        * `resets_s`: seconds until the service has all of its room again.

        Raise ValueError for a number out of range:

            ctx.observed("openai", remaining=41_000, resets_s=12.5)
        """
        from worker_sdk.worker.observations import checked_observation

        self._reports.observe(checked_observation(constraint, value, remaining, resets_s))

    @property
    def checkpoint(self) -> Any:
        """The value that this job saved last, in this attempt or in an earlier one. None if the job has saved no
        value."""
        if self._checkpoint is None:
            return None
        from worker_sdk.worker.kept_steps import own_value

        return own_value(self._checkpoint)

    def save(self, value: Any) -> "Saved":
        """Save a checkpoint, and return when a master has it. The next attempt finds it in `checkpoint`, whichever
        worker runs it, also after a crash of this one.

        * `value`: anything that MessagePack holds, up to 16 KiB together with the results of steps: a position, a
          cursor, not the work itself.

        Await it in an `async def` handler; in a `def` handler it blocks. Raise ValueError for a value that is too
        large, CheckpointNotSaved if it does not count any more.

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
        """Save a checkpoint as `save` does, but always block, also where an event loop runs.

        * `value`: as for `save`.

        Raise ValueError for a value that is too large, CheckpointNotSaved if it does not count any more:

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
            raise ValueError(f"a checkpoint has at most {most} bytes, this one has {len(data)}")
        return self._save(data)

    def _save(self, data: bytes) -> "Future[None]":
        sent = data if self._seal is None else self._seal.sealed_checkpoint(data, self.job_id)
        saved = self._reports.save(self._token, sent)
        # Within this attempt, only a checkpoint that counts is passed on.
        saved.add_done_callback(lambda done: None if done.exception() else self._saved(data))
        return saved

    def _saved(self, data: bytes) -> None:
        self._checkpoint = data

    def take_unsaved(self) -> bytes | None:
        """Return the checkpoint to save before the end of the attempt is reported. Return None if a master already has
        the newest one."""
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
        """Open the checkpoint and the inputs of the job, and seal what its handler saves and hands out. Raise
        SealError."""
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
        """Call a function once in the life of the job, and return its result. Later attempts, on whichever worker, get
        the result without a call. It is saved before the next step begins.

        * `name`: name of the step, the same in all attempts and versions. Each step of a job has another one.
        * `function`, `args`, `kwargs`: the call: of an `async def` function in an `async def` handler, where you await
          the step, and of a `def` function in a `def` handler, where it blocks. Its result has the annotated type, and
          at most 16 KiB together with the other results and the checkpoint.

        Only a crash between the end of the function and the save makes a later attempt call it again. An exception of
        the function passes through, and nothing is saved. Raise Fail for a result that cannot be kept, Interrupted if
        the job is to stop, CheckpointNotSaved if it belongs to another worker by now:

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

    def emit(self, value: Any) -> "Saved":
        """Hand out a partial result while the job runs, and return when a master has it. `handle.stream()`, browsers
        and `curl` get it at once. The order stays. A later attempt begins anew.

        * `value`: anything that MessagePack holds. A master bounds the number and the bytes of an attempt's values
          (`max_parts`, `max_parts_bytes`).

        Await it in an `async def` handler; in a `def` handler it blocks. Raise PartNotKept if no master keeps it.

        For example:

            for word in ["one", "two"]:
                ctx.emit(word)
        """
        from worker_sdk.unsendable import sendable

        data = sendable(value, {"value": value})
        if self._seal is not None:
            from worker_sdk.wire import decode, encode

            data = encode(self._seal.sealed(decode(data), "part", self.job_id))
        kept = self._reports.emit(self.job_id, self._token, data, self.deadline_s)
        if not is_in_loop():
            return cast("Saved", kept.result())
        import asyncio

        return cast("Saved", asyncio.wrap_future(kept))

    def iterate(
        self, source: "Source[T]", *, every_s: float = 1.0, total: int | None = None
    ) -> "Iteration[T]":
        """Go through items so that the next attempt goes on where this one stopped. Use it in `for` or `async for`.

        The number of items done is saved as the checkpoint every `every_s` seconds, and told as progress. After a crash
        at most the items of one such interval are done again; after a failure or an orderly end of the worker, at most
        the one item that was not done.

        * `source`: the items, always in the same order; the first ones are skipped when the job goes on. Or a function
          that takes the number of items done, and returns the items from there on: then nothing has to be skipped.
        * `total`: number of items, for progress. Default: `len(source)`, where it has one.

        For example:

            rows = ["a", "b", "c"]
            for row in ctx.iterate(rows, every_s=2):
                print(row)
        """
        from worker_sdk.worker.iteration import Iteration

        return Iteration(self, source, every_s=every_s, total=total, saves=True)

    def track(self, source: "Source[T]", *, every_s: float = 1.0, total: int | None = None) -> "Iteration[T]":
        """Return items for `for` or `async for`, and tell progress every `every_s` seconds. Nothing is saved.

        * `source`, `every_s`, `total`: as for `iterate`. Every attempt goes through all items.

        For example:

            for row in ctx.track(["a", "b", "c"]):
                print(row)
        """
        from worker_sdk.worker.iteration import Iteration

        return Iteration(self, source, every_s=every_s, total=total, saves=False)

    @property
    def logger(self) -> "logging.LoggerAdapter[logging.Logger]":
        """The logger of this job. Its lines of all levels are kept with the job, where people read and follow them.
        Those that the level of the logger `worker_sdk.job` lets pass go to the log handlers of the process as well.
        Records carry `job_id`, `job_name` and `attempt`.

        Lines of other loggers while the handler runs are kept with the job, too, if their levels let them pass."""
        if self._logger is None:
            import logging

            from worker_sdk.worker.job_log import JobLogger, JobLoggerAdapter

            logger = logging.getLogger("worker_sdk.job")
            self._logger = JobLoggerAdapter(
                logger if self._log is None else JobLogger(logger, self._log),
                {"job_id": self.job_id, "job_name": self.name, "attempt": self.attempt},
            )
        return self._logger
