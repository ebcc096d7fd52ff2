"""A fake master for a worker under test. The kit sets its answers, and it records all calls.

The clock of its store is an hour ahead of this machine's clock, to find workers that confuse the two clocks."""

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from jqmaster.conformance import known_fields
from jqmaster.conformance.raw_http import RawMessage, RawReply, Server, call
from jqmaster.conformance.wire import JSON, MSGPACK, decode, encode, media_type, new_id, proof_of

_AHEAD_MS: Final = 3_600_000
Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SeenHeartbeat:
    """A heartbeat, with its time by the store's clock and by a monotonic clock."""

    store_ms: int
    at_s: float
    worker_id: str
    body: Fields

    @property
    def tokens(self) -> frozenset[str]:
        return frozenset(claim["token"] for claim in self.body["running"])


@dataclass(frozen=True, slots=True)
class Report:
    """A result that a worker reported, even if it was not answered."""

    at_s: float
    worker_id: str
    item: Fields


@dataclass(frozen=True, slots=True)
class SeenRegistration:
    worker_id: str
    body: Fields
    fields: Mapping[str, str]
    proof_error: str


@dataclass(slots=True)
class Behaviour:
    """The master's behaviour until the kit changes it. `FalseMaster.reset_faults` restores the ordinary
    behaviour."""

    # Whether heartbeats are answered, cut off without an answer, or answered with 404.
    beats: Literal["answer", "cut", "unknown"] = "answer"
    renews: bool = True
    cancel: list[Fields] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)
    drain: bool = False
    detached: bool = False
    # Answers to the next calls with results, and to the next calls for jobs. None: cut the connection.
    results: deque[tuple[int, Fields, dict[str, str]] | None] = field(default_factory=deque)
    claims: deque[tuple[int, Fields, dict[str, str]] | None] = field(default_factory=deque)
    stale: set[str] = field(default_factory=set)
    # Jobs to include in the next answer to a report, if the worker asks for jobs.
    next_jobs: list[Fields] = field(default_factory=list)


class FalseMaster:
    """Records `beats`, `reports`, `polls`, `registrations` and `faults`, and never removes an entry.

    * `beat_s`: seconds between two heartbeats.
    * `namespace`: the only namespace that this master serves. It answers calls for other namespaces like a master
      with an unreachable store.
    """

    def __init__(
        self, *, lease_s: float = 4.0, beat_s: float | None = None, namespace: str | None = None
    ) -> None:
        self._prefix = f"/ns/{namespace}" if namespace else ""
        self.token = secrets.token_urlsafe(16)
        self.lease_s = lease_s
        self.heartbeat_interval_s = lease_s / 20 if beat_s is None else beat_s
        self.epoch = 1000
        self.ahead_ms = _AHEAD_MS
        self.fence = 0
        self.script = Behaviour()
        self.beats: list[SeenHeartbeat] = []
        self.reports: list[Report] = []
        # For each call with results: its header JQ-Jobs-After. None: the call had none.
        self.jobs_after: list[str | None] = []
        self.polls: list[Fields] = []
        self.most_polls = 0
        # For each call for jobs that `script` answered: the number of calls for jobs up to and including this
        # call.
        self.failed_polls: list[int] = []
        self.registrations: list[SeenRegistration] = []
        self.refusals: deque[tuple[int, str]] = deque()
        self.left: list[str] = []
        # IDs of workers that announced their end. Masters of 0.2 do not know that call.
        self.leaving: list[str] = []
        self.knows_leaving = True
        # Faults in any of the worker's calls, each once.
        self.faults: list[str] = []
        # Registrations wait for this event. None: registrations are answered at once.
        self.hold_registration: asyncio.Event | None = None
        # Jobs for the next call of a worker that pulls, and the times at which they were created. The wait until
        # that call is not the worker's fault.
        self.mail: deque[tuple[int, list[Fields]]] = deque()
        self.url = ""
        self._last_poll: tuple[str, list[Fields]] = ("", [])
        self._withdrawn: set[str] = set()
        self._open_polls = 0
        self._server = Server(self._serve)

    async def start(self, host: str, port: int) -> None:
        bound = await self._server.start(host, port)
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{bound}"

    async def stop(self) -> None:
        await self._server.stop()

    def reset_faults(self) -> None:
        """Behave like an ordinary master from now on."""
        self.script = Behaviour()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self.ahead_ms

    def next_fence(self) -> int:
        self.fence = max(self.fence + 1, self.now_ms())
        return self.fence

    @property
    def worker(self) -> SeenRegistration:
        """Return the worker that registered last."""
        return self.registrations[-1]

    def fault(self, text: str) -> None:
        if text not in self.faults:
            self.faults.append(text)

    # --- the served routes

    async def _serve(self, request: RawMessage) -> RawReply | None:
        method, path, _ = request.first
        if not path.startswith(f"{self._prefix}/"):
            return self._answer(request, 503, _problem(503, "store_unavailable"))
        path = path.removeprefix(self._prefix)
        if request.fields.get("authorization") != f"Bearer {self.token}":
            self.fault(f"{method} {path}: not `Authorization: Bearer TOKEN`")
            return self._answer(request, 401, _problem(401, "unauthorized"))
        body: Any = None
        if request.body:
            kind = media_type(request.fields)
            if kind not in (MSGPACK, JSON):
                self.fault(f"{method} {path}: Content-Type {kind!r}")
                return self._answer(request, 415, _problem(415, "unsupported_media_type"))
            try:
                body = decode(request.body, kind)
            except ValueError as exc:
                self.fault(f"{method} {path}: {exc}")
                return self._answer(request, 400, _problem(400, "unparsable"))
        parts = path.partition("?")[0].strip("/").split("/")
        if parts == ["api", "workers"] and method == "POST" and isinstance(body, dict):
            return await self._register(request, body)
        if parts[:2] == ["api", "workers"] and len(parts) == 3 and method == "DELETE":
            self.left.append(parts[2])
            return self._answer(request, 204, None)
        if parts[:2] == ["api", "workers"] and parts[3:] == ["leaving"] and method == "POST" and body is None:
            self.leaving.append(parts[2])
            if self.knows_leaving:
                return self._answer(request, 204, None)
            return self._answer(request, 404, _problem(404, "not_found"))
        if (
            parts[:2] != ["api", "workers"]
            or len(parts) != 4
            or method != "POST"
            or not isinstance(body, dict)
        ):
            self.fault(f"{method} {path}: no such call, or no map as its body")
            return self._answer(request, 404, _problem(404, "not_found"))
        if parts[2] != self.worker.worker_id:
            return self._answer(request, 404, _problem(404, "unknown_worker"))
        return await self._of_worker(request, parts[3], parts[2], body)

    async def _of_worker(
        self, request: RawMessage, call: str, worker_id: str, body: Fields
    ) -> RawReply | None:
        match call:
            case "heartbeat":
                return self._heartbeat(request, worker_id, body)
            case "results":
                return self._results(request, worker_id, body)
            case "start":
                return self._start(request, body)
            case "claim":
                return await self._claim(request, body)
            case "logs":
                return self._logs(request, body)
        self.fault(f"POST …/{call}: no such call")
        return self._answer(request, 404, _problem(404, "not_found"))

    def _logs(self, request: RawMessage, body: Fields) -> RawReply:
        """Check the lines, but do not keep them. The first line must name its claim. A later line may omit the
        claim if it is the claim of the previous line."""
        entries = body.get("entries")
        lines = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
        for entry in lines:
            if not all(isinstance(entry.get(field), int) for field in ("seq", "at")) or "text" not in entry:
                self.fault(f"POST …/logs: a line without seq, at or text: {entry}")
        if not lines or not {"job_id", "token"} <= lines[0].keys():
            self.fault("POST …/logs: the first line names no claim")
        return self._answer(request, 200, {"accepted": len(lines), "dropped": 0, "stale": []})

    def _answer(
        self, request: RawMessage, status: int, value: Any, fields: Mapping[str, str] | None = None
    ) -> RawReply:
        accepted = request.fields.get("accept", "")
        sent = media_type(request.fields)
        kind = next(
            (kind for kind in (MSGPACK, JSON) if kind in accepted), sent if sent in (MSGPACK, JSON) else JSON
        )
        if value is None:
            return RawReply(status, fields=fields)
        return RawReply(status, encode(value, kind), kind, fields)

    async def _register(self, request: RawMessage, body: Fields) -> RawReply:
        if self.refusals:
            status, code = self.refusals.popleft()
            return self._answer(request, status, _problem(status, code), {"Retry-After": "1"})
        proof_error = ""
        if body.get("url") is not None:
            proof_error = await self._prove(body)
        worker_id = new_id()
        self.registrations.append(SeenRegistration(worker_id, body, request.fields, proof_error))
        if proof_error:
            return self._answer(request, 422, _problem(422, "address_unverified"))
        # A worker that has registered again is neither detached nor unknown.
        self.script.detached = False
        self.script.beats = "answer"
        if self.hold_registration is not None:
            await self.hold_registration.wait()
        return self._answer(
            request,
            201,
            {
                "worker_id": worker_id,
                "epoch": self.epoch,
                "store_time_ms": self.now_ms(),
                "heartbeat_interval_s": self.heartbeat_interval_s,
                "lease_s": self.lease_s,
                "a_field_of_tomorrow": {"x": [1]},
            },
        )

    async def _prove(self, body: Fields) -> str:
        nonce = secrets.token_urlsafe(32)
        try:
            answer = await call(
                "POST",
                f"{body['url']}/challenge",
                fields={"Content-Type": MSGPACK},
                body=encode({"nonce": nonce}, MSGPACK),
                timeout_s=5,
            )
            proof = decode(answer.body, MSGPACK)["proof"] if answer.status == 200 else None
        except (OSError, EOFError, ValueError, KeyError, TypeError, TimeoutError) as exc:
            return f"POST /challenge: {type(exc).__name__}: {exc}"
        if answer.status != 200:
            return f"POST /challenge was answered {answer.status}"
        if isinstance(proof, bytes):
            return "`proof` is binary: encode it as MessagePack str, not bin"
        return (
            ""
            if proof == proof_of(str(body.get("secret")), nonce)
            else "`proof` is not the HMAC of the nonce"
        )

    def _heartbeat(self, request: RawMessage, worker_id: str, body: Fields) -> RawReply | None:
        script = self.script
        if not _is_heartbeat(body):
            self.fault(f"heartbeat: {str(body)[:200]}")
            return self._answer(request, 422, _problem(422, "invalid"))
        self.beats.append(SeenHeartbeat(self.now_ms(), time.monotonic(), worker_id, body))
        if script.beats == "cut":
            return None
        if script.beats == "unknown":
            return self._answer(request, 404, _problem(404, "unknown_worker"))
        now_ms = self.now_ms()
        cancel = [claim for claim in script.cancel if claim["token"] in self.beats[-1].tokens]
        return self._answer(
            request,
            200,
            {
                "epoch": self.epoch,
                "store_time_ms": now_ms,
                "fence": self.fence,
                "lease_until_ms": now_ms
                + (round(self.lease_s * 1000) if script.renews and not script.detached else 0),
                "heartbeat_interval_s": self.heartbeat_interval_s,
                "lease_s": self.lease_s,
                "cancel": cancel,
                "lost": [claim for claim in body["running"] if claim["token"] in script.lost],
                "drain": script.drain,
                "detached": script.detached,
                "a_field_of_tomorrow": None,
            },
        )

    def _results(self, request: RawMessage, worker_id: str, body: Fields) -> RawReply | None:
        items = body.get("results")
        if (
            not isinstance(items, list)
            or not all(isinstance(item, dict) for item in items)
            or not 1 <= len(items) <= 500
        ):
            self.fault(f"results: {str(body)[:200]}")
            return self._answer(request, 422, _problem(422, "invalid"))
        self.reports += [Report(time.monotonic(), worker_id, item) for item in items]
        jobs_after = request.fields.get("jq-jobs-after")
        self.jobs_after.append(jobs_after)
        if self.script.results:
            scripted = self.script.results.popleft()
            return None if scripted is None else self._answer(request, *scripted)
        stale = [item["job_id"] for item in items if item["token"] in self.script.stale]
        accepted = [item["job_id"] for item in items if item["token"] not in self.script.stale]
        answer: Fields = {"accepted": accepted, "stale": stale}
        if (
            jobs_after is not None
            and self.script.next_jobs
            and all(item.get("type") == "success" for item in items)
        ):
            jobs, self.script.next_jobs = self.script.next_jobs, []
            answer |= {"epoch": self.epoch, "store_time_ms": self.now_ms(), "jobs": jobs}
        return self._answer(request, 200, answer)

    def _start(self, request: RawMessage, body: Fields) -> RawReply:
        asked = body.get("starts", [])
        return self._answer(
            request,
            200,
            {
                "confirmed": [c["job_id"] for c in asked if c["token"] not in self.script.stale],
                "stale": [c["job_id"] for c in asked if c["token"] in self.script.stale],
            },
        )

    async def _claim(self, request: RawMessage, body: Fields) -> RawReply | None:
        self.polls.append(body)
        number = len(self.polls)
        if body.get("withdraw"):
            self._withdrawn.add(str(body.get("poll_id")))
            return self._answer(request, 200, self._jobs([]))
        self._open_polls += 1
        self.most_polls = max(self.most_polls, self._open_polls)
        try:
            return await self._give(request, body, number)
        finally:
            self._open_polls -= 1

    async def _give(self, request: RawMessage, body: Fields, number: int) -> RawReply | None:
        poll_id = str(body.get("poll_id") or "")
        worker_id = self.worker.worker_id
        ends_s = time.monotonic() + min(float(body.get("wait") or 0), 1.0)
        jobs: list[Fields] = []
        if poll_id and poll_id == self._last_poll[0]:
            jobs = self._last_poll[1]
        else:
            while (
                not self.script.claims
                and not self.mail
                and not self.script.drain
                and time.monotonic() < ends_s
            ):
                await asyncio.sleep(0.01)
                if poll_id in self._withdrawn:
                    return self._answer(request, 429, _problem(429, "poll_replaced"), {"Retry-After": "1"})
                if worker_id != self.worker.worker_id:
                    return self._answer(request, 404, _problem(404, "unknown_worker"))
            if self.mail and not self.script.drain:
                made_ms, jobs = self.mail.popleft()
                for job in jobs:
                    job["not_after_ms"] += self.now_ms() - made_ms
                    job["lease_until_ms"] += self.now_ms() - made_ms
        self._last_poll = (poll_id, jobs)
        if self.script.claims:
            scripted = self.script.claims.popleft()
            self.failed_polls.append(number)
            return None if scripted is None else self._answer(request, *scripted)
        return self._answer(request, 200, self._jobs(jobs))

    def _jobs(self, jobs: list[Fields]) -> Fields:
        return {"epoch": self.epoch, "store_time_ms": self.now_ms(), "jobs": jobs, "drain": self.script.drain}


def _is_heartbeat(body: Fields) -> bool:
    running = body.get("running")
    return (
        isinstance(running, list)
        and len(running) <= 1000
        and all(
            isinstance(claim, dict)
            and known_fields.CLAIM <= set(claim) <= known_fields.REPORTED_CLAIM
            and all(isinstance(claim[name], str) for name in known_fields.CLAIM)
            for claim in running
        )
        and type(body.get("free")) is int
        and body["free"] >= 0
        and type(body.get("as_of_ms", 0)) is int
        and set(body) <= known_fields.HEARTBEAT
    )


def _problem(status: int, code: str) -> Fields:
    return {"type": "about:blank", "title": code, "status": status, "detail": "", "code": code, "errors": []}
