"""The store is away, stopped, loading, read-only or full: 503 with Retry-After, nothing half-done, and recovery without
help."""

import asyncio
import contextlib
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx
import msgpack
import pytest
from redis.exceptions import ResponseError

from jqmaster.domain.ids import new_id
from jqmaster.errors import StoreUnavailableError
from jqmaster.store.link.client import StoreClient
from tests.api.challenges.test_challenges import awaiting, post
from tests.support import real_time
from tests.support.admin import admin_of
from tests.support.contract import check_answer
from tests.support.master import MSGPACK, Api, master_on
from tests.support.scripted_worker import ending, puller_at, worker_at
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = real_time.MASTER

UNAVAILABLE = ("store_unavailable", "store_full", "outcome_unknown")


@contextlib.contextmanager
def stopped(store: StoreServer) -> Iterator[None]:
    """The store accepts connections and answers nothing."""
    store.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        store.signal(signal.SIGCONT)


async def refused(api: Api, method: str, path: str, value: Any = None) -> str:
    """Return the code of the 503 that answers this call."""
    content = None if value is None else msgpack.packb(value)
    response = await api.http.request(method, path, content=content, headers=MSGPACK)
    problem = msgpack.unpackb(response.content)
    check_answer(method, path, response.status_code, response.headers, problem)
    assert response.status_code == 503, problem
    assert 1 <= int(response.headers["Retry-After"]) <= 60
    assert "Traceback" not in str(problem)
    code: str = problem["code"]
    return code


async def every_call_is_refused(api: Api, known: str) -> None:
    job = {"name": "work", "id": new_id()}
    worker = {"url": None, "names": ["work"], "max_jobs": 1, "secret": "s" * 32}
    claim = {"job_id": new_id(), "token": "0" * 32}
    for method, path, value in (
        ("POST", "/api/jobs", job), ("POST", "/api/jobs/bulk", {"jobs": [job]}), ("GET", "/api/jobs", None),
        ("GET", f"/api/jobs/{known}", None),
        ("GET", f"/api/jobs/{known}/result", None), ("POST", f"/api/jobs/{known}/cancel", None),
        ("POST", f"/api/jobs/{known}/retry", None),
        ("POST", f"/api/jobs/{known}/run", None), ("PATCH", f"/api/jobs/{known}", {"priority": 1}),
        ("DELETE", f"/api/jobs/{known}", None),
        ("POST", "/api/workers", worker), ("GET", "/api/workers", None), ("GET", f"/api/workers/{known}", None),
        ("POST", f"/api/workers/{known}/heartbeat", {"running": [], "free": 1}),
        ("POST", f"/api/workers/{known}/start", {"starts": [claim]}),
        ("POST", f"/api/workers/{known}/results", {"results": [ending(claim)]}),
        ("DELETE", f"/api/workers/{known}", None),
    ):  # fmt: skip
        assert await refused(api, method, path, value) in UNAVAILABLE, (method, path)


async def serves_again(api: Api) -> None:
    """A job gets from enqueue to result without anybody's help."""

    async def ready() -> bool:
        try:
            return (await api.http.get("/readyz")).status_code == 200
        except httpx.HTTPError:
            return False

    await wait_until(ready, timeout_s=30)
    async with worker_at(api, "again") as worker:
        job_id = await api.enqueue("again", keep_result=True)
        job = await worker.next_job(timeout_s=20)
        assert job["job_id"] == job_id
        await worker.end(job)
        await api.call("DELETE", f"/api/workers/{worker.id}")


@pytest.mark.req("M1")
@pytest.mark.row(66)
@pytest.mark.timeout(90)
async def test_a_store_that_died_and_came_back(store: StoreServer) -> None:
    async with master_on(store.url, store_timeout_s=1) as (_, api):
        known = await api.enqueue("later", delay=3600)
        store.kill()
        await every_call_is_refused(api, known)
        status, answer = await api.call("GET", "/readyz")
        assert (status, answer["status"]) == (503, "not_ready")
        assert answer["faults"]
        assert (await api.call("GET", "/healthz"))[0] == 200
        await asyncio.to_thread(store.start)
        await serves_again(api)
        assert await api.state(known) == "scheduled"
        assert (await api.counts())["scheduled"] == 1


@pytest.mark.req("M1")
@pytest.mark.timeout(90)
@pytest.mark.parametrize(("step", "body"), [("cancel", None), ("", {"priority": 3}), ("run", None)])
async def test_a_change_is_not_told_as_refused_when_the_store_dies_before_the_answer(
    store: StoreServer, monkeypatch: pytest.MonkeyPatch, step: str, body: Any
) -> None:
    async with master_on(store.url, store_timeout_s=1) as (master, api):
        job_id = await api.enqueue("later", delay=3600)
        parts = master.shard.services
        # The route of `run` holds the service's method itself, so the store's method is replaced.
        target, name = {
            "run": (parts.stores.operator_actions, "run_now"),
            "": (parts.job_actions, "patch"),
            "cancel": (parts.job_actions, "cancel"),
        }[step]
        done = getattr(target, name)

        async def then_it_dies(*arguments: Any) -> None:
            await done(*arguments)
            await asyncio.to_thread(store.kill)

        with monkeypatch.context() as patch:
            patch.setattr(target, name, then_it_dies)
            method, path = (
                ("POST", f"/api/jobs/{job_id}/{step}") if step else ("PATCH", f"/api/jobs/{job_id}")
            )
            assert await refused(api, method, path, body) == "outcome_unknown"
        await asyncio.to_thread(store.start)
        await serves_again(api)
        job = await api.job(job_id)
        assert (job["state"], job["priority"]) != ("scheduled", 0)


@pytest.mark.req("M1")
@pytest.mark.row(66)
@pytest.mark.timeout(90)
async def test_a_push_into_a_stopped_store_is_unknown_and_safe_to_repeat(store: StoreServer) -> None:
    async with master_on(store.url, store_timeout_s=0.5) as (_, api):
        job = {"name": "work", "id": new_id(), "argument": 1}
        with stopped(store):
            # the code is "unavailable" only where the connection had to be opened first
            assert await refused(api, "POST", "/api/jobs", job) in UNAVAILABLE
            assert await refused(api, "GET", f"/api/jobs/{job['id']}") == "store_unavailable"
        status, answer = await wait_for_answer(lambda: api.call("POST", "/api/jobs", job))
        assert status in (200, 201)
        assert answer == {"id": job["id"]}
        assert (await api.counts())["ready"] == 1
        await serves_again(api)


@pytest.mark.req("M1")
@pytest.mark.row(66)
@pytest.mark.timeout(90)
async def test_many_pushes_through_a_stop_end_as_one_job_each(store: StoreServer) -> None:
    async with master_on(store.url, store_timeout_s=0.5) as (_, api):
        jobs = [{"name": "work", "id": new_id(), "argument": n} for n in range(60)]

        async def push(job: dict[str, Any]) -> int:
            return (await api.call("POST", "/api/jobs", job))[0]

        first = await asyncio.gather(*map(push, jobs[:30]))
        assert set(first) == {201}
        with stopped(store):
            assert set(await asyncio.gather(*map(push, jobs[30:]))) == {503}
        await wait_for_answer(lambda: api.call("POST", "/api/jobs", jobs[0]))
        again = await asyncio.gather(*map(push, jobs))
        assert set(again) <= {200, 201}
        assert (await api.counts())["ready"] == 60


@pytest.mark.row(66)
@pytest.mark.timeout(90)
async def test_a_full_store_refuses_jobs_and_lets_those_that_it_has_end(store: StoreServer) -> None:
    async with master_on(store.url) as (master, api), worker_at(api) as worker:
        job_id = await api.enqueue("work", keep_result=True)
        job = await worker.next_job()
        redis = admin_of(master.shard.services.link.client)
        await redis.config_set("maxmemory", "1mb")
        try:
            counts = await api.counts()
            assert await refused(api, "POST", "/api/jobs", {"name": "work"}) == "store_full"
            bulk = {"jobs": [{"name": "work"}] * 1200}
            assert await refused(api, "POST", "/api/jobs/bulk", bulk) == "store_full"
            assert await api.counts() == counts
            assert (await worker.beat())[0] == 200
            # If this could not be saved, the heartbeat would fail, and with it the leases of all jobs of the worker.
            claim = {
                "job_id": job_id,
                "token": job["token"],
                "progress": {"fraction": 0.5, "message": "half"},
            }
            assert (await worker.beat(running=[{**claim, "checkpoint": b"here"}]))[0] == 200
            assert (await api.job(job_id))["progress"]["fraction"] == 0.5
            await worker.end(job, result=1)
            assert (await api.call("GET", f"/api/jobs/{job_id}/result"))[1]["result"] == 1
            assert (await api.call("DELETE", f"/api/jobs/{job_id}"))[0] == 204
        finally:
            await redis.config_set("maxmemory", "0")
        await serves_again(api)


@pytest.mark.req("M1", "P2")
async def test_a_callback_that_finds_the_store_full_is_taken_when_it_is_repeated(store: StoreServer) -> None:
    async with master_on(store.url) as (master, api), puller_at(api) as worker:
        opened = await awaiting(api, worker)
        redis = admin_of(master.shard.services.link.client)
        await redis.config_set("maxmemory", "1mb")
        try:
            answer = await post(opened, b"done")
            assert (answer.status_code, answer.json()["code"]) == (503, "store_full")
            assert int(answer.headers["retry-after"]) > 0
            assert await api.state(opened["job_id"]) == "awaiting_callback"
        finally:
            await redis.config_set("maxmemory", "0")
        assert (await post(opened, b"done")).status_code == 202
        (job,) = await worker.claim()
        assert (job["job_id"], job["phase"], job["attempt"]) == (opened["job_id"], "callback", 1)
        await worker.end(job)
        await api.until_state(opened["job_id"], "succeeded")


@pytest.mark.req("M1")
async def test_a_master_starts_on_a_full_store_and_drains_it(store: StoreServer) -> None:
    """Otherwise a restart would stop the rest of the service for good."""
    async with master_on(store.url, shard="full") as (_, api):
        job_id = await api.enqueue("work")
    client = StoreClient(store.url)
    await admin_of(client).config_set("maxmemory", "1mb")
    try:
        async with master_on(store.url, shard="full") as (_, api), worker_at(api) as worker:
            job = await worker.next_job()
            assert job["job_id"] == job_id
            await worker.end(job)
            assert await refused(api, "POST", "/api/jobs", {"name": "work"}) == "store_full"
    finally:
        await admin_of(client).config_set("maxmemory", "0")
        await client.close()


@pytest.mark.row(66)
@pytest.mark.timeout(90)
async def test_a_store_that_became_read_only(store: StoreServer) -> None:
    async with master_on(store.url) as (master, api):
        known = await api.enqueue("later", delay=3600)
        redis = admin_of(master.shard.services.link.client)
        await redis.execute_command("REPLICAOF", "127.0.0.1", "1")
        try:
            for path, value in (("/api/jobs", {"name": "work"}), (f"/api/jobs/{known}/cancel", None)):
                assert await refused(api, "POST", path, value) in UNAVAILABLE
        finally:
            await redis.execute_command("REPLICAOF", "NO", "ONE")
        await serves_again(api)
        assert await api.state(known) == "scheduled"


@pytest.mark.row(66)
@pytest.mark.timeout(90)
async def test_a_store_that_is_loading(store: StoreServer) -> None:
    async with master_on(store.url, store_timeout_s=2) as (master, api):
        known = await api.enqueue("later", delay=3600)
        pipeline = admin_of(master.shard.services.link.client).pipeline(transaction=False)
        for n in range(60_000):
            pipeline.set(f"ballast:{n}", "x")
        await pipeline.execute()
        store.kill()
        # Microseconds per command: loading takes at least three seconds, and the server answers after every 1,024
        # commands.
        store._extra = ("--key-load-delay", "50")
        starting = asyncio.create_task(asyncio.to_thread(store.start))

        async def is_loading() -> bool:
            response = await api.http.get(f"/api/jobs/{known}")
            return "loading" in str(response.json().get("detail"))

        await wait_until(is_loading, timeout_s=20)
        assert await refused(api, "POST", "/api/jobs", {"name": "work"}) == "store_unavailable"
        assert not starting.done()
        await starting
        await serves_again(api)
        assert await api.state(known) == "scheduled"
        assert (await api.counts())["ready"] == 0


@pytest.mark.req("J13")
@pytest.mark.timeout(90)
async def test_gates_that_were_closed_are_closed_when_the_store_is_back(store: StoreServer) -> None:
    matcher = {"field": "name", "op": "eq", "value": "work"}
    limits: dict[str, dict[str, Any]] = {
        "full": {"concurrency": 1},
        "paused": {"key": "argument.host", "overrides": [{"value": "a", "paused": True}]},
    }
    async with master_on(store.url, store_timeout_s=1) as (_, api):
        for name, fields in limits.items():
            status, answer = await api.call("PUT", f"/api/constraints/{name}", {"matcher": matcher, **fields})
            assert status == 201, answer
        paused, first, second = [await api.enqueue("work", {"host": host}) for host in "abc"]
        async with worker_at(api, "work") as worker:
            running = await worker.next_job()
            assert running["job_id"] == first
            store.kill()
            await asyncio.to_thread(store.start)
            # Another job gets a worker, so the dispatcher has looked at all waiting jobs.
            await serves_again(api)
            assert worker.offers.empty()
            _, full = await api.call("GET", "/api/constraints/full")
            assert [holder["job_id"] for holder in full["holders"]] == [first]
            await worker.end(running)
            assert (await worker.next_job())["job_id"] == second
            assert await api.state(paused) == "ready"


async def wait_for_answer(call: Callable[[], Awaitable[tuple[int, Any]]]) -> tuple[int, Any]:
    """Return the first answer other than 503."""

    async def answered() -> tuple[int, Any] | None:
        answer = await call()
        return None if answer[0] == 503 else answer

    found: tuple[int, Any] = await wait_until(answered, timeout_s=20)
    return found


@pytest.mark.row(66)
async def test_a_nearly_full_store_is_noticed_before_it_is_full(store: StoreServer) -> None:
    async with master_on(store.url) as (_, api):
        client = StoreClient(store.url, connections=2)
        used = (await admin_of(client).info("memory"))["used_memory"]
        await admin_of(client).config_set("maxmemory", used + 20 * 1024 * 1024)
        await admin_of(client).setrange("ballast", int((used + 20 * 1024 * 1024) * 0.85 - used), "x")

        async def is_refused() -> bool:
            status, answer = await api.call("POST", "/api/jobs", {"name": "work"})
            return status == 503 and answer["code"] == "store_full"

        await wait_until(is_refused, what="new jobs are refused at 80 %")
        await admin_of(client).delete("ballast")
        await client.close()


@pytest.mark.req("M1")
async def test_a_store_that_was_emptied_is_not_served_as_an_empty_queue(store: StoreServer) -> None:
    async with master_on(store.url) as (master, api):
        await api.enqueue("later", delay=3600)
        admin = admin_of(master.shard.services.link.client)
        await admin.flushall()
        # The store is refused from the first moment, before any check has run.
        assert await refused(api, "POST", "/api/jobs", {"name": "work"}) == "store_unfit"
        assert [key async for key in admin.scan_iter("{jq}:job:*")] == []
        await asyncio.wait_for(master.failed.wait(), 10)
        status, answer = await api.call("GET", "/readyz")
        assert (status, answer["status"]) == (503, "not_ready")
        assert "restore the data" in answer["faults"][0]
        assert await refused(api, "POST", "/api/jobs", {"name": "work"}) == "store_unfit"


@pytest.mark.req("M1")
@pytest.mark.timeout(90)
async def test_a_full_store_drains_while_it_takes_nothing(store: StoreServer) -> None:
    async with master_on(store.url) as (master, api), worker_at(api, max_jobs=20) as worker:
        jobs = [await api.enqueue("later", delay=3600) for _ in range(40)]
        admin = admin_of(master.shard.services.link.client)
        await admin.config_set("maxmemory", "1mb")
        for job_id in jobs:
            # `run` needs room: that was a separate decision. It is the only operation that is refused.
            assert await refused(api, "POST", f"/api/jobs/{job_id}/run") in UNAVAILABLE
        await admin.config_set("maxmemory", "0")
        await wait_until(lambda: is_up(api))
        await asyncio.gather(*(api.enqueue("work", n, keep_result=True) for n in range(60)))
        await admin.config_set("maxmemory", "1mb")
        for _ in range(60):
            await worker.end(await worker.next_job(), result=1)
            assert await refused(api, "POST", "/api/jobs", {"name": "work"}) in (
                "store_unavailable",
                "store_full",
            )
        counts = await api.counts()
        assert (counts["ready"], counts["running"], counts["succeeded"]) == (0, 0, 60)
        await admin.config_set("maxmemory", "0")
        await serves_again(api)


@pytest.mark.timeout(90)
async def test_a_store_that_is_busy_with_a_script_is_waited_for_and_the_script_left_alone(
    store: StoreServer,
) -> None:
    async with master_on(store.url, store_timeout_s=1) as (master, api):
        known = await api.enqueue("later", delay=3600)
        admin = admin_of(master.shard.services.link.client)
        await admin.config_set("busy-reply-threshold", 50)
        endless = asyncio.create_task(admin.eval("while true do end", 0))

        async def says_busy() -> bool:
            response = await api.http.get(f"/api/jobs/{known}")
            return "BUSY" in str(response.json().get("detail"))

        await wait_until(says_busy, timeout_s=20)
        for _ in range(5):
            assert await refused(api, "POST", "/api/jobs", {"name": "work"}) in UNAVAILABLE
        assert not endless.done()
        await admin.script_kill()
        with pytest.raises(ResponseError):
            await endless
        await serves_again(api)


@pytest.mark.timeout(90)
async def test_a_store_without_a_connection_to_spare_refuses_and_keeps_its_leader(store: StoreServer) -> None:
    ttl_s = 3.0
    async with master_on(store.url, leader_ttl_s=ttl_s) as (master, api):
        admin = admin_of(master.shard.services.link.client)
        later = await api.enqueue("later", delay=3600)
        now = (await admin.info("clients"))["connected_clients"]
        await admin.config_set("maxclients", now)
        epoch = master.shard.leader.leadership
        answers: set[int] = set()
        began_s = time.monotonic()
        while time.monotonic() - began_s < ttl_s * 1.5:
            # While the store pauses, each request keeps its connection.
            await admin.client_pause(200)
            got = await asyncio.gather(*(api.http.get(f"/api/jobs/{later}") for _ in range(60)))
            answers |= {response.status_code for response in got}
        assert answers == {200, 503}
        assert master.shard.leader.leadership == epoch
        await admin.config_set("maxclients", 1000)
        await serves_again(api)


async def is_up(api: Api) -> bool:
    return (await api.http.get("/readyz")).status_code == 200


@pytest.mark.req("M1")
async def test_a_push_whose_key_could_not_be_marked_is_unknown_and_its_repeat_no_second_job(
    store: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with master_on(store.url) as (master, api):

        async def away(*args: object, **options: object) -> None:
            raise StoreUnavailableError("away", retry_after_s=1)

        monkeypatch.setattr(master.shard.services.stores.new_jobs.idempotency, "mark_accepted", away)
        key = {"Idempotency-Key": "k"}
        status, problem = await api.call("POST", "/api/jobs", {"name": "work"}, **key)
        assert (status, problem["code"]) == (503, "outcome_unknown")
        monkeypatch.undo()
        assert (await api.call("POST", "/api/jobs", {"name": "work"}, **key))[0] == 200
        assert (await api.counts())["ready"] == 1
