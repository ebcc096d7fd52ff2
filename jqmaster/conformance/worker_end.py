"""The end of a worker (docs/worker_protocol.md, section 7). These questions come last, because no worker is left
afterwards."""

import asyncio
from typing import Final

from jqmaster.conformance.questions import Questions, WorkerMode, expect, until
from jqmaster.conformance.worker_under_test import SLEEP, WorkerUnderTest

TOPIC: Final[Questions[WorkerUnderTest]] = Questions("end")
# The maximum grace period for which the kit waits.
_GRACE_S: Final = 45.0
# A worker may repeat an announcement if it believes that it got no answer, but not with every heartbeat.
_MAX_ANNOUNCEMENTS: Final = 3


@TOPIC.question("no_announcement", "a worker that was not told to end announces no end")
async def _(worker: WorkerUnderTest) -> None:
    expect(worker.master.leaving == [], "it has called POST /api/workers/{id}/leaving")


@TOPIC.question(
    "sigterm",
    "on SIGTERM, a worker takes no more jobs, lets short jobs finish, hands back other jobs, unregisters, "
    "and ends with 0; it may announce its end, and the master may not know that call",
)
async def _(worker: WorkerUnderTest) -> None:
    process, master = worker.need_process(), worker.master
    worker_id = worker.id
    short = worker.job(SLEEP, 0.5)
    await worker.give(short)
    long = await worker.running(120.0)
    # A worker can end only once, so each mode tests one kind of master. Workers that pull meet a master that knows the
    # call, and other workers meet a master that does not.
    master.knows_leaving = worker.mode is WorkerMode.PULL
    worker.terminate()
    seen = len(master.beats)
    await until(
        lambda: len(master.beats) > seen + 1 or process.returncode is not None,
        "no heartbeat came after SIGTERM",
    )
    if process.returncode is None:
        expect(master.beats[-1].body["free"] == 0, f"`free` is {master.beats[-1].body['free']} after SIGTERM")
        if worker.mode is WorkerMode.PUSH:
            try:
                verdict = await worker.offer(worker.job())
                expect(verdict == "draining", f"an offer was answered {verdict}")
            except OSError:
                pass  # the worker has already ended
    expect((await worker.result_of(short)).get("type") == "success", "the short job did not finish")
    item = await worker.result_of(long, timeout_s=_GRACE_S)
    expect(item.get("type") == "handed_back", f"the long job was reported as {item.get('type')}")
    await until(lambda: worker_id in master.left, "it did not unregister (DELETE /api/workers/{id})")
    async with asyncio.timeout(_GRACE_S):
        code = await process.wait()
    expect(code == 0, f"its exit code is {code}")
    expect(set(master.leaving) <= {worker_id}, "it announced the end of another worker")
    expect(
        len(master.leaving) <= _MAX_ANNOUNCEMENTS,
        f"it announced its end {len(master.leaving)} times, although it was answered",
    )
