"""Many namespaces in one process: all are served, and outlive a leader's death and a restart of the store."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from jqmaster.domain.ids import new_id
from jqmaster.domain.namespaces.namespace import Namespace
from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.shard import Shard
from jqmaster.store.namespaces.namespaces import NamespaceStore
from tests.support import long, real_time
from tests.support.master import Api
from tests.support.processes import MasterProcess, running
from tests.support.server import StoreServer, started
from tests.support.waiting import wait_until

NAMESPACES = long.size(60, 1_000)
# A master whose event loop stands still for longer than this may lose its locks.
LONGEST_PAUSE_S = 4.0
# The slowest machine that this must bear shares two cores with other tests.
WITHIN_S = long.size(60, 240)

pytestmark = [
    pytest.mark.system,
    pytest.mark.sized,
    pytest.mark.timeout(4 * WITHIN_S + 60),
    pytest.mark.req("D29", "M1"),
    real_time.PROCESSES,
]


class Namespaces:
    """The namespaces `idle-0`, `idle-1` and so on, as the store has them."""

    def __init__(self, client: StoreClient, shard: str) -> None:
        self.client = client
        self._shard = shard
        self.names = [f"idle-{number}" for number in range(NAMESPACES)]

    async def create(self) -> None:
        store = NamespaceStore(Shard(self.client, Keys(self._shard)))
        for name in self.names:
            await store.put(None, Namespace(name, name), b"", max_namespaces=1_000)

    async def leaders(self) -> list[str]:
        """Return the ID of each namespace's leader; empty: nobody leads it."""
        found = await self.client.pipeline([("GET", Keys(name).leader) for name in self.names])
        return [holder.decode().rpartition(":")[2] if holder else "" for holder in found]

    async def epochs(self) -> list[int]:
        found = await self.client.pipeline([("GET", Keys(name).epoch) for name in self.names])
        return [int(epoch.split(b":")[0]) if epoch else 0 for epoch in found]

    async def all_led(self, *, without: str = "", since: list[int] | None = None) -> None:
        """Wait until each has a leader other than `without`, with a newer epoch than `since`."""

        async def are_led() -> bool:
            leaders, epochs = await self.leaders(), await self.epochs()
            newer = [now > then for now, then in zip(epochs, since, strict=True)] if since else [True]
            return all(leaders) and without not in leaders and all(newer)

        await wait_until(are_led, timeout_s=WITHIN_S, what="every namespace is led")


@pytest.fixture
def own_server() -> Iterator[StoreServer]:
    server = StoreServer()
    with started(server):
        yield server


@pytest.fixture
async def namespaces(own_server: StoreServer) -> AsyncIterator[Namespaces]:
    client = StoreClient(own_server.url, connections=2)
    one = Namespaces(client, "many")
    await one.create()
    yield one
    await client.close()


class Pulse:
    """Asks a master again and again whether it answers. `longest_s`: how long it took at most."""

    def __init__(self, url: str) -> None:
        self._api = Api(url)
        self.longest_s = 0.0
        self._asking = asyncio.create_task(self._ask())

    async def _ask(self) -> None:
        while True:
            began_s = time.monotonic()
            status, _ = await self._api.call("GET", "/healthz")
            assert status == 200
            self.longest_s = max(self.longest_s, time.monotonic() - began_s)
            await asyncio.sleep(0.1)

    async def stop(self) -> float:
        """Return `longest_s`. Raise what a question raised."""
        self._asking.cancel()
        (ended,) = await asyncio.gather(self._asking, return_exceptions=True)
        await self._api.http.aclose()
        if not isinstance(ended, asyncio.CancelledError):
            raise ended
        return self.longest_s


async def push_everywhere(url: str, namespaces: Namespaces) -> dict[str, str]:
    """Enqueue a job for later in each namespace, and return their IDs by namespace."""
    turns = asyncio.Semaphore(4)
    async with httpx.AsyncClient(trust_env=False, timeout=30) as http:

        async def push(name: str) -> str:
            async with turns:
                job = {"id": new_id(), "name": "kept", "delay": 3600}
                answer = await http.post(f"{url}/ns/{name}/api/jobs", json=job)
                # A busy machine may be told to repeat it.
                while answer.status_code == 503:
                    await asyncio.sleep(float(answer.headers["retry-after"]))
                    answer = await http.post(f"{url}/ns/{name}/api/jobs", json=job)
                assert answer.status_code in (200, 201), answer.text
                return str(job["id"])

        ids = await asyncio.gather(*map(push, namespaces.names))
    return dict(zip(namespaces.names, ids, strict=True))


async def are_all_there(client: StoreClient, jobs: dict[str, str]) -> bool:
    found = await client.pipeline([("EXISTS", Keys(name).job(job_id)) for name, job_id in jobs.items()])
    waiting = await client.pipeline([("ZCARD", Keys(name).scheduled) for name in jobs])
    return all(found) and set(waiting) == {1}


async def work_everywhere(url: str, namespaces: Namespaces) -> None:
    """Enqueue a job in some of the namespaces; each becomes ready at its time, which only its leader can do."""
    for name in namespaces.names[:: max(1, NAMESPACES // 10)]:
        of_one = Api(f"{url}/ns/{name}")
        try:
            job_id = await of_one.enqueue("work", delay=0.5)

            async def is_ready(of_one: Api = of_one, job_id: str = job_id) -> bool:
                return await of_one.state(job_id) == "ready"

            await wait_until(is_ready, timeout_s=30, what=f"the leader of {name} promotes its job")
        finally:
            await of_one.http.aclose()


async def test_many_namespaces_outlive_a_leaders_death_and_a_restart_of_the_store(
    own_server: StoreServer, namespaces: Namespaces, tmp_path: Path
) -> None:
    masters = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        masters.append(
            MasterProcess(
                tmp_path / name,
                own_server.url,
                shard="many",
                node_id=name,
                leader_ttl_s=5.0,
                lease_ms=15_000,
                worker_stale_s=5.0,
                heartbeat_interval_s=1.0,
                max_namespaces=1_000,
            )
        )
    began_s = time.monotonic()
    with running(*masters):
        await namespaces.all_led()
        print(f"{NAMESPACES} namespaces led after {time.monotonic() - began_s:.1f} s")
        api = Api(masters[1].url)
        try:
            await work_everywhere(masters[1].url, namespaces)
            kept = await push_everywhere(masters[1].url, namespaces)
            before = await namespaces.epochs()
            pulse = Pulse(masters[1].url)
            dead = (await api.call("GET", "/api/masters"))[1]["masters"]
            dead_id = next(one["id"] for one in dead if one["node_id"] == "a")
            began_s = time.monotonic()
            masters[0].kill()
            await namespaces.all_led(without=dead_id)
            print(f"led by the other {time.monotonic() - began_s:.1f} s after the death")
            after = await namespaces.epochs()
            assert all(new >= old for new, old in zip(after, before, strict=True))
            await work_everywhere(masters[1].url, namespaces)
            began_s = time.monotonic()
            await asyncio.to_thread(own_server.kill)
            await asyncio.to_thread(own_server.start)
            await asyncio.to_thread(own_server.wait_until_it_answers)
            await namespaces.all_led()
            print(f"led {time.monotonic() - began_s:.1f} s after the store was killed")
            await work_everywhere(masters[1].url, namespaces)
            longest_s = await pulse.stop()
            print(f"the longest pause of the event loop: {longest_s:.2f} s")
            assert longest_s < LONGEST_PAUSE_S
            assert await are_all_there(namespaces.client, kept)
            # Nobody gave up: each is served by the process that served it before.
            assert masters[1].popen
            assert masters[1].popen.poll() is None
        finally:
            await api.http.aclose()
