"""An iteration whose worker is killed again and again."""

import os
from collections import Counter
from pathlib import Path

import pytest

from tests.support import real_time
from tests.support.processes import MasterProcess, Process, running
from tests.support.waiting import wait_until
from worker_sdk import Pusher

pytestmark = [pytest.mark.system, pytest.mark.timeout(180), real_time.PROCESSES]

# By hand: JQMASTER_ITERATION_ROWS=1000000 JQMASTER_ITERATION_KILLS=20
ROWS = int(os.environ.get("JQMASTER_ITERATION_ROWS", "60000"))
KILLS = int(os.environ.get("JQMASTER_ITERATION_KILLS", "3"))
EVERY_S = 0.2

PROGRAM = f"""
import os
from worker_sdk import Context, Worker

worker = Worker(os.environ["MASTER"])
rows = open(os.environ["ROWS"], "ab", buffering=0)

@worker.handler("import")
def rows_of(argument, ctx: Context):
    for row in ctx.iterate(lambda done: range(done, {ROWS}), every_s={EVERY_S}, total={ROWS}):
        # One write each: a kill leaves no half of a line.
        os.write(rows.fileno(), b"%d\\n" % row)

worker.run()
"""


def written(rows: Path) -> list[int]:
    return [int(line) for line in rows.read_bytes().split()] if rows.exists() else []


@pytest.mark.req("S7", "J12")
async def test_every_row_is_done_and_few_twice_although_the_worker_is_killed(tmp_path: Path) -> None:
    rows, program = tmp_path / "rows", tmp_path / "worker.py"
    program.write_text(PROGRAM)
    master = MasterProcess(tmp_path)
    worker = Process([str(program)], tmp_path / "worker.log", MASTER=master.url, ROWS=str(rows))
    with running(master, worker):
        async with Pusher(master.url, max_wait_s=60) as pusher:
            job_id = await pusher.enqueue(
                "import", timeout=3600, max_retry=100, rerun_lost=True, keep_result=True
            )
            for kill in range(1, KILLS + 1):
                goal = ROWS * kill // (KILLS + 2)
                await wait_until(lambda goal=goal: len(set(written(rows))) >= goal, timeout_s=60)
                worker.kill()
                worker.start()
            result = await pusher.result(job_id, wait=100)
            assert result is not None
            assert result.type == "success", result
            view = await pusher.status(job_id)
    assert view["progress"]["fraction"] == 1.0
    assert view["progress"]["message"] == f"{ROWS:,} of {ROWS:,}"
    times = Counter(written(rows))
    assert sorted(times) == list(range(ROWS))
    assert max(times.values()) <= 1 + KILLS
