"""The signature of a request according to Standard Webhooks. An endpoint on the internet must not act on requests
of unknown callers."""

import time
from typing import Final

from jqmaster.conformance.questions import Questions
from jqmaster.conformance.target_under_test import TargetJob, TargetUnderTest, other_secret, signature_of

TOPIC: Final[Questions[TargetUnderTest]] = Questions("signature")
_HOUR_S: Final = 3600


@TOPIC.question("right", "a request that is signed correctly is answered with success")
async def _(target: TargetUnderTest) -> None:
    target.need_secret()
    target.expect_done(await target.deliver())


@TOPIC.question("missing", "a request without a signature is refused")
async def _(target: TargetUnderTest) -> None:
    target.need_secret()
    job = TargetJob()
    body = target.body(job)
    fields = {
        name: value for name, value in target.fields(job, body).items() if not name.startswith("webhook-")
    }
    target.expect_refused(await target.send(body, fields))


@TOPIC.question("wrong", "a signature by another secret is refused")
async def _(target: TargetUnderTest) -> None:
    target.need_secret()
    job = TargetJob()
    body = target.body(job)
    target.expect_refused(await target.send(body, target.fields(job, body, secret=other_secret())))


@TOPIC.question("other_body", "a signature that was made for another body is refused")
async def _(target: TargetUnderTest) -> None:
    target.need_secret()
    job = TargetJob()
    body = target.body(job)
    # Send the same JSON as other bytes.
    target.expect_refused(await target.send(body + b" ", target.fields(job, body)))


@TOPIC.question("other_id", "a signature that was made for another webhook-id is refused")
async def _(target: TargetUnderTest) -> None:
    target.need_secret()
    job = TargetJob()
    body = target.body(job)
    target.expect_refused(await target.send(body, target.fields(job, body) | {"webhook-id": TargetJob().id}))


@TOPIC.question(
    "old",
    (
        "a request that was signed an hour ago or an hour in the future is refused, because it may be a "
        "recorded copy"
    ),
)
async def _(target: TargetUnderTest) -> None:
    target.need_secret()
    for at_s in (time.time() - _HOUR_S, time.time() + _HOUR_S):
        job = TargetJob()
        body = target.body(job)
        target.expect_refused(await target.send(body, target.fields(job, body, at_s=at_s)))


@TOPIC.question(
    "rotation",
    ("one valid signature among several is enough, at any position, because secrets are replaced over time"),
)
async def _(target: TargetUnderTest) -> None:
    secret = target.need_secret()
    for order in (1, -1):
        job = TargetJob()
        body, at_s = target.body(job), int(time.time())
        both = [signature_of(one, job.id, at_s, body) for one in (other_secret(), secret)]
        fields = target.fields(job, body, at_s=at_s) | {"webhook-signature": " ".join(both[::order])}
        target.expect_done(await target.send(body, fields))


@TOPIC.question("future_version", "a signature of an unknown version next to the valid one is ignored")
async def _(target: TargetUnderTest) -> None:
    secret = target.need_secret()
    job = TargetJob()
    body, at_s = target.body(job), int(time.time())
    signature = f"v9,bm90IG9mIHRvZGF5 {signature_of(secret, job.id, at_s, body)}"
    target.expect_done(
        await target.send(body, target.fields(job, body, at_s=at_s) | {"webhook-signature": signature})
    )
