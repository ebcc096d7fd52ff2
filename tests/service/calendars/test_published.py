"""Holidays of ten countries in five years, against the lists that their governments publish."""

from datetime import date
from pathlib import Path

import pytest

from jqmaster.service.calendars.source_child import holidays_of_country
from tests.support.each import for_each

pytest.importorskip("holidays")

FIRST, LAST = date(2023, 1, 1), date(2027, 12, 31)
FILES = sorted((Path(__file__).parent / "published").glob("*.txt"))


def published(file: Path) -> set[date]:
    """Return the days of a file: lines such as `2026: 01-01 04-03`. Its comments name the source."""
    lines = file.read_text().splitlines()
    assert any(line.startswith("# Source: ") for line in lines), file
    rows = [line.split(": ") for line in lines if not line.startswith("#")]
    return {date.fromisoformat(f"{year}-{day}") for year, days in rows for day in days.split()}


def test_the_lists_cover_ten_countries_and_five_years() -> None:
    assert len(FILES) == 10
    assert all({day.year for day in published(file)} == {2023, 2024, 2025, 2026, 2027} for file in FILES)


@pytest.mark.req("D33")
@for_each("stem", [file.stem for file in FILES])
def test_holidays_are_those_that_the_government_published(stem: str) -> None:
    country, _, subdivision = stem.partition("-")
    found, covers_until, _ = holidays_of_country(country, subdivision, "", FIRST, LAST)
    listed = published(Path(__file__).parent / "published" / f"{stem}.txt")
    assert covers_until == LAST
    assert listed <= found.keys(), sorted(listed - found.keys())
    # A library may also name a holiday on the weekend from which it was moved. It is off anyway.
    others = {day for day in found.keys() - listed if day.weekday() < 5}
    assert not others, {day.isoformat(): found[day] for day in others}
