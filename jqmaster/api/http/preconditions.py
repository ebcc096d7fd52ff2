"""Check headers and names of calls that read or change named objects, such as constraints."""

import re
from typing import Final

from jqmaster.api.http.endpoint import Call
from jqmaster.errors import FieldError, InvalidError, UnparsableError
from jqmaster.service.named_objects import Precondition

_ENTITY_TAG: Final = re.compile(rb'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"')


def precondition(call: Call) -> Precondition:
    """Return the conditions in If-Match and If-None-Match. Raise UnparsableError."""
    return Precondition(_tags(call, b"if-match", is_weak=False), _tags(call, b"if-none-match", is_weak=True))


def check_name(given: str | None, name: str) -> None:
    """Raise InvalidError if the body and the path name different objects. `given`: the name in the body; None:
    the body has no name."""
    if given not in (None, name):
        raise InvalidError(
            "the name differs from the one in the path",
            errors=[FieldError(("name",), f"must be {name[:100]}")],
        )


def etag_header(etag: str) -> tuple[tuple[bytes, bytes], ...]:
    """Return the ETag header, which identifies the state of the object in an answer."""
    return ((b"etag", f'"{etag}"'.encode()),)


def _tags(call: Call, field: bytes, *, is_weak: bool) -> frozenset[str] | None:
    text = call.fields.get(field)
    if text is None:
        return None
    if text.strip() == b"*":
        return frozenset("*")
    tags = set()
    for part in text.split(b","):
        tag = part.strip()
        if not _ENTITY_TAG.fullmatch(tag):
            raise UnparsableError(f"{field.decode().title()} must hold entity tags in quotes, or *")
        # A weak tag never matches If-Match (RFC 9110 §13.1.1).
        if is_weak or not tag.startswith(b"W/"):
            tags.add(tag.removeprefix(b"W/").strip(b'"').decode("latin-1"))
    # A quoted asterisk is an ordinary ETag that we never issue, so it matches nothing.
    return frozenset(tags - {"*"})
