"""Time zones, and the instants at which their clocks show a time."""

import re
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from jqmaster.domain.definitions.refusal import DefinitionError

MAX_NAME: Final = 64
_NAME: Final = re.compile(rf"[A-Za-z][A-Za-z0-9_+\-/]{{0,{MAX_NAME - 1}}}")
# Files in the directory of time zones that are not zones, or are different zones on different machines.
_NOT_ZONES: Final = frozenset({"localtime", "posixrules", "Factory"})
_SECOND: Final = timedelta(seconds=1)


class GapOrFold(StrEnum):
    """A local time that clocks never show, or show twice, because they are put forward or back."""

    NONE = ""
    # The clock is put forward and skips this time.
    SKIPPED = "skipped"
    # The clock is put back and shows this time twice.
    REPEATED = "repeated"


class Moment(NamedTuple):
    """The instant of one local time."""

    at: datetime
    gap_or_fold: GapOrFold


@lru_cache(maxsize=1024)
def zone_named(name: str) -> ZoneInfo:
    """Return the zone with this IANA name. Raise DefinitionError if there is none."""
    if _NAME.fullmatch(name) and name not in _NOT_ZONES:
        try:
            return ZoneInfo(name)
        # OSError: the name is a folder of zones, such as America.
        except (OSError, ValueError, LookupError):
            pass
    raise DefinitionError(
        ("time_zone",), f"no time zone {name[:MAX_NAME]!r}; give an IANA name such as Asia/Tokyo"
    )


def moment_of(local: datetime, zone: ZoneInfo) -> Moment:
    """Return the instant at which clocks of `zone` show the naive `local` for the first time.

    For a time that is skipped, return the first instant after the gap. The answer never decreases as `local`
    grows.
    """
    first = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    second = local.replace(tzinfo=zone, fold=1).astimezone(UTC)
    if first == second:
        return Moment(first, GapOrFold.NONE)
    if first < second:
        return Moment(first, GapOrFold.REPEATED)
    # In a gap, the offset after the change gives the earlier instant. The clock is put forward between the two
    # instants.
    return Moment(_end_of_gap(second, first, zone), GapOrFold.SKIPPED)


def _end_of_gap(before: datetime, after: datetime, zone: ZoneInfo) -> datetime:
    """Return the first instant in (before, after] at which the offset is that of `after`."""
    offset = after.astimezone(zone).utcoffset()
    while after - before > _SECOND:
        middle = before + timedelta(seconds=int((after - before).total_seconds()) // 2)
        if middle.astimezone(zone).utcoffset() == offset:
            after = middle
        else:
            before = middle
    return after
