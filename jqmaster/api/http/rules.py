"""The rules that invalid fields break, in words for the caller."""

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, get_args

from pydantic import BaseModel

from jqmaster.domain.ids import ID_PATTERN

BINARY_RULE: Final = "must be text but is binary: encode it as MessagePack str, not bin"
UNKNOWN_FIELD: Final = "unknown field"
# Types of pydantic's errors in fields that hold text.
_TEXT_ERRORS: Final = frozenset({"string_type", "literal_error", "enum", "value_error"})
# Types of pydantic's errors in fields that hold numbers or booleans. If a caller gives a text instead, the message of
# the error may quote it.
_NUMBER_ERRORS: Final = frozenset({"int_type", "float_type", "bool_type"})
_MAX_QUOTED: Final = 40
_CHARACTERS: Final = re.compile(r"\^\[(?P<class>[^\]]+)\]\{(?P<least>\d+),(?P<most>\d+)\}\$")


def rule_of(error: Mapping[str, Any], model: type[BaseModel] | None = None) -> str:
    """Return the rule that one of pydantic's errors names. `model`: the model that was read, for suggestions."""
    kind, given = error["type"], error.get("input")
    rule = str(error["msg"]).removeprefix("Value error, ")
    if kind in _TEXT_ERRORS and isinstance(given, bytes):
        # Binary input may contain the right text. In this case, tell the caller that its library encodes strings
        # as `bin`.
        return BINARY_RULE
    if kind == "union_tag_invalid":  # pydantic's own message would quote the whole input
        return f"must be one of {error['ctx']['expected_tags']}"
    if kind == "string_pattern_mismatch":
        return _pattern_rule(error["ctx"]["pattern"]) or rule
    if kind == "model_type":  # pydantic's own message would name the class
        return "must be a map (in JSON: an object)"
    if kind == "extra_forbidden":
        return _unknown_field(error["loc"], model)
    if kind in _NUMBER_ERRORS and isinstance(given, str):
        return f"{rule}, not the text {given[:_MAX_QUOTED]!a}"
    return rule


def _pattern_rule(pattern: str) -> str:
    """Describe a pattern for characters of one class in words. Return an empty text for any other pattern."""
    if pattern == ID_PATTERN:
        return "must be the ID of a job or batch: a UUID in lower case"
    if not (found := _CHARACTERS.fullmatch(pattern)):
        return ""
    characters = re.findall(r"\w-\w|\\?.", found["class"])
    return f"must be {found['least']} to {found['most']} of {' '.join(one.lstrip(chr(92)) for one in characters)}"


def _unknown_field(loc: Collection[str | int], model: type[BaseModel] | None) -> str:
    from worker_sdk.transport.option_names import difference_of, meant_option

    *place, name = loc
    meant = meant_option(str(name), _fields_at(model, place))
    return (
        f"{UNKNOWN_FIELD}; did you mean {meant}?{difference_of(str(name), meant)}" if meant else UNKNOWN_FIELD
    )


def _fields_at(model: type[BaseModel] | None, place: Collection[str | int]) -> Collection[str]:
    """Return the fields of the model at this place in `model`. Return nothing if another type is at this place."""
    for part in place:
        field = model.model_fields.get(str(part)) if model else None
        model = _model_in(field.annotation) if field else None
    return model.model_fields if model else ()


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for one in get_args(annotation) if (found := _model_in(one))), None)
