"""The content of one job as one caller sees it: hidden, redacted, and redacted values that error texts quote."""

from dataclasses import replace
from typing import Any

import msgpack
import pytest

from jqmaster.domain.content.content import HIDDEN, ContentAccess
from jqmaster.domain.content.job_content import GoneContent, JobContent, shown_error_type
from jqmaster.domain.content.redact import REDACTED, Redactor
from jqmaster.domain.jobs.job import Attempt, Job
from jqmaster.domain.jobs.unique import Unique
from tests.domain.why.test_verdict import JOB

pytestmark = pytest.mark.rule("E6.1")

PIN = "pin-4711"
ARGUMENT = {"card": {"pin": PIN, "name": "Ada"}, "n": 1}
BROKEN = b"\xc1"


def content(*redact_paths: str, is_granted: bool = True, **fields: Any) -> JobContent:
    fields = {"argument": msgpack.packb(ARGUMENT), "headers": {"token": "secret-7", "lang": "en"}, **fields}
    job: Job = replace(JOB, **fields)
    return JobContent(ContentAccess(is_granted, Redactor(redact_paths)), job)


def attempt(outcome: str = "failure", message: str | None = None, error: Any = None) -> Attempt:
    packed = None if error is None else msgpack.packb(error)
    return Attempt(1, "w", 1, 2, outcome, message, packed)


def unpacked(value: bytes | None) -> Any:
    return None if value is None else msgpack.unpackb(value)


def test_a_caller_without_the_right_sees_nothing() -> None:
    shown = content(is_granted=False)
    failed = attempt(message="pin-4711 refused", error={"type": "ValueError"})
    assert not shown.is_shown
    assert shown.argument() is None
    assert shown.headers() == {}
    assert shown.result(msgpack.packb({"result": 1})) is None
    assert shown.error(failed) is None
    assert shown.message(failed) is None
    assert shown.group_text("pin refused", failed) == HIDDEN
    assert shown.text("row 5") is None
    assert shown.value(msgpack.packb("row 5")) is None
    assert shown.part(msgpack.packb("row 5")) is None


@pytest.mark.req("D21", "S7")
def test_texts_and_keys_are_content_without_what_is_redacted() -> None:
    unique = Unique("0" * 32, f"card:{PIN}")
    assert content().text(f"row of {PIN}") == f"row of {PIN}"
    assert content("argument.card.pin").text(f"row of {PIN}") == f"row of {REDACTED}"
    assert content(unique=unique).unique_key() == f"card:{PIN}"
    assert content("argument.card.pin", unique=unique).unique_key() == f"card:{REDACTED}"
    assert content(is_granted=False, unique=unique).unique_key() == HIDDEN
    assert content(unique=Unique("0" * 32)).unique_key() is None
    assert content().unique_key() is None


@pytest.mark.req("M10")
def test_no_caller_sees_the_body_that_a_delivery_of_the_masters_sends() -> None:
    argument = msgpack.packb({"url": "https://shop.example/?key=1", "body": f"result {PIN}"})
    assert unpacked(content(name="jq.webhook", argument=argument).argument()) == REDACTED
    assert content(name="jq.webhook", argument=argument, is_granted=False).argument() is None
    assert unpacked(content(name="jqx.webhook", argument=argument).argument())["body"] == f"result {PIN}"


def test_values_for_people_are_content_without_what_is_redacted() -> None:
    meta = msgpack.packb({"order": [f"of {PIN}"], "n": 1})
    assert content().value(meta) == meta
    assert content("argument.none").value(BROKEN) == BROKEN
    redacted = content("argument.card.pin")
    assert unpacked(redacted.value(meta)) == {"order": [f"of {REDACTED}"], "n": 1}
    assert redacted.value(BROKEN) is None


def test_texts_of_the_master_are_shown_to_every_reader() -> None:
    lost = attempt("lost", "the worker was silent for 15 s")
    assert content(is_granted=False).message(lost) == "the worker was silent for 15 s"
    assert content("error.message").message(lost) == "the worker was silent for 15 s"
    assert content(is_granted=False).message(attempt("success")) is None


def test_without_redaction_everything_is_as_it_was_sent() -> None:
    shown, failed = content(), attempt(message="no", error={"message": "no"})
    assert shown.is_shown
    assert shown.argument() == msgpack.packb(ARGUMENT)
    assert shown.headers() == {"token": "secret-7", "lang": "en"}
    assert shown.result(msgpack.packb({"result": [1]})) == msgpack.packb({"result": [1]})
    assert shown.error(failed) == failed.error
    assert shown.message(failed) == "no"
    assert shown.group_text("no", failed) == "no"


def test_a_redacted_value_is_taken_out_of_the_texts_of_errors() -> None:
    shown = content("argument.card.pin", "headers.token")
    failed = attempt(
        message=f"{PIN} and secret-7 refused",
        error={"message": [f"bad {PIN}"], "depth": 2, "args": {"k": PIN}},
    )
    assert unpacked(shown.argument()) == {"card": {"pin": REDACTED, "name": "Ada"}, "n": 1}
    assert shown.headers() == {"token": REDACTED, "lang": "en"}
    assert shown.message(failed) == f"{REDACTED} and {REDACTED} refused"
    assert unpacked(shown.error(failed)) == {
        "message": [f"bad {REDACTED}"],
        "depth": 2,
        "args": {"k": REDACTED},
    }
    assert shown.group_text(f"{PIN} refused", None) == f"{REDACTED} refused"


def test_redacted_values_of_an_error_are_taken_out_of_its_message() -> None:
    failed = attempt(message="host db-9.example is away", error={"host": "db-9.example"})
    shown = content("error.host")
    assert unpacked(shown.error(failed)) == {"host": REDACTED}
    assert shown.message(failed) == f"host {REDACTED} is away"
    assert shown.group_text("host db-9.example is away", failed) == f"host {REDACTED} is away"


def test_the_message_of_a_failed_result_loses_what_is_redacted() -> None:
    stored = msgpack.packb({"error": {"text": f"{PIN}!"}, "message": f"{PIN} refused", "at": 5})
    assert unpacked(content("argument.card.pin").result(stored)) == {
        "error": {"text": f"{REDACTED}!"}, "message": f"{REDACTED} refused", "at": 5,
    }  # fmt: skip


def test_values_within_a_result_are_redacted_and_looked_for_in_its_texts() -> None:
    stored = msgpack.packb({"result": {"key": "k-123456"}, "message": "made k-123456"})
    assert unpacked(content("result.key").result(stored)) == {
        "result": {"key": REDACTED}, "message": f"made {REDACTED}",
    }  # fmt: skip
    assert unpacked(content("result.key").result(msgpack.packb({"message": "m"}))) == {"message": "m"}


def test_a_partial_result_is_redacted_like_a_result() -> None:
    part = msgpack.packb({"key": "k-123456", "text": f"made k-123456 with {PIN}"})
    assert unpacked(content("result.key", "argument.card.pin").part(part)) == {
        "key": REDACTED, "text": f"made {REDACTED} with {REDACTED}",
    }  # fmt: skip
    assert content().part(part) == part


@pytest.mark.req("D17")
def test_a_log_line_is_content_and_one_of_an_error_is_covered_as_its_text_is() -> None:
    assert content().log_line(f"row of {PIN}", is_error=True) == f"row of {PIN}"
    assert content("argument.card.pin").log_line(f"row of {PIN}", is_error=True) == f"row of {REDACTED}"
    assert content("error.message").log_line("no row", is_error=True) == REDACTED
    assert content("error.message").log_line("row 5", is_error=False) == "row 5"
    assert content(is_granted=False).log_line("row 5", is_error=True) is None


@pytest.mark.req("D17")
def test_a_log_line_of_a_job_that_is_gone_is_shown_to_those_who_may_see_jobs_of_its_name() -> None:
    def line(*paths: str, is_error: bool = False, names: str = "", is_granted: bool = False) -> str | None:
        access = ContentAccess(is_granted, Redactor(paths), lambda name: name == names)
        return GoneContent(access, "work").log_line("text", is_error=is_error)

    assert line(is_granted=True) == line(names="work") == "text"
    assert line() is line(is_error=True) is None
    assert line("error.message", is_granted=True) == "text"
    assert line("error.message", is_error=True, is_granted=True) == REDACTED
    assert line(is_error=True, names="work") == "text"


def test_redacting_the_message_of_errors_covers_every_copy() -> None:
    shown = content("error.message")
    failed = attempt(message="no", error={"message": "no"})
    assert shown.message(failed) == REDACTED
    assert shown.group_text("no", failed) == REDACTED
    assert unpacked(shown.result(msgpack.packb({"error": {"message": "no"}, "message": "no"}))) == {
        "error": {"message": REDACTED}, "message": REDACTED,
    }  # fmt: skip
    assert unpacked(shown.result(msgpack.packb({"result": 1}))) == {"result": 1}


@pytest.mark.parametrize("argument", [{"pin": b"pin-4711"}, {"pin": [PIN]}, {"pin": {PIN: 47}}])
def test_a_value_is_found_in_every_form_in_which_it_may_stand_in_a_text(argument: Any) -> None:
    shown = content("argument.pin", argument=msgpack.packb(argument))
    assert shown.message(attempt(message=f"{PIN} refused")) == f"{REDACTED} refused"


def test_quoted_forms_are_found_and_short_values_are_left() -> None:
    quoted = content(
        "argument.*", argument=msgpack.packb({"a": 'tab\t"here"', "b": True, "c": 1.5, "d": "abc"})
    )
    text = r"""tab\t\"here\" and 'tab\t"here"', True, 1.5, abc"""
    assert quoted.message(attempt(message=text)) == f"{REDACTED} and '{REDACTED}', True, 1.5, abc"


def test_a_value_that_cannot_be_decoded_is_not_shown_where_something_is_redacted() -> None:
    shown = content("argument.card.pin", "result.key", "error.host")
    damaged = replace(attempt(message="no"), error=BROKEN)
    assert shown.result(BROKEN) is None
    assert shown.result(msgpack.packb([1])) is None
    assert unpacked(shown.error(damaged)) == REDACTED
    assert shown.message(damaged) == "no"
    # Paths in the argument alone leave errors unchanged, unless they hold a redacted value.
    assert content("argument.card.pin").error(damaged) is None
    assert content("argument.none").error(damaged) == BROKEN


def test_the_type_of_an_exception_is_no_content_unless_it_is_redacted() -> None:
    failed = attempt(
        message="ValueError: no", error={"type": "ValueError", "message": "no", "traceback": "…"}
    )
    hidden = ContentAccess(False, Redactor(()))
    assert shown_error_type(hidden, failed) == "ValueError"
    assert shown_error_type(ContentAccess(True, Redactor(["error.type"])), failed) is None
