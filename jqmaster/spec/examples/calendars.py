"""Examples of bodies about calendars."""

from typing import Any, Final

_HOLIDAY: Final = {"date": "2026-11-23", "name": "Labor Thanksgiving Day"}
_CALENDAR_SUMMARY: Final[dict[str, Any]] = {
    "name": "japan",
    "source": "country",
    "country": "JP",
    "subdivision": None,
    "language": "en_US",
    "weekend": ["sat", "sun"],
    "holiday_count": 1,
    "covers_until": "2028-12-31",
    "used_by": ["nightly-report"],
    "used_by_count": 1,
    "etag": "0b6d1f3a5c7e9824",
    "created_by": "admin",
    "created_at": "2026-11-20T09:00:00.000Z",
    "changed_at": "2026-11-20T09:00:00.000Z",
}
_CALENDAR_VIEW: Final[dict[str, Any]] = {
    **_CALENDAR_SUMMARY,
    "holidays": [_HOLIDAY],
    "dates": None,
    "ical": None,
}

EXAMPLES: Final[dict[str, Any]] = {
    "CalendarRequest": {"country": "JP", "language": "en_US"},
    "CalendarView": _CALENDAR_VIEW,
    "CalendarList": {"calendars": [_CALENDAR_SUMMARY]},
    "CalendarChangeAnswer": {
        **_CALENDAR_VIEW,
        "changes": {"added": [_HOLIDAY], "removed": [], "renamed": []},
        "dry_run": False,
    },
}
