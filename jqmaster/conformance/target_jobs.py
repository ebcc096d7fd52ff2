"""Questions about jobs that are delivered to an endpoint (docs/targets.md). The endpoint must accept jobs, even
repeated ones, and report how they ended."""

import asyncio
import json
import time
from typing import Final

from jqmaster.conformance.questions import Questions, SkippedError, expect, until
from jqmaster.conformance.target_under_test import TIMEOUT_S, TargetJob, TargetUnderTest, awaited_s

TOPIC: Final[Questions[TargetUnderTest]] = Questions("delivery")
_MANY: Final = 10


@TOPIC.question("done", "a job is answered with success before its deadline")
async def _(target: TargetUnderTest) -> None:
    began_s = time.monotonic()
    target.expect_done(await target.deliver())
    took_s = time.monotonic() - began_s
    expect(took_s < TIMEOUT_S, f"the answer took {took_s:.1f} s")


@TOPIC.question("result", "the body of a success is the result as JSON, or it is empty")
async def _(target: TargetUnderTest) -> None:
    answer = await target.deliver()
    target.expect_done(answer)
    if answer.body:
        try:
            json.loads(answer.body)
        except ValueError:
            raise SkippedError("it is text, so the job succeeds without a result") from None


@TOPIC.question(
    "again",
    "a repeated job with the same Idempotency-Key is answered with success again, because masters deliver "
    "at least once",
)
async def _(target: TargetUnderTest) -> None:
    job = TargetJob()
    first = await target.deliver(job)
    target.expect_done(first)
    second = await target.deliver(job.again())
    target.expect_done(second)
    is_later = (awaited_s(first) is not None, awaited_s(second) is not None)
    expect(is_later[0] == is_later[1], "one of the two answers announces a callback, and the other does not")


@TOPIC.question(
    "at_once",
    (
        "if the same job arrives twice at the same time, each is answered with success, or with a "
        "request to wait"
    ),
)
async def _(target: TargetUnderTest) -> None:
    job = TargetJob()
    for answer in await asyncio.gather(target.deliver(job), target.deliver(job.again())):
        expect(
            200 <= answer.status < 300 or answer.status in (409, 429, 503),
            f"one of the two was answered {answer.status}, which a master counts as a failure for good",
        )


@TOPIC.question("many", "several jobs at once are answered, each with success or with a request to wait")
async def _(target: TargetUnderTest) -> None:
    answers = await asyncio.gather(*(target.deliver() for _ in range(_MANY)))
    wrong = [
        answer.status for answer in answers if not (200 <= answer.status < 300 or answer.status in (429, 503))
    ]
    expect(not wrong, f"some were answered {sorted(set(wrong))}")


@TOPIC.question(
    "callback", "a 202 with JQ-Await is followed by a call to JQ-Callback-Url, with JSON", is_timed=True
)
async def _(target: TargetUnderTest) -> None:
    job = TargetJob()
    answer = await target.deliver(job)
    target.expect_done(answer)
    seconds = awaited_s(answer)
    if seconds is None:
        raise SkippedError("it answers at once, without JQ-Await")
    await until(lambda: job.id in target.callbacks, "no callback came", timeout_s=min(seconds, 45.0))
    callback = target.callbacks[job.id]
    expect(callback.first[0] == "POST", f"the callback was a {callback.first[0]}")
    if callback.body:
        try:
            json.loads(callback.body)
        except ValueError:
            expect(False, "the body of the callback is not JSON")


@TOPIC.question("future_fields", "unknown header fields and members are ignored")
async def _(target: TargetUnderTest) -> None:
    job = TargetJob()
    fields = {"JQ-Of-Tomorrow": "1", "X-Forwarded-For": "192.0.2.1"}
    target.expect_done(await target.deliver(job, body=target.body(job, of_tomorrow={"a": 1}), fields=fields))


@TOPIC.question(
    "keep_alive",
    (
        "several jobs are answered on one connection, or the endpoint announces and "
        "closes the connection correctly"
    ),
)
async def _(target: TargetUnderTest) -> None:
    connection, path = await target.connect()
    try:
        for number in range(3):
            job = TargetJob()
            body = target.body(job)
            await connection.send(target.head(connection, path, target.fields(job, body), body) + body)
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    answer = await connection.answer()
            except EOFError:
                expect(
                    False, f"request {number + 1} was not answered, although no answer said Connection: close"
                )
            target.expect_done(answer)
            said = answer.fields.get("connection", "").lower()
            if said == "close" or (answer.first[0] == "HTTP/1.0" and said != "keep-alive"):
                return
    finally:
        await connection.close()


@TOPIC.question("pieces", "a request that arrives in pieces is read completely")
async def _(target: TargetUnderTest) -> None:
    connection, path = await target.connect()
    try:
        job = TargetJob()
        body = target.body(job)
        whole = target.head(connection, path, target.fields(job, body), body) + body
        for start in range(0, len(whole), max(1, len(whole) // 5)):
            await connection.send(whole[start : start + max(1, len(whole) // 5)])
            await asyncio.sleep(0.05)
        async with asyncio.timeout(TIMEOUT_S):
            target.expect_done(await connection.answer())
    finally:
        await connection.close()


@TOPIC.question(
    "broken", "a body that is not JSON is refused for good (400 or 422), and not answered with success"
)
async def _(target: TargetUnderTest) -> None:
    target.expect_refused(await target.deliver(body=b'{"broken": '))
