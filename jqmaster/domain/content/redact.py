"""Redaction: values of jobs that no view shows."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import msgpack

from jqmaster.domain.content.readable import with_members

REDACTED: Final = "[redacted]"
_HIDDEN: Final = bytes(msgpack.packb(REDACTED))
ROOTS: Final = ("argument", "result", "error", "headers")
MAX_SEGMENTS: Final = 16
_ANY, _ANY_DEPTH = "*", "**"


class Redactor:
    """Replaces the values at the redacted paths. A path such as `argument.card.number` consists of keys of maps and
    indexes of lists. `*` stands for one key or index, and `**` for any number of them.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        """Parse the paths. For a faulty path, raise a ValueError that names it."""
        self._paths: dict[str, list[tuple[str, ...]]] = {root: [] for root in ROOTS}
        for text in paths:
            root, *rest = text.split(".")
            if root not in ROOTS or not rest or "" in rest or len(rest) > MAX_SEGMENTS:
                raise ValueError(
                    f"{text[:100]}: expected {', '.join(ROOTS)}, followed by keys, each after a dot"
                )
            if rest.count(_ANY_DEPTH) > 1 or rest[-1] == _ANY_DEPTH:
                raise ValueError(f"{text[:100]}: ** may occur only once, and not at the end")
            self._paths[root].append(tuple(rest))

    def encoded(self, root: str, value: bytes) -> bytes:
        """Redact one encoded MessagePack value. If nothing in it is redacted, return the same bytes. If it cannot be
        decoded, hide all of it, because it may contain a redacted value."""
        paths = self._paths[root]
        if not paths:
            return value
        try:
            return _encoded(paths, value)
        except Exception:  # earlier releases accepted undecodable values, and these must not break a view
            return _HIDDEN

    def within(self, root: str, value: bytes) -> bytes:
        """Redact the member named `root` of an encoded map: see `encoded`."""
        paths = [(root, *path) for path in self._paths[root]]
        if not paths:
            return value
        try:
            return _encoded(paths, value)
        except Exception:  # earlier releases accepted undecodable values, and these must not break a view
            return _without(root, value)

    def meets(self, root: str, path: Sequence[str | int]) -> bool:
        """Return whether the value at this path is redacted, lies within a redacted value, or contains a redacted
        value. A path above a `**` does not count: see `reaches_any_depth`.
        """
        patterns = self._paths.get(root, [])
        if root == "headers" and path:
            name = ".".join(map(str, path))
            return self.headers({name: ""})[name] == REDACTED
        return any(_meets(pattern, tuple(map(str, path))) for pattern in patterns)

    def has(self, *roots: str) -> bool:
        """Return whether any value below one of these roots is redacted."""
        return any(self._paths.get(root) for root in roots)

    def reaches_any_depth(self, root: str) -> bool:
        """Return whether any map or list below `root` may contain a redacted value."""
        return any(_ANY_DEPTH in pattern for pattern in self._paths.get(root, ()))

    def found(self, root: str, value: object) -> list[object]:
        """Return the parts of a decoded value that are redacted."""
        found: list[object] = []
        for path in self._paths[root]:
            _collect(value, path, found)
        return found

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the redacted headers of a job. Names are compared without regard to case, and may contain dots."""
        hidden = {".".join(path).lower() for path in self._paths["headers"]}
        is_all = _ANY in hidden
        return {k: REDACTED if is_all or k.lower() in hidden else v for k, v in headers.items()}


@lru_cache(maxsize=8)
def redactor_of(paths: tuple[str, ...]) -> Redactor:
    """Return the Redactor of these paths. The same paths give the same object."""
    return Redactor(paths)


def _encoded(paths: Iterable[tuple[str, ...]], value: bytes) -> bytes:
    # Decode with options that keep everything else unchanged: text that is not UTF-8, extension types, and instants of
    # any precision.
    decoded = msgpack.unpackb(value, strict_map_key=False, unicode_errors="surrogateescape", timestamp=0)
    changed = decoded
    for path in paths:
        changed = _redacted(changed, path)
    if changed is decoded:
        return value
    return bytes(msgpack.packb(changed, unicode_errors="surrogateescape"))


def _without(root: str, value: bytes) -> bytes:
    try:
        return with_members(value, lambda name, member: _HIDDEN if name == root else member)
    except ValueError:
        return _HIDDEN


def _redacted(value: Any, path: tuple[str, ...]) -> Any:
    """Return the same object if nothing in it is redacted. Otherwise return a copy. The copy shares all objects with
    the original, except for the redacted parts and the maps and lists around them.
    """
    if not path:
        return REDACTED
    step, rest = path[0], path[1:]
    if step == _ANY_DEPTH:
        here = _redacted(value, rest)
        return _each(here, lambda _: True, path)
    return _each(value, lambda key: step in (_ANY, key if isinstance(key, str) else str(key)), rest)


def _meets(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    if not pattern:
        return True
    if not path:
        return _ANY_DEPTH not in pattern
    if pattern[0] == _ANY_DEPTH:
        return any(_meets(pattern[1:], path[at:]) for at in range(len(path)))
    return pattern[0] in (_ANY, path[0]) and _meets(pattern[1:], path[1:])


def _collect(value: Any, path: tuple[str, ...], found: list[object]) -> None:
    """Collect the values at `path`."""
    if not path:
        found.append(value)
        return
    step, rest = path[0], path[1:]
    if step == _ANY_DEPTH:
        _collect(value, rest, found)
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, inner in children:
        if step == _ANY_DEPTH:
            _collect(inner, path, found)
        elif step in (_ANY, key if isinstance(key, str) else str(key)):
            _collect(inner, rest, found)


def _each(value: Any, is_meant: Any, rest: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        changed = {key: _redacted(inner, rest) if is_meant(key) else inner for key, inner in value.items()}
        return changed if any(changed[key] is not inner for key, inner in value.items()) else value
    if isinstance(value, list):
        items = [_redacted(inner, rest) if is_meant(n) else inner for n, inner in enumerate(value)]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value
