"""Partial results over HTTP: sent by the worker, fetched by the pusher, streamed to people."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from tests.support import real_time
from tests.support.master import Api, master_on
from tests.support.scripted_worker import ScriptedWorker, puller_at
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("D21"), real_time.MASTER]

EVENTS = {"Accept": "text/event-stream"}


async def send(worker: ScriptedWorker, job: dict[str, Any], *values: Any, first: int = 1) -> tuple[int, Any]:
    claim = {"job_id": job["job_id"], "token": job["token"]}
    return await worker.api.call(
        "POST", f"/api/workers/{worker.id}/parts", {**claim, "first": first, "parts": list(values)}
    )


class Listener:
    """Records the events that one client of a stream received: name, ID and data of each."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, Any]] = []
        self.is_over = False

    async def listen(self, api: Api, job_id: str, **headers: str) -> None:
        base = str(api.http.base_url)
        async with (
            httpx.AsyncClient(base_url=base, timeout=30) as http,
            http.stream("GET", f"/api/jobs/{job_id}/stream", headers={**EVENTS, **headers}) as answer,
        ):
            assert answer.status_code == 200, await answer.aread()
            event = {"event": "", "id": ""}
            async for line in answer.aiter_lines():
                field, _, value = line.partition(": ")
                event[field] = value
                if field == "data" and event["event"] != "alive":
                    self.events.append((event["event"], event["id"], json.loads(value)))
        self.is_over = True


async def test_a_stream_gives_parts_as_they_come_and_ends_with_the_job(api: Api) -> None:
    async with puller_at(api) as worker:
        job_id = await api.enqueue("work")
        (job,) = await worker.claim()
        assert await send(worker, job, {"n": 1}, b"\x00") == (200, {"accepted": 2})
        heard = Listener()
        async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
            tasks.create_task(heard.listen(api, job_id))
            await wait_until(lambda: len(heard.events) == 3, what="the first parts")
            await send(worker, job, "third", first=3)
            await wait_until(lambda: len(heard.events) == 4, what="the third part")
            await worker.end(job)
        assert heard.events == [
            ("attempt", "1-0", {"attempt": 1}),
            ("part", "1-1", {"attempt": 1, "number": 1, "value": {"n": 1}}),
            ("part", "1-2", {"attempt": 1, "number": 2, "value": {"$bin": "AA=="}}),
            ("part", "1-3", {"attempt": 1, "number": 3, "value": "third"}),
            ("end", "end", {"state": "succeeded", "attempt": 1}),
        ]
        again = Listener()
        async with asyncio.timeout(10):
            await again.listen(api, job_id, **{"last-event-id": "1-2"})
        assert [event[1] for event in again.events] == ["1-3", "end"]
        over = await api.http.get(f"/api/jobs/{job_id}/stream", headers={**EVENTS, "last-event-id": "end"})
        assert (over.status_code, over.content) == (204, b"")


async def test_a_retry_begins_anew_and_the_stream_says_so(api: Api) -> None:
    async with puller_at(api) as worker:
        job_id = await api.enqueue("work", max_retry=1, retry={"base_s": 0, "max_s": 0})
        (job,) = await worker.claim()
        await send(worker, job, "old")
        heard = Listener()
        async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
            tasks.create_task(heard.listen(api, job_id))
            await wait_until(lambda: len(heard.events) == 2, what="the part of the first attempt")
            await worker.end(job, "failure", reason="other", should_retry=True, message="no")
            (again,) = await worker.claim()
            await send(worker, again, "new")
            await wait_until(lambda: len(heard.events) == 4, what="the part of the second attempt")
            await worker.end(again)
        assert [(name, event_id) for name, event_id, _ in heard.events] == [
            ("attempt", "1-0"), ("part", "1-1"), ("attempt", "2-0"), ("part", "2-1"), ("end", "end"),
        ]  # fmt: skip
        # A late call from the first attempt changes nothing.
        status, problem = await send(worker, job, "late", first=2)
        assert (status, problem["code"]) == (409, "stale_token")


async def test_a_pusher_fetches_parts_and_waits_for_more(api: Api) -> None:
    async with puller_at(api) as worker:
        job_id = await api.enqueue("work")
        path = f"/api/jobs/{job_id}/parts"
        assert (await api.call("GET", path))[1]["parts"] == []
        (job,) = await worker.claim()
        waiting = asyncio.create_task(api.call("GET", f"{path}?after=1-0&wait=20"))
        await send(worker, job, {"rows": [1, 2]})
        status, page = await waiting
        assert (status, page) == (200, {
            "state": "running", "attempt": 1, "next": "1-1", "is_last": False,
            "parts": [{"attempt": 1, "number": 1, "value": {"rows": [1, 2]}}],
        })  # fmt: skip
        waiting = asyncio.create_task(api.call("GET", f"{path}?after=1-1&wait=20"))
        await worker.end(job)
        page = (await waiting)[1]
        assert (page["state"], page["parts"], page["is_last"]) == ("succeeded", [], True)


async def test_bad_calls_are_refused_and_say_why(api: Api) -> None:
    async with puller_at(api) as worker:
        job_id = await api.enqueue("work")
        (job,) = await worker.claim()
        assert (await send(worker, job))[0] == 422
        assert (await send(worker, job, 1, first=0))[0] == 422
        for after in ("x", "1", "-1-1"):
            assert (await api.call("GET", f"/api/jobs/{job_id}/parts?after={after}"))[0] == 422
        assert (await api.call("GET", "/api/jobs/nothing/parts"))[1]["code"] == "unknown_job"
        stream = await api.http.get("/api/jobs/nothing/stream", headers=EVENTS)
        assert stream.status_code == 404
        await worker.end(job)


async def test_an_attempt_has_bounds_and_the_answer_names_them(store_server: StoreServer) -> None:
    async with (
        master_on(store_server.url, max_parts=2, max_streams=1) as (master, api),
        puller_at(api) as worker,
    ):
        job_id = await api.enqueue("work")
        (job,) = await worker.claim()
        status, problem = await send(worker, job, 1, 2, 3)
        assert (status, problem["code"]) == (413, "too_many_parts")
        assert (await send(worker, job, 1, 2))[0] == 200
        status, problem = await send(worker, job, 3, first=3)
        assert (status, problem["code"]) == (413, "too_many_parts")
        assert "2 partial results" in problem["detail"]
        heard = Listener()
        listening = asyncio.create_task(heard.listen(api, job_id))
        await wait_until(lambda: heard.events, what="the stream is open")
        refused = await api.http.get(f"/api/jobs/{job_id}/stream", headers=EVENTS)
        assert refused.status_code == 503
        # A master that stops does not wait for its streams to end.
        async with asyncio.timeout(10):
            await master.services.feed.stop()
            await listening
        assert heard.is_over
        await worker.end(job)
