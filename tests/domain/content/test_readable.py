"""Values that cannot be decoded are shown as binary; other values stay unchanged."""

import msgpack
import pytest

from jqmaster.domain.content.readable import is_readable, readable, readable_members

RESERVED = b"\xd4\xfe\x00"


@pytest.mark.parametrize(
    "value",
    [b"\xc0", b"\xd4\x7fx", b"\xd6\xff\x00\x00\x00\x00", b"\x81\xa1a\x91\x01", b"\xca\x7f\xc0\x00\x00"],
)
def test_decodable_content_stays_the_very_same(value: bytes) -> None:
    assert is_readable(value)
    assert readable(value) is value
    assert readable_members(value) is value


@pytest.mark.parametrize(
    "value",
    [RESERVED, b"\x91" + RESERVED, b"\xc1", b"", b"\x92\x01", b"\xa1\xff", b"\x81\x01\x01", b"\x91" * 5000],
)
def test_undecodable_content_becomes_binary(value: bytes) -> None:
    assert not is_readable(value)
    assert msgpack.unpackb(readable(value)) == value
    assert msgpack.unpackb(readable_members(value)) == value


def test_only_undecodable_members_of_a_map_become_binary() -> None:
    broken = b"\x83\xa4type\xa7success\xa6result\x81\xa1a" + RESERVED + b"\xa1n\x07"
    assert msgpack.unpackb(readable_members(broken)) == {
        "type": "success", "result": b"\x81\xa1a" + RESERVED, "n": 7,
    }  # fmt: skip
