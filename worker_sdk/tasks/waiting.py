"""Wait for the results of several jobs."""

import asyncio
import time
from collections.abc import Iterable
from typing import Any, Final, Literal, overload

from worker_sdk.errors import (
    NoResultError,
    NotFinished,
)
from worker_sdk.tasks.handle import JobHandle, ResultT_co

# Maximum number of long polls at a time. Each long poll occupies a connection, and other calls of the process need
# connections, too.
_POLLS: Final = 20


@overload
def wait_all(
    handles: Iterable[JobHandle[ResultT_co]],
    timeout: float | None = None,
    *,
    return_exceptions: Literal[False] = False,
) -> list[ResultT_co]: ...


@overload
def wait_all(
    handles: Iterable[JobHandle[ResultT_co]],
    timeout: float | None = None,
    *,
    return_exceptions: Literal[True],
) -> list[ResultT_co | NoResultError | NotFinished]: ...


def wait_all(
    handles: Iterable[JobHandle[Any]], timeout: float | None = None, *, return_exceptions: bool = False
) -> list[Any]:
    """Wait for several jobs, and return their results in order.

    * `handles`: handles of jobs.
    * `timeout`: seconds to wait for all of them together. Default: wait without a limit.
    * `return_exceptions`: return exceptions of `JobHandle.get` in place of results. Otherwise, wait for all jobs, and
      then raise the first exception in the order of the handles. The handles keep the other results.

    Raise the errors of `JobHandle.get`, and UnavailableError if no master answers. For example:

        handles = [make_thumbnail.enqueue(number) for number in range(3)]
        widths = wait_all(handles, timeout=10)
    """
    end_s = None if timeout is None else time.monotonic() + timeout
    results: list[Any] = []
    for handle in handles:
        try:
            results.append(handle.get(_left_s(end_s)))
        except (NoResultError, NotFinished) as exc:
            results.append(exc)
    return _raised(results, return_exceptions)


@overload
async def await_all(
    handles: Iterable[JobHandle[ResultT_co]],
    timeout: float | None = None,
    *,
    return_exceptions: Literal[False] = False,
) -> list[ResultT_co]: ...


@overload
async def await_all(
    handles: Iterable[JobHandle[ResultT_co]],
    timeout: float | None = None,
    *,
    return_exceptions: Literal[True],
) -> list[ResultT_co | NoResultError | NotFinished]: ...


async def await_all(
    handles: Iterable[JobHandle[Any]], timeout: float | None = None, *, return_exceptions: bool = False
) -> list[Any]:
    """Wait for several jobs, and return their results in order. `await_all` does not block the event loop.

    * `handles`: handles of jobs.
    * `timeout`: seconds to wait for all of them together. Default: wait without a limit.
    * `return_exceptions`: return exceptions of `JobHandle.get` in place of results. Otherwise, wait for all jobs,
      and then raise the first exception in the order of the handles. The handles keep the other results.

    Raise the errors of `JobHandle.get`, and UnavailableError if no master answers. For example:

        handles = [await make_thumbnail.aenqueue(number) for number in range(3)]
        widths = await await_all(handles, timeout=10)
    """
    end_s = None if timeout is None else time.monotonic() + timeout
    room = asyncio.Semaphore(_POLLS)

    async def one(handle: JobHandle[Any]) -> Any:
        async with room:
            try:
                return await handle.aget(_left_s(end_s))
            except (NoResultError, NotFinished) as exc:
                return exc

    return _raised(await asyncio.gather(*map(one, handles)), return_exceptions)


def _left_s(end_s: float | None) -> float | None:
    return None if end_s is None else max(0.0, end_s - time.monotonic())


def _raised(results: list[Any], return_exceptions: bool) -> list[Any]:
    if not return_exceptions:
        for result in results:
            if isinstance(result, NoResultError | NotFinished):
                raise result
    return results
