"""The slot of a shard on a Cluster, and the engine's record of its moves."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from jqmaster.errors import ConflictError, OutcomeUnknownError, StoreUnavailableError
from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.cluster import ClusterLocator, Primary
from jqmaster.store.link.shard import Shard
from jqmaster.store.namespaces.slots import SlotStore
from tests.support.server import started
from tests.support.topology import Cluster, StoreNode
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.req("D20"), pytest.mark.req("D29")]
USER = ("on", ">secret", "~*", "&*", "+@all")
RIGHTS = ("cluster|migrateslots", "cluster|getslotmigrations", "cluster|cancelslotmigrations")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    rig = Cluster()
    with started(rig):
        yield rig


@contextlib.asynccontextmanager
async def slot_on(url: str) -> AsyncIterator[SlotStore]:
    """Yield the slot of a new shard, which has a key."""
    client = StoreClient(url, connections=2)
    shard = Shard.bound(client, Keys(f"t{uuid.uuid4().hex[:10]}"))
    try:
        await client.command("SET", f"{shard.keys.tag}x", "1")
        yield SlotStore(shard)
    finally:
        await client.close()


def nodes_of(cluster: Cluster, slots: SlotStore) -> tuple[StoreNode, StoreNode]:
    """Return the node that has the slot, and another one."""
    source = cluster.owner(slots.slot)
    return source, next(node for node in cluster.primaries if node is not source)


def skip_if(fault: str) -> None:
    if fault:
        assert "Valkey 9" in fault
        pytest.skip("this store moves slots key by key only")


async def until_ended(slots: SlotStore, state: str) -> None:
    async def is_so() -> bool:
        move = (await slots.look()).move
        return move is not None and move.state == state

    await wait_until(is_so, what=f"the move is {state}")


async def test_the_engine_moves_a_slot_and_says_so(cluster: Cluster) -> None:
    async with slot_on(cluster.url) as slots:
        source, target = nodes_of(cluster, slots)
        place = await slots.look()
        assert place.move is None
        assert place.address_of(place.node_id) == source.endpoint
        assert sorted(one.address for one in place.nodes) == sorted(one.endpoint for one in cluster.primaries)
        assert all(one.used_memory_bytes > 0 and not one.may_evict for one in place.nodes)
        skip_if(place.fault)
        # There and back within one second, in which the order of the moves is known by where the slot is.
        for source_, target_ in ((source, target), (target, source)):
            await slots.begin(cluster.id_of(source_), cluster.id_of(target_))
            await until_ended(slots, "done")
            place = await slots.look()
            assert place.move
            assert (place.node_id, place.move.target) == (cluster.id_of(target_), cluster.id_of(target_))
            assert place.move.ended_at_ms is not None
            assert place.move.is_alone
        with pytest.raises(ConflictError, match="the engine refuses"):
            await slots.begin(cluster.id_of(target), cluster.id_of(source))


async def test_a_move_that_is_cancelled_leaves_the_slot_where_it_was(cluster: Cluster) -> None:
    async with slot_on(cluster.url) as slots:
        source, target = nodes_of(cluster, slots)
        skip_if((await slots.look()).fault)
        source.ask("DEBUG", "SLOTMIGRATION", "PREVENT-PAUSE", 1)
        try:
            await slots.begin(cluster.id_of(source), cluster.id_of(target))
            move = (await slots.look()).move
            assert move
            assert (move.is_under_way, move.is_alone, move.ended_at_ms) == (True, True, None)
            for node in cluster.primaries:
                if node is not source:
                    with pytest.raises(ConflictError, match="the engine refuses"):
                        await slots.begin(cluster.id_of(source), cluster.id_of(node))
            near = (slots.slot - 1, slots.slot + 1)
            other = next(one for one in near if cluster.owner(one) is source)
            source.ask("CLUSTER MIGRATESLOTS", "SLOTSRANGE", other, other, "NODE", cluster.id_of(target))
            move = (await slots.look()).move
            assert move
            assert not move.is_alone
            await slots.cancel(cluster.id_of(source))
        finally:
            source.ask("DEBUG", "SLOTMIGRATION", "PREVENT-PAUSE", 0)
        await until_ended(slots, "aborted")
        assert (await slots.look()).node_id == cluster.id_of(source)


async def test_a_user_without_the_rights_is_told_which(cluster: Cluster) -> None:
    denied = [f"-{right}" for right in RIGHTS]
    for node in cluster.nodes:
        try:
            node.ask("ACL SETUSER", "limited", *USER, *denied)
        except ResponseError:
            pytest.skip("this store moves slots key by key only")
    async with slot_on(cluster.url.replace("://", "://limited:secret@")) as slots:
        source, target = nodes_of(cluster, slots)
        place = await slots.look()
        assert (place.node_id, place.move) == (cluster.id_of(source), None)
        for right in RIGHTS:
            assert f"+{right}" in place.fault
        with pytest.raises(ConflictError, match="migrateslots"):
            await slots.begin(cluster.id_of(source), cluster.id_of(target))


@pytest.mark.parametrize(("told", "state"), [("", "failed"), ("secret", "done")])
async def test_nodes_that_require_a_password_move_slots_if_they_are_told_it(told: str, state: str) -> None:
    rig = Cluster()
    with started(rig):
        async with slot_on(rig.url.replace("://", "://default:secret@")) as slots:
            skip_if((await slots.look()).fault)
            source, target = nodes_of(rig, slots)
            ids = rig.id_of(source), rig.id_of(target)
            for node in rig.nodes:
                node.ask("CONFIG SET", "primaryauth", told, "requirepass", "secret")
            await slots.begin(*ids)
            await until_ended(slots, state)
            move = (await slots.look()).move
            assert move
            assert ("set primaryauth" in move.reason) == (state == "failed")


class OldNode:
    """A node whose answers to commands about moves are given."""

    def __init__(self, real: Any, answer: Exception) -> None:
        self._real, self._answer = real, answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    async def execute_command(self, *command: Any) -> Any:
        raise self._answer


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (ResponseError("unknown subcommand 'GETSLOTMIGRATIONS'. Try CLUSTER HELP."), "Valkey 9"),
        (ResponseError("something else"), "the engine refuses: something else"),
        (RedisConnectionError("gone"), ""),
    ],
)
async def test_a_node_that_moves_no_slots_says_why(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, answer: Exception, fault: str
) -> None:
    async with slot_on(cluster.url) as slots:
        source, target = nodes_of(cluster, slots)
        real = ClusterLocator.client_of

        def client_of(locator: ClusterLocator, primary: Primary) -> Any:
            return OldNode(real(locator, primary), answer)

        monkeypatch.setattr(ClusterLocator, "client_of", client_of)
        place = await slots.look()
        assert fault in place.fault
        assert len(place.nodes) == (3 if fault else 0)
        with pytest.raises((ConflictError, OutcomeUnknownError)) as refused:
            await slots.begin(cluster.id_of(source), cluster.id_of(target))
        assert isinstance(refused.value, ConflictError) == bool(fault)


async def test_nodes_that_are_away_are_left_out() -> None:
    rig = Cluster()
    with started(rig):
        async with slot_on(rig.url) as slots:
            source, target = nodes_of(rig, slots)
            target_id = rig.id_of(target)
            target.kill()
            place = await slots.look()
            assert place.node(target.endpoint) is None
            assert place.address_of(target_id) == target_id
            with pytest.raises(StoreUnavailableError, match="does not answer"):
                await slots.begin("f" * 40, target_id)
            for node in rig.nodes:
                node.kill()
            await asyncio.sleep(0)
            with pytest.raises(StoreUnavailableError, match="the Cluster does not answer"):
                await slots.look()
            assert source is not target
