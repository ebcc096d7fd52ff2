from collections.abc import AsyncIterator

import pytest

from jqmaster.errors import StoreUnavailableError
from jqmaster.runtime.progress import Stall
from jqmaster.runtime.watchdog import Watchdog
from jqmaster.store import generation
from tests.support.clock import ManualClock
from tests.support.store import StoreWorld


class Watching:
    """A watchdog over a dispatcher that made its last round at `rounds_s`."""

    def __init__(self, world: StoreWorld, mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = world
        self.clock = ManualClock()
        self.round_s = self.clock.now_s
        self.failures: list[str] = []
        self.rebuilt_at_s: list[float] = []
        reset = world.shard.client.reset

        async def counted() -> None:
            self.rebuilt_at_s.append(self.clock.now_s - self.round_s)
            await reset()

        monkeypatch.setattr(world.shard.client, "reset", counted)
        self.watchdog = Watchdog(
            world.shard,
            self.clock,
            mark=mark,
            stall=self._stall,
            fail=self.failures.append,
        )

    async def _stall(self) -> Stall:
        return Stall(self.clock.now_s - self.round_s, "no round was made")


@pytest.fixture
async def watching(world: StoreWorld, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Watching]:
    one = Watching(world, await generation.mark(world.shard, "mark"), monkeypatch)
    await one.watchdog.start()
    yield one
    await one.watchdog.stop()


async def test_connections_are_rebuilt_once_when_no_round_was_made_for_ten_seconds(
    watching: Watching,
) -> None:
    await watching.clock.pass_s(9.5)
    assert watching.rebuilt_at_s == []
    await watching.clock.pass_s(20)
    (at_s,) = watching.rebuilt_at_s
    assert 10 <= at_s <= 12
    assert watching.failures == []


async def test_the_client_works_after_it_was_rebuilt(watching: Watching) -> None:
    await watching.clock.pass_s(12)
    assert watching.rebuilt_at_s
    await watching.world.enqueue()


async def test_the_process_ends_when_no_round_was_made_for_thirty_seconds(watching: Watching) -> None:
    await watching.clock.pass_s(29.5)
    assert watching.failures == []
    await watching.clock.pass_s(3)
    assert watching.failures
    assert "no round was made for" in watching.failures[0]


async def test_a_second_stall_is_rebuilt_again(watching: Watching) -> None:
    await watching.clock.pass_s(12)
    watching.round_s = watching.clock.now_s
    await watching.clock.pass_s(12)
    assert len(watching.rebuilt_at_s) == 2


async def test_rounds_keep_it_quiet(watching: Watching) -> None:
    for _ in range(60):
        watching.round_s = watching.clock.now_s
        await watching.clock.pass_s(1)
    assert (watching.rebuilt_at_s, watching.failures) == ([], [])


@pytest.mark.req("M1")
async def test_an_outage_of_the_store_is_waited_for_and_is_no_stall_afterwards(
    watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*args: object) -> object:
        raise StoreUnavailableError("away")

    with monkeypatch.context() as patch:
        patch.setattr(watching.world.shard.client, "command", away)
        await watching.clock.pass_s(100)
    await watching.clock.pass_s(9)
    assert (watching.rebuilt_at_s, watching.failures) == ([], [])
    await watching.clock.pass_s(3)
    assert len(watching.rebuilt_at_s) == 1


@pytest.mark.req("M1")
@pytest.mark.parametrize("other", [None, "another mark"])
async def test_a_store_with_other_data_is_not_served(watching: Watching, other: str | None) -> None:
    redis, key = watching.world.redis, watching.world.shard.keys.generation
    await (redis.delete(key) if other is None else redis.set(key, other))
    await watching.clock.pass_s(2)
    assert watching.failures
    assert "generation mark" in watching.failures[0]
