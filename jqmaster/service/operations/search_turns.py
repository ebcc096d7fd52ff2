"""Limits how many searches of one caller run at once, so that no caller keeps the store busy for others."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final

from jqmaster.errors import OverloadedError

# Maximum number of searches of one caller at a time. A page of the web UI sends fewer.
MAX_AT_ONCE: Final = 4
MAX_WAITING: Final = 100
RETRY_AFTER_S: Final = 1.0


@dataclass(slots=True)
class _OfCaller:
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_AT_ONCE))
    count: int = 0


class SearchTurns:
    """Lets a few searches of each caller run at once. Further searches wait in a queue."""

    def __init__(self) -> None:
        self._of_callers: dict[str, _OfCaller] = {}

    @contextlib.asynccontextmanager
    async def taken(self, who: str) -> AsyncIterator[None]:
        """Wait until the caller may run another search. The search counts as running for the duration of the context.
        Raise OverloadedError if too many searches of the caller already wait."""
        caller = self._of_callers.setdefault(who, _OfCaller())
        if caller.count >= MAX_AT_ONCE + MAX_WAITING:
            raise OverloadedError(
                f"{MAX_WAITING} lists and searches of this caller already wait; make fewer calls at once",
                retry_after_s=RETRY_AFTER_S,
            )
        caller.count += 1
        try:
            async with caller.turns:
                yield
        finally:
            caller.count -= 1
            if not caller.count:
                del self._of_callers[who]
