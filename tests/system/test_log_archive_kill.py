"""The leader is killed between writing to the log archive and removing from the store."""

from pathlib import Path
from typing import Any

import pytest

from tests.api.logs.test_logs import line, page, send
from tests.support import real_time
from tests.support.master import Api
from tests.support.processes import MasterProcess, running
from tests.support.s3_server import BUCKET, S3Server
from tests.support.scripted_worker import puller_at
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.timeout(180), real_time.PROCESSES]

LINES = 5


def master_with(s3: S3Server, directory: Path) -> MasterProcess:
    address = s3.address
    assert address.key_id
    assert address.secret
    return MasterProcess(
        directory,
        log_archive_url=f"s3://{BUCKET}/logs",
        log_archive_endpoint=address.endpoint,
        log_archive_region=address.region,
        log_archive_key_id=address.key_id.get_secret_value(),
        log_archive_secret=address.secret.get_secret_value(),
        retention_logs_s=0,
        # A machine that stands still must not cost the job an attempt.
        lease_ms=60_000,
        offer_ms=30_000,
        worker_stale_s=60,
    )


@pytest.mark.req("D17")
async def test_a_leader_that_is_killed_between_write_and_removal_loses_no_line_and_doubles_none(
    tmp_path: Path,
) -> None:
    with S3Server().serving() as s3:
        # The leader has written the archive, and waits to read it back for comparison.
        s3.fault = "slow reads"
        master = master_with(s3, tmp_path)
        with running(master):
            api = Api(master.url)
            async with puller_at(api) as worker:
                job_id = await api.enqueue("work")
                (job,) = await worker.claim()
                await send(worker, *(line(job, n, f"line {n}") for n in range(1, LINES + 1)))
                await worker.end(job)
                await wait_until(lambda: s3.held, timeout_s=30, what="the leader reads what it wrote")
                master.kill()
            s3.fault = ""
            s3.let_go.set()
            master.start()

            async def archived() -> dict[str, Any] | None:
                found = await page(api, job_id)
                assert [entry["text"] for entry in found["entries"]] == [
                    f"line {n}" for n in range(1, LINES + 1)
                ]
                return found if found["is_archived"] else None

            await wait_until(archived, timeout_s=60, what="the log is in the archive")
            metrics = (await api.http.get("/metrics")).text
            assert "jqmaster_log_bytes 0.0" in metrics
            await api.http.aclose()
            assert master.troubles_of_store() == []
