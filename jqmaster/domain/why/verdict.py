"""Verdicts on why a job is not running, each with a sentence for people.

The texts are whole sentences for the person on call. The other fields are for programs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from jqmaster.domain.constraints.constraint import PAUSE_PREFIX, Constraint
from jqmaster.domain.constraints.gate_check import GateCheck
from jqmaster.domain.constraints.limit_kind import GateCloser
from jqmaster.domain.constraints.limit_kinds import PAUSE, closing
from jqmaster.domain.instant import iso_ms, span
from jqmaster.domain.jobs.job import TIMED, Cause, JobState
from jqmaster.domain.why.facts import Accuracy, Snapshot
from jqmaster.domain.why.worker_verdicts import NoMatchingWorker, NoWorker, WorkersUnavailable

MAX_NAMED_NAMES: Final = 5
MAX_NAMED_JOBS: Final = 3


@dataclass(frozen=True, slots=True)
class Due:
    """The job waits for its time.

    * `code`: its state.
    * `in_ms`: negative if the instant is past.
    * `put_off`: why its last attempt was put off. Empty: it was not.
    """

    code: str
    due_at_ms: int
    in_ms: int
    failures: int
    put_off: str = ""

    @property
    def text(self) -> str:
        put_off = f" Its last attempt was put off: {self.put_off}." if self.put_off else ""
        if self.code == JobState.RETRYING:
            what = f"Waits for a retry after {_count(self.failures, 'failed attempt')}"
        else:
            what = "Scheduled for later"
        at = iso_ms(self.due_at_ms)
        if self.in_ms > 0:
            return f"{what}: it is due at {at}, in {span(self.in_ms)}.{put_off}"
        return f"{what}: it has been due since {at}, and the leader is about to make it ready.{put_off}"


@dataclass(frozen=True, slots=True)
class Expired:
    """The `expires_at` of the job has passed, and it is about to be skipped."""

    code: ClassVar = "expired"
    expires_at_ms: int

    @property
    def text(self) -> str:
        return f"It expired at {iso_ms(self.expires_at_ms)} while it waited: it will be skipped, not run."


class PlainVerdict:
    """Base of the verdicts that consist of nothing but a code and a sentence."""

    code: ClassVar[str]
    text: ClassVar[str]


class NoLeader(PlainVerdict):
    code = "no_leader"
    text = "No master leads at present, so no job is dispatched."


@dataclass(frozen=True, slots=True)
class ConstraintsChanging:
    """The constraints changed. They are not in force yet, or this job has not been matched to them yet."""

    code: ClassVar = "rules_changing"
    edition: int
    settled_edition: int
    lane_edition: int

    @property
    def text(self) -> str:
        if self.edition != self.settled_edition:
            return (
                f"The constraints were changed: edition {self.edition} is about to replace {self.settled_edition}. "
                "No job starts until then, which takes seconds at most while a master leads."
            )
        return (
            f"The constraints were changed to edition {self.edition}, and the leader has not matched this job again "
            "yet. It begins with the jobs that start next. Ask again in a few seconds."
        )


@dataclass(frozen=True, slots=True)
class ByConstraint:
    """A closed gate. `kind` is the one of `kinds` that lasts longest.

    * `silent_ms`: the silence of each worker that no longer counts as alive.
    * `paused_by`: who made the pause. Empty: it is not a pause, or this is not known.
    """

    code: ClassVar = "constraint"
    constraint: Constraint
    gate: GateCheck
    kind: GateCloser
    now_ms: int
    silent_ms: Mapping[str, int]
    paused_by: str = ""

    @property
    def is_pause(self) -> bool:
        """Return whether the constraint is nothing but a pause that somebody made."""
        return self.kind is PAUSE and self.constraint.name.startswith(PAUSE_PREFIX)

    @property
    def what(self) -> str:
        return "pause" if self.is_pause else "constraint"

    @property
    def kinds(self) -> tuple[GateCloser, ...]:
        """Return everything that closes the gate by itself, the longest-lasting first."""
        return closing(self.gate)

    @property
    def text(self) -> str:
        # Jobs that are not due are counted as well, as in the table of constraints.
        waiting = (
            f" The {self.what} holds back {self.gate.waiting} jobs, including those that are not due yet."
            if self.gate.waiting > 1
            else ""
        )
        if self.is_pause:
            return f"{self._pause_text}{waiting}"
        whys = " ".join(map(self._why, self.kinds))
        return f"Waits for constraint {named(self.constraint, self.gate)}: {whys}{waiting}"

    @property
    def _pause_text(self) -> str:
        by = f" by {self.paused_by.removeprefix('user:')}" if self.paused_by else ""
        reason = f' ("{self.constraint.reason}")' if self.constraint.reason else ""
        resume = f"`jqmaster resume {self.constraint.name}`"
        ends_ms = self.gate.expires_at_ms
        if ends_ms is None:
            return f"Paused{by} until somebody resumes it with {resume}{reason}."
        left_ms = ends_ms - self.now_ms
        if left_ms <= 0:
            return f"Paused{by} until {iso_ms(ends_ms)}{reason}: the leader is about to end the pause."
        return (
            f"Paused{by} until {iso_ms(ends_ms)}, {span(left_ms)} from now{reason}. {resume} ends it sooner."
        )

    def _why(self, kind: GateCloser) -> str:
        text = kind.why(self.gate, self.now_ms, self.silent_ms)
        if kind is not PAUSE:
            return text
        value = "" if self.constraint.paused else " --value VALUE"
        return f"{text} `jqmaster constraints resume {self.constraint.name}{value}` resumes it."


@dataclass(frozen=True, slots=True)
class Ahead:
    """Other jobs start first.

    * `count`: how many jobs start first. They may start now, or wait for the same constraint or pause as this job.
    * `held_back_by`: that constraint or pause. Empty: no constraint or pause holds this job back.
    * `others`: counts of other names that the same workers take.
    """

    code: ClassVar = "ahead"
    name: str
    count: int
    bound: Accuracy
    others: Mapping[str, int]
    held_back_by: str = ""

    @property
    def text(self) -> str:
        if not self.count:
            return "Other jobs may come before it, but there are too many lanes to count."
        least = {Accuracy.EXACT: "", Accuracy.AT_LEAST: "at least ", Accuracy.ABOUT: "about "}[self.bound]
        come = "comes" if self.count == 1 else "come"
        waits = "waits" if self.count == 1 else "wait"
        same = f" or {waits} for the same {self.held_back_by}" if self.held_back_by else ""
        which = f"that may start{same}"
        text = f"{least}{_count(self.count, 'job')} {which} {come} before it"
        if self.others:
            shown = [f"{count} named {name}" for name, count in list(self.others.items())[:MAX_NAMED_NAMES]]
            more = len(self.others) - len(shown)
            text += f", including {', '.join(shown)}{f' and those of {more} more names' if more > 0 else ''}"
        return f"{text[0].upper()}{text[1:]}."


@dataclass(frozen=True, slots=True)
class IndexMissing:
    """The job is ready, but the store's index does not contain it: data was lost or changed by hand."""

    code: ClassVar = "index_missing"
    fault: str

    @property
    def text(self) -> str:
        return (
            f"Its index entry is missing or wrong (its lane {self.fault}), so no claim finds it. The leader repairs "
            "the index of a name when its jobs have been ready for 30 s although workers are free, and the whole index "
            "once an hour. `jqmaster fsck --repair` repairs it now."
        )


class Next(PlainVerdict):
    code = "next"
    text = "It is next: the first free slot of its workers takes it."


@dataclass(frozen=True, slots=True)
class Running:
    """The job is running.

    * `is_confirmed`: a heartbeat of the worker has named it, so it is no longer only an offer.
    * `earlier_end`: how the previous attempt ended. Empty: its handler cannot still run on the same worker.
    """

    code: ClassVar = "running"
    worker_id: str
    attempt: int
    since_ms: int
    deadline_ms: int
    lease_until_ms: int | None
    is_confirmed: bool
    worker_last_seen_ms: int | None
    now_ms: int
    earlier_end: str = ""

    @property
    def text(self) -> str:
        since, passed = iso_ms(self.since_ms), span(self.now_ms - self.since_ms)
        first = (
            f"Attempt {self.attempt} has been running on worker {self.worker_id} since {since}, for {passed}."
            if self.is_confirmed
            else f"It was given to worker {self.worker_id} at {since}, {passed} ago, as attempt {self.attempt}. "
            "No heartbeat has named it yet."
        )
        lease = (
            ""
            if self.lease_until_ms is None
            else f" Its lease ends at {iso_ms(self.lease_until_ms)} unless it is renewed."
        )
        seen = (
            " The worker is no longer registered."
            if self.worker_last_seen_ms is None
            else f" The worker was last seen {span(self.now_ms - self.worker_last_seen_ms)} ago."
        )
        earlier = (
            f" An earlier attempt ended on the same worker ({self.earlier_end}). If its handler still runs there, "
            "this attempt waits for that handler to end, or is handed back."
            if self.earlier_end
            else ""
        )
        return (
            f"{first}{earlier}{lease} The master ends it at {iso_ms(self.deadline_ms)} at the latest.{seen}"
        )


@dataclass(frozen=True, slots=True)
class AwaitingCallback:
    """Another system does the work of the job. `due_at_ms`: 0 if the callbacks have arrived, and the job waits for a
    worker."""

    code: ClassVar = "awaiting_callback"
    attempt: int
    due_at_ms: int
    now_ms: int

    @property
    def is_answered(self) -> bool:
        return self.due_at_ms == 0

    @property
    def text(self) -> str:
        if self.is_answered:
            return f"The callbacks of attempt {self.attempt} are there. The next free worker of its name takes them."
        left_ms = self.due_at_ms - self.now_ms
        left = f"in {span(left_ms)}" if left_ms > 0 else f"{span(-left_ms)} ago"
        return (
            f"Another system has the work of attempt {self.attempt}. The wait for its callback ends at "
            f"{iso_ms(self.due_at_ms)}, {left}."
        )


@dataclass(frozen=True, slots=True)
class AwaitingJobs:
    """The job waits for `count` other jobs. `jobs`: the first of them with their states (None: deleted)."""

    code: ClassVar = "awaiting_jobs"
    jobs: tuple[tuple[str, str | None], ...]
    count: int

    @property
    def text(self) -> str:
        named = [f"{job_id} ({state or 'gone'})" for job_id, state in self.jobs[:MAX_NAMED_JOBS]]
        others = self.count - len(named)
        more = f" and {_count(others, 'other')}" if others > 0 and named else ""
        return f"It waits for {'jobs' if self.count > 1 else 'job'} {', '.join(named)}{more}."


@dataclass(frozen=True, slots=True)
class Finished:
    """The job is over."""

    code: ClassVar = "finished"
    job_id: str
    state: JobState
    cause: Cause
    finished_at_ms: int

    @property
    def text(self) -> str:
        cause = "" if self.cause is Cause.NONE else f" (cause: {self.cause.name.lower()})"
        return f"It ended at {iso_ms(self.finished_at_ms)}: {self.state}{cause}.{self._next_step}"

    @property
    def _next_step(self) -> str:
        shown = _SHOWN_OF.get(self.state)
        if shown is None:
            return ""
        return (
            f" `jqmaster job {self.job_id}` shows {shown}, and `jqmaster retry {self.job_id}` runs it again."
        )


# By state: the part of a job that people should read before they retry it.
_SHOWN_OF: Final[Mapping[JobState, str]] = {
    JobState.FAILED: "its error",
    JobState.CANCELED: "its history",
    JobState.DISCARDED: "the reason",
}

Verdict = (
    Due | Expired | NoLeader | ConstraintsChanging | ByConstraint | NoWorker | NoMatchingWorker | WorkersUnavailable
    | Ahead | IndexMissing | Next | Running | AwaitingCallback | AwaitingJobs | Finished
)  # fmt: skip


def not_ready_verdict(snapshot: Snapshot) -> list[Verdict]:
    """Return the verdict on a job whose state does not let it start yet; empty for other states."""
    job = snapshot.job
    if job.state is JobState.AWAITING_JOBS:
        return [AwaitingJobs(snapshot.awaits, snapshot.awaits_count)]
    if job.state in TIMED:
        in_ms = job.due_at_ms - snapshot.now_ms
        return [Due(str(job.state), job.due_at_ms, in_ms, job.failures, snapshot.put_off)]
    return []


def named(constraint: Constraint, gate: GateCheck) -> str:
    """Return the name of the constraint with the value of its key, such as `mail-per-host (argument.host =
    example.org)`."""
    name = (
        constraint.name if constraint.key is None else f"{constraint.name} ({constraint.key} = {gate.value})"
    )
    # A gate whose ID does not begin with the constraint's ID keeps the reserved slots of the constraint free.
    return name if gate.gate_id.startswith(constraint.cid) else f"{name}, whose other slots are reserved"


def _count(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
