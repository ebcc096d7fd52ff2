"""JSON bodies become MessagePack."""

import json
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import Any

import msgpack
import pytest

from jqmaster.api.encoding.bodies import read_body
from jqmaster.api.encoding.envelopes import read_map
from jqmaster.api.encoding.json_bridge import MAX_JSON_NODES, json_to_msgpack
from jqmaster.api.encoding.validator import ScanLimits
from jqmaster.errors import InvalidError, TooLargeError, UnparsableError

LIMITS = ScanLimits(max_nesting=32, max_nodes=1_000)
ARGUMENT = frozenset({"argument"})


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
        b"{", b"{}x", b"nul", b'{"a": 1, "a": 2}', b'{"a": {"b": 1, "b": 1}}', b"NaN", b'{"a": Infinity}',
        b"[-Infinity]",
        b'{"a": "\xff"}', b'{"a": "\\ud800"}', b"\xef\xbb\xbf{}", b"{'a': 1}", b"[" * 100_000, b"\x00",
        b"\x81\xa1a\x01",
        b"[" * 100_000 + b"]" * 100_000,
    ],
)  # fmt: skip
def test_text_that_is_not_json_is_unparsable(text: bytes) -> None:
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
