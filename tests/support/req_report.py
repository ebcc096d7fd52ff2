"""A pytest plugin: at the end, the table of requirement rows with the tests that prove them (`--req-report`)."""

from collections import Counter, defaultdict
from typing import Any

import pytest

_PROPERTY = "requirement_row"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--req-report", action="store_true", help="print the table of requirement rows at the end"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        rows = {row for mark in item.iter_markers("req") for row in mark.args}
        # User properties travel with the reports from the processes of xdist.
        item.user_properties += [(_PROPERTY, row) for row in sorted(rows)]


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


def count(stats: dict[str, list[Any]]) -> dict[str, Counter[str]]:
    """Row → how many tests passed, failed, were skipped. One test counts once, by the worst of its phases."""
    worst: dict[str, tuple[int, str, list[str]]] = {}
    severities = {"passed": (0, "passed"), "skipped": (1, "skipped"), "xfailed": (1, "skipped")}
    for category in ("passed", "skipped", "xfailed", "failed", "error", "xpassed"):
        severity, word = severities.get(category, (2, "failed"))
        for report in stats.get(category, []):
            rows = [value for name, value in getattr(report, "user_properties", []) if name == _PROPERTY]
            if rows and severity >= worst.get(report.nodeid, (-1, "", []))[0]:
                worst[report.nodeid] = (severity, word, rows)
    table: dict[str, Counter[str]] = defaultdict(Counter)
    for _, word, rows in worst.values():
        for row in rows:
            table[row][word] += 1
    return table


def _order(row: str) -> tuple[str, int]:
    """J2 before J10."""
    letters = row.rstrip("0123456789")
    return letters, int(row[len(letters) :] or 0)
