"""CancelledError always propagates: a stopped task must stop, whatever the libraries below make of it."""

import asyncio
import random

from jqmaster.lifecycle import BackgroundLoops
from tests.support import real_time
from tests.support.store import StoreWorld

pytestmark = real_time.LOOPS


async def test_a_call_to_the_store_that_is_cancelled_at_any_moment_is_cancelled(world: StoreWorld) -> None:
    worker = await world.worker()
    rng = random.Random(7)

    async def call() -> None:
        await world.claims.claim(world.epoch, worker, ["work"], 5)
        await world.workers.all_with_time()
        await asyncio.sleep(600)

    for _ in range(300):
        task = asyncio.create_task(call())
        for _ in range(rng.randrange(1, 40)):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=10)
        assert done, "the cancellation was swallowed"


async def test_a_loop_stops_even_if_a_cancellation_is_swallowed_once() -> None:
    swallowed = 0

    async def loop() -> None:
        nonlocal swallowed
        while True:
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                if swallowed:
                    raise
                swallowed += 1

    loops = BackgroundLoops("test", is_vital=True)
    loops.spawn("stubborn", loop)
    await asyncio.sleep(0)
    await asyncio.wait_for(loops.stop(), 10)
    assert swallowed == 1
