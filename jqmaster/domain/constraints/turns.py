"""Weights of key values: a value of weight 10 has ten turns while a value of weight 1 has one."""

from dataclasses import dataclass
from typing import Final

MIN_WEIGHT: Final = 0.001
MAX_WEIGHT: Final = 1000
MAX_WEIGHTS: Final = 1000


@dataclass(frozen=True, slots=True)
class TurnWeight:
    """The weight of one value of the key."""

    value: object
    weight: float


@dataclass(frozen=True, slots=True)
class WeightedTurns:
    """Turns in proportion to weights. `default`: the weight of all other values of the key."""

    weights: tuple[TurnWeight, ...]
    default: float = 1

    @property
    def least(self) -> float:
        """Return the smallest weight of all."""
        return min(self.default, *(one.weight for one in self.weights)) if self.weights else self.default
