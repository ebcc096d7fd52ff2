"""Orders to workers that follow from what operators do."""

from collections.abc import Callable

from jqmaster.runtime.worker_client import WorkerClient
from jqmaster.store.workers import WorkerStore


class CancelOrders:
    """`epoch` gives the newest epoch number that this master knows; workers refuse an older one."""

    def __init__(self, workers: WorkerStore, client: WorkerClient, epoch: Callable[[], int]) -> None:
        self._workers = workers
        self._client = client
        self._epoch = epoch

    async def __call__(self, worker_id: str, job_id: str, token: str) -> None:
        """Best effort: the worker's next heartbeat tells it anyway."""
        worker = await self._workers.get(worker_id)
        if worker is not None and worker.spec.url is not None:
            await self._client.cancel(worker, self._epoch(), job_id, token)
