"""A master is killed between the end of jobs and their webhooks: each end is reported under one ID."""

import asyncio
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.support import real_time
from tests.support.master import Api
from tests.support.processes import MasterProcess, running
from tests.support.scripted_worker import ending, puller_at
from tests.support.waiting import wait_until
from tests.support.webhook_receiver import SECRET, receiver

pytestmark = [pytest.mark.system, pytest.mark.req("M10", "M1"), pytest.mark.timeout(120), real_time.PROCESSES]

JOBS = 40


async def test_every_end_is_told_of_although_the_master_is_killed(tmp_path: Path) -> None:
    master = MasterProcess(tmp_path, webhook_secrets=SECRET, allowed_webhook_networks="127.0.0.0/8")
    with running(master):
        api = Api(master.url)
        async with receiver() as to:
            job_ids = {await api.enqueue("work", notify_url=to.url) for _ in range(JOBS)}
            # The worker leaves before the master is killed, because its heartbeats would fail.
            async with puller_at(api, max_jobs=JOBS) as worker:
                jobs: list[dict[str, Any]] = []
                while len(jobs) < JOBS:
                    jobs += await worker.claim(JOBS - len(jobs))
                status, answer = await worker.report(*[ending(job, "success", result=None) for job in jobs])
                assert (status, len(answer["accepted"])) == (200, JOBS)
                worker.running.clear()
            for _ in range(2):
                # The ends are written down, but most webhooks are not sent, or not known to be sent.
                await asyncio.to_thread(master.kill)
                await asyncio.to_thread(master.start)
                await to.until(1)

            def told() -> dict[str, set[str]]:
                ids = defaultdict(set)
                for one in to.received:
                    ids[one.message["data"]["job_id"]].add(one.fields["webhook-id"])
                return ids

            await wait_until(lambda: told().keys() == job_ids, timeout_s=60, what="every end is told of")
            assert all(len(ids) == 1 for ids in told().values())

            async def all_delivered() -> bool:
                (_, answer) = await api.call("GET", "/api/jobs/count?name=jq.webhook&state=succeeded")
                return bool(answer["count"] == JOBS)

            await wait_until(all_delivered, timeout_s=60, what="every delivery is over")
        await api.http.aclose()
        assert await asyncio.to_thread(master.troubles_of_store) == []
