"""Commands to workers that follow from actions of operators."""

import logging

from jqmaster.errors import JqmasterError
from jqmaster.runtime.outbound.worker_client import WorkerClient
from jqmaster.service.workers.operator_actions import WorkerCommand
from jqmaster.store.leadership.leadership import LeadershipStore
from jqmaster.store.workers.polls import PollStore
from jqmaster.store.workers.workers import WorkerStore

logger = logging.getLogger(__name__)


class CancelCommands:
    """Commands to cancel jobs. Any master may send them under the newest epoch in the store. Workers refuse an older
    epoch."""

    def __init__(self, workers: WorkerStore, leadership: LeadershipStore, client: WorkerClient) -> None:
        self._workers = workers
        self._leadership = leadership
        self._client = client

    async def __call__(self, worker_id: str, job_id: str, token: str) -> None:
        """Send the command. Losing it does little harm: the answer to the worker's next heartbeat names the canceled
        job, too."""
        try:
            worker = await self._workers.get(worker_id)
            epoch = await self._leadership.newest_number()
        except JqmasterError as exc:
            logger.warning("cannot tell worker %s to stop job %s: %s", worker_id, job_id, exc.detail)
            return
        if worker is not None and worker.spec.url is not None:
            await self._client.cancel(worker, epoch, job_id, token)


class WorkerCommands:
    """Commands about the worker itself. They are sent in the same way as commands to cancel jobs. A worker that pulls
    learns of a command from the answer to its poll."""

    def __init__(
        self, workers: WorkerStore, polls: PollStore, leadership: LeadershipStore, client: WorkerClient
    ) -> None:
        self._workers = workers
        self._polls = polls
        self._leadership = leadership
        self._client = client

    async def __call__(self, worker_id: str, command: WorkerCommand) -> None:
        """Send the command. Losing it does little harm: the answer to the worker's next heartbeat repeats the
        command."""
        try:
            worker = await self._workers.get(worker_id)
            epoch = await self._leadership.newest_number()
            if worker is not None and worker.is_pulling:
                await self._polls.notify(worker_id)
        except JqmasterError as exc:
            logger.warning("cannot tell worker %s to %s: %s", worker_id, command, exc.detail)
            return
        if worker is None or worker.is_pulling:
            return
        if not await self._client.command(worker, epoch, command):
            logger.info(
                "worker %s was not reached with the command to %s; the answer to its next heartbeat repeats it",
                worker_id,
                command,
            )
