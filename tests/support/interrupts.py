"""Interrupts the main thread with signals, in the midst of whatever it does."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def interrupted(by: Callable[[], object], *, every_s: float) -> Iterator[None]:
    """Let a handler of signals call `by` in the main thread, `every_s` after its last call ended.

    A timer would interrupt its own handler on a slow machine, and would take the signal that limits the test's time.
    """
    is_over, was_called = threading.Event(), threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def call(*_: object) -> None:
        try:
            by()
        finally:
            was_called.set()

    def send() -> None:
        while not is_over.wait(every_s):
            was_called.clear()
            signal.pthread_kill(main, signal.SIGUSR1)
            while not was_called.wait(0.1) and not is_over.is_set():
                pass

    before = signal.signal(signal.SIGUSR1, call)
    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    try:
        yield
    finally:
        is_over.set()
        sender.join()
        signal.signal(signal.SIGUSR1, before)
