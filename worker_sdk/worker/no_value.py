"""A marker for an observation of a constraint without a key. None cannot be the marker, because None can be the value
of a key."""

from typing import Any, Final


class _NoValue:
    def __repr__(self) -> str:
        return "NO_VALUE"


NO_VALUE: Final[Any] = _NoValue()
