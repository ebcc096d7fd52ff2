"""The table of requirement rows counts each test once, by its worst phase."""

from types import SimpleNamespace

from tests.support.req_report import count


def report(nodeid: str, *rows: str) -> SimpleNamespace:
    return SimpleNamespace(nodeid=nodeid, user_properties=[("requirement_row", row) for row in rows])


def test_rows_are_counted_by_test_and_outcome() -> None:
    stats = {
        "passed": [report("a", "J1", "M1"), report("b", "J1"), report("none")],
        "failed": [report("c", "M1")],
        # Failed while it was cleaned up, after the test itself had passed.
        "error": [report("b", "J1")],
        "skipped": [report("d", "S1")],
    }
    table = {row: dict(counts) for row, counts in count(stats).items()}
    assert table == {"J1": {"passed": 1, "failed": 1}, "M1": {"passed": 1, "failed": 1}, "S1": {"skipped": 1}}
