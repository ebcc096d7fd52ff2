"""At the level debug, master and worker tell the way of each job."""

import asyncio
import logging

import pytest

from tests.support import real_time
from tests.support.master import Api, master_on
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from worker_sdk import Worker

pytestmark = real_time.MASTER


def told(caplog: pytest.LogCaptureFixture, job_id: str) -> str:
    return "\n".join(
        f"{record.name.partition('.')[0]}: {record.getMessage()}"
        for record in caplog.records
        if job_id in record.getMessage()
    )


@pytest.mark.parametrize("pull", [False, True])
async def test_the_way_of_a_job_is_told(api: Api, caplog: pytest.LogCaptureFixture, pull: bool) -> None:
    caplog.set_level(logging.DEBUG)
    worker = Worker(str(api.http.base_url), pull=pull)

    @worker.handler("mail.send")
    async def send(argument: object) -> None:
        if argument == "bad":
            raise ValueError(argument)

    async with worker.running():
        good = await api.enqueue("mail.send")
        bad = await api.enqueue("mail.send", "bad", max_retry=0)
        await api.until_state(good, "succeeded")
        await api.until_state(bad, "failed")
        await wait_until(lambda: f"job {bad}: the master has answered" in caplog.text, what="both are told")
    way = ["handed to worker"] if pull else ["accepted by worker"]
    for job_id, ending, state in ((good, "success", "succeeded"), (bad, "failure", "failed")):
        text = told(caplog, job_id)
        for part in (
            f"jqmaster: job {job_id} (mail.send): accepted",
            f"jqmaster: job {job_id} (mail.send): attempt 1 is offered to worker",
            f"jqmaster: job {job_id} (mail.send): {way[0]}",
            f"worker_sdk: job {job_id} (mail.send): attempt 1 is accepted",
            f"worker_sdk: job {job_id} (mail.send): attempt 1 has ended: {ending}",
            f"jqmaster: job {job_id} (mail.send): settled by worker",
            f"worker_sdk: job {job_id}: the master has answered the report of its end: settled",
        ):
            assert part in text, (part, text)
        assert f", now {state}" in text
    # They are not lines of the job's own log.
    _, log = await api.call("GET", f"/api/jobs/{good}/logs")
    assert log["entries"] == []


async def test_refusals_are_told_with_their_reason(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker(str(api.http.base_url), max_jobs=1)
    begun, may_end = asyncio.Event(), asyncio.Event()

    @worker.handler("work")
    async def work(argument: object) -> None:
        begun.set()
        await may_end.wait()

    async with worker.running():
        caplog.set_level(logging.DEBUG)
        job_id = await api.enqueue("work")
        await begun.wait()
        status, _ = await api.call("POST", "/api/jobs", {"name": "work", "argument": 2, "id": job_id})
        assert status == 409
        status, _ = await api.call("GET", "/api/jobs/00000000-0000-4000-8000-000000000000")
        assert status == 404
        may_end.set()
        await api.until_state(job_id, "succeeded")
    assert f"job {job_id} (work): refused: the ID {job_id} is taken" in caplog.text
    assert "the request is answered 404 unknown_job: " in caplog.text


async def test_connections_to_the_store_are_told_and_at_info_nothing_of_this(
    store_server: StoreServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with master_on(store_server.url) as (master, api):
        caplog.set_level(logging.INFO)
        job_id = await api.enqueue("work")
        assert job_id not in caplog.text
        caplog.set_level(logging.DEBUG)
        await master.shard.services.link.client.reset()
        await wait_until(lambda: "a new connection to the store at " in caplog.text, what="it is told")
    assert "password" not in caplog.text
