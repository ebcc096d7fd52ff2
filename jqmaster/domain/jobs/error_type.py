"""The type of the exception that an attempt ended with, where it is certain."""

import re
from typing import Final

import msgpack

MAX_TYPE: Final = 200
_FIELDS: Final = {"type", "message", "traceback"}
_TYPE: Final = re.compile(r"[^\W\d]\w*(\.([^\W\d]\w*|<locals>))*")


def error_type_of(error: bytes | None, message: str | None) -> str | None:
    """Return the name of the type in an encoded error `{type, message, traceback}`. SDKs report exceptions in this
    form. Return None for anything else: its `type` may be a text that the handler chose.
    """
    if error is None or message is None:
        return None
    try:
        fields = msgpack.unpackb(error, strict_map_key=False, unicode_errors="surrogateescape", timestamp=0)
    except Exception:  # an error that cannot be decoded has no known type
        return None
    if not isinstance(fields, dict) or set(fields) != _FIELDS:
        return None
    name = fields["type"]
    if not isinstance(name, str) or len(name) > MAX_TYPE or not _TYPE.fullmatch(name):
        return None
    # Require that the message begins with the short name of the type, as an SDK writes it.
    return name if message.startswith(f"{name.rpartition('.')[2]}: ") else None
