"""Partial results of jobs, and the paths of calls that read them."""

from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from worker_sdk.pusher.results import MAX_LONG_POLL_S, path_of
from worker_sdk.shown import without_content

T_co = TypeVar("T_co", covariant=True)

# The position before the first partial result of a job.
BEGINNING: Final = "0-0"


@dataclass(frozen=True, slots=True)
class JobPart(Generic[T_co]):
    """A partial result of a job.

    * `attempt`: number of the attempt that emitted it. A later attempt begins again with number 1.
    * `number`: number within the attempt, counted from 1.
    * `value`: the value.

    For example:

        values = [part.value for part in handle.stream() if part.attempt == 1]
    """

    attempt: int
    number: int
    value: T_co

    def __repr__(self) -> str:
        return without_content(self, "value")


def parts_path(job_id: str, after: str, wait_s: float, timeout_s: float) -> str:
    # The answer must arrive within the timeout of a call, as for results.
    wait_s = max(0.0, min(wait_s, MAX_LONG_POLL_S, timeout_s * 0.8))
    return f"{path_of(job_id)}/parts?after={after}&wait={wait_s:.3f}"


def part_of(fields: Any, value: Any) -> JobPart[Any]:
    return JobPart(fields["attempt"], fields["number"], value)
