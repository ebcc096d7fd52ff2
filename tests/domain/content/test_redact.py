"""Redaction removes what its paths name, and leaves every other byte unchanged."""

from typing import Any

import msgpack
import pytest

from jqmaster.domain.content.redact import REDACTED, Redactor, redactor_of

CARD = {"card": {"number": "4111", "name": "Ada"}, "items": [{"pin": 1, "n": 2}, {"pin": 3}], "pin": 4}


@pytest.mark.rule("E6.1")
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("argument.card.number", {**CARD, "card": {"number": REDACTED, "name": "Ada"}}),
        ("argument.card", {**CARD, "card": REDACTED}),
        ("argument.card.*", {**CARD, "card": {"number": REDACTED, "name": REDACTED}}),
        ("argument.items.0.pin", {**CARD, "items": [{"pin": REDACTED, "n": 2}, {"pin": 3}]}),
        ("argument.items.*.pin", {**CARD, "items": [{"pin": REDACTED, "n": 2}, {"pin": REDACTED}]}),
        (
            "argument.**.pin",
            {**CARD, "items": [{"pin": REDACTED, "n": 2}, {"pin": REDACTED}], "pin": REDACTED},
        ),
    ],
)
def test_a_path_takes_out_what_stands_there(path: str, expected: Any) -> None:
    redacted = Redactor([path]).encoded("argument", msgpack.packb(CARD))
    assert msgpack.unpackb(redacted) == expected


@pytest.mark.rule("E6.1")
def test_values_that_no_path_names_stay_unchanged() -> None:
    odd = {
        b"k": msgpack.ExtType(5, b"x"), 7: [msgpack.Timestamp(1, 5), b"\xff", None, 1.5], "pin": 1, "t": "\udcff",
    }  # fmt: skip
    encoded = msgpack.packb(odd, unicode_errors="surrogateescape")
    for path in ("argument.nothing", "argument.7.9", "argument.t.x", "result.pin"):
        assert Redactor([path]).encoded("argument", encoded) is encoded
    redacted = Redactor(["argument.pin"]).encoded("argument", encoded)
    assert redacted == msgpack.packb({**odd, "pin": REDACTED}, unicode_errors="surrogateescape")
    assert Redactor(["argument.7.0"]).encoded("argument", encoded) != encoded
    scalars: tuple[object, ...] = (None, 1, "x", [], {})
    for scalar in scalars:
        assert Redactor(["argument.**.a"]).encoded("argument", msgpack.packb(scalar)) == msgpack.packb(scalar)


@pytest.mark.rule("E6.1")
@pytest.mark.parametrize(
    "broken", [b"\xc7\x00\x80", b"\x81\xa1a\xd4\xfe\x00", b"\xc1", b"", b"\x92\x01", b"\xdd\xff\xff\xff\xff"]
)
def test_undecodable_content_is_hidden_whole(broken: bytes) -> None:
    hidden = msgpack.packb(REDACTED)
    redactor = Redactor(["argument.a", "result.**.a"])
    assert redactor.encoded("argument", broken) == hidden
    assert redactor.encoded("error", broken) is broken, "no path looks into it"
    assert redactor.within("result", b"\xc1") == hidden


@pytest.mark.rule("E6.1")
def test_only_the_undecodable_member_of_a_map_is_hidden() -> None:
    result = b"\x82\xa4type\xa7success\xa6result\x81\xa1a\xd4\xfe\x00"
    assert msgpack.unpackb(Redactor(["result.a"]).within("result", result)) == {
        "type": "success", "result": REDACTED,
    }  # fmt: skip
    assert Redactor(["error.a"]).within("error", result) == result


def test_headers_are_named_whatever_their_case() -> None:
    redactor = Redactor(["headers.x-api.key"])
    assert redactor.headers({"X-Api.Key": "s", "trace": "t"}) == {"X-Api.Key": REDACTED, "trace": "t"}
    assert Redactor(["headers.*"]).headers({"a": "b"}) == {"a": REDACTED}
    assert Redactor([]).headers({"a": "b"}) == {"a": "b"}


@pytest.mark.parametrize(
    "path", ["", "argument", "argument.", "argument..a", "name.x", "argument.**", "argument.**.a.**.b",
        "result." + "a." * 20 + "b"]
)  # fmt: skip
def test_a_faulty_path_is_named(path: str) -> None:
    with pytest.raises(ValueError, match=r"expected|may occur"):
        Redactor([path])


@pytest.mark.rule("E6.1")
@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("argument.card.number", ["4111"]),
        ("argument.card.*", ["4111", "Ada"]),
        ("argument.items.1.pin", [3]),
        ("argument.**.pin", [4, 1, 3]),
        ("argument.pin.deeper", []),
        ("result.pin", []),
    ],
)
def test_the_redacted_parts_of_a_value_are_found(path: str, found: list[object]) -> None:
    assert sorted(map(str, Redactor([path]).found("argument", CARD))) == sorted(map(str, found))


@pytest.mark.rule("E6.1")
def test_roots_tell_whether_anything_below_them_is_redacted() -> None:
    redactor = Redactor(["argument.**.pin", "error.sql"])
    assert redactor.has("result", "error")
    assert not redactor.has("result", "headers", "name")
    assert redactor.reaches_any_depth("argument")
    assert not redactor.reaches_any_depth("error")
    assert redactor_of(("error.sql",)) is redactor_of(("error.sql",))


@pytest.mark.rule("E6.1")
def test_a_member_that_cannot_be_decoded_is_hidden_also_where_the_map_cannot_be_read() -> None:
    assert msgpack.unpackb(Redactor(["result.a"]).within("result", b"\x81\xa6result\xc1")) == REDACTED
