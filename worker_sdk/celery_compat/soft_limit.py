"""Raise SoftTimeLimitExceeded inside a function that runs for too long."""

import asyncio
import contextlib
import ctypes
import signal
import threading
from collections.abc import Callable, Coroutine, Generator
from types import FrameType
from typing import Any, Protocol

from worker_sdk.celery_compat.exceptions import SoftTimeLimitExceeded


def call_within(limit_s: float, function: Callable[[], Any]) -> Any:
    """Call a function, and raise SoftTimeLimitExceeded inside it after `limit_s` seconds.

    In the main thread, which isolated attempts use, a signal interrupts every wait of the function. In other threads,
    the exception is raised when the function next runs Python code, so a blocking call in C finishes first.
    """
    limit = _by_signal(limit_s) if _may_use_signal() else _InThread(limit_s)
    try:
        return function()
    finally:
        try:
            limit.end()
        except SoftTimeLimitExceeded:
            # The limit was exceeded while it was being removed. Remove it again.
            limit.end()
            raise


class _Limit(Protocol):
    def end(self) -> None:
        """Remove the limit. This call may still raise the exception, for the last time."""
        ...


def _may_use_signal() -> bool:
    return (
        threading.current_thread() is threading.main_thread()
        # Leave the signal alone if other code uses it, such as a time limit of a test runner.
        and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    )


class _by_signal:  # noqa: N801  it is called like a function
    def __init__(self, limit_s: float) -> None:
        signal.signal(signal.SIGALRM, self._raise)
        signal.setitimer(signal.ITIMER_REAL, limit_s)

    @staticmethod
    def _raise(number: int, frame: FrameType | None) -> None:
        raise SoftTimeLimitExceeded

    def end(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


class _InThread:
    def __init__(self, limit_s: float) -> None:
        self._thread_id = ctypes.c_ulong(threading.get_ident())
        self._lock = threading.Lock()
        self._is_over = False
        self._timer = threading.Timer(limit_s, self._raise)
        self._timer.daemon = True
        self._timer.start()

    def _raise(self) -> None:
        with self._lock:
            if not self._is_over:
                self._is_over = True
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    self._thread_id, ctypes.py_object(SoftTimeLimitExceeded)
                )

    def end(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._is_over = True
        # Let a pending exception be raised here, and not in the next job of this thread. Python checks for it at each
        # backward jump. Do not withdraw it: Python 3.11 would then check for it forever, and under a tracer, such as
        # coverage or a debugger, no function would start.
        for _ in range(2):
            pass


async def await_within(limit_s: float, work: Coroutine[Any, Any, Any]) -> Any:
    """Await a coroutine, and raise SoftTimeLimitExceeded inside it, where it waits, after `limit_s` seconds."""
    task = asyncio.current_task()
    assert task is not None
    inside = _Interruptible(work, task)
    timer = asyncio.get_running_loop().call_later(limit_s, inside.interrupt)
    try:
        return await inside
    finally:
        timer.cancel()


class _Interruptible:
    """Awaits a coroutine. `interrupt` cancels the wait inside, and raises the exception there instead of
    CancelledError."""

    def __init__(self, work: Coroutine[Any, Any, Any], task: "asyncio.Task[Any]") -> None:
        self._work = work
        self._task = task
        self._is_due = False

    def interrupt(self) -> None:
        self._is_due = True
        self._task.cancel()

    def _next_exception(self, exc: BaseException | None) -> BaseException | None:
        """Return the exception to raise inside, after the wait has ended with `exc` or without an exception."""
        if not self._is_due:
            return exc
        self._is_due = False
        # If the task was also canceled from elsewhere, pass that cancellation on.
        if self._task.uncancel() > 0 and isinstance(exc, asyncio.CancelledError):
            return exc
        return SoftTimeLimitExceeded()

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._work
        exc: BaseException | None = None
        sent: Any = None
        with contextlib.closing(steps):
            while True:
                try:
                    waited = steps.send(sent) if exc is None else steps.throw(exc)
                except StopIteration as end:
                    return end.value
                exc = sent = None
                try:
                    sent = yield waited
                except BaseException as raised:
                    exc = raised
                exc = self._next_exception(exc)
