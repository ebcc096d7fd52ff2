"""The value in an observation of a constraint without a key: None is a value of a key."""

from typing import Any, Final


class _NoValue:
    def __repr__(self) -> str:
        return "NO_VALUE"


NO_VALUE: Final[Any] = _NoValue()
