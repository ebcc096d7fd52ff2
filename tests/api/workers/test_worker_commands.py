"""Operators' commands to workers, and how a silent worker comes back."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from jqmaster.app import Master
from tests.support import real_time
from tests.support.each import for_each
from tests.support.master import Api, master_on
from tests.support.scripted_worker import ScriptedWorker, worker_at
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = real_time.MASTER

NOBODY = "0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e"
ORDERS = ("drain", "resume", "detach")


@pytest.fixture
async def worker(api: Api) -> AsyncIterator[ScriptedWorker]:
    async with worker_at(api) as one:
        yield one


async def order(api: Api, worker_id: str, name: str) -> tuple[int, Any]:
    return await api.call("POST", f"/api/workers/{worker_id}/{name}")


async def next_command(worker: ScriptedWorker) -> tuple[str, int]:
    async with asyncio.timeout(5):
        return await worker.commands.get()


def epoch_of(master: Master) -> int:
    assert master.shard.leader.leadership
    return master.shard.leader.leadership.number


@pytest.mark.req("D11", "D14")
async def test_a_worker_is_drained_and_resumed_by_push_and_by_heartbeat(
    api: Api, worker: ScriptedWorker, master: Master
) -> None:
    await api.enqueue("work")
    first = await worker.next_job()
    status, view = await order(api, worker.id, "drain")
    assert (status, view["state"], [job["job_id"] for job in view["jobs"]]) == (
        200,
        "draining",
        [first["job_id"]],
    )
    assert await next_command(worker) == ("drain", epoch_of(master))
    assert (await worker.beat())[1]["drain"] is True
    waiting = await api.enqueue("work")
    await worker.end(first)
    other = await api.enqueue("work")
    assert [await api.state(job_id) for job_id in (waiting, other)] == ["ready", "ready"]
    assert worker.offers.empty()
    status, view = await order(api, worker.id, "resume")
    assert (status, view["state"]) == (200, "fresh")
    assert await next_command(worker) == ("resume", epoch_of(master))
    assert (await worker.beat())[1]["drain"] is False
    assert {(await worker.next_job())["job_id"] for _ in range(2)} == {waiting, other}


@pytest.mark.req("D12", "D14")
async def test_a_detached_worker_keeps_the_rest_of_its_lease_and_no_more(
    api: Api, worker: ScriptedWorker, master: Master
) -> None:
    job_id = await api.enqueue("work", max_retry=3)
    job = await worker.next_job()
    await worker.beat()
    status, view = await order(api, worker.id, "detach")
    assert (status, view["state"], view["detached_by"]) == (200, "detached", "operator")
    assert await next_command(worker) == ("detach", epoch_of(master))
    status, answer = await worker.beat(asks_to_continue=True)
    assert (status, answer["detached"], answer["lost"]) == (200, True, [])
    assert answer["lease_until_ms"] == answer["store_time_ms"], "nothing was renewed"
    async with worker_at(api) as other:
        assert (await other.next_job())["job_id"] == job_id
        assert (await worker.beat())[1]["lost"] == [{"job_id": job_id, "token": job["token"]}]
        view = await api.job(job_id)
        assert "detached by people" in view["attempts"][0]["message"]


@pytest.mark.req("D16")
async def test_each_order_is_in_the_audit_log_once(api: Api, worker: ScriptedWorker) -> None:
    for name in ("drain", "drain", "resume", "detach", "detach"):
        assert (await order(api, worker.id, name))[0] == 200
    _, page = await api.call("GET", f"/api/audit?target={worker.id}")
    detached, resumed, drained = page["entries"]
    assert [e["action"] for e in (drained, resumed, detached)] == [
        "worker.drain",
        "worker.resume",
        "worker.detach",
    ]
    assert {e["who"] for e in page["entries"]} == {"local"}
    assert (drained["before"]["draining"], drained["after"]["draining"]) == (False, True)
    assert drained["before"]["url"] == worker.url
    assert (detached["before"]["detached_by"], detached["after"]["detached_by"]) == (None, "operator")


@pytest.mark.parametrize("name", ORDERS)
async def test_an_order_to_nobody(api: Api, name: str) -> None:
    for worker_id in (NOBODY, "no-id"):
        status, problem = await order(api, worker_id, name)
        assert (status, problem["code"]) == (404, "unknown_worker")


@pytest.mark.parametrize("name", ["drain", "resume"])
async def test_a_detached_worker_takes_no_other_command(api: Api, worker: ScriptedWorker, name: str) -> None:
    await order(api, worker.id, "detach")
    status, problem = await order(api, worker.id, name)
    assert (status, problem["code"]) == (409, "worker_detached")


async def test_an_order_holds_although_the_worker_cannot_be_reached(api: Api) -> None:
    async with worker_at(api) as gone:
        pass
    assert (await order(api, gone.id, "drain"))[0] == 200
    assert (await gone.beat())[1]["drain"] is True


@pytest.mark.req("D18")
async def test_orders_need_the_scope_operate(store_server: StoreServer) -> None:
    tokens = ["work+push+read:worker-secret", "operate:operator-secret"]
    async with master_on(store_server.url, tokens=tokens) as (master, _):
        weak, strong = Api(master.server.url, "worker-secret"), Api(master.server.url, "operator-secret")
        try:
            for name in ORDERS:
                assert (await order(weak, NOBODY, name))[0] == 403
                assert (await order(strong, NOBODY, name))[0] == 404
        finally:
            await weak.http.aclose()
            await strong.http.aclose()


@pytest.mark.req("D12", "D13")
async def test_a_silent_worker_is_detached_and_goes_on_when_it_asks(store_server: StoreServer) -> None:
    """Its lease is long, so that silence alone does not end it; meanwhile nobody else gets its job."""
    settings = {"worker_stale_s": 0.5, "max_missed_pings": 1, "ping_timeout_s": 2.0}
    async with (
        master_on(store_server.url, **settings) as (master, api),
        worker_at(api) as worker,
        worker_at(api) as other,
    ):
        other.reject = "busy"
        # The grace after the election passes. It has the length of a short lease, but the job gets a long one.
        await wait_until(
            lambda: master.shard.duties is not None and master.shard.duties.grace.is_over, timeout_s=20
        )
        assert (await api.call("PATCH", "/api/settings", {"lease_ms": 120_000}))[0] == 200
        job_id = await api.enqueue("work")
        job = await worker.next_job()
        await worker.beat()

        async def state() -> str:
            _, view = await api.call("GET", f"/api/workers/{worker.id}")
            found: str = view["state"]
            return found

        worker.is_silent = worker.is_deaf = True

        async def detached() -> bool:
            return await state() == "detached"

        await wait_until(detached)
        await api.enqueue("work")
        status, answer = await worker.beat()
        assert (status, answer["detached"], answer["lost"]) == (200, True, [])
        assert answer["lease_until_ms"] > answer["store_time_ms"], "while it asks, nobody takes its jobs"
        status, answer = await worker.beat(asks_to_continue=True)
        assert (answer["detached"], answer["lost"]) == (False, [])
        worker.is_silent = worker.is_deaf = False
        assert await state() == "fresh"
        assert (await worker.next_job())["job_id"] != job_id, "it gets jobs again"
        await worker.end(job)
        view = await api.job(job_id)
        assert [(a["attempt"], a["outcome"]) for a in view["attempts"]] == [(1, "success")]
        (event,) = view["events"]
        assert (event["event"], event["attempt"], event["worker_id"]) == ("continued", 1, worker.id)
        assert "silent since" in event["message"]


@pytest.mark.req("D10", "M6")
async def test_a_restart_on_the_same_address_frees_the_jobs_at_once(store_server: StoreServer) -> None:
    """The jobs are freed long before the lease of 30 s ends, and during the grace after the election."""
    async with master_on(store_server.url, lease_ms=30_000) as (_, api), worker_at(api) as worker:
        worker.id = (await worker.register(place="this machine"))[1]["worker_id"]
        job_id = await api.enqueue("work")
        first = await worker.next_job()
        await worker.beat()
        worker.running.clear()  # the process ended, and its supervisor starts another
        status, answer = await worker.register(place="this machine")
        assert status == 201
        assert answer["worker_id"] != worker.id
        former, worker.id = worker.id, answer["worker_id"]
        again = await worker.next_job(timeout_s=5)
        assert (again["job_id"], again["attempt"]) == (job_id, 2)
        assert again["token"] != first["token"]
        await worker.end(again)
        view = await api.job(job_id)
        assert [(a["worker_id"], a["outcome"]) for a in view["attempts"]] == [
            (former, "lost"),
            (worker.id, "success"),
        ]


@pytest.mark.req("D14", "J10")
async def test_a_worker_that_is_drained_while_an_offer_is_under_way_refuses_it_and_another_runs_it(
    store_server: StoreServer,
) -> None:
    async with (
        master_on(store_server.url, offer_ms=15_000, push_timeout_s=20, lease_ms=30_000) as (_, api),
        worker_at(api) as drained,
    ):
        drained.may_answer.clear()
        job_id = await api.enqueue("work", max_retry=0)
        await wait_until(lambda: drained.bodies)
        assert (await order(api, drained.id, "drain"))[0] == 200
        assert (await next_command(drained))[0] == "drain"
        drained.reject = "draining"
        drained.may_answer.set()
        async with worker_at(api) as other:
            job = await other.next_job()
            assert job["job_id"] == job_id
            await other.end(job)
        found = await api.job(job_id)
        assert (found["state"], found["attempt"], found["failures"], found["losses"]) == (
            "succeeded",
            1,
            0,
            0,
        )
        assert len(drained.bodies) == 1


# --- slots


async def set_slots(api: Api, worker_id: str, **fields: Any) -> tuple[int, Any]:
    return await api.call("POST", f"/api/workers/{worker_id}/slots", fields)


@pytest.mark.req("D24")
async def test_slots_are_set_at_once_and_lowering_them_stops_nothing(
    api: Api, worker: ScriptedWorker
) -> None:
    own = worker.max_jobs
    status, view = await set_slots(api, worker.id, max_jobs=2)
    assert (status, view["max_jobs"], view["own_max_jobs"]) == (200, 2, own)
    ids = [await api.enqueue("work") for _ in range(4)]
    jobs = [await worker.next_job() for _ in range(2)]
    assert (await worker.beat())[1]["max_jobs"] == 2
    status, view = await set_slots(api, worker.id, max_jobs=1)
    assert (status, view["max_jobs"], view["busy"]) == (200, 1, 2)
    await worker.end(jobs[0])
    assert worker.offers.empty()
    await worker.end(jobs[1])
    third = await worker.next_job()
    assert worker.offers.empty()
    status, view = await set_slots(api, worker.id, max_jobs=None)
    assert view["max_jobs"] == own
    fourth = await worker.next_job()
    assert {one["job_id"] for one in (*jobs, third, fourth)} == set(ids)


@pytest.mark.req("D24", "D16")
async def test_kept_slots_are_shown_removed_and_audited(api: Api, worker: ScriptedWorker) -> None:
    assert (await set_slots(api, worker.id, max_jobs=3, keep=True))[0] == 200
    status, answer = await api.call("GET", "/api/slot-rules")
    (rule,) = answer["slot_rules"]
    assert (status, rule["node_id"], rule["labels"], rule["max_jobs"]) == (200, "node-1", {"zone": "b"}, 3)
    status, again = await worker.register(url=None)
    assert status == 201
    _, view = await api.call("GET", f"/api/workers/{again['worker_id']}")
    assert (view["max_jobs"], view["own_max_jobs"]) == (3, worker.max_jobs)
    assert (await api.call("DELETE", f"/api/slot-rules/{rule['id']}"))[0] == 204
    status, problem = await api.call("DELETE", f"/api/slot-rules/{rule['id']}")
    assert (status, problem["code"]) == (404, "unknown_slot_rule")
    assert (await api.call("GET", "/api/slot-rules"))[1] == {"slot_rules": []}
    _, log = await api.call("GET", "/api/audit?limit=10")
    removed, kept = [entry for entry in log["entries"] if "slot" in entry["action"]]
    assert (removed["action"], removed["before"]["max_jobs"], removed["after"]) == (
        "slot_rule.delete",
        3,
        None,
    )
    assert (kept["action"], kept["after"]["max_jobs"], kept["after"]["kept_as"]) == (
        "worker.slots",
        3,
        rule["id"],
    )


@for_each(
    ("fields", "loc"),
    [
        ({"max_jobs": 0}, ["max_jobs"]),
        ({"max_jobs": 1001}, ["max_jobs"]),
        ({}, ["max_jobs"]),
        ({"max_jobs": None, "keep": True}, []),
        ({"max_jobs": 1, "forever": True}, ["forever"]),
    ],
)
async def test_slots_that_make_no_sense_are_refused(
    api: Api, worker: ScriptedWorker, fields: dict[str, Any], loc: list[str]
) -> None:
    status, problem = await set_slots(api, worker.id, **fields)
    assert (status, problem["errors"][0]["loc"]) == (422, loc)


async def test_slots_of_workers_that_are_not_there(api: Api, worker: ScriptedWorker) -> None:
    assert (await set_slots(api, NOBODY, max_jobs=1))[0] == 404
    await order(api, worker.id, "detach")
    status, problem = await set_slots(api, worker.id, max_jobs=1)
    assert (status, problem["code"]) == (409, "worker_detached")


@pytest.mark.req("D13", "D15")
async def test_the_questions_of_a_detached_worker_are_settings(api: Api, worker: ScriptedWorker) -> None:
    answer = (await worker.beat())[1]
    assert (answer["continue_questions"], answer["continue_pause_s"]) == (3, 0.3)
    status, _ = await api.call("PATCH", "/api/settings", {"continue_questions": 7, "continue_pause_s": 1.5})
    assert status == 200
    answer = (await worker.beat())[1]
    assert (answer["continue_questions"], answer["continue_pause_s"]) == (7, 1.5)
    status, problem = await api.call("PATCH", "/api/settings", {"breaker_first_open_s": 99})
    assert (status, "breaker_longest_open_s" in str(problem["errors"])) == (422, True)
