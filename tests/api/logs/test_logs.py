"""Logs over HTTP: workers send them, people read and follow them."""

import asyncio
import json
from typing import Any

import httpx
import msgpack
import pytest

from tests.support import real_time
from tests.support.master import Api, master_on
from tests.support.scripted_worker import ScriptedWorker, puller_at
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("D17"), real_time.MASTER]

AT = 1_800_000_000_000
EVENTS = {"Accept": "text/event-stream"}


def line(job: dict[str, Any], seq: int, text: Any, **fields: Any) -> dict[str, Any]:
    return {
        "job_id": job["job_id"],
        "token": job["token"],
        "seq": seq,
        "at": AT + seq,
        "text": text,
        **fields,
    }


async def send(worker: ScriptedWorker, *entries: dict[str, Any]) -> tuple[int, Any]:
    return await worker.api.call("POST", f"/api/workers/{worker.id}/logs", {"entries": list(entries)})


async def page(api: Api, job_id: str, **query: Any) -> Any:
    asked = "&".join(f"{name}={value}" for name, value in query.items())
    status, found = await api.call("GET", f"/api/jobs/{job_id}/logs?{asked}")
    assert status == 200, found
    return found


async def test_lines_are_kept_and_read_by_page_level_and_attempt(api: Api) -> None:
    async with puller_at(api) as worker:
        job_id = await api.enqueue("work", max_retry=1, retry={"base_s": 0, "max_s": 0})
        assert (await page(api, job_id))["entries"] == []
        (job,) = await worker.claim()
        sent = await send(
            worker,
            line(job, 1, "begun", level="debug"),
            {"seq": 2, "at": AT, "text": "\x1b[31mred\x1b[0m\x1b[2J"},
            line(job, 3, b"\xffraw", level="warning"),
        )
        assert sent == (200, {"accepted": 3, "dropped": 0, "stale": []})
        found = await page(api, job_id)
        assert found == {
            "state": "running", "next": 3, "last": 3, "dropped": 0, "is_last": False, "is_archived": False,
            "log_ref": None,
            "entries": [
                {"seq": 1, "attempt": 1, "at": "2027-01-15T08:00:00.001Z", "level": "debug", "text": "begun"},
                {"seq": 2, "attempt": 1, "at": "2027-01-15T08:00:00.000Z", "level": "info",
                 "text": "\x1b[31mred\x1b[0m"},
                {"seq": 3, "attempt": 1, "at": "2027-01-15T08:00:00.003Z", "level": "warning", "text": "\ufffdraw"},
            ],
        }  # fmt: skip
        # A repeat writes nothing twice, even if only a part of it is a repeat.
        assert (await send(worker, line(job, 3, "again"), line(job, 4, "new")))[1]["accepted"] == 2
        assert [e["text"] for e in (await page(api, job_id, after=2))["entries"]] == ["\ufffdraw", "new"]
        await worker.end(job, "failure", reason="other", should_retry=True, message="no")
        (again,) = await worker.claim()
        assert (await send(worker, line(again, 1, "second attempt", level="error")))[0] == 200
        assert [e["seq"] for e in (await page(api, job_id, level="warning"))["entries"]] == [3, 5]
        assert [e["seq"] for e in (await page(api, job_id, attempt=2))["entries"]] == [5]
        assert [e["seq"] for e in (await page(api, job_id, tail=2))["entries"]] == [4, 5]
        first = await page(api, job_id, limit=2)
        assert ([e["seq"] for e in first["entries"]], first["next"], first["is_last"]) == ([1, 2], 2, False)
        await worker.end(again)


async def test_a_follower_hears_of_lines_at_once_and_of_the_end(api: Api) -> None:
    async with puller_at(api) as worker:
        job_id = await api.enqueue("work")
        (job,) = await worker.claim()
        waiting = asyncio.create_task(page(api, job_id, wait=20))
        await send(worker, line(job, 1, "first"))
        async with asyncio.timeout(10):
            found = await waiting
        assert [e["text"] for e in found["entries"]] == ["first"]
        # A read goes on waiting while its filter selects none of the new lines.
        waiting = asyncio.create_task(page(api, job_id, after=1, wait=20, level="error"))
        await send(worker, line(job, 2, "quiet"))
        await send(worker, line(job, 3, "loud", level="error"))
        assert [e["seq"] for e in (await waiting)["entries"]] == [3]
        waiting = asyncio.create_task(page(api, job_id, after=3, wait=20))
        await worker.end(job)
        # The last lines may come after the result.
        await send(worker, line(job, 4, "last"))
        found = await waiting
        assert [e["text"] for e in found["entries"]] == ["last"]
        async with asyncio.timeout(10):
            found = await page(api, job_id, after=4, wait=20)
        assert (found["entries"], found["is_last"], found["state"]) == ([], True, "succeeded")


async def test_lines_are_events_of_the_stream_of_a_job(api: Api) -> None:
    async with puller_at(api) as worker:
        job_id = await api.enqueue("work")
        (job,) = await worker.claim()
        await send(worker, line(job, 1, "first"))
        heard: list[tuple[str, str, Any]] = []

        async def listen(query: str = "", **headers: str) -> list[tuple[str, str, Any]]:
            base = str(api.http.base_url)
            heard.clear()
            async with (
                httpx.AsyncClient(base_url=base, timeout=30) as http,
                http.stream(
                    "GET", f"/api/jobs/{job_id}/stream{query}", headers={**EVENTS, **headers}
                ) as answer,
            ):
                assert answer.status_code == 200, await answer.aread()
                event = {"event": "", "id": ""}
                async for text in answer.aiter_lines():
                    field, _, value = text.partition(": ")
                    event[field] = value
                    if field == "data" and event["event"] != "alive":
                        heard.append((event["event"], event["id"], json.loads(value)))
            return list(heard)

        async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
            listening = tasks.create_task(listen())
            await wait_until(lambda: len(heard) == 2, what="the first line")
            await send(worker, line(job, 2, "second", level="error"))
            await wait_until(lambda: len(heard) == 3, what="the second line")
            await worker.end(job)
        events = [(name, event_id) for name, event_id, _ in listening.result()]
        assert events == [("attempt", "1-0"), ("log", "1-0.1"), ("log", "1-0.2"), ("end", "end")]
        assert listening.result()[1][2]["text"] == "first"
        async with asyncio.timeout(20):
            again = await listen(**{"last-event-id": "1-0.1"})
            assert [event_id for _, event_id, _ in again] == ["1-0.2", "end"]
            assert [name for name, _, _ in await listen("?logs=false")] == ["attempt", "end"]
            assert [name for name, _, _ in await listen("?level=error")] == ["attempt", "log", "end"]
        for query in ("logs=maybe", "level=loud", "after=1-1.x"):
            refused = await api.http.get(f"/api/jobs/{job_id}/stream?{query}", headers=EVENTS)
            assert refused.status_code == 422, query


@pytest.mark.req("M3")
async def test_stale_claims_are_told_and_others_of_the_call_are_kept(api: Api) -> None:
    async with puller_at(api) as worker:
        ids = [await api.enqueue("work") for _ in range(2)]
        jobs = await worker.claim(2)
        foreign = {**jobs[0], "token": "0" * 32}
        status, answer = await send(worker, line(foreign, 1, "x"), line(jobs[1], 1, "y"))
        assert (status, answer) == (200, {"accepted": 1, "dropped": 0, "stale": [foreign["job_id"]]})
        assert (await page(api, foreign["job_id"]))["entries"] == []
        assert sorted(ids) == sorted(job["job_id"] for job in jobs)
        for job in jobs:
            await worker.end(job)


async def test_bad_calls_are_refused_and_name_the_field(api: Api) -> None:
    async with puller_at(api) as worker:
        await api.enqueue("work")
        (job,) = await worker.claim()
        good = line(job, 1, "x")
        for entry, field in (
            ({**good, "seq": 0}, ["entries", 1, "seq"]),
            ({**good, "at": "now"}, ["entries", 1, "at"]),
            ({**good, "level": "loud"}, ["entries", 1, "level"]),
            ({**good, "text": 7}, ["entries", 1, "text"]),
            ({**good, "text": ["x"]}, ["entries", 1, "text"]),
            ({**good, "job_id": "x"}, ["entries", 1, "job_id"]),
            ({**good, "token": "x"}, ["entries", 1, "token"]),
            ({**good, "more": 1}, ["entries", 1]),
        ):
            status, answer = await send(worker, good, entry)
            assert (status, [one["loc"] for one in answer["refused"]]) == (200, [field]), answer
            status, problem = await send(worker, entry)
            assert (status, problem["errors"][0]["loc"]) == (422, ["entries", 0, *field[2:]]), problem
        status, problem = await send(worker, {"seq": 1, "at": 1, "text": "x"})
        assert (status, problem["errors"][0]["loc"]) == (422, ["entries", 0, "job_id"])
        status, problem = await send(worker, {"job_id": job["job_id"], "seq": 1, "at": 1, "text": "x"})
        assert (status, problem["errors"][0]["loc"]) == (422, ["entries", 0, "token"])
        assert (await send(worker))[0] == 422
        many = [{"seq": n, "at": 1, "text": ""} for n in range(2, 10_002)]
        status, problem = await send(worker, good, *many)
        assert (status, problem["code"]) == (413, "too_many_items")
        path = f"/api/workers/{worker.id}/logs"
        for body in (b"\x81", msgpack.packb({"entries": 1}), b"\xc1", msgpack.packb([])):
            answer = await api.http.post(path, content=body, headers={"content-type": "application/msgpack"})
            assert 400 <= answer.status_code < 500, body
        for query in ("after=-1", "level=loud", "attempt=0", "limit=0", "tail=x", "wait=x", "more=1"):
            assert (await api.call("GET", f"/api/jobs/{job['job_id']}/logs?{query}"))[0] == 422, query
        assert (await api.call("GET", "/api/jobs/nothing/logs"))[1]["code"] == "unknown_job"
        # The numbers are out of order, and one of them occurs twice.
        assert (await send(worker, line(job, 3, "b"), line(job, 2, "a"), line(job, 3, "c")))[0] == 200
        assert [e["text"] for e in (await page(api, job["job_id"]))["entries"]] == ["x", "a", "b"]
        await worker.end(job)


async def test_a_bad_line_costs_only_itself_and_is_counted(api: Api) -> None:
    async with puller_at(api) as worker:
        for _ in range(2):
            await api.enqueue("work")
        job, other = await worker.claim(2)
        status, answer = await send(
            worker,
            line(job, 1, "a"),
            {"seq": 2, "at": "soon", "text": "bad time"},
            {"seq": 3, "at": AT, "text": "c"},
            {**line(other, 1, 7)},
            {"seq": 2, "at": AT, "text": "of the other"},
            {**line(other, 9, "z"), "job_id": 7},
            {"seq": 10, "at": AT, "text": "of nobody knows which"},
        )
        assert (status, answer["accepted"], answer["dropped"], answer["stale"]) == (200, 3, 2, [])
        assert [one["loc"] for one in answer["refused"]] == [
            ["entries", 1, "at"], ["entries", 3, "text"], ["entries", 5, "job_id"], ["entries", 6, "job_id"],
        ]  # fmt: skip
        found = await page(api, job["job_id"])
        assert ([e["text"] for e in found["entries"]], found["dropped"]) == (["a", "c"], 1)
        assert [e["text"] for e in (await page(api, other["job_id"]))["entries"]] == ["of the other"]
        for one in (job, other):
            await worker.end(one)


async def test_the_time_of_a_line_is_milliseconds_seconds_or_iso_8601(api: Api) -> None:
    async with puller_at(api) as worker:
        await api.enqueue("work")
        (job,) = await worker.claim()
        forms = [
            1_800_000_000_250, 1_800_000_000.25, 1_800_000_000_250.0, "2027-01-15T08:00:00.250Z",
            "2027-01-15T09:00:00.250+01:00", msgpack.Timestamp(1_800_000_000, 250_000_000),
        ]  # fmt: skip
        sent = [line(job, n, "x", at=at) for n, at in enumerate(forms, 1)]
        assert await send(worker, *sent) == (200, {"accepted": len(forms), "dropped": 0, "stale": []})
        assert {e["at"] for e in (await page(api, job["job_id"]))["entries"]} == {"2027-01-15T08:00:00.250Z"}
        for at in (True, None, -1, 1e300, float("nan"), "2027-01-15", [1], 5_000_000_000_000):
            status, problem = await send(worker, line(job, 9, "x", at=at))
            assert (status, problem["errors"][0]["loc"]) == (422, ["entries", 0, "at"]), at
        await worker.end(job)


async def test_a_line_of_a_megabyte_is_cut_and_a_flood_drops_the_oldest(store_server: StoreServer) -> None:
    async with (
        master_on(store_server.url, max_log_bytes=256 * 1024, max_log_line_bytes=1_000) as (_master, api),
        puller_at(api) as worker,
    ):
        job_id = await api.enqueue("work")
        (job,) = await worker.claim()
        assert (await send(worker, line(job, 1, "x" * 1_000_000)))[0] == 200
        (kept,) = (await page(api, job_id))["entries"]
        assert kept["text"] == "x" * 1_000 + " … (cut: 1,000,000 characters)"
        dropped = 0
        for first in range(2, 4_002, 1_000):
            lines = [line(job, n, "y" * 100) for n in range(first, first + 1_000)]
            status, answer = await send(worker, *lines)
            assert status == 200
            dropped += answer["dropped"]
        found = await page(api, job_id, limit=5_000)
        assert dropped == found["dropped"] > 1_000
        assert [e["seq"] for e in found["entries"]] == list(range(dropped + 1, 4_002))
        metrics = (await api.http.get("/metrics")).text
        assert "jqmaster_log_lines_total 4001.0" in metrics
        assert f"jqmaster_log_lines_dropped_total {dropped}.0" in metrics
        await worker.end(job)
