"""Adds up what jobs took of a limit in units, from the workers' own lines.

A job is charged with its weight when it is claimed. When its attempt ends, what it has used takes the place of the
weight in the window. So whenever a job starts, these sums may not exceed the limit of that time:

* the weights of the jobs that run, for `concurrency`;
* what was used by the attempts that are settled, and the weights of the others that started within the period, for
  `rate`.

Then no window has more than the limit and the errors of the estimates of jobs that ran at once.

An outside system sees calls and not claims: a call counts from the line of its start on, which a busy or stopped worker
writes long after its claim. So the same must hold in its windows, for attempts that have told when they called.

Everything that the lines leave open is decided in favour of the masters.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from tests.chaos.evidence import READING_S, Run, RunsOf, Violation, clock_was_stepped
from tests.chaos.history import History
from tests.chaos.spend_load import PERIOD_S, SPEND, Edit, weights_of

# How much later than its claim a job may start: an offer is refused at a greater age.
OFFERED_S: Final = 6.0
# The fences of the claims of one call count up from the store's time in milliseconds, and most calls claim less jobs.
FENCE_MS: Final = 200
# How long a master that stood still may hold up a change that it was asked for.
HELD_UP_S: Final = 20.0
# Sums of floating-point numbers.
EXACT: Final = 1e-6

StoodStill = Callable[[Run, float], bool]


@dataclass(slots=True)
class _Start:
    """A run with the bounds of its weight, and what it has used, if its attempt was settled with that number."""

    run: Run
    least: float
    used: float | None


def check_spending(history: History, runs_of: RunsOf, stood_still: StoodStill) -> Iterator[Violation]:
    """Yield each start that exceeds a limit. `stood_still`: whether the process of a run could not act at that time, so
    that others may count the run as over."""
    starts = _starts(history, runs_of)
    yield from _running(history.edits, starts, stood_still)
    yield from _windows(history, starts)
    yield from _outside_windows(history, starts, stood_still)


def figures(history: History, runs_of: RunsOf) -> dict[str, int]:
    """Return how much the check had to judge."""
    starts = _starts(history, runs_of)
    return {
        "starts": len(starts),
        "settled": sum(one.used is not None for one in starts),
        "edits": sum(edit.is_done for edit in history.edits),
        "units": round(sum(one.least if one.used is None else one.used for one in starts)),
    }


def _starts(history: History, runs_of: RunsOf) -> list[_Start]:
    arguments: dict[str, Mapping[str, Any]] = {
        call.job_id: call.job["argument"]
        for call in history.calls
        if call.kind == "push" and call.job is not None and call.job["name"] == SPEND
    }
    found = []
    for job_id, argument in arguments.items():
        for run in runs_of.get(job_id, ()):
            least, _ = weights_of(argument)
            used = argument["used"] if _is_settled(history, run) else None
            found.append(_Start(run, least, used))
    return sorted(found, key=lambda one: one.run.fence)


def _is_settled(history: History, run: Run) -> bool:
    """Return whether the masters took the report of this attempt."""
    job = history.jobs.get(run.job_id)
    if job is None:
        return False
    if run.ending == "success":
        return job.state == "succeeded" and job.token == run.token
    ended = Counter((one.attempt, one.outcome) for one in job.attempts)
    return run.ending == "failure" and ended[run.attempt, "failure"] == 1


def _allowed(edits: Iterable[Edit], run: Run) -> tuple[int, int]:
    """Return the greatest limits that may have been in force when the run was claimed."""
    claimed_s = run.start_s - OFFERED_S
    possible = list[Edit]()
    for edit in sorted(edits, key=lambda one: one.from_s):
        if edit.from_s > run.start_s:
            break
        if edit.is_done and edit.to_s < claimed_s:
            possible = [one for one in possible if _is_held_up(one) and one.to_s + HELD_UP_S >= claimed_s]
        possible.append(edit)
    return max(one.concurrency for one in possible), max(one.rate for one in possible)


def _is_held_up(edit: Edit) -> bool:
    return edit.tries > 1 or not edit.is_done


def _running(edits: list[Edit], starts: list[_Start], stood_still: StoodStill) -> Iterator[Violation]:
    steps = sorted(
        chain.from_iterable(
            (
                (one.run.start_s, 1, one.run.fence, one),
                (max(one.run.end_s - READING_S, one.run.start_s + 1e-6), -1, one.run.fence, one),
            )
            for one in starts
        ),
        key=lambda step: step[:3],
    )
    at_once: dict[str, _Start] = {}
    for at_s, step, _, one in steps:
        if step < 0:
            at_once.pop(one.run.token, None)
            continue
        others = [other for other in at_once.values() if not stood_still(other.run, at_s)]
        at_once[one.run.token] = one
        limit, _ = _allowed(edits, one.run)
        units = one.least + sum(other.least for other in others)
        # A job that is heavier than the limit runs alone.
        if units > limit + EXACT and sum(other.least for other in others) > 0:
            yield Violation(
                "units beyond the limit",
                one.run.job_id,
                f"{units:g} of at most {limit} ran at {at_s:.3f}, in {len(others) + 1} jobs",
            )


def _windows(history: History, starts: list[_Start]) -> Iterator[Violation]:
    first = 0
    recovery_s = history.terms.recovery_s
    for n, one in enumerate(starts):
        claimed_s = one.run.start_s - OFFERED_S
        while starts[first].run.fence <= one.run.fence - PERIOD_S * 1000 + FENCE_MS:
            first += 1
        # The times of the store before and after such a step cannot be compared.
        if clock_was_stepped(history, claimed_s - PERIOD_S - recovery_s, one.run.start_s):
            continue
        # After a step back, fences are ahead of the store's clock and count up slowly, so that they make starts look
        # closer to one another than they were.
        within = [other for other in starts[first:n] if one.run.start_s - other.run.start_s <= PERIOD_S]
        before = 0.0
        for other in within:
            if other.used is None:
                before += other.least
            elif other.run.end_s + recovery_s < claimed_s:
                before += other.used
            else:
                before += min(other.least, other.used)
        _, limit = _allowed(history.edits, one.run)
        if before + one.least > limit + EXACT and before > 0:
            yield Violation(
                "units beyond the limit",
                one.run.job_id,
                f"{before + one.least:g} of at most {limit} started within {PERIOD_S:g} s, in {len(within) + 1} jobs",
            )


def _outside_windows(history: History, starts: list[_Start], stood_still: StoodStill) -> Iterator[Violation]:
    """Compare the windows of an outside system, in which each attempt counts from its call on, with the limits."""
    recovery_s = history.terms.recovery_s
    calls = sorted(starts, key=lambda one: one.run.start_s)
    first = 0
    for n, one in enumerate(calls):
        claimed_s = one.run.start_s - OFFERED_S
        while calls[first].run.start_s <= one.run.start_s - PERIOD_S:
            first += 1
        if clock_was_stepped(history, claimed_s - PERIOD_S - OFFERED_S - recovery_s, one.run.start_s):
            continue
        # Those whose reports the masters had when they made this claim. A process that stood still between its call and
        # the line of it wrote the line too late.
        within = [
            other
            for other in calls[first:n]
            if other.used is not None
            and other.run.end_s + recovery_s < claimed_s
            and not stood_still(other.run, other.run.start_s)
        ]
        if all(other.run.fence > one.run.fence - PERIOD_S * 1000 for other in within):
            # They were claimed within one period, too, which `_windows` judges.
            continue
        before = sum(other.used or 0.0 for other in within)
        _, limit = _allowed(history.edits, one.run)
        if before + one.least > limit + EXACT and before > 0:
            yield Violation(
                "units beyond the limit",
                one.run.job_id,
                f"{before + one.least:g} of at most {limit} called within {PERIOD_S:g} s, in {len(within) + 1} jobs",
            )
