"""Every fsync takes long: an answer waits for it, and a kill in between loses nothing."""

import asyncio
import contextlib
import time
from typing import Any

import httpx
import pytest

from jqmaster.domain.ids import new_id
from tests.support import real_time
from tests.support.master import master_on
from tests.support.server import StoreServer
from tests.support.strace import faulty_fsync
from tests.support.waiting import wait_until

pytestmark = real_time.MASTER

FSYNC_S = 0.5
# The slow disk must not end a leadership.
SLOW: dict[str, Any] = {"leader_ttl_s": 30.0, "store_timeout_s": 20}


@pytest.mark.req("M1")
@pytest.mark.timeout(120)
async def test_an_answer_waits_for_a_slow_disk_and_what_was_accepted_outlives_a_kill(
    store: StoreServer,
) -> None:
    assert store.process
    async with master_on(store.url, **SLOW) as (_, api):
        accepted: list[str] = []
        took_s: list[float] = []

        async def push() -> None:
            job_id, began_s = new_id(), time.monotonic()
            status, _ = await api.call("POST", "/api/jobs", {"name": "work", "id": job_id, "argument": 1})
            if status == 201:
                accepted.append(job_id)
                took_s.append(time.monotonic() - began_s)
            else:
                assert status == 503

        async def keep_pushing() -> None:
            while store.process and store.process.poll() is None:
                await push()

        with faulty_fsync(store.process.pid, f"delay_enter={int(FSYNC_S * 1e6)}"):
            pushing = [asyncio.create_task(keep_pushing()) for _ in range(5)]
            await wait_until(lambda: len(accepted) >= 10, timeout_s=60, what="jobs are accepted")
            await asyncio.to_thread(store.kill)
            await asyncio.gather(*pushing)
        assert min(took_s) >= FSYNC_S, "accepted before it was on the disk"
        await asyncio.to_thread(store.start)

        async def is_ready() -> bool:
            with contextlib.suppress(httpx.HTTPError):
                return (await api.http.get("/readyz")).status_code == 200
            return False

        await wait_until(is_ready, timeout_s=30)
        for job_id in accepted:
            assert await api.state(job_id) == "ready"
