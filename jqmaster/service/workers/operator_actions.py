"""Operators' actions on workers: drain, resume, detach."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal

from jqmaster.domain.worker import Worker
from jqmaster.errors import ConflictError, after_it_was_done, unknown_worker
from jqmaster.service.workers.workers import existing_worker
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.workers.workers import Commanded, WorkerStore

logger = logging.getLogger(__name__)

WorkerOrder = Literal["drain", "resume", "detach"]
TellWorker = Callable[[str, WorkerOrder], Awaitable[None]]

_CHANGES: Final[Mapping[WorkerOrder, Mapping[str, Any]]] = {
    "drain": {"draining": True},
    "resume": {"draining": False},
    "detach": {"detached_by": "operator"},
}


class WorkerActions:
    """`tell(worker_id, order)` gives a worker an order at once; where it fails, the answer to the next heartbeat tells.
    Methods raise what the store raises."""

    def __init__(self, workers: WorkerStore, *, tell: TellWorker) -> None:
        self._workers = workers
        self._tell = tell

    async def drain(self, worker_id: str, who: str) -> Worker:
        """Drain the worker: it takes no more jobs and finishes those that it runs. Raise NotFoundError, ConflictError
        (detached)."""
        return await self._command("drain", self._workers.drain, worker_id, who)

    async def resume(self, worker_id: str, who: str) -> Worker:
        """Give the worker jobs again. Raise NotFoundError, ConflictError (detached)."""
        return await self._command("resume", self._workers.resume, worker_id, who)

    async def detach(self, worker_id: str, who: str) -> Worker:
        """Detach the worker: its jobs run elsewhere when it has stopped them, or when their leases end. Raise
        NotFoundError."""
        return await self._command("detach", self._workers.detach, worker_id, who)

    async def _command(
        self,
        order: WorkerOrder,
        command: Callable[[str, bytes], Awaitable[Commanded]],
        worker_id: str,
        who: str,
    ) -> Worker:
        before = await existing_worker(self._workers, worker_id)
        entry = encode_entry(
            who=who,
            action=f"worker.{order}",
            target=worker_id,
            before=_standing(before),
            after={**_standing(before), **_CHANGES[order]},
        )
        match await command(worker_id, entry):
            case Commanded.UNKNOWN:
                raise unknown_worker(worker_id)
            case Commanded.DETACHED:
                raise ConflictError(
                    f"worker {worker_id} is detached; it will register again by itself",
                    code="worker_detached",
                )
            case Commanded.NEW:
                logger.warning("worker %s: %s, by %s", worker_id, order, who)
        await self._tell(worker_id, order)
        with after_it_was_done():
            return await existing_worker(self._workers, worker_id)


def _standing(worker: Worker) -> dict[str, Any]:
    """Return the facts about a worker for its audit entry, so that people can identify it."""
    spec = worker.spec
    return {
        "url": spec.url,
        "node_id": spec.node_id,
        "pid": spec.pid,
        "draining": worker.is_draining,
        "detached_by": worker.detached_by,
    }
