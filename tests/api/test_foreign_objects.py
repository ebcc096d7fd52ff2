"""A token that is bound to names gets the same answer for an object of somebody else as for one that does not exist."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest

from jqmaster.api.routes import OPERATIONS
from jqmaster.domain.identity.access import Scope
from jqmaster.domain.ids import ID_PATTERN, new_id
from tests.api.identity.test_sessions import guarded
from tests.api.workers.test_worker_owners import apis, token_of
from tests.support import real_time
from tests.support.master import Api
from tests.support.scripted_worker import ScriptedWorker
from tests.support.server import StoreServer

pytestmark = [pytest.mark.req("D18"), pytest.mark.rule("E1.3"), real_time.MASTER]

_JOB: Final = {"name": "mine.a", "argument": 1}
_TOKEN: Final = "0" * 32
_RUNNING: Final = "running"
# For each field that names an object: the kind of the object, and a request with `{}` in place of its ID.

REQUESTS: Final[dict[tuple[str, str, str], tuple[str, Any]]] = {
    ("POST", "/api/jobs", "batch"): ("batch", {**_JOB, "batch": "{}"}),
    ("POST", "/api/jobs", "after.jobs"): ("job", {**_JOB, "after": {"jobs": ["{}"], "when": "finished"}}),
    ("POST", "/api/jobs/bulk", "jobs.batch"): ("batch", {"jobs": [_JOB, {**_JOB, "batch": "{}"}]}),
    ("POST", "/api/jobs/bulk", "jobs.after.jobs"): ("job", {"jobs": [{**_JOB, "after": {"jobs": ["{}"]}}]}),
    ("POST", "/api/jobs/bulk", "batch.batch"): ("batch", {"jobs": [_JOB], "batch": {"batch": "{}"}}),
    ("POST", "/api/batches", "batch"): ("batch", {"batch": "{}"}),
    ("POST", "/api/batches/{batch_id}/seal", "batch_id"): ("batch", None),
    ("POST", "/api/batches/{batch_id}/cancel", "batch_id"): ("batch", None),
    ("GET", "/api/jobs/{job_id}/result", "job_id"): ("job", None),
    ("GET", "/api/jobs/{job_id}/parts", "job_id"): ("job", None),
    ("POST", "/api/jobs/{job_id}/cancel", "job_id"): ("job", None),
    ("POST", "/api/workers/{worker_id}/parts", "job_id"): (
        _RUNNING,
        {"job_id": "{}", "token": _TOKEN, "first": 1, "parts": [1]},
    ),
    ("POST", "/api/workers/{worker_id}/logs", "entries.job_id"): (
        _RUNNING,
        {"entries": [{"job_id": "{}", "token": _TOKEN, "seq": 1, "at": 1.0, "level": "info", "text": "x"}]},
    ),
    ("POST", "/api/workers/{worker_id}/heartbeat", "running.job_id"): (
        _RUNNING,
        {"running": [{"job_id": "{}", "token": _TOKEN}], "free": 1},
    ),
    ("POST", "/api/workers/{worker_id}/start", "starts.job_id"): (
        _RUNNING,
        {"starts": [{"job_id": "{}", "token": _TOKEN}]},
    ),
    ("POST", "/api/workers/{worker_id}/results", "results.job_id"): (
        _RUNNING,
        {"results": [{"job_id": "{}", "token": _TOKEN, "type": "success", "value": 1, "finished_at": None}]},
    ),
    ("POST", "/api/workers/{worker_id}/claim", "refused.job_id"): (
        _RUNNING,
        {"max": 1, "wait": 0, "refused": [{"job_id": "{}", "token": _TOKEN, "reason": "busy"}]},
    ),
    ("POST", "/api/workers/{worker_id}/challenges", "job_id"): (
        _RUNNING,
        {"job_id": "{}", "token": _TOKEN, "nonce": "n" * 40},
    ),
}
# A new object's own ID: a caller learns only that it is taken.
OWN: Final = {
    ("POST", "/api/jobs", "id"),
    ("POST", "/api/jobs/bulk", "jobs.id"),
    ("POST", "/api/jobs/bulk", "batch.id"),
    ("POST", "/api/batches", "id"),
}
# A caller is told plainly that a worker belongs to another token, or nobody would understand a wrong configuration:
# `foreign_worker`, which tests/api/workers/test_worker_owners.py proves.
TOLD: Final = "worker_id"


def _ids_in(node: Any, schemas: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the path of each field that holds the ID of an object."""
    if "$ref" in node:
        node = schemas[node["$ref"].rpartition("/")[2]]
    if node.get("pattern") == ID_PATTERN:
        yield ".".join(path)
    for name, child in node.get("properties", {}).items():
        yield from _ids_in(child, schemas, (*path, name))
    for child in (*node.get("anyOf", ()), *node.get("oneOf", ()), *filter(None, [node.get("items")])):
        yield from _ids_in(child, schemas, path)


def test_each_field_that_names_an_object_and_that_such_a_token_may_send_is_asked_about() -> None:
    fields = set()
    for operation in OPERATIONS:
        if operation.access not in (Scope.PUSH, Scope.WORK):
            continue
        at = operation.method, operation.path
        fields |= {(*at, one) for one in re.findall(r"{(\w+)}", operation.path) if one != TOLD}
        if operation.request is not None:
            schema = operation.request.model_json_schema()
            fields |= {(*at, one) for one in _ids_in(schema, schema.get("$defs", {}))}
    assert fields == REQUESTS.keys() | OWN


@pytest.mark.parametrize(("method", "path", "field"), REQUESTS)
async def test_foreign_and_unknown_objects_have_the_same_answer(
    store_server: StoreServer, method: str, path: str, field: str
) -> None:
    kind, body = REQUESTS[method, path, field]
    async with guarded(store_server.url) as (master, admin):
        bound = await token_of(admin, scopes=["push", "work"], names=["mine.*"])
        async with apis(master.server.url, bound["token"]) as (api,):
            foreign = await _foreign(admin, kind)
            me = ScriptedWorker(api, ("mine.a",), 2)
            status, registered = await api.call("POST", "/api/workers", me.registration(url=None))
            assert status == 201
            answers = []
            for one in (foreign, new_id()):
                at = path.replace("{worker_id}", registered["worker_id"])
                at = re.sub(r"{\w+}", one, at)
                value = body and json.loads(json.dumps(body).replace('"{}"', f'"{one}"'))
                answers.append(_comparable(await api.call(method, at, value), one))
            assert answers[0] == answers[1]
            assert await _untouched(admin, kind, foreign)


async def _foreign(admin: Api, kind: str) -> str:
    """Return an object of another caller, which has not ended."""
    if kind == "batch":
        body = {"on_failure": {"name": "other.alarm"}}
        status, made = await admin.call("POST", "/api/batches", body)
        assert status == 201
        await admin.enqueue("other.a", batch=made["id"])
        batch_id: str = made["id"]
        return batch_id
    job_id = await admin.enqueue("other.a")
    if kind == _RUNNING:
        worker = ScriptedWorker(admin, ("other.a",), 1)
        worker.id = (await worker.register(url=None))[1]["worker_id"]
        assert [job["job_id"] for job in await worker.claim(max_jobs=1)] == [job_id]
    return job_id


async def _untouched(admin: Api, kind: str, foreign: str) -> bool:
    if kind == "batch":
        _, batch = await admin.call("GET", f"/api/batches/{foreign}")
        return (batch["state"], batch["counts"]["total"], batch["batches"]["total"]) == ("open", 1, 0)
    return await admin.state(foreign) == ("running" if kind == _RUNNING else "ready")


def _comparable(answered: tuple[int, Any], asked: str) -> str:
    """Return an answer without its times and the ID that was asked about."""
    return re.sub(
        r"('(store_time_ms|lease_until_ms|epoch)': )\d+", r"\1_", repr(answered).replace(asked, "ID")
    )


async def test_a_bound_token_joins_its_own_batches_and_those_that_hold_a_job_of_its_names(
    store_server: StoreServer,
) -> None:
    async with guarded(store_server.url) as (master, admin):
        tokens = [await token_of(admin, scopes=["push"], names=["mine.*"]) for _ in range(2)]
        async with apis(master.server.url, *(one["token"] for one in tokens)) as (maker, handler):
            _, mine = await maker.call("POST", "/api/batches", {})
            _, of_all = await admin.call("POST", "/api/batches", {})
            join = {"name": "mine.more", "batch": mine["id"]}
            # Nothing tells yet that the batch concerns the other token.
            assert (await handler.call("POST", "/api/jobs", join))[1]["code"] == "unknown_batch"
            await maker.enqueue("mine.a", batch=mine["id"])
            for name in ("other.a", "mine.a"):
                await admin.enqueue(name, batch=of_all["id"])
            for batch_id in (mine["id"], of_all["id"]):
                await handler.enqueue("mine.more", batch=batch_id)
                status, _ = await handler.call("POST", "/api/batches", {"batch": batch_id})
                assert status == 201
                # Only its maker ends a batch.
                assert (await handler.call("POST", f"/api/batches/{batch_id}/seal"))[0] == 404
            assert (await maker.call("POST", f"/api/batches/{mine['id']}/seal"))[0] == 200


async def test_an_event_of_a_bound_token_is_never_taken_for_one_of_another_type(
    store_server: StoreServer,
) -> None:
    async with guarded(store_server.url) as (master, admin):
        bound = await token_of(admin, scopes=["push"], names=["mine.*"])
        async with apis(master.server.url, bound["token"]) as (api,):
            event = {"source": "shop", "dedupe_key": "7"}
            status, theirs = await admin.call("POST", "/api/events", {"event_type": "other.paid", **event})
            assert status == 202
            for is_repeat in (False, True):
                status, own = await api.call("POST", "/api/events", {"event_type": "mine.paid", **event})
                assert (status, own["duplicate"]) == (202, is_repeat)
                assert own["event_id"] != theirs["event_id"]
            # The key that it used does not suppress an event of another type either.
            event = {"source": "shop", "dedupe_key": "8"}
            assert not (await api.call("POST", "/api/events", {"event_type": "mine.paid", **event}))[1][
                "duplicate"
            ]
            body = {"events": [{"event_type": "other.paid", **event}]}
            assert not (await admin.call("POST", "/api/events", body))[1]["events"][0]["duplicate"]
