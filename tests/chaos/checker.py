"""Proves or refutes the promises from the history of a run alone. It is pure: no reads, no calls.

Each kind of violation has a name; docs/reliability.md says which promise it breaks.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

from tests.chaos.backfill_load import BACKFILLED
from tests.chaos.event_check import check_definitions, check_events, replaceable_jobs, started_jobs
from tests.chaos.evidence import FINISHED, READING_S, Run, Violation, clock_was_stepped, may_be_doubled
from tests.chaos.history import Call, EndedAttempt, EndState, Fault, History, Line
from tests.chaos.odd_values import is_decodable
from tests.chaos.outside_check import GOES_ON, check_outside, is_outside, may_be_lost
from tests.chaos.spend_check import check_spending
from tests.chaos.spend_check import figures as spending_figures
from tests.chaos.task_check import check_tasks
from tests.chaos.task_load import SAVING, number_of, opened
from tests.chaos.unique_check import check_unique
from tests.chaos.unique_load import rule_of
from tests.chaos.webhook_check import check_webhooks

# Attempt endings that a handler or its timeout caused. Each requires a start.
BY_HANDLER: Final = frozenset({"success", "failure", "timeout", "deferred", "handed_back", "discarded"})
# For this long after a leader fault, a gap counts as its consequence.
AROUND_S: Final = 8.0
# The longest time from the acceptance of an offer to the first line of its handler, on a worker with a free slot.
STARTING_S: Final = 0.02
# Causes that end a process: from outside or by itself.
DEATHS: Final = frozenset({"kill", "exit"})
# Faults that do not prevent communication, and so do not excuse the loss of a lease: orders, and faults that the store
# must withstand.
MILD: Final = frozenset({"demote", "drain", "detach", "memory full", "clock step"})
# An idle master answers at once; here, it shares two cores with all others. A master that was killed takes a while to
# start.
STANDS_STILL_S: Final = 6.0
MASTER_START_S: Final = 12.0
# How long a master tries to reach its store before it ends itself.
EXIT_WITHIN_S: Final = 30.0
COUNTED: Final = frozenset({"failure", "timeout", "callback_timeout"})
# Push fields that later steps may not change, with their defaults.
FIXED: Final[Mapping[str, Any]] = {"name": None, "argument": None, "priority": 0, "max_retry": 5}


@dataclass(slots=True)
class Report:
    violations: list[Violation] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)

    def names(self) -> set[str]:
        return {violation.name for violation in self.violations}


def check(history: History) -> Report:
    """All invariants and figures."""
    checker = _Checker(history)
    violations = [found for part in checker.parts() for found in part]
    return Report(violations, checker.figures(violations))


class _Checker:
    def __init__(self, history: History) -> None:
        self._h = history
        self._terms = history.terms
        self._pushes: dict[str, list[Call]] = defaultdict(list)
        self._others: dict[str, list[Call]] = defaultdict(list)
        for call in history.calls:
            if call.kind == "push":
                # A push that met the holder of its uniqueness key did not create a job.
                self._pushes[call.job_id].append(replace(call, outcome="refused") if call.verdict else call)
            elif call.kind not in ("event", "callback"):
                self._others[call.job_id].append(call)
        self._started = started_jobs(history)
        self._replaceable = replaceable_jobs(history)
        # They are deleted while the load lasts, so only the workers' lines tell of them.
        self._backfilled = {line.job_id for line in history.lines if line.what == "backfilled"}
        began_s = {(line.worker, line.life): line.at_s for line in history.lines if line.what == "life"}
        # By worker ID, its worker and the beginning of the process that registered.
        self._registered = {
            line.detail: (line.worker, began_s.get((line.worker, line.life), 0.0))
            for line in history.lines
            if line.what == "registered"
        }
        # Nobody knows what they had begun when they left.
        self._left_unannounced = {line.detail for line in history.lines if line.what == "left"}
        # The attempts that a worker refused, each with the reason. If the answer of a draining worker gets lost, its
        # claims end when it leaves. A claim that comes too late with the answer to a report is handed back.
        self._refused = {
            (line.job_id, line.attempt): line.detail
            for line in history.lines
            if line.what == "offer" and line.detail in ("draining", "too_late")
        }
        self._end_s = max(
            [line.at_s for line in history.lines]
            + [call.returned_s for call in history.calls]
            + [history.load_ended_s]
        )
        self._journal_faults: list[Violation] = []
        self._runs = list(self._read_runs())
        self._runs_of: dict[str, list[Run]] = defaultdict(list)
        for run in sorted(self._runs, key=lambda run: run.start_s):
            self._runs_of[run.job_id].append(run)
        self._disturbed: dict[str, list[tuple[float, float]]] = {}
        self._excused: Counter[str] = Counter()
        self._offered_s = {
            (line.token, line.life): line.at_s for line in history.lines if line.what == "offer"
        }
        self._still = self._read_still()
        # By worker and the beginning of a stop, the token of the start that was under way.
        self._begun_at_stops: dict[tuple[str, float], str] = {}
        self._outcomes = {
            (job_id, entry.attempt): entry.outcome
            for job_id, job in history.jobs.items()
            for entry in job.attempts
        }

    def parts(self) -> Iterator[Iterable[Violation]]:
        yield self._journal_faults
        yield (Violation("damaged journal", "history", text) for text in self._h.damage)
        yield (Violation("fsck", "store", text) for text in self._h.fsck)
        yield (Violation("slot taken", "store", text) for text in self._h.slots)
        yield (Violation("did not end", "process", text) for text in self._h.stuck)
        yield self._existence()
        yield self._identity()
        yield self._odd_values()
        yield self._starts()
        yield self._repeats()
        yield self._attempts()
        yield self._endings()
        yield self._answers()
        yield self._cancels()
        yield self._limits()
        yield self._epochs()
        yield self._stalls()
        yield self._masters()
        yield self._backfills()
        yield check_unique(self._h, self._runs_of)
        yield check_events(self._h)
        yield check_definitions(self._h)
        yield check_outside(self._h, self._runs_of)
        yield check_webhooks(self._h, self._runs_of)
        yield check_tasks(self._h)
        yield check_spending(self._h, self._runs_of, self._stood_still_over)

    # --- reading

    def _read_runs(self) -> Iterator[Run]:
        """Pair starts with ends. The death of a process ended its runs."""
        lives: dict[str, list[tuple[float, int]]] = defaultdict(list)
        by_life: dict[tuple[str, int], list[Line]] = defaultdict(list)
        for line in self._h.lines:
            if line.what == "life":
                lives[line.worker].append((line.at_s, line.life))
            elif line.what in ("start", "tick", "end"):
                by_life[line.worker, line.life].append(line)
        for (worker, life), lines in by_life.items():
            died_s = self._death(worker, life, lives[worker])
            open_runs: dict[str, Run] = {}
            ticks: dict[str, float] = {}
            for line in lines:
                if line.what == "start":
                    if line.token in open_runs:
                        # Reported as "token started twice". The first run continues, as far as anyone can know.
                        yield open_runs.pop(line.token)
                    open_runs[line.token] = Run(
                        line.job_id, line.attempt, line.token, line.fence, line.epoch, worker, life, line.at_s, died_s,
                        phase=line.detail,
                    )  # fmt: skip
                elif line.what == "tick":
                    if line.token in open_runs:
                        ticks[line.token] = line.at_s
                elif run := open_runs.pop(line.token, None):
                    run.end_s, run.ending = line.at_s, line.detail
                    yield run
                else:
                    self._journal_faults.append(
                        Violation("end without start", line.job_id, f"token {line.token} on {worker}")
                    )
            for token, run in open_runs.items():
                # Its last sign of life is nearer to its end than the death of the process as seen from outside.
                run.end_s = min(run.end_s, ticks.get(token, run.end_s))
                yield run

    def _death(self, worker: str, life: int, lives: list[tuple[float, int]]) -> float:
        """Return when this process ended: it was killed, or replaced by another."""
        began_s = next((at_s for at_s, one in lives if one == life), 0.0)
        next_s = min((at_s for at_s, _ in lives if at_s > began_s), default=self._end_s)
        kills = [f.died_s for f in self._h.faults if f.kind in DEATHS and f.target == worker]
        return min([at_s for at_s in kills if began_s < at_s <= next_s], default=next_s)

    def _disturbances(self, worker: str) -> list[tuple[float, float]]:
        """Return, in order, when this worker could not be expected to keep its leases: during its own faults, the
        store's, and those that left at most one master."""
        if worker not in self._disturbed:
            spans = []
            masters: list[tuple[float, int]] = []
            for fault in self._h.faults:
                hit = fault.target
                if fault.kind in MILD or (fault.kind == "term" and hit == worker):
                    continue
                if hit == "store" or worker in hit.split(">"):
                    spans.append((fault.from_s, fault.to_s))
                elif hit.startswith("master-"):
                    masters += [(fault.from_s, 1), (fault.to_s, -1)]
            spans += [
                (line.at_s - float(line.detail), line.at_s)
                for line in self._h.lines
                if line.what == "stall" and line.worker == worker
            ]
            away, since_s = 0, 0.0
            tolerated = max(0, self._terms.masters - 2)
            for at_s, step in sorted(masters):
                before, away = away, away + step
                if before <= tolerated < away:
                    since_s = at_s
                elif away <= tolerated < before:
                    spans.append((since_s, at_s))
            self._disturbed[worker] = sorted(spans)
        return self._disturbed[worker]

    def _was_disturbed(self, worker: str, from_s: float, to_s: float) -> bool:
        """Return whether it was silent for at least half a lease within any lease-long window of that time. A shorter
        silence never costs a lease.
        """
        lease_s = self._terms.lease_s
        spans = [s for s in self._disturbances(worker) if s[1] > from_s - lease_s and s[0] < to_s]
        for begin_s, _ in spans:
            window_end_s = begin_s + lease_s
            if _measure((max(a, begin_s), min(b, window_end_s)) for a, b in spans) >= lease_s / 2:
                return True
        return False

    def _was_killed(self, worker: str, from_s: float, to_s: float) -> bool:
        return any(
            f.kind in DEATHS and f.target == worker and from_s <= f.died_s + READING_S and f.from_s <= to_s
            for f in self._h.faults
        )

    def _was_detached(self, worker: str, from_s: float, to_s: float) -> bool:
        return any(
            f.kind == "detach" and f.target == worker and f.bites and from_s <= f.to_s and f.from_s <= to_s
            for f in self._h.faults
        )

    def _clock_was_stepped(self, from_s: float, to_s: float) -> bool:
        return clock_was_stepped(self._h, from_s, to_s)

    def _calls(self, job_id: str, kind: str, *outcomes: str) -> list[Call]:
        return [c for c in self._others[job_id] if c.kind == kind and (not outcomes or c.outcome in outcomes)]

    def _may_have(self, job_id: str, kind: str) -> list[Call]:
        """Return calls that may have had an effect, including refused ones: a copy may have come at a time when it was
        not refused."""
        return self._calls(job_id, kind, "done", "unknown") + [
            call for call in self._calls(job_id, kind, "refused") if self._may_be_doubled(call)
        ]

    def _may_be_doubled(self, call: Call) -> bool:
        return may_be_doubled(self._h, call)

    def _is_one_job(self, job_id: str) -> bool:
        """Return whether the ID still means one job. After a possible deletion, it may have been pushed again for
        another job."""
        return not self._may_have(job_id, "delete")

    def _accepted(self, job_id: str) -> Call | None:
        return next((call for call in self._pushes[job_id] if call.outcome == "done"), None)

    # --- invariants

    def _existence(self) -> Iterator[Violation]:
        """I1, I2."""
        for job_id, pushes in list(self._pushes.items()):
            job = self._h.jobs.get(job_id)
            accepted = [call for call in pushes if call.outcome == "done"]
            deleted = self._may_have(job_id, "delete")
            if accepted and job is None and not deleted:
                yield Violation("lost", job_id, f"accepted at {accepted[0].returned_s:.3f}, and gone")
            if job and all(call.outcome == "refused" and not self._may_be_doubled(call) for call in pushes):
                yield Violation("refused but stored", job_id, f"{job.state}")
            for call in accepted:
                if call.answered_id != job_id:
                    yield Violation("another ID", job_id, f"answered as {call.answered_id}")
            created = [call for call in accepted if call.status == 201]
            if len(created) > 1 and self._is_one_job(job_id):
                yield Violation("created twice", job_id, f"{len(created)} answers of 201")
            if len({_content(call) for call in accepted}) > 1 and self._is_one_job(job_id):
                yield Violation("two contents", job_id, "both accepted under one ID")
            if job and self._calls(job_id, "delete", "done") and not self._may_be_pushed_again(job_id):
                yield Violation("deleted but stored", job_id, job.state)
        for job_id, job in self._h.jobs.items():
            if job_id not in self._pushes and job_id not in self._started and job.name != BACKFILLED:
                yield Violation("unexpected", job_id, f"nobody pushed it; it is {job.state}")
            if job.state not in FINISHED:
                yield Violation("not over", job_id, f"{job.state} when all should be over")

    def _may_be_pushed_again(self, job_id: str) -> bool:
        """Return whether it may have been pushed again after its deletion: by a later push, a long-running one, or a
        late copy."""
        first_s = min(call.invoked_s for call in self._calls(job_id, "delete", "done"))
        return any(
            (call.outcome != "refused" and call.returned_s > first_s)
            or call.outcome == "unknown"
            or self._may_be_doubled(call)
            for call in self._pushes[job_id]
        )

    def _identity(self) -> Iterator[Violation]:
        """I3."""
        for job_id, job in self._h.jobs.items():
            push = self._accepted(job_id) or next(iter(self._pushes[job_id]), None)
            if push is None or push.job is None or not self._is_one_job(job_id):
                continue
            stored = {
                "name": job.name, "argument": job.argument, "priority": job.priority, "max_retry": job.max_retry,
            }  # fmt: skip
            for name, default in FIXED.items():
                if name == "argument" and rule_of(push.job):
                    continue  # another push may have replaced it: see unique_check
                if stored[name] != (sent := push.job.get(name, default)):
                    yield Violation("changed", job_id, f"{name}: {sent!r} became {stored[name]!r}")

    def _odd_values(self) -> Iterator[Violation]:
        """Bad values do no harm: accepted values can be decoded, and others are properly refused."""
        for job_id, pushes in self._pushes.items():
            for call in pushes:
                digits = _odd(call)
                if not digits:
                    continue
                if call.outcome == "done" and not is_decodable(digits):
                    yield Violation("undecodable accepted", job_id, digits[:100])
                if call.status == 500:
                    yield Violation("broke a master", job_id, digits[:100])
            job = self._h.jobs.get(job_id)
            if job and job.cause == "undecodable":
                yield Violation("undecodable accepted", job_id, "its worker could not decode it")

    def _starts(self) -> Iterator[Violation]:
        """I5, I6, I12 (starts), I15 (not before its time)."""
        tokens: dict[str, Run] = {}
        for run in self._runs:
            if first := tokens.get(run.token):
                yield Violation(
                    "token started twice", run.job_id, f"{run.token} on {first.worker} and {run.worker}"
                )
            tokens.setdefault(run.token, run)
            pushes = self._pushes.get(run.job_id, [])
            if not pushes and run.job_id not in self._started and run.job_id not in self._backfilled:
                yield Violation("start of an unknown job", run.job_id, f"on {run.worker}")
                continue
            invoked_s = min((call.invoked_s for call in pushes), default=0.0)
            delay_s = max((float((call.job or {}).get("delay", 0)) for call in pushes), default=0.0)
            is_early = run.start_s < invoked_s + delay_s - READING_S
            # Its time comes by the store's clock, whatever that shows.
            if is_early and not self._clock_was_stepped(invoked_s, run.start_s):
                yield Violation(
                    "started too early",
                    run.job_id,
                    f"{invoked_s + delay_s - run.start_s:.3f} s before its time",
                )
            job = self._h.jobs.get(run.job_id)
            if job and run.attempt > job.attempt and self._is_one_job(run.job_id):
                yield Violation(
                    "start not counted", run.job_id, f"attempt {run.attempt} ran, {job.attempt} are known"
                )
            over_s = self._known_over_s(run.job_id)
            if over_s is not None and run.start_s > over_s:
                yield Violation(
                    "start after the end", run.job_id, f"{run.start_s - over_s:.3f} s after its end was read"
                )

    def _known_over_s(self, job_id: str) -> float | None:
        """Return when a client had read that the job is over, or None if it may have been restarted by hand."""
        if self._may_have(job_id, "retry") or not self._is_one_job(job_id):
            return None
        seen = [
            c.returned_s
            for c in self._others[job_id]
            if c.outcome == "done" and c.kind in ("view", "result") and _says_over(c)
        ]
        return min(seen, default=None)

    def _repeats(self) -> Iterator[Violation]:
        """I5, I6, I7, I21: compare the runs of one job with each other."""
        for job_id, runs in self._runs_of.items():
            for a, b in pairwise(runs) if self._is_one_job(job_id) else ():
                # An attempt continues with its callbacks under another token: see outside_check.
                if a.attempt == b.attempt and a.token != b.token and b.phase != "callback":
                    yield Violation(
                        "attempt started twice", job_id, f"attempt {a.attempt} on {a.worker} and {b.worker}"
                    )
                has_older_fence = b.fence <= a.fence and a.token != b.token
                if (has_older_fence or b.attempt < a.attempt) and self._was_stopped_as_it_began(b):
                    self._excused["starts that were under way when the process was stopped"] += 1
                    continue
                if has_older_fence:
                    yield Violation("fence went back", job_id, f"{a.fence}, then {b.fence}")
                if b.attempt < a.attempt:
                    yield Violation("attempt went back", job_id, f"{a.attempt}, then {b.attempt}")
            yield from self._overlaps(job_id, runs)
        seen: dict[int, str] = {}
        for run in self._runs:
            if seen.setdefault(run.fence, run.token) != run.token:
                yield Violation("fence given twice", run.job_id, f"{run.fence}")

    def _overlaps(self, job_id: str, runs: list[Run]) -> Iterator[Violation]:
        for n, a in enumerate(runs):
            for b in runs[n + 1 :]:
                if b.start_s >= a.end_s - READING_S:
                    continue
                if self._stood_still_over(a, b.start_s):
                    self._excused["overlaps while the first stood still"] += 1
                elif self._is_unstoppable(job_id) and self._was_disturbed(a.worker, a.start_s, b.start_s):
                    self._excused["overlaps of a thread that nothing stops, on a cut or stopped worker"] += 1
                elif self._is_unstoppable(job_id) and self._was_detached(a.worker, a.start_s, b.start_s):
                    self._excused["overlaps of a thread that nothing stops, on a detached worker"] += 1
                elif self._timed_out_by_a_step(a, b.start_s):
                    self._excused["overlaps after a timeout by a clock that was set"] += 1
                else:
                    yield Violation(
                        "ran twice at once", job_id,
                        f"attempt {b.attempt} on {b.worker} began {a.end_s - b.start_s:.3f} s before "
                        f"attempt {a.attempt} on {a.worker} ended",
                    )  # fmt: skip

    def _was_stopped_as_it_began(self, run: Run) -> bool:
        """Return whether SIGSTOP hit the process between its check of the lease and the handler's first line, which it
        then wrote as soon as it woke, and ended the run. No program can close this gap, and only fences tell others
        of it. One start at most is under way when a process is stopped."""
        offered_s = self._offered_s.get((run.token, run.life), 0.0)
        for fault in self._h.faults:
            if (
                (fault.kind, fault.target) == ("stop", run.worker)
                and fault.from_s - STARTING_S <= offered_s <= fault.from_s
                and fault.to_s <= run.start_s <= run.end_s <= fault.to_s + STARTING_S
                and self._begun_at_stops.setdefault((run.worker, fault.from_s), run.token) == run.token
            ):
                return True
        return False

    def _is_unstoppable(self, job_id: str) -> bool:
        """Return whether its handler is a `def` that runs to its end although its lease is lost."""
        job = self._h.jobs.get(job_id)
        return job is not None and job.name == "block"

    def _timed_out_by_a_step(self, run: Run, at_s: float) -> bool:
        """Return whether its time was over by the store's clock, and it ended as soon as it was told to."""
        return (
            self._outcomes.get((run.job_id, run.attempt)) == "timeout"
            and run.end_s <= at_s + self._terms.wake_s
            and self._clock_was_stepped(run.start_s, at_s)
        )

    def _read_still(self) -> Mapping[str, list[tuple[float, float]]]:
        """Return, by worker, the times over which its process could not act."""
        still = defaultdict[str, list[tuple[float, float]]](list)
        for fault in self._h.faults:
            if fault.kind == "stop" or fault.kind in DEATHS:
                still[fault.target].append((fault.from_s, fault.to_s))
        for line in self._h.lines:
            if line.what == "stall":
                still[line.worker].append((line.at_s - float(line.detail), line.at_s))
        return still

    def _stood_still_over(self, run: Run, at_s: float) -> bool:
        """Return whether its process could not act when its lease ended, and ended the run as soon as it could."""
        return any(
            a - READING_S <= at_s and run.end_s <= b + self._terms.wake_s and b >= at_s - self._terms.wake_s
            for a, b in self._still[run.worker]
        )

    def _excuse_to_hand_back(self, job_id: str, entry: EndedAttempt) -> str:
        """Return why a worker may hand back a claim that it has not begun; empty: it may not."""
        if entry.outcome != "handed_back":
            return ""
        if entry.worker_id in self._left_unannounced:
            return "claims not begun, of a worker that left unannounced"
        match self._refused.get((job_id, entry.attempt)):
            case "draining":
                return "claims not begun, that a draining worker refused"
            case "too_late":
                return "claims not begun, that came too late"
        return ""

    def _attempts(self) -> Iterator[Violation]:
        """I7, I9, I12, I13: compare the store's records with the workers' lines."""
        for job_id, job in self._h.jobs.items():
            if not self._is_one_job(job_id):
                continue
            numbers = Counter(entry.attempt for entry in job.attempts)
            if job.state == "succeeded":
                numbers[job.attempt] += 1
            ends = numbers.copy()
            if is_outside(job):
                # The same attempt continues with its callbacks.
                ends.subtract(entry.attempt for entry in job.attempts if entry.outcome in GOES_ON)
            for number, times in ends.items():
                if times > 1:
                    yield Violation("settled twice", job_id, f"attempt {number}, {times} times")
            retries = self._may_have(job_id, "retry")
            successes = sum(e.outcome == "success" for e in job.attempts) + (job.state == "succeeded")
            allowed = 1 + len(retries) + sum(self._may_be_doubled(call) for call in retries)
            if successes > allowed:
                yield Violation(
                    "succeeded twice", job_id, f"{successes} successes, {len(retries)} retries by hand"
                )
            counts = Counter(entry.outcome for entry in job.attempts)
            if not retries:
                yield from self._counts(job, counts)
            if job.losses > self._terms.max_losses:
                yield Violation(
                    "lost too often", job_id, f"{job.losses} losses, {self._terms.max_losses} allowed"
                )
            by_attempt: dict[int, list[Run]] = defaultdict(list)
            for run in self._runs_of[job_id]:
                by_attempt[run.attempt].append(run)
            for entry in job.attempts:
                runs = by_attempt.get(entry.attempt, [])
                if not runs and (excuse := self._excuse_to_hand_back(job_id, entry)):
                    self._excused[excuse] += 1
                elif entry.outcome in BY_HANDLER and not runs:
                    yield Violation("ending of nothing", job_id, f"attempt {entry.attempt}: {entry.outcome}")
                elif entry.outcome == "failure" and all(run.ending == "success" for run in runs):
                    yield Violation(
                        "wrong ending", job_id, f"attempt {entry.attempt} succeeded, and is a failure"
                    )
                elif entry.outcome == "timeout":
                    # An attempt with callbacks has several runs. The last one took too long.
                    yield from self._early(job_id, runs[-1:])
                elif entry.outcome == "lost" and runs:
                    yield from self._needless(job, runs)
                elif entry.outcome == "lost":
                    yield from self._untaken(job, entry)
            for number, runs in by_attempt.items():
                if (
                    number <= job.attempt
                    and not numbers[number]
                    and job.state in FINISHED
                    and len(job.attempts) < 100
                ):
                    yield Violation("attempt forgotten", job_id, f"attempt {number} ran on {runs[0].worker}")

    def _early(self, job_id: str, runs: list[Run]) -> Iterator[Violation]:
        push = self._accepted(job_id) or next(iter(self._pushes[job_id]), None)
        timeout_s = float(((push.job if push else None) or {}).get("timeout", 0.0))
        for run in runs:
            if run.end_s - run.start_s >= timeout_s - READING_S:
                continue
            # Masters use the store's clock, so steps forward count. They also count when masters find an unseen end,
            # after the lease and the grace that follows a fault.
            found_s = run.end_s + self._terms.lease_s + self._terms.recovery_s
            later = [other.start_s for other in self._runs_of[job_id] if other.attempt > run.attempt]
            if self._clock_was_stepped(run.start_s, min([*later, found_s])):
                self._excused["timeouts by a clock that was set"] += 1
            else:
                yield Violation(
                    "timed out early",
                    job_id,
                    f"attempt {run.attempt} after {run.end_s - run.start_s:.3f} s of {timeout_s:g}",
                )

    def _counts(self, job: EndState, counts: Counter[str]) -> Iterator[Violation]:
        failures = sum(counts[outcome] for outcome in COUNTED)
        # A checkpoint ends the count of the losses before it.
        least = 0 if job.name in SAVING else counts["lost"]
        if job.failures != failures or not least <= job.losses <= counts["lost"]:
            yield Violation(
                "miscounted", job.id,
                f"{job.failures} failures and {job.losses} losses; its attempts say {failures} and {counts['lost']}",
            )  # fmt: skip
        if failures > job.max_retry + 1:
            yield Violation("retried too often", job.id, f"{failures} failures, {job.max_retry} retries")
        if (
            job.state == "failed"
            and job.cause in ("error", "timeout", "callback_timeout")
            and failures < job.max_retry + 1
        ):
            yield Violation("gave up early", job.id, f"{failures} failures, {job.max_retry} retries")
        if job.state == "failed" and job.cause == "lost":
            if job.losses < self._terms.max_losses and job.max_retry > 0:
                yield Violation("gave up early", job.id, f"{job.losses} losses")
        elif job.losses >= self._terms.max_losses and job.state != "canceled":
            yield Violation("lost too often", job.id, f"{job.losses} losses, and {job.state}")

    def _needless(self, job: EndState, runs: list[Run]) -> Iterator[Violation]:
        """I7: a live worker that can communicate keeps its runs."""
        if is_outside(job) and len(runs) > 1:
            # It is unknown in which phase the attempt was lost, so one justified phase is enough. If each run has
            # another end, the claim was lost before its job started.
            found = [[*self._needless_run(job, run)] for run in may_be_lost(job, runs)]
            yield from [] if [] in found or not found else found[-1]
            return
        for run in runs:
            yield from self._needless_run(job, run)

    def _untaken(self, job: EndState, entry: EndedAttempt) -> Iterator[Violation]:
        """I7: a claim that its worker never began counts only if the worker could not say so."""
        worker, began_s = self._registered.get(entry.worker_id, ("", 0.0))
        calls = [*self._pushes[job.id], *self._calls(job.id, "retry")]
        before = [run.start_s for run in self._runs_of[job.id] if run.attempt < entry.attempt]
        after = [run.start_s for run in self._runs_of[job.id] if run.attempt > entry.attempt]
        from_s = max([*before, min((call.invoked_s for call in calls), default=self._h.began_s)])
        to_s = min(after, default=self._end_s)
        # A worker that died before may be given jobs until its silence is noticed.
        if not worker or self._was_killed(worker, began_s, to_s):
            self._excused["losses of claims not begun, with a killed worker"] += 1
        elif entry.worker_id in self._left_unannounced:
            self._excused["claims not begun, of a worker that left unannounced"] += 1
        elif self._was_detached(worker, from_s, to_s) or self._was_disturbed(worker, from_s, to_s):
            self._excused["losses of claims not begun, with a cut or stopped worker"] += 1
        elif self._clock_was_stepped(from_s, to_s):
            self._excused["losses of claims not begun, after the store's clock was set"] += 1
        else:
            yield Violation(
                "untaken claim counted",
                job.id,
                f"attempt {entry.attempt}: {worker} was well and never began it",
            )

    def _needless_run(self, job: EndState, run: Run) -> Iterator[Violation]:
        # The time when the lease was taken back is unknown, but it was before the next start.
        starts = [r.start_s for r in self._runs_of[job.id] if r.attempt > run.attempt]
        until_s = min(starts, default=run.end_s + self._terms.lease_s)
        if self._was_killed(run.worker, run.start_s, until_s):
            self._excused["losses with a killed worker"] += 1
        elif self._was_detached(run.worker, run.start_s, until_s):
            self._excused["losses with a detached worker"] += 1
        elif self._was_disturbed(run.worker, run.start_s, until_s):
            self._excused["losses with a cut or stopped worker"] += 1
        else:
            yield Violation(
                "needless loss", job.id, f"attempt {run.attempt}: nothing had happened to {run.worker}"
            )

    def _endings(self) -> Iterator[Violation]:
        """I9, I10, I11: the ending that counts belongs to the run that held the token."""
        tokens = {run.token: run for run in self._runs}
        for job_id, job in self._h.jobs.items():
            if job.state == "succeeded":
                run = tokens.get(job.token)
                if run is None:
                    yield Violation("success of nothing", job_id, f"token {job.token} was never started")
                elif run.ending != "success":
                    yield Violation(
                        "wrong ending", job_id, f"a success; its run ended {run.ending or 'with its process'}"
                    )
                elif run.fence != job.fence or run.attempt != job.attempt:
                    yield Violation(
                        "stale result", job_id,
                        f"attempt {run.attempt} settled, attempt {job.attempt} is recorded",
                    )  # fmt: skip
            elif job.state == "discarded":
                run = tokens.get(job.token)
                if run is None or run.ending != "discarded":
                    yield Violation(
                        "discarded by nobody",
                        job_id,
                        f"its run ended {run.ending if run else 'before it began'}",
                    )
            elif (
                job.state == "skipped"
                and not any((c.job or {}).get("expires_at") for c in self._pushes[job_id])
                and not self._gave_way(job_id)
            ):
                yield Violation("skipped without a reason", job_id, "it had no expires_at")
            elif job.state == "canceled" and not (
                self._may_have(job_id, "cancel") or job_id in self._replaceable
            ):
                yield Violation("canceled by nobody", job_id, "no call asked for it")

    def _answers(self) -> Iterator[Violation]:
        """I10, I11: client readings, in order."""
        for job_id, calls in list(self._others.items()):
            if not self._is_one_job(job_id):
                continue
            reads = [c for c in calls if c.outcome == "done" and c.kind in ("view", "result", "cancel")]
            retried_by_hand = self._may_have(job_id, "retry")
            ends = [c for c in reads if _says_over(c)]
            job = self._h.jobs.get(job_id)
            if not retried_by_hand and ends:
                first = min(ends, key=lambda c: c.returned_s)
                for call in reads:
                    if call.invoked_s > first.returned_s and not _says_over(call) and not _says_nothing(call):
                        yield Violation("end undone", job_id, f"{call.state} after it was over")
                states = {c.state for c in ends if c.state}
                if job:
                    states.add(job.state)
                if len(states) > 1:
                    yield Violation("two ends", job_id, " and ".join(sorted(states)))
            yield from self._results(job_id, [c for c in ends if c.kind == "result" and c.value], job)

    def _results(self, job_id: str, fetched: list[Call], job: EndState | None) -> Iterator[Violation]:
        values = []
        for call in fetched:
            if call.value not in values:
                values.append(call.value)
            if call.value.get("type") != "success":
                continue
            said = opened(call.value.get("result"), job_id)
            push = self._accepted(job_id) or next(iter(self._pushes[job_id]), None)
            sent = ((push.job if push else None) or {}).get("argument") or {}
            runs = [r for r in self._runs_of[job_id] if said and r.fence == said.get("fence")]
            if not runs or said.get("n") != number_of(sent):
                yield Violation("wrong result", job_id, f"{said!r}")
            elif (
                job
                and job.state == "succeeded"
                and job.fence != runs[0].fence
                and not self._may_have(job_id, "retry")
            ):
                yield Violation("wrong result", job_id, f"of fence {runs[0].fence}, settled by {job.fence}")
        if len(values) > 1 and not self._may_have(job_id, "retry"):
            yield Violation("two results", job_id, f"{values!r}")

    def _cancels(self) -> Iterator[Violation]:
        """I14."""
        for job_id in list(self._others):
            done = self._calls(job_id, "cancel", "done")
            if not done or self._may_have(job_id, "retry") or not self._is_one_job(job_id):
                continue
            job = self._h.jobs.get(job_id)
            if job and job.state != "canceled":
                yield Violation("cancel undone", job_id, f"acknowledged, and {job.state}")
            first = min(done, key=lambda c: c.returned_s)
            if first.was_running:
                continue
            for run in self._runs_of[job_id]:
                if run.start_s > first.returned_s:
                    yield Violation("start after cancel", job_id, f"on {run.worker}")

    def _limits(self) -> Iterator[Violation]:
        """I18, from the workers' own lines."""
        for name, limit in self._terms.limits.items():
            ids = {job.id for job in self._h.jobs.values() if job.name == name}
            runs = [r for r in self._runs if r.job_id in ids]
            # Ends sort before beginnings of the same instant, but a run never ends before it began.
            steps = sorted(
                [(r.start_s, 1, r) for r in runs]
                + [(max(r.end_s - READING_S, r.start_s + 1e-6), -1, r) for r in runs],
                key=lambda s: (s[0], s[1]),
            )
            at_once: list[Run] = []
            for at_s, step, run in steps:
                if step > 0:
                    at_once.append(run)
                    # If a process stood still, all others may count its run as over.
                    awake = [r for r in at_once if not self._stood_still_over(r, at_s)]
                    if len(awake) > limit:
                        yield Violation(
                            "limit broken", name, f"{len(awake)} at once at {at_s:.3f}, {limit} allowed"
                        )
                elif run in at_once:
                    at_once.remove(run)

    def _epochs(self) -> Iterator[Violation]:
        """I20, I21, and the sources from which workers took jobs."""
        owners: dict[int, str] = {}
        newest = 0
        for epoch in sorted(self._h.epochs, key=lambda e: e.at_s):
            if epoch.number < newest:
                yield Violation("epoch went back", str(epoch.number), f"after {newest}")
            newest = max(newest, epoch.number)
            if owners.setdefault(epoch.number, epoch.nonce) != epoch.nonce:
                yield Violation(
                    "epoch of two", str(epoch.number), f"{owners[epoch.number]} and {epoch.nonce}"
                )
        highest: dict[tuple[str, int], int] = defaultdict(int)
        judged: set[tuple[str, int, str]] = set()
        for line in self._h.lines:
            if line.what != "offer":
                continue
            life = line.worker, line.life
            is_first = (*life, line.token) not in judged
            judged.add((*life, line.token))
            if line.detail == "accepted" and is_first and line.epoch < highest[life]:
                yield Violation(
                    "stale epoch obeyed",
                    line.worker,
                    f"{line.epoch} after {highest[life]}, job {line.job_id}",
                )
            highest[life] = max(highest[life], line.epoch)

    def _stalls(self) -> Iterator[Violation]:
        """I8: waiting work starts, unless a fault prevents it."""
        excuses = [(f.from_s, f.to_s + self._terms.recovery_s) for f in self._h.faults]
        for from_s, to_s in self._gaps():
            if to_s - from_s <= self._terms.resume_within_s:
                continue
            since_s = max(from_s, self._waiting_since(from_s, to_s))
            # The part of the wait outside faults and recovery from them.
            quiet_s = (to_s - since_s) - _measure((max(since_s, a), min(to_s, b)) for a, b in excuses)
            if quiet_s > self._terms.resume_within_s:
                yield Violation(
                    "stalled", "dispatch", f"nothing began from {since_s:.3f} on for {to_s - since_s:.3f} s"
                )

    def _masters(self) -> Iterator[Violation]:
        """A master answers, and goes on, unless a fault hits it."""
        for silence in self._h.silences:
            name, from_s, to_s = silence.master, silence.from_s, silence.to_s
            hits = [f for f in self._h.faults if name in f.target.split(">")]
            spans = [(f.from_s, f.to_s + MASTER_START_S) for f in hits]
            quiet_s = (to_s - from_s) - _measure((max(from_s, a), min(to_s, b)) for a, b in spans)
            if quiet_s > STANDS_STILL_S:
                yield Violation("master stood still", name, f"from {from_s:.3f} on for {to_s - from_s:.3f} s")
        for fault in self._h.faults:
            if fault.kind != "exit" or not fault.target.startswith("master-"):
                continue
            causes = [
                f
                for f in self._h.faults
                if f is not fault
                and (f.target == "store" or fault.target in f.target.split(">"))
                and f.from_s <= fault.to_s
                and f.to_s >= fault.from_s - EXIT_WITHIN_S
            ]
            if not causes:
                yield Violation(
                    "master ended by itself", fault.target, f"at {fault.to_s:.3f}, without a fault"
                )

    def _backfills(self) -> Iterator[Violation]:
        """An instant starts at most one job, however long ago its record was removed."""
        for job_id in self._backfilled:
            firsts = [run for run in self._runs_of[job_id] if run.attempt == 1]
            for before, again in pairwise(firsts):
                if before.ending == "success" and before.token != again.token:
                    yield Violation("instant ran twice", job_id, f"on {before.worker} and {again.worker}")

    def _waiting_since(self, from_s: float, to_s: float) -> float:
        """Return since when a job waited only for its turn, or `to_s` if none did."""
        found = to_s
        for job_id, pushes in self._pushes.items():
            done = [c.returned_s for c in pushes if c.outcome == "done" and not (c.job or {}).get("delay")]
            is_next = not self._runs_of[job_id] or self._runs_of[job_id][0].start_s >= to_s
            if done and is_next and not self._may_have(job_id, "cancel") and not self._gave_way(job_id):
                found = min(found, *done)
        return found

    def _gave_way(self, job_id: str) -> bool:
        """Return whether the job was skipped for another one that took its key: it had one until its start."""
        job = self._h.jobs.get(job_id)
        rules = [rule_of(c.job) for c in self._pushes[job_id] if c.job is not None]
        return (
            job is not None
            and (job.state, job.cause) == ("skipped", "superseded")
            and any(rule and ("wait_s" in rule or rule["scope"] == "until_start") for rule in rules)
        )

    # --- figures

    def _gaps(self) -> list[tuple[float, float]]:
        """Return spans without a start, from the first push to the end of the load."""
        starts = sorted(r.start_s for r in self._runs if r.start_s <= self._h.load_ended_s)
        return list(pairwise([self._h.began_s, *starts, self._h.load_ended_s]))

    def figures(self, violations: list[Violation]) -> dict[str, Any]:
        """Return plain numbers, lists and maps of them, as printed by `report` and kept in JSON."""
        outcomes = Counter(call.outcome for call in self._h.calls if call.kind == "push")
        accepted = {i for i, pushes in self._pushes.items() if any(c.outcome == "done" for c in pushes)}
        gaps = [to_s - from_s for from_s, to_s in self._gaps()]
        names = Counter(violation.name for violation in violations)
        starts = [[run for run in runs if run.phase != "callback"] for runs in self._runs_of.values()]
        repeated = sum(len(runs) - 1 for runs in starts if runs)
        losses = sum(job.losses for job in self._h.jobs.values())
        return {
            "seed": self._h.seed,
            "load_s": round(self._h.load_ended_s - self._h.began_s, 1),
            "pushes": dict(outcomes),
            "calls": len(self._h.calls),
            "unique": dict(Counter(c.verdict or c.outcome for c in self._h.calls if _has_rule(c))),
            "events": dict(Counter(c.verdict or c.outcome for c in self._h.calls if c.kind == "event")),
            "instants": sum(len(one.runs) for one in self._h.definitions),
            "challenges": sum(line.what == "opened" for line in self._h.lines),
            "callbacks": dict(Counter(c.verdict or c.outcome for c in self._h.calls if c.kind == "callback")),
            "callback_runs": sum(line.what == "callback" for line in self._h.lines),
            "webhooks": dict(Counter(str(one.status) for one in self._h.deliveries)),
            "hostile_and_backfill": dict(sorted(self._h.answers.items())),
            "backfilled": len(self._backfilled),
            "steps": sum(line.what == "step" for line in self._h.lines),
            "gathered": sum(line.what == "gathered" and line.detail != "1" for line in self._h.lines),
            "unsealed": sum(line.what == "unsealed" for line in self._h.lines),
            "spending": spending_figures(self._h, self._runs_of),
            "blocking": sum(job.name == "block" for job in self._h.jobs.values()),
            "handed_back": sum(e.outcome == "handed_back" for j in self._h.jobs.values() for e in j.attempts),
            "longest_silence_s": round(max((s.to_s - s.from_s for s in self._h.silences), default=0.0), 3),
            "odd_values": dict(Counter(call.outcome for call in self._h.calls if _odd(call))),
            "jobs_accepted": len(accepted),
            "jobs_stored": len(self._h.jobs),
            "states": dict(Counter(job.state for job in self._h.jobs.values())),
            "starts": len(self._runs),
            "faults": {k: _fault_figures(v) for k, v in sorted(_by_kind(self._h.faults).items())},
            "faults_planned": len(self._h.faults),
            "faults_bitten": sum(fault.bites > 0 for fault in self._h.faults),
            "lost": names["lost"],
            "unexpected": names["unexpected"],
            "settled_twice": names["settled twice"],
            "starts_beyond_the_first": repeated,
            "duplicate_starts": names["needless loss"]
            + names["token started twice"]
            + names["attempt started twice"],
            "ran_twice_at_once": names["ran twice at once"],
            "stale_obeyed": names["stale epoch obeyed"] + names["stale result"] + names["fence went back"],
            "losses_recorded": losses,
            "excused": dict(self._excused),
            "epochs": len({epoch.number for epoch in self._h.epochs}),
            "longest_dispatch_gap_s": round(max(gaps, default=0.0), 3),
            "dispatch_gap_at_leader_fault_s": self._gaps_at_leader_faults(),
            "rerun_after_worker_kill_s": self._reruns(is_last_try=False),
            "last_try_after_worker_kill_s": self._reruns(is_last_try=True),
            "refused_by_workers": dict(self._refusals()),
            "push_to_start_s": self._latencies(),
            "violations": dict(names),
        }

    def _gaps_at_leader_faults(self) -> dict[str, Any]:
        """Return the longest time without a start around each fault of the leader."""
        gaps, found = self._gaps(), []
        for fault in self._h.faults:
            if fault.is_leader and fault.bites:
                around = [b - a for a, b in gaps if b > fault.from_s and a < fault.from_s + AROUND_S]
                found.append(max(around, default=0.0))
        return _spread(found)

    def _reruns(self, *, is_last_try: bool) -> dict[str, Any]:
        """Return the times from a worker's death to the next start of what it ran. Before the last try, a job waits for
        a worker to itself."""
        kills = [f for f in self._h.faults if f.kind in DEATHS and f.target.startswith("worker-")]
        found = []
        for job_id, runs in self._runs_of.items():
            entries = self._h.jobs[job_id].attempts if job_id in self._h.jobs else ()
            # A claim may have been lost before it led to a start.
            lost = {entry.attempt for entry in entries if entry.outcome == "lost"}
            for a, b in pairwise(runs):
                losses = sum(attempt < b.attempt for attempt in lost)
                if not a.ending and (losses == self._terms.max_losses - 1) == is_last_try:
                    found += [
                        b.start_s - f.from_s for f in kills if f.target == a.worker and f.died_s == a.end_s
                    ]
        return _spread(found)

    def _refusals(self) -> Counter[str]:
        """Return workers' answers to offers that they did not take."""
        offers = (line for line in self._h.lines if line.what == "offer")
        return Counter(line.detail for line in offers if line.detail != "accepted")

    def _latencies(self) -> dict[str, Any]:
        waits = []
        for job_id, runs in self._runs_of.items():
            push = self._accepted(job_id)
            if push and push.job and runs and not (push.job.get("delay") or push.job.get("debounce")):
                waits.append(runs[0].start_s - push.invoked_s)
        return _spread(waits)


def _odd(call: Call) -> str:
    """Return the odd value of a push, in hexadecimal digits."""
    job = call.job if call.kind == "push" and call.job else {}
    return str(job.get("argument", {}).get("odd", ""))


def _has_rule(call: Call) -> bool:
    return call.kind == "push" and call.job is not None and rule_of(call.job) is not None


def _content(call: Call) -> str:
    return repr(sorted((call.job or {}).items()))


def _says_over(call: Call) -> bool:
    return call.state in FINISHED or (call.kind == "result" and bool(call.value))


def _says_nothing(call: Call) -> bool:
    """Return whether the answer is empty, as for results that were not kept, whatever the job's state."""
    return call.kind == "result" and not call.state and not call.value


def _measure(spans: Iterable[tuple[float, float]]) -> float:
    """Return the length of the union."""
    total_s, reached_s = 0.0, float("-inf")
    for begin_s, end_s in sorted(span for span in spans if span[1] > span[0]):
        total_s += max(0.0, end_s - max(begin_s, reached_s))
        reached_s = max(reached_s, end_s)
    return total_s


def _spread(values: list[float]) -> dict[str, Any]:
    if not values:
        return {"count": 0}
    ordered = sorted(values)

    def at(share: float) -> float:
        return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3)

    return {"count": len(ordered), "p50": at(0.5), "p99": at(0.99), "max": round(ordered[-1], 3)}


def _by_kind(faults: Iterable[Fault]) -> dict[str, list[Fault]]:
    kinds: dict[str, list[Fault]] = defaultdict(list)
    for fault in faults:
        kinds[f"{fault.kind} {_class_of(fault.target)}"].append(fault)
    return kinds


def _class_of(target: str) -> str:
    return ">".join(part.rstrip("0123456789").rstrip("-") for part in target.split(">"))


def _fault_figures(faults: list[Fault]) -> dict[str, int]:
    return {
        "planned": len(faults),
        "bitten": sum(f.bites > 0 for f in faults),
        "bites": sum(f.bites for f in faults),
    }
