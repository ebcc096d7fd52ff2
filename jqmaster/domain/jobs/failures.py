"""Groups of failures over time: their trend, and whether they are new, regressed or ignored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from jqmaster.domain.jobs.seen_version import SeenVersion
from jqmaster.domain.jobs.triage import AssignedPerson, Resolution

HOUR_MS: Final = 3_600_000
# The number of hours in the trend, including the current one.
TREND_HOURS: Final = 24
# A group counts as new for this long after its first failure.
NEW_MS: Final = HOUR_MS
# A group has regressed if it fails again after this long without failures. It counts as regressed for the same time.
QUIET_MS: Final = 24 * HOUR_MS
# How many versions of workers a group remembers, the most recently seen first.
MAX_VERSIONS: Final = 5
# A group is no longer ignored if it has far more failures within an hour than in its busiest hour before. That means
# more than `MORE_FACTOR` times as many, and at least `MIN_MORE` more.
MORE_FACTOR: Final = 2
MIN_MORE: Final = 10

GroupMark = Literal["new", "regressed"]
# Why a group is no longer ignored:
# - `time`: the time of the decision is over.
# - `version`: the failure occurred in workers of a new version.
# - `regressed`: it recurred after a day without failures.
# - `more`: it occurs far more often per hour.
Changed = Literal["time", "version", "regressed", "more"]


@dataclass(frozen=True, slots=True)
class Ignore:
    """The decision to ignore a group until `until_ms`. 0: until the group changes.

    * `versions` and `most_per_hour`: the group's values at the time of the decision.
    * `since_per_hour`: the failures of the busiest hour since the decision.
    * `has_new_version`: whether another version has failed since the decision.
    """

    who: str
    at_ms: int
    until_ms: int
    reason: str
    versions: tuple[str, ...]
    most_per_hour: int
    since_per_hour: int = 0
    has_new_version: bool = False


@dataclass(frozen=True, slots=True)
class GroupedFailures:
    """Final failures of one kind. `message` is normalised.

    * `hours`: failures by hour (counted from 1970), at least those of the last day.
    * `versions`: the most recently seen first.
    * `regressed_ms`: when it last came back after a day without failures. 0: never.
    * `merged`: the groups that people merged into this group. Their failures count in this group.
    """

    id: str
    name: str
    cause: str
    message: str
    count: int
    first_seen_ms: int
    last_seen_ms: int
    example_job_id: str
    hours: Mapping[int, int] = field(default_factory=dict)
    versions: Sequence[SeenVersion] = ()
    regressed_ms: int = 0
    ignore: Ignore | None = None
    assignment: AssignedPerson | None = None
    resolution: Resolution | None = None
    merged: tuple["GroupedFailures", ...] = ()

    def trend(self, now_ms: int) -> list[int]:
        """Return the failures of each of the last `TREND_HOURS`, the current hour last."""
        current = now_ms // HOUR_MS
        return [self.hours.get(hour, 0) for hour in range(current - TREND_HOURS + 1, current + 1)]

    def marks(self, now_ms: int) -> list[GroupMark]:
        """Return the marks that the group has at present, such as `new`."""
        marks: list[GroupMark] = []
        if now_ms - self.first_seen_ms < NEW_MS:
            marks.append("new")
        if self.regressed_ms and now_ms - self.regressed_ms < QUIET_MS:
            marks.append("regressed")
        return marks

    def is_ignored(self, now_ms: int) -> bool:
        """Return whether the group is ignored now: neither time nor a change has ended the decision."""
        return self.ignore is not None and self.changed(now_ms) is None

    def reopened_by(self) -> str | None:
        """Return the version of workers whose failure reopened the group after it was resolved. None: the group was
        never resolved or never reopened."""
        if self.resolution is None:
            return None
        return self.resolution.reopened_by(self.versions, self.last_seen_ms)

    def is_resolved(self) -> bool:
        """Return whether the group is resolved, and no failure has reopened it since."""
        return self.resolution is not None and self.reopened_by() is None

    def is_open(self, now_ms: int) -> bool:
        """Return whether somebody should look at the group: it is neither ignored nor resolved."""
        return not self.is_ignored(now_ms) and not self.is_resolved()

    def changed(self, now_ms: int) -> Changed | None:
        """Return why the group is no longer ignored, or None if it is still ignored or never was."""
        ignore = self.ignore
        if ignore is None:
            return None
        if ignore.until_ms:
            return "time" if now_ms >= ignore.until_ms else None
        if self.regressed_ms > ignore.at_ms:
            return "regressed"
        if ignore.has_new_version:
            return "version"
        before, since = ignore.most_per_hour, ignore.since_per_hour
        return "more" if since > MORE_FACTOR * before and since >= before + MIN_MORE else None

    def ignored(self, *, who: str, now_ms: int, until_ms: int, reason: str) -> Ignore:
        """Return the decision to ignore the group as it is now."""
        versions = tuple(seen.version for seen in self.versions)
        return Ignore(who, now_ms, until_ms, reason, versions, max(self.hours.values(), default=0))
