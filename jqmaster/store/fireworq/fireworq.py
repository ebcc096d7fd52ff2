"""Queues and routings of the Fireworq gateway in the store."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import msgpack

from jqmaster.domain.fireworq.queue import MAX_QUEUES, MAX_ROUTINGS, FireworqQueue
from jqmaster.errors import ConflictError, DamagedError
from jqmaster.store import codec
from jqmaster.store.identity.audit import MAX_ENTRIES
from jqmaster.store.link.shard import Shard

logger = logging.getLogger(__name__)

_UNREADABLE: Final = (ValueError, TypeError, msgpack.UnpackException)
_TERMS: Final = tuple(term.name for term in fields(FireworqQueue) if term.name != "name")


@dataclass(frozen=True, slots=True)
class FireworqDefinitions:
    """All queues by name, and by category the queue to which its jobs are routed. Queues and categories are sorted by
    name. `damaged`: queues whose terms cannot be read. Their constraints and targets still exist, so their jobs still
    run.
    """

    queues: Mapping[str, FireworqQueue]
    routings: Mapping[str, str]
    damaged: frozenset[str] = frozenset()

    def has_queue(self, name: str) -> bool:
        return name in self.queues or name in self.damaged


class FireworqStore:
    """Queues and routings of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._keys = shard.keys
        # Names of damaged queues that the log already has.
        self._reported = set[str]()

    async def all(self) -> FireworqDefinitions:
        """Return all queues and routings. A queue that cannot be read is reported and listed in `damaged`."""
        documents, routings = await self._shard.client.pipeline(
            [("HGETALL", self._keys.fireworq_queues), ("HGETALL", self._keys.fireworq_routings)]
        )
        queues: dict[str, FireworqQueue] = {}
        damaged = set[str]()
        for name, raw in sorted((_text(name), raw) for name, raw in _pairs(documents)):
            try:
                queues[name] = decode_queue(name, raw)
            except DamagedError as exc:
                damaged.add(name)
                if name not in self._reported:
                    logger.error("%s", exc.detail)
        self._reported = damaged
        return FireworqDefinitions(
            queues,
            dict(sorted((_text(category), _text(queue)) for category, queue in _pairs(routings))),
            frozenset(damaged),
        )

    async def put_queue(self, queue: FireworqQueue, audit_entry: bytes) -> None:
        """Create or replace a queue. Raise ConflictError if there are MAX_QUEUES others."""
        await self._put(self._keys.fireworq_queues, queue.name, _encoded(queue), audit_entry, MAX_QUEUES)

    async def delete_queue(self, name: str, audit_entry: bytes) -> None:
        await self._put(self._keys.fireworq_queues, name, b"", audit_entry, MAX_QUEUES)

    async def put_routing(self, category: str, queue: str, audit_entry: bytes) -> None:
        """Create or replace a routing. Raise ConflictError if there are MAX_ROUTINGS others."""
        await self._put(self._keys.fireworq_routings, category, queue.encode(), audit_entry, MAX_ROUTINGS)

    async def delete_routing(self, category: str, audit_entry: bytes) -> None:
        await self._put(self._keys.fireworq_routings, category, b"", audit_entry, MAX_ROUTINGS)

    async def _put(self, key: str, name: str, document: bytes, audit_entry: bytes, most: int) -> None:
        word, _ = await self._shard.client.run(
            "put_fireworq",
            (key, self._keys.audit),
            (self._shard.now_arg, name, document, audit_entry, MAX_ENTRIES, most),
        )
        if word == "full":
            kind = "queues" if key == self._keys.fireworq_queues else "routings"
            raise ConflictError(
                f"there are already {most} {kind}; delete one before you create another",
                code="too_many_fireworq",
            )


def _pairs(flat: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return zip(flat[::2], flat[1::2], strict=True)


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")


def _encoded(queue: FireworqQueue) -> bytes:
    return codec.pack({term: getattr(queue, term) for term in _TERMS})


def decode_queue(name: str, raw: bytes) -> FireworqQueue:
    """Return a queue. Terms that a later release added are ignored. Raise DamagedError."""
    try:
        found: Any = msgpack.unpackb(raw)
        if not isinstance(found, dict):
            raise TypeError("the terms must be a map")
        queue = FireworqQueue(name, **{term: found[term] for term in _TERMS if term in found})
        queue.check()
    except _UNREADABLE as exc:
        raise damaged_queue(name) from exc
    return queue


def damaged_queue(name: str) -> DamagedError:
    return DamagedError(
        f"the terms of the queue {name[:100]} of the Fireworq gateway cannot be read: put it again, or delete it"
    )
