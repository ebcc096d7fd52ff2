"""Middleware that reports the exceptions of handlers."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from worker_sdk.errors import Defer, Discard, Fail, IsolatedHandlerError, Retry
from worker_sdk.middleware.base import Middleware

if TYPE_CHECKING:
    from worker_sdk.worker.context import Context

logger = logging.getLogger(__name__)

# Exceptions that a handler raises to decide about its job; they are not errors.
ORDERS: Final = (Defer, Retry, Discard, Fail)
_QUIET_ENDINGS: Final = frozenset({"deferred", "discarded", "handed_back", "canceled"})


class ErrorHook(Middleware):
    """Call a function with each exception that fails an attempt, for example to send it to an error tracker.

    * `report`: called as `report(exc, ctx)` in the thread of the handler; for an async handler, in the event loop.
      Exceptions of `report` itself are logged.
    * `ignore`: exception classes that are not reported.

    `Defer`, `Retry`, `Discard`, `Fail` and cancellations are not reported: they are not errors. For an isolated handler
    the exception is an `IsolatedHandlerError`.

    For example:

        def report(exc: BaseException, ctx: Context) -> None:
            print(ctx.job_id, exc)

        worker = Worker(tasks=tasks, middleware=[ErrorHook(report)])
    """

    def __init__(
        self,
        report: "Callable[[BaseException, Context], object]",
        *,
        ignore: tuple[type[BaseException], ...] = (),
    ) -> None:
        self._report = report
        self._ignored = (*ORDERS, asyncio.CancelledError, GeneratorExit, *ignore)

    def around_job(self, ctx: "Context") -> Iterator[None]:
        try:
            yield
        except BaseException as exc:
            if not isinstance(exc, self._ignored) and not is_quiet(exc):
                try:
                    self._report(exc, ctx)
                except Exception:
                    logger.exception("an error could not be reported (job %s)", ctx.job_id)
            raise


def is_quiet(exc: BaseException) -> bool:
    """Return whether the exception is from an isolated handler that was stopped, or that ended without a failure."""
    return isinstance(exc, IsolatedHandlerError) and (
        not exc.fields or exc.fields.get("type") in _QUIET_ENDINGS
    )
