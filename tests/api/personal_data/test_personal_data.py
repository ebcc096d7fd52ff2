"""A person is found in everything that jobs leave behind, and erased from jobs, over HTTP."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from jqmaster.runtime.duties import log_archiver
from jqmaster.service.personal_data import search as service
from jqmaster.store.personal_data import erasure as erasure_store
from jqmaster.store.personal_data import holdings
from tests.api.logs.test_logs import line, page, send
from tests.support import real_time
from tests.support.each import for_each
from tests.support.master import Api, master_on
from tests.support.scripted_worker import ScriptedWorker, puller_at
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("D21"), real_time.MASTER]

JOSE = "jose@example.com"
TOKENS = ["push+work+read+operate+admin:everything", "read+operate+push:operator", "read:viewer"]
ENDED: dict[str, Any] = {"max_retry": 0, "keep_result": True}


async def find(api: Api, *texts: str, **fields: Any) -> dict[str, Any]:
    """Search to the end, and return what was found by place and ID, and the sums of what was searched."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    searched, unread = Counter[str](), Counter[str]()
    last: dict[str, Any] = {"next_cursor": None}
    while True:
        body = {"texts": list(texts or (JOSE,)), "cursor": last["next_cursor"], **fields}
        status, last = await api.call("POST", "/api/personal-data/search", body)
        assert status == 200, last
        found |= {(one["place"], one["id"]): one for one in last["found"]}
        searched.update(last["searched"])
        unread.update(last["unread"])
        if last["next_cursor"] is None:
            return {**last, "found": found, "searched": searched, "unread": unread}


def fields(found: dict[str, Any]) -> dict[str, list[str]]:
    return {key[1]: one["fields"] for key, one in found["found"].items()}


async def ended(worker: ScriptedWorker, api: Api, argument: Any, kind: str = "success", **result: Any) -> str:
    """Run a job with a line in its log to its end."""
    job_id = await api.enqueue("work", argument, **ENDED)
    (job,) = await worker.claim(1)
    await send(worker, line(job, 1, f"mailing {argument}"))
    await worker.end(job, kind, **result)
    return job_id


async def test_a_person_is_found_wherever_jobs_leave_data_behind(api: Api) -> None:
    async with puller_at(api) as worker:
        other = await ended(worker, api, {"to": "zoe@example.com"}, result="sent")
        done = await ended(worker, api, {"to": [{"email": JOSE}]}, result={"sent_to": JOSE.upper()})
        error = {"type": "Refused", "message": JOSE, "traceback": ""}
        failed = await ended(worker, api, 70041, "failure", message=f"Refused: {JOSE} x", error=error)
        waiting = await api.enqueue("later", None, delay=600, tags=[JOSE], headers={"to": JOSE})
        keyed = await api.enqueue("later", None, delay=600, unique={"key": JOSE, "scope": "until_finished"})
        status, event = await api.call(
            "POST", "/api/events", {"event_type": "user.made", "payload": {"email": JOSE}, "subject": JOSE}
        )
        assert status == 202, event

        async def counted() -> bool:
            return bool((await api.call("GET", "/api/failures"))[1]["groups"])

        await wait_until(counted, what="the failure is counted")
        found = await find(api, JOSE, "70041")
    assert fields(found) == {
        done: ["argument.to[0].email", "result.sent_to", "log"],
        failed: ["argument", "errors", "log"],
        waiting: ["headers.to", "tags"],
        keyed: ["unique_key"],
        event["event_id"]: ["payload.email", "subject"],
    }
    assert other not in fields(found)
    assert found["searched"] == {
        "jobs": 5, "log_lines": 3, "events": 1, "failure_groups": 1, "notices": found["searched"]["notices"],
    }  # fmt: skip
    assert found["total_jobs"] == 5
    erasable = {key[1] for key, one in found["found"].items() if one["erasable"]}
    assert erasable == {done, failed}
    assert "backups" in " ".join(found["not_searched"])
    (entry, *_) = (await api.call("GET", "/api/audit"))[1]["entries"]
    assert (entry["action"], entry["after"]) == ("personal_data.search", {"texts": 2, "reason": ""})


async def test_a_failure_group_whose_text_names_a_person_is_found(api: Api) -> None:
    async with puller_at(api) as worker:
        await ended(worker, api, None, "failure", message="Refused by Peña")

        async def found() -> dict[str, Any] | None:
            answer = await find(api, "peña")
            groups = [one for key, one in answer["found"].items() if key[0] == "failure_group"]
            return groups[0] if groups else None

        group = await wait_until(found, what="the group is found")
    assert (group["name"], group["fields"]) == ("work", ["message"])


async def test_a_search_goes_on_over_many_calls_and_misses_nothing(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "SEARCH_WITHIN_S", 0.0)
    monkeypatch.setattr(holdings, "KEYS_PER_STEP", 10)
    jobs = [{"name": "later", "argument": {"n": n, "to": JOSE}, "delay": 600} for n in range(120)]
    status, answer = await api.call("POST", "/api/jobs/bulk", {"jobs": jobs})
    assert status == 201, answer
    found = await find(api)
    assert set(fields(found)) == set(answer["ids"])
    # The store may tell of a job twice, which counts twice.
    assert found["searched"]["jobs"] >= 120


async def test_values_are_erased_and_what_needs_them_says_so(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with puller_at(api) as worker:
        error = {"type": "Refused", "message": JOSE, "traceback": ""}
        job_id = await ended(
            worker, api, {"to": {"email": JOSE}, "yen": 3}, "failure", message=JOSE, error=error
        )
        path = f"/api/jobs/{job_id}/erase"
        wanted = {"fields": ["argument.to.email", "errors"]}
        status, job = await api.call("POST", path, wanted)
        assert status == 200, job
        assert job["argument"] == {"to": {"email": "[erased]"}, "yen": 3}
        assert job["erased"] == ["argument.to.email", "errors"]
        assert [one["message"] for one in job["attempts"]] == ["[erased]"]
        assert fields(await find(api)) == {job_id: ["log"]}
        assert JOSE not in json.dumps((await api.call("GET", f"/api/jobs/{job_id}/result"))[1], default=str)
        status, problem = await api.call("POST", f"/api/jobs/{job_id}/retry")
        assert (status, problem["code"]) == (409, "value_erased")
        assert (await api.call("POST", path, wanted))[0] == 200, "to erase twice does no harm"

        monkeypatch.setattr(erasure_store, "OVER_MS", 0)
        assert (await api.call("DELETE", f"/api/jobs/{job_id}/logs"))[0] == 204
        assert (await page(api, job_id))["entries"] == []
        assert fields(await find(api)) == {}
        audit = (await api.call("GET", "/api/audit"))[1]["entries"]
        acts = [(one["action"], one["target"], one["after"]) for one in audit if one["target"] == job_id]
        assert acts[0] == ("job.erase_log", job_id, None)
        assert acts[-1] == ("job.erase", job_id, wanted)
        assert JOSE not in json.dumps(audit, default=str)


async def test_a_log_to_which_lines_may_still_come_stays(api: Api) -> None:
    async with puller_at(api) as worker:
        job_id = await ended(worker, api, None, result=None)
        status, problem = await api.call("DELETE", f"/api/jobs/{job_id}/logs")
        assert (status, problem["code"]) == (409, "log_open")
        assert len((await page(api, job_id))["entries"]) == 1


async def test_a_job_that_is_not_over_keeps_its_values(api: Api) -> None:
    waiting = await api.enqueue("later", {"to": JOSE}, delay=600)
    for method, path, body in (
        ("POST", f"/api/jobs/{waiting}/erase", {"fields": ["argument.to"]}),
        ("DELETE", f"/api/jobs/{waiting}/logs", None),
    ):
        status, problem = await api.call(method, path, body)
        assert (status, problem["code"]) == (409, "job_scheduled")
        assert "cancel it" in problem["detail"]
    assert (await api.job(waiting))["argument"] == {"to": JOSE}


@for_each(
    "field, rule",
    [
        ("name", "must begin with one of argument, headers, result"),
        ("errors.message", "erased as a whole"),
        ("headers", "headers.KEY"),
        ("argument.[", "not a path"),
        ("argument.from", "the job has no value at argument.from"),
        ("result.a", "the job has no value at result.a"),
        ("headers.x", "the job has no value at headers.x"),
        ("tags", "the job has no value at tags"),
        ("unique_key", "the job has no value at unique_key"),
    ],
)
async def test_a_field_that_cannot_be_erased_is_named_with_its_rule(api: Api, field: str, rule: str) -> None:
    job_id = await api.enqueue("later", {"to": JOSE}, delay=600)
    await api.call("POST", f"/api/jobs/{job_id}/cancel")
    path = f"/api/jobs/{job_id}/erase"
    status, problem = await api.call("POST", path, {"fields": ["argument.to", field]})
    assert status == 422, problem
    (error,) = problem["errors"]
    assert error["loc"][-2:] == ["fields", 1]
    assert rule in error["msg"]
    assert (await api.job(job_id))["argument"] == {"to": JOSE}


async def test_only_the_right_ones_may_search_and_erase(store_server: StoreServer) -> None:
    async with master_on(store_server.url, tokens=TOKENS) as (master, _):
        admin, operator, viewer = (
            Api(master.server.url, token) for token in ("everything", "operator", "viewer")
        )
        job_id = await operator.enqueue("later", {"to": JOSE}, delay=600)
        await operator.call("POST", f"/api/jobs/{job_id}/cancel")
        body = {"texts": [JOSE]}
        assert [
            (await api.call("POST", "/api/personal-data/search", body))[0]
            for api in (admin, operator, viewer)
        ] == [200, 403, 403]
        erase = {"fields": ["argument.to"]}
        path = f"/api/jobs/{job_id}/erase"
        assert (await viewer.call("POST", path, erase))[0] == 403
        assert (await operator.call("POST", path, erase))[0] == 200
        await asyncio.gather(*(api.http.aclose() for api in (admin, operator, viewer)))


async def test_redacted_and_sealed_values_are_not_searched_and_the_answer_says_so(
    store_server: StoreServer,
) -> None:
    async with master_on(store_server.url, redact_paths=["argument.card"]) as (_, api):
        await api.enqueue("later", {"card": JOSE}, delay=600)
        await api.enqueue("later", {"sealed_with": "2026b", "sealed": "AQ", "tenant": JOSE}, delay=600)
        found = await find(api)
    assert list(fields(found).values()) == [["argument.tenant"]]
    assert found["redacted"] == ["argument.card"]
    assert found["unread"]["sealed_values"] == 1


async def test_logs_in_the_archive_are_counted_and_erased_with_the_rest(
    store_server: StoreServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_archiver, "POLL_S", 0.1)
    settings: dict[str, Any] = {"retention_logs_s": 0.0, "log_archive_url": f"file://{tmp_path}"}
    async with master_on(store_server.url, **settings) as (_, api):
        async with puller_at(api) as worker:
            job_id = await ended(worker, api, {"to": JOSE}, result=None)

        async def archived() -> bool:
            return bool((await page(api, job_id))["is_archived"])

        await wait_until(archived, timeout_s=30, what="the log is in the archive")
        found = await find(api)
        assert fields(found) == {job_id: ["argument.to"]}
        assert found["unread"]["archived_logs"] == 1
        monkeypatch.setattr(erasure_store, "OVER_MS", 0)
        assert (await api.call("DELETE", f"/api/jobs/{job_id}/logs"))[0] == 204
        assert (await page(api, job_id))["entries"] == []
        await wait_until(lambda: not [*tmp_path.rglob("*.gz")], timeout_s=30, what="the archive is empty")
        assert (await api.job(job_id))["state"] == "succeeded"


@for_each(
    "body, field",
    [
        ({"texts": []}, "texts"),
        ({"texts": ["ab"]}, "texts"),
        ({"texts": ["x" * 201]}, "texts"),
        ({"texts": ["abc"] * 11}, "texts"),
        ({"texts": ["abc"], "reason": "x" * 501}, "reason"),
        ({"texts": ["abc"], "cursor": "x"}, "cursor"),
        ({"texts": ["abc"], "cursor": "lAkwMDA="}, "cursor"),
    ],
)
async def test_requests_that_make_no_sense_are_refused(api: Api, body: dict[str, Any], field: str) -> None:
    status, problem = await api.call("POST", "/api/personal-data/search", body)
    assert status == 422
    assert field in problem["detail"]
