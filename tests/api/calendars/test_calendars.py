"""Calendars over HTTP: created, renewed, used and removed; what a caller may do and what is refused."""

from typing import Any

import pytest

from jqmaster.domain.calendars.calendar import MAX_ICAL_BYTES
from tests.support import real_time
from tests.support.each import for_each
from tests.support.master import Api

pytestmark = [pytest.mark.req("D33"), real_time.MASTER]

NEW_YEAR = {"date": "2027-01-01", "name": "New Year's Day"}
CLOSING = {"date": "2026-12-31", "name": "Year-end closing"}
JOB = {"name": "report"}


async def test_a_calendar_is_made_read_changed_and_removed(api: Api) -> None:
    status, made = await api.call("PUT", "/api/calendars/office", {"dates": [NEW_YEAR]})
    assert status == 201, made
    assert made["changes"] == {"added": [NEW_YEAR], "removed": [], "renamed": []}
    assert (made["source"], made["weekend"], made["covers_until"]) == ("dates", ["sat", "sun"], None)
    status, view = await api.call("GET", "/api/calendars/office")
    assert (status, view["dates"], view["holidays"]) == (200, [NEW_YEAR], [NEW_YEAR])
    assert view == {key: value for key, value in made.items() if key not in ("changes", "dry_run")}
    # The same again changes nothing.
    status, again = await api.call(
        "PUT", "/api/calendars/office", {"dates": [NEW_YEAR], "weekend": ["sun", "sat"]}
    )
    assert (status, again["etag"], again["changes"]["added"]) == (200, view["etag"], [])
    body = {"dates": [CLOSING, {"date": "2027-01-01", "name": "元日"}], "weekend": ["sun"]}
    status, dry = await api.call("PUT", "/api/calendars/office", body | {"dry_run": True})
    assert (status, dry["dry_run"]) == (200, True)
    assert dry["changes"] == {
        "added": [CLOSING],
        "removed": [],
        "renamed": [{"date": "2027-01-01", "old_name": "New Year's Day", "name": "元日"}],
    }
    assert (await api.call("GET", "/api/calendars/office"))[1] == view
    status, changed = await api.call("PUT", "/api/calendars/office", body)
    assert (status, changed["changes"], changed["weekend"]) == (200, dry["changes"], ["sun"])
    assert changed["etag"] != view["etag"]
    _, listed = await api.call("GET", "/api/calendars")
    assert [(one["name"], one["holiday_count"], one["used_by"]) for one in listed["calendars"]] == [
        ("office", 2, [])
    ]
    assert (await api.call("DELETE", "/api/calendars/office"))[0] == 204
    for method in ("GET", "DELETE"):
        status, problem = await api.call(method, "/api/calendars/office")
        assert (status, problem["code"]) == (404, "unknown_calendar")
    _, log = await api.call("GET", "/api/audit?target=office")
    assert [entry["action"] for entry in log["entries"]] == [
        "calendar.delete",
        "calendar.put",
        "calendar.put",
    ]
    assert log["entries"][0]["before"]["dates"][0] == CLOSING


async def test_a_dry_run_of_a_new_calendar_makes_none(api: Api) -> None:
    status, dry = await api.call("PUT", "/api/calendars/office", {"dates": [NEW_YEAR], "dry_run": True})
    assert (status, dry["etag"], dry["created_at"], dry["changes"]["added"]) == (200, None, None, [NEW_YEAR])
    assert (await api.call("GET", "/api/calendars/office"))[0] == 404


async def test_a_country_is_stored_and_renewed(api: Api) -> None:
    pytest.importorskip("holidays")
    body = {"country": "JP", "language": "ja"}
    status, made = await api.call("PUT", "/api/calendars/japan", body)
    assert status == 201, made
    assert made["covers_until"].endswith("-12-31")
    assert {one["name"] for one in made["holidays"]} >= {"元日", "勤労感謝の日"}
    # Part of the answer is lost; a renewal brings it back and says so.
    kept = made["holidays"][1:]
    await api.call("PUT", "/api/calendars/japan", {"dates": kept})
    status, renewed = await api.call("PUT", "/api/calendars/japan", body)
    assert (status, renewed["changes"]["added"]) == (200, made["holidays"][:1])
    assert renewed["source"] == "country"


async def test_a_text_of_a_calendar_program(api: Api) -> None:
    pytest.importorskip("icalendar")
    text = (
        "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//a//b//EN\r\nBEGIN:VEVENT\r\nUID:1\r\n"
        "DTSTART;VALUE=DATE:20270101\r\nSUMMARY:New Year's Day\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
    )
    status, made = await api.call("PUT", "/api/calendars/office", {"ical": text, "weekend": []})
    assert status == 201, made
    assert (made["holidays"], made["ical"], made["weekend"]) == ([NEW_YEAR], text, [])


@for_each(
    "body, loc",
    [
        ({}, ["dates"]),
        ({"dates": [NEW_YEAR], "country": "JP"}, ["country"]),
        ({"dates": [NEW_YEAR], "subdivision": "BY"}, ["subdivision"]),
        ({"country": ""}, ["country"]),
        ({"ical": ""}, ["ical"]),
        ({"ical": "é" * (MAX_ICAL_BYTES // 2 + 1)}, ["ical"]),
        ({"dates": [{"date": "2027-02-30", "name": "a"}]}, ["dates", 0, "date"]),
        ({"dates": [{"date": "20270101", "name": "a"}]}, ["dates", 0, "date"]),
        ({"dates": [{"date": "2027-01-01", "name": ""}]}, ["dates", 0, "name"]),
        ({"dates": [], "weekend": ["someday"]}, ["weekend", 0]),
        ({"dates": [], "name": "other"}, ["name"]),
        ({"dates": [], "days": []}, ["days"]),
    ],
)
async def test_calendars_with_faults_are_refused(api: Api, body: dict[str, Any], loc: list[Any]) -> None:
    status, problem = await api.call("PUT", "/api/calendars/office", body)
    assert status == 422, problem
    assert problem["errors"][0]["loc"] == loc, problem
    assert (await api.call("GET", "/api/calendars/office"))[0] == 404


async def test_definitions_skip_move_and_show_days_off(api: Api) -> None:
    await api.call("PUT", "/api/calendars/office", {"dates": [NEW_YEAR, CLOSING]})
    fields = {"schedule": {"daily_at": "09:00"}, "time_zone": "Asia/Tokyo"}
    days = {"calendar": "office", "rule": "skip_holidays"}
    ask = {**fields, "from": "2026-12-30T12:00:00Z", "count": 3}
    _, skipped = await api.call("POST", "/api/definitions/preview", {**ask, "days": days})
    assert [(one["left_out"], one["note"]) for one in skipped["instants"]] == [
        ("Year-end closing", "skipped: calendar: Year-end closing"),
        ("New Year's Day", "skipped: calendar: New Year's Day"),
        ("Saturday", "skipped: calendar: Saturday"),
    ]
    weekly = {**ask, "schedule": {"weekly_on": ["fri"], "at": "09:00"}, "count": 1}
    _, moved = await api.call(
        "POST", "/api/definitions/preview", {**weekly, "days": {**days, "rule": "next_workday"}}
    )
    (one,) = moved["instants"]
    assert (one["local"], one["moved_from"], one["note"]) == (
        "2027-01-04T09:00:00+09:00", "2027-01-01T00:00:00.000Z", "moved from 2027-01-01",
    )  # fmt: skip
    status, view = await api.call("PUT", "/api/definitions/nightly", {"job": JOB, **fields, "days": days})
    assert (status, view["days"], view["calendar_ends_at"]) == (201, days, None)
    _, calendar = await api.call("GET", "/api/calendars/office")
    assert (calendar["used_by"], calendar["used_by_count"]) == (["nightly"], 1)
    status, problem = await api.call("DELETE", "/api/calendars/office")
    assert (status, problem["code"]) == (409, "calendar_in_use")
    assert "nightly" in problem["detail"]
    bad = {"job": JOB, **fields, "days": {**days, "calendar": "nowhere"}}
    for method, path in (("PUT", "/api/definitions/other"), ("POST", "/api/definitions/preview")):
        status, problem = await api.call(method, path, bad)
        assert (status, problem["errors"][0]["loc"]) == (422, ["days", "calendar"])
    status, view = await api.call("PUT", "/api/definitions/nightly", {"job": JOB, **fields})
    assert (status, view["days"]) == (200, None)
    assert (await api.call("DELETE", "/api/calendars/office"))[0] == 204


async def test_two_people_do_not_overwrite_each_other(api: Api) -> None:
    _, made = await api.call("PUT", "/api/calendars/office", {"dates": []})
    other = {"dates": [NEW_YEAR]}
    for headers in ({"if-match": '"0000000000000000"'}, {"if-none-match": "*"}):
        status, problem = await api.call("PUT", "/api/calendars/office", other, **headers)
        assert status == 412, problem
    headers = {"if-match": f'"{made["etag"]}"'}
    assert (await api.call("PUT", "/api/calendars/office", other, **headers))[0] == 200
    assert (await api.call("DELETE", "/api/calendars/office", **headers))[0] == 412
    assert (await api.call("DELETE", "/api/calendars/gone", **{"if-match": "*"}))[0] == 412
