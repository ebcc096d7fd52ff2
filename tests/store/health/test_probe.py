"""Reports of the probe on real servers, and the servers that a master refuses."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ResponseError

from jqmaster.config import Settings
from jqmaster.errors import DamagedError, StoreUnavailableError, StoreUnfitError
from jqmaster.store.health.probe import look_again, probe, require
from jqmaster.store.health.store_report import StoreReport
from jqmaster.store.link.client import StoreClient
from tests.support.ports import free_port
from tests.support.replicas import replicated
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

FSYNC = Settings()
BESTEFFORT = Settings(durability="besteffort")
QUORUM = Settings(durability="fsync+quorum")


@pytest.fixture(scope="module")
def server() -> Iterator[StoreServer]:
    """A separate server, since these tests change its configuration."""
    with started() as one:
        yield one


@contextlib.contextmanager
def started(*extra: str) -> Iterator[StoreServer]:
    server = StoreServer(*extra)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextlib.asynccontextmanager
async def connected(server: StoreServer, **options: Any) -> AsyncIterator[Any]:
    client: Any = Redis(
        unix_socket_path=str(server.socket), protocol=2, retry=Retry(NoBackoff(), 0), **options
    )
    try:
        yield client
    finally:
        await client.aclose()


@contextlib.asynccontextmanager
async def configured(server: StoreServer, **values: str) -> AsyncIterator[Any]:
    """A client of the server while its configuration is changed."""
    async with connected(server, decode_responses=True) as admin, connected(server) as client:
        wanted = {name.replace("_", "-"): value for name, value in values.items()}
        before = {name: (await admin.config_get(name))[name] for name in wanted}
        for name, value in wanted.items():
            await admin.config_set(name, value)
        try:
            yield client
        finally:
            for name, value in before.items():
                await admin.config_set(name, value)
            # Switching the AOF back on rewrites it; until that is done, the next test would see a half-finished state.
            await wait_until(lambda: _is_quiet(admin))


async def _is_quiet(admin: Any) -> bool:
    info = await admin.info("persistence")
    return not info["aof_rewrite_in_progress"] and not info["aof_rewrite_scheduled"]


def errors(report: StoreReport) -> list[str]:
    return [fault.what for fault in report.faults if fault.level == "error"]


@pytest.mark.req("M1")
async def test_a_fit_store_gives_fsync_and_is_accepted(server: StoreServer) -> None:
    async with connected(server) as client:
        report = await probe(client, FSYNC)
        require(report, FSYNC)
        assert report.kind in ("Redis", "Valkey")
        assert report.version >= (7, 0)
        assert (report.role, report.has_lua, report.is_cluster) == ("primary", True, False)
        assert (report.appendonly, report.appendfsync, report.maxmemory_policy) == (
            True,
            "always",
            "noeviction",
        )
        assert report.durability == "fsync"
        assert 0 < report.latency_ms < 1000
        assert abs(report.clock_ahead_ms) < 500
        assert errors(report) == []
        assert all(fault.how_to_fix for fault in report.faults)


@pytest.mark.req("M1")
@pytest.mark.parametrize(
    ("name", "value"),
    [("appendfsync", "everysec"), ("appendonly", "no"), ("no_appendfsync_on_rewrite", "yes")],
)
async def test_a_store_that_can_lose_writes_is_besteffort_and_refused_for_more(
    server: StoreServer, name: str, value: str
) -> None:
    async with configured(server, **{name: value}) as client:
        report = await probe(client, FSYNC)
        assert report.durability == "besteffort"
        with pytest.raises(StoreUnfitError, match=f"CONFIG SET {name.replace('_', '-')} "):
            require(report, FSYNC)
        content = await probe(client, BESTEFFORT)
        require(content, BESTEFFORT)
        assert any("besteffort" in fault.what for fault in content.faults)


@pytest.mark.req("M1")
async def test_a_store_that_evicts_is_refused_at_every_level(server: StoreServer) -> None:
    async with configured(server, maxmemory_policy="allkeys-lru") as client:
        for settings in (FSYNC, BESTEFFORT):
            with pytest.raises(StoreUnfitError, match="noeviction"):
                require(await probe(client, settings), settings)


@pytest.mark.req("M1")
async def test_without_config_the_operator_declares_what_the_store_gives(server: StoreServer) -> None:
    async with connected(server) as admin:
        await admin.execute_command("ACL", "SETUSER", "limited", "on", ">pw", "~*", "&*", "+@all", "-config")
        async with connected(server, username="limited", password="pw") as client:
            report = await probe(client, FSYNC)
            assert report.appendfsync is None
            with pytest.raises(StoreUnfitError, match="JQMASTER_DECLARE_DURABILITY"):
                require(report, FSYNC)
            require(await probe(client, BESTEFFORT), BESTEFFORT)
            declared = Settings(declare_durability="fsync")
            report = await probe(client, declared)
            require(report, declared)
            assert report.durability == "fsync"
        async with (
            configured(server, appendonly="no"),
            connected(server, username="limited", password="pw") as client,
        ):
            with pytest.raises(StoreUnfitError, match="appendonly"):
                require(await probe(client, declared), declared)


async def test_without_scripts_no_master_starts(server: StoreServer) -> None:
    async with connected(server) as admin:
        await admin.execute_command(
            "ACL", "SETUSER", "silent", "on", ">pw", "~*", "&*", "+@all", "-@scripting"
        )
        async with connected(server, username="silent", password="pw") as client:
            report = await probe(client, FSYNC)
            assert not report.has_lua
            with pytest.raises(StoreUnfitError, match="EVALSHA"):
                require(report, FSYNC)


async def test_a_store_that_tells_nothing_is_unfit_and_an_absent_one_unavailable(server: StoreServer) -> None:
    async with connected(server) as admin:
        await admin.execute_command("ACL", "SETUSER", "blind", "on", ">pw", "~*", "&*", "+@all", "-info")
        async with connected(server, username="blind", password="pw") as client:
            with pytest.raises(StoreUnfitError, match="INFO"):
                await probe(client, FSYNC)
    absent: Any = Redis(unix_socket_path="/nonexistent/socket", retry=Retry(NoBackoff(), 0))
    with pytest.raises(StoreUnavailableError):
        await probe(absent, FSYNC)
    await absent.aclose()


@pytest.mark.req("M1")
async def test_a_quorum_needs_a_replica_in_sync_and_a_replica_is_no_store() -> None:
    port = free_port()
    with started("--port", str(port), "--repl-diskless-sync-delay", "0") as primary:
        async with connected(primary) as client:
            with pytest.raises(StoreUnfitError, match="1 replicas must be in sync, 0 are"):
                require(await probe(client, QUORUM), QUORUM)
            with started("--replicaof", f"127.0.0.1 {port}") as second:
                await wait_until(lambda: _replicas(client, 1))
                report = await probe(client, QUORUM)
                require(report, QUORUM)
                assert report.durability == "fsync+quorum"
                async with connected(second) as replica:
                    with pytest.raises(StoreUnfitError, match="replica"):
                        require(await probe(replica, FSYNC), FSYNC)


@pytest.mark.req("M1")
async def test_the_quorum_is_a_majority_of_what_was_seen_or_what_the_operator_says() -> None:
    async with replicated(3) as (primary, replicas):
        client = StoreClient(primary.url, connections=2)
        report = await probe(client.redis, QUORUM)
        assert (report.replicas_in_sync, report.replicas_needed) == (3, 2)
        assert (
            await probe(client.redis, Settings(durability="fsync+quorum", quorum_replicas=3))
        ).replicas_needed == 3
        for replica in replicas[:2]:
            replica.kill()
        await wait_until(lambda: _replicas(client.redis, 1))
        # Replicas that are gone still count: otherwise a lone survivor would be its own majority.
        report = await look_again(client, QUORUM, report)
        assert (report.replicas_needed, report.durability) == (2, "fsync")
        assert [f.check for f in report.faults if f.level == "error"] == ["durability"]
        await client.close()


async def _replicas(client: Any, wanted: int) -> bool:
    return bool((await probe(client, QUORUM)).replicas_in_sync == wanted)


async def test_a_store_that_reads_its_data_is_unavailable_not_unfit(server: StoreServer) -> None:
    async with connected(server) as client:
        report = await probe(client, FSYNC)
    with pytest.raises(StoreUnavailableError, match="loading"):
        require(replace(report, is_loading=True), FSYNC)


async def test_a_nearly_full_store_is_warned_of(server: StoreServer) -> None:
    async with connected(server) as client:
        used = (await client.info("memory"))["used_memory"]
    async with configured(server, maxmemory=str(int(used * 1.1))) as client:
        (fault,) = [f for f in (await probe(client, FSYNC)).faults if "maxmemory" in f.what]
        assert fault.level == "warning"


@pytest.mark.parametrize(
    ("setting", "value", "fix"),
    [
        ("maxclients", "150", "maxclients to 200"),
        ("timeout", "20", "timeout 0"),
        ("busy_reply_threshold", "100", "busy-reply-threshold 5000"),
        ("min_replicas_to_write", "1", "min-replicas-to-write"),
        ("client_output_buffer_limit", "pubsub 65536 0 0", "pubsub 0 0 0"),
        ("client_output_buffer_limit", "normal 1048576 0 0", "normal 0 0 0"),
        ("save", "3600 1", 'save ""'),
    ],
)
async def test_settings_by_which_a_neighbour_can_hold_up_the_queue_are_warned_of(
    server: StoreServer, setting: str, value: str, fix: str
) -> None:
    async with configured(server, **{setting: value}) as client:
        report = await probe(client, FSYNC)
        require(report, FSYNC)
        assert [fault.level for fault in report.faults if fix in fault.how_to_fix] == ["warning"]
    async with connected(server) as client:
        assert [fault for fault in (await probe(client, FSYNC)).faults if fix in fault.how_to_fix] == []


@pytest.mark.parametrize("coverage", ["yes", "no"])
async def test_a_cluster_that_stops_with_any_node_is_warned_of(coverage: str) -> None:
    with started("--cluster-enabled", "yes", "--cluster-require-full-coverage", coverage) as node:
        async with connected(node, decode_responses=True) as admin:
            await admin.execute_command("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
            await wait_until(lambda: _is_whole(admin))
        async with connected(node) as client:
            report = await probe(client, FSYNC)
    told = [fault.level for fault in report.faults if "cluster-require-full-coverage no" in fault.how_to_fix]
    assert told == (["warning"] if coverage == "yes" else [])


@pytest.mark.parametrize("lacking", [(), ("-spublish",), ("-ssubscribe",)])
async def test_a_cluster_whose_user_may_not_use_sharded_channels_serves_and_is_warned_of(
    lacking: tuple[str, ...],
) -> None:
    """It is so until the operator has brought the user of former releases up to date."""
    with started("--cluster-enabled", "yes", "--cluster-require-full-coverage", "no") as node:
        async with connected(node, decode_responses=True) as admin:
            await admin.execute_command("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
            await admin.execute_command("ACL", "SETUSER", "default", *lacking)
            await wait_until(lambda: _is_whole(admin))
        async with connected(node) as client:
            report = await probe(client, FSYNC)
            require(report, FSYNC)
    assert report.has_sharded_channels == (not lacking)
    told = [fault.level for fault in report.faults if "+spublish +ssubscribe" in fault.how_to_fix]
    assert told == (["warning"] if lacking else [])


async def _is_whole(admin: Any) -> bool:
    return "cluster_state:ok" in str(await admin.execute_command("CLUSTER", "INFO"))


@pytest.mark.parametrize(
    ("version", "level"),
    [
        (b"6.2.14", "error"),
        (b"7.0.15", "warning"),
        (b"7.2.10", "warning"),
        (b"7.2.11", None),
        (b"8.2.2", None),
        (b"8.4.0", None),
        (b"V7.2.13", "warning"),
        (b"V8.0.11", None),
        (b"V8.1.9", "warning"),
        (b"V8.1.10", None),
        (b"V9.0.5", "warning"),
        (b"V9.1.1", "warning"),
        (b"V9.1.2", None),
        (b"V9.2.0", None),
    ],
)
async def test_versions_too_old_are_refused_and_unpatched_ones_warned_of(
    version: bytes, level: str | None
) -> None:
    """This is the only fake, since old servers are not available. It answers as Redis `version` does, or
    as Valkey if that begins with a V."""
    async with fake_redis(version) as port:
        client: Any = Redis(host="127.0.0.1", port=port, protocol=2, retry=Retry(NoBackoff(), 0))
        report = await probe(client, FSYNC)
        await client.aclose()
    dotted = version.decode().removeprefix("V")
    assert [f.level for f in report.faults if dotted in f.what] == ([level] if level else [])


@contextlib.asynccontextmanager
async def fake_redis(version: bytes, on_long_eval: bytes = b"*0\r\n") -> AsyncIterator[int]:
    """`on_long_eval` is the answer to a script with more than a few arguments."""
    name = b"server_name:valkey\r\nvalkey_version" if version.startswith(b"V") else b"redis_version"
    info = (
        b"%s:%s\r\nrole:master\r\naof_enabled:1\r\nloading:0\r\nmaxmemory:0\r\nused_memory:1\r\n"
        b"maxmemory_policy:noeviction\r\n" % (name, version.removeprefix(b"V"))
    )
    replies = {
        b"INFO": b"$%d\r\n%s\r\n" % (len(info), info),
        b"TIME": b"*2\r\n$10\r\n1800000000\r\n$1\r\n0\r\n",
        b"CONFIG": b"*2\r\n$11\r\nappendfsync\r\n$6\r\nalways\r\n",
        b"EVAL": b"*0\r\n",
    }

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                words = int((await reader.readuntil(b"\r\n"))[1:])
                parts = []
                for _ in range(words):
                    size = int((await reader.readuntil(b"\r\n"))[1:])
                    parts.append((await reader.readexactly(size + 2))[:-2])
                is_long = parts[0].upper() == b"EVAL" and words > 9
                writer.write(on_long_eval if is_long else replies.get(parts[0].upper(), b"+OK\r\n"))
        writer.close()

    listener = await asyncio.start_server(converse, "127.0.0.1", 0)
    async with listener:
        yield listener.sockets[0].getsockname()[1]


class Answers:
    """A client whose round trip returns these answers."""

    def __init__(self, *answers: object) -> None:
        self._answers = answers
        self.asked: list[tuple[str, ...]] = []

    async def ask_each(self, commands: list[tuple[str, ...]]) -> list[object]:
        self.asked = list(commands)
        return list(self._answers)


INFO = b"aof_enabled:1\r\nloading:0\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\nrole:master\r\nused_memory:1\r\n"
ALWAYS = [b"appendfsync", b"always", b"no-appendfsync-on-rewrite", b"no"]


async def again(before: StoreReport, *answers: object) -> StoreReport:
    return await look_again(Answers(*answers), FSYNC, before)  # type: ignore[arg-type]


@pytest.fixture
async def fit(server: StoreServer) -> StoreReport:
    async with connected(server) as client:
        return await probe(client, FSYNC)


async def test_settings_that_were_never_shown_are_not_asked_for_again(fit: StoreReport) -> None:
    client = Answers(INFO)
    before = replace(fit, appendfsync=None)
    report = await look_again(client, FSYNC, before)  # type: ignore[arg-type]
    assert client.asked == [("INFO", "memory", "persistence", "replication")]
    assert report.appendfsync is None
    assert (await again(fit, INFO, ALWAYS)).appendfsync == "always"


@pytest.mark.parametrize(
    "refusal",
    [
        StoreUnavailableError("the store says: no permission to run it", retry_after_s=1),
        ResponseError("unknown command"),
    ],
)
async def test_settings_that_are_shown_no_more_are_not_known_any_more(
    fit: StoreReport, refusal: Exception
) -> None:
    report = await again(fit, INFO, refusal)
    assert (report.appendfsync, report.durability) == (None, "besteffort")


@pytest.mark.parametrize(
    "answers",
    [
        (StoreUnavailableError("the store is away", retry_after_s=1), ALWAYS),
        (INFO, StoreUnavailableError("the store reads its data", retry_after_s=1)),
        (INFO, DamagedError("odd")),
    ],
)
async def test_a_store_that_does_not_answer_has_no_new_report(
    fit: StoreReport, answers: tuple[object, ...]
) -> None:
    with pytest.raises((StoreUnavailableError, DamagedError)):
        await again(fit, *answers)


@pytest.mark.parametrize(
    ("info", "fault"),
    [
        (INFO.replace(b"loading:0", b"loading:1"), "the store is loading its data"),
        (INFO + b"aof_last_write_status:err\r\n", "the store cannot write its append-only file"),
        (INFO, "maxmemory is not set"),
        (INFO.replace(b"maxmemory:0", b"maxmemory:2"), None),
    ],
)
async def test_the_health_of_the_store_is_told(fit: StoreReport, info: bytes, fault: str | None) -> None:
    report = await again(replace(fit, latency_ms=0.1, clock_ahead_ms=0.0), info, ALWAYS)
    found = [one.what for one in report.faults if one.level != "error" or "append-only" in one.what]
    assert [what[: len(fault or "")] for what in found if fault and what.startswith(fault)] == [fault] * bool(
        fault
    )
    assert fault or not any("maxmemory" in what for what in found)


async def test_slow_answers_and_clocks_that_differ_are_warned_of(fit: StoreReport) -> None:
    slow = await again(replace(fit, latency_ms=55.5, clock_ahead_ms=-2_500.0), INFO, ALWAYS)
    texts = [one.what for one in slow.faults if one.level == "warning"]
    assert "an answer takes 55.5 ms" in texts
    assert "the store's clock differs from ours by -2.5 s" in texts
    steady = await again(replace(fit, latency_ms=0.1, clock_ahead_ms=1.0), INFO, ALWAYS)
    # The test server may be an old release, which always causes a warning.
    assert {one.what for one in steady.faults if one.level == "warning"} == set(texts) - {
        "an answer takes 55.5 ms",
        "the store's clock differs from ours by -2.5 s",
    }


async def test_no_rights_are_said_to_be_missing_if_they_cannot_be_read() -> None:
    async with fake_redis(b"8.4.0", on_long_eval=b"-ERR unknown command 'ACL'\r\n") as port:
        client: Any = Redis(host="127.0.0.1", port=port, protocol=2, retry=Retry(NoBackoff(), 0))
        report = await probe(client, FSYNC)
        await client.aclose()
    assert report.has_lua
    assert report.rights_missing == ()
