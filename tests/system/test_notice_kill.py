"""A master is killed while it reports failures: each failure is reported, and the count is right."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.support import real_time
from tests.support.mail_server import mail_server
from tests.support.master import Api
from tests.support.processes import MasterProcess, running
from tests.support.scripted_worker import ending, puller_at
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.req("M5", "M1"), pytest.mark.timeout(150), real_time.PROCESSES]

JOBS = 60


async def test_the_count_is_right_although_the_master_is_killed(tmp_path: Path) -> None:
    async with mail_server() as mails:
        master = MasterProcess(
            tmp_path,
            smtp_url=f"smtp://127.0.0.1:{mails.port}",
            mail_from="jq@shop.example",
        )
        with running(master):
            api = Api(master.url)
            notice = {
                "when": "job_failed",
                "to": [{"mail": ["a@shop.example", "b@shop.example"]}],
                "at_most_every_s": 10,
            }
            assert (await api.call("PUT", "/api/notices/n", notice))[0] == 201
            assert (await api.call("POST", "/api/notices/n/test"))[0] == 202
            await mails.until(2)
            for part in range(3):
                async with puller_at(api, max_jobs=JOBS) as worker:
                    for _ in range(JOBS // 3):
                        await api.enqueue("work", max_retry=0)
                    jobs: list[dict[str, Any]] = []
                    while len(jobs) < JOBS // 3:
                        jobs += await worker.claim(JOBS // 3 - len(jobs))
                    failed = {"reason": "other", "should_retry": False, "message": "no", "error": None}
                    status, answer = await worker.report(*[ending(job, "failure", **failed) for job in jobs])
                    assert (status, len(answer["accepted"])) == (200, JOBS // 3)
                    worker.running.clear()
                if part:
                    # Perhaps in the middle of a round, or while a mail is on its way.
                    mails.hangs = True
                    await asyncio.to_thread(master.kill)
                    mails.hangs = False
                    mails.let_go()
                    await asyncio.to_thread(master.start)

            async def last_counts() -> bool:
                (_, shown) = await api.call("GET", "/api/notices/n")
                told = [one["count"] for one in shown["recent"] if one["kind"] != "test"]
                return bool(told) and told[-1] >= JOBS and not shown["pending"]

            await wait_until(last_counts, timeout_s=60, what="the total is told")

            def totals() -> set[tuple[str, str]]:
                return {
                    (address, str(mail["Subject"]))
                    for address, mail in mails.mails
                    if f"{JOBS} jobs" in str(mail["Subject"])
                }

            await wait_until(lambda: len(totals()) == 2, timeout_s=60, what="both mails with the total")
            ids = [(address, str(mail["Message-ID"])) for address, mail in mails.mails]
            assert len(set(ids)) <= 2 * 4, "a message has one ID, however often it is sent"
            await api.http.aclose()
            assert await asyncio.to_thread(master.troubles_of_store) == []
