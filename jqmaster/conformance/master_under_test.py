"""The master under test: calls to it as a pusher and as a worker, and checks of its answers."""

import time
from collections.abc import Mapping
from typing import Any

from jqmaster.conformance.questions import FailedError, expect
from jqmaster.conformance.raw_http import RawMessage, call
from jqmaster.conformance.wire import MSGPACK, decode, encode, media_type, new_id

Fields = dict[str, Any]


class MasterUnderTest:
    """The master to ask. `name`: the name of all jobs of this run, so that no other worker takes them."""

    def __init__(self, url: str, token: str | None) -> None:
        self.url = url
        self._token = token
        self.name = f"conformance.{new_id()[-12:]}"
        self.pushed: list[str] = []
        self.workers: list[str] = []

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        fields: Mapping[str, str] | None = None,
        *,
        timeout_s: float = 30.0,
    ) -> RawMessage:
        """Send a raw call with the token."""
        bearer = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        return await call(
            method, self.url + path, fields={**bearer, **(fields or {})}, body=body, timeout_s=timeout_s
        )

    async def ask(
        self,
        method: str,
        path: str,
        value: Any = None,
        *,
        kind: str = MSGPACK,
        timeout_s: float = 30.0,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Send a call in MessagePack or JSON, and return the status and the decoded answer."""
        body = None if value is None else encode(value, kind)
        fields = {"Accept": kind, **({"Content-Type": kind} if body is not None else {}), **(headers or {})}
        answer = await self.send(method, path, body, fields, timeout_s=timeout_s)
        return answer.status, decode(answer.body, media_type(answer.fields)) if answer.body else None

    async def push(self, argument: Any = None, **fields: Any) -> str:
        """Push a job that must be accepted, and return its ID."""
        job = {"name": self.name, "argument": argument, **fields}
        status, answer = await self.ask("POST", "/api/jobs", job)
        expect(status == 201, f"a push was answered {status}: {answer}")
        self.pushed.append(answer["id"])
        return str(answer["id"])

    async def view(self, job_id: str) -> Fields:
        status, job = await self.ask("GET", f"/api/jobs/{job_id}")
        expect(status == 200, f"GET /api/jobs/{{id}} was answered {status}")
        found: Fields = job
        return found

    async def expect_state(self, job_id: str, state: str) -> Fields:
        job = await self.view(job_id)
        expect(job["state"] == state, f"the job is {job['state']}, not {state}")
        return job

    async def refused(  # noqa: PLR0917  reads as the call does
        self,
        status: int,
        code: str,
        method: str,
        path: str,
        value: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Fields:
        """Send a call that must be refused with this status and code, and return the problem."""
        found, problem = await self.ask(method, path, value, headers=headers)
        expect(
            (found, (problem or {}).get("code")) == (status, code),
            f"answered {found} {(problem or {}).get('code')}, not {status} {code}",
        )
        for field, kind in {"type": str, "title": str, "status": int, "detail": str, "errors": list}.items():
            expect(isinstance(problem.get(field), kind), f"`{field}` of the problem is missing")
        expect(
            problem["status"] == status, ("the `status` of the problem differs from the status of the answer")
        )
        return dict(problem)

    async def register(self, **fields: Any) -> "PullingWorker":
        """Register a worker of the kit that pulls the jobs of this run."""
        body = {
            "url": None, "names": [self.name], "max_jobs": 10, "secret": "conformance-" + "s" * 32,
            "node_id": "conformance",
            "pid": 1, "labels": {}, "version": "1", **fields,
        }  # fmt: skip
        status, answer = await self.ask("POST", "/api/workers", body)
        expect(status == 201, f"a registration was answered {status}: {answer}")
        self.workers.append(answer["worker_id"])
        return PullingWorker(self, answer)

    async def clean(self) -> None:
        """Clean up after each question: unregister its workers and delete its jobs."""
        while self.workers:
            await self.ask("DELETE", f"/api/workers/{self.workers.pop()}")
        while self.pushed:
            job_id = self.pushed.pop()
            await self.ask("POST", f"/api/jobs/{job_id}/cancel")
            await self.ask("DELETE", f"/api/jobs/{job_id}")


class PullingWorker:
    """A worker that the kit controls."""

    def __init__(self, master: MasterUnderTest, registered: Fields) -> None:
        self._master = master
        self.registered = registered
        self.id = str(registered["worker_id"])
        self.held: list[Fields] = []

    async def claim(self, *, wait: float = 10.0, **fields: Any) -> list[Fields]:
        """Return the jobs that the master offers. Heartbeats name these jobs from now on."""
        status, answer = await self.ask_claim(wait=wait, **fields)
        expect(status == 200, f"a call for jobs was answered {status}: {answer}")
        self.held += answer["jobs"]
        await self.beat()
        return list(answer["jobs"])

    async def one(self, job_id: str, **fields: Any) -> Fields:
        """Return the claim of this job."""
        ends_s = time.monotonic() + 15
        while time.monotonic() < ends_s:
            for job in await self.claim(wait=2, **fields):
                if job["job_id"] == job_id:
                    return job
        raise FailedError("a worker that asks for the job does not get it")

    async def ask_claim(self, **fields: Any) -> tuple[int, Any]:
        body = {"max": 10, "wait": 0, **fields}
        return await self._master.ask(
            "POST", f"/api/workers/{self.id}/claim", body, timeout_s=float(body["wait"] or 0) + 15
        )

    async def beat(self, **fields: Any) -> Fields:
        running = [{"job_id": job["job_id"], "token": job["token"]} for job in self.held]
        status, answer = await self._master.ask(
            "POST",
            f"/api/workers/{self.id}/heartbeat",
            {"running": running, "free": 10 - len(running), **fields},
        )
        expect(status == 200, f"a heartbeat was answered {status}: {answer}")
        return dict(answer)

    async def report(self, job: Fields, **ending: Any) -> Fields:
        item = {
            "job_id": job["job_id"],
            "token": job["token"],
            "finished_at": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()),
            **(ending or {"type": "success", "result": None}),
        }
        status, answer = await self._master.ask(
            "POST", f"/api/workers/{self.id}/results", {"results": [item]}
        )
        expect(status == 200, f"a result was answered {status}: {answer}")
        self.held = [held for held in self.held if held["token"] != job["token"]]
        return dict(answer)
