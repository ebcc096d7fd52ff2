"""The fast reader of small maps says what the thorough one says, or leaves it to that."""

import msgpack
from hypothesis import given
from hypothesis import strategies as st

from jqmaster.api.encoding import bodies as wire
from jqmaster.api.encoding.validator import ScanLimits
from jqmaster.errors import JqmasterError

LIMITS = ScanLimits(max_nesting=8, max_nodes=200)
RAW = frozenset({"argument"})
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=40)
)
VALUES = st.recursive(
    SCALARS | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=10,
)
KEYS = st.sampled_from(["name", "argument", "priority", "id", "tags", ""]) | st.text(max_size=35)


def thorough(data: bytes) -> object:
    try:
        fields, end = wire._read_map_at(data, 0, wire._as_keys(RAW), LIMITS, ())
    except JqmasterError as exc:
        return type(exc)
    return fields if end == len(data) else None


@given(st.dictionaries(KEYS, VALUES, max_size=20).map(msgpack.packb))
def test_it_agrees_on_every_message(data: bytes) -> None:
    usual = wire._read_usual_map(data, RAW, LIMITS)
    assert usual is None or usual == thorough(data)


@given(st.dictionaries(KEYS, VALUES, max_size=5).map(msgpack.packb), st.data())
def test_it_agrees_on_every_broken_message(data: bytes, draw: st.DataObject) -> None:
    at = draw.draw(st.integers(0, len(data) - 1))
    broken = data[:at] + draw.draw(st.binary(max_size=3)) + data[at + draw.draw(st.integers(0, 3)) :]
    usual = wire._read_usual_map(broken, RAW, LIMITS) if broken else None
    assert usual is None or usual == thorough(broken)


def test_the_usual_job_and_result_take_the_short_way() -> None:
    for fields in (
        {
            "id": "0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e",
            "name": "mail.send",
            "argument": {"user_id": 42},
            "timeout": 1.5,
        },
        {"job_id": "x" * 36, "token": "a" * 32, "type": "success", "finished_at": "2026-11-21T04:30:00.123Z"},
    ):
        assert wire._read_usual_map(msgpack.packb(fields), RAW, LIMITS)


def test_a_key_twice_is_left_to_the_thorough_reader() -> None:
    assert wire._read_usual_map(b"\x82\xa1a\x01\xa1a\x02", RAW, LIMITS) is None
