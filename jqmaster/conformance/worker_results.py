"""Results (docs/worker_protocol.md, section 5)."""

import asyncio
import re
from typing import Final

from jqmaster.conformance.false_master import Fields
from jqmaster.conformance.questions import (
    FailedError,
    Questions,
    WorkerMode,
    expect,
    remains,
    until,
)
from jqmaster.conformance.worker_under_test import FAIL, SLEEP, WorkerUnderTest, claim_of

TOPIC: Final[Questions[WorkerUnderTest]] = Questions("result")
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)")


@TOPIC.question("form", "a result has job_id, token, type and finished_at in text")
async def _(worker: WorkerUnderTest) -> None:
    job = worker.job()
    await worker.give(job)
    item = await worker.result_of(job)
    expect(item.get("job_id") == job["job_id"], "`job_id` is not the ID of the job")
    finished_at = item.get("finished_at")
    expect(
        isinstance(finished_at, str) and _INSTANT.fullmatch(finished_at), f"`finished_at` is {finished_at!r}"
    )
    expect("result" in item, "`result` is missing")


@TOPIC.question(
    "failure", "a handler that fails is reported as failure, with reason other, and text for people"
)
async def _(worker: WorkerUnderTest) -> None:
    job = worker.job(FAIL, {"message": "no such photo", "retry": True})
    await worker.give(job)
    item = await worker.result_of(job)
    expect(
        (item.get("type"), item.get("reason")) == ("failure", "other"),
        f"{item.get('type')}, {item.get('reason')}",
    )
    expect(item.get("should_retry") is True, f"`should_retry` is {item.get('should_retry')!r}")
    expect("error" in item, "`error` is missing, but it may be nil")
    message = item.get("message")
    expect(isinstance(message, str) and "no such photo" in message, f"`message` is {message!r}")


@TOPIC.question("final_failure", "a handler may forbid the retry of a failure")
async def _(worker: WorkerUnderTest) -> None:
    job = worker.job(FAIL, {"message": "gone", "retry": False})
    await worker.give(job)
    item = await worker.result_of(job)
    expect(item.get("should_retry") is False, f"`should_retry` is {item.get('should_retry')!r}")


@TOPIC.question(
    "timeout",
    "a job that runs longer than its timeout is stopped and reported with reason timeout",
    is_timed=True,
)
async def _(worker: WorkerUnderTest) -> None:
    job = worker.job(SLEEP, 20.0, timeout=0.6)
    await worker.give(job)
    item = await worker.result_of(job, timeout_s=4)
    expect(
        (item.get("type"), item.get("reason")) == ("failure", "timeout"),
        f"{item.get('type')}, {item.get('reason')}",
    )


@TOPIC.question(
    "repeats",
    "results are repeated until they are answered: after a 503, a 429, a 401 and a broken connection",
    is_timed=True,
)
async def _(worker: WorkerUnderTest) -> None:
    problem = {"type": "about:blank", "title": "", "status": 503, "detail": "", "code": "x", "errors": []}
    job = worker.job(argument=1)
    worker.master.script.results.extend(
        [
            (503, problem, {"Retry-After": "1"}),
            (429, {**problem, "status": 429}, {"Retry-After": "1"}),
            None,
            (401, {**problem, "status": 401}, {}),
        ]
    )
    await worker.give(job)
    await until(lambda: len(worker.reports_of(job)) >= 5, "the result was not repeated", timeout_s=30)
    first, second = worker.reports_of(job)[:2]
    expect(
        second.at_s - first.at_s >= 0.95, f"repeated {second.at_s - first.at_s:.2f} s after `Retry-After: 1`"
    )


@TOPIC.question("owed", "heartbeats name a claim until its result is answered, and no longer", is_timed=True)
async def _(worker: WorkerUnderTest) -> None:
    problem = {"type": "about:blank", "title": "", "status": 503, "detail": "", "code": "x", "errors": []}
    worker.master.script.results.extend([(503, problem, {"Retry-After": "1"})])
    job = worker.job(argument=1)
    await worker.give(job)
    await worker.result_of(job)
    await worker.beats(2)
    expect(
        len(worker.reports_of(job)) > 1 or worker.is_named(job),
        ("a heartbeat does not name an unconfirmed result"),
    )
    await until(
        lambda: len(worker.reports_of(job)) >= 2 and not worker.is_named(job),
        "a heartbeat still names an answered result",
    )


@TOPIC.question("stale", "the answer `stale` is final: the result is not repeated", is_timed=True)
async def _(worker: WorkerUnderTest) -> None:
    job = worker.job(argument=1)
    worker.master.script.stale.add(job["token"])
    await worker.give(job)
    await worker.result_of(job)
    await worker.beats(2)
    await remains(lambda: len(worker.reports_of(job)) == 1, "it was repeated", 4 * worker.beat_s)
    expect(not worker.is_named(job), "it is still named")


@TOPIC.question(
    "too_large", "a result that the master refuses as too large is replaced by a failure that says so"
)
async def _(worker: WorkerUnderTest) -> None:
    problem = {"type": "about:blank", "title": "Too large", "status": 413,
               "detail": "a result has more than 1048576 bytes",
               "code": "result_too_large",
               "errors": [{"loc": ["results", 0, "result"], "msg": "at most 1048576 bytes"}]}  # fmt: skip
    job = worker.job(argument=1)
    # Refuse twice if necessary: the first call may contain other results, and the second contains only this one.
    worker.master.script.results.extend([(413, problem, {})])
    await worker.give(job)
    await until(lambda: len(worker.reports_of(job)) >= 2, "nothing was sent instead")
    if worker.reports_of(job)[-1].item.get("type") == "success":
        worker.master.script.results.extend([(413, problem, {})])
    await until(
        lambda: worker.reports_of(job)[-1].item.get("type") == "failure", "no failure was reported instead"
    )


@TOPIC.question("together", "a refused result does not prevent reports of other results")
async def _(worker: WorkerUnderTest) -> None:
    problem = {"type": "about:blank", "title": "", "status": 503, "detail": "", "code": "x", "errors": []}
    worker.master.script.results.extend([(503, problem, {"Retry-After": "1"})])
    jobs = [worker.job(argument=n) for n in range(2)]
    await worker.give(*jobs)
    for job in jobs:
        await worker.result_of(job)
    await until(lambda: not worker.master.beats[-1].tokens, "the results were not reported")


async def _takes_with_an_answer(worker: WorkerUnderTest, *jobs: Fields) -> bool:
    """Give the worker these jobs with the answer to a report. Return False if the worker does not ask for jobs in
    reports. Asking is optional: other workers get all jobs by pushes."""
    worker.master.script.next_jobs = list(jobs)
    first = worker.job()
    await worker.give(first)
    await worker.result_of(first)
    if worker.master.jobs_after[-1] is None:
        return False
    await until(lambda: not worker.master.script.next_jobs, "it reports no success alone")
    return True


@TOPIC.question(
    "next_jobs",
    "if the worker asks for jobs with answers, such a job runs once, and the next report shows that it "
    "arrived",
)
async def _(worker: WorkerUnderTest) -> None:
    job, later = worker.job(argument=1), worker.job(argument=2)
    if not await _takes_with_an_answer(worker, job):
        return
    await worker.result_of(job)
    # Push the same offer again, like a master that does not know whether its answer arrived.
    await worker.give(job)
    await worker.give(later)
    await worker.result_of(later)
    expect(
        worker.master.jobs_after[-1] == str(job["fence"]), f"JQ-Jobs-After is {worker.master.jobs_after[-1]}"
    )
    await remains(lambda: len(worker.reports_of(job)) == 1, "it ran twice", 2 * worker.beat_s)


@TOPIC.question(
    "next_jobs_refused",
    ("if the worker asks for jobs with answers, it hands back such a job if it does not take it"),
)
async def _(worker: WorkerUnderTest) -> None:
    unknown, job = worker.job("conformance.nobody"), worker.job(argument=1)
    if not await _takes_with_an_answer(worker, unknown, job):
        return
    item = await worker.result_of(unknown)
    expect(item.get("type") == "handed_back", f"it is reported as {item.get('type')}")
    await worker.result_of(job)


@TOPIC.question(
    "none_after_lost",
    "a lost job is stopped and not reported, and its slot is free again",
    is_timed=True,
)
async def _(worker: WorkerUnderTest) -> None:
    job = await worker.running()
    worker.master.script.lost.add(job["token"])
    await until(lambda: not worker.is_named(job), "a lost claim is still named")
    await remains(lambda: not worker.reports_of(job), "a lost claim was reported", 3 * worker.beat_s)
    again = worker.job(job_id=job["job_id"], attempt=2, argument=1)
    await _until_taken(worker, again)
    await worker.result_of(again)


async def _until_taken(worker: WorkerUnderTest, job: Fields) -> None:
    """Offer the job until it is taken, because a stopped job may need a moment to end."""
    for _ in range(50):
        fresh = worker.job()
        job.update(token=fresh["token"], fence=fresh["fence"])
        if await worker.offer(job) == "accepted":
            return
        await asyncio.sleep(0.2)
    raise FailedError("the worker accepts no offer of the job any more")


@TOPIC.question(
    "canceled", ("if the answer to a heartbeat cancels a job, the job is stopped and reported as canceled")
)
async def _(worker: WorkerUnderTest) -> None:
    job = await worker.running()
    worker.master.script.cancel.append(claim_of(job))
    item = await worker.result_of(job)
    expect(item.get("type") == "canceled", f"reported as {item.get('type')}")


@TOPIC.question(
    "canceled_by_call",
    "POST /jobs/{id}/cancel stops a job at once; it is reported as canceled",
    WorkerMode.PUSH,
    is_timed=True,
)
async def _(worker: WorkerUnderTest) -> None:
    job = await worker.running()
    status = await worker.command(
        f"/jobs/{job['job_id']}/cancel", token=job["token"], epoch=worker.master.epoch
    )
    expect(status == 200, f"answered {status}")
    item = await worker.result_of(job, timeout_s=3)
    expect(item.get("type") == "canceled", f"reported as {item.get('type')}")


@TOPIC.question(
    "cancel_unknown",
    "a cancel of a job that does not run here, or under another token, is answered 404 and stops nothing",
    WorkerMode.PUSH,
)
async def _(worker: WorkerUnderTest) -> None:
    job = await worker.running()
    other = worker.job()
    for target, token in ((other, other["token"]), (job, other["token"])):
        status = await worker.command(
            f"/jobs/{target['job_id']}/cancel", token=token, epoch=worker.master.epoch
        )
        expect(status == 404, f"answered {status}")
    await worker.beats(2)
    expect(worker.is_named(job), "the job was stopped")
    await worker.stop(job)


@TOPIC.question(
    "cancel_stale",
    "a command of an older leader is answered 409 and does nothing",
    WorkerMode.PUSH,
    is_timed=True,
)
async def _(worker: WorkerUnderTest) -> None:
    job = await worker.running()
    await worker.beats(1)
    old = worker.master.epoch - 1
    for route, fields in (
        (f"/jobs/{job['job_id']}/cancel", {"token": job["token"]}),
        ("/drain", {}),
        ("/resume", {}),
        ("/detach", {}),
    ):
        status = await worker.command(route, epoch=old, **fields)
        expect(status == 409, f"{route} was answered {status}")
    await worker.beats(2)
    expect(worker.is_named(job), "the job was stopped")
    await worker.stop(job)
