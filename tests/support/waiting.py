"""Waiting for conditions without guessing how long they take."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

# Many conditions ask a master. At a hundred times a second, it spends much of a core on the answers, so the pause grows
# with the wait.
MIN_PAUSE_S: Final = 0.01
PAUSE_SHARE: Final = 0.05
MAX_PAUSE_S: Final = 0.05


async def wait_until(
    condition: Callable[[], Any | Awaitable[Any]], *, timeout_s: float = 15, what: str = ""
) -> Any:
    """Return the first truthy value of `condition`. Raise AssertionError if it stays false."""
    began_s = time.monotonic()
    while True:
        value = condition()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        waited_s = time.monotonic() - began_s
        if waited_s > timeout_s:
            raise AssertionError(
                f"did not happen within {timeout_s} s: {what or inspect.getsource(condition).strip()}"
            )
        await asyncio.sleep(min(MAX_PAUSE_S, max(MIN_PAUSE_S, waited_s * PAUSE_SHARE)))
