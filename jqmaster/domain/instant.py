"""Instants and lengths of time as text: the one form in which they leave the master."""

from datetime import UTC, datetime


def iso_utc(moment: datetime) -> str:
    """`2026-11-21T04:30:00.123Z`, of an aware `moment`."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def iso_ms(unix_ms: int) -> str:
    """`iso_utc` of Unix milliseconds."""
    return iso_utc(datetime.fromtimestamp(unix_ms / 1000, UTC))


def iso_or_none(unix_ms: int | None) -> str | None:
    """`iso_ms`, and None for no instant, which 0 says as well."""
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
