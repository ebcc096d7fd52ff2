"""Keep a forked process apart from its parent: what must not be shared is renewed in the child.

Python runs `_in_child` in each process that `os.fork` makes, before any other code of that process. A server that forks
in C may not run such hooks (uWSGI, by default); `check`, called wherever something that was inherited may be used,
notices the new PID and makes up for it.
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

# The process that everything belongs to. Hot paths compare it themselves, and call `check` if it is another's.
known_pid = os.getpid()
_held = threading.local()


class Renewable(Protocol):
    def renew(self) -> None:
        """Let go of what belongs to the parent. Runs in the child, where the parent's other threads do not exist: a
        lock that one of them held stays locked."""
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
    """Make this process's copy of a parent's descriptor harmless; the parent's connection stays as it is.

    The number stays taken, by /dev/null: an event loop may still hold it, and would otherwise close, or stop watching,
    whatever gets the number next. Closing it here could also reach the parent, whose epoll instance is shared.
    """
    if fd < 0:
        return
    # best effort: a copy that stays open is never used, it only keeps the peer from seeing the parent's end.
    with contextlib.suppress(OSError):
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.dup2(null, fd, inheritable=False)
        finally:
            os.close(null)


def release_signals() -> None:
    """Let signals act on this process, which was forked inside an event loop: the loop's handlers only wake the loop,
    which is the parent's. So the parent would drain when this process is terminated."""
    with contextlib.suppress(ValueError):  # not in the main thread
        signal.set_wakeup_fd(-1)
        for number, default in _DEFAULTS.items():
            if getattr(signal.getsignal(number), "__module__", "") in _MODULES_OF_LOOPS:
                signal.signal(number, default)


def end_copy() -> NoReturn:
    """End a process that a handler forked and that returned from the handler. Otherwise two processes would run as one
    worker."""
    logger.error(
        "a handler forked this process and returned in it; it ends here, unreported: end such a process with os._exit"
    )
    # Exit at once: the parent's buffers and handlers must not be flushed a second time.
    os._exit(1)


def _in_child() -> None:
    global known_pid  # noqa: PLW0603  one process, one number
    for one in list(_renewables):
        one.renew()
    # Set this last. A second thread then renews everything again, and never uses an object that is not renewed yet.
    known_pid = os.getpid()


# Signals are held back during a fork: one that reached the child before `release_signals` ran would still wake the
# parent's loop.


def _hold_signals() -> None:
    _held.mask = signal.pthread_sigmask(signal.SIG_BLOCK, _DEFAULTS)


def _pass_signals() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _held.mask)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_signals, after_in_parent=_pass_signals, after_in_child=_in_child)
    os.register_at_fork(after_in_child=_pass_signals)
