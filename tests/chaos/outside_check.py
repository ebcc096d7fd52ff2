"""Checks outside-work promises: only its own attempt runs an accepted callback."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from tests.chaos.evidence import (
    FINISHED,
    READING_S,
    Run,
    RunsOf,
    Violation,
    clock_was_stepped,
    may_be_doubled,
)
from tests.chaos.history import Call, EndState, History, Line
from tests.chaos.outside_load import OUTSIDE

# Endings after which another worker continues the same attempt.
GOES_ON: Final = frozenset({"lost", "handed_back"})
# Attempt endings that also void its challenge.
ENDS_IT: Final = frozenset({"failure", "timeout", "canceled"})


def is_outside(job: EndState) -> bool:
    return job.name == OUTSIDE


def may_be_lost(job: EndState, runs: Sequence[Run]) -> list[Run]:
    """Return, in start order, the runs of one attempt that can only have ended by a loss."""
    has_failed = any(e.attempt == runs[-1].attempt and e.outcome in ENDS_IT for e in job.attempts)
    went_on = [
        run for run, after in pairwise(runs) if run.ending == "challenged" and after.phase == "callback"
    ]
    last = runs[-1] if has_failed or runs[-1].token == job.token else None
    return [run for run in runs if run not in went_on and run is not last]


def check_outside(history: History, runs_of: RunsOf) -> Iterator[Violation]:
    yield from _Outside(history, runs_of).violations()


@dataclass(slots=True)
class _Challenge:
    """A challenge as its worker noted it. `taken`: the bodies of accepted callbacks."""

    job_id: str
    attempt: int
    request: str
    opened_s: float
    expect: int
    wait_s: float
    calls: list[Call]

    @property
    def taken(self) -> set[str]:
        return {_body(call) for call in self.calls if call.outcome == "done"}


class _Outside:
    def __init__(self, history: History, runs_of: RunsOf) -> None:
        self._h = history
        self._runs_of = runs_of
        self._challenges: dict[str, _Challenge] = {}
        # Callback lines by job, each with its bodies.
        self._given: dict[str, list[tuple[Line, list[str]]]] = defaultdict(list)
        self._others: dict[str, list[Call]] = defaultdict(list)
        for line in history.lines:
            if line.what == "opened":
                said = json.loads(line.detail)
                self._challenges[said["request"]] = _Challenge(
                    line.job_id, line.attempt, said["request"], line.at_s, said["expect"], said["wait_s"], []
                )
            elif line.what == "callback":
                self._given[line.job_id].append((line, json.loads(line.detail)))
        self._strays: list[Call] = []
        for call in history.calls:
            if call.kind != "callback":
                self._others[call.job_id].append(call)
            elif challenge := self._challenges.get(_said(call)["request"]):
                challenge.calls.append(call)
            else:
                self._strays.append(call)

    def violations(self) -> Iterator[Violation]:
        for call in self._strays:
            if call.outcome == "done":
                yield Violation("callback of nobody", call.job_id, "taken for a challenge that nobody opened")
        for challenge in self._challenges.values():
            yield from self._answers(challenge)
            yield from self._fate(challenge)
        for job_id in self._h.jobs.keys() | self._given.keys():
            yield from self._given_ones(job_id)
        for job in self._h.jobs.values():
            if is_outside(job):
                yield from self._phases(job)

    # --- what the callers were told

    def _answers(self, challenge: _Challenge) -> Iterator[Violation]:
        job_id, calls = challenge.job_id, challenge.calls
        new = [call for call in calls if call.verdict == "taken"]
        for body, times in Counter(map(_body, new)).items():
            if times > 1:
                yield Violation("callback taken twice", job_id, f"{body}, {times} times as a new one")
        if len(challenge.taken) > challenge.expect:
            yield Violation(
                "too many callbacks taken",
                job_id,
                f"{sorted(challenge.taken)} where {challenge.expect} are due",
            )
        over = [call.returned_s for call in calls if call.verdict == "over"]
        ended_s = self._ended_s(challenge)
        for call in new:
            if not _said(call)["is_signed"]:
                yield Violation("unsigned callback taken", job_id, _body(call))
            if over and call.invoked_s > min(over):
                yield Violation("over, and taken", job_id, _body(call))
            if call.invoked_s > ended_s:
                yield Violation(
                    "late callback taken", job_id, f"{call.invoked_s - ended_s:.3f} s after its attempt"
                )

    def _ended_s(self, challenge: _Challenge) -> float:
        """Return when this attempt was certainly over: a later one had begun, or a client had read that the job is
        over."""
        starts = [r.start_s for r in self._runs_of.get(challenge.job_id, ()) if r.attempt > challenge.attempt]
        reads = [
            call.returned_s
            for call in self._others[challenge.job_id]
            if call.outcome == "done" and call.state in FINISHED
        ]
        return min([*starts, *reads], default=float("inf"))

    # --- their outcomes

    def _fate(self, challenge: _Challenge) -> Iterator[Violation]:
        job = self._h.jobs.get(challenge.job_id)
        if job is None:
            return
        endings = [entry.outcome for entry in job.attempts if entry.attempt == challenge.attempt]
        is_complete = len(challenge.taken) >= challenge.expect
        if is_complete:
            if "callback_timeout" in endings:
                yield Violation(
                    "answered and expired", job.id, f"attempt {challenge.attempt}: all callbacks were taken"
                )
            elif not self._was_run(challenge) and not self._may_be_void(job, endings):
                yield Violation(
                    "callback lost", job.id, f"{sorted(challenge.taken)} were taken, and never run"
                )
        if "callback_timeout" in endings:
            starts = [r.start_s for r in self._runs_of.get(job.id, ()) if r.attempt > challenge.attempt]
            next_s = min(starts, default=float("inf"))
            due_s = challenge.opened_s + challenge.wait_s
            if next_s < due_s - READING_S and not clock_was_stepped(self._h, challenge.opened_s, next_s):
                yield Violation(
                    "expired early", job.id, f"attempt {challenge.attempt}, {due_s - next_s:.3f} s too early"
                )

    def _was_run(self, challenge: _Challenge) -> bool:
        return any(line.attempt == challenge.attempt for line, _ in self._given[challenge.job_id])

    def _may_be_void(self, job: EndState, endings: Sequence[str]) -> bool:
        is_lost_for_good = job.state == "failed" and job.cause == "lost"
        may_be_canceled = any(
            call.outcome != "refused" or may_be_doubled(self._h, call)
            for call in self._others[job.id]
            if call.kind == "cancel"
        )
        return is_lost_for_good or may_be_canceled or bool(ENDS_IT & {*endings})

    # --- what the handlers got

    def _given_ones(self, job_id: str) -> Iterator[Violation]:
        for line, bodies in self._given[job_id]:
            mine = [c for c in self._challenges.values() if (c.job_id, c.attempt) == (job_id, line.attempt)]
            if not mine:
                yield Violation(
                    "callback without a challenge", job_id, f"attempt {line.attempt} on {line.worker}"
                )
                continue
            sent: dict[str, list[Call]] = defaultdict(list)
            for challenge in mine:
                for call in challenge.calls:
                    sent[_body(call)].append(call)
            for body in bodies:
                yield from self._source(job_id, line, body, sent.get(body, []))
            if len(bodies) != max(challenge.expect for challenge in mine) or len({*bodies}) != len(bodies):
                yield Violation("wrong number of callbacks", job_id, f"{bodies} in attempt {line.attempt}")

    def _source(self, job_id: str, line: Line, body: str, calls: Sequence[Call]) -> Iterator[Violation]:
        if not calls and any(_body(call) == body for c in self._challenges.values() for call in c.calls):
            yield Violation("callback of another attempt", job_id, f"{body} in attempt {line.attempt}")
        elif not calls:
            yield Violation("callback of nobody", job_id, f"{body} in attempt {line.attempt}")
        elif not any(_said(call)["is_signed"] for call in calls):
            yield Violation("unsigned callback taken", job_id, f"{body} was run")
        elif all(call.outcome == "refused" and not may_be_doubled(self._h, call) for call in calls):
            yield Violation("refused callback ran", job_id, f"{body} in attempt {line.attempt}")
        elif all(call.invoked_s > line.at_s + READING_S for call in calls):
            yield Violation("callback of nobody", job_id, f"{body} ran before it was sent")

    def _phases(self, job: EndState) -> Iterator[Violation]:
        """An attempt opens its challenge once, and runs its callbacks once unless their worker is lost."""
        by_attempt: dict[int, list[Run]] = defaultdict(list)
        for run in self._runs_of.get(job.id, ()):
            by_attempt[run.attempt].append(run)
        for number, runs in by_attempt.items():
            later = [run.worker for run in runs[1:] if run.phase != "callback"]
            if later:
                yield Violation("challenge opened again", job.id, f"attempt {number} on {', '.join(later)}")
            callbacks = sum(run.phase == "callback" for run in runs)
            repeats = sum(e.attempt == number and e.outcome in GOES_ON for e in job.attempts)
            if callbacks > 1 + repeats:
                yield Violation(
                    "callback ran twice", job.id, f"attempt {number}: {callbacks} runs, {repeats} lost"
                )


def _said(call: Call) -> Mapping[str, Any]:
    assert call.job is not None
    return call.job


def _body(call: Call) -> str:
    return str(_said(call)["body"])
