import asyncio
from collections.abc import AsyncIterator

import pytest

from jqmaster.domain.operations.master import ANSWER_LIVES_S
from jqmaster.errors import StoreUnavailableError
from jqmaster.lifecycle import BackgroundLoops, LoopFailures, running
from jqmaster.runtime.watch.progress import Stall
from jqmaster.runtime.watch.watchdog import Watchdog
from jqmaster.store.health import generation
from jqmaster.store.link.shard import Shard
from tests.support import real_time
from tests.support.clock import ManualClock
from tests.support.store import StoreWorld
from tests.support.waiting import wait_until

pytestmark = real_time.LOOPS


def raised_in(module: str, error: Exception) -> Exception:
    """Return the error as a caller of that module catches it."""
    try:
        exec("raise error", {"__name__": module, "error": error})
    except Exception as exc:
        return exc
    raise AssertionError


OF_LINK = raised_in("redis.asyncio.connection", RuntimeError("the handler is closed"))


class Watching:
    """A watchdog over a dispatcher whose last round was at `rounds_s`."""

    def __init__(self, world: StoreWorld, mark: str) -> None:
        self.world = world
        self.clock = ManualClock()
        self.round_s = self.clock.now_s
        self.failures: list[str] = []
        self.rebuilt_at_s: list[float] = []
        self.loop_failures = LoopFailures(self.clock)

        async def rebuild() -> None:
            self.rebuilt_at_s.append(self.clock.now_s - self.round_s)
            await world.shard.client.reset()

        self.watchdog = Watchdog(
            world.shard,
            self.clock,
            mark=mark,
            stall=self._stall,
            failures=self.loop_failures,
            rebuild=rebuild,
            fail=self.failures.append,
        )

    async def pass_s_with(self, seconds: int, error: Exception | None, *, is_vital: bool = True) -> None:
        """Let rounds happen while a loop fails with `error` once a second."""
        for _ in range(seconds):
            self.round_s = self.clock.now_s
            if error:
                self.loop_failures.add("leader.election", error, is_vital=is_vital)
            await self.clock.pass_s(1)

    async def _stall(self) -> Stall:
        return Stall(self.clock.now_s - self.round_s, "no round was made")


@pytest.fixture
async def watching(world: StoreWorld) -> AsyncIterator[Watching]:
    one = Watching(world, await generation.mark(world.shard, "mark"))
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


@pytest.mark.req("M1")
async def test_connections_are_rebuilt_every_ten_seconds_while_a_loop_fails_unexpectedly(
    watching: Watching,
) -> None:
    await watching.pass_s_with(10, OF_LINK)
    assert watching.rebuilt_at_s == []
    await watching.pass_s_with(25, OF_LINK)
    assert len(watching.rebuilt_at_s) == 3
    await watching.pass_s_with(60, None)
    assert len(watching.rebuilt_at_s) == 3
    assert watching.failures == []


@pytest.mark.req("M1")
async def test_a_fault_that_only_new_connections_mend_costs_one_rebuild(watching: Watching) -> None:
    for _ in range(60):
        await watching.pass_s_with(1, None if watching.rebuilt_at_s else OF_LINK)
    assert len(watching.rebuilt_at_s) == 1
    assert watching.failures == []


@pytest.mark.req("M1")
async def test_a_process_that_ran_for_five_minutes_ends_when_a_loop_failed_for_thirty_seconds(
    watching: Watching,
) -> None:
    await watching.pass_s_with(60, RuntimeError("the handler is closed"))
    assert watching.failures == []
    await watching.pass_s_with(270, None)
    await watching.pass_s_with(29, RuntimeError("the handler is closed"))
    assert watching.failures == []
    await watching.pass_s_with(3, RuntimeError("the handler is closed"))
    assert "leader.election has failed for 30 s (RuntimeError: the handler is closed)" in watching.failures[0]


@pytest.mark.req("M1")
async def test_a_vital_loop_that_fails_by_itself_costs_no_connection(watching: Watching) -> None:
    await watching.pass_s_with(60, KeyError("a record"))
    assert (watching.rebuilt_at_s, watching.failures) == ([], [])


@pytest.mark.req("M1")
async def test_a_side_loop_costs_neither_a_connection_nor_the_process(watching: Watching) -> None:
    await watching.pass_s_with(400, OF_LINK, is_vital=False)
    assert (watching.rebuilt_at_s, watching.failures) == ([], [])
    assert "leader.election fails (RuntimeError: the handler" in "".join(
        watching.loop_failures.side_faults().values()
    )


@pytest.mark.parametrize(
    ("module", "is_of_link"),
    [
        ("redis.asyncio.client", True), ("jqmaster.store.link.client", True), ("redis", True),
        ("jqmaster.store.jobs.claims", False), ("redistribution", False), ("jqmaster.service.notices", False),
    ],
)  # fmt: skip
def test_loop_failures_tell_where_an_error_came_from(module: str, is_of_link: bool) -> None:
    failures = LoopFailures(ManualClock())
    for error in (
        raised_in(module, KeyError("x")),
        raised_in("jqmaster.runtime", ExceptionGroup("several", [raised_in(module, OSError())])),
    ):
        failures.add("loop", error, is_vital=True)
        found = failures.longest()
        assert found is not None
        assert found.is_of_link is is_of_link
        failures.over("loop")
        assert failures.longest() is None


async def test_failures_that_are_expected_or_far_apart_are_no_row(watching: Watching) -> None:
    await watching.pass_s_with(20, StoreUnavailableError("away"))
    for _ in range(4):
        await watching.pass_s_with(1, RuntimeError("once"))
        await watching.pass_s_with(11, None)
    assert (watching.rebuilt_at_s, watching.failures) == ([], [])


async def test_loops_report_to_the_master_that_started_them_also_those_of_a_later_leadership() -> None:
    class Duty:
        def __init__(self, name: str, inner: "Duty | None" = None) -> None:
            self.loops = BackgroundLoops(name, is_vital=True, restart_after_s=0.0)
            self.inner = inner

        async def start(self) -> None:
            self.loops.spawn("run", self.run)

        async def stop(self) -> None:
            await self.loops.stop()

        async def run(self) -> None:
            if not self.inner:
                raise RuntimeError("again")
            async with running([self.inner]):
                await asyncio.Event().wait()

    mine, others = LoopFailures(clock := ManualClock()), LoopFailures(clock)
    leader = Duty("leader", Duty("reaper"))
    async with running([leader], failures=mine), running([Duty("leader", leader)], failures=others):
        await wait_until(mine.longest, what="the failure is known")
        clock.jump(3.0)
        await wait_until(lambda: mine.longest() == (3.0, "reaper.run", "RuntimeError: again", False))


@pytest.mark.req("S6")
async def test_a_mark_that_was_just_told_is_not_read_again(
    watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    read = generation.read

    async def counted(shard: Shard) -> str | None:
        reads.append(1)
        return await read(shard)

    monkeypatch.setattr(generation, "read", counted)
    mark = await generation.mark(watching.world.shard, "mark")
    for _ in range(3):
        watching.watchdog.take_mark(mark)
        watching.watchdog._fresh.at_s = watching.clock.now_s + ANSWER_LIVES_S
        watching.round_s = watching.clock.now_s
        await watching.clock.pass_s(1)
    assert reads == []
    # Nobody tells any more.
    await watching.clock.pass_s(2)
    assert reads != []


@pytest.mark.req("S6")
@pytest.mark.parametrize("mark", [None, "another mark"])
async def test_another_mark_that_is_told_ends_the_process_at_once(
    watching: Watching, mark: str | None
) -> None:
    watching.watchdog.take_mark(mark)
    assert "generation mark" in watching.failures[0]
