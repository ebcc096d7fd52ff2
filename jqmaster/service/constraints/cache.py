"""This master's copy of the constraints."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from jqmaster.domain.constraints.constraint_set import NO_CONSTRAINTS, ConstraintSet
from jqmaster.errors import OverloadedError, after_it_was_done
from jqmaster.store.constraints.constraints import ConstraintSnapshot, ConstraintStore
from jqmaster.store.jobs.placement import StaleConstraints

# Maximum number of tries. A further try is needed only if somebody has changed the constraints during the last try.
# People do not change constraints this often.
MAX_REPEATS: Final = 10

_T = TypeVar("_T")


class ConstraintCache:
    """This master's copy of the constraints. It is read again when a script reports that it is outdated, or when a
    change is announced.

    The copy may be out of date at any time. This is safe, because every script that relies on the copy compares
    editions.
    """

    def __init__(self, store: ConstraintStore) -> None:
        self._store = store
        self._reading = asyncio.Lock()
        self.current = ConstraintSnapshot(0, 0, (), NO_CONSTRAINTS)

    async def reload(self) -> ConstraintSnapshot:
        """Read the constraints again if they have changed, and return them. Raise what `ConstraintStore` raises."""
        async with self._reading:
            if await self._store.versions() != self.current.editions:
                self.current = await self._store.load()
            return self.current

    async def under(self, act: Callable[[ConstraintSet], Awaitable[_T]]) -> _T:
        """Run `act` under the current constraints. Run it again if the constraints have changed meanwhile. If they keep
        changing, raise OverloadedError, or OutcomeUnknownError if `act` has done a part of its work."""
        is_begun = False
        for _ in range(MAX_REPEATS):
            try:
                return await act(self.current.constraint_set)
            except StaleConstraints as stale:
                is_begun |= stale.is_begun
                await self.reload()
        with after_it_was_done("a part was carried out") if is_begun else contextlib.nullcontext():
            raise OverloadedError("the constraints change too fast to be followed", retry_after_s=1.0)
