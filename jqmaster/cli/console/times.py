"""The options `--for` and `--until`."""

import re
from datetime import UTC, datetime
from typing import Final

from jqmaster.cli.console import exits

_UNITS_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def duration_s(lasts: str | None, until: str | None) -> float | None:
    """Return the seconds of `--for` or `--until`, or None if neither option is given. End the command if the text is
    not a time."""
    if lasts is not None and until is not None:
        exits.fail(exits.USAGE, "give --for or --until, not both")
    if lasts is not None:
        match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)([smhd]?)", lasts)
        if match is None:
            exits.fail(exits.USAGE, f"--for {lasts}: expected a time such as 90s, 30m, 2h or 7d")
        return float(match[1]) * _UNITS_S[match[2] or "s"]
    end = instant(until)
    if end is None:
        return None
    left_s = (datetime.fromisoformat(end) - datetime.now(UTC)).total_seconds()
    if left_s <= 0:
        exits.fail(exits.USAGE, f"--until {until} is in the past")
    return left_s


def instant(text: str | None) -> str | None:
    """Return an instant in the form of the API. A date without a time means its start in UTC."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        exits.fail(exits.USAGE, f"{text} is not a time; write 2026-11-21 or 2026-11-21T04:30:00Z")
    if moment.tzinfo is None and len(text) > len("2026-11-21"):
        exits.fail(exits.USAGE, f"{text} has no offset from UTC; write {text}Z, or {text}+09:00")
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()
