"""The test order: the longest tests begin first, in every second process. A long test that began last would keep one
core busy while the others idle. Long tests mostly wait, so the other processes use the cores meanwhile."""

from collections.abc import Sequence
from itertools import islice
from typing import Final

import pytest

# Tests with a longer time limit count as long.
LONG_S: Final = 150


def longest_first(items: Sequence[pytest.Item], processes: int) -> list[pytest.Item]:
    """Return the tests in equal parts, one for each process (`--dist worksteal` gives each of them one). Every second
    part begins with its share of the long tests, longest first. The others keep their order."""
    long = sorted((item for item in items if _seconds(item) > LONG_S), key=lambda item: -_seconds(item))
    sizes = [(len(items) + number) // processes for number in range(processes)]
    sharing = range(0, processes, 2)
    parts = [
        long[number // 2 :: len(sharing)][:size] if number in sharing else []
        for number, size in enumerate(sizes)
    ]
    placed = {item for part in parts for item in part}
    # Long tests that do not fit into a part begin as soon as possible.
    rest = iter(
        [item for item in long if item not in placed] + [item for item in items if _seconds(item) <= LONG_S]
    )
    for part, size in zip(parts, sizes, strict=True):
        part += islice(rest, size - len(part))
    return [item for part in parts for item in part]


def _seconds(item: pytest.Item) -> float:
    mark = item.get_closest_marker("timeout")
    return float(mark.args[0]) if mark and mark.args else 0.0
