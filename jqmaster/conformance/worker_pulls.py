"""Calls for jobs (docs/worker_protocol.md, section 8)."""

import asyncio
import re
from typing import Final

from jqmaster.conformance import known_fields
from jqmaster.conformance.questions import Questions, WorkerMode, expect, until
from jqmaster.conformance.worker_under_test import WorkerUnderTest

TOPIC: Final[Questions[WorkerUnderTest]] = Questions("pull", WorkerMode.PULL)
_PROBLEM: Final = {"type": "about:blank", "title": "", "status": 503, "detail": "", "code": "x", "errors": []}


@TOPIC.question("form", "a call for jobs has `max` and `wait`, and its `poll_id`, if any, has the right form")
async def _(worker: WorkerUnderTest) -> None:
    seen = len(worker.master.polls)
    await until(lambda: len(worker.master.polls) >= seen + 2, "it asks for no jobs")
    for poll in worker.master.polls:
        unknown = set(poll) - known_fields.POLL
        expect(not unknown, f"unknown fields: {sorted(unknown)}")
        expect(poll.get("withdraw") or 1 <= poll.get("max", 0) <= 1000, f"`max` is {poll.get('max')!r}")
        expect(
            poll.get("poll_id") is None or re.fullmatch(r"[A-Za-z0-9_-]{1,64}", poll["poll_id"]),
            f"`poll_id` is {poll.get('poll_id')!r}",
        )


@TOPIC.question("one_at_a_time", "there is one call for jobs at a time")
async def _(worker: WorkerUnderTest) -> None:
    await worker.beats(4)
    expect(worker.master.most_polls == 1, f"there were {worker.master.most_polls} at once")


@TOPIC.question("max", "`max` is the number of free slots")
async def _(worker: WorkerUnderTest) -> None:
    job = await worker.running()
    seen = len(worker.master.polls)
    await until(lambda: len(worker.master.polls) >= seen + 2, "it asks for no jobs while one runs")
    found = worker.master.polls[-1].get("max")
    expect(found == worker.max_jobs - 1, f"`max` is {found} of {worker.max_jobs} while one runs")
    await worker.stop(job)


@TOPIC.question("new_poll_id", "a call that follows an answer has another poll_id")
async def _(worker: WorkerUnderTest) -> None:
    seen = len(worker.master.polls)
    await until(lambda: len(worker.master.polls) >= seen + 3, "it asks for no jobs")
    ids = [
        poll.get("poll_id")
        for poll in worker.master.polls[seen + 1 :]
        if poll.get("poll_id") and not poll.get("withdraw")
    ]
    expect(len(set(ids)) == len(ids), f"a poll_id was used again: {ids}")


@TOPIC.question(
    "repeats",
    "a call is repeated with the same poll_id if its answer was lost or was a 503; its jobs run",
    is_timed=True,
)
async def _(worker: WorkerUnderTest) -> None:
    for scripted in (None, (503, _PROBLEM, {"Retry-After": "1"})):
        job = worker.job(argument=1)
        worker.master.mail.append((worker.master.now_ms(), [job]))
        await until(lambda: not worker.master.mail, "it asks for no jobs")
        await worker.result_of(job)
        failed = len(worker.master.failed_polls)
        worker.master.script.claims.append(scripted)
        await _fails(worker, failed)
        number = worker.master.failed_polls[-1]
        lost = worker.master.polls[number - 1].get("poll_id")
        await _expect_next_poll(worker, number)
        again = worker.master.polls[number].get("poll_id")
        expect(again == lost, f"it was repeated with the poll_id {again!r}, not {lost!r}")


async def _fails(worker: WorkerUnderTest, failed: int) -> None:
    await until(lambda: len(worker.master.failed_polls) > failed, "it asks for no jobs")


async def _expect_next_poll(worker: WorkerUnderTest, seen: int) -> None:
    await until(lambda: len(worker.master.polls) > seen, "the call was not repeated")


@TOPIC.question("refuses", "jobs that are not taken are in `refused` of the next call", is_timed=True)
async def _(worker: WorkerUnderTest) -> None:
    job = worker.job("conformance.unknown")
    await worker.give(job)
    await until(
        lambda: any(
            claim == {"job_id": job["job_id"], "token": job["token"]}
            for poll in worker.master.polls
            for claim in poll.get("refused") or []
        ),
        "no call refuses it",
    )
    await worker.beats(1)
    seen = len(worker.master.polls)
    await until(lambda: len(worker.master.polls) >= seen + 2, "it asks for no jobs")
    expect(not worker.master.polls[-1].get("refused"), "it is refused again and again")


@TOPIC.question("drained", "a draining worker asks for no jobs, and asks again afterwards", is_timed=True)
async def _(worker: WorkerUnderTest) -> None:
    worker.master.script.drain = True
    await worker.beats(4)
    await asyncio.sleep(1.2)
    seen = len([poll for poll in worker.master.polls if not poll.get("withdraw")])
    await worker.beats(4)
    now = len([poll for poll in worker.master.polls if not poll.get("withdraw")])
    expect(now - seen <= 1, f"it asked {now - seen} times")
    worker.master.script.drain = False
    job = worker.job(argument=1)
    await worker.give(job)
    await worker.result_of(job)
