"""Partial results: values that a handler publishes while its job still runs."""

import re
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from jqmaster.domain.jobs.job import FINISHED, JobState

_CURSOR: Final = re.compile(r"([0-9]{1,10})-([0-9]{1,10})", re.ASCII)


class PartPosition(NamedTuple):
    """A position in the partial results of a job: after part `number` of an attempt. Number 0: before its first
    part."""

    attempt: int
    number: int

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the position in a client's text, or None if the text is not a position."""
        match = _CURSOR.fullmatch(text)
        return cls(int(match[1]), int(match[2])) if match else None

    def __str__(self) -> str:
        return f"{self.attempt}-{self.number}"


BEGINNING: Final = PartPosition(0, 0)


class Part(NamedTuple):
    """One partial result: its position, and the value as the worker sent it (MessagePack)."""

    position: PartPosition
    value: bytes


@dataclass(frozen=True, slots=True)
class PartLimits:
    """Limits of partial results.

    * `max_parts`, `max_bytes`: the limits of one attempt.
    * `keep_ms`: how long all parts are kept after the last one.
    """

    max_parts: int
    max_bytes: int
    keep_ms: int


@dataclass(frozen=True, slots=True)
class PartPage:
    """The parts after a position, all from the job's present attempt, and the state of the job."""

    state: JobState
    attempt: int
    parts: list[Part]
    is_full: bool

    @property
    def is_last(self) -> bool:
        """Return whether no part will follow."""
        return self.state in FINISHED and not self.is_full

    def end(self, after: PartPosition) -> PartPosition:
        """Return the position after this page, which began at `after`."""
        if self.parts:
            return self.parts[-1].position
        return max(after, PartPosition(self.attempt, 0))
