"""Encode values for a master. An error says which part of a value cannot be sent, and what to send instead."""

import dataclasses
import datetime
import enum
from collections.abc import Iterator, Mapping
from typing import Any, Final

from worker_sdk.errors import InvalidArgument
from worker_sdk.wire import encode, has_text_keys

Unsendable = TypeError | ValueError | OverflowError

_MAX_DEPTH: Final = 512
_MAX_SHOWN: Final = 200
_KEY_IS_NOT_TEXT: Final = "a key is not text"
_HINTS: Final = {
    "UUID": "give str(value)",
    "Decimal": "give str(value), or float(value) where that is exact enough",
    "date": "give value.isoformat()",
    "time": "give value.isoformat()",
    "timedelta": "give value.total_seconds()",
    "set": "give a list",
    "frozenset": "give a list",
}
_FORMS: Final = "give it as None, bool, int, float, str, bytes, list, dict, or datetime with a time zone"


def sendable(value: Any, fields: Mapping[str, Any] | None = None) -> bytes:
    """Encode a value for a master. Raise TypeError, ValueError or OverflowError that names the path of a part that
    cannot be sent. `fields`: a map that contains the value under its name, for the path in the error. Default: the
    value itself, which must then be a map.
    """
    try:
        data = encode(value)
        if not has_text_keys(value):
            raise TypeError(_KEY_IS_NOT_TEXT)
    except (TypeError, ValueError, OverflowError) as exc:
        raise explained(exc, value if fields is None else fields) from None
    return data


def check_keys(value: Any) -> None:
    """Raise TypeError if a key in a value is not text. MessagePack could encode such a key, but masters refuse it.
    `explained` adds the path to the error."""
    if not has_text_keys(value):
        raise TypeError(_KEY_IS_NOT_TEXT)


def explained(exc: Unsendable, fields: Mapping[str, Any]) -> Unsendable:
    """Return an error that names the path of the part that cannot be sent. `exc`: the error that `encode(fields)` or
    `check_keys(fields)` raised. The new error has the same class, or InvalidArgument for an argument of a task."""
    path, value, is_key = _culprit(fields)
    reason = _reason_for_key(value) if is_key and not isinstance(value, str) else reason_for(value)
    if getattr(fields, "task", None) is not None and path.startswith("argument["):
        parameter, _, rest = path.removeprefix("argument[").partition("]")
        place = parameter.strip("'") + rest
        return InvalidArgument(str(fields["name"]), [(f"a key of {place}" if is_key else place, reason)])
    whole = f"a key of {path}" if is_key else path
    if len(whole) > _MAX_SHOWN:
        whole = f"{whole[: _MAX_SHOWN // 2]} … {whole[-_MAX_SHOWN // 2 :]}"
    message = f"{whole} {reason}"
    if isinstance(exc, TypeError | OverflowError):
        return type(exc)(message)
    return ValueError(message)


def _culprit(fields: Mapping[str, Any]) -> tuple[str, Any, bool]:
    """Return the path of the part that cannot be sent, the part, and whether it is a key in the value at that path."""
    path, value = "", fields
    above: set[int] = set()
    for depth in range(_MAX_DEPTH):
        if id(value) in above:
            break  # the value contains itself
        above.add(id(value))
        for step, part, is_key in _parts(value):
            if is_key:
                if not isinstance(part, str) or not _has_form(part):
                    return path, part, True
            elif not _has_form(part):
                path += str(step) if depth == 0 else f"[{step!r}]"
                value = part
                break
        else:
            break  # each item alone can be encoded, so the fault is in the whole
    return path, value, False


def _parts(value: Any) -> Iterator[tuple[Any, Any, bool]]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield key, key, True
            yield key, part, False
    elif isinstance(value, list | tuple):
        for index, part in enumerate(value):
            yield index, part, False


def _has_form(value: Any) -> bool:
    try:
        encode(value)
        check_keys(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _reason_for_key(value: Any) -> str:
    hint = "key.decode()" if isinstance(value, bytes) else "str(key)"
    return f"is {_a(type(value))}, and only str can be a key: give {hint}"


def _a(kind: type) -> str:
    """Return the name of the type with its article. Names with U get "a", as in "a UUID" or "a User"."""
    return f"{'an' if kind.__name__[0] in 'aeioAEIO' else 'a'} {kind.__name__}"


def reason_for(value: Any) -> str:
    """Return why a part has no form in MessagePack, and what to give instead."""
    if isinstance(value, dict | list | tuple):
        return f"is nested more than {_MAX_DEPTH} deep, or contains itself"
    if isinstance(value, bool | int):
        return "is an integer beyond 64 bits: give it as str"
    if isinstance(value, str):
        return "is a str that has no UTF-8 form (it contains a lone surrogate)"
    if isinstance(value, datetime.datetime):
        return "is a datetime without a time zone: give datetime.now(UTC), not datetime.now()"
    kind = type(value)
    if isinstance(value, enum.Enum):
        hint = "give value.value"
    elif dataclasses.is_dataclass(value):
        hint = "give dataclasses.asdict(value)"
    elif hasattr(kind, "model_dump"):
        hint = 'give value.model_dump(mode="json")'
    else:
        hint = next((_HINTS[one.__name__] for one in kind.__mro__ if one.__name__ in _HINTS), _FORMS)
    return f"is {_a(kind)}, which has no MessagePack form: {hint}"
