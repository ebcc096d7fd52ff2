"""Workers over HTTP: register, heartbeat, start, results, leave, and how they are shown."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgpack
import pytest

from jqmaster.app import Master
from jqmaster.domain.ids import new_id
from tests.support import real_time
from tests.support.each import for_each
from tests.support.master import MSGPACK, Api, master_on
from tests.support.scripted_worker import ScriptedWorker, ending, puller_at, worker_at
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = real_time.MASTER

TOKEN = "0123456789abcdef" * 2
# Parameters of tests must be the same in every process that runs a part of them.
NOBODY = "0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e"


@pytest.fixture
async def worker(api: Api) -> AsyncIterator[ScriptedWorker]:
    async with worker_at(api) as one:
        yield one


async def workers_of(api: Api) -> list[dict[str, Any]]:
    status, answer = await api.call("GET", "/api/workers")
    assert status == 200
    workers: list[dict[str, Any]] = answer["workers"]
    return workers


# --- register


@pytest.mark.req("D10", "J10")
async def test_a_worker_registers_and_is_seen(api: Api, worker: ScriptedWorker) -> None:
    status, view = await api.call("GET", f"/api/workers/{worker.id}")
    assert status == 200
    assert view["figures"].pop("since") == view["registered_at"]
    for field in ("registered_at", "last_seen_at"):
        assert view.pop(field)
    assert view == {
        "figures": {"succeeded": 0, "failed": 0, "failed_share": None, "attempts_per_s": 0.0, "run": None, "marks": []},
        "id": worker.id, "url": worker.url, "names": ["work"], "max_jobs": 10, "own_max_jobs": 10, "busy": 0,
        "load": 0.0, "role": "push", "built_in": False,
        "node_id": "node-1",
        "pid": 1, "labels": {"zone": "b"}, "version": "1.0", "state": "fresh", "detached_by": None,
        "breaker": view["breaker"],
        "jobs": [],
    }  # fmt: skip
    assert view["breaker"] in ("closed", None)
    assert [w["id"] for w in await workers_of(api)] == [worker.id]
    assert worker.secret not in str(await workers_of(api))


async def test_the_registration_tells_the_rhythm(api: Api, master: Master) -> None:
    async with ScriptedWorker(api, ("work",), 1).serving() as worker:
        status, answer = await worker.register()
        assert status == 201
        assert (answer["heartbeat_interval_s"], answer["lease_s"]) == (0.2, 1.5)
        assert master.shard.leader.leadership is not None
        assert answer["epoch"] == master.shard.leader.leadership.number


async def test_an_address_that_does_not_prove_the_secret_is_refused(api: Api) -> None:
    async with ScriptedWorker(api, ("work",), 1).serving() as worker:
        status, problem = await worker.register(secret="another secret, which nobody there knows")
        assert (status, problem["code"]) == (422, "address_unverified")
        status, problem = await worker.register(url=f"{worker.url}/elsewhere")
        assert (status, problem["code"]) == (422, "address_unverified")
        told = {problem["detail"]}
        status, problem = await worker.register(url="http://no-such-host.invalid:9000")
        assert (status, problem["code"]) == (422, "address_unverified")
        told.add(problem["detail"])
    status, problem = await worker.register()  # nobody listens there any longer
    assert (status, problem["code"]) == (422, "address_unverified")
    told.add(problem["detail"])
    assert len(told) == 1, "whoever looks around in the network learns nothing"
    assert await workers_of(api) == []


async def test_registrations_that_fail_are_limited(store_server: StoreServer) -> None:
    async with (
        master_on(store_server.url, failed_registrations_per_minute=2) as (_, api),
        ScriptedWorker(api, ("work",), 1).serving() as worker,
    ):
        statuses = [(await worker.register(url=f"{worker.url}/{n}"))[0] for n in range(4)]
        assert statuses == [422, 422, 429, 429]


@pytest.mark.row(76)
@for_each(
    "fields",
    [
        {"names": []}, {"names": [f"n{n}" for n in range(10_000)]}, {"names": ["two words"]}, {"names": "work"},
        {"names": [1]},
        {"max_jobs": 0}, {"max_jobs": -1}, {"max_jobs": 10**6}, {"max_jobs": 1.0}, {"max_jobs": True},
        {"max_jobs": "1"},
        {"url": ""}, {"url": 7}, {"url": "x" * 5000}, {"url": "not a url"}, {"url": "file:///etc/passwd"},
        {"url": "http://169.254.169.254/"}, {"url": "http://8.8.8.8/"}, {"url": "http://user:pw@127.0.0.1:9/"},
        {"secret": "short"}, {"secret": "x" * 129}, {"secret": None}, {"labels": {"a": 1}}, {"pid": -1}, {"bogus": 1},
    ],
)  # fmt: skip
async def test_a_registration_that_makes_no_sense_is_refused(api: Api, fields: dict[str, Any]) -> None:
    worker = ScriptedWorker(api, ("work",), 1)
    worker.url = "http://127.0.0.1:9"
    status, problem = await worker.register(**fields)
    assert status == 422
    assert problem["errors"] or "url" in fields
    assert await workers_of(api) == []


@pytest.mark.row(76)
@for_each("field", ["url", "names", "max_jobs", "secret"])
async def test_a_registration_names_what_is_missing(api: Api, field: str) -> None:
    registration = ScriptedWorker(api, ("work",), 1).registration(url=None)
    del registration[field]
    status, problem = await api.call("POST", "/api/workers", registration)
    assert (status, [e["loc"] for e in problem["errors"]]) == (422, [[field]])


@pytest.mark.row(77)
async def test_each_registration_is_a_worker_of_its_own_and_replaces_the_one_at_its_url(
    api: Api, worker: ScriptedWorker
) -> None:
    status, answer = await worker.register()
    assert status == 201
    assert answer["worker_id"] != worker.id
    states = {w["id"]: w["state"] for w in await workers_of(api)}
    assert states[answer["worker_id"]] == "fresh"
    assert states[worker.id] == "detached"
    assert (await worker.beat())[1]["detached"] is True


async def test_a_worker_without_url_registers_for_pull_mode(api: Api) -> None:
    worker = ScriptedWorker(api, ("work",), 1)
    status, answer = await worker.register(url=None)
    assert status == 201
    status, view = await api.call("GET", f"/api/workers/{answer['worker_id']}")
    assert (status, view["url"]) == (200, None)


# --- heartbeat


@pytest.mark.req("M3")
async def test_a_heartbeat_renews_what_it_names(api: Api, worker: ScriptedWorker, master: Master) -> None:
    await api.enqueue("work")
    job = await worker.next_job()
    status, answer = await worker.beat()
    assert status == 200
    assert answer["lease_until_ms"] == answer["store_time_ms"] + master.settings.lease_ms
    assert answer["lease_until_ms"] >= job["lease_until_ms"] - 5
    assert (answer["cancel"], answer["lost"], answer["drain"], answer["detached"]) == ([], [], False, False)
    await wait_until(lambda: len(worker.beats) >= 20)  # longer than a lease
    assert (await api.job(job["job_id"]))["attempt"] == 1
    await worker.end(job)


@pytest.mark.req("M3")
async def test_a_job_whose_worker_fell_silent_runs_again_and_the_late_result_is_stale(
    api: Api, worker: ScriptedWorker
) -> None:
    job_id = await api.enqueue("work")
    lost = await worker.next_job()
    worker.is_silent = True
    async with worker_at(api) as other:
        again = await other.next_job(timeout_s=20)
        assert (again["job_id"], again["attempt"]) == (job_id, 2)
        assert again["token"] != lost["token"]
        assert again["fence"] > lost["fence"]
        assert await worker.report(ending(lost)) == (200, {"accepted": [], "stale": [job_id]})
        assert (await worker.beat())[1]["lost"] == [{"job_id": job_id, "token": lost["token"]}]
        await other.end(again)
    job = await api.job(job_id)
    assert (job["state"], job["losses"], job["failures"]) == ("succeeded", 1, 0)
    assert [a["outcome"] for a in job["attempts"]] == ["lost", "success"]


@pytest.mark.row(78)
@pytest.mark.parametrize("worker_id", [NOBODY, "x", "%00"])
async def test_an_unknown_worker_is_told_to_register_again(api: Api, worker_id: str) -> None:
    status, problem = await api.call(
        "POST", f"/api/workers/{worker_id}/heartbeat", {"running": [], "free": 1}
    )
    assert (status, problem["code"]) == (404, "unknown_worker")


@pytest.mark.row(79)
async def test_foreign_and_repeated_tokens_in_a_heartbeat(api: Api, worker: ScriptedWorker) -> None:
    await api.enqueue("work")
    job = await worker.next_job()
    own = {"job_id": job["job_id"], "token": job["token"]}
    foreign = [{"job_id": new_id(), "token": TOKEN}, {"job_id": await api.enqueue("other"), "token": TOKEN}]
    status, answer = await api.call(
        "POST", f"/api/workers/{worker.id}/heartbeat", {"running": [own, *foreign, own], "free": 1}
    )
    assert status == 200
    assert answer["cancel"] == []
    assert sorted(c["job_id"] for c in answer["lost"]) == sorted(c["job_id"] for c in foreign)
    wrong = {"job_id": job["job_id"], "token": TOKEN}
    status, answer = await api.call(
        "POST", f"/api/workers/{worker.id}/heartbeat", {"running": [wrong], "free": 1}
    )
    assert answer["lost"] == [wrong]
    # Two claims name one job, and only one is current: each is judged separately.
    status, answer = await api.call(
        "POST", f"/api/workers/{worker.id}/heartbeat", {"running": [own, wrong], "free": 1}
    )
    assert answer["lost"] == [wrong]
    await worker.end(job)


@pytest.mark.row(79)
async def test_too_many_tokens_in_a_heartbeat_are_refused(api: Api, worker: ScriptedWorker) -> None:
    claims = [{"job_id": new_id(), "token": TOKEN} for _ in range(1001)]
    path = f"/api/workers/{worker.id}/heartbeat"
    assert (await api.call("POST", path, {"running": claims[:1000], "free": 1}))[0] == 200
    assert (await api.call("POST", path, {"running": claims, "free": 1}))[0] == 422
    assert (await api.call("POST", path, {"running": claims * 10, "free": 1}))[0] in (413, 422)


@pytest.mark.row(80)
@pytest.mark.parametrize("body", [{"free": 1}, {"running": None, "free": 1}, {"running": {}, "free": 1}])
async def test_a_heartbeat_without_a_list_of_claims_is_refused(
    api: Api, worker: ScriptedWorker, body: Any
) -> None:
    status, problem = await api.call("POST", f"/api/workers/{worker.id}/heartbeat", body)
    assert (status, problem["errors"][0]["loc"]) == (422, ["running"])


@pytest.mark.req("M6")
@pytest.mark.row(80)
@pytest.mark.parametrize(
    ("body", "loc"),
    [
        ({"free": float("nan")}, ["free"]), ({"free": -1}, ["free"]), ({"free": 1.0}, ["free"]), ({}, ["free"]),
        ({"free": 1, "clock": 0}, ["clock"]), ({"free": 1, "as_of_ms": -5}, ["as_of_ms"]),
        ({"free": 1, "asks_to_continue": "yes"}, ["asks_to_continue"]), ({"free": 1, "proof": "x"}, ["proof"]),
        ({"claim": {"job_id": "x", "token": TOKEN}}, ["running", 1, "job_id"]),
        ({"claim": {"job_id": NOBODY, "token": "x"}}, ["running", 1, "token"]),
        ({"claim": {"job_id": NOBODY}}, ["running", 1, "token"]), ({"claim": 7}, ["running", 1]),
        ({"report": {"progress": {"fraction": 2}}}, ["running", 0, "progress", "fraction"]),
        ({"report": {"progress": "half"}}, ["running", 0, "progress"]),
        ({"report": {"checkpoint": b"x" * 16_385}}, ["running", 0, "checkpoint"]),
        ({"report": {"mood": "good"}}, ["running", 0, "mood"]), ({"report": {"seq": 0}}, ["running", 0, "seq"]),
    ],
)  # fmt: skip
async def test_a_bad_field_of_a_heartbeat_costs_no_lease_and_is_named(
    api: Api, worker: ScriptedWorker, body: dict[str, Any], loc: list[str | int]
) -> None:
    await api.enqueue("work")
    job = await worker.next_job()
    worker.is_silent = True
    own = {"job_id": job["job_id"], "token": job["token"]} | body.pop("report", {})
    running = [own, body.pop("claim")] if "claim" in body else [own]
    sent = {"free": 1} | body if running[1:] or "free" not in loc else body
    status, answer = await api.call(
        "POST", f"/api/workers/{worker.id}/heartbeat", {"running": running, **sent}
    )
    assert (status, answer["lost"], [one["loc"] for one in answer["ignored"]]) == (200, [], [loc])
    assert answer["lease_until_ms"] > answer["store_time_ms"]
    assert (await api.job(job["job_id"]))["progress"] is None
    status, answer = await worker.beat()
    assert (status, "ignored" in answer) == (200, False)


@pytest.mark.parametrize("saved", [b"\x01\x02", {"row": 7}, [1, "a"], "text", 0])
async def test_a_checkpoint_is_binary_or_any_value(api: Api, saved: Any) -> None:
    async with puller_at(api) as worker:
        await api.enqueue("work")
        (job,) = await worker.claim()
        worker.is_silent = True
        claim = {"job_id": job["job_id"], "token": job["token"], "checkpoint": saved}
        status, answer = await api.call(
            "POST", f"/api/workers/{worker.id}/heartbeat", {"running": [claim], "free": 1}
        )
        assert (status, "ignored" in answer) == (200, False)
        await worker.end(job, "handed_back")
        (again,) = await worker.claim()
        assert again["checkpoint"] == (saved if isinstance(saved, bytes) else msgpack.packb(saved))


@pytest.mark.req("S7", "S14")
async def test_a_heartbeat_that_a_master_held_up_brings_back_no_older_checkpoint(api: Api) -> None:
    async with puller_at(api) as worker:
        await api.enqueue("work")
        (job,) = await worker.claim()
        worker.is_silent = True
        path = f"/api/workers/{worker.id}/heartbeat"
        claim = {"job_id": job["job_id"], "token": job["token"]}
        held_up = {
            "running": [{"job_id": [], "token": {}}, claim | {"checkpoint": b"one", "seq": 1}],
            "free": 1,
        }
        sent_to_another = {"running": [claim | {"checkpoint": b"three", "seq": 2}], "free": 1}
        status, answer = await api.call("POST", path, sent_to_another)
        assert (status, "ignored" in answer) == (200, False)
        status, answer = await api.call("POST", path, held_up)
        assert (status, answer["lost"]) == (200, [])
        assert answer["ignored"][-1]["loc"] == ["running", 1, "checkpoint"]
        assert "increase `seq` with each report" in answer["ignored"][-1]["msg"]
        await worker.end(job, "handed_back")
        (again,) = await worker.claim()
        assert again["checkpoint"] == b"three"


# --- start


@pytest.mark.row(81)
async def test_only_the_holder_of_the_token_may_start(api: Api, worker: ScriptedWorker) -> None:
    async def start(worker_id: str, *claims: tuple[str, str]) -> Any:
        starts = [{"job_id": job_id, "token": token} for job_id, token in claims]
        status, answer = await api.call("POST", f"/api/workers/{worker_id}/start", {"starts": starts})
        assert status == 200
        return answer

    await api.enqueue("work")
    job = await worker.next_job()
    claim = (job["job_id"], job["token"])
    unknown = new_id()
    assert await start(worker.id, claim, (unknown, TOKEN)) == {
        "confirmed": [job["job_id"]],
        "stale": [unknown],
    }
    assert await start(worker.id, claim) == {"confirmed": [job["job_id"]], "stale": []}
    assert await start(worker.id, (job["job_id"], TOKEN)) == {"confirmed": [], "stale": [job["job_id"]]}
    async with worker_at(api, "other") as other:
        assert await start(other.id, claim) == {"confirmed": [], "stale": [job["job_id"]]}
    await api.call("POST", f"/api/jobs/{job['job_id']}/cancel")
    assert await start(worker.id, claim) == {"confirmed": [], "stale": [job["job_id"]]}


@pytest.mark.row(81)
@pytest.mark.parametrize(
    "starts", [[], [{"job_id": "x", "token": TOKEN}], [{"job_id": NOBODY, "token": 1}], {}, None]
)
async def test_a_start_that_makes_no_sense_is_refused(api: Api, worker: ScriptedWorker, starts: Any) -> None:
    assert (await api.call("POST", f"/api/workers/{worker.id}/start", {"starts": starts}))[0] == 422


# --- results


@pytest.mark.req("J8", "J9", "M2", "M4", "S12")
@pytest.mark.parametrize(
    ("kind", "fields", "state", "outcome", "failures"),
    [
        ("success", {"result": 1}, "succeeded", "success", 0),
        ("failure", {"should_retry": True}, "retrying", "failure", 1),
        ("failure", {"should_retry": False}, "failed", "failure", 1),
        ("failure", {"reason": "timeout", "should_retry": True}, "retrying", "timeout", 1),
        ("deferred", {"retry_after": 3600}, "scheduled", "deferred", 0),
        ("handed_back", {}, "ready", "handed_back", 0),
        ("canceled", {}, "canceled", "canceled", 0),
        ("discarded", {"message": "gone"}, "discarded", "discarded", 0),
        ("discarded", {}, "discarded", "discarded", 0),
    ],
)
async def test_each_ending_has_its_meaning_for_the_job(
    api: Api, kind: str, fields: dict[str, Any], state: str, outcome: str, failures: int
) -> None:
    async with worker_at(api, max_jobs=1) as worker:
        blocker = await api.enqueue("work", priority=-1)
        first = await worker.next_job()
        assert first["job_id"] == blocker
        job_id = await api.enqueue("work", retry={"base_s": 3600, "jitter": False})
        await worker.end(first)
        job = await worker.next_job()
        worker.reject = "draining"  # so that a job that goes back to ready stays there
        await worker.end(job, kind, **fields)
        view = await api.until_state(job_id, state)
    assert view["failures"] == failures
    assert view["attempts"][0]["outcome"] == outcome
    assert view["attempts"][0]["worker_id"] == worker.id


@pytest.mark.row(82)
async def test_a_report_counts_once_and_only_from_the_holder(api: Api, worker: ScriptedWorker) -> None:
    await api.enqueue("work", keep_result=True)
    job = await worker.next_job()
    job_id = job["job_id"]
    stale = (200, {"accepted": [], "stale": [job_id]})
    assert await worker.report(ending({**job, "token": TOKEN})) == stale
    unknown = {"job_id": new_id(), "token": TOKEN}
    assert await worker.report(ending(unknown)) == (200, {"accepted": [], "stale": [unknown["job_id"]]})
    assert await worker.report(ending(unknown, "failure")) == (
        200,
        {"accepted": [], "stale": [unknown["job_id"]]},
    )
    assert await api.state(job_id) == "running"
    accepted = (200, {"accepted": [job_id], "stale": []})
    assert await worker.report(ending(job, result=1)) == accepted
    assert await worker.report(ending(job, result=1)) == accepted
    assert await worker.report(ending(job, "failure")) in (accepted, stale)
    status, result = await api.call("GET", f"/api/jobs/{job_id}/result")
    assert (status, result["type"], result["result"]) == (200, "success", 1)
    assert len((await api.job(job_id))["attempts"]) == 1


@pytest.mark.row(85)
@pytest.mark.parametrize("kind", ["success", "failure", "deferred", "handed_back", "canceled", "discarded"])
async def test_another_worker_cannot_end_the_attempt(api: Api, worker: ScriptedWorker, kind: str) -> None:
    await api.enqueue("work")
    job = await worker.next_job()
    async with worker_at(api, "other") as other:
        answer = await other.report(ending(job, kind))
        assert answer == (200, {"accepted": [], "stale": [job["job_id"]]})
    assert await api.state(job["job_id"]) == "running"
    await worker.end(job)


@pytest.mark.row(83)
@pytest.mark.parametrize(
    "change",
    [
        {"type": "maybe"}, {"type": None}, {"type": 1}, {"type": ["success"]}, {"type": "failure"},
        {"type": "deferred"},
        {"result": ...}, {"type": ...}, {"finished_at": ...}, {"job_id": ...}, {"token": ...}, {"job_id": "x"},
        {"token": TOKEN.upper()}, {"finished_at": "yesterday"}, {"finished_at": "2026-11-21T04:30:00"},
        {"finished_at": 0},
        {"finished_at": "9999-01-01T00:00:00Z"}, {"finished_at": "1969-12-31T23:59:59Z"}, {"reason": "other"},
        {"bogus": 1},
        {"result": {1: 2}},
    ],
)  # fmt: skip
async def test_a_report_that_makes_no_sense_is_named_and_the_others_count(
    api: Api, worker: ScriptedWorker, change: dict[str, Any]
) -> None:
    for _ in range(3):
        await api.enqueue("work")
    before, job, after = [await worker.next_job() for _ in range(3)]
    report = {field: value for field, value in (ending(job) | change).items() if value is not ...}
    status, answer = await worker.report(ending(before), report, ending(after, "failure", should_retry=False))
    neighbours = {before["job_id"], after["job_id"]}
    assert (status, set(answer["accepted"]), answer["stale"]) == (200, neighbours, [])
    (refused,) = answer["refused"]
    assert refused["index"] == 1
    assert {tuple(error["loc"][:2]) for error in refused["errors"]} == {("results", 1)}
    assert await api.state(before["job_id"]) == "succeeded"
    assert await api.state(after["job_id"]) == "failed"
    assert await api.state(job["job_id"]) == "running"
    status, problem = await worker.report(report)
    assert (status, {tuple(error["loc"][:2]) for error in problem["errors"]}) == (422, {("results", 0)})
    await worker.end(job)


@pytest.mark.row(84)
async def test_a_result_over_the_limit_does_not_keep_its_neighbours(api: Api, worker: ScriptedWorker) -> None:
    for _ in range(2):
        await api.enqueue("work")
    big, small = [await worker.next_job() for _ in range(2)]
    status, answer = await worker.report(ending(big, result=b"x" * (1024 * 1024)), ending(small))
    assert (status, answer["accepted"]) == (200, [small["job_id"]])
    assert [(one["index"], one["code"]) for one in answer["refused"]] == [(0, "result_too_large")]
    await worker.end(big, "failure", should_retry=False, message="the result is too large")


@pytest.mark.row(83)
@pytest.mark.parametrize("field", ["reason", "should_retry"])
async def test_a_failure_without_its_fields_is_refused(api: Api, worker: ScriptedWorker, field: str) -> None:
    await api.enqueue("work")
    job = await worker.next_job()
    for value in (..., None, "bogus", 7):
        report = {k: v for k, v in (ending(job, "failure") | {field: value}).items() if v is not ...}
        status, problem = await worker.report(report)
        assert (status, [e["loc"] for e in problem["errors"]]) == (422, [["results", 0, field]])
    await worker.end(job)


@pytest.mark.row(83)
async def test_the_reported_time_is_kept_and_decides_nothing(api: Api, worker: ScriptedWorker) -> None:
    job_id = await api.enqueue("work", keep_result=True)
    await worker.end(await worker.next_job(), finished_at="2099-01-01T00:00:00Z")
    status, result = await api.call("GET", f"/api/jobs/{job_id}/result")
    assert (status, result["finished_at"]) == (200, "2099-01-01T00:00:00Z")
    assert (await api.job(job_id))["finished_at"] < "2099"


@pytest.mark.row(84)
async def test_a_result_over_the_limit_is_refused_and_the_attempt_not_lost(
    api: Api, worker: ScriptedWorker
) -> None:
    job_id = await api.enqueue("work", keep_result=True)
    job = await worker.next_job()
    for report in (
        ending(job, result=b"x" * (1024 * 1024)),
        ending(job, "failure", error="x" * (1024 * 1024)),
    ):
        status, problem = await worker.report(report)
        assert status == 413
        assert problem["code"] in ("result_too_large", "error_too_large")
        assert await api.state(job_id) == "running"
    await worker.end(job, "failure", should_retry=False, message="the result is too large")
    assert await api.state(job_id) == "failed"


async def test_five_hundred_reports_fit_in_a_call_and_more_do_not(api: Api, worker: ScriptedWorker) -> None:
    claims = [{"job_id": new_id(), "token": TOKEN} for _ in range(501)]
    status, answer = await worker.report(*map(ending, claims[:500]))
    assert (status, len(answer["stale"])) == (200, 500)
    assert (await worker.report(*map(ending, claims)))[0] == 413
    assert (await worker.report())[0] == 422


@pytest.mark.req("D19", "M2")
async def test_the_answer_to_a_report_carries_the_next_jobs_of_a_worker_that_takes_them(api: Api) -> None:
    async with worker_at(api, max_jobs=1) as worker:
        await api.enqueue("work")
        first = await worker.next_job()
        argument, headers = {"k": [1, "ä"]}, {"h": "v"}
        job_id = await api.enqueue("work", argument, headers=headers, keep_result=True)
        path, report = f"/api/workers/{worker.id}/results", {"results": [ending(first)]}
        status, answer = await api.call("POST", path, report, **{"JQ-Jobs-After": "0"})
        assert (status, answer["accepted"], answer["stale"]) == (200, [first["job_id"]], [])
        (job,) = answer["jobs"]
        assert (job["job_id"], job["argument"], job["headers"]) == (job_id, argument, headers)
        assert (job["attempt"], job["phase"], job["fence"] > first["fence"]) == (1, "run", True)
        assert answer["store_time_ms"] < job["not_after_ms"] < job["lease_until_ms"]
        # A report that takes none, and one without jobs that wait.
        last = await api.enqueue("work")
        assert "jobs" not in (await worker.report(ending(job)))[1]
        pushed = await worker.next_job()
        assert pushed["job_id"] == last
        report = {"results": [ending(pushed)]}
        assert "jobs" not in (await api.call("POST", path, report, **{"JQ-Jobs-After": str(job["fence"])}))[1]


@pytest.mark.parametrize("value", ["x", "-1", "1.5", "9" * 17, " "])
async def test_a_header_that_is_no_fence_is_refused_and_named(
    api: Api, worker: ScriptedWorker, value: str
) -> None:
    await api.enqueue("work")
    job = await worker.next_job()
    report = {"results": [ending(job)]}
    path = f"/api/workers/{worker.id}/results"
    status, problem = await api.call("POST", path, report, **{"JQ-Jobs-After": value})
    assert (status, problem["code"]) == (422, "invalid")
    assert problem["errors"] == [{"loc": ["header", "JQ-Jobs-After"], "msg": "must be a fence, or 0"}]
    assert await api.state(job["job_id"]) == "running"


async def test_a_worker_that_is_not_one_cannot_report(api: Api) -> None:
    report = {"results": [ending({"job_id": new_id(), "token": TOKEN})]}
    status, problem = await api.call("POST", "/api/workers/nobody/results", report)
    assert (status, problem["code"]) == (404, "unknown_worker")


@pytest.mark.parametrize("kind", ["success", "failure"])
async def test_a_report_of_a_worker_that_is_not_registered_is_not_called_stale(
    api: Api, worker: ScriptedWorker, kind: str
) -> None:
    """The report would be lost, though a master of the worker's own store could still accept it."""
    await api.enqueue("work")
    known = await worker.next_job()
    for job in (known, {"job_id": new_id(), "token": TOKEN}):
        report = {"results": [ending(job, kind)]}
        status, problem = await api.call("POST", f"/api/workers/{new_id()}/results", report)
        assert (status, problem["code"]) == (404, "unknown_worker")
    start = {"starts": [{"job_id": known["job_id"], "token": known["token"]}]}
    status, problem = await api.call("POST", f"/api/workers/{new_id()}/start", start)
    assert (status, problem["code"]) == (404, "unknown_worker")
    assert await api.state(known["job_id"]) == "running"


# --- leave, and pushes


@pytest.mark.req("M14")
async def test_a_worker_that_announces_its_end_gets_no_more_jobs(api: Api, worker: ScriptedWorker) -> None:
    worker.is_silent = True
    for _ in range(2):
        assert await api.call("POST", f"/api/workers/{worker.id}/leaving") == (204, None)
    _, found = await api.call("GET", f"/api/workers/{worker.id}")
    assert found["state"] == "draining"
    assert await api.call("DELETE", f"/api/workers/{worker.id}") == (204, None)
    status, problem = await api.call("POST", f"/api/workers/{worker.id}/leaving")
    assert (status, problem["code"]) == (404, "unknown_worker")


async def test_a_worker_that_leaves_is_gone(api: Api, worker: ScriptedWorker) -> None:
    worker.is_silent = True
    assert await api.call("DELETE", f"/api/workers/{worker.id}") == (204, None)
    for method in ("GET", "DELETE"):
        status, problem = await api.call(method, f"/api/workers/{worker.id}")
        assert (status, problem["code"]) == (404, "unknown_worker")
    assert (await worker.beat())[0] == 404
    assert await workers_of(api) == []


@pytest.mark.req("J10", "J12")
async def test_the_master_pushes_the_smallest_priority_first_and_the_oldest_within(api: Api) -> None:
    late, early = await api.enqueue("work", priority=5), await api.enqueue("work", priority=-5)
    first, second = await api.enqueue("work"), await api.enqueue("work")
    async with worker_at(api, max_jobs=1) as worker:
        for expected in (early, first, second, late):
            job = await worker.next_job()
            assert job["job_id"] == expected
            await worker.end(job)


@pytest.mark.req("J10")
@pytest.mark.parametrize("reason", ["busy", "unknown_name", "draining", "too_late"])
async def test_a_rejected_job_has_not_been_attempted(api: Api, worker: ScriptedWorker, reason: str) -> None:
    worker.reject = reason
    job_id = await api.enqueue("work", max_retry=0)
    await wait_until(lambda: worker.bodies)
    worker.reject = None
    async with worker_at(api) as other:
        taken = [asyncio.create_task(w.next_job(20)) for w in (worker, other)]
        done, waiting = await asyncio.wait(taken, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
        await (worker if taken[0] in done else other).end(done.pop().result())
    job = await api.job(job_id)
    assert (job["state"], job["failures"], job["losses"]) == ("succeeded", 0, 0)


@pytest.mark.req("J10", "J11", "M7")
async def test_a_worker_in_a_process_of_its_own_without_our_code_works(api: Api, master: Master) -> None:
    script = Path(__file__).parents[2] / "support" / "bare_worker.py"
    command = [sys.executable, "-I", str(script), master.server.url, "square"]
    processes = [subprocess.Popen(command, stdin=subprocess.DEVNULL) for _ in range(2)]
    try:
        # A worker that registers first could run all jobs before the other one is there.
        async with asyncio.timeout(20):
            while len(await workers_of(api)) < 2:
                await asyncio.sleep(0.02)
        jobs = {await api.enqueue("square", n, keep_result=True): n for n in range(40)}
        for job_id, n in jobs.items():
            status, result = await api.call("GET", f"/api/jobs/{job_id}/result?wait=20")
            assert (status, result["type"], result["result"]) == (200, "success", n * n)
        assert len({(await api.job(job_id))["worker_id"] for job_id in jobs}) == 2
        failing = await api.enqueue("square", "text", max_retry=0, keep_result=True)
        status, result = await api.call("GET", f"/api/jobs/{failing}/result?wait=20")
        assert (result["type"], result["reason"]) == ("failure", "other")
        assert "TypeError" in result["message"]
    finally:
        for process in processes:
            process.kill()
            process.wait()


async def test_json_speaks_to_workers_calls_too(api: Api) -> None:
    response = await api.http.get("/api/workers", headers={"Accept": "application/json"})
    assert response.json() == {"workers": []}
    body = msgpack.packb(ScriptedWorker(api, ("work",), 1).registration(url=None))
    response = await api.http.post(
        "/api/workers", content=body, headers={**MSGPACK, "Accept": "application/json"}
    )
    assert response.status_code == 201
    assert response.json()["worker_id"]
