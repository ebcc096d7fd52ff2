"""Every call of Fireworq's documented API, with its defaults, answers and statuses."""

import json
import uuid
from typing import Any

import pytest

from jqmaster.api.fireworq.routes import CHANGES
from jqmaster.domain.fireworq.numbers import id_of
from tests.support.admin import admin_of
from tests.support.fireworq import FireworqClient, endpoint, gateway_on
from tests.support.master import forget
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("J19")

# Nothing listens there.
NOWHERE = "http://127.0.0.1:9/work"
LATER = {"run_after": 3600}


async def test_queues(store_server: StoreServer) -> None:
    async with gateway_on(store_server.url, fireworq_default_queue="") as client:
        assert await client.get("/queues") == []
        assert await client.get("/queues/stats") == {}
        whole = {"polling_interval": 100, "max_workers": 10}
        assert await client.put("/queue/test_queue1", whole) == {"name": "test_queue1", **whole}
        assert await client.put("/queue/test_queue2", {}) == {
            "name": "test_queue2",
            "polling_interval": 200,
            "max_workers": 20,
        }
        throttled = {"max_workers": 10, "max_dispatches_per_second": 2.5, "max_burst_size": 5}
        shown = {"name": "test_queue3", "polling_interval": 100, **throttled}
        # A name in the body counts for nothing.
        assert await client.put("/queue/test_queue3", {"name": "other", **throttled}) == shown
        assert [queue["name"] for queue in await client.get("/queues")] == [
            "test_queue1",
            "test_queue2",
            "test_queue3",
        ]
        assert await client.get("/queue/test_queue3") == shown
        assert (await client.call("DELETE", "/queue/test_queue3"))[1] == shown
        for method in ("GET", "DELETE"):
            assert (await client.call(method, "/queue/test_queue3"))[0] == 404
        for part in ("node", "stats", "grabbed", "waiting", "deferred", "failed", "job/1", "failed/1"):
            assert (await client.call("GET", f"/queue/test_queue3/{part}"))[0] == 404
        for body in (
            b'"foo"',
            b"",
            b"{",
            b'{"max_workers": "x"}',
            b'{"max_workers": -1}',
            b'{"max_burst_size": 5}',
        ):
            assert (await client.call("PUT", "/queue/bad", body))[0] == 400
        assert (await client.call("PUT", "/queue/b%20d", {}))[0] == 400


async def test_a_queue_is_a_constraint_and_a_target(store_server: StoreServer) -> None:
    async with gateway_on(store_server.url) as client:
        await client.put(
            "/queue/mail", {"max_workers": 7, "max_dispatches_per_second": 2.5, "max_burst_size": 5}
        )
        root = str(client.http.base_url).removesuffix("/fireworq/")
        constraint = (await client.http.get(f"{root}/api/constraints/fireworq:mail")).json()
        assert (constraint["concurrency"], constraint["rate"]) == (7, {"limit": 5, "period_s": 2.0})
        target = (await client.http.get(f"{root}/api/targets/fireworq:mail")).json()
        assert (target["names"], target["max_running"]) == (["fireworq/mail"], 7)
        await client.put("/queue/mail", {})
        constraint = (await client.http.get(f"{root}/api/constraints/fireworq:mail")).json()
        assert (constraint["concurrency"], constraint["rate"]) == (20, None)
        await client.call("DELETE", "/queue/mail")
        for place in ("constraints", "targets"):
            assert (await client.http.get(f"{root}/api/{place}/fireworq:mail")).status_code == 404
        entries = (await client.http.get(f"{root}/api/audit?limit=50")).json()["entries"]
        assert {"fireworq_queue.put", "fireworq_queue.delete"} <= {entry["action"] for entry in entries}


async def test_routings(store_server: StoreServer) -> None:
    async with gateway_on(store_server.url) as client:
        assert await client.get("/routings") == []
        await client.put("/queue/q1", {})
        routing = {"queue_name": "q1", "job_category": "a/b"}
        assert await client.put("/routing/a/b", {"queue_name": "q1"}) == routing
        assert await client.get("/routing/a/b") == routing
        assert await client.get("/routing/a%2Fb") == routing
        assert await client.get("/routings") == [routing]
        assert (await client.call("PUT", "/routing/c", {"queue_name": "nosuch"}))[0] == 404
        for body in (b"{", b"[]", b"{}"):
            assert (await client.call("PUT", "/routing/c", body))[0] == 400
        assert (await client.call("PUT", f"/routing/{'c' * 201}", {"queue_name": "q1"}))[0] == 400
        assert (await client.call("DELETE", "/routing/a/b")) == (200, routing)
        for method in ("GET", "DELETE"):
            assert (await client.call(method, "/routing/a/b"))[0] == 404


async def test_a_category_decides_about_the_queue(store_server: StoreServer) -> None:
    async with gateway_on(store_server.url) as client:
        await client.put("/queue/q1", {})
        await client.put("/routing/mail", {"queue_name": "q1"})
        job = {
            "url": NOWHERE,
            "payload": {"id": 1234},
            "run_after": 300,
            "max_retries": 3,
            "retry_delay": 60,
            "timeout": 30,
        }
        status, answer = await client.call("POST", "/job/mail", job)
        number = answer.pop("id")
        assert (status, answer) == (200, {"queue_name": "q1", "category": "mail", **job})
        assert 0 < number < 2**53
        # The default queue is there without having been made.
        status, answer = await client.call("POST", "/job/other/kind", {"url": NOWHERE, **LATER})
        assert (answer["queue_name"], answer["payload"], answer["max_retries"]) == ("default", None, 0)
        assert answer["id"] > number
        await client.call("DELETE", "/queue/q1")
        assert (await client.call("POST", "/job/mail", job))[0] == 400


async def test_jobs_that_are_refused(store_server: StoreServer) -> None:
    async with gateway_on(store_server.url, fireworq_default_queue="", max_argument_bytes=2_000) as client:
        await client.put("/queue/q", {})
        await client.put("/routing/c", {"queue_name": "q"})
        bodies: list[Any] = [
            b"{", b"", b"[]", {}, {"url": ""}, {"url": "ftp://x/"}, {"url": "nohost"},
            {"url": NOWHERE, "run_after": -1}, {"url": NOWHERE, "max_retries": "3"},
            {"url": NOWHERE, "max_retries": 1_001}, {"url": NOWHERE, "retry_delay": 86_401},
            {"url": NOWHERE, "timeout": 604_801}, b'{"url": "http://x/", "payload": [1,]}',
        ]  # fmt: skip
        for body in bodies:
            assert (await client.call("POST", "/job/c", body))[0] == 400, body
        assert (await client.call("POST", "/job/no_routing", {"url": NOWHERE}))[0] == 400
        assert (await client.call("POST", "/job/c", {"url": NOWHERE, "payload": "x" * 3_000}))[0] == 413
        assert (await client.call("POST", f"/job/{'c' * 201}", {"url": NOWHERE}))[0] == 400
        for method in ("GET", "PUT", "DELETE"):
            assert (await client.call(method, "/job/c"))[0] == 405
        assert (await client.get("/queue/q/waiting"))["jobs"] == []


async def test_jobs_are_listed_by_what_they_wait_for(store_server: StoreServer) -> None:
    async with gateway_on(store_server.url) as client, endpoint() as work:
        work.held.clear()
        await client.put("/queue/q", {"max_workers": 1})
        await client.put("/routing/c", {"queue_name": "q"})
        grabbed = await client.push("c", work.url, payload="5", max_retries=2, retry_delay=7)
        await work.until(1)
        waiting = [await client.push("c", work.url) for _ in range(5)]
        deferred = [await client.push("c", work.url, run_after=after) for after in (300, 100, 200)]
        # Another queue has jobs of its own.
        await client.push("other", work.url, run_after=50)
        job = (await client.get("/queue/q/grabbed"))["jobs"][0]
        assert job == {
            "id": grabbed,
            "category": "c",
            "url": work.url,
            "payload": 5,
            "status": "grabbed",
            "created_at": job["created_at"],
            "next_try": job["next_try"],
            "timeout": 0,
            "fail_count": 0,
            "max_retries": 2,
            "retry_delay": 7,
        }
        assert await numbers(client, "/queue/q/waiting") == waiting[::-1]
        assert await numbers(client, "/queue/q/waiting?order=asc&limit=2") == waiting
        assert await numbers(client, "/queue/q/deferred") == [deferred[0], deferred[2], deferred[1]]
        assert await numbers(client, "/queue/q/deferred?limit=1&order=asc") == [
            deferred[1],
            deferred[2],
            deferred[0],
        ]
        page = await client.get("/queue/q/deferred?limit=x")
        assert (len(page["jobs"]), page["next_cursor"]) == (3, "")
        assert page["jobs"][0]["status"] == "claimed"
        assert await client.get(f"/queue/q/job/{grabbed}") == job
        assert (await client.call("GET", "/queue/q/job/x"))[0] == 400
        for number in (1, 2**53, 10**30):
            assert (await client.call("GET", f"/queue/q/job/{number}"))[0] == 404
        assert (await client.call("GET", f"/queue/default/job/{grabbed}"))[0] == 404
        # A job that waits and one that runs are both gone after a deletion.
        for number in (deferred[0], grabbed):
            status, shown = await client.call("DELETE", f"/queue/q/job/{number}")
            assert (status, shown["id"]) == (200, number)
            assert (await client.call("DELETE", f"/queue/q/job/{number}"))[0] == 404


async def numbers(client: FireworqClient, path: str) -> list[int]:
    """Return the numbers of all jobs of a list, page by page."""
    found, cursor = [], ""
    while True:
        page = await client.get(path + (f"{'&' if '?' in path else '?'}cursor={cursor}" if cursor else ""))
        found += [job["id"] for job in page["jobs"]]
        cursor = page["next_cursor"]
        if not cursor:
            return found


async def test_failed_jobs(store_server: StoreServer) -> None:
    def answers(number: int, body: bytes) -> tuple[int, bytes]:
        return 500, b'{"status": "permanent-failure", "message": "no such user"}'

    async with gateway_on(store_server.url) as client, endpoint(answers) as work:
        first = await client.push("c", work.url, payload={"tag": "test"}, max_retries=3)
        second = await client.push("c", work.url)
        await client.until("/queue/default/failed", lambda page: len(page["failed_jobs"]) == 2)
        page = await client.get("/queue/default/failed?order=created&limit=10")
        assert [job["job_id"] for job in page["failed_jobs"]] == [second, first]
        assert page["next_cursor"] == ""
        failed = next(job for job in page["failed_jobs"] if job["job_id"] == first)
        assert failed == {
            "id": first,
            "job_id": first,
            "category": "c",
            "url": work.url,
            "payload": {"tag": "test"},
            "result": {"status": "permanent-failure", "code": 500, "message": "no such user"},
            "fail_count": 1,
            "failed_at": failed["failed_at"],
            "created_at": failed["created_at"],
        }
        assert len((await client.get("/queue/default/failed?limit=1"))["failed_jobs"]) == 1
        assert await client.get(f"/queue/default/failed/{first}") == failed
        assert (await client.call("GET", "/queue/default/failed/x"))[0] == 400
        assert (await client.call("GET", "/queue/default/failed/1"))[0] == 404
        # A failed job is not among the jobs of the queue.
        assert (await client.call("GET", f"/queue/default/job/{first}"))[0] == 404
        assert (await client.call("DELETE", f"/queue/default/failed/{first}")) == (200, failed)
        assert (await client.call("DELETE", f"/queue/default/failed/{first}"))[0] == 404


async def test_every_changing_call_is_in_the_audit_log(store_server: StoreServer) -> None:
    def answers(number: int, body: bytes) -> tuple[int, bytes]:
        return 200, b'{"status": "permanent-failure"}'

    async with gateway_on(store_server.url) as client, endpoint(answers) as work:
        root = str(client.http.base_url).removesuffix("/fireworq/")
        done: set[tuple[str, str]] = set()

        async def change(
            method: str, path: str, body: Any, *actions: tuple[str, str | None], **parts: Any
        ) -> None:
            before = len(await entries())
            status, answer = await client.call(method, path.format(**parts), body)
            assert status == 200, answer
            assert [(one["action"], one["target"]) for one in (await entries())[: -before or None]] == [
                *actions
            ][::-1]
            done.add((method, path))

        async def entries() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = (await client.http.get(f"{root}/api/audit?limit=100")).json()[
                "entries"
            ]
            return found

        await client.get("/queues")
        own = ("constraint.put", "fireworq:q"), ("target.put", "fireworq:q"), ("fireworq_queue.put", "q")
        await change("PUT", "/queue/{queue}", {}, *own, queue="q")
        await change(
            "PUT", "/routing/{category}", {"queue_name": "q"}, ("fireworq_routing.put", "c"), category="c"
        )
        failed = await client.push("c", work.url)
        await client.until("/queue/q/failed", lambda page: page["failed_jobs"] != [])
        work.held.clear()
        running = await client.push("c", work.url)
        await client.until("/queue/q/grabbed", lambda page: page["jobs"] != [])
        waiting = await client.push("c", work.url, run_after=3600)
        job_path = "/queue/{queue}/job/{id}"
        await change("DELETE", job_path, None, ("job.delete", id_of(waiting)), queue="q", id=waiting)
        ended = ("job.cancel", id_of(running)), ("job.delete", id_of(running))
        await change("DELETE", job_path, None, *ended, queue="q", id=running)
        path = "/queue/{queue}/failed/{id}"
        await change("DELETE", path, None, ("job.delete", id_of(failed)), queue="q", id=failed)
        await change("DELETE", "/routing/{category}", None, ("fireworq_routing.delete", "c"), category="c")
        gone = (
            ("target.delete", "fireworq:q"),
            ("constraint.delete", "fireworq:q"),
            ("fireworq_queue.delete", "q"),
        )
        await change("DELETE", "/queue/{queue}", None, *gone, queue="q")
        assert done == set(CHANGES), "a new call that changes something needs its entry, and its line here"


async def test_a_damaged_queue_leaves_the_others_alone(store_server: StoreServer) -> None:
    async with gateway_on(store_server.url) as client:
        for queue in ("good", "bad", "worse"):
            await client.put(f"/queue/{queue}", {"max_workers": 3})
            await client.put(f"/routing/{queue}", {"queue_name": queue})
        store = admin_of(client.store.client)
        for queue in ("bad", "worse", "default"):
            await store.hset(client.store.keys.fireworq_queues, queue, b"\xc1")
        await client.until("/queues", lambda queues: [queue["name"] for queue in queues] == ["good"])
        assert list(await client.get("/queues/stats")) == ["good"]
        assert (await client.get("/queue/good/waiting"))["jobs"] == []
        # Its limits stand in its constraint, so its jobs go on.
        for category in ("good", "bad", "unrouted"):
            await client.push(category, NOWHERE, **LATER)
        status, answer = await client.call("GET", "/queue/bad")
        assert status == 500
        assert "put it again" in answer
        await client.put("/queue/bad", {"max_workers": 4})
        assert len((await client.get("/queue/bad/deferred"))["jobs"]) == 1
        assert (await client.call("DELETE", "/queue/worse"))[0] == 200
        assert (await client.call("DELETE", "/queue/worse"))[0] == 404


async def test_hosts_of_the_settings_reach_queues_that_are_there(store_server: StoreServer) -> None:
    shard = f"m{uuid.uuid4().hex[:10]}"
    async with gateway_on(store_server.url, shard=shard) as client:
        await client.put("/queue/q", {})
        root = str(client.http.base_url).removesuffix("/fireworq/")
        target = (await client.http.get(f"{root}/api/targets/fireworq:q")).json()
        assert target["allow_hosts"] == ["*"]
        kept = {"headers": {"X-Key": "secret"}, "description": "changed by hand"}
        body = {**{k: target[k] for k in ("names", "url", "body", "allow_hosts")}, **kept}
        assert (await client.http.put(f"{root}/api/targets/fireworq:q", json=body)).status_code == 200
    settings = {"shard": shard, "fireworq_hosts": "*.run.example"}
    async with gateway_on(store_server.url, **settings) as client, endpoint() as work:
        root = str(client.http.base_url).removesuffix("/fireworq/")
        found: dict[str, Any] = {}

        async def is_followed() -> bool:
            found.update((await client.http.get(f"{root}/api/targets/fireworq:q")).json())
            return bool(found["allow_hosts"] == ["*.run.example"])

        await wait_until(is_followed)
        # Nothing else of the target changes.
        assert (found["headers"], found["description"]) == ({"X-Key": "…"}, "changed by hand")
        await client.put("/routing/c", {"queue_name": "q"})
        await client.push("c", work.url)
        await client.until("/queue/q/failed", lambda page: page["failed_jobs"] != [])
        assert work.asked == []
    await forget(store_server.url, shard)


async def test_figures_and_the_node(store_server: StoreServer) -> None:
    def answers(number: int, body: bytes) -> tuple[int, bytes]:
        status = json.loads(body)
        return 200, json.dumps({"status": status}).encode()

    async with gateway_on(store_server.url) as client, endpoint(answers) as work:
        for payload in ('"success"', '"success"', '"permanent-failure"'):
            await client.push("c", work.url, payload=payload)
        stats = await client.until("/queue/default/stats", lambda now: now["total_completes"] == 3)
        assert stats.keys() == {
            "total_pushes", "total_pops", "total_successes", "total_failures", "total_permanent_failures",
            "total_completes", "total_elapsed", "pushes_per_second", "pops_per_second", "outstanding_jobs",
            "total_workers", "idle_workers", "active_nodes",
        }  # fmt: skip
        assert (stats["total_pushes"], stats["total_successes"], stats["total_permanent_failures"]) == (
            3,
            2,
            1,
        )
        assert (stats["total_workers"], stats["idle_workers"], stats["active_nodes"]) == (20, 20, 1)
        assert (await client.get("/queues/stats"))["default"]["total_pushes"] == 3
        node = await client.get("/queue/default/node")
        assert set(node) == {"id", "host"}


async def test_the_service_tells_its_version_and_settings(store_server: StoreServer) -> None:
    async with gateway_on(store_server.url) as client:
        for path in ("", "/", "/version"):
            status, text = await client.call("GET", path)
            assert (status, text.startswith("jqmaster ")) == (200, True)
        settings = await client.get("/settings")
        assert settings["queue_default"] == "default"
        assert settings["queue_default_max_workers"] == "20"
        assert all(isinstance(value, str) for value in settings.values())
        assert (await client.call("GET", "/nosuch"))[0] == 404
