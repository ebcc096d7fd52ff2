"""The cost of a job, counted instead of timed, so that it is the same on busy and idle machines.

Each bound is close to the current value. To exceed one on purpose, write the new number here and the reason in the
commit.
"""

import asyncio
import contextlib
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from jqmaster.api.http import endpoint
from jqmaster.config import Settings
from jqmaster.domain.constraints.weight import Weight
from jqmaster.domain.ids import new_id
from jqmaster.domain.matching.paths import parse_path
from jqmaster.runtime.duties import repair
from jqmaster.runtime.targets.deliveries import TargetDeliveries
from jqmaster.store.jobs.claims import Claim, ClaimedJob, WantedClaim
from jqmaster.store.jobs.settlements import Successes
from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.pool import StorePool
from jqmaster.store.link.shard import Shard
from jqmaster.store.operations.settings import SettingsStore
from jqmaster.store.targets.targets import StoredTargets, TargetStore
from tests.support.admin import admin_of
from tests.support.constraints import ConstrainedWorld
from tests.support.events import Events
from tests.support.master import PATIENT, master_on
from tests.support.namespaces import installed
from tests.support.server import StoreServer, started
from tests.support.store import StoreWorld
from tests.support.unique import unique
from tests.support.waiting import wait_until
from worker_sdk import Pusher, Worker
from worker_sdk.worker import asgi

ARGUMENT = "x" * 98  # 100 bytes as MessagePack
BATCH = 500
# By key of the constraint, and number of jobs: the commands of each step, those of a call together.
PLAIN_COSTS: dict[tuple[str | None, int], dict[str, float]] = {
    (None, BATCH): {"enqueue": 15, "claim": 541, "settle": 525},
    (None, 1): {"enqueue": 14, "claim": 33, "settle": 16},
    ("argument.host", BATCH): {"enqueue": 16, "claim": 539, "settle": 521},
    ("argument.host", 1): {"enqueue": 15, "claim": 31, "settle": 12},
}
# The most commands of a job behind a constraint with a weight, as a multiple of those without the weight.
MAX_FOR_WEIGHT = 1.15
NO_COST = {"info", "config|resetstat", "client|setinfo", "auth", "hello", "select"}


@pytest.fixture
async def world() -> AsyncIterator[StoreWorld]:
    """Use a server without other clients."""
    server = StoreServer()
    with started(server):
        client = StoreClient(server.url)
        async with StoreWorld.on(Shard.bound(client, Keys("costs"))) as one:
            yield one
        await client.close()


@pytest.fixture
def round_trips(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    counted = Counter[str]()
    converse = StorePool.exchange

    async def counting(self: StorePool, *given: Any, writes: bool) -> list[Any]:
        counted["all"] += 1
        return await converse(self, *given, writes=writes)

    monkeypatch.setattr(StorePool, "exchange", counting)
    return counted


async def commands_of(world: StoreWorld, act: Callable[[], Awaitable[object]]) -> Counter[str]:
    """Collect the commands that the store executes meanwhile, including those in scripts."""
    redis = admin_of(world.shard.client)
    await redis.config_resetstat()
    await act()
    found = await redis.info("commandstats")
    names = {name.removeprefix("cmdstat_"): stats["calls"] for name, stats in found.items()}
    return Counter({name: calls for name, calls in names.items() if name not in NO_COST})


def assert_at_most(what: str, found: float, bound: float) -> None:
    assert found <= bound, f"{what}: {found:g}, and at most {bound:g} until now"


@pytest.mark.parametrize("jobs", [BATCH, 1])
async def test_commands_and_round_trips_of_a_batch(
    world: StoreWorld, round_trips: Counter[str], jobs: int
) -> None:
    worker_id = await world.worker("work", max_jobs=1000)
    # The scripts are loaded, and the name has its lane.
    await through(world, worker_id, 1)
    all_bounds: dict[int, dict[str, float]] = {
        BATCH: {"enqueue": 0.024, "claim": 1.06, "settle": 2.02},
        1: {"enqueue": 11, "claim": 20, "settle": 9},
    }
    bounds = all_bounds[jobs]
    costs: dict[str, Counter[str]] = {}
    for step, act in steps(world, worker_id, jobs).items():
        before = round_trips["all"]
        costs[step] = await commands_of(world, act)
        assert_at_most(f"round trips of {step}", round_trips["all"] - before, 1)
        assert_at_most(f"script calls of {step}", costs[step]["evalsha"], 1)

    for step, cost in costs.items():
        assert_at_most(f"commands a job, {step} of {jobs}", cost.total() / jobs, bounds[step])


@pytest.mark.req("D19")
async def test_many_small_workers_share_the_calls_of_their_claims_and_results(
    world: StoreWorld, round_trips: Counter[str]
) -> None:
    """Fifty workers with two slots each."""
    workers = [await world.worker("work", max_jobs=2) for _ in range(50)]
    await through(world, workers[0], 1)
    await world.acceptance.enqueue([world.spec(argument=ARGUMENT) for _ in range(100)])
    reports: list[Successes] = []

    async def claim() -> None:
        wanted = [WantedClaim(worker, ["work"], 2) for worker in workers]
        claims = await world.claims.claim_each(world.epoch, wanted)
        for worker, one in zip(workers, claims, strict=True):
            assert isinstance(one, Claim)
            reports.append(Successes(worker, [(j.job_id, j.token, b"\xc0") for j in one.jobs], {}))

    async def settle() -> None:
        await world.settlements.settle_successes(reports)

    for step, act, bound in (("claim", claim, 2.7), ("settle", settle, 2.1)):
        before = round_trips["all"]
        cost = await commands_of(world, act)
        assert_at_most(f"round trips of {step}", round_trips["all"] - before, 1)
        assert_at_most(f"script calls of {step}", cost["evalsha"], 1)
        assert_at_most(f"commands a job, {step} of 50 workers", cost.total() / 100, bound)
    assert sum(len(report.ended) for report in reports) == 100


async def costs_of(
    world: StoreWorld, worker_id: str, jobs: int, *, has_keys: bool = False
) -> dict[str, Counter[str]]:
    """Return each step's commands."""
    return {
        step: await commands_of(world, act)
        for step, act in steps(world, worker_id, jobs, has_keys=has_keys).items()
    }


@pytest.mark.req("S7", "D9")
@pytest.mark.parametrize("jobs", [BATCH, 1])
async def test_jobs_without_keys_cost_the_same_beside_keys_events_and_definitions(
    world: StoreWorld, jobs: int
) -> None:
    worker_id = await world.worker("work", max_jobs=1000)
    for _ in range(2):
        await through(world, worker_id, jobs)
    before = await costs_of(world, worker_id, jobs)
    events = Events(world)
    await events.define(event_type="order.*", job={"name": "other"})
    await events.send("order.paid")
    await world.acceptance.enqueue([world.spec(name="other", unique=unique("k"))])
    assert await costs_of(world, worker_id, jobs) == before


@pytest.mark.req("S7")
@pytest.mark.parametrize("jobs", [BATCH, 1])
async def test_a_uniqueness_key_that_is_free_costs_no_command(world: StoreWorld, jobs: int) -> None:
    worker_id = await world.worker("work", max_jobs=1000)
    for has_keys in (False, True):
        await through(world, worker_id, jobs, has_keys=has_keys)
    without = await costs_of(world, worker_id, jobs)
    with_keys = await costs_of(world, worker_id, jobs, has_keys=True)
    assert with_keys == without


def steps(
    world: StoreWorld, worker_id: str, jobs: int, *, has_keys: bool = False
) -> dict[str, Callable[[], Awaitable[object]]]:
    claimed: list[tuple[str, str, bytes]] = []

    async def claim() -> None:
        claim = await world.claims.claim(world.epoch, worker_id, ["work"], jobs)
        claimed.extend((job.job_id, job.token, b"\xc0") for job in claim.jobs)  # type: ignore[union-attr]
        assert len(claimed) == jobs

    return {
        "enqueue": lambda: world.acceptance.enqueue(
            [
                world.spec(argument=ARGUMENT, unique=unique(new_id()) if has_keys else None)
                for _ in range(jobs)
            ]
        ),
        "claim": claim,
        "settle": lambda: world.settlements.settle_success(worker_id, claimed),
    }


async def through(world: StoreWorld, worker_id: str, jobs: int, *, has_keys: bool = False) -> None:
    for act in steps(world, worker_id, jobs, has_keys=has_keys).values():
        await act()


async def test_bytes_of_a_waiting_job(world: StoreWorld) -> None:
    redis = admin_of(world.shard.client)
    # With a power of two, the store's tables have exactly the size they need.
    count = 8192 - 512
    # The first jobs load the script.
    await world.acceptance.enqueue([world.spec(argument=ARGUMENT) for _ in range(512)])
    before = (await redis.info("memory"))["used_memory"]
    for _ in range(0, count, 512):
        await world.acceptance.enqueue([world.spec(argument=ARGUMENT) for _ in range(512)])
    after = (await redis.info("memory"))["used_memory"]
    # Redis takes more for the same. A few bytes of it are its own tables, which other tests fill.
    bound = 470 if "valkey_version" in await redis.info("server") else 538
    assert_at_most("bytes of a waiting job with 100 bytes of argument", (after - before) / count, bound)
    await redis.flushall()


async def test_requests_and_scripts_of_a_thousand_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = 1000
    requests = Counter[str]()
    serve, handle = endpoint.Endpoint.__call__, asgi.WorkerEndpoint.handle

    async def served(self: Any, *given: Any) -> None:
        requests["master"] += 1
        await serve(self, *given)

    async def handled(self: Any, *given: Any) -> None:
        requests["worker"] += 1
        await handle(self, *given)

    monkeypatch.setattr(endpoint.Endpoint, "__call__", served)
    monkeypatch.setattr(asgi.WorkerEndpoint, "handle", handled)
    server = StoreServer()
    with started(server):
        async with master_on(server.url, lease_ms=60_000) as (master, _):
            worker, ended, all_ended = (
                Worker(master.server.url, max_jobs=200),
                Counter[str](),
                asyncio.Event(),
            )

            @worker.handler("work")
            async def work(argument: Any) -> None:
                ended["all"] += 1
                if ended["all"] == jobs:
                    all_ended.set()

            async with worker.running(), Pusher(master.server.url) as pusher:
                redis = admin_of(master.shard.services.link.client)
                requests.clear()
                await redis.config_resetstat()
                await pusher.enqueue_many({"name": "work", "argument": ARGUMENT} for _ in range(jobs))
                async with asyncio.timeout(30):
                    await all_ended.wait()
                scripts = (await redis.info("commandstats"))["cmdstat_evalsha"]["calls"]
                # There are so few because each batch takes what has arrived meanwhile. On a busy machine, there are
                # even fewer.
                assert_at_most("requests to the master, 1,000 jobs", requests["master"], 30)
                assert_at_most("requests to the worker, 1,000 jobs", requests["worker"], 20)
                # About 60 on an idle machine. A busy one adds those triggered by the clock.
                assert_at_most("script calls, 1,000 jobs", scripts, 200)


async def test_round_trips_of_a_lone_job(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = 50
    sent: list[list[str]] = []
    replies = StoreClient._replies

    async def noted(self: StoreClient, calls: Any, replicas: int | None) -> list[Any]:
        sent.append([call.script.name for call in calls])
        return await replies(self, calls, replicas)

    monkeypatch.setattr(StoreClient, "_replies", noted)
    server = StoreServer()
    with started(server):
        async with master_on(server.url, lease_ms=60_000) as (master, _):
            worker = Worker(master.server.url, max_jobs=200)
            worker.handler("work")(_done)
            async with worker.running(), Pusher(master.server.url) as pusher:
                await pusher.result(await pusher.enqueue("work", ARGUMENT, keep_result=True), wait=30)
                sent.clear()
                for _ in range(jobs):
                    await pusher.result(await pusher.enqueue("work", ARGUMENT, keep_result=True), wait=30)
    trips = [names for names in sent if {"enqueue", "claim", "settle_success"} & {*names}]
    # Claims go with the write that makes them possible. The rest come from the dispatcher's clock, once a second.
    assert trips.count(["enqueue", "claim"]) >= 0.9 * jobs
    assert_at_most("round trips of a lone job, until it is settled", len(trips) / jobs, 2.3)


# By the number of workers: the commands and the round trips of an idle master in a second.
IDLE_COSTS: dict[int, tuple[float, float]] = {0: (35, 6), 1: (80, 8)}
IDLE_FOR_S = 8.0


@pytest.mark.req("S6")
@pytest.mark.parametrize("workers", IDLE_COSTS)
async def test_an_idle_master_asks_the_store_little(
    workers: int, round_trips: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One look at the shard, one heartbeat, and the renewal of the lock replace a question for each duty."""
    # A new leader checks the whole store, once.
    monkeypatch.setattr(repair, "BEGINS_AFTER_S", 3600.0)
    server = StoreServer()
    with started(server):
        # The times of a user's installation.
        times = {
            name: Settings.model_fields[name].default
            for name in ("lease_ms", "offer_ms", "heartbeat_interval_s", "worker_stale_s", "leader_ttl_s")
        }
        async with contextlib.AsyncExitStack() as stack:
            master, _ = await stack.enter_async_context(master_on(server.url, **times))
            for _ in range(workers):
                worker = Worker(master.server.url)
                worker.handler("work")(_done)
                await stack.enter_async_context(worker.running())
            duties = master.shard.duties
            assert duties
            is_settled = (lambda: duties.dispatcher.is_idle) if workers else (lambda: duties.look.is_quiet)
            await wait_until(is_settled, what="nothing happens")
            redis = admin_of(master.shard.services.link.client)
            await redis.config_resetstat()
            round_trips.clear()
            # The cost of a second shows only with time.
            await asyncio.sleep(IDLE_FOR_S)
            trips, found = round_trips["all"], await redis.info("commandstats")
            commands = sum(
                stats["calls"]
                for name, stats in found.items()
                if name.removeprefix("cmdstat_") not in NO_COST
            )
            most_commands, most_trips = IDLE_COSTS[workers]
            assert_at_most(f"commands a second with {workers} workers", commands / IDLE_FOR_S, most_commands)
            assert_at_most(f"round trips a second with {workers} workers", trips / IDLE_FOR_S, most_trips)


# For each quiet namespace of a process that has twenty: tasks, and in a second commands of its store, round trips,
# calls of the event loop, and calls of Python functions.
QUIET_COSTS = {
    "commands": 3.6,
    "round trips": 0.06,
    "calls of the loop": 0.7,
    "calls of functions": 42.0,
    "tasks": 18.0,
}
QUIET_NAMESPACES = 20


@pytest.mark.req("D29", "S6")
async def test_a_quiet_namespace_costs_its_process_and_its_store_little(
    round_trips: Counter[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Looks, heartbeats and renewals share round trips, and one timer asks the loops that have nothing to do."""
    monkeypatch.setattr(repair, "BEGINS_AFTER_S", 3600.0)
    calls = Counter[str]()
    run = asyncio.Handle._run

    def counted(self: asyncio.Handle) -> None:
        calls["all"] += 1
        run(self)

    def noted(_frame: object, event: str, _arg: object) -> None:
        functions["all"] += event == "call"

    functions = Counter[str]()
    server, other = StoreServer(), StoreServer()
    times = {
        name: Settings.model_fields[name].default
        for name in (
            "lease_ms",
            "offer_ms",
            "heartbeat_interval_s",
            "worker_stale_s",
            "leader_ttl_s",
            "store_timeout_s",
        )
    }
    found = Counter[str]()
    with started(server), started(other):
        async with installed(server, other, tmp_path, **times) as installation:
            master = installation.master
            redis = admin_of(master.shard.services.link.client)

            async def count(sign: int) -> None:
                """Add the costs of a while, or subtract them."""
                await redis.config_resetstat()
                round_trips.clear()
                calls.clear()
                functions.clear()
                sys.setprofile(noted)
                # The cost of a second shows only with time.
                await asyncio.sleep(IDLE_FOR_S)
                sys.setprofile(None)
                found["calls of functions"] += sign * functions["all"]
                found["calls of the loop"] += sign * calls["all"]
                found["round trips"] += sign * round_trips["all"]
                stats = await redis.info("commandstats")
                found["commands"] += sign * sum(
                    one["calls"]
                    for name, one in stats.items()
                    if name.removeprefix("cmdstat_") not in NO_COST
                )
                found["tasks"] += sign * round(IDLE_FOR_S * len(asyncio.all_tasks()))

            monkeypatch.setattr(asyncio.Handle, "_run", counted)
            names = [f"quiet-{number}" for number in range(QUIET_NAMESPACES)]
            duties, shared = master.shard.duties, master.store.looks
            assert duties
            await wait_until(lambda: duties.look.is_quiet, what="nothing happens")
            await count(-1)
            for name in names:
                await installation.put(name)

            def are_quiet() -> bool:
                shards = [one._open.shard for one in master.namespaces._served.values() if one._open]
                led = [shard.duties for shard in shards if shard.duties]
                # All but the default one share their looks: its pauses were quiet before there were others.
                return len(led) == QUIET_NAMESPACES and all(one.look in shared._due_s for one in led)

            await wait_until(are_quiet, timeout_s=60, what="nothing happens in any namespace")
            await count(+1)
    each = {what: count / IDLE_FOR_S / QUIET_NAMESPACES for what, count in found.items()}
    print({what: round(count, 3) for what, count in each.items()})
    for what, most in QUIET_COSTS.items():
        assert_at_most(f"{what} for a quiet namespace", each[what], most)


async def test_an_installation_without_targets_pays_nothing_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Masters learn of targets with the version of the settings, by one command for both."""
    rounds = Counter[str]()
    round_of = TargetDeliveries._round

    async def counted(self: TargetDeliveries) -> None:
        rounds["all"] += 1
        await round_of(self)

    load = TargetStore.load

    async def read(self: TargetStore) -> StoredTargets:
        rounds["reads"] += 1
        return await load(self)

    monkeypatch.setattr(TargetDeliveries, "_round", counted)
    monkeypatch.setattr(TargetStore, "load", read)
    server = StoreServer()
    with started(server):
        async with master_on(server.url, **PATIENT) as (master, api):
            job_id = await api.enqueue("work")
            link = master.shard.services.link
            assert await SettingsStore(link).versions() == (0, 0, 0)
            assert (rounds["all"], rounds["reads"]) == (0, 0)
            target = {"names": ["other"], "url": "http://127.0.0.1:1/"}
            assert (await api.call("PUT", "/api/targets/shop", target))[0] == 201
            await wait_until(lambda: rounds["all"], what="a round, once there is a target")
            assert (await api.call("DELETE", "/api/targets/shop"))[0] == 204
            assert await api.state(job_id) == "ready"


async def _done(argument: Any) -> None:
    pass


# --- constraints


async def limited_costs(world: StoreWorld, jobs: int, **fields: Any) -> dict[str, Counter[str]]:
    """Return each step's commands of jobs behind one constraint, which has room for all of them."""
    constraints = ConstrainedWorld(world)
    await constraints.limit(concurrency=100_000, rate=(100_000, 60_000), **fields)
    worker_id = await world.worker("work", max_jobs=1000)
    costs: dict[str, Counter[str]] = {}
    for _ in range(2):  # the first pass loads the scripts
        claimed: list[ClaimedJob] = []

        async def push() -> None:
            await constraints.enqueue_many([{"tokens": 3, "host": "x"}] * jobs)

        async def claim(claimed: list[ClaimedJob] = claimed) -> None:
            claimed += (await constraints.claim_once(worker_id, limit=jobs)).jobs

        async def settle(claimed: list[ClaimedJob] = claimed) -> None:
            await constraints.succeed(worker_id, *claimed)

        for step, act in {"enqueue": push, "claim": claim, "settle": settle}.items():
            costs[step] = await commands_of(world, act)
    await constraints.remove()
    return costs


@pytest.mark.req("D30")
@pytest.mark.parametrize("key", [None, "argument.host"])
async def test_a_limit_without_weight_costs_what_it_did_and_one_with_weight_hardly_more(
    world: StoreWorld, key: str | None
) -> None:
    for jobs in (BATCH, 1):
        plain = await limited_costs(world, jobs, key=key)
        weighted = await limited_costs(
            world, jobs, key=key, weight=Weight(parse_path("argument.tokens"), 1000, "tokens")
        )
        bounds = PLAIN_COSTS[key, jobs]
        for step, bound in bounds.items():
            assert_at_most(f"commands, {step} of {jobs} jobs behind a constraint", plain[step].total(), bound)
        all_plain, all_weighted = (
            sum(cost.total() for cost in costs.values()) for costs in (plain, weighted)
        )
        assert_at_most(f"commands of {jobs} weighted jobs", all_weighted, MAX_FOR_WEIGHT * all_plain)


@pytest.mark.req("D30")
async def test_a_limit_without_weight_is_stored_as_it_was(world: StoreWorld) -> None:
    constraints = ConstrainedWorld(world)
    one = await constraints.limit(concurrency=5)
    redis, k = admin_of(world.shard.client), world.shard.keys
    fields = {name.decode() for name in await redis.hkeys(k.limits(one.cid))}
    assert not fields & {"weight_default", "unit"}
    assert b"weight" not in await redis.hget(k.constraints, one.name)
    job_id = await constraints.enqueue(argument={"tokens": 3})
    assert b"weights" not in await redis.get(k.job(job_id))
