"""Done, not done or unknown: what the store's troubles mean for a caller."""

import asyncio
import contextlib
import hashlib
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jqmaster.domain.jobs.job import JobState
from jqmaster.errors import DamagedError, OutcomeUnknownError, StoreUnavailableError
from jqmaster.store.jobs.enqueue_outcomes import Accepted
from jqmaster.store.jobs.idempotency import KeyedSpec
from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.script_modules import ScriptHeaderError
from jqmaster.store.link.scripts import Arg, ScriptCall, load, names
from jqmaster.store.link.shard import Shard
from tests.support.admin import admin_of
from tests.support.proxy import StoreProxy
from tests.support.replicas import paused, replicated
from tests.support.server import StoreServer, is_cluster_wanted
from tests.support.store import StoreWorld
from tests.support.waiting import wait_until


@contextlib.asynccontextmanager
async def client_of(url: str, **options: object) -> AsyncIterator[StoreClient]:
    client = StoreClient(url, **options)  # type: ignore[arg-type]
    try:
        yield client
    finally:
        await client.close()


@contextlib.asynccontextmanager
async def world_behind(
    server: StoreServer, *, timeout_s: float = 5.0
) -> AsyncIterator[tuple[StoreWorld, StoreProxy]]:
    """A world whose connections go through a proxy that the test controls."""
    async with (
        StoreProxy.before(str(server.socket)) as proxy,
        client_of(proxy.url, timeout_s=timeout_s, connections=4) as client,
        StoreWorld.on(Shard.bound(client, Keys(f"t{uuid.uuid4().hex[:10]}"))) as world,
    ):
        # Otherwise a test would drop the answer that the store does not know the script.
        for name in names():
            await admin_of(client).script_load(load(name).source)
        yield world, proxy


async def test_scripts_come_back_after_the_store_forgot_them(world: StoreWorld) -> None:
    await world.enqueue()
    redis = world.redis
    await redis.script_flush()
    specs = [world.spec() for _ in range(1_001)]
    assert set(await world.acceptance.enqueue(specs)) == {Accepted.NEW}
    is_cluster = is_cluster_wanted()
    text = load("enqueue").text(is_guarded=is_cluster, is_sharded=is_cluster)
    sha = hashlib.sha1(text, usedforsecurity=False).hexdigest()
    assert await redis.script_exists(sha) == [True]
    assert len(await world.acceptance.enqueue([world.spec()])) == 1


async def test_scripts_that_cannot_be_loaded_again_leave_open_what_was_done(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store forgot one script of several: the others may have run."""
    client, k = world.shard.client, world.shard.keys
    ask = client._pool.ask

    async def asks_once(commands: Sequence[tuple[Arg, ...]], *, writes: bool) -> list[Any]:
        if commands[0][0] == "EVAL":
            raise StoreUnavailableError("the store cannot be reached")
        return await ask(commands, writes=writes)

    if client.is_on_cluster:
        pytest.skip("on a Cluster, the same connection is used again")
    monkeypatch.setattr(client._pool, "ask", asks_once)
    elect = ScriptCall(load("elect"), (k.leader, k.epoch, k.demoted), ("", "m", "n", 1))
    resign = ScriptCall(load("resign"), (k.leader,), ("nobody", k.wake_channel))
    await world.redis.script_flush()
    await world.redis.script_load(elect.script.source)
    with pytest.raises(OutcomeUnknownError):
        await client.run_all([elect, resign])
    # Nothing was done of what has not begun.
    with pytest.raises(StoreUnavailableError):
        await client.run_all([resign])
    with pytest.raises(StoreUnavailableError):
        await client.run("find_held", (), (world.now_ms, k.tag))


async def test_nothing_to_run_needs_no_store() -> None:
    """An empty write would keep the loop spinning and the connection from closing."""
    async with client_of("unix:///nonexistent/socket") as client:
        assert await client.run_all([]) == []


async def test_a_call_that_does_not_fit_the_header_is_not_sent(world: StoreWorld) -> None:
    with pytest.raises(ScriptHeaderError):
        await world.shard.client.run("elect", ("one key",), ())
    with pytest.raises(ScriptHeaderError):
        await world.shard.client.run("enqueue", ("a", "b", "c"), ("", "", "", "", "half a group"))
    k = world.shard.keys
    # `elect` cuts the lock of another master to four times this lifetime.
    keys, args = (k.leader, k.epoch, k.demoted), ("", "m", "n", 600_000)
    other = replace(load("elect"), replies=frozenset({"surprise"}))
    with pytest.raises(ScriptHeaderError, match="does not name"):
        await world.shard.client.run_all([ScriptCall(other, keys, args)])
    assert await world.shard.client.run("elect", keys, args) == (
        "held", [f"{world.epoch}:master-1".encode()],
    )  # fmt: skip


@pytest.mark.req("M1")
async def test_a_full_store_refuses_new_jobs_whole_and_lets_the_others_drain() -> None:
    server = StoreServer("--maxmemory", "16mb")
    server.start()
    try:
        async with client_of(server.url) as client:
            world_ = StoreWorld.on(Shard.bound(client, Keys("full")))
            async with world_ as world:
                await drain_when_full(world)
    finally:
        server.stop()


async def drain_when_full(world: StoreWorld) -> None:
    redis = world.redis
    await world.enqueue_many(8, keep_result=True, max_retry=0)
    scheduled = await world.enqueue("later", delay_ms=1)
    short = await world.enqueue("short", delay_ms=1, expires_at_ms=world.now_ms + 2)
    # The ballast is evicted by hand at the end: it is not part of the queue.
    for n in range(64):
        with contextlib.suppress(Exception):
            await redis.set(f"ballast{n}", b"x" * 400_000)
    await redis.config_set("maxmemory", "1mb")
    async with world.unchanged():
        with pytest.raises(StoreUnavailableError):
            await world.acceptance.enqueue([world.spec() for _ in range(3)])
        with pytest.raises(StoreUnavailableError):
            await world.acceptance.enqueue([world.spec() for _ in range(1_200)])
        with pytest.raises(StoreUnavailableError):
            await world.operator_actions.run_now(scheduled)
        with pytest.raises(StoreUnavailableError):
            await world.acceptance.idempotency.reserve_ids([KeyedSpec("d", world.spec(), 1_000)])
    worker = await world.worker()
    jobs = await world.claim(worker)
    assert len(jobs) == 8
    await world.leases.return_offers(world.epoch, worker, [(jobs[7].job_id, jobs[7].token)])
    await world.settlements.confirm_start(worker, [(jobs[0].job_id, jobs[0].token)])
    await world.workers.renew(worker, [(j.job_id, j.token) for j in jobs], 0)
    assert await world.settlements.settle_success(worker, [(jobs[0].job_id, jobs[0].token, b"r")]) == [True]
    assert await world.fail(worker, jobs[1])
    assert await world.results.fetch_result(jobs[1].job_id, watch=False) == b"failed result"
    await world.operator_actions.cancel(jobs[2].job_id)
    await world.operator_actions.delete(jobs[2].job_id)
    world.pass_ms(15_000)
    assert await world.due.promote(world.epoch, JobState.SCHEDULED) == (2, -1)
    assert await world.due.expire(world.epoch) == (1, -1)
    assert await world.state(short) is JobState.SKIPPED
    _, leases, _ = await world.leases.expired_leases()
    from tests.store.jobs.test_reclaim import LOST, ending

    ended = await world.leases.reclaim(world.epoch, [ending(world, x.job, LOST) for x in leases if x.job])
    assert ended == [True] * 4
    assert await world.retention.sweep(world.epoch, JobState.FAILED, retention_ms=0, max_jobs=0) == 1
    world.pass_ms(10**9)
    assert await world.retention.sweep_results(world.epoch) == 2
    await world.workers.forget(worker)
    await world.reelect()
    await redis.config_set("maxmemory", "0")
    await redis.delete(*[f"ballast{n}" for n in range(64)])
    assert await world.acceptance.enqueue([world.spec()]) == [Accepted.NEW]


async def test_a_bulk_that_filled_the_store_half_way_is_unknown() -> None:
    """Some jobs were accepted, the others refused: only a repeat of all settles it."""
    server = StoreServer()
    server.start()
    try:
        async with client_of(server.url) as client, StoreWorld.on(Shard.bound(client, Keys("half"))) as world:
            used = (await admin_of(client).info("memory"))["used_memory"]
            await admin_of(client).config_set("maxmemory", used + 3_000_000)
            specs = [world.spec(argument="x" * 2_000) for _ in range(3_000)]
            with pytest.raises(OutcomeUnknownError):
                await world.acceptance.enqueue(specs)
            await admin_of(client).config_set("maxmemory", 0)
            outcome = await world.acceptance.enqueue(specs)
            assert (outcome[0], outcome[-1]) == (Accepted.KNOWN, Accepted.NEW)
    finally:
        server.stop()


async def test_a_read_only_store_refuses() -> None:
    server = StoreServer()
    server.start()
    try:
        async with client_of(server.url) as client, StoreWorld.on(Shard.bound(client, Keys("ro"))) as world:
            worker, job = await world.running()
            await admin_of(client).config_set("replica-serve-stale-data", "yes")
            await admin_of(client).replicaof("127.0.0.1", "1")
            with pytest.raises(StoreUnavailableError) as refused:
                await world.acceptance.enqueue([world.spec()])
            assert refused.value.retry_after_s
            with pytest.raises(StoreUnavailableError):
                await world.settlements.settle_success(worker, [(job.job_id, job.token, b"")])
            assert (await world.get(job.job_id)).state is JobState.RUNNING
            await admin_of(client).config_set("replica-serve-stale-data", "no")
            with pytest.raises(StoreUnavailableError):
                await world.records.get(job.job_id)
            await admin_of(client).replicaof("NO", "ONE")
            await world.enqueue()
    finally:
        server.stop()


REFUSALS = [
        "LOADING Redis is loading the dataset in memory", "NOAUTH Authentication required.",
        "MISCONF Errors writing to the AOF file", "BUSY Redis is busy running a script",
        "MASTERDOWN Link with MASTER is down", "CLUSTERDOWN The cluster is down", "NOREPLICAS Not enough good replicas",
        "READONLY You can't write against a read only replica.", "OOM command not allowed", "TRYAGAIN later",
        "MOVED 1 h:1", "NOPERM this user has no permissions",
]  # fmt: skip


async def test_a_store_that_says_no_did_nothing(lone_server: StoreServer) -> None:
    async with world_behind(lone_server) as (world, proxy):
        for answer in REFUSALS:
            proxy.answer_next(f"-{answer}\r\n".encode())
            with pytest.raises(StoreUnavailableError):
                await world.acceptance.enqueue([world.spec()])
            proxy.answer_next(f"-{answer}\r\n".encode())
            with pytest.raises(StoreUnavailableError):
                await world.records.get(world.spec().id)
            proxy.answer_next(f"-{answer}\r\n".encode())
            with pytest.raises(StoreUnavailableError):
                await world.records.get_without_argument([world.spec().id])
            await world.enqueue()


async def test_an_answer_that_is_no_answer_is_unknown(lone_server: StoreServer) -> None:
    async with world_behind(lone_server) as (world, proxy):
        proxy.answer_next(b"HTTP/1.1 200 OK\r\n\r\n")
        with pytest.raises(OutcomeUnknownError):
            await world.acceptance.enqueue([world.spec()])
        await world.enqueue()


async def test_a_fault_of_the_program_is_not_hidden(lone_server: StoreServer) -> None:
    from redis.exceptions import ResponseError

    async with world_behind(lone_server) as (world, proxy):
        with pytest.raises(ResponseError):
            await world.shard.client.command("NOSUCHCOMMAND")
        proxy.answer_next(b"-ERR something unheard of\r\n")
        with pytest.raises(ResponseError):
            await world.enqueue()


@pytest.mark.req("M1")
async def test_a_lost_answer_is_unknown_and_the_repeat_harmless(lone_server: StoreServer) -> None:
    async with world_behind(lone_server) as (world, proxy):
        spec = world.spec(keep_result=True)
        proxy.drop_next_answer()
        with pytest.raises(OutcomeUnknownError) as unknown:
            await world.acceptance.enqueue([spec])
        assert unknown.value.retry_after_s
        async with world.unchanged():
            assert await world.acceptance.enqueue([spec]) == [Accepted.KNOWN]
        worker = await world.worker()
        (job,) = await world.claim(worker)
        proxy.drop_next_answer()
        with pytest.raises(OutcomeUnknownError):
            await world.settlements.settle_success(worker, [(job.job_id, job.token, b"r")])
        async with world.unchanged():
            assert await world.settlements.settle_success(worker, [(job.job_id, job.token, b"r")]) == [True]
        # A read has no outcome that could be unknown.
        proxy.drop_next_answer()
        with pytest.raises(StoreUnavailableError):
            await world.records.get(job.job_id)


async def test_a_claim_whose_answer_was_lost_comes_back(lone_server: StoreServer) -> None:
    async with world_behind(lone_server) as (world, proxy):
        job_id = await world.enqueue()
        worker = await world.worker()
        proxy.drop_next_answer()
        with pytest.raises(OutcomeUnknownError):
            await world.claim(worker)
        job = await world.get(job_id)
        assert (job.state, job.is_confirmed) == (JobState.RUNNING, False)
        world.pass_ms(15_000)
        _, (lease,), _ = await world.leases.expired_leases()
        assert lease.job == job


async def test_a_request_that_was_cut_off_is_unknown_or_not_done(lone_server: StoreServer) -> None:
    async with world_behind(lone_server) as (world, proxy):
        proxy.cut_next_request()
        spec = world.spec(argument="x" * 100_000)
        with pytest.raises(OutcomeUnknownError):
            await world.acceptance.enqueue([spec])
        assert await world.records.get(spec.id) is None
        assert await world.acceptance.enqueue([spec]) == [Accepted.NEW]


async def test_a_silent_store_is_unknown_after_the_timeout(lone_server: StoreServer) -> None:
    async with world_behind(lone_server, timeout_s=0.2) as (world, proxy):
        proxy.hold_answers()
        spec = world.spec()
        with pytest.raises(OutcomeUnknownError):
            await world.acceptance.enqueue([spec])
        proxy.release_answers()
        assert await world.acceptance.enqueue([spec]) == [Accepted.KNOWN]


@pytest.mark.parametrize("end", ["cancel", "timeout", "reset"])
async def test_commands_that_a_hung_store_did_not_take_are_never_sent_later(tmp_path: Path, end: str) -> None:
    """A connection that had to send the rest first would stay open as long as the store hangs."""
    argument = b"x" * 8_000_000
    connected: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert b"ECHO" in await reader.read(10_000)
        # From here on nobody reads: the client keeps what the socket cannot hold.
        connected.put_nowait((reader, writer))

    server = await asyncio.start_unix_server(accept, tmp_path / "s", limit=1_000)
    timeout_s = 0.3 if end == "timeout" else 60
    async with server, client_of(f"unix://{tmp_path / 's'}", timeout_s=timeout_s) as client:
        call = asyncio.create_task(client.command("ECHO", argument))
        reader, writer = await asyncio.wait_for(connected.get(), 15)
        if end == "cancel":
            call.cancel()
        elif end == "reset":
            await asyncio.wait_for(client.reset(), 15)
        with pytest.raises(asyncio.CancelledError if end == "cancel" else StoreUnavailableError):
            await call
        assert not client._pool._busy
        arrived = 0
        async with asyncio.timeout(15):
            while part := await reader.read(1_000_000):
                arrived += len(part)
        assert arrived < len(argument)
        writer.close()


async def test_a_canceled_call_leaves_the_pool_healthy(lone_server: StoreServer) -> None:
    async with world_behind(lone_server) as (world, proxy):
        ids = await world.enqueue_many(3)
        for _ in range(20):
            proxy.hold_answers()
            calls = [asyncio.create_task(world.records.get(ids[n % 3])) for n in range(8)]
            while proxy.held < 4:
                await asyncio.sleep(0)
            for call in calls:
                call.cancel()
            assert all(
                isinstance(r, asyncio.CancelledError)
                for r in await asyncio.gather(*calls, return_exceptions=True)
            )
            proxy.release_answers()
            found = await asyncio.gather(*(world.get(job_id) for job_id in ids))
            assert [job.id for job in found] == ids


async def test_an_exhausted_pool_is_not_done(lone_server: StoreServer) -> None:
    async with world_behind(lone_server, timeout_s=1.0) as (world, _):
        async with contextlib.AsyncExitStack() as taken:
            for _ in range(4):
                await taken.enter_async_context(world.shard.client._pool.connection())
            with pytest.raises(StoreUnavailableError):
                await world.acceptance.enqueue([world.spec()])
        await world.enqueue()


@pytest.mark.req("D29")
async def test_a_reset_for_one_shard_leaves_the_callers_of_others_alone(lone_server: StoreServer) -> None:
    async with client_of(lone_server.url, timeout_s=10) as client:
        await asyncio.gather(*(client.command("EXISTS", "{shop}:text") for _ in range(4)))
        with paused(lone_server):
            stalled, going_on = (
                asyncio.create_task(client.command("EXISTS", f"{{{tag}}}:text")) for tag in ("shop", "mail")
            )
            # A round trip for several shards is not that of the stalled one.
            together = asyncio.create_task(
                client.pipeline([("EXISTS", "{shop}:text"), ("EXISTS", "{mail}:text")])
            )
            await wait_until(lambda: len(client._pool._busy) == 3)
            client.reset_those_of("{shop}:")
            with pytest.raises(StoreUnavailableError):
                await asyncio.wait_for(stalled, 5)
        assert await going_on == 0
        assert await together == [0, 0]
        # The connections that were idle serve again.
        assert await client.command("EXISTS", "{shop}:text") == 0


async def test_after_a_reset_callers_in_flight_are_unsure_and_others_go_on(lone_server: StoreServer) -> None:
    async with world_behind(lone_server) as (world, proxy):
        spec = world.spec()
        proxy.hold_answers()
        call = asyncio.create_task(world.acceptance.enqueue([spec]))
        while proxy.held < 1:
            await asyncio.sleep(0)
        await world.shard.client.reset()
        with pytest.raises(OutcomeUnknownError):
            await call
        proxy.release_answers()
        assert await world.acceptance.enqueue([spec]) == [Accepted.KNOWN]


async def test_a_store_that_is_away_is_not_done_and_comes_back() -> None:
    server = StoreServer()
    server.start()
    try:
        async with (
            client_of(server.url, timeout_s=2) as client,
            StoreWorld.on(Shard.bound(client, Keys("away"))) as world,
        ):
            job_id = await world.enqueue()
            server.kill()
            # The first user of a connection that just died cannot know how far its request came.
            with pytest.raises((StoreUnavailableError, OutcomeUnknownError)):
                await world.acceptance.enqueue([world.spec()])
            with pytest.raises(StoreUnavailableError):
                await world.acceptance.enqueue([world.spec()])
            server.start()
            assert await world.state(job_id) is JobState.READY
            await world.enqueue()
    finally:
        server.stop()


async def test_a_key_of_the_wrong_type_is_damage(world: StoreWorld) -> None:
    redis, k = world.redis, world.shard.keys
    spec = world.spec()
    await redis.lpush(k.job(spec.id), "x")
    with pytest.raises(DamagedError):
        await world.records.get(spec.id)
    with pytest.raises(DamagedError):
        await world.shard.client.pipeline([("GET", k.job(spec.id))])
    assert await world.shard.client.pipeline([]) == []
    with pytest.raises(DamagedError):
        await world.results.fetch_result(spec.id, watch=False)
    assert await world.records.get_without_argument([spec.id]) == {}
    await redis.delete(k.job(spec.id))


@pytest.mark.req("M1")
async def test_a_write_counts_once_the_replicas_have_it() -> None:
    async with replicated(1) as (primary, (replica,)), client_of(primary.url, timeout_s=1) as client:
        k = Keys("quorum")
        calls = [ScriptCall(load("mark_generation"), (k.generation, k.rules, k.frozen, k.leader), ("fresh",))]
        assert await client.run_all(calls, replicas=1) == [("ok", [b"fresh"])]
        client.quorum_replicas = 1
        with paused(replica):
            # The repeat writes what exists already: WAIT is true for it too, on any connection.
            for _ in range(2):
                with pytest.raises(OutcomeUnknownError, match="0 of 1"):
                    await client.run_all(calls)
            # A call that asks for less does not wait, and reads ask no replica.
            assert await client.run_all(calls, replicas=0) == [("ok", [b"fresh"])]
            assert await client.run("page", (k.running,), ("", "", 1, 1, "", "", "", 0)) == ("ok", [[]])
        assert await client.run_all(calls) == [("ok", [b"fresh"])]
        with pytest.raises(OutcomeUnknownError, match="1 of 2"):
            await client.run_all(calls, replicas=2)


@pytest.mark.req("M1")
async def test_a_refused_command_is_not_done_whatever_the_replicas_say() -> None:
    async with replicated(1) as (primary, (replica,)), client_of(primary.url, timeout_s=1) as client:
        await admin_of(client).config_set("maxmemory", "1mb")
        args = ("{q}:idempotency:", "d", "i" * 36, "d" * 8, 1000)
        with paused(replica), pytest.raises(StoreUnavailableError):
            await client.run("reserve_ids", (), args, replicas=1)


async def test_a_part_that_was_refused_makes_the_whole_unknown(lone_server: StoreServer) -> None:
    async with world_behind(lone_server) as (world, proxy):
        proxy.answer_next(b"*2\r\n$2\r\nok\r\n*1\r\n*1\r\n$3\r\nnew\r\n-OOM command not allowed\r\n")
        k = world.shard.keys
        call = ScriptCall(load("mark_generation"), (k.generation, k.rules, k.frozen, k.leader), ("fresh",))
        with pytest.raises(OutcomeUnknownError, match="the store carried out only a part"):
            await world.shard.client.run_all([call, call])


async def test_a_cancellation_that_the_client_library_swallowed_still_ends_the_call(
    lone_server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before Python 3.12, asyncio.wait_for loses a cancellation that arrives together with the end of its wait."""
    async with client_of(lone_server.url, connections=2) as client:
        pool = client._pool._pool
        get_connection, is_asked = pool.get_connection, asyncio.Event()

        async def swallow() -> object:
            is_asked.set()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
            return await get_connection()

        monkeypatch.setattr(pool, "get_connection", swallow)
        call = asyncio.create_task(client.command("TIME"))
        await is_asked.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        monkeypatch.undo()
        assert len(await asyncio.gather(client.command("TIME"), client.command("TIME"))) == 2


async def test_a_call_that_gets_no_connection_says_that_all_are_in_use(lone_server: StoreServer) -> None:
    async with client_of(lone_server.url, connections=1, timeout_s=0.05) as client, client._pool.connection():
        with pytest.raises(
            StoreUnavailableError, match=r"^all connections to the store have been in use for 0\.05 s"
        ) as raised:
            await client.command("TIME")
    assert raised.value.retry_after_s


async def test_a_connection_that_closed_after_it_was_taken_sends_nothing(lone_server: StoreServer) -> None:
    async with client_of(lone_server.url) as client, client._pool.connection() as connection:
        await connection.disconnect(nowait=True)
        with pytest.raises(StoreUnavailableError, match="did not answer"):
            await client._pool.exchange(connection, [("TIME",)], writes=False)
