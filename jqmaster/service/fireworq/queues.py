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
from jqmaster.errors import InvalidError, NotFoundError
from jqmaster.service.constraints.documents import describe
from jqmaster.service.constraints.editor import ConstraintEditor
from jqmaster.service.targets.editor import TargetEditor
from jqmaster.store.fireworq.fireworq import FireworqDefinitions, FireworqStore
from jqmaster.store.identity.audit import encode_entry

# A change by another process is seen after this time at the latest, as Fireworq promises it.
REFRESH_S: Final = 1.0
_NOTHING_SHOWN: Final = no_access(())
_REASON: Final = "A queue of the Fireworq gateway. Change it there."


class FireworqQueues:
    """`default_queue`: the queue of categories without a routing, which always exists; None: such jobs are refused.
    `hosts`: where jobs may be sent, as in `allow_hosts` of a target. Methods raise what the store raises."""

    def __init__(
        self,
        store: FireworqStore,
        constraints: ConstraintEditor,
        targets: TargetEditor,
        clock: Clock,
        *,
        default_queue: str | None,
        hosts: Sequence[str],
    ) -> None:
        self._store = store
        self._constraints = constraints
        self._targets = targets
        self._clock = clock
        self._default_queue = default_queue
        self._hosts = hosts
        self._lock = asyncio.Lock()
        self._known: tuple[float, FireworqDefinitions] | None = None

    async def all(self, *, at_once: bool = False) -> FireworqDefinitions:
        """Return all queues and routings, at most REFRESH_S old; `at_once`: as they are now."""
        async with self._lock:
            now_s = self._clock.monotonic_s()
            if self._known is not None and not at_once and now_s - self._known[0] < REFRESH_S:
                return self._known[1]
            found = await self._store.all()
            if self._default_queue is not None and self._default_queue not in found.queues:
                await self._put(FireworqQueue(self._default_queue), None, "fireworq")
                found = await self._store.all()
            self._known = (now_s, found)
            return found

    async def queue(self, name: str) -> FireworqQueue:
        """Return a queue. Raise NotFoundError."""
        found = (await self.all()).queues.get(name) or (await self.all(at_once=True)).queues.get(name)
        if found is None:
            raise NotFoundError(f"there is no queue {name[:100]}")
        return found

    async def queue_of(self, category: str) -> FireworqQueue:
        """Return the queue to which jobs of a category go. Raise InvalidError if there is none."""
        for at_once in (False, True):
            found = await self.all(at_once=at_once)
            name = found.routings.get(category, self._default_queue)
            if name is not None and (queue := found.queues.get(name)) is not None:
                return queue
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
        """Delete a queue, and return it. Its jobs stay, and go on if it is created again. Raise NotFoundError."""
        queue = (await self.all(at_once=True)).queues.get(name)
        if queue is None:
            raise NotFoundError(f"there is no queue {name[:100]}")
        try:
            # Without a target no job of the queue starts, so the limits go last.
            with contextlib.suppress(NotFoundError):
                await self._targets.delete(queue.object_name, who=who)
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
        if queue not in found.queues:
            raise NotFoundError(f"there is no queue {queue[:100]}")
        old = found.routings.get(category)
        try:
            await self._store.put_routing(
                category, queue, _entry(who, "fireworq_routing.put", category, _routed(old), _routed(queue))
            )
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

    async def _put(self, queue: FireworqQueue, old: FireworqQueue | None, who: str) -> None:
        # The limits come first, so that no job runs without them.
        await self._constraints.put(queue.object_name, _constraint(queue), who, _NOTHING_SHOWN)
        await self._targets.put(queue.object_name, self._target(queue), who=who)
        before = None if old is None else old.document
        await self._store.put_queue(
            queue, _entry(who, "fireworq_queue.put", queue.name, before, queue.document)
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


def no_routing(category: str) -> NotFoundError:
    return NotFoundError(f"the category {category[:100]} has no routing")


def _constraint(queue: FireworqQueue) -> Mapping[str, Any]:
    """Return the document of the whole constraint: whatever else people gave it is taken back."""
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
