"""Registration and the proof of address (docs/worker_protocol.md, section 1)."""

import asyncio
from typing import Any, Final

from jqmaster.conformance import known_fields
from jqmaster.conformance.questions import Questions, WorkerMode, expect, until
from jqmaster.conformance.raw_http import RawMessage, call
from jqmaster.conformance.wire import MSGPACK, decode, encode, proof_of
from jqmaster.conformance.worker_under_test import NAMES, WorkerUnderTest

TOPIC: Final[Questions[WorkerUnderTest]] = Questions("register")


@TOPIC.question(
    "form", "the registration has the fields that masters require, in the right form; texts are not binary"
)
async def _(worker: WorkerUnderTest) -> None:
    body = worker.master.worker.body
    for name, kind in {"names": list, "max_jobs": int, "secret": str}.items():
        expect(
            type(body.get(name)) is kind, f"`{name}` is {type(body.get(name)).__name__}, not {kind.__name__}"
        )
    expect("url" in body, "`url` is missing; a worker that pulls sends null")
    for name, kind in {"node_id": str, "pid": int, "version": str, "labels": dict}.items():
        expect(name not in body or type(body[name]) is kind, f"`{name}` is not {kind.__name__}")
    unknown = set(body) - known_fields.REGISTRATION
    expect(not unknown, f"unknown fields: {sorted(unknown)}")
    expect(32 <= len(body["secret"]) <= 128, "`secret` must have 32 to 128 characters")
    missing = set(NAMES) - set(body["names"])
    expect(not missing, f"the kit needs handlers for {', '.join(sorted(missing))}")
    expect(body["max_jobs"] >= 2, "the kit needs max_jobs of at least 2")


@TOPIC.question("again", "a registration that is refused with 503 is tried again")
async def _(worker: WorkerUnderTest) -> None:
    # The kit refused the first registration. Without a second try, the worker would not be registered now.
    expect(not worker.master.refusals, "the worker registered at once")


@TOPIC.question("proof", "the address is proven with the HMAC of the nonce, in text", WorkerMode.PUSH)
async def _(worker: WorkerUnderTest) -> None:
    expect(not worker.master.worker.proof_error, worker.master.worker.proof_error)
    for nonce in ("a" * 16, "Z" * 128, "-_-_-_-_-_-_-_-_-_0123456789"):
        answer = await _challenge(worker, {"nonce": nonce})
        expect(answer.status == 200, f"a challenge was answered {answer.status}")
        expect(
            decode(answer.body, MSGPACK).get("proof") == proof_of(worker.secret, nonce), "the proof is wrong"
        )


_BAD_NONCES: Final[dict[str, Any]] = {
    "short": "a" * 15,
    "long": "a" * 129,
    "line_feed": "POST\n/jobs\n" + "a" * 20,
    "space": "a b" * 10,
    "not_ascii": "ä" * 20,
    "not_text": 12345678901234567890 % 2**60,
}


def _bad_nonce(name: str, nonce: Any) -> None:
    @TOPIC.question(
        f"nonce_{name}",
        f"a nonce that is not of the form ({name.replace('_', ' ')}) is answered 422 and not signed",
        WorkerMode.PUSH,
    )
    async def _(worker: WorkerUnderTest) -> None:
        answer = await _challenge(worker, {"nonce": nonce})
        expect(answer.status == 422, f"answered {answer.status}")
        expect(proof_of(worker.secret, str(nonce)).encode() not in answer.body, "the answer holds a proof")


for _name, _nonce in _BAD_NONCES.items():
    _bad_nonce(_name, _nonce)


@TOPIC.question("nonce_missing", "a challenge without a nonce is answered 422", WorkerMode.PUSH)
async def _(worker: WorkerUnderTest) -> None:
    for body in ({}, {"nonce": None}, {"nonce": b"a" * 16}):
        answer = await _challenge(worker, body)
        expect(answer.status == 422, f"{body} was answered {answer.status}")


@TOPIC.question(
    "challenge_garbage", "a challenge that is not MessagePack is answered 400 or 422", WorkerMode.PUSH
)
async def _(worker: WorkerUnderTest) -> None:
    answer = await call("POST", f"{worker.url}/challenge", fields={"Content-Type": MSGPACK}, body=b"\xc1\xff")
    expect(answer.status in (400, 422), f"answered {answer.status}")


@TOPIC.question(
    "overtaken", "a signed call that overtakes the answer to the registration waits for it", WorkerMode.PUSH
)
async def _(worker: WorkerUnderTest) -> None:
    # Make the worker register again, and hold back the answer to its registration.
    known, master = len(worker.master.registrations), worker.master
    master.hold_registration = asyncio.Event()
    try:
        master.script.beats = "unknown"
        await until(lambda: len(master.registrations) > known, "it did not register again", timeout_s=20)
        status = asyncio.create_task(worker.send("GET", "/status"))
        await asyncio.sleep(0.3)
        master.hold_registration.set()
        answer = await status
        expect(answer.status == 200, f"it was answered {answer.status}")
    finally:
        master.hold_registration.set()
        master.hold_registration = None


async def _challenge(worker: WorkerUnderTest, body: Any) -> RawMessage:
    return await call(
        "POST", f"{worker.url}/challenge", fields={"Content-Type": MSGPACK}, body=encode(body, MSGPACK)
    )
