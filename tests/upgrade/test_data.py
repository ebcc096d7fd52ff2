"""This release reads everything that the former one stored, and works it off."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest

from jqmaster.store.health import fsck
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.jobs.records import RecordStore
from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.shard import Shard
from jqmaster.store.operations.history import HistoryStore
from jqmaster.store.operations.settings import SettingsStore
from tests.support import real_time
from tests.support.admin import admin_of, forget_keys
from tests.support.master import QUICK, Api, master_on
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from tests.upgrade.former import DATA
from tests.upgrade.make_fixture import ADMIN_TOKEN, CONSTRAINTS, FULL, LONG_LEASES, YEARS_S
from tests.upgrade.stored import read, restore
from worker_sdk import Worker

pytestmark = [pytest.mark.req("M12"), pytest.mark.system, pytest.mark.timeout(120), real_time.PROCESSES]

FINISHED = {"succeeded", "failed", "canceled", "skipped"}
# Fields that do not depend on the state of a job.
TERMS = (
    "id", "name", "argument", "priority", "max_retry", "timeout", "keep_result", "tags", "headers", "created_at",
    "expires_at", "attempts",
)  # fmt: skip
# An action of the former release is still retrying these.
IN_ACTION = {"failed again 0", "failed again 1"}
FORMER = read()
JOBS: dict[str, dict[str, Any]] = FORMER["jobs"]


@pytest.fixture
async def shard(store_server: StoreServer) -> AsyncIterator[Shard]:
    """Load the data of the former release into a new shard."""
    client = StoreClient(store_server.url, connections=4)
    shard = Shard.bound(client, Keys(f"u{uuid4().hex[:10]}"))
    await restore(admin_of(client), shard.keys.tag, FORMER["keys"])
    yield shard
    await forget_keys(shard)
    await client.close()


async def test_the_store_of_the_former_release_is_in_order(shard: Shard) -> None:
    assert [finding async for finding in fsck.check(shard.client, shard.keys)] == []


async def test_records_that_are_two_releases_old_are_read(shard: Shard) -> None:
    content = read(DATA / "store-0.1.0.msgpack.gz")
    await restore(
        admin_of(shard.client), shard.keys.tag, [key for key in content["keys"] if key[0].startswith("job:")]
    )
    records = RecordStore(shard)
    for label, view in content["jobs"].items():
        job = await records.get(view["id"])
        assert job is not None, label
        shown = (
            job.id,
            job.name,
            job.state.value,
            job.priority,
            job.max_retry,
            list(job.tags),
            dict(job.headers),
        )
        terms = ("id", "name", "state", "priority", "max_retry", "tags", "headers")
        assert shown == tuple(view[term] for term in terms), label


async def test_statistics_of_the_former_release_are_read(shard: Shard) -> None:
    history = HistoryStore(shard, master_id=str(uuid4()))
    groups = await history.failure_groups()
    assert {(g.name, g.cause, g.message, g.count) for g in groups} == {
        ("echo", "error", "k is missing", 1), ("echo", "timeout", "k is missing", 1),
        ("echo", "undecodable", "k is missing", 1), ("failing", "error", "k is missing", 2),
    }  # fmt: skip
    assert {"echo", "nobody", "serial"} <= set(await history.names())
    minutes = [int(name.removeprefix("minute:")) for name, *_ in FORMER["keys"] if name.startswith("minute:")]
    sums = await history.sums("minute", minutes)
    assert sums[""].pushed == sum(counts.pushed for name, counts in sums.items() if name)
    assert (sums["echo"].succeeded, sums["nobody"].skipped, sums["nobody"].canceled) == (4, 1, 1)


async def _with_quick_leases(shard: Shard) -> None:
    """The stored settings are those that the former release was given; after a change they are stored again."""
    settings = SettingsStore(shard)
    stored = await settings.load()
    assert stored.values == {**LONG_LEASES, "log_level": "warning"}
    entry = encode_entry(who="test", action="settings.change", target="settings", before=None, after=None)
    values = {**stored.values, **{name: QUICK[name] for name in LONG_LEASES}}
    assert await settings.put(stored.version, values, entry, is_access=False)


async def test_all_that_the_former_release_stored_is_shown_and_worked_off(
    shard: Shard, store_server: StoreServer
) -> None:
    await _with_quick_leases(shard)
    settings: dict[str, Any] = {
        "tokens": f"admin+operate+push+read+work:{ADMIN_TOKEN}", "alone_wait_s": 0, "result_ttl_s": YEARS_S,
        "retention_succeeded_s": YEARS_S, "retention_failed_s": YEARS_S,
    }  # fmt: skip
    name = shard.keys.tag.strip("{}:")
    async with master_on(store_server.url, shard=name, **settings) as (master, _):
        api = Api(master.server.url, ADMIN_TOKEN)
        try:
            await _shows_jobs(api)
            await _shows_the_rest(api)
            await _knows_repeats(api)
            await _works_off(api, master.server.url)
        finally:
            await api.http.aclose()


async def _json(api: Api, path: str) -> Any:
    """Return an answer in the format in which the fixture's views were read."""
    response = await api.http.get(path, headers={"Accept": "application/json"})
    assert response.status_code == 200, response.text
    return response.json()


async def _shows_jobs(api: Api) -> None:
    for label, former in JOBS.items():
        now = await _json(api, f"/api/jobs/{former['id']}")
        has_ended = former["state"] in FINISHED and label not in IN_ACTION
        same = dict(former) if has_ended else {term: former[term] for term in TERMS}
        if label == "fetched":
            # The result is kept for only a minute.
            del same["has_result"], same["result"]
        _assert_covers(now, same, label)
    _, kept = await api.call("GET", f"/api/jobs/{JOBS['kept']['id']}/result")
    assert (kept["type"], kept["result"]) == ("success", {"ended": "kept"})
    _, failed = await api.call("GET", f"/api/jobs/{JOBS['failed']['id']}/result")
    assert (failed["type"], failed["message"]) == ("failure", "k is missing")


def _assert_covers(now: Any, former: Any, where: str) -> None:
    """Assert that nothing is missing; this release may show more, and jobs may have gone on."""
    if isinstance(former, dict):
        for key, value in former.items():
            _assert_covers(now[key], value, f"{where}.{key}")
    elif isinstance(former, list) and former and isinstance(former[0], dict):
        for n, value in enumerate(former):
            # The attempt that ran then has ended by now.
            ran = value.get("finished_at", "") is None
            _assert_covers(now[n], {"attempt": value["attempt"]} if ran else value, f"{where}.{n}")
    else:
        assert now == former, where


async def _shows_the_rest(api: Api) -> None:
    constraints = {one["name"]: one for one in (await api.call("GET", "/api/constraints"))[1]["constraints"]}
    assert set(constraints) == set(CONSTRAINTS)
    hosts = constraints["hosts"]
    assert (hosts["concurrency"], hosts["fair"], hosts["max_backlog"]) == (1, True, 1_000)
    assert [one["value"] for one in hosts["overrides"]] == ["wide", "stopped"]
    users = (await api.call("GET", "/api/users"))[1]["users"]
    assert {(one["name"], one["role"], one["is_disabled"]) for one in users} == {
        ("ada", "admin", False), ("olga", "operator", False), ("vera", "viewer", True),
    }  # fmt: skip
    tokens = (await api.call("GET", "/api/tokens"))[1]["tokens"]
    assert {"push", "work", "read+operate", "ends", "renewed"} <= {one["label"] for one in tokens}
    audit = (await api.call("GET", "/api/audit"))[1]["entries"]
    assert {"settings.change", "constraint.put", "token.create", "user.add"} <= {e["action"] for e in audit}
    actions = (await api.call("GET", "/api/jobs/actions"))[1]["actions"]
    assert {one["action"] for one in actions} == {"set_priority", "cancel", "retry"}
    workers = (await api.call("GET", "/api/workers"))[1]["workers"]
    assert {"node-2", "node-3"} == {one["node_id"] for one in workers}


async def _knows_repeats(api: Api) -> None:
    """The digest of a request is unchanged: a pusher that repeats itself after the upgrade creates no second job."""
    body = {"id": JOBS["ready and full"]["id"], "name": "nobody", "argument": {"deep": [{"x": "y"}]}, **FULL}
    status, answer = await api.call("POST", "/api/jobs", body)
    assert (status, answer["id"]) == (200, body["id"]), answer
    status, answer = await api.call("POST", "/api/jobs", {**body, "tags": ["other"]})
    assert (status, answer["code"]) == (409, "id_taken"), answer


def _worker(url: str) -> Worker:
    worker = Worker(url, token=ADMIN_TOKEN, max_jobs=20, pull=True)

    async def ended(argument: Any) -> Any:
        return argument

    for name in ("echo", "nobody", "many", "serial", "hosted", "hourly", "seen", "paused", "fail", "failing", "risky",
                 "nap", "unconfirmed"):  # fmt: skip
        worker.handler(name)(ended)
    return worker


async def _works_off(api: Api, url: str) -> None:
    for name in CONSTRAINTS:
        response = await api.http.delete(f"/api/constraints/{name}")
        assert response.status_code == 204, response.content

    async def is_empty() -> bool:
        counts = await api.counts()
        for state in ("scheduled", "retrying"):
            if counts[state]:
                page = (await api.call("GET", f"/api/jobs?state={state}&limit=100"))[1]
                for job in page["jobs"]:
                    await api.http.post(f"/api/jobs/{job['id']}/run")
        return not any(counts[state] for state in ("scheduled", "ready", "retrying", "running"))

    async with _worker(url).running():
        await wait_until(is_empty, timeout_s=40, what="all that waited has ended")
    for label, former in JOBS.items():
        job = await api.job(former["id"])
        if former["state"] in FINISHED and label not in IN_ACTION:
            assert job["state"] == former["state"], label
        elif label == "running once":
            # The job may have run, so it must not run again.
            assert (job["state"], job["cause"]) == ("failed", "lost"), label
        else:
            assert job["state"] == "succeeded", (label, job)
