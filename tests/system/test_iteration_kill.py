"""An iteration whose worker is killed repeatedly."""

import os
from pathlib import Path

import pytest

from tests.support import real_time
from tests.support.processes import MasterProcess, Process, running
from tests.support.waiting import wait_until
from worker_sdk import Pusher

# By hand, use JQMASTER_ITERATION_ROWS=1000000 JQMASTER_ITERATION_KILLS=20
ROWS = int(os.environ.get("JQMASTER_ITERATION_ROWS", "12000"))
KILLS = int(os.environ.get("JQMASTER_ITERATION_KILLS", "3"))
# Slow enough for each attempt to save several checkpoints before it is killed.
PAUSE_S = 0.0003
EVERY_S = 0.1
# A row takes a millisecond on a busy machine, and a killed worker's job waits for its lease to end.
ATTEMPT_TAKES_S = 60 + ROWS / (KILLS + 2) / 1000

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(max(180, round((KILLS + 2) * ATTEMPT_TAKES_S))),
    real_time.PROCESSES,
]

PROGRAM = f"""
import os, time
from worker_sdk import Context, Worker

worker = Worker(os.environ["MASTER"])
rows = open(os.environ["ROWS"], "ab", buffering=0)

@worker.handler("import")
def rows_of(argument, ctx: Context):
    for row in ctx.iterate(lambda done: range(done, {ROWS}), every_s={EVERY_S}, total={ROWS}):
        time.sleep({PAUSE_S})
        # One write each: a kill leaves no half of a line.
        os.write(rows.fileno(), b"%d %f\\n" % (row, time.monotonic()))

worker.run()
"""


def written(rows: Path) -> list[tuple[int, float]]:
    """Return the rows with their times, in processing order."""
    lines = rows.read_bytes().splitlines() if rows.exists() else []
    return [(int(row), float(at_s)) for row, at_s in map(bytes.split, lines)]


def last_row(rows: Path) -> int:
    """Return the last processed row, or -1 before the first."""
    if not rows.exists():
        return -1
    with rows.open("rb") as file:
        file.seek(max(0, rows.stat().st_size - 200))
        lines = file.read().splitlines()
    return int(lines[-1].split()[0]) if lines else -1


def assert_repeats_of_one_interval(done: list[tuple[int, float]]) -> list[int]:
    """Return how many rows each attempt repeated.

    Each attempt begins at a row from the previous attempt's last interval. An attempt's last row may come after the end
    of the interval but before its checkpoint.
    """
    begins = [n for n in range(1, len(done)) if done[n][0] <= done[n - 1][0]]
    assert len(begins) <= KILLS
    # An attempt shorter than the interval would satisfy any bound.
    firsts = [0, *begins]
    attempts = list(zip(firsts, [*begins, len(done)], strict=True))
    for first, end in attempts:
        assert done[end - 1][1] - done[first][1] > 3 * EVERY_S
    for begin, before in zip(begins, [0, *begins], strict=False):
        at_s = dict(done[before:begin])
        last_s = done[begin - 2][1]
        assert last_s - at_s[done[begin][0]] < EVERY_S
    return [done[begin - 1][0] - done[begin][0] + 1 for begin in begins]


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
                await wait_until(lambda goal=goal: last_row(rows) >= goal, timeout_s=ATTEMPT_TAKES_S)
                worker.kill()
                worker.start()
            result = await pusher.result(job_id, wait=ATTEMPT_TAKES_S)
            assert result is not None
            assert result.type == "success", result
            view = await pusher.status(job_id)
    assert view["progress"]["fraction"] == 1.0
    assert view["progress"]["message"] == f"{ROWS:,} of {ROWS:,}"
    done = written(rows)
    assert {row for row, _ in done} == set(range(ROWS))
    repeated = assert_repeats_of_one_interval(done)
    print(f"{ROWS:,} rows, {len(repeated)} attempts that began after a kill, rows repeated: {repeated}")
