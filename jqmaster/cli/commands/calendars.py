"""Commands about calendars."""

import calendar as months
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.documents import document_in
from jqmaster.cli.console.groups import CommandGroup, IfMatchOption, NamedObjects, NewOption
from jqmaster.cli.console.http import MasterSession

app = CommandGroup()
calendars = NamedObjects("calendar", "/api/calendars")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the calendar.")]
_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTHS_A_ROW: Final = 3
_MONTH_WIDTH: Final = 7 * 3


@app.listing("Calendars: the holidays and weekends by which definitions skip or move instants")
def list_calendars(http: MasterSession) -> None:
    """List the calendars, the sources of their holidays, and the last day that the sources cover."""
    http.show_list(
        http.get("/api/calendars")["calendars"],
        ("NAME", "SOURCE", "WEEKEND", "HOLIDAYS", "COVERS UNTIL", "USED BY"),
        lambda c: (
            c["name"],
            _source(c),
            ",".join(c["weekend"]) or "-",
            c["holiday_count"],
            c["covers_until"] or "-",
            c["used_by_count"],
        ),
    )


@app.command()
def show(http: MasterSession, name: NameArgument) -> None:
    """Show a calendar and its holidays."""
    found = http.get(calendars.path(name))
    if http.says_json(found):
        return
    output.show_fields(
        (("name", found["name"]), ("source", _source(found)), ("weekend", ", ".join(found["weekend"])),
         ("covers_until", found["covers_until"]), ("used_by", ", ".join(found["used_by"])),
         ("changed_at", found["changed_at"]), ("etag", found["etag"]))
    )  # fmt: skip
    for one in found["holidays"]:
        output.say(f"{one['date']}  {one['name']}")


@app.command()
def put(
    http: MasterSession,
    name: NameArgument,
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            help="TOML or JSON file, or a calendar in the iCalendar format (.ics); - reads JSON.",
        ),
    ] = None,
    *,
    country: Annotated[str | None, typer.Option(help="ISO 3166 code, such as JP.")] = None,
    subdivision: Annotated[str | None, typer.Option(help="State or region of the country.")] = None,
    language: Annotated[str | None, typer.Option(help="Language of the names, such as ja.")] = None,
    weekend: Annotated[
        str | None, typer.Option(help="Days off in each week, such as fri,sat; empty for none.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    new: NewOption = False,
    if_match: IfMatchOption = None,
) -> None:
    """Create, replace or renew a calendar, and show which holidays changed.

    Give a file or a country. To renew the holidays of a country, repeat the command.
    """
    body = _document(file)
    for field, value in (("country", country), ("subdivision", subdivision), ("language", language)):
        if value is not None:
            body[field] = value
    if weekend is not None:
        body["weekend"] = [day.strip() for day in weekend.split(",") if day.strip()]
    if not body:
        exits.fail(exits.USAGE, "give a file or --country")
    is_new, answer = calendars.put(http, name, body | {"dry_run": dry_run}, new=new, if_match=if_match)
    if http.says_json(answer):
        return
    what = "would be" if dry_run else "created" if is_new else "is in force"
    until = f" until {answer['covers_until']}" if answer["covers_until"] else ""
    output.say(f"{answer['name']}  {what}  {answer['holiday_count']} holidays{until}")
    if not is_new:
        for line in _changes(answer["changes"]):
            output.say(line)


calendars.add_delete(app, "Delete a calendar. Refused while definitions use it.")


@app.command()
def year(
    http: MasterSession,
    name: NameArgument,
    number: Annotated[
        int | None, typer.Argument(metavar="YEAR", min=1970, max=9998, help="Default: this year.")
    ] = None,
) -> None:
    """Show a year of a calendar. The sign * marks holidays, and - marks weekends."""
    found = http.get(calendars.path(name))
    shown = datetime.now(UTC).year if number is None else number
    holidays = {
        one["date"]: one["name"] for one in found["holidays"] if one["date"].startswith(f"{shown:04}-")
    }
    if http.says_json({"year": shown, "weekend": found["weekend"], "holidays": holidays}):
        return
    output.say(f"{found['name']} {shown}")
    for first in range(1, 13, _MONTHS_A_ROW):
        row = [_month(shown, first + n, holidays, found["weekend"]) for n in range(_MONTHS_A_ROW)]
        for lines in zip_longest(*row, fillvalue=""):
            output.say("   ".join(line.ljust(_MONTH_WIDTH) for line in lines).rstrip())
    for day, holiday in sorted(holidays.items()):
        output.say(f"{day}  {holiday}")


# --- output


def _month(year: int, month: int, holidays: Mapping[str, str], weekend: Sequence[str]) -> list[str]:
    """Return the lines of a month: its name, the days of the week, and the weeks."""
    lines = [f"{months.month_name[month]}".center(_MONTH_WIDTH), " Mo Tu We Th Fr Sa Su"]
    weeks = months.Calendar().monthdayscalendar(year, month)
    lines += ["".join(_day(year, month, n, holidays, weekend) for n in week) for week in weeks]
    return [*lines, *[""] * (8 - len(lines)), ""]


def _day(year: int, month: int, n: int, holidays: Mapping[str, str], weekend: Sequence[str]) -> str:
    if not n:
        return "   "
    day = date(year, month, n)
    mark = "*" if day.isoformat() in holidays else "-" if _DAYS[day.weekday()] in weekend else " "
    return f"{mark}{n:2}"


def _changes(changes: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each holiday that changed, in the order of the days."""
    lines = [(one["date"], f"+ {one['date']}  {one['name']}") for one in changes["added"]]
    lines += [(one["date"], f"- {one['date']}  {one['name']}") for one in changes["removed"]]
    lines += [
        (one["date"], f"~ {one['date']}  {one['old_name']} -> {one['name']}") for one in changes["renamed"]
    ]
    yield from (line for _, line in sorted(lines))
    if not lines:
        yield "no holiday changes"


def _source(calendar: Mapping[str, Any]) -> str:
    parts = [calendar["country"], calendar["subdivision"], calendar["language"]]
    return "-".join(part for part in parts if part) or str(calendar["source"])


def _document(file: str | None) -> dict[str, Any]:
    if file is None:
        return {}
    if not file.lower().endswith(".ics"):
        document = document_in(file)
        return {key: value for key, value in document.items() if key != "dry_run"}
    try:
        return {"ical": Path(file).read_text()}
    except (OSError, UnicodeDecodeError) as error:
        exits.fail(exits.USAGE, f"{file}: {error}")
