"""A newer claim of a job whose earlier run has not yet ended: it is accepted, but never runs beside the earlier one."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.sdk.fake_master import FakeMaster
from tests.support import real_time
from tests.support.waiting import wait_until
from worker_sdk import Context, Worker
from worker_sdk.worker import executor

pytestmark = real_time.WORKER


@pytest.fixture
def may_end() -> asyncio.Event:
    return asyncio.Event()


@pytest.fixture
def starts(worker: Worker, may_end: asyncio.Event) -> list[int]:
    """Return attempts of `stubborn`, which does not end before it may, even if told to."""
    begun: list[int] = []

    @worker.handler("stubborn")
    async def stubborn(argument: Any, ctx: Context) -> int:
        begun.append(ctx.attempt)
        while not may_end.is_set():
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                continue
        return ctx.attempt

    return begun


def claimed_again(master: FakeMaster, job: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return master.dispatch(
        "stubborn", job_id=job["job_id"], attempt=job["attempt"] + 1, fence=job["fence"] + 1, **changes
    )


async def test_it_starts_when_the_earlier_run_has_ended(
    master: FakeMaster, starts: list[int], may_end: asyncio.Event, up: Callable[[], Any]
) -> None:
    await up()
    job = await master.run("stubborn")
    master.lost = {job["token"]}
    again = claimed_again(master, job)
    assert (await master.push(again))["accepted"] == [job["job_id"]]
    named = {"running": [{"job_id": job["job_id"], "token": again["token"]}], "free": 3}
    await wait_until(lambda: master.beats[-1] == named, what="its lease is kept, and it uses one slot")
    assert starts == [1]
    may_end.set()
    result = await wait_until(lambda: master.result(job["job_id"]))
    assert (result["token"], result["result"]) == (again["token"], 2)
    assert starts == [1, 2]


async def test_masters_are_asked_at_once_whether_the_earlier_claim_is_over(
    master: FakeMaster, starts: list[int], may_end: asyncio.Event, up: Callable[[], Any]
) -> None:
    master.heartbeat_interval_s = 60.0
    await up()
    job = await master.run("stubborn")
    beats = len(master.beats)
    await master.push(claimed_again(master, job))
    await wait_until(lambda: len(master.beats) > beats, timeout_s=5)
    may_end.set()


async def test_one_that_waits_too_long_is_handed_back_and_the_next_one_waits_again(
    master: FakeMaster, starts: list[int], may_end: asyncio.Event, up: Callable[[], Any]
) -> None:
    await up()
    job = await master.run("stubborn")
    master.lost = {job["token"]}
    again = claimed_again(master, job, timeout=0.4)
    assert (await master.push(again))["accepted"] == [job["job_id"]]
    result = await wait_until(lambda: master.result(job["job_id"]))
    assert (result["token"], result["type"]) == (again["token"], "handed_back")
    third = claimed_again(master, again)
    assert (await master.push(third))["accepted"] == [job["job_id"]]
    assert starts == [1]
    may_end.set()
    await wait_until(lambda: master.beats[-1] == {"running": [], "free": 4})
    ends = [(result["token"], result["type"]) for result in master.results[job["job_id"]]]
    assert ends == [(again["token"], "handed_back"), (third["token"], "success")]
    assert starts == [1, 3]


async def test_one_that_has_waited_for_much_of_its_timeout_is_handed_back_when_the_earlier_run_ends(
    master: FakeMaster,
    starts: list[int],
    may_end: asyncio.Event,
    up: Callable[[], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next claim has the whole timeout."""
    monkeypatch.setattr(executor, "LATE_SHARE", 0.0)
    await up()
    job = await master.run("stubborn")
    master.lost = {job["token"]}
    again = claimed_again(master, job)
    assert (await master.push(again))["accepted"] == [job["job_id"]]
    named = {"running": [{"job_id": job["job_id"], "token": again["token"]}], "free": 3}
    await wait_until(
        lambda: master.beats[-1] == named, what="the worker knows that the earlier claim is over"
    )
    may_end.set()
    result = await wait_until(lambda: master.result(job["job_id"]))
    assert (result["token"], result["type"]) == (again["token"], "handed_back")
    await wait_until(lambda: master.beats[-1] == {"running": [], "free": 4})
    assert starts == [1]


async def test_one_that_is_canceled_while_it_waits_never_starts(
    master: FakeMaster, starts: list[int], may_end: asyncio.Event, up: Callable[[], Any]
) -> None:
    await up()
    job = await master.run("stubborn")
    master.lost = {job["token"]}
    again = claimed_again(master, job)
    await master.push(again)
    order = {"token": again["token"], "epoch": master.epoch}
    assert (await master.send("POST", f"/jobs/{job['job_id']}/cancel", order)).status_code == 200
    assert (await wait_until(lambda: master.result(job["job_id"])))["type"] == "canceled"
    may_end.set()
    await wait_until(lambda: master.beats[-1] == {"running": [], "free": 4})
    assert starts == [1]


async def test_the_newest_of_several_is_the_one_that_starts(
    master: FakeMaster, starts: list[int], may_end: asyncio.Event, up: Callable[[], Any]
) -> None:
    await up()
    job = await master.run("stubborn")
    second = claimed_again(master, job)
    third = claimed_again(master, second)
    master.lost = {job["token"], second["token"]}
    await master.push(second)
    await master.push(third)
    may_end.set()
    result = await wait_until(lambda: master.result(job["job_id"]))
    assert (result["token"], starts) == (third["token"], [1, 3])


async def test_the_end_of_the_worker_hands_it_back(master: FakeMaster, may_end: asyncio.Event) -> None:
    worker = Worker(master.url, token=master.token, grace_s=0.0, max_jobs=4)

    @worker.handler("stubborn")
    async def stubborn(argument: Any) -> None:
        try:
            await may_end.wait()
        finally:
            await asyncio.sleep(0.5)

    async with worker.running():
        await wait_until(lambda: worker.worker_id)
        job = await master.run("stubborn")
        master.lost = {job["token"]}
        again = claimed_again(master, job)
        assert (await master.push(again))["accepted"] == [job["job_id"]]
    ends = [(result["token"], result["type"]) for result in master.results[job["job_id"]]]
    assert ends == [(again["token"], "handed_back")]
