"""A scripted master that checks every call of a worker or pusher, signs pushes, and answers as a test wants.

It has its own thread and event loop, so that a test can block the worker's loop and watch.
"""

import asyncio
import hashlib
import hmac
import secrets
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import httpx
import msgpack
import uuid_utils
from aiohttp import web

MSGPACK = "application/msgpack"
Fields = dict[str, Any]
# (status, body, headers); None as body: an empty one.
Scripted = tuple[int, Any, dict[str, str]]

# Store time differs from anyone's local time, to expose mix-ups.
STORE_AHEAD_MS = 3_600_000


def new_id() -> str:
    return str(uuid_utils.uuid7())


def unpack(data: bytes) -> Any:
    return msgpack.unpackb(data, timestamp=3)


class FakeMaster:
    """Public attributes may change at any time. `calls` are (method, path, body) in order."""

    def __init__(
        self, *, token: str = "t0ken", heartbeat_interval_s: float = 0.05, lease_s: float = 5.0
    ) -> None:
        self.token = token
        self.heartbeat_interval_s = heartbeat_interval_s
        self.lease_s = lease_s
        self.epoch = 1_000
        self.offer_s = 2.0
        self.store = ""  # its identity; "" for an older master
        self.ahead_ms = STORE_AHEAD_MS  # of the store's clock; may go back and forth
        self.fence: int | None = None  # of the newest claim; None for masters that do not send it
        self.lease_until_ms = 0  # as sent in the last heartbeat
        self.calls: list[tuple[str, str, Any]] = []
        self.faults: list[str] = []
        self.workers: dict[str, Fields] = {}
        self.beats: list[Fields] = []
        self.partial_beats = 0  # heartbeats that do not name all claims
        self.results: dict[str, list[Fields]] = defaultdict(list)
        self.jobs: dict[str, Fields] = {}
        self.keys: dict[tuple[str, str], str] = {}
        self.namespaces: dict[str, str] = {}  # by the ID of a job
        self.closed: set[str] = set()  # namespaces
        self.chunks: list[int] = []
        self.cancel: list[Fields] = []
        self.lost: set[str] = set()
        self.stale: set[str] = set()
        self.drain = False
        self.detached = False
        self.questions = 0  # heartbeats that asked whether the worker may continue
        self.answers_heartbeats = True
        self.polls: list[Fields] = []
        self.leaving: list[str] = []  # workers that announced their end
        self.observations: list[Fields] = []
        self.poll_s = 0.3  # how long a call for jobs may wait
        self.mail: deque[list[Fields]] = deque()  # jobs for the next polls
        self.next_jobs: deque[Any] = deque()  # jobs that go with the answers to the next reports
        self.jobs_after: list[str | None] = []  # the newest fence that each report named
        self.scripts: dict[str, deque[Scripted]] = defaultdict(deque)
        self.hooks: dict[str, Callable[[Any], Scripted | None]] = {}
        # Replacement bytes, to send what no library writes.
        self.rewrites: dict[bytes, bytes] = {}
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._runner: web.AppRunner | None = None
        self.start()

    # --- life

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._in_loop(self._start())

    def stop(self) -> None:
        """Stop with all connections. `start` brings it back on the same port."""
        self._in_loop(self._stop())

    def close(self) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _in_loop(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _start(self) -> None:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def _stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    # --- what a test looks at

    @property
    def worker(self) -> Fields:
        """Return the worker that registered last."""
        return next(reversed(self.workers.values()))

    def result(self, job_id: str) -> Fields | None:
        found = self.results.get(job_id)
        return found[-1] if found else None

    def count(self, end_of_path: str) -> int:
        return sum(path.endswith(end_of_path) for _, path, _ in list(self.calls))

    def script(self, route: str, status: int, body: Any = None, **headers: str) -> None:
        """Give this answer to the next call of `route` (the last part of the path)."""
        self.scripts[route].append((status, body, {k.replace("_", "-"): v for k, v in headers.items()}))

    # --- what it serves

    async def _handle(self, request: web.Request) -> web.Response:
        data = await request.read()
        body = unpack(data) if data else None
        namespace, path = self._namespace_and_path(request.path)
        self.calls.append((request.method, request.path_qs, body))
        if namespace in self.closed:
            return self._problem(503, "namespace_closed")
        if self.store and request.headers.get("JQ-Store", self.store) != self.store:
            return self._problem(421, "other_store")
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            self.faults.append(f"{path}: no token")
            return self._problem(401, "unauthorized")
        if data and request.headers.get("Content-Type") != MSGPACK:
            self.faults.append(f"{path}: content type")
        route = path.rsplit("/", 1)[-1]
        if self.scripts[route]:
            return self._answer(*self.scripts[route].popleft())
        if route in self.hooks and (scripted := self.hooks[route](body)) is not None:
            return self._answer(*scripted)
        if path == "/api/workers":
            return await self._register(body or {})
        if path.startswith("/api/workers/"):
            after = request.headers.get("JQ-Jobs-After")
            return await self._of_worker(request.method, path.split("/")[3], route, body, jobs_after=after)
        return self._of_job(namespace, path, body)

    @staticmethod
    def _namespace_and_path(path: str) -> tuple[str, str]:
        if not path.startswith("/ns/"):
            return "default", path
        namespace, slash, rest = path.removeprefix("/ns/").partition("/")
        return namespace, slash + rest

    async def _register(self, body: Fields) -> web.Response:
        needed = {"url", "names", "max_jobs", "node_id", "pid", "labels", "version", "secret"}
        if not needed <= set(body) <= needed | {"place", "contracts"}:
            self.faults.append(f"register: {sorted(body)}")
        nonce = secrets.token_urlsafe(32)
        if body["url"] is None:
            return self._admit(body)
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session,
                session.post(
                    body["url"] + "/challenge",
                    data=msgpack.packb({"nonce": nonce}),
                    headers={"Content-Type": MSGPACK},
                ) as response,
            ):
                proof = unpack(await response.read())["proof"]
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
            return self._problem(422, "address_unverified")
        if proof != hmac.new(body["secret"].encode(), nonce.encode(), hashlib.sha256).hexdigest():
            return self._problem(422, "address_unverified")
        return self._admit(body)

    def _admit(self, body: Fields) -> web.Response:
        worker_id = new_id()
        self.workers[worker_id] = {**body, "worker_id": worker_id}
        return self._answer(
            201,
            {
                "worker_id": worker_id,
                "epoch": self.epoch,
                "store_time_ms": self.now_ms(),
                "heartbeat_interval_s": self.heartbeat_interval_s,
                "lease_s": self.lease_s,
            },
        )

    async def _of_worker(
        self, method: str, worker_id: str, route: str, body: Any, *, jobs_after: str | None
    ) -> web.Response:
        if worker_id not in self.workers:
            return self._problem(404, "unknown_worker")
        if method == "DELETE":
            del self.workers[worker_id]
            return self._answer(204)
        if route == "leaving":
            self.leaving.append(worker_id)
            return self._answer(204)
        if route == "heartbeat":
            return self._heartbeat(body)
        if route == "observations":
            self.observations.append(body)
            return self._answer(204)
        if route == "start":
            stale = [s["job_id"] for s in body["starts"] if s["token"] in self.stale]
            asked = [s["job_id"] for s in body["starts"] if s["token"] not in self.stale]
            return self._answer(200, {"confirmed": asked, "stale": stale})
        if route == "claim":
            return await self._claim(worker_id, body)
        if route == "logs":
            return self._answer(200, {"accepted": len(body["entries"]), "dropped": 0, "stale": []})
        assert route == "results", route
        self.jobs_after.append(jobs_after)
        for item in body["results"]:
            self._check_result(item)
            self.results[item["job_id"]].append(item)
        stale = [item["job_id"] for item in body["results"] if item["token"] in self.stale]
        accepted = [item["job_id"] for item in body["results"] if item["token"] not in self.stale]
        more = (
            {"jobs": self.next_jobs.popleft(), "epoch": self.epoch, "store_time_ms": self.now_ms()}
            if self.next_jobs
            else {}
        )
        return self._answer(200, {"accepted": accepted, "stale": stale, **more})

    async def _claim(self, worker_id: str, body: Fields) -> web.Response:
        """Wait for the test to provide something, or for a while."""
        if set(body) != {"max", "wait", "poll_id", "refused", "withdraw"}:
            self.faults.append(f"claim: {sorted(body)}")
        self.polls.append(body)
        ends_s = time.monotonic() + min(body["wait"], self.poll_s)
        while not self.mail and not body["withdraw"] and time.monotonic() < ends_s:
            await asyncio.sleep(0.005)
            if worker_id not in self.workers:
                return self._problem(404, "unknown_worker")
        jobs = self.mail.popleft() if self.mail and not body["withdraw"] else []
        return self._answer(
            200, {"epoch": self.epoch, "store_time_ms": self.now_ms(), "jobs": jobs, "drain": self.drain}
        )

    def _heartbeat(self, body: Fields) -> web.Response:
        as_of_ms = body.pop("as_of_ms")
        self.partial_beats += not as_of_ms
        if as_of_ms and not -10_000 < self.now_ms() - as_of_ms < 10_000:
            self.faults.append("heartbeat: as_of_ms is not store time")
        self.questions += body.pop("asks_to_continue", False)
        if set(body) != {"running", "free"} or len(body["running"]) > 1000:
            self.faults.append(f"heartbeat: {body}")
        self.beats.append(body)
        if not self.answers_heartbeats:
            return self._problem(503, "store_unavailable")
        now_ms = self.now_ms()
        self.lease_until_ms = now_ms + int(self.lease_s * 1000)
        named = {claim["token"] for claim in body["running"]}
        cancel, self.cancel = self.cancel, []
        return self._answer(
            200,
            {
                "epoch": self.epoch,
                "store_time_ms": now_ms,
                "lease_until_ms": self.lease_until_ms,
                "cancel": cancel,
                "lost": [c for c in body["running"] if c["token"] in self.lost & named],
                "drain": self.drain,
                "detached": self.detached,
                **({} if self.fence is None else {"fence": self.fence}),
            },
        )

    def _check_result(self, item: Fields) -> None:
        needed = {
            "success": {"result"},
            "failure": {"reason", "should_retry", "error", "message"},
            "deferred": {"retry_after"},
            "handed_back": set(),
            "discarded": {"error", "message"},
            "canceled": set(),
        }
        allowed = needed[item["type"]] | {"job_id", "token", "type", "finished_at"}
        allowed |= {"used", "called_at_ms"}
        allowed |= {"failure": {"retry_after"}, "deferred": {"hold"}}.get(item["type"], set())
        if not needed[item["type"]] <= set(item) <= allowed:
            self.faults.append(f"result: {sorted(item)}")

    def _of_job(self, namespace: str, path: str, body: Any) -> web.Response:
        if path == "/api/jobs":
            self._bind(body)
            self.namespaces[body["id"]] = namespace
            is_new = body["id"] not in self.jobs
            self.jobs[body["id"]] = body
            return self._answer(201 if is_new else 200, {"id": body["id"]})
        if path == "/api/jobs/bulk":
            self.chunks.append(len(body["jobs"]))
            for job in body["jobs"]:
                self._bind(job)
                self.jobs[job["id"]] = job
                self.namespaces[job["id"]] = namespace
            return self._answer(201, {"ids": [job["id"] for job in body["jobs"]]})
        job_id = path.split("/")[3]
        return self._answer(200, {"id": job_id, "state": "ready"})

    def _bind(self, job: Fields) -> None:
        """Give a job with a key the ID of the first push with that key."""
        if key := job.get("key"):
            job["id"] = self.keys.setdefault((job["name"], key), job["id"])

    def _answer(self, status: int, body: Any = None, headers: dict[str, str] | None = None) -> web.Response:
        named = {"JQ-Store": self.store} if self.store else {}
        if status == 204:
            return web.Response(status=204, headers=named)
        data = b"" if body is None else self._packed(body)
        fields = {"Content-Type": MSGPACK, **named, **(headers or {})}
        return web.Response(status=status, body=data, headers=fields)

    def _packed(self, body: Any) -> bytes:
        data = bytes(msgpack.packb(body, datetime=True))
        for written, sent in self.rewrites.items():
            data = data.replace(written, sent)
        return data

    def _problem(self, status: int, code: str) -> web.Response:
        return self._answer(status, {"status": status, "code": code, "detail": "as scripted", "errors": []})

    # --- what it sends

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self.ahead_ms

    def dispatch(self, name: str, argument: Any = None, **fields: Any) -> Fields:
        now_ms = self.now_ms()
        return {
            "job_id": new_id(), "attempt": 1, "token": secrets.token_hex(16), "fence": now_ms, "phase": "run",
            "name": name, "argument": argument, "timeout": 30.0, "not_after_ms": now_ms + int(self.offer_s * 1000),
            "lease_until_ms": now_ms + int(self.lease_s * 1000), "headers": {}, **fields,
        }  # fmt: skip

    async def push(self, *jobs: Fields, epoch: int | None = None) -> Fields:
        """Return the worker's answer to these offers."""
        body = {
            "worker_id": self.worker["worker_id"],
            "epoch": self.epoch if epoch is None else epoch,
            "store_time_ms": self.now_ms(),
            "jobs": list(jobs),
        }
        response = await self.send("POST", "/jobs", body)
        assert response.status_code == 200, (response.status_code, response.content)
        answer: Fields = unpack(response.content)
        return answer

    async def run(self, name: str, argument: Any = None, **fields: Any) -> Fields:
        """Push one job, which must be accepted, and return its dispatch."""
        job = self.dispatch(name, argument, **fields)
        answer = await self.push(job)
        assert answer == {"accepted": [job["job_id"]], "rejected": []}, answer
        return job

    async def send(self, method: str, route: str, body: Any = None, **changes: Any) -> httpx.Response:
        """Make a signed call. `changes` forge it: any signed part, or `sent_body`, `headers`."""
        url = self.worker["url"] + route
        data = b"" if body is None else self._packed(body)
        headers = sign(
            secret=str(changes.get("secret", self.worker["secret"])),
            method=changes.get("signed_method", method),
            path=changes.get("path", urlsplit(url).path),
            worker_id=str(changes.get("worker_id", self.worker["worker_id"])),
            timestamp_ms=changes.get("timestamp_ms", time.time_ns() // 1_000_000),
            nonce=changes.get("nonce", secrets.token_urlsafe(16)),
            body=data,
        )
        headers = {**headers, "Content-Type": MSGPACK, **changes.get("headers", {})}
        async with httpx.AsyncClient(trust_env=False) as client:
            return await client.request(
                method,
                url,
                content=changes.get("sent_body", data),
                headers={k: v for k, v in headers.items() if v},
            )


def sign(
    *, secret: str, method: str, path: str, worker_id: str, timestamp_ms: int, nonce: str, body: bytes
) -> dict[str, str]:
    """Return the headers of design §4, written from that text alone."""
    digest = hashlib.sha256(body).hexdigest()
    text = f"{method}\n{path}\n{worker_id}\n{timestamp_ms}\n{nonce}\n{digest}"
    return {
        "X-JQ-Worker": worker_id,
        "X-JQ-Timestamp": str(timestamp_ms),
        "X-JQ-Nonce": nonce,
        "X-JQ-Signature": "v1=" + hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest(),
    }
