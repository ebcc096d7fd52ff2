"""Outside work and end notifications: the pushes, and the system that answers.

The worker writes into its journal which challenge it opened. The outside system reads the journals, and answers each as
the job's argument says: once, twice, with two different bodies, late, or not at all.
"""

import asyncio
import contextlib
import hashlib
import hmac
import json
import random
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import aiohttp

from tests.chaos.history import Call, Line, Outcome
from worker_sdk.pusher.ids import new_job_id

OUTSIDE: Final = "outside"
# How the outside system answers. `never` and `late` have shorter waits.
KINDS: Final = ("once", "once", "twice", "rivals", "several", "signed", "form", "never", "late")
WAIT_S: Final = 30.0
SHORT_WAIT_S: Final = (1.0, 2.5)
LATE_S: Final = (1.0, 5.0)
SECRET: Final = "the outside system of a chaos run"
HEADER: Final = "X-Outside-Signature"
QUESTION: Final = "Go on?"
LOOK_S: Final = 0.05
CALL_TIMEOUT_S: Final = 3.0
# For a while, a master of another store, which does not know these challenges, may answer.
GIVES_UP_S: Final = 40.0
REPEAT_S: Final = (0.1, 0.6)
_VERDICTS: Final = {
    202: "taken", 200: "repeated", 409: "conflict", 410: "over", 404: "unknown", 403: "unsigned",
}  # fmt: skip


def draw_outside(rng: random.Random, number: int) -> dict[str, Any]:
    """Return a push of a job whose work is done elsewhere."""
    kind = rng.choice(KINDS)
    argument: dict[str, Any] = {
        "n": number,
        "kind": kind,
        "expect": rng.choice((2, 3)) if kind == "several" else 1,
        "wait_s": rng.uniform(*SHORT_WAIT_S) if kind in ("never", "late") else WAIT_S,
        # A callback that precedes the worker's report of its challenge meets a napping worker.
        "nap_s": rng.choice((0.0, 0.0, 0.2, 0.8)),
        "fails": rng.choice((0, 0, 0, 1)),
    }
    return {
        "id": new_job_id(),
        "name": OUTSIDE,
        "argument": argument,
        "max_retry": 1 if kind in ("never", "late") else 3,
        "timeout": 600.0,
        "retry": {"base_s": 0.1, "factor": 2.0, "max_s": 1.0},
    }


def opened_with(argument: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job's arguments for `ctx.open_challenge`, except a form."""
    terms: dict[str, Any] = {"timeout_s": argument["wait_s"], "expect": argument["expect"]}
    if argument["kind"] == "signed":
        terms["signature"] = {"header": HEADER, "secret": SECRET, "prefix": "sha256="}
    return terms


def body_of(raw: bytes) -> str:
    """Return the text that identifies a callback, as its handler received it."""
    text = raw.decode()
    return str(json.loads(text)["comment"]) if text.startswith("{") else text


class OutsideSystem:
    """Answers the journals' challenges at any master. `calls` is its part of the history."""

    def __init__(
        self, journals: Callable[[], Iterable[Path]], urls: list[str], seed: int, *, store_id: str = ""
    ) -> None:
        self.calls: list[Call] = []
        self._journals = journals
        self._urls = urls
        self._rng = random.Random(f"{seed}:outside")
        self._named = {"JQ-Store": store_id} if store_id else {}
        self._read: dict[Path, int] = {}
        self._answers: set[asyncio.Task[None]] = set()
        self._session: aiohttp.ClientSession | None = None

    async def run(self) -> None:
        """Answer until cancelled."""
        timeout = aiohttp.ClientTimeout(total=CALL_TIMEOUT_S)
        async with aiohttp.ClientSession(
            timeout=timeout, trust_env=False, connector=aiohttp.TCPConnector(limit=0)
        ) as session:
            self._session = session
            try:
                while True:
                    for line in self._new_lines():
                        self._answer_later(line)
                    await asyncio.sleep(LOOK_S)
            finally:
                for task in self._answers:
                    task.cancel()
                await asyncio.gather(*self._answers, return_exceptions=True)

    def _new_lines(self) -> list[Line]:
        """Return the challenges opened since the last look."""
        found = []
        for path in self._journals():
            if not path.exists():
                continue
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                whole, newline, _ = file.read().rpartition(b"\n")
            self._read[path] = self._read.get(path, 0) + len(whole + newline)
            found += [Line(**json.loads(text)) for text in whole.splitlines() if b'"opened"' in text]
        return [line for line in found if line.what == "opened"]

    def _answer_later(self, line: Line) -> None:
        said = json.loads(line.detail)
        rng, kind, request = self._rng, said["kind"], said["request"]
        first = f"{request[-8:]}-1"
        after_s = rng.choice((0.0, 0.05, 0.5, 2.0))
        match kind:
            case "never":
                return
            case "late":
                self._spawn(line, said, first, said["wait_s"] + rng.uniform(*LATE_S))
            case "twice":
                for _ in range(2):
                    self._spawn(line, said, first, after_s)
            case "rivals":
                self._spawn(line, said, first, after_s)
                self._spawn(line, said, f"{request[-8:]}-other", after_s)
            case "several":
                for number in range(said["expect"]):
                    self._spawn(line, said, f"{request[-8:]}-{number + 1}", after_s + rng.uniform(0.0, 1.0))
            case "signed":
                self._spawn(line, said, f"{request[-8:]}-forged", after_s, is_signed=False)
                self._spawn(line, said, first, after_s)
            case _:
                self._spawn(line, said, first, after_s)
                if rng.random() < 0.2:
                    # Much later, by this run's standards.
                    self._spawn(line, said, first, after_s + rng.uniform(2.0, 8.0))

    def _spawn(
        self, line: Line, said: Mapping[str, Any], body: str, after_s: float, *, is_signed: bool = True
    ) -> None:
        async def answer() -> None:
            await asyncio.sleep(after_s)
            await self._send(line, said, body, is_signed=is_signed)

        task = asyncio.create_task(answer())
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _send(self, line: Line, said: Mapping[str, Any], body: str, *, is_signed: bool) -> None:
        """Send a callback until its fate is known, or as long as a caller would try."""
        end_s = time.monotonic() + GIVES_UP_S
        while time.monotonic() < end_s:
            call = await self._call(line, said, body, is_signed=is_signed)
            if call.verdict and call.verdict != "unknown":
                return
            await asyncio.sleep(self._rng.uniform(*REPEAT_S))

    async def _call(self, line: Line, said: Mapping[str, Any], body: str, *, is_signed: bool) -> Call:
        assert self._session is not None
        content, headers = body.encode(), {"Content-Type": "text/plain", **self._named}
        if said["kind"] == "form":
            content, headers["Content-Type"] = (
                json.dumps({"choice": "approve", "comment": body}).encode(),
                "application/json",
            )
        elif said["kind"] == "signed":
            secret = SECRET if is_signed else "of somebody else"
            headers[HEADER] = "sha256=" + hmac.digest(secret.encode(), content, hashlib.sha256).hex()
        status, invoked_s = 0, time.monotonic()
        with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError, ValueError):
            async with self._session.post(
                f"{self._rng.choice(self._urls)}/callbacks/{said['request']}", data=content, headers=headers
            ) as response:
                await response.read()
                status = response.status
        verdict = _VERDICTS.get(status, "")
        told = {"request": said["request"], "body": body, "is_signed": is_signed, "attempt": line.attempt}
        call = Call(
            "callback",
            line.job_id,
            invoked_s,
            time.monotonic(),
            _outcome(status),
            status,
            told,
            verdict=verdict,
        )
        self.calls.append(call)
        return call


def _outcome(status: int) -> Outcome:
    if status in (200, 202):
        return "done"
    # 503 also promises that nothing has happened.
    return "refused" if 400 <= status < 500 or status == 503 else "unknown"
