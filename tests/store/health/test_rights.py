"""The user of the shipped ACL file may do what jqmaster does, and nothing else."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoPermissionError

import jqmaster.store as store_package
from jqmaster.config import Settings
from jqmaster.errors import StoreUnfitError
from jqmaster.store.health import rights
from jqmaster.store.health.probe import probe, require
from tests.support.cli import jqmaster
from tests.support.master import master_on
from tests.support.scripted_worker import puller_at, worker_at
from tests.support.server import StoreServer

STORE = Path(store_package.__file__).parent
# The client library sends these for us, by its connections and its pub/sub.
BY_LIBRARY = {"select", "ssubscribe", "subscribe", "unsubscribe"}


@pytest.fixture
def server() -> Iterator[StoreServer]:
    one = StoreServer()
    # The test uses the shipped text itself, not the variant for tests with any shard.
    one.acl = rights.FILE.read_text()
    one.start()
    yield one
    one.stop()


@pytest.fixture
async def admin(server: StoreServer) -> AsyncIterator[Any]:
    async with Redis.from_url(server.admin_url, protocol=2) as one:
        yield one


def as_user(server: StoreServer) -> Any:
    return Redis.from_url(server.url, protocol=2, retry=Retry(NoBackoff(), 0))


def test_the_shipped_file_is_the_one_of_the_table() -> None:
    assert rights.FILE.read_text() == rights.acl_file(), "python -m jqmaster.store.health.rights --write"


def test_no_right_is_given_that_no_code_uses_and_none_is_lacking() -> None:
    lua = "".join(path.read_text() for path in STORE.glob("lua/**/*.lua"))
    # Backups have a user of their own.
    python = "".join(
        path.read_text()
        for path in STORE.rglob("*.py")
        if path.name != "rights.py" and path.parent.name != "backup"
    )
    python += "".join(path.read_text() for path in (STORE.parent / "app").glob("*.py"))
    in_scripts = {command.lower() for command in re.findall(r"(?:redis\.p?call|\beach)\('([A-Z]+)'", lua)}
    given = {
        command.partition("|")[0] for command in (*rights.ON_KEYS, *rights.ON_CHANNELS, *rights.ON_NOTHING)
    }
    sent = {word for word in given if re.search(rf'"{word.upper()}["\s]', python)}
    assert in_scripts <= given
    assert given - in_scripts - sent == BY_LIBRARY


@pytest.mark.req("D31")
def test_a_backup_has_a_file_of_its_own_without_a_right_that_it_does_not_use() -> None:
    assert rights.BACKUP_FILE.read_text() == rights.backup_acl_file()
    code = "".join(path.read_text() for path in (STORE / "backup").glob("*.py"))
    unused = {
        command
        for command in rights.BACKUP
        if not all(f'"{word.upper()}"' in code for word in command.split("|"))
    }
    # The library sends these behind Sentinels, on a Cluster, and for another database.
    assert unused == {"cluster|nodes", "role", "select"}


@pytest.mark.req("D20")
async def test_a_master_works_under_the_shipped_file_and_nothing_is_denied(
    server: StoreServer, admin: Any
) -> None:
    async with master_on(server.url, shard="jq") as (_, api), worker_at(api) as worker:
        job_id = await api.enqueue("work", 1, keep_result=True)
        await worker.end(await worker.next_job(), result=2)
        assert (await api.call("GET", f"/api/jobs/{job_id}/result"))[1]["result"] == 2
        async with puller_at(api, "pulled") as puller:
            await api.enqueue("pulled", 1)
            (job,) = await puller.claim()
            await puller.end(job)
        for command in (["doctor"], ["fsck"], ["fsck", "--repair"]):
            done = await asyncio.to_thread(
                jqmaster, *command, JQMASTER_REDIS_URL=server.url, JQMASTER_SHARD="jq"
            )
            assert done.code == 0, done
    # Each entry would be a right that is lacking, and would bury the attempts of others.
    assert await admin.acl_log() == []


@pytest.mark.parametrize(
    "command",
    ["FLUSHALL", "FLUSHDB", "KEYS *", "CONFIG SET appendonly no", "SHUTDOWN", "ACL LIST", "DEBUG SLEEP 0", "MONITOR",
    "REPLICAOF NO ONE",
     "SCRIPT FLUSH", "GET other", "SET {jq2}:job:1 x", "PUBLISH other x", "SPUBLISH other x",
     "EVAL return(redis.call('GET','other')) 0"],
)  # fmt: skip
async def test_it_may_do_nothing_else(server: StoreServer, command: str) -> None:
    async with as_user(server) as user:
        with pytest.raises(Exception, match=r"(?i)no permission|NOPERM|can't access") as refused:
            await user.execute_command(*command.split())
        assert isinstance(refused.value, NoPermissionError) or "EVAL" in command


@pytest.mark.parametrize("lacking", [["zadd"], ["publish"], ["subscribe"], ["wait", "xadd", "scan"]])
async def test_doctor_names_each_right_that_is_missing(
    server: StoreServer, admin: Any, lacking: list[str]
) -> None:
    settings = Settings()
    async with as_user(server) as user:
        assert (await probe(user, settings)).rights_missing == ()
        await admin.execute_command("ACL", "SETUSER", rights.USER, *(f"-{right}" for right in lacking))
        report = await probe(user, settings)
        assert set(report.rights_missing) == set(lacking)
        with pytest.raises(StoreUnfitError, match=rf"\+{lacking[0]}"):
            require(report, settings)


async def test_a_store_of_one_server_needs_no_right_on_sharded_channels(
    server: StoreServer, admin: Any
) -> None:
    await admin.execute_command("ACL", "SETUSER", rights.USER, "-spublish", "-ssubscribe")
    async with as_user(server) as user:
        report = await probe(user, Settings())
        require(report, Settings())
        assert (report.rights_missing, report.has_sharded_channels) == ((), False)
        assert not [fault for fault in report.faults if "spublish" in fault.how_to_fix]


async def test_rights_on_another_shard_are_not_those_that_are_needed(server: StoreServer) -> None:
    async with as_user(server) as user:
        report = await probe(user, Settings(shard="other"))
        assert not report.has_lua
        with pytest.raises(StoreUnfitError, match=r"deploy/valkey\.acl"):
            require(report, Settings(shard="other"))


async def test_a_right_that_can_be_done_without_is_not_asked_for(server: StoreServer, admin: Any) -> None:
    await admin.execute_command("ACL", "SETUSER", rights.USER, "-config|get")
    declared = Settings(declare_durability="fsync")
    async with as_user(server) as user:
        report = await probe(user, declared)
        require(report, declared)
        assert (report.rights_missing, report.appendfsync) == ((), None)
