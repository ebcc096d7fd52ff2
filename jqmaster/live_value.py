"""Values that are replaced as a whole at run time."""

from typing import Generic, TypeVar

T = TypeVar("T")


class LiveValue(Generic[T]):
    """The settings that one part of a master reads. Read `current` at each use, because a change may replace it
    at any time."""

    __slots__ = ("current",)

    def __init__(self, current: T) -> None:
        self.current = current
