"""Queues and routings of the Fireworq gateway in the store."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgpack

from jqmaster.domain.fireworq.queue import MAX_QUEUES, MAX_ROUTINGS, FireworqQueue
from jqmaster.errors import ConflictError, DamagedError
from jqmaster.store import codec
from jqmaster.store.identity.audit import MAX_ENTRIES
from jqmaster.store.link.shard import Shard

_UNREADABLE: Final = (ValueError, KeyError, TypeError, msgpack.UnpackException)


@dataclass(frozen=True, slots=True)
class FireworqDefinitions:
    """All queues by name, and the queue of each category that has a routing, both in the order of their names."""

    queues: Mapping[str, FireworqQueue]
    routings: Mapping[str, str]


class FireworqStore:
    """Queues and routings of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._keys = shard.keys

    async def all(self) -> FireworqDefinitions:
        """Return everything. Raise DamagedError."""
        queues, routings = await self._shard.client.pipeline(
            [("HGETALL", self._keys.fireworq_queues), ("HGETALL", self._keys.fireworq_routings)]
        )
        return FireworqDefinitions(
            dict(sorted((name.decode(), _decoded(name.decode(), raw)) for name, raw in _pairs(queues))),
            dict(sorted((category.decode(), queue.decode()) for category, queue in _pairs(routings))),
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
            raise ConflictError(
                f"there are {most} of them; delete one before you make another", code="too_many_fireworq"
            )


def _pairs(flat: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return zip(flat[::2], flat[1::2], strict=True)


def _encoded(queue: FireworqQueue) -> bytes:
    return codec.pack(
        {
            "polling_interval": queue.polling_interval,
            "max_workers": queue.max_workers,
            "max_dispatches_per_second": queue.max_dispatches_per_second,
            "max_burst_size": queue.max_burst_size,
        }
    )


def _decoded(name: str, raw: bytes) -> FireworqQueue:
    try:
        fields: dict[str, Any] = msgpack.unpackb(raw)
        return FireworqQueue(name, **fields)
    except _UNREADABLE as exc:
        raise DamagedError(f"the queue {name} of the Fireworq gateway cannot be read") from exc
