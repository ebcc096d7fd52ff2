"""Jobs that come with the answers to reports."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.sdk.fake_master import FakeMaster
from tests.support import real_time
from tests.support.waiting import wait_until
from worker_sdk import Worker

pytestmark = real_time.WORKER


@pytest.fixture
def ran(worker: Worker) -> list[Any]:
    """Return the arguments of calls to `note`."""
    got: list[Any] = []

    @worker.handler("note")
    async def note(argument: Any) -> None:
        got.append(argument)

    return got


@pytest.mark.req("D19")
async def test_jobs_of_an_answer_run_and_the_next_report_shows_that_they_came(
    master: FakeMaster, ran: list[Any], up: Callable[[], Any]
) -> None:
    await up()
    more = [master.dispatch("note", n) for n in (1, 2)]
    master.next_jobs.append(more)
    await master.run("note", 0)
    await wait_until(lambda: all(master.result(job["job_id"]) for job in more))
    assert ran == [0, 1, 2]
    assert master.jobs_after[0] == "0"
    assert set(master.jobs_after[1:]) == {str(more[1]["fence"])}
    # A push of the same offers, by a master that heard of no answer, starts nothing.
    assert (await master.push(*more))["accepted"] == [job["job_id"] for job in more]
    assert ran == [0, 1, 2]


@pytest.mark.req("M1")
async def test_jobs_of_an_answer_that_are_not_taken_are_handed_back(
    master: FakeMaster, worker: Worker, ran: list[Any], up: Callable[[], Any]
) -> None:
    opened = asyncio.Event()

    @worker.handler("hold")
    async def hold(argument: Any) -> None:
        await opened.wait()

    await up()
    held = await master.run("hold")
    again = master.dispatch("hold", job_id=held["job_id"], fence=held["fence"])
    unknown, good = master.dispatch("nobody"), master.dispatch("note", "good")
    master.next_jobs.append([unknown, again, good])
    await master.run("note", "first")
    await wait_until(lambda: ran == ["first", "good"])
    assert (await wait_until(lambda: master.result(unknown["job_id"])))["type"] == "handed_back"
    # A duplicate waits for the end of its lease.
    assert master.result(held["job_id"]) is None
    opened.set()
    await wait_until(lambda: master.result(held["job_id"]))


@pytest.mark.parametrize("jobs", [[], ["no map"], [{"job_id": "x"}], "no list", {"job_id": "x"}], ids=str)
async def test_jobs_that_make_no_sense_count_as_lost(
    master: FakeMaster, ran: list[Any], up: Callable[[], Any], jobs: Any, caplog: pytest.LogCaptureFixture
) -> None:
    await up()
    master.next_jobs.append(jobs)
    for n in (1, 2):
        job = await master.run("note", n)
        await wait_until(lambda job=job: master.result(job["job_id"]))
    assert ran == [1, 2]
    assert master.jobs_after == ["0", "0"]
    assert "results are kept" not in caplog.text


async def test_a_worker_that_drains_asks_for_no_jobs(
    master: FakeMaster, worker: Worker, ran: list[Any], up: Callable[[], Any]
) -> None:
    opened = asyncio.Event()

    @worker.handler("hold")
    async def hold(argument: Any) -> None:
        await opened.wait()

    await up()
    held = await master.run("hold")
    master.drain = True
    beats = len(master.beats)
    await wait_until(lambda: len(master.beats) > beats + 1)
    opened.set()
    await wait_until(lambda: master.result(held["job_id"]))
    assert master.jobs_after == [None]
