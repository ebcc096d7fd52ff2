"""Texts that identify a person, and the places in values at which they occur."""

import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgpack

from jqmaster.domain.matching.paths import Path

MAX_IDENTIFIERS: Final = 10
# Minimum length of an identifier. A shorter text occurs everywhere by chance.
MIN_LENGTH: Final = 3
MAX_LENGTH: Final = 200
# Maximum number of parts of a path that names a value: see `MAX_PATH_SEGMENTS`.
_MAX_PARTS: Final = 16


def folded(text: str) -> str:
    """Return the text in a form for comparisons, in which letter case, composed accents and wide forms make no
    difference."""
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


class Identifiers:
    """Finds any of several texts, such as an email address and the number of a customer."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = tuple(dict.fromkeys(map(folded, texts)))

    def occur_in(self, text: str) -> bool:
        """Return whether the text contains one of them."""
        compared = folded(text)
        return any(one in compared for one in self._texts)

    def paths_in(self, root: str, value: Any) -> Iterator[str]:
        """Yield the path of each place in a decoded value at which one of the identifiers occurs, in the order of the
        value. A whole number counts if it equals an identifier.

        An identifier may occur in a key of a map, or too deep for a path. Then yield the path of the map or list that
        holds it.
        """
        # Use a stack instead of recursion, because values may be nested more deeply than Python's calls. The next value
        # is the last one in the list.
        rest: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
        told: set[tuple[str | int, ...]] = set()
        while rest:
            parts, inner = rest.pop()
            if isinstance(inner, dict):
                if any(self._is_in(key) for key in inner) and parts not in told:
                    told.add(parts)
                    yield str(Path(root, parts))
                below = [(_below(parts, key), member) for key, member in inner.items()]
                rest += below[::-1]
            elif isinstance(inner, list):
                rest += [(_below(parts, at), member) for at, member in enumerate(inner)][::-1]
            elif parts not in told and self._is_in(inner):
                told.add(parts)
                yield str(Path(root, parts))

    def _is_in(self, leaf: object) -> bool:
        if isinstance(leaf, str):
            return self.occur_in(leaf)
        if isinstance(leaf, bytes):
            return self.occur_in(leaf.decode(errors="ignore"))
        if isinstance(leaf, msgpack.ExtType):
            return self.occur_in(leaf.data.decode(errors="ignore"))
        return isinstance(leaf, int) and not isinstance(leaf, bool) and str(leaf) in self._texts


def is_sealed(value: object) -> bool:
    """Return whether a decoded value was sealed by its pusher or worker, so that nobody can search it here."""
    return isinstance(value, dict) and "sealed_with" in value and "sealed" in value


def _below(parts: tuple[str | int, ...], key: object) -> tuple[str | int, ...]:
    """Return the path of a member. If no path can name the member, return the path of its map or list."""
    if len(parts) >= _MAX_PARTS or isinstance(key, bool):
        return parts
    if isinstance(key, str) or (isinstance(key, int) and 0 <= key < 1_000_000_000):
        return (*parts, key)
    return parts
