"""Find the path of a value that a master refused. Masters do not name the path, because they check values without
building them."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from worker_sdk.wire import decode

_MAX_STEPS: Final = 1_000_000
_MAX_SHOWN: Final = 200


def place_of(code: str, body: bytes) -> str:
    """Find the value that made a master refuse a push. Return its path, and what is wrong with it. Return an empty text
    if `code` is not about a value, or if no such value is found."""
    if code not in _FINDERS:
        return ""
    try:
        fields: Any = decode(body)
    except (ValueError, RecursionError):
        return ""
    path, what = _FINDERS[code](fields)
    if not path:
        return ""
    place = _text(path)
    if len(place) > _MAX_SHOWN:
        place = f"{place[: _MAX_SHOWN // 2]} … {place[-_MAX_SHOWN // 2 :]}"
    return f"{place} {what}"


_Path = Sequence[Any]


def _walk(fields: Any) -> Iterator[tuple[_Path, Any]]:
    """Yield each value with its path, up to a limit."""
    left: list[tuple[_Path, Any]] = [((), fields)]
    for _ in range(_MAX_STEPS):
        if not left:
            return
        path, value = left.pop()
        yield path, value
        if isinstance(value, dict):
            left += (((*path, key), part) for key, part in value.items())
        elif isinstance(value, list):
            left += (((*path, index), part) for index, part in enumerate(value))


def _too_deep(fields: Any) -> tuple[_Path, str]:
    path = max((path for path, _ in _walk(fields)), key=len, default=())
    return path, f"is {len(path)} levels deep"


def _too_many_nodes(fields: Any) -> tuple[_Path, str]:
    held = [(len(value), path) for path, value in _walk(fields) if path and isinstance(value, dict | list)]
    size, path = max(held, key=lambda one: one[0], default=(0, ()))
    return path, f"alone holds {size}: send less at once, or send an ID of data that is stored elsewhere"


_FINDERS: Final = {"too_deep": _too_deep, "too_many_nodes": _too_many_nodes}


def _text(path: _Path) -> str:
    return str(path[0]) + "".join(f"[{step!r}]" for step in path[1:])
