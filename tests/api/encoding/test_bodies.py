"""Bodies: types, sizes, envelopes with raw fields, JSON, answers."""

import base64
import json
import math
import tracemalloc
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jqmaster.api.encoding.bodies import (
    MAX_JSON_NODES,
    Encoding,
    NotAcceptableError,
    RawMsgpack,
    encode,
    join_fields,
    json_to_msgpack,
    negotiate,
    read_body,
    read_list_of_maps,
    read_map,
    request_encoding,
)
from jqmaster.api.encoding.validator import ScanLimits
from jqmaster.errors import (
    FieldError,
    InvalidError,
    TooLargeError,
    UnparsableError,
    UnsupportedMediaTypeError,
)

LIMITS = ScanLimits(max_nesting=32, max_nodes=1_000)
ARGUMENT = frozenset({"argument"})
MSGPACK = {b"content-type": b"application/msgpack"}


def feed(*chunks: bytes, ends: bool = True) -> Callable[[], Awaitable[dict[str, Any]]]:
    """An ASGI receive; without `ends` the client goes away."""
    messages: list[dict[str, Any]] = [
        {"type": "http.request", "body": chunk, "more_body": not ends or n < len(chunks) - 1}
        for n, chunk in enumerate(chunks)
    ]
    messages.append({"type": "http.disconnect"})

    async def receive() -> dict[str, Any]:
        return messages.pop(0)

    return receive


async def forbidden_receive() -> dict[str, Any]:
    raise AssertionError("the body must not be asked for")


# --- heads


@pytest.mark.parametrize(
    ("content_type", "encoding"),
    [
        (b"application/msgpack", Encoding.MSGPACK),
        (b"application/vnd.msgpack", Encoding.MSGPACK),
        (b"Application/X-MsgPack ; charset=UTF-8", Encoding.MSGPACK),
        (b"application/json", Encoding.JSON),
        (b'application/json;charset="utf-8"', Encoding.JSON),
    ],
)
def test_types_that_are_read(content_type: bytes, encoding: Encoding) -> None:
    assert request_encoding({b"content-type": content_type}) is encoding


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"content-type", b"")],
        [(b"content-type", b"text/plain")],
        [(b"content-type", b"application/x-www-form-urlencoded")],
        [(b"content-type", b"multipart/form-data; boundary=x")],
        [(b"content-type", b"application/msgpack; charset=latin-1")],
        [(b"content-type", b"application/json; foo=bar")],
        [(b"content-type", b"application/msgpack"), (b"content-type", b"application/msgpack")],
        [(b"content-type", b"application/msgpack"), (b"content-encoding", b"gzip")],
        [(b"content-type", b"application/msgpack"), (b"content-encoding", b"identity")],
        [(b"content-type", b"application/msgpack;" + b" " * 300 + b"charset=latin-1")],
    ],
)
async def test_types_that_are_not_read(headers: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(UnsupportedMediaTypeError):
        await read_body(join_fields(headers), forbidden_receive, max_bytes=100)


@pytest.mark.parametrize(
    ("accept", "content_type", "encoding"),
    [
        (None, None, "json"),
        (None, b"application/msgpack", "msgpack"),
        (b"*/*", b"application/msgpack", "msgpack"),
        (None, b"application/json", "json"),
        (b"*/*", b"application/json", "json"),
        (b"*/*", None, "json"),
        (b"application/*", None, "json"),
        (b"application/json, application/msgpack", None, "msgpack"),
        (b"*/*, application/msgpack", None, "msgpack"),
        (b"application/*", b"application/json", "json"),
        (b"application/json", b"application/msgpack", "json"),
        (b"application/x-msgpack", b"application/json", "msgpack"),
        (b"application/problem+json", None, "json"),
        (b"application/json;q=0.5, application/msgpack;q=0.9", b"application/json", "msgpack"),
        (b"application/json;q=0.9, application/msgpack;q=0.5", None, "json"),
        (b"application/json, application/msgpack", b"application/json", "json"),
        (b"application/msgpack;q=0, */*", None, "json"),
        (b"*/*, application/msgpack;q=0", None, "json"),
        (b"text/html,application/xhtml+xml,*/*;q=0.8", None, "json"),
        (b"application/json;q=x, */*;q=0.1", None, "msgpack"),
        (b"*/*", b"application/x-www-form-urlencoded", "json"),
    ],
)
def test_the_answer_has_the_encoding_that_the_client_ranks_first(
    accept: bytes | None, content_type: bytes | None, encoding: str
) -> None:
    fields = {b"accept": accept, b"content-type": content_type}
    chosen = negotiate({name: value for name, value in fields.items() if value is not None})
    assert chosen is Encoding[encoding.upper()]


@pytest.mark.parametrize(
    "accept", [b"image/png", b"application/msgpack;q=0", b"", b"*/*;q=0", b",;=", b"\xff\xfe"]
)
def test_an_impossible_accept_is_told_but_does_not_hide_a_problem(accept: bytes) -> None:
    with pytest.raises(NotAcceptableError):
        negotiate({b"accept": accept})
    assert negotiate({b"accept": accept}, strict=False) is Encoding.JSON
    assert (
        negotiate({b"accept": accept, b"content-type": b"application/msgpack"}, strict=False)
        is Encoding.MSGPACK
    )
    assert negotiate({b"accept": accept, b"content-type": b"application/json"}, strict=False) is Encoding.JSON


def test_repeated_fields_are_joined() -> None:
    assert join_fields([(b"a", b"1"), (b"b", b"2"), (b"a", b"3")]) == {b"a": b"1, 3", b"b": b"2"}


# --- bodies


async def test_a_body_is_put_together() -> None:
    assert await read_body(MSGPACK, feed(b"ab"), max_bytes=4) == b"ab"
    assert await read_body(MSGPACK, feed(b"a", b"", b"bcd"), max_bytes=4) == b"abcd"


@pytest.mark.parametrize("length", [b"101", b"9" * 30])
async def test_an_honest_length_over_the_cap_is_refused_unread(length: bytes) -> None:
    with pytest.raises(TooLargeError):
        await read_body({**MSGPACK, b"content-length": length}, forbidden_receive, max_bytes=100)


async def test_a_lying_or_chunked_body_is_cut_at_the_cap() -> None:
    taken = 0

    async def endless() -> dict[str, Any]:
        nonlocal taken
        taken += 1
        return {"type": "http.request", "body": b"a" * 10, "more_body": True}

    with pytest.raises(TooLargeError):
        await read_body({**MSGPACK, b"content-length": b"5"}, endless, max_bytes=100)
    assert taken == 11
    with pytest.raises(TooLargeError):
        await read_body(MSGPACK, feed(b"a" * 101), max_bytes=100)


async def test_no_body_and_half_a_body_are_unparsable() -> None:
    for receive in (feed(b""), feed(b"", b""), feed(b"abc", ends=False), feed()):
        with pytest.raises(UnparsableError):
            await read_body(MSGPACK, receive, max_bytes=100)


# --- envelopes


@given(
    st.dictionaries(
        st.text(max_size=40),
        st.none()
        | st.integers(-(2**63), 2**64 - 1)
        | st.text(max_size=50)
        | st.lists(st.text(max_size=5), max_size=5),
        max_size=20,
    ),
    st.recursive(
        st.integers(0, 9) | st.floats() | st.text(), lambda inner: st.lists(inner, max_size=5), max_leaves=10
    ),
)
@pytest.mark.req("J3")
def test_raw_fields_are_the_exact_slice_and_others_are_decoded(fields: dict[str, Any], argument: Any) -> None:
    raw = msgpack.packb(argument)
    for envelope in ({**fields, "argument": 0}, {"argument": 0, **fields}):
        packed = b"".join(
            [
                msgpack.Packer().pack_map_header(len(envelope)),
                *(
                    msgpack.packb(k) + (raw if k == "argument" else msgpack.packb(v))
                    for k, v in envelope.items()
                ),
            ]
        )
        assert read_map(packed, ARGUMENT, limits=LIMITS) == {**envelope, "argument": raw}


@pytest.mark.req("J3")
def test_unusual_encodings_of_an_argument_stay_as_they_are() -> None:
    for raw in (b"\xd9\x01a", b"\xcf" + bytes(8), b"\xca\x7f\xc0\x00\x01", b"\xc7\x01\x63x", b"\xde\x00\x00"):
        body = b"\x81\xa8argument" + raw
        assert read_map(body, ARGUMENT, limits=LIMITS) == {"argument": raw}
        assert encode({"argument": RawMsgpack(raw)}, Encoding.MSGPACK) == body


@pytest.mark.parametrize(
    "body",
    [
        b"\x80\x00", b"\x81\xa1a\x01\xc0", b'{"name": "a"}', b"\x80\x04\x95pickle", b"---\na: b", b"PK\x03\x04",
        b"\x82\xa1a\x01\xa1a\x01", b"\x82\xa8argument\x01\xa8argument\x02", b"\x81\x01\x02", b"\x81\xc0\x02",
        b"\x81\x90\x02", b"\x81\xa1a\xa1\xff", b"\x81\xa1\xff\x01", b"\x81\xa1a\xcd\x00", b"\x81\xa1a", b"\x82\xa1a\x01",
        b"\x81\xa8argument", b"\x81\xa8argument\xc1", b"\x81\xa1a\xc1", b"\x81\xa1a\x81\x01\x02",
        b"\x81\xa1a\x82\xa1b\x01\xa1b\x02", b"\xdf\xff\xff\xff\xff", b"\xc1", b"",
    ],
)  # fmt: skip
def test_what_is_no_message_is_unparsable(body: bytes) -> None:
    with pytest.raises(UnparsableError):
        read_map(body, ARGUMENT, limits=LIMITS)


@pytest.mark.parametrize("body", [b"\x90", b"\x01", b"\xc0", b"\xa1a", b"\x91\x80"])
def test_another_value_than_a_map_is_invalid(body: bytes) -> None:
    with pytest.raises(InvalidError) as error:
        read_map(body, ARGUMENT, limits=LIMITS)
    assert error.value.code == "not_a_map"


def test_what_is_wrong_inside_a_field_names_the_field() -> None:
    for value, code in ((b"\x91" * 33 + b"\xc0", "too_deep"), (b"\x81\x01\x02", "key_not_str")):
        with pytest.raises(InvalidError) as error:
            read_map(b"\x81\xa8argument" + value, ARGUMENT, limits=LIMITS)
        assert error.value.code == code
        assert [e.loc for e in error.value.errors] == [("argument",)]


def test_nodes_of_an_envelope_are_bounded_over_all_its_fields() -> None:
    tags = msgpack.packb(["a"] * 200)
    body = b"\x8a" + b"".join(b"\xa1" + str(n).encode() + tags for n in range(10))
    for bad in (
        body,
        msgpack.packb({str(n): n for n in range(600)}),
        b"\x81\xa1a" + msgpack.packb([{}] * 1001),
    ):
        with pytest.raises(TooLargeError):
            read_map(bad, limits=LIMITS)


def jobs(*items: Any) -> bytes:
    packed: bytes = msgpack.packb({"jobs": list(items)})
    return packed


def read_jobs(body: bytes, max_items: int = 10) -> list[dict[str, Any]]:
    return list(read_list_of_maps(body, "jobs", ARGUMENT, max_items=max_items, limits=LIMITS))


def test_a_list_of_maps_is_read_item_by_item() -> None:
    body = jobs({"name": "a", "argument": [1, "x"]}, {"name": "b"})
    assert read_jobs(body) == [{"name": "a", "argument": msgpack.packb([1, "x"])}, {"name": "b"}]
    first = next(iter(read_list_of_maps(body[:-3], "jobs", ARGUMENT, max_items=10, limits=LIMITS)))
    assert first["name"] == "a"


def test_the_limits_of_a_list_hold_for_each_item() -> None:
    large = {"argument": ["a"] * 900}
    assert len(read_jobs(jobs(*[large] * 10))) == 10
    with pytest.raises(TooLargeError) as error:
        read_jobs(jobs(large, {"argument": ["a"] * 1_000}))
    assert error.value.errors == (FieldError(("jobs", 1, "argument"), "more than 1000 values"),)


@pytest.mark.parametrize(
    ("body", "code", "loc"),
    [
        (jobs(), "invalid", ("jobs",)),
        (b"\x80", "invalid", ("jobs",)),
        (b"\x81\xa4jobs\x01", "invalid", ("jobs",)),
        (jobs({"name": "a"}, 3), "invalid", ("jobs", 1)),
        (msgpack.packb({"other": []}), "invalid", ("other",)),
        (msgpack.packb({"jobs": [{}], "other": 1}), "invalid", ("other",)),
        (b"\x90", "not_a_map", None),
        (jobs({"argument": {1: 2}}), "key_not_str", ("jobs", 0, "argument")),
    ],
)
def test_a_list_that_is_none_is_invalid(body: bytes, code: str, loc: tuple[str | int, ...] | None) -> None:
    with pytest.raises(InvalidError) as error:
        read_jobs(body)
    assert error.value.code == code
    assert [e.loc for e in error.value.errors] == ([loc] if loc else [])


@pytest.mark.parametrize(
    "body",
    [
        jobs({}) + b"\x00",
        jobs({})[:-1],
        b"\x82\xa4jobs\x91\x80\xa4jobs\x91\x80",
        b"\x82\xa4jobs\x91\x80",
        b"\x81\x01\x90",
        b"\x81\xa4jo",
        b"\x81",
        b"\x81\xa1\xff\x90",
        b"\x81\xa4jobs\xdd\xff\xff\xff\xff",
    ],
)
def test_a_broken_list_is_unparsable(body: bytes) -> None:
    with pytest.raises(UnparsableError):
        read_jobs(body)


def test_too_many_items_are_refused_before_the_first() -> None:
    with pytest.raises(TooLargeError) as error:
        next(iter(read_list_of_maps(jobs(*[{}] * 11), "jobs", max_items=10, limits=LIMITS)))
    assert error.value.code == "too_many_items"


# --- JSON


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'{"a": [1, -2, 1.5, true, null, "\\u00e4"]}', {"a": [1, -2, 1.5, True, None, "\u00e4"]}),
        (b'{"a": {"$bin": "AAE="}}', {"a": b"\x00\x01"}),
        (b'{"a": {"$ext": [5, "AAE="]}}', {"a": msgpack.ExtType(5, b"\x00\x01")}),
        (b'{"a": {"$bin": "AAE=", "b": 1}}', {"a": {"$bin": "AAE=", "b": 1}}),
        (b'{"a": 18446744073709551615, "b": -9223372036854775808}', {"a": 2**64 - 1, "b": -(2**63)}),
    ],
)
def test_json_becomes_messagepack(text: bytes, value: Any) -> None:
    assert json_to_msgpack(text) == msgpack.packb(value)


def test_json_is_nested_as_deep_as_messagepack_may_be() -> None:
    for levels, fits in ((31, True), (40, False)):
        body = json_to_msgpack(b'{"argument": ' + b"[" * levels + b"]" * levels + b"}")
        if fits:
            assert read_map(body, ARGUMENT, limits=LIMITS)
        else:
            with pytest.raises(InvalidError):
                read_map(body, ARGUMENT, limits=LIMITS)


async def test_a_json_envelope_reads_like_any_other() -> None:
    body = await read_body(
        {b"content-type": b"application/json"}, feed(b'{"name": "a", "argument": {"x": [1]}}'), max_bytes=100
    )
    assert read_map(body, ARGUMENT, limits=LIMITS) == {"name": "a", "argument": msgpack.packb({"x": [1]})}


@pytest.mark.parametrize(
    "text",
    [
        b"{", b"{}x", b"nul", b'{"a": 1, "a": 2}', b'{"a": {"b": 1, "b": 1}}', b"NaN", b'{"a": Infinity}', b"[-Infinity]",
        b'{"a": "\xff"}', b'{"a": "\\ud800"}', b"\xef\xbb\xbf{}", b"{'a': 1}", b"[" * 100_000, b"\x00", b"\x81\xa1a\x01",
        b"[" * 100_000 + b"]" * 100_000,
    ],
)  # fmt: skip
def test_what_is_not_json_is_unparsable(text: bytes) -> None:
    with pytest.raises(UnparsableError):
        json_to_msgpack(text)


@pytest.mark.parametrize(
    "text",
    [
        b"18446744073709551616", b"-9223372036854775809", b"1" * 5000, b"1e999",
        b'{"$bin": 1}', b'{"$bin": "%"}', b'{"$bin": "A"}', b'{"$bin": "\xc3\xa4"}', b'{"$ext": [128, ""]}',
        b'{"$ext": [true, ""]}', b'{"$ext": 1}', b'{"$ext": [1]}', b'{"$ext": [-2, ""]}', b'{"$ext": [-1, "AA=="]}',
    ],
)  # fmt: skip
def test_json_without_a_messagepack_form_is_invalid(text: bytes) -> None:
    with pytest.raises(InvalidError):
        json_to_msgpack(text)


def test_a_json_bomb_costs_little_memory_and_punctuation_in_text_is_none() -> None:
    bomb = b"[" + b"{}," * 1_000_000 + b"{}]"
    tracemalloc.start()
    with pytest.raises(TooLargeError):
        json_to_msgpack(bomb)
    assert tracemalloc.get_traced_memory()[1] < 2 * len(bomb)
    tracemalloc.stop()
    text = '[,{\\"' * MAX_JSON_NODES
    assert msgpack.unpackb(json_to_msgpack(json.dumps([text]).encode())) == [text]


# --- answers


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text() | st.binary(),
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text().filter(lambda k: k[:1] != "$"), inner, max_size=5),
        max_leaves=20,
    )
)  # fmt: skip
def test_an_answer_is_the_same_in_both_encodings(value: Any) -> None:
    tree = {
        "direct": value,
        "raw": RawMsgpack(msgpack.packb(value)),
        "list": [RawMsgpack(msgpack.packb(value)), 1],
    }
    expected = {"direct": value, "raw": value, "list": [value, 1]}
    assert msgpack.unpackb(encode(tree, Encoding.MSGPACK)) == expected
    assert msgpack.unpackb(json_to_msgpack(encode(tree, Encoding.JSON))) == expected


def test_times_binaries_and_extensions_in_json() -> None:
    moment = datetime(2026, 11, 21, 5, 30, 0, 123_999, tzinfo=timezone(timedelta(hours=1)))
    raw = msgpack.packb({"at": moment, "bin": b"\x00", "nan": math.nan}, datetime=True)
    tree = {
        "at": moment,
        "old": datetime(1, 1, 1, tzinfo=UTC),
        "raw": RawMsgpack(raw),
        "ext": RawMsgpack(b"\xd4\x85x"),
    }
    assert json.loads(encode(tree, Encoding.JSON)) == {
        "at": "2026-11-21T04:30:00.123Z",
        "old": "0001-01-01T00:00:00.000Z",
        "raw": {"at": "2026-11-21T04:30:00.123Z", "bin": {"$bin": "AA=="}, "nan": None},
        "ext": {"$ext": [-123, base64.b64encode(b"x").decode()]},
    }
    assert (
        msgpack.unpackb(encode(tree, Encoding.MSGPACK), timestamp=3, ext_hook=lambda c, d: (c, d))["at"]
        == moment
    )
