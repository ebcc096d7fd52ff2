"""A slow link to the store: work goes on slowly, and nobody takes the leader for dead."""

import random

import pytest

from jqmaster.config import Settings
from tests.api.operations.test_masters import follower_of, roles
from tests.support import real_time
from tests.support.master import QUICK, master_on
from tests.support.proxy import StoreProxy
from tests.support.scripted_worker import worker_at
from tests.support.server import StoreServer

pytestmark = real_time.MASTER

DEFAULTS = {name: Settings.model_fields[name].default for name in QUICK if name != "port"}


@pytest.mark.req("D1", "M6")
@pytest.mark.timeout(120)
async def test_with_a_third_of_a_second_to_the_store_the_leader_stays_and_jobs_run_once(
    lone_server: StoreServer,
) -> None:
    """Run with the defaults for twice the life of the lock."""
    draw = random.Random(5)
    async with (
        StoreProxy.before(str(lone_server.socket)) as proxy,
        master_on(proxy.url, **DEFAULTS) as (first, _),
        follower_of(proxy.url, first, **DEFAULTS) as (second, api),
        worker_at(api) as worker,
    ):
        assert first.shard.leader.leadership
        epoch = first.shard.leader.leadership.number
        proxy.latency_s = lambda: draw.uniform(0.1, 0.5)
        clock = first.shared.clock
        began_s, done = clock.monotonic_s(), 0
        while clock.monotonic_s() < began_s + 2 * first.settings.leader_ttl_s:
            job_id = await api.enqueue("work", done)
            job = await worker.next_job(timeout_s=20)
            assert job["job_id"] == job_id
            await worker.end(job)
            done += 1
        assert done >= 2
        assert await roles(api) == {first.id: "leader", second.id: "sub_leader"}
        assert first.shard.leader.leadership
        assert first.shard.leader.leadership.number == epoch
        counts = await api.counts()
        assert (counts["succeeded"], sum(counts.values())) == (done, done)
        proxy.latency_s = lambda: 0.0
