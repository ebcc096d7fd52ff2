"""Exceptions that a handler raises to decide how its job continues, and exceptions that a Pusher raises."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

# Longest delay that a worker may request for a job. Masters accept no longer one.
MAX_RETRY_AFTER_S: Final = 7 * 86_400.0


class Defer(Exception):  # noqa: N818 - a decision, not an error
    """Raise it in a handler to run the job again later. This does not count as a retry.

    * `retry_after_s`: seconds until the job may start again, up to 7 days. A job that defers again and again waits up
      to 1 s, even if `retry_after_s` is shorter.
    * `reason`: the reason, for people.
    * `hold`: a constraint that also holds back its other jobs until then: `"NAME"`, or `("NAME", value)` for one value
      of its key. A constraint that does not exist holds back no job.

    For example:

        raise Defer(60, "the file is not there yet", hold="render-farm")
    """

    def __init__(
        self, retry_after_s: float, reason: str = "", *, hold: str | tuple[str, Any] | None = None
    ) -> None:
        super().__init__(reason or f"deferred for {retry_after_s} s")
        self.reason = reason
        self.retry_after_s = min(max(0.0, float(retry_after_s)), MAX_RETRY_AFTER_S)
        self.hold = hold


class Retry(Exception):  # noqa: N818
    """Raise it in a handler to fail the attempt and retry the job.

    * `after_s`: minimum seconds until the retry. Default: the backoff of the job.
    * `message`: message to show to people.

    For example:

        raise Retry(after_s=30, message="the server is busy")
    """

    def __init__(self, after_s: float | None = None, message: str = "") -> None:
        super().__init__(message or "the handler asked for a retry")
        self.after_s = None if after_s is None else min(max(0.0, float(after_s)), MAX_RETRY_AFTER_S)


class Fail(Exception):  # noqa: N818
    """Raise it in a handler to fail the job for good, even if retries are left.

    * `message`: message to show to people.

    For example:

        raise Fail("there is no such photo")
    """

    def __init__(self, message: str = "failed for good by the handler") -> None:
        super().__init__(message)


class InputMissing(Fail):
    """Raised by `ctx.inputs` when a predecessor of this job has no result that can be read. If the handler does not
    catch it, this job fails for good, because another attempt would not find the result either.

    * `job_id`: the predecessor.
    * `state`: how the predecessor ended. None: it was deleted.
    * `omitted`: `not_kept` or `too_large`. None: there is a result, but it does not fit the expected type.

    For example:

        try:
            width = ctx.inputs[0].result
        except InputMissing as exc:
            print(exc.job_id, exc.state)
    """

    def __init__(self, job_id: str, state: str | None, omitted: str | None, fault: str = "") -> None:
        if fault:
            why = f"the result of job {job_id} {fault}"
        elif state == "succeeded":
            whole = "is too large to be handed on" if omitted == "too_large" else "was not kept"
            why = f"the result of job {job_id} {whole}"
        else:
            why = f"job {job_id} has no result: it is {state or 'deleted'}"
        super().__init__(why)
        self.job_id = job_id
        self.state = state
        self.omitted = omitted


class Discard(Exception):  # noqa: N818
    """Raise it in a handler when nothing is left to do, for instance because a record was deleted. The job ends at once
    as `discarded`: no failure, no retry, no result.

    * `message`: message to show to people.

    For example:

        raise Discard("the photo was deleted")
    """

    def __init__(self, message: str = "discarded by the handler") -> None:
        super().__init__(message)


class CodedError(Exception):
    """Raise it in a handler to fail the attempt with a code. Programs and people recognize the failure by this code.
    The job is retried if the handler's `retry_codes` name the code, and fails for good otherwise. A handler without
    `retry_codes` retries.

    * `code`: the name of the failure, such as `"RESOURCE_CONFLICT"`, up to 64 characters.
    * `message`: message to show to people.

    For example:

        raise CodedError("RESOURCE_CONFLICT", "somebody else edits the album")
    """

    def __init__(self, code: str, message: str = "") -> None:
        super().__init__(message or code)
        self.code = code[:64]


class NotReady(Exception):  # noqa: N818
    """Raised by the SDK when `prepare` returns `Defer`: prepare the job again later.

    * `order`: the `Defer`.
    * `max_wait_s`: longest wait between two calls of `prepare`, in seconds.
    * `for_s`: seconds after which a job that was never ready fails. None: no limit.

    Handlers do not raise this exception.
    """

    def __init__(self, order: Defer, *, max_wait_s: float, for_s: float | None) -> None:
        super().__init__(order.reason or "not ready")
        self.order = order
        self.max_wait_s = max_wait_s
        self.for_s = for_s


class Challenged(Exception):  # noqa: N818
    """Raise it in a handler after `ctx.open_challenge()`, when another system has the work. The worker is then free.
    The callback starts the handler again, with `ctx.callback`. `OutsideWork` raises it for you.

    * `request_id`: the `request_id` of the challenge.

    For example:

        raise Challenged(ctx.open_challenge().request_id)
    """

    def __init__(self, request_id: str) -> None:
        super().__init__("another system has the work")
        self.request_id = request_id


class PhaseTimeout(Exception):  # noqa: N818
    """A phase of `OutsideWork` took longer than its timeout."""

    def __init__(self, phase: str, timeout_s: float) -> None:
        super().__init__(f"{phase} did not end within {timeout_s:g} s")


class Interrupted(Exception):  # noqa: N818
    """Raised by `ctx.iterate` and `ctx.track` in a `def` handler when the job is to stop. The worker ends, the job was
    canceled, or its time is over. Let it pass, or clean up and raise it again.

    For example:

        try:
            for row in ctx.iterate(["a", "b"]):
                print(row)
        except Interrupted:
            print("cleaning up")
            raise
    """

    def __init__(self) -> None:
        super().__init__("the job is to stop")


class CheckpointNotSaved(Exception):  # noqa: N818
    """Raised by `ctx.save` when the checkpoint was not saved. Another worker has the job by now, the job is over, or
    the master is too old for checkpoints.

    For example:

        try:
            ctx.save(100)
        except CheckpointNotSaved:
            raise Discard("another worker has the job") from None
    """


class PartNotKept(Exception):  # noqa: N818
    """Raised by `ctx.emit` when no master keeps the value. The message gives one of these reasons:

    * The attempt has too many values.
    * Another worker has the job by now, or the job is over.
    * No master could be reached before the timeout.
    * The master is too old for partial results.

    For example:

        try:
            ctx.emit("a word")
        except PartNotKept:
            print("nobody reads along")
    """


class IsolatedHandlerError(Exception):
    """The exception that middleware in the worker gets if an attempt of an isolated handler did not succeed. The
    handler's own exception stays in the handler's process.

    * `fields`: the report to a master. It has a `type`, such as `failure`, `discarded` or `deferred`. A failure also
      has `reason`, `should_retry`, `message`, and `error` with the traceback as text. Empty if the attempt was stopped.

    For example:

        class Alarm(Middleware):
            def around_job(self, ctx: Context) -> Iterator[None]:
                try:
                    yield
                except IsolatedHandlerError as exc:
                    print(exc.fields.get("message"))
                    raise
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        super().__init__(str(fields.get("message") or fields.get("type") or "the attempt was stopped"))
        self.fields = fields


class WorkerSdkError(Exception):
    """Base class of all errors that pushers raise.

    * `accepted_ids`: after `enqueue_many`, the jobs that were accepted although a later one failed.
    * `unknown_ids`: the jobs that may have been accepted. You can safely enqueue them again with these IDs.

    For example:

        try:
            pusher.enqueue_many([("thumbnail.make", {"photo_id": 42})])
        except WorkerSdkError as exc:
            print(exc.accepted_ids, exc.unknown_ids)
    """

    accepted_ids: Sequence[str] = ()
    unknown_ids: Sequence[str] = ()


class RefusedError(WorkerSdkError):
    """The master understood the call and refused it. Repeating it does not help.

    * `status`: the HTTP status.
    * `code`: the stable name of the reason, for programs.
    * `detail`: the reason, for people.
    * `errors`: for each invalid field, a map of `loc` (its path) and `msg` (what is wrong). After `enqueue_many`, an
      index in `loc` counts from the start of the iterable.

    For example:

        try:
            pusher.cancel(job_id)
        except RefusedError as exc:
            print(exc.status, exc.code, exc.detail)
    """

    def __init__(self, status: int, problem: Mapping[str, Any], *, unknown_ids: Sequence[str] = ()) -> None:
        self.unknown_ids = list(unknown_ids)
        self.status = status
        self.code = str(problem.get("code") or "unknown")
        self.detail = str(problem.get("detail") or problem.get("title") or "")
        errors = problem.get("errors")
        self.errors: Sequence[Mapping[str, Any]] = errors if isinstance(errors, list) else []
        # Do not repeat errors that `detail` contains, such as the first error.
        others = [e for e in self.errors if str(e.get("msg")) not in self.detail]
        rules = "; ".join(f"{'.'.join(map(str, e.get('loc', [])))}: {e.get('msg')}" for e in others[:3])
        super().__init__(f"{status} {self.code}: {self.detail}" + (f" ({rules})" if rules else ""))


class Duplicate(RefusedError):  # noqa: N818 - the name says what the job is
    """The job was refused because another job holds its uniqueness key.

    * `job_id`: the job that holds the key. After `enqueue_many`, the holder for the first refused job; `errors` names
      all.

    For example:

        try:
            make_thumbnail.using(unique=Unique("photo-42")).enqueue(42)
        except Duplicate as exc:
            print(f"job {exc.job_id} does it already")
    """

    def __init__(self, status: int, problem: Mapping[str, Any], *, unknown_ids: Sequence[str] = ()) -> None:
        super().__init__(status, problem, unknown_ids=unknown_ids)
        self.job_id = str(problem.get("job_id") or "")


def refused(status: int, problem: Mapping[str, Any], *, unknown_ids: Sequence[str] = ()) -> RefusedError:
    """Return the error for a refusal."""
    kind = Duplicate if problem.get("code") == "not_unique" else RefusedError
    return kind(status, problem, unknown_ids=unknown_ids)


class UnavailableError(WorkerSdkError):
    """No master gave a final answer in time. The call may have been carried out.

    * `job_ids`: the jobs that were being enqueued. For `enqueue_many`, the jobs of the chunk that failed.

    For example:

        try:
            make_thumbnail.enqueue(42)
        except UnavailableError as exc:
            print(exc.job_ids)
    """

    def __init__(self, detail: str, job_ids: Sequence[str] = (), *, unknown_ids: Sequence[str] = ()) -> None:
        super().__init__(detail)
        self.unknown_ids = list(unknown_ids)
        self.job_ids = list(job_ids)


class EnqueueRefused(WorkerSdkError):  # noqa: N818 - a decision, not an error
    """A middleware refused to enqueue a job. The job was not sent. Raise this exception in `Middleware.around_enqueue`.
    If a middleware raises another exception, `enqueue_many` raises EnqueueRefused from it.

    * `message`: the reason, for people.

    For example:

        class OnlyOnWeekdays(Middleware):
            def around_enqueue(self, job: dict[str, Any]) -> Iterator[None]:
                if datetime.now(UTC).weekday() >= 5:
                    raise EnqueueRefused("not on weekends")
                yield
    """

    def __init__(self, message: str = "refused by a middleware") -> None:
        super().__init__(message)


class AnswerMismatchError(WorkerSdkError):
    """The answer is about another job than the call. Something between pusher and master, such as a proxy, mixed up
    answers.

    The answer is dropped, and its connection is closed. The call may have been carried out.

    * `asked`: the IDs in the call.
    * `answered`: the IDs in the answer.

    For example:

        try:
            pusher.status(job_id)
        except AnswerMismatchError as exc:
            print(exc.asked, exc.answered)
    """

    def __init__(
        self, asked: Sequence[str], answered: Sequence[str], *, unknown_ids: Sequence[str] = ()
    ) -> None:
        wrong = next((pair for pair in zip(asked, answered, strict=False) if pair[0] != pair[1]), None)
        super().__init__(
            f"asked about job {wrong[0]}, the answer is about {wrong[1]}"
            if wrong
            else f"asked about {len(asked)} jobs, the answer is about {len(answered)}"
        )
        self.asked = list(asked)
        self.answered = list(answered)
        self.unknown_ids = list(unknown_ids)


class InvalidArgument(WorkerSdkError, TypeError):  # noqa: N818 - named like the cause `invalid_argument` of failed jobs
    """The arguments of a call do not fit the parameters of the task, or cannot be encoded. Nothing was enqueued.

    * `task`: name of the task.
    * `problems`: for each fault, the path of an argument and what is wrong with it. The texts contain no values of
      arguments.

    For example:

        try:
            make_thumbnail.enqueue("forty-two")
        except InvalidArgument as exc:
            print(exc.task, exc.problems)
    """

    def __init__(self, task: str, problems: Sequence[tuple[str, str]]) -> None:
        super().__init__(f"{task}: " + "; ".join(f"{path}: {what}" for path, what in problems[:10]))
        self.task = task
        self.problems = list(problems)


class InvalidFlow(WorkerSdkError, ValueError):  # noqa: N818
    """A flow cannot run. Its jobs wait for one another in a circle, one waits for a job outside the flow, or there are
    too many jobs. Nothing was enqueued.

    For example:

        try:
            Flow().enqueue()
        except InvalidFlow as exc:
            print(exc)
    """


class SealError(WorkerSdkError):
    """A sealed value cannot be opened: this process lacks the key, the value was changed, or it belongs to another job.
    If the argument of a job cannot be opened, the job fails for good with the cause `undecodable`.

    * `key_id`: the ID of the key that sealed the value.

    For example:

        try:
            seal.opened({"sealed_with": "2019a", "sealed": b"..."}, "result", job_id)
        except SealError as exc:
            print(exc.key_id, exc)
    """

    def __init__(self, message: str, key_id: str) -> None:
        super().__init__(message)
        self.key_id = key_id


# Advice for a job that is not over, by its state.
_NEXT_STEPS: Final = {
    "ready": ": no worker has started it yet. `jqmaster why {}` explains why.",
    "retrying": ": its last attempt failed. `jqmaster job {}` shows the error, and so does handle.refresh().job.",
}


class NotFinished(WorkerSdkError):  # noqa: N818 - one of the answers of `JobHandle.get`
    """The job did not end in time.

    * `job_id`: the job.
    * `state`: the current state of the job.
    * `last_error`: the beginning of the last error message, if the job is `retrying`. None: the message is unknown, or
      your token may not read it.

    For example:

        try:
            make_thumbnail.using(delay=60).enqueue(42).get(timeout=0)
        except NotFinished as exc:
            print(exc.job_id, exc.state, exc.last_error)
    """

    def __init__(self, job_id: str, state: str, last_error: str | None = None) -> None:
        if last_error:
            next_step = f": its last attempt failed: {last_error}"
        else:
            next_step = _NEXT_STEPS.get(state, "").format(job_id)
        super().__init__(f"job {job_id} is {state}{next_step}")
        self.job_id = job_id
        self.state = state
        self.last_error = last_error


class NoResultError(WorkerSdkError):
    """The job has no result to return. The subclasses say why.

    * `job_id`: the job.

    For example:

        try:
            handle.get(timeout=10)
        except NoResultError as exc:
            print(exc.job_id, exc)
    """

    def __init__(self, job_id: str, message: str) -> None:
        super().__init__(message)
        self.job_id = job_id


class ResultGone(NoResultError):  # noqa: N818
    """The result was kept, but is deleted by now: somebody fetched it a while ago, or nobody fetched it in time. The
    error also means that no job has this ID any more.

    For example:

        try:
            make_thumbnail.handle(job_id).get(timeout=10)
        except ResultGone:
            print("it was fetched a while ago")
    """

    def __init__(self, job_id: str, message: str = "") -> None:
        super().__init__(
            job_id, message or f"the result of job {job_id} is gone: it was fetched earlier, or has expired"
        )


class ResultNotKept(NoResultError):  # noqa: N818
    """The job succeeded, but was enqueued without `keep_result`.

    For example:

        try:
            handle.get(timeout=10)
        except ResultNotKept:
            print("enqueue it by make_thumbnail.using(keep_result=True)")
    """

    def __init__(self, job_id: str) -> None:
        super().__init__(
            job_id, f"the result of job {job_id} was not kept; enqueue the job with keep_result=True"
        )


class JobCanceled(NoResultError):  # noqa: N818
    """The job was canceled.

    For example:

        try:
            handle.get(timeout=10)
        except JobCanceled as exc:
            print(exc.job_id)
    """

    def __init__(self, job_id: str) -> None:
        super().__init__(job_id, f"job {job_id} was canceled")


class JobDiscarded(NoResultError):  # noqa: N818
    """The handler discarded the job: there was nothing left to do.

    * `message`: the reason, for people.

    For example:

        try:
            handle.get(timeout=10)
        except JobDiscarded as exc:
            print(exc.message)
    """

    def __init__(self, job_id: str, message: str = "") -> None:
        super().__init__(job_id, f"job {job_id} was discarded" + (f": {message}" if message else ""))
        self.message = message


class JobSkipped(NoResultError):  # noqa: N818
    """The job was skipped. It did not run in time, a job for which it waited did not succeed, or another job took its
    uniqueness key before it started.

    * `cause`: the reason, `expired`, `dependency` or `superseded`.
    * `skipped_by`: the ID of the predecessor that caused the skip, for `dependency`. None for another cause.

    For example:

        try:
            handle.get(timeout=10)
        except JobSkipped as exc:
            print(exc.cause, exc.skipped_by)
    """

    def __init__(self, job_id: str, cause: str, skipped_by: Mapping[str, Any] | None = None) -> None:
        why = cause
        self.skipped_by: str | None = None
        if skipped_by is not None:
            self.skipped_by, state = str(skipped_by["id"]), skipped_by["state"] or "deleted"
            why += f", because job {self.skipped_by} {state if state == 'failed' else f'was {state}'}"
        super().__init__(job_id, f"job {job_id} was skipped: {why}")
        self.cause = cause


class JobFailed(NoResultError):  # noqa: N818
    """The job failed for good.

    * `cause`: `error`, `timeout`, `invalid_argument`, `undecodable` or `lost`.
    * `message`: the reason, for people.
    * `error_type`: the class of the exception in the worker, such as `app.errors.NoSuchPhoto`. Empty: there was no
      exception.
    * `traceback`: the traceback of the exception as text. Empty: there was no exception.
    * `should_retry`: whether the last failure allowed a retry. None: unknown.
    * `error`: the error as the worker reported it.

    For example:

        try:
            handle.get(timeout=10)
        except JobFailed as exc:
            print(exc.cause, exc.error_type, exc.traceback)
    """

    def __init__(
        self,
        job_id: str,
        *,
        cause: str,
        message: str = "",
        should_retry: bool | None = None,
        error: Any = None,
    ) -> None:
        super().__init__(job_id, f"job {job_id} failed ({cause})" + (f": {message}" if message else ""))
        self.cause = cause
        self.message = message
        self.should_retry = should_retry
        self.error = error
        told = error if isinstance(error, Mapping) else {}
        self.error_type = str(told.get("type") or "")
        self.traceback = str(told.get("traceback") or "")


class UnreadableResult(NoResultError):  # noqa: N818
    """The result of the job does not fit the annotation of the task.

    For example:

        try:
            handle.get(timeout=10)
        except UnreadableResult as exc:
            print(exc)
    """


# The old names of exceptions, which still work until the next release.
RENAMED: Final[Mapping[str, type[WorkerSdkError]]] = {
    "NotFinishedError": NotFinished,
    "NotKept": ResultNotKept,
}

if TYPE_CHECKING:
    NotFinishedError = NotFinished
    NotKept = ResultNotKept


def renamed(name: str) -> type[WorkerSdkError]:
    """Return the class that had this name in an earlier release, and warn the module that imports it."""
    import warnings

    now = RENAMED[name]
    warnings.warn(
        f"{name} is now {now.__name__}; the former name will be removed in the next release",
        DeprecationWarning,
        stacklevel=3,
    )
    return now


def __getattr__(name: str) -> Any:
    if name in RENAMED:
        return renamed(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
