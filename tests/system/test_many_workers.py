"""Five hundred workers find their master again at the same moment."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import msgpack
import pytest

from tests.support import real_time
from tests.support.master import Api
from tests.support.processes import MasterProcess, running
from tests.support.scripted_worker import ending

pytestmark = [pytest.mark.system, pytest.mark.timeout(180), real_time.PROCESSES]

WORKERS = 500
LEASE_S = 30
MSGPACK = "application/msgpack"


async def call(session: aiohttp.ClientSession, path: str, value: Any) -> Any:
    """Use a separate connection. Repeat the call when the master tells to, as workers do."""
    headers = {"Content-Type": MSGPACK, "Accept": MSGPACK}
    async with asyncio.timeout(LEASE_S):
        while True:
            async with session.post(path, data=msgpack.packb(value), headers=headers) as response:
                answer = msgpack.unpackb(await response.read(), timestamp=3)
                if response.status != 503 or answer["code"] == "outcome_unknown":
                    assert response.status in (200, 201), answer
                    return answer
                await asyncio.sleep(float(response.headers["Retry-After"]))


@pytest.mark.req("M3", "M6", "D13")
async def test_five_hundred_workers_that_come_back_at_once_keep_what_they_run(tmp_path: Path) -> None:
    master = MasterProcess(tmp_path, lease_ms=LEASE_S * 1000, worker_stale_s=10)
    with running(master):
        api = Api(master.url)
        connector = aiohttp.TCPConnector(limit=WORKERS, force_close=True)
        timeout = aiohttp.ClientTimeout(total=LEASE_S)
        async with aiohttp.ClientSession(master.url, connector=connector, timeout=timeout) as session:

            async def join(n: int) -> tuple[str, dict[str, Any]]:
                me: dict[str, Any] = {
                    "url": None, "names": ["work"], "max_jobs": 1, "node_id": f"node-{n}", "pid": 1, "labels": {},
                    "version": "1", "secret": "s" * 32,
                }  # fmt: skip
                worker_id = (await call(session, "/api/workers", me))["worker_id"]
                given = await call(session, f"/api/workers/{worker_id}/claim", {"max": 1, "wait": 20})
                (job,) = given["jobs"]
                return worker_id, job

            async def come_back(worker_id: str, job: dict[str, Any]) -> Any:
                claim = {"job_id": job["job_id"], "token": job["token"]}
                return await call(
                    session, f"/api/workers/{worker_id}/heartbeat", {"running": [claim], "free": 0}
                )

            jobs = [{"name": "work", "max_retry": 0} for _ in range(WORKERS)]
            assert (await api.call("POST", "/api/jobs/bulk", {"jobs": jobs}))[0] == 201
            joined = await asyncio.gather(*(join(n) for n in range(WORKERS)))
            master.kill()
            await asyncio.to_thread(master.start)
            answers = await asyncio.gather(*(come_back(*one) for one in joined))
            assert [answer["lost"] for answer in answers] == [[]] * WORKERS
            assert not any(answer["detached"] for answer in answers)
            reports = await asyncio.gather(
                *(
                    call(session, f"/api/workers/{worker_id}/results", {"results": [ending(job)]})
                    for worker_id, job in joined
                )
            )
            assert [report["stale"] for report in reports] == [[]] * WORKERS
        counts = await api.counts()
        assert (counts["succeeded"], sum(counts.values())) == (WORKERS, WORKERS)
        await api.http.aclose()
