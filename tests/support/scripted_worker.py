"""A worker that does what the test says: it takes or rejects offers, and reports only on request."""

import asyncio
import contextlib
import hashlib
import hmac
import secrets
from collections.abc import AsyncIterator
from typing import Any

import msgpack
from aiohttp import web

from tests.support.contract import check_schema
from tests.support.master import Api

FINISHED_AT = "2026-11-21T04:30:00.123Z"
MSGPACK = "application/msgpack"


class ScriptedWorker:
    """* `offers`: accepted dispatches.
    * `orders`: IDs of jobs that the worker was told to stop.
    * `commands`: its own commands, with their epochs.
    * `epochs`: epochs in order of arrival, except those in `stale_epochs`.
    * `stale_epochs`: refused epochs, which are older than the newest that it has seen.

    It heartbeats by itself unless `is_silent`, answers pings unless `is_deaf`, and answers offers while `may_answer` is
    set.
    """

    def __init__(self, api: Api, names: tuple[str, ...], max_jobs: int) -> None:
        self.api = api
        self.names = names
        self.max_jobs = max_jobs
        self.secret = secrets.token_hex(32)
        self.id = ""
        self.url = ""
        self.reject: str | None = None
        self.offers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.bodies: list[bytes] = []
        self.epochs: list[int] = []
        self.stale_epochs: list[int] = []
        self.orders: asyncio.Queue[str] = asyncio.Queue()
        self.running: dict[str, str] = {}
        self.beats: list[dict[str, Any]] = []
        self.is_silent = False
        self.is_deaf = False
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.commands: asyncio.Queue[tuple[str, int]] = asyncio.Queue()

    def registration(self, **fields: Any) -> dict[str, Any]:
        return {
            "url": self.url, "names": list(self.names), "max_jobs": self.max_jobs, "node_id": "node-1", "pid": 1,
            "labels": {"zone": "b"}, "version": "1.0", "secret": self.secret, **fields,
        }  # fmt: skip

    async def register(self, **fields: Any) -> tuple[int, Any]:
        return await self.api.call("POST", "/api/workers", self.registration(**fields))

    async def next_job(self, timeout_s: float = 10) -> dict[str, Any]:
        """Return the next job that it was offered and took."""
        async with asyncio.timeout(timeout_s):
            return await self.offers.get()

    async def beat(self, **fields: Any) -> tuple[int, Any]:
        running = [{"job_id": job_id, "token": token} for job_id, token in self.running.items()]
        free = self.max_jobs - len(running)
        return await self.api.call(
            "POST", f"/api/workers/{self.id}/heartbeat", {"running": running, "free": free, **fields}
        )

    async def report(self, *items: dict[str, Any]) -> tuple[int, Any]:
        return await self.api.call("POST", f"/api/workers/{self.id}/results", {"results": list(items)})

    async def claim(self, max_jobs: int = 10, wait: float = 10, **fields: Any) -> list[dict[str, Any]]:
        """Ask for jobs, and return those received. The worker now runs them."""
        status, answer = await self.ask(max=max_jobs, wait=wait, **fields)
        assert status == 200, answer
        jobs: list[dict[str, Any]] = answer["jobs"]
        for job in jobs:
            check_schema("worker", {"$ref": "#/components/schemas/Dispatch"}, job)
            self.running[job["job_id"]] = job["token"]
        return jobs

    async def ask(self, api: Api | None = None, **fields: Any) -> tuple[int, Any]:
        return await (api or self.api).call("POST", f"/api/workers/{self.id}/claim", fields)

    async def end(self, job: dict[str, Any], type: str = "success", **fields: Any) -> None:  # noqa: A002
        """End the attempt, and assert that it counts."""
        answered = await self.report(ending(job, type, **fields))
        while answered[0] == 503:  # as every worker does
            await asyncio.sleep(0.1)
            answered = await self.report(ending(job, type, **fields))
        assert answered == (200, {"accepted": [job["job_id"]], "stale": []}), answered
        self.running.pop(job["job_id"], None)

    async def _jobs(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.bodies.append(body)
        await self.may_answer.wait()
        push = msgpack.unpackb(body, timestamp=3)
        check_schema("worker", {"$ref": "#/components/schemas/PushRequest"}, push)
        accepted: list[str] = []
        rejected: list[dict[str, Any]] = []
        reject = self.reject
        if self.epochs and push["epoch"] < self.epochs[-1]:
            reject = "stale_epoch"
            self.stale_epochs.append(push["epoch"])
        else:
            self.epochs.append(push["epoch"])
        for job in push["jobs"]:
            if reject:
                rejected.append({"job_id": job["job_id"], "reason": reject, "retry_after": 0.1})
            else:
                self.running[job["job_id"]] = job["token"]
                self.offers.put_nowait(job)
                accepted.append(job["job_id"])
        return _answer({"accepted": accepted, "rejected": rejected})

    async def _cancel(self, request: web.Request) -> web.Response:
        order = msgpack.unpackb(await request.read())
        check_schema("worker", {"$ref": "#/components/schemas/CancelOrder"}, order)
        self.orders.put_nowait(request.match_info["job_id"])
        return _answer({})

    async def _command(self, request: web.Request) -> web.Response:
        name = request.path.removeprefix("/")
        body = await request.read()
        check_schema("worker", {"$ref": f"#/components/schemas/{name.title()}Order"}, msgpack.unpackb(body))
        self.commands.put_nowait((name, msgpack.unpackb(body)["epoch"]))
        return _answer({})

    async def _ping(self, request: web.Request) -> web.Response:
        return web.Response(status=500 if self.is_deaf else 204)

    async def _challenge(self, request: web.Request) -> web.Response:
        challenge = msgpack.unpackb(await request.read())
        check_schema("worker", {"$ref": "#/components/schemas/ChallengeRequest"}, challenge)
        proof = hmac.new(self.secret.encode(), challenge["nonce"].encode(), hashlib.sha256).hexdigest()
        return _answer({"proof": proof})

    async def _keep_beating(self) -> None:
        while True:
            if self.id and not self.is_silent:
                status, answer = await self.beat()
                if status == 200:
                    self.beats.append(answer)
            await asyncio.sleep(0.1)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator["ScriptedWorker"]:
        """Serve the endpoint before it is registered."""
        app = web.Application()
        app.router.add_post("/jobs", self._jobs)
        app.router.add_post("/jobs/{job_id}/cancel", self._cancel)
        app.router.add_post("/challenge", self._challenge)
        for command in ("drain", "resume", "detach"):
            app.router.add_post(f"/{command}", self._command)
        app.router.add_get("/ping", self._ping)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with self.beating():
            try:
                yield self
            finally:
                self.may_answer.set()
                await runner.cleanup()

    @contextlib.asynccontextmanager
    async def beating(self) -> AsyncIterator[None]:
        beating = asyncio.create_task(self._keep_beating())
        try:
            yield
        finally:
            beating.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await beating


@contextlib.asynccontextmanager
async def worker_at(
    api: Api, *names: str, max_jobs: int = 10, **fields: Any
) -> AsyncIterator[ScriptedWorker]:
    """Yield a registered worker for these names (default: `work`). `fields`: of its registration."""
    async with ScriptedWorker(api, names or ("work",), max_jobs).serving() as worker:
        status, answer = await worker.register(**fields)
        assert status == 201, answer
        worker.id = answer["worker_id"]
        yield worker


@contextlib.asynccontextmanager
async def puller_at(api: Api, *names: str, max_jobs: int = 10) -> AsyncIterator[ScriptedWorker]:
    """Yield a registered worker without an address. It asks for jobs only when told to."""
    worker = ScriptedWorker(api, names or ("work",), max_jobs)
    status, answer = await worker.register(url=None)
    assert status == 201, answer
    worker.id = answer["worker_id"]
    async with worker.beating():
        yield worker


def ending(job: dict[str, Any], type: str = "success", **fields: Any) -> dict[str, Any]:  # noqa: A002
    """Return a report on the attempt `job`."""
    fields_of: dict[str, dict[str, Any]] = {
        "success": {"result": None},
        "failure": {"reason": "other", "should_retry": True, "error": None, "message": "it failed"},
        "deferred": {"retry_after": 0.0},
    }
    needed = fields_of.get(type, {})
    claim = {"job_id": job["job_id"], "token": job["token"]}
    return {**claim, "type": type, "finished_at": FINISHED_AT, **needed, **fields}


def _answer(value: Any) -> web.Response:
    return web.Response(body=msgpack.packb(value), content_type=MSGPACK)
