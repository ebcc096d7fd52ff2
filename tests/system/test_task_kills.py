"""kill -9 of a worker in the middle of a call of gathered jobs, and between and within the steps of a job."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import real_time
from tests.support.processes import MasterProcess, Process, running
from tests.support.waiting import wait_until
from worker_sdk import Pusher, make_job

pytestmark = [pytest.mark.system, pytest.mark.req("S14", "S7"), real_time.PROCESSES]

PROGRAM = """
import json, os, time
from worker_sdk import INJECTED, Context, Gather, GatherContext, Tasks, Worker

tasks = Tasks()
events = open(os.environ["EVENTS"], "ab", buffering=0)

def tell(*what):
    os.write(events.fileno(), json.dumps(what).encode() + b"\\n")

@tasks.task("row", gather=Gather(max=4, within_s=60))
def insert(rows: list[str], ctx: GatherContext) -> list[str]:
    tell("call", sorted(rows), [job.attempt for job in ctx.jobs])
    if ctx.jobs[0].attempt == 1 and len(rows) > 1:
        time.sleep(600)
    return [row.upper() for row in rows]

def effect(name: str, attempt: int) -> str:
    tell("step", name, attempt)
    if (name, attempt) == ("book", 2):
        time.sleep(600)
    return name.upper()

@tasks.task("order")
def order(ctx: Context = INJECTED) -> list[str]:
    done = [ctx.step("charge", effect, "charge", ctx.attempt)]
    if ctx.attempt == 1:
        tell("between", "charge", 1)
        time.sleep(600)
    return [*done, *(ctx.step(name, effect, name, ctx.attempt) for name in ("book", "mail"))]

Worker(os.environ["MASTER"], tasks=tasks, max_jobs=10).run()
"""


def told(path: Path) -> list[list[Any]]:
    """Return the lines of the workers, in order."""
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


async def test_each_gathered_job_has_its_own_end_and_each_step_is_repeated_at_most_once(
    tmp_path: Path,
) -> None:
    events, program = tmp_path / "events", tmp_path / "worker.py"
    program.write_text(PROGRAM)
    master = MasterProcess(tmp_path)
    worker = Process([str(program)], tmp_path / "worker.log", MASTER=master.url, EVENTS=str(events))
    options: dict[str, Any] = {"timeout": 600, "keep_result": True, "max_retry": 3, "rerun_lost": True}
    with running(master, worker):
        async with Pusher(master.url, max_wait_s=60) as pusher:
            jobs = {
                "runs again": make_job("row", {"rows": "a"}, **options),
                "may not run again": make_job(
                    "row", {"rows": "b"}, **{**options, "max_retry": 0, "rerun_lost": False}
                ),
                "is canceled": make_job("row", {"rows": "c"}, **options),
                "is out of time": make_job(
                    "row", {"rows": "d"}, **{**options, "timeout": 1.5, "max_retry": 0}
                ),
            }
            await pusher.enqueue_many(jobs.values())
            order = await pusher.enqueue("order", {}, **options)
            begun: list[list[Any]] = [["call", ["a", "b", "c", "d"], [1, 1, 1, 1]], ["between", "charge", 1]]
            await wait_until(lambda: all(one in told(events) for one in begun), timeout_s=60)

            async def shown(what: str) -> tuple[Any, Any, Any]:
                view = await pusher.status(jobs[what]["id"])
                return view["state"], view["cause"], view["attempt"]

            # These ends are reported while the call goes on, and count whatever becomes of the others.
            await pusher.cancel(jobs["is canceled"]["id"])

            async def is_out_of_time() -> bool:
                return (await shown("is out of time"))[0] == "failed"

            await wait_until(is_out_of_time, timeout_s=30)
            worker.kill()
            worker.start()
            await wait_until(lambda: ["step", "book", 2] in told(events), timeout_s=60)
            worker.kill()
            worker.start()
            again = await pusher.result(jobs["runs again"]["id"], wait=60)
            stepped = await pusher.result(order, wait=60)
            assert again is not None
            assert stepped is not None
            assert (again.type, again.result) == ("success", "A")
            assert (stepped.type, stepped.result) == ("success", ["CHARGE", "BOOK", "MAIL"])
            assert await shown("runs again") == ("succeeded", None, 2)
            assert await shown("may not run again") == ("failed", "lost", 1)
            assert await shown("is canceled") == ("canceled", "canceled", 1)
            assert await shown("is out of time") == ("failed", "timeout", 1)
            steps = (await pusher.status(order))["steps"]
    happened = told(events)
    # After the loss, the job runs alone. The others do not run any more.
    assert [one for one in happened if one[0] == "call"] == [begun[0], ["call", ["a"], [2]]]
    # `charge` was acknowledged before the first kill, and `book` was not before the second.
    assert [one[1:] for one in happened if one[0] == "step"] == [
        ["charge", 1], ["book", 2], ["book", 3], ["mail", 3],
    ]  # fmt: skip
    assert [one["name"] for one in steps] == ["charge", "book", "mail"]
    assert [one["at"] for one in steps] == sorted(one["at"] for one in steps)
