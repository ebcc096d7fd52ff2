"""HTTP models of calendars."""

from datetime import date
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from jqmaster.api.schemas import Answer, Request, Timestamp
from jqmaster.domain.calendars.calendar import (
    MAX_HOLIDAY_NAME,
    MAX_HOLIDAYS,
    MAX_ICAL_BYTES,
    NAME_PATTERN,
    YEARS_AFTER,
)

_DAY_SCHEMA = WithJsonSchema({"type": "string", "format": "date", "examples": ["2026-11-23"]})


def _day(value: object) -> date:
    if isinstance(value, str) and len(value) == len("2026-11-23"):
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    raise ValueError("must be a day such as 2026-11-23")


Day = Annotated[date, BeforeValidator(_day), _DAY_SCHEMA]
DayText = Annotated[str, _DAY_SCHEMA]


class HolidayRequest(Request):
    """A day off."""

    date: Day
    name: str = Field(min_length=1, max_length=MAX_HOLIDAY_NAME)


class CalendarRequest(Request):
    """A calendar to create or replace. Give exactly one of the fields `dates`, `ical` and `country`."""

    name: Annotated[str, Field(pattern=NAME_PATTERN)] | None = Field(
        None, description="If this field is given, it must equal the name in the path."
    )
    dates: list[HolidayRequest] | None = Field(
        None,
        max_length=MAX_HOLIDAYS,
        description="The holidays themselves. An empty list leaves only weekends.",
    )
    ical: str | None = Field(
        None,
        max_length=MAX_ICAL_BYTES,
        description="A text in the iCalendar format (RFC 5545), at most 256 KiB. Each day of an event is a holiday. "
        f"Recurrences are expanded up to the end of the second year after this one ({YEARS_AFTER} years ahead).",
    )
    country: str | None = Field(
        None,
        max_length=10,
        description="ISO 3166 code. The holidays from last year to the end of the second year after this one are "
        "looked up now and stored. Send the same request again to renew them.",
        examples=["JP"],
    )
    subdivision: str | None = Field(
        None,
        max_length=50,
        description="State or region of the country, such as BY in DE. Null: the whole country.",
    )
    language: str | None = Field(
        None,
        max_length=20,
        description=(
            "Language of the holidays' names, such as ja or en_US, if the library supports "
            "it. Null: the library's default."
        ),
    )
    weekend: list[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]] | None = Field(
        None,
        max_length=6,
        description=(
            "Days of the week that are always off. Null: the weekend of the country, or Saturday and Sunday "
            "if no country is given. An empty list: none."
        ),
    )
    dry_run: bool = Field(
        False, description="True: change nothing, and only return what the request would change."
    )


class HolidayView(Answer):
    """A day off."""

    date: DayText
    name: str


class RenamedHoliday(Answer):
    """A day off that gets another name."""

    date: DayText
    old_name: str
    name: str


class CalendarChanges(Answer):
    """The holidays that a change of a calendar added, removed or renamed."""

    added: list[HolidayView]
    removed: list[HolidayView]
    renamed: list[RenamedHoliday]


class CalendarSummary(Answer):
    """A calendar, without its days."""

    name: str
    source: Literal["dates", "ical", "country"] = Field(description="Source of the holidays.")
    country: str | None
    subdivision: str | None
    language: str | None
    weekend: list[str] = Field(description="Days of the week that are off.")
    holiday_count: int
    covers_until: DayText | None = Field(
        description=(
            "The last day for which holidays are known. Later days count as workdays, except weekends. "
            "Null: the holidays of all days are known."
        )
    )
    used_by: list[str] = Field(description="Names of definitions that use it, at most 100.")
    used_by_count: int
    etag: str | None = Field(
        description="Version tag that changes with every change. The ETag header holds it in quotes. Null: a dry run "
        "of a new calendar."
    )
    created_by: str | None
    created_at: Timestamp | None
    changed_at: Timestamp | None


class CalendarView(CalendarSummary):
    """A calendar."""

    holidays: list[HolidayView] = Field(description="All of its holidays, in order.")
    dates: list[HolidayView] | None = Field(
        description=("The dates as the request gave them. Null if the days come from another source.")
    )
    ical: str | None = Field(description="As it was given. Null for another source.")


class CalendarChangeAnswer(CalendarView):
    """A calendar after a change. After a dry run: the calendar as the change would leave it."""

    changes: CalendarChanges
    dry_run: bool = Field(description="True: nothing was written.")


class CalendarList(Answer):
    """All calendars, sorted by name."""

    calendars: list[CalendarSummary]
