"""Instants as text: the one form in which they leave the master."""

from datetime import UTC, datetime


def iso_utc(moment: datetime) -> str:
    """`2026-11-21T04:30:00.123Z`, of an aware `moment`."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def iso_ms(unix_ms: int) -> str:
    """`iso_utc` of Unix milliseconds."""
    return iso_utc(datetime.fromtimestamp(unix_ms / 1000, UTC))
