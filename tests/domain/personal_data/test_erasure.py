"""Erasing parts of values, results and errors leaves everything else in place."""

from typing import Any

import msgpack
import pytest

from jqmaster.domain.jobs.job import Attempt
from jqmaster.domain.matching.paths import Path, parse_path
from jqmaster.domain.personal_data import erasure
from tests.support.each import for_each

pytestmark = pytest.mark.req("D21")


def path(text: str) -> Path:
    return parse_path(text)


@for_each(
    "paths, left",
    [
        (["argument"], "[erased]"),
        (["argument.to.email"], {"to": {"email": "[erased]", "id": 7}, "list": [1, 2]}),
        (["argument.list[1]"], {"to": {"email": "e", "id": 7}, "list": [1, "[erased]"]}),
        (["argument.to", "argument.to.email"], {"to": "[erased]", "list": [1, 2]}),
    ],
)
def test_values_are_replaced_and_all_else_stays(paths: list[str], left: Any) -> None:
    value = msgpack.packb({"to": {"email": "e", "id": 7}, "list": [1, 2]})
    assert msgpack.unpackb(erasure.without_values(value, list(map(path, paths)))) == left


@for_each("missing", ["argument.a", "argument.to.email.x", "argument.list[2]", "argument.list.x"])
def test_a_missing_value_is_not_erased(missing: str) -> None:
    with pytest.raises(KeyError):
        erasure.without_values(msgpack.packb({"to": {"email": "e"}, "list": [1, 2]}), [path(missing)])


def test_undecodable_bytes_are_passed_through_or_refused() -> None:
    instant = msgpack.packb({"at": msgpack.Timestamp(1, 5), "raw": msgpack.ExtType(9, b"x"), "e": 1})
    left = msgpack.unpackb(erasure.without_values(instant, [path("argument.e")]), timestamp=0)
    assert left == {"at": msgpack.Timestamp(1, 5), "raw": msgpack.ExtType(9, b"x"), "e": "[erased]"}
    with pytest.raises(ValueError, match="not a value"):
        erasure.without_values(b"\xc1", [path("argument")])


def test_an_error_keeps_its_type_alone() -> None:
    error = msgpack.packb({"type": "CardDeclined", "message": "José", "traceback": "José"})
    message, kept = erasure.attempt_without_error(
        Attempt(1, "", 0, 0, "failure", "CardDeclined: José", error)
    )
    assert (message, msgpack.unpackb(kept or b"")) == (
        "[erased]", {"type": "CardDeclined", "message": "[erased]"},
    )  # fmt: skip
    for other in (b"\xc1", msgpack.packb("José"), None):
        assert erasure.attempt_without_error(Attempt(1, "", 0, 0, "lost", None, other)) == ("", None)


def test_a_result_loses_a_value_or_its_error() -> None:
    success = msgpack.packb({"type": "success", "finished_at": "t", "result": {"email": "e", "yen": 3}})
    (email,) = [Path("result", ("email",))]
    left = msgpack.unpackb(erasure.result_without_values(success, [email]))
    assert left == {"type": "success", "finished_at": "t", "result": {"email": "[erased]", "yen": 3}}
    assert erasure.result_without_error(success) == success
    failure = msgpack.packb({"type": "failure", "message": "José", "error": {"type": "E", "message": "José"}})
    assert msgpack.unpackb(erasure.result_without_error(failure)) == {
        "type": "failure", "message": "[erased]", "error": {"type": "E", "message": "[erased]"},
    }  # fmt: skip
    assert erasure.result_without_error(b"\xc1") == b"\xc1"
