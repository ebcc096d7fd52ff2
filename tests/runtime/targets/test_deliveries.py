"""Deliveries to targets: what an endpoint gets, and what each of its answers does to the job."""

import asyncio
import datetime as dt
import json
import ssl
import uuid
from collections.abc import AsyncIterator
from typing import Any

import msgpack
import pytest
import trustme

from jqmaster.app import Master, running_master
from tests.support import real_time
from tests.support.endpoint import Endpoint, Hang, HangUp, Request, endpoint, reply
from tests.support.master import PATIENT, QUICK, Api, GivenSettings, forget, master_on
from tests.support.scripted_worker import puller_at
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from tests.support.webhook_receiver import SECRET

pytestmark = [pytest.mark.req("M13"), real_time.MASTER]

QUICK_RETRY = {"base_s": 0.01, "factor": 1.0, "max_s": 0.01, "jitter": False}


@pytest.fixture
async def one(store_server: StoreServer) -> AsyncIterator[tuple[Master, Api]]:
    settings: dict[str, Any] = {"allowed_webhook_networks": "127.0.0.0/8", "breaker_first_open_s": 0.2}
    async with master_on(store_server.url, **settings) as found:
        yield found


@pytest.fixture
def api(one: tuple[Master, Api]) -> Api:
    return one[1]


async def put(api: Api, shop: Endpoint | str, name: str = "shop", **fields: Any) -> None:
    url = shop if isinstance(shop, str) else shop.url
    status, shown = await api.call("PUT", f"/api/targets/{name}", {"names": ["order"], "url": url, **fields})
    assert status in (200, 201), shown


async def push(api: Api, argument: Any = None, **fields: Any) -> str:
    return await api.enqueue("order", argument, **{"keep_result": True, "retry": QUICK_RETRY, **fields})


async def result(api: Api, job_id: str) -> Any:
    status, found = await api.call("GET", f"/api/jobs/{job_id}/result?wait=15")
    assert status == 200, found
    return found


async def test_the_request_tells_of_the_job(api: Api) -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    async with endpoint(lambda _: reply(200, {"total": 99})) as shop:
        await put(api, f"{shop.url}/jobs/{{name}}/{{job_id}}", secret=SECRET, headers={"X-Key": "k"})
        argument = {"order": 42, "photo": b"\x00\x01", "when": dt.datetime(2026, 11, 21, tzinfo=dt.UTC)}
        job_id = await push(api, argument, timeout=30.0, headers={"traceparent": trace})
        found = await result(api, job_id)
        (request,) = shop.requests
    assert (found["type"], found["result"]) == ("success", {"total": 99})
    assert (request.method, request.path) == ("POST", f"/jobs/order/{job_id}")
    assert request.json == {"order": 42, "photo": {"$bin": "AAE="}, "when": "2026-11-21T00:00:00.000Z"}
    fields = request.fields
    assert fields["content-type"] == "application/json"
    assert (fields["jq-job-id"], fields["idempotency-key"], fields["jq-job-name"]) == (
        job_id,
        job_id,
        "order",
    )
    assert (fields["jq-attempt"], fields["x-key"], fields["traceparent"]) == ("1", "k", trace)
    assert int(fields["jq-fence"]) > 0
    left_s = (dt.datetime.fromisoformat(fields["jq-deadline"]) - dt.datetime.now(dt.UTC)).total_seconds()
    assert 10 < left_s < 40
    assert request.is_signed_with(SECRET)


async def test_an_envelope_has_the_facts_of_the_job(api: Api) -> None:
    async with endpoint() as shop:
        await put(api, shop, body="envelope", method="PUT")
        job_id = await push(api, [1, "ü"])
        await api.until_state(job_id, "succeeded")
        (request,) = shop.requests
        job = await api.job(job_id)
    assert request.method == "PUT"
    assert request.json == {
        "id": job_id, "name": "order", "attempt": 1, "argument": [1, "ü"], "created_at": job["created_at"],
    }  # fmt: skip


async def test_an_answer_without_json_is_no_result(api: Api) -> None:
    bodies = [b"", b"<p>ok</p>", b'{"a": ', b"[NaN]", b'{"a": 1e999}', b'"\\ud800"', b"[" * 5000]
    async with endpoint() as shop:

        def answer(_: Request) -> bytes:
            body = bodies[len(shop.requests) - 1]
            return (
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
                + body
            )

        shop.answer = answer
        await put(api, shop, max_running=1)
        job_ids = [await push(api) for _ in bodies]
        for job_id in job_ids:
            found = await result(api, job_id)
            assert (found["type"], found["result"]) == ("success", None)


async def test_a_deferral_uses_no_retry_and_why_says_so(api: Api) -> None:
    async with endpoint(lambda _: reply(503, Retry_After="20")) as shop:
        await put(api, shop)
        job_id = await push(api, max_retry=0)
        job = await api.until_state(job_id, "scheduled")
        assert (job["failures"], job["attempts"][-1]["outcome"]) == (0, "not_ready")
        (verdict,) = (await api.call("GET", f"/api/jobs/{job_id}/why"))[1]["verdicts"]
        assert verdict["put_off"] == "the target answered 503 and asks to wait 20 s"
        assert "the target answered 503 and asks to wait 20 s" in verdict["text"]
        assert 10 < verdict["in_s"] <= 20


async def test_a_deferral_is_bounded(api: Api) -> None:
    async with endpoint(lambda _: reply(429, Retry_After="0")) as shop:
        await put(api, shop, not_ready_for_s=0.3)
        job = await api.until_state(await push(api, max_retry=0), "failed")
    assert job["cause"] == "not_ready"
    assert len(shop.requests) > 1


async def test_failures_are_retried_and_final_statuses_are_not(api: Api) -> None:
    async with endpoint(lambda request: reply(int(request.json))) as shop:
        await put(api, shop, final=[404])
        failed, gone, moved = (
            await push(api, 500, max_retry=2),
            await push(api, 404),
            await push(api, 302, max_retry=0),
        )
        for job_id, code, attempts in (
            (failed, "status_500", 3),
            (gone, "status_404", 1),
            (moved, "status_302", 1),
        ):
            job = await api.until_state(job_id, "failed")
            assert (job["attempts"][-1]["code"], job["attempt"]) == (code, attempts)
    assert "redirects are not followed" in (await api.job(moved))["attempts"][-1]["message"]


async def test_a_fault_on_the_way_is_a_failed_attempt(api: Api) -> None:
    async def drip(_: Request) -> bytes:
        await asyncio.sleep(60)
        return b""

    def hang(_: Request) -> bytes:
        raise Hang

    def hang_up(_: Request) -> bytes:
        raise HangUp

    answers: dict[str, Any] = {
        "never": hang,
        "closed": hang_up,
        "slow": drip,
        "garbage": lambda _: b"HELLO\r\n\r\n",
        "cut": lambda _: b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
    }
    async with endpoint(lambda request: answers[request.json](request)) as shop:
        await put(api, shop, timeout=0.5)
        jobs = {kind: await push(api, kind, max_retry=0) for kind in answers}
        found = {kind: await api.until_state(job_id, "failed") for kind, job_id in jobs.items()}
    assert {kind: job["cause"] for kind, job in found.items()} == {
        "never": "timeout", "slow": "timeout", "cut": "timeout", "closed": "error", "garbage": "error",
    }  # fmt: skip


async def test_one_byte_a_second_ends_in_time(api: Api) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b" " * 1000:
                writer.write(bytes((byte,)))
                await writer.drain()
                await asyncio.sleep(0.05)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        await put(api, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", timeout=0.5)
        assert (await api.until_state(await push(api, max_retry=0), "failed"))["cause"] == "timeout"


async def test_a_huge_answer_is_cut_off_and_not_asked_for_again(one: tuple[Master, Api]) -> None:
    _, api = one
    sent = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
        try:
            while sent < 1 << 30:
                writer.write(b" " * (1 << 20))
                sent += 1 << 20
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        await put(api, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        job = await api.until_state(await push(api), "failed")
    assert job["attempts"][-1]["code"] == "answer_too_large"
    assert sent < 64 << 20


async def test_other_kinds_of_http_are_understood(api: Api) -> None:
    answers = [
        b"HTTP/1.0 200 OK\r\n\r\n[1]",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n[2]",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n[3]\r\n0\r\n\r\n",
    ]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        writer.write(answers[int(await reader.readexactly(length))])
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        await put(api, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        for number in range(3):
            found = await result(api, await push(api, number))
            assert found["result"] == [number + 1]


async def test_a_job_may_choose_its_address_among_allowed_hosts(api: Api) -> None:
    async with endpoint() as shop:
        await put(api, shop, url={"from": "argument.url"}, allow_hosts=["127.0.0.1"])
        await api.until_state(await push(api, {"url": f"{shop.url}/a?b=c"}), "succeeded")
        for argument in ({"url": "http://localhost/"}, {}):
            job = await api.until_state(await push(api, argument), "failed")
            assert job["attempts"][-1]["code"] == "invalid_argument"
            assert job["attempt"] == 1
    assert [request.path for request in shop.requests] == ["/a?b=c"]


async def test_requests_share_connections_and_stay_within_the_slots(api: Api) -> None:
    async def answer(_: Request) -> bytes:
        await asyncio.sleep(0.01)
        return reply()

    async with endpoint(answer) as shop:
        await put(api, shop, max_running=3)
        job_ids = [await push(api) for _ in range(30)]
        for job_id in job_ids:
            await api.until_state(job_id, "succeeded")
    assert shop.most_open <= 3
    assert shop.connections <= 6
    assert len(shop.requests) == 30


@pytest.mark.parametrize("max_running", [1, 5])
async def test_two_masters_together_use_all_slots_and_no_more(
    store_server: StoreServer, max_running: int
) -> None:
    opened = asyncio.Event()

    async def answer(_: Request) -> bytes:
        await opened.wait()
        await asyncio.sleep(0.01)
        return reply()

    shard = f"m{uuid.uuid4().hex[:10]}"
    settings = {**PATIENT, "allowed_webhook_networks": "127.0.0.0/8", "shard": shard}
    second = GivenSettings(**{**QUICK, "redis_url": store_server.url, **settings})
    async with (
        endpoint(answer) as shop,
        master_on(store_server.url, **settings) as (master, api),
        running_master(second) as other,
    ):
        deliveries = [one.shard.services.target_deliveries for one in (master, other)]

        async def parts() -> list[int]:
            workers = (await api.call("GET", "/api/workers"))[1]["workers"]
            return sorted(one["max_jobs"] for one in workers)

        # Each of them knows of the other before there are jobs.
        for most in (5, max_running):
            await put(api, shop, max_running=most)
            shares = [most // 2, most - most // 2]

            async def are_shared(shares: list[int] = shares) -> bool:
                return await parts() == [share for share in shares if share]

            await wait_until(are_shared, what="each master has its part of the slots")
        job_ids = [await push(api) for _ in range(60)]

        def running() -> list[int]:
            return sorted(one.running().get("shop", 0) for one in deliveries)

        await wait_until(lambda: shop.open == max_running and running() == shares, what="all are in use")
        opened.set()
        for job_id in job_ids:
            await api.until_state(job_id, "succeeded")
    await forget(store_server.url, shard)
    assert (shop.most_open, len(shop.requests)) == (max_running, 60)


async def test_an_endpoint_that_is_down_costs_no_retry(api: Api) -> None:
    async with endpoint() as shop:
        port = shop.port
    await put(api, f"http://127.0.0.1:{port}/")
    job_ids = [await push(api, max_retry=0) for _ in range(10)]

    async def is_told() -> Any:
        return (await api.call("GET", "/api/targets/shop"))[1]["unreachable"]

    (why,) = await wait_until(is_told, what="the target is unreachable")
    assert "connection refused" in why
    late = await push(api, max_retry=0)

    async def is_explained() -> bool:
        verdicts = (await api.call("GET", f"/api/jobs/{late}/why"))[1]["verdicts"]
        return any("connection refused" in verdict["text"] for verdict in verdicts)

    await wait_until(is_explained, what="why names the fault")
    async with endpoint(port=port):
        for job_id in [*job_ids, late]:
            if (await api.job(job_id))["state"] == "scheduled":
                await api.call("POST", f"/api/jobs/{job_id}/run")
            job = await api.until_state(job_id, "succeeded")
            assert job["failures"] == 0


async def test_a_private_address_is_not_called(store_server: StoreServer) -> None:
    async with endpoint() as shop, master_on(store_server.url) as (_, api):
        await put(api, shop)
        job = await api.until_state(await push(api, max_retry=1), "failed")
    assert job["attempts"][-1]["code"] == "address_refused"
    assert shop.requests == []


async def test_an_endpoint_may_answer_by_callback(api: Api) -> None:
    async with endpoint(lambda _: reply(202, JQ_Await="3600")) as shop:
        await put(api, shop)
        job_id = await push(api)
        await api.until_state(job_id, "awaiting_callback")
        (request,) = shop.requests
        url = request.fields["jq-callback-url"]
        answer = await api.http.post(
            url, content=b'{"total": 7}', headers={"Content-Type": "application/json"}
        )
        assert answer.status_code == 202
        found = await result(api, job_id)
    assert (found["type"], found["result"]) == ("success", {"total": 7})
    assert len(shop.requests) == 1


async def test_a_callback_may_report_a_failure(api: Api) -> None:
    bodies: list[bytes] = [
        json.dumps(
            {"type": "failure", "message": "no stock", "should_retry": False, "code": "stock"}
        ).encode(),
        b"not JSON",
    ]
    async with endpoint(lambda _: reply(202, JQ_Await="60")) as shop:
        await put(api, shop)
        for body, code in zip(bodies, ("stock", "bad_callback"), strict=True):
            job_id = await push(api)
            await api.until_state(job_id, "awaiting_callback")
            await api.http.post(shop.requests[-1].fields["jq-callback-url"], content=body)
            job = await api.until_state(job_id, "failed")
            assert job["attempts"][-1]["code"] == code


async def test_a_callback_that_comes_before_the_answer_counts(api: Api) -> None:
    async def answer(request: Request) -> bytes:
        called = await api.http.post(request.fields["jq-callback-url"], content=b"[1]")
        assert called.status_code == 202
        return reply(202, JQ_Await="60")

    async with endpoint(answer) as shop:
        await put(api, shop)
        found = await result(api, await push(api))
    assert found["result"] == [1]


async def test_an_answer_besides_a_callback_ends_the_wait(api: Api) -> None:
    async def answer(request: Request) -> bytes:
        await api.http.post(request.fields["jq-callback-url"], content=b"[1]")
        return reply(200, {"direct": True})

    async with endpoint(answer) as shop:
        await put(api, shop)
        found = await result(api, await push(api))
        assert found["result"] == {"direct": True}
        late = await api.http.post(shop.requests[0].fields["jq-callback-url"], content=b"[2]")
        assert late.status_code in (404, 409, 410)


async def test_a_canceled_job_ends_its_request(api: Api) -> None:
    def answer(_: Request) -> bytes:
        raise Hang

    async with endpoint(answer) as shop:
        await put(api, shop)
        job_id = await push(api)
        await shop.until(1)
        await api.call("POST", f"/api/jobs/{job_id}/cancel")
        await api.until_state(job_id, "canceled")
        await wait_until(lambda: shop.open == 0, what="the request ended")


async def test_a_change_applies_to_jobs_that_wait(api: Api) -> None:
    async with endpoint(lambda _: reply(503, Retry_After="0")) as old, endpoint() as new:
        await put(api, old)
        job_id = await push(api)
        await old.until(1)
        await put(api, new)
        await api.until_state(job_id, "succeeded")
        assert len(new.requests) == 1


async def test_requests_to_one_host_are_limited(api: Api) -> None:
    async def answer(_: Request) -> bytes:
        await asyncio.sleep(0.02)
        return reply()

    async with endpoint(answer) as shop:
        await put(
            api,
            shop,
            url={"from": "argument.url"},
            allow_hosts=["127.0.0.1"],
            max_running=10,
            max_running_per_host=2,
        )
        job_ids = [await push(api, {"url": shop.url}) for _ in range(6)]
        for job_id in job_ids:
            assert (await api.until_state(job_id, "succeeded"))["failures"] == 0
    assert shop.most_open <= 2


async def test_a_busy_host_costs_nothing(api: Api) -> None:
    """The wait for a host is not that for an endpoint which asks for time, after which a job fails."""

    async def answer(_: Request) -> bytes:
        await asyncio.sleep(0.3)
        return reply()

    async with endpoint(answer) as shop:
        await put(
            api,
            shop,
            url={"from": "argument.url"},
            allow_hosts=["127.0.0.1"],
            max_running=4,
            max_running_per_host=1,
            not_ready_for_s=0.001,
        )
        job_ids = [await push(api, {"url": shop.url}, max_retry=0) for _ in range(4)]
        for job_id in job_ids:
            job = await api.until_state(job_id, "succeeded")
            assert (job["failures"], job["losses"]) == (0, 0)
            assert {one["outcome"] for one in job["attempts"]} <= {"deferred", "success"}
        shown = (await api.call("GET", "/api/targets/shop"))[1]
        assert "unreachable" not in shown["figures"]["results"]
    assert shop.most_open == 1


async def test_a_wait_until_after_the_calendar_is_a_long_one(api: Api) -> None:
    beyond = ["Fri, 31 Dec 99999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 +2359", "9" * 400]
    async with endpoint(lambda request: reply(503, Retry_After=beyond[request.json])) as shop:
        await put(api, shop)
        for number in range(len(beyond)):
            job = await api.until_state(await push(api, number, max_retry=0), "scheduled")
            assert (job["failures"], job["losses"], job["attempts"][-1]["outcome"]) == (0, 0, "not_ready")


async def test_an_unreadable_answer_is_no_result(api: Api) -> None:
    """The limits on arguments hold for results, by whatever way they come."""
    deep = b"[" * 40 + b"]" * 40
    async with endpoint(lambda request: answers[request.json]) as shop:
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
        answers = {"direct": head % len(deep) + deep, "later": reply(202, JQ_Await="60")}
        await put(api, shop)
        found = await result(api, await push(api, "direct"))
        assert (found["type"], found["result"]) == ("success", None)
        packed = b"\x91" * 800 + b"\xc0"
        for body, kind in (
            (packed, "application/msgpack"),
            (b"\xc0\xc0", "application/msgpack"),
            (b"\xc1", "application/msgpack"),
            (deep, "application/json"),
            (b"[" * 100_000, "application/json"),
        ):
            job_id = await push(api, "later")
            await api.until_state(job_id, "awaiting_callback")
            url = shop.requests[-1].fields["jq-callback-url"]
            sent = await api.http.post(url, content=body, headers={"Content-Type": kind})
            assert sent.status_code == 202
            job = await api.until_state(job_id, "failed")
            assert (job["attempts"][-1]["code"], job["attempt"]) == ("bad_callback", 1)


async def test_an_error_in_a_callback_keeps_its_timestamps(api: Api) -> None:
    when = dt.datetime(2026, 11, 21, tzinfo=dt.UTC)
    failure = {"type": "failure", "message": "no", "should_retry": False, "error": {"at": when}}
    async with endpoint(lambda _: reply(202, JQ_Await="60")) as shop:
        await put(api, shop)
        job_id = await push(api)
        await api.until_state(job_id, "awaiting_callback")
        body = msgpack.packb(failure, datetime=True)
        kind = {"Content-Type": "application/msgpack"}
        await api.http.post(shop.requests[0].fields["jq-callback-url"], content=body, headers=kind)
        await api.until_state(job_id, "failed")
        assert (await result(api, job_id))["error"] == {"at": when}


@pytest.mark.parametrize("names", [["*"], ["order"]], ids=["pattern", "listed"])
async def test_the_callback_of_a_worker_is_left_to_workers(api: Api, names: list[str]) -> None:
    async with endpoint() as shop:
        async with puller_at(api, "order") as worker:
            job_id = await push(api)
            (job,) = await worker.claim()
            asked = {"job_id": job_id, "token": job["token"], "timeout_s": 60.0}
            _, opened = await api.call("POST", f"/api/workers/{worker.id}/challenges", asked)
            await worker.end(job, "challenged", request_id=opened["request_id"])
            await worker.api.call("DELETE", f"/api/workers/{worker.id}")
        await put(api, shop, names=names, max_running=1)
        if names == ["*"]:
            # The pattern takes the name over, as no worker serves it now.
            await api.until_state(await push(api), "succeeded")
        called = await api.http.post(opened["callback_url"], content=b"paid")
        assert called.status_code == 202
        # A callback that nobody takes does not hold up the other jobs.
        for _ in range(3):
            await api.until_state(await push(api), "succeeded")
        assert await api.state(job_id) == "awaiting_callback"
        async with puller_at(api, "order") as again:
            found: list[dict[str, Any]] = []
            while not found:
                found = [one for one in await again.claim() if one["job_id"] == job_id]
            (job,) = found
            assert (job["phase"], job["callback"]["body"]) == ("callback", b"paid")
            await again.end(job)
        assert await api.state(job_id) == "succeeded"


async def test_a_name_that_turns_private_is_not_called(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each connection is checked, whatever the name was before."""
    addresses = ["127.0.0.1"]

    def look_up(host: str, port: int) -> list[Any]:
        assert host == "shop.test"
        return [(None, None, 6, "", (addresses[0], port))]

    monkeypatch.setattr("jqmaster.net.resolver.look_up", look_up)
    async with endpoint(lambda _: reply(Connection="close")) as shop:
        await put(api, f"http://shop.test:{shop.port}/")
        await api.until_state(await push(api), "succeeded")
        addresses[0] = "10.1.2.3"
        job = await api.until_state(await push(api, max_retry=0), "failed")
    assert job["attempts"][-1]["code"] == "address_refused"
    assert len(shop.requests) == 1


async def test_an_error_with_an_endless_body_is_known_by_its_status(api: Api) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 500 no\r\nContent-Length: 1073741824\r\n\r\n")
        try:
            while True:
                writer.write(b"x" * (1 << 16))
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        await put(api, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        job = await api.until_state(await push(api, max_retry=0), "failed")
    assert job["attempts"][-1]["code"] == "status_500"


async def test_a_certificate_of_another_name_gets_no_job(
    store_server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    own, trusting = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("other.example").configure_cert(own)
    authority.configure_trust(trusting)
    monkeypatch.setattr("jqmaster.runtime.outbound.target_client._system_context", lambda: trusting)
    shop = Endpoint(lambda _: reply())
    server = await asyncio.start_server(shop.serve, "127.0.0.1", 0, ssl=own)
    settings = {"allowed_webhook_networks": "127.0.0.0/8"}
    async with server, master_on(store_server.url, **settings) as (_, api):
        await put(api, f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        job = await api.until_state(await push(api, max_retry=0), "scheduled")
    assert (job["failures"], job["attempts"][-1]["code"]) == (0, "unreachable")
    assert "certificate" in job["attempts"][-1]["message"]
    assert shop.requests == []
