"""Negotiation of the encodings of requests and answers."""

from typing import Any

import pytest

from jqmaster.api.encoding.bodies import read_body
from jqmaster.api.encoding.negotiation import (
    Encoding,
    NotAcceptableError,
    join_fields,
    negotiate,
    request_encoding,
)
from jqmaster.errors import UnsupportedMediaTypeError

MSGPACK = {b"content-type": b"application/msgpack"}


async def forbidden_receive() -> dict[str, Any]:
    raise AssertionError("the body must not be asked for")


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
