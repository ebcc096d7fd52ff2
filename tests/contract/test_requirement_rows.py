"""docs/requirements.md and the marks of the tests name the same rows."""

import functools
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
DOCUMENT = TESTS.parent / "docs" / "requirements.md"
ROW = re.compile(
    r"^\| (?P<row>[A-Z]\d+) \| (?P<text>[^|]+) \| (?P<status>met|in part(?:: [^|]+)?|planned) \|$", re.M
)


def statuses() -> dict[str, str]:
    """Return the status of each row of the document: met, in part or planned."""
    return {found["row"]: found["status"].partition(":")[0] for found in ROW.finditer(DOCUMENT.read_text())}


@functools.cache
def marked() -> dict[str, str]:
    """Return each row named in a mark, with the file of one such mark."""
    return {
        row: path.name
        for path in TESTS.rglob("test_*.py")
        for arguments in re.findall(r"mark\.req\(([^)]*)\)", path.read_text())
        for row in re.findall(r'"([^"]*)"', arguments)
    }


def test_each_row_stands_once_in_the_form_of_the_table() -> None:
    lines = [line for line in DOCUMENT.read_text().splitlines() if re.match(r"\| [A-Z]\d", line)]
    assert [line for line in lines if not ROW.fullmatch(line)] == []
    assert len(lines) == len(statuses()) > 80


def test_every_mark_names_a_row_of_the_document() -> None:
    assert {row: file for row, file in marked().items() if row not in statuses()} == {}


def test_every_row_that_is_met_is_proved_by_a_test() -> None:
    assert [row for row, status in statuses().items() if status == "met" and row not in marked()] == []


def test_no_test_proves_what_is_not_built() -> None:
    assert [row for row, status in statuses().items() if status == "planned" and row in marked()] == []
