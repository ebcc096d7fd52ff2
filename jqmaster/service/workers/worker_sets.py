"""Commands to many workers at once. The workers are selected by version, machine, label or ID."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from jqmaster.domain.workers.worker import Worker
from jqmaster.errors import ConflictError, NotFoundError
from jqmaster.service.workers.operator_actions import WorkerActions
from jqmaster.store.workers.workers import WorkerStore

logger = logging.getLogger(__name__)

SetCommand = Literal["drain", "resume"]

# Number of workers that get the command at the same time. With several at a time, a worker that does not answer hardly
# delays the others.
AT_ONCE: Final = 20


@dataclass(frozen=True, slots=True)
class WorkerSelection:
    """Selects the workers that meet all given conditions. `label`: the name and the value of a label."""

    worker_ids: frozenset[str] | None = None
    node_id: str | None = None
    version: str | None = None
    label: tuple[str, str] | None = None

    def has(self, worker: Worker) -> bool:
        spec = worker.spec
        return (
            (self.worker_ids is None or worker.id in self.worker_ids)
            and (self.node_id is None or spec.node_id == self.node_id)
            and (self.version is None or spec.version == self.version)
            and (self.label is None or spec.labels.get(self.label[0]) == self.label[1])
        )


class WorkerSets:
    """Sends commands to many workers. Each worker gets the command and an audit entry, as if it were the only worker.
    Methods raise what the store raises."""

    def __init__(self, workers: WorkerStore, actions: WorkerActions) -> None:
        self._workers = workers
        self._actions = actions

    async def affected_by(self, command: SetCommand, selection: WorkerSelection) -> list[Worker]:
        """Return the selected workers that the command would change. Draining changes the workers that are not
        draining. Resuming changes the workers that are draining. Detached workers take no command."""
        return [
            worker
            for worker in await self._workers.all()
            if selection.has(worker)
            and not worker.is_detached
            and worker.is_draining == (command == "resume")
        ]

    async def command(self, command: SetCommand, selection: WorkerSelection, who: str) -> list[Worker]:
        """Send the command. Return the workers that got it. Workers that have left meanwhile are missing."""
        affected_by = await self.affected_by(command, selection)
        room = asyncio.Semaphore(AT_ONCE)

        async def give(worker: Worker) -> Worker | None:
            async with room:
                try:
                    return await self._actions.command(command, worker.id, who)
                except (NotFoundError, ConflictError):
                    return None

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(give(worker)) for worker in affected_by]
        done = [worker for task in tasks if (worker := task.result())]
        logger.warning("%s of %d workers, by %s", command, len(done), who)
        return done


def jobs_of(workers: Sequence[Worker]) -> int:
    """Return the number of claims that the workers hold together."""
    return sum(worker.busy for worker in workers)
