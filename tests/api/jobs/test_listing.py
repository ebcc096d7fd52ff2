"""Lists: every filter, counts, and pages that together give the whole list, even while jobs move."""

import asyncio
import base64
import json
import struct
import time
from typing import Any
from urllib.parse import quote

import pytest

from jqmaster.domain.ids import new_id
from tests.support import real_time
from tests.support.each import for_each
from tests.support.master import Api
from tests.support.scripted_worker import worker_at

pytestmark = real_time.MASTER


async def page(api: Api, query: str = "") -> dict[str, Any]:
    status, answer = await api.call("GET", f"/api/jobs?{query}")
    assert status == 200, answer
    found: dict[str, Any] = answer
    return found


async def ids(api: Api, query: str = "") -> set[str]:
    return {job["id"] for job in (await page(api, query))["jobs"]}


async def walk(api: Api, query: str, limit: int) -> list[str]:
    """Return the IDs of all pages, in order."""
    found: list[str] = []
    cursor = ""
    while True:
        answer = await page(api, f"{query}&limit={limit}{cursor}")
        assert len(answer["jobs"]) <= limit
        found += [job["id"] for job in answer["jobs"]]
        if answer["next_cursor"] is None:
            return found
        cursor = f"&cursor={quote(answer['next_cursor'])}"


async def enqueue_many(api: Api, count: int, name: str = "work", **fields: Any) -> list[str]:
    jobs = [{"name": name, **fields} for _ in range(count)]
    status, answer = await api.call("POST", "/api/jobs/bulk", {"jobs": jobs})
    assert status == 201
    made: list[str] = answer["ids"]
    return made


@pytest.mark.req("J15")
async def test_an_empty_list(api: Api) -> None:
    answer = await page(api)
    assert (answer["jobs"], answer["next_cursor"]) == ([], None)
    assert set(answer["counts"].values()) == {0}


@pytest.mark.req("J15", "M2")
async def test_every_filter_selects_and_counts_cover_all(api: Api) -> None:
    async with worker_at(api, "done") as worker:
        done = await api.enqueue("done", tags=["x"])
        await worker.end(await worker.next_job())
        failed = await api.enqueue("done", tags=["x", "y"])
        await worker.end(await worker.next_job(), "failure", should_retry=False)
        ready = await api.enqueue("mail.send", tags=["y"])
        later = await api.enqueue("mail.send", delay=3600)
        running = await api.enqueue("done")
        await worker.next_job()
        everything = {done, failed, ready, later, running}
        assert await ids(api) == everything
        for query, expected in {
            "state=ready": {ready}, "state=scheduled": {later}, "state=succeeded": {done}, "state=failed": {failed},
            "state_group=waiting": {ready, later}, "state_group=running": {running},
            "state_group=failed&tag=x": {failed},
            "state_group=succeeded": {done}, "state_group=waiting&state=failed": set(),
            "state_group=waiting&order=newest": {ready, later},
            "state=running": {running}, "state=canceled": set(), "name=mail.send": {ready, later}, "name=mail": set(),
            "tag=x": {done, failed}, "tag=y": {failed, ready}, "tag=z": set(),
            f"worker={worker.id}": {done, failed, running},
            f"worker={new_id()}": set(), "q=send": {ready, later}, f"q={ready[10:]}": {ready}, "q=%00": set(),
            f"state=failed&name=done&tag=y&worker={worker.id}&q=on": {failed}, "state=succeeded&tag=y": set(),
        }.items():  # fmt: skip
            assert await ids(api, query) == expected, query
        counts = (await page(api, "state=canceled"))["counts"]
        assert {s: n for s, n in counts.items() if n} == {
            "ready": 1,
            "scheduled": 1,
            "succeeded": 1,
            "failed": 1,
            "running": 1,
        }
        assert set(counts) == {
            "scheduled",
            "ready",
            "retrying",
            "running",
            "awaiting_callback",
            "awaiting_jobs",
            "succeeded",
            "discarded",
            "failed",
            "canceled",
            "skipped",
        }
        for job in list(worker.running.items()):
            await worker.end({"job_id": job[0], "token": job[1]})


async def test_lists_hold_no_arguments(api: Api) -> None:
    await api.enqueue("work", {"password": "x"})
    (job,) = (await page(api))["jobs"]
    assert not {"argument", "attempts", "headers"} & set(job)


@pytest.mark.req("J15")
@pytest.mark.parametrize("limit", [1, 7, 500])
async def test_pages_join_to_the_whole_in_working_order(api: Api, limit: int) -> None:
    low = await enqueue_many(api, 25, priority=3)
    high = await enqueue_many(api, 25, priority=-3)
    other = await enqueue_many(api, 10, "other")
    late = await enqueue_many(api, 10, delay=3600)
    assert await walk(api, "name=work", limit) == [*high, *low, *late]
    found = await walk(api, "", limit)
    assert len(found) == 70
    assert set(found) == {*low, *high, *other, *late}


@pytest.mark.req("J15")
async def test_pages_end_and_skip_nothing_that_stays_while_jobs_move(api: Api) -> None:
    stay = await enqueue_many(api, 60, "stay")
    gone = await enqueue_many(api, 60, "go")
    seen: list[str] = []
    cursor = ""
    movers = iter(gone)
    for _ in range(200):
        answer = await page(api, f"limit=5{cursor}")
        seen += [job["id"] for job in answer["jobs"]]
        if answer["next_cursor"] is None:
            break
        cursor = f"&cursor={quote(answer['next_cursor'])}"
        # Half of the jobs that move leave the index that is being read; the other half move to a later index.
        for n, job_id in enumerate([job_id for job_id in (next(movers, None), next(movers, None)) if job_id]):
            assert (
                await api.call("DELETE", f"/api/jobs/{job_id}")
                if n
                else await api.call("POST", f"/api/jobs/{job_id}/cancel")
            )[0] < 300
    else:
        pytest.fail("the pages do not end")
    assert set(stay) <= set(seen)
    assert sum(seen.count(job_id) for job_id in stay) == len(stay)


async def test_a_cursor_outlives_the_job_that_it_names(api: Api) -> None:
    jobs = await enqueue_many(api, 6)
    first = await page(api, "limit=3")
    await api.call("DELETE", f"/api/jobs/{jobs[2]}")
    rest = await page(api, f"limit=10&cursor={quote(first['next_cursor'])}")
    assert [job["id"] for job in rest["jobs"]] == jobs[3:]
    for job_id in jobs[3:]:
        await api.call("DELETE", f"/api/jobs/{job_id}")
    assert (await page(api, f"limit=10&cursor={quote(first['next_cursor'])}"))["jobs"] == []


async def test_a_rare_match_behind_many_others_is_found_by_following_the_cursor(api: Api) -> None:
    await enqueue_many(api, 4_500)
    rare = await api.enqueue("work", tags=["rare"])
    began = time.thread_time()
    first = await page(api, "tag=rare&limit=10")
    assert first["jobs"] == []
    assert first["next_cursor"]
    assert await walk(api, "tag=rare", 10) == [rare]
    assert time.thread_time() - began < 5


@pytest.mark.row(70)
@for_each(
    "query",
    [
        "limit=0", "limit=-1", "limit=1000000000", "limit=501", "limit=x", "limit=", "limit=1.0", "limit=%D9%A1",
        "limit=1&limit=2",
        "state_group=ready",
        "state=", "state=Ready", "state=awaiting", "state=ready&state=failed", "order=asc", "%00=1",
        f"name={'x' * 5000}",
        f"cursor={'A' * 10_240}", "cursor=x", "cursor=%F0%9F%98%80", "cursor=AAAA", f"cursor={'A' * 64}", "cursor=%00",
        "&".join(f"q={n}" for n in range(40)), "name=%FF",
    ],
)  # fmt: skip
async def test_a_query_that_makes_no_sense_is_refused(api: Api, query: str) -> None:
    status, problem = await api.call("GET", f"/api/jobs?{query}")
    assert status in (400, 414, 422), query
    assert problem["code"]


def forged(score: float, job_id: str, index: str) -> str:
    name = index.encode()
    return base64.urlsafe_b64encode(struct.pack(">Bd36s", len(name), score, job_id.encode()) + name).decode()


@pytest.mark.row(70)
async def test_a_forged_cursor_reaches_nothing_else(api: Api) -> None:
    await enqueue_many(api, 3)
    for score in (0.0, float("nan"), float("inf"), -float("inf"), 1e308, 5e-324):
        for index in ("ready:work", "ready:", "ready:../x", "running", "succeeded"):
            status, answer = await api.call(
                "GET", f"/api/jobs?cursor={quote(forged(score, new_id(), index))}"
            )
            assert status in (200, 422), (score, index, answer)
    for index in ("epoch", "leader", "job:x", "names", "damaged", "results", "expiring", ""):
        status, answer = await api.call("GET", f"/api/jobs?cursor={quote(forged(0.0, new_id(), index))}")
        assert (status, answer["code"]) == (422, "invalid_cursor"), index
    status, _ = await api.call("GET", f"/api/jobs?cursor={quote(forged(0.0, 'x' * 36, 'running'))}")
    assert status == 422


@pytest.mark.row(70)
async def test_a_cursor_from_another_filter_gives_a_page_or_is_refused(api: Api) -> None:
    await enqueue_many(api, 4)
    await enqueue_many(api, 4, delay=3600)
    cursor = quote((await page(api, "state=ready&limit=2"))["next_cursor"])
    for query in ("state=scheduled", "state=failed", "name=other", "tag=x", "state=running"):
        status, answer = await api.call("GET", f"/api/jobs?{query}&cursor={cursor}")
        assert status in (200, 422)
        if status == 200:
            assert all(job["state"] == "scheduled" for job in answer["jobs"])


@pytest.mark.row(71)
@for_each("q", ["(a+)+$", ".*", "[", "\\", "*", "%", "'", '"', "$(id)"])
async def test_a_pattern_is_plain_text(api: Api, q: str) -> None:
    await enqueue_many(api, 50, "a" * 60)
    began = time.thread_time()
    assert (await page(api, f"q={quote(q)}"))["jobs"] == []
    assert time.thread_time() - began < 1


async def test_lists_and_pushes_at_once(api: Api) -> None:
    async def push() -> None:
        for _ in range(20):
            await api.enqueue("work")

    async def look() -> None:
        for _ in range(20):
            await page(api, "limit=3")

    await asyncio.gather(push(), look(), push(), look())
    assert (await api.counts())["ready"] == 40


@pytest.mark.req("J15")
@pytest.mark.row(115)
@pytest.mark.rule("E4.5")
async def test_parameters_out_of_bounds_are_refused_by_name(api: Api) -> None:
    for query, field in {
        "limit=1000000000": "limit", "limit=-1": "limit", "order=random": "order", "cause=boredom": "cause",
        "created_after=10**9": "created_after", "created_before=9999-01-01T00:00:00Z": "created_before",
        "finished_after=1e300": "finished_after", "finished_before=" + "9" * 60: "finished_before",
        "failure_group=x": "failure_group", "state=none": "state", "days=1000000000": "days",
    }.items():  # fmt: skip
        status, problem = await api.call("GET", f"/api/jobs?{query}")
        assert (status, problem["errors"][0]["loc"]) == (422, ["query", field]), query


@pytest.mark.req("J15")
async def test_lists_are_filtered_by_time_cause_and_error_and_read_from_the_newest(api: Api) -> None:
    async with worker_at(api, "work") as worker:
        failed = []
        for message in ("disk full", "no route to 10.0.0.1"):
            failed.append(await api.enqueue("work"))
            await worker.end(await worker.next_job(), "failure", should_retry=False, message=message)
    ready = await api.enqueue("other")
    first, second = [(await api.job(i))["finished_at"] for i in failed]
    for query, expected in {
        f"finished_after={second}": {failed[1]}, f"finished_before={first}": {failed[0]}, "cause=error": set(failed),
        "cause=timeout": set(), f"created_after={first}": {failed[1], ready}, "text=full": {failed[0]},
        "text=full&state=ready": set(), "finished_after=2020-01-01T00:00:00%2B09:00": set(failed),
    }.items():  # fmt: skip
        assert await ids(api, query) == expected, query
    listed = [job["id"] for job in (await page(api, "state=failed&order=newest"))["jobs"]]
    assert listed == failed[::-1]
    assert await walk(api, "order=newest", 1) == [ready, *failed[::-1]]


@pytest.mark.req("J15")
async def test_lists_by_time_and_counts_hold_across_names_and_states(api: Api) -> None:
    async with worker_at(api, "done") as worker:
        jobs = [await api.enqueue(f"work-{n % 3}", priority=-n) for n in range(9)]
        done = await api.enqueue("done")
        await worker.end(await worker.next_job())
        later = await api.enqueue("work-0", delay=3600)
        assert await walk(api, "order=oldest", 4) == [*jobs, done, later]
        assert await walk(api, "order=newest&state=ready", 4) == jobs[::-1]
        first = await page(api, "order=newest&name=work-1&limit=2")
        assert [job["id"] for job in first["jobs"]] == [jobs[7], jobs[4]]
        assert (first["looked_at"], first["is_partial"]) == (3, False)
        assert (await page(api, "state=ready"))["looked_at"] == 9
        for query, counts in {
            "": {"ready": 9, "succeeded": 1, "scheduled": 1}, "name=work-0": {"ready": 3, "scheduled": 1},
            "state=ready&q=work": {"ready": 9}, "tag=none": {},
        }.items():  # fmt: skip
            status, counted = await api.call("GET", f"/api/jobs/count?{query}")
            assert (status, counted["is_exact"]) == (200, True)
            found = {state: one["count"] for state, one in counted["states"].items() if one["count"]}
            assert (found, counted["count"]) == (counts, sum(counts.values())), query
    cursor = quote(first["next_cursor"])
    assert (await api.call("GET", f"/api/jobs?cursor={cursor}"))[1]["code"] == "invalid_cursor"
    assert (await api.call("GET", "/api/jobs/count?limit=3"))[0] == 422


@pytest.mark.req("J15")
async def test_jobs_are_found_by_argument_header_attempt_and_duration(api: Api) -> None:
    async with worker_at(api, "work") as worker:
        failed = await api.enqueue("work", {"tenant": "globex", "n": 1}, max_retry=0)
        await worker.end(await worker.next_job(), "failure", should_retry=False, message="disk full")
        long = await api.enqueue("other", {"pad": "x" * 5_000, "tenant": "globex"})
        marked = await api.enqueue("other", {"tenant": "initech"}, headers={"region": "eu"})
    of_tenant = json.dumps({"field": "argument.tenant", "op": "eq", "value": "globex"})
    in_region = json.dumps({"field": "headers.region", "op": "eq", "value": "eu"})
    for query, expected in {
        f"matcher={quote(of_tenant)}": {failed, long}, f"matcher={quote(of_tenant)}&state=failed": {failed},
        f"matcher={quote(in_region)}": {marked}, "min_attempt=1": {failed}, "min_attempt=2": set(),
        "max_duration=60": {failed}, "min_duration=60": set(),
    }.items():  # fmt: skip
        for order in ("", "&order=newest"):
            assert await ids(api, query + order) == expected, query
        status, counted = await api.call("GET", f"/api/jobs/count?{query}")
        assert (status, counted["count"]) == (200, len(expected))
    for query, field in {
        "matcher=x": "matcher", "matcher=%7B%7D": "matcher", "min_attempt=0": "min_attempt",
        "min_duration=-1": "min_duration", "max_duration=1e9": "max_duration", "include=all": "include",
        "matcher=" + quote("[" * 300): "matcher",
    }.items():  # fmt: skip
        status, problem = await api.call("GET", f"/api/jobs?{query}")
        assert (status, problem["errors"][0]["loc"][:2]) == (422, ["query", field]), query
    wanted = {"matcher": json.loads(of_tenant), "min_attempt": 1, "max_duration": 60}
    status, counted = await api.call(
        "POST", "/api/jobs/actions", {"action": "retry", "filter": wanted, "dry_run": True}
    )
    assert (status, counted["count"]) == (200, 1)
    status, begun = await api.call("POST", "/api/jobs/actions", {"action": "delete", "filter": wanted})
    assert (status, begun["filter"]["matcher"]) == (202, wanted["matcher"])
    assert (begun["filter"]["min_attempt"], begun["filter"]["max_duration"]) == (1, 60)
    bad = {"action": "retry", "filter": {"matcher": {"field": "argument.x"}}}
    status, problem = await api.call("POST", "/api/jobs/actions", bad)
    assert (status, problem["errors"][0]["loc"][:2]) == (422, ["filter", "matcher"])


@pytest.mark.req("J15")
async def test_a_list_shows_errors_arguments_and_workers_where_they_are_asked_for(api: Api) -> None:
    async with worker_at(api, "work") as worker:
        await api.enqueue("work", {"tenant": "globex", "raw": b"\x00", "deep": [1, {"k": None}]})
        await worker.end(await worker.next_job(), "failure", should_retry=False, message="disk full " * 60)
        await api.enqueue("other", {"pad": "x" * 5_000})
        short, long = (await page(api, "order=oldest&include=error,argument,worker"))["jobs"]
        status, one = await api.call("GET", f"/api/workers/{worker.id}")
        assert status == 200
    assert short["argument_excerpt"] == '{"tenant":"globex","raw":"<bytes>","deep":[1,{"k":null}]}'
    assert short["error"].startswith("disk full disk full")
    assert (len(short["error"]), short["error"][-1]) == (300, "…")
    assert short["worker_name"].partition(":")[0] == one["node_id"]
    assert (long["argument_excerpt"], long["error"], long["worker_name"]) == (None, None, None)
    for job in (await page(api))["jobs"]:
        assert (job["argument_excerpt"], job["error"], job["worker_name"]) == (None, None, None)
