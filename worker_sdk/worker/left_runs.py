"""Watch handlers that still run after their worker was stopped in a process that continues, such as a web server or a
test."""

import logging
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Final

from worker_sdk.masters.blocking_client import BlockingClient
from worker_sdk.masters.masters import MasterUnreachableError
from worker_sdk.worker.executor import Executor
from worker_sdk.worker.farewell import Farewell
from worker_sdk.worker.identity import WorkerIdentity
from worker_sdk.worker.report_queue import ReportQueue

logger = logging.getLogger(__name__)

_LOOK_S: Final = 0.2
_CALL_S: Final = 5.0
# How long reports are repeated after the last handler has ended, while no master accepts them.
_TELL_WITHIN_S: Final = 10.0


class LeftRuns:
    """Reports the ends of the remaining runs from a thread, and unregisters the worker after the last run. Until then,
    heartbeats renew the leases of the runs. If this process ends first, another process notices this and hands the jobs
    back.

    `farewell`: the reports that the other process sends. None: the worker is not registered. `on_over` is called at the
    end."""

    def __init__(
        self,
        client: BlockingClient,
        identity: WorkerIdentity,
        executor: Executor,
        report_queue: ReportQueue,
        *,
        farewell: Farewell | None,
        on_over: Callable[[], object],
    ) -> None:
        self._client = client
        self._identity = identity
        self._executor = executor
        self._report_queue = report_queue
        self._farewell = farewell
        self._on_over = on_over
        self._follower: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self._farewell is not None:
            try:
                self._follower = self._farewell.follow_process()
            except OSError as exc:
                # The ends of the jobs are lost if this process ends first. Masters then wait until the leases end.
                logger.warning("no process can be started to wait for the end of this one: %s", exc)
        threading.Thread(target=self._main, name="jq-left-runs", daemon=True).start()

    def _main(self) -> None:
        try:
            self._report()
            self._on_over()
            self._call("DELETE", "", None)
            if self._follower is not None:
                self._follower.kill()
                self._follower.wait()
        except Exception:
            # The other process still sends the reports that this process has not sent.
            logger.exception("the ends of handlers that did not stop are not reported")
        finally:
            self._client.close()

    def _report(self) -> None:
        end_s = time.monotonic() + _TELL_WITHIN_S
        while self._executor.occupying or len(self._report_queue):
            if self._executor.occupying:
                end_s = time.monotonic() + _TELL_WITHIN_S
            elif time.monotonic() > end_s:
                return
            time.sleep(_LOOK_S)
            self._report_queue.send_with(lambda body: self._call("POST", "/results", body))

    def _call(self, method: str, route: str, body: bytes | None) -> bool:
        """Call a master. Return whether it gave a final answer."""
        worker_id = self._identity.worker_id
        if worker_id is None:
            return False
        try:
            answer = self._client.call(method, f"/api/workers/{worker_id}{route}", body, timeout_s=_CALL_S)
        except MasterUnreachableError as exc:
            logger.debug("no answer from a master: %s", exc)
            return False
        return not answer.is_transient
