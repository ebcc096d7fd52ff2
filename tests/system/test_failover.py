"""A master, a worker and a pusher keep working while Sentinels promote another server: planned, and after SIGKILL."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from jqmaster.domain.ids import new_id
from tests.support import long, real_time
from tests.support.master import Api, assert_sound
from tests.support.processes import MasterProcess, WorkerProcess, running
from tests.support.server import started
from tests.support.topology import Sentinels, StoreNode
from tests.support.waiting import wait_until
from tests.system.test_masters import DEFAULTS

pytestmark = [pytest.mark.system, pytest.mark.timeout(180), real_time.PROCESSES]

RESUMES_WITHIN_S = 5.0


class Load:
    """One pusher that repeats each job with the same ID until it is accepted, as the contract requires."""

    def __init__(self, api: Api, worker: WorkerProcess) -> None:
        self._api = api
        self._worker = worker
        self.accepted: dict[str, float] = {}

    @classmethod
    @contextlib.asynccontextmanager
    async def at(cls, api: Api, worker: WorkerProcess) -> AsyncIterator["Load"]:
        load = cls(api, worker)
        pushing = asyncio.create_task(load._push())
        try:
            yield load
        finally:
            pushing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await pushing

    async def _push(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            job_id = new_id()
            while job_id not in self.accepted:
                try:
                    status, answer = await self._api.call("POST", "/api/jobs", {"name": "echo", "id": job_id})
                except httpx.TransportError:
                    await asyncio.sleep(0.02)
                    continue
                if status in (200, 201):
                    self.accepted[job_id] = loop.time()
                else:
                    # Accept nothing but what a pusher repeats by itself.
                    assert status == 503, answer
                    await asyncio.sleep(0.05)
            await asyncio.sleep(0.02)

    def started(self) -> dict[str, float]:
        """Return when each job first started, by the monotonic clock that the loop also uses."""
        first: dict[str, float] = {}
        for what, job_id, _, at_s in self._worker.events():
            if what == "start":
                first[job_id] = min(at_s, first.get(job_id, at_s))
        return first

    async def resumed_after(self, at_s: float) -> tuple[float, float]:
        """Return the seconds until a job was accepted, and until a job accepted since then started."""

        def times() -> tuple[float, float] | None:
            later = {job_id: s for job_id, s in self.accepted.items() if s > at_s}
            begun = [s for job_id, s in self.started().items() if job_id in later]
            return (min(later.values()) - at_s, min(begun) - at_s) if begun else None

        times_s: tuple[float, float] = await wait_until(times, timeout_s=30)
        return times_s

    async def all_succeeded(self) -> None:
        succeeded: set[str] = set()

        async def missing() -> list[str]:
            found = [(one, await self._state(one)) for one in self.accepted if one not in succeeded]
            succeeded.update(job_id for job_id, state in found if state == "succeeded")
            return [f"{job_id} {state}" for job_id, state in found if state != "succeeded"]

        async def none_missing() -> bool:
            return not await missing()

        try:
            await wait_until(none_missing, timeout_s=40)
        except AssertionError as error:
            raise AssertionError(f"accepted and not done: {await missing()}") from error

    async def _state(self, job_id: str) -> Any:
        status, job = await self._api.call("GET", f"/api/jobs/{job_id}")
        return job["state"] if status == 200 else status


async def promotion_s(sentinels: Sentinels, before: StoreNode) -> float:
    """Return when a server other than `before` was first seen as a primary."""

    def promoted() -> bool:
        return any(node.is_primary for node in sentinels.nodes if node is not before)

    while not await asyncio.to_thread(promoted):
        await asyncio.sleep(0.01)
    return asyncio.get_running_loop().time()


@pytest.mark.req("D20", "M1", "M3")
@pytest.mark.parametrize("how", ["killed", *long.left_out("planned")])
async def test_after_a_failover_pushes_and_jobs_go_on_and_nothing_accepted_is_lost(
    tmp_path: Path, how: str
) -> None:
    # With two replicas, one remains to confirm writes after the other is promoted.
    sentinels = Sentinels(replicas=2)
    with started(sentinels):
        shard = f"f{uuid.uuid4().hex[:10]}"
        settings = {**DEFAULTS, "durability": "fsync+quorum", "shard": shard}
        master = MasterProcess(tmp_path, sentinels.url, **settings)
        worker = WorkerProcess(tmp_path, master.url)
        with running(master, worker):
            api = Api(master.url)
            async with contextlib.aclosing(api.http):
                async with Load.at(api, worker) as load:
                    await wait_until(lambda: len(load.started()) > 50, what="the work is under way")
                    before = sentinels.primary
                    if how == "killed":
                        before.kill()
                    else:
                        try:
                            await asyncio.to_thread(sentinels.fail_over, is_coordinated=True)
                        except redis.ResponseError:
                            pytest.skip("this store's Sentinels know no coordinated failover")
                    at_s = await asyncio.wait_for(promotion_s(sentinels, before), 30)
                    accepted_s, started_s = await load.resumed_after(at_s)
                    assert accepted_s < RESUMES_WITHIN_S
                    assert started_s < RESUMES_WITHIN_S
                await load.all_succeeded()
        await assert_sound(sentinels.url, shard)
