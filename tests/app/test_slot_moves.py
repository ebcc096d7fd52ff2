"""The engine of a Cluster moves the slot of a namespace to another node, by a request or by the steps of docs/store.md,
while pushers and workers go on."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from tests.support import real_time
from tests.support.master import master_on
from tests.support.namespaces import Installation, installed
from tests.support.server import StoreServer, is_cluster_wanted, started
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


async def slot_of(installation: Installation, name: str = "shop") -> Any:
    status, found = await installation.api().call("GET", f"/api/namespaces/{name}/slot")
    assert status == 200, found
    return found


async def moving(installation: Installation, target: StoreNode, **fields: Any) -> tuple[int, Any]:
    """Request the move of the slot of `shop` to a node."""
    return await installation.api().call(
        "POST", "/api/namespaces/shop/slot/move", {"node": target.endpoint, **fields}
    )


async def until(installation: Installation, state: str) -> Any:
    async def is_so() -> Any:
        found = await slot_of(installation)
        return found if found["move"]["state"] == state else None

    return await wait_until(is_so, what=f"the move is {state}", timeout_s=60)


async def skip_unless_it_moves_slots(installation: Installation) -> None:
    if fault := (await slot_of(installation))["fault"]:
        assert "Valkey 9" in fault
        pytest.skip("this store moves slots key by key only")


async def test_jobs_run_on_while_the_slot_moves_in_one_piece(
    installation: Installation, cluster: Cluster
) -> None:
    slot, source, target = place(installation, cluster)
    await skip_unless_it_moves_slots(installation)
    before = await slot_of(installation)
    assert (before["slot"], before["node"], before["move"]) == (slot, source.endpoint, None)
    assert {one["address"] for one in before["nodes"]} == {one.endpoint for one in cluster.primaries}
    async with traffic(installation) as running:
        status, plan = await moving(installation, target, dry_run=True)
        assert (status, plan["source"], plan["target"]) == (200, source.endpoint, target.endpoint), plan
        assert min(plan["keys"], plan["bytes"]) > 0
        assert await slot_of(installation) == {**before, "nodes": ANY}, "a dry run changes nothing"
        status, answer = await moving(installation, target)
        assert status == 202, answer
        assert answer["move"]["target"] == target.endpoint
        after = await until(installation, "done")
        assert (after["node"], cluster.owner(slot)) == (target.endpoint, target)
        assert after["move"]["ended_at"] is not None
        await running.goes_on()
    assert len(running.ran) == len(running.accepted), "no job ran twice"
    status, refused = await moving(installation, target)
    assert (status, refused["errors"][0]["loc"]) == (422, ["node"])
    _, audit = await installation.api().call("GET", "/api/audit?target=shop")
    (entry,) = (one for one in audit["entries"] if one["action"] == "namespace.move_slot")
    assert entry["before"] == {"node": source.endpoint}
    assert entry["after"] == {"node": target.endpoint, "slot": slot}


async def test_a_move_that_is_aborted_leaves_the_slot_where_it_was(
    installation: Installation, cluster: Cluster
) -> None:
    slot, source, target = place(installation, cluster)
    await skip_unless_it_moves_slots(installation)
    source.ask("DEBUG", "SLOTMIGRATION", "PREVENT-PAUSE", 1)
    api = installation.api()
    async with traffic(installation) as running:
        assert (await moving(installation, target))[0] == 202
        under_way = await until(installation, "moving")
        assert (under_way["node"], under_way["move"]["ended_at"]) == (source.endpoint, None)
        status, refused = await moving(installation, target)
        assert (status, refused["code"]) == (409, "move_under_way")
        await running.goes_on()
        # The engine can cancel only all moves away from a node, so those of others must not be there.
        other = next(one for one in (slot - 1, slot + 1) if cluster.owner(one) is source)
        source.ask("CLUSTER MIGRATESLOTS", "SLOTSRANGE", other, other, "NODE", cluster.id_of(target))
        status, refused = await api.call("DELETE", "/api/namespaces/shop/slot/move")
        assert (status, refused["code"]) == (409, "move_refused")
        source.ask("CLUSTER CANCELSLOTMIGRATIONS")
        await until(installation, "aborted")
        assert (await moving(installation, target))[0] == 202
        status, answer = await api.call("DELETE", "/api/namespaces/shop/slot/move")
        assert status == 202, answer
        ended = await until(installation, "aborted")
        assert (ended["node"], cluster.owner(slot)) == (source.endpoint, source)
        await running.goes_on()
    status, refused = await api.call("DELETE", "/api/namespaces/shop/slot/move")
    assert (status, refused["code"]) == (409, "not_moving")


async def test_a_move_whose_target_dies_fails_and_the_slot_is_served_on(
    installation: Installation, cluster: Cluster
) -> None:
    slot, source, target = place(installation, cluster)
    await skip_unless_it_moves_slots(installation)
    source.ask("DEBUG", "SLOTMIGRATION", "PREVENT-PAUSE", 1)
    async with traffic(installation) as running:
        assert (await moving(installation, target))[0] == 202
        target.kill()
        failed = await until(installation, "failed")
        assert failed["move"]["reason"]
        assert failed["node"] == source.endpoint
        # It is known by its ID now.
        assert failed["move"]["target"] != target.endpoint
        await running.goes_on()
    assert cluster.owner(slot) is source


async def test_a_move_goes_on_without_the_master_that_requested_it(cluster: Cluster, tmp_path: Path) -> None:
    path, shard = "/api/namespaces/default/slot", f"m{uuid.uuid4().hex[:10]}"
    async with master_on(cluster.url, shard=shard, data_dir=tmp_path) as (_, api):
        before = (await api.call("GET", path))[1]
        if before["fault"]:
            pytest.skip("this store moves slots key by key only")
        for node in cluster.nodes:
            node.ask("DEBUG", "SLOTMIGRATION", "PREVENT-PAUSE", 1)
        target = next(one["address"] for one in before["nodes"] if not one["has_slot"])
        status, answer = await api.call("POST", f"{path}/move", {"node": target})
        assert status == 202, answer
    async with master_on(cluster.url, shard=shard, data_dir=tmp_path) as (_, api):
        assert (await api.call("GET", path))[1]["move"]["state"] == "moving"
        for node in cluster.nodes:
            node.ask("DEBUG", "SLOTMIGRATION", "PREVENT-PAUSE", 0)

        async def is_there() -> bool:
            found = (await api.call("GET", path))[1]
            return bool((found["move"]["state"], found["node"]) == ("done", target))

        await wait_until(is_there, what="the slot has arrived")


async def test_a_slot_that_cannot_be_moved_says_why(installation: Installation, cluster: Cluster) -> None:
    _, source, target = place(installation, cluster)
    await skip_unless_it_moves_slots(installation)
    api = installation.api()
    for node in ("127.0.0.1:1", "x" * 40):
        status, refused = await api.call("POST", "/api/namespaces/shop/slot/move", {"node": node})
        assert (status, refused["errors"][0]["loc"]) == (422, ["node"])
        assert target.endpoint in refused["errors"][0]["msg"]
    assert (await moving(installation, source, dry_run=True))[0] == 422
    target.ask("CONFIG SET", "maxmemory", 100 << 20, "maxmemory-policy", "allkeys-lru")
    status, refused = await moving(installation, target, dry_run=True)
    assert (status, refused["code"]) == (409, "move_refused")
    assert "noeviction" in refused["detail"]
    target.ask("CONFIG SET", "maxmemory", 1 << 20, "maxmemory-policy", "noeviction")
    status, refused = await moving(installation, target)
    assert (status, refused["code"]) == (409, "move_refused")
    assert "memory" in refused["detail"]
    assert (await slot_of(installation))["move"] is None
    # Unless the tests run on a Cluster, the store of the default namespace is a single server.
    if not is_cluster_wanted():
        for method, part, body in (
            ("GET", "", None),
            ("POST", "/move", {"node": "x"}),
            ("DELETE", "/move", None),
        ):
            status, refused = await api.call(method, f"/api/namespaces/default/slot{part}", body)
            assert (status, refused["code"]) == (409, "not_on_cluster")
    status, refused = await api.call("GET", "/api/namespaces/nothing/slot")
    assert (status, refused["code"]) == (404, "unknown_namespace")


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
