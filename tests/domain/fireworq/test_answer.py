"""The body of an endpoint's answer decides, as in Fireworq."""

import pytest

from jqmaster.domain.fireworq.answer import MAX_MESSAGE, EndpointVerdict, kept_verdict, payload_of, verdict_of
from tests.support.each import for_each

pytestmark = pytest.mark.req("J19")


@for_each(
    "body, status",
    [
        (b'{"status": "success", "message": "done"}', "success"),
        (b'{"status": "failure", "message": "done", "more": [1]}', "failure"),
        (b'{"status": "permanent-failure", "message": "done"}', "permanent-failure"),
    ],
)
def test_the_status_decides(body: bytes, status: str) -> None:
    assert verdict_of(body) == EndpointVerdict(status, "done")


@for_each(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b'"success"',
        b'{"status": 1}',
        b'{"status": "ok"}',
        b"{}",
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_anything_else_is_a_failure_that_may_be_retried(body: bytes) -> None:
    verdict = verdict_of(body)
    assert verdict.status == "failure"
    assert 0 < len(verdict.message) <= MAX_MESSAGE


@for_each("status", ["success", "failure", "permanent-failure", "no such status"])
def test_a_message_is_cut_where_it_enters(status: str) -> None:
    answer = b'{"status": "%b", "message": "%b"}' % (status.encode(), "é".encode() * 100_000)
    assert len(verdict_of(answer).message) <= MAX_MESSAGE


def test_a_failed_attempt_keeps_its_verdict() -> None:
    for status in ("failure", "permanent-failure"):
        verdict = EndpointVerdict(status, "busy")
        assert kept_verdict(verdict.code(503), "busy") == (verdict, 503)
    assert EndpointVerdict("success", "").code(200) == ""


@for_each("code", ["", "unreachable", "failure_", "status_500", "internal-failure_0"])
def test_an_attempt_without_an_answer_is_an_internal_failure(code: str) -> None:
    assert kept_verdict(code, "no route") == (EndpointVerdict("internal-failure", "no route"), 0)


def test_the_payload_is_sent_as_it_is_kept() -> None:
    assert payload_of({"payload": '{"a": 1.0}'}) == b'{"a": 1.0}'
    arguments: list[object] = [None, [], {}, {"payload": None}, {"payload": 5}]
    for argument in arguments:
        assert payload_of(argument) == b""
