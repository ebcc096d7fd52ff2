"""Webhooks at the end of jobs: a real master, a real worker, and a receiver that is slow, refuses, or is gone."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest

from jqmaster.app import Master
from tests.support import real_time
from tests.support.each import for_each
from tests.support.master import Api, master_on
from tests.support.scripted_worker import ScriptedWorker, puller_at
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from tests.support.webhook_receiver import FORMER_SECRET, SECRET, Answer, Receiver, receiver

pytestmark = [pytest.mark.req("M10"), real_time.MASTER]

LOOPBACK = {"webhook_secrets": SECRET, "allowed_webhook_networks": "127.0.0.0/8"}


@pytest.fixture
async def served(store_server: StoreServer) -> AsyncIterator[tuple[Master, Api]]:
    async with master_on(store_server.url, **LOOPBACK) as one:
        yield one


@pytest.fixture
async def api(served: tuple[Master, Api]) -> Api:
    return served[1]


@pytest.fixture
async def worker(api: Api) -> AsyncIterator[ScriptedWorker]:
    async with puller_at(api) as one:
        yield one


async def deliveries(api: Api, job_id: str) -> list[dict[str, Any]]:
    status, found = await api.call("GET", f"/api/jobs/{job_id}/deliveries")
    assert status == 200, found
    return list(found["deliveries"])


async def delivery_in(api: Api, job_id: str, *states: str) -> dict[str, Any]:
    """Return the newest delivery of a job as soon as it is in one of the states."""

    async def found() -> dict[str, Any] | None:
        return next((one for one in await deliveries(api, job_id) if one["state"] in states), None)

    return await wait_until(found, what=f"a delivery in {states}")


async def fail(api: Api, worker: ScriptedWorker, to: Receiver, **fields: Any) -> str:
    """Run a job that fails for good and notifies the receiver."""
    job_id = await api.enqueue("work", max_retry=0, **({"notify": {"url": to.url}} | fields))
    (job,) = await worker.claim()
    await worker.end(job, "failure", reason="other", should_retry=False, message="no", error=None)
    return job_id


async def test_the_end_of_a_job_is_told_and_signed(api: Api, worker: ScriptedWorker) -> None:
    async with receiver() as to:
        notify = {"url": to.url, "with_result": True}
        job_id = await api.enqueue("work", notify=notify, keep_result=True, tags=["red"])
        (job,) = await worker.claim()
        await worker.end(job, "success", result={"sum": 3, "raw": b"\x00"})
        (told,) = await to.until(1)
        assert told.path == "/hook?key=k1"
        assert told.is_signed_with(SECRET)
        assert not told.is_signed_with(FORMER_SECRET)
        assert told.message["type"] == "job.succeeded"
        data = told.message["data"]
        assert (data["job_id"], data["name"], data["state"], data["tags"]) == (
            job_id,
            "work",
            "succeeded",
            ["red"],
        )
        assert data["result"]["result"] == {"sum": 3, "raw": {"$bin": "AA=="}}
        shown = await delivery_in(api, job_id, "succeeded")
        assert shown["id"] == told.fields["webhook-id"]
        assert (shown["url"], shown["event"]) == (to.url.replace("key=k1", "…"), "job.succeeded")
        assert (await api.job(job_id))["notify"] == {
            "url": to.url.replace("key=k1", "…"),
            "on": ["succeeded", "discarded", "failed", "canceled", "skipped"],
            "with_result": True,
        }
        metrics = (await api.http.get("/metrics")).text
        assert 'jqmaster_webhook_calls_total{outcome="delivered"} 1.0' in metrics


async def test_only_the_ends_that_were_asked_for_are_told(api: Api, worker: ScriptedWorker) -> None:
    async with receiver() as to:
        quiet = await api.enqueue("work", notify={"url": to.url, "on": ["failed"]})
        (job,) = await worker.claim()
        await worker.end(job, "success", result=None)
        await api.until_state(quiet, "succeeded")
        canceled = await api.enqueue("work", notify_url=to.url, delay=600.0)
        assert (await api.call("POST", f"/api/jobs/{canceled}/cancel"))[0] == 200
        (told,) = await to.until(1)
        assert (told.message["type"], told.message["data"]["job_id"]) == ("job.canceled", canceled)
        assert told.message["data"]["cause"] == "canceled"
        assert await deliveries(api, quiet) == []


async def test_a_failed_delivery_is_tried_again_with_the_same_id(api: Api, worker: ScriptedWorker) -> None:
    async with receiver(Answer(500), Answer(302, (("Location", "/other"),)), Answer(200)) as to:
        job_id = await fail(api, worker, to)
        for attempts, message in ((1, "status 500"), (2, "status 302: redirects are not followed")):
            shown = await delivery_in(api, job_id, "retrying")
            await to.until(attempts)
            assert shown["attempts"][-1]["message"] == message
            path = f"/api/jobs/{job_id}/deliveries/{shown['id']}/resend"
            assert (await api.call("POST", path))[0] == 202
            await to.until(attempts + 1)
        first, second, third = to.received
        assert first.fields["webhook-id"] == second.fields["webhook-id"] == third.fields["webhook-id"]
        assert first.body == third.body
        assert [one.path for one in to.received] == ["/hook?key=k1"] * 3
        shown = await delivery_in(api, job_id, "succeeded")
        assert [one["code"] for one in shown["attempts"]] == ["failed", "failed"]
        # A successful delivery can be sent again, and the audit log tells who asked for it.
        assert (await api.call("POST", f"/api/jobs/{job_id}/deliveries/{shown['id']}/resend"))[0] == 202
        await to.until(4)
        entries = (await api.call("GET", "/api/audit"))[1]["entries"]
        assert [entry["action"] for entry in entries].count("webhook.resend") == 3


async def test_a_receiver_that_is_gone_is_not_called_again(api: Api, worker: ScriptedWorker) -> None:
    async with receiver(Answer(410)) as to:
        job_id = await fail(api, worker, to)
        shown = await delivery_in(api, job_id, "failed")
        (attempt,) = shown["attempts"]
        assert (attempt["code"], attempt["message"]) == (
            "gone",
            "status 410: the receiver wants no more of these",
        )


@pytest.mark.parametrize("status", [429, 503])
async def test_a_receiver_that_asks_for_time_gets_it(api: Api, worker: ScriptedWorker, status: int) -> None:
    async with receiver(Answer(status, (("Retry-After", "120"),))) as to:
        job_id = await fail(api, worker, to)
        shown = await delivery_in(api, job_id, "retrying")
        ended, due = map(datetime.fromisoformat, (shown["attempts"][0]["finished_at"], shown["next_at"]))
        assert 115 <= (due - ended).total_seconds() <= 130
        # Other deliveries to the same receiver wait as long, and use none of their retries.
        other = await fail(api, worker, to)
        waits = await delivery_in(api, other, "scheduled")
        assert waits["attempts"][0]["outcome"] == "deferred"
        assert len(to.received) == 1


async def test_a_slow_receiver_has_few_calls_at_a_time_and_delays_no_other(
    api: Api, worker: ScriptedWorker
) -> None:
    async with receiver(Answer(hangs=True)) as slow, receiver() as quick:
        for _ in range(8):
            await fail(api, worker, slow)
        await slow.until(4)
        await fail(api, worker, quick)
        await quick.until(1)
        assert slow.most_open == 4
        slow.let_go.set()


async def test_an_address_that_is_not_called_ends_the_delivery(api: Api, worker: ScriptedWorker) -> None:
    async with receiver() as to:
        for url in ("http://192.168.7.7/hook", "http://169.254.169.254/latest", "http://[::1]:8081/"):
            job_id = await fail(api, worker, to, notify={"url": url})
            shown = await delivery_in(api, job_id, "failed")
            assert shown["attempts"][0]["code"] == "refused", url
        assert to.received == []


async def test_a_job_that_ends_again_is_told_of_again(api: Api, worker: ScriptedWorker) -> None:
    async with receiver() as to:
        job_id = await fail(api, worker, to)
        await to.until(1)
        assert (await api.call("POST", f"/api/jobs/{job_id}/retry"))[0] == 200
        (job,) = await worker.claim()
        await worker.end(job, "success", result=None)
        first, second = await to.until(2)
        assert (first.message["type"], second.message["type"]) == ("job.failed", "job.succeeded")
        assert first.fields["webhook-id"] != second.fields["webhook-id"]
        await delivery_in(api, job_id, "succeeded")
        assert [one["event"] for one in await deliveries(api, job_id)] == ["job.succeeded", "job.failed"]


@for_each(
    ("fields", "loc"),
    [
        ({"notify": {"url": "ftp://x/"}}, ["notify", "url"]),
        ({"notify": {"url": "http://a@b/"}}, ["notify", "url"]),
        ({"notify": {"url": "http://x/#f"}}, ["notify", "url"]),
        ({"notify": {"url": "http://x/ y"}}, ["notify", "url"]),
        ({"notify": {"url": "http://x/" + "a" * 2048}}, ["notify", "url"]),
        ({"notify": {"url": "http://x/", "on": []}}, ["notify", "on"]),
        ({"notify": {"url": "http://x/", "on": ["running"]}}, ["notify", "on", 0]),
        ({"notify": {"url": "http://x/", "on": ["none"]}}, ["notify", "on", 0]),
        ({"notify": {"url": "http://x/", "with_result": True}}, []),
        ({"notify": {"url": "http://x/"}, "notify_url": "http://x/"}, []),
        ({"notify": {"url": "http://x/", "to": 1}}, ["notify", "to"]),
        ({"notify_url": "x"}, ["notify_url"]),
    ],
)
async def test_bad_requests_name_the_field(api: Api, fields: dict[str, Any], loc: list[Any]) -> None:
    status, problem = await api.call("POST", "/api/jobs", {"name": "work", **fields})
    assert (status, problem["errors"][0]["loc"]) == (422, loc)


async def test_names_of_masters_are_reserved(api: Api) -> None:
    job = {"name": "jq.webhook", "argument": {"url": "http://x/", "body": ""}}
    status, problem = await api.call("POST", "/api/jobs", job)
    assert (status, problem["errors"][0]["loc"]) == (422, ["name"])
    status, problem = await api.call("POST", "/api/jobs/bulk", {"jobs": [{"name": "work"}, job]})
    assert (status, problem["errors"][0]["loc"]) == (422, ["jobs", 1, "name"])
    request = {"url": None, "names": ["work", "jq.mail"], "max_jobs": 1, "secret": "s" * 32}
    status, problem = await api.call("POST", "/api/workers", request)
    assert (status, problem["errors"][0]["loc"]) == (422, ["names", 1])


async def test_unknown_deliveries_are_not_found(api: Api) -> None:
    job_id = await api.enqueue("work")
    assert await deliveries(api, job_id) == []
    status, problem = await api.call("POST", f"/api/jobs/{job_id}/deliveries/{job_id}/resend")
    assert (status, problem["code"]) == (404, "unknown_delivery")


async def test_jobs_that_nobody_is_told_of_need_no_worker_of_the_master(api: Api) -> None:
    job_id = await api.enqueue("work")
    async with puller_at(api) as worker:
        (job,) = await worker.claim()
        await worker.end(job, "success", result=None)
        await api.until_state(job_id, "succeeded")
        shown = (await api.call("GET", "/api/workers"))[1]["workers"]
        assert [one["id"] for one in shown] == [worker.id]


async def test_without_a_secret_nothing_is_promised(store_server: StoreServer) -> None:
    async with master_on(store_server.url) as (_, api):
        status, problem = await api.call("POST", "/api/jobs", {"name": "work", "notify_url": "http://x/"})
        assert (status, problem["code"]) == (422, "webhooks_off")
        jobs = {"jobs": [{"name": "work"}, {"name": "work", "notify_url": "http://x/"}]}
        status, problem = await api.call("POST", "/api/jobs/bulk", jobs)
        assert (status, problem["errors"][0]["loc"]) == (422, ["jobs", 1, "notify"])


async def test_while_a_secret_is_replaced_both_sign(store_server: StoreServer) -> None:
    both = {**LOOPBACK, "webhook_secrets": f"{SECRET} {FORMER_SECRET}"}
    async with master_on(store_server.url, **both) as (_, api), puller_at(api) as worker, receiver() as to:
        await fail(api, worker, to)
        (told,) = await to.until(1)
        assert told.is_signed_with(SECRET)
        assert told.is_signed_with(FORMER_SECRET)
        shown = (await api.http.get("/api/settings")).content
        assert SECRET.encode() not in shown


async def test_another_leader_delivers_what_the_former_left(store_server: StoreServer) -> None:
    """The old leader ends while the receiver hangs: the webhook is sent again, under the same ID."""
    async with receiver(Answer(hangs=True), Answer(200)) as to:
        async with (
            master_on(store_server.url, shard="webhooks_left", **LOOPBACK) as (_, api),
            puller_at(api) as worker,
        ):
            job_id = await fail(api, worker, to)
            await to.until(1)
        async with master_on(store_server.url, shard="webhooks_left", **LOOPBACK) as (_, api):
            first, second = await to.until(2)
            assert first.fields["webhook-id"] == second.fields["webhook-id"]
            assert (await delivery_in(api, job_id, "succeeded"))["id"] == first.fields["webhook-id"]
