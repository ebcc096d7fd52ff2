"""Instants and durations as text. All code that sends them to clients uses these forms."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

_PER: Final[Mapping[int, str]] = {1_000: "s", 60_000: "min", 3_600_000: "h", 86_400_000: "day"}


def iso_utc(moment: datetime) -> str:
    """Return a timezone-aware `moment` in the form `2026-11-21T04:30:00.123Z`."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def iso_ms(unix_ms: int) -> str:
    """Return an instant in Unix milliseconds in the form that `iso_utc` gives."""
    return iso_utc(datetime.fromtimestamp(unix_ms / 1000, UTC))


def iso_or_none(unix_ms: int | None) -> str | None:
    """Return `iso_ms(unix_ms)`. Return None for None and for 0, which both mean that there is no instant."""
    return iso_ms(unix_ms) if unix_ms else None


def span(ms: int) -> str:
    """Format a length of time for people: `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`, `4 d 1 h`."""
    if ms < 10_000:
        return f"{max(ms, 0) / 1000:.1f} s".replace(".0 s", " s")
    seconds = ms // 1000
    for size, unit, smaller_size, smaller in (
        (86_400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if seconds >= size:
            rest = seconds % size // smaller_size
            return f"{seconds // size} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{seconds} s"


def about(ms: float) -> str:
    """Return an estimated length of time in one unit: `40 s`, `17 min`, `3 h`, `2 days`."""
    seconds = ms / 1_000
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    if seconds < 48 * 3_600:
        return f"{round(seconds / 3_600)} h"
    return f"{round(seconds / 86_400):,} days"


def per(limit: int, period_ms: int, what: str = "") -> str:
    """Return a rate in words: `60/min`, `5 in 10 s`. `what`: the unit that it counts, as in `60 tokens/min`."""
    counted, unit = f"{limit:,} {what}".rstrip(), _PER.get(period_ms)
    return f"{counted}/{unit}" if unit else f"{counted} in {span(period_ms)}"
