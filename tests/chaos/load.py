"""Pushers: every kind of client request at a steady rate. Each call on the wire is kept with its outcome."""

import asyncio
import random
import time
from collections import deque
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
import msgpack

from tests.chaos import event_load, odd_values, outside_load, spend_load, task_load, unique_load
from tests.chaos.history import Call, Outcome
from worker_sdk.pusher.ids import new_job_id

CALL_TIMEOUT_S = 3.0
REPEAT_S = (0.05, 0.4)
# How far back clients look for jobs to query.
RECENT = 400


@dataclass(frozen=True, slots=True)
class Mix:
    """Shares of pushed and requested calls."""

    rate_per_s: float = 40.0
    clients: int = 4
    long_s: tuple[float, float] = (4.0, 9.0)
    # How long a job may take, in seconds. The rerun of a lost job must not depend on it.
    timeouts_s: tuple[float, ...] = (60.0, 600.0, 86_400.0)
    poison: float = 0.002
    long: float = 0.01
    narrow: float = 0.08
    # In a thread that nothing can stop.
    blocking: float = 0.03
    # Jobs that must not start twice after a worker has taken them.
    unrepeatable: float = 0.15
    delayed: float = 0.08
    failing: float = 0.1
    discarding: float = 0.05
    kept: float = 0.3
    repeated: float = 0.03
    contradicted: float = 0.01
    canceled: float = 0.05
    viewed: float = 0.1
    retried: float = 0.01
    deleted: float = 0.01
    # With a value that a decoder may refuse.
    hostile: float = 0.03
    unique: float = 0.2
    # Share of unique pushes with a concurrent rival for the key.
    rivals: float = 0.5
    # Events, in addition to pushes.
    events: float = 0.1
    # With a callback from another system.
    outside: float = 0.1
    # With steps, gathered with others, or sealed.
    tasks: float = 0.1
    # With a weight, behind a limit in units.
    spending: float = 0.1
    # With a webhook, among pushes unrelated to any other.
    told: float = 0.1


class Pushers:
    """`calls` is the history, and `unsettled` the pushes of unknown fate. Each call names `store_id`, so that a
    stranger at a master's address refuses it. `notify_url` is the webhook address, if any."""

    def __init__(
        self, urls: list[str], mix: Mix, seed: int, *, store_id: str = "", notify_url: str = ""
    ) -> None:
        self.calls: list[Call] = []
        self.unsettled: dict[str, dict[str, Any]] = {}
        self._unsettled_events: dict[str, dict[str, Any]] = {}
        self._urls = urls
        self._mix = mix
        self._seed = seed
        self._named = {"JQ-Store": store_id} if store_id else {}
        self._notify_url = notify_url
        self._count = 0
        self._recent: deque[dict[str, Any]] = deque(maxlen=RECENT)
        self._session: aiohttp.ClientSession | None = None
        self._asides: set[asyncio.Task[None]] = set()

    async def push_for(self, duration_s: float) -> None:
        """Start all clients, and return after the last answer to each."""
        async with _session() as session:
            self._session = session
            end_s = time.monotonic() + duration_s
            async with asyncio.TaskGroup() as group:
                for n in range(self._mix.clients):
                    group.create_task(self._client(random.Random(f"{self._seed}:client-{n}"), end_s))
            await asyncio.gather(*self._asides)
            self._session = None

    def take_over(self, calls: list[Call]) -> None:
        """Add another pusher's calls, to find out the outcomes that it did not learn."""
        self.calls += calls
        for call in calls:
            if call.kind == "push" and call.outcome == "unknown" and call.job is not None:
                self.unsettled.setdefault(call.job_id, dict(call.job))

    async def settle(self, timeout_s: float) -> None:
        """Repeat every push with an unknown outcome until it is known."""
        async with _session() as session:
            self._session = session
            end_s = time.monotonic() + timeout_s
            rng = random.Random(f"{self._seed}:settle")
            for job in list(self.unsettled.values()):
                await self._push(rng, job, end_s)
            for event in list(self._unsettled_events.values()):
                await self._send(rng, event, end_s)
            self._session = None

    async def probe_keys(self, timeout_s: float) -> None:
        """Push one job for each uniqueness key. It is refused unless the key is free."""
        async with _session() as session:
            self._session = session
            end_s = time.monotonic() + timeout_s
            rng = random.Random(f"{self._seed}:probe")
            for job in unique_load.probes(self._count + 1):
                await self._push(rng, job, end_s)
            self._session = None

    async def _client(self, rng: random.Random, end_s: float) -> None:
        pace_s = self._mix.clients / self._mix.rate_per_s
        next_s = time.monotonic() + rng.uniform(0, pace_s)
        while (now_s := time.monotonic()) < end_s:
            await asyncio.sleep(max(0.0, next_s - now_s))
            # Do not make up for late calls: the system's pace determines the load.
            next_s = max(next_s + pace_s, time.monotonic() - 1.0)
            job = self._draw(rng)
            if await self._push(rng, job, min(end_s, time.monotonic() + 10.0)):
                self._recent.append(job)
                self._follow_up(rng, job, end_s)
            if rng.random() < self._mix.viewed and self._recent:
                await self._ask(rng, "view", rng.choice(self._recent)["id"])
            if rng.random() < self._mix.events:
                await self._send_new(rng, min(end_s, time.monotonic() + 10.0))

    async def _send_new(self, rng: random.Random, end_s: float) -> None:
        """Send an event, sometimes several times at once or again later."""
        self._count += 1
        event = event_load.draw_event(rng, self._count)
        if rng.random() < 2 * self._mix.repeated:
            self._aside(self._send(rng, event, end_s), 0.0)
        if rng.random() < 2 * self._mix.repeated:
            self._aside(self._send(rng, event, end_s), rng.uniform(0.0, 2.0))
        await self._send(rng, event, end_s)

    def _draw(self, rng: random.Random) -> dict[str, Any]:
        mix = self._mix
        self._count += 1
        if rng.random() < mix.unique:
            return unique_load.draw(rng, self._count)
        if rng.random() < mix.outside:
            return self._told(rng, outside_load.draw_outside(rng, self._count))
        if rng.random() < mix.tasks:
            return task_load.draw_task(rng, self._count)
        if rng.random() < mix.spending:
            return spend_load.draw_spend(rng, self._count)
        argument: dict[str, Any] = {"n": self._count, "nap_s": round(rng.choice((0, 0, 0.01, 0.1, 0.4)), 3)}
        job: dict[str, Any] = {"id": new_job_id(), "name": "work", "argument": argument}
        if rng.random() < mix.hostile:
            argument["odd"] = rng.choice(odd_values.VALUES).hex()
        job["timeout"] = rng.choice(mix.timeouts_s)
        job["retry"] = {"base_s": 0.1, "factor": 2.0, "max_s": 1.0}
        if rng.random() < mix.poison:
            return job | {"name": "poison"}
        if rng.random() < mix.narrow:
            job["name"] = "narrow"
            argument["nap_s"] = min(argument["nap_s"], 0.1)
        elif rng.random() < mix.blocking:
            job["name"] = "block"
            argument["nap_s"] = round(rng.uniform(1.0, 5.0), 3)
            return self._told(rng, job | {"max_retry": rng.choice((0, 5))})
        elif rng.random() < mix.long:
            argument["nap_s"] = round(rng.uniform(*mix.long_s), 3)
        if rng.random() < mix.unrepeatable:
            job["max_retry"] = 0
        if rng.random() < mix.failing:
            argument["fails"] = rng.choice((1, 1, 2, 9))
            job["max_retry"] = rng.choice((0, 1, 2, 3))
        elif rng.random() < mix.discarding:
            argument["discards"] = True
        if rng.random() < mix.delayed:
            job["delay"] = round(rng.uniform(0.2, 3.0), 3)
        if rng.random() < mix.kept:
            job["keep_result"] = True
        if rng.random() < 0.2:
            job["priority"] = rng.randint(-5, 5)
        return self._told(rng, job)

    def _told(self, rng: random.Random, job: dict[str, Any]) -> dict[str, Any]:
        if self._notify_url and rng.random() < self._mix.told:
            return job | {"notify_url": self._notify_url}
        return job

    def _follow_up(self, rng: random.Random, job: dict[str, Any], end_s: float) -> None:
        mix, after_s = self._mix, rng.uniform(0.05, 2.0)
        if job["name"] in (outside_load.OUTSIDE, spend_load.SPEND, *task_load.TASKS) or "notify_url" in job:
            # Give each only one life. Otherwise, a callback, a webhook or a step could belong to several.
            mix = replace(mix, contradicted=0.0, deleted=0.0, retried=0.0)
        if unique_load.rule_of(job):
            # Do not delete or rerun them. Otherwise, the holder of their keys would be unknown.
            mix = replace(mix, contradicted=0.0, deleted=0.0, retried=0.0)
            if rng.random() < mix.rivals:
                self._count += 1
                self._aside(self._push(rng, unique_load.rival(rng, job, self._count), end_s), 0.0)
        if rng.random() < mix.repeated:
            self._aside(self._push(rng, job, end_s), after_s)
        if rng.random() < mix.contradicted:
            other = job | {"argument": {**job["argument"], "n": -job["argument"]["n"]}}
            self._aside(self._push(rng, other, end_s), after_s)
        if rng.random() < mix.canceled:
            self._aside(self._ask(rng, "cancel", job["id"]), rng.uniform(0, 1.0))
        elif job.get("keep_result"):
            self._aside(self._await_result(rng, job["id"], end_s), 0.0)
        elif rng.random() < mix.deleted:
            self._aside(self._ask(rng, "delete", job["id"]), after_s)
        elif rng.random() < mix.retried:
            self._aside(self._ask(rng, "retry", job["id"]), after_s + 1.0)

    def _aside(self, work: Any, after_s: float) -> None:
        async def later() -> None:
            await asyncio.sleep(after_s)
            await work

        task = asyncio.create_task(later())
        self._asides.add(task)
        task.add_done_callback(self._asides.discard)

    # --- calls

    async def _push(self, rng: random.Random, job: dict[str, Any], end_s: float) -> bool:
        """Enqueue the jobs, and return whether they are stored. Repeat while the outcome is unknown or the refusal is
        only temporary.
        """
        while True:
            call = await self._call(rng, "push", job["id"], "POST", "/api/jobs", job)
            if call.outcome == "done" or call.verdict:
                self.unsettled.pop(job["id"], None)
                return call.outcome == "done"
            if call.outcome == "unknown":
                self.unsettled.setdefault(job["id"], job)
            elif call.status not in (429, 503):
                return False
            if time.monotonic() > end_s:
                return False
            await asyncio.sleep(rng.uniform(*REPEAT_S))

    async def _send(self, rng: random.Random, event: dict[str, Any], end_s: float) -> None:
        """Send an event until its outcome is known."""
        key = event["dedupe_key"]
        while True:
            call = await self._call(rng, "event", key, "POST", "/api/events", event)
            if call.outcome == "done":
                self._unsettled_events.pop(key, None)
                return
            self._unsettled_events.setdefault(key, event)
            if time.monotonic() > end_s:
                return
            await asyncio.sleep(rng.uniform(*REPEAT_S))

    async def _ask(self, rng: random.Random, kind: str, job_id: str) -> Call:
        method, path = {
            "view": ("GET", f"/api/jobs/{job_id}"),
            "cancel": ("POST", f"/api/jobs/{job_id}/cancel"),
            "retry": ("POST", f"/api/jobs/{job_id}/retry"),
            "delete": ("DELETE", f"/api/jobs/{job_id}"),
        }[kind]
        return await self._call(rng, kind, job_id, method, path)

    async def _await_result(self, rng: random.Random, job_id: str, end_s: float) -> None:
        while time.monotonic() < end_s:
            call = await self._call(rng, "result", job_id, "GET", f"/api/jobs/{job_id}/result?wait=2")
            if call.outcome == "done" and not call.state:
                return
            if call.outcome != "done":
                await asyncio.sleep(rng.uniform(*REPEAT_S))

    async def _call(
        self,
        rng: random.Random,
        kind: str,
        job_id: str,
        method: str,
        path: str,
        job: dict[str, Any] | None = None,
    ) -> Call:
        assert self._session
        body = None if job is None else odd_values.packed(job)
        headers = {"Content-Type": "application/msgpack", "Accept": "application/msgpack", **self._named}
        url = rng.choice(self._urls)
        invoked_s = time.monotonic()
        status, answer = 0, None
        try:
            async with self._session.request(method, url + path, data=body, headers=headers) as response:
                raw = await response.read()
                answer = msgpack.unpackb(raw, timestamp=3) if raw else None
                status = response.status
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
            status = 0
        said = answer if isinstance(answer, dict) else {}
        attempts = said.get("attempts") or []
        call = Call(
            kind,
            job_id,
            invoked_s,
            time.monotonic(),
            _outcome(status, said),
            status,
            job,
            _answered(kind, said),
            said.get("state", ""),
            task_load.readable(said) if kind == "result" and status == 200 else None,
            was_running=kind == "cancel" and any(a.get("outcome") == "canceled" for a in attempts),
            verdict=_verdict(said) if kind in ("push", "event") else "",
            url=url,
            code=str(said.get("code", "")),
        )
        self.calls.append(call)
        return call


def _session() -> aiohttp.ClientSession:
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=CALL_TIMEOUT_S),
        trust_env=False,
    )
    # aiohttp automatically repeats a DELETE whose answer was lost, and the caller sees the 404 of the repeat: a
    # completed call would count as refused. Every repeat must be in the history.
    session._retry_connection = False
    return session


def _answered(kind: str, answer: dict[str, Any]) -> str:
    if kind == "event":
        return str(answer.get("event_id", ""))
    return str(answer.get("id") or answer.get("job_id") or "") if kind == "push" else ""


def _verdict(answer: dict[str, Any]) -> str:
    if answer.get("code") == "not_unique":
        return "refused"
    return "duplicate" if answer.get("duplicate") else "replaced" if answer.get("replaced") else ""


def _outcome(status: int, answer: dict[str, Any]) -> Outcome:
    if 200 <= status < 300:
        return "done"
    if status == 0 or answer.get("code") == "outcome_unknown" or (status >= 500 and status != 503):
        return "unknown"
    # A bare 503 also promises that nothing has happened.
    return "refused"
