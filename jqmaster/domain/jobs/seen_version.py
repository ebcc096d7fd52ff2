"""The failures of a group on workers of one version."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SeenVersion:
    """The failures of a group on workers of one version."""

    version: str
    count: int
    first_seen_ms: int
    last_seen_ms: int
