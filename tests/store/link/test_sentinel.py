"""The client behind Sentinels finds the primary, follows it, and takes no replica for it."""

import asyncio
import contextlib
import signal
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from jqmaster.errors import OutcomeUnknownError, StoreUnavailableError
from jqmaster.net.store_url import StoreUrl
from jqmaster.store.jobs.enqueue_outcomes import Accepted
from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.sentinel import SentinelLocator
from jqmaster.store.link.shard import Shard
from jqmaster.store.link.wake import WakeMessage
from tests.support.drill import backed_up_and_restored
from tests.support.listening import OwnListener
from tests.support.server import started
from tests.support.store import StoreWorld
from tests.support.topology import SERVICE, Sentinels, StoreNode, wait_for
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.req("D20")]


@pytest.fixture(scope="module")
def rig() -> Iterator[Sentinels]:
    one = Sentinels(replicas=2)
    with started(one):
        yield one


@pytest.fixture
def sentinels(rig: Sentinels) -> Sentinels:
    """Return the Sentinels in good order, whatever the previous test did."""
    rig.heal()
    return rig


@contextlib.asynccontextmanager
async def world_on(url: str, **options: object) -> AsyncIterator[StoreWorld]:
    client = StoreClient(url, connections=8, **options)  # type: ignore[arg-type]
    try:
        async with StoreWorld.on(Shard.bound(client, Keys(f"t{uuid.uuid4().hex[:10]}"))) as world:
            yield world
    finally:
        await client.close()


async def push_until_accepted(world: StoreWorld, timeout_s: float = 15) -> str:
    """Enqueue the same job again and again, as a pusher does."""
    spec = world.spec()

    async def accepted() -> bool:
        try:
            return bool(await world.acceptance.enqueue([spec]))
        except (StoreUnavailableError, OutcomeUnknownError):
            return False

    await wait_until(accepted, timeout_s=timeout_s)
    return spec.id


async def test_it_follows_a_planned_failover_and_so_do_those_who_listen(sentinels: Sentinels) -> None:
    woken: list[WakeMessage] = []
    gaps: list[int] = []
    # The quorum is all replicas: for a while, the former primary still takes writes and another replica confirms them.
    async with world_on(sentinels.url, quorum_replicas=2) as world:
        told: list[tuple[str, int]] = []
        world.shard.client.on_located(lambda host, port: told.append((host, port)))
        events = OwnListener(
            world.shard,
            on_wake=woken.append,
            on_finished=lambda job_id: None,
            on_gap=lambda: gaps.append(1),
        )
        await events.start()
        try:
            await wait_until(lambda: gaps)
            before = sentinels.primary
            kept = [await world.enqueue() for _ in range(20)]
            await asyncio.to_thread(sentinels.fail_over)
            await asyncio.to_thread(wait_for, lambda: sentinels.primary is not before, "failover")
            await asyncio.to_thread(sentinels.heal)
            kept.append(await push_until_accepted(world))
            after = sentinels.primary
            await wait_until(lambda: told[1:])
            assert told == [("127.0.0.1", before.port), ("127.0.0.1", after.port)]
            for job_id in kept:
                await world.get(job_id)
            # A listener is woken again, by messages at the new primary.
            woken.clear()

            async def heard() -> list[WakeMessage]:
                await push_until_accepted(world)
                return woken

            await wait_until(heard)
        finally:
            await events.stop()


async def test_it_leaves_a_primary_that_hangs_as_soon_as_there_is_another(sentinels: Sentinels) -> None:
    """A call that waits for a lost answer is in doubt at once, not only after its timeout."""
    async with world_on(sentinels.url, timeout_s=60) as world:
        before = sentinels.primary
        await world.enqueue()
        before.signal(signal.SIGSTOP)
        try:
            spec = world.spec()
            with pytest.raises(OutcomeUnknownError):
                async with asyncio.timeout(30):
                    await world.acceptance.enqueue([spec])
            assert sentinels.primary is not before
            assert await world.acceptance.enqueue([spec]) in ([Accepted.NEW], [Accepted.KNOWN])
        finally:
            before.signal(signal.SIGCONT)
        await world.enqueue()


async def test_a_replica_is_never_spoken_to(sentinels: Sentinels) -> None:
    """This holds even while the Sentinels name it, as they do for a moment after a failover."""
    replica = next(node for node in sentinels.nodes if node is not sentinels.primary)
    async with world_on(sentinels.url) as world:
        locator = world.shard.client._locator
        assert isinstance(locator, SentinelLocator)
        job_id = await world.enqueue()
        with pytest.MonkeyPatch.context() as patch:

            async def wrong() -> tuple[str, int]:
                return "127.0.0.1", replica.port

            patch.setattr(locator, "_find", wrong)
            locator.doubt()
            with pytest.raises(StoreUnavailableError):
                await world.records.get(job_id)
            with pytest.raises(StoreUnavailableError):
                await world.acceptance.enqueue([world.spec()])
        await world.get(job_id)


async def test_the_newest_configuration_is_believed_and_a_silent_sentinel_costs_little(
    sentinels: Sentinels,
) -> None:
    hung = sentinels.sentinels[0]
    hung.signal(signal.SIGSTOP)
    try:
        async with world_on(sentinels.url) as world:
            loop = asyncio.get_running_loop()
            began_s = loop.time()
            locator = world.shard.client._locator
            assert locator
            locator.doubt()
            await world.enqueue()
            assert loop.time() - began_s < 1
    finally:
        hung.signal(signal.SIGCONT)


async def test_nobody_who_knows_the_service_is_not_done() -> None:
    alone = StoreNode()
    with started(alone):
        for url in ("redis+sentinel://127.0.0.1:1/jq", f"redis+sentinel://{alone.endpoint}/jq"):
            client = StoreClient(url)
            try:
                with pytest.raises(StoreUnavailableError):
                    await client.command("PING")
            finally:
                await client.close()


async def test_an_old_configuration_loses_against_a_newer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    locator = SentinelLocator(
        StoreUrl.parse(f"redis+sentinel://a,b,c/{SERVICE}"), lambda at: Redis(host=at[0], port=at[1])
    )
    said = iter([(3, "old", 1), (5, "new", 2), (4, "older", 3)])

    async def ask(_: object) -> tuple[int, str, int]:
        return next(said)

    monkeypatch.setattr(locator, "_ask", ask)
    assert await locator.address() == ("new", 2)
    await locator.close()


async def test_all_that_follow_the_primary_are_told_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    locator = SentinelLocator(
        StoreUrl.parse(f"redis+sentinel://a/{SERVICE}"), lambda at: Redis(host=at[0], port=at[1])
    )

    async def ask(_: object) -> tuple[int, str, int]:
        return 1, "primary", 1

    monkeypatch.setattr(locator, "_ask", ask)
    told: list[str] = []
    locator.on_located(lambda host, port: told.append(f"workers {host}:{port}"))
    locator.on_located(lambda host, port: told.append(f"webhooks {host}:{port}"))
    assert await locator.address() == ("primary", 1)
    assert told == ["workers primary:1", "webhooks primary:1"]
    await locator.close()


async def test_a_search_that_nobody_waits_for_any_more_ends_with_its_locator() -> None:
    locator = SentinelLocator(
        StoreUrl.parse(f"redis+sentinel://a,b,c/{SERVICE}"), lambda at: Redis(host=at[0], port=at[1])
    )
    told: list[tuple[str, int]] = []
    locator.on_located(lambda host, port: told.append((host, port)))
    is_asked = asyncio.Event()

    async def ask(_: object) -> tuple[int, str, int]:
        is_asked.set()
        await asyncio.sleep(60)
        raise AssertionError

    locator._ask = ask  # type: ignore[method-assign, assignment]
    search = asyncio.create_task(locator.address())
    await is_asked.wait()
    await locator.close()
    with pytest.raises((asyncio.CancelledError, RedisConnectionError)):
        await search
    assert told == []
    with pytest.raises(RedisConnectionError, match="closed"):
        await locator.address()


@pytest.mark.req("D31")
async def test_a_backup_is_taken_of_the_primary_and_restored_there(
    sentinels: Sentinels, tmp_path: Path
) -> None:
    async with world_on(sentinels.url) as world:
        await world.enqueue_many(30)
        await backed_up_and_restored(world, tmp_path, JQMASTER_REDIS_URL=sentinels.url)
