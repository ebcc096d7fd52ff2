"""The context of a handler: the data of its job, and the calls that it may make."""

from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from worker_sdk.worker.cancel_signal import CancelSignal
from worker_sdk.worker.checkpoint_calls import CheckpointCalls
from worker_sdk.worker.enqueue_calls import is_in_loop
from worker_sdk.worker.lease import now_s
from worker_sdk.worker.no_value import NO_VALUE

if TYPE_CHECKING:  # these are slow to import, and modules of handlers do not need them
    import logging
    from datetime import datetime

    from worker_sdk.forms import Form
    from worker_sdk.protocol import JobInput
    from worker_sdk.pusher.by_process import Pushers
    from worker_sdk.sealing import Seal
    from worker_sdk.worker.challenge import Callback, Challenge, Opened
    from worker_sdk.worker.challenges import Challenges
    from worker_sdk.worker.checkpoint_calls import Saved
    from worker_sdk.worker.inputs import Inputs
    from worker_sdk.worker.iteration import Iteration, Source
    from worker_sdk.worker.job_log import LogLines
    from worker_sdk.worker.progress import Reports
    from worker_sdk.worker.steps import JobSteps


T = TypeVar("T")

# The context of the job that the current code runs in. It is set only for jobs of tasks, and for handlers with
# middleware or dependencies.
running_job: Final[ContextVar["Context | None"]] = ContextVar("running_job", default=None)


def pushers_of(ctx: "Context") -> "Pushers":
    """Return the clients of the worker's masters."""
    return ctx._pushers


def _callbacks_of(sent: Iterable[Mapping[str, Any]]) -> "list[Callback]":
    from worker_sdk.worker.challenge import callback_of

    return [callback_of(one) for one in sent]


class Context(CheckpointCalls):
    """One attempt of a job: the second argument of a handler, or the parameter of a task that is annotated with
    `Context`:

        def resize(argument: list[str], ctx: Context) -> int:
            for path in ctx.track(argument):
                ctx.logger.info("resizing %s", path)
            return len(argument)

    * `job_id`, `name`: ID and name of the job.
    * `attempt`: number of this attempt, counted from 1.
    * `fence`: a number that grows with every claim of the job. Store it with the data that the handler writes, and
      never overwrite data with a greater fence. Then a late run does no harm.
    * `headers`: the headers of the job.
    * `checkpoint`: the value that this job saved last.
    * `batch`: ID of the batch that has the job as a member or as a callback. None: no batch has it. A member can add
      further jobs to the batch: `task.using(batch=ctx.batch).enqueue(…)`.
    * `inputs`: the jobs for which this one waited, and their results.
    * `callbacks`: the callbacks of the challenge that this attempt opened. Empty: the callbacks have not come yet.
    * `challenge`: the challenge that this call of the handler opened. None: it opened no challenge.
    * `cancelled`: the `CancelSignal` that tells the handler to stop.
    """

    __slots__ = (
        "_challenges",
        "_inputs",
        "_log",
        "_logger",
        "answer_within_s",
        "attempt",
        "batch",
        "callbacks",
        "challenge",
        "deadline_s",
        "fence",
        "headers",
        "name",
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
        self.deadline_s = deadline_s  # by the clock `lease.now_s`
        self.cancelled = CancelSignal()
        self._pushers = pushers
        self._once_calls = 0
        self._reports = reports
        self._token = token
        self._checkpoint = checkpoint
        self._steps: JobSteps | None = None
        self._seal: Seal | None = None
        self.batch = batch
        # The position that `iterate` has reached since the last checkpoint. None: there is no such position.
        self.unsaved: int | None = None
        self.callbacks: list[Callback] = _callbacks_of(callbacks) if callbacks else []
        self.challenge: Challenge | None = None
        self.answer_within_s = 86_400.0
        self._challenges = challenges
        # The inputs as they were received. They are converted when a handler first reads them.
        self._inputs: Inputs | Iterable[JobInput] = inputs
        self._log = log
        self._logger: logging.LoggerAdapter[logging.Logger] | None = None

    def __repr__(self) -> str:
        return f"<Context of job {self.job_id} of {self.name}, attempt {self.attempt}>"

    @property
    def namespace(self) -> str:
        """The namespace of the job. Its handler enqueues jobs there."""
        return self._pushers.namespace

    @property
    def deadline(self) -> "datetime":
        """The time at which this attempt times out, in UTC."""
        from datetime import UTC, datetime, timedelta

        return datetime.now(UTC) + timedelta(seconds=self.deadline_s - now_s())

    def remaining(self) -> float:
        """Return the seconds until `deadline`, at least 0.

        For example:

            if ctx.remaining() < 5:
                raise Retry(message="too little time is left")
        """
        return max(0.0, self.deadline_s - now_s())

    # --- predecessors

    @property
    def inputs(self) -> "Inputs":
        """The jobs that this job waited for (the option `after`), in the order of that option, with their results.
        Empty if this job waited for none."""
        from worker_sdk.worker.inputs import Inputs

        if not isinstance(self._inputs, Inputs):
            self._inputs = Inputs(self._inputs, self._seal)
        return self._inputs

    # --- work of other systems and of people

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
        * `signature`: the signature that callbacks must have: a map of `header`, `secret`, and optionally `prefix` and
          `encoding`.
        * `form`: a question to people. `callback_url` then shows a page with the question, and `ctx.callback.answer()`
          returns the answer.
        * `audience`: who may answer the form. `"link"`: everyone who has the URL. `"users"`: only people who are logged
          in at the master with the right to operate. Each of them answers once, and `expect` is the number of people.
        * `remind_after_s`: seconds without an answer to the form after which the notice `challenge_waiting` reports the
          job. 0: at once. None: never.

        Await it in an `async def` handler; in a `def` handler it blocks. Raise RefusedError if the master refuses the
        challenge, and UnavailableError if no master answers.

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
        """Report the progress of the job. The web UI, the API and the CLI show it. You may call this as often as you
        like, from any thread: the worker sends the last report about once a second.

        * `fraction`: fraction of the work that is done, 0 to 1. None: unknown.
        * `message`: text to show to people, for example `"row 12,000"`. It is cut after 200 characters.

        Raise ValueError if the fraction is out of range.

        For example:

            ctx.progress(0.5, "row 12,000")
        """
        if fraction is not None and not 0 <= fraction <= 1:
            raise ValueError("fraction must be between 0 and 1")
        from worker_sdk.worker.progress import MAX_MESSAGE_CHARS

        told = None if fraction is None else float(fraction)
        # Replace characters that cannot be encoded: they would stop the worker's heartbeats.
        text = str(message)[:MAX_MESSAGE_CHARS].encode(errors="replace").decode()
        self._reports.add_progress(self._token, told, text)

    # --- limits

    def used(self, **units: float) -> None:
        """Report how many units of a limit with a weight this attempt has used, such as tokens of a model. When the
        attempt ends, in any way, this number replaces the estimate that was charged at the start. You may call this as
        often as you like, from any thread: the last number of each unit counts.

        * `units`: number of each unit, 0 to a billion. The names are the values of `unit` in the weights of
          constraints.

        Raise ValueError for a number out of range. For example:

            ctx.used(tokens=1812)
        """
        from worker_sdk.worker.observations import checked_units

        self._reports.add_used(self._token, checked_units(units))

    def observed(self, constraint: str, value: Any = NO_VALUE, *, remaining: float, resets_s: float) -> None:
        """Report how many units another service still accepts, as stated in its answer. Until the service resets its
        limit, the masters start only jobs that fit into these units, and never more than the constraint allows. The
        call does not wait for a master, and may be made from any thread. `ApiLimits` reads the numbers from the headers
        of an answer.

        * `constraint`: name of the constraint that represents the limit of the service.
        * `value`: value of the constraint's key, if it has one.
        * `remaining`: units that may still be used, in the unit of the constraint.
        * `resets_s`: seconds until the service accepts all units again.

        Raise ValueError for a number out of range, and TypeError for a value that cannot be sent. For example:

            ctx.observed("openai", remaining=41_000, resets_s=12.5)
        """
        from worker_sdk.worker.observations import checked_observation

        self._reports.observe(self._token, checked_observation(constraint, value, remaining, resets_s))

    def emit(self, value: Any) -> "Saved":
        """Emit a partial result while the job runs, and return when a master has it. `handle.stream()`, browsers and
        `curl` get it at once. The values keep their order. The values of a later attempt replace those of earlier ones.

        * `value`: any value that MessagePack can encode. Masters limit the number and the total size of an attempt's
          values (`max_parts`, `max_parts_bytes`).

        Await it in an `async def` handler; in a `def` handler it blocks. Raise PartNotKept if no master keeps the
        value.

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
        """Iterate over items so that the next attempt continues where this one stopped. Use the result in `for` or
        `async for`.

        Every `every_s` seconds, the number of finished items is saved as the checkpoint, and reported as progress.
        After a crash, at most the items of one such interval are repeated. After a failure or a normal stop of the
        worker, at most the unfinished item is repeated.

        * `source`: the items, always in the same order; a later attempt skips the finished items. Or a function that
          takes the number of finished items and returns the remaining items.
        * `total`: number of items, for progress. Default: `len(source)`, if it has a length.

        For example:

            rows = ["a", "b", "c"]
            for row in ctx.iterate(rows, every_s=2):
                print(row)
        """
        from worker_sdk.worker.iteration import Iteration

        return Iteration(self, source, every_s=every_s, total=total, saves=True)

    def track(self, source: "Source[T]", *, every_s: float = 1.0, total: int | None = None) -> "Iteration[T]":
        """Return an iteration over items, for `for` or `async for`. It reports progress every `every_s` seconds,
        without a checkpoint.

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
        Lines that pass the level of the logger `worker_sdk.job` also go to the log handlers of the process. Records
        have the attributes `job_id`, `job_name` and `attempt`.

        While the handler runs, lines of other loggers are also kept with the job if they pass the levels of these
        loggers."""
        if self._logger is None:
            import logging

            from worker_sdk.worker.job_log import JobLogger, JobLoggerAdapter

            logger = logging.getLogger("worker_sdk.job")
            self._logger = JobLoggerAdapter(
                logger if self._log is None else JobLogger(logger, self._log),
                {"job_id": self.job_id, "job_name": self.name, "attempt": self.attempt},
            )
        return self._logger
