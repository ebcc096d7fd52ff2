"""The listener on a shard's channels: wake-up messages, ends of jobs, and connections that died silently."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

import pytest

from jqmaster.store.keys import Keys
from jqmaster.store.link import listener as module
from jqmaster.store.link.listener import ShardChannels, StoreListener
from jqmaster.store.link.wake import JobsReady, WakeMessage
from tests.support.listening import OwnListener
from tests.support.store import StoreWorld
from tests.support.waiting import wait_until


class Heard:
    def __init__(self) -> None:
        self.woken: list[WakeMessage] = []
        self.finished: list[str] = []
        self.gaps = 0

    def gap(self) -> None:
        self.gaps += 1


@contextlib.asynccontextmanager
async def listening(world: StoreWorld, quiet_s: float = 15.0) -> AsyncIterator[Heard]:
    heard = Heard()
    listener = OwnListener(
        world.shard,
        on_wake=heard.woken.append,
        on_finished=heard.finished.append,
        on_gap=heard.gap,
        quiet_s=quiet_s,
    )
    await listener.start()
    try:
        await wait_until(lambda: heard.gaps, what="it listens")
        yield heard
    finally:
        await listener.stop()


async def test_messages_of_later_releases_are_left_alone(
    world: StoreWorld, caplog: pytest.LogCaptureFixture
) -> None:
    keys = world.shard.keys
    async with listening(world) as heard:
        with caplog.at_level(logging.DEBUG, logger=module.__name__):
            for text in ("flavour:sweet", "freed:w", "freed:w:many", "ready"):
                await world.redis.publish(keys.wake_channel, text)
            await wait_until(lambda: heard.woken == [JobsReady()], what="it hears")
        assert caplog.text.count("does not know") == 3


async def test_ends_of_jobs_are_told_one_by_one(world: StoreWorld) -> None:
    async with listening(world) as heard:
        await world.redis.publish(world.shard.keys.finished_channel, "j1,j2")
        await wait_until(lambda: heard.finished == ["j1", "j2"], what="it hears")
    assert heard.woken == []


async def test_a_line_that_does_not_answer_when_asked_is_made_anew(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "RECONNECT_S", 0.0)
    redis = world.shard.client.redis
    pubsub, made = redis.pubsub, list[object]()

    def silent_at_first() -> object:
        one = pubsub()
        if not made:

            async def get_nothing(**_: object) -> None:
                await asyncio.sleep(0)

            monkeypatch.setattr(one, "get_message", get_nothing)
        made.append(one)
        return one

    monkeypatch.setattr(redis, "pubsub", silent_at_first)
    async with listening(world, quiet_s=0.01) as heard:
        assert heard.gaps == 1
    assert len(made) >= 2
    assert "(TimeoutError); listening again" in caplog.text


@pytest.mark.req("D29")
async def test_shards_that_come_and_go_share_one_connection(world: StoreWorld) -> None:
    """A shard that joins hears its own messages only, and one that left hears none."""
    listener = StoreListener(world.shard.client)
    heard = [Heard() for _ in range(3)]
    keys = [Keys(f"{world.shard.keys.shard}-{number}") for number in range(3)]
    shards = [
        ShardChannels(
            listener, key, on_wake=one.woken.append, on_finished=one.finished.append, on_gap=one.gap
        )
        for key, one in zip(keys, heard, strict=True)
    ]
    await listener.start()
    try:
        for number, shard in enumerate(shards):
            await shard.start()
            await wait_until(lambda number=number: heard[number].gaps, what="it listens")
        assert [one.gaps for one in heard] == [1, 1, 1]
        found = await world.redis.pubsub_numsub(*(key.wake_channel for key in keys))
        assert [count for _, count in found] == [1, 1, 1]
        await shards[1].stop()

        async def left() -> bool:
            ((_, count),) = await world.redis.pubsub_numsub(keys[1].finished_channel)
            return bool(count == 0)

        await wait_until(left, what="the shard is left")
        for number, key in enumerate(keys):
            await world.redis.publish(key.finished_channel, f"j{number}")
        await wait_until(lambda: heard[2].finished, what="the last one hears")
        assert [one.finished for one in heard] == [["j0"], [], ["j2"]]
        # A lost connection concerns all that are there.
        await world.redis.client_kill_filter(_type="pubsub")
        await wait_until(lambda: heard[0].gaps == heard[2].gaps == 2, what="both listen again")
        assert heard[1].gaps == 1
    finally:
        await listener.stop()
