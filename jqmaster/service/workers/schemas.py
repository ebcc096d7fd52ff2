"""JSON Schemas of arguments, compiled."""

import base64
import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import jsonschema_rs
import msgpack

from jqmaster.domain.instant import iso_ms

# More say nothing new.
MAX_FAULTS: Final = 10
_MAX_MESSAGE: Final = 300
# Patterns of workers must not be able to keep a master busy: this engine takes linear time.
_PATTERNS: Final = jsonschema_rs.RegexOptions()


class BadSchemaError(Exception):
    """The schema is not a JSON Schema, or it refers to other documents."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """A value of an argument that does not fit. `message` may quote the value; `keyword` is the rule that it breaks."""

    path: tuple[str | int, ...]
    message: str
    keyword: str


class ArgumentSchema:
    """A compiled schema. The constructor raises BadSchemaError."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        try:
            self._validator = jsonschema_rs.validator_for(
                dict(schema), retriever=_no_others, pattern_options=_PATTERNS
            )
        except (jsonschema_rs.ValidationError, ValueError) as exc:
            raise BadSchemaError(str(exc).partition("\n")[0][:_MAX_MESSAGE]) from exc

    def misfits(self, argument: Any) -> list[Misfit]:
        """Return what does not fit of an argument that `as_json` made; none: all fits."""
        if self._validator.is_valid(argument):
            return []
        found = []
        for error in self._validator.iter_errors(argument):
            keyword = next((str(part) for part in reversed(error.schema_path) if isinstance(part, str)), "")
            found.append(Misfit(tuple(error.instance_path), error.message[:_MAX_MESSAGE], keyword))
            if len(found) == MAX_FAULTS:
                break
        return found


def as_json(argument: bytes) -> Any:
    """Return an encoded argument with the values of JSON: binary as base64, a timestamp as ISO 8601. Raise ValueError
    or TypeError for a value that JSON does not have, such as a map whose keys are numbers."""
    return _as_json(msgpack.unpackb(argument, timestamp=3))


def _as_json(value: Any) -> Any:
    match value:
        case dict():
            return {_key(key): _as_json(member) for key, member in value.items()}
        case list():
            return [_as_json(member) for member in value]
        case bytes():
            return base64.b64encode(value).decode()
        case dt.datetime():
            return iso_ms(round(value.timestamp() * 1000))
        case None | bool() | int() | float() | str():
            return value
    raise TypeError(f"JSON has no {type(value).__name__}")


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError("the keys of JSON are text")
    return key


def _no_others(uri: str) -> NoReturn:
    raise ValueError(f"a schema must stand alone, and this one refers to {uri[:100]}")
