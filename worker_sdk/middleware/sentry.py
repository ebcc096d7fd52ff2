"""Middleware that sends the errors of handlers to Sentry."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from worker_sdk.middleware.base import Middleware
from worker_sdk.middleware.errors import ErrorHook

if TYPE_CHECKING:
    from worker_sdk.worker.context import Context


class Sentry(Middleware):
    """Send each exception that fails an attempt to Sentry, in its own scope with the tags `job_name` and `job_id` and
    the context `job`. Events that the handler itself sends have the same tags and context. Call `sentry_sdk.init`
    first.

    * `ignore`: as for `ErrorHook`.

    The middleware needs the package `sentry-sdk`, and does not send the argument of the job. Sentry itself sends the
    local variables of handlers; `include_local_variables=False` in `sentry_sdk.init` prevents this.

    For example:

        worker = Worker(tasks=tasks, middleware=[Sentry(ignore=(TimeoutError,))])
    """

    def __init__(self, *, ignore: tuple[type[BaseException], ...] = ()) -> None:
        import sentry_sdk  # import it now, so that a missing package fails the start and not the jobs

        self._new_scope = sentry_sdk.isolation_scope
        self._hook = ErrorHook(lambda exc, ctx: sentry_sdk.capture_exception(exc), ignore=ignore)

    def around_job(self, ctx: "Context") -> Iterator[None]:
        with self._new_scope() as scope:
            scope.set_tag("job_name", ctx.name)
            scope.set_tag("job_id", ctx.job_id)
            scope.set_context("job", {"id": ctx.job_id, "name": ctx.name, "attempt": ctx.attempt})
            yield from self._hook.around_job(ctx)
