"""The health of the queue over HTTP: the same facts as the Overview, in one sentence."""

from typing import Any

import pytest

from jqmaster.app import Master
from jqmaster.domain.jobs.job import Cause, JobState
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.errors import StoreUnavailableError
from tests.api.constraints.test_constraints import in_force, made
from tests.support import real_time
from tests.support.master import Api
from tests.support.scripted_worker import worker_at
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("D32"), real_time.MASTER]

MAIL = {"field": "name", "op": "eq", "value": "mail"}


async def health(api: Api) -> dict[str, Any]:
    status, answer = await api.call("GET", "/api/health")
    assert status == 200, answer
    verdict: dict[str, Any] = answer
    return verdict


async def finding(api: Api, code: str) -> dict[str, Any]:
    """Return the finding of this code, once it is there."""

    async def found() -> dict[str, Any] | None:
        return next((one for one in (await health(api))["findings"] if one["code"] == code), None)

    return await wait_until(found, timeout_s=20, what=f"a finding {code}")


async def test_a_queue_without_jobs_is_well(api: Api) -> None:
    async def is_well() -> bool:
        verdict = await health(api)
        return bool(verdict["status"] == "ok" and verdict["findings"] == [])

    await wait_until(is_well, timeout_s=20, what="the queue is well once a master leads")
    verdict = await health(api)
    assert verdict["text"] == "No job runs or waits. Nothing is broken."
    assert verdict["command"] is None


async def test_jobs_without_a_worker_are_broken_and_those_of_a_name_without_one_too(api: Api) -> None:
    for _ in range(2):
        await api.enqueue("mail")
    found = await finding(api, "no_worker")
    assert (found["severity"], found["figures"]) == ("bad", {"count": 2})
    assert (await health(api))["status"] == "broken"
    async with worker_at(api, "other"):
        found = await finding(api, "orphan")
        assert found["text"] == "No live worker runs jobs named mail: 2 jobs wait."
        assert found["jobs"] == 2


async def test_a_full_limit_names_its_value_and_what_it_waits_for(api: Api) -> None:
    await made(api, "mails", matcher=MAIL, key="argument.tenant", concurrency=1)
    async with worker_at(api, "mail", max_jobs=8) as worker:
        for tenant in ("globex", "globex", "globex", "acme"):
            await api.enqueue("mail", {"tenant": tenant})
        for _ in range(2):
            await worker.next_job()
        await in_force(api, "mails")
        found = await finding(api, "full")
        assert found["text"] == ("Jobs wait for constraint mails: all 2 for globex, with 1 of 1 slots taken.")
        verdict = await health(api)
        assert (verdict["status"], verdict["command"]) == ("waiting", "jqmaster constraints show mails")
        assert verdict["text"].endswith("Nothing is broken.")


async def test_a_pause_names_its_author_and_reason(api: Api) -> None:
    async with worker_at(api, "mail"):
        body = {"job_name": "mail", "reason": "The provider is down."}
        assert (await api.call("POST", "/api/pauses", body))[0] == 201
        await api.enqueue("mail")
        found = await finding(api, "pause")
        assert "The provider is down." in found["text"]
        assert (found["figures"]["of"], found["figures"]["subject"]) == ("name", "mail")
        assert (await health(api))["status"] == "waiting"


async def test_a_paused_limit_and_a_paused_value_are_told_apart(api: Api) -> None:
    await made(
        api, "mails", matcher=MAIL, key="argument.tenant", overrides=[{"value": "acme", "paused": True}]
    )
    found = await finding(api, "paused_values")
    assert (found["figures"]["subject"], found["figures"]["key"]) == ("acme", "argument.tenant")
    await made(api, "all", matcher=MAIL, paused=True)
    assert (await finding(api, "paused"))["figures"]["subject"] == "all"


async def test_failing_jobs_are_named_with_what_is_new(api: Api, master: Master) -> None:
    failed = Decision(JobState.FAILED, "failure", cause=Cause.ERROR, is_counted=True)
    for n in range(12):
        master.shard.services.tally.ended(
            "mail", failed, job_id=f"0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d{n:02}", message="no route", run_ms=20
        )
    found = await finding(api, "failing")
    assert found["text"].startswith(
        "12 jobs named mail failed in the last hour (100%). A new kind of failure (error)"
    )
    assert found["command"] == "jqmaster failures --name mail"
    assert "no route" not in found["text"]
    assert (await finding(api, "rising"))["figures"]["lately"] == 12
    (group,) = (await api.call("GET", "/api/failures"))[1]["groups"]
    assert (await api.call("POST", f"/api/failures/{group['id']}/ignore", {"reason": "known"}))[0] == 200

    async def is_ignored() -> bool:
        return "failing" not in [one["code"] for one in (await health(api))["findings"]]

    await wait_until(is_ignored, timeout_s=20, what="an ignored failure is no finding")
    assert (await api.call("DELETE", f"/api/failures/{group['id']}/ignore"))[0] == 200
    await finding(api, "failing")
    assert (await api.call("POST", f"/api/failures/{group['id']}/resolve", {}))[0] == 200
    await wait_until(is_ignored, timeout_s=20, what="a resolved failure is no finding")


async def test_a_job_that_waits_long_has_its_cause(
    api: Api, master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jqmaster.service.operations.health.WAIT_WARN_MS", 0)
    monkeypatch.setattr("jqmaster.domain.operations.health.WAIT_WARN_MS", 0)
    async with worker_at(api, "mail", max_jobs=1) as worker:
        await api.enqueue("mail")
        await worker.next_job()
        waits = await api.enqueue("mail")
        found = await finding(api, "wait")
        assert found["command"] == f"jqmaster why {waits}"
        assert "The only live worker for jobs named mail takes no job now: 1 full" in found["text"]
        figures = found["figures"]
        assert (figures["cause_code"], figures["workers"], figures["full"]) == ("workers_unavailable", 1, 1)


async def test_a_store_that_is_away_is_a_verdict(
    api: Api, master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse() -> None:
        raise StoreUnavailableError("the store does not answer: connection refused")

    monkeypatch.setattr(master.services.stats, "now", refuse)
    verdict = await health(api)
    assert (verdict["status"], verdict["at"]) == ("broken", None)
    assert verdict["findings"][0]["code"] == "store_away"
