"""The worker under test: how the kit offers jobs to it, and how it sees that the worker runs them."""

import asyncio
import contextlib
import secrets
import signal
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from jqmaster.conformance.false_master import FalseMaster, Fields, Report
from jqmaster.conformance.questions import FailedError, SkippedError, WorkerMode, expect, until
from jqmaster.conformance.raw_http import RawMessage, call
from jqmaster.conformance.wire import MSGPACK, decode, encode, new_id, new_token, signature

ECHO: Final = "conformance.echo"
SLEEP: Final = "conformance.sleep"
FAIL: Final = "conformance.fail"
NAMES: Final = (ECHO, SLEEP, FAIL)


class WorkerUnderTest:
    """Calls the worker like a master. `process` exists if the kit started the worker itself."""

    def __init__(self, master: FalseMaster, process: asyncio.subprocess.Process | None) -> None:
        self.master = master
        self.process = process

    @property
    def mode(self) -> WorkerMode:
        return WorkerMode.PULL if self.master.worker.body.get("url") is None else WorkerMode.PUSH

    @property
    def id(self) -> str:
        return self.master.worker.worker_id

    @property
    def url(self) -> str:
        return str(self.master.worker.body["url"]).rstrip("/")

    @property
    def secret(self) -> str:
        return str(self.master.worker.body["secret"])

    @property
    def max_jobs(self) -> int:
        return int(self.master.worker.body["max_jobs"])

    @property
    def beat_s(self) -> float:
        return self.master.heartbeat_interval_s

    async def settle(self) -> None:
        """Reset after a question: the master behaves normally again, and running jobs are canceled."""
        self.master.reset_faults()
        if self.process is not None and self.process.returncode is not None:
            return  # the worker has ended, as the kit requested
        # best effort: a failure will show in the next question.
        with contextlib.suppress(FailedError):
            await self.beats(1)
            self.master.script.lost = set(self.master.beats[-1].tokens)
            await until(lambda: not self.master.beats[-1].tokens, "idle", timeout_s=8)

    # --- signed calls

    def headers(self, verb: str, route: str, body: bytes, **other: str) -> dict[str, str]:
        """Return the signature headers. `other` replaces parts of the signed text: method, path, worker_id,
        timestamp, nonce, secret or signed_body."""
        said = {
            "method": verb,
            "path": urlsplit(self.url).path + route,
            "worker_id": self.id,
            "timestamp": str(time.time_ns() // 1_000_000),
            "nonce": secrets.token_urlsafe(16),
            **other,
        }
        signed = signature(
            said.pop("secret", self.secret),
            body=said.pop("signed_body", body.decode("latin-1")).encode("latin-1"),
            **said,
        )
        return {
            "X-JQ-Worker": said["worker_id"],
            "X-JQ-Timestamp": said["timestamp"],
            "X-JQ-Nonce": said["nonce"],
            "X-JQ-Signature": signed,
        }

    async def send(
        self,
        method: str,
        route: str,
        body: bytes | None = None,
        *,
        fields: Mapping[str, str] | None = None,
        content_type: str = MSGPACK,
    ) -> RawMessage:
        """Send one call. `fields` replaces the correct signature."""
        given = self.headers(method, route, body or b"") if fields is None else fields
        kind = {"Content-Type": content_type} if body is not None and content_type else {}
        return await call(method, self.url + route, fields={**kind, **given}, body=body)

    async def command(self, route: str, **fields: Any) -> int:
        """Send a signed POST and return its status."""
        return (await self.send("POST", route, encode(fields, MSGPACK))).status

    # --- jobs

    def job(self, name: str = ECHO, argument: Any = None, **fields: Any) -> Fields:
        """Return an offer that is valid for some seconds."""
        now_ms = self.master.now_ms()
        return {
            "job_id": new_id(),
            "attempt": 1,
            "token": new_token(),
            "fence": self.master.next_fence(),
            "phase": "run",
            "name": name,
            "argument": argument,
            "timeout": 30.0,
            "not_after_ms": now_ms + 5000,
            "lease_until_ms": now_ms + round(self.master.lease_s * 1000),
            "headers": {},
            **fields,
        }

    def body_of(self, *jobs: Fields, **fields: Any) -> bytes:
        return encode(
            {
                "worker_id": self.id,
                "epoch": self.master.epoch,
                "store_time_ms": self.master.now_ms(),
                "jobs": list(jobs),
                **fields,
            },
            MSGPACK,
        )

    async def push(self, *jobs: Fields, **fields: Any) -> dict[str, str]:
        """Push jobs in one call, and return the verdict of each by job ID."""
        answer = await self.send("POST", "/jobs", self.body_of(*jobs, **fields))
        expect(answer.status == 200, f"a push was answered {answer.status}")
        return verdicts(decode(answer.body, MSGPACK), [job["job_id"] for job in jobs])

    async def give(self, *jobs: Fields) -> None:
        """Offer the worker jobs that it must take."""
        if self.mode is WorkerMode.PULL:
            self.master.mail.append((self.master.now_ms(), list(jobs)))
            await until(lambda: not self.master.mail, "the worker asked for no jobs")
            return
        for job_id, verdict in (await self.push(*jobs)).items():
            expect(verdict == "accepted", f"job {job_id} was answered {verdict}, not accepted")

    async def offer(self, job: Fields) -> str:
        """Offer one job and return the verdict. For a worker that pulls, the verdict is `accepted` or `rejected`."""
        if self.mode is WorkerMode.PUSH:
            return (await self.push(job))[job["job_id"]]
        await self.give(job)
        polls, seen = len(self.master.polls), len(self.master.beats)

        def is_refused() -> bool:
            return any(
                claim["token"] == job["token"]
                for poll in self.master.polls[max(0, polls - 1) :]
                for claim in poll.get("refused") or []
            )

        await until(
            lambda: self.was_accepted(job) or is_refused() or len(self.master.beats) >= seen + 6,
            "no heartbeat came",
        )
        return "accepted" if self.was_accepted(job) else "rejected"

    def was_accepted(self, job: Fields) -> bool:
        return any(job["token"] in beat.tokens for beat in self.master.beats) or bool(self.reports_of(job))

    def reports_of(self, job: Fields) -> list[Report]:
        return [report for report in self.master.reports if report.item.get("token") == job["token"]]

    async def result_of(self, job: Fields, timeout_s: float = 10.0) -> Fields:
        await until(lambda: self.reports_of(job), "no result was reported", timeout_s)
        return self.reports_of(job)[-1].item

    def is_named(self, job: Fields) -> bool:
        """Return whether the last heartbeat names the claim."""
        return bool(self.master.beats) and job["token"] in self.master.beats[-1].tokens

    async def running(self, seconds: float = 20.0, **fields: Any) -> Fields:
        """Return a running job that a heartbeat has named."""
        job = self.job(SLEEP, seconds, timeout=60.0, **fields)
        await self.give(job)
        await until(lambda: self.is_named(job), "no heartbeat names a job that runs")
        return job

    async def beats(self, count: int) -> None:
        """Wait for `count` more heartbeats."""
        seen = len(self.master.beats)
        await until(lambda: len(self.master.beats) >= seen + count, f"{count} heartbeats did not come")

    async def stop(self, job: Fields) -> None:
        """End a job through the answer to a heartbeat."""
        self.master.script.cancel.append(claim_of(job))
        await self.result_of(job)

    # --- the process

    def need_process(self) -> asyncio.subprocess.Process:
        if self.process is None:
            raise SkippedError("the kit did not start the worker: use --run")
        return self.process

    def terminate(self) -> None:
        self.need_process().send_signal(signal.SIGTERM)


def verdicts(answer: Any, job_ids: list[str]) -> dict[str, str]:
    """Return the verdicts in the answer to a push, one per job. Raise FailedError if the answer does not have the
    expected form."""
    expect(isinstance(answer, dict), "the answer to a push is not a map")
    accepted, rejected = answer.get("accepted"), answer.get("rejected")
    expect(
        isinstance(accepted, list) and isinstance(rejected, list), "`accepted` and `rejected` must be arrays"
    )
    found: dict[str, str] = {}
    for job_id in accepted:
        expect(isinstance(job_id, str), "an accepted job ID is not text")
        found[job_id] = "accepted"
    for entry in rejected:
        expect(
            isinstance(entry, dict) and isinstance(entry.get("job_id"), str), "a rejected job has no `job_id`"
        )
        found[entry["job_id"]] = str(entry.get("reason"))
    expect(set(found) == set(job_ids), f"the answer names {sorted(found)}, not {sorted(set(job_ids))}")
    return found


def claim_of(job: Fields) -> Fields:
    return {"job_id": job["job_id"], "token": job["token"]}
