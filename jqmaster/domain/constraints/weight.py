"""Weights: how much of a limit a job takes, in thousandths of a unit, so that no sum is ever rounded."""

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Final

from jqmaster.domain.matching.fields import MISSING
from jqmaster.domain.matching.paths import Path

# The maximum, in units, of the limits and weights of a constraint that counts units.
MAX_UNITS: Final = 1_000_000_000
THOUSAND: Final = 1000
UNIT_PATTERN: Final = r"^[A-Za-z][A-Za-z0-9_.\-]{0,31}$"
DEFAULT_UNIT: Final = "units"
_STEP: Final = Decimal("0.001")


@dataclass(frozen=True, slots=True)
class Weight:
    """The weights of jobs under one constraint.

    * `path`: the path at which a job has its weight. If it has no number there, or a negative one, it has the default
      weight. None: every job has the default weight.
    * `default`: the default weight, in thousandths.
    """

    path: Path | None = None
    default: int = THOUSAND
    unit: str = DEFAULT_UNIT


def thousandths(value: object) -> int | None:
    """Return a number of units in thousandths, rounded up. A number above MAX_UNITS counts as MAX_UNITS. None: the
    value is negative, or not a number."""
    if type(value) is int:
        return min(value, MAX_UNITS) * THOUSAND if value >= 0 else None
    if type(value) is not float or math.isnan(value) or value < 0:
        return None
    if value >= MAX_UNITS:
        return MAX_UNITS * THOUSAND
    # Convert through the shortest text, as the author wrote it. The binary value may be a little larger. Rounding up
    # would then add a thousandth.
    return int(Decimal(repr(value)).quantize(_STEP, rounding=ROUND_CEILING).scaleb(3))


def exact_thousandths(value: object) -> int | None:
    """Return a number of units in thousandths; None unless it is 0 to MAX_UNITS with at most three decimals."""
    found = thousandths(value)
    if found is None or not isinstance(value, int | float) or value > MAX_UNITS:
        return None
    return found if Decimal(found).scaleb(-3) == Decimal(repr(value)) else None


def units(number: int) -> int | float:
    """Return how many units these thousandths of a unit are."""
    return number / THOUSAND if number % THOUSAND else number // THOUSAND


def units_text(number: int) -> str:
    """Format a number of thousandths of a unit as units for display, such as 41,200 or 0.5."""
    return f"{units(number):,}"


def weight_of(value: object) -> int | None:
    """Return the weight of a job, in thousandths, from the value at its weight path. None: the default applies."""
    return None if value is MISSING else thousandths(value)
