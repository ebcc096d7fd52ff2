"""Suggestions for misspelt names."""

from collections.abc import Iterable
from typing import Final

_MIN_ALIKE: Final = 0.75


def closest(name: str, known: Iterable[str], least_alike: float = _MIN_ALIKE) -> str | None:
    """Return the known name that `name` resembles most, or None if it resembles no known name."""
    import difflib  # imported here because only mistakes need it

    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=least_alike)), None)


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean …?", or an empty text if no known name resembles `name`."""
    found = closest(name, known)
    return f"; did you mean {found}?" if found else ""
