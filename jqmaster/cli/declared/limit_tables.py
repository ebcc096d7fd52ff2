"""Parse limits and shares of single values of a key, from files and from options of the command line."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from jqmaster.cli.console import exits
from jqmaster.cli.console.documents import json_of, json_or_text, parsed, text_of

# The columns of a table of limits. `rate` has the form LIMIT/SECONDS.
COLUMNS: Final = ("value", "concurrency", "rate", "paused", "weight")
_FLAGS: Final = {"": False, "0": False, "false": False, "no": False, "1": True, "true": True, "yes": True}
_DEFAULT_VALUE: Final = "*"


def table_in(file: str) -> list[dict[str, Any]]:
    """Return the rows of a table of limits. A file named *.csv is read as CSV, any other file as JSON. Each row
    has `value` and the columns that are not empty. End the command if the file has a different form."""
    rows = _csv_rows(file) if file.endswith(".csv") else _json_rows(file)
    if not rows:
        exits.fail(exits.USAGE, f"{file} has no values")
    return rows


def _csv_rows(file: str) -> list[dict[str, Any]]:
    reader = csv.DictReader(io.StringIO(text_of(file).removeprefix("\ufeff")), skipinitialspace=True)
    names = [name.strip() for name in reader.fieldnames or ()]
    if "value" not in names or not set(names) <= set(COLUMNS):
        exits.fail(
            exits.USAGE, f"{file}: expected a first line with the columns value and {_choice(COLUMNS[1:])}"
        )
    reader.fieldnames = names
    rows = []
    for row in reader:
        if None in row or None in row.values():
            exits.fail(exits.USAGE, f"{file}, line {reader.line_num}: expected {len(names)} columns")
        cells = {name: cell.strip() for name, cell in row.items()}
        given = {name: cell for name, cell in cells.items() if cell or name == "value"}
        rows.append(_row(f"{file}, line {reader.line_num}", given))
    return rows


def _json_rows(file: str) -> list[dict[str, Any]]:
    """Return the rows of a JSON file. It has the form `{value: limit or {column: …}}` or, for values of any type,
    `[{value: …, column: …}]`."""
    data = parsed(file)
    if isinstance(data, dict):
        data = [
            {"value": value, **(given if isinstance(given, dict) else {"concurrency": given})}
            for value, given in data.items()
        ]
    if not isinstance(data, list) or not all(isinstance(one, dict) and "value" in one for one in data):
        exits.fail(exits.USAGE, f"{file}: expected a map of values to limits, or a list of maps with value")
    for one in data:
        if others := set(one) - set(COLUMNS):
            exits.fail(exits.USAGE, f"{file}: {min(others)} is not one of {_choice(COLUMNS)}")
    return data


def _row(place: str, cells: Mapping[str, str]) -> dict[str, Any]:
    row: dict[str, Any] = {"value": json_or_text(cells["value"])}
    if "concurrency" in cells:
        row["concurrency"] = _number(place, "concurrency", cells["concurrency"], int)
    if "weight" in cells:
        row["weight"] = _number(place, "weight", cells["weight"], float)
    if "paused" in cells:
        if cells["paused"].lower() not in _FLAGS:
            exits.fail(exits.USAGE, f"{place}: paused is {cells['paused']}; expected yes or no")
        row["paused"] = _FLAGS[cells["paused"].lower()]
    if "rate" in cells:
        row["rate"] = rate_of(cells["rate"], f"{place}: rate")
    return row


def _number(place: str, column: str, text: str, kind: type[int] | type[float]) -> float:
    try:
        return kind(text)
    except ValueError:
        exits.fail(exits.USAGE, f"{place}: {column} is {text}; expected a number")


def rate_of(text: str, what: str) -> dict[str, Any]:
    """Return the rate in a text of the form LIMIT/SECONDS. End the command if the text has a different form. The
    error text begins with `what`."""
    limit, slash, period = text.partition("/")
    try:
        return {"limit": int(limit), "period_s": float(period if slash else "")}
    except ValueError:
        exits.fail(exits.USAGE, f"{what} {text}: expected LIMIT/SECONDS, such as 100/60")


def shares_option(texts: Iterable[str]) -> dict[str, Any]:
    """Return the shares of turns from VALUE=SHARE texts. `*` means all other values."""
    turns: dict[str, Any] = {"weights": []}
    for text in texts:
        value, sign, share = text.rpartition("=")
        if not sign:
            exits.fail(exits.USAGE, f"--share {text}: expected VALUE=SHARE, such as acme=10")
        number = _number(f"--share {text}", "the share", share, float)
        if value == _DEFAULT_VALUE:
            turns["default"] = number
        else:
            turns["weights"].append({"value": json_or_text(value), "weight": number})
    return turns


def reserve_option(text: str) -> dict[str, Any]:
    """Return the reservation from a text SLOTS:MATCHER. A matcher that is not a JSON map is a glob of job names."""
    slots, sign, matcher = text.partition(":")
    if not sign or not matcher:
        exits.fail(exits.USAGE, f"--reserve {text}: expected SLOTS:MATCHER, such as 10:'mail.*'")
    is_json = matcher.lstrip().startswith("{")
    return {
        "matcher": json_of(matcher, "--reserve")
        if is_json
        else {"field": "name", "op": "glob", "value": matcher},
        "concurrency": _number(f"--reserve {text}", "the number of slots", slots, int),
    }


def of_override(override: Mapping[str, Any]) -> Any:
    """Return the target of an override: a value of the key, or a matcher."""
    return override.get("match") or override["value"]


def _choice(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + " or " + names[-1]
