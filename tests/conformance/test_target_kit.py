"""The kit for HTTP endpoints: a good one passes, and each fault is found."""

import base64
import contextlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from jqmaster.conformance.raw_http import RawMessage, RawReply, Server, call
from jqmaster.conformance.target_kit import QUESTIONS, ask_target
from tests.support.each import for_each
from tests.support.webhook_receiver import FORMER_SECRET, SECRET

pytestmark = pytest.mark.req("M13", "J11")

Serve = Callable[[RawMessage], RawReply | None]


def is_signed(message: RawMessage, secret: str = SECRET) -> bool:
    """Return whether a request is signed, as an endpoint checks it."""
    fields = message.fields
    at = fields.get("webhook-timestamp", "0")
    if not at.isdigit() or abs(time.time() - int(at)) > 300:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{fields.get('webhook-id', '')}.{at}.".encode() + message.body
    expected = base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
    given = [one.partition(",") for one in fields.get("webhook-signature", "").split(" ")]
    return any(version == "v1" and hmac.compare_digest(value, expected) for version, _, value in given)


def good(message: RawMessage) -> RawReply:
    if not is_signed(message):
        return RawReply(401)
    try:
        argument = json.loads(message.body)
    except ValueError:
        return RawReply(400)
    return RawReply(200, json.dumps({"echo": argument}).encode(), "application/json")


@contextlib.asynccontextmanager
async def endpoint(serve: Serve) -> AsyncIterator[str]:
    async def served(message: RawMessage) -> RawReply | None:
        return serve(message)

    server = Server(served)
    port = await server.start("127.0.0.1", 0)
    yield f"http://127.0.0.1:{port}/jobs?key=1"
    await server.stop()


async def asked(serve: Serve, **options: Any) -> dict[str, tuple[str, str]]:
    """Return the outcome and the detail of each question."""
    async with endpoint(serve) as url:
        given = {"name": "mail.send", "argument": {"to": "ann"}, "secret": SECRET, **options}
        results = await ask_target(url, **given)
    return {result.id: (str(result.outcome), result.detail) for result in results}


async def test_a_good_endpoint_passes() -> None:
    for options in ({}, {"has_envelope": True}, {"method": "PUT"}):
        found = await asked(good, **options)
        skipped = {name for name, (outcome, _) in found.items() if outcome == "skipped"}
        assert skipped == {"delivery.callback"}
        assert {name: end for name, end in found.items() if end[0] == "failed"} == {}
        assert len(found) == len(QUESTIONS) + 1


async def test_without_a_secret_nothing_is_asked_about_signatures() -> None:
    def serve(message: RawMessage) -> RawReply:
        try:
            json.loads(message.body)
        except ValueError:
            return RawReply(422)
        return RawReply(204)

    found = await asked(serve, secret=None)
    assert {outcome for name, (outcome, _) in found.items() if name.startswith("signature.")} == {"skipped"}
    assert "failed" not in {outcome for outcome, _ in found.values()}


@for_each(
    "fault, serve, question",
    [
        ("it checks no signatures", lambda m: RawReply(200 if m.body[:4] == b'{"to' else 400), "signature.wrong"),
        ("it keeps an old secret", lambda m: RawReply(200 if is_signed(m, FORMER_SECRET) else 401), "signature.right"),
        ("it refuses with a redirect", lambda m: RawReply(302, fields={"Location": "/login"}), "answers.form"),
        ("it fails", lambda m: RawReply(500, b"oops"), "delivery.done"),
        ("it promises JSON", lambda m: RawReply(200, b"done", "application/json"), "answers.form"),
        ("it takes anything", lambda m: RawReply(204), "delivery.broken"),
        ("it asks for time unreadably", lambda m: RawReply(503, fields={"Retry-After": "soon"}), "answers.form"),
        ("its wait is no number", lambda m: RawReply(202, fields={"JQ-Await": "long"}), "delivery.callback"),
    ],
)  # fmt: skip
async def test_a_fault_is_found(fault: str, serve: Serve, question: str) -> None:
    found = await asked(serve, only=[question] if question != "answers.form" else ["delivery.done"])
    assert found[question][0] == "failed", (fault, found)


async def test_a_text_is_no_result_and_no_fault() -> None:
    found = await asked(lambda m: RawReply(200, b"done", "text/plain"), only=["delivery.result"])
    assert [outcome for outcome, _ in found.values()] == ["skipped", "passed"]


async def test_a_job_that_is_refused_the_second_time_is_found() -> None:
    seen: set[str] = set()

    def serve(message: RawMessage) -> RawReply:
        key = message.fields["idempotency-key"]
        is_known = key in seen
        seen.add(key)
        return RawReply(422 if is_known else 200)

    found = await asked(serve, only=["delivery.again", "delivery.at_once"])
    assert [outcome for outcome, _ in found.values()] == ["failed", "failed", "passed"]


async def test_a_callback_is_awaited() -> None:
    async def served(message: RawMessage) -> RawReply:
        await call(
            "POST",
            message.fields["jq-callback-url"],
            fields={"Content-Type": "application/json"},
            body=b'{"rows": 3}',
        )
        return RawReply(202, fields={"JQ-Await": "30"})

    server = Server(served)
    port = await server.start("127.0.0.1", 0)
    results = await ask_target(
        f"http://127.0.0.1:{port}/", name="n", argument=None, secret=None, only=["delivery.callback"]
    )
    await server.stop()
    assert [str(result.outcome) for result in results] == ["passed", "passed"]


async def test_a_closed_connection_and_nobody_are_told() -> None:
    found = await asked(lambda message: None, only=["delivery.done"])
    assert found["delivery.done"][0] == "failed"
    with pytest.raises(OSError):
        await ask_target("http://127.0.0.1:9/", name="n", argument=None, secret=None)
    with pytest.raises(ValueError, match="base64"):
        await ask_target("http://127.0.0.1:9/", name="n", argument=None, secret="whsec_?")


def test_the_page_names_the_command() -> None:
    pages = Path(__file__).parents[2] / "docs"
    assert "jqmaster conformance target" in (pages / "ways_to_work.md").read_text()
