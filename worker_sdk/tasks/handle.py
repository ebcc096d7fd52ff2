"""Handles, through which callers follow an enqueued job and get its outcome."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, Protocol, TypeVar, cast, overload

from worker_sdk.errors import (
    JobCanceled,
    JobDiscarded,
    JobFailed,
    JobSkipped,
    NoResultError,
    NotFinished,
    RefusedError,
    ResultGone,
    ResultNotKept,
    SealError,
    UnreadableResult,
)
from worker_sdk.pusher.unique import is_duplicate, is_replaced

if TYPE_CHECKING:
    from worker_sdk.pusher.by_process import Pushers
    from worker_sdk.pusher.logs import JobLogLevel
    from worker_sdk.pusher.results import JobProgress, JobResult
    from worker_sdk.sealing import Seal
    from worker_sdk.tasks.log_stream import LogStream
    from worker_sdk.tasks.parts import PartStream

ResultT_co = TypeVar("ResultT_co", covariant=True)
PartT = TypeVar("PartT")

_FOREVER_S: Final = float("inf")


class NamedTask(Protocol):
    """The part of a task that the handles of its jobs use."""

    @property
    def name(self) -> str: ...

    @property
    def seal(self) -> "Seal | None": ...

    def decode_result(self, value: Any) -> Any:
        """Decode a result. Raise ValueError if it does not fit."""
        ...


class AnyTask:
    """Replaces an unknown task of a job. Results are not converted.

    * `name`: name of the job.
    """

    seal: "Seal | None" = None

    def __init__(self, name: str) -> None:
        self.name = name

    def decode_result(self, value: Any) -> Any:
        """Return the result unchanged."""
        return value


class JobHandle(Generic[ResultT_co]):
    """A job of a task. `enqueue` returns a handle:

        handle = make_thumbnail.enqueue(42)
        print(handle.get(timeout=10))

    * `id`: ID of the job.
    * `name`: name of the job and of the task.
    * `status`: last known state, such as `ready` or `succeeded`. None: the handle was made from an ID, and has not
      asked a master yet.
    * `job`: the job as `Pusher.status` returns it, after `refresh` or `cancel`.
    * `is_duplicate`: the call made no new job, because this job holds the uniqueness key. This job is unchanged.
    * `is_replaced`: the call made no new job. This waiting job got the arguments and options of the call.

    Every method that calls a master has an async variant. Its name begins with an additional `a`.
    """

    __slots__ = (
        "_exception", "_is_known", "_pushers", "_task", "_value", "id", "is_duplicate", "is_replaced", "job",
        "name", "status",
    )  # fmt: skip

    def __init__(
        self, task: NamedTask, job_id: str, pushers: "Pushers", *, status: str | None = None
    ) -> None:
        self._task = task
        self.id = job_id
        self.name = task.name
        self.is_duplicate = self.is_replaced = False
        self.status = status
        if type(job_id) is not str:
            self.is_duplicate, self.is_replaced = is_duplicate(job_id), is_replaced(job_id)
            if self.is_duplicate:  # this ID belongs to another job, whose status is not known yet
                self.status = None
        self.job: Mapping[str, Any] | None = None
        self._pushers = pushers
        # Keep the result here, because a master deletes it soon after it was first fetched.
        self._is_known = False
        self._value: Any = None
        self._exception: Exception | None = None

    def __repr__(self) -> str:
        return f"<job {self.id} of {self.name}, {self.status or 'not asked about'}>"

    if not TYPE_CHECKING:  # hidden from type checkers, which would otherwise accept any attribute

        def __getattr__(self, name: str) -> Any:
            from worker_sdk.other_queues import HANDLE_METHODS, missing_attribute

            raise missing_attribute("a handle of a job", name, HANDLE_METHODS)

    def get(self, timeout: float | None = None) -> ResultT_co:
        """Wait for the job to end, and return its result, as the type that the task is annotated with.

        * `timeout`: seconds to wait; 0 to check once. Default: wait without a limit.

        The job needs `keep_result`. The master deletes a result 60 s (`result_grace_s`) after it was first fetched;
        this handle keeps the result. Raise one of these errors if there is no result:

        * `NotFinished`: the job did not end within `timeout`.
        * `JobFailed`: the job failed for good. It has the error and the traceback.
        * `JobCanceled`: the job was canceled.
        * `JobSkipped`: the job did not start. For example, it expired, or waited for a job that did not succeed.
        * `JobDiscarded`: the handler found nothing left to do.
        * `ResultNotKept`: the job succeeded, but was enqueued without `keep_result`.
        * `ResultGone`: the result is no longer kept, or the job is unknown.
        * `UnreadableResult`: the result does not fit the annotation.
        * `UnavailableError`: no master answers.

        For example:

            handle = make_thumbnail.using(keep_result=True).enqueue(42)
            try:
                width = handle.get(timeout=10)
            except JobFailed as exc:
                print(exc.message, exc.traceback)
        """
        if not self._is_known:
            pusher = self._pushers.sync_pusher()
            try:
                result = pusher.result(self.id, wait=_FOREVER_S if timeout is None else timeout)
            except NotFinished as exc:
                self.status = exc.state
                raise
            if result is not None:
                self._note_result(result)
            else:
                try:
                    self._note_end(pusher.status(self.id))
                except RefusedError as exc:
                    self._note_refusal(exc)
        return self._end()

    async def aget(self, timeout: float | None = None) -> ResultT_co:
        """Wait for the job to end, and return its result, as the type that the task is annotated with. `aget` does not
        block the event loop.

        * `timeout`: seconds to wait; 0 to check once. Default: wait without a limit.

        The job needs `keep_result`. The master deletes a result 60 s (`result_grace_s`) after it was first fetched;
        this handle keeps the result. Raise one of these errors if there is no result:

        * `NotFinished`: the job did not end within `timeout`.
        * `JobFailed`: the job failed for good. It has the error and the traceback.
        * `JobCanceled`: the job was canceled.
        * `JobSkipped`: the job did not start. For example, it expired, or waited for a job that did not succeed.
        * `JobDiscarded`: the handler found nothing left to do.
        * `ResultNotKept`: the job succeeded, but was enqueued without `keep_result`.
        * `ResultGone`: the result is no longer kept, or the job is unknown.
        * `UnreadableResult`: the result does not fit the annotation.
        * `UnavailableError`: no master answers.

        For example:

            handle = await make_thumbnail.using(keep_result=True).aenqueue(42)
            try:
                width = await handle.aget(timeout=10)
            except JobFailed as exc:
                print(exc.message, exc.traceback)
        """
        if not self._is_known:
            pusher = self._pushers.pusher()
            try:
                result = await pusher.result(self.id, wait=_FOREVER_S if timeout is None else timeout)
            except NotFinished as exc:
                self.status = exc.state
                raise
            if result is not None:
                self._note_result(result)
            else:
                try:
                    self._note_end(await pusher.status(self.id))
                except RefusedError as exc:
                    self._note_refusal(exc)
        return self._end()

    def refresh(self) -> "JobHandle[ResultT_co]":
        """Fetch the job from a master, update `status` and `job` of this handle, and return the handle.

        Raise ResultGone if the job is unknown, and UnavailableError if no master answers. For example:

            handle.refresh()
            print(handle.status)
        """
        try:
            self._note_view(self._pushers.sync_pusher().status(self.id))
        except RefusedError as exc:
            self._raise_unknown(exc)
        return self

    async def arefresh(self) -> "JobHandle[ResultT_co]":
        """Fetch the job from a master, update `status` and `job` of this handle, and return the handle. `arefresh` does
        not block the event loop.

        Raise ResultGone if the job is unknown, and UnavailableError if no master answers. For example:

            await handle.arefresh()
            print(handle.status)
        """
        try:
            self._note_view(await self._pushers.pusher().status(self.id))
        except RefusedError as exc:
            self._raise_unknown(exc)
        return self

    def progress(self) -> "JobProgress | None":
        """Fetch the job from a master, and return the last progress that its worker reported. This also works after
        the end of the job, and updates `status` and `job` of the handle. Return None if no attempt has reported
        progress.

        A worker reports about once a second, so more frequent calls are useless. Raise ResultGone if the job is
        unknown, and UnavailableError if no master answers:

            told = handle.progress()
            if told is not None and told.fraction is not None:
                print(f"{told.fraction:.0%} {told.message}")"""
        from worker_sdk.pusher.results import progress_of

        return progress_of(self.refresh().job or {})

    async def aprogress(self) -> "JobProgress | None":
        """Fetch the job from a master, and return the last progress that its worker reported. This also works after the
        end of the job, and updates `status` and `job` of the handle. Return None if no attempt has reported
        progress. `aprogress` does not block the event loop.

        A worker reports about once a second, so more frequent calls are useless. Raise ResultGone if the job is
        unknown, and UnavailableError if no master answers:

            told = await handle.aprogress()
            if told is not None and told.fraction is not None:
                print(f"{told.fraction:.0%} {told.message}")
        """
        from worker_sdk.pusher.results import progress_of

        return progress_of((await self.arefresh()).job or {})

    @overload
    def stream(self) -> "PartStream[Any]": ...
    @overload
    def stream(self, kind: type[PartT]) -> "PartStream[PartT]": ...
    def stream(self, kind: Any = Any) -> "PartStream[Any]":
        """Return the values that the job emits with `ctx.emit`, as an iterable for `for` and `async for`: from the
        first value until the job is over. After a retry, the values of the new attempt follow. `attempt` of each
        `JobPart` tells them apart.

        * `kind`: type of the values, such as a dataclass. Default: no conversion.

        Iterating raises ResultGone if the job is unknown, and UnreadableResult for a value that does not fit.

        For example:

            for part in handle.stream():
                print(part.number, part.value)
        """
        from worker_sdk.tasks.parts import PartStream

        if kind is Any:
            return PartStream(self, self._pushers, _as_it_is)
        from worker_sdk.tasks.value_codec import decoder_of

        return PartStream(self, self._pushers, decoder_of(f"task {self.name}: parts", kind))

    def logs(
        self,
        *,
        level: "JobLogLevel | None" = None,
        attempt: int | None = None,
        tail: int | None = None,
        follow: bool = False,
    ) -> "LogStream":
        """Return the lines in the log of the job, as an iterable for `for` and `async for`: all lines that exist now,
        including those in the archive.

        * `level`: only lines of this level or above, such as `warning`.
        * `attempt`: only lines of this attempt.
        * `tail`: begin at most this many lines before the end of the log.
        * `follow`: wait for further lines until the job is over.

        The token needs the scope read. Iterating raises ResultGone if the job is unknown and the archive has no log of
        it, and RefusedError with the code `archive_damaged` for lines that the archive has lost.

        For example:

            for line in handle.logs(level="warning"):
                print(line.at, line.text)
        """
        from worker_sdk.tasks.log_stream import LogStream

        return LogStream(self, self._pushers, level=level, attempt=attempt, tail=tail, follow=follow)

    def _note_page(self, page: Mapping[str, Any]) -> None:
        self.status = str(page["state"])

    def _decode_part(self, value: Any, decode: "Callable[[Any], Any]") -> Any:
        try:
            return decode(value if (seal := self._task.seal) is None else seal.opened(value, "part", self.id))
        except SealError as exc:
            raise UnreadableResult(self.id, f"a part of job {self.id} cannot be read: {exc}") from None
        except ValueError as exc:
            raise UnreadableResult(self.id, f"a part of job {self.id} does not fit: {exc}") from None

    def _refuse_page(self, exc: Exception) -> None:
        if isinstance(exc, RefusedError):
            self._raise_unknown(exc)
        if isinstance(exc, NotFinished):
            self.status = exc.state

    def cancel(self) -> None:
        """Cancel the job. A running job is canceled once its worker has stopped it.

        Raise RefusedError if the job is over, and UnavailableError if no master answers. For example:

            handle = make_thumbnail.using(delay=3600).enqueue(42)
            handle.cancel()
        """
        self._note_view(self._pushers.sync_pusher().cancel(self.id))

    async def acancel(self) -> None:
        """Cancel the job. A running job is canceled once its worker has stopped it. `acancel` does not block the event
        loop.

        Raise RefusedError if the job is over, and UnavailableError if no master answers. For example:

            handle = await make_thumbnail.using(delay=3600).aenqueue(42)
            await handle.acancel()
        """
        self._note_view(await self._pushers.pusher().cancel(self.id))

    # --- reading the answers of masters

    def _end(self) -> ResultT_co:
        if self._exception is not None:
            raise self._exception.with_traceback(None)
        return cast("ResultT_co", self._value)

    def _raise_unknown(self, exc: RefusedError) -> NoReturn:
        if exc.status != 404:
            raise exc
        raise ResultGone(self.id, f"job {self.id} does not exist, or is no longer kept") from None

    def _note_view(self, view: Mapping[str, Any]) -> None:
        self.job = view
        self.status = str(view.get("state"))

    def _note_result(self, result: "JobResult") -> None:
        self._is_known = True
        if not result.is_success:
            self.status = "failed"
            reason = result.reason or "other"
            error, message = self._opened_failure(result.error, result.message or "")
            self._exception = JobFailed(
                self.id,
                cause="error" if reason == "other" else reason,
                message=message,
                should_retry=result.should_retry,
                error=error,
            )
            return
        self.status = "succeeded"
        seal = self._task.seal
        try:
            sent = result.result if seal is None else seal.opened(result.result, "result", self.id)
            self._value = self._task.decode_result(sent)
        except SealError as exc:
            self._exception = UnreadableResult(self.id, f"the result of job {self.id} cannot be read: {exc}")
        except ValueError as exc:
            self._exception = UnreadableResult(self.id, f"the result of job {self.id} does not fit: {exc}")

    def _note_end(self, view: Mapping[str, Any]) -> None:
        """Record that the job is over and has no result to fetch."""
        self._note_view(view)
        self._is_known = True
        self._exception = _ending(self.id, view, self._opened_failure)

    def _opened_failure(self, error: Any, message: str) -> tuple[Any, str]:
        """Return the error value and the message of the job. If they cannot be opened, return them sealed."""
        seal = self._task.seal
        if seal is None:
            return error, message
        try:
            return seal.opened_failure(error, message, self.id)
        except SealError:
            return error, message

    def _note_refusal(self, exc: RefusedError) -> None:
        if exc.status != 404:
            raise exc
        self._is_known = True
        self._exception = ResultGone(self.id, f"job {self.id} does not exist, or is no longer kept")


def _as_it_is(value: Any) -> Any:
    return value


def _ending(
    job_id: str, view: Mapping[str, Any], opened: "Callable[[Any, str], tuple[Any, str]]"
) -> NoResultError:
    cause = str(view.get("cause") or "error")
    attempts = view.get("attempts")
    last = attempts[-1] if isinstance(attempts, list) and attempts else {}
    error, message = opened(last.get("error"), str(last.get("message") or ""))
    match view.get("state"):
        case "succeeded":
            return ResultGone(job_id) if view.get("keep_result") else ResultNotKept(job_id)
        case "canceled":
            return JobCanceled(job_id)
        case "discarded":
            return JobDiscarded(job_id, message)
        case "skipped":
            return JobSkipped(job_id, cause, view.get("skipped_by"))
        case _:
            return JobFailed(job_id, cause=cause, message=message, error=error)
