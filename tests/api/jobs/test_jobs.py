"""Jobs over HTTP: enqueue, view and steer them."""

import asyncio
import datetime as dt
import re
import uuid
from typing import Any

import msgpack
import pytest

from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import JobState
from tests.support import real_time
from tests.support.each import for_each
from tests.support.master import ACCEPT, MSGPACK, Api
from tests.support.scripted_worker import ending, worker_at
from tests.support.waiting import wait_until

pytestmark = real_time.MASTER

NOW = dt.datetime(2026, 11, 21, 4, 30, 0, 123000, dt.UTC)
ISO_MS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")

VALUES = [
    None, True, 0, -1, 2**63 - 1, 2**64 - 1, -(2**63), 1.5, -0.0, "", "mañana 🙂", b"", b"\x00\xff", [], [1, [2, [3]]],
    {}, {"a": {"b": [None, False]}}, NOW, msgpack.ExtType(5, b"abc"), {"deep": {"mixed": [b"x", "x", 1.0, NOW]}},
]  # fmt: skip


# --- enqueue


@pytest.mark.req("J1")
async def test_a_job_is_enqueued_with_messagepack_and_has_an_id(api: Api) -> None:
    status, answer = await api.call("POST", "/api/jobs", {"name": "mail.send", "argument": {"user_id": 42}})
    assert status == 201
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", answer["id"])
    assert (await api.job(answer["id"]))["state"] == "ready"


@pytest.mark.req("M1")
async def test_the_answer_names_the_durability_that_it_promises(api: Api) -> None:
    response = await api.http.post("/api/jobs", content=msgpack.packb({"name": "work"}), headers=MSGPACK)
    assert response.headers["JQ-Durability"] == "fsync"


@pytest.mark.req("J2")
@pytest.mark.parametrize("name", ["a", "mail.send", "A-Z_0:9/x", "n" * 200])
async def test_names_of_the_documented_form_are_accepted(api: Api, name: str) -> None:
    assert (await api.job(await api.enqueue(name)))["name"] == name


@pytest.mark.req("J3")
async def test_any_value_reaches_the_worker_as_it_was_sent(api: Api) -> None:
    async with worker_at(api, max_jobs=100) as worker:
        sent = {await api.enqueue("work", value): value for value in VALUES}
        for _ in VALUES:
            job = await worker.next_job()
            value = sent.pop(job["job_id"])
            assert job["argument"] == value
            assert type(job["argument"]) is type(value)
            await worker.end(job, result=job["argument"])
        assert not sent


@pytest.mark.req("J3")
async def test_the_bytes_of_an_argument_are_not_rewritten(api: Api) -> None:
    # 1 in nine bytes, "a" in a str32, a map16, NaN with a payload: none of our packers would write these.
    odd = (
        b"\xde\x00\x01\xdb\x00\x00\x00\x01a\x93\xcf"
        + (1).to_bytes(8, "big")
        + b"\xcb\x7f\xf8\x00\x00\x00\x00\x0b\xad\xd4\x07x"
    )
    body = msgpack.packb({"name": "work", "keep_result": True})
    body = bytes([body[0] + 1]) + body[1:] + msgpack.packb("argument") + odd
    async with worker_at(api) as worker:
        response = await api.http.post("/api/jobs", content=body, headers=MSGPACK)
        assert response.status_code == 201
        job = await worker.next_job()
        assert odd in worker.bodies[0]
        view = await api.http.get(f"/api/jobs/{job['job_id']}", headers=ACCEPT)
        assert odd in view.content
        claim = msgpack.packb({k: v for k, v in ending(job).items() if k != "result"})
        report = (
            b"\x81"
            + msgpack.packb("results")
            + b"\x91"
            + bytes([claim[0] + 1])
            + claim[1:]
            + msgpack.packb("result")
            + odd
        )
        answer = await api.http.post(f"/api/workers/{worker.id}/results", content=report, headers=MSGPACK)
        assert msgpack.unpackb(answer.content) == {"accepted": [job["job_id"]], "stale": []}
        result = await api.http.get(f"/api/jobs/{job['job_id']}/result", headers=ACCEPT)
        assert odd in result.content


@pytest.mark.req("J4")
@pytest.mark.parametrize("priority", [-(2**31), -1, 0, 2**31 - 1])
async def test_priorities_of_the_whole_range_are_kept(api: Api, priority: int) -> None:
    assert (await api.job(await api.enqueue("work", priority=priority)))["priority"] == priority


@pytest.mark.req("J4", "J5", "J6", "J7", "M2")
async def test_a_new_job_has_the_documented_defaults(api: Api) -> None:
    job_id = await api.enqueue("work", {"a": 1})
    job = await api.job(job_id)
    assert ISO_MS.fullmatch(job.pop("created_at"))
    job.pop("run_at")
    assert job == {
        "id": job_id, "name": "work", "state": "ready", "priority": 0, "attempt": 0, "failures": 0, "losses": 0,
        "max_retry": 5, "timeout": 30.0, "keep_result": False, "started_at": None, "finished_at": None,
        "expires_at": None, "cause": None, "worker_id": None, "tags": [],
        "attempts": [], "events": [], "headers": {}, "argument": {"a": 1},
        "argument_bytes": 4, "argument_hidden": False, "argument_redacted": False, "headers_redacted": False,
        "has_result": False, "result": None, "result_hidden": False, "constraints": [], "unique": None,
        "definition": None, "progress": None, "batch": None, "callback_of": None, "notify": None, "links": [],
        "requires": None, "steps": [], "erased": [],
        "after": None, "dependents": [], "dependents_count": 0, "revives": None, "skipped_by": None,
    }  # fmt: skip


@pytest.mark.req("J5", "J6", "J7")
async def test_all_given_fields_are_kept_and_reach_the_worker(api: Api) -> None:
    fields: dict[str, Any] = {
        "priority": 7, "max_retry": 0, "keep_result": True, "timeout": 0.25, "rerun_lost": True,
        "tags": ["a", "b"], "headers": {"trace": "t-1"}, "expires_at": "2099-01-01T00:00:00Z",
        "retry": {"base_s": 0.5, "factor": 3, "max_s": 10, "jitter": False},
    }  # fmt: skip
    job_id = await api.enqueue("work", 1, **fields)
    job = await api.job(job_id)
    for field in ("priority", "max_retry", "keep_result", "timeout", "tags", "headers"):
        assert job[field] == fields[field], field
    assert job["expires_at"] == "2099-01-01T00:00:00.000Z"
    async with worker_at(api) as worker:
        offered = await worker.next_job()
        assert (offered["timeout"], offered["headers"], offered["attempt"]) == (0.25, {"trace": "t-1"}, 1)
        await worker.end(offered)


@pytest.mark.req("J7")
async def test_a_timeout_may_be_days(api: Api) -> None:
    assert (await api.job(await api.enqueue("work", timeout=7 * 86_400)))["timeout"] == 604_800


@pytest.mark.req("M2")
async def test_a_job_for_later_is_scheduled(api: Api) -> None:
    delayed = await api.job(await api.enqueue("work", delay=3600))
    at = await api.job(await api.enqueue("work", run_at="2099-01-01T01:00:00+01:00"))
    by_timestamp = await api.job(await api.enqueue("work", run_at=dt.datetime(2099, 1, 1, tzinfo=dt.UTC)))
    assert [job["state"] for job in (delayed, at, by_timestamp)] == ["scheduled"] * 3
    assert at["run_at"] == by_timestamp["run_at"] == "2099-01-01T00:00:00.000Z"


@pytest.mark.row(55)
async def test_a_time_in_the_past_means_now(api: Api) -> None:
    assert await api.state(await api.enqueue("work", run_at="1999-01-01T00:00:00Z")) == "ready"


async def test_a_job_that_is_not_started_in_time_is_skipped(api: Api) -> None:
    job_id = await api.enqueue("work", expires_s=0.001, keep_result=True)
    job = await api.until_state(job_id, "skipped")
    assert job["cause"] == "expired"
    assert await api.call("GET", f"/api/jobs/{job_id}/result") == (200, None)


def seconds_between(first: str, second: str) -> float:
    return (dt.datetime.fromisoformat(second) - dt.datetime.fromisoformat(first)).total_seconds()


async def test_a_relative_expiry_counts_by_the_clock_of_the_store(api: Api) -> None:
    job = await api.job(await api.enqueue("work", expires_s=90))
    assert seconds_between(job["created_at"], job["expires_at"]) == 90
    soon = await api.enqueue("work", expires_s=0.001)
    assert (await api.until_state(soon, "skipped"))["cause"] == "expired"


async def test_a_push_with_a_relative_expiry_may_be_repeated(api: Api) -> None:
    job_id = new_id()
    job = {"id": job_id, "name": "work", "argument": None, "expires_s": 90, "key": "once"}
    assert (await api.call("POST", "/api/jobs", job))[0] == 201
    first = await api.job(job_id)
    await asyncio.sleep(0.01)  # the clock of the store moves on
    assert (await api.call("POST", "/api/jobs", job))[0] == 200
    assert await api.call("POST", "/api/jobs", {**job, "id": new_id()}) == (200, {"id": job["id"]})
    assert (await api.job(job_id))["expires_at"] == first["expires_at"]
    status, _ = await api.call("POST", "/api/jobs", {**job, "expires_s": 91})
    assert status == 409


LONG_AGO = "2001-01-01T00:00:00Z"


async def test_an_expiry_that_is_past_is_refused_with_the_remedy(api: Api) -> None:
    job = {"name": "work", "argument": None, "expires_at": LONG_AGO}
    status, problem = await api.call("POST", "/api/jobs", job)
    assert (status, problem["code"]) == (422, "already_expired")
    assert problem["errors"][0]["loc"] == ["expires_at"]
    assert "expires_s" in problem["errors"][0]["msg"]
    status, problem = await api.call("POST", "/api/batches", {"expires_at": LONG_AGO})
    assert (status, problem["code"], problem["errors"][0]["loc"]) == (422, "already_expired", ["expires_at"])
    fine = {"name": "work", "argument": None}
    for batch in ({}, {"batch": {"description": "all"}}):
        bulk = {"jobs": [fine, job, fine], **batch}
        status, problem = await api.call("POST", "/api/jobs/bulk", bulk)
        assert (status, problem["code"]) == (422, "already_expired")
        assert [error["loc"] for error in problem["errors"]] == [["jobs", 1, "expires_at"]]
    late = {"jobs": [fine], "batch": {"expires_at": LONG_AGO}}
    assert (await api.call("POST", "/api/jobs/bulk", late))[1]["code"] == "already_expired"
    assert (await api.call("GET", "/api/jobs"))[1]["jobs"] == []
    assert (await api.call("GET", "/api/batches"))[1]["batches"] == []


async def test_a_repeat_of_a_push_is_answered_after_it_expired(api: Api) -> None:
    soon = (dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1)).isoformat()
    named = {"id": new_id(), "name": "work", "argument": 1, "expires_at": soon}
    keyed = {"name": "work", "argument": 2, "expires_at": soon, "key": "once"}
    pushed = [await api.call("POST", "/api/jobs", one) for one in (named, keyed)]
    assert [status for status, _ in pushed] == [201, 201]
    for _, answer in pushed:
        await api.until_state(answer["id"], "skipped")
    for one, (_, answer) in zip((named, keyed), pushed, strict=True):
        assert await api.call("POST", "/api/jobs", one) == (200, {"id": answer["id"]})
    status, answer = await api.call("POST", "/api/jobs/bulk", {"jobs": [named, keyed]})
    assert (status, answer["ids"]) == (201, [one["id"] for _, one in pushed])


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"expires_s": 5, "expires_at": "2099-01-01T00:00:00Z"}, "expires_at or expires_s, not both"),
        ({"expires_s": 0}, "0.001"),
        ({"expires_s": -1}, "0.001"),
    ],
)
async def test_a_bad_relative_expiry_is_refused(api: Api, fields: dict[str, Any], problem: str) -> None:
    for path, body in (("/api/jobs", {"name": "work", **fields}), ("/api/batches", fields)):
        status, answer = await api.call("POST", path, body)
        assert status == 422
        assert problem in str(answer)


async def test_a_batch_expires_after_a_relative_time(api: Api) -> None:
    _, made = await api.call("POST", "/api/batches", {"expires_s": 90})
    _, batch = await api.call("GET", f"/api/batches/{made['id']}")
    assert seconds_between(batch["created_at"], batch["expires_at"]) == 90


async def test_a_scheduled_job_runs_when_it_is_due(api: Api) -> None:
    async with worker_at(api) as worker:
        job_id = await api.enqueue("work", delay=0.3)
        assert await api.state(job_id) == "scheduled"
        job = await worker.next_job()
        assert job["job_id"] == job_id
        await worker.end(job)


@pytest.mark.req("M1")
@pytest.mark.row(61)
async def test_the_same_id_and_content_again_is_the_same_job(api: Api) -> None:
    job = {"id": new_id(), "name": "work", "argument": [1, 2]}
    assert await api.call("POST", "/api/jobs", job) == (201, {"id": job["id"]})
    assert await api.call("POST", "/api/jobs", job) == (200, {"id": job["id"]})
    for other in ({"argument": [1, 3]}, {"priority": 1}, {"name": "other"}):
        status, problem = await api.call("POST", "/api/jobs", {**job, **other})
        assert (status, problem["code"]) == (409, "id_taken")
    assert sum((await api.counts()).values()) == 1


@pytest.mark.row(61)
async def test_a_repeat_after_the_end_is_still_the_same_job(api: Api) -> None:
    job = {"id": new_id(), "name": "work"}
    await api.call("POST", "/api/jobs", job)
    async with worker_at(api) as worker:
        await worker.end(await worker.next_job())
    assert await api.call("POST", "/api/jobs", job) == (200, {"id": job["id"]})
    assert await api.state(job["id"]) == "succeeded"


@pytest.mark.req("M1")
@pytest.mark.row(62)
async def test_an_idempotency_key_stands_for_one_job(api: Api) -> None:
    async def push(argument: int, key: str) -> tuple[int, Any]:
        return await api.call(
            "POST", "/api/jobs", {"name": "work", "argument": argument}, **{"Idempotency-Key": key}
        )

    status, first = await push(1, "order-7")
    assert status == 201
    assert await push(1, "order-7") == (200, first)
    status, problem = await push(2, "order-7")
    assert (status, problem["code"]) == (409, "idempotency_key_reused")
    status, second = await push(2, "x" * 255)
    assert status == 201
    assert second != first
    assert (await push(2, "x" * 256))[0] == 422
    assert (await push(2, "with space"))[0] == 422
    assert (await push(2, ""))[0] == 422
    assert sum((await api.counts()).values()) == 2


@pytest.mark.req("M1", "S7")
@pytest.mark.row(62)
async def test_a_key_of_a_job_makes_one_job_and_outlives_it(api: Api) -> None:
    job = {"name": "feed.insert", "argument": 7, "key": "feed:42:7 é", "key_ttl": 7 * 86_400}
    status, first = await api.call("POST", "/api/jobs", job)
    assert status == 201
    assert await api.call("POST", "/api/jobs", {**job, "id": new_id()}) == (200, first)
    assert (await api.call("DELETE", f"/api/jobs/{first['id']}"))[0] == 204
    assert await api.call("POST", "/api/jobs", job) == (200, first)
    status, problem = await api.call("POST", "/api/jobs", {**job, "argument": 8})
    assert (status, problem["code"]) == (409, "idempotency_key_reused")
    assert problem["errors"][0]["loc"] == ["key"]
    status, problem = await api.call("POST", "/api/jobs", job, **{"Idempotency-Key": "k"})
    assert (status, problem["errors"][0]["loc"]) == (422, ["key"])
    jobs = [job, {"name": "feed.insert"}, {**job, "key": "feed:42:8"}]
    status, answer = await api.call("POST", "/api/jobs/bulk", {"jobs": jobs})
    assert (status, answer["ids"][0]) == (201, first["id"])
    assert sum((await api.counts()).values()) == 2


@pytest.mark.req("J1", "S7")
async def test_a_caller_may_choose_any_uuid(api: Api) -> None:
    async with worker_at(api) as worker:
        own = str(uuid.uuid5(uuid.NAMESPACE_URL, "order-7"))
        assert await api.enqueue("work", id=own, keep_result=True) == own
        job = await worker.next_job()
        assert job["job_id"] == own
        await worker.end(job, result=1)
        assert await api.state(own) == "succeeded"
        assert (await api.call("GET", f"/api/jobs/{own}/result"))[1]["result"] == 1


@pytest.mark.row(62)
async def test_twenty_pushes_at_once_with_one_key_are_one_job(api: Api) -> None:
    answers = await asyncio.gather(
        *(api.call("POST", "/api/jobs", {"name": "work"}, **{"Idempotency-Key": "k"}) for _ in range(20))
    )
    assert len({answer["id"] for _, answer in answers}) == 1
    assert sorted(status for status, _ in answers) == [200] * 19 + [201]


# --- bulk


@pytest.mark.req("J1")
async def test_a_bulk_answers_ids_in_order(api: Api) -> None:
    own = new_id()
    jobs = [{"name": "work", "argument": n} for n in range(1200)]
    jobs[3]["id"] = own
    status, answer = await api.call("POST", "/api/jobs/bulk", {"jobs": jobs})
    assert status == 201
    assert len(set(answer["ids"])) == 1200
    assert answer["ids"][3] == own
    for n in (0, 3, 700, 1199):
        assert (await api.job(answer["ids"][n]))["argument"] == n
    assert (await api.counts())["ready"] == 1200


@pytest.mark.row(60)
async def test_one_bad_job_refuses_all_and_each_is_named(api: Api) -> None:
    jobs: list[dict[str, Any]] = [{"name": "work"} for _ in range(10)]
    jobs[2]["priority"] = "high"
    jobs[5] = {"argument": 1}
    jobs[7] = {"name": "two words", "bogus": 1}
    status, problem = await api.call("POST", "/api/jobs/bulk", {"jobs": jobs})
    assert status == 422
    locs = [tuple(error["loc"]) for error in problem["errors"]]
    assert locs == [("jobs", 2, "priority"), ("jobs", 5, "name"), ("jobs", 7, "name"), ("jobs", 7, "bogus")]
    assert sum((await api.counts()).values()) == 0


@pytest.mark.row(60)
async def test_a_bulk_has_one_to_ten_thousand_jobs(api: Api) -> None:
    assert (await api.call("POST", "/api/jobs/bulk", {"jobs": []}))[0] == 422
    status, problem = await api.call("POST", "/api/jobs/bulk", {"jobs": [{"name": "work"}] * 10_001})
    assert (status, problem["code"]) == (413, "too_many_items")
    assert sum((await api.counts()).values()) == 0
    status, answer = await api.call("POST", "/api/jobs/bulk", {"jobs": [{"name": "work"}] * 10_000})
    assert (status, len(answer["ids"])) == (201, 10_000)


@pytest.mark.row(60)
async def test_a_bulk_with_a_taken_id_is_refused_whole(api: Api) -> None:
    taken, twice = new_id(), new_id()
    await api.enqueue("work", 1, id=taken)
    jobs = [
        {"name": "work", "argument": 0},
        {"name": "work", "argument": 2, "id": taken},
    ]
    status, problem = await api.call("POST", "/api/jobs/bulk", {"jobs": jobs})
    assert (status, problem["code"]) == (409, "id_taken")
    assert [error["loc"] for error in problem["errors"]] == [["jobs", 1, "id"]]
    jobs = [{"name": "work", "argument": n, "id": twice} for n in range(2)]
    status, problem = await api.call("POST", "/api/jobs/bulk", {"jobs": jobs})
    assert (status, [error["loc"] for error in problem["errors"]]) == (409, [["jobs", 1, "id"]])
    assert sum((await api.counts()).values()) == 1


async def test_a_bulk_may_be_repeated_with_its_ids(api: Api) -> None:
    jobs = [{"name": "work", "argument": n, "id": new_id()} for n in range(5)]
    first = await api.call("POST", "/api/jobs/bulk", {"jobs": jobs})
    assert await api.call("POST", "/api/jobs/bulk", {"jobs": jobs}) == first
    assert (await api.counts())["ready"] == 5


async def test_an_idempotency_key_outlives_its_job(api: Api) -> None:
    key = {"Idempotency-Key": "order-4711"}
    _, first = await api.call("POST", "/api/jobs", {"name": "work"}, **key)
    assert (await api.call("DELETE", f"/api/jobs/{first['id']}"))[0] == 204
    assert await api.call("POST", "/api/jobs", {"name": "work"}, **key) == (200, first)
    assert (await api.call("GET", f"/api/jobs/{first['id']}"))[0] == 404


async def test_an_idempotency_key_is_not_for_bulks(api: Api) -> None:
    status, _ = await api.call(
        "POST", "/api/jobs/bulk", {"jobs": [{"name": "work"}]}, **{"Idempotency-Key": "k"}
    )
    assert status == 422


# --- view


@pytest.mark.req("M2", "M4")
async def test_the_view_tells_each_attempt(api: Api) -> None:
    async with worker_at(api) as worker:
        job_id = await api.enqueue("work", retry={"base_s": 0, "max_s": 0})
        first = await worker.next_job()
        running = await api.job(job_id)
        assert (running["state"], running["attempt"], running["worker_id"]) == ("running", 1, worker.id)
        assert [(a["attempt"], a["outcome"]) for a in running["attempts"]] == [(1, None)]
        await worker.end(first, "failure", error={"code": 421}, message="busy")
        await worker.end(await worker.next_job(), result="done")
        job = await api.job(job_id)
    assert (job["state"], job["attempt"], job["failures"], job["cause"]) == ("succeeded", 2, 1, None)
    failed, succeeded = job["attempts"]
    assert failed["worker_id"] == succeeded["worker_id"] == worker.id
    assert (failed["outcome"], failed["message"], failed["error"]) == ("failure", "busy", {"code": 421})
    assert (succeeded["attempt"], succeeded["outcome"]) == (2, "success")
    for attempt in job["attempts"]:
        assert ISO_MS.fullmatch(attempt["started_at"])
        assert attempt["started_at"] <= attempt["finished_at"]
    assert job["created_at"] <= job["started_at"] <= job["finished_at"]


async def test_a_large_argument_is_not_shown(api: Api) -> None:
    job = await api.job(await api.enqueue("work", b"x" * 70_000))
    assert (job["argument"], job["argument_bytes"]) == (None, 70_005)


@pytest.mark.row(68)
@for_each(
    ("method", "tail"),
    [
        ("GET", ""), ("PATCH", ""), ("DELETE", ""), ("POST", "/cancel"), ("POST", "/retry"), ("POST", "/run"),
    ],
)  # fmt: skip
async def test_malformed_unknown_and_deleted_ids_look_the_same(api: Api, method: str, tail: str) -> None:
    deleted = await api.enqueue("work")
    assert await api.call("DELETE", f"/api/jobs/{deleted}") == (204, None)
    body = {"priority": 1} if method == "PATCH" else None
    unknown = new_id()
    for job_id in (
        unknown,
        deleted,
        unknown.upper(),
        "x",
        "null",
        "0" * 36,
        "%00",
        "..",
        "a" * 1000,
        "%F0%9F%98%80",
    ):
        status, problem = await api.call(method, f"/api/jobs/{job_id}{tail}", body)
        assert status == 404, job_id
        assert problem["code"] in ("unknown_job", "not_found")


# --- steer


async def test_the_answer_to_a_question_for_a_result_names_its_job(api: Api) -> None:
    waiting = await api.enqueue("work", keep_result=True)
    unknown = waiting[:-4] + "0000"
    for job_id, status in ((waiting, 202), (unknown, 200)):
        answer = await api.http.get(f"/api/jobs/{job_id}/result")
        assert (answer.status_code, answer.headers["JQ-Job-Id"]) == (status, job_id)
    await api.call("POST", f"/api/jobs/{waiting}/cancel")
    assert (await api.http.get(f"/api/jobs/{waiting}/result")).headers["JQ-Job-Id"] == waiting
    odd = await api.http.get("/api/jobs/a%0d%0aSet-Cookie:b/result")
    assert "JQ-Job-Id" not in odd.headers


@pytest.mark.req("M9")
@pytest.mark.parametrize("fields", [{}, {"delay": 3600}])
async def test_a_waiting_job_is_canceled(api: Api, fields: dict[str, Any]) -> None:
    job_id = await api.enqueue("work", keep_result=True, **fields)
    status, job = await api.call("POST", f"/api/jobs/{job_id}/cancel")
    assert (status, job["state"], job["cause"]) == (200, "canceled", "canceled")
    assert job["finished_at"] is not None
    assert await api.call("GET", f"/api/jobs/{job_id}/result") == (200, None)


@pytest.mark.req("M9")
@pytest.mark.row(72)
async def test_cancel_may_be_repeated(api: Api) -> None:
    job_id = await api.enqueue("work")
    first = await api.call("POST", f"/api/jobs/{job_id}/cancel")
    assert await api.call("POST", f"/api/jobs/{job_id}/cancel") == first


@pytest.mark.req("M9")
async def test_a_running_job_is_canceled_and_its_worker_told(api: Api) -> None:
    async with worker_at(api) as worker:
        job_id = await api.enqueue("work")
        job = await worker.next_job()
        status, view = await api.call("POST", f"/api/jobs/{job_id}/cancel")
        assert (status, view["state"], view["attempts"][0]["outcome"]) == (200, "canceled", "canceled")
        async with asyncio.timeout(5):
            assert await worker.orders.get() == job_id
        status, beat = await worker.beat()
        assert beat["cancel"] == [{"job_id": job_id, "token": job["token"]}]
        assert await worker.report(ending(job)) == (200, {"accepted": [], "stale": [job_id]})
        assert await api.state(job_id) == "canceled"


@pytest.mark.req("M9")
@pytest.mark.row(72)
async def test_steering_that_does_not_apply_says_what_the_job_is(api: Api) -> None:
    async with worker_at(api) as worker:
        succeeded = await api.enqueue("work")
        await worker.end(await worker.next_job())
        failed = await api.enqueue("work")
        await worker.end(await worker.next_job(), "failure", should_retry=False)
        running = await api.enqueue("work")
        job = await worker.next_job()
        ready, scheduled = await api.enqueue("other"), await api.enqueue("other", delay=3600)
        canceled = await api.enqueue("other")
        await api.call("POST", f"/api/jobs/{canceled}/cancel")
        jobs = {
            "succeeded": succeeded,
            "failed": failed,
            "canceled": canceled,
            "running": running,
            "ready": ready,
            "scheduled": scheduled,
        }
        finished = ("succeeded", "failed", "canceled")
        refused = {
            "/cancel": ("succeeded", "failed"), "/run": (*finished, "running"),
            "/retry": ("running", "ready", "scheduled"),
            "PATCH": (*finished, "running"), "DELETE": ("running",),
        }  # fmt: skip
        for action, states in refused.items():
            for state in states:
                if action.startswith("/"):
                    status, problem = await api.call("POST", f"/api/jobs/{jobs[state]}{action}")
                else:
                    status, problem = await api.call(
                        action, f"/api/jobs/{jobs[state]}", {"priority": 1} if action == "PATCH" else None
                    )
                assert (status, problem["code"]) == (409, f"job_{state}"), (action, state)
                assert await api.state(jobs[state]) == state
        await worker.end(job)


@pytest.mark.req("M9")
async def test_a_finished_job_is_retried_by_hand(api: Api) -> None:
    async with worker_at(api) as worker:
        job_id = await api.enqueue("work", keep_result=True)
        await worker.end(await worker.next_job(), "failure", should_retry=False)
        assert (await api.job(job_id))["cause"] == "error"
        status, job = await api.call("POST", f"/api/jobs/{job_id}/retry")
        assert (status, job["state"], job["cause"], job["finished_at"]) == (200, "ready", None, None)
        again = await worker.next_job()
        assert (again["job_id"], again["attempt"]) == (job_id, 2)
        await worker.end(again, result=7)
        result = await api.call("GET", f"/api/jobs/{job_id}/result")
        assert result[1]["result"] == 7


@pytest.mark.req("M9")
async def test_a_job_that_waits_for_a_time_runs_now(api: Api) -> None:
    async with worker_at(api) as worker:
        scheduled = await api.enqueue("work", delay=3600)
        status, job = await api.call("POST", f"/api/jobs/{scheduled}/run")
        assert status == 200
        assert job["state"] in ("ready", "running")
        await worker.end(await worker.next_job())
        retrying = await api.enqueue("work", retry={"base_s": 3600, "jitter": False})
        await worker.end(await worker.next_job(), "failure")
        assert await api.state(retrying) == "retrying"
        assert (await api.call("POST", f"/api/jobs/{retrying}/run"))[0] == 200
        await worker.end(await worker.next_job())
        assert await api.state(retrying) == "succeeded"


@pytest.mark.req("M9")
async def test_a_waiting_job_is_changed(api: Api) -> None:
    job_id = await api.enqueue("work", delay=3600)
    changes = {"priority": -5, "run_at": "2099-05-05T00:00:00Z", "max_retry": 0, "timeout": 1.5}
    status, job = await api.call("PATCH", f"/api/jobs/{job_id}", changes)
    assert status == 200
    assert (job["priority"], job["run_at"], job["max_retry"], job["timeout"]) == (
        -5,
        "2099-05-05T00:00:00.000Z",
        0,
        1.5,
    )
    status, job = await api.call("PATCH", f"/api/jobs/{job_id}", {"run_at": "2001-01-01T00:00:00Z"})
    assert (status, job["state"], job["priority"]) == (200, "ready", -5)


@pytest.mark.req("M9", "J12")
async def test_a_changed_priority_decides_who_runs_first(api: Api) -> None:
    first, second = await api.enqueue("work"), await api.enqueue("work")
    await api.call("PATCH", f"/api/jobs/{second}", {"priority": -1})
    async with worker_at(api, max_jobs=1) as worker:
        for expected in (second, first):
            job = await worker.next_job()
            assert job["job_id"] == expected
            await worker.end(job)


async def test_an_impossible_change_is_refused(api: Api) -> None:
    job_id = await api.enqueue("work")
    before = await api.job(job_id)
    for changes in (
        {},
        {"priority": 2**31},
        {"timeout": 0},
        {"max_retry": -1},
        {"name": "x"},
        {"run_at": "soon"},
        {"priority": 1.0},
    ):
        status, _ = await api.call("PATCH", f"/api/jobs/{job_id}", changes)
        assert status == 422, changes
    assert await api.job(job_id) == before


@pytest.mark.req("M9")
@pytest.mark.parametrize("end", ["ready", "scheduled", "retrying", "succeeded", "failed", "canceled"])
async def test_a_job_that_does_not_run_is_deleted(api: Api, end: str) -> None:
    fields = {"delay": 3600} if end == "scheduled" else {}
    job_id = await api.enqueue("work", keep_result=True, retry={"base_s": 3600, "jitter": False}, **fields)
    if end == "canceled":
        await api.call("POST", f"/api/jobs/{job_id}/cancel")
    if end in ("retrying", "succeeded", "failed"):
        async with worker_at(api) as worker:
            job = await worker.next_job()
            await worker.end(job, "success") if end == "succeeded" else await worker.end(
                job, "failure", should_retry=end == "retrying"
            )
    assert await api.state(job_id) == end
    assert await api.call("DELETE", f"/api/jobs/{job_id}") == (204, None)
    assert (await api.call("GET", f"/api/jobs/{job_id}"))[0] == 404
    assert await api.call("GET", f"/api/jobs/{job_id}/result") == (200, None)
    assert set((await api.counts()).values()) == {0}


@pytest.mark.req("S12", "M9", "P8")
async def test_a_discarded_job_ends_quietly_and_may_be_retried_by_hand(api: Api) -> None:
    async with worker_at(api) as worker:
        job_id = await api.enqueue("work", keep_result=True, tags=["gone"])
        job = await worker.next_job()
        error = {"type": "app.Gone", "message": "row 7", "traceback": "…"}
        await worker.end(job, "discarded", message="Gone: row 7", error=error)
        view = await api.job(job_id)
        assert (view["state"], view["cause"], view["failures"]) == ("discarded", None, 0)
        (attempt,) = view["attempts"]
        assert (attempt["outcome"], attempt["message"], attempt["error"]) == (
            "discarded", "Gone: row 7", error,
        )  # fmt: skip
        assert await api.call("GET", f"/api/jobs/{job_id}/result") == (200, None)
        listed = await api.call("GET", "/api/jobs?state=discarded&tag=gone")
        assert [one["id"] for one in listed[1]["jobs"]] == [job_id]
        assert (await api.call("GET", "/api/failures"))[1]["groups"] == []
        why = (await api.call("GET", f"/api/jobs/{job_id}/why"))[1]
        assert ": discarded. `jqmaster job " in why["verdicts"][0]["text"]
        status, problem = await api.call("POST", f"/api/jobs/{job_id}/cancel")
        assert (status, problem["code"]) == (409, "job_discarded")

        async def counted() -> bool:
            _, page = await api.call("GET", "/api/names?span=1h")
            found = {
                one["name"]: (one["discarded"], one["failed"], one["success_share"]) for one in page["names"]
            }
            return found.get("work") == (1, 0, 1.0)

        await wait_until(counted)
        assert (await api.call("POST", f"/api/jobs/{job_id}/retry"))[0] == 200
        again = await worker.next_job()
        assert again["attempt"] == 2
        await worker.end(again)
        assert await api.state(job_id) == "succeeded"


@pytest.mark.req("M2")
async def test_every_state_can_be_seen(api: Api) -> None:
    seen = {await api.state(await api.enqueue("work")), await api.state(await api.enqueue("other", delay=60))}
    async with worker_at(api) as worker:
        job = await worker.next_job()
        seen.add(await api.state(job["job_id"]))
        await worker.end(job)
        seen.add(await api.state(job["job_id"]))
        for should_retry in (True, False):
            await api.enqueue("work", retry={"base_s": 3600, "jitter": False})
            job = await worker.next_job()
            await worker.end(job, "failure", should_retry=should_retry)
            seen.add(await api.state(job["job_id"]))
        await api.enqueue("work")
        job = await worker.next_job()
        await worker.end(job, "discarded", message="nothing is left to do")
        seen.add(await api.state(job["job_id"]))
        await api.enqueue("work")
        job = await worker.next_job()
        request = {"job_id": job["job_id"], "token": job["token"], "timeout_s": 60.0}
        _, opened = await api.call("POST", f"/api/workers/{worker.id}/challenges", request)
        await worker.end(job, "challenged", request_id=opened["request_id"])
        seen.add(await api.state(job["job_id"]))
    canceled = await api.enqueue("other")
    await api.call("POST", f"/api/jobs/{canceled}/cancel")
    seen.add(await api.state(canceled))
    waits_for = await api.enqueue("other", delay=60)
    seen.add(await api.state(await api.enqueue("other", after={"jobs": [waits_for]})))
    skipped = await api.enqueue("other", expires_s=0.001)
    seen.add((await api.until_state(skipped, "skipped"))["state"])
    assert seen == set(JobState)
    counts = await wait_until(api.counts)
    assert (
        counts["skipped"]
        == counts["canceled"]
        == counts["discarded"]
        == counts["retrying"]
        == counts["failed"]
        == 1
    )
