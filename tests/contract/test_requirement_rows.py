"""Each requirement that the product claims to meet has a test that names it."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
CLAIMED = (
    [f"J{n}" for n in range(1, 13)]
    + ["J14", "J16", "J17", "M1", "M2", "M3", "M4", "M6", "M7", "M9", "S1", "S2", "S4", "S6"]
    + ["D1", "D2", "D3", "D4", "D5", "D11", "D15"]
)  # fmt: skip


def test_every_claimed_row_is_named_by_a_test() -> None:
    named: set[str] = set()
    for path in TESTS.rglob("test_*.py"):
        for marker in re.findall(r"mark\.req\(([^)]*)\)", path.read_text()):
            named.update(re.findall(r'"([A-Z]\d+)"', marker))
    assert [row for row in CLAIMED if row not in named] == []
