"""A master whose jobs and constraints have markers in all content, so that a test can search for them."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

from tests.support.master import Api
from tests.support.scripted_worker import worker_at
from tests.support.waiting import wait_until

# Use only letters, because failure groups leave out variable parts.
OPEN: Final = (
    "MARKargument", "MARKheader", "MARKresult", "MARKerror", "MARKmessage", "MARKoverride", "MARKmatcher", "MARKfilter",
    "MARKprogress", "MARKline",
)  # fmt: skip
# Return the text below `REDACT_PATHS`.
SECRET: Final = ("GONEargument", "GONEheader", "GONEresult", "GONEerror", "GONEoverride", "GONEmatcher")
REDACT_PATHS: Final = ("argument.secret", "headers.x-secret", "result.secret", "error.secret")
NAME: Final = "marked"
_WORK: Final = {"field": "name", "op": "eq", "value": NAME}
# Constraints on redacted paths can be created only before these are redacted.
CONSTRAINTS: Final[dict[str, dict[str, Any]]] = {
    "by-open": {
        "matcher": {"all": [_WORK, {"field": "argument.open", "op": "ne", "value": "MARKmatcher"}]},
        "key": "argument.open", "concurrency": 1, "overrides": [{"value": "MARKoverride", "concurrency": 2}],
    },
    "by-secret": {
        "matcher": {"all": [_WORK, {"field": "argument.secret", "op": "in", "value": ["GONEmatcher", "GONEargument"]}]},
        "key": "argument.secret", "concurrency": 1, "overrides": [{"value": "GONEoverride", "paused": True}],
    },
    "by-header": {"matcher": _WORK, "key": 'headers["x-open"]', "concurrency": 1},
}  # fmt: skip
# A definition of events, beside the scheduled ones.
_OF_EVENTS: Final[dict[str, Any]] = {
    "kind": "event", "event_type": "marked.*", "job": {"name": "other"}, "enabled": False,
    "matcher": {"any": [
        {"field": "payload.open", "op": "ne", "value": "MARKmatcher"},
        {"field": "payload.secret", "op": "in", "value": ["GONEmatcher", "GONEargument"]},
    ]},
    "argument": {"open": "MARKargument", "secret": "GONEargument", "all": {"from": "payload"}},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Marked:
    """IDs of the marked objects."""

    failed: str
    succeeded: str
    running: str
    waiting: str
    worker: str
    action: str
    group: str
    event: str
    batch: str

    @property
    def jobs(self) -> tuple[str, ...]:
        return (self.failed, self.succeeded, self.running, self.waiting)


@contextlib.asynccontextmanager
async def marked(admin: Api) -> AsyncIterator[Marked]:
    """Create four jobs: one failed, one succeeded, one running, and one that waits for it. Nothing is redacted yet."""
    job: dict[str, Any] = {
        "argument": {"open": "MARKargument", "secret": "GONEargument"},
        "headers": {"x-open": "MARKheader", "x-secret": "GONEheader"},
        "keep_result": True, "max_retry": 0, "tags": ["plain"],
    }  # fmt: skip
    async with worker_at(admin, NAME) as worker:
        failed = await admin.enqueue(NAME, **job)
        text = "ValueError: MARKmessage with GONEargument and GONEerror"
        error = {"open": "MARKerror", "secret": "GONEerror"}
        await worker.end(await worker.next_job(), "failure", message=text, error=error)
        succeeded = await admin.enqueue(NAME, **job)
        result = {"open": "MARKresult", "secret": "GONEresult"}
        claim = await worker.next_job()
        part = {"job_id": claim["job_id"], "token": claim["token"], "first": 1, "parts": [result]}
        status, problem = await admin.call("POST", f"/api/workers/{worker.id}/parts", part)
        assert status == 200, problem
        line = {"job_id": claim["job_id"], "token": claim["token"], "seq": 1, "at": 1_800_000_000_000}
        line |= {"text": "MARKline of GONEargument", "level": "error"}
        status, problem = await admin.call("POST", f"/api/workers/{worker.id}/logs", {"entries": [line]})
        assert status == 200, problem
        await worker.end(claim, result=result)
        for name, document in CONSTRAINTS.items():
            status, problem = await admin.call("PUT", f"/api/constraints/{name}", document)
            assert status == 201, problem
            for value in (document["overrides"][0]["value"],) if "overrides" in document else ():
                limit = {"value": value, "concurrency": 3}
                assert (await admin.call("POST", f"/api/constraints/{name}/values", limit))[0] == 200
        for name in CONSTRAINTS:
            # Use the same names so that one path list covers both. They never start a job.
            content = {"argument": job["argument"], "headers": job["headers"]}
            document = {
                "job": {"name": "other", **content},
                "schedule": {"daily_at": "02:30"},
                "enabled": False,
            }
            if name == "by-header":
                document = _OF_EVENTS
            status, problem = await admin.call("PUT", f"/api/definitions/{name}", document)
            assert status == 201, problem
        sent = {"event_type": "marked.event", "payload": job["argument"]}
        status, event = await admin.call("POST", "/api/events", sent)
        assert status == 202, event
        callback = {"name": "other", "argument": job["argument"], "headers": job["headers"]}
        status, batch = await admin.call("POST", "/api/batches", {"on_success": callback})
        assert status == 201, batch
        running = await admin.enqueue(NAME, **job)
        claim = await worker.next_job()
        told = {"fraction": 0.5, "message": "MARKprogress with GONEargument"}
        held = [{"job_id": claim["job_id"], "token": claim["token"], "progress": told}]
        status, problem = await worker.beat(running=held)
        assert status == 200, problem
        waiting = await admin.enqueue(NAME, **job)
        action = {"action": "retry", "filter": {"text": "MARKfilter", "name": "none"}}
        status, begun = await admin.call("POST", "/api/jobs/actions", action)
        assert status == 202, begun

        async def grouped() -> list[dict[str, Any]]:
            groups: list[dict[str, Any]] = (await admin.call("GET", "/api/failures"))[1]["groups"]
            return groups

        (group,) = await wait_until(grouped, what="the failure is counted")
        yield Marked(
            failed,
            succeeded,
            running,
            waiting,
            worker.id,
            begun["id"],
            group["id"],
            event["event_id"],
            batch["id"],
        )
