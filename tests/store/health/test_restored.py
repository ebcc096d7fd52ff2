"""A store was restored from an old backup: whatever it gave out since is neither given out again nor believed."""

import shutil

import pytest

from jqmaster.domain.jobs.job import JobState
from jqmaster.errors import StaleEpochError
from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.shard import Shard
from tests.support.server import StoreServer
from tests.support.store import LEASE_MS, StoreWorld


@pytest.mark.req("M1", "D1")
async def test_after_a_restore_epochs_and_fences_go_on_and_tokens_that_it_forgot_are_stale() -> None:
    server = StoreServer()
    server.start()
    client = StoreClient(server.url, connections=4)
    try:
        async with StoreWorld.on(Shard.bound(client, Keys("old"))) as world:
            early = await world.enqueue()
            worker = await world.worker()
            (kept,) = await world.claim(worker)
            server.kill()
            backup = server.directory / "backup"
            shutil.copytree(server.directory / "appendonlydir", backup)
            server.start()
            await client.reset()

            world.pass_ms(1_000)
            await world.reelect()
            since = await world.enqueue()
            (forgotten,) = await world.claim(worker)
            assert await world.settlements.settle_success(worker, [(early, kept.token, b"")]) == [True]
            newest = await world.leadership.newest_number()
            late_epoch = world.epoch

            server.kill()
            shutil.rmtree(server.directory / "appendonlydir")
            shutil.copytree(backup, server.directory / "appendonlydir")
            server.start()
            await client.reset()

            world.pass_ms(1_000)
            # The leader of the lost time may do nothing.
            with pytest.raises(StaleEpochError):
                await world.due.promote(late_epoch, JobState.SCHEDULED)
            # Its lock was in the backup and has expired since.
            await world.redis.delete(world.shard.keys.leader)
            leadership = await world.leadership.elect("master-2", "nonce2", ttl_ms=600_000)
            assert leadership
            world.epoch = leadership.epoch
            assert await world.leadership.newest_number() > newest
            # A result for an unknown job ends nothing; a job that the store knows as running ends once, by the same
            # token.
            assert await world.settlements.settle_success(worker, [(since, forgotten.token, b"")]) == [False]
            assert await world.settlements.settle_success(worker, [(early, kept.token, b"")]) == [True]
            assert await world.settlements.settle_success(worker, [(early, kept.token, b"")]) == [True]
            assert (await world.get(early)).attempt == 1
            again = await world.enqueue(id=since)
            (claimed,) = await world.claim(worker)
            assert (claimed.job_id, claimed.fence > forgotten.fence) == (again, True)
            assert claimed.token != forgotten.token
            assert await world.settlements.settle_success(worker, [(since, forgotten.token, b"")]) == [False]
            world.pass_ms(LEASE_MS)
    finally:
        await client.close()
        server.stop()
