"""Challenges over HTTP: opened by a worker, answered from outside, shown to people."""

import hashlib
import hmac
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from jqmaster.app import Master
from tests.support import real_time
from tests.support.master import Api, master_on
from tests.support.scripted_worker import ScriptedWorker, puller_at, worker_at
from tests.support.server import StoreServer

pytestmark = [pytest.mark.req("P2", "P3"), real_time.MASTER]


@pytest.fixture
async def puller(api: Api) -> AsyncIterator[ScriptedWorker]:
    async with puller_at(api) as one:
        yield one


async def open_challenge(worker: ScriptedWorker, job: dict[str, Any], **fields: Any) -> tuple[int, Any]:
    request = {"job_id": job["job_id"], "token": job["token"], "timeout_s": 60.0, **fields}
    return await worker.api.call("POST", f"/api/workers/{worker.id}/challenges", request)


async def awaiting(api: Api, worker: ScriptedWorker, **fields: Any) -> dict[str, Any]:
    """Return an open challenge whose job waits for the callback."""
    await api.enqueue("work")
    (job,) = await worker.claim()
    status, opened = await open_challenge(worker, job, **fields)
    assert status == 201, opened
    await worker.end(job, "challenged", request_id=opened["request_id"])
    return {**opened, "job_id": job["job_id"]}


async def post(opened: dict[str, Any], body: bytes, path: str = "", **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False) as outside:
        return await outside.post(opened["callback_url"] + path, content=body, headers=headers)


@pytest.mark.req("P4")
async def test_a_callback_goes_to_a_worker_as_it_came(api: Api, puller: ScriptedWorker) -> None:
    opened = await awaiting(api, puller, meta={"order": 42})
    assert await api.state(opened["job_id"]) == "awaiting_callback"
    why = (await api.call("GET", f"/api/jobs/{opened['job_id']}/why"))[1]
    assert why["verdicts"][0]["code"] == "awaiting_callback"
    taken = await post(opened, b"<ok/>", **{"content-type": "application/xml"})
    assert (taken.status_code, taken.json()) == (202, {"repeated": False})
    (job,) = await puller.claim()
    assert (job["phase"], job["attempt"]) == ("callback", 1)
    assert (job["callback"]["content_type"], job["callback"]["body"]) == ("application/xml", b"<ok/>")
    assert (await post(opened, b"<ok/>", **{"content-type": "application/xml"})).status_code == 200
    other = await post(opened, b"<no/>", **{"content-type": "application/xml"})
    assert (other.status_code, other.json()["code"]) == (409, "callback_conflict")
    await puller.end(job)
    assert await api.state(opened["job_id"]) == "succeeded"
    status, shown = await api.call("GET", f"/api/jobs/{opened['job_id']}/challenges")
    (challenge,) = shown["challenges"]
    assert (status, challenge["state"], challenge["received"]) == (200, "succeeded", 1)
    assert challenge["meta"] == {"order": 42}
    assert challenge["request"] in opened["request_id"]
    assert opened["request_id"] not in str(shown)


async def test_a_worker_at_an_address_gets_the_callback_pushed(api: Api) -> None:
    async with worker_at(api) as worker:
        job_id = await api.enqueue("work")
        job = await worker.next_job()
        _, opened = await open_challenge(worker, job, expect=2)
        await worker.end(job, "challenged", request_id=opened["request_id"])
        assert (await post(opened, b"same", **{"idempotency-key": "a"})).status_code == 202
        assert (await post(opened, b"same", **{"idempotency-key": "b"})).status_code == 202
        again = await worker.next_job()
        assert (again["job_id"], again["phase"], again["fence"] > job["fence"]) == (job_id, "callback", True)
        assert [one["body"] for one in again["callbacks"]] == [b"same", b"same"]
        assert again["callback"] == again["callbacks"][0]
        await worker.end(again, "failure", reason="other", should_retry=False, message="no", code="SOLD_OUT")
    (attempt,) = (await api.job(job_id))["attempts"]
    assert (attempt["outcome"], attempt["code"]) == ("failure", "SOLD_OUT")
    (challenge,) = (await api.call("GET", "/api/challenges?state=failed"))[1]["challenges"]
    assert (challenge["job_id"], challenge["code"], challenge["error"]) == (job_id, "SOLD_OUT", "no")


@pytest.mark.req("P6")
async def test_a_callback_after_a_cancel_is_over_and_an_unknown_one_is_not_found(
    api: Api, puller: ScriptedWorker
) -> None:
    opened = await awaiting(api, puller)
    assert (await api.call("POST", f"/api/jobs/{opened['job_id']}/cancel"))[0] == 200
    late = await post(opened, b"")
    assert (late.status_code, late.json()["code"]) == (410, "challenge_over")
    assert (await post(opened, b"", "/progress")).status_code in (400, 415)
    (void,) = (await api.call("GET", "/api/challenges?state=void&name=work"))[1]["challenges"]
    assert void["job_id"] == opened["job_id"]


async def test_a_caller_that_guesses_is_slowed_down(api: Api, puller: ScriptedWorker) -> None:
    opened = await awaiting(api, puller)
    guess = {**opened, "callback_url": opened["callback_url"][:-4] + "AAAA"}
    codes = [(await post(guess, b"")).status_code for _ in range(32)]
    assert codes == [404] * 30 + [429] * 2
    for wrong in ("x", "A" * 54):
        assert (
            await post({"callback_url": f"{api.http.base_url}/callbacks/{wrong}"}, b"")
        ).status_code == 429
    # Others at the same address know their IDs, and nobody can stop them.
    progress = await post(opened, b'{"fraction": 0.5}', "/progress", **{"content-type": "application/json"})
    assert progress.status_code == 204
    assert (await post(opened, b"")).status_code == 202


async def test_progress_from_outside_is_shown(api: Api, puller: ScriptedWorker) -> None:
    opened = await awaiting(api, puller)
    told = await post(
        opened, b'{"fraction": 0.5, "message": "packed"}', "/progress", **{"content-type": "application/json"}
    )
    assert told.status_code == 204
    (challenge,) = (await api.call("GET", "/api/challenges?state=processing"))[1]["challenges"]
    assert (challenge["progress"]["fraction"], challenge["progress"]["message"]) == (0.5, "packed")


async def test_a_signed_challenge_takes_signed_callbacks_alone(api: Api, puller: ScriptedWorker) -> None:
    signature = {"header": "X-Sig", "secret": "s" * 32, "prefix": "sha256="}
    opened = await awaiting(api, puller, signature=signature)
    for value in ({}, {"x-sig": "sha256=00"}):
        refused = await post(opened, b"paid", **value)
        assert (refused.status_code, refused.json()["code"]) == (403, "bad_signature")
    right = "sha256=" + hmac.new(b"s" * 32, b"paid", hashlib.sha256).hexdigest()
    assert (await post(opened, b"paid", **{"x-sig": right})).status_code == 202


async def test_a_body_has_the_limit_of_arguments(api: Api, master: Master, puller: ScriptedWorker) -> None:
    opened = await awaiting(api, puller)
    limit = master.settings.max_argument_bytes if hasattr(master, "settings") else 256 * 1024
    assert (await post(opened, b"x" * (limit + 1))).status_code == 413
    assert (await post(opened, b"x" * limit)).status_code == 202
    (job,) = await puller.claim()
    assert job["callback"]["body"] == b"x" * limit


async def test_an_operator_answers_for_the_outside_system(api: Api, puller: ScriptedWorker) -> None:
    opened = await awaiting(api, puller)
    (challenge,) = (await api.call("GET", "/api/challenges"))[1]["challenges"]
    path = f"/api/jobs/{opened['job_id']}/challenges/{challenge['request']}/callback"
    assert await api.call("POST", path, {"paid": True}) == (202, {"repeated": False})
    assert await api.call("POST", path, {"paid": True}) == (200, {"repeated": True})
    (job,) = await puller.claim()
    assert job["callback"]["content_type"] == "application/msgpack"
    entries = (await api.call("GET", "/api/audit"))[1]["entries"]
    assert entries[0]["action"] == "challenge.answer"
    assert (await api.call("POST", path.replace(challenge["request"], "nothing0"), 1))[0] == 404


@pytest.mark.req("P1")
async def test_a_job_that_is_not_ready_waits_longer_each_time_and_uses_no_retry(
    api: Api, puller: ScriptedWorker
) -> None:
    job_id = await api.enqueue("work", max_retry=0)
    (job,) = await puller.claim()
    not_ready = {"max_wait_s": 1, "for_s": 3_600, "reason": "full"}
    await puller.end(job, "deferred", retry_after=0.001, not_ready=not_ready)
    (job,) = await puller.claim()
    await puller.end(job, "deferred", retry_after=0.001, not_ready={**not_ready, "for_s": 0})
    failed = await api.job(job_id)
    assert (failed["state"], failed["cause"], failed["failures"]) == ("failed", "not_ready", 0)
    assert [attempt["outcome"] for attempt in failed["attempts"]] == ["not_ready", "not_ready"]


async def test_only_who_holds_the_job_opens_a_challenge(api: Api, puller: ScriptedWorker) -> None:
    await api.enqueue("work")
    (job,) = await puller.claim()
    status, problem = await open_challenge(puller, {**job, "token": "0" * 32})
    assert (status, problem["code"]) == (409, "stale_token")
    status, answer = await puller.report(
        {"job_id": job["job_id"], "token": job["token"], "type": "challenged", "request_id": "x" * 54,
         "finished_at": "2026-11-21T04:30:02.920Z"}
    )  # fmt: skip
    assert (status, answer["accepted"]) == (200, [job["job_id"]])
    assert (await api.job(job["job_id"]))["cause"] == "error"


async def test_without_a_public_address_a_master_on_a_network_opens_no_challenge(store: StoreServer) -> None:
    async with master_on(store.url, host="0.0.0.0", tokens=["admin:token-a"]) as (_, api):
        api.http.headers["authorization"] = "Bearer token-a"
        async with puller_at(api) as worker:
            await api.enqueue("work")
            (job,) = await worker.claim()
            status, problem = await open_challenge(worker, job)
            assert (status, problem["code"]) == (409, "no_public_url")


@pytest.mark.req("P8")
async def test_metrics_count_challenges_and_callbacks(api: Api, puller: ScriptedWorker) -> None:
    opened = await awaiting(api, puller)
    assert (await post(opened, b"done")).status_code == 202
    assert (await post(opened, b"done")).status_code == 200
    text = (await api.http.get("/metrics")).text
    assert "jqmaster_challenges_opened_total 1.0" in text
    assert 'jqmaster_callbacks_total{answer="taken"} 1.0' in text
    assert 'jqmaster_callbacks_total{answer="repeated"} 1.0' in text
    assert "jqmaster_callback_wait_seconds_count 1.0" in text


@pytest.mark.req("P2", "J8")
async def test_a_repeated_call_with_the_nonce_of_the_first_gets_the_same_challenge(
    api: Api, puller: ScriptedWorker
) -> None:
    await api.enqueue("work")
    (job,) = await puller.claim()
    answers = [await open_challenge(puller, job, nonce="n" * 32) for _ in range(2)]
    assert answers[0] == answers[1]
    opened = answers[0][1]
    await puller.end(job, "challenged", request_id=opened["request_id"])
    assert (await post(opened, b"done")).status_code == 202
    (again,) = await puller.claim()
    assert again["callback"]["body"] == b"done"
    await puller.end(again)
    (one,) = (await api.call("GET", "/api/challenges"))[1]["challenges"]
    assert one["state"] == "succeeded"
    assert "\njqmaster_challenges_opened_total 1" in (await api.http.get("/metrics")).text


@pytest.mark.parametrize("nonce", ["short", "n" * 65, "n" * 31 + "!"])
async def test_a_nonce_that_could_be_guessed_is_refused(api: Api, puller: ScriptedWorker, nonce: str) -> None:
    await api.enqueue("work")
    (job,) = await puller.claim()
    status, problem = await open_challenge(puller, job, nonce=nonce)
    assert (status, problem["errors"][0]["loc"]) == (422, ["nonce"])
    await puller.end(job)
