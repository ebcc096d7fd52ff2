"""The order of jobs: a job may wait for others, its predecessors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

# The most predecessors of one job, and of all jobs of one push together.
MOST_PREDECESSORS: Final = 1_000
MOST_IN_PUSH: Final = 10_000


class AfterWhen(StrEnum):
    """The condition of a job: its predecessors succeed, or they end in any way."""

    SUCCEEDED = "succeeded"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class After:
    """The predecessors of a job, in the order in which it gets their results."""

    jobs: tuple[str, ...]
    when: AfterWhen = AfterWhen.SUCCEEDED


def in_order(after: Sequence[tuple[str, After | None]]) -> tuple[list[int], list[int]]:
    """Return the positions of the jobs in an order that puts each behind its predecessors among them and is
    otherwise unchanged. Return also the positions of jobs in a cycle, or behind one."""
    position = {job_id: n for n, (job_id, _) in enumerate(after)}
    waits: dict[int, int] = {}
    dependents: dict[int, list[int]] = {}
    for n, (_, one) in enumerate(after):
        inside = {position[job_id] for job_id in one.jobs if job_id in position} if one else set()
        waits[n] = len(inside)
        for predecessor in inside:
            dependents.setdefault(predecessor, []).append(n)
    ordered = [n for n, count in waits.items() if count == 0]
    # The loop appends to the list that it reads.
    for n in ordered:
        for dependent in dependents.get(n, ()):
            waits[dependent] -= 1
            if waits[dependent] == 0:
                ordered.append(dependent)
    return ordered, [n for n, count in waits.items() if count > 0]


@dataclass(frozen=True, slots=True)
class SkippedBy:
    """The job whose end skipped another one, directly or over several steps; `state` is how it ended, empty where it
    was deleted."""

    job_id: str
    state: str


@dataclass(frozen=True, slots=True)
class Links:
    """The neighbors of a job in the order: the states of its predecessors by ID (None: the job is gone),
    those that it still waits for, the first of its dependents with their states, the number of all
    dependents, and the reason why it was skipped."""

    predecessors: Mapping[str, str | None]
    pending: Sequence[str]
    dependents: Mapping[str, str | None]
    dependents_count: int
    skipped_by: SkippedBy | None
