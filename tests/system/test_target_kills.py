"""Jobs of a target while masters and the endpoint are killed, masters are told to stop, and the target is deleted.

Each job is done at least once and settled once, and none is delivered twice while the lease of a delivery lives. A
request that nobody killed ends, however long it takes, so a job without retries is delivered once."""

import asyncio
import contextlib
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import real_time
from tests.support.endpoint import Endpoint, HangUp, Request, reply
from tests.support.long import size
from tests.support.processes import MasterProcess, running
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from worker_sdk import Pusher

pytestmark = [pytest.mark.system, pytest.mark.req("M13"), pytest.mark.timeout(900), real_time.PROCESSES]

WITHIN_S = 600.0
SETTINGS: dict[str, Any] = {
    "allowed_webhook_networks": "127.0.0.0/8",
    "breaker_first_open_s": 0.2,
    "breaker_longest_open_s": 1.0,
}


class Book:
    """Writes down each delivery, and whether two of one job were open at once. `takes_s`: the time of a request."""

    def __init__(self, takes_s: float = 0.1) -> None:
        self.takes_s = takes_s
        self.done: Counter[str] = Counter()
        self.open: Counter[str] = Counter()
        self.fences: defaultdict[str, list[int]] = defaultdict(list)
        self.faults: list[str] = []
        # Grows with each kill of the endpoint, which ends all that it was doing.
        self.life = 0

    def die(self) -> None:
        self.life += 1
        self.open.clear()

    async def answer(self, request: Request) -> bytes:
        job_id, fence = request.fields["jq-job-id"], int(request.fields["jq-fence"])
        if self.open[job_id]:
            self.faults.append(f"{job_id} was delivered twice at once")
        if self.fences[job_id] and fence <= self.fences[job_id][-1]:
            self.faults.append(f"{job_id}: fence {fence} after {self.fences[job_id]}")
        self.fences[job_id].append(fence)
        life = self.life
        self.open[job_id] += 1
        await asyncio.sleep(self.takes_s)
        if life != self.life:
            raise HangUp
        self.open[job_id] -= 1
        self.done[job_id] += 1
        return reply(200, {"job": job_id})


class Killable:
    """An endpoint that can be killed: its connections end at once, and nothing listens for a while."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._endpoint = Endpoint(book.answer)
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"{self._endpoint.url}/"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._endpoint.serve, "127.0.0.1", self._endpoint.port)
        self._endpoint.port = self._server.sockets[0].getsockname()[1]

    async def kill(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._endpoint.writers):
            writer.transport.abort()
        self._book.die()


async def ends_of(url: str, job_ids: list[str]) -> list[list[str]]:
    """Return how the attempts of each job ended, the last one last."""
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=30) as http:
        ends = []
        for job_id in job_ids:
            job = (await http.get(f"/api/jobs/{job_id}")).json()
            ends.append([attempt["outcome"] for attempt in job["attempts"]])
        return ends


@pytest.mark.sized
async def test_jobs_of_a_target_survive_kills_of_masters_and_of_the_endpoint(
    tmp_path: Path, lone_server: StoreServer
) -> None:
    jobs, rounds = size(120, 10_000), size(3, 60)
    cut: list[int] = []
    masters = []
    for number in range(2):
        folder = tmp_path / f"m{number}"
        folder.mkdir()
        masters.append(MasterProcess(folder, lone_server.url, shard=f"t{tmp_path.name[-6:]}", **SETTINGS))
    book = Book()
    shop = Killable(book)
    await shop.start()
    began_s = time.monotonic()
    with running(*masters):
        async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
            made = await http.put(
                f"{masters[0].url}/api/targets/shop",
                json={"names": ["order"], "url": shop.url, "max_running": 8},
            )
            assert made.status_code == 201, made.text
        async with Pusher([one.url for one in masters], max_wait_s=60) as pusher:
            ids = await pusher.enqueue_many(
                [{"name": "order", "argument": n, "max_retry": 50, "rerun_lost": True} for n in range(jobs)]
            )

            async def states() -> Counter[str]:
                for one in masters:
                    with contextlib.suppress(httpx.HTTPError, KeyError):
                        async with httpx.AsyncClient(trust_env=False, timeout=5) as http:
                            counts = (await http.get(f"{one.url}/api/jobs?limit=1")).json()["counts"]
                            return Counter(counts)
                return Counter()

            async def are_over() -> bool:
                found = await states()
                return found["succeeded"] + found["failed"] >= jobs

            for number in range(rounds):
                # Kill in the middle of deliveries.
                await wait_until(lambda: sum(book.open.values()), timeout_s=60, what="a delivery")
                cut.append(sum(book.open.values()))
                victim = masters[number // 3 % 2]
                if number % 3 == 0:
                    await asyncio.to_thread(victim.kill)
                    await asyncio.to_thread(victim.start)
                elif number % 3 == 1:
                    await asyncio.to_thread(victim.terminate)
                    await asyncio.to_thread(victim.start)
                else:
                    await shop.kill()
                    await asyncio.sleep(0.2)
                    await shop.start()
            await wait_until(are_over, timeout_s=WITHIN_S, what="all jobs are over")
            took_s = time.monotonic() - began_s
            await shop.kill()
            found = await states()
            ends = await ends_of(masters[0].url, ids)
    # `pytest -rP` shows it.
    print(
        f"{jobs} jobs, {rounds} kills, each in the middle of {min(cut)} to {max(cut)} deliveries, in {took_s:.0f} s: "
        f"{sum(map(len, book.fences.values()))} deliveries, {sum(book.done.values())} done, "
        f"{sum(one > 1 for one in book.done.values())} jobs done twice, "
        f"ends of attempts: {dict(Counter(end for one in ends for end in one))}"
    )
    assert min(cut) > 0, "each kill hit deliveries"
    assert book.faults == []
    assert set(book.done) == set(ids)
    assert (found["succeeded"], found["failed"]) == (jobs, 0)
    assert [one for one in ends if one.count("success") != 1 or one[-1] != "success"] == []


# Longer than any time that a master gives other work when it stops.
LONG_S = 8.0


async def test_long_requests_end_though_masters_stop_and_the_target_is_deleted(
    tmp_path: Path, lone_server: StoreServer
) -> None:
    masters = []
    for number in range(2):
        folder = tmp_path / f"m{number}"
        folder.mkdir()
        settings = {**SETTINGS, "shard": f"l{tmp_path.name[-6:]}", "target_grace_s": 60.0}
        masters.append(MasterProcess(folder, lone_server.url, **settings))
    book = Book(LONG_S)
    shop = Killable(book)
    await shop.start()
    with running(*masters):
        target = {"names": ["order"], "url": shop.url, "max_running": 8}
        async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
            for one in masters:
                # Both deliver before there are jobs, so that each gets its part.
                made = await http.put(f"{masters[0].url}/api/targets/shop", json=target)
                assert made.status_code in (200, 201), made.text

                async def serves(url: str = one.url) -> bool:
                    workers = (await http.get(f"{url}/api/workers")).json()["workers"]
                    return len(workers) == len(masters)

                await wait_until(serves, timeout_s=30, what="both masters deliver")
            async with Pusher([one.url for one in masters], max_wait_s=60) as pusher:
                jobs = [{"name": "order", "argument": n, "max_retry": 0} for n in range(8)]
                ids = await pusher.enqueue_many(jobs)
                await wait_until(lambda: sum(book.open.values()) == 8, timeout_s=30, what="all are under way")
                deleted = await http.delete(f"{masters[0].url}/api/targets/shop")
                assert deleted.status_code == 204
                # It ends by itself once its requests have ended.
                await asyncio.to_thread(masters[0].terminate)
                await asyncio.to_thread(masters[0].start)

                async def are_over() -> bool:
                    counts = Counter((await http.get(f"{masters[1].url}/api/jobs?limit=1")).json()["counts"])
                    assert counts["failed"] == 0
                    return counts["succeeded"] == len(jobs)

                await wait_until(are_over, timeout_s=60, what="all jobs are over")
        await shop.kill()
    assert book.faults == []
    assert book.done == dict.fromkeys(ids, 1)
    assert [len(fences) for fences in book.fences.values()] == [1] * 8
