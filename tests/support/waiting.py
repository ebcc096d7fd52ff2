"""Waiting for what must become true, without guessing how long it takes."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any


async def wait_until(
    condition: Callable[[], Any | Awaitable[Any]], *, timeout_s: float = 15, what: str = ""
) -> Any:
    """The first truthy value of `condition`; AssertionError when it stays false."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(
                f"did not happen within {timeout_s} s: {what or inspect.getsource(condition).strip()}"
            )
        await asyncio.sleep(0.01)
