"""Actions on many jobs: which jobs they change, how they end, and that they go on under a new leader."""

import asyncio
from typing import Any

import pytest

from jqmaster.domain.ids import new_id
from tests.api.jobs.test_listing import enqueue_many, ids
from tests.support import real_time
from tests.support.admin import admin_of
from tests.support.each import for_each
from tests.support.master import Api, master_on
from tests.support.scripted_worker import worker_at
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = real_time.MASTER


async def begin(api: Api, action: str, **body: Any) -> dict[str, Any]:
    status, answer = await api.call("POST", "/api/jobs/actions", {"action": action, **body})
    assert status == 202, answer
    found: dict[str, Any] = answer
    return found


async def end_of(api: Api, action: dict[str, Any]) -> dict[str, Any]:
    async def over() -> dict[str, Any] | None:
        status, answer = await api.call("GET", f"/api/jobs/actions/{action['id']}")
        assert status == 200, answer
        return answer if answer["state"] != "running" else None

    found: dict[str, Any] = await wait_until(over, what=f"action {action['id']} is over")
    return found


async def done(api: Api, action: str, **body: Any) -> dict[str, Any]:
    return await end_of(api, await begin(api, action, **body))


async def failed_jobs(api: Api, count: int, name: str = "work", message: str = "no") -> list[str]:
    """Make jobs fail for good, each in its own attempt."""
    made = await enqueue_many(api, count, name, max_retry=0)
    async with worker_at(api, name, max_jobs=max(count, 1)) as worker:
        for _ in range(count):
            await worker.end(await worker.next_job(), "failure", should_retry=False, message=message)
    return made


@pytest.mark.req("M9")
async def test_each_action_does_in_bulk_what_its_route_does_to_one(api: Api) -> None:
    jobs = await enqueue_many(api, 450, "mail")
    later = await enqueue_many(api, 3, "later", delay=3600)
    await enqueue_many(api, 2, "other")
    ended = await done(api, "set_priority", filter={"name": "mail"}, priority=7)
    assert (ended["state"], ended["done"], ended["matched"], ended["refused"]) == ("done", 450, 450, 0)
    assert {(await api.job(i))["priority"] for i in jobs[::90]} == {7}
    assert (await done(api, "run", filter={"name": "later"}))["done"] == 3
    assert await ids(api, "name=later&state=ready") == set(later)
    assert (await done(api, "cancel", filter={"name": "mail", "state": "ready"}))["done"] == 450
    assert (await api.counts())["canceled"] == 450
    ended = await done(api, "retry", filter={"name": "mail"})
    assert ended["done"] == 450
    counts = await api.counts()
    assert (counts["canceled"], counts["ready"]) == (0, 455)
    ended = await done(api, "delete", ids=[*jobs[:20], *later, new_id()])
    assert (ended["done"], ended["refused"], ended["ids_count"]) == (23, 1, 24)
    assert (await done(api, "delete", filter={}))["done"] == 432
    assert set((await api.counts()).values()) == {0}


@pytest.mark.req("M9")
async def test_running_jobs_are_canceled_too_and_their_worker_is_told(api: Api) -> None:
    async with worker_at(api, "work") as worker:
        job_id = await api.enqueue("work")
        await worker.next_job()
        assert (await done(api, "cancel", filter={"state": "running"}))["done"] == 1
        assert await api.state(job_id) == "canceled"
        await wait_until(lambda: not worker.orders.empty(), what="the order to stop")


@pytest.mark.req("M9")
async def test_a_dry_run_counts_and_changes_nothing(api: Api) -> None:
    made = await enqueue_many(api, 8, "mail")
    await enqueue_many(api, 2, "other")
    for body, count in (
        ({"action": "cancel", "filter": {"name": "mail"}}, 8),
        ({"action": "cancel", "filter": {}}, 10),
        ({"action": "cancel", "ids": [*made[:3], new_id()]}, 3),
        ({"action": "set_priority", "priority": 0, "filter": {}}, 0),
        ({"action": "retry", "filter": {"name": "mail"}}, 0),
    ):
        status, answer = await api.call("POST", "/api/jobs/actions", {**body, "dry_run": True})
        assert (status, answer["count"], answer["is_exact"]) == (200, count, True), body
        assert len(answer["examples"]) == min(count, 5)
    assert (await api.counts())["ready"] == 10
    assert (await api.call("GET", "/api/jobs/actions"))[1] == {"actions": []}


@pytest.mark.req("M9")
@for_each(
    ("body", "field"),
    [
        ({"action": "cancel"}, None),
        ({"action": "cancel", "filter": {}, "ids": [new_id()]}, None),
        ({"action": "explode", "filter": {}}, "action"),
        ({"action": "cancel", "filter": {"stat": "ready"}}, "filter"),
        ({"action": "retry", "filter": {"state": "running"}}, "filter"),
        ({"action": "cancel", "filter": {"cause": "none"}}, "filter"),
        ({"action": "cancel", "filter": {"created_after": "yesterday"}}, "filter"),
        ({"action": "cancel", "ids": []}, "ids"),
        ({"action": "cancel", "ids": ["x"]}, "ids"),
        ({"action": "cancel", "ids": [new_id()] * 1001}, "ids"),
        ({"action": "set_priority", "filter": {}}, None),
        ({"action": "cancel", "priority": 3, "filter": {}}, None),
        ({"action": "cancel", "filter": {}, "rate_per_s": 0}, "rate_per_s"),
        ({"action": "cancel", "filter": {}, "stop_at_failure_share": 0.5}, None),
        ({"action": "retry", "filter": {}, "stop_at_failure_share": 1.5}, "stop_at_failure_share"),
        ({"action": "cancel", "filter": {}, "at_most": -1}, "at_most"),
    ],
)
async def test_requests_that_make_no_sense_are_refused(
    api: Api, body: dict[str, Any], field: str | None
) -> None:
    status, problem = await api.call("POST", "/api/jobs/actions", body)
    assert status == 422, problem
    if field:
        assert problem["errors"][0]["loc"][0] == field


@pytest.mark.req("M9")
async def test_an_action_on_more_jobs_than_were_counted_is_refused(api: Api) -> None:
    made = await enqueue_many(api, 3, "mail")
    chosen: tuple[dict[str, Any], ...] = ({"filter": {"name": "mail"}}, {"ids": made})
    for body in chosen:
        asked = {"action": "cancel", **body, "at_most": 2}
        status, problem = await api.call("POST", "/api/jobs/actions", asked)
        assert (status, problem["code"]) == (409, "more_than_at_most")
        assert (
            problem["detail"] == "the action would now change 3 jobs, and at_most is 2; nothing was changed"
        )
    assert (await api.counts())["ready"] == 3
    ended = await done(api, "cancel", filter={"name": "mail"}, at_most=3)
    assert (ended["state"], ended["done"], ended["at_most"]) == ("done", 3, 3)
    entries = (await api.call("GET", f"/api/audit?target={ended['id']}"))[1]["entries"]
    assert entries[1]["after"]["at_most"] == 3


@pytest.mark.req("M9", "D16")
async def test_the_audit_log_tells_who_did_what_to_how_many_jobs(api: Api) -> None:
    await enqueue_many(api, 3)
    ended = await done(api, "cancel", filter={"name": "work"})
    entries = (await api.call("GET", f"/api/audit?target={ended['id']}"))[1]["entries"]
    assert [e["action"] for e in entries] == ["jobs.cancel.ended", "jobs.cancel"]
    assert entries[1]["who"] == "local"
    assert entries[1]["after"]["matched"] == 3
    assert (entries[0]["after"]["state"], entries[0]["after"]["done"]) == ("done", 3)
    assert (await api.call("GET", "/api/jobs/actions"))[1] == {"actions": [ended]}


@pytest.mark.req("M9")
async def test_a_slow_action_can_be_ended(api: Api) -> None:
    await enqueue_many(api, 50)
    action = await begin(api, "cancel", filter={}, rate_per_s=0.05)
    first = await wait_until(lambda: _done_some(api, action), what="the first job is done")
    assert first["done"] == 1
    status, _ = await api.call("POST", f"/api/jobs/actions/{action['id']}/cancel")
    assert status == 202
    ended = await end_of(api, action)
    assert (ended["state"], ended["done"], ended["message"]) == ("canceled", 1, "canceled by local")
    status, problem = await api.call("POST", f"/api/jobs/actions/{action['id']}/cancel")
    assert (status, problem["code"]) == (409, "action_over")
    assert (await api.call("POST", f"/api/jobs/actions/{new_id()}/cancel"))[0] == 404
    assert (await api.call("GET", "/api/jobs/actions/x"))[0] == 404


async def _done_some(api: Api, action: dict[str, Any]) -> dict[str, Any] | None:
    answer = (await api.call("GET", f"/api/jobs/actions/{action['id']}"))[1]
    return answer if answer["done"] else None


@pytest.mark.req("M9", "P7")
async def test_a_retry_of_many_stops_by_itself_when_too_many_fail_again(api: Api) -> None:
    await failed_jobs(api, 300)
    action = await begin(api, "retry", filter={"state": "failed"}, stop_at_failure_share=0.5)
    async with worker_at(api, "work", max_jobs=300) as worker:

        async def fail_all() -> None:
            while True:
                await worker.end(await worker.next_job(), "failure", should_retry=False)

        failing = asyncio.create_task(fail_all())
        try:
            ended = await end_of(api, action)
        finally:
            failing.cancel()
            await asyncio.gather(failing, return_exceptions=True)
    assert ended["state"] == "stopped"
    assert 20 <= ended["failed_again"] <= ended["done"] < 300


@pytest.mark.req("M9", "P7")
async def test_a_job_that_fails_again_meanwhile_is_not_retried_twice(api: Api) -> None:
    (job_id,) = await failed_jobs(api, 1)
    async with worker_at(api, "work") as worker:
        action = await begin(api, "retry", filter={"state": "failed"}, rate_per_s=100)
        await worker.end(await worker.next_job(), "failure", should_retry=False)
        assert (await end_of(api, action))["done"] == 1
        assert await api.state(job_id) == "failed"
        assert len((await api.job(job_id))["attempts"]) == 2


@pytest.mark.req("M9")
@pytest.mark.rule("E6.5")
async def test_the_store_keeps_no_trace_of_deleted_jobs(store_server: StoreServer) -> None:
    marks = ["ARGUMENT-7f", "RESULT-7f", "MESSAGE-7f", "ERROR-7f", "TAG-7f", "HEADER-7f"]
    async with master_on(store_server.url) as (master, api), worker_at(api, "work") as worker:
        jobs = {
            "argument": marks[0],
            "tags": [marks[4]],
            "headers": {"x": marks[5]},
            "keep_result": True,
            "retry": {"base_s": 3600.0, "jitter": False},
        }
        made = [await api.enqueue("work", **jobs) for _ in range(3)]
        await worker.end(
            await worker.next_job(), "failure", message=marks[2], error=marks[3], should_retry=False
        )
        await worker.end(await worker.next_job(), result=marks[1])
        await worker.end(await worker.next_job(), "failure", message=marks[2], error=marks[3])
        made.append(await api.enqueue("work", delay=3600, **jobs))
        redis = admin_of(master.shard.services.link.client)
        groups = master.shard.services.link.keys.failure_groups
        await wait_until(lambda: redis.exists(groups), what="the failures are counted")
        assert all([await traces_of(redis, master, mark) for mark in [*marks, *made]])
        assert (await done(api, "delete", filter={"name": "work"}))["done"] == 4
        await worker.beat()
        for trace in [*marks, *made]:
            assert await traces_of(redis, master, trace) == []


async def traces_of(redis: Any, master: Any, text: str) -> list[str]:
    """Return the keys that name the text or hold it, as text or as the bytes of an ID."""
    found = []
    sought = [text.encode()]
    if text.count("-") == 4:
        sought.append(bytes.fromhex(text.replace("-", "")))
    async for key in redis.scan_iter(match=f"{master.shard.services.link.keys.tag}*", count=1000):
        content = key + await contents(redis, key)
        if any(part in content for part in sought):
            found.append(key.decode())
    return found


async def contents(redis: Any, key: bytes) -> bytes:
    match (await redis.type(key)).decode():
        case "string":
            value = await redis.get(key)
        case "list":
            value = await redis.lrange(key, 0, -1)
        case "set":
            value = await redis.smembers(key)
        case "hash":
            value = await redis.hgetall(key)
        case "zset":
            value = await redis.zrange(key, 0, -1)
        case _:
            value = await redis.xrange(key)
    return _flat(value)


def _flat(value: Any) -> bytes:
    match value:
        case bytes():
            return value
        case None:
            return b""
        case dict():
            return b" ".join(_flat(part) for pair in value.items() for part in pair)
        case _:
            return b" ".join(_flat(part) for part in value)
