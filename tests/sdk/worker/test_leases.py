"""A worker that may have lost the right to run a job, and what keeps that right."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.sdk.fake_master import FakeMaster
from tests.support import real_time
from tests.support.waiting import wait_until
from worker_sdk import Context, Worker
from worker_sdk.worker.identity import WorkerIdentity
from worker_sdk.worker.lease import DRIFT, StoreClock, margin_s

pytestmark = real_time.WORKER

# On a machine busy with other work, a renewal may be late by nine tenths of it.
LEASE_S = 2.0
# For tests that check when a job is stopped: the margin before the end of the lease, a tenth of it, must cover such a
# machine's delays.
LONG_LEASE_S = 5.0


@pytest.fixture(autouse=True)
def short_leases(master: FakeMaster) -> None:
    master.lease_s = LEASE_S


@pytest.mark.req("M6")
async def test_a_handler_that_blocks_the_loop_keeps_its_lease(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    @worker.handler("block")
    async def block(argument: Any) -> int:
        before = len(master.beats)
        time.sleep(2.2 * LEASE_S)  # more than two leases, with nothing else in this loop
        return len(master.beats) - before

    await up()
    job = await master.run("block")
    result = await wait_until(lambda: master.result(job["job_id"]))
    assert result["type"] == "success"
    assert result["result"] >= 3
    named = [beat for beat in master.beats if job["token"] in [c["token"] for c in beat["running"]]]
    assert len(named) >= 3


@pytest.mark.req("M6")
async def test_a_run_of_many_leases_is_not_disturbed(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    @worker.handler("long")
    async def long(argument: Any) -> str:
        await asyncio.sleep(2.2 * LEASE_S)
        return "done"

    await up()
    job = await master.run("long")
    assert (await wait_until(lambda: master.result(job["job_id"])))["result"] == "done"


@pytest.mark.req("M6")
@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_worker_that_hears_nothing_stops_its_jobs_before_the_lease_ends(
    master: FakeMaster, worker: Worker, up: Callable[[], Any], kind: str
) -> None:
    stopped: list[float] = []
    began = threading.Event()

    @worker.handler("async")
    async def hold_async(argument: Any, ctx: Context) -> None:
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            stopped.append(time.monotonic())

    @worker.handler("sync")
    def hold_sync(argument: Any, ctx: Context) -> None:
        began.set()
        ctx.cancelled.wait(20)
        stopped.append(time.monotonic())

    master.lease_s = LONG_LEASE_S
    await up()
    job = await master.run(kind)
    await wait_until(lambda: began.is_set() and master.beats[-1]["running"])
    arrivals: list[float] = []

    def silent(body: Any) -> Any:
        # The last answered renewal was sent before the first unanswered one.
        arrivals.append(time.monotonic())
        return 503, {"code": "store_unavailable"}, {}

    master.hooks["heartbeat"] = silent
    await wait_until(lambda: stopped)
    held_s = stopped[0] - arrivals[0]
    assert held_s < LONG_LEASE_S, "the lease could be over"
    assert held_s > LONG_LEASE_S / 2, "it was given up for nothing"
    del master.hooks["heartbeat"]
    await wait_until(lambda: master.beats and master.beats[-1] == {"running": [], "free": 4})
    assert master.result(job["job_id"]) is None


@pytest.mark.req("M6")
async def test_a_master_that_is_silent_costs_no_lease_while_another_answers(
    master: FakeMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pause must not add to the lease time lost to a silent master, because that would end the lease here."""
    monkeypatch.setattr("worker_sdk.worker.heartbeat.backoff_s", lambda tries, **_: 60.0)
    silent, is_over = FakeMaster(lease_s=LONG_LEASE_S), threading.Event()
    master.lease_s = LONG_LEASE_S
    silent.workers = master.workers
    worker = Worker([silent.url, master.url], token=master.token, grace_s=0.1)
    gate = asyncio.Event()

    @worker.handler("hold")
    async def hold(argument: Any) -> str:
        await gate.wait()
        return "done"

    def until_over(body: Any) -> None:
        is_over.wait(30)

    try:
        async with worker.running():
            await wait_until(lambda: silent.beats)
            job = await master.run("hold")
            await wait_until(lambda: silent.beats[-1]["running"])
            silent.hooks["heartbeat"] = until_over
            await wait_until(lambda: len(master.beats) > 3)
            assert [claim["token"] for claim in master.beats[0]["running"]] == [job["token"]]
            is_over.set()
            gate.set()
            result = await wait_until(lambda: master.result(job["job_id"]) or silent.result(job["job_id"]))
            assert result["result"] == "done"
    finally:
        is_over.set()
        silent.close()


@pytest.mark.req("M3", "M6")
async def test_a_job_stopped_before_any_heartbeat_named_it_is_named_once(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    """Otherwise, masters would treat it as an offer that was never taken up, and count neither a start nor a loss."""
    began, stopped = threading.Event(), threading.Event()

    @worker.handler("hold")
    async def hold(argument: Any, ctx: Context) -> None:
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()

    await up()
    master.hooks["heartbeat"] = lambda body: (503, {"code": "store_unavailable"}, {})
    job = await master.run("hold")
    await wait_until(stopped.is_set)
    assert began.is_set()
    heard = len(master.beats)
    del master.hooks["heartbeat"]
    await wait_until(lambda: len(master.beats) > heard + 1 and not master.beats[-1]["running"])
    named = [[claim["token"] for claim in beat["running"]] for beat in master.beats[heard:]]
    assert named[0] == [job["token"]]
    assert [job["token"]] not in named[2:]
    assert master.result(job["job_id"]) is None


async def test_the_first_lease_ends_where_the_offer_said(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    stopped: list[int] = []

    @worker.handler("hold")
    async def hold(argument: Any) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            stopped.append(master.now_ms())

    master.lease_s = LONG_LEASE_S
    await up()
    master.hooks["heartbeat"] = lambda body: (503, None, {})
    # The lease is shorter than those from heartbeats.
    lease_ms = 4_000
    job = await master.run("hold", lease_until_ms=master.now_ms() + lease_ms)
    await wait_until(lambda: stopped)
    assert job["lease_until_ms"] - lease_ms / 2 < stopped[0] < job["lease_until_ms"]


@pytest.mark.req("M3")
async def test_a_lost_token_stops_the_job_and_sends_no_result(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    ended = asyncio.Event()

    @worker.handler("hold")
    async def hold(argument: Any) -> str:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return "never"

    await up()
    lost, kept = await master.run("hold"), await master.run("hold", "kept")
    master.lost = {lost["token"]}
    await asyncio.wait_for(ended.wait(), 15)
    await wait_until(lambda: [c["token"] for c in master.beats[-1]["running"]] == [kept["token"]])
    assert master.beats[-1]["free"] == 3
    assert master.result(lost["job_id"]) is None


async def test_a_finished_job_is_named_until_its_result_is_answered(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    worker.handler("quick")(lambda argument: "done")
    await up()
    master.hooks["results"] = lambda body: (503, {"code": "store_unavailable"}, {})
    job = await master.run("quick")
    await wait_until(
        lambda: master.beats[-1] == {"running": [{"job_id": job["job_id"], "token": job["token"]}], "free": 4}
    )
    # The master gave up meanwhile. That affects running jobs, but this one has ended.
    master.lost = {job["token"]}
    beats = len(master.beats)
    await wait_until(lambda: len(master.beats) > beats + 2)
    del master.hooks["results"]
    assert (await wait_until(lambda: master.result(job["job_id"])))["result"] == "done"
    await wait_until(lambda: master.beats[-1]["running"] == [])


async def test_a_heartbeat_names_every_offer_that_was_judged_before_it(
    master: FakeMaster, worker: Worker
) -> None:
    """Otherwise, a job that was just taken up could count as one that was not."""
    worker.handler("note")(lambda argument: None)
    async with worker.running():
        await wait_until(lambda: worker.worker_id)
        executor = worker._node.executor  # type: ignore[union-attr]
        beats: int
        with executor.taking_up:
            await wait_until(lambda: not executor.taking_up.acquire(blocking=False))
            beats = len(master.beats)
            await asyncio.sleep(0.2)  # four intervals without a heartbeat allowed
            assert len(master.beats) <= beats + 1
        await wait_until(lambda: len(master.beats) > beats + 1)


# --- the estimate of store time


def test_store_time_is_known_within_the_round_trip() -> None:
    clock = StoreClock()
    assert clock.latest_ms(5.0) is None
    clock.observe(1_000_000, sent_s=10.0, received_s=10.2)
    # At 10.2, the store may have answered just now (1_000_000) or 200 ms ago.
    assert clock.latest_ms(10.2) == pytest.approx(1_000_201)
    assert clock.estimate_ms(10.2) == pytest.approx(1_000_100, abs=1)


def test_a_better_answer_narrows_the_estimate_and_time_widens_it() -> None:
    clock = StoreClock()
    clock.observe(1_000_000, sent_s=10.0, received_s=11.0)
    clock.observe(1_001_500, sent_s=11.499, received_s=11.501)
    latest = clock.latest_ms(11.501)
    assert latest is not None
    assert latest <= 1_001_503.1
    later = clock.latest_ms(1011.501)
    assert later is not None
    assert later - latest == pytest.approx(1_000_000 * (1 + DRIFT), abs=1)


def test_a_step_of_the_store_clock_is_believed() -> None:
    clock = StoreClock()
    clock.observe(1_000_000, sent_s=10.0, received_s=10.01)
    clock.observe(8_200_000, sent_s=11.0, received_s=11.01)
    assert clock.latest_ms(11.01) == pytest.approx(8_200_011)
    clock.observe(1_002_000, sent_s=12.0, received_s=12.01)
    assert clock.latest_ms(12.01) == pytest.approx(1_002_011)


def test_a_clock_that_was_set_back_leaves_the_fence_up_to_which_offers_are_of_the_former_time() -> None:
    clock = StoreClock()
    clock.observe(1_000_000, sent_s=10.0, received_s=10.01, fence=700)
    clock.observe(1_001_000, sent_s=11.0, received_s=11.01, fence=710)
    clock.observe(1_202_000, sent_s=12.0, received_s=12.01, fence=720)  # ahead: earlier offers are now old
    assert clock.stale_fence == 0
    clock.observe(1_003_000, sent_s=13.0, received_s=13.01, fence=730)
    assert clock.stale_fence == 730
    clock.observe(1_004_000, sent_s=14.0, received_s=14.01, fence=740)
    assert clock.stale_fence == 730


def test_fences_that_went_back_with_the_store_do_not_keep_new_offers_out() -> None:
    clock = StoreClock()
    clock.observe(1_000_000, sent_s=10.0, received_s=10.01, fence=700)
    clock.observe(900_000, sent_s=11.0, received_s=11.01, fence=710)
    clock.observe(901_000, sent_s=12.0, received_s=12.01, fence=300)
    assert clock.stale_fence == 300


@pytest.mark.req("M3")
async def test_an_offer_from_before_the_clock_was_set_back_is_too_late_however_young_it_looks(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    """The network held it, its job went to another worker, and then the clock went back by more than the delay."""
    ran: list[str] = []
    worker.handler("note")(ran.append)
    await up()
    held = master.dispatch("note", "held")
    master.fence = held["fence"]
    master.ahead_ms -= 5_000
    told = len(master.beats)
    await wait_until(lambda: len(master.beats) > told + 2)
    answer = await master.push(held)
    assert [one["reason"] for one in answer["rejected"]] == ["too_late"]
    # Fences keep growing, whatever the clock says.
    await master.run("note", "new", fence=held["fence"] + 1)
    await wait_until(lambda: ran)
    assert ran == ["new"]


@pytest.mark.req("M3")
async def test_an_offer_is_too_late_if_store_time_was_not_heard_for_a_whole_lease(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    """The process was suspended, and the store's clock was set forward meanwhile: by the time that the worker knows, an
    offer whose lease is long over looks young."""
    ran: list[str] = []
    worker.handler("note")(ran.append)
    master.lease_s = 0.4
    await up()
    master.answers_heartbeats = False
    master.ahead_ms += 5_000
    held = master.dispatch("note", "held")
    await asyncio.sleep(0.45)  # the lease of the offer
    answer = await master.push(held)
    assert [one["reason"] for one in answer["rejected"]] == ["too_late"]
    master.answers_heartbeats = True
    told = len(master.beats)
    await wait_until(lambda: len(master.beats) > told + 2)
    await master.run("note", "new")
    await wait_until(lambda: ran)
    assert ran == ["new"]


async def test_masters_that_do_not_tell_the_fence_are_believed_as_before(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    worker.handler("note")(lambda argument: None)
    await up()
    master.ahead_ms -= 5_000
    told = len(master.beats)
    await wait_until(lambda: len(master.beats) > told + 2)
    await master.run("note")


def test_the_margin_is_a_tenth_and_bounded() -> None:
    assert margin_s(0.5) == pytest.approx(0.05)
    assert margin_s(15) == pytest.approx(1.5)
    assert margin_s(600) == 2.0


@pytest.mark.req("D15")
async def test_the_times_of_a_membership_follow_what_masters_say() -> None:
    identity = WorkerIdentity(asyncio.get_running_loop())
    identity.joined(
        {"worker_id": "w", "epoch": 1, "store_time_ms": 1, "heartbeat_interval_s": 1.0, "lease_s": 15.0}
    )
    member = identity.member
    assert member
    answer: Any = {"epoch": 1}
    # With an older master, the former values stay.
    assert identity.update(member, answer) is member
    other: Any = {**answer, "heartbeat_interval_s": 0.5, "lease_s": 30.0}
    changed = identity.update(member, other)
    assert identity.member is changed
    assert (changed.worker_id, changed.heartbeat_interval_s, changed.lease_s) == ("w", 0.5, 30.0)
    # A late answer does not affect a newer membership.
    identity.lost("w")
    late: Any = {**answer, "lease_s": 1.0}
    identity.update(changed, late)
    assert identity.member is None


@pytest.mark.parametrize("code", ["body_too_large", "too_many_nodes"])
async def test_a_heartbeat_that_is_refused_as_too_large_is_sent_in_pieces(
    master: FakeMaster, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(master.url, token=master.token, grace_s=0.2, max_jobs=12)
    release = asyncio.Event()
    lost: list[Any] = []

    @worker.handler("hold")
    async def hold(argument: Any) -> str:
        try:
            await release.wait()
        except asyncio.CancelledError:
            lost.append(argument)
            raise
        return "done"

    async with worker.running():
        await wait_until(lambda: worker.worker_id)
        jobs = [await master.run("hold") for _ in range(9)]
        # A limit of this master allows three claims in one body.
        master.hooks["heartbeat"] = lambda body: (
            (413, {"code": code}, {}) if len(body["running"]) > 3 else None
        )
        master.beats.clear()
        tokens = {job["token"] for job in jobs}

        def in_pieces() -> bool:
            named = [{claim["token"] for claim in beat["running"]} for beat in list(master.beats)]
            return set().union(*named) >= tokens and len(named) > 8

        await wait_until(in_pieces, what="all claims are named")
        await asyncio.sleep(1.5 * LEASE_S)
        # Only the last piece of a heartbeat tells since when the claims are known.
        assert 0.5 * len(master.beats) < master.partial_beats < 0.7 * len(master.beats)
        release.set()
        for job in jobs:
            await wait_until(lambda job=job: master.result(job["job_id"]))
    assert not lost
    assert any("too large" in one.getMessage() for one in caplog.records)
