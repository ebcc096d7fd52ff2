"""The order of a run: each process begins with its share of the longest tests. One that began last would keep one core
busy while the others have nothing to do."""

from collections.abc import Sequence
from itertools import islice
from typing import Final

import pytest

# Tests that get more time than this are the long ones.
LONG_S: Final = 150


def longest_first(items: Sequence[pytest.Item], processes: int) -> list[pytest.Item]:
    """Return the tests in as many equal parts as there are processes (`--dist worksteal` gives each of them one), the
    longest of each part first, and the others in the order in which they were."""
    long = sorted((item for item in items if _seconds(item) > LONG_S), key=lambda item: -_seconds(item))
    chosen = set(long)
    rest = iter([item for item in items if item not in chosen])
    ordered: list[pytest.Item] = []
    for number in range(processes):
        size = (len(items) - len(ordered)) // (processes - number)
        part = long[number::processes][:size]
        ordered += part
        ordered += islice(rest, size - len(part))
    return ordered


def _seconds(item: pytest.Item) -> float:
    mark = item.get_closest_marker("timeout")
    return float(mark.args[0]) if mark and mark.args else 0.0
