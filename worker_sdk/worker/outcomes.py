"""Reports about the ends of attempts: plain maps, with one function for each kind of end."""

import asyncio
import contextlib
import logging
import os
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from worker_sdk.errors import (
    MAX_RETRY_AFTER_S,
    Challenged,
    CodedError,
    Defer,
    Discard,
    Fail,
    NotReady,
    PhaseTimeout,
    Retry,
    SealError,
)
from worker_sdk.unsendable import explained
from worker_sdk.worker.registry import Handler

Fields = dict[str, Any]

MAX_MESSAGE: Final = 1_000
# Files with code that calls handlers: files of the SDK, and of the event loop in a separate process.
_CALLING_FILES: Final = (
    f"{Path(__file__).parents[1]}{os.sep}",
    f"{Path(asyncio.__file__).parent}{os.sep}",
)
MAX_TRACEBACK: Final = 14_000  # in bytes; with its type and message, an error then stays below 16 KiB


class UnfitArgumentError(Exception):
    """The argument of a job does not fit the parameters of its handler, which has not run. `problems`: pairs of a path
    and a reason."""

    def __init__(self, message: str, problems: Sequence[tuple[str, str]]) -> None:
        super().__init__(message)
        self.problems = problems


class OutOfTimeError(Exception):
    """A process that a handler started did not end in time, and was killed."""

    def __init__(self, timeout_s: float) -> None:
        super().__init__(f"not finished within {timeout_s:g} s")
        self.timeout_s = timeout_s


class UnsendableResultError(Exception):
    """A handler returned a value that cannot be sent."""


HANDED_BACK: Final[Fields] = {"type": "handed_back"}
CANCELED: Final[Fields] = {"type": "canceled"}


def success(value: Any) -> Fields:
    return {"type": "success", "result": value}


def timeout(timeout_s: float) -> Fields:
    return {
        "type": "failure",
        "reason": "timeout",
        "should_retry": True,
        "error": None,
        "message": f"not finished within {timeout_s:g} s",
    }


def undecodable(why: str) -> Fields:
    return {
        **failure(f"the job cannot be decoded: {why}", should_retry=False),
        "reason": "undecodable",
    }


def invalid_argument(exc: UnfitArgumentError) -> Fields:
    error = {
        "type": "InvalidArgument",
        "message": truncate_middle(_text(exc), MAX_MESSAGE),
        "traceback": "",
        "problems": [
            {"path": truncate_middle(path, 200), "problem": truncate_middle(why, 200)}
            for path, why in exc.problems[:20]
        ],
    }
    return {**failure(_text(exc), should_retry=False, error=error), "reason": "invalid_argument"}


def failure(
    message: str, *, should_retry: bool, error: Any = None, retry_after_s: float | None = None
) -> Fields:
    fields: Fields = {
        "type": "failure",
        "reason": "other",
        "should_retry": should_retry,
        "error": error,
        "message": truncate_middle(message, MAX_MESSAGE),
    }
    if retry_after_s is not None:
        fields["retry_after"] = min(max(0.0, float(retry_after_s)), MAX_RETRY_AFTER_S)
    return fields


def unsendable(exc: Exception, fields: Fields) -> Fields:
    """Return a report to send instead of `fields`: encoding `fields` raised `exc`."""
    # best effort: encoding this value has raised an exception before, and reading it may raise another.
    with contextlib.suppress(Exception):
        if isinstance(exc, TypeError | ValueError | OverflowError):
            exc = explained(exc, fields)
    return failure(f"the result cannot be sent: {type(exc).__name__}: {_text(exc)}", should_retry=False)


def discarded(message: str, error: Any = None) -> Fields:
    return {"type": "discarded", "error": error, "message": truncate_middle(message, MAX_MESSAGE)}


def deferred(order: Defer) -> Fields:
    fields: Fields = {"type": "deferred", "retry_after": order.retry_after_s}
    if isinstance(order.hold, str):
        fields["hold"] = {"constraint": order.hold}
    elif order.hold is not None:
        constraint, key = order.hold
        fields["hold"] = {"constraint": constraint, "key": key}
    return fields


def not_ready(exc: NotReady) -> Fields:
    told: Fields = {
        "max_wait_s": min(exc.max_wait_s, MAX_RETRY_AFTER_S),
        "reason": truncate_middle(_text(exc), MAX_MESSAGE),
    }
    return {
        **deferred(exc.order),
        "not_ready": told | ({} if exc.for_s is None else {"for_s": float(exc.for_s)}),
    }


def _of_order(handler: Handler, exc: BaseException) -> Fields | None:
    """Return the outcome that the handler requested with this exception. Return None for any other exception."""
    if isinstance(exc, Defer):
        return deferred(exc)
    if isinstance(exc, Challenged):
        return {"type": "challenged", "request_id": exc.request_id}
    if isinstance(exc, NotReady):
        return not_ready(exc)
    if isinstance(exc, CodedError):
        should_retry = handler.retry_codes is None or exc.code in handler.retry_codes
        return {**failure(_text(exc), should_retry=should_retry, error=_describe(exc)), "code": exc.code}
    if isinstance(exc, PhaseTimeout):
        return {**failure(_text(exc), should_retry=True), "reason": "timeout"}
    if isinstance(exc, Discard):
        return discarded(_text(exc))
    if isinstance(exc, Fail | Retry):
        # Include the cause, so that `raise Fail("…") from exc` keeps its traceback.
        error = None if exc.__cause__ is None else _describe(exc.__cause__)
        if isinstance(exc, Fail):
            return failure(_text(exc), should_retry=False, error=error)
        return failure(_text(exc), should_retry=True, error=error, retry_after_s=exc.after_s)
    if isinstance(exc, OutOfTimeError):
        return timeout(exc.timeout_s)
    return None


def of_exception(handler: Handler, exc: BaseException, attempt: int) -> Fields:
    """Return the outcome of `exc` according to the handler's policies. If no policy fits, the outcome is a failure that
    is retried. Also shorten the traceback of `exc`: it then begins with the handler's own code."""
    _drop_first_frames(exc)
    if (ordered := _of_order(handler, exc)) is not None:
        return ordered
    if isinstance(exc, UnfitArgumentError):
        return invalid_argument(exc)
    if isinstance(exc, SealError):
        # Do not retry: the attempt would probably fail on any worker until an operator adds the key.
        return undecodable(_text(exc))
    if isinstance(exc, UnsendableResultError):
        return failure(_text(exc), should_retry=False, error=_describe(exc.__cause__ or exc))
    message = f"{type(exc).__name__}: {_text(exc)}"
    if handler.discard_on and isinstance(exc, handler.discard_on):
        return discarded(message, _describe(exc))
    for policy in handler.retry_on:
        if isinstance(exc, policy.exceptions):
            return failure(
                message,
                should_retry=policy.attempts is None or attempt < policy.attempts,
                error=_describe(exc),
                retry_after_s=policy.wait_s(attempt),
            )
    return failure(message, should_retry=True, error=_describe(exc))


def _drop_first_frames(exc: BaseException) -> None:
    """Drop the frames of the worker's code that called the handler, because they distract from the cause. An exception
    of the worker itself keeps them."""
    frames = exc.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_CALLING_FILES):
        frames = frames.tb_next
    if frames is not None:
        exc.__traceback__ = frames


def log_level(handler: Handler, exc: BaseException, fields: Fields) -> int:
    """Return the level at which the worker logs `exc`. Return NOTSET if it does not log the exception. `fields`: the
    outcome of `exc`."""
    if isinstance(exc, Defer | Discard | Fail | Retry | Challenged | NotReady):
        return logging.NOTSET
    if fields["type"] == "discarded":
        return logging.INFO
    is_foreseen = fields["should_retry"] and any(
        isinstance(exc, policy.exceptions) for policy in handler.retry_on
    )
    return logging.WARNING if is_foreseen else logging.ERROR


def truncate_middle(text: str, limit_bytes: int) -> str:
    """Return the beginning and the end of a text, at most `limit_bytes` of UTF-8. The end gets more space, because it
    says more in a traceback."""
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= limit_bytes:
        return data.decode()
    head = limit_bytes // 4
    tail = limit_bytes - head - 5
    return f"{data[:head].decode('utf-8', 'ignore')} ... {data[-tail:].decode('utf-8', 'ignore')}"


def _text(exc: BaseException) -> str:
    try:
        return str(exc)
    except Exception:  # the exception's own __str__ raised
        return "(no message)"


def _describe(exc: BaseException) -> Fields:
    # Show the lines of source code only: the values of local variables may be secrets.
    try:
        lines = "".join(traceback.format_exception(exc))
    except Exception:  # formatting calls the exception's own __str__
        lines = "".join(traceback.format_tb(exc.__traceback__))
    kind = type(exc)
    return {
        "type": truncate_middle(f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins."), 200),
        "message": truncate_middle(_text(exc), MAX_MESSAGE),
        "traceback": truncate_middle(lines, MAX_TRACEBACK),
    }
