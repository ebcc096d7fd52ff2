"""Answers in both encodings."""

import base64
import json
import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgpack
from hypothesis import given
from hypothesis import strategies as st

from jqmaster.api.encoding.answers import RawMsgpack, encode
from jqmaster.api.encoding.json_bridge import json_to_msgpack
from jqmaster.api.encoding.negotiation import Encoding

MSGPACK = {b"content-type": b"application/msgpack"}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text() | st.binary(),
        lambda inner: st.lists(inner, max_size=5)
        | st.dictionaries(st.text().filter(lambda k: k[:1] != "$"), inner, max_size=5),
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
