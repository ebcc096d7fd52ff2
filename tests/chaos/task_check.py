"""Checks the promises of steps, gathered jobs and sealed jobs."""

import json
from collections import defaultdict
from collections.abc import Iterator

from tests.chaos.evidence import Violation
from tests.chaos.history import History, Line
from tests.chaos.task_load import READABLE, SEALED, STEPPED, number_of, result_of_step, secret_of


def check_tasks(history: History) -> Iterator[Violation]:
    numbers = {
        call.job_id: (call.job["name"], number_of(call.job["argument"]))
        for call in history.calls
        if call.kind == "push" and call.job is not None
    }
    by_job: dict[str, list[Line]] = defaultdict(list)
    for line in history.lines:
        if line.what in ("step", "stepped", "gathered", "unsealed"):
            by_job[line.job_id].append(line)
    for job_id, lines in by_job.items():
        name, number = numbers.get(job_id, ("", None))
        if name == STEPPED:
            yield from _steps(job_id, number, lines)
        yield from _gathered(job_id, lines)
        for line in lines:
            if line.what == "unsealed" and line.detail != secret_of(number):
                yield Violation("seal broken", job_id, f"{line.detail!r} was opened for {number}")
    for job in history.jobs.values():
        if job.name == SEALED and job.argument.keys() - READABLE:
            yield Violation("readable though sealed", job.id, f"{sorted(job.argument)}")


def _steps(job_id: str, number: int, lines: list[Line]) -> Iterator[Violation]:
    """A step that a claim knew to be saved is not run by a later claim, and has the same result in all of them."""
    saved: dict[str, int] = {}
    for line in lines:
        if line.what == "stepped":
            name, result = json.loads(line.detail)
            saved[name] = min(line.fence, saved.get(name, line.fence))
            if result != result_of_step(number, name):
                yield Violation("wrong step result", job_id, f"{name} gave {result!r}")
    for line in lines:
        if line.what == "step" and line.fence > saved.get(line.detail, line.fence):
            yield Violation(
                "step ran again", job_id, f"{line.detail} in attempt {line.attempt} on {line.worker}"
            )


def _gathered(job_id: str, lines: list[Line]) -> Iterator[Violation]:
    for line in lines:
        if line.what == "gathered" and line.attempt > 1 and int(line.detail) > 1:
            yield Violation(
                "retried together", job_id, f"attempt {line.attempt} was one of {line.detail} jobs of a call"
            )
