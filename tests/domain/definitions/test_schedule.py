from itertools import islice, pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jqmaster.domain.calendars.calendar import DAYS
from jqmaster.domain.definitions.refusal import DefinitionError
from jqmaster.domain.definitions.schedule import MAX_EVERY_MINUTES, parse_schedule
from jqmaster.domain.definitions.time_zone import zone_named

UTC = ZoneInfo("UTC")
YEAR_MS = 366 * 86_400_000
CLOCKS = st.builds(lambda h, m: f"{h:02}:{m:02}", st.integers(0, 23), st.integers(0, 59))
DOCUMENTS = st.one_of(
    st.integers(1, MAX_EVERY_MINUTES).flatmap(
        lambda n: st.builds(lambda o: {"every_minutes": n, "offset": o}, st.integers(0, n - 1))
    ),
    st.builds(lambda m: {"hourly_at": m}, st.integers(0, 59)),
    st.builds(lambda t: {"daily_at": t}, CLOCKS),
    st.builds(
        lambda days, t: {"weekly_on": sorted(days), "at": t},
        st.sets(st.sampled_from(DAYS), min_size=1),
        CLOCKS,
    ),
    st.builds(
        lambda minute, hour, day, weekday: {"cron": f"{minute} {hour} {day} * {weekday}"},
        st.sampled_from(["0", "*/7", "5,35", "10-20", "*"]),
        st.sampled_from(["*", "3", "*/6", "22-23"]),
        st.sampled_from(["*", "1", "L", "31", "1-7"]),
        st.sampled_from(["*", "MON", "SAT,SUN", "5L", "TUE#2"]),
    ),
)
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"])
INSTANTS = st.integers(1_500_000_000_000, 2_500_000_000_000)


@pytest.mark.req("D7")
@given(document=DOCUMENTS, zone=ZONES, after_ms=INSTANTS)
def test_instants_grow_and_each_follows_the_one_before(
    document: dict[str, Any], zone: str, after_ms: int
) -> None:
    schedule, place = parse_schedule(document), ZoneInfo(zone)
    found = list(islice(schedule.occurrences(after_ms, place), 5))
    assert found[0].at_ms > after_ms
    assert all(one.at_ms < other.at_ms for one, other in pairwise(found))
    assert all(occurrence.at_ms % 60_000 == 0 for occurrence in found)
    # The starting point does not matter: the leader starts at the last instant that it handled.
    for one, other in pairwise(found):
        assert next(schedule.occurrences(one.at_ms, place)) == other
        assert next(schedule.occurrences(other.at_ms - 1, place)).at_ms == other.at_ms


@given(document=DOCUMENTS)
def test_a_schedule_read_from_its_document_is_the_same(document: dict[str, Any]) -> None:
    schedule = parse_schedule(document)
    assert parse_schedule(schedule.document) == schedule


@pytest.mark.req("D7")
@pytest.mark.parametrize(
    ("document", "loc"),
    [
        ({"every_minutes": 0}, "schedule.every_minutes"),
        ({"every_minutes": True}, "schedule.every_minutes"),
        ({"every_minutes": 1.5}, "schedule.every_minutes"),
        ({"every_minutes": MAX_EVERY_MINUTES + 1}, "schedule.every_minutes"),
        ({"every_minutes": 5, "offset": 5}, "schedule.offset"),
        ({"every_minutes": 5, "at": "02:30"}, "schedule.at"),
        ({"hourly_at": 60}, "schedule.hourly_at"),
        ({"hourly_at": 1, "daily_at": "02:30"}, "schedule.daily_at"),
        ({"daily_at": "24:00"}, "schedule.daily_at"),
        ({"daily_at": "2:30"}, "schedule.daily_at"),
        ({"daily_at": "02:30\n"}, "schedule.daily_at"),
        ({"weekly_on": [], "at": "02:30"}, "schedule.weekly_on"),
        ({"weekly_on": "mon", "at": "02:30"}, "schedule.weekly_on"),
        ({"weekly_on": ["mon", "moon"], "at": "02:30"}, "schedule.weekly_on.1"),
        ({"weekly_on": [{}], "at": "02:30"}, "schedule.weekly_on.0"),
        ({"weekly_on": ["mon"]}, "schedule.at"),
        ({"cron": ""}, "schedule.cron"),
        ({"cron": 5}, "schedule.cron"),
        ({"cron": "* * * *"}, "schedule.cron"),
        ({"cron": "0 * * * * *"}, "schedule.cron"),
        ({"cron": "60 * * * *"}, "schedule.cron"),
        ({"cron": "@reboot"}, "schedule.cron"),
        ({"cron": "@ * * * *"}, "schedule.cron"),
        ({"cron": "0 0 31 2 *"}, "schedule.cron"),
        ({"cron": "0 0 30 2 *"}, "schedule.cron"),
        ({"cron": "0 0 31 4,6 *"}, "schedule.cron"),
        ({"cron": "0 0 * * MON#2/2"}, "schedule.cron"),
        ({"cron": "0 0 L/2 * 2L/2"}, "schedule.cron"),
        ({"cron": "0 " * 200}, "schedule.cron"),
        ({}, "schedule"),
        (None, "schedule"),
        ("daily", "schedule"),
        ({"at": "02:30"}, "schedule"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused_with_its_place(document: object, loc: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        parse_schedule(document)
    assert ".".join(map(str, refused.value.loc)) == loc
    assert refused.value.msg


@given(text=st.text(alphabet="0123456789*/,-LW#@ MONJANadily", max_size=40))
def test_any_text_is_a_cron_expression_or_refused(text: str) -> None:
    try:
        schedule = parse_schedule({"cron": text})
    except DefinitionError:
        return
    assert next(schedule.occurrences(0, UTC)).at_ms > 0


def test_names_and_nicknames_of_cron_are_known() -> None:
    for one, other in (
        ("0 0 * * mon-fri", "0 0 * * 1-5"),
        ("@Weekly", "0 0 * * 0"),
        ("5 4 1 jan *", "5 4 1 1 *"),
    ):
        found, same = (
            list(islice(parse_schedule({"cron": text}).occurrences(0, UTC), 20)) for text in (one, other)
        )
        assert found == same


def test_a_leap_day_is_waited_for() -> None:
    found = islice(parse_schedule({"cron": "0 0 29 2 *"}).occurrences(4_000_000_000_000, UTC), 3)
    # 2100 is not a leap year.
    assert [occurrence.local.year for occurrence in found if occurrence.local] == [2104, 2108, 2112]


def test_the_end_of_the_calendar_ends_a_schedule() -> None:
    near_the_end_ms = 253_402_300_000_000 - 86_400_000
    assert len(list(parse_schedule({"daily_at": "00:00"}).occurrences(near_the_end_ms, UTC))) <= 2
    assert not list(parse_schedule({"daily_at": "00:00"}).occurrences(10**17, UTC))


@pytest.mark.req("D7")
@pytest.mark.parametrize(
    "name",
    ["Mars/Olympus", "America", "", "../etc/passwd", "/etc/localtime", "localtime", "utc\0", "x" * 99, "é"],
)
def test_a_zone_that_does_not_exist_is_refused(name: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        zone_named(name)
    assert refused.value.loc == ("time_zone",)
