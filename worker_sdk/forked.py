"""Renew in a forked process everything that it must not share with its parent.

Python runs `_in_child` in each process that `os.fork` makes, before any other code of that process. A server that forks
in C may not run such hooks; by default, uWSGI does not. So code that may use inherited state calls `check` first. If
the PID is new, `check` renews everything.
"""

import contextlib
import logging
import os
import signal
import threading
import weakref
from typing import Any, Final, NoReturn, Protocol

logger = logging.getLogger(__name__)

_DEFAULTS: Final[dict[signal.Signals, Any]] = {
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
    signal.SIGINT: signal.default_int_handler,
}
_MODULES_OF_LOOPS: Final = frozenset({"asyncio.unix_events", "uvloop.loop"})

# The PID of the process that owns all state. Frequent calls compare it themselves, and call `check` if it differs.
known_pid = os.getpid()
_held = threading.local()


class Renewable(Protocol):
    def renew(self) -> None:
        """Replace everything that belongs to the parent, including locks. This method runs in the child. The parent's
        other threads do not exist there, so a lock that such a thread held would stay locked."""
        ...


_renewables: "weakref.WeakSet[Renewable]" = weakref.WeakSet()


def renew_in_child(one: Renewable) -> None:
    """Call `one.renew()` in forked processes, for as long as `one` exists."""
    _renewables.add(one)


def leave(one: Renewable) -> None:
    """Undo `renew_in_child`."""
    _renewables.discard(one)


def check() -> None:
    """Renew everything if this process was forked and the hook did not run."""
    if os.getpid() != known_pid:
        _in_child()


def replace_with_devnull(fd: int) -> None:
    """Replace this process's copy of a parent's descriptor with /dev/null. The parent's connection stays open.

    The number must stay in use: an event loop may still hold it, and would otherwise close the next file that gets the
    number. Closing the descriptor could also affect the parent, because both share the epoll instance.
    """
    if fd < 0:
        return
    # best effort: a copy that is not replaced is never used. It only hides from the peer that the parent closes the
    # connection.
    with contextlib.suppress(OSError):
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.dup2(null, fd, inheritable=False)
        finally:
            os.close(null)


def release_signals() -> None:
    """Restore the default effect of signals in a process that was forked inside an event loop. The inherited handlers
    would only wake the parent's loop, so that terminating this process would drain the parent."""
    with contextlib.suppress(ValueError):  # not in the main thread
        signal.set_wakeup_fd(-1)
        for number, default in _DEFAULTS.items():
            if getattr(signal.getsignal(number), "__module__", "") in _MODULES_OF_LOOPS:
                signal.signal(number, default)


def end_copy() -> NoReturn:
    """End this process. A handler forked it, and the handler returned in it. Otherwise two processes would run as one
    worker."""
    logger.error(
        "a handler forked this process and returned in it. The process ends here without a report: end such a "
        "process with os._exit"
    )
    # Exit without cleanup: the parent's buffers and exit handlers must not run a second time.
    os._exit(1)


def _in_child() -> None:
    global known_pid  # noqa: PLW0603  one process, one number
    for one in list(_renewables):
        one.renew()
    # Set `known_pid` last. If a second thread comes here, it may renew everything again, but never uses an object that
    # is not renewed yet.
    known_pid = os.getpid()


# Block signals during a fork: a signal that reaches the child before `release_signals` runs would wake the parent's
# loop.


def _hold_signals() -> None:
    _held.mask = signal.pthread_sigmask(signal.SIG_BLOCK, _DEFAULTS)


def _pass_signals() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _held.mask)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_signals, after_in_parent=_pass_signals, after_in_child=_in_child)
    os.register_at_fork(after_in_child=_pass_signals)
