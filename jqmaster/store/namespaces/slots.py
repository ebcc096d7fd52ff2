"""The slot of a shard on a Cluster. The engine can move it to another node, and keeps the record of the move (Valkey 9,
`CLUSTER MIGRATESLOTS`)."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from redis.asyncio import Redis
from redis.crc import key_slot
from redis.exceptions import NoPermissionError, RedisError, ResponseError

from jqmaster.domain.namespaces.slot import ClusterNode, SlotMove, SlotPlace, state_of
from jqmaster.errors import ConflictError, OutcomeUnknownError, StoreUnavailableError
from jqmaster.store.link.cluster import ClusterLocator, Primary
from jqmaster.store.link.refusals import RETRY_AFTER_S, told
from jqmaster.store.link.shard import Shard

_Entry = Mapping[str, Any]
_BY_HAND: Final = "move it by hand, as docs/store.md says"


class SlotStore:
    """The slot of one shard. The store must be a Cluster. Methods raise StoreUnavailableError."""

    def __init__(self, shard: Shard) -> None:
        self.slot = int(key_slot(shard.keys.tag.encode()))
        self._shard = shard

    async def look(self) -> SlotPlace:
        """Return where the slot is, and its newest move."""
        answers = await asyncio.gather(*map(self._ask, await self._primaries()))
        nodes = [node for node, _, _ in answers if node]
        entries = [entry for _, found, _ in answers for entry in found]
        # Ask for the owner of the slot last, so that the answer is the target if a move is done.
        owner = next((one.id for one in await self._primaries() if one.has_slot), "")
        faults = [fault for node, _, fault in answers if fault and node and node.id == owner]
        return SlotPlace(self.slot, owner, nodes, self._newest(entries, owner), next(iter(faults), ""))

    async def begin(self, source_id: str, target_id: str) -> None:
        """Let the engine move the slot. Raise ConflictError if it refuses, and OutcomeUnknownError if it may have begun
        although its answer was lost."""
        await self._tell(
            source_id, "CLUSTER MIGRATESLOTS", "SLOTSRANGE", self.slot, self.slot, "NODE", target_id
        )

    async def cancel(self, source_id: str) -> None:
        """Let the engine cancel all moves of slots away from this node. Raise what `begin` raises."""
        await self._tell(source_id, "CLUSTER CANCELSLOTMIGRATIONS")

    async def _tell(self, node_id: str, *command: Any) -> None:
        node = next((one for one in await self._primaries() if one.id == node_id), None)
        if node is None:
            raise _away(f"node {node_id} does not answer")
        try:
            await self._cluster.client_of(node).execute_command(*command)  # type: ignore[no-untyped-call]
        except ResponseError as exc:
            raise ConflictError(_refusal(exc), code="move_refused") from exc
        except (RedisError, OSError) as exc:
            raise OutcomeUnknownError(
                f"node {node_id} has not answered, and may have obeyed: look at the slot again",
                retry_after_s=RETRY_AFTER_S,
            ) from exc

    async def _primaries(self) -> list[Primary]:
        try:
            return await self._cluster.primaries()
        except (RedisError, OSError) as exc:
            raise _away(str(exc)) from exc

    async def _ask(self, primary: Primary) -> tuple[ClusterNode | None, list[_Entry], str]:
        """Return the node, the moves of slots that it knows, and why it cannot move slots. Return None if the node does
        not answer.
        """
        client = self._cluster.client_of(primary)
        try:
            node = await _node(primary, client)
        except (RedisError, OSError, LookupError, ValueError):
            return None, [], ""
        try:
            found = await client.execute_command("CLUSTER GETSLOTMIGRATIONS")  # type: ignore[no-untyped-call]
            return node, [_entry(flat) for flat in found], ""
        except ResponseError as exc:
            return node, [], _refusal(exc)
        except (RedisError, OSError):
            return None, [], ""

    def _newest(self, entries: list[_Entry], owner_id: str) -> SlotMove | None:
        # Both nodes of a move have an entry for it. The entry at the source is the first to show the end.
        by_name = {one["name"]: one for one in sorted(entries, key=lambda one: one["operation"] == "EXPORT")}

        def order(entry: _Entry) -> tuple[int, bool, bool]:
            # The times of two moves may be equal, because they are in seconds.
            return (
                int(entry["create_time"]),
                state_of(entry["state"]) == "moving",
                entry["target_node"] == owner_id,
            )

        newest = max((one for one in by_name.values() if _has(one, self.slot)), key=order, default=None)
        if newest is None:
            return None
        others = [
            one
            for one in by_name.values()
            if one is not newest
            and one["source_node"] == newest["source_node"]
            and state_of(one["state"]) == "moving"
        ]
        state = state_of(newest["state"])
        return SlotMove(
            newest["source_node"],
            newest["target_node"],
            state,
            newest["state"],
            _reason(newest["message"]),
            is_alone=not others,
            began_at_ms=int(newest["create_time"]) * 1000,
            ended_at_ms=None if state == "moving" else int(newest["last_update_time"]) * 1000,
        )

    @property
    def _cluster(self) -> ClusterLocator:
        cluster = self._shard.client.cluster
        assert cluster, "the store is a Cluster"
        return cluster


async def _node(primary: Primary, client: Redis) -> ClusterNode:
    memory = await client.info("memory")
    host, port = primary.endpoint
    most = int(memory["maxmemory"])
    return ClusterNode(
        primary.id,
        f"{host}:{port}",
        int(memory["used_memory"]),
        most,
        most > 0 and str(memory["maxmemory_policy"]) != "noeviction",
    )


def _entry(flat: Any) -> _Entry:
    texts = [part.decode("utf-8", "replace") if isinstance(part, bytes) else part for part in flat]
    return dict(zip(texts[::2], texts[1::2], strict=True))


def _has(entry: _Entry, slot: int) -> bool:
    """Return whether the move includes this slot. `slot_ranges`: for example `7-9 12-12`."""
    ranges = [one.split("-") for one in str(entry["slot_ranges"]).split()]
    return any(int(first) <= slot <= int(last) for first, last in ranges)


def _reason(message: str) -> str:
    """Return why the engine gave a move up, with the remedy."""
    if "NOAUTH" in message or "WRONGPASS" in message:
        message = f"{message.strip()}: set primaryauth, and primaryuser if it is not the default user, at every node"
    return message.strip()


def _refusal(error: ResponseError) -> str:
    """Return why the engine moves no slots, with the remedy."""
    if isinstance(error, NoPermissionError):
        return (
            "the user of the store must not move slots: permit it `+cluster|migrateslots +cluster|getslotmigrations "
            f"+cluster|cancelslotmigrations` at every node, or {_BY_HAND}"
        )
    if "unknown subcommand" in str(error).lower():
        return f"the engine cannot move a slot in one piece, as Valkey 9 can: {_BY_HAND}"
    return f"the engine refuses: {told(error)}"


def _away(reason: str) -> StoreUnavailableError:
    return StoreUnavailableError(f"the Cluster does not answer: {reason}", retry_after_s=RETRY_AFTER_S)
