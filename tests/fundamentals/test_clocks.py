"""Pushers whose clock is wrong."""

import asyncio
import os
import sys
from datetime import datetime, timedelta

import pytest

from tests.support.master import Api

# The clock of the process is wrong before anything else is imported.
PUSHER = """
import datetime, sys, time
off_s, url = float(sys.argv[1]), sys.argv[2]
right, right_now = time.time, datetime.datetime.now
time.time = lambda: right() + off_s

class Wrong(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return right_now(tz) + datetime.timedelta(seconds=off_s)

datetime.datetime = Wrong
from worker_sdk import Batch, Tasks

tasks = Tasks(master=url)

@tasks.task("clock.told")
def told() -> None:
    pass

assert abs(datetime.datetime.now().timestamp() - right() - off_s) < 1
batch = Batch(expires=600, tasks=tasks)
with batch:
    print(told.using(expires=60, delay=30, batch=batch).enqueue().id)
print(batch.id)
"""


@pytest.mark.req("J7")
@pytest.mark.parametrize("off_s", [-3600, 3600])
async def test_the_clock_of_a_pusher_does_not_count(url: str, off_s: int) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PUSHER, str(off_s), url, stdout=asyncio.subprocess.PIPE, env=dict(os.environ)
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    job_id, batch_id = out.decode().split()
    api = Api(url)
    job = await api.job(job_id)
    created_at = datetime.fromisoformat(job["created_at"])
    assert job["state"] == "scheduled"
    assert datetime.fromisoformat(job["expires_at"]) - created_at == timedelta(seconds=60)
    assert datetime.fromisoformat(job["run_at"]) - created_at == timedelta(seconds=30)
    _, batch = await api.call("GET", f"/api/batches/{batch_id}")
    lives = datetime.fromisoformat(batch["expires_at"]) - datetime.fromisoformat(batch["created_at"])
    assert lives == timedelta(seconds=600)
