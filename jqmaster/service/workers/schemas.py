"""JSON Schemas of arguments, compiled."""

import base64
import datetime as dt
import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, Final, NoReturn
from uuid import UUID

import jsonschema_rs
import msgpack
import msgspec

from jqmaster.domain.instant import iso_ms

# Maximum number of misfits that are reported.
MAX_FAULTS: Final = 10
_MAX_MESSAGE: Final = 300
# An engine for regular expressions with linear running time, so that workers' patterns cannot keep a master busy.
_PATTERNS: Final = jsonschema_rs.RegexOptions()


def _is_text_of(kind: Any, text: str) -> bool:
    try:
        msgspec.convert(text, kind)
    except msgspec.ValidationError:
        return False
    return True


# Formats that are enforced. The SDK's tasks parse texts of these formats by the same rules. Other formats are not
# enforced, because libraries disagree about them, for example about mail addresses.
_CHECKED: Final = {
    "byte": bytes, "date": dt.date, "date-time": dt.datetime, "decimal": Decimal, "duration": dt.timedelta,
    "time": dt.time, "uuid": UUID,
}  # fmt: skip
_INFORMATIVE: Final = (
    "email", "hostname", "idn-email", "idn-hostname", "ipv4", "ipv6", "iri", "iri-reference", "json-pointer", "regex",
    "relative-json-pointer", "uri", "uri-reference", "uri-template",
)  # fmt: skip
_FORMATS: Final[dict[str, Callable[[str], bool]]] = {
    **{name: lambda _: True for name in _INFORMATIVE},
    **{name: partial(_is_text_of, kind) for name, kind in _CHECKED.items()},
}


class BadSchemaError(Exception):
    """The schema is not a JSON Schema, or it refers to other documents."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """A value in an argument that does not fit the schema. `message` may quote the value. `keyword`: the JSON Schema
    keyword that the value breaks."""

    path: tuple[str | int, ...]
    message: str
    keyword: str


class ArgumentSchema:
    """A compiled schema. The constructor raises BadSchemaError if the schema is invalid."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        try:
            self._validator = jsonschema_rs.validator_for(
                dict(schema),
                retriever=_no_others,
                pattern_options=_PATTERNS,
                validate_formats=True,
                formats=_FORMATS,
            )
        except (jsonschema_rs.ValidationError, ValueError) as exc:
            raise BadSchemaError(str(exc).partition("\n")[0][:_MAX_MESSAGE]) from exc

    def misfits(self, argument: Any) -> list[Misfit]:
        """Return the misfits of an argument, which must have the form of `as_json`. Empty: the argument fits."""
        if self._validator.is_valid(argument):
            return []
        found = []
        for error in itertools.chain.from_iterable(
            map(_relevant_errors, self._validator.iter_errors(argument))
        ):
            keyword = next((str(part) for part in reversed(error.schema_path) if isinstance(part, str)), "")
            found.append(Misfit(tuple(error.instance_path), error.message[:_MAX_MESSAGE], keyword))
            if len(found) == MAX_FAULTS:
                break
        return found


def _relevant_errors(error: Any) -> list[Any]:
    """Return the errors inside the one alternative of `anyOf` or `oneOf` that has the value's type, as with "object or
    null". If there is no such alternative, or more than one, return the error itself."""
    alternatives = getattr(error.kind, "context", None) or []
    near = [
        errors
        for errors in alternatives
        if not any(
            one.schema_path[-1:] == ["type"] and one.instance_path == error.instance_path for one in errors
        )
    ]
    if len(near) != 1 or not near[0]:
        return [error]
    return [meant for one in near[0] for meant in _relevant_errors(one)]


def as_json(argument: bytes) -> Any:
    """Convert an encoded argument to JSON values: binary to base64, timestamps to ISO 8601, and keys of maps to text.
    Raise ValueError or TypeError for a value that JSON cannot express, such as NaN or a list as a key."""
    return _as_json(msgpack.unpackb(argument, timestamp=3, strict_map_key=False))


def _as_json(value: Any) -> Any:
    match value:
        case dict():
            found = {_key(key): _as_json(member) for key, member in value.items()}
            if len(found) < len(value):
                raise ValueError("two keys are the same text")
            return found
        case list():
            return [_as_json(member) for member in value]
        case bytes():
            return base64.b64encode(value).decode()
        case dt.datetime():
            return iso_ms(round(value.timestamp() * 1000))
        case float() if not math.isfinite(value):
            raise ValueError("JSON has no such number")
        case None | bool() | int() | float() | str():
            return value
    raise TypeError(f"JSON has no {type(value).__name__}")


def _key(key: object) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, int) and not isinstance(key, bool):
        return str(key)
    raise TypeError("keys in JSON must be text")


def _no_others(uri: str) -> NoReturn:
    raise ValueError(f"a schema must not refer to other documents, and this one refers to {uri[:100]}")
