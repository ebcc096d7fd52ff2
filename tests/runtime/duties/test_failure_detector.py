"""Silent workers are pinged, detached and forgotten, but never many at once."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from jqmaster.domain.workers.silence import CrowdRules
from jqmaster.domain.workers.worker import Worker
from jqmaster.live_value import LiveValue
from jqmaster.runtime.duties.failure_detector import DetectorPolicy, FailureDetector
from jqmaster.runtime.duties.grace import Grace, GracePolicy
from jqmaster.runtime.outbound.worker_client import WorkerClient
from jqmaster.store.leadership.leadership import Leadership
from jqmaster.store.operations.looks import LookStore
from tests.support import real_time
from tests.support.clock import ManualClock
from tests.support.egress import loopback_guard
from tests.support.store import StoreWorld
from tests.support.waiting import wait_until

pytestmark = real_time.LOOPS

GRACE_S = 17


class Attending:
    """`deaf` holds the workers that answer no ping, `pinged` the pinged workers in order."""

    def __init__(self, world: StoreWorld) -> None:
        self.world = world
        self.clock = ManualClock(lambda seconds: world.pass_ms(round(seconds * 1000)))
        self.grace = Grace(self.clock, LiveValue(GracePolicy(GRACE_S, 5, CrowdRules(5_000, 0.3, 3))))
        self.deaf: set[str] = set()
        self.pinged: list[str] = []
        self.stale = 0
        self.detached = 0

        def on_stale() -> None:
            self.stale += 1

        def on_detached() -> None:
            self.detached += 1

        self.detector = FailureDetector(
            Leadership(world.epoch, "master-1"),
            world.workers,
            self,  # type: ignore[arg-type]
            self.clock,
            self.grace,
            policy=LiveValue(DetectorPolicy(5_000, 60_000, 0.5, 3)),
            on_detached=on_detached,
            on_stale=on_stale,
        )

    async def ping(self, worker: Worker, timeout_s: float) -> bool:
        assert timeout_s == 0.5
        self.pinged.append(worker.id)
        return worker.id not in self.deaf

    async def pass_s(self, seconds: int, *alive: str) -> None:
        for _ in range(seconds):
            for worker_id in alive:
                assert await self.world.workers.renew(worker_id, [], 1)
            await self.clock.pass_s(1)

    async def look_s(self, seconds: int, *alive: str) -> None:
        """Let seconds pass, in each of which a look at the shard may begin a round."""
        for _ in range(seconds):
            # A round begins a moment after the instant that a look told.
            self.clock.jump(1.01)
            for worker_id in alive:
                assert await self.world.workers.renew(worker_id, [], 1)
            look = await LookStore(self.world.shard).look(self.world.epoch)
            if self.detector.due_ms(look) == 0 or self.detector.has_some(look):
                await self.detector._round()

    async def detached_by(self, worker_id: str) -> str | None:
        worker = await self.world.workers.get(worker_id)
        assert worker
        return worker.detached_by


@pytest.fixture
async def attending(world: StoreWorld) -> AsyncIterator[Attending]:
    one = Attending(world)
    await one.detector.start()
    try:
        yield one
    finally:
        await one.detector.stop()


@pytest.mark.req("D12", "D14")
async def test_a_silent_worker_that_misses_three_pings_is_detached(attending: Attending) -> None:
    alive, silent = await attending.world.worker(), await attending.world.worker()
    await attending.pass_s(GRACE_S + 1, alive, silent)
    assert attending.pinged == [], "who is heard needs no ping"
    attending.deaf = {silent}
    await attending.pass_s(6, alive)
    assert attending.pinged == [silent, silent]
    assert await attending.detached_by(silent) is None
    await attending.pass_s(1, alive)
    assert await attending.detached_by(silent) == "silence"
    assert (await attending.detached_by(alive), attending.detached) == (None, 1)
    await attending.pass_s(3, alive)
    assert attending.pinged == [silent] * 3, "it has been cut off; it must come back by itself"


@pytest.mark.req("D12")
async def test_a_silent_worker_that_answers_pings_is_not_detached(attending: Attending) -> None:
    """Its way to the masters is broken, not the worker itself: it gets no new jobs, and keeps its leases for their
    length."""
    worker = await attending.world.worker()
    await attending.pass_s(GRACE_S + 1, worker)
    await attending.pass_s(30)
    assert len(attending.pinged) >= 20
    assert await attending.detached_by(worker) is None
    # A single answer between two misses also counts.
    attending.deaf = {worker}
    await attending.pass_s(2)
    attending.deaf = set()
    await attending.pass_s(1)
    attending.deaf = {worker}
    await attending.pass_s(2)
    assert await attending.detached_by(worker) is None


@pytest.mark.req("D12")
async def test_a_worker_heard_while_it_was_pinged_is_not_detached(
    attending: Attending, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await attending.world.worker()
    await attending.pass_s(GRACE_S + 1, worker)

    async def ping(worker: Worker, timeout_s: float) -> bool:
        if attending._missed >= 2:  # type: ignore[attr-defined]
            await attending.world.workers.renew(worker.id, [], 1)
        attending._missed += 1  # type: ignore[attr-defined]
        return False

    attending._missed = 0  # type: ignore[attr-defined]
    monkeypatch.setattr(attending, "ping", ping)
    await attending.pass_s(9)
    assert await attending.detached_by(worker) is None


@pytest.mark.req("D12")
async def test_pings_missed_before_a_heartbeat_do_not_count_while_looks_begin_the_rounds(
    world: StoreWorld,
) -> None:
    attending = Attending(world)
    worker, alive = await world.worker(), await world.worker()
    attending.deaf = {worker}
    await attending.look_s(GRACE_S + 1, worker, alive)
    assert attending.pinged == []
    for _ in range(3):
        while len(attending.pinged) % 2 == 0:
            await attending.look_s(1, alive)
        await attending.look_s(1, alive)
        # It is heard once, and falls silent again.
        await attending.look_s(1, worker, alive)
        assert await attending.detached_by(worker) is None
    assert attending.pinged == [worker] * 6
    await attending.look_s(8, alive)
    assert await attending.detached_by(worker) == "silence"


@pytest.mark.req("D12")
async def test_a_message_during_a_round_of_pings_begins_no_other_one_at_once(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a worker would miss all its pings within an instant."""
    attending = Attending(world)
    worker = await world.worker()
    attending.detector.follow_looks()
    world.pass_ms(6_000)

    async def ping(worker: Worker, timeout_s: float) -> bool:
        attending.pinged.append(worker.id)
        attending.detector.wake()
        return False

    monkeypatch.setattr(attending, "ping", ping)
    await attending.detector.start()
    attending.detector.wake()
    await wait_until(lambda: attending.detector._known == 1, what="the first round has begun")
    await wait_until(lambda: attending.detector.next_round_s, what="the first round is over")
    assert attending.pinged == [worker]
    assert not attending.detector._wake.is_set()
    attending.detector.wake()
    assert not attending.detector._wake.is_set()
    await attending.detector.stop()


@pytest.mark.req("D12", "M8")
async def test_one_that_pulls_is_not_pinged_and_detached_for_its_silence(attending: Attending) -> None:
    alive, silent = await attending.world.worker(url=None), await attending.world.worker(url=None)
    await attending.pass_s(GRACE_S + 1, alive, silent)
    await attending.world.polls.open(silent, "p", 1, 60_000)
    await attending.pass_s(7, alive)
    assert [await attending.detached_by(one) for one in (alive, silent)] == [None, "silence"]
    assert attending.pinged == []


@pytest.mark.req("D12")
async def test_a_crowd_is_not_detached_before_its_grace_is_over(attending: Attending) -> None:
    crowd = [await attending.world.worker() for _ in range(4)]
    others = [await attending.world.worker() for _ in range(5)]
    attending.deaf = set(crowd)
    await attending.pass_s(GRACE_S + 1, *crowd, *others)
    await attending.pass_s(20, *others)
    assert {await attending.detached_by(w) for w in crowd} == {None}
    await attending.pass_s(6, *others)
    assert {await attending.detached_by(w) for w in crowd} == {"silence"}


@pytest.mark.req("D12")
async def test_two_of_many_are_no_crowd(attending: Attending) -> None:
    lost = [await attending.world.worker() for _ in range(2)]
    others = [await attending.world.worker() for _ in range(3)]
    attending.deaf = set(lost)
    await attending.pass_s(GRACE_S + 1, *lost, *others)
    await attending.pass_s(9, *others)
    assert {await attending.detached_by(w) for w in lost} == {"silence"}


@pytest.mark.req("D12")
async def test_nobody_is_detached_in_the_grace_after_an_election(world: StoreWorld) -> None:
    worker = await world.worker()
    world.pass_ms(60_000)
    attending = Attending(world)
    attending.deaf = {worker}
    await attending.detector.start()
    await attending.pass_s(GRACE_S - 1)
    assert await attending.detached_by(worker) is None
    await attending.pass_s(2)
    assert await attending.detached_by(worker) == "silence"
    await attending.detector.stop()


@pytest.mark.req("D10")
async def test_a_worker_without_jobs_is_forgotten_after_long_silence(attending: Attending) -> None:
    world = attending.world
    idle = await world.worker()
    busy, _ = await world.running()
    await attending.pass_s(59)
    assert await world.workers.get(idle)
    await attending.pass_s(3)
    assert await world.workers.get(idle) is None
    assert await world.workers.get(busy), "its claims are the reaper's first"


@pytest.mark.req("D12")
async def test_silence_before_this_leadership_forgets_nobody(world: StoreWorld) -> None:
    """The store or the masters may have been away: whole fleets would have to register again."""
    worker = await world.worker()
    world.pass_ms(10**7)
    attending = Attending(world)
    await attending.detector.start()
    await attending.pass_s(2)
    assert await world.workers.renew(worker, [], 1)
    await attending.pass_s(59)
    assert await world.workers.get(worker)
    await attending.detector.stop()


@pytest.mark.req("D2", "D4")
@pytest.mark.parametrize("what", ["detach", "forget"])
async def test_under_a_stale_epoch_nobody_is_touched(attending: Attending, what: str) -> None:
    worker = await attending.world.worker()
    attending.deaf = {worker} if what == "detach" else set()
    await attending.pass_s(GRACE_S + 1, *([worker] if what == "detach" else []))
    await attending.world.reelect()
    await attending.clock.asleep()
    for _ in range(70):
        if attending.stale:
            break
        attending.clock.jump(1)
        await asyncio.sleep(0)
        for _, _, sleeper in list(attending.clock._sleepers):
            if not sleeper.done():
                sleeper.set_result(None)
        await wait_until(lambda: attending.stale or attending.clock._next())
    assert attending.stale == 1
    assert await attending.detached_by(worker) is None


@pytest.mark.req("D14")
@pytest.mark.parametrize(
    ("answer", "lives"),
    [(b"HTTP/1.1 204 No Content\r\n\r\n", True), (b"HTTP/1.1 404 X\r\nContent-Length: 0\r\n\r\n", False), (b"", False)],
)  # fmt: skip
async def test_a_ping_wants_an_answer_soon(world: StoreWorld, answer: bytes, lives: bool) -> None:
    asked: list[bytes] = []
    closed = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        await closed.wait()
        writer.close()

    client = WorkerClient(loopback_guard(), timeout_s=LiveValue(30))
    await client.start()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    worker = await world.workers.get(await world.worker(url=f"http://127.0.0.1:{port}/jq"))
    assert worker
    try:
        async with asyncio.timeout(5):
            assert await client.ping(worker, 0.3) is lives
        assert asked[0].startswith(b"GET /jq/ping ")
        assert b"X-JQ" not in asked[0], "it says nothing that needs a signature"
    finally:
        closed.set()
        server.close()
        await client.stop()


async def test_a_ping_of_nobody(world: StoreWorld) -> None:
    client = WorkerClient(loopback_guard(), timeout_s=LiveValue(30))
    await client.start()
    try:
        for url in (None, "http://127.0.0.1:1"):
            worker = await world.workers.get(await world.worker(url=url))
            assert worker
            assert await client.ping(worker, 0.3) is False
    finally:
        await client.stop()
