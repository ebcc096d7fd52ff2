"""Statistics of the queue, from the counts of several masters."""

import random
from typing import Any, cast

import pytest

from jqmaster.clock import SystemClock
from jqmaster.domain.content.content import full_access
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.jobs.job import Cause, JobState
from jqmaster.domain.jobs.outcome import Decision, Outcome
from jqmaster.domain.operations.master import Pace
from jqmaster.domain.operations.tally import TOTAL, Tally
from jqmaster.errors import InvalidError
from jqmaster.live_value import LiveValue
from jqmaster.runtime.watch.history_keeper import HistoryKeeper
from jqmaster.service.jobs.failures import FailureReader
from jqmaster.service.operations.stats import SPANS, Span, StatsService, StoreState
from jqmaster.service.workers.masters import MasterService
from jqmaster.service.workers.reports import ReportService
from jqmaster.store.leadership.masters import MasterStore
from jqmaster.store.link.client import StoreClient
from jqmaster.store.operations.history import STEP_MS, HistoryStore
from tests.support.store import StoreWorld

FAILED = Decision(JobState.FAILED, "failure", cause=Cause.ERROR, is_counted=True)
STATE = StoreState("Valkey 9", "fsync", "fsync", 1_000, 0, ["full"], ["notices.rounds fails"])


def service(world: StoreWorld) -> StatsService:
    """Return statistics that remember nothing: time moves by hand."""
    return StatsService(
        HistoryStore(world.shard, master_id="reader"),
        world.inspector,
        world.workers,
        MasterService(MasterStore(world.shard), world.leadership, LiveValue(Pace(1.0))),
        SystemClock(),
        failures=FailureReader(HistoryStore(world.shard, master_id="reader"), world.records),
        stale_ms=LiveValue(3_000),
        store_state=lambda: STATE,
    )


class CountingMaster:
    def __init__(self, world: StoreWorld, number: int) -> None:
        self.tally = Tally()
        self.history = HistoryStore(world.shard, master_id=f"master-{number}")
        self.keeper = HistoryKeeper(self.tally, self.history, SystemClock())


@pytest.mark.req("P8")
async def test_the_history_of_two_masters_is_the_sum_of_what_happened(world: StoreWorld) -> None:
    masters = [CountingMaster(world, n) for n in range(2)]
    rng = random.Random(3)
    happened: list[tuple[int, str]] = []
    for n in range(60):
        world.pass_ms(int(10 ** rng.uniform(2, 7.7)) if n != 20 else 30 * 86_400_000)
        for master in masters:
            for name in rng.choices(("a", "b"), k=rng.randint(0, 3)):
                happened.append((world.now_ms, name))
                master.tally.of(name).pushed += 1
                master.tally.claimed(name, [5])
                master.tally.succeeded(name, 50)
            await master.keeper.flush()
    stats = service(world)
    for span, (step, count) in SPANS.items():
        first_ms = (world.now_ms // STEP_MS[step] - count + 1) * STEP_MS[step]
        for asked in (None, "a", "b", "c"):
            expected = [at_ms for at_ms, of in happened if at_ms >= first_ms and asked in (None, of)]
            history = await stats.history(span, asked)
            points = history["points"]
            assert [p["at"] for p in points] == [iso_ms(first_ms + n * STEP_MS[step]) for n in range(count)]
            for word in ("pushed", "succeeded"):
                assert sum(p[word] for p in points) == len(expected), (span, name)
            assert sum(p["wait"]["count"] for p in points if p["wait"]) == len(expected)
            by_step = {iso_ms(at_ms // STEP_MS[step] * STEP_MS[step]) for at_ms in expected}
            assert {p["at"] for p in points if p["pushed"]} == by_step
    # More happened beyond a day and beyond 30 days than the statistics tell.
    assert happened[0][0] < world.now_ms - 30 * 86_400_000


@pytest.mark.req("P8")
async def test_a_backlog_that_is_not_there_is_told_from_one_that_nobody_looked_at(world: StoreWorld) -> None:
    master = CountingMaster(world, 1)
    master.tally.of("a").pushed += 1
    await master.keeper.flush()
    stats = service(world)

    async def last(name: str | None) -> tuple[int | None, int | None]:
        point = (await stats.history("1h", name))["points"][-1]
        return point["backlog"], point["oldest_wait_ms"]

    assert [await last(name) for name in (None, "a", "b")] == [(None, None)] * 3
    master.tally.sampled(TOTAL, 3, 700)
    master.tally.sampled("b", 3, 700)
    await master.keeper.flush()
    assert [await last(name) for name in (None, "a", "b")] == [(3, 700), (0, 0), (3, 700)]


@pytest.mark.req("P8")
async def test_names_are_sorted_searched_and_paged_without_gaps(world: StoreWorld) -> None:
    master = CountingMaster(world, 1)
    for n in range(7):
        counts = master.tally.of(f"name-{n}")
        counts.pushed, counts.failed, counts.succeeded = n % 3, 6 - n, n
    await master.keeper.flush()
    await world.enqueue("name-5")
    stats = service(world)
    rows = (await stats.names("1h", limit=100))["names"]
    assert [row["name"] for row in rows] == [f"name-{n}" for n in range(7)]
    assert [row["ready"] for row in rows] == [0, 0, 0, 0, 0, 1, 0]
    assert (rows[0]["success_share"], rows[3]["success_share"], rows[6]["success_share"]) == (0.0, 0.5, 1.0)
    # A name fails if it has some failures, and not already after its first.
    assert [row["is_failing"] for row in rows] == [row["failed"] >= 3 for row in rows]
    assert rows[0]["wait"] is None
    for sort in ("name", "pushed", "failed", "ready"):
        found: list[dict[str, Any]] = []
        cursor = None
        while True:
            page = await stats.names("24h", sort=cast(Any, sort), limit=2, cursor=cursor)
            found += page["names"]
            cursor = page["next_cursor"]
            if cursor is None:
                break
            with pytest.raises(InvalidError):
                await stats.names("24h", sort="name" if sort != "name" else "ready", limit=2, cursor=cursor)
        assert len({row["name"] for row in found}) == len(found) == 7
        if sort != "name":
            assert [row[sort] for row in found] == sorted((row[sort] for row in found), reverse=True)
    assert [row["name"] for row in (await stats.names("7d", q="-3", limit=9))["names"]] == ["name-3"]


async def test_repeated_lists_of_names_read_the_store_once(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    master = CountingMaster(world, 1)
    for n in range(50):
        master.tally.of(f"name-{n}").pushed = 1
    await master.keeper.flush()
    stats = service(world)
    sent: list[Any] = []
    original = StoreClient.command

    async def counted(self: StoreClient, *args: Any, **named: Any) -> Any:
        sent.append(args)
        return await original(self, *args, **named)

    assert len((await stats.names("1h", limit=10))["names"]) == 10
    monkeypatch.setattr(StoreClient, "command", counted)
    for q in ("", "zzz", "name-1"):
        await stats.names("1h", q=q, sort="ready", limit=500)
    assert sent == []


@pytest.mark.req("P8")
async def test_the_present_state_sums_up_jobs_workers_and_rates(world: StoreWorld) -> None:
    master = CountingMaster(world, 1)
    world.now_ms = world.now_ms // 60_000 * 60_000 + 15_000
    master.tally.of("work").pushed += 120
    await master.keeper.flush()
    world.pass_ms(60_000)
    master.tally.of("work").pushed += 30
    await master.keeper.flush()
    worker = await world.worker(max_jobs=4)
    # A master's own worker adds no capacity for people's jobs.
    await world.worker("jq.mail", "jq.webhook", max_jobs=32)
    await world.enqueue_many(3)
    await world.claim(worker, limit=1)
    world.pass_ms(500)
    await master.history.put_backlog(world.epoch, await master.history.sample_backlog())
    world.pass_ms(500)
    now = await service(world).now()
    assert now["at"] == iso_ms(world.now_ms)
    assert (now["counts"]["ready"], now["counts"]["running"]) == (2, 1)
    # The value ages between two looks of the leader.
    assert now["oldest_wait_ms"] == 1_000
    assert (now["oldest_startable"]["name"], now["oldest_startable"]["wait_ms"]) == ("work", 1_000)
    # The rate takes 30 from this minute, 16 s of which are over, and the rest from the minute before.
    assert now["rates"]["pushed"] == pytest.approx((30 + 120 * 44 / 60) / 60, abs=0.001)
    assert now["workers"] == {"fresh": 1, "stale": 0, "draining": 0, "detached": 0, "max_jobs": 4, "busy": 1}
    assert (now["masters"]["leader_id"], now["masters"]["epoch"] > 0) == (None, True)
    assert (now["store"]["max_memory_bytes"], now["store"]["faults"]) == (None, ["full"])
    world.pass_ms(4_000)
    await world.workers.detach(await world.worker(), b"entry")
    await world.workers.drain(await world.worker(), b"entry")
    assert (await service(world).now())["workers"] == {
        "fresh": 0, "stale": 1, "draining": 1, "detached": 1, "max_jobs": 0, "busy": 1,
    }  # fmt: skip


@pytest.mark.req("P8")
async def test_it_is_computed_once_for_all_who_ask_at_a_time(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    stats = service(world)
    assert await stats.now() is await stats.now()
    summed: list[Span] = []
    whole = stats._history.sums

    async def sums(*args: Any) -> Any:
        summed.append("30d")
        return await whole(*args)

    monkeypatch.setattr(stats._history, "sums", sums)
    for _ in range(5):
        await stats.names("30d", limit=1)
    assert len(summed) == 1


@pytest.mark.req("P8")
async def test_a_worker_s_report_of_a_failure_leads_to_its_group(world: StoreWorld) -> None:
    reports = ReportService(
        world.workers,
        world.constraints,
        settlements=world.settlements,
        challenges=world.challenges,
        records=world.records,
    )
    keeper = HistoryKeeper(world.tally, HistoryStore(world.shard, master_id="master-1"), SystemClock())
    job_ids = []
    for n in range(3):
        worker, job = await world.running("mail", max_retry=0)
        outcome = Outcome(job.job_id, job.token, "failure", message=f"user {n}: 'no such' box")
        assert await reports.results(worker, [outcome]) == ([job.job_id], [])
        job_ids.append(job.job_id)
    retried_worker, retried = await world.running("mail", max_retry=1)
    await reports.results(
        retried_worker, [Outcome(retried.job_id, retried.token, "failure", message="again")]
    )
    await keeper.flush()
    stats = service(world)
    (group,) = (await stats.failures(full_access([]), limit=10))["groups"]
    assert (group["name"], group["cause"], group["message"]) == ("mail", "error", "user <n>: <text> box")
    assert (group["count"], group["example_job_id"]) == (3, job_ids[-1])
    for wanted in ({"q": "BOX"}, {"q": "mai"}, {"name": "mail"}):
        assert len((await stats.failures(full_access([]), limit=10, **cast(Any, wanted)))["groups"]) == 1
    for wanted in ({"q": "again"}, {"name": "mai"}):
        assert not (await stats.failures(full_access([]), limit=10, **cast(Any, wanted)))["groups"]


@pytest.mark.req("P8")
async def test_failures_are_paged_without_gaps(world: StoreWorld) -> None:
    master = CountingMaster(world, 1)
    for n in range(5):
        world.pass_ms(n % 2)
        master.tally.ended("work", FAILED, job_id="j", message=chr(97 + n))
        await master.keeper.flush()
    stats = service(world)
    found: list[dict[str, Any]] = []
    page = await stats.failures(full_access([]), limit=2)
    while page["next_cursor"]:
        found += page["groups"]
        page = await stats.failures(full_access([]), limit=2, cursor=page["next_cursor"])
    found += page["groups"]
    assert sorted(g["message"] for g in found) == list("abcde")
    assert [g["last_seen_at"] for g in found] == sorted((g["last_seen_at"] for g in found), reverse=True)


async def test_the_same_period_of_another_day_is_told_by_the_hour_as_long_as_hours_are_kept(
    world: StoreWorld,
) -> None:
    world.now_ms = world.now_ms // STEP_MS["hour"] * STEP_MS["hour"] + 30 * 60_000
    began_ms, master = world.now_ms, CountingMaster(world, 1)
    master.tally.succeeded("a", 50, 7)
    await master.keeper.flush()
    world.pass_ms(86_400_000)
    stats = service(world)
    history = await stats.history("1h", None, "1d")
    assert history["step_s"] == 3600
    assert [point["succeeded"] for point in history["points"]] == [0, 7]
    assert history["points"][1]["at"] == iso_ms(began_ms - 30 * 60_000)
    world.pass_ms(6 * 86_400_000)
    assert sum(point["succeeded"] for point in (await stats.history("7d", "a", "7d"))["points"]) == 7
    with pytest.raises(InvalidError, match="before: cannot be combined with a span of 30d"):
        await stats.history("30d", None, "1d")
