"""Decisions of people about a group of failures: the person who looks after it, the version in which it is resolved,
and the group into which it is merged."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from jqmaster.domain.jobs.seen_version import SeenVersion

MAX_ASSIGNEE: Final = 100
_NUMBERED: Final = re.compile(r"v?(\d{1,9}(?:\.\d{1,9}){0,7})")


@dataclass(frozen=True, slots=True)
class AssignedPerson:
    """The person who looks after a group. `who`: the person who assigned it."""

    assignee: str
    who: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Merge:
    """The decision to count a group in another group, `into`."""

    into: str
    who: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Resolution:
    """The decision that a group is resolved in `version` of the workers. Empty: in the next version. `known`: the
    versions that had failed before the decision."""

    who: str
    at_ms: int
    version: str
    known: tuple[str, ...]

    def reopened_by(self, versions: Sequence[SeenVersion], last_seen_ms: int) -> str | None:
        """Return the version whose failure reopened the group after the decision, or None if the group is still
        resolved. The version is empty if a worker without a version failed in a group that knows no versions.
        """
        if not versions and not self.known and not self.version:
            return "" if last_seen_ms > self.at_ms else None
        late = [
            seen for seen in versions if seen.last_seen_ms > self.at_ms and self._should_be_free(seen.version)
        ]
        return min(late, key=lambda seen: seen.first_seen_ms).version if late else None

    def _should_be_free(self, version: str) -> bool:
        """Return whether workers of this version should no longer have such failures."""
        if self.version:
            numbers, own = _numbers(version), _numbers(self.version)
            if numbers is not None and own is not None:
                return numbers >= own
            if version == self.version:
                return True
        return version not in self.known


def _numbers(version: str) -> tuple[int, ...] | None:
    """Return the numbers of a version such as `1.12.0`; None if it is of another form."""
    match = _NUMBERED.fullmatch(version)
    return tuple(map(int, match[1].split("."))) if match else None
