"""A connection to the store that ended while idle, in any way, is not used again."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis

from jqmaster.errors import OutcomeUnknownError
from jqmaster.store.jobs.enqueue_outcomes import Accepted
from jqmaster.store.keys import Keys
from jqmaster.store.link import pool as pool_module
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.connection import is_lost
from jqmaster.store.link.sentinel import SentinelLocator
from jqmaster.store.link.shard import Shard
from jqmaster.store.link.wake import JobsReady, WakeMessage
from tests.chaos.proxy import RawLink
from tests.support.listening import OwnListener
from tests.support.loops import LOOPS, MakeLoop, run_in
from tests.support.server import StoreServer
from tests.support.store import StoreWorld
from tests.support.waiting import wait_until


@contextlib.asynccontextmanager
async def behind_link(
    server: StoreServer, *, connections: int = 16, timeout_s: float = 5.0
) -> AsyncIterator[tuple[StoreWorld, RawLink]]:
    """A world that reaches the store over TCP, where connections can be reset."""
    link = RawLink("store", str(server.socket), seed=1)
    await link.start()
    client = StoreClient(f"redis://127.0.0.1:{link.port}", connections=connections, timeout_s=timeout_s)
    try:
        async with StoreWorld.on(Shard.bound(client, Keys(f"t{uuid.uuid4().hex[:10]}"))) as world:
            yield world, link
    finally:
        await client.close()
        await link.stop()


async def use_all(world: StoreWorld, count: int) -> None:
    await asyncio.gather(*(world.shard.client.command("TIME") for _ in range(count)))


async def reset_all(world: StoreWorld, link: RawLink) -> None:
    """Reset all connections, and return when the client's loop has noticed."""
    connections = list(world.shard.client._pool._at_hand) + list(
        world.shard.client._pool._pool._available_connections
    )
    assert connections
    assert link.reset()
    await wait_until(lambda: all(is_lost(c) for c in connections), what="the resets have arrived")


@pytest.mark.req("M1")
@LOOPS
@pytest.mark.parametrize("connections", [2, 16])
def test_connections_that_were_reset_while_idle_are_replaced_and_nobody_notices(
    lone_server: StoreServer, make_loop: MakeLoop, connections: int
) -> None:
    async def main() -> None:
        async with behind_link(lone_server, connections=connections) as (world, link):
            for _ in range(3):
                await use_all(world, connections)
                await reset_all(world, link)
                await use_all(world, connections)
                await world.enqueue()

    run_in(make_loop, main())


@pytest.mark.req("M1")
@LOOPS
def test_a_transport_that_closes_under_a_call_leaves_the_outcome_unknown_and_is_not_used_again(
    lone_server: StoreServer,
    make_loop: MakeLoop,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        async with behind_link(lone_server) as (world, _):
            await world.enqueue()
            spec = world.spec()
            # The connection closes at the last moment, after every check of it.
            monkeypatch.setattr(pool_module, "_is_idle", lambda _: True)
            kept: list[Any] = [*world.shard.client._pool._at_hand]
            for connection in kept:
                connection._writer.transport.abort()
            with pytest.raises(OutcomeUnknownError):
                await world.acceptance.enqueue([spec])
            monkeypatch.undo()
            assert await world.acceptance.enqueue([spec]) == [Accepted.NEW]

    run_in(make_loop, main())


@pytest.mark.req("M1")
@LOOPS
def test_after_one_connection_gave_no_answer_those_that_lay_idle_are_made_anew(
    lone_server: StoreServer, make_loop: MakeLoop
) -> None:
    async def main() -> None:
        async with behind_link(lone_server, timeout_s=3.0) as (world, link):
            await use_all(world, 16)
            # After a silent cut, the network has forgotten these connections, and lets new ones pass.
            link.forget_all()
            spec = world.spec()
            with pytest.raises(OutcomeUnknownError):
                await world.acceptance.enqueue([spec])
            assert await world.acceptance.enqueue([spec]) == [Accepted.NEW]
            await use_all(world, 16)

    run_in(make_loop, main())


@LOOPS
def test_behind_sentinels_connections_that_were_reset_are_replaced_too(
    lone_server: StoreServer, make_loop: MakeLoop
) -> None:
    async def main() -> None:
        async with behind_link(lone_server) as (_, link):
            client = StoreClient(f"redis+sentinel://127.0.0.1:{link.port}/jq", connections=4)
            locator = client._locator
            assert isinstance(locator, SentinelLocator)

            async def find() -> tuple[str, int]:
                await locator._sentinels[0].time()
                return "127.0.0.1", link.port

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(locator, "_find", find)
                await asyncio.gather(*(client.command("TIME") for _ in range(4)))
                kept = [*client._pool._pool._available_connections]
                asking = [*locator._sentinels[0].connection_pool._available_connections]
                assert kept
                assert asking
                link.reset()
                await wait_until(
                    lambda: all(is_lost(c) for c in (*kept, *asking)), what="the resets are here"
                )
                locator.doubt()
                await asyncio.gather(*(client.command("TIME") for _ in range(4)))
            await client.close()

    run_in(make_loop, main())


def say(server: StoreServer, channel: str) -> None:
    with redis.Redis(unix_socket_path=str(server.socket)) as client:
        client.publish(channel, "ready")


@LOOPS
def test_a_listener_hears_again_after_its_connection_was_reset_or_went_silent(
    lone_server: StoreServer, make_loop: MakeLoop
) -> None:
    heard: list[WakeMessage] = []
    gaps: list[None] = []

    async def main() -> None:
        async with behind_link(lone_server) as (world, link):
            listener = OwnListener(
                world.shard,
                on_wake=heard.append,
                on_finished=lambda job_id: None,
                on_gap=lambda: gaps.append(None),
                quiet_s=0.3,
            )
            await listener.start()
            try:
                await wait_until(lambda: gaps, what="it listens")
                for lose in (link.reset, link.forget_all):
                    gaps.clear()
                    heard.clear()
                    lose()
                    await wait_until(lambda: gaps, what="it listens again")
                    await asyncio.to_thread(say, lone_server, world.shard.keys.wake_channel)
                    await wait_until(lambda: heard == [JobsReady()], what="it hears")
            finally:
                await listener.stop()

    run_in(make_loop, main())
