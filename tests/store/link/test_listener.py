"""The listener on a shard's channels: wake-up messages, ends of jobs, and connections that died silently."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

import pytest

from jqmaster.store.link import listener as module
from jqmaster.store.link.listener import StoreListener
from jqmaster.store.link.wake import JobsReady, WakeMessage
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
    listener = StoreListener(
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
