"""Signatures (docs/worker_protocol.md, section 2)."""

import secrets
import time
from typing import Final

from jqmaster.conformance.questions import Questions, WorkerMode, expect, remains
from jqmaster.conformance.wire import MSGPACK, encode
from jqmaster.conformance.worker_under_test import WorkerUnderTest

TOPIC: Final[Questions[WorkerUnderTest]] = Questions("signature", WorkerMode.PUSH)


@TOPIC.question("right", "a call that is signed correctly is answered")
async def _(worker: WorkerUnderTest) -> None:
    answer = await worker.send("GET", "/status")
    expect(answer.status == 200, f"GET /status was answered {answer.status}")


for _field in ("X-JQ-Worker", "X-JQ-Timestamp", "X-JQ-Nonce", "X-JQ-Signature"):

    def _without(field: str) -> None:
        @TOPIC.question(f"no_{field[5:].lower()}", f"a call without {field} is refused, and nothing starts")
        async def _(worker: WorkerUnderTest) -> None:
            job = worker.job()
            body = worker.body_of(job)
            fields = worker.headers("POST", "/jobs", body)
            del fields[field]
            answer = await worker.send("POST", "/jobs", body, fields=fields)
            expect(
                (answer.status, answer.body) == (401, b""),
                f"answered {answer.status} with {len(answer.body)} bytes",
            )
            await remains(lambda: not worker.was_accepted(job), "the job was started", 2 * worker.beat_s)

    _without(_field)


def _refuses_bad_signature(name: str, text: str, **other: str) -> None:
    @TOPIC.question(name, text)
    async def _(worker: WorkerUnderTest) -> None:
        job = worker.job()
        body = worker.body_of(job)
        fields = worker.headers("POST", "/jobs", body)
        wrong = worker.headers(
            "POST", "/jobs", body, timestamp=fields["X-JQ-Timestamp"], nonce=fields["X-JQ-Nonce"], **other
        )
        answer = await worker.send(
            "POST", "/jobs", body, fields={**fields, "X-JQ-Signature": wrong["X-JQ-Signature"]}
        )
        expect(
            (answer.status, answer.body) == (401, b""),
            f"answered {answer.status} with {len(answer.body)} bytes",
        )
        await remains(lambda: not worker.was_accepted(job), "the job was started", 2 * worker.beat_s)


_refuses_bad_signature("other_secret", "a signature under another secret is refused", secret="x" * 40)
_refuses_bad_signature("other_method", "a signature of another method is refused", method="GET")
_refuses_bad_signature("other_path", "a signature of another path is refused", path="/status")
_refuses_bad_signature("other_body", "a signature of another body is refused", signed_body="another")
_refuses_bad_signature(
    "other_worker",
    "a signature for another worker is refused",
    worker_id="0198c3f4-5e6a-7b8c-9d0e-000000000001",
)


@TOPIC.question("wrong_worker", "a call to another worker's ID is refused, signed correctly or not")
async def _(worker: WorkerUnderTest) -> None:
    body = worker.body_of(worker.job())
    fields = worker.headers("POST", "/jobs", body, worker_id="0198c3f4-5e6a-7b8c-9d0e-000000000001")
    answer = await worker.send("POST", "/jobs", body, fields=fields)
    expect((answer.status, answer.body) == (401, b""), f"answered {answer.status}")


@TOPIC.question("moved", "a signature that was made for another timestamp or nonce is refused")
async def _(worker: WorkerUnderTest) -> None:
    body = worker.body_of(worker.job())
    for name, value in {
        "X-JQ-Timestamp": str(time.time_ns() // 1_000_000 + 1000),
        "X-JQ-Nonce": secrets.token_urlsafe(16),
    }.items():
        fields = {**worker.headers("POST", "/jobs", body), name: value}
        answer = await worker.send("POST", "/jobs", body, fields=fields)
        expect(answer.status == 401, f"another {name} was answered {answer.status}")


@TOPIC.question("form", "a signature in another form (no v1=, cut short, not hex) is refused")
async def _(worker: WorkerUnderTest) -> None:
    for change in (
        lambda s: s[3:],
        lambda s: s[:-2],
        lambda s: "v1=" + "g" * 64,
        lambda s: "v2=" + s[3:],
        lambda _: "v1=",
    ):
        fields = worker.headers("GET", "/status", b"")
        fields["X-JQ-Signature"] = change(fields["X-JQ-Signature"])
        answer = await worker.send("GET", "/status", fields=fields)
        expect(answer.status == 401, f"{fields['X-JQ-Signature'][:8]}… was answered {answer.status}")


def _dated(name: str, text: str, shift_ms: int) -> None:
    @TOPIC.question(name, text)
    async def _(worker: WorkerUnderTest) -> None:
        timestamp = str(time.time_ns() // 1_000_000 + shift_ms)
        answer = await worker.send(
            "GET", "/status", fields=worker.headers("GET", "/status", b"", timestamp=timestamp)
        )
        expect(answer.status == 401, f"answered {answer.status}")


_dated("old", "a signature that is 310 s old is refused", -310_000)
_dated("ahead", "a signature that is 310 s ahead is refused", 310_000)


@TOPIC.question("timestamp_form", "a timestamp that is not a number is refused")
async def _(worker: WorkerUnderTest) -> None:
    for timestamp in ("yesterday", "-1", "1e12", str(time.time())):
        answer = await worker.send(
            "GET", "/status", fields=worker.headers("GET", "/status", b"", timestamp=timestamp)
        )
        expect(answer.status == 401, f"{timestamp} was answered {answer.status}")


@TOPIC.question(
    "slightly_off", ("a signature that is 240 s old or 240 s ahead is accepted, because clocks differ")
)
async def _(worker: WorkerUnderTest) -> None:
    for shift_ms in (-240_000, 240_000):
        timestamp = str(time.time_ns() // 1_000_000 + shift_ms)
        answer = await worker.send(
            "GET", "/status", fields=worker.headers("GET", "/status", b"", timestamp=timestamp)
        )
        expect(answer.status == 200, f"answered {answer.status}")


@TOPIC.question("replay", "the same signed call again is refused")
async def _(worker: WorkerUnderTest) -> None:
    body = encode({"epoch": worker.master.epoch}, MSGPACK)
    fields = worker.headers("POST", "/resume", body)
    first = await worker.send("POST", "/resume", body, fields=fields)
    expect(first.status == 200, f"the first was answered {first.status}")
    for _ in range(2):
        again = await worker.send("POST", "/resume", body, fields=fields)
        expect(again.status == 401, f"the second was answered {again.status}")


@TOPIC.question("nonce_of_a_forgery", "a forged call does not use up the nonce of a valid call")
async def _(worker: WorkerUnderTest) -> None:
    fields = worker.headers("GET", "/status", b"")
    forged = await worker.send("GET", "/status", fields={**fields, "X-JQ-Signature": "v1=" + "0" * 64})
    expect(forged.status == 401, f"the forged call was answered {forged.status}")
    answer = await worker.send("GET", "/status", fields=fields)
    expect(answer.status == 200, f"the right one was answered {answer.status}")
