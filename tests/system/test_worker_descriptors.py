"""A worker whose handlers have taken all file descriptors of its process."""

from pathlib import Path

import pytest

from tests.support import long, real_time
from tests.support.master import master_on
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from tests.system.test_cli import RunningAlone

pytestmark = [pytest.mark.system, real_time.PROCESSES]

APP = """
import resource
import socket
import threading

from worker_sdk import Worker

resource.setrlimit(resource.RLIMIT_NOFILE, (96, 96))
worker = Worker(max_jobs=4)
leaked = []


@worker.handler("leak")
def leak(argument):
    try:
        while True:
            leaked.append(socket.socket())
    except OSError:
        threading.Timer(3.0, leaked.clear).start()


@worker.handler("work")
def work(argument):
    with open("/dev/null") as file:
        return file.read()
"""


@pytest.mark.req("M6", "M14")
@pytest.mark.parametrize("pull", ["", *long.left_out("1")])
async def test_a_worker_without_file_descriptors_burns_no_job_and_recovers(
    store_server: StoreServer, tmp_path: Path, pull: str
) -> None:
    (tmp_path / "app.py").write_text(APP)
    async with master_on(store_server.url, lease_ms=10_000, worker_stale_s=5.0) as (master, api):
        options = ["--pull"] if pull else []
        running = RunningAlone(tmp_path, "worker", "app:worker", *options, JQMASTER_URL=master.server.url)
        errors = tmp_path / "worker.err"
        try:
            leak = await api.enqueue("leak", max_retry=0)
            await api.until_state(leak, "succeeded", timeout_s=60)
            jobs = [await api.enqueue("work", max_retry=0) for _ in range(20)]
            await wait_until(lambda: "no file descriptors left" in errors.read_text(), what="it says so")
            ended = [await api.until_state(job_id, "succeeded", "failed", timeout_s=60) for job_id in jobs]
        finally:
            assert running.end() == 0
    assert {(job["state"], job["failures"], job["losses"]) for job in ended} == {("succeeded", 0, 0)}
    assert "takes jobs again" in errors.read_text()
