"""A worker of a chaos run without the SDK: it sends only what docs/worker_protocol.md requires.

No `place`, `labels`, `as_of_ms`, `poll_id`, `refused` or `asks_to_continue`: no promise may depend on them. It takes
jobs as chaos_worker does, keeps the same journal, and reads the same CHAOS_… variables.
"""

import asyncio
import contextlib
import hashlib
import hmac
import itertools
import math
import os
import random
import re
import secrets
import signal
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import aiohttp
import msgpack
from aiohttp import web

from tests.chaos.history import Line, write_line

NAME: Final = os.environ.get("CHAOS_WORKER", "worker-0")
MASTERS: Final = os.environ.get("CHAOS_MASTERS", "http://127.0.0.1:8080").split()
MAX_JOBS: Final = int(os.environ.get("CHAOS_MAX_JOBS", "8"))
IS_PULLING: Final = bool(os.environ.get("CHAOS_PULL"))
GRACE_S: Final = float(os.environ.get("CHAOS_GRACE_S", "1"))
NAMES: Final = ("work", "narrow", "poison")
NONCE: Final = re.compile(r"[A-Za-z0-9_-]{16,128}")
CALL_S: Final = 1.0
WAIT_S: Final = 2.0
PAUSE_S: Final = (0.05, 0.4)
# Half a tick of delay is normal. After this long, nothing of this process ran.
TICK_S, STALL_S = 0.05, 0.15
HEADERS: Final = {"Content-Type": "application/msgpack", "Accept": "application/msgpack"}

_journal = os.open(os.environ.get("CHAOS_JOURNAL", os.devnull), os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def note(what: str, **said: Any) -> None:
    os.write(_journal, write_line(Line(what, NAME, os.getpid(), time.monotonic(), **said)))


def now_s() -> float:
    """Return the time of a clock that continues while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(slots=True)
class Claim:
    """A job that this worker accepted. `result` is its unreported end; a `lost` one reports nothing."""

    job: dict[str, Any]
    epoch: int
    lease_end_s: float
    task: asyncio.Task[None] | None = None
    result: dict[str, Any] | None = None
    is_lost: bool = False
    is_canceled: bool = False
    was_named: bool = False

    @property
    def key(self) -> dict[str, str]:
        return {"job_id": self.job["job_id"], "token": self.job["token"]}

    @property
    def is_running(self) -> bool:
        return self.task is not None and not self.task.done()

    @property
    def is_named(self) -> bool:
        """Return whether heartbeats name it. A lost claim was either answered so, or must still be named once."""
        return not self.is_lost or not self.was_named

    def tell(self) -> dict[str, Any]:
        return {
            "job_id": self.job["job_id"], "attempt": self.job["attempt"], "token": self.job["token"],
            "fence": self.job["fence"], "epoch": self.epoch,
        }  # fmt: skip


@dataclass(slots=True)
class StoreClock:
    """Store time minus own time, in ms, as far as answers tell."""

    least_ms: float = 0.0
    most_ms: float = 0.0
    stale_fence: int = 0
    learned_s: float | None = None

    def learn(self, answer: dict[str, Any], sent_s: float) -> None:
        store_ms, fence = answer["store_time_ms"], answer.get("fence", 0)
        went_back = self.learned_s is not None and store_ms + 1 - sent_s * 1000 < self.least_ms
        self.stale_fence = fence if went_back else min(self.stale_fence, fence)
        self.least_ms, self.most_ms = store_ms - now_s() * 1000, store_ms + 1 - sent_s * 1000
        self.learned_s = now_s()

    def latest_ms(self, *, within_s: float = math.inf) -> float:
        """Return the latest time that it may be; infinite if no answer of the last `within_s` told it."""
        if self.learned_s is None or now_s() - self.learned_s > within_s:
            return math.inf
        return now_s() * 1000 + self.most_ms


@dataclass(slots=True)
class Plain:
    """The whole worker, on one event loop."""

    session: aiohttp.ClientSession
    secret: str = ""
    worker_id: str = ""
    store: str = ""
    epoch: int = 0
    lease_s: float = 3.0
    interval_s: float = 0.5
    clock: StoreClock = field(default_factory=StoreClock)
    claims: dict[str, Claim] = field(default_factory=dict)
    seen: dict[str, tuple[float, str]] = field(default_factory=dict)
    nonces: dict[str, float] = field(default_factory=dict)
    is_draining: bool = False
    is_ending: bool = False
    heard_s: float = 0.0
    _masters: Any = field(default_factory=lambda: itertools.cycle([*MASTERS[1:], MASTERS[0]]))
    _master: str = MASTERS[0]

    # --- calls to masters

    async def call(
        self, method: str, path: str, body: dict[str, Any] | None = None, *, timeout_s: float = CALL_S
    ) -> tuple[int, dict[str, Any], float]:
        """Return the status (0: no answer), the answer and when the call was sent. After no answer, the next call goes
        to the next master."""
        sent_s, asked = now_s(), self._master
        headers = HEADERS | ({"JQ-Store": self.store} if self.store else {})
        try:
            async with self.session.request(
                method,
                asked + path,
                data=None if body is None else msgpack.packb(body),
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=timeout_s),
            ) as response:
                raw = await response.read()
                named = response.headers.get("JQ-Store", "")
                if self.store and named and named != self.store:
                    raise aiohttp.ClientError("a master of another store")
                answer = msgpack.unpackb(raw, timestamp=3) if raw else {}
                if path == "/api/workers" and response.status == 201:
                    self.store = named
                if "store_time_ms" in answer:
                    self.epoch = max(self.epoch, answer.get("epoch", 0))
                    self.clock.learn(answer, sent_s)
                if response.status >= 500:
                    self._leave(asked)
                return response.status, answer, sent_s
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
            self._leave(asked)
            return 0, {}, sent_s

    def _leave(self, master: str) -> None:
        """Go on to the next master, once. Calls that fail together would otherwise come back to the one that failed."""
        if self._master == master:
            self._master = next(self._masters)

    async def register(self) -> None:
        """Register until it is done. The runs of a former registration have stopped, or their leases are over."""
        self.worker_id = ""
        while any(claim.is_running for claim in self.claims.values()):
            await asyncio.sleep(TICK_S)
        # Unreported ends are sent under the new ID; a lost claim is forgotten with its registration.
        self.claims = {token: claim for token, claim in self.claims.items() if claim.result is not None}
        while not self.worker_id:
            self.secret = secrets.token_urlsafe(32)
            body = {
                "url": None if IS_PULLING else os.environ["CHAOS_URL"],
                "names": list(NAMES),
                "max_jobs": MAX_JOBS,
                "secret": self.secret,
            }
            status, answer, _ = await self.call("POST", "/api/workers", body)
            if status == 201:
                self.lease_s, self.interval_s = answer["lease_s"], answer["heartbeat_interval_s"]
                self.is_draining, self.heard_s = False, now_s()
                self.worker_id = answer["worker_id"]
                note("registered", detail=self.worker_id)
                return
            if status and not 400 <= status < 600:
                raise RuntimeError(f"registration: {status} {answer}")
            # A worker that began while a stranger had a master's place may have registered there.
            self.store = "" if now_s() - self.heard_s > 2 * self.lease_s else self.store
            await asyncio.sleep(random.uniform(*PAUSE_S))

    async def beat(self) -> None:
        """Register, and send a heartbeat each interval."""
        while True:
            if not self.worker_id:
                await self.register()
            named = [claim for claim in self.claims.values() if claim.is_named]
            free = 0 if self.is_closed else max(0, MAX_JOBS - self.occupied)
            body = {"running": [claim.key for claim in named], "free": free}
            worker_id = self.worker_id
            status, answer, sent_s = await self.call("POST", f"/api/workers/{worker_id}/heartbeat", body)
            if status == 200 and not answer["detached"]:
                self._take_in(answer, sent_s, named)
            elif status == 404 or (status == 200 and answer["detached"]):
                self.give_up()
                await self.register()
                continue
            elif now_s() - self.heard_s > 2 * self.lease_s:
                # The store that it knew is gone, or never was ours.
                self.give_up()
                self.store = ""
                await self.register()
                continue
            await asyncio.sleep(self.interval_s if status == 200 else random.uniform(*PAUSE_S))

    def _take_in(self, answer: dict[str, Any], sent_s: float, named: list[Claim]) -> None:
        self.heard_s = sent_s
        self.is_draining = answer["drain"]
        lost = {claim["token"] for claim in answer["lost"]}
        canceled = {claim["token"] for claim in answer["cancel"]}
        renewed_s = sent_s + (answer["lease_until_ms"] - answer["store_time_ms"]) / 1000
        for claim in named:
            token = claim.job["token"]
            claim.was_named = True
            if claim.is_lost:
                continue
            if token in lost:
                if claim.is_running:
                    self._stop(claim)
            elif answer["lease_until_ms"] > answer["store_time_ms"]:
                claim.lease_end_s = max(claim.lease_end_s, renewed_s)
            if token in canceled and claim.is_running and not claim.is_canceled:
                claim.is_canceled = True
                if claim.task is not None:
                    claim.task.cancel()
        self._forget()

    def give_up(self) -> None:
        """Stop all runs without reports."""
        for claim in self.claims.values():
            if claim.is_running:
                self._stop(claim)
                claim.was_named = True

    def _stop(self, claim: Claim) -> None:
        claim.is_lost = True
        if claim.task is not None:
            claim.task.cancel()

    def _forget(self) -> None:
        for token, claim in list(self.claims.items()):
            if claim.is_lost and claim.was_named and not claim.is_running:
                del self.claims[token]

    async def watch_leases(self) -> None:
        """Stop each run before its lease is over, and note when this process does not get to run."""
        before = time.monotonic()
        while True:
            await asyncio.sleep(TICK_S)
            at_s = time.monotonic()
            if at_s - before > TICK_S + STALL_S:
                note("stall", detail=f"{at_s - before:.3f}")
            before = at_s
            margin_s = min(2.0, self.lease_s / 10)
            for claim in self.claims.values():
                if claim.is_running and not claim.is_lost and now_s() > claim.lease_end_s - margin_s:
                    self._stop(claim)

    async def report(self) -> None:
        """Report each end until it is answered."""
        while True:
            batch = [c.result for c in self.claims.values() if c.result is not None][:500]
            if batch and self.worker_id:
                path = f"/api/workers/{self.worker_id}/results"
                status, answer, _ = await self.call("POST", path, {"results": batch})
                if status == 200:
                    for item in batch:
                        if item["job_id"] in {*answer["accepted"], *answer["stale"]}:
                            self.claims.pop(item["token"], None)
                    continue
            await asyncio.sleep(random.uniform(0.02, 0.1))

    async def pull(self) -> None:
        """Fetch jobs, one call at a time. Jobs of a lost answer, and those not taken, come back by themselves."""
        while True:
            room = MAX_JOBS - self.occupied
            if self.is_closed or not self.worker_id or room <= 0:
                await asyncio.sleep(TICK_S)
                continue
            path = f"/api/workers/{self.worker_id}/claim"
            status, answer, _ = await self.call(
                "POST", path, {"max": room, "wait": WAIT_S}, timeout_s=WAIT_S + CALL_S
            )
            if status == 200 and answer["jobs"]:
                self.offer(answer["epoch"], answer["jobs"])
            elif status != 200:
                await asyncio.sleep(random.uniform(*PAUSE_S))

    # --- offers and runs

    @property
    def occupied(self) -> int:
        return sum(claim.is_running for claim in self.claims.values())

    @property
    def is_closed(self) -> bool:
        return self.is_draining or self.is_ending

    def offer(self, epoch: int, jobs: list[dict[str, Any]]) -> dict[str, Any]:
        is_stale = epoch < self.epoch
        self.epoch = max(self.epoch, epoch)
        for token, (at_s, _) in list(self.seen.items()):
            if at_s < now_s() - 2 * self.lease_s - 10:
                del self.seen[token]
        accepted, rejected = [], []
        for job in jobs:
            known = self.seen.get(job["token"])
            verdict = known[1] if known else self._judge(job, epoch, is_stale=is_stale)
            if verdict == "accepted":
                accepted.append(job["job_id"])
            else:
                rejected.append({"job_id": job["job_id"], "reason": verdict, "retry_after": None})
            note(
                "offer", job_id=job["job_id"], attempt=job["attempt"], token=job["token"], fence=job["fence"],
                epoch=epoch, detail=verdict,
            )  # fmt: skip
        return {"accepted": accepted, "rejected": rejected}

    def _judge(self, job: dict[str, Any], epoch: int, *, is_stale: bool) -> str:
        verdict = self._verdict(job, is_stale=is_stale)
        self.seen[job["token"]] = now_s(), verdict
        if verdict == "accepted":
            left_s = (job["lease_until_ms"] - self.clock.latest_ms()) / 1000
            claim = Claim(job, epoch, now_s() + left_s)
            self.claims[job["token"]] = claim
            claim.task = asyncio.create_task(self._run(claim))
        return verdict

    def _verdict(self, job: dict[str, Any], *, is_stale: bool) -> str:
        if is_stale:
            return "stale_epoch"
        if job["name"] not in NAMES or job["phase"] != "run":
            return "unknown_name"
        if self.is_closed or not self.worker_id:
            return "draining"
        margin_ms = min(2000.0, self.lease_s * 100)
        latest_ms = self.clock.latest_ms(within_s=self.lease_s)
        if latest_ms > min(job["not_after_ms"], job["lease_until_ms"] - margin_ms):
            return "too_late"
        if job["fence"] <= self.clock.stale_fence:
            return "too_late"
        if any(c.job["job_id"] == job["job_id"] for c in self.claims.values() if c.is_running):
            return "duplicate"
        return "busy" if self.occupied >= MAX_JOBS else "accepted"

    async def _run(self, claim: Claim) -> None:
        said: dict[str, Any]
        try:
            async with asyncio.timeout(claim.job["timeout"]):
                said = await self._work(claim)
        except asyncio.CancelledError:
            if claim.is_lost:
                return
            said = {"type": "canceled"} if claim.is_canceled else {"type": "handed_back"}
        except TimeoutError:
            said = failure("timeout", "timeout")
        except RuntimeError as error:
            said = failure("other", str(error))
        if not claim.is_lost:
            finished_at = datetime.now(UTC).isoformat(timespec="milliseconds")
            claim.result = {**claim.key, **said, "finished_at": finished_at}

    async def _work(self, claim: Claim) -> dict[str, Any]:
        argument, attempt, ending = claim.job["argument"], claim.job["attempt"], "stopped"
        note("start", **claim.tell())
        if claim.job["name"] == "poison":
            os._exit(9)
        try:
            await asyncio.sleep(argument.get("nap_s", 0))
            if attempt <= argument.get("fails", 0):
                ending = "failure"
                raise RuntimeError(f"attempt {attempt} was told to fail")
            if argument.get("discards"):
                ending = "discarded"
                return {"type": "discarded"}
            ending = "success"
            result = {"n": argument["n"], "fence": claim.job["fence"], "attempt": attempt}
            return {"type": "success", "result": result}
        finally:
            note("end", **claim.tell(), detail=ending)

    # --- calls from masters

    def is_signed(self, request: web.Request, body: bytes) -> bool:
        worker, timestamp, nonce, signature = (
            request.headers.get(f"X-JQ-{name}", "") for name in ("Worker", "Timestamp", "Nonce", "Signature")
        )
        text = "\n".join(
            [request.method, request.path, worker, timestamp, nonce, hashlib.sha256(body).hexdigest()]
        )
        expected = "v1=" + hmac.new(self.secret.encode(), text.encode(), hashlib.sha256).hexdigest()
        if worker != self.worker_id or not hmac.compare_digest(expected, signature):
            return False
        for old, at_s in list(self.nonces.items()):
            if at_s < now_s() - 600:
                del self.nonces[old]
        if abs(time.time() - int(timestamp) / 1000) > 300 or nonce in self.nonces:
            return False
        self.nonces[nonce] = now_s()
        return True

    async def take_jobs(self, request: web.Request) -> web.Response:
        body = await request.read()
        for _ in range(40):
            if self.worker_id:
                break
            await asyncio.sleep(TICK_S)  # the first push may overtake the answer to the registration
        if not self.is_signed(request, body):
            return web.Response(status=401)
        push = msgpack.unpackb(body, timestamp=3)
        return packed(self.offer(push["epoch"], push["jobs"]))

    async def prove(self, request: web.Request) -> web.Response:
        nonce = msgpack.unpackb(await request.read())["nonce"]
        if not NONCE.fullmatch(nonce):
            return web.Response(status=422)
        return packed({"proof": hmac.new(self.secret.encode(), nonce.encode(), hashlib.sha256).hexdigest()})

    async def cancel(self, request: web.Request) -> web.Response:
        body = await request.read()
        if not self.is_signed(request, body):
            return web.Response(status=401)
        claim = self.claims.get(msgpack.unpackb(body)["token"])
        if claim and claim.is_running and not claim.is_lost:
            claim.is_canceled = True
            if claim.task is not None:
                claim.task.cancel()
        return packed({})

    async def drain(self, request: web.Request) -> web.Response:
        if not self.is_signed(request, await request.read()):
            return web.Response(status=401)
        self.is_draining = True
        return packed({})

    async def status(self, request: web.Request) -> web.Response:
        if not self.is_signed(request, b""):
            return web.Response(status=401)
        return packed(
            {
                "worker_id": self.worker_id,
                "running": [claim.key for claim in self.claims.values() if claim.is_named],
                "free": max(0, MAX_JOBS - self.occupied),
                "max_jobs": MAX_JOBS,
                "names": list(NAMES),
                "draining": self.is_closed,
            }
        )

    # --- its end

    async def end(self) -> None:
        """Take no more, let runs finish for a while, hand the others back, and leave once all is answered."""
        self.is_ending = True
        end_s = time.monotonic() + GRACE_S
        while self.occupied and time.monotonic() < end_s:
            await asyncio.sleep(TICK_S)
        for claim in list(self.claims.values()):
            if claim.is_running and not claim.is_lost and claim.task is not None:
                claim.task.cancel()
        while any(claim.is_running or claim.result is not None for claim in self.claims.values()):
            await asyncio.sleep(TICK_S)
        note("left", detail=self.worker_id)
        for _ in range(len(MASTERS)):
            status, _, _ = await self.call("DELETE", f"/api/workers/{self.worker_id}")
            if status:
                return


def failure(reason: str, message: str) -> dict[str, Any]:
    return {"type": "failure", "reason": reason, "should_retry": True, "error": None, "message": message}


def packed(value: dict[str, Any]) -> web.Response:
    return web.Response(body=msgpack.packb(value), content_type="application/msgpack")


async def main() -> None:
    note("life")
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, trust_env=False) as session:
        session._retry_connection = False
        plain = Plain(session, heard_s=now_s())
        app = web.Application(client_max_size=32 * 1024 * 1024)
        app.router.add_post("/jobs", plain.take_jobs)
        app.router.add_post("/jobs/{id}/cancel", plain.cancel)
        app.router.add_post("/challenge", plain.prove)
        app.router.add_post("/drain", plain.drain)
        app.router.add_get("/status", plain.status)
        app.router.add_get("/ping", lambda _: asyncio.sleep(0, web.Response(status=204)))
        runner = web.AppRunner(app, keepalive_timeout=90, access_log=None)
        await runner.setup()
        if not IS_PULLING:
            await web.TCPSite(runner, "127.0.0.1", int(os.environ.get("CHAOS_PORT", "0"))).start()
        loops = [plain.beat(), plain.watch_leases(), plain.report(), *([plain.pull()] if IS_PULLING else [])]
        tasks = [asyncio.create_task(loop) for loop in loops]
        ending = asyncio.create_task(asked.wait())
        # A loop that fails ends the process, and its supervisor starts it again.
        done, _ = await asyncio.wait([*tasks, ending], return_when=asyncio.FIRST_COMPLETED)
        if ending in done:
            await plain.end()
        else:
            for task in done:
                task.result()
        for task in (*tasks, ending):
            task.cancel()
        await asyncio.gather(*tasks, ending, return_exceptions=True)
        with contextlib.suppress(Exception):  # best effort: nothing depends on it
            await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
