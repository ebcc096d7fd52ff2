"""A system with the load of a web shop, for pictures of the web UI. It has two masters, three workers (one falls
silent), jobs that succeed, fail, retry and wait for limits, and changes by operators. Only its work is not real."""

import asyncio
import contextlib
import random
import signal
import tempfile
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from jqmaster.app import running_master
from jqmaster.config import Settings
from jqmaster.domain.ids import new_id
from tests.support.mail_server import mail_server
from tests.support.processes import Process
from tests.support.server import StoreServer, started
from tests.support.waiting import wait_until
from worker_sdk import Challenged, Context, Form, Worker

ADMIN_TOKEN = "the-token-of-the-first-admin-0123456789"
USER, PASSWORD = "ada", "correct horse battery staple"
HOSTS = ["mx.example.com", "mx.example.net", "mail.example.org"]
JSON = {"Accept": "application/json"}
TICK_S = 0.5
# Long enough for the worker to count as silent, short enough for its last job to be still waited for.
SILENCE_S = 12.0


@dataclass(slots=True)
class BusySystem:
    """`ids` holds the IDs of jobs and other objects on the pages, by our own names."""

    url: str
    http: httpx.AsyncClient
    silent: Process
    ids: dict[str, str] = field(default_factory=dict)
    # Addresses where people answer.
    questions: list[str] = field(default_factory=list)

    async def call(self, method: str, path: str, value: Any = None) -> Any:
        """Return the answer's value. Raise AssertionError unless it is 2xx."""
        answer = await self.http.request(method, path, json=value)
        assert answer.is_success, (method, path, answer.text)
        return answer.json() if answer.content else None

    async def push(self, name: str, argument: Any, **fields: Any) -> str:
        return str(
            (await self.call("POST", "/api/jobs", {"name": name, "argument": argument, **fields}))["id"]
        )


Prepare = Callable[[BusySystem], Awaitable[None]]


@contextlib.asynccontextmanager
async def busy_system(minutes: float, prepare: Prepare) -> AsyncIterator[BusySystem]:
    """Yield after `minutes` of load, which then continues. `prepare` adds further objects before."""
    store = StoreServer()
    questions: list[str] = []
    with started(store), tempfile.TemporaryDirectory(prefix="jq-") as directory:
        shared: dict[str, Any] = {
            "redis_url": store.url,
            "port": 0,
            "tokens": [f"admin:{ADMIN_TOKEN}"],
            "worker_forget_s": 3600.0,
        }
        async with contextlib.AsyncExitStack() as stack:
            mails = await stack.enter_async_context(mail_server())
            shared |= {"smtp_url": f"smtp://127.0.0.1:{mails.port}", "mail_from": "jqmaster@shop.example"}
            first = await stack.enter_async_context(running_master(Settings(**shared, node_id="shop-1")))
            await wait_until(lambda: first.shard.leader.leadership, what="the master leads")
            second = await stack.enter_async_context(running_master(Settings(**shared, node_id="shop-2")))
            urls = [first.server.url, second.server.url]
            for worker in (_web_worker(urls, questions), _batch_worker(urls, questions)):
                await stack.enter_async_context(worker.running())
            silent = stack.enter_context(_silent_process(urls[0], Path(directory)))
            http = await stack.enter_async_context(
                httpx.AsyncClient(
                    base_url=urls[0],
                    headers={"Authorization": f"Bearer {ADMIN_TOKEN}", **JSON},
                    timeout=60,
                    trust_env=False,
                )
            )
            system = BusySystem(urls[0], http, silent, questions=questions)
            await _set_up(system)
            await prepare(system)
            load = asyncio.create_task(_load(system))
            try:
                await asyncio.wait([load], timeout=minutes * 60)
                if load.done():
                    load.result()
                await _last_moments(system)
                yield system
            finally:
                silent.signal(signal.SIGCONT)
                load.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await load


# --- the workers


def _web_worker(urls: list[str], questions: list[str]) -> Worker:
    worker = Worker(
        urls,
        max_jobs=12,
        token=ADMIN_TOKEN,
        node_id="web-a",
        labels={"zone": "a", "pool": "web"},
        version="2.4.1",
    )
    _quick_handlers(worker, questions)
    return worker


def _batch_worker(urls: list[str], questions: list[str]) -> Worker:
    worker = Worker(
        urls,
        max_jobs=8,
        token=ADMIN_TOKEN,
        node_id="batch-a",
        labels={"zone": "a", "pool": "batch"},
        version="2.4.0",
    )
    _quick_handlers(worker, questions)
    chance = random.Random(2)

    @worker.handler("report.build")
    async def build(argument: Any, ctx: Context) -> Any:
        ctx.logger.info("reads the sales of %s", argument.get("month", "today"))
        await asyncio.sleep(chance.uniform(1, 3))
        ctx.logger.warning("3 orders have no country, and are left out")
        for share in range(1, 5):
            ctx.progress(share / 4, f"page {share * 12} of 48")
            ctx.logger.info("page %d of 48 is drawn", share * 12)
            await asyncio.sleep(chance.uniform(0.2, 1))
        ctx.logger.debug("the file has 184,320 bytes")
        return {"rows": chance.randrange(10_000), "file": f"/reports/{argument.get('report', 'hourly')}.pdf"}

    @worker.handler("export.catalog")
    async def export(argument: Any, ctx: Context) -> None:
        ctx.progress(0.4, "page 400 of 1,000")
        await asyncio.sleep(3600)

    @worker.handler("import.csv")
    async def read(argument: Any) -> None:
        await asyncio.sleep(chance.uniform(0.2, 0.9))
        if chance.random() < 0.3:
            raise ValueError(f"line {chance.randrange(9000)}: 7 columns, expected 9")

    return worker


def _quick_handlers(worker: Worker, questions: list[str]) -> None:
    chance = random.Random(1)

    @worker.handler("thumbnail.make")
    async def thumbnail(argument: Any) -> Any:
        await asyncio.sleep(chance.lognormvariate(-2.5, 0.7))
        return {"width": 320, "bytes": 18_244}

    @worker.handler("search.index")
    async def index(argument: Any) -> None:
        await asyncio.sleep(chance.lognormvariate(-4, 0.5))

    @worker.handler("mail.send")
    async def mail(argument: Any) -> Any:
        await asyncio.sleep(chance.uniform(0.3, 1.4))
        if chance.random() < 0.12:
            raise ConnectionError(f"451 4.7.1 {argument['host']} is busy, try again later")
        return {"message_id": f"<{uuid.uuid4()}@shop.example>"}

    @worker.handler("webhook.deliver")
    async def deliver(argument: Any) -> None:
        await asyncio.sleep(chance.uniform(0.05, 0.6))
        match chance.random():
            case share if share < 0.12:
                raise TimeoutError(f"no answer of {argument['url']} within 5 s")
            case share if share < 0.2:
                raise RuntimeError(f"{argument['url']} answered 503 Service Unavailable")

    @worker.handler("invoice.charge")
    async def charge(argument: Any) -> None:
        await asyncio.sleep(0.2)

    @worker.handler("session.purge")
    async def purge(argument: Any) -> None:
        await asyncio.sleep(0.1)

    @worker.handler("photo.resize")
    async def resize(argument: Any) -> None:
        await asyncio.sleep(chance.uniform(0.2, 1))
        if argument["photo"] % 17 == 5:
            raise ValueError(f"photo {argument['photo']} is cut off at byte 65536")

    @worker.handler("album.publish")
    async def publish(argument: Any) -> None:
        await asyncio.sleep(0.2)

    @worker.handler("refund.pay")
    async def pay(argument: Any, ctx: Context) -> Any:
        if ctx.callback is not None:
            return {"paid": ctx.callback.json()}
        opened = await ctx.open_challenge(form=REFUND, meta={"order": argument["order"]})
        questions.append(opened.request_id)
        raise Challenged(opened.request_id)


REFUND = Form(
    "Refund order 70042?",
    description="The customer sent back 2 of 3 articles. The shop owes 39.80 EUR.",
    fields={
        "type": "object",
        "properties": {
            "amount": {"type": "number", "title": "Amount in EUR", "minimum": 0, "default": 39.8},
            "reason": {"type": "string", "title": "Reason", "enum": ["returned", "damaged", "goodwill"]},
        },
        "required": ["amount"],
    },
)


# Runs in its own process, which is stopped in the middle of its work.
silent_worker = Worker(
    max_jobs=4, token=ADMIN_TOKEN, node_id="video-a", labels={"zone": "b", "pool": "video"}, version="2.3.9"
)


@silent_worker.handler("video.encode")
async def encode(argument: Any) -> None:
    await asyncio.sleep(argument["seconds"])


@contextlib.contextmanager
def _silent_process(url: str, directory: Path) -> Iterator[Process]:
    process = Process(
        ["-m", "jqmaster", "worker", f"{__name__}:silent_worker", "--master", url],
        directory / "silent.log",
        JQMASTER_TOKEN=ADMIN_TOKEN,
    )
    process.start()
    try:
        yield process
    finally:
        process.kill()


# --- the load


async def _set_up(system: BusySystem) -> None:
    call = system.call

    async def limit(name: str, **document: Any) -> None:
        await call("PUT", f"/api/constraints/{name}", document)

    def named(pattern: str) -> dict[str, str]:
        return {"field": "name", "op": "glob", "value": pattern}

    await limit("mail-per-host", matcher=named("mail.*"), key="argument.host", concurrency=2,
        rate={"limit": 15, "period_s": 60.0},
                fair=True, overrides=[{"value": HOSTS[2], "concurrency": 1}])  # fmt: skip
    await limit("billing", matcher=named("invoice.*"), paused=True)
    await limit(
        "exports", matcher=named("export.*"), concurrency=1, reason="The partner takes one at a time."
    )
    await limit("reports", matcher=named("report.*"), concurrency=3)
    await limit(
        "hooks-per-minute", matcher=named("webhook.*"), rate={"limit": 20, "period_s": 60.0}, mode="shadow"
    )
    await _define(system)
    for user, role in ((USER, "admin"), ("otto", "operator"), ("vera", "viewer")):
        await call("POST", "/api/users", {"name": user, "password": PASSWORD, "role": role})
    for label, scopes, life in (
        ("shop, pushes", ["push"], None),
        ("workers of zone a", ["work"], None),
        ("workers of zone b", ["work"], 30 * 86_400),
        ("Grafana", ["read"], 365 * 86_400),
        ("an intern", ["read"], 7 * 86_400),
    ):
        token = await call(
            "POST", "/api/tokens", {"label": label, "scopes": scopes, **({"ttl_s": life} if life else {})}
        )
    await call("DELETE", f"/api/tokens/{token['id']}")
    await _tell(system)
    await _batches_and_flows(system)
    for name, at in (
        ("archive.nightly", 3 * 3600),
        ("report.monthly", 9 * 86_400),
        ("newsletter.send", 40 * 60),
    ):
        for number in range(3):
            await system.push(name, {"part": number}, delay=at + 60.0 * number, tags=["planned"])


async def _define(system: BusySystem) -> None:
    """Create definitions with a past."""
    now = datetime.now(UTC)
    for name, job, schedule, zone, hours in (
        ("hourly-report", "report.build", {"hourly_at": 15}, "Asia/Tokyo", 30),
        ("import-suppliers", "import.csv", {"every_minutes": 30, "offset": 5}, "UTC", 15),
        ("nightly-archive", "archive.nightly", {"daily_at": "02:30"}, "Europe/Berlin", 30 * 24),
        (
            "newsletter",
            "newsletter.send",
            {"weekly_on": ["mon", "thu"], "at": "08:00"},
            "America/New_York",
            1,
        ),
        ("month-end", "report.monthly", {"cron": "0 6 L * *"}, "Europe/Berlin", 1),
    ):
        document = {"job": {"name": job, "argument": {"by": "clock"}, "max_retry": 0}, "schedule": schedule,
            "time_zone": zone, "overlap": "forbid", "description": "Started by the clock"}  # fmt: skip
        await system.call("PUT", f"/api/definitions/{name}", document)
        past = {"from": (now - timedelta(hours=hours)).isoformat(), "to": now.isoformat()}
        await system.call("POST", f"/api/definitions/{name}/backfill", past)
    await system.call("POST", "/api/definitions/newsletter/pause", {"reason": "no issue this week"})


async def _tell(system: BusySystem) -> None:
    """Create notices, and a definition that events start."""
    for name, when, more in (
        (
            "failed-jobs",
            "job_failed",
            {"description": "Somebody waits for these", "threshold": 5, "at_most_every_s": 60},
        ),
        ("old-backlog", "backlog_age", {"threshold": 60}),
        ("detached-workers", "worker_lost", {}),
    ):
        document = {"when": when, "to": [{"mail": ["on-call@shop.example"]}], **more}
        await system.call("PUT", f"/api/notices/{name}", document)
    await system.call(
        "PUT",
        "/api/definitions/order-paid",
        {"kind": "event", "event_type": "order.paid", "job": {"name": "session.purge", "argument": {}},
         "description": "Cleans up when an order is paid"},
    )  # fmt: skip


async def _batches_and_flows(system: BusySystem) -> None:
    """Create finished batches, a running one, a flow, and a question to a person."""
    for album, photos in ((5, 24), (6, 40), (7, 400)):
        jobs = [
            {"name": "photo.resize", "argument": {"album": album, "photo": n}, "max_retry": 0}
            for n in range(photos)
        ]
        publish = {"name": "album.publish", "argument": {"album": album}}
        batch = {"description": f"Photos of album {album}", "tags": ["albums"], "on_success": publish}
        made = await system.call("POST", "/api/jobs/bulk", {"jobs": jobs, "batch": batch})
        system.ids["batch"] = made["batch"]
    imports, checks = [new_id() for _ in range(3)], [new_id() for _ in range(3)]
    merged, told = new_id(), new_id()
    flow: list[dict[str, Any]] = [
        {"name": "report.build", "id": one, "argument": {"report": f"stock-{n}", "month": "2026-11"}}
        for n, one in enumerate(imports)
    ]
    flow += [
        {"name": "archive.nightly", "id": one, "after": {"jobs": [before]}}
        for one, before in zip(checks, imports, strict=True)
    ]
    flow.append({"name": "report.monthly", "id": merged, "after": {"jobs": checks}})
    flow.append({"name": "newsletter.send", "id": told, "after": {"jobs": [merged], "when": "finished"}})
    await system.call("POST", "/api/jobs/bulk", {"jobs": flow})
    system.ids["flow"] = merged
    for partner in ("blue", "green"):
        system.ids["held"] = await system.push(
            "export.catalog", {"partner": partner}, timeout=7200.0, tags=["partners"]
        )
    system.ids["asked"] = await system.push("refund.pay", {"order": 70_042}, timeout=3600.0)


async def _load(system: BusySystem) -> None:
    """Enqueue the jobs of each half second, more at some times than at others."""
    chance = random.Random(3)
    retry = {"base_s": 4.0, "factor": 2.0, "max_s": 60.0}
    number = 0
    await wait_until(_workers(system, 3), timeout_s=60, what="three workers have registered")
    for seconds in (3.0, 900.0, 1200.0):
        system.ids["silenced"] = await system.push(
            "video.encode", {"seconds": seconds, "video": "intro.mp4"}, timeout=3600.0
        )
    while True:
        number += 1
        busy = 1.6 if number % 240 < 60 else 1.0

        def often(share: float, busy: float = busy) -> bool:
            return chance.random() < share * busy

        if often(0.7):
            await system.push(
                "thumbnail.make", {"photo_id": 1000 + number, "width": 320}, keep_result=True, tags=["shop"]
            )
        if often(0.8):
            await system.push("search.index", {"product": number, "text": "a red bicycle"})
        if often(0.5):
            host = chance.choice([HOSTS[0], HOSTS[0], HOSTS[1], HOSTS[2]])
            await system.push("mail.send", {"host": host, "to": f"customer{number}@{host[3:]}",
                "template": "order_sent"},
                              priority=-5, max_retry=3, retry=retry, tags=["order"])  # fmt: skip
        if often(0.35):
            url = f"https://hooks.example.net/shops/{chance.randrange(1, 9)}"
            await system.push(
                "webhook.deliver",
                {"url": url, "event": "order.paid"},
                max_retry=chance.choice([0, 2]),
                retry=retry,
            )
        if often(0.28):
            await system.push(
                "report.build",
                {"report": f"sales-{number}", "month": "2026-10"},
                priority=5,
                keep_result=True,
            )
        if often(0.18):
            await system.push("import.csv", {"file": f"supplier-{number}.csv"}, max_retry=1, retry=retry)
        if often(0.1):
            await system.push(
                "invoice.charge",
                {"order": 70_000 + number, "amount": "19.90", "currency": "EUR"},
                priority=-1,
            )
        if often(0.2):
            order = {"order": 70_000 + number, "total": "59.70"}
            event = {
                "event_type": chance.choice(["order.paid", "order.paid", "order.sent"]),
                "payload": order,
                "source": "shop",
            }
            await system.call("POST", "/api/events", event)
        if often(0.03):
            await system.push("session.purge", None, expires_s=0.001)
        await asyncio.sleep(TICK_S)


async def _last_moments(system: BusySystem) -> None:
    """Act like an operator, silence one worker, and look up the objects that single pages show."""
    async with httpx.AsyncClient(base_url=system.url, headers=JSON, timeout=60, trust_env=False) as ada:
        session = (await ada.post("/api/session", json={"user": USER, "password": PASSWORD})).json()
        ada.headers["X-CSRF-Token"] = session["csrf_token"]

        async def does(method: str, path: str, value: Any = None) -> Any:
            answer = await ada.request(method, path, json=value)
            assert answer.is_success, (method, path, answer.text)
            return answer.json() if answer.content else None

        await does("PATCH", "/api/settings", {"max_push_jobs": 120})
        await does(
            "PUT",
            "/api/constraints/reports",
            {"matcher": {"field": "name", "op": "glob", "value": "report.*"}, "concurrency": 2},
        )

        async def web_worker() -> str | None:
            found = (await does("GET", "/api/workers"))["workers"]
            ids = (one["id"] for one in found if (one["node_id"], one["state"]) == ("web-a", "fresh"))
            return next(ids, None)

        # On a slow machine, it may have been detached briefly.
        worker_id = await wait_until(web_worker, timeout_s=60, what="the worker is live")
        system.ids["worker"] = worker_id
        await does("POST", f"/api/workers/{worker_id}/drain")
        await does("POST", f"/api/workers/{worker_id}/resume")
        for job in (await does("GET", "/api/jobs?name=newsletter.send&limit=2"))["jobs"]:
            await does("POST", f"/api/jobs/{job['id']}/cancel")
        await does(
            "POST",
            "/api/jobs/actions",
            {"action": "retry", "filter": {"state": "failed", "name": "import.csv"}},
        )
    system.silent.signal(signal.SIGSTOP)
    await asyncio.sleep(SILENCE_S)
    for name, query in (
        ("failed", "name=webhook.deliver&state=failed&order=newest"),
        ("done", "name=report.build&state=succeeded&order=newest"),
    ):
        jobs = (await system.call("GET", f"/api/jobs?{query}&limit=1"))["jobs"]
        assert jobs, f"there is no job of {query}: let it run for longer"
        system.ids[name] = jobs[0]["id"]
    incidents = (await system.call("GET", "/api/incidents"))["incidents"]
    system.ids["incident"] = incidents[0]["id"] if incidents else ""
    event = (await system.call("GET", "/api/events?type=order.paid&limit=1"))["events"][0]
    system.ids["event"] = event["event_id"]
    system.ids["question"] = await wait_until(
        lambda: system.questions and system.questions[-1], timeout_s=60, what="a person is asked"
    )


def _workers(system: BusySystem, count: int) -> Callable[[], Awaitable[bool]]:
    async def are_there() -> bool:
        return len((await system.call("GET", "/api/workers"))["workers"]) >= count

    return are_there
