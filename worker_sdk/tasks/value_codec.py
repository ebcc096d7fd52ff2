"""Encode and decode values by annotations: results, partial results and arguments.

msgspec does this. It is imported when the first job is made or run. pydantic encodes its own types. Modules with such
types have already imported pydantic.
"""

import datetime
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec
import msgspec.inspect

from worker_sdk.tasks.compiled import PLAIN

# Types that MessagePack can encode without a conversion.
_CARRIED: Final = (bytes, bytearray, datetime.datetime)
_PLACE: Final = re.compile(r"^(?P<what>.*?)(?: - at `(?P<key>key` in `)?\$(?P<path>.*)`)?$", re.DOTALL)
# The start of a message up to the invalid value. The value is left out, because people who may not read arguments can
# read messages.
_VALUE: Final = re.compile(r"^(Invalid enum value).*", re.DOTALL)
# The words that msgspec puts in backticks for types, and Python's words for these types.
_TYPES: Final = {"object": "dict", "array": "list", "null": "None"}
_TYPE: Final = re.compile(r"(?<=[`| ])(?:object|array|null)(?=[`| ])")
# Messages of msgspec that name an encoding, each with a message that says what was expected.
_EXPECTED: Final = {
    "Invalid RFC3339 encoded datetime": (
        "Expected a date and time such as `2026-05-01T12:00:00Z`, got `str` of another form"
    ),
    "Invalid RFC3339 encoded date": "Expected a date such as `2026-05-01`, got `str` of another form",
    "Invalid RFC3339 encoded time": "Expected a time such as `12:00:00`, got `str` of another form",
    "Invalid ISO8601 duration": "Expected a duration such as `PT90S`, got `str` of another form",
    "Invalid UUID": "Expected a UUID, got `str` of another form",
    "Invalid UUID bytes": "Expected a UUID, got `bytes` of another length",
    "Invalid decimal string": "Expected a decimal number such as `12.50`, got `str` of another form",
    "Invalid base64 encoded string": "Expected base64, got `str` of another form",
    "Invalid enum value": "Expected one of the allowed values",
}


class ResultCodec:
    """Encode and decode results by an annotation.

    * `takes_anything`: the annotation says nothing about the type.

    The constructor raises TypeError for an annotation whose values cannot be encoded. `what` names the result in that
    error.
    """

    def __init__(self, what: str, annotation: Any) -> None:
        self._type = checked_type(what, annotation)
        self.takes_anything = self._type is Any

    def encode(self, value: Any) -> Any:
        """Return the result in wire form. Raise TypeError or ValueError if it cannot be sent."""
        if isinstance(self._type, PydanticType):
            value = self._type.encode(value)
        elif type(value) in PLAIN:
            return value
        try:
            encoded, keyed = with_text_keys(value)
        except TypeError:
            raise TypeError(" ".join(unsendable_part(value, "result"))) from None
        if keyed:
            restored = decoded_value(encoded, self._type)
            if isinstance(self._type, PydanticType):
                restored = self._type.encode(restored)
            for path, key in lost_keys({"result": keyed}, {"result": to_builtins(restored, str_keys=False)}):
                raise TypeError(f"{path} {KEY_REASON.format(key=key)}")
        return encoded

    def decode(self, value: Any) -> Any:
        """Return the result as the type of its annotation. Raise ValueError if it does not fit."""
        try:
            return decoded_value(value, self._type)
        except (msgspec.ValidationError, PydanticError) as exc:
            what, path = place_of_fault(exc, "result")[0]
            raise ValueError(f"{path}: {what}") from None


# --- maps with keys that are not texts

KEY_REASON: Final = (
    "has a key of type {key}, and only texts can be sent as keys: annotate their type, as in dict[int, str], or give "
    "str(key)"
)


def to_builtins(value: Any, *, str_keys: bool) -> Any:
    return msgspec.to_builtins(value, builtin_types=_CARRIED, str_keys=str_keys, enc_hook=encode_other)


def with_text_keys(value: Any) -> tuple[Any, Any]:
    """Return the value in wire form, with texts as keys, and the value with its original keys. Return None as the
    second value if all keys are texts. Raise the exceptions of `to_builtins`."""
    own = to_builtins(value, str_keys=False)
    sent = to_builtins(value, str_keys=True)
    # Compare the two forms, which is faster than a search for keys that are not texts.
    return sent, None if own == sent else own


def unsendable_part(value: Any, path: str) -> tuple[str, str]:
    """Return the path of the part of a value that cannot be encoded, and why. `path`: the path of the value, which
    `with_text_keys` has refused."""
    reason = str(_fault(value))
    while True:
        for step, part in _parts(value):
            if (fault := _fault(part)) is not None:
                path, value, reason = path + step, part, str(fault)
                break
        else:
            return path, reason


def _fault(value: Any) -> Exception | None:
    try:
        with_text_keys(value)
    except (TypeError, ValueError) as exc:
        return exc
    return None


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a value, with the step of the path that leads to each."""
    if isinstance(value, dict):
        yield from ((f"[{key!r}]", part) for key, part in value.items())
    elif isinstance(value, list | tuple):
        yield from ((f"[{index}]", part) for index, part in enumerate(value))
    elif names := _fields_of(type(value)):
        yield from ((f".{name}", getattr(value, name, None)) for name in names)


def _fields_of(kind: type) -> Iterable[str]:
    if is_model(kind):
        found: Any = kind
        return tuple(found.model_fields)
    attributes = getattr(kind, "__attrs_attrs__", ())
    return (
        *getattr(kind, "__struct_fields__", ()),
        *getattr(kind, "__dataclass_fields__", ()),
        *(one.name for one in attributes),
    )


def lost_keys(own: Any, restored: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the type of each key that the annotation does not convert back from text."""
    if isinstance(own, dict):
        known = restored if isinstance(restored, dict) else {}
        for key, part in own.items():
            if type(key) is not str and key not in known:
                yield path, type(key).__name__
                return
            step = key if not path and isinstance(key, str) else f"[{key!r}]"
            yield from lost_keys(part, known.get(key), f"{path}{step}")
    elif isinstance(own, list | tuple):
        others = restored if isinstance(restored, list | tuple) else ()
        for index, part in enumerate(own):
            yield from lost_keys(part, others[index] if index < len(others) else None, f"{path}[{index}]")


# --- types of pydantic


class PydanticError(ValueError):
    """pydantic refused a value. `faults`: pairs of a reason and a path."""

    def __init__(self, faults: list[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{path.removeprefix('.')}: {what}" for what, path in faults))
        self.faults = faults


class PydanticType:
    """A type that pydantic checks."""

    def __init__(self, adapter: Any) -> None:
        self._adapter = adapter

    def encode(self, value: Any) -> Any:
        return self._adapter.dump_python(value, by_alias=True, round_trip=True, warnings=False)

    def decode(self, value: Any) -> Any:
        return _validated(self._adapter.validate_python, value)

    def to_json(self, value: Any) -> Any:
        """Return the JSON form of a value."""
        return self._adapter.dump_python(value, mode="json", by_alias=True, round_trip=True, warnings=False)

    def schema(self, ref_template: str) -> dict[str, Any]:
        """Return the JSON Schema of the type. Raise pydantic's exception for a type that has no schema."""
        schema: dict[str, Any] = self._adapter.json_schema(by_alias=True, ref_template=ref_template)
        return schema


def _validated(validate: Callable[[Any], Any], value: Any) -> Any:
    import pydantic

    try:
        return validate(value)
    except pydantic.ValidationError as exc:
        raise PydanticError(
            [
                (f"{error['msg']}, got `{type(error['input']).__name__}`", "".join(map(_step, error["loc"])))
                for error in exc.errors(include_url=False, include_context=False)
            ]
        ) from None


def _step(part: int | str) -> str:
    return f"[{part}]" if isinstance(part, int) else f".{part}"


def is_model(kind: Any) -> bool:
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def encode_other(value: Any) -> Any:
    """Encode a value of a type that msgspec does not know."""
    if is_model(type(value)):
        return value.model_dump(by_alias=True, round_trip=True, warnings=False)
    if type(value).__module__.partition(".")[0] == "pydantic" and "Secret" not in type(value).__name__:
        return str(value)  # a pydantic URL
    from worker_sdk.unsendable import reason_for  # imported here because only mistakes need it

    raise TypeError(reason_for(value))


def decode_other(kind: Any, value: Any) -> Any:
    return _validated(kind.model_validate, value)


# --- types in general


def decoded_value(value: Any, kind: Any) -> Any:
    if isinstance(kind, PydanticType):
        return kind.decode(value)
    # Convert text keys: a job that was pushed as JSON has only texts as keys.
    return msgspec.convert(value, kind, str_keys=True, dec_hook=decode_other)


def decoder_of(what: str, annotation: Any) -> Callable[[Any], Any]:
    """Return a function that decodes a value to the type of its annotation, and raises ValueError if it does not fit.
    Raise TypeError for an annotation whose values cannot be encoded."""
    kind = checked_type(what, annotation)

    def decode(value: Any) -> Any:
        try:
            return decoded_value(value, kind)
        except (msgspec.ValidationError, PydanticError) as exc:
            problem, path = place_of_fault(exc, "part")[0]
            raise ValueError(f"{path}: {problem}") from None

    return decode


def checked_type(what: str, annotation: Any) -> Any:
    """Return the type that checks values of an annotation: the annotation itself, or a `PydanticType`."""
    if annotation is object:
        return Any
    if _has_pydantic_metadata(annotation):
        return _by_pydantic(what, annotation)
    try:
        described = msgspec.inspect.type_info(annotation)
        found = list(_classes(described))
    except TypeError as exc:
        return _by_pydantic(what, annotation, str(exc))
    if _has_keys_of_tuples(described):
        raise TypeError(
            f"{what} has the type {annotation}: only texts can be sent as keys, and they are not converted to tuples"
        )
    if any(hasattr(one, "__is_pydantic_dataclass__") for one in found):
        return _by_pydantic(what, annotation)
    if others := [one for one in found if not _is_known(one)]:
        return _by_pydantic(
            what, annotation, f"{getattr(others[0], '__name__', others[0])} is not a type that can be encoded"
        )
    return annotation


def _by_pydantic(what: str, annotation: Any, why: str = "") -> "PydanticType":
    if (pydantic := sys.modules.get("pydantic")) is not None:
        try:
            return PydanticType(pydantic.TypeAdapter(annotation))
        except pydantic.PydanticSchemaGenerationError as exc:
            why = why or str(exc).partition("\n")[0]
    raise TypeError(f"{what} has the type {annotation}: {why}")


def _has_pydantic_metadata(annotation: Any) -> bool:
    """Return whether the annotation contains an `Annotated` with metadata that only pydantic understands, such as
    `Field(gt=0)`."""
    if any(
        type(one).__module__.partition(".")[0] in ("pydantic", "annotated_types")
        for one in getattr(annotation, "__metadata__", ())
    ):
        return True
    return any(_has_pydantic_metadata(part) for part in getattr(annotation, "__args__", ()))


def _classes(node: Any, seen: set[int] | None = None) -> Iterator[Any]:
    """Yield some classes in msgspec's description of a type: those that msgspec treats as dataclasses, and those that
    it does not know."""
    seen = set() if seen is None else seen
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, msgspec.inspect.CustomType | msgspec.inspect.DataclassType):
        yield node.cls
    if isinstance(node, msgspec.Struct):
        for name in node.__struct_fields__:
            value = getattr(node, name)
            for part in value if isinstance(value, tuple) else (value,):
                yield from _classes(part, seen)


def _has_keys_of_tuples(node: Any, seen: set[int] | None = None) -> bool:
    seen = set() if seen is None else seen
    if id(node) in seen:
        return False
    seen.add(id(node))
    if isinstance(node, msgspec.inspect.DictType) and isinstance(
        node.key_type, msgspec.inspect.TupleType | msgspec.inspect.VarTupleType
    ):
        return True
    parts = (
        (getattr(node, name) for name in node.__struct_fields__) if isinstance(node, msgspec.Struct) else ()
    )
    return any(
        _has_keys_of_tuples(part, seen)
        for value in parts
        for part in (value if isinstance(value, tuple) else (value,))
    )


def _is_known(kind: Any) -> bool:
    import dataclasses

    return dataclasses.is_dataclass(kind) or hasattr(kind, "__attrs_attrs__") or is_model(kind)


def with_type(what: str, value: Any) -> str:
    return what if ", got " in what else f"{what}, got `{type(value).__name__}`"


def place_of_fault(exc: Exception, name: str) -> list[tuple[str, str]]:
    """Return pairs of a reason and a path that begins with `name`."""
    if isinstance(exc, PydanticError):
        return [(what, f"{name}{path}") for what, path in exc.faults]
    found = _PLACE.match(str(exc))
    assert found
    what = _VALUE.sub(r"\1", found["what"])
    what = _EXPECTED.get(what, what)
    if what.startswith("Expected "):  # other messages quote names of fields
        what = _TYPE.sub(lambda match: _TYPES[match[0]], what)
    if isinstance(exc.__cause__, PydanticError):  # from a model inside a type that msgspec checks
        return [(reason, f"{name}{found['path'] or ''}{path}") for reason, path in exc.__cause__.faults]
    return [(f"{what} (of a key)" if found["key"] else what, f"{name}{found['path'] or ''}")]
