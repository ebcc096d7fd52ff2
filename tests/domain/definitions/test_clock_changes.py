"""Schedules over every clock change of ten zones in ten years, against a reference that walks real minutes."""

import functools
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise, takewhile
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from jqmaster.domain.definitions.schedule import parse_schedule
from jqmaster.domain.definitions.time_zone import GapOrFold
from tests.support import long

DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
# Clock changes of half an hour and of a whole one, at midnight and at two, by law, by the moon, and by decree.
ZONES = (
    "Africa/Casablanca", "America/New_York", "America/Santiago", "America/St_Johns", "Asia/Gaza", "Asia/Tehran",
    "Australia/Lord_Howe", "Europe/Dublin", "Europe/Berlin", "Pacific/Auckland",
)  # fmt: skip
FIRST, LAST = datetime(2017, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
# Each schedule with its meaning for one local minute, written without a library.
FORMS: list[tuple[dict[str, Any], Callable[[datetime], bool]]] = [
    ({"hourly_at": 0}, lambda t: t.minute == 0),
    ({"hourly_at": 45}, lambda t: t.minute == 45),
    ({"daily_at": "00:00"}, lambda t: (t.hour, t.minute) == (0, 0)),
    ({"daily_at": "01:30"}, lambda t: (t.hour, t.minute) == (1, 30)),
    ({"daily_at": "02:30"}, lambda t: (t.hour, t.minute) == (2, 30)),
    ({"weekly_on": ["sun", "sat"], "at": "00:15"}, lambda t: t.weekday() > 4 and (t.hour, t.minute) == (0, 15)),
    ({"cron": "*/5 * * * *"}, lambda t: t.minute % 5 == 0),
    ({"cron": "7,40 1-3 * * SUN-MON"}, lambda t: t.minute in (7, 40) and t.hour in (1, 2, 3) and t.weekday() in (0, 6)),
    ({"cron": "@daily"}, lambda t: (t.hour, t.minute) == (0, 0)),
]  # fmt: skip


@functools.cache
def changes_of(zone: ZoneInfo) -> list[datetime]:
    """Return the hours in which the clocks of a zone change. None changes twice within a day."""
    days = takewhile(lambda at: at < LAST, (FIRST + n * DAY for n in range(10 * 366)))
    return [
        hour for day in days if offset(day, zone) != offset(day + DAY, zone) for hour in within(day, zone)
    ]


def within(day: datetime, zone: ZoneInfo) -> Iterator[datetime]:
    for one, other in pairwise(day + n * HOUR for n in range(25)):
        if offset(one, zone) != offset(other, zone):
            yield one


def offset(at: datetime, zone: ZoneInfo) -> timedelta | None:
    return at.astimezone(zone).utcoffset()


def expected(walk: list[tuple[datetime, datetime]], is_due: Callable[[datetime], bool]) -> list[datetime]:
    """Return the due instants of a walk by minutes over (instant, local time): a local minute is due when the clock
    first shows it or a later one."""
    found = []
    shown = walk[0][1]
    for at, local in walk[1:]:
        is_found = False
        while shown < local:
            shown += MINUTE
            is_found = is_found or is_due(shown)
        if is_found:
            found.append(at)
    return found


@pytest.mark.sized
@pytest.mark.req("D7")
@pytest.mark.parametrize("name", ZONES)
def test_every_local_minute_counts_once_over_each_change(name: str) -> None:
    zone = ZoneInfo(name)
    changes = changes_of(zone)
    assert len(changes) >= 10
    # Every third one, by turns to and from summer time.
    for change in changes[:: long.size(3, 1)]:
        begin, end = change - 26 * HOUR, change + 27 * HOUR
        minutes = int((end - begin) / MINUTE) + 1
        instants = [begin + n * MINUTE for n in range(minutes)]
        walk = [(at, at.astimezone(zone).replace(tzinfo=None)) for at in instants]
        for document, is_due in FORMS:
            assert due_between(document, zone, begin, end) == expected(walk, is_due), (change, document)


def due_between(document: dict[str, Any], zone: ZoneInfo, begin: datetime, end: datetime) -> list[datetime]:
    occurrences = parse_schedule(document).occurrences(round(begin.timestamp() * 1000), zone)
    instants = (datetime.fromtimestamp(occurrence.at_ms / 1000, UTC) for occurrence in occurrences)
    return list(takewhile(lambda at: at <= end, instants))


@pytest.mark.req("D7")
@pytest.mark.parametrize("name", ZONES)
def test_every_minutes_counts_real_minutes_over_each_change(name: str) -> None:
    zone = ZoneInfo(name)
    schedule = parse_schedule({"every_minutes": 45, "offset": 10})
    for change in changes_of(zone):
        occurrences = schedule.occurrences(round(change.timestamp() * 1000) - 1, zone)
        due = [next(occurrences).at_ms for _ in range(4)]
        assert [b - a for a, b in pairwise(due)] == [45 * 60_000] * 3
        assert all(at_ms // 60_000 % 45 == 10 for at_ms in due)


def test_occurrences_name_the_local_time_and_what_is_odd_about_it() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    schedule = parse_schedule({"daily_at": "02:30"})

    def first_after(day: datetime) -> tuple[str, str, GapOrFold]:
        found = next(schedule.occurrences(round(day.replace(tzinfo=UTC).timestamp() * 1000), berlin))
        at = datetime.fromtimestamp(found.at_ms / 1000, UTC)
        return f"{at:%m-%d %H:%M}", f"{found.local:%H:%M}", found.gap_or_fold

    assert first_after(datetime(2026, 3, 28, 12)) == ("03-29 01:00", "02:30", GapOrFold.SKIPPED)
    assert first_after(datetime(2026, 10, 24, 12)) == ("10-25 00:30", "02:30", GapOrFold.REPEATED)
    assert first_after(datetime(2026, 6, 1, 12)) == ("06-02 00:30", "02:30", GapOrFold.NONE)


def test_a_day_that_a_zone_left_out_fires_when_the_next_one_begins() -> None:
    apia = ZoneInfo("Pacific/Apia")
    before = datetime(2011, 12, 29, 12, tzinfo=apia)
    occurrences = parse_schedule({"daily_at": "06:00"}).occurrences(round(before.timestamp() * 1000), apia)
    local = [datetime.fromtimestamp(next(occurrences).at_ms / 1000, apia) for _ in range(2)]
    assert [f"{at:%d %H:%M}" for at in local] == ["31 00:00", "31 06:00"]
