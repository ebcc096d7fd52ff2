"""Keep a worker working when its handlers have taken all file descriptors of the process."""

import errno
import logging
import os
from collections.abc import Callable
from typing import Final

logger = logging.getLogger(__name__)

# The number of file descriptors that must be free before the worker accepts a job: for its own calls, and to start one
# more handler.
NEEDED: Final = 8
# The number of descriptors that are kept open as a reserve. When none is free, they are closed, so that heartbeats and
# results can still reach a master.
RESERVE: Final = 4
_NONE_FREE: Final = frozenset({errno.EMFILE, errno.ENFILE})
_MAX_CAUSES: Final = 20


class Descriptors:
    """Watches whether the process can still open files and connections.

    Call `look` from the heartbeat thread, before each heartbeat. `on_change` is called when `is_short` has changed.
    """

    def __init__(self, on_change: Callable[[], object] = lambda: None) -> None:
        self._on_change = on_change
        # The descriptor that is duplicated to count the free descriptors. Opened at the first check.
        self._base: int | None = None
        self._reserve: list[int] = []
        self.is_short = False

    def look(self) -> None:
        """Check whether enough file descriptors are free. If enough are free, fill the reserve. Otherwise, close it."""
        found = self._opened()
        is_enough = len(found) == NEEDED
        if is_enough:
            while len(self._reserve) < RESERVE and found:
                self._reserve.append(found.pop())
        for number in found:
            os.close(number)
        if not is_enough:
            self._give_up_reserve()
        self._note(is_short=not is_enough)

    def note_failure(self) -> None:
        """Record that no descriptor was free. The next heartbeat checks again."""
        self._note(is_short=True)

    def close(self) -> None:
        """Close all descriptors of this object. No other thread may call `look` meanwhile."""
        self._give_up_reserve()
        if self._base is not None:
            os.close(self._base)
            self._base = None

    def _opened(self) -> list[int]:
        """Open NEEDED descriptors, or as many as are free."""
        found: list[int] = []
        try:
            if self._base is None:
                self._base, other_end = os.pipe()
                os.close(other_end)
            while len(found) < NEEDED:
                found.append(os.dup(self._base))
        except OSError as exc:
            if exc.errno not in _NONE_FREE:
                raise
        return found

    def _give_up_reserve(self) -> None:
        while self._reserve:
            os.close(self._reserve.pop())

    def _note(self, *, is_short: bool) -> None:
        if is_short is self.is_short:
            return
        self.is_short = is_short
        if is_short:
            logger.error(
                "this process has no file descriptors left%s, and takes no jobs until some are free: does a handler "
                "leave files or connections open?",
                _limit(),
            )
        else:
            logger.warning("file descriptors are free again: this worker takes jobs again")
        self._on_change()


def is_for_want_of_descriptors(exc: BaseException) -> bool:
    """Return whether this exception or one of its causes means that no descriptor was free."""
    found: BaseException | None = exc
    for _ in range(_MAX_CAUSES):
        if found is None:
            return False
        if isinstance(found, OSError) and found.errno in _NONE_FREE:
            return True
        found = found.__cause__ or found.__context__
    return False


def _limit() -> str:
    try:
        import resource
    except ImportError:  # the module `resource` only exists on Unix
        return ""
    return f" (it may have {resource.getrlimit(resource.RLIMIT_NOFILE)[0]})"
