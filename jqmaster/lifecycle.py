"""Start components in order, and stop them in reverse order."""

import asyncio
import contextlib
import logging
import traceback
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from jqmaster.clock import Clock
from jqmaster.errors import JqmasterError, StaleEpochError

logger = logging.getLogger(__name__)

CANCEL_AGAIN_S = 1.0
# Maximum time between two failures of a loop that belong to one series.
_ROW_GAP_S: Final = 5.0
# Maximum pause before a failing side loop is tried again. The pauses are 1 s, 2 s, 4 s and so on, up to this
# value.
MAX_SIDE_PAUSE_S: Final = 60.0
# Maximum number of failing entries of one loop that are logged and shown.
_MAX_FAILING_ENTRIES: Final = 20
# The modules that connect to the store.
_LINK: Final = ("redis.", "jqmaster.store.link.")


class Component(Protocol):
    """A part of a process. `start` returns when the part works, and `stop` returns when all its tasks have ended."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class FailingLoop(NamedTuple):
    """A loop that fails again and again.

    * `seconds`: the time from the first to the last failure of the series.
    * `error`: the last failure.
    * `is_of_link`: the last failure was raised in a connection to the store.
    """

    seconds: float
    name: str
    error: str
    is_of_link: bool


@dataclass(slots=True)
class _Series:
    first_s: float
    last_s: float
    error: str
    is_vital: bool
    is_of_link: bool
    again_after_s: float


class LoopFailures:
    """Background loops that fail again and again for an unexpected reason.
    * `beneath`: failures of other loops. They count here, too, because these loops depend on the others.
    * `failing`: the failing loops by name.
    """

    def __init__(self, clock: Clock, *, beneath: "LoopFailures | None" = None) -> None:
        self._clock = clock
        self._beneath = beneath
        self.failing: dict[str, _Series] = {}

    def add(self, name: str, error: Exception, *, is_vital: bool, again_after_s: float = 1.0) -> None:
        # Ignore errors that are expected and reported to people, because neither a new process nor a new
        # connection would fix them.
        if isinstance(error, JqmasterError):
            return
        now_s = self._clock.monotonic_s()
        known = self.failing.get(name)
        first_s = known.first_s if known and self._goes_on(known, now_s) else now_s
        text = f"{type(error).__name__}: {error}"[:200]
        self.failing[name] = _Series(first_s, now_s, text, is_vital, _came_from_link(error), again_after_s)

    def over(self, name: str) -> None:
        """Record that the loop works, or was stopped."""
        self.failing.pop(name, None)

    @property
    def is_empty(self) -> bool:
        """Return whether no loop is known to fail."""
        return not self.failing and (self._beneath is None or self._beneath.is_empty)

    def longest(self) -> FailingLoop | None:
        """Return the vital loop that has been failing for the longest time and still fails."""
        now_s = self._clock.monotonic_s()
        failing = [
            FailingLoop(one.last_s - one.first_s, name, one.error, one.is_of_link)
            for name, one in self.failing.items()
            if one.is_vital and self._goes_on(one, now_s)
        ]
        if self._beneath and (other := self._beneath.longest()):
            failing.append(other)
        return max(failing, default=None)

    def side_faults(self) -> dict[str, str]:
        """Return the side loops that fail, with the reason."""
        if not self.failing:
            return {}
        now_s = self._clock.monotonic_s()
        return {
            name: f"{name} fails ({one.error}); it is tried again every {one.again_after_s:.0f} s"
            for name, one in self.failing.items()
            if not one.is_vital and self._goes_on(one, now_s)
        }

    @staticmethod
    def _goes_on(series: _Series, now_s: float) -> bool:
        # Allow a longer gap for a side loop, because it may work for some time after each new start before it
        # fails again.
        gap_s = _ROW_GAP_S if series.is_vital else series.again_after_s + MAX_SIDE_PAUSE_S
        return now_s - series.last_s <= gap_s


def _came_from_link(error: BaseException) -> bool:
    """Return whether the error, or an error that caused it, was raised in a connection to the store."""
    pending, seen = [error], set[int]()
    while pending:
        one = pending.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        for frame, _ in traceback.walk_tb(one.__traceback__):
            if f"{frame.f_globals.get('__name__', '')}.".startswith(_LINK):
                return True
        pending += [other for other in (one.__cause__, one.__context__) if other is not None]
        if isinstance(one, BaseExceptionGroup):
            pending += one.exceptions
    return False


# The object to which loops report failures. It is set while components start, so that their tasks, and tasks that
# these create, inherit it.
_failures: ContextVar[LoopFailures | None] = ContextVar("loop_failures", default=None)


@contextlib.asynccontextmanager
async def running(
    components: Sequence[Component], *, failures: LoopFailures | None = None
) -> AsyncIterator[None]:
    """Start the components in order, and stop them in reverse order. Try each stop even if another stop fails.

    A component that others use comes first: the store starts first and stops last. `failures` records failures of
    these components' loops, and of the loops that these loops start.
    """
    started: list[Component] = []
    try:
        token = _failures.set(failures or _failures.get())
        try:
            for component in components:
                started.append(component)
                await component.start()
        finally:
            _failures.reset(token)
        yield
    finally:
        for component in reversed(started):
            try:
                await asyncio.shield(component.stop())
            except Exception:
                logger.exception("could not stop %s", type(component).__name__)


class BackgroundLoops:
    """Owns the tasks of one component. A failing loop is logged and restarted. No loop outlives `stop`.

    `is_vital`: the master cannot do its work without this component. If a loop of a vital component keeps
    failing, the connections to the store may be replaced or the process may end.

    Loops of all other components are side loops. They are tried again less and less often, and their failures are
    shown.
    """

    def __init__(self, name: str, *, is_vital: bool, restart_after_s: float = 1.0) -> None:
        self._name = name
        self._is_vital = is_vital
        self._restart_after_s = restart_after_s
        self._tasks: set[asyncio.Task[None]] = set()
        # The pause of each loop after its last failure, by role.
        self._pauses_s: dict[str, float] = {}
        self._failures: LoopFailures | None = None

    def spawn(self, role: str, loop: "LoopBody") -> None:
        task = asyncio.create_task(self._keep_running(role, loop), name=f"{self._name}.{role}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def worked(self, role: str) -> None:
        """Record a successful round of a loop, which ends its series of failures."""
        if self._pauses_s and self._pauses_s.pop(role, None) is not None and self._failures is not None:
            self._failures.over(f"{self._name}.{role}")

    async def _keep_running(self, role: str, loop: "LoopBody") -> None:
        now_s = asyncio.get_running_loop().time
        while True:
            began_s = now_s()
            try:
                await loop()
                return
            except asyncio.CancelledError:
                raise
            except Exception as exc:
                if now_s() - began_s > MAX_SIDE_PAUSE_S:
                    self._pauses_s.pop(role, None)
                pause_s = self._pause_after_failure_s(role)
                logger.exception("%s.%s failed; it starts again in %s s", self._name, role, pause_s)
                if failures := _failures.get():
                    self._failures = failures
                    failures.add(f"{self._name}.{role}", exc, is_vital=self._is_vital, again_after_s=pause_s)
            await asyncio.sleep(pause_s)

    def _pause_after_failure_s(self, role: str) -> float:
        last_s = self._pauses_s.get(role)
        pause_s = self._restart_after_s
        if last_s is not None and not self._is_vital:
            pause_s = min(2 * last_s, MAX_SIDE_PAUSE_S)
        self._pauses_s[role] = pause_s
        return pause_s

    async def ended(self, timeout_s: float) -> None:
        """Return when the loops have ended by themselves, or after `timeout_s`."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=timeout_s)

    async def stop(self) -> None:
        tasks = set(self._tasks)
        while tasks:
            for task in tasks:
                task.cancel()
            # Cancel repeatedly. Before Python 3.12, asyncio.wait_for, which libraries use, can swallow a
            # cancellation.
            _, tasks = await asyncio.wait(tasks, timeout=CANCEL_AGAIN_S)
        for role in list(self._pauses_s):
            self.worked(role)


class EntriesApart:
    """Isolates entries that a loop handles one by one. A failing entry is logged and shown as a fault, and the
    loop continues with the other entries."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._failing: set[str] = set()
        self._failures: LoopFailures | None = None

    @contextlib.contextmanager
    def alone(self, entry: str) -> Iterator[None]:
        """Isolate an unexpected error in the block. Raise errors of the store, because they concern all entries."""
        try:
            yield
        except Exception as exc:
            self.failed(entry, exc)
        else:
            self.worked(entry)

    def failed(self, entry: str, error: Exception) -> None:
        """Record an unexpected error of an entry. Raise the error if it is one of the store."""
        if isinstance(error, JqmasterError | StaleEpochError):
            raise error
        if entry not in self._failing and len(self._failing) < _MAX_FAILING_ENTRIES:
            self._failing.add(entry)
            logger.error("%s: %s fails; the others go on", self._name, entry, exc_info=error)
        if entry in self._failing and (failures := _failures.get()):
            self._failures = failures
            failures.add(f"{self._name} {entry}", error, is_vital=False)

    def worked(self, entry: str) -> None:
        """Record that an entry works."""
        if self._failing and entry in self._failing:
            self._failing.discard(entry)
            logger.warning("%s: %s works again", self._name, entry)
            if self._failures is not None:
                self._failures.over(f"{self._name} {entry}")

    def only(self, entries: Collection[str]) -> None:
        """Keep only the failures of entries that still exist."""
        for entry in self._failing - set(entries):
            self._failing.discard(entry)
            if self._failures is not None:
                self._failures.over(f"{self._name} {entry}")


class LoopBody(Protocol):
    async def __call__(self) -> None: ...
