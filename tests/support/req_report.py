"""A pytest plugin that finally reports which tests prove the rows of requirements and bad input (`--req-report`)."""

from collections import Counter, defaultdict
from typing import Any

import pytest

_PROPERTY = "requirement_row"
_BAD_INPUT = "bad_input_row"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--req-report",
        action="store_true",
        help="print the tables of the rows of requirements and of bad input at the end",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        # User properties travel with the reports from xdist processes.
        for mark, name in (("req", _PROPERTY), ("row", _BAD_INPUT)):
            rows = {row for one in item.iter_markers(mark) for row in one.args}
            item.user_properties += [(name, row) for row in sorted(rows)]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if not config.getoption("--req-report"):
        return
    table = count(terminalreporter.stats)
    terminalreporter.section("requirement rows")
    terminalreporter.write_line(f"{'row':<6}{'tests':>7}{'passed':>8}{'failed':>8}{'skipped':>9}")
    for row in sorted(table, key=_order):
        counts = table[row]
        line = f"{row:<6}{counts.total():>7}{counts['passed']:>8}{counts['failed']:>8}{counts['skipped']:>9}"
        terminalreporter.write_line(line, red=counts["failed"] > 0)
    terminalreporter.section("rows of bad input")
    bad_input = count(terminalreporter.stats, _BAD_INPUT)
    terminalreporter.write_line(f"{'rows':<9}{'tests':>7}{'passed':>8}{'failed':>8}{'skipped':>9}")
    for label, counts in ranges(bad_input):
        line = (
            f"{label:<9}{counts.total():>7}{counts['passed']:>8}{counts['failed']:>8}{counts['skipped']:>9}"
        )
        terminalreporter.write_line(line, red=counts["failed"] > 0)


def ranges(table: dict[Any, Counter[str]]) -> list[tuple[str, Counter[str]]]:
    """Neighbouring rows whose tests all passed share a line with the sum. Every other row has its own."""
    runs: list[tuple[int, int, Counter[str]]] = []
    for row in sorted(table):
        counts = table[row]
        if runs:
            first, last, sums = runs[-1]
            if row == last + 1 and sums.keys() == counts.keys() == {"passed"}:
                runs[-1] = (first, row, sums + counts)
                continue
        runs.append((row, row, counts))
    return [(str(a) if a == b else f"{a}-{b}", counts) for a, b, counts in runs]


def count(stats: dict[str, list[Any]], kind: str = _PROPERTY) -> dict[Any, Counter[str]]:
    """Count passed, failed and skipped tests by row. Each test counts once, by its worst phase."""
    worst: dict[str, tuple[int, str, list[Any]]] = {}
    severities = {"passed": (0, "passed"), "skipped": (1, "skipped"), "xfailed": (1, "skipped")}
    for category in ("passed", "skipped", "xfailed", "failed", "error", "xpassed"):
        severity, word = severities.get(category, (2, "failed"))
        for report in stats.get(category, []):
            rows = [value for name, value in getattr(report, "user_properties", []) if name == kind]
            if rows and severity >= worst.get(report.nodeid, (-1, "", []))[0]:
                worst[report.nodeid] = (severity, word, rows)
    table: dict[Any, Counter[str]] = defaultdict(Counter)
    for _, word, rows in worst.values():
        for row in rows:
            table[row][word] += 1
    return table


def _order(row: str) -> tuple[str, int]:
    """Sort J2 before J10."""
    letters = row.rstrip("0123456789")
    return letters, int(row[len(letters) :] or 0)
