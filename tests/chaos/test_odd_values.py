"""Hostile values are sent unchanged, and a history keeps them in a form that can be compared and saved."""

import msgpack
import pytest

from tests.chaos.odd_values import VALUES, is_decodable, packed, unpacked


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value.hex()[:20])
def test_a_value_travels_as_it_is_and_is_read_back_as_drawn(value: bytes) -> None:
    argument = {"n": 7, "nap_s": 0.1, "odd": value.hex()}
    body = packed({"id": "a", "name": "work", "argument": argument})
    assert body.count(b"\xa3odd" + value) == 1
    if is_decodable(value.hex()):
        stored = msgpack.packb({**argument, "odd": None}).replace(b"\xa3odd\xc0", b"\xa3odd" + value)
        assert unpacked(stored) == argument


def test_there_are_enough_of_both_kinds() -> None:
    decodable = [value for value in VALUES if is_decodable(value.hex())]
    assert len(decodable) >= 15
    assert len(VALUES) - len(decodable) >= 12
