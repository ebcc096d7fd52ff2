"""The test order: tests that mostly wait begin first, in every second process, and the longest before all others. A
long test that began last would keep one core busy while the others idle. While tests wait in half of the processes,
the other half use the cores."""

from collections.abc import Sequence
from itertools import islice
from typing import Final

import pytest

# Tests with a longer time limit count as long.
LONG_S: Final = 150
# Tests in these folders wait for processes that they start, kill and replace.
WAITING: Final = ("tests/system/", "tests/upgrade/", "tests/conformance/")


def waiting_first(items: Sequence[pytest.Item], processes: int) -> list[pytest.Item]:
    """Return the tests in equal parts, one for each process (`--dist worksteal` gives each of them one). Every second
    part begins with its share of the tests that wait, longest first. The others keep their order."""
    waiting = sorted((item for item in items if _waits(item)), key=lambda item: -_long_s(item))
    sizes = [(len(items) + number) // processes for number in range(processes)]
    sharing = range(0, processes, 2)
    parts = [
        waiting[number // 2 :: len(sharing)][:size] if number in sharing else []
        for number, size in enumerate(sizes)
    ]
    placed = {item for part in parts for item in part}
    # Those that do not fit into a part begin as soon as possible.
    rest = iter(
        [item for item in waiting if item not in placed] + [item for item in items if not _waits(item)]
    )
    for part, size in zip(parts, sizes, strict=True):
        part += islice(rest, size - len(part))
    return [item for part in parts for item in part]


def _waits(item: pytest.Item) -> bool:
    return _long_s(item) > 0 or item.nodeid.startswith(WAITING)


def _long_s(item: pytest.Item) -> float:
    """Return the time limit of a long test, or 0."""
    mark = item.get_closest_marker("timeout")
    limit_s = float(mark.args[0]) if mark and mark.args else 0.0
    return limit_s if limit_s > LONG_S else 0.0
