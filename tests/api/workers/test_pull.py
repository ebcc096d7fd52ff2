"""Workers without an address pull jobs from a master over HTTP."""

import asyncio
import time
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import msgpack
import pytest

from jqmaster.app import Master
from jqmaster.service.workers.polls import AFTER_REFUSAL_S
from tests.api.operations.test_masters import follower_of
from tests.support import real_time
from tests.support.each import for_each
from tests.support.master import MSGPACK, Api, master_on
from tests.support.scripted_worker import ScriptedWorker, puller_at, worker_at
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("M8"), real_time.MASTER]

NOBODY = "0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e"


@pytest.fixture
async def puller(api: Api) -> AsyncIterator[ScriptedWorker]:
    async with puller_at(api) as one:
        yield one


async def hanging(master: Master, worker: ScriptedWorker, **fields: Any) -> "asyncio.Task[tuple[int, Any]]":
    """Open a call that waits at this master for jobs."""
    call = asyncio.create_task(worker.ask(**{"max": 10, "wait": 30, **fields}))

    async def is_open() -> bool:
        found = await master.shard.services.stores.workers.get(worker.id)
        return found is not None and found.polls_until_ms > 0

    await wait_until(is_open, what="the poll hangs")
    return call


async def test_a_job_is_given_as_soon_as_it_is_there(
    api: Api, master: Master, puller: ScriptedWorker
) -> None:
    call = await hanging(master, puller)
    began_s = time.monotonic()
    job_id = await api.enqueue("work", {"a": 1}, headers={"h": "v"}, timeout=7)
    status, answer = await call
    assert time.monotonic() - began_s < 2
    assert (status, answer["drain"]) == (200, False)
    (job,) = answer["jobs"]
    assert (job["job_id"], job["argument"], job["headers"]) == (job_id, {"a": 1}, {"h": "v"})
    assert (job["attempt"], job["phase"], job["name"], job["timeout"]) == (1, "run", "work", 7.0)
    assert job["not_after_ms"] - answer["store_time_ms"] == 500
    puller.running[job_id] = job["token"]
    await puller.end(job)
    assert await api.state(job_id) == "succeeded"


async def test_waiting_jobs_are_given_at_once_and_together(api: Api, puller: ScriptedWorker) -> None:
    job_ids = [await api.enqueue("work", n) for n in range(5)]
    assert [job["job_id"] for job in await puller.claim(3, wait=0)] == job_ids[:3]
    assert [job["job_id"] for job in await puller.claim(10)] == job_ids[3:]


async def test_a_poll_that_has_waited_long_enough_is_given_nothing(puller: ScriptedWorker) -> None:
    began_s = time.monotonic()
    assert await puller.claim(wait=0.4) == []
    assert 0.35 < time.monotonic() - began_s < 5
    assert await puller.claim(wait=0) == []


async def test_a_worker_is_never_given_more_than_it_has_room_for(api: Api) -> None:
    async with puller_at(api, max_jobs=2) as worker:
        for n in range(3):
            await api.enqueue("work", n)
        first = await worker.claim(10)
        assert len(first) == 2
        assert await worker.claim(10, wait=0) == []
        waiting = asyncio.create_task(worker.claim(10))
        await worker.end(first[0])
        assert len(await waiting) == 1


@pytest.mark.req("J4")
async def test_the_smallest_priority_comes_first(api: Api, puller: ScriptedWorker) -> None:
    late, soon = await api.enqueue("work", priority=5), await api.enqueue("work", priority=-5)
    assert [job["job_id"] for job in await puller.claim(1)] == [soon]
    assert [job["job_id"] for job in await puller.claim(1)] == [late]


async def test_the_same_call_again_is_given_the_same_jobs_at_once(api: Api, puller: ScriptedWorker) -> None:
    job_id = await api.enqueue("work", 1)
    (first,) = await puller.claim(poll_id="a-1")
    (second,) = await puller.claim(poll_id="a-1")
    assert first == second
    assert await puller.claim(poll_id="a-2", wait=0) == []
    await puller.end(first)
    assert (await api.job(job_id))["attempt"] == 1


async def test_an_answer_that_nobody_waited_for_is_given_to_the_next_call(
    api: Api, master: Master, puller: ScriptedWorker
) -> None:
    """The worker hung up, and the master noticed it before or after the claim."""
    call = await hanging(master, puller)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    job_id = await api.enqueue("work", 1)
    (job,) = await puller.claim()
    assert job["job_id"] == job_id
    await puller.end(job)
    assert (await api.job(job_id))["attempt"] == 1


@pytest.mark.req("M3")
async def test_jobs_given_and_never_begun_come_back_and_count_nothing(
    api: Api, puller: ScriptedWorker
) -> None:
    job_id = await api.enqueue("work", 1, max_retry=0)
    puller.is_silent = True  # from here on, the test sends the heartbeats itself
    _, beat = await puller.beat()
    (job,) = await puller.claim()
    puller.running.clear()  # the answer was lost, and the call is not repeated

    async def came_back() -> bool:
        nonlocal beat
        _, beat = await puller.beat(as_of_ms=beat["store_time_ms"])
        return await api.state(job_id) == "ready"

    await wait_until(came_back, what="the lease is over")
    (again,) = await puller.claim()
    assert (again["job_id"], again["token"] != job["token"]) == (job_id, True)
    await puller.end(again)
    found = await api.job(job_id)
    assert (found["state"], found["losses"], found["failures"]) == ("succeeded", 0, 0)


async def test_refused_jobs_go_to_another_worker_and_count_nothing(api: Api, puller: ScriptedWorker) -> None:
    job_id = await api.enqueue("work", 1)
    (job,) = await puller.claim()
    puller.running.clear()
    refused = [{"job_id": job_id, "token": job["token"]}]
    async with worker_at(api) as other:
        status, problem = await puller.ask(max=1, refused=refused, withdraw=True, poll_id="none")
        assert (status, problem["code"]) == (409, "no_such_poll"), "it asks for nothing"
        job = await other.next_job()
        assert (job["job_id"], job["attempt"]) == (job_id, 1)
        await other.end(job)


async def test_a_worker_that_refuses_everything_is_given_jobs_a_few_times_a_second(
    api: Api, puller: ScriptedWorker
) -> None:
    job_id = await api.enqueue("work", 1)
    refused: list[dict[str, str]] = []
    given_at_s: list[float] = []
    while len(given_at_s) < 4:
        status, answer = await puller.ask(max=1, wait=5, refused=refused)
        assert status == 200
        refused = [{"job_id": job["job_id"], "token": job["token"]} for job in answer["jobs"]]
        if refused:
            given_at_s.append(time.monotonic())
    gaps_s = [later - earlier for earlier, later in pairwise(given_at_s)]
    assert min(gaps_s) >= AFTER_REFUSAL_S * 0.9
    found = await api.job(job_id)
    assert (found["attempt"], found["failures"]) == (1, 0)


async def test_a_call_is_withdrawn_and_what_it_was_given_goes_back(
    api: Api, master: Master, puller: ScriptedWorker
) -> None:
    call = await hanging(master, puller, poll_id="p")
    status, answer = await puller.ask(max=1, poll_id="p", withdraw=True)
    assert (status, answer["jobs"]) == (200, [])
    assert (await call)[0] == 429
    job_id = await api.enqueue("work", 1)
    (job,) = await puller.claim(poll_id="q")
    puller.running.clear()
    assert (await puller.ask(max=1, poll_id="q", withdraw=True))[0] == 200
    assert await api.state(job_id) == "ready"
    (again,) = await puller.claim(poll_id="r")
    assert (again["attempt"], again["token"] != job["token"]) == (1, True)


async def test_a_begun_job_is_not_withdrawn(api: Api, puller: ScriptedWorker) -> None:
    await api.enqueue("work", 1)
    (job,) = await puller.claim(poll_id="p")
    assert (await puller.beat())[1]["lost"] == []
    assert (await puller.ask(max=1, poll_id="p", withdraw=True))[0] == 200
    await puller.end(job)


@pytest.mark.req("D14")
async def test_a_canceled_job_is_named_by_the_heartbeat(api: Api, puller: ScriptedWorker) -> None:
    job_id = await api.enqueue("work", 1)
    (job,) = await puller.claim()
    assert (await api.call("POST", f"/api/jobs/{job_id}/cancel"))[0] == 200
    _, answer = await puller.beat()
    assert answer["cancel"] == [{"job_id": job_id, "token": job["token"]}]


@pytest.mark.req("D14")
async def test_a_drain_ends_the_call_and_keeps_jobs_away(
    api: Api, master: Master, puller: ScriptedWorker
) -> None:
    call = await hanging(master, puller)
    assert (await api.call("POST", f"/api/workers/{puller.id}/drain"))[0] == 200
    status, answer = await call
    assert (status, answer["jobs"], answer["drain"]) == (200, [], True)
    await api.enqueue("work", 1)
    began_s = time.monotonic()
    assert await puller.claim(wait=0.5) == []
    assert time.monotonic() - began_s > 0.4, "asking in a loop does not spin"
    waiting = await hanging(master, puller)
    assert (await api.call("POST", f"/api/workers/{puller.id}/resume"))[0] == 200
    assert len((await waiting)[1]["jobs"]) == 1


@pytest.mark.req("D12", "D14")
async def test_a_detached_worker_is_told_so(api: Api, master: Master, puller: ScriptedWorker) -> None:
    call = await hanging(master, puller)
    assert (await api.call("POST", f"/api/workers/{puller.id}/detach"))[0] == 200
    status, problem = await call
    assert (status, problem["code"]) == (409, "worker_detached")
    assert (await puller.ask(max=1))[1]["code"] == "worker_detached"


@pytest.mark.req("D10", "D12")
async def test_silence_is_judged_by_heartbeats_alone(store_server: StoreServer) -> None:
    async with (
        master_on(store_server.url, max_missed_pings=2, crowd_least=9) as (master, api),
        puller_at(api) as worker,
    ):
        call = await hanging(master, worker)
        worker.is_silent = True

        async def is_detached() -> bool:
            return (await api.call("GET", f"/api/workers/{worker.id}"))[1]["state"] == "detached"

        await wait_until(is_detached, timeout_s=20, what="it is detached though it asks for jobs")
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        status, answer = await worker.beat(asks_to_continue=True)
        assert (status, answer["detached"]) == (200, False)
        worker.is_silent = False
        await api.enqueue("work", 1)
        assert len(await worker.claim()) == 1


@pytest.mark.req("D11")
async def test_pushed_and_pulling_workers_share_the_work(
    api: Api, master: Master, puller: ScriptedWorker
) -> None:
    async with worker_at(api) as pushed:
        call = await hanging(master, puller)
        _, job = await pushed.api.call(
            "POST", "/api/jobs/bulk", {"jobs": [{"name": "work", "argument": n} for n in range(4)]}
        )
        given = (await call)[1]["jobs"]
        assert given, "an idle worker that asks is not passed by"
        assert len(given) < 4, "nor is one that is pushed to"
        for one in given:
            await puller.end(one)
        for _ in range(4 - len(given)):
            await pushed.end(await pushed.next_job())
        for job_id in job["ids"]:
            assert await api.state(job_id) == "succeeded"


@pytest.mark.req("D5", "D4")
async def test_any_master_serves_it(
    store_server: StoreServer, master: Master, api: Api, puller: ScriptedWorker
) -> None:
    """A follower holds the call; the leader claims for it."""
    async with follower_of(store_server.url, master) as (follower, other):
        assert follower.shard.leader.leadership is None
        call = asyncio.create_task(puller.ask(other, max=10, wait=30, poll_id="p"))

        async def is_open() -> bool:
            found = await master.shard.services.stores.workers.get(puller.id)
            return found is not None and found.polls_until_ms > 0

        await wait_until(is_open)
        began_s = time.monotonic()
        await api.enqueue("work", 1)
        status, answer = await call
        assert time.monotonic() - began_s < 1
        assert (status, len(answer["jobs"])) == (200, 1)
        (again,) = await puller.claim(poll_id="p")
        assert again == answer["jobs"][0], "another master knows what was given"
        await puller.end(again)


async def test_a_master_that_stops_answers_those_that_wait(store_server: StoreServer) -> None:
    async with master_on(store_server.url) as (master, api), puller_at(api) as worker:
        call = await hanging(master, worker)
        began_s = time.monotonic()
        await master.shard.services.polls.stop()
        status, answer = await call
        assert (status, answer["jobs"]) == (200, [])
        assert time.monotonic() - began_s < 2
        assert (await worker.ask(max=1))[1]["code"] == "overloaded"


# --- what people see of them


@pytest.mark.req("D10")
async def test_it_is_listed_without_an_address(api: Api, puller: ScriptedWorker) -> None:
    _, view = await api.call("GET", f"/api/workers/{puller.id}")
    assert (view["role"], view["url"], view["state"], view["breaker"]) == ("pull", None, "fresh", None)


async def test_why_says_that_nobody_asks(api: Api, master: Master, puller: ScriptedWorker) -> None:
    job_id = await api.enqueue("work", 1)

    async def texts() -> str:
        _, answer = await api.call("GET", f"/api/jobs/{job_id}/why")
        return " ".join(verdict["text"] for verdict in answer["verdicts"])

    assert (
        "takes no job now: 1 not asking for jobs (they pull, because they have no address)" in await texts()
    )
    (job,) = await puller.claim()
    assert f"given to worker {puller.id}" in await texts() or f"runs on worker {puller.id}" in await texts()
    await puller.end(job)


# --- refusals


async def test_a_worker_with_an_address_does_not_ask(api: Api) -> None:
    async with worker_at(api) as pushed:
        status, problem = await pushed.ask(max=1, wait=0)
        assert (status, problem["code"]) == (409, "not_pulling")


@pytest.mark.row(68)
@for_each("worker_id", [NOBODY, "nobody", "%00", "x" * 300])
async def test_an_unknown_worker_is_told_to_register(api: Api, worker_id: str) -> None:
    status, problem = await api.call("POST", f"/api/workers/{worker_id}/claim", {"max": 1, "wait": 0})
    assert (status, problem["code"]) == (404, "unknown_worker")


@pytest.mark.row(86)
@for_each(
    ("fields", "loc"),
    [
        ({"wait": 1}, ["max"]),
        ({"max": 0}, ["max"]),
        ({"max": -1}, ["max"]),
        ({"max": 1_001}, ["max"]),
        ({"max": True}, ["max"]),
        ({"max": "1"}, ["max"]),
        ({"max": 1, "wait": -1}, ["wait"]),
        ({"max": 1, "wait": float("nan")}, ["wait"]),
        ({"max": 1, "wait": float("inf")}, ["wait"]),
        ({"max": 1, "wait": "1"}, ["wait"]),
        ({"max": 1, "poll_id": ""}, ["poll_id"]),
        ({"max": 1, "poll_id": "a b"}, ["poll_id"]),
        ({"max": 1, "poll_id": "a" * 65}, ["poll_id"]),
        ({"max": 1, "refused": [{}]}, ["refused", 0, "job_id"]),
        ({"max": 1, "refused": [{"job_id": NOBODY, "token": "x"}]}, ["refused", 0, "token"]),
        ({"max": 1, "refused": [{"job_id": NOBODY, "token": "0" * 32}] * 1_001}, ["refused"]),
        ({"max": 1, "withdraw": True}, []),
        ({"max": 1, "names": []}, ["names"]),
    ],
)
async def test_a_call_for_jobs_without_sense_names_what_is_wrong(
    api: Api, puller: ScriptedWorker, fields: dict[str, Any], loc: list[Any]
) -> None:
    status, problem = await puller.ask(**fields)
    assert (status, loc in [e["loc"] for e in problem["errors"]]) == (422, True), problem


@pytest.mark.row(86)
async def test_nobody_waits_for_longer_than_a_minute(
    api: Api, master: Master, puller: ScriptedWorker
) -> None:
    call = await hanging(master, puller, wait=1e6)
    found = await master.shard.services.stores.workers.get(puller.id)
    assert found is not None
    assert found.polls_until_ms - await master.shard.services.store_time_ms() <= 60_000
    await api.enqueue("work", 1)
    assert len((await call)[1]["jobs"]) == 1


@pytest.mark.row(86)
async def test_one_of_many_calls_of_a_worker_waits(api: Api, master: Master, puller: ScriptedWorker) -> None:
    calls = [asyncio.create_task(puller.ask(max=10, wait=30)) for _ in range(100)]
    ended: set[asyncio.Task[tuple[int, Any]]] = set()
    while len(ended) < 99:
        done, _ = await asyncio.wait(set(calls) - ended, return_when=asyncio.FIRST_COMPLETED, timeout=20)
        assert done
        ended |= done
    assert {(call.result()[0], call.result()[1]["code"]) for call in ended} == {(429, "poll_replaced")}
    await api.enqueue("work", 1)
    (last,) = set(calls) - ended
    assert len((await last)[1]["jobs"]) == 1


async def test_it_needs_scope_work(store_server: StoreServer) -> None:
    tokens = [f"{scope}:{scope * 8:0<32}" for scope in ("push", "work", "read", "operate")]
    async with master_on(store_server.url, tokens=tokens) as (_, api):
        for token in tokens:
            scope, _, secret = token.partition(":")
            response = await api.http.post(
                f"/api/workers/{NOBODY}/claim",
                content=msgpack.packb({"max": 1}),
                headers={**MSGPACK, "Authorization": f"Bearer {secret}"},
            )
            assert response.status_code == (404 if scope == "work" else 403), scope
        response = await api.http.post(
            f"/api/workers/{NOBODY}/claim", content=msgpack.packb({"max": 1}), headers=MSGPACK
        )
        assert response.status_code == 401


async def test_a_withdrawal_needs_no_number_of_jobs(api: Api, master: Master, puller: ScriptedWorker) -> None:
    call = await hanging(master, puller, poll_id="one")
    path = f"/api/workers/{puller.id}/claim"
    status, answer = await api.call("POST", path, {"poll_id": "one", "withdraw": True})
    assert (status, answer["jobs"]) == (200, [])
    await call
    status, problem = await api.call("POST", path, {"wait": 1})
    assert status == 422
    assert problem["errors"] == [{"loc": ["max"], "msg": "required if withdraw is not true"}]
