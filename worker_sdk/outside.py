"""Work that another system does: check whether it can begin, hand it over, and receive the answer."""

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Final

from worker_sdk.errors import Challenged, Defer, NotReady, PhaseTimeout
from worker_sdk.worker.lease import now_s
from worker_sdk.worker.names import ATTRIBUTE, check_name
from worker_sdk.worker.registry import Handler, HandlerKind, Registry, origin_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from worker_sdk.worker.challenge import Callback
    from worker_sdk.worker.context import Context

Phase = Callable[..., Any]
RETRY_CODES: Final = frozenset({"TEMPORARY_UNAVAILABLE", "RESOURCE_CONFLICT", "NETWORK_ERROR"})


class Ready:
    """Return it from `prepare` if the work can begin.

    For example:

        def prepare(argument: str, ctx: Context) -> Ready | Defer:
            return Ready() if argument else Defer(60, "the file is not there yet")
    """

    def __repr__(self) -> str:
        return "Ready()"


class OutsideWork:
    """Jobs for which another system does the work. That system answers with a callback. Derive a class, and add it to a
    worker with `worker.outside(…)`. The methods are `def` or `async def`.

    * `name`: name of the jobs.
    * `answer_within_s`: seconds to wait for the callback. If none comes, the attempt fails.
    * `retry_codes`: codes of `CodedError` after which the job is retried. All other codes are final.
    * `prepare_timeout_s`, `challenge_timeout_s`, `callback_timeout_s`: timeout of each phase in seconds, at most the
      timeout of the job. None: the timeout of the job. A timeout stops an `async def`. It does not stop a `def` before
      the timeout of the job, but the phase fails when the `def` returns too late. `ctx.remaining()` returns the seconds
      left.
    * `max_wait_s`: longest wait between two calls of `prepare`. The first wait is as long as its `Defer` says, and each
      further wait is twice as long.
    * `not_ready_for_s`: seconds after which a job that was never ready fails with the cause `not_ready`. None: no
      limit.

    For example:

        class Render(OutsideWork):
            name = "film.render"

            def challenge(self, argument: str, ctx: Context) -> None:
                print(argument, ctx.open_challenge().callback_url)

            def on_callback(self, callback: Callback, ctx: Context) -> str:
                return callback.text()
    """

    name: ClassVar[str]
    answer_within_s: ClassVar[float] = 86_400.0
    retry_codes: "ClassVar[Collection[str]]" = RETRY_CODES
    prepare_timeout_s: ClassVar[float | None] = None
    challenge_timeout_s: ClassVar[float | None] = None
    callback_timeout_s: ClassVar[float | None] = None
    max_wait_s: ClassVar[float] = 300.0
    not_ready_for_s: ClassVar[float | None] = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} for jobs named {getattr(self, 'name', '?')}>"

    def prepare(self, argument: Any, ctx: "Context") -> Any:
        """Check whether the work can begin. Return `Ready()`, or return `Defer(after_s, reason)` to be called again
        later. A `Defer` uses no retry. The default returns `Ready()`.

        * `argument`, `ctx`: as for a handler.

        For example:

            def prepare(self, argument: str, ctx: Context) -> Ready | Defer:
                return Ready() if argument else Defer(60, "the file is not there yet")
        """
        return Ready()

    def challenge(self, argument: Any, ctx: "Context") -> Any:
        """Hand the work over: call `ctx.open_challenge()`, then call the outside system. Pass the system the
        `callback_url` of the challenge, and `ctx.idempotency_key`: with this key, it can recognize a repeated call.

        * `argument`, `ctx`: as for a handler.
        """
        raise NotImplementedError

    def on_callback(self, callback: "Callback", ctx: "Context") -> Any:
        """Decide the outcome of the job from the callback. Return the result of the job, or raise as in any handler.

        * `callback`: the first callback; `ctx.callbacks` has all callbacks.
        * `ctx`: as for a handler.
        """
        raise NotImplementedError

    def _phases(self) -> tuple[Phase, ...]:
        """Return the methods that a derived class may define. The class must define the last of these methods."""
        return (self.prepare, self.challenge, self.on_callback)


def is_async(work: OutsideWork) -> bool:
    """Return whether any phase is an `async def`."""
    return any(map(inspect.iscoroutinefunction, work._phases()))


def add_to(registry: Registry, work: OutsideWork, *, isolated: bool = False) -> None:
    """Register the handler of `work`. Raise ValueError for a name that is invalid or taken."""
    check_name(work.name)
    is_coroutine = is_async(work)
    own = getattr(type(work), work._phases()[-1].__name__)
    handler = Handler(
        work.name,
        HandlerKind.ISOLATED if isolated else HandlerKind.ASYNC if is_coroutine else HandlerKind.SYNC,
        handler_of(work),
        takes_context=True,
        is_coroutine=is_coroutine,
        origin=origin_of(own) if isolated else None,
        retry_codes=frozenset(work.retry_codes),
    )
    if isolated:
        # The child process of an isolated attempt looks up the handler in this attribute.
        setattr(own, ATTRIBUTE, {**getattr(own, ATTRIBUTE, {}), work.name: handler})
    registry.put(handler)


def handler_of(work: OutsideWork) -> Callable[[Any, "Context"], Any]:
    """Return the handler that runs the phases."""

    def run(argument: Any, ctx: "Context") -> Any:
        ctx.answer_within_s = work.answer_within_s
        if ctx.callback is not None:
            with _phase(ctx, "on_callback", work.callback_timeout_s):
                return work.on_callback(ctx.callback, ctx)
        with _phase(ctx, "prepare", work.prepare_timeout_s):
            answer = work.prepare(argument, ctx)
        _check_ready(work, answer)
        with _phase(ctx, "challenge", work.challenge_timeout_s):
            work.challenge(argument, ctx)
        raise _challenged(ctx)

    async def run_async(argument: Any, ctx: "Context") -> Any:
        ctx.answer_within_s = work.answer_within_s
        if ctx.callback is not None:
            async with _async_phase(ctx, "on_callback", work.callback_timeout_s):
                return await _value(work.on_callback(ctx.callback, ctx))
        async with _async_phase(ctx, "prepare", work.prepare_timeout_s):
            answer = await _value(work.prepare(argument, ctx))
        _check_ready(work, answer)
        async with _async_phase(ctx, "challenge", work.challenge_timeout_s):
            await _value(work.challenge(argument, ctx))
        raise _challenged(ctx)

    return run_async if is_async(work) else run


async def _value(value: Any) -> Any:
    return await value if isinstance(value, Awaitable) else value


def _check_ready(work: OutsideWork, answer: Any) -> None:
    if isinstance(answer, Defer):
        raise NotReady(answer, max_wait_s=work.max_wait_s, for_s=work.not_ready_for_s)
    if not (isinstance(answer, Ready) or answer is Ready):
        raise TypeError(
            f"prepare of {work.name} must return Ready() or Defer(…), not {type(answer).__name__}"
        )


def _challenged(ctx: "Context") -> Exception:
    if ctx.challenge is None:
        return TypeError(f"challenge of {ctx.name} did not call ctx.open_challenge()")
    return Challenged(ctx.challenge.request_id)


@contextlib.contextmanager
def _phase(ctx: "Context", name: str, timeout_s: float | None) -> Iterator[None]:
    job_deadline_s = ctx.deadline_s
    if timeout_s is not None:
        ctx.deadline_s = min(job_deadline_s, now_s() + timeout_s)
    try:
        yield
        if timeout_s is not None and now_s() > ctx.deadline_s:
            raise PhaseTimeout(name, timeout_s)
    finally:
        ctx.deadline_s = job_deadline_s


@contextlib.asynccontextmanager
async def _async_phase(ctx: "Context", name: str, timeout_s: float | None) -> AsyncIterator[None]:
    with _phase(ctx, name, timeout_s):
        stop = asyncio.timeout(timeout_s)
        try:
            async with stop:
                yield
        except TimeoutError:
            if stop.expired() and timeout_s is not None:
                raise PhaseTimeout(name, timeout_s) from None
            raise
