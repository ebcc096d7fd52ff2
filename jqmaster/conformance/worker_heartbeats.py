"""Heartbeats, leases, and the commands in their answers (docs/worker_protocol.md, sections 6 and 7)."""

import asyncio
from typing import Final

from jqmaster.conformance.false_master import Fields
from jqmaster.conformance.questions import (
    FailedError,
    Questions,
    SkippedError,
    WorkerMode,
    expect,
    remains,
    until,
)
from jqmaster.conformance.wire import MSGPACK, decode
from jqmaster.conformance.worker_under_test import SLEEP, WorkerUnderTest

TOPIC: Final[Questions[WorkerUnderTest]] = Questions("heartbeat")


@TOPIC.question("pace", "a heartbeat comes every heartbeat_interval_s", is_timed=True)
async def _(worker: WorkerUnderTest) -> None:
    seen = len(worker.master.beats)
    await worker.beats(8)
    beats = worker.master.beats[seen:]
    mean_s = (beats[-1].at_s - beats[0].at_s) / (len(beats) - 1)
    expect(
        0.4 * worker.beat_s <= mean_s <= 3 * worker.beat_s,
        f"one came every {mean_s:.2f} s, not every {worker.beat_s:g} s",
    )


@TOPIC.question(
    "pace_changed", "the worker follows an answer with a different heartbeat_interval_s", is_timed=True
)
async def _(worker: WorkerUnderTest) -> None:
    before = worker.beat_s
    worker.master.heartbeat_interval_s = 3 * before
    try:
        await worker.beats(2)
        seen = len(worker.master.beats)
        await worker.beats(4)
        beats = worker.master.beats[seen:]
        mean_s = (beats[-1].at_s - beats[0].at_s) / (len(beats) - 1)
        expect(mean_s >= 2 * before, f"one still came every {mean_s:.2f} s")
    finally:
        worker.master.heartbeat_interval_s = before
        await worker.beats(1)


@TOPIC.question(
    "as_of",
    ("as_of_ms, if it is sent, is store time: never ahead of the store's clock, and not far behind it"),
    is_timed=True,
)
async def _(worker: WorkerUnderTest) -> None:
    seen = len(worker.master.beats)
    await worker.beats(10)
    told = [beat for beat in worker.master.beats[seen:] if "as_of_ms" in beat.body]
    if not told:
        raise SkippedError(
            "the worker does not send as_of_ms, which is optional; without it, lost offers wait a little longer"
        )
    for beat in told:
        as_of_ms = beat.body["as_of_ms"]
        expect(as_of_ms <= beat.store_ms, f"`as_of_ms` is {as_of_ms - beat.store_ms} ms ahead of the store")
        expect(
            as_of_ms >= beat.store_ms - 10_000,
            f"`as_of_ms` is {beat.store_ms - as_of_ms} ms behind the store",
        )


@TOPIC.question("named", "every heartbeat names a running job, and free is lower by the job's slot")
async def _(worker: WorkerUnderTest) -> None:
    idle_free = worker.master.beats[-1].body["free"]
    job = await worker.running()
    seen = len(worker.master.beats)
    await worker.beats(5)
    for beat in worker.master.beats[seen:]:
        expect(job["token"] in beat.tokens, "a heartbeat does not name it")
    expect(
        worker.master.beats[-1].body["free"] == idle_free - 1,
        f"`free` is {worker.master.beats[-1].body['free']} of {idle_free}",
    )
    await worker.stop(job)


@TOPIC.question("status", "GET /status lists the running jobs", WorkerMode.PUSH)
async def _(worker: WorkerUnderTest) -> None:
    job = await worker.running()
    status = decode((await worker.send("GET", "/status")).body, MSGPACK)
    expect(status.get("worker_id") == worker.id, "`worker_id` is not the ID of the worker")
    expect(
        [claim["token"] for claim in status.get("running", [])] == [job["token"]],
        f"`running` is {status.get('running')}",
    )
    for field in ("free", "max_jobs", "names", "draining"):
        expect(field in status, f"`{field}` is missing")
    await worker.stop(job)


@TOPIC.question(
    "lease_kept",
    ("a job can run much longer than its first lease, as long as heartbeats are answered"),
    is_timed=True,
)
async def _(worker: WorkerUnderTest) -> None:
    seconds = worker.master.lease_s * 1.5
    job = worker.job(SLEEP, seconds)
    await worker.give(job)
    item = await worker.result_of(job, timeout_s=seconds + 8)
    expect(item.get("type") == "success", f"reported as {item.get('type')}: {item.get('message')}")


@TOPIC.question(
    "outage", "a job continues during an outage of masters that is shorter than its lease", is_timed=True
)
async def _(worker: WorkerUnderTest) -> None:
    job = await worker.running(worker.master.lease_s * 0.8)
    worker.master.script.beats = "cut"
    await asyncio.sleep(worker.master.lease_s * 0.4)
    worker.master.script.beats = "answer"
    item = await worker.result_of(job)
    expect(item.get("type") == "success", f"reported as {item.get('type')}: {item.get('message')}")


@TOPIC.question(
    "lease_over",
    "if no heartbeat is answered, the worker stops the job before its lease ends, and does not report it",
    is_timed=True,
)
async def _(worker: WorkerUnderTest) -> None:
    # The job runs longer than its lease. If the worker did not stop it, the kit would see its success.
    job = await worker.running(worker.master.lease_s * 1.6)
    worker.master.script.beats = "cut"
    await asyncio.sleep(worker.master.lease_s * 1.2)
    worker.master.script.beats = "answer"
    await remains(lambda: not worker.reports_of(job), "it was reported", worker.master.lease_s * 0.8)
    await until(lambda: not worker.is_named(job), "it is still named")


@TOPIC.question("not_renewed", "a lease that no answer renews is not prolonged", is_timed=True)
async def _(worker: WorkerUnderTest) -> None:
    job = await worker.running(worker.master.lease_s * 1.6)
    worker.master.script.renews = False
    await remains(lambda: not worker.reports_of(job), "it was reported", worker.master.lease_s * 2.0)
    worker.master.script.renews = True
    await until(lambda: not worker.is_named(job), "it is still named")


@TOPIC.question("drain", "while answers say drain, the worker refuses offers; afterwards, it takes them")
async def _(worker: WorkerUnderTest) -> None:
    running = await worker.running()
    worker.master.script.drain = True
    await worker.beats(2)
    await asyncio.sleep(0.1)
    expect(worker.master.beats[-1].body["free"] == 0, f"`free` is {worker.master.beats[-1].body['free']}")
    if worker.mode is WorkerMode.PUSH:
        verdict = await worker.offer(worker.job())
        expect(verdict == "draining", f"answered {verdict}")
    expect(worker.is_named(running), "the running job was stopped")
    worker.master.script.drain = False
    await worker.beats(2)
    await asyncio.sleep(0.1)
    job = worker.job(argument=1)
    expect(await worker.offer(job) == "accepted", "afterwards it was refused")
    await worker.stop(running)


@TOPIC.question(
    "drain_call",
    "after POST /drain, the worker refuses offers at once; after POST /resume, it takes offers again",
    WorkerMode.PUSH,
)
async def _(worker: WorkerUnderTest) -> None:
    worker.master.script.drain = True
    expect(
        await worker.command("/drain", epoch=worker.master.epoch) == 200, "POST /drain was not answered 200"
    )
    verdict = await worker.offer(worker.job())
    expect(verdict == "draining", f"answered {verdict}")
    worker.master.script.drain = False
    expect(
        await worker.command("/resume", epoch=worker.master.epoch) == 200, "POST /resume was not answered 200"
    )
    await worker.beats(1)
    job = worker.job(argument=1)
    await _until_accepted(worker, job)
    await worker.result_of(job)


async def _until_accepted(worker: WorkerUnderTest, job: Fields) -> None:
    for _ in range(10):
        fresh = worker.job()
        job.update(job_id=fresh["job_id"], token=fresh["token"], fence=fresh["fence"])
        if await worker.offer(job) == "accepted":
            return
        await asyncio.sleep(worker.beat_s)
    raise FailedError("no offer is taken any more")


@TOPIC.question("detach_call", "POST /detach brings a heartbeat at once", WorkerMode.PUSH, is_timed=True)
async def _(worker: WorkerUnderTest) -> None:
    before = worker.master.heartbeat_interval_s
    worker.master.heartbeat_interval_s = 3.0
    await worker.beats(1)
    try:
        seen = len(worker.master.beats)
        expect(await worker.command("/detach", epoch=worker.master.epoch) == 200, "it was not answered 200")
        await until(lambda: len(worker.master.beats) > seen, "no heartbeat came", timeout_s=1.5)
    finally:
        worker.master.heartbeat_interval_s = before
        await worker.beats(2)


@TOPIC.question(
    "continues",
    "a worker that learns that it is detached asks to continue, and continues the jobs that it may keep",
    is_timed=True,
)
async def _(worker: WorkerUnderTest) -> None:
    job = await worker.running(3.0)
    registered, seen = len(worker.master.registrations), len(worker.master.beats)
    worker.master.script.detached = True
    await until(lambda: _questions(worker, seen) >= 1, "it did not ask")
    worker.master.script.detached = False
    item = await worker.result_of(job)
    expect(item.get("type") == "success", f"reported as {item.get('type')}")
    expect(len(worker.master.registrations) == registered, "it registered again")
    await worker.beats(2)
    expect(not worker.master.beats[-1].body.get("asks_to_continue"), "it still asks")


@TOPIC.question(
    "detached",
    "after a worker has asked three times without a permission, it stops its jobs without reports, and "
    "registers again",
    is_timed=True,
)
async def _(worker: WorkerUnderTest) -> None:
    job = await worker.running()
    registered, seen = len(worker.master.registrations), len(worker.master.beats)
    worker.master.script.detached = True
    await until(
        lambda: len(worker.master.registrations) > registered, "it did not register again", timeout_s=20
    )
    expect(_questions(worker, seen) == 3, f"it asked {_questions(worker, seen)} times, not 3")
    await worker.beats(2)
    expect(not worker.reports_of(job), "it reported the job")
    expect(not worker.is_named(job), "it names the job still")
    again = worker.job(argument=1)
    expect(await worker.offer(again) == "accepted", "it takes no jobs any more")
    await worker.result_of(again)


@TOPIC.question(
    "unknown",
    "a worker that the master does not know registers again, and reports its unconfirmed results under its "
    "new ID",
    is_timed=True,
)
async def _(worker: WorkerUnderTest) -> None:
    master = worker.master
    owed = worker.job(argument=1)
    running = await worker.running()
    problem = {"type": "about:blank", "title": "", "status": 503, "detail": "", "code": "x", "errors": []}
    master.script.results.extend([(503, problem, {"Retry-After": "1"})])
    await worker.give(owed)
    await worker.result_of(owed)
    old_id, registered = worker.id, len(master.registrations)
    master.script.beats = "unknown"
    await until(lambda: len(master.registrations) > registered, "it did not register again", timeout_s=20)
    await until(
        lambda: any(report.worker_id != old_id for report in worker.reports_of(owed)),
        "the unconfirmed result was not reported under the new ID",
    )
    expect(not worker.reports_of(running), "it reported a job that it had to stop")


def _questions(worker: WorkerUnderTest, seen: int) -> int:
    return sum(bool(beat.body.get("asks_to_continue")) for beat in worker.master.beats[seen:])
