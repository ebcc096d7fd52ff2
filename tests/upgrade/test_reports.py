"""Progress and checkpoints between this release and 0.3.0, whose masters refuse the numbers of reports."""

from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from tests.support import real_time
from tests.support.processes import MasterProcess, WorkerProcess, running
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from tests.upgrade.former import FormerMaster, FormerWorker
from worker_sdk import Pusher

pytestmark = [
    pytest.mark.req("M12"),
    pytest.mark.system,
    pytest.mark.timeout(120),
    real_time.PROCESSES,
]


@pytest.mark.parametrize("is_worker_old", [True, False], ids=["old_worker", "new_worker"])
async def test_reports_of_either_release_reach_masters_of_the_other(
    store_server: StoreServer, tmp_path: Path, last_release: Path, is_worker_old: bool
) -> None:
    shard = f"u{uuid4().hex[:10]}"
    reported, may_end = tmp_path / "reported", tmp_path / "may_end"
    if is_worker_old:
        master = MasterProcess(tmp_path, store_server.url, shard=shard)
        worker: WorkerProcess = FormerWorker(last_release, tmp_path, master.url)
    else:
        master = FormerMaster(last_release, tmp_path, store_server.url, shard=shard)
        worker = WorkerProcess(tmp_path, master.url)
    worker.run_handlers("tests.upgrade.reporting:worker", REPORTED=str(reported), MAY_END=str(may_end))
    with running(master, worker):
        async with Pusher(master.url) as pusher, httpx.AsyncClient(trust_env=False) as http:
            job_id = await pusher.enqueue(
                "import", 7, keep_result=True, retry={"base_s": 0.1, "jitter": False}
            )
            await wait_until(reported.exists, timeout_s=60, what="the second attempt has reported")
            job = (await http.get(f"{master.url}/api/jobs/{job_id}")).json()
            assert (job["attempt"], job["progress"]["fraction"]) == (2, 0.9)
            assert job["progress"]["message"] == "nearly done"
            may_end.touch()
            result = await pusher.result(job_id, wait=20)
    assert result is not None
    # The second attempt found the last checkpoint of the first one.
    assert result.result == 3
    assert "refused" not in worker.log.read_text()
