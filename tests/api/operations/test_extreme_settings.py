"""Each number that can change at run time, at its least and at its most: nothing is lost, and the way back is open."""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgpack
import pytest

from jqmaster.config import RULES, Settings
from jqmaster.service.operations.settings_catalog import CATALOG, GROUPS, RUNTIME, RUNTIME_GROUPS
from jqmaster.store.operations.settings import StoredSettings
from tests.support import real_time
from tests.support.admin import admin_of
from tests.support.each import for_each
from tests.support.master import NO_IDLE_CONNECTIONS, NO_TLS, Api, master_on
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from worker_sdk import Context, Worker

pytestmark = [pytest.mark.req("D15"), real_time.MASTER]

RUNNING = 30
RESULT = {"text": "r" * 300, "rows": list(range(50))}
# The usual header fields of a browser behind two proxies, besides Host, Accept, User-Agent and Connection.
BROWSER = {
    "accept-language": "en-GB,en;q=0.9,ja;q=0.8", "cache-control": "no-cache",
    "cookie": "theme=dark; other=" + "c" * 900, "dnt": "1", "pragma": "no-cache", "priority": "u=0, i",
    "referer": "http://127.0.0.1/", "sec-ch-ua": '"Chromium";v="140"', "sec-ch-ua-mobile": "?0",
    "sec-ch-ua-platform": '"Linux"', "sec-fetch-dest": "empty", "sec-fetch-mode": "cors",
    "sec-fetch-site": "same-origin", "x-forwarded-for": "10.0.0.1", "x-forwarded-host": "jobs.example",
    "x-forwarded-proto": "https", "x-real-ip": "10.0.0.1",
}  # fmt: skip
BASE: dict[str, Any] = {
    "lease_ms": 15_000,
    "offer_ms": 5_000,
    "heartbeat_interval_s": 0.2,
    "worker_stale_s": 5.0,
    "leader_ttl_s": 5.0,
}
PARTS = {
    **{group: [key for key in GROUPS[group] if key in RUNTIME] for group in RUNTIME_GROUPS},
    "Others": sorted(RUNTIME - {key for group in RUNTIME_GROUPS for key in GROUPS[group]}),
}


def at_its_bound(key: str, bound: str) -> dict[str, Any]:
    """Return the value of `key` at this bound, and values of other settings with which every rule holds."""
    info = CATALOG[key]
    value: Any = info.minimum if bound == "least" else info.maximum
    if bound == "least" and info.is_above_minimum:
        value = info.minimum + 0.001 if info.minimum is not None else None
    changes = {key: int(value) if info.type == "integer" else value}
    base = Settings(**BASE)
    for _ in range(5):
        settings = base.model_copy(update=changes)
        broken = [rule for rule in RULES if not rule.holds(settings)]
        for rule in broken:
            (other,) = set(rule.fields) - {key} if key in rule.fields else rule.fields[:1]
            for limit in (CATALOG[other].minimum, CATALOG[other].maximum):
                tried = settings.model_copy(update={other: limit})
                if rule.holds(tried):
                    changes[other] = limit
    Settings(**{**BASE, **changes})
    return changes


class Handlers:
    """A worker that pushes reach and one that pulls, with what they ran."""

    def __init__(self, url: str) -> None:
        self.release = asyncio.Event()
        self.runs: Counter[tuple[str, int]] = Counter()
        self.ended = 0
        self.workers = [Worker(url, max_jobs=40), Worker(url, max_jobs=40, pull=True)]
        for kind, worker in zip(("push", "pull"), self.workers, strict=True):
            worker.handler(f"hold-{kind}")(self.hold)
            worker.handler(f"quick-{kind}")(self.quick)

    async def hold(self, argument: Any, ctx: Context) -> Any:
        self.runs[ctx.job_id, ctx.attempt] += 1
        try:
            await self.release.wait()
        finally:
            self.ended += 1
        return RESULT

    async def quick(self, argument: Any, ctx: Context) -> Any:
        self.runs[ctx.job_id, ctx.attempt] += 1
        self.ended += 1
        return RESULT

    @property
    def owed(self) -> int:
        """Return how many results no master has answered for."""
        return sum(len(worker._node.executor.owed) for worker in self.workers if worker._node)


@contextlib.asynccontextmanager
async def busy(store: StoreServer) -> AsyncIterator[tuple[Api, Handlers]]:
    async with master_on(store.url, **BASE) as (master, api), contextlib.AsyncExitStack() as stack:
        handlers = Handlers(master.server.url)
        for worker in handlers.workers:
            await stack.enter_async_context(worker.running())
        for kind in ("push", "pull"):
            for _ in range(RUNNING // 2):
                await api.enqueue(f"hold-{kind}")
        await wait_until(lambda: len(handlers.runs) == RUNNING, what="all jobs run")
        yield api, handlers


async def beats_are_taken(api: Api, handlers: Handlers, changes: dict[str, Any]) -> None:
    """Wait until a heartbeat of each worker, sent under the changed settings, was taken."""

    async def seen() -> dict[str, Any]:
        _, answer = await api.call("GET", "/api/workers")
        return {worker["id"]: worker["last_seen_at"] for worker in answer["workers"]}

    before = await seen()

    async def all_again() -> bool:
        for worker in handlers.workers:
            assert worker._node is not None
            worker._node.members[0].beat_now()
        now = await seen()
        return now.keys() == before.keys() and all(now[one] > before[one] for one in now)

    await wait_until(all_again, what=f"{changes}: heartbeats are taken")


async def as_a_browser(api: Api, path: str) -> int:
    async with httpx.AsyncClient(
        trust_env=False, verify=NO_TLS, limits=NO_IDLE_CONNECTIONS, timeout=20
    ) as http:
        return (await http.get(f"{api.http.base_url}{path}", headers=BROWSER)).status_code


@pytest.mark.timeout(300)
# Small values stop more than large ones do.
@pytest.mark.parametrize("bound", ["least", pytest.param("most", marks=pytest.mark.long)])
@pytest.mark.parametrize("part", list(PARTS))
async def test_no_value_of_a_setting_loses_jobs_or_closes_the_way_back(
    store_server: StoreServer, caplog: pytest.LogCaptureFixture, part: str, bound: str
) -> None:
    numbers = [key for key in PARTS[part] if CATALOG[key].type in ("integer", "number")]
    async with busy(store_server) as (api, handlers):
        for key in numbers:
            changes = at_its_bound(key, bound)
            caplog.clear()
            status, answer = await api.call("PATCH", "/api/settings", changes)
            assert status == 200, (key, answer)
            before = handlers.ended
            for kind in ("push", "pull"):
                await api.enqueue(f"quick-{kind}", {"x": 1})
            assert await as_a_browser(api, "/") == 200, key
            assert await as_a_browser(api, "/api/settings") == 200, key
            await wait_until(
                lambda ended=before + 2: handlers.ended == ended, what=f"{changes}: new jobs run"
            )
            await wait_until(lambda: handlers.owed == RUNNING, what=f"{changes}: results are taken")
            await beats_are_taken(api, handlers, changes)
            status, answer = await api.call("PATCH", "/api/settings", dict.fromkeys(changes))
            assert status == 200, (key, answer)
            # On a busy machine, an offer of a tenth of a second may come too late. That costs the job nothing.
            refused = [
                text
                for one in caplog.records
                if one.name.startswith("worker_sdk") and one.levelno >= logging.WARNING
                if not (text := one.getMessage()).endswith("handed back: too_late")
            ]
            assert not refused, changes
        # A job that was lost would have started again meanwhile, or be stopped.
        handlers.release.set()
        await wait_until(lambda: handlers.owed == 0, what="all results are taken")
        assert set(handlers.runs.values()) == {1}
        assert {attempt for _, attempt in handlers.runs} == {1}
        assert len(handlers.runs) == RUNNING + 2 * len(numbers)


@for_each(
    ("changes", "both", "remedy"),
    [
        ({"max_argument_bytes": 16 * 1024 * 1024}, ("max_argument_bytes", "max_body_bytes"), "raise max_body_bytes"),
        ({"max_body_bytes": 131_072}, ("max_argument_bytes", "max_body_bytes"), "lower max_argument_bytes"),
        ({"max_log_bytes": 512 * 1024, "max_log_line_bytes": 1024 * 1024},
         ("max_log_line_bytes", "max_log_bytes"), "lower"),
        ({"worker_forget_s": 1, "heartbeat_interval_s": 0.5}, ("worker_forget_s", "heartbeat_interval_s"), "raise"),
        ({"worker_stale_s": 0.25}, ("worker_stale_s", "heartbeat_interval_s"), "raise worker_stale_s"),
    ],
)  # fmt: skip
async def test_limits_that_do_not_fit_together_are_refused_with_both_names_and_the_remedy(
    api: Api, changes: dict[str, Any], both: tuple[str, str], remedy: str
) -> None:
    status, problem = await api.call("PATCH", "/api/settings", changes)
    assert (status, problem["code"]) == (422, "invalid")
    for error in problem["errors"]:
        assert error["loc"][0] in changes
        assert all(name in error["msg"] for name in (*both, remedy)), error["msg"]


async def test_values_out_of_bounds_that_an_older_master_stored_are_fitted_with_a_warning(
    store_server: StoreServer, caplog: pytest.LogCaptureFixture
) -> None:
    older = {
        "max_body_bytes": 1024, "max_argument_bytes": 16 * 1024 * 1024, "max_header_count": 8, "push_timeout_s": 0.0001,
        "max_push_jobs": 7, "log_level": "loud", "fresh": 1,
    }  # fmt: skip
    async with master_on(store_server.url) as (master, api):
        admin, key = admin_of(master.shard.services.link.client), master.shard.services.link.keys.settings
        await admin.hset(key, mapping={"version": 5, "document": msgpack.packb(older)})
        await wait_until(lambda: master.live.version == 5)
        now = master.live.current
        assert (now.max_body_bytes, now.max_argument_bytes) == (131_072, 65_536)
        assert (now.max_header_count, now.push_timeout_s, now.max_push_jobs) == (32, 0.1, 7)
        warned = " ".join(one.getMessage() for one in caplog.records if one.levelno == logging.WARNING)
        for name in (
            "max_body_bytes",
            "max_argument_bytes",
            "max_header_count",
            "push_timeout_s",
            "log_level",
        ):
            assert f"setting {name} was changed to" in warned
        # Another setting can be changed without touching them, and they stay as they were stored.
        assert (await api.call("PATCH", "/api/settings", {"max_push_jobs": 9}))[0] == 200
        stored = msgpack.unpackb(await admin.hget(key, "document"))
        assert stored == {**older, "max_push_jobs": 9}
        assert (await api.call("PATCH", "/api/settings", {"max_body_bytes": None}))[0] == 200
        assert master.live.current.max_argument_bytes == 16 * 1024 * 1024 - 65_536
        # A master starts with it, too.
        master.live._stored = StoredSettings(0, {})
        await master.live._look()
        assert master.live.current.max_header_count == 32


async def test_limits_of_pushes_do_not_govern_calls_of_workers(store_server: StoreServer) -> None:
    limits = {"max_body_bytes": 131_072, "max_argument_bytes": 1024, "max_argument_nodes": 100, "max_nesting": 4,
              "max_event_bytes": 1024}  # fmt: skip
    async with master_on(store_server.url, **limits) as (_, api):
        worker = {
            "url": None, "names": ["work"], "max_jobs": 1000, "secret": "s" * 32,
            "contracts": {"work": {"argument_schema": {"a": {"b": {"c": {"d": {"e": ["x" * 40_000]}}}}}}},
        }  # fmt: skip
        status, answer = await api.call("POST", "/api/workers", worker)
        assert status == 201, answer
        path = f"/api/workers/{answer['worker_id']}"
        claim = {
            "job_id": "00000000-0000-7000-8000-000000000000",
            "token": "0" * 32,
            "progress": {"message": "m" * 150},
        }
        status, beat = await api.call("POST", f"{path}/heartbeat", {"running": [claim] * 900, "free": 0})
        assert status == 200, beat
        ending = {"job_id": claim["job_id"], "token": "0" * 32, "type": "success", "result": "r" * 400_000,
                  "finished_at": "2026-01-01T00:00:00.000Z"}  # fmt: skip
        status, answer = await api.call("POST", f"{path}/results", {"results": [ending]})
        assert status == 200, answer
        status, answer = await api.call("POST", "/api/jobs", {"name": "work", "argument": "x" * 200_000})
        assert (status, answer["code"]) == (413, "body_too_large")
