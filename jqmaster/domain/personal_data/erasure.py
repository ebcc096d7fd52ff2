"""Erases parts of a job that is over, such as values of its argument, headers and result, and its errors."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgpack

from jqmaster.domain.jobs.job import Attempt
from jqmaster.domain.matching.paths import Path

ERASED: Final = "[erased]"
# The parts of a job that can be erased. Within PATH_ROOTS, single values can be erased by their paths.
PATH_ROOTS: Final = ("argument", "headers", "result")
WHOLE_ROOTS: Final = ("tags", "unique_key", "errors", "progress", "parts", "challenges")
ROOTS: Final = (*PATH_ROOTS, *WHOLE_ROOTS)


def without_value(value: Any, parts: Sequence[str | int]) -> Any:
    """Return a decoded value with `ERASED` in place of the value at this path; the value itself is not changed. Raise
    KeyError if there is no value at the path."""
    if not parts:
        return ERASED
    first, rest = parts[0], parts[1:]
    if isinstance(value, dict) and first in value:
        return {**value, first: without_value(value[first], rest)}
    if isinstance(value, list) and isinstance(first, int) and first < len(value):
        return [*value[:first], without_value(value[first], rest), *value[first + 1 :]]
    raise KeyError(first)


def without_values(encoded: bytes, paths: Sequence[Path]) -> bytes:
    """Return an encoded value without the values at these paths. Raise KeyError if there is no value at a path, and
    ValueError if the value cannot be decoded."""
    # Decode with options that keep everything else unchanged, as redaction does.
    value = _decoded(encoded)
    for path in sorted(paths, key=lambda path: -len(path.parts)):
        value = without_value(value, path.parts)
    return bytes(msgpack.packb(value, unicode_errors="surrogateescape"))


def result_without_error(encoded: bytes) -> bytes:
    """Return an encoded Result without the text and the value of its error; a success is not changed."""
    try:
        result = _decoded(encoded)
    except ValueError:
        return encoded
    if not isinstance(result, dict) or "message" not in result:
        return encoded
    changed = {**result, "message": ERASED, "error": _type_alone(result.get("error"))}
    return bytes(msgpack.packb(changed, unicode_errors="surrogateescape"))


def result_without_values(encoded: bytes, paths: Sequence[Path]) -> bytes:
    """Return an encoded Result without the values at these paths below its member `result`; see `without_values`."""
    return without_values(encoded, [Path(path.root, ("result", *path.parts)) for path in paths])


def attempt_without_error(attempt: Attempt) -> tuple[str, bytes | None]:
    """Return the message and the encoded error of an attempt whose text is erased. The type of the exception stays,
    because it holds no data of a job."""
    message = ERASED if attempt.message else ""
    if attempt.error is None:
        return message, None
    try:
        kept = _type_alone(_decoded(attempt.error))
    except ValueError:
        kept = None
    return message, None if kept is None else bytes(msgpack.packb(kept))


def _decoded(encoded: bytes) -> Any:
    try:
        return msgpack.unpackb(encoded, strict_map_key=False, unicode_errors="surrogateescape", timestamp=0)
    except Exception as exc:  # earlier releases accepted undecodable values
        raise ValueError("not a value that can be decoded") from exc


def _type_alone(error: Any) -> Mapping[str, str] | None:
    if isinstance(error, Mapping) and isinstance(error.get("type"), str):
        return {"type": error["type"], "message": ERASED}
    return None
