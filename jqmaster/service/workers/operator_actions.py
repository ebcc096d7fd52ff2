"""Operators' actions on workers: drain, resume or detach a worker, and set its slots."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal

from jqmaster.domain.workers.slot_rule import SlotRule
from jqmaster.domain.workers.worker import Worker
from jqmaster.errors import ConflictError, NotFoundError, after_it_was_done, unknown_worker
from jqmaster.service.workers.workers import existing_worker
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.workers.workers import Commanded, WorkerStore

logger = logging.getLogger(__name__)

WorkerCommand = Literal["drain", "resume", "detach"]
TellWorker = Callable[[str, WorkerCommand], Awaitable[None]]

_CHANGES: Final[Mapping[WorkerCommand, Mapping[str, Any]]] = {
    "drain": {"draining": True},
    "resume": {"draining": False},
    "detach": {"detached_by": "operator"},
}


class WorkerActions:
    """Sends commands to workers, and sets their slots. `tell(worker_id, command)` sends a worker a command at once.
    If this fails, the answer to the next heartbeat contains the command. Methods raise what the store raises."""

    def __init__(self, workers: WorkerStore, *, tell: TellWorker) -> None:
        self._workers = workers
        self._tell = tell
        self._commands: Mapping[WorkerCommand, Callable[[str, bytes], Awaitable[Commanded]]] = {
            "drain": workers.drain,
            "resume": workers.resume,
            "detach": workers.detach,
        }

    async def command(self, command: WorkerCommand, worker_id: str, who: str) -> Worker:
        """Give the worker a command. Raise NotFoundError, ConflictError (detached).

        * drain: the worker takes no more jobs, and finishes the jobs that it runs.
        * resume: the worker gets jobs again.
        * detach: the worker gets no more jobs. Each of its jobs runs elsewhere once the worker has stopped it, or when
          its lease ends. A detached worker may be detached again.
        """
        before = await existing_worker(self._workers, worker_id)
        entry = encode_entry(
            who=who,
            action=f"worker.{command}",
            target=worker_id,
            before=_standing(before),
            after={**_standing(before), **_CHANGES[command]},
        )
        match await self._commands[command](worker_id, entry):
            case Commanded.UNKNOWN:
                raise unknown_worker(worker_id)
            case Commanded.DETACHED:
                raise _detached(worker_id)
            case Commanded.NEW:
                logger.warning("worker %s: %s, by %s", worker_id, command, who)
        await self._tell(worker_id, command)
        with after_it_was_done():
            return await existing_worker(self._workers, worker_id)

    async def set_slots(
        self, worker_id: str, max_jobs: int | None, who: str, *, is_kept: bool = False, now_ms: int = 0
    ) -> Worker:
        """Set how many jobs the worker may have, from its next claim on. None: as many as when it registered. The
        worker learns the number from the answer to its next heartbeat. It finishes jobs that exceed the number.

        `is_kept`: whether workers that later register from the same node with the same labels get this number, too.

        Raise NotFoundError, ConflictError (detached).
        """
        before = await existing_worker(self._workers, worker_id)
        spec = before.spec
        kept = None
        if is_kept and max_jobs is not None:
            kept = SlotRule(spec.node_id, spec.labels, max_jobs, who, now_ms)
        facts = {"url": spec.url, "node_id": spec.node_id, "pid": spec.pid}
        after = before.own_max_jobs if max_jobs is None else max_jobs
        entry = encode_entry(
            who=who,
            action="worker.slots",
            target=worker_id,
            before={**facts, "max_jobs": spec.max_jobs},
            after={**facts, "max_jobs": after, **({"kept_as": kept.id} if kept else {})},
        )
        done = await self._workers.set_slots(worker_id, max_jobs, entry, kept=kept)
        if done is Commanded.UNKNOWN:
            raise unknown_worker(worker_id)
        if done is Commanded.DETACHED:
            raise _detached(worker_id)
        if done is Commanded.NEW:
            logger.warning("worker %s: %d slots, by %s", worker_id, after, who)
        with after_it_was_done():
            return await existing_worker(self._workers, worker_id)

    async def slot_rules(self) -> list[SlotRule]:
        """Return the slot rules, which apply to workers that register later."""
        return await self._workers.slot_rules()

    async def drop_slot_rule(self, rule_id: str, who: str) -> None:
        """Remove a slot rule. Workers that register later get the number of slots with which they register. Raise
        NotFoundError."""
        rule = next((one for one in await self._workers.slot_rules() if one.id == rule_id), None)
        before = None
        if rule is not None:
            before = {"node_id": rule.node_id, "labels": dict(rule.labels), "max_jobs": rule.max_jobs}
        entry = encode_entry(who=who, action="slot_rule.delete", target=rule_id, before=before, after=None)
        if not await self._workers.drop_slot_rule(rule_id, entry):
            raise NotFoundError(f"no slot rule has the ID {rule_id}", code="unknown_slot_rule")


def _detached(worker_id: str) -> ConflictError:
    return ConflictError(
        f"worker {worker_id} is detached; it will register again by itself", code="worker_detached"
    )


def _standing(worker: Worker) -> dict[str, Any]:
    """Return the facts of an audit entry by which people can identify the worker."""
    spec = worker.spec
    return {
        "url": spec.url,
        "node_id": spec.node_id,
        "pid": spec.pid,
        "draining": worker.is_draining,
        "detached_by": worker.detached_by,
    }
