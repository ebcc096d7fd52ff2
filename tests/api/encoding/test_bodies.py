"""Bodies are read up to their limit."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from jqmaster.api.encoding.bodies import read_body
from jqmaster.errors import TooLargeError, UnparsableError

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
