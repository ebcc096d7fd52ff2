"""Write the data of the former release anew: what its master stores, of each kind and in each state.

`python -m tests.upgrade.make_fixture` runs the release whose wheel lies in tests/upgrade/data. To follow a new
release, put its wheel there in place of the one before, and name it in former.py. The data of older releases stays:
jobs may wait for years.
"""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
from redis.asyncio import Redis

from tests.support.server import StoreServer, started
from tests.support.waiting import wait_until
from tests.upgrade.former import VERSION, FormerMaster, FormerWorker, extracted, run_former
from tests.upgrade.stored import dump, write

SHARD = "former"
TAG = f"{{{SHARD}}}:"
ADMIN_TOKEN = "the-admin-token-of-the-fixture"
PASSWORD = "correct horse battery staple"
FAR = "2099-01-01T00:00:00Z"
FINISHED_AT = "2026-11-21T04:30:00.123Z"
YEARS_S = 3650 * 86_400
# Nothing is lost, expires or is swept while the fixture is made, or before it is read.
SETTINGS: dict[str, Any] = {
    "shard": SHARD,
    "node_id": "node-1",
    "tokens": f"admin+operate+push+read+work:{ADMIN_TOKEN}",
    "worker_stale_s": 2,
    "worker_forget_s": 86_400,
    "max_losses": 2,
    "alone_wait_s": 86_400,
    "result_ttl_s": YEARS_S,
    "retention_succeeded_s": YEARS_S,
    "retention_failed_s": YEARS_S,
    "session_life_s": 30 * 86_400,
    "session_idle_s": 30 * 86_400,
}
# These settings come later: a new leader takes nothing back for the length of one lease.
LONG_LEASES = {"lease_ms": 500_000, "offer_ms": 60_000, "worker_stale_s": 500}
# Kinds of keys that live for moments only.
FLEETING = {"demoted", "reopened", "damaged"}


def named(name: str) -> dict[str, Any]:
    return {"field": "name", "op": "eq", "value": name}


CONSTRAINTS: dict[str, dict[str, Any]] = {
    "serial": {"matcher": named("serial"), "concurrency": 1},
    "hosts": {
        "matcher": {"all": [named("hosted"), {"field": "argument.host", "op": "exists"}]},
        "key": "argument.host",
        "concurrency": 1,
        "fair": True,
        "max_backlog": 1_000,
        "overrides": [
            {"value": "wide", "concurrency": 3, "rate": {"limit": 10, "period_s": 1}},
            {"value": "stopped", "paused": True},
        ],
    },
    "hourly": {"matcher": named("hourly"), "rate": {"limit": 1, "period_s": 3600}},
    "shadow": {"matcher": named("seen"), "mode": "shadow", "concurrency": 1},
    "paused": {"matcher": named("paused"), "paused": True},
    "disabled": {"matcher": named("serial"), "enabled": False, "paused": True},
}
# All workers take these names, so that only constraints, time and workers hold jobs up.
WORKED_ON = ("echo", "serial", "hosted", "hourly", "seen", "paused", "held", "fail", "failing")


class Former:
    """An operator, pusher and worker at the former master, which speaks JSON."""

    def __init__(self, url: str) -> None:
        self.http = httpx.AsyncClient(
            base_url=url,
            headers={"Authorization": f"Bearer {ADMIN_TOKEN}", "Accept": "application/json"},
            timeout=70,
            trust_env=False,
        )
        self.jobs: dict[str, str] = {}

    async def call(self, method: str, path: str, value: Any = None, **headers: str) -> Any:
        response = await self.http.request(method, path, json=value, headers=headers)
        assert response.status_code < 300, (method, path, response.status_code, response.text)
        return response.json() if response.content else None

    async def push(self, label: str, name: str, argument: Any = None, **fields: Any) -> str:
        """`label`: what the tests call the job."""
        job_id: str = (await self.call("POST", "/api/jobs", {"name": name, "argument": argument, **fields}))[
            "id"
        ]
        self.jobs[label] = job_id
        return job_id

    async def until(self, label: str, state: str) -> None:
        async def reached() -> bool:
            return bool((await self.call("GET", f"/api/jobs/{self.jobs[label]}"))["state"] == state)

        await wait_until(reached, what=f"{label} is {state}")


class Puller:
    """A worker that pulls jobs and ends them as the test says."""

    def __init__(self, former: Former, *names: str, max_jobs: int = 100) -> None:
        self._former = former
        self._registration = {
            "url": None, "names": names, "max_jobs": max_jobs, "node_id": "node-3", "pid": 3, "labels": {"zone": "b"},
            "version": "1.0", "secret": "5" * 64,
        }  # fmt: skip
        self.id = ""
        self.held: dict[str, dict[str, Any]] = {}

    async def register(self) -> None:
        self.id = (await self._former.call("POST", "/api/workers", self._registration))["worker_id"]
        await self.beat()

    async def beat(self) -> None:
        running = [{"job_id": job_id, "token": job["token"]} for job_id, job in self.held.items()]
        body = {"running": running, "free": self._registration["max_jobs"]}
        await self._former.call("POST", f"/api/workers/{self.id}/heartbeat", body)

    async def take(self, *labels: str) -> None:
        """Pull until it has these jobs."""
        wanted = {self._former.jobs[label] for label in labels}
        while not wanted <= set(self.held):
            # A new call confirms the previous answers.
            answer = await self._former.call("POST", f"/api/workers/{self.id}/claim", {"max": 100, "wait": 1})
            self.held |= {job["job_id"]: job for job in answer["jobs"]}
        await self.beat()

    async def end(self, label: str, type: str = "success", **fields: Any) -> None:  # noqa: A002
        job = self.held.pop(self._former.jobs[label])
        item = {
            "job_id": job["job_id"],
            "token": job["token"],
            "type": type,
            "finished_at": FINISHED_AT,
            **fields,
        }
        if type == "success":
            item.setdefault("result", {"ended": label})
        answer = await self._former.call("POST", f"/api/workers/{self.id}/results", {"results": [item]})
        assert answer["accepted"] == [job["job_id"]], answer


FAILURE = {
    "reason": "other",
    "should_retry": True,
    "error": {"type": "KeyError", "message": "k"},
    "message": "k is missing",
}
FULL: dict[str, Any] = {
    "priority": -3, "max_retry": 7, "timeout": 12.5, "keep_result": True, "rerun_lost": True, "tags": ["a", "ü"],
    "headers": {"tenant": "x", "trace": "1"}, "retry": {"base_s": 2, "factor": 3, "max_s": 50, "jitter": False},
}  # fmt: skip
SLOW = {"base_s": 86_400, "max_s": 7 * 86_400, "jitter": False}


async def _suspect(former: Former, lost: Puller) -> None:
    """Lose the job's worker: before its last try, the job waits for a worker to itself."""
    await former.push("suspect", "risky", None, rerun_lost=True, timeout=86_400)
    await lost.register()
    await lost.take("suspect")
    await former.until("suspect", "retrying")


async def _constraints(former: Former) -> None:
    for name, body in CONSTRAINTS.items():
        await former.call("PUT", f"/api/constraints/{name}", body)
        await wait_until(lambda name=name: _in_force(former, name), what=f"{name} is in force")


async def _in_force(former: Former, name: str) -> bool:
    return bool((await former.call("GET", f"/api/constraints/{name}"))["usage"]["in_force"])


async def _waiting(former: Former) -> None:
    await former.push("scheduled", "echo", {"n": 1}, run_at=FAR, **FULL)
    await former.push("delayed", "echo", [1, 2.5, None], delay=3_000_000)
    await former.push("ready", "nobody", "text", expires_at=FAR)
    await former.push("ready and full", "nobody", {"deep": [{"x": "y"}]}, **FULL)
    await former.push("watched", "nobody", 1, keep_result=True)
    await former.call("GET", f"/api/jobs/{former.jobs['watched']}/result?wait=0.3")
    await former.push("patched", "nobody", 2)
    await former.call("PATCH", f"/api/jobs/{former.jobs['patched']}", {"priority": 9, "timeout": 77})
    await former.push("once", "nobody", 3)
    await former.call(
        "POST",
        "/api/jobs",
        {"name": "nobody", "argument": "keyed"},
        **{"Idempotency-Key": "key-of-the-fixture"},
    )
    await former.call(
        "POST", "/api/jobs/bulk", {"jobs": [{"name": "many", "argument": n} for n in range(25)]}
    )
    for n in range(3):
        await former.push(f"paused {n}", "paused", n)


async def _finished(former: Former, puller: Puller) -> None:
    for label in (
        "succeeded",
        "kept",
        "fetched",
        "failed",
        "undecodable",
        "undone",
        "canceled while running",
    ):
        await former.push(label, "echo", {"label": label}, keep_result=label != "succeeded", max_retry=0)
    for n in range(2):
        await former.push(f"failed again {n}", "failing", n, max_retry=0)
    await former.push("retrying", "fail", 1, retry=SLOW, **{k: v for k, v in FULL.items() if k != "retry"})
    await former.push("retried", "fail", 2, retry={"base_s": 0}, keep_result=True)
    await puller.take(
        "succeeded", "kept", "fetched", "failed", "undecodable", "undone", "canceled while running", "retrying",
        "retried", "failed again 0", "failed again 1",
    )  # fmt: skip
    for label in ("succeeded", "kept", "fetched", "undone"):
        await puller.end(label)
    await former.call("GET", f"/api/jobs/{former.jobs['fetched']}/result")
    await puller.end("failed", "failure", **{**FAILURE, "should_retry": False})
    await puller.end("undecodable", "failure", **{**FAILURE, "reason": "undecodable", "error": None})
    for n in range(2):
        await puller.end(f"failed again {n}", "failure", **FAILURE)
    await puller.end("retrying", "failure", **FAILURE)
    await puller.end("retried", "failure", **FAILURE)
    await puller.take("retried")
    await puller.end("retried")
    await former.call("POST", f"/api/jobs/{former.jobs['canceled while running']}/cancel")
    puller.held.pop(former.jobs["canceled while running"])
    await former.call("POST", f"/api/jobs/{former.jobs['undone']}/retry")
    await puller.take("undone")
    await puller.end("undone", "failure", **{**FAILURE, "reason": "timeout", "should_retry": False})
    await former.push("canceled", "nobody", 4)
    await former.call("POST", f"/api/jobs/{former.jobs['canceled']}/cancel")
    await former.push("deleted", "nobody", 5)
    await former.call("DELETE", f"/api/jobs/{former.jobs.pop('deleted')}")
    await former.push("skipped", "nobody", 6, expires_at="2026-11-22T00:00:00Z", run_at=FAR)
    await former.until("skipped", "skipped")


async def _constrained(former: Former, puller: Puller) -> None:
    labels = []
    for label, name, argument in (
        *[(f"serial {n}", "serial", n) for n in range(3)],
        *[
            (f"{host} {n}", "hosted", {"host": host})
            for host in ("wide", "narrow", "stopped")
            for n in range(3)
        ],
        *[(f"hourly {n}", "hourly", n) for n in range(2)],
        *[(f"seen {n}", "seen", n) for n in range(2)],
    ):
        labels.append(label)
        await former.push(label, name, argument, timeout=86_400)
    await puller.take("serial 0", "wide 0", "wide 1", "wide 2", "narrow 0", "hourly 0", "seen 0", "seen 1")
    await puller.end("narrow 0")
    await puller.end("wide 2")
    await puller.take("narrow 1")
    await puller.end("hourly 0")
    await former.push("held", "hosted", {"host": "held"}, timeout=86_400)
    await puller.take("held")
    hold = {"constraint": "hosts", "key": "held"}
    await puller.end("held", "deferred", retry_after=86_400, hold=hold)


async def _running(former: Former, puller: Puller) -> None:
    for label in ("running", "running and full", "running once"):
        more = FULL if label == "running and full" else {"max_retry": 0} if label == "running once" else {}
        await former.push(label, "echo", label, **{**more, "timeout": 86_400})
    await puller.take("running", "running and full", "running once")


async def _identity(former: Former) -> None:
    for scopes, names in ((["push"], ["mail.*"]), (["work"], []), (["read", "operate"], [])):
        await former.call(
            "POST", "/api/tokens", {"label": "+".join(scopes), "scopes": scopes, "names": names}
        )
    made = await former.call("POST", "/api/tokens", {"label": "ends", "scopes": ["push"], "ttl_s": 86_400})
    renewed = await former.call("POST", "/api/tokens", {"label": "renewed", "scopes": ["read"]})
    await former.call("POST", f"/api/tokens/{renewed['id']}/rotate", {})
    async with httpx.AsyncClient(base_url=former.http.base_url, trust_env=False) as pusher:
        response = await pusher.post(
            "/api/jobs", json={"name": "nobody"}, headers={"Authorization": f"Bearer {made['token']}"}
        )
        assert response.status_code == 201, response.text
        for name, role in (("ada", "admin"), ("olga", "operator"), ("vera", "viewer")):
            await former.call("POST", "/api/users", {"name": name, "password": PASSWORD, "role": role})
        await former.call("PATCH", "/api/users/vera", {"is_disabled": True})
        for password, status in ((PASSWORD, 201), ("a wrong password", 401)):
            response = await pusher.post("/api/session", json={"user": "ada", "password": password})
            assert response.status_code == status, response.text


@contextlib.asynccontextmanager
async def _polling(former: Former, admin: Any) -> AsyncIterator[None]:
    """One worker waits for jobs, and another one has not yet heard of its job."""
    idle, deaf = Puller(former, "unheard"), Puller(former, "unconfirmed")
    await idle.register()
    await deaf.register()
    await former.push("offered", "unconfirmed", "offered", timeout=86_400)
    await former.call("POST", f"/api/workers/{deaf.id}/claim", {"max": 1, "wait": 5, "poll_id": "p1"})
    call = asyncio.create_task(former.call("POST", f"/api/workers/{idle.id}/claim", {"max": 1, "wait": 60}))

    async def waits() -> bool:
        return bool(await admin.hget(f"{TAG}worker:{idle.id}", "poll_until_ms"))

    await wait_until(waits, what="the poll waits")
    yield
    call.cancel()
    with contextlib.suppress(asyncio.CancelledError, httpx.HTTPError):
        await call


def _kinds_of(release: Path) -> set[str]:
    """Return the kinds of keys that the former release knows."""
    program = "from jqmaster.store.keys import KEYS\nfor kind in KEYS: print(kind.pattern.partition(':')[0])"
    return set(run_former(release, program).split())


async def _story(
    former: Former, master: FormerMaster, worker: FormerWorker, admin: Any, release: Path
) -> None:
    puller, lost = Puller(former, *WORKED_ON), Puller(former, "risky")
    await _suspect(former, lost)
    await former.call("PATCH", "/api/settings", {**LONG_LEASES, "log_level": "warning"})
    await _constraints(former)
    await _waiting(former)
    await puller.register()
    await _finished(former, puller)
    await _constrained(former, puller)
    await _running(former, puller)
    worker.start()
    await former.push("napping", "nap", 86_400, timeout=86_400, rerun_lost=True)
    await former.until("napping", "running")
    await _identity(former)
    labels = [job_id for label, job_id in former.jobs.items() if label.startswith("paused")]
    await former.call("POST", "/api/jobs/actions", {"action": "set_priority", "priority": 3, "ids": labels})
    await former.call(
        "POST", "/api/jobs/actions", {"action": "cancel", "filter": {"name": "many"}, "rate_per_s": 0.01}
    )
    retried = [former.jobs[label] for label in ("failed again 0", "failed again 1")]
    action = {"action": "retry", "ids": retried, "rate_per_s": 0.01, "stop_at_failure_share": 0.5}
    await former.call("POST", "/api/jobs/actions", action)

    async def has_counts() -> bool:
        names = [key async for key in admin.scan_iter(match=f"{TAG}*", count=1_000)]
        kinds = {name.decode().removeprefix(TAG).partition(":")[0] for name in names}
        return {"minute", "hour", "failure_groups", "backlog", "action", "token_uses", "watched"} <= kinds

    await wait_until(has_counts, what="the counts are written", timeout_s=60)
    # The tests compare these views with their own.
    async with _polling(former, admin):
        views = {
            label: await former.call("GET", f"/api/jobs/{job_id}") for label, job_id in former.jobs.items()
        }
        master.kill()
    worker.kill()
    await former.http.aclose()
    keys = await dump(admin, TAG)
    found = {name.partition(":")[0] for name, *_ in keys}
    assert _kinds_of(release) - found <= FLEETING
    print(f"{len(keys)} keys of {len(found)} kinds, {len(former.jobs)} labelled jobs")
    print(
        "\n".join(
            f"  {job['state']}: {label}"
            for label, job in sorted(views.items(), key=lambda one: one[1]["state"])
        )
    )
    write({"version": VERSION, "keys": keys, "jobs": views})


async def main() -> None:
    """Run the former release, have it store everything, kill it, and write down what is there."""
    server = StoreServer()
    with started(server), tempfile.TemporaryDirectory() as directory:
        release = extracted()
        audit_export = Path(directory) / "audit.jsonl"
        master = FormerMaster(release, Path(directory), server.url, audit_export=audit_export, **SETTINGS)
        worker = FormerWorker(release, Path(directory), master.url)
        worker.run_handlers("tests.upgrade.handlers:worker", JQMASTER_TOKEN=ADMIN_TOKEN)
        admin: Any = Redis.from_url(server.admin_url)
        try:
            master.start()
            await _story(Former(master.url), master, worker, admin, release)
        except BaseException:
            print(master.log.read_text()[-4000:])
            raise
        finally:
            for process in (worker, master):
                if process.popen and process.popen.poll() is None:
                    process.kill()
            await admin.aclose()


if __name__ == "__main__":
    asyncio.run(main())
