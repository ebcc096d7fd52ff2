"""The option `after`: jobs that wait for other jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

AfterWhen = Literal["succeeded", "finished"]

_WHEN: Final = ("succeeded", "finished")


class HasId(Protocol):
    """An object with the ID of a job, such as a `JobHandle`."""

    @property
    def id(self) -> str:
        """Return the ID of the job."""
        ...


JobRef = str | Mapping[str, Any] | HasId


@dataclass(frozen=True, slots=True)
class After:
    """The jobs for which a job waits, its predecessors.

    * `jobs`: their IDs, their handles, or the jobs themselves as `make_job` and `to_job` return them.
    * `when`: with `succeeded`, the job runs when all predecessors have succeeded, and is skipped when a predecessor
      ends in another way. With `finished`, the job runs when all predecessors are over, however they ended.

    For example:

        first = make_thumbnail.enqueue(42)
        publish.using(after=After([first], when="finished")).enqueue(7)
    """

    jobs: Sequence[JobRef]
    when: AfterWhen = "succeeded"

    def __post_init__(self) -> None:
        if self.when not in _WHEN:
            raise ValueError(f"`when` must be one of {', '.join(_WHEN)}")

    def to_wire(self) -> dict[str, Any]:
        """Return the map that is sent. Raise TypeError for a value that names no job."""
        return {"jobs": [_id_of(job) for job in self.jobs], "when": self.when}


def after_on_the_wire(given: Any) -> dict[str, Any]:
    """Return the wire form of a value of the option `after`. Raise TypeError for a value that names no job."""
    if isinstance(given, After):
        return given.to_wire()
    if isinstance(given, Mapping) and "jobs" in given:
        return {**given, "jobs": [_id_of(job) for job in given["jobs"]]}
    is_one = isinstance(given, (str, Mapping)) or not isinstance(given, Sequence)
    return After([given] if is_one else given).to_wire()


def predecessors_of(job: Mapping[str, Any]) -> Sequence[str]:
    """Return the IDs of the jobs for which a job in wire form waits."""
    after = job.get("after")
    return () if after is None else list(after["jobs"])


def in_order(jobs: Sequence[Mapping[str, Any]]) -> tuple[list[int], list[int]]:
    """Return two lists of positions. The first list sorts the jobs so that each job comes after its predecessors, and
    otherwise keeps their order. The second list contains the jobs that would wait for each other forever."""
    position = {job["id"]: n for n, job in enumerate(jobs)}
    waits: list[int] = []
    dependents: dict[int, list[int]] = {}
    for n, job in enumerate(jobs):
        inside = {position[job_id] for job_id in predecessors_of(job) if job_id in position}
        waits.append(len(inside))
        for predecessor in inside:
            dependents.setdefault(predecessor, []).append(n)
    ordered = [n for n, count in enumerate(waits) if count == 0]
    # This list grows during the loop.
    for n in ordered:
        for dependent in dependents.get(n, ()):
            waits[dependent] -= 1
            if waits[dependent] == 0:
                ordered.append(dependent)
    return ordered, [n for n, count in enumerate(waits) if count > 0]


def _id_of(job: Any) -> str:
    if isinstance(job, str):
        return job
    found = job.get("id") if isinstance(job, Mapping) else getattr(job, "id", None)
    if not isinstance(found, str):
        raise TypeError(f"after takes IDs of jobs, handles and jobs that have an ID, not {job!r}")
    return found
