"""Envelopes, and the lists of them."""

from collections.abc import Iterator
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jqmaster.api.encoding.answers import RawMsgpack, encode
from jqmaster.api.encoding.envelopes import read_list, read_map
from jqmaster.api.encoding.negotiation import Encoding
from jqmaster.api.encoding.validator import ScanLimits
from jqmaster.errors import FieldError, InvalidError, TooLargeError, UnparsableError

LIMITS = ScanLimits(max_nesting=32, max_nodes=1_000)
ARGUMENT = frozenset({"argument"})
MSGPACK = {b"content-type": b"application/msgpack"}


def read_list_of_maps(body: bytes, *, max_items: int) -> Iterator[dict[str, Any]]:
    """Call `read_list` with a fast path that accepts nothing."""
    for item in read_list(
        body, "jobs", ARGUMENT, lambda _data, _limits: None, max_items=max_items, limits=LIMITS
    ):
        assert isinstance(item, dict)
        yield item


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
        b"\x81\x90\x02", b"\x81\xa1a\xa1\xff", b"\x81\xa1\xff\x01", b"\x81\xa1a\xcd\x00", b"\x81\xa1a",
        b"\x82\xa1a\x01",
        b"\x81\xa8argument", b"\x81\xa8argument\xc1", b"\x81\xa1a\xc1", b"\x81\xa1a\x81\x01\x02",
        b"\x81\xa1a\x82\xa1b\x01\xa1b\x02", b"\xdf\xff\xff\xff\xff", b"\xc1", b"",
    ],
)  # fmt: skip
def test_bytes_that_are_no_message_are_unparsable(body: bytes) -> None:
    with pytest.raises(UnparsableError):
        read_map(body, ARGUMENT, limits=LIMITS)


@pytest.mark.parametrize("body", [b"\x90", b"\x01", b"\xc0", b"\xa1a", b"\x91\x80"])
def test_another_value_than_a_map_is_invalid(body: bytes) -> None:
    with pytest.raises(InvalidError) as error:
        read_map(body, ARGUMENT, limits=LIMITS)
    assert error.value.code == "not_a_map"


def test_a_fault_inside_a_field_names_the_field() -> None:
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
    return list(read_list_of_maps(body, max_items=max_items))


def test_a_list_of_maps_is_read_item_by_item() -> None:
    body = jobs({"name": "a", "argument": [1, "x"]}, {"name": "b"})
    assert read_jobs(body) == [{"name": "a", "argument": msgpack.packb([1, "x"])}, {"name": "b"}]
    first = next(iter(read_list_of_maps(body[:-3], max_items=10)))
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
        next(iter(read_list_of_maps(jobs(*[{}] * 11), max_items=10)))
    assert error.value.code == "too_many_items"
