"""Orders to workers that follow from what operators do."""

import logging
from collections.abc import Callable

from jqmaster.errors import JqmasterError
from jqmaster.runtime.worker_client import WorkerClient
from jqmaster.store.workers import WorkerStore

logger = logging.getLogger(__name__)


class CancelOrders:
    """`epoch` gives the newest epoch number that this master knows; workers refuse an older one."""

    def __init__(self, workers: WorkerStore, client: WorkerClient, epoch: Callable[[], int]) -> None:
        self._workers = workers
        self._client = client
        self._epoch = epoch

    async def __call__(self, worker_id: str, job_id: str, token: str) -> None:
        """Best effort: the worker's next heartbeat tells it anyway."""
        try:
            worker = await self._workers.get(worker_id)
        except JqmasterError as exc:
            logger.warning("cannot order worker %s to stop job %s: %s", worker_id, job_id, exc.detail)
            return
        if worker is not None and worker.spec.url is not None:
            await self._client.cancel(worker, self._epoch(), job_id, token)
