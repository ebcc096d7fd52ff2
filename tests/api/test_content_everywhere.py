"""Put markers into everything that a job carries, and look for them in every answer of every route, as every kind of
caller. A new route must be added to this test before it passes."""

import asyncio
import contextlib
import itertools
import json
import logging
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import httpx
import pytest

from jqmaster.api.http.endpoint import Operation
from jqmaster.api.routes import OPERATIONS
from jqmaster.domain.identity.access import Scope
from jqmaster.domain.ids import new_id
from tests.support import real_time
from tests.support.marked import CONSTRAINTS, NAME, OPEN, REDACT_PATHS, SECRET, Marked, marked
from tests.support.master import Api, master_on
from tests.support.server import StoreServer

pytestmark = [pytest.mark.req("D18"), pytest.mark.rule("E6.1"), real_time.MASTER]

CALLERS: Final = ("none", *Scope)
# Callers who may fetch a result get all of it.
WHOLE: Final = {("GET", "/api/jobs/{job_id}/result"), ("GET", "/api/jobs/{job_id}/parts")}
JSON: Final = {"Accept": "application/json"}

# Bodies of calls that change nothing, or nothing relevant here; {} where the answer shows only an identity.
BODIES: Final[dict[tuple[str, str], list[Any]]] = {
    ("POST", "/api/jobs"): [{"name": "other"}],
    ("POST", "/api/jobs/bulk"): [{"jobs": [{"name": "other"}]}],
    ("POST", "/api/jobs/preview"): [{"name": NAME}],
    ("PATCH", "/api/jobs/{job_id}"): [{"priority": 0}],
    ("POST", "/api/agent-calls"): [{"tool": "why", "subject": NAME}],
    ("POST", "/api/constraints/preview"): [
        {"matcher": {"field": "name", "op": "eq", "value": NAME}},
        *(
            {"matcher": {"field": "name", "op": "eq", "value": NAME}, "key": key}
            for key in (
                "argument",
                "argument.open",
                "argument.secret",
                "headers.x-open",
                "headers.x-secret",
                "name",
            )
        ),
    ],
    ("POST", "/api/constraints/preview/last-hour"): [
        {"matcher": {"field": "name", "op": "eq", "value": NAME}, "paused": True},
        *(
            {"matcher": {"field": "name", "op": "eq", "value": NAME}, "key": key, "concurrency": 1}
            for key in ("argument", "argument.open", "argument.secret", "headers.x-open", "headers.x-secret")
        ),
    ],
    ("POST", "/api/pauses"): [{"job_name": "other"}],
    ("PUT", "/api/constraints/{name}"): [{"matcher": {"field": "name", "op": "eq", "value": "x"}}],
    ("POST", "/api/constraints/{name}/values"): [{}],
    ("POST", "/api/definitions/preview"): [{"schedule": {"daily_at": "02:30"}}],
    ("PUT", "/api/definitions/{name}"): [{}],
    ("POST", "/api/definitions/{name}/pause"): [{"reason": "for a while"}],
    ("POST", "/api/definitions/{name}/backfill"): [
        {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z", "dry_run": True}
    ],
    ("PUT", "/api/notices/{name}"): [{"when": "job_failed", "to": [{"mail": ["ops@shop.example"]}]}],
    ("PUT", "/api/targets/{name}"): [{}],
    ("POST", "/api/targets/{name}/test"): [{}],
    ("PUT", "/api/calendars/{name}"): [{}],
    ("PUT", "/api/namespaces/{name}"): [{}],
    ("POST", "/api/namespaces/{name}/move"): [{}],
    ("DELETE", "/api/namespaces/{name}/move"): [None],
    ("POST", "/api/namespaces/{name}/slot/move"): [{}],
    ("DELETE", "/api/namespaces/{name}/slot/move"): [None],
    ("POST", "/api/notices/{name}/mute"): [{"until": None}],
    ("POST", "/api/notices/{name}/acknowledge"): [{"key": None}],
    ("PUT", "/api/declarations/{source}"): [{}],
    ("POST", "/api/personal-data/search"): [{"texts": [SECRET]}],
    ("POST", "/api/jobs/{job_id}/erase"): [{}],
    ("POST", "/api/events"): [{"event_type": "other"}],
    ("POST", "/api/batches"): [{"on_success": {"name": "other"}}],
    ("POST", "/api/jobs/actions"): [
        {"action": "retry", "filter": {"name": NAME}, "dry_run": True},
        {"action": "retry", "filter": {"text": "with", "name": "none"}},
    ],
    ("PATCH", "/api/settings"): [{"max_push_jobs": 100}],
    ("POST", "/api/workers"): [{}],
    ("POST", "/api/workers/drain"): [{"version": "none such"}],
    ("POST", "/api/workers/resume"): [{"version": "none such"}],
    ("POST", "/api/failures/{group_id}/ignore"): [{"reason": "known"}],
    ("DELETE", "/api/failures/{group_id}/ignore"): [None],
    ("POST", "/api/failures/{group_id}/assign"): [{"assignee": "ada"}],
    ("DELETE", "/api/failures/{group_id}/assign"): [None],
    ("POST", "/api/failures/{group_id}/resolve"): [{}],
    ("DELETE", "/api/failures/{group_id}/resolve"): [None],
    ("POST", "/api/failures/{group_id}/merge"): [{}],
    ("DELETE", "/api/failures/{group_id}/merge"): [None],
    ("POST", "/api/incidents/{incident_id}/acknowledge"): [{}],
    ("POST", "/api/workers/{worker_id}/slots"): [{"max_jobs": None}],
    ("POST", "/api/workers/{worker_id}/heartbeat"): [{}],
    ("POST", "/api/workers/{worker_id}/start"): [{}],
    ("POST", "/api/workers/{worker_id}/results"): [{}],
    ("POST", "/api/workers/{worker_id}/claim"): [{}],
    ("POST", "/api/workers/{worker_id}/challenges"): [{}],
    ("POST", "/api/workers/{worker_id}/parts"): [{}],
    ("POST", "/api/workers/{worker_id}/observations"): [{}],
    ("POST", "/api/workers/{worker_id}/logs"): [{}],
    ("POST", "/api/jobs/{job_id}/challenges/{request}/callback"): [{}],
    ("POST", "/callbacks/{request_id}"): [{}],
    ("POST", "/callbacks/{request_id}/progress"): [{}],
    ("POST", "/api/session"): [{}],
    ("POST", "/api/session/password"): [{}],
    ("POST", "/api/tokens"): [{}],
    ("POST", "/api/tokens/{token_id}/rotate"): [{}],
    ("POST", "/api/users"): [{}],
    ("PATCH", "/api/users/{user}"): [{}],
}
# Calls without a body: they are made for their refusals, or would end what other calls look at.
PLAIN: Final = {
    ("POST", "/api/jobs/{job_id}/retry"), ("POST", "/api/jobs/{job_id}/run"),
    ("POST", "/api/jobs/actions/{action_id}/cancel"), ("POST", "/api/definitions/{name}/run"),
    ("POST", "/api/events/{event_id}/replay"), ("POST", "/api/batches/{batch_id}/retry"),
    ("POST", "/api/masters/{master_id}/demote"), ("POST", "/api/workers/{worker_id}/resume"),
    ("POST", "/api/notices/{name}/test"), ("POST", "/api/jobs/{job_id}/deliveries/{delivery_id}/resend"),
}  # fmt: skip
UNTOUCHED: Final = {
    ("DELETE", "/api/jobs/{job_id}"), ("DELETE", "/api/jobs/{job_id}/logs"),
    ("POST", "/api/jobs/{job_id}/cancel"), ("DELETE", "/api/constraints/{name}"),
    ("DELETE", "/api/definitions/{name}"), ("POST", "/api/definitions/{name}/resume"),
    ("DELETE", "/api/notices/{name}"), ("DELETE", "/api/targets/{name}"), ("DELETE", "/api/calendars/{name}"),
    ("DELETE", "/api/namespaces/{name}"), ("POST", "/api/namespaces/{name}/close"),
    ("POST", "/api/namespaces/{name}/open"),
    ("POST", "/api/workers/{worker_id}/drain"), ("POST", "/api/workers/{worker_id}/detach"),
    ("DELETE", "/api/workers/{worker_id}"), ("DELETE", "/api/slot-rules/{rule_id}"),
    ("POST", "/api/workers/{worker_id}/leaving"), ("DELETE", "/api/contracts/{job_name}"),
    ("POST", "/api/batches/{batch_id}/seal"), ("POST", "/api/batches/{batch_id}/cancel"),
    ("DELETE", "/api/session"), ("DELETE", "/api/sessions"), ("DELETE", "/api/sessions/{session_id}"),
    ("DELETE", "/api/users/{user}/sessions"), ("DELETE", "/api/tokens/{token_id}"), ("DELETE", "/api/users/{user}"),
}  # fmt: skip


def paths_of(path: str, ids: Marked, jobs: tuple[str, ...]) -> Iterator[str]:
    """Yield the route with each planted value in place of its parameters."""
    values: dict[str, tuple[str, ...]] = {
        "job_id": jobs, "worker_id": (ids.worker,), "name": tuple(CONSTRAINTS), "action_id": (ids.action,),
        "job_name": (NAME,), "source": ("other",), "group_id": (ids.group,), "event_id": (ids.event,),
        "batch_id": (ids.batch,), "master_id": (new_id(),), "token_id": ("0" * 12,), "user": ("nobody",),
        "request_id": ("A" * 54,), "request": ("AAAAAAAA",), "delivery_id": (new_id(),),
        "incident_id": ("1-0",),
    }  # fmt: skip
    names = re.findall(r"{(\w+)}", path)
    for chosen in itertools.product(*(values[name] for name in names)):
        given = dict(zip(names, chosen, strict=True))
        yield re.sub(r"{(\w+)}", lambda match, given=given: given[match[1]], path)


def requests_of(operation: Operation, ids: Marked) -> Iterator[tuple[str, Any]]:
    key = (operation.method, operation.path)
    if key in UNTOUCHED:
        return
    assert operation.method == "GET" or key in BODIES or key in PLAIN, (
        f"{key} is new: say how it is called here"
    )
    # A finished job would run again, and its result would be gone.
    jobs = (ids.running, ids.waiting) if operation.path.endswith("/retry") else ids.jobs
    if key == ("GET", "/api/jobs"):
        yield "/api/jobs?include=error,argument,worker", None
    if key == ("GET", "/api/failures/{group_id}/values"):
        for value in ("argument.open", "argument.secret"):
            yield f"/api/failures/{ids.group}/values?path={value}", None
    for path in paths_of(operation.path, ids, jobs):
        for body in BODIES.get(key, [None]):
            yield path, body


async def answers(http: httpx.AsyncClient, ids: Marked) -> AsyncIterator[tuple[Operation, str, str]]:
    """Yield the answers of all routes to one caller, with their places."""
    for operation in OPERATIONS:
        if operation.is_stream:
            continue
        for path, body in requests_of(operation, ids):
            response = await http.request(operation.method, path, json=body, headers=JSON)
            assert response.status_code != 500, (operation.method, path, response.text)
            yield operation, f"{operation.method} {path} {body}", response.text


async def stream_of(http: httpx.AsyncClient, path: str = "/api/stream") -> str:
    """Return the first events of a stream, or nothing if the caller may not listen."""
    heard = ""
    with contextlib.suppress(TimeoutError):
        async with (
            asyncio.timeout(1.5),
            http.stream("GET", path, headers={"Accept": "text/event-stream"}) as response,
        ):
            if response.status_code == 200:
                async for text in response.aiter_text():
                    heard += text
    return heard


def marks(text: str, of: tuple[str, ...]) -> set[str]:
    return {mark for mark in of if mark in text}


@pytest.mark.parametrize(
    ("viewers_see_content", "is_redacted"),
    [
        pytest.param(False, False, id="viewers blind-all shown"),
        pytest.param(True, True, id="viewers see-redacted"),
        pytest.param(False, True, id="viewers blind-redacted", marks=pytest.mark.long),
        pytest.param(True, False, id="viewers see-all shown", marks=pytest.mark.long),
    ],
)
async def test_content_shows_only_where_the_right_is_given(
    store_server: StoreServer,
    caplog: pytest.LogCaptureFixture,
    *,
    viewers_see_content: bool,
    is_redacted: bool,
) -> None:
    caplog.set_level(logging.DEBUG)
    tokens = [f"{scope}:t-{scope}" for scope in Scope]
    seen: dict[str, set[str]] = {}
    async with master_on(store_server.url, tokens=tokens, viewers_see_content=viewers_see_content) as (
        master,
        _,
    ):
        admin = Api(master.server.url, "t-admin")
        async with marked(admin) as ids:
            paths = {"redact_paths": list(REDACT_PATHS if is_redacted else ())}
            assert (await admin.call("PATCH", "/api/settings", paths))[0] == 200
            for caller in CALLERS:
                headers = {} if caller == "none" else {"Authorization": f"Bearer t-{caller}"}
                async with httpx.AsyncClient(
                    base_url=master.server.url, headers=headers, trust_env=False
                ) as http:
                    is_granted = caller in ("operate", "admin") or (caller == "read" and viewers_see_content)
                    found = seen.setdefault(caller, set())
                    async for operation, where, text in answers(http, ids):
                        if (operation.method, operation.path) in WHOLE and caller in ("push", "admin"):
                            continue
                        shown = marks(text, OPEN + SECRET)
                        found |= shown
                        assert is_granted or not shown, (caller, where, text)
                        assert not is_redacted or not marks(text, SECRET), (caller, where, text)
                    heard = await stream_of(http)
                    assert not marks(heard, OPEN + SECRET), (caller, heard)
                    parts = await stream_of(http, f"/api/jobs/{ids.succeeded}/stream")
                    shown = marks(parts, OPEN + SECRET)
                    wanted = {"MARKresult", "MARKline"}
                    wanted |= set() if is_redacted else {"GONEresult", "GONEargument"}
                    assert shown == (wanted if is_granted else set()), (caller, parts)
            for job_id in (ids.waiting, ids.running):
                await admin.call("POST", f"/api/jobs/{job_id}/cancel")
        await admin.http.aclose()
    # The markers are in place: each is shown to the callers who may see it.
    wanted = set(OPEN) if is_redacted else {*OPEN, *SECRET}
    assert seen["operate"] == seen["admin"] == wanted
    lines = [json.dumps(record.getMessage()) + (record.exc_text or "") for record in caplog.records]
    assert not [line for line in lines if marks(line, OPEN + SECRET)]
    assert any(record.levelno == logging.DEBUG for record in caplog.records)
