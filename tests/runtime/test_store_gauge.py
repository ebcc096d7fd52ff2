"""A store that fills up, or begins to evict, takes no new jobs; everything else goes on."""

from collections.abc import AsyncIterator

import pytest

from jqmaster.clock import SystemClock
from jqmaster.errors import StoreUnavailableError
from jqmaster.runtime.store_gauge import StoreGauge
from jqmaster.store.client import StoreClient
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

MIB = 1024 * 1024


@pytest.fixture
async def gauged() -> AsyncIterator[tuple[StoreClient, StoreGauge]]:
    """A store of its own, since its limits are changed."""
    server = StoreServer()
    server.start()
    client = StoreClient(server.url, connections=4)
    gauge = StoreGauge(client, SystemClock())
    await gauge.start()
    yield client, gauge
    await gauge.stop()
    await client.close()
    server.stop()


@pytest.mark.row(66)
async def test_above_eighty_percent_new_jobs_are_refused_until_there_is_room(
    gauged: tuple[StoreClient, StoreGauge],
) -> None:
    client, gauge = gauged
    gauge.admit()
    used = (await client.redis.info("memory"))["used_memory"]
    await client.redis.config_set("maxmemory", used + 20 * MIB)
    # Allocated there, not sent: what is on its way counts as used too.
    await client.redis.setrange("ballast", int((used + 20 * MIB) * 0.85 - used), "x")
    await wait_until(lambda: gauge.fault, what="the gauge sees it")
    with pytest.raises(StoreUnavailableError) as refused:
        gauge.admit()
    assert refused.value.code == "store_full"
    assert refused.value.retry_after_s
    await client.redis.delete("ballast")
    await wait_until(lambda: gauge.fault is None, what="there is room again")
    gauge.admit()


async def test_a_policy_that_evicts_is_noticed_while_it_runs(gauged: tuple[StoreClient, StoreGauge]) -> None:
    client, gauge = gauged
    await client.redis.config_set("maxmemory", 500 * MIB)
    await client.redis.config_set("maxmemory-policy", "allkeys-lru")
    await wait_until(lambda: gauge.fault, what="the gauge sees it")
    with pytest.raises(StoreUnavailableError, match="allkeys-lru"):
        gauge.admit()
    await client.redis.config_set("maxmemory-policy", "noeviction")
    await wait_until(lambda: gauge.fault is None, what="it is put right")
