"""The engine of a Cluster moves the slot of a namespace to another node, by the steps of docs/store.md, while pushers
and workers go on."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import redis

from tests.support import real_time
from tests.support.namespaces import Installation, installed
from tests.support.server import StoreServer, started
from tests.support.topology import Cluster, StoreNode
from tests.support.waiting import wait_until
from worker_sdk import JobResult, Pusher, Worker

pytestmark = [pytest.mark.system, pytest.mark.req("D20"), pytest.mark.req("D29"), real_time.MASTER]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    rig = Cluster()
    with started(rig):
        yield rig


@pytest.fixture
async def installation(
    store_server: StoreServer, cluster: Cluster, tmp_path: Path
) -> AsyncIterator[Installation]:
    async with installed(store_server, cluster, tmp_path) as one:
        await one.put("shop", "b")
        await one.until_served("shop")
        yield one


def place(installation: Installation, cluster: Cluster) -> tuple[int, StoreNode, StoreNode]:
    """Return the slot of the namespace, the node that has it, and another one."""
    tag = f"{installation.master.settings.shard}-shop"
    slot = int(cluster.nodes[0].ask("CLUSTER KEYSLOT", f"{{{tag}}}"))
    source = cluster.owner(slot)
    return slot, source, next(node for node in cluster.primaries if node is not source)


class Traffic:
    """Jobs that are pushed all the time, by a pusher that repeats what was refused."""

    def __init__(self, pusher: Pusher) -> None:
        self._pusher = pusher
        self.is_over = False
        self.accepted: list[str] = []
        self.ran: list[int] = []

    async def push(self) -> None:
        while not self.is_over:
            number = len(self.accepted)
            self.accepted.append(await self._pusher.enqueue("work", number, keep_result=True))

    async def goes_on(self) -> None:
        before = len(self.accepted)
        await wait_until(lambda: len(self.accepted) > before + 10, what="pushes go on", timeout_s=60)

    async def check(self) -> None:
        """Check that every accepted job has run and succeeded."""
        for job_id in self.accepted:
            assert isinstance(await self._pusher.result(job_id, wait=30), JobResult)
        assert sorted(set(self.ran)) == list(range(len(self.accepted)))


@contextlib.asynccontextmanager
async def traffic(installation: Installation) -> AsyncIterator[Traffic]:
    url = f"{installation.url}/ns/shop"
    worker = Worker(url, max_jobs=8)

    @worker.handler("work")
    async def work(number: int) -> int:
        one.ran.append(number)
        return number

    async with worker.running(), Pusher(url) as pusher:
        one = Traffic(pusher)
        pushing = asyncio.create_task(one.push())
        try:
            await one.goes_on()
            yield one
        finally:
            one.is_over = True
            await asyncio.wait_for(pushing, 60)
        await one.check()


async def test_jobs_run_on_while_the_engine_moves_the_slot_in_one_piece(
    installation: Installation, cluster: Cluster
) -> None:
    slot, source, target = place(installation, cluster)
    async with traffic(installation) as running:
        try:
            source.ask("CLUSTER MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", cluster.id_of(target))
        except redis.ResponseError:
            pytest.skip("this store moves slots key by key only")

        def is_moved() -> bool:
            (told, *_) = source.ask("CLUSTER GETSLOTMIGRATIONS")
            return b"success" in told and cluster.owner(slot) is target

        await wait_until(is_moved, what="the slot has moved", timeout_s=60)
        await running.goes_on()
    assert len(running.ran) == len(running.accepted), "no job ran twice"


async def test_jobs_wait_and_run_on_when_the_slot_was_moved_key_by_key(
    installation: Installation, cluster: Cluster
) -> None:
    slot, source, target = place(installation, cluster)
    async with traffic(installation) as running:
        cluster.begin_move(slot, source, target)
        shop = installation.api("shop")

        async def is_stopped() -> bool:
            answer = await shop.http.post(
                "/api/jobs", json={"name": "other", "id": "00000000-0000-4000-8000-000000000001"}
            )
            return answer.status_code == 503 and "retry-after" in answer.headers

        await wait_until(is_stopped, what="calls are refused while the keys are on two nodes")
        while cluster.move_keys(slot, source, target, at_most=100):
            pass
        cluster.end_move(slot, source, target)
        assert cluster.owner(slot) is target
        await running.goes_on()
