"""Callbacks that are wrong, late, foreign or too large, or that meet a job that is canceled, deleted or retried."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.api.challenges.test_challenges import awaiting, open_challenge, post
from tests.support import real_time
from tests.support.master import Api
from tests.support.scripted_worker import ScriptedWorker, puller_at

pytestmark = [pytest.mark.req("P2", "P3", "P6"), real_time.MASTER]


@pytest.fixture
async def puller(api: Api) -> AsyncIterator[ScriptedWorker]:
    async with puller_at(api) as one:
        yield one


def at(opened: dict[str, Any], request_id: str) -> dict[str, Any]:
    """Return the challenge with its address changed to another request ID."""
    return {**opened, "callback_url": opened["callback_url"].replace(opened["request_id"], request_id)}


async def answers(opened: dict[str, Any], body: bytes = b"done") -> tuple[int, str]:
    answer = await post(opened, body)
    return answer.status_code, answer.json().get("code", "")


async def test_wrong_and_foreign_ids_are_unknown_and_change_nothing(api: Api, puller: ScriptedWorker) -> None:
    mine, other = await awaiting(api, puller), await awaiting(api, puller)
    ids = [
        "x",
        "A" * 54,
        mine["request_id"][:-1],
        mine["request_id"] + "A",
        mine["request_id"].swapcase(),
        # The first half names one job, the second half is the secret of another.
        mine["request_id"][:22] + other["request_id"][22:],
        "%E2%98%83" * 9,
        "%00" * 54,
    ]
    for request_id in ids:
        assert await answers(at(mine, request_id)) == (404, "unknown_challenge"), request_id
    for opened in (mine, other):
        assert await api.state(opened["job_id"]) == "awaiting_callback"
        assert await answers(opened) == (202, "")


async def test_a_used_id_takes_nothing_else(api: Api, puller: ScriptedWorker) -> None:
    opened = await awaiting(api, puller)
    assert await answers(opened) == (202, "")
    (job,) = await puller.claim()
    for is_over in (False, True):
        assert await answers(opened) == (200, "")
        assert await answers(opened, b"other") == (409, "callback_conflict")
        if not is_over:
            await puller.end(job)


async def test_an_expired_id_is_over(api: Api, puller: ScriptedWorker) -> None:
    await api.enqueue("work", max_retry=0)
    (job,) = await puller.claim()
    _, opened = await open_challenge(puller, job, timeout_s=0.05)
    await puller.end(job, "challenged", request_id=opened["request_id"])
    await api.until_state(job["job_id"], "failed")
    assert await answers(opened) == (410, "challenge_over")
    assert await answers(opened) == (410, "challenge_over")


async def test_a_body_of_ten_megabytes_is_refused_and_the_challenge_goes_on(
    api: Api, puller: ScriptedWorker
) -> None:
    opened = await awaiting(api, puller)
    large = b"x" * (10 * 1024 * 1024)

    async def in_parts() -> AsyncIterator[bytes]:
        for begin in range(0, len(large), 65_536):
            yield large[begin : begin + 65_536]

    async with httpx.AsyncClient(trust_env=False) as outside:
        for content in (large, in_parts()):
            try:
                status = (await outside.post(opened["callback_url"], content=content)).status_code
            except httpx.TransportError:
                # The master closed the connection while the rest was still being sent.
                status = 413
            assert status == 413
    assert await answers(opened) == (202, "")
    (job,) = await puller.claim()
    assert job["callback"]["body"] == b"done"
    await puller.end(job)


@pytest.mark.req("M9")
async def test_a_callback_for_a_deleted_job_is_unknown(api: Api, puller: ScriptedWorker) -> None:
    opened = await awaiting(api, puller)
    assert (await api.call("POST", f"/api/jobs/{opened['job_id']}/cancel"))[0] == 200
    assert (await api.call("DELETE", f"/api/jobs/{opened['job_id']}"))[0] in (200, 204)
    assert await answers(opened) == (404, "unknown_challenge")


@pytest.mark.req("M9")
async def test_a_callback_for_a_job_that_was_retried_by_hand_is_over_and_its_new_one_counts(
    api: Api, puller: ScriptedWorker
) -> None:
    opened = await awaiting(api, puller)
    assert (await api.call("POST", f"/api/jobs/{opened['job_id']}/cancel"))[0] == 200
    assert (await api.call("POST", f"/api/jobs/{opened['job_id']}/retry"))[0] == 200
    assert await answers(opened) == (410, "challenge_over")
    (job,) = await puller.claim()
    assert (job["phase"], job["attempt"]) == ("run", 2)
    _, second = await open_challenge(puller, job)
    await puller.end(job, "challenged", request_id=second["request_id"])
    assert await answers(opened) == (410, "challenge_over")
    assert await answers(second) == (202, "")
    (again,) = await puller.claim()
    assert (again["phase"], again["attempt"]) == ("callback", 2)
    await puller.end(again)


@pytest.mark.req("M9")
async def test_a_job_that_is_canceled_while_its_callback_runs_stays_canceled(
    api: Api, puller: ScriptedWorker
) -> None:
    opened = await awaiting(api, puller)
    assert await answers(opened) == (202, "")
    (job,) = await puller.claim()
    assert (await api.call("POST", f"/api/jobs/{opened['job_id']}/cancel"))[0] == 200
    assert await answers(opened) == (410, "challenge_over")
    assert await answers(opened, b"other") == (410, "challenge_over")
    status, beat = await puller.beat()
    assert status == 200
    assert [one["job_id"] for one in beat["cancel"]] == [job["job_id"]]
    puller.running.clear()
    assert await api.state(opened["job_id"]) == "canceled"


async def test_an_outside_system_that_answers_with_an_error_and_calls_back_anyway_is_told_that_it_is_over(
    api: Api, puller: ScriptedWorker
) -> None:
    """The attempt failed because of the system's answer. The next attempt calls the system again, with the same key."""
    await api.enqueue("work", max_retry=1, retry={"base_s": 0.0, "factor": 1.0, "max_s": 0.0})
    (job,) = await puller.claim()
    _, opened = await open_challenge(puller, job)
    assert await answers(opened) == (202, "")
    await puller.end(job, "failure", reason="other", should_retry=True, message="500", error=None, code="E")
    (again,) = await puller.claim()
    assert (again["phase"], again["attempt"]) == ("run", 2)
    assert await answers(opened) == (410, "challenge_over")
    _, second = await open_challenge(puller, again)
    await puller.end(again, "challenged", request_id=second["request_id"])
    assert await answers(second) == (202, "")
    (last,) = await puller.claim()
    await puller.end(last)
    assert await api.state(job["job_id"]) == "succeeded"
