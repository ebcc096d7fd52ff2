"""Fetch results: at once, by long poll, again within the grace, and never after it."""

import asyncio
import time

import httpx
import pytest

from jqmaster.domain.ids import new_id
from tests.support import real_time
from tests.support.master import Api, master_on
from tests.support.scripted_worker import FINISHED_AT, puller_at, worker_at
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = real_time.MASTER


async def result_of(api: Api, job_id: str, query: str = "") -> tuple[int, object]:
    return await api.call("GET", f"/api/jobs/{job_id}/result{query}")


@pytest.mark.req("J6", "J8", "J14")
async def test_a_success_is_answered_as_the_worker_reported_it(api: Api) -> None:
    async with worker_at(api) as worker:
        job_id = await api.enqueue("work", keep_result=True)
        await worker.end(await worker.next_job(), result={"n": [1, b"\x00"]})
    expected = {"type": "success", "finished_at": FINISHED_AT, "result": {"n": [1, b"\x00"]}}
    assert await result_of(api, job_id) == (200, expected)


@pytest.mark.req("J9", "J14")
@pytest.mark.parametrize("reason", ["other", "timeout", "undecodable", "invalid_argument"])
async def test_a_final_failure_is_answered_with_all_its_fields(api: Api, reason: str) -> None:
    async with worker_at(api) as worker:
        job_id = await api.enqueue("work", keep_result=True, max_retry=3)
        fields = {"reason": reason, "should_retry": False, "error": {"code": 7}, "message": "no such user"}
        await worker.end(await worker.next_job(), "failure", **fields)
    assert await result_of(api, job_id) == (200, {"type": "failure", "finished_at": FINISHED_AT, **fields})
    assert (await api.job(job_id))["cause"] == {"other": "error"}.get(reason, reason)


@pytest.mark.req("J9", "J14")
async def test_for_a_job_that_retries_the_last_error_is_answered(api: Api) -> None:
    async with worker_at(api) as worker:
        job_id = await api.enqueue("work", keep_result=True, retry={"base_s": 3600, "max_s": 3600})
        job = await worker.next_job()
        assert await result_of(api, job_id) == (202, {"state": "running", "last_error": None})
        await worker.end(job, "failure", message="HTTP 503", error={"type": "Away", "message": "HTTP 503"})
        assert await result_of(api, job_id) == (202, {"state": "retrying", "last_error": "HTTP 503"})
        await api.call("POST", f"/api/jobs/{job_id}/run")
        await worker.end(await worker.next_job(), "failure", message="HTTP 504 " * 100)
    _, answer = await result_of(api, job_id)
    assert isinstance(answer, dict)
    assert answer["last_error"].startswith("HTTP 504")
    assert len(answer["last_error"]) <= 301


@pytest.mark.req("J9")
async def test_should_retry_false_ends_the_job_at_once(api: Api) -> None:
    async with worker_at(api) as worker:
        job_id = await api.enqueue("work", max_retry=100)
        await worker.end(await worker.next_job(), "failure", should_retry=False)
        job = await api.job(job_id)
        assert (job["state"], job["attempt"], job["cause"]) == ("failed", 1, "error")


@pytest.mark.req("J5")
async def test_a_job_is_tried_max_retry_times_again(api: Api) -> None:
    async with worker_at(api) as worker:
        job_id = await api.enqueue("work", max_retry=2, keep_result=True, retry={"base_s": 0, "max_s": 0})
        for attempt in (1, 2, 3):
            job = await worker.next_job()
            assert job["attempt"] == attempt
            await worker.end(job, "failure", message=f"no. {attempt}")
        job = await api.job(job_id)
        assert (job["state"], job["failures"], len(job["attempts"])) == ("failed", 3, 3)
        assert (await result_of(api, job_id))[1]["message"] == "no. 3"  # type: ignore[index]


@pytest.mark.req("J14", "M10")
async def test_an_unfinished_job_answers_its_state(api: Api) -> None:
    job_id = await api.enqueue("work", keep_result=True)
    assert await result_of(api, job_id) == (202, {"state": "ready", "last_error": None})
    began = time.monotonic()
    assert await result_of(api, job_id, "?wait=0.3") == (202, {"state": "ready", "last_error": None})
    assert 0.3 <= time.monotonic() - began < 5


@pytest.mark.req("J14", "M10")
async def test_a_long_poll_is_answered_when_the_job_ends(api: Api) -> None:
    async with worker_at(api) as worker:
        job_id = await api.enqueue("work", keep_result=True)
        job = await worker.next_job()
        polls = [asyncio.create_task(result_of(api, job_id, "?wait=60")) for _ in range(3)]
        # This request is answered only after the earlier ones arrived: the polls wait by now.
        await wait_until(lambda: api.job(job_id))
        assert not any(poll.done() for poll in polls)
        began = time.monotonic()
        await worker.end(job, result=1)
        answers = await asyncio.gather(*polls)
        assert time.monotonic() - began < 5
        assert [status for status, _ in answers] == [200] * 3


@pytest.mark.req("M10")
async def test_a_long_poll_ends_when_the_job_is_canceled_or_deleted(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jqmaster.service.jobs.reader.LOOK_AGAIN_S", 0.3)  # no message announces a deletion
    for method, tail in (("POST", "/cancel"), ("DELETE", "")):
        job_id = await api.enqueue("work", keep_result=True)
        poll = asyncio.create_task(result_of(api, job_id, "?wait=60"))
        await api.job(job_id)
        await api.call(method, f"/api/jobs/{job_id}{tail}")
        async with asyncio.timeout(8):
            assert await poll == (200, None)


@pytest.mark.req("J14")
async def test_a_fetched_result_can_be_asked_for_again_and_then_is_null(store_server: StoreServer) -> None:
    async with master_on(store_server.url, result_grace_s=0.5) as (_, api), worker_at(api) as worker:
        job_id = await api.enqueue("work", keep_result=True)
        await worker.end(await worker.next_job(), result=1)
        first = await result_of(api, job_id)
        began = time.monotonic()
        assert first[0] == 200
        assert first[1] is not None
        assert await result_of(api, job_id) == first
        await wait_until(lambda: _is_null(api, job_id))
        assert time.monotonic() - began >= 0.4
        assert await api.state(job_id) == "succeeded"


@pytest.mark.req("J14")
async def test_a_result_that_nobody_fetches_is_discarded(store_server: StoreServer) -> None:
    async with master_on(store_server.url, result_ttl_s=0.4) as (_, api), worker_at(api) as worker:
        job_id = await api.enqueue("work", keep_result=True)
        await worker.end(await worker.next_job(), result=1)

        # The request itself starts the grace, so the test makes only one, and makes it late enough.
        await asyncio.sleep(0.6)
        assert await result_of(api, job_id) == (200, None)


@pytest.mark.req("J6", "J14")
async def test_without_keep_result_and_for_unknown_jobs_it_is_null(api: Api) -> None:
    async with worker_at(api) as worker:
        job_id = await api.enqueue("work")
        await worker.end(await worker.next_job(), result=1)
    for known_or_not in (job_id, new_id(), "nonsense"):
        assert await result_of(api, known_or_not) == (200, None)
        assert await result_of(api, known_or_not, "?wait=30") == (200, None)


@pytest.mark.row(69)
async def test_wait_is_a_number_of_seconds_and_capped(
    store_server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jqmaster.api.jobs.handlers.MAX_WAIT_S", 0.2)
    async with master_on(store_server.url) as (_, api):
        job_id = await api.enqueue("work")
        for wait in ("-1", "x", "", "nan", "inf", "1_0", "0x1", "1,5", "+1", " 1", "%D9%A1"):
            status, problem = await result_of(api, job_id, f"?wait={wait}")
            assert status == 422, wait
            assert problem["errors"][0]["loc"] == ["query", "wait"]  # type: ignore[index]
        assert (await result_of(api, job_id, "?wait=1&wait=1"))[0] == 422
        assert (await result_of(api, job_id, "?weight=1"))[0] == 422
        for wait in ("1e9", "1e300", "99999"):
            began = time.monotonic()
            assert (await result_of(api, job_id, f"?wait={wait}"))[0] == 202
            assert time.monotonic() - began < 5


async def _is_null(api: Api, job_id: str) -> bool:
    return await result_of(api, job_id) == (200, None)


async def test_polls_leave_connections_to_pushes(store_server: StoreServer) -> None:
    """The master answers polls at once when there is no room for them, and closes their connections."""
    async with master_on(store_server.url, max_connections=16) as (master, api):
        job_id = await api.enqueue("work", keep_result=True)
        waiting = master.services.waiting
        clients, polls = [Api(master.server.url) for _ in range(12)], []
        for n, client in enumerate(clients, 1):
            polls.append(asyncio.create_task(result_of(client, job_id, "?wait=60")))
            await wait_until(lambda n=n: waiting.taken == n, what="it waits")
        for _ in range(20):
            async with httpx.AsyncClient(base_url=master.server.url, trust_env=False) as late:
                answer = await late.get(f"/api/jobs/{job_id}/result?wait=60")
                assert (answer.status_code, answer.headers["retry-after"]) == (202, "1")
                assert answer.headers["connection"] == "close"
                assert (await late.get("/api/stream")).status_code == 503
        async with puller_at(api, "other") as puller:
            assert await puller.claim(wait=0) == [], "workers have places of their own"
        another = await api.enqueue("work")
        for each in (job_id, another):
            assert (await api.call("POST", f"/api/jobs/{each}/cancel"))[0] == 200
        assert {status for status, _ in await asyncio.gather(*polls)} == {200}
        assert waiting.taken == 0
        for client in clients:
            await client.http.aclose()
