"""`jqmaster stats`, `health`, `names` and `failures` as operators use them."""

import asyncio
from pathlib import Path

import pytest

from jqmaster.domain.jobs.job import Cause, JobState
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.spec.examples.values import JOB_ID
from tests.support import real_time
from tests.support.cli import Cli
from tests.support.master import master_on
from tests.support.scripted_worker import worker_at
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.req("P8"), real_time.PROCESSES]


async def test_the_state_of_the_queue_is_shown(store_server: StoreServer, tmp_path: Path) -> None:
    async with master_on(store_server.url) as (master, api):
        cli = Cli(str(api.http.base_url), tmp_path)
        await api.enqueue("mail")
        failed = Decision(JobState.FAILED, "failure", cause=Cause.ERROR, is_counted=True)
        master.shard.services.tally.ended(
            "mail", failed, job_id=JOB_ID, message="\x1b[31m order 7", run_ms=20
        )

        async def counted() -> bool:
            return bool((await api.call("GET", "/api/failures"))[1]["groups"])

        await wait_until(counted, what="the counts are in the store")
        shown = await cli("stats")
        assert shown.code == 0
        for word in ("ready", "1 live", master.id, "fsync"):
            assert word in shown.out
        (now,) = (await cli("stats", "--json")).lines()
        assert now["counts"]["ready"] == 1
        (name,) = (await cli("names", "--json", "--sort", "pushed", "--span", "24h")).lines()
        assert (name["name"], name["pushed"], name["failed"], name["run"]["count"]) == ("mail", 1, 1, 1)
        assert "mail" in (await cli("names")).out
        listed = await cli("failures", "--q", "order")
        assert "[<n>m order <n>" in listed.out
        assert "\x1b" not in listed.out
        assert (await cli("failures", "--json", "--name", "other")).lines() == []
        assert "new" in listed.out
        (group,) = (await cli("failures", "--not-ignored", "--json")).lines()
        assert group["id"] in listed.out
        assert (await cli("failures", "ignore", group["id"], "--for", "2d", "--reason", "known")).code == 0
        (told,) = (await cli("failures", "--ignored", "--json")).lines()
        assert (told["ignored"]["reason"], told["ignored"]["until"] is None) == ("known", False)
        assert "no longer ignored" in (await cli("failures", "unignore", group["id"])).out
        ignored = await cli("failures", "ignore", group["id"])
        assert "ignored until it changes: mail" in ignored.out
        assert (await cli("failures", "ignore", "0" * 16)).code == 3
        assert (await cli("failures", "ignore", group["id"], "--for", "soon")).code == 2
        assert (await cli("failures", "--not-ignored", "--json")).lines() == []
        assert "new, ignored" in (await cli("failures", "--ignored")).out
        assert (await cli("failures", "--version", "1", "--json")).lines() == []
        assert (
            "assigned to grace: mail" in (await cli("failures", "assign", group["id"], "--to", "grace")).out
        )
        (mine,) = (await cli("failures", "--assignee", "grace", "--json")).lines()
        assert mine["id"] == group["id"]
        assert "no longer assigned" in (await cli("failures", "unassign", group["id"])).out
        assert (await cli("failures", "--assignee", "grace", "--json")).lines() == []
        assert "resolved in 1.2" in (await cli("failures", "resolve", group["id"], "--in", "1.2")).out
        assert (await cli("failures", "--not-resolved", "--json")).lines() == []
        assert "new, ignored, resolved" in (await cli("failures", "--resolved")).out
        assert "open again: mail" in (await cli("failures", "reopen", group["id"])).out
        resolved = await cli("failures", "resolve", group["id"])
        assert "resolved in the next version: mail" in resolved.out
        assert (await cli("names", "--span", "1y")).code == 2


async def test_workers_are_listed_with_their_figures_and_by_what_they_have_in_common(
    store_server: StoreServer, tmp_path: Path
) -> None:
    async with master_on(store_server.url) as (master, api), worker_at(api) as worker:
        cli = Cli(str(api.http.base_url), tmp_path)
        master.shard.services.tally.on(worker.id).succeed(1_500, 3)

        async def counted() -> bool:
            (one,) = (await api.call("GET", "/api/workers"))[1]["workers"]
            return one["figures"]["succeeded"] == 3

        await wait_until(counted, timeout_s=20, what="the counts are in the store")
        for arguments in ((), ("groups",), ("groups", "--by", "version"), ("groups", "--by", "label")):
            shown = (await cli("workers", *arguments)).out
            assert "RUN P50" in shown
            assert "1495 ms" in shown, arguments
        assert "zone=b" in (await cli("workers", "groups", "--by", "label")).out
        (group,) = (await cli("workers", "groups", "--by", "version", "--json")).lines()
        assert (group["value"], group["figures"]["succeeded"]) == ("1.0", 3)
        assert (await cli("workers", "groups", "--by", "name")).code == 2


async def test_all_workers_of_a_version_are_drained_and_waited_for(
    store_server: StoreServer, tmp_path: Path
) -> None:
    async with master_on(store_server.url) as (_, api), worker_at(api) as worker:
        cli = Cli(str(api.http.base_url), tmp_path)
        await api.enqueue("work")
        job = await worker.next_job()
        counted = await cli("workers", "drain", "--version", "1.0", "--dry-run")
        assert "would drain 1 worker with 1 running job" in counted.out
        waiting = asyncio.create_task(cli("workers", "drain", "--label", "zone=b", "--wait", "--json"))

        async def drains() -> bool:
            return (await api.call("GET", f"/api/workers/{worker.id}"))[1]["state"] == "draining"

        await wait_until(drains, what="the worker drains")
        await worker.end(job)
        done = await waiting
        assert (done.code, done.lines()[0]["worker_ids"]) == (0, [worker.id])
        assert "0 jobs left" in done.err
        resumed = await cli("workers", "resume", "--node", "node-1")
        assert "resumed 1 worker with 0 running jobs" in resumed.out
        for wrong in (["drain"], ["drain", worker.id, "--version", "1"], ["drain", "--label", "zone"],
                      ["drain", worker.id, "--wait"], ["resume", worker.id, "--dry-run"]):  # fmt: skip
            assert (await cli("workers", *wrong)).code == 2, wrong


@pytest.mark.req("D24")
async def test_slots_and_required_labels_by_command(store_server: StoreServer, tmp_path: Path) -> None:
    async with master_on(store_server.url) as (_, api), worker_at(api) as worker:
        cli = Cli(str(api.http.base_url), tmp_path)
        assert (
            f"{worker.id}  live  0 of 3 busy" in (await cli("workers", "slots", "3", worker.id, "--keep")).out
        )
        (rule,) = (await cli("workers", "slot-rules", "--json")).lines()
        assert (rule["node_id"], rule["labels"], rule["max_jobs"]) == ("node-1", {"zone": "b"}, 3)
        assert "zone=b" in (await cli("workers", "slot-rules")).out
        assert (await cli("workers", "drop-slot-rule", rule["id"])).code == 0
        assert (await cli("workers", "drop-slot-rule", rule["id"])).code == 3
        own = await cli("workers", "slots", "own", worker.id)
        assert f"0 of {worker.max_jobs} busy" in own.out
        assert (await cli("workers", "slots", "many", worker.id)).code == 2
        assert (await cli("workers", "slots", "0", worker.id)).code != 0
        await cli("enqueue", "work", "--require", "zone=a")
        done = await cli("enqueue", "work", "--require", "zone=b")
        assert (await worker.next_job())["job_id"] == done.out.strip()


@pytest.mark.req("J18")
async def test_the_contracts_of_a_name_are_removed(store_server: StoreServer, tmp_path: Path) -> None:
    async with master_on(store_server.url) as (_, api):
        cli = Cli(str(api.http.base_url), tmp_path)
        worker = {"url": None, "names": ["mail/a"], "max_jobs": 1, "secret": "s" * 32,
                  "contracts": {"mail/a": {"argument_schema": {"type": "integer"}}}}  # fmt: skip
        assert (await api.call("POST", "/api/workers", worker))[0] == 201
        assert (await cli("remove-contracts", "mail/a")).code == 0
        assert (await api.call("GET", "/api/names/mail%2Fa"))[1]["contracts"] == []
        again = await cli("remove-contracts", "mail/a")
        assert again.code == 3
        assert "no contract of the name mail/a" in again.err


@pytest.mark.req("D32")
async def test_health_is_one_verdict_with_the_next_step_and_an_exit_code(
    store_server: StoreServer, tmp_path: Path
) -> None:
    async with master_on(store_server.url) as (_, api):
        cli = Cli(str(api.http.base_url), tmp_path)

        async def is_well() -> bool:
            return bool((await api.call("GET", "/api/health"))[1]["status"] == "ok")

        await wait_until(is_well, timeout_s=20, what="the queue is well once a master leads")
        well = await cli("health")
        assert (well.code, well.out) == (0, "No job runs or waits. Nothing is broken.\n")
        await api.call("POST", "/api/pauses", {"job_name": "mail", "reason": "deploy"})
        await api.enqueue("mail")

        async def is_broken() -> bool:
            verdict = (await api.call("GET", "/api/health"))[1]
            return [one["code"] for one in verdict["findings"]] == ["no_worker", "pause"]

        await wait_until(is_broken, timeout_s=20, what="there is no worker, and a pause")
        broken = await cli("health")
        assert broken.code == 1
        assert broken.out.startswith("1 job waits, but no worker is live.\nNext: jqmaster workers\n")
        assert "deploy" in broken.out
        told = await cli("health", "--json")
        assert told.code == 1
        (verdict,) = told.lines()
        assert (verdict["status"], len(verdict["findings"])) == ("broken", 2)
