"""The table of requirement rows counts each test once, by its worst phase."""

from collections import Counter
from types import SimpleNamespace

from tests.support.req_report import count, ranges


def report(nodeid: str, *rows: str) -> SimpleNamespace:
    return SimpleNamespace(nodeid=nodeid, user_properties=[("requirement_row", row) for row in rows])


def test_rows_are_counted_by_test_and_outcome() -> None:
    stats = {
        "passed": [report("a", "J1", "M1"), report("b", "J1"), report("none")],
        "failed": [report("c", "M1")],
        # The cleanup failed after the test itself had passed.
        "error": [report("b", "J1")],
        "skipped": [report("d", "S1")],
    }
    table = {row: dict(counts) for row, counts in count(stats).items()}
    assert table == {"J1": {"passed": 1, "failed": 1}, "M1": {"passed": 1, "failed": 1}, "S1": {"skipped": 1}}


def test_rows_of_bad_input_are_counted_apart_and_neighbours_that_pass_share_a_line() -> None:
    def of(nodeid: str, *rows: int) -> SimpleNamespace:
        properties: list[tuple[str, object]] = [("bad_input_row", row) for row in rows]
        return SimpleNamespace(nodeid=nodeid, user_properties=[*properties, ("requirement_row", "J1")])

    stats = {"passed": [of("a", 1, 2), of("b", 2, 3), of("c", 9, 10)], "failed": [of("d", 3, 4)]}
    assert list(count(stats)) == ["J1"]
    assert ranges(count(stats, "bad_input_row")) == [
        ("1-2", Counter(passed=3)),
        ("3", Counter(passed=1, failed=1)),
        ("4", Counter(failed=1)),
        ("9-10", Counter(passed=2)),
    ]
