"""The worker of `jqmaster serve --with-worker`, in the master's process but with its own thread and event loop.

So a handler that blocks the worker's loop delays neither the leases of other workers nor the lead. The worker
calls its master over HTTP, like every worker. So handlers behave in the same way as in a separate worker process."""

import asyncio
import logging
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final
from urllib.parse import urlsplit

logger = logging.getLogger(__name__)

_ANYWHERE: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - a comparison


class Companion:
    """Runs a worker in its own thread.

    * `worker`: the `worker_sdk.Worker`, which starts and stops once.
    * `token`: a token for this worker, which is valid while the process runs.
    """

    def __init__(self, worker: Any) -> None:
        self._worker = worker
        self.token = secrets.token_urlsafe(32)
        self._stop: Callable[[], object] | None = None
        self._started: Future[None] = Future()
        self._ended: Future[None] = Future()
        self._thread = threading.Thread(target=self._main, name="jq-companion", daemon=True)

    async def start(self, master_url: str) -> None:
        """Start the worker, which then registers itself. Raises the worker's OSError or ValueError if it cannot
        serve."""
        self._worker.master = loopback_of(master_url)
        self._worker.token = self.token
        self._thread.start()
        await asyncio.wrap_future(self._started)

    async def stop(self) -> None:
        """Drain the worker, deliver its results, and end it. Handlers that ignore the request to stop keep running."""
        if self._stop is not None:
            self._stop()
            await asyncio.wrap_future(self._ended)

    def _main(self) -> None:
        import uvloop

        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve())
                # Set the result before the runner ends. The runner waits for handlers that do not stop, and such
                # handlers end only with the process.
                self._ended.set_result(None)
        except BaseException as exc:  # whatever the error, wake the code that waits for the thread
            for outcome in (self._started, self._ended):
                if not outcome.done():
                    outcome.set_exception(exc)

    async def _serve(self) -> None:
        told = asyncio.Event()
        loop = asyncio.get_running_loop()
        async with self._worker.running():
            self._stop = lambda: loop.call_soon_threadsafe(told.set)
            logger.info("worker at %s for %s", self._worker.address, ", ".join(self._worker.names))
            self._started.set_result(None)
            await told.wait()
            logger.info("draining the worker")


def loopback_of(url: str) -> str:
    """Return `url` with a host by which this machine can reach it: a wildcard is replaced by loopback."""
    parts = urlsplit(url)
    if parts.hostname not in _ANYWHERE:
        return url
    host = "127.0.0.1" if parts.hostname == "0.0.0.0" else "[::1]"  # noqa: S104 - a comparison
    return f"{parts.scheme}://{host}:{parts.port}"
