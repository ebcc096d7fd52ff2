"""Isolated handlers that their own processes import."""

import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from worker_sdk import Context, Depends, Worker


def plain(argument: Any) -> Any:
    if argument == "fail":
        raise LookupError("no such thing")
    return argument


def pid(argument: Any) -> int:
    if argument == "wait":
        time.sleep(60)
    return os.getpid()


def die(argument: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def model() -> AsyncIterator[dict[str, int]]:
    """Live as long as the worker, which here means the attempt's process."""
    yield {"pid": os.getpid()}


def session(ctx: Context, shared: dict[str, int] = Depends(model, scope="worker")) -> Iterator[list[Any]]:
    made = [ctx.name, shared["pid"]]
    yield made
    made.append("closed")


def with_session(argument: Any, ctx: Context, session: list[Any] = Depends(session)) -> list[Any]:
    return [*session, argument, os.getpid()]


async def with_session_async(argument: Any, session: list[Any] = Depends(session)) -> list[Any]:
    return [*session, argument, os.getpid()]


# An isolated handler's process finds it by the name that importing this module registers.
_worker = Worker()
_functions: dict[str, Any] = {
    "isolated": plain,
    "isolated.pid": pid,
    "isolated.death": die,
    "session": with_session,
    "session.async": with_session_async,
}
for _name, _function in _functions.items():
    _worker.handler(_name, isolated=True)(_function)
