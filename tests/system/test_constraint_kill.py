"""Masters and workers are killed twenty times under a constrained load, and every limit always holds."""

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from jqmaster.domain.constraints.constraint import gate_id
from jqmaster.domain.matching.key_value import key_value
from jqmaster.store.constraints.constraints import ConstraintStore
from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.shard import Shard
from tests.support import long, real_time
from tests.support.admin import admin_of
from tests.support.master import Api, assert_sound
from tests.support.processes import MasterProcess, Process, WorkerProcess, running
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from worker_sdk import Pusher

pytestmark = [pytest.mark.system, pytest.mark.timeout(240), real_time.PROCESSES]

JOBS, HOSTS, KILLS = long.size(500, 1_000), 8, long.size(8, 20)
PER_HOST, IN_ALL, STARTS, PERIOD_S = 2, 10, 30, 1.0
NAPS = {"field": "name", "op": "eq", "value": "nap"}
LIMITS: dict[str, dict[str, Any]] = {
    "hosts": {"matcher": NAPS, "key": "headers.host", "concurrency": PER_HOST},
    "all": {"matcher": NAPS, "concurrency": IN_ALL},
    "pace": {"matcher": NAPS, "rate": {"limit": STARTS, "period_s": PERIOD_S}},
}
# One instant: how many slots each gate holds, and the starts within the period.
LOOK = """
local slots, starts = {}, {}
for _, gate in ipairs(ARGV) do slots[#slots + 1] = redis.call('HLEN', KEYS[1] .. gate) end
for _, key in ipairs(redis.call('KEYS', KEYS[2] .. '*')) do
  for _, part in ipairs(redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')) do starts[#starts + 1] = part end
end
return {slots, starts}
"""


class Watch:
    """Reads slots and starts in the store as often as possible."""

    def __init__(self, client: StoreClient, limits: dict[str, int]) -> None:
        self._client = client
        self._keys = Keys("jq")
        self._limits = limits
        self.broken: list[str] = []
        self.looks = 0
        self.is_over = False
        self.most: dict[str, int] = defaultdict(int)
        self.starts: dict[bytes, int] = {}

    async def look_on(self) -> None:
        k, redis, seen_before = self._keys, admin_of(self._client), set[bytes]()
        while not self.is_over:
            slots, flat = await redis.eval(LOOK, 2, k.slots_prefix, k.starts_prefix, *self._limits)
            self.looks += 1
            for (gate, limit), held in zip(self._limits.items(), slots, strict=True):
                self.most[gate] = max(self.most[gate], held)
                if held > limit:
                    self.broken.append(f"{held} slots at {gate} of {limit}")
            present = dict(zip(flat[::2], map(int, flat[1::2]), strict=True))
            newest_ms = max(present.values(), default=0)
            for token in seen_before - present.keys():
                # The start disappeared before its period ended: a returned offer does not count as a start.
                if self.starts[token] + PERIOD_S * 1000 > newest_ms:
                    del self.starts[token]
            self.starts.update(present)
            seen_before = set(present)
            await asyncio.sleep(0.005)

    def most_starts(self) -> int:
        """Return the largest number of starts in any window of the period."""
        instants = sorted(self.starts.values())
        first = most = 0
        for n, at_ms in enumerate(instants):
            while at_ms - instants[first] > PERIOD_S * 1000:
                first += 1
            most = max(most, n - first + 1)
        return most


class Workers:
    """Two workers. Handlers may run only during each worker's life."""

    def __init__(self, directory: Path, url: str) -> None:
        self.processes = [WorkerProcess(directory, url, number=n, max_jobs=20) for n in (1, 2)]
        self._kills: dict[int, list[float]] = defaultdict(list)

    def kill(self, index: int) -> None:
        self.processes[index].kill()
        self._kills[index].append(time.monotonic())

    def started(self) -> int:
        return sum(event[0] == "start" for worker in self.processes for event in worker.events())

    async def go_on(self, count: int) -> None:
        """Return when `count` more handlers have begun."""
        wanted = self.started() + count
        await wait_until(lambda: self.started() >= wanted, timeout_s=30, what="work goes on")

    def handlers(self) -> Iterator[tuple[str, float, float]]:
        """Yield (job ID, begin, end) of each handler run. Without an end, the run ended when its process died."""
        for index, worker in enumerate(self.processes):
            open_runs: dict[tuple[str, int], float] = {}
            for what, job_id, attempt, at_s in worker.events():
                if what == "start":
                    open_runs[job_id, attempt] = at_s
                else:
                    yield job_id, open_runs.pop((job_id, attempt)), at_s
            for (job_id, _), at_s in open_runs.items():
                killed_s = next((kill_s for kill_s in self._kills[index] if kill_s > at_s), None)
                assert killed_s, f"job {job_id} began and neither it nor its worker ended"
                yield job_id, at_s, killed_s


def most_at_once(runs: list[tuple[float, float]]) -> int:
    """Ends sort before beginnings of the same instant."""
    events = sorted([(begin, 1) for begin, _ in runs] + [(end, -1) for _, end in runs])
    now = most = 0
    for _, step in events:
        now += step
        most = max(most, now)
    return most


@pytest.fixture
async def store() -> AsyncIterator[tuple[StoreServer, StoreClient]]:
    """A server that outlives everything that is killed, and can be observed throughout."""
    server = StoreServer()
    server.start()
    client = StoreClient(server.url, connections=2)
    try:
        yield server, client
    finally:
        await client.close()
        server.stop()


@pytest.mark.sized
@pytest.mark.req("J13", "M1", "M3")
async def test_limits_hold_while_masters_and_workers_are_killed(
    tmp_path: Path, store: tuple[StoreServer, StoreClient]
) -> None:
    server, client = store
    # Workers die often enough for a job to exceed the usual limit of losses.
    master = MasterProcess(tmp_path, redis_url=server.url, retention_succeeded_s=3600, max_losses=20)
    workers = Workers(tmp_path, master.url)
    rng = random.Random(13)
    host_of: dict[str, str] = {}
    with running(master, *workers.processes):
        api = Api(master.url)
        cids = {}
        for name, body in LIMITS.items():
            status, made = await api.call("PUT", f"/api/constraints/{name}", body)
            assert status == 201, made
            cids[name] = await cid_of(client, name)
        hosts = [f"host{n}" for n in range(HOSTS)]
        limits = {gate_id(cids["hosts"], key_value(host)): PER_HOST for host in hosts}
        limits[gate_id(cids["all"], None)] = IN_ALL
        watch = Watch(client, limits)
        watching = asyncio.create_task(watch.look_on())
        try:
            async with Pusher(master.url, max_wait_s=60) as pusher:
                for start in range(0, JOBS, 500):
                    chunk = [rng.choice(hosts) for _ in range(start, start + 500)]
                    ids = await pusher.enqueue_many(
                        {"name": "nap", "argument": rng.uniform(0.02, 0.15), "headers": {"host": host}}
                        for host in chunk
                    )
                    host_of.update(zip(ids, chunk, strict=True))
            for n in range(KILLS):
                await workers.go_on(rng.randint(3, 10))
                if n % 2 == 0:
                    master.kill()
                    await asyncio.to_thread(master.start)
                else:
                    index = rng.randrange(2)
                    workers.kill(index)
                    victim: Process = workers.processes[index]
                    await asyncio.to_thread(victim.start)
                assert not watching.done(), watching.exception()
            # The rest may run as fast as the slots allow.
            status, answer = await api.call("DELETE", "/api/constraints/pace")
            assert status == 204, answer

            async def over() -> bool:
                counts = await api.counts()
                return counts["succeeded"] + counts["failed"] + counts["canceled"] + counts["skipped"] == JOBS

            await wait_until(over, timeout_s=60, what="every job ends")
            counts = await api.counts()
        finally:
            # Do not cancel it: the client may be in the middle of a reply, and the wait would not end if the
            # cancellation was lost.
            watch.is_over = True
            await watching
            await api.http.aclose()
    assert counts["succeeded"] == JOBS
    assert watch.broken == []
    assert watch.looks > 300
    # The load did reach its limits, so they were what held it.
    assert max(watch.most.values()) == IN_ALL or PER_HOST in watch.most.values()
    assert watch.most_starts() <= STARTS
    runs: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for job_id, begin, end in workers.handlers():
        runs[host_of[job_id]].append((begin, end))
    assert {host: most_at_once(runs[host]) for host in hosts if most_at_once(runs[host]) > PER_HOST} == {}
    assert most_at_once([run for host in hosts for run in runs[host]]) <= IN_ALL
    k = Keys("jq")
    assert [key async for key in admin_of(client).scan_iter(match=f"{k.slots_prefix}*")] == []
    await assert_sound(server.url, "jq")


async def cid_of(client: StoreClient, name: str) -> str:
    """Return the stored cid of a constraint."""
    found = (await ConstraintStore(Shard.bound(client, Keys("jq"))).load()).named(name)
    assert found
    return found.constraint.cid
