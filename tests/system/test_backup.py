"""The drill: a running queue is backed up, works on, is lost, and comes back."""

import asyncio
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from jqmaster.domain.jobs.job import JobState
from jqmaster.service.operations.restoring import WHO
from jqmaster.store.backup import loading
from jqmaster.store.backup.hold import held
from jqmaster.store.keys import Keys
from jqmaster.store.leadership.leadership import LeadershipStore
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.shard import Shard
from tests.support import real_time
from tests.support.admin import forget_keys
from tests.support.cli import Outcome, jqmaster
from tests.support.master import PATIENT, Api, forget, master_on
from tests.support.processes import MasterProcess, running
from tests.support.scripted_worker import ending, puller_at
from tests.support.store import StoreWorld

pytestmark = [pytest.mark.system, pytest.mark.req("D31"), real_time.PROCESSES]

PASSPHRASE = "correct horse battery"


async def command(*arguments: object, passphrase: str = PASSPHRASE) -> Outcome:
    return await asyncio.to_thread(jqmaster, *arguments, JQMASTER_BACKUP_PASSPHRASE=passphrase)


async def test_a_store_that_was_lost_comes_back_as_it_was_at_the_backup(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    lost = MasterProcess(tmp_path / "old", **PATIENT)
    backup, risks = tmp_path / "backup", tmp_path / "risks.jsonl"
    with running(lost):
        api = Api(lost.url)
        async with puller_at(api, "work", "once") as worker:
            # These jobs come before the cut.
            done = await api.enqueue("work", 1, keep_result=True)
            (job,) = await worker.claim(1)
            await worker.end(job, result="first")
            again, once = await api.enqueue("work", 2), await api.enqueue("once", 3, max_retry=0)
            held = {one["job_id"]: one for one in await worker.claim(2)}
            assert held.keys() == {again, once}
            specs = [{"name": "later", "argument": n} for n in range(300)]
            status, answer = await api.call("POST", "/api/jobs/bulk", {"jobs": specs})
            assert status in (200, 201), answer
            waiting = await api.enqueue("work", 4)
            scheduled = await api.enqueue("work", 5, delay=3600)

            load = asyncio.create_task(_load(api))
            taken = await command("backup", backup, "--data-dir", lost.data_dir, "--json")
            load.cancel()
            assert taken.code == 0, taken.err
            (facts,) = taken.lines()
            assert facts["is_encrypted"]
            assert (facts["jobs"]["running"], facts["jobs"]["succeeded"]) == (2, 1)

            # These changes come after it.
            since = await api.enqueue("work", 6)
            await worker.end(held[again], result="never heard of again")
            assert await api.state(again) == "succeeded"
        await api.http.aclose()
        lost.kill()
        lost.kill_store()
        shutil.rmtree(lost.data_dir)

        checked = await command("verify", backup, "--json")
        assert (checked.code, checked.lines()[0]["cut_at"]) == (0, facts["cut_at"])
        found = MasterProcess(tmp_path / "new", **PATIENT)
        restored = await command("restore", backup, "--data-dir", found.data_dir, "--report", risks, "--json")
        assert restored.code == 0, restored.err
        (told,) = restored.lines()
        assert (told["may_run_again"]["running"], told["failed"]) == (1, 1)
        named = {line["id"]: line["state"] for line in map(json.loads, risks.read_text().splitlines())}
        assert (named[again], named[waiting]) == ("running", "ready")
        assert not {done, once, scheduled, since} & named.keys()

        found.start()
        lost.popen = found.popen
        api = Api(found.url)
        states = [await api.state(one) for one in (done, again, once, waiting, scheduled)]
        assert states == ["succeeded", "ready", "failed", "ready", "scheduled"]
        assert (await api.call("GET", f"/api/jobs/{since}"))[0] == 404
        assert (await api.call("GET", f"/api/jobs/{done}/result"))[1]["result"] == "first"
        assert (await api.counts())["ready"] >= 302
        # Nothing of the former time ends a job of this one.
        async with puller_at(api, "work") as worker:
            old = held[again]
            assert await worker.report(ending(old)) == (200, {"accepted": [], "stale": [again]})
            assert await api.state(again) == "ready"
            (job,) = await worker.claim(1)
            assert job["job_id"] == again
            assert job["token"] != old["token"]
            await worker.end(job)
        assert await api.state(again) == "succeeded"
        entries = (await api.call("GET", "/api/audit"))[1]["entries"]
        assert [entry["action"] for entry in entries if entry["who"] == "restore"] == ["restore"]
        await api.http.aclose()
        assert found.troubles_of_store() == []

        refused = await command("restore", backup, "--data-dir", found.data_dir, "--report", risks)
        assert refused.code == 4
        assert "in use by another master" in refused.err
        found.terminate()
        refused = await command("restore", backup, "--data-dir", found.data_dir, "--report", risks)
        assert refused.code == 4
        assert "holds data: move the directory away" in refused.err


async def _load(api: Api) -> None:
    while True:
        await api.enqueue("meanwhile", "x" * 100)


async def test_refusals_name_what_to_do(tmp_path: Path, store_server: Any) -> None:
    backup = tmp_path / "backup"
    url = {"JQMASTER_REDIS_URL": store_server.backup_url, "JQMASTER_SHARD": "tdrill"}

    def run(*arguments: object, **environment: str) -> Outcome:
        return jqmaster(*arguments, cwd=tmp_path, **url | environment)

    client = StoreClient(store_server.url, connections=2)
    await StoreWorld(Shard.bound(client, Keys("tdrill"))).enqueue_many(1)
    await client.close()
    assert run("backup", backup).code == 0
    again = run("backup", backup)
    assert (again.code, "is not empty" in again.err) == (4, True)
    short = run("backup", tmp_path / "b2", JQMASTER_BACKUP_PASSPHRASE="short")
    assert (short.code, "8 characters or more" in short.err) == (2, True)
    assert run("backup", tmp_path / "b2", "--passphrase-file", tmp_path / "none").code == 2
    nothing = run("verify", tmp_path / "b2")
    assert (nothing.code, "not a backup" in nothing.err) == (3, True)
    async with master_on(store_server.url, shard="tdrill") as (master, _):
        running_one = await asyncio.to_thread(
            run, "restore", backup, "--force", "tdrill", JQMASTER_REDIS_URL=store_server.url
        )
        assert running_one.code == 4
        assert f"masters run on the shard ({master.server.url}" in running_one.err
    wrong = run("restore", backup, "--force", "jq")
    assert (wrong.code, "the shard is tdrill, and not jq" in wrong.err) == (2, True)
    no_rights = run("backup", tmp_path / "b3", JQMASTER_REDIS_URL=store_server.url)
    assert (no_rights.code, "valkey-backup.acl" in no_rights.err) == (4, True)
    assert not (tmp_path / "b3").exists()
    await forget(store_server.url, "tdrill")


async def test_a_restore_that_was_interrupted_while_it_led_says_until_when(
    tmp_path: Path, store_server: Any
) -> None:
    client = StoreClient(store_server.url, connections=2)
    shard = Shard.bound(client, Keys("tlead"))
    backup, risks = tmp_path / "backup", tmp_path / "risks.jsonl"
    url = {"JQMASTER_REDIS_URL": store_server.backup_url, "JQMASTER_SHARD": "tlead"}
    await StoreWorld(shard).enqueue_many(1)
    assert (await asyncio.to_thread(jqmaster, "backup", backup, **url)).code == 0
    url["JQMASTER_REDIS_URL"] = store_server.url
    await loading.begin(shard, "jq of yesterday")
    leadership = await LeadershipStore(shard).elect(WHO, "nonce", ttl_ms=50_000)
    assert leadership
    refused = await asyncio.to_thread(jqmaster, "restore", backup, "--report", risks, **url)
    assert refused.code == 4
    (seconds,) = re.findall(r"run the command again in (\d+) s, when this lead has ended", refused.err)
    assert 1 <= int(seconds) <= 50
    await LeadershipStore(shard).resign(leadership)
    done = await asyncio.to_thread(jqmaster, "restore", backup, "--report", risks, **url)
    assert done.code == 0, done.err
    await forget_keys(shard)
    await client.close()


async def test_one_of_two_restores_into_one_shard_is_refused(tmp_path: Path, store_server: Any) -> None:
    client = StoreClient(store_server.url, connections=4)
    async with StoreWorld.on(Shard.bound(client, Keys("tfrom"))) as world:
        await world.enqueue_many(2_000)
        url = {"JQMASTER_REDIS_URL": store_server.backup_url, "JQMASTER_SHARD": "tfrom"}
        done = await asyncio.to_thread(jqmaster, "backup", tmp_path / "backup", **url)
        assert done.code == 0, done.err
    into = {"JQMASTER_REDIS_URL": store_server.url, "JQMASTER_SHARD": "tinto"}

    def restore(report: str) -> Outcome:
        return jqmaster("restore", tmp_path / "backup", "--report", tmp_path / report, **into)

    shard = Shard.bound(client, Keys("tinto"))
    both = await asyncio.gather(*(asyncio.to_thread(restore, name) for name in ("one", "two")))
    first, second = sorted(both, key=lambda one: one.code)
    assert (first.code, second.code) == (0, 4), (first.err, second.err)
    # The first may have ended before the second looked.
    assert re.search(r"another restore is at work on the shard|shard tinto holds data", second.err)
    restored = StoreWorld(shard)
    assert (await restored.inspector.counts())[JobState.READY] == 2_000
    assert await restored.findings() == []
    async with held(shard):
        refused = await asyncio.to_thread(restore, "three")
    assert refused.code == 4
    assert re.search(r"another restore is at work on the shard.*run the command again in \d+ s", refused.err)
    for one in (shard, Shard.bound(client, Keys("tfrom"))):
        await forget_keys(one)
    await client.close()


async def test_no_master_starts_on_a_store_that_was_half_restored(tmp_path: Path, store_server: Any) -> None:
    from jqmaster.app import running_master
    from jqmaster.config import Settings
    from jqmaster.errors import StoreUnfitError

    client = StoreClient(store_server.url, connections=2)
    shard = Shard.bound(client, Keys("thalf"))
    await loading.begin(shard, "jq")
    with pytest.raises(StoreUnfitError, match="run `jqmaster restore` again"):
        async with running_master(Settings(redis_url=store_server.url, shard="thalf", port=0)):
            pass
    await forget_keys(shard)
    await client.close()
