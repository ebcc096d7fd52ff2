"""CloudEvents 1.0 over HTTP: structured, batched and binary mode."""

import base64
import binascii
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import msgpack

from jqmaster.api.encoding.envelopes import read_map
from jqmaster.api.encoding.json_bridge import json_to_msgpack
from jqmaster.api.encoding.negotiation import Encoding, Fields
from jqmaster.api.encoding.validator import ScanLimits, array_header
from jqmaster.api.events.schemas import CloudEvent
from jqmaster.api.http.endpoint import Call, check
from jqmaster.domain.events.event import Event
from jqmaster.domain.ids import new_id
from jqmaster.errors import FieldError, InvalidError, UnparsableError, invalid

DATA: Final = frozenset({"data"})
_NULL: Final = b"\xc0"
_ATTRIBUTES: Final = ("specversion", "id", "source", "type", "time", "subject")
_JSON: Final = re.compile(r"(application|text)/(json|[\w.-]+\+json)")


class ContentMode(Enum):
    """The form of a request."""

    PLAIN = "plain"
    STRUCTURED = "structured"
    BATCHED = "batched"
    BINARY = "binary"


_MEDIA_TYPES: Final = {
    "application/cloudevents+json": ContentMode.STRUCTURED,
    "application/cloudevents-batch+json": ContentMode.BATCHED,
}


def mode_of(fields: Fields) -> ContentMode:
    """Return the form in which a request carries its events."""
    mode = _MEDIA_TYPES.get(_media_type(fields))
    if mode:
        return mode
    return ContentMode.BINARY if b"ce-specversion" in fields else ContentMode.PLAIN


async def read_json(call: Call) -> bytes:
    """Return the body of a structured or batched request as MessagePack."""
    call.fields = {**call.fields, b"content-type": Encoding.JSON.value.encode()}
    return await call.body()


async def read_binary(call: Call, limits: ScanLimits) -> Event:
    """Return the event of a request in binary mode: the headers are the event's attributes, and the body is its
    data."""
    media_type = _media_type(call.fields)
    attributes: dict[str, Any] = {
        name: _header(call.fields, name) for name in _ATTRIBUTES if f"ce-{name}".encode() in call.fields
    }
    # Declare the body as MessagePack so that it is read unchanged. The code below converts it.
    call.fields = {**call.fields, b"content-type": Encoding.MSGPACK.value.encode()}
    try:
        body = await call.body()
    except UnparsableError as error:
        if error.code != "empty_body":
            raise
        return event_of(check(CloudEvent, attributes), _NULL)
    if _JSON.fullmatch(media_type):
        data = json_to_msgpack(body)
    elif media_type in ("application/msgpack", "application/vnd.msgpack", "application/x-msgpack"):
        data = body
    elif media_type.startswith("text/"):
        try:
            data = msgpack.packb(body.decode())
        except UnicodeDecodeError:
            raise UnparsableError("the text is not UTF-8") from None
    else:
        data = msgpack.packb(body)
    # Put the data into an envelope, so that it passes the same checks as every other payload.
    read = read_map(b"\x81\xa4data" + data, DATA, limits=limits)
    return event_of(check(CloudEvent, attributes), read["data"])


def structured(fields: Mapping[str, Any], loc: tuple[str | int, ...] = ()) -> Event:
    """Read an event from a map whose `data` is already encoded. Raise an InvalidError that names each invalid field,
    with `loc` as the start of its path."""
    event = check(CloudEvent, fields, loc)
    if event.data_base64 is None:
        return event_of(event, event.data if event.data is not None else _NULL)
    if event.data is not None:
        raise invalid([FieldError((*loc, "data_base64"), "cannot be combined with data")])
    try:
        data = base64.b64decode(event.data_base64, validate=True)
    except (binascii.Error, ValueError):
        raise invalid([FieldError((*loc, "data_base64"), "must be base64")]) from None
    return event_of(event, msgpack.packb(data))


def as_list(body: bytes) -> bytes:
    """Put the list of a batched request into a map, as the member `events`. Raise InvalidError if the body is not
    a list."""
    if array_header(body, 0) is None:
        raise InvalidError("the body must be an array of events", code="not_an_array")
    return b"\x81\xa6events" + body


def event_of(event: CloudEvent, payload: bytes) -> Event:
    """Return the event. Its ID and source identify repeats."""
    return Event(
        new_id(), event.type, payload, dedupe_key=event.id, source=event.source, subject=event.subject,
        occurred_at_ms=event.time,
    )  # fmt: skip


def _media_type(fields: Fields) -> str:
    return fields.get(b"content-type", b"")[:256].decode("latin-1").partition(";")[0].strip().lower()


def _header(fields: Fields, name: str) -> str:
    """Decode the percent-encoded UTF-8 text of an attribute. Raise InvalidError if it is not valid."""
    try:
        return unquote_to_bytes(fields[f"ce-{name}".encode()]).decode()
    except UnicodeDecodeError:
        raise invalid([FieldError(("header", f"ce-{name}"), "must be UTF-8, percent-encoded")]) from None
