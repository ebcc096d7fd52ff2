"""Shares of turns: a value of the key with share 10 has ten turns while a value with share 1 has one."""

from dataclasses import dataclass
from typing import Final

MIN_SHARE: Final = 0.001
MAX_SHARE: Final = 1000
MAX_SHARES: Final = 1000


@dataclass(frozen=True, slots=True)
class TurnShare:
    """The share of turns of one value of the key."""

    value: object
    share: float


@dataclass(frozen=True, slots=True)
class ProportionalTurns:
    """Turns in proportion to shares. `default`: the share of all other values of the key."""

    shares: tuple[TurnShare, ...]
    default: float = 1

    @property
    def least(self) -> float:
        """Return the smallest share of all."""
        return min(self.default, *(one.share for one in self.shares)) if self.shares else self.default
