"""Handles, which give the outcome of an enqueued job."""

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
    """Stands for the task of a job whose task is not known: its results stay as they are.

    * `name`: name of the job.
    """

    seal: "Seal | None" = None

    def __init__(self, name: str) -> None:
        self.name = name

    def decode_result(self, value: Any) -> Any:
        """Return the result as it is."""
        return value


class JobHandle(Generic[ResultT_co]):
    """A job of a task. `enqueue` returns it:

        handle = make_thumbnail.enqueue(42)
        print(handle.get(timeout=10))

    * `id`: ID of the job.
    * `name`: its name, which is that of the task.
    * `status`: its state when it was last heard of, such as `ready` or `succeeded`. None if a handle was made of an ID,
      and has not asked yet.
    * `job`: the job as `Pusher.status` returns it, after `refresh` or `cancel`.
    * `is_duplicate`: no job was made, because this job holds its uniqueness key. It stayed as it was.
    * `is_replaced`: no job was made; this waiting job took the arguments and options of the call.

    Every method that asks a master has a sibling for `async def`, with an `a` before its name.
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
            if self.is_duplicate:  # the status of the other job is not known yet
                self.status = None
        self.job: Mapping[str, Any] | None = None
        self._pushers = pushers
        # A master gives a result only once, so the handle keeps it.
        self._is_known = False
        self._value: Any = None
        self._exception: Exception | None = None

    def __repr__(self) -> str:
        return f"<job {self.id} of {self.name}, {self.status or 'not asked about'}>"

    if not TYPE_CHECKING:  # otherwise type checkers would accept any attribute

        def __getattr__(self, name: str) -> Any:
            from worker_sdk.other_queues import HANDLE_METHODS, missing_attribute

            raise missing_attribute("a handle of a job", name, HANDLE_METHODS)

    def get(self, timeout: float | None = None) -> ResultT_co:
        """Wait for the job to end, and return its result as the annotation of the task says.

        * `timeout`: seconds to wait; 0 to look once. Default: wait for as long as it takes.

        The job needs `keep_result`. A master hands a result out once; this handle keeps it. Raise one of these instead:

        * `NotFinished`: the job did not end within `timeout`.
        * `JobFailed`: the job failed for good. It has the error and the traceback.
        * `JobCanceled`, `JobSkipped`: the job was canceled, did not start before it expired, or waited
          for a job that did not succeed.
        * `JobDiscarded`: the handler found nothing left to do.
        * `ResultNotKept`: the job succeeded, but was enqueued without `keep_result`.
        * `ResultGone`: the result was fetched before or is no longer kept, or the job is unknown.
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
        """Wait for the job to end, and return its result as the annotation of the task says. It does not block the
        event loop.

        * `timeout`: seconds to wait; 0 to look once. Default: wait for as long as it takes.

        The job needs `keep_result`. A master hands a result out once; this handle keeps it. Raise one of these
        instead:

        * `NotFinished`: the job did not end within `timeout`.
        * `JobFailed`: the job failed for good. It has the error and the traceback.
        * `JobCanceled`, `JobSkipped`: the job was canceled, did not start before it expired, or waited
          for a job that did not succeed.
        * `JobDiscarded`: the handler found nothing left to do.
        * `ResultNotKept`: the job succeeded, but was enqueued without `keep_result`.
        * `ResultGone`: the result was fetched before or is no longer kept, or the job is unknown.
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
        """Ask a master about the job, and return this handle with its new `status` and `job`.

        Raise ResultGone if the job is unknown, and UnavailableError if no master answers:

            handle.refresh()
            print(handle.status)
        """
        try:
            self._note_view(self._pushers.sync_pusher().status(self.id))
        except RefusedError as exc:
            self._raise_unknown(exc)
        return self

    async def arefresh(self) -> "JobHandle[ResultT_co]":
        """Ask a master about the job, and return this handle with its new `status` and `job`. It does not block the
        event loop.

        Raise ResultGone if the job is unknown, and UnavailableError if no master answers:

            await handle.arefresh()
            print(handle.status)
        """
        try:
            self._note_view(await self._pushers.pusher().status(self.id))
        except RefusedError as exc:
            self._raise_unknown(exc)
        return self

    def progress(self) -> "JobProgress | None":
        """Ask a master how far the job is, and return the progress that its worker told last, also after the end of the
        job; None if no attempt told any. Afterwards the handle has its new `status` and `job`.

        A worker tells about once a second, so there is no use in asking more often. Raise ResultGone if the job is
        unknown, and UnavailableError if no master answers:

            told = handle.progress()
            if told is not None and told.fraction is not None:
                print(f"{told.fraction:.0%} {told.message}")
        """
        from worker_sdk.pusher.results import progress_of

        return progress_of(self.refresh().job or {})

    async def aprogress(self) -> "JobProgress | None":
        """Ask a master how far the job is, and return the progress that its worker told last, also after the end of the
        job; None if no attempt told any. Afterwards the handle has its new `status` and `job`. It does not block the
        event loop.

        A worker tells about once a second, so there is no use in asking more often. Raise ResultGone if the job is
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
        """Return the values that the job hands out with `ctx.emit`, for `for` and `async for`, from the first one until
        the job is over. A retry begins again with its first value: see `attempt` of each `JobPart`.

        * `kind`: type of the values, such as a dataclass. Default: as they come.

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
        """Return the lines of the log of the job, for `for` and `async for`: those that are kept by now, also those in
        the archive.

        * `level`: only lines of this level or above, such as `warning`.
        * `attempt`: only lines of this attempt.
        * `tail`: begin at most this many lines before the newest one.
        * `follow`: wait for further lines until the job is over.

        The token needs the scope read. Iterating raises ResultGone if the job is unknown and no log of it is in the
        archive, and RefusedError with the code `archive_damaged` for lines that the archive has lost.

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
        """Cancel the job. A running job ends as soon as its worker has stopped it.

        Raise RefusedError if the job is over, and UnavailableError if no master answers:

            handle = make_thumbnail.using(delay=3600).enqueue(42)
            handle.cancel()
        """
        self._note_view(self._pushers.sync_pusher().cancel(self.id))

    async def acancel(self) -> None:
        """Cancel the job. A running job ends as soon as its worker has stopped it. It does not block the event loop.

        Raise RefusedError if the job is over, and UnavailableError if no master answers:

            handle = await make_thumbnail.using(delay=3600).aenqueue(42)
            await handle.acancel()
        """
        self._note_view(await self._pushers.pusher().cancel(self.id))

    # --- what the answers mean

    def _end(self) -> ResultT_co:
        if self._exception is not None:
            raise self._exception.with_traceback(None)
        return cast("ResultT_co", self._value)

    def _raise_unknown(self, exc: RefusedError) -> NoReturn:
        if exc.status != 404:
            raise exc
        raise ResultGone(self.id, f"there is no job {self.id}, or no longer") from None

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
        """Return error value and message of the job. They stay sealed if they cannot be opened."""
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
        self._exception = ResultGone(self.id, f"there is no job {self.id}, or no longer")


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
