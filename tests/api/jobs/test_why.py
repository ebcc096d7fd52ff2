"""GET /api/jobs/{id}/why on a real master with real workers; each answer is checked against the contract."""

import contextlib
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Any

import pytest

from jqmaster.app import Master, running_master
from jqmaster.config import Settings
from jqmaster.service.jobs.backlog_why import MAX_EXPLAINED, BacklogWhy
from jqmaster.store.link.pool import StorePool
from tests.support import real_time
from tests.support.constraints import EVERY_JOB
from tests.support.each import for_each
from tests.support.master import QUICK, Api, master_on
from tests.support.scripted_worker import ScriptedWorker, worker_at
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("J13"), real_time.MASTER]

NOBODY = "0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e"


async def why(api: Api, job_id: str) -> dict[str, Any]:
    status, answer = await api.call("GET", f"/api/jobs/{job_id}/why")
    assert status == 200, answer
    return answer


@contextlib.asynccontextmanager
async def follower_of(store_server: StoreServer, master: Master) -> AsyncIterator[Api]:
    """A client of a second master on the same shard, which is not the leader."""
    settings = Settings(**{**QUICK, "redis_url": store_server.url, "shard": master.settings.shard})
    async with running_master(settings) as other:
        api = Api(other.server.url)
        try:
            yield api
        finally:
            await api.http.aclose()


async def until_codes(api: Api, job_id: str, *codes: str) -> dict[str, Any]:
    async def reached() -> dict[str, Any] | None:
        answer = await why(api, job_id)
        return answer if [verdict["code"] for verdict in answer["verdicts"]] == list(codes) else None

    return await wait_until(reached, what=f"{codes} for {job_id}")


async def limit(api: Api, name: str, **fields: object) -> None:
    matcher = {"field": "name", "op": "exists"}
    status, answer = await api.call("PUT", f"/api/constraints/{name}", {"matcher": matcher, **fields})
    assert status in (200, 201), answer


@pytest.mark.row(68)
@for_each("job_id", [NOBODY, "x", "0198c3f4", "%00"])
async def test_an_unknown_job_is_404(api: Api, job_id: str) -> None:
    status, problem = await api.call("GET", f"/api/jobs/{job_id}/why")
    assert (status, problem["code"]) == (404, "unknown_job")


async def test_the_query_is_empty(api: Api) -> None:
    job = await api.enqueue("work", delay=60)
    assert (await api.call("GET", f"/api/jobs/{job}/why?wait=1"))[0] == 422


async def test_a_scheduled_job_without_a_worker(api: Api) -> None:
    job = await api.enqueue("work", delay=60)
    answer = await why(api, job)
    assert answer["state"] == "scheduled"
    first, second = answer["verdicts"]
    assert (first["code"], second["code"]) == ("scheduled", "no_worker")
    assert 50 < first["in_s"] <= 60
    assert second["text"] == "No worker is registered for jobs named work."
    assert (second["stale"], second["detached"], second["last_seen_at"]) == (0, 0, None)
    await api.call("POST", f"/api/jobs/{job}/run")
    assert [v["code"] for v in (await why(api, job))["verdicts"]] == ["no_worker"]
    await api.call("POST", f"/api/jobs/{job}/cancel")
    (over,) = (await why(api, job))["verdicts"]
    assert (over["code"], over["state"], over["cause"]) == ("finished", "canceled", "canceled")


async def test_a_full_constraint_names_its_holder_until_it_ends(api: Api) -> None:
    await limit(api, "per-host", key="argument.host", concurrency=1)
    async with worker_at(api) as worker:
        holder = await api.enqueue("work", {"host": "example.org"})
        await api.until_state(holder, "running")
        (running,) = (await until_codes(api, holder, "running"))["verdicts"]
        assert (running["worker_id"], running["attempt"]) == (worker.id, 1)
        blocked = await api.enqueue("work", {"host": "example.org"})
        answer = await until_codes(api, blocked, "constraint")
        (verdict,) = answer["verdicts"]
        assert (verdict["name"], verdict["kind"], verdict["kinds"]) == (
            "per-host", "concurrency", ["concurrency"]
        )  # fmt: skip
        assert (verdict["key"], verdict["key_value"]) == ("argument.host", "example.org")
        assert (verdict["limit"], verdict["usage"], verdict["opens_at"]) == (1, 1, None)
        ((held),) = verdict["holders"]
        assert (held["job_id"], held["worker_id"]) == (holder, worker.id)
        (use,) = answer["constraints"]
        assert (use["passes"], use["running"], use["concurrency"], use["mode"]) == (False, 1, 1, "enforce")
        await api.call("POST", f"/api/jobs/{holder}/cancel")
        await api.until_state(blocked, "running")


async def test_a_rate_tells_when_it_opens_and_a_pause_does_not(api: Api) -> None:
    await limit(api, "rate", rate={"limit": 1, "period_s": 600})
    async with worker_at(api):
        first = await api.enqueue("work")
        await api.until_state(first, "running")
        job = await api.enqueue("work")
        (verdict,) = (await until_codes(api, job, "constraint"))["verdicts"]
        assert (verdict["kind"], verdict["limit"], verdict["usage"], verdict["period_s"]) == (
            "rate",
            1,
            1,
            600.0,
        )
        assert verdict["opens_at"]
        await limit(api, "pause", paused=True)
        pause, rate = (await until_codes(api, job, "constraint", "constraint"))["verdicts"]
        assert (pause["name"], pause["kind"], pause["limit"], pause["opens_at"]) == (
            "pause",
            "paused",
            None,
            None,
        )
        assert rate["name"] == "rate"
        uses = {use["name"]: use for use in (await why(api, job))["constraints"]}
        assert uses["rate"]["rate"] == {"limit": 1, "period_s": 600.0}
        assert (uses["rate"]["starts"], uses["pause"]["paused"]) == (1, True)


async def test_a_pause_tells_its_author_its_reason_and_its_end(api: Api) -> None:
    job = await api.enqueue("mail.send")
    timed = {"job_name": "mail.send", "reason": "provider is down", "duration_s": 1800}
    status, made = await api.call("POST", "/api/pauses", timed)
    assert status == 201
    async with worker_at(api, "mail.send"):
        answer = await until_codes(api, job, "constraint")
    ((verdict,), (use,)) = (answer["verdicts"], answer["constraints"])
    assert (verdict["opens_at"], verdict["reason"]) == (made["expires_at"], "provider is down")
    assert use["opens_at"] == made["expires_at"]
    assert verdict["paused_by"] == made["created_by"]
    assert verdict["text"].startswith(f"Paused by {made['created_by']} until {made['expires_at']}, 29 min ")
    assert '("provider is down")' in verdict["text"]
    await api.call("DELETE", f"/api/constraints/{made['name']}")
    _, lasting = await api.call("POST", "/api/pauses", {"job_name": "mail.send"})
    (verdict,) = (await until_codes(api, job, "constraint", "no_worker"))["verdicts"][:1]
    assert (verdict["opens_at"], verdict["reason"]) == (None, None)
    assert verdict["text"].endswith(f"until somebody resumes it with `jqmaster resume {lasting['name']}`.")


async def test_a_shadow_constraint_is_shown_and_lets_pass(api: Api) -> None:
    await limit(api, "shadow", paused=True, mode="shadow")
    job = await api.enqueue("work")
    answer = await until_codes(api, job, "no_worker")
    (use,) = answer["constraints"]
    assert (use["mode"], use["passes"], use["kinds"]) == ("shadow", False, ["paused"])


async def test_full_workers_and_jobs_ahead(api: Api) -> None:
    async with ScriptedWorker(api, ("work", "mail"), 1).serving() as worker:
        status, _ = await worker.register()
        assert status == 201
        running = await api.enqueue("work")
        await api.until_state(running, "running")
        mail = await api.enqueue("mail", priority=-1)
        (full, following) = (await until_codes(api, mail, "workers_unavailable", "next"))["verdicts"]
        assert (full["workers"], full["full"], full["busy"], full["max_jobs"]) == (1, 1, 1, 1)
        assert following["text"].startswith("It is next")
        job = await api.enqueue("work")
        (_, ahead) = (await until_codes(api, job, "workers_unavailable", "ahead"))["verdicts"]
        assert (ahead["count"], ahead["bound"], ahead["others"]) == (1, "exact", {"mail": 1})


async def test_breakers_are_told_by_the_leader_alone(
    store_server: StoreServer, master: Master, api: Api
) -> None:
    async with ScriptedWorker(api, ("work",), 1).serving() as worker:
        await worker.register()
        running = await api.enqueue("work")
        await api.until_state(running, "running")
        job = await api.enqueue("work")
        (full, _) = (await until_codes(api, job, "workers_unavailable", "next"))["verdicts"]
        assert (full["broken"], full["paused"], full["refusing"]) == (0, 0, 0)
        async with follower_of(store_server, master) as other:
            (full, _) = (await until_codes(other, job, "workers_unavailable", "next"))["verdicts"]
            assert (full["full"], full["broken"], full["paused"], full["refusing"]) == (1, None, None, None)


@pytest.mark.row(67)
async def test_it_takes_scope_read(store_server: StoreServer) -> None:
    async with master_on(store_server.url, tokens=["push:" + "p" * 32, "read:" + "r" * 32]) as (master, _):
        pusher, reader = Api(master.server.url, "p" * 32), Api(master.server.url, "r" * 32)
        try:
            job = await pusher.enqueue("work", delay=60)
            assert (await pusher.call("GET", f"/api/jobs/{job}/why"))[0] == 403
            assert (await reader.call("GET", f"/api/jobs/{job}/why"))[0] == 200
        finally:
            await pusher.http.aclose()
            await reader.http.aclose()


async def test_the_causes_of_a_backlog_are_counted(api: Api) -> None:
    eq = {"field": "name", "op": "eq", "value": "mail"}
    await api.call(
        "PUT", "/api/constraints/per-host", {"matcher": eq, "key": "argument.host", "concurrency": 1}
    )
    answer = (await api.call("GET", "/api/jobs/why"))[1]
    assert (answer["ready"], answer["causes"], answer["text"]) == (0, [], "No job waits to start.")
    async with worker_at(api, "mail", "news"):
        holder = await api.enqueue("mail", {"host": "globex"})
        await api.until_state(holder, "running")
        for _ in range(3):
            await api.enqueue("mail", {"host": "globex"})
        pause = {"job_name": "news", "reason": "GDPR review"}
        assert (await api.call("POST", "/api/pauses", pause))[0] == 201
        batch = (await api.call("POST", "/api/batches", {}))[1]["id"]
        await api.enqueue("news", batch=batch)
        await api.enqueue("news", tags=["weekly"])
        await api.enqueue("nobody")

        async def told() -> dict[str, Any] | None:
            found: dict[str, Any] = (await api.call("GET", "/api/jobs/why"))[1]
            return (
                found
                if [one["code"] for one in found["causes"]] == [*2 * ["constraint"], "no_worker"]
                else None
            )

        answer = await wait_until(told, what="the causes")
        assert (answer["ready"], answer["is_exact"], answer["examined"]) == (6, True, 6)
        host, news, nobody = answer["causes"]
        assert host["text"] == "3 for per-host at globex (1 of 1 slots taken)"
        assert (host["count"], host["constraint"], host["key_value"], host["kind"]) == (
            3, "per-host", "globex", "concurrency"
        )  # fmt: skip
        assert (news["count"], news["kind"], news["reason"], news["names"]) == (
            2,
            "paused",
            "GDPR review",
            ["news"],
        )
        assert news["text"].startswith("2 paused by ")
        assert nobody["text"] == "1 without a worker"
        assert answer["text"] == f"6 jobs wait: {host['text']}, {news['text']}, {nobody['text']}."
        for query, count in ((f"batch={batch}", 1), ("tag=weekly", 1), ("name=news", 2), ("name=none", 0)):
            found = (await api.call("GET", f"/api/jobs/why?{query}"))[1]
            assert found["ready"] == sum(one["count"] for one in found["causes"]) == count, query
        assert (await api.call("GET", "/api/jobs/why?state=failed"))[0] == 422
        await api.call("POST", "/api/jobs/actions", {"action": "cancel", "filter": {}})


async def test_the_causes_of_a_backlog_take_few_round_trips(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many groups of jobs there are to explain."""
    trips = ContextVar[list[str] | None]("trips", default=None)
    explain, exchange = BacklogWhy.explain, StorePool.exchange
    found: list[str] = []

    async def counted(self: BacklogWhy, *given: Any) -> Any:
        trips.set(found)
        return await explain(self, *given)

    async def counting(self: StorePool, *given: Any, writes: bool) -> list[Any]:
        if (noted := trips.get()) is not None:
            noted.append(str(given)[:80])
        return await exchange(self, *given, writes=writes)

    monkeypatch.setattr(BacklogWhy, "explain", counted)
    monkeypatch.setattr(StorePool, "exchange", counting)
    names = [f"mail.{number}" for number in range(MAX_EXPLAINED)]
    await api.call("PUT", "/api/constraints/none", {"matcher": EVERY_JOB, "key": "argument", "paused": True})
    async with worker_at(api, *names):
        for name in names:
            await api.enqueue(name, "x")

        async def are_explained() -> bool:
            found.clear()
            causes = (await api.call("GET", "/api/jobs/why"))[1]["causes"]
            return sum(one["count"] for one in causes if one["code"] == "constraint") == MAX_EXPLAINED

        await wait_until(are_explained, what="all are explained")
    assert len(found) <= 18, found
