"""JSON Schemas of arguments. Masters show them, and check new jobs against them.

MessagePack has values that JSON lacks. In a schema, binary data is base64 text (format `byte`), and a timestamp is ISO
8601 text (`date-time`), as in a job that is pushed as JSON. The schemas that msgspec generates are not used: they lack
the format of times without a rule for time zones, and the keys of maps.
"""

import enum
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import msgspec.inspect as kinds

from worker_sdk.tasks.value_codec import PydanticType, encode_other, is_model

Schema = dict[str, Any]

_REFERENCE: Final = "#/$defs/"
# Features that a pattern in a schema may not use, because masters match patterns in linear time.
_NOT_LINEAR: Final = re.compile(r"\(\?(?:[=!>]|<[=!]|P=|\()|(?<!\\)(?:\\\\)*\\[1-9Z]|[*+?}]\+")
_WITH_ZONE: Final = "([Zz]|[+-][0-9]{2}:?[0-9]{2})$"
_WITHOUT_ZONE: Final = "(^|[Tt ])[0-9:.]+$"
_INTEGER_KEY: Final = "^(0|-?[1-9][0-9]*|-0)$"
# Keywords of JSON Schema that contain other schemas: a map of schemas by name, a list of schemas, or one schema.
_BY_NAME: Final = ("properties", "patternProperties", "$defs", "dependentSchemas")
_LISTED: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_ALONE: Final = ("items", "additionalProperties", "propertyNames", "contains", "not", "if", "then", "else")


def schema_of_parameters(
    types: Mapping[str, Any], defaults: Mapping[str, Any], *, required: Sequence[str]
) -> Schema:
    """Return the schema of the argument of a task.

    * `types`: the type that checks each parameter, as in `Codec.types`.
    * `defaults`: the default values of parameters. Defaults that JSON cannot express are omitted.
    """
    schemas = _Schemas(kind for kind in types.values() if not isinstance(kind, PydanticType))
    properties = {name: schemas.of(kind) for name, kind in types.items()}
    for name, value in defaults.items():
        to_json = kind.to_json if isinstance(kind := types[name], PydanticType) else _to_json
        _set_default(properties[name], value, to_json)
    schema: Schema = {
        # A job without an argument calls the function without arguments, so accept null if no parameter is required.
        "type": "object" if required else ["object", "null"],
        "properties": properties,
        "additionalProperties": False,
    }
    if required:
        schema["required"] = list(required)
    if schemas.definitions:
        schema["$defs"] = schemas.definitions
    return schema


class _Schemas:
    """Schemas that share their definitions."""

    def __init__(self, annotations: Iterable[Any]) -> None:
        self.definitions: dict[str, Schema] = {}
        self._names: dict[int, str] = {}
        # Describe all types in one call, so that a class that occurs twice has one description.
        annotations = list(annotations)
        self._described = dict(zip(map(id, annotations), kinds.multi_type_info(annotations), strict=True))
        self._annotations = annotations

    def of(self, kind: Any) -> Schema:
        if isinstance(kind, PydanticType):
            return self._of_pydantic(kind)
        return self._of(self._described[id(kind)])

    def _of(self, node: kinds.Type) -> Schema:
        if (scalar := _SCALARS.get(type(node))) is not None:
            return scalar(node)
        match node:
            case kinds.Metadata():
                return {**self._of(node.type), **(node.extra_json_schema or {})}
            case kinds.UnionType():
                return {"anyOf": [self._of_choice(part) for part in node.types]}
            case kinds.TupleType():
                return _tuple([self._of(part) for part in node.item_types], len(node.item_types))
            case kinds.CollectionType():
                items = self._unless_any("items", node.item_type)
                return {"type": "array", **items, **_lengths(node, "Items")}
            case kinds.DictType():
                rules = {
                    **self._keys(node.key_type),
                    **self._unless_any("additionalProperties", node.value_type),
                }
                return {"type": "object", **rules, **_lengths(node, "Properties")}
        return self._of_class(node) if hasattr(node, "cls") else {}

    def _of_choice(self, node: kinds.Type) -> Schema:
        """Return the schema of one type of a union. In a union, the tag of a struct is required."""
        schema = self._of(node)
        if isinstance(node, kinds.StructType) and node.tag_field and not node.array_like:
            return {"allOf": [schema], "required": [node.tag_field]}
        return schema

    def _unless_any(self, keyword: str, node: kinds.Type) -> Schema:
        schema = self._of(node)
        return {keyword: schema} if schema else {}

    def _keys(self, node: kinds.Type) -> Schema:
        """Return the part of a map's schema that describes its keys, which are texts in JSON."""
        values: Sequence[Any] = ()
        if isinstance(node, kinds.EnumType):
            values = [] if _takes_others(node.cls) else [member.value for member in node.cls]
        elif isinstance(node, kinds.LiteralType):
            values = node.values
        if values:
            return {"propertyNames": {"enum": [str(value) for value in values]}}
        if isinstance(node, kinds.IntType):
            return {"propertyNames": {"pattern": _INTEGER_KEY}}
        if isinstance(node, kinds.StrType | kinds.DateType | kinds.UUIDType):
            rules = {rule: value for rule, value in self._of(node).items() if rule != "type"}
            return {"propertyNames": rules} if rules else {}
        return {}

    # --- classes

    def _of_class(self, node: Any) -> Schema:
        if isinstance(node, kinds.CustomType):
            if not is_model(node.cls):
                return {}
            import pydantic

            return self._of_pydantic(PydanticType(pydantic.TypeAdapter(node.cls)))
        if id(node) not in self._names:
            name = self._free_name(getattr(node.cls, "__name__", "") or str(node.cls))
            self._names[id(node)] = name
            self.definitions[name] = {}  # reserve the name first: the class may refer to itself
            self.definitions[name] = {"title": name, **self._definition(node)}
        return {"$ref": _REFERENCE + self._names[id(node)]}

    def _free_name(self, name: str) -> str:
        name = re.sub(r"[^A-Za-z0-9_.]", "_", name)
        found, n = name, 1
        while found in self.definitions:
            n += 1
            found = f"{name}_{n}"
        return found

    def _definition(self, node: Any) -> Schema:
        if isinstance(node, kinds.EnumType):
            return _enum(node.cls)
        if isinstance(node, kinds.NamedTupleType) or getattr(node, "array_like", False):
            return self._fields_in_order(node)
        properties = {field.encode_name: self._field(field) for field in node.fields}
        tag = getattr(node, "tag_field", None)
        if tag:
            properties = {tag: {"enum": [node.tag]}, **properties}
        schema: Schema = {"type": "object", "properties": properties}
        if required := [field.encode_name for field in node.fields if field.required]:
            schema["required"] = required
        if getattr(node, "forbid_unknown_fields", False):
            schema["additionalProperties"] = False
        return schema

    def _fields_in_order(self, node: Any) -> Schema:
        items = [self._field(field) for field in node.fields]
        least = max((n for n, field in enumerate(node.fields, 1) if field.required), default=0)
        if getattr(node, "tag_field", None):
            items, least = [{"enum": [node.tag]}, *items], least + 1
        is_closed = isinstance(node, kinds.NamedTupleType) or node.forbid_unknown_fields
        return _tuple(items, least, is_closed=is_closed)

    def _field(self, field: kinds.Field) -> Schema:
        schema = self._of(field.type)
        if field.default is not msgspec.NODEFAULT:
            _set_default(schema, field.default, _to_json)
        elif field.default_factory in (list, dict, set, tuple):
            _set_default(schema, field.default_factory(), _to_json)
        return schema

    # --- pydantic

    def _of_pydantic(self, kind: PydanticType) -> Schema:
        import pydantic

        for n in range(1, len(self.definitions) + 2):
            suffix = "" if n == 1 else f"_{n}"
            try:
                schema = kind.schema(_REFERENCE + "{model}" + suffix)
            except pydantic.errors.PydanticUserError:
                return {}  # validated by code, which no schema can express
            own = {f"{name}{suffix}": _portable(one) for name, one in schema.pop("$defs", {}).items()}
            if all(self.definitions.get(name, one) == one for name, one in own.items()):
                break
        self.definitions.update(own)
        portable: Schema = _portable(schema)
        return portable


def _number(name: str) -> Callable[[Any], Schema]:
    def schema(node: kinds.IntType | kinds.FloatType) -> Schema:
        rules = {
            "exclusiveMinimum": node.gt, "minimum": node.ge, "exclusiveMaximum": node.lt, "maximum": node.le,
            "multipleOf": node.multiple_of,
        }  # fmt: skip
        return {"type": name, **{rule: value for rule, value in rules.items() if value is not None}}

    return schema


def _text(node: kinds.StrType) -> Schema:
    return _with_pattern({"type": "string", **_lengths(node, "Length")}, node.pattern)


def _binary(node: kinds.BytesType) -> Schema:
    lengths = {rule: 4 * math.ceil(n / 3) for rule, n in _lengths(node, "Length").items()}
    return {"type": "string", "format": "byte", "contentEncoding": "base64", **lengths}


def _clock(name: str) -> Callable[[Any], Schema]:
    def schema(node: kinds.DateTimeType | kinds.TimeType) -> Schema:
        zone = {} if node.tz is None else {"pattern": _WITH_ZONE if node.tz else _WITHOUT_ZONE}
        return {"type": "string", "format": name, **zone}

    return schema


# Each entry makes a new schema, because the default of a parameter may be added to it later.
_SCALARS: Final[dict[type[kinds.Type], Callable[[Any], Schema]]] = {
    kinds.NoneType: lambda _: {"type": "null"},
    kinds.BoolType: lambda _: {"type": "boolean"},
    kinds.IntType: _number("integer"),
    kinds.FloatType: _number("number"),
    kinds.StrType: _text,
    kinds.BytesType: _binary,
    kinds.ByteArrayType: _binary,
    kinds.MemoryViewType: _binary,
    kinds.DateTimeType: _clock("date-time"),
    kinds.TimeType: _clock("time"),
    kinds.DateType: lambda _: {"type": "string", "format": "date"},
    kinds.TimeDeltaType: lambda _: {"type": "string", "format": "duration"},
    kinds.UUIDType: lambda _: {"type": "string", "format": "uuid"},
    kinds.DecimalType: lambda _: {"type": ["string", "number"], "format": "decimal"},
    kinds.LiteralType: lambda node: {"enum": list(node.values)},
}


def _enum(cls: type[enum.Enum]) -> Schema:
    values = [member.value for member in cls]
    if not _takes_others(cls):
        return {"enum": values}
    return {"type": "integer" if all(isinstance(value, int) for value in values) else "string"}


def _takes_others(cls: type[enum.Enum]) -> bool:
    """Return whether the enum has code that converts other values to members."""
    return cls._missing_.__func__ is not enum.Enum._missing_.__func__  # type: ignore[attr-defined]


def _tuple(items: list[Schema], least: int, *, is_closed: bool = True) -> Schema:
    schema: Schema = {"type": "array", "prefixItems": items, "minItems": least}
    return {**schema, "maxItems": len(items), "items": False} if is_closed else schema


def _lengths(node: Any, of_what: str) -> Schema:
    rules = {f"min{of_what}": node.min_length, f"max{of_what}": node.max_length}
    return {rule: value for rule, value in rules.items() if value is not None}


def _with_pattern(schema: Schema, pattern: str | None) -> Schema:
    return schema if pattern is None or _NOT_LINEAR.search(pattern) else {**schema, "pattern": pattern}


def _portable(schema: Any) -> Any:
    """Return a schema of pydantic without the rules that would refuse valid arguments in JSON form."""
    if not isinstance(schema, dict):
        return schema
    found = dict(schema)
    # The list is converted to a set, which drops duplicates, so do not forbid them.
    found.pop("uniqueItems", None)
    if found.get("format") in ("binary", "base64url"):
        # These limits count bytes, but the value is base64 text, which is longer.
        found.pop("minLength", None)
        found.pop("maxLength", None)
    if isinstance(pattern := found.pop("pattern", None), str):
        found = _with_pattern(found, pattern)
    if "default" in found and not _is_json(found["default"]):
        del found["default"]
    for keyword in _BY_NAME:
        if keyword in found:
            found[keyword] = {name: _portable(one) for name, one in found[keyword].items()}
    for keyword in _LISTED:
        if keyword in found:
            found[keyword] = [_portable(one) for one in found[keyword]]
    for keyword in _ALONE:
        if keyword in found:
            found[keyword] = _portable(found[keyword])
    return found


def _set_default(schema: Schema, value: Any, to_json: Any) -> None:
    try:
        default = to_json(value)
    except Exception:  # types of the application may raise anything; only people read the default
        return
    if _is_json(default):
        schema["default"] = default


def _to_json(value: Any) -> Any:
    return msgspec.to_builtins(value, str_keys=True, enc_hook=encode_other)


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True
