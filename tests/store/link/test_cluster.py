"""The client on a Cluster: one node serves the shard, whichever node that is."""

import asyncio
import contextlib
import signal
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgpack
import pytest
import redis
from redis.crc import key_slot

from jqmaster.domain.jobs.job import JobState
from jqmaster.errors import OutcomeUnknownError, StoreUnavailableError
from jqmaster.store.jobs.enqueue_outcomes import Accepted, Outcome
from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.cluster import ClusterLocator
from jqmaster.store.link.scripts import load, names
from jqmaster.store.link.shard import Shard
from jqmaster.store.link.wake import JobsReady, MailArrived, WakeMessage, encode
from tests.support.drill import backed_up_and_restored, exported_and_imported
from tests.support.listening import OwnListener
from tests.support.master import master_on
from tests.support.ports import free_port
from tests.support.server import started
from tests.support.store import StoreWorld
from tests.support.topology import Cluster, StoreNode, wait_for
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.req("D20")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Start a Cluster whose first node has a replica."""
    rig = Cluster(replicas=1)
    with started(rig):
        yield rig


def shard_on(cluster: Cluster, node: StoreNode) -> tuple[str, int]:
    """Return a tag whose slot this node has."""
    while True:
        tag = f"t{uuid.uuid4().hex[:10]}"
        slot = key_slot(f"{{{tag}}}".encode())
        if cluster.owner(slot) is node:
            return tag, slot


@contextlib.asynccontextmanager
async def world_on(url: str, tag: str, **options: object) -> AsyncIterator[StoreWorld]:
    client = StoreClient(url, connections=8, **options)  # type: ignore[arg-type]
    client.listens_sharded = client.publishes_sharded = True
    try:
        async with StoreWorld.on(Shard.bound(client, Keys(tag))) as world:
            yield world
    finally:
        await client.close()


async def test_each_shard_is_served_by_its_node(cluster: Cluster) -> None:
    for node in cluster.primaries:
        tag, _ = shard_on(cluster, node)
        # Any node will do as a start.
        async with world_on(f"redis+cluster://{cluster.nodes[-1].endpoint}", tag) as world:
            job_id = await world.enqueue()
            assert node.ask("EXISTS", world.shard.keys.job(job_id)) == 1
            worker = await world.worker()
            (job,) = await world.claim(worker)
            assert await world.settlements.settle_success(worker, [(job.job_id, job.token, b"")]) == [True]


async def test_a_client_that_knows_no_tag_is_told_where_to_go(cluster: Cluster) -> None:
    for node in cluster.primaries:
        tag, _ = shard_on(cluster, node)
        client = StoreClient(cluster.url, connections=2)
        try:
            assert await client.command("GET", f"{{{tag}}}:x") is None
            await client.redis.set(f"{{{tag}}}:x", "1")
            assert await client.pipeline([("GET", f"{{{tag}}}:x")]) == [b"1"]
            assert node.ask("DEL", f"{{{tag}}}:x") == 1
        finally:
            await client.close()


async def test_a_master_serves_from_a_cluster(cluster: Cluster) -> None:
    async with master_on(cluster.url) as (_, api):
        job_id = await api.enqueue("work")
        assert await api.state(job_id) == "ready"


@pytest.mark.req("D31")
async def test_a_backup_and_an_export_of_a_shard_arrive_in_one_on_another_node(
    cluster: Cluster, tmp_path: Path
) -> None:
    source, target = (shard_on(cluster, node)[0] for node in cluster.primaries[:2])
    client = StoreClient(cluster.url, connections=2)
    into = Shard.bound(client, Keys(target))
    async with world_on(cluster.url, source) as world:
        await world.enqueue_many(30)
        await backed_up_and_restored(world, tmp_path, into=into, JQMASTER_REDIS_URL=cluster.url)
        await exported_and_imported(world, tmp_path, into=into, JQMASTER_REDIS_URL=cluster.url)
    await client.close()


async def test_a_slot_that_is_being_moved_stops_its_shard_and_breaks_nothing(cluster: Cluster) -> None:
    """A script could start on one node while its keys move, and not find the keys that moved to the other."""
    source, target, *_ = cluster.primaries
    tag, slot = shard_on(cluster, source)
    async with world_on(cluster.url, tag) as world:
        worker = await world.worker(max_jobs=100)
        ids = await world.enqueue_many(50)
        (running, *_) = await world.claim(worker, limit=5)
        cluster.begin_move(slot, source, target)

        async def refused() -> None:
            """Assert that every script is refused, whether its keys are here, there or on both nodes."""
            for script in (load(name) for name in names()):
                keys = [f"{world.shard.keys.tag}{name}" for name in script.keys]
                with pytest.raises(StoreUnavailableError) as error:
                    await world.shard.client.run(script.name, keys, [0] * len(script.args))
                assert error.value.retry_after_s

        await refused()
        while cluster.move_keys(slot, source, target, at_most=20):
            await refused()
        cluster.end_move(slot, source, target)
        assert cluster.owner(slot) is target
        again = [world.spec(argument=n, id=job_id) for n, job_id in enumerate(ids)]
        assert await world.acceptance.enqueue(again) == [Accepted.KNOWN] * 50
        assert await world.settlements.settle_success(worker, [(running.job_id, running.token, b"")]) == [
            True
        ]
        assert len(await world.claim(worker)) == 45


async def test_calls_go_on_while_their_slot_changes_hands(cluster: Cluster) -> None:
    """The former node redirects its clients, and they follow: nobody notices."""
    *_, source, target = cluster.primaries
    tag, slot = shard_on(cluster, source)
    async with world_on(cluster.url, tag) as world:
        ids = [await world.enqueue() for _ in range(10)]
        cluster.begin_move(slot, source, target)
        while cluster.move_keys(slot, source, target, at_most=100):
            pass
        cluster.end_move(slot, source, target)
        found, _ = await asyncio.gather(asyncio.gather(*map(world.get, ids)), world.enqueue())
        assert [job.id for job in found] == ids
        assert len(await world.records.get_without_argument(ids)) == 10


async def test_a_slot_that_is_moved_in_one_piece_is_followed_and_nothing_is_refused(cluster: Cluster) -> None:
    source, target, *_ = cluster.primaries
    tag, slot = shard_on(cluster, source)
    async with world_on(cluster.url, tag) as world:
        await world.enqueue_many(2_000)
        try:
            source.ask("CLUSTER MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", cluster.id_of(target))
        except redis.ResponseError:
            pytest.skip("this store moves slots key by key only")
        count = 2_000
        while cluster.owner(slot) is not target:
            await world.enqueue()
            count += 1
        await world.enqueue()
        worker = await world.worker(max_jobs=500)
        assert len(await world.claim(worker, limit=500)) == 500
        assert (await world.inspector.counts())[JobState.READY] == count + 1 - 500


async def test_it_follows_a_failover_and_so_do_those_who_listen(cluster: Cluster) -> None:
    before, after = cluster.with_replica
    tag, _ = shard_on(cluster, before)
    gaps: list[int] = []
    woken: list[WakeMessage] = []
    async with world_on(cluster.url, tag, quorum_replicas=1) as world:
        events = OwnListener(
            world.shard,
            on_wake=woken.append,
            on_finished=lambda job_id: None,
            on_gap=lambda: gaps.append(1),
        )
        await events.start()
        try:
            await wait_until(lambda: gaps)
            ids = [await world.enqueue() for _ in range(10)]
            spec = world.spec()
            before.signal(signal.SIGSTOP)
            # The node hangs; with the timeout of five seconds the call would not end sooner. Its repeat is harmless.
            try:

                async def accepted() -> bool:
                    try:
                        return bool(await world.acceptance.enqueue([spec]))
                    except OutcomeUnknownError as unknown:
                        # No replica is left to confirm it: the repeat does that.
                        return "too few replicas" in unknown.detail
                    except StoreUnavailableError:
                        return False

                await wait_until(accepted, timeout_s=30)
                assert after.is_primary
                assert (await world.get(spec.id)).id == spec.id
                for job_id in ids:
                    await world.get(job_id)
            finally:
                before.signal(signal.SIGCONT)
            await asyncio.to_thread(
                wait_for, lambda: not before.is_primary, "the former primary is a replica"
            )
            # The job is not lost silently: with a replica again, it is confirmed.
            woken.clear()

            async def heard() -> list[WakeMessage]:
                with contextlib.suppress(StoreUnavailableError, OutcomeUnknownError):
                    await world.enqueue()
                return woken

            await wait_until(heard)

            async def confirmed() -> list[Outcome]:
                with contextlib.suppress(StoreUnavailableError, OutcomeUnknownError):
                    return await world.acceptance.enqueue([spec])
                return []

            assert await wait_until(confirmed) == [Accepted.KNOWN]
        finally:
            await events.stop()


@contextlib.asynccontextmanager
async def listening(world: StoreWorld) -> AsyncIterator[tuple[list[WakeMessage], list[int]]]:
    """Yield the messages that a listener hears, and its gaps."""
    woken: list[WakeMessage] = []
    gaps: list[int] = []
    listener = OwnListener(
        world.shard,
        on_wake=woken.append,
        on_finished=lambda job_id: None,
        on_gap=lambda: gaps.append(1),
    )
    await listener.start()
    try:
        await wait_until(lambda: gaps)
        yield woken, gaps
    finally:
        await listener.stop()


def messages_between(node: StoreNode) -> int:
    """Return how many messages of channels this node has received from others."""
    found = node.ask("CLUSTER INFO")
    return sum(
        int(found.get(f"cluster_stats_messages_{kind}_received", 0)) for kind in ("publish", "publishshard")
    )


@pytest.mark.parametrize("is_sharded", [True, False])
async def test_a_message_costs_the_node_of_the_shard_alone(cluster: Cluster, is_sharded: bool) -> None:
    node, *others = cluster.primaries
    tag, _ = shard_on(cluster, node)
    async with world_on(cluster.url, tag) as world, listening(world) as (woken, _):
        world.shard.client.publishes_sharded = is_sharded
        before = [messages_between(other) for other in others]
        for _ in range(20):
            await world.enqueue()
            await world.shard.client.publish(world.shard.keys.wake_channel, encode(MailArrived("w")))
        await wait_until(lambda: woken.count(MailArrived("w")) == 20)
        assert woken.count(JobsReady()) == 20
        if is_sharded:
            assert [messages_between(other) for other in others] == before
        else:
            # The former way costs all of them, and counts here too.
            await wait_until(
                lambda: [messages_between(other) for other in others] == [count + 40 for count in before]
            )


async def test_a_slot_that_moves_takes_its_listeners_along(cluster: Cluster) -> None:
    source, target, *_ = cluster.primaries
    tag, slot = shard_on(cluster, source)
    async with world_on(cluster.url, tag) as world, listening(world) as (woken, gaps):
        await world.enqueue()
        await wait_until(lambda: woken == [JobsReady()])
        for there, back in ((target, source), (source, target)):
            gaps.clear()
            cluster.begin_move(slot, back, there)
            while cluster.move_keys(slot, back, there, at_most=100):
                pass
            cluster.end_move(slot, back, there)
            # It looks for what it did not hear, and hears again.
            await wait_until(lambda: gaps)
            woken.clear()
            await world.enqueue()
            await wait_until(lambda: woken)
            channel = world.shard.keys.wake_channel
            assert dict(there.ask("PUBSUB SHARDNUMSUB", channel)) == {channel.encode(): 1}


@pytest.mark.req("M12")
async def test_masters_of_two_releases_hear_each_other(cluster: Cluster) -> None:
    """The former release neither publishes with SPUBLISH nor hears it, nor says in its entry how it listens."""
    async with master_on(cluster.url) as (master, api):
        link = master.shard.services.link
        client, keys = link.client, link.keys
        await wait_until(lambda: client.publishes_sharded, what="it is alone")
        former = {"node_id": "n", "pid": 1, "url": "http://former", "version": "0.2.0", "started_at_ms": 1}
        async with client.redis.pubsub() as pubsub:
            await pubsub.subscribe(keys.wake_channel, keys.finished_channel)
            await client.redis.hset(keys.master_info, "former", msgpack.packb(former))
            await wait_until(lambda: not client.publishes_sharded, what="it has seen the former master")
            job_id = await api.enqueue("work")
            assert (await api.call("POST", f"/api/jobs/{job_id}/cancel"))[0] == 200
            await client.publish(keys.wake_channel, encode(MailArrived("w")))

            async def is_heard() -> bool:
                message = await pubsub.get_message(timeout=1)
                return message is not None and message["data"] == b"mail:w"

            await wait_until(is_heard, what="the former master hears")
        # A waiting caller at the new master learns from the former one that its job ended.
        heard: list[str] = []
        master.shard._channels._on_finished = heard.append
        await client.redis.publish(keys.finished_channel, "j1")
        await wait_until(lambda: heard == ["j1"], what="the new master hears")
        await client.redis.hdel(keys.master_info, "former")
        await wait_until(lambda: client.publishes_sharded, what="the former master is gone")


async def test_a_node_that_the_url_does_not_name_is_asked_too(cluster: Cluster) -> None:
    first, other = cluster.primaries[:2]
    tag, _ = shard_on(cluster, other)
    async with world_on(f"redis+cluster://{first.endpoint}", tag) as world:
        locator = world.shard.client._locator
        assert isinstance(locator, ClusterLocator)
        for _ in range(2):
            locator.doubt()
            await world.enqueue()
        assert [port for _, port in locator._others] == [other.port]


async def test_without_a_node_that_answers_nothing_is_done() -> None:
    client = StoreClient(f"redis+cluster://127.0.0.1:{free_port()}")
    try:
        with pytest.raises(StoreUnavailableError):
            await client.command("PING")
    finally:
        await client.close()
    with pytest.raises(StoreUnavailableError):
        await client.command("PING")


async def test_nodes_that_send_each_other_around_are_not_followed_for_ever(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, other = cluster.primaries[:2]
    tag, _ = shard_on(cluster, other)
    async with world_on(cluster.url, tag) as world:
        locator = world.shard.client._locator
        assert isinstance(locator, ClusterLocator)
        followed = 0

        def go_back(_: object) -> None:
            nonlocal followed
            followed += 1
            locator._address = ("127.0.0.1", first.port)

        with monkeypatch.context() as patch:
            patch.setattr(locator, "follow", go_back)
            locator._address = ("127.0.0.1", first.port)
            with pytest.raises(StoreUnavailableError):
                await world.shard.client.command("GET", world.shard.keys.epoch)
        assert 1 < followed < 10
        locator.doubt()
        await world.enqueue()
