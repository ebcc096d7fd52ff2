"""Jobs of the gateway are sent to their URLs, and the body of the answer decides."""

import json
from typing import Any

import pytest

from jqmaster.runtime.targets import deliveries
from tests.support.fireworq import SUCCESS, endpoint, gateway_on
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("J19", "M13")


async def test_a_payload_arrives_as_it_was_written(store_server: StoreServer) -> None:
    payloads: list[tuple[bytes, bytes]] = [
        (b'{"b": 1e3,  "a": [1, 2.0]}', b'{"b": 1e3,  "a": [1, 2.0]}'),
        (b"12345678901234567890123", b"12345678901234567890123"),
        (b'"plain \\u00e9 text"', "plain é text".encode()),
        (b"null", b""),
        (b"", b""),
    ]
    async with gateway_on(store_server.url) as client, endpoint() as work:
        for given, expected in payloads:
            payload = b', "payload": ' + given if given else b""
            body = b'{"url": "' + work.url.encode() + b'"' + payload + b"}"
            assert (await client.call("POST", "/job/c", body))[0] == 200
            asked = (await work.until(len(work.asked) + 1))[-1]
            assert (asked.path, asked.body) == ("/work", expected)
            assert asked.fields["content-type"] == "application/json"
        await client.until("/queue/default/grabbed", lambda page: page["jobs"] == [])
        assert (await client.get("/queue/default/failed"))["failed_jobs"] == []


async def test_the_http_status_counts_for_nothing(store_server: StoreServer) -> None:
    def answers(number: int, body: bytes) -> tuple[int, bytes]:
        return int(body), b'{"status": "success"}'

    async with gateway_on(store_server.url) as client, endpoint(answers) as work:
        for status in (200, 302, 404, 429, 500, 503):
            await client.push("c", work.url, payload=status)
        await work.until(6)
        await client.until("/queue/default/stats", lambda now: now["total_successes"] == 6)
        assert len(work.asked) == 6


async def test_a_failure_is_retried_as_often_and_as_late_as_the_job_says(store_server: StoreServer) -> None:
    def answers(number: int, body: bytes) -> tuple[int, bytes]:
        return (200, b"no JSON") if number == 0 else (200, b'{"status": "failure", "message": "busy"}')

    async with gateway_on(store_server.url) as client, endpoint(answers) as work:
        number = await client.push("c", work.url, max_retries=2, retry_delay=0)
        page = await client.until("/queue/default/failed", lambda page: page["failed_jobs"] != [])
        assert len(work.asked) == 3
        (failed,) = page["failed_jobs"]
        assert (failed["job_id"], failed["fail_count"]) == (number, 3)
        assert failed["result"] == {"status": "failure", "code": 200, "message": "busy"}
        # With a delay, the job is deferred meanwhile.
        number = await client.push("c", work.url, max_retries=1, retry_delay=600)
        page = await client.until("/queue/default/deferred", lambda page: page["jobs"] != [])
        (job,) = page["jobs"]
        assert (job["id"], job["fail_count"], job["max_retries"], job["retry_delay"]) == (number, 1, 1, 600)


async def test_an_endpoint_that_is_not_there_is_an_internal_failure(store_server: StoreServer) -> None:
    async with gateway_on(store_server.url) as client:
        await client.push("c", "http://127.0.0.1:9/work", max_retries=1)
        page = await client.until("/queue/default/failed", lambda page: page["failed_jobs"] != [])
        (failed,) = page["failed_jobs"]
        assert (failed["result"]["status"], failed["result"]["code"]) == ("internal-failure", 0)
        assert failed["fail_count"] == 2


async def test_no_answer_in_time_is_a_failure(store_server: StoreServer) -> None:
    async with gateway_on(store_server.url) as client, endpoint() as work:
        work.held.clear()
        await client.push("c", work.url, timeout=1)
        page = await client.until("/queue/default/failed", lambda page: page["failed_jobs"] != [])
        assert page["failed_jobs"][0]["result"]["code"] == 0


async def test_a_queue_runs_no_more_jobs_at_once_than_it_has_workers(store_server: StoreServer) -> None:
    async with gateway_on(store_server.url) as client, endpoint() as work:
        work.held.clear()
        await client.put("/queue/q", {"max_workers": 2})
        await client.put("/routing/c", {"queue_name": "q"})
        for _ in range(6):
            await client.push("c", work.url)
        await work.until(2)
        stats = await client.get("/queue/q/stats")
        assert (stats["total_workers"], stats["idle_workers"]) == (2, 0)
        work.held.set()
        await work.until(6)
        assert work.most_open <= 2


async def test_a_deleted_queue_keeps_its_jobs_until_it_is_made_again(store_server: StoreServer) -> None:
    async with gateway_on(store_server.url) as client, endpoint() as work:
        await client.put("/queue/q", {})
        await client.put("/routing/c", {"queue_name": "q"})
        number = await client.push("c", work.url, run_after=3600)
        await client.call("DELETE", "/queue/q")
        await client.put("/queue/q", {})
        assert (await client.get("/queue/q/deferred"))["jobs"][0]["id"] == number


async def test_private_addresses_and_other_hosts_are_not_called(store_server: StoreServer) -> None:
    for settings in ({"allowed_webhook_networks": ""}, {"fireworq_hosts": "*.run.example"}):
        async with gateway_on(store_server.url, **settings) as client, endpoint() as work:
            await client.push("c", work.url)
            page = await client.until("/queue/default/failed", lambda page: page["failed_jobs"] != [])
            assert page["failed_jobs"][0]["result"]["message"]
            assert work.asked == []


async def test_a_job_whose_endpoint_is_the_gateway_pushes_nothing(store_server: StoreServer) -> None:
    async with gateway_on(store_server.url) as client:
        url = f"{str(client.http.base_url).rstrip('/')}/job/c"
        await client.push("c", url, payload={"url": "http://127.0.0.1:9/work", "run_after": 3600})
        page = await client.until("/queue/default/failed", lambda page: page["failed_jobs"] != [])
        # The gateway answered, and refused the push of the job.
        (failed,) = page["failed_jobs"]
        assert (failed["result"]["status"], failed["result"]["code"]) == ("failure", 400)
        assert "delivery_loop" in failed["result"]["message"]
        assert (await client.get("/queue/default/deferred"))["jobs"] == []
        root = str(client.http.base_url).removesuffix("/fireworq/")
        assert len((await client.http.get(f"{root}/api/jobs?limit=10")).json()["jobs"]) == 1


async def test_no_text_of_an_endpoint_is_kept_whole(
    store_server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answers(number: int, body: bytes) -> tuple[int, bytes]:
        status = json.loads(body)
        return 500, json.dumps({"status": status, "message": "m" * 1_000_000}).encode()

    monkeypatch.setattr(deliveries, "FIGURES_EVERY_S", 0.0)
    statuses = ("success", "failure", "permanent-failure", "x" * 100_000)
    async with gateway_on(store_server.url) as client, endpoint(answers) as work:
        for status in statuses:
            await client.push("c", work.url, payload=f'"{status}"')
        await client.until("/queue/default/failed", lambda page: len(page["failed_jobs"]) == 3)
        root = str(client.http.base_url).removesuffix("/fireworq/")
        last: list[dict[str, Any]] = []

        async def are_counted() -> bool:
            found = (await client.http.get(f"{root}/api/targets/fireworq:default")).json()
            last[:] = found["figures"]["last"]
            return len(last) == len(statuses)

        await wait_until(are_counted)
        assert all(0 < len(answer["detail"]) < 2_000 for answer in last)
        failures = (await client.http.get(f"{root}/api/failures")).json()
        assert len(json.dumps(failures)) < 10_000
        for failed in (await client.get("/queue/default/failed"))["failed_jobs"]:
            assert 0 < len(failed["result"]["message"]) <= 1_000


async def test_an_operator_sees_such_a_job(store_server: StoreServer) -> None:
    async with gateway_on(store_server.url) as client, endpoint(lambda number, body: SUCCESS) as work:
        await client.push("mail/welcome", work.url, payload={"id": 1})
        root = str(client.http.base_url).removesuffix("/fireworq/")
        found: dict[str, Any] = {}

        async def is_over() -> bool:
            query = "name=fireworq/default&state=succeeded"
            found.update((await client.http.get(f"{root}/api/jobs?{query}")).json())
            return bool(found["jobs"])

        await wait_until(is_over)
        (job,) = found["jobs"]
        assert job["tags"] == ["mail/welcome"]
        whole = (await client.http.get(f"{root}/api/jobs/{job['id']}")).json()
        assert whole["argument"]["url"] == work.url
        assert json.loads(whole["argument"]["payload"]) == {"id": 1}
