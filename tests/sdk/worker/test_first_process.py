"""A worker that is the first process of a container."""

import asyncio
import signal
import subprocess
import sys

import psutil
import pytest

from tests.sdk.fake_master import FakeMaster
from tests.support import real_time
from tests.support.waiting import wait_until

pytestmark = real_time.WORKER

NAMESPACE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]


def has_namespaces() -> bool:
    try:
        return subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.req("M14")
@pytest.mark.skipif(not has_namespaces(), reason="no right to make PID namespaces")
async def test_it_reaps_orphans_steals_no_exit_code_and_hands_back(master: FakeMaster) -> None:
    process = await asyncio.create_subprocess_exec(
        *NAMESPACE, sys.executable, "-m", "tests.sdk.handlers", master.url
    )
    try:
        await wait_until(lambda: master.beats, timeout_s=20)
        far = {"lease_until_ms": master.now_ms() + 60_000}
        orphans = await master.run("fork.twice", 20, **far)
        result = await wait_until(lambda: master.result(orphans["job_id"]), timeout_s=20)
        assert result["result"] == 7
        (first,) = psutil.Process(process.pid).children()
        assert [one.pid for one in first.children() if one.status() == psutil.STATUS_ZOMBIE] == []
        deaf = await master.run("deaf", 60, **far)
        first.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 20) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert [item["type"] for item in master.results[deaf["job_id"]]] == ["handed_back"]
    assert master.workers == {}
