"""The test order: tests that mostly wait begin first, in every second process, and the longest before all others. A
long test that began last would keep one core busy while the others idle. While tests wait in half of the processes,
the other half use the cores. Tests that share a browser run in one process, one after another."""

from collections.abc import Sequence
from itertools import islice
from typing import Final

import pytest

# Tests with a longer time limit count as long.
LONG_S: Final = 150
# Tests in these folders wait for processes that they start, kill and replace.
WAITING: Final = ("tests/system/", "tests/upgrade/", "tests/conformance/")
# Tests in this folder share a browser, a master and a worker, which stand still while the process runs other tests, and
# then need seconds to go on.
TOGETHER: Final = "tests/ui/"
# The rank of all other tests.
_OTHERS: Final = 1.0


def spread(items: Sequence[pytest.Item], processes: int) -> list[pytest.Item]:
    """Return the tests in equal parts, one for each process (`--dist worksteal` gives each of them one). Every second
    part begins with its share of the tests that wait, longest first, and the second with those that stay together. The
    others keep their order."""
    first = sorted((item for item in items if _rank(item) < _OTHERS), key=_rank)
    together = [item for item in first if item.nodeid.startswith(TOGETHER)]
    waiting = [item for item in first if not item.nodeid.startswith(TOGETHER)]
    sizes = [(len(items) + number) // processes for number in range(processes)]
    sharing = range(0, processes, 2)
    parts = [
        waiting[number // 2 :: len(sharing)][:size] if number in sharing else []
        for number, size in enumerate(sizes)
    ]
    place = min(1, processes - 1)
    parts[place] += together[: sizes[place] - len(parts[place])]
    placed = {item for part in parts for item in part}
    # Those that do not fit into a part begin as soon as possible.
    rest = iter(
        [item for item in first if item not in placed] + [item for item in items if _rank(item) == _OTHERS]
    )
    for part, size in zip(parts, sizes, strict=True):
        part += islice(rest, size - len(part))
    return [item for part in parts for item in part]


def _rank(item: pytest.Item) -> float:
    """Return the place of a test in the order: the longer its time limit, the lower."""
    mark = item.get_closest_marker("timeout")
    limit_s = float(mark.args[0]) if mark and mark.args else 0.0
    if limit_s > LONG_S:
        return -limit_s
    return 0.0 if item.nodeid.startswith((*WAITING, TOGETHER)) else _OTHERS
