"""Queues and routings of the Fireworq gateway. A queue is a constraint and a target with the same name."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from jqmaster.clock import Clock
from jqmaster.domain.constraints.constraint import Constraint, new_cid
from jqmaster.domain.constraints.gate_check import Rate
from jqmaster.domain.content.content import no_access
from jqmaster.domain.fireworq.queue import FireworqQueue
from jqmaster.domain.matching.matcher import parse_matcher
from jqmaster.domain.targets.target import (
    DEFAULT_FINAL,
    DEFAULT_NOT_READY_S,
    DEFAULT_OK,
    MAX_RUNNING,
    BodyForm,
)
from jqmaster.errors import (
    InvalidError,
    JqmasterError,
    NotFoundError,
    PreconditionFailedError,
    after_it_was_done,
)
from jqmaster.service.constraints.documents import describe
from jqmaster.service.constraints.editor import ConstraintEditor
from jqmaster.service.named_objects import Precondition
from jqmaster.service.targets.documents import describe as describe_target
from jqmaster.service.targets.editor import TargetEditor
from jqmaster.store.fireworq.fireworq import FireworqDefinitions, FireworqStore, damaged_queue
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.targets.documents import StoredTarget
from jqmaster.store.targets.targets import TargetStore

# Maximum age of the copy of the queues. Fireworq guarantees that changes by other processes are seen within this time.
REFRESH_S: Final = 1.0
_NOTHING_SHOWN: Final = no_access(())
_NEW: Final = Precondition(none_match=frozenset({"*"}))
_REASON: Final = "A queue of the Fireworq gateway. Change it there."


class FireworqQueues:
    """Reads and changes queues and routings.

    * `default_queue`: the name of the queue for categories without a routing. This queue always exists. None: jobs of
      such categories are refused.
    * `hosts`: the hosts to which jobs may be sent, in the form of `allow_hosts` of a target.

    Methods raise what the store raises."""

    def __init__(
        self,
        store: FireworqStore,
        constraints: ConstraintEditor,
        targets: TargetEditor,
        target_store: TargetStore,
        clock: Clock,
        *,
        default_queue: str | None,
        hosts: Sequence[str],
    ) -> None:
        self._store = store
        self._constraints = constraints
        self._targets = targets
        self._target_store = target_store
        self._clock = clock
        self._default_queue = default_queue
        self._hosts = tuple(hosts)
        self._lock = asyncio.Lock()
        self._known: tuple[float, FireworqDefinitions] | None = None

    async def all(self, *, at_once: bool = False) -> FireworqDefinitions:
        """Return all queues and routings. If `at_once`, read them from the store. Otherwise, they may be up to
        REFRESH_S old."""
        async with self._lock:
            now_s = self._clock.monotonic_s()
            if self._known is not None and not at_once and now_s - self._known[0] < REFRESH_S:
                return self._known[1]
            found = await self._store.all()
            if self._default_queue is not None and not found.has_queue(self._default_queue):
                await self._put(FireworqQueue(self._default_queue), None, "fireworq")
                found = await self._store.all()
            self._known = (now_s, found)
            return found

    async def queue(self, name: str) -> FireworqQueue:
        """Return a queue. Raise NotFoundError, DamagedError."""
        for at_once in (False, True):
            found = await self.all(at_once=at_once)
            if (queue := found.queues.get(name)) is not None:
                return queue
        if name in found.damaged:
            raise damaged_queue(name)
        raise _no_queue(name)

    async def queue_of(self, category: str) -> FireworqQueue:
        """Return the queue to which jobs of a category go. Raise InvalidError if there is no such queue."""
        for at_once in (False, True):
            found = await self.all(at_once=at_once)
            name = found.routings.get(category, self._default_queue)
            if name is not None and (queue := found.queues.get(name)) is not None:
                return queue
        if name is not None and name in found.damaged:
            # The entry of the queue is damaged, but a job needs only the name of its queue. The limits are in the
            # queue's constraint.
            return FireworqQueue(name)
        if name is None:
            raise InvalidError(f"the category {category[:100]} has no routing, and there is no default queue")
        raise InvalidError(
            f"the category {category[:100]} goes to the queue {name[:100]}, which is not defined"
        )

    async def put_queue(self, queue: FireworqQueue, who: str) -> None:
        """Create or replace a queue, with its constraint and its target."""
        old = (await self.all(at_once=True)).queues.get(queue.name)
        try:
            await self._put(queue, old, who)
        finally:
            self._forget()

    async def delete_queue(self, name: str, who: str) -> FireworqQueue:
        """Delete a queue, and return it. Its jobs stay, and continue if the queue is created again. Raise
        NotFoundError."""
        found = await self.all(at_once=True)
        if not found.has_queue(name):
            raise _no_queue(name)
        # If the entry of the queue is damaged, the settings of the queue are unknown, so return only its name.
        queue = found.queues.get(name, FireworqQueue(name))
        try:
            # Without the target, no job of the queue starts. So delete the target first, and the constraint with the
            # limits after it.
            with contextlib.suppress(NotFoundError):
                await self._targets.delete(queue.object_name, who=who)
            with after_it_was_done("the target of the queue was deleted"):
                with contextlib.suppress(NotFoundError):
                    await self._constraints.delete(queue.object_name, who)
                await self._store.delete_queue(
                    name, _entry(who, "fireworq_queue.delete", name, queue.document, None)
                )
        finally:
            self._forget()
        return queue

    async def put_routing(self, category: str, queue: str, who: str) -> None:
        """Send jobs of a category to a queue from now on. Raise NotFoundError if there is no such queue."""
        found = await self.all(at_once=True)
        if not found.has_queue(queue):
            raise _no_queue(queue)
        try:
            await self._store_routing(category, queue, found.routings.get(category), who)
        finally:
            self._forget()

    async def delete_routing(self, category: str, who: str) -> str:
        """Delete a routing, and return its queue. Raise NotFoundError."""
        queue = (await self.all(at_once=True)).routings.get(category)
        if queue is None:
            raise no_routing(category)
        try:
            await self._store.delete_routing(
                category, _entry(who, "fireworq_routing.delete", category, _routed(queue), None)
            )
        finally:
            self._forget()
        return queue

    async def take_over_queue(self, queue: FireworqQueue, who: str) -> bool:
        """Create an imported queue, and its constraint and its target if they do not exist. Return False if the queue
        exists."""
        if (await self.all()).has_queue(queue.name):
            return False
        with contextlib.suppress(PreconditionFailedError):
            await self._constraints.put(queue.object_name, _constraint(queue), who, _NOTHING_SHOWN, _NEW)
        with contextlib.suppress(PreconditionFailedError):
            await self._targets.put(queue.object_name, self._target(queue), who=who, demands=_NEW)
        await self._store_queue(queue, None, who)
        self._forget()
        return True

    async def take_over_routing(self, category: str, queue: str, who: str) -> bool:
        """Create an imported routing. Return False if the category has a routing. Raise NotFoundError if there is no
        such queue."""
        # Use the copy of the queues, which may be a second old. An import of many routings must not read the queues
        # each time.
        found = await self.all()
        if category in found.routings:
            return False
        if not found.has_queue(queue):
            raise _no_queue(queue)
        await self._store_routing(category, queue, None, who)
        return True

    async def allow_hosts(self, who: str) -> None:
        """Update the allowed hosts in the targets of all queues. The setting may have changed since the targets were
        created."""
        queues = await self._store.all()
        targets = (await self._target_store.load()).targets
        faults: list[JqmasterError] = []
        for name in sorted({*queues.queues, *queues.damaged}):
            stored = targets.get(FireworqQueue(name).object_name)
            # Skip a target with an address that an operator has set: its address does not depend on jobs.
            if stored is None or not stored.target.url_from or stored.target.allow_hosts == self._hosts:
                continue
            try:
                await self._change_hosts(stored, who)
            except JqmasterError as exc:
                faults.append(exc)
        if faults:
            raise faults[0]

    async def _change_hosts(self, stored: StoredTarget, who: str) -> None:
        target = stored.target
        fields = describe_target(target) | {
            "url": {"from_": target.url_from},
            # Take these values from the stored target. Its description hides some of them, and would overwrite them.
            "headers": target.headers,
            "secret": None,
            "allow_hosts": self._hosts,
        }
        demands = Precondition(match=frozenset({stored.etag}))
        # If somebody has changed the target meanwhile, the next round updates it.
        with contextlib.suppress(PreconditionFailedError):
            await self._targets.put(target.name, fields, who=who, demands=demands)

    async def _put(self, queue: FireworqQueue, old: FireworqQueue | None, who: str) -> None:
        # Create the constraint first, so that no job runs without its limits.
        await self._constraints.put(queue.object_name, _constraint(queue), who, _NOTHING_SHOWN)
        with after_it_was_done("the constraint of the queue was changed"):
            await self._targets.put(queue.object_name, self._target(queue), who=who)
            await self._store_queue(queue, old, who)

    async def _store_queue(self, queue: FireworqQueue, old: FireworqQueue | None, who: str) -> None:
        before = None if old is None else old.document
        await self._store.put_queue(
            queue, _entry(who, "fireworq_queue.put", queue.name, before, queue.document)
        )

    async def _store_routing(self, category: str, queue: str, old: str | None, who: str) -> None:
        await self._store.put_routing(
            category, queue, _entry(who, "fireworq_routing.put", category, _routed(old), _routed(queue))
        )

    def _target(self, queue: FireworqQueue) -> Mapping[str, Any]:
        return {
            "names": [queue.job_name],
            "url": {"from_": "argument.url"},
            "method": "POST",
            "body": BodyForm.FIREWORQ,
            "headers": {},
            "secret": None,
            "max_running": min(queue.workers, MAX_RUNNING),
            "max_running_per_host": None,
            "ok": DEFAULT_OK,
            "final": DEFAULT_FINAL,
            "timeout": None,
            "not_ready_for_s": DEFAULT_NOT_READY_S,
            "allow_hosts": self._hosts,
            "description": _REASON,
        }

    def _forget(self) -> None:
        self._known = None


def _no_queue(name: str) -> NotFoundError:
    return NotFoundError(f"there is no queue {name[:100]}")


def no_routing(category: str) -> NotFoundError:
    return NotFoundError(f"the category {category[:100]} has no routing")


def _constraint(queue: FireworqQueue) -> Mapping[str, Any]:
    """Return the document of the queue's constraint. It has all fields, so writing it undoes every change that somebody
    has made to the constraint."""
    starts = queue.starts
    return describe(
        Constraint(
            name=queue.object_name,
            cid=new_cid(),
            matcher=parse_matcher({"field": "name", "op": "eq", "value": queue.job_name}),
            concurrency=queue.workers,
            rate=None if starts is None else Rate(starts.limit, round(starts.period_s * 1000)),
            reason=_REASON,
        )
    )


def _routed(queue: str | None) -> dict[str, Any] | None:
    return None if queue is None else {"queue_name": queue}


def _entry(
    who: str, action: str, target: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> bytes:
    return encode_entry(who=who, action=action, target=target, before=before, after=after)
