"""Import modules at the first call that needs them. Many programs never make such a call."""

import contextlib
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any, Final

# The modules for calls from threads, and the modules for calls from an event loop. `encodings.idna` is among them,
# because Python looks up host names with it.
OF_SYNC_CALLS: Final = ("worker_sdk.pusher.sync_client", "worker_sdk.transport.tls", "encodings.idna")
OF_ASYNC_CALLS: Final = ("worker_sdk.pusher.client", "worker_sdk.transport.tls", "encodings.idna")
# The modules that calls of tasks need in addition.
OF_TASKS: Final = (
    "worker_sdk.pusher.jobs",
    "worker_sdk.tasks.codec",
    "worker_sdk.tasks.client",
    "worker_sdk.pusher.by_process",
    "worker_sdk.pusher.results",
    "worker_sdk.tasks.handle",
    "worker_sdk.tasks.parts",
    "worker_sdk.tasks.log_stream",
)


def load(names: Sequence[str]) -> None:
    """Import modules so that a signal handler may use them at any moment.

    Signal handlers run in the main thread. A handler that interrupts an import by the main thread finds a half-made
    module and fails with ImportError. A handler that needs a module which another thread is importing waits until the
    import is complete. So a second thread imports the modules.
    """
    if all(name in sys.modules for name in names):
        return
    # Import threading only here: modules that only define tasks do not need it.
    import threading

    if threading.current_thread() is threading.main_thread() and not _is_importing():
        thread = threading.Thread(target=_import, args=(names,), name="jq-import", daemon=True)
        # If no thread can be started, the caller imports the modules itself.
        with contextlib.suppress(RuntimeError):
            thread.start()
            thread.join()
            return
    _import(names)


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a `__getattr__` for a package. It imports the module of each public name when the name is first used."""

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(modules[name]), name)

    return get


def _import(names: Sequence[str]) -> None:
    # Ignore an ImportError: it is raised again where the module is used.
    with contextlib.suppress(ImportError):
        for name in names:
            importlib.import_module(name)


def _is_importing() -> bool:
    """Return whether this thread is importing a module. If it is, another thread that imports might wait for this
    thread forever."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
