"""The words of the web UI and the glossary for the states of workers and masters. The API has different names for
these states."""

from collections.abc import Mapping
from typing import Final

_WORDS: Final[Mapping[str, str]] = {"fresh": "live", "stale": "silent"}


def state_word(state: str) -> str:
    """Return the word for the state of a worker or a master."""
    return _WORDS.get(state, state)
