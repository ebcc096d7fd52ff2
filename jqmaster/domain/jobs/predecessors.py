"""Predecessors: jobs for which a job waits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

# Maximum number of predecessors of one job, and of all jobs in one push.
MAX_PREDECESSORS: Final = 1_000
MAX_IN_PUSH: Final = 10_000


class AfterWhen(StrEnum):
    """The condition under which a job starts: its predecessors have succeeded, or have ended in any way."""

    SUCCEEDED = "succeeded"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class After:
    """The predecessors of a job, in the order in which it gets their results."""

    jobs: tuple[str, ...]
    when: AfterWhen = AfterWhen.SUCCEEDED


def in_order(after: Sequence[tuple[str, After | None]]) -> tuple[list[int], list[int]]:
    """Sort jobs so that each job comes after its predecessors. Otherwise keep their order. Return the positions of the
    sorted jobs, and the positions of jobs that are in a cycle or depend on a cycle.
    """
    position = {job_id: n for n, (job_id, _) in enumerate(after)}
    waits: dict[int, int] = {}
    dependents: dict[int, list[int]] = {}
    for n, (_, one) in enumerate(after):
        inside = {position[job_id] for job_id in one.jobs if job_id in position} if one else set()
        waits[n] = len(inside)
        for predecessor in inside:
            dependents.setdefault(predecessor, []).append(n)
    ordered = [n for n, count in waits.items() if count == 0]
    # This loop also visits the jobs that it appends to `ordered`.
    for n in ordered:
        for dependent in dependents.get(n, ()):
            waits[dependent] -= 1
            if waits[dependent] == 0:
                ordered.append(dependent)
    return ordered, [n for n, count in waits.items() if count > 0]


@dataclass(frozen=True, slots=True)
class SkippedBy:
    """The job that caused another job to be skipped, directly or through further jobs. `state`: its final state.
    Empty: it was deleted."""

    job_id: str
    state: str


@dataclass(frozen=True, slots=True)
class Links:
    """The jobs before and after a job.

    * `predecessors`: their states by ID. None: deleted.
    * `dependents`: the same for the first dependents.
    * `pending`: predecessors that the job still waits for.
    * `dependents_count`: the number of all dependents.
    * `skipped_by`: why the job was skipped.
    """

    predecessors: Mapping[str, str | None]
    pending: Sequence[str]
    dependents: Mapping[str, str | None]
    dependents_count: int
    skipped_by: SkippedBy | None
