"""Masters, workers and pushers of two releases on one store: upgrade, roll back once, and upgrade again, under load."""

import asyncio
import contextlib
import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.support import real_time
from tests.support.long import left_out
from tests.support.master import assert_sound
from tests.support.processes import MasterProcess, WorkerProcess, running
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from tests.upgrade.former import FormerMaster, FormerWorker, run_former
from worker_sdk.pusher import Pusher

pytestmark = [pytest.mark.req("M12"), pytest.mark.system, pytest.mark.timeout(180), real_time.PROCESSES]

# Pushers of both releases make the same calls; the former one runs in its own process.
PUSHES = """
import asyncio, json, sys
from worker_sdk.pusher import Pusher
assert sys.argv[2] in Pusher.__init__.__code__.co_filename, Pusher.__init__.__code__.co_filename

async def main():
    async with Pusher(sys.argv[1]) as pusher:
        ids = [await pusher.enqueue("echo", {"n": n}, keep_result=True, tags=["t"],
        headers={"h": "v"}) for n in range(5)]
        ids += await pusher.enqueue_many([{"name": "echo", "argument": {"n": n},
        "keep_result": True} for n in range(5, 10)])
        print(json.dumps([(await pusher.result(one, wait=20)).result for one in ids]))

asyncio.run(main())
"""


@pytest.fixture(params=["last_release", *left_out("release")])
def former_release(request: pytest.FixtureRequest) -> Path:
    """The release before the next one. `make test-long` also takes the one before that."""
    directory: Path = request.getfixturevalue(request.param)
    return directory


class Load:
    """Jobs of several kinds from a pusher that knows both masters."""

    def __init__(self, pusher: Pusher) -> None:
        self._pusher = pusher
        self.pushed: list[str] = []
        self.is_over = False

    async def push(self) -> None:
        for n in itertools.count():
            if self.is_over:
                return
            more: dict[str, Any] = (
                {} if n % 3 else {"tags": ["a"], "headers": {"h": "v"}, "retry": {"base_s": 0.1}}
            )
            for name, argument in (("echo", n), ("fail", 1), ("nap", 0.02)):
                self.pushed.append(await self._pusher.enqueue(name, argument, **more))

    async def goes_on(self, url: str) -> None:
        """Wait until this master shows some of the jobs that are pushed from now on as ended."""
        begun = len(self.pushed)
        async with httpx.AsyncClient(base_url=url, trust_env=False) as http:

            async def has_ended() -> bool:
                for job_id in self.pushed[begun : begun + 6]:
                    answer = await http.get(f"/api/jobs/{job_id}", headers={"Accept": "application/json"})
                    if answer.status_code != 200 or answer.json()["state"] != "succeeded":
                        return False
                return len(self.pushed) >= begun + 6

            await wait_until(has_ended, timeout_s=30, what=f"{url} shows new jobs that have ended")


async def _until_leads(master: MasterProcess) -> None:
    async def leads() -> bool:
        async with httpx.AsyncClient(base_url=master.url, trust_env=False) as http:
            with contextlib.suppress(httpx.TransportError):
                answer = await http.get("/api/masters", headers={"Accept": "application/json"})
                return answer.status_code == 200 and any(
                    one["role"] == "leader" and one["url"] == master.url for one in answer.json()["masters"]
                )
        return False

    await wait_until(leads, what=f"{type(master).__name__} leads")


@contextlib.asynccontextmanager
async def _load(*urls: str) -> AsyncIterator[Load]:
    async with Pusher(list(urls), max_wait_s=30) as pusher:
        load = Load(pusher)
        pushing = asyncio.create_task(load.push())
        try:
            yield load
        finally:
            load.is_over = True
            await pushing


@pytest.mark.parametrize("former_release", ["release", *left_out("last_release")], indirect=True)
async def test_masters_roll_up_and_back_down_under_load_and_nothing_is_lost(
    store_server: StoreServer, tmp_path: Path, former_release: Path
) -> None:
    shard = f"u{uuid4().hex[:10]}"
    for name in ("former", "this"):
        (tmp_path / name).mkdir()
    former = FormerMaster(former_release, tmp_path / "former", store_server.url, shard=shard, node_id="a")
    this = MasterProcess(tmp_path / "this", store_server.url, shard=shard, node_id="b")
    workers = [
        FormerWorker(former_release, tmp_path / "former", [former.url, this.url]),
        WorkerProcess(tmp_path / "this", [this.url, former.url], number=1),
    ]
    with running(former, *workers):
        async with _load(former.url, this.url) as load:
            await load.goes_on(former.url)
            try:
                await asyncio.to_thread(this.start)
                # Each sees what the other one accepted, while the former one leads.
                await load.goes_on(this.url)
                await load.goes_on(former.url)
                await asyncio.to_thread(former.terminate)  # up
                await _until_leads(this)
                await load.goes_on(this.url)
                await asyncio.to_thread(former.start)
                # The same holds while this one leads.
                await load.goes_on(former.url)
                await asyncio.to_thread(this.terminate)  # back down
                await _until_leads(former)
                await load.goes_on(former.url)
                await asyncio.to_thread(this.start)
                await asyncio.to_thread(former.terminate)  # up again
                await _until_leads(this)
                await load.goes_on(this.url)
                load.is_over = True
                await _all_have_ended(this.url, load)
            finally:
                if this.popen and this.popen.poll() is None:
                    await asyncio.to_thread(this.terminate)
    starts = Counter(
        (job_id, attempt)
        for worker in workers
        for what, job_id, attempt, _ in worker.events()
        if what == "start"
    )
    # Each job ran once, except those that fail the first time.
    assert set(starts.values()) == {1}
    assert {job_id for job_id, _ in starts} == set(load.pushed)
    assert len(starts) == len(load.pushed) // 3 * 4
    assert all(any(worker.events()) for worker in workers)
    await assert_sound(store_server.url, shard)


@pytest.mark.req("D30")
async def test_a_former_master_ignores_weights_and_loses_nothing(
    store_server: StoreServer, tmp_path: Path, release: Path
) -> None:
    shard = f"u{uuid4().hex[:10]}"
    for name in ("former", "this"):
        (tmp_path / name).mkdir()
    former = FormerMaster(release, tmp_path / "former", store_server.url, shard=shard, node_id="a")
    this = MasterProcess(tmp_path / "this", store_server.url, shard=shard, node_id="b")
    worker = WorkerProcess(tmp_path / "this", [this.url, former.url])
    limits = {
        "echo": {"concurrency": 12, "rate": {"limit": 100_000, "period_s": 1}, "weight": {"default": 3}},
        "nap": {"concurrency": 5, "weight": {"from": "argument", "default": 1, "unit": "seconds"}},
    }
    with running(this, worker):
        async with httpx.AsyncClient(base_url=this.url, trust_env=False) as http:
            for name, limit in limits.items():
                matcher = {"field": "name", "op": "eq", "value": name}
                answer = await http.put(f"/api/constraints/{name}", json={"matcher": matcher, **limit})
                assert answer.status_code == 201, answer.text
        async with _load(former.url, this.url) as load:
            await load.goes_on(this.url)
            try:
                await asyncio.to_thread(former.start)
                # The former one accepts jobs without a weight, and ends some that have a charge.
                await load.goes_on(former.url)
                await asyncio.to_thread(this.terminate)
                await _until_leads(former)
                await load.goes_on(former.url)
                await asyncio.to_thread(this.start)
                await load.goes_on(this.url)
                await asyncio.to_thread(former.terminate)
                await _until_leads(this)
                await load.goes_on(this.url)
                load.is_over = True
                await _all_have_ended(this.url, load)
            finally:
                if former.popen and former.popen.poll() is None:
                    await asyncio.to_thread(former.terminate)
        async with httpx.AsyncClient(base_url=this.url, trust_env=False) as http:
            for name, limit in limits.items():
                found = (
                    await http.get(f"/api/constraints/{name}", headers={"Accept": "application/json"})
                ).json()
                assert found["weight"]["default"] == limit["weight"]["default"]  # type: ignore[index]

        async def is_sound() -> bool:
            with contextlib.suppress(AssertionError):
                await assert_sound(store_server.url, shard)
                return True
            return False

        # The new leader has repaired the charges that the former one did not give back.
        await wait_until(is_sound, timeout_s=30, what="nothing is charged any more")
    starts = Counter((job_id, attempt) for what, job_id, attempt, _ in worker.events() if what == "start")
    assert set(starts.values()) == {1}
    assert {job_id for job_id, _ in starts} == set(load.pushed)


async def _all_have_ended(url: str, load: Load) -> None:
    async with httpx.AsyncClient(
        base_url=url, trust_env=False, headers={"Accept": "application/json"}
    ) as http:

        async def counts() -> dict[str, int]:
            found: dict[str, int] = (await http.get("/api/jobs?limit=1")).json()["counts"]
            return found

        async def is_empty() -> bool:
            found = await counts()
            return not any(found[state] for state in ("scheduled", "ready", "retrying", "running"))

        await wait_until(is_empty, timeout_s=40, what="all that was pushed has ended")
        found = await counts()
        assert (found["succeeded"], found["failed"]) == (len(load.pushed), 0), found


async def test_pushers_of_either_release_work_with_masters_of_the_other(
    store_server: StoreServer, tmp_path: Path, former_release: Path
) -> None:
    expected = [{"n": n} for n in range(10)]
    for name in ("former", "this"):
        (tmp_path / name).mkdir()
    former = FormerMaster(former_release, tmp_path / "former", store_server.url, shard=f"u{uuid4().hex[:10]}")
    this = MasterProcess(tmp_path / "this", store_server.url, shard=f"u{uuid4().hex[:10]}")
    workers = [
        # The workers cover each way in which jobs arrive.
        WorkerProcess(tmp_path / "this", former.url, pull=True),
        FormerWorker(former_release, tmp_path / "former", this.url, pull=True),
    ]
    with running(former, this, *workers):
        said = await asyncio.to_thread(run_former, former_release, PUSHES, this.url, str(former_release))
        assert json.loads(said) == expected
        async with Pusher(former.url) as pusher:
            ids = [await pusher.enqueue("echo", one, keep_result=True, tags=["t"]) for one in expected]
            for job_id, value in zip(ids, expected, strict=True):
                result = await pusher.result(job_id, wait=20)
                assert result is not None
                assert result.result == value


async def test_a_data_directory_is_opened_by_the_next_release_and_by_the_former_one_again(
    tmp_path: Path, former_release: Path
) -> None:
    """One master with the embedded store, whose release is replaced: upgrade, roll back once, and upgrade again."""
    directory = tmp_path / "master"
    directory.mkdir()
    pushed: list[str] = []
    for is_former in (True, False, True, False):
        master = FormerMaster(former_release, directory, None) if is_former else MasterProcess(directory)
        with running(master):
            async with Pusher(master.url) as pusher:
                pushed += [await pusher.enqueue("echo", n, keep_result=True) for n in range(3)]
            if len(pushed) == 12:
                with running(WorkerProcess(tmp_path, master.url, pull=True)):
                    async with Pusher(master.url) as pusher:
                        results = [await pusher.result(job_id, wait=20) for job_id in pushed]
    assert [result and result.result for result in results] == [0, 1, 2] * 4
