"""Measure what the leader's hourly check of the whole store costs while many jobs wait.

    python -m benchmarks.repairing [--jobs 1000000]

Half of the jobs are ready, and half are scheduled. They have 200 names. The program prints the CPU seconds of the
master and of the store for one round in which nothing has to be repaired. It leaves out the pauses between the steps,
because these cost nothing.
"""

import argparse
import asyncio
import statistics
import time
import uuid

from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import JobSpec
from jqmaster.store.health.repair import Repair
from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.shard import Shard
from tests.support.server import StoreServer, started
from tests.support.store import TIMES, StoreWorld

BULK = 5_000


async def fill(world: StoreWorld, count: int) -> None:
    for start in range(0, count, BULK):
        numbers = range(start, min(count, start + BULK))
        await world.acceptance.enqueue(
            [
                JobSpec(
                    id=new_id(),
                    name=f"work-{n % 200}",
                    argument=b"\x81\xa1n\xcd\x00\x01",
                    delay_ms=86_400_000 * (n % 2),
                )
                for n in numbers
            ]
        )


async def store_cpu_s(client: StoreClient) -> float:
    info = await client.redis.info("cpu")
    return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])


async def measure(url: str, count: int) -> None:
    client = StoreClient(url, connections=4)
    world = StoreWorld(Shard.bound(client, Keys(f"b{uuid.uuid4().hex[:8]}")), has_store_time=True)
    leadership = await world.leadership.elect("master-1", "nonce", ttl_ms=86_400_000)
    assert leadership
    began_s = time.perf_counter()
    await fill(world, count)
    print(f"{count:,} jobs enqueued in {time.perf_counter() - began_s:.0f} s")
    repair = Repair(world.shard, leadership.epoch, who="benchmark", times=TIMES)
    store_s, master_s, steps_ms, repaired = await store_cpu_s(client), time.process_time(), [], 0
    step_began_s = time.perf_counter()
    async for step in repair.steps():
        repaired += len(step.repaired)
        steps_ms.append((time.perf_counter() - step_began_s) * 1000)
        step_began_s = time.perf_counter()
    master_s, store_s = time.process_time() - master_s, await store_cpu_s(client) - store_s
    print(f"one round: {len(steps_ms):,} steps, {repaired} repaired")
    print(f"CPU: master {master_s:.1f} s, store {store_s:.1f} s")
    print(f"a step: middle {statistics.median(steps_ms):.1f} ms, longest {max(steps_ms):.1f} ms")
    await client.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=1_000_000)
    given = parser.parse_args()
    server = StoreServer()
    with started(server):
        asyncio.run(measure(server.url, given.jobs))


if __name__ == "__main__":
    main()
