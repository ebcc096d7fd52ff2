"""The health of the whole queue in words: what is wrong or waits, the likely cause, and the next step."""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from jqmaster.domain.calendars.ending import EndingCalendar
from jqmaster.domain.instant import about, iso_ms, iso_or_none, per, span

Severity = Literal["info", "warn", "bad"]
# The status `waiting`: nothing is broken, but jobs wait because of a limit or a pause, as somebody decided.
HealthStatus = Literal["ok", "waiting", "degraded", "broken"]

WAIT_WARN_MS: Final = 60_000
WAIT_BAD_MS: Final = 600_000
MEMORY_WARN: Final = 0.8
MEMORY_BAD: Final = 0.95
LATENCY_WARN_MS: Final = 100
# A name counts as failing if at least this share of its attempts fails, and at least this many of them.
FAILING_SHARE: Final = 0.05
FAILING_LEAST: Final = 3
# Failures are rising if the last ten minutes have at least RISING_LEAST of them, and RISING_FACTOR times the former
# average of ten minutes.
RISING_LEAST: Final = 10
RISING_FACTOR: Final = 2
# The backlog is growing if it has at least this many jobs more than ten minutes ago, and at least half as many again.
MIN_GROWTH: Final = 100
# The backlog is draining if it has lost at least MIN_DRAINED jobs in ten minutes, and at least one in DRAINED_ONE_IN.
MIN_DRAINED: Final = 20
DRAINED_ONE_IN: Final = 20

_ORDER: Final[Mapping[Severity, int]] = {"bad": 0, "warn": 1, "info": 2}
_STATUS: Final[Mapping[Severity, HealthStatus]] = {"bad": "broken", "warn": "degraded", "info": "waiting"}


@dataclass(frozen=True, slots=True)
class SilentProcess:
    """A worker or master that gives no sign of life. `held`: the jobs that are still assigned to it."""

    name: str
    last_seen_ms: int
    held: int = 0


@dataclass(frozen=True, slots=True)
class LongWait:
    """The job that waits longest although no limit holds it back. `cause`: why, if it is known. `is_queued`: it waits
    only because all slots of its workers are taken."""

    job_id: str
    name: str
    wait_ms: int
    cause: str = ""
    is_queued: bool = False


@dataclass(frozen=True, slots=True)
class FullLimit:
    """A constraint that holds jobs back. `held`: how many jobs. The other fields describe its gate that holds the most
    jobs: `value` of the key (None: it has no key), `waiting`, and the limits that close it. `unit`: what the limits
    count; empty: jobs. `used`: the units that started within the period of the rate."""

    name: str
    held: int
    waiting: int
    value: str | None = None
    slots: int | None = None
    running: float | None = None
    rate: tuple[int, int] | None = None
    opens_at_ms: int | None = None
    held_until_ms: int | None = None
    unit: str = ""
    used: float | None = None

    @property
    def eta_ms(self) -> int | None:
        """Return the time in which a rate lets all waiting jobs start; None if no rate limits them, or if it counts
        units, because the units of the waiting jobs are not summed up."""
        return None if self.rate is None or self.unit else self.waiting * self.rate[1] // self.rate[0]


@dataclass(frozen=True, slots=True)
class PausedJobs:
    """A pause. `kind`: a separate pause, a paused constraint, or paused values of a constraint. `of` and `subject` say
    which jobs: those of a name, with a tag, with a value of `key`, of a constraint, or those that a matcher selects.
    `by` is empty if it is not known."""

    name: str
    kind: Literal["pause", "paused", "paused_values"]
    of: Literal["name", "tag", "value", "constraint", "matcher"]
    subject: str
    waiting: int
    since_ms: int
    by: str = ""
    reason: str = ""
    until_ms: int | None = None
    key: str = ""

    @property
    def what(self) -> str:
        """Return the jobs in words."""
        words = {
            "name": f"jobs named {self.subject}",
            "tag": f"jobs tagged {self.subject}",
            "value": f"jobs with {self.key} = {self.subject}",
            "constraint": f"jobs of constraint {self.subject}",
            "matcher": "jobs that match a condition",
        }
        return words[self.of]


@dataclass(frozen=True, slots=True)
class FailingJobs:
    """A name whose jobs fail. `kind`: a text about what is new in these failures; empty if nothing is new."""

    name: str
    failed: int
    share: float
    kind: str = ""


@dataclass(frozen=True, slots=True)
class TroubledDefinition:
    """A definition that missed its newest instant, is late for it, or has skipped the last `skips` instants."""

    name: str
    is_missed: bool
    due_ms: int
    skips: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthFacts:
    """The facts about a queue at `now_ms`.

    `unserved`: names that no live worker runs, each with its ready jobs. `backlog`: ready jobs at the end of each of
    the last complete minutes; empty: not known. `failed_before`: failures that ten minutes had on average, before the
    last ten. Lists begin with the worst.
    """

    now_ms: int
    ready: int
    running: int
    oldest_wait_ms: int | None
    has_leader: bool
    late_leader: SilentProcess | None
    stale_masters: int
    fresh_workers: int
    stale_workers: int
    busy: int
    slots: int
    detached_workers: Sequence[SilentProcess]
    store_faults: Sequence[str]
    duty_faults: Sequence[str]
    durability: str
    given_durability: str
    is_less_durable: bool
    latency_ms: float
    memory_bytes: int
    max_memory_bytes: int | None
    unserved: Sequence[tuple[str, int]]
    longest: LongWait | None
    limits: Sequence[FullLimit]
    pauses: Sequence[PausedJobs]
    failing: Sequence[FailingJobs]
    failed_lately: int
    failed_before: float
    definitions: Sequence[TroubledDefinition]
    backlog: Sequence[int]
    calendars: Sequence[EndingCalendar] = ()


@dataclass(frozen=True, slots=True)
class HealthFinding:
    """One thing that is wrong or waits. `text` says it in whole sentences, `command` is the next step, `jobs` the
    number of jobs that it concerns, and `figures` are the values that the text is made of."""

    code: str
    severity: Severity
    text: str
    command: str
    jobs: int = 0
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HealthVerdict:
    """The health of the queue. `text` is the first finding, or that all is well; `command` is the next step, if one is
    left. Findings are sorted, the worst first."""

    status: HealthStatus
    text: str
    command: str | None
    findings: Sequence[HealthFinding]


def judge(facts: HealthFacts) -> HealthVerdict:
    """Return the verdict on these facts."""
    found = [finding for rule in _RULES for finding in rule(facts)]
    # Equal findings stay in the order of the rules, which is the order in which faults should be fixed, because sorting
    # is stable.
    found.sort(key=lambda one: (_ORDER[one.severity], -one.jobs if one.severity == "info" else 0))
    if not found:
        return HealthVerdict("ok", f"{_all_well(facts)} Nothing is broken.", None, ())
    first = found[0]
    text = f"{first.text} Nothing is broken." if first.severity == "info" else first.text
    return HealthVerdict(_STATUS[first.severity], text, first.command, found)


def store_away(detail: str) -> HealthVerdict:
    """Return the verdict if the store does not answer."""
    finding = HealthFinding(
        "store_away",
        "bad",
        f"The store does not answer, so no job is accepted or started: {detail.rstrip('.')}.",
        "jqmaster doctor",
        figures={"fault": detail},
    )
    return HealthVerdict("broken", finding.text, finding.command, (finding,))


# --- the rules, in the order in which faults should be fixed


def _masters(facts: HealthFacts) -> Iterator[HealthFinding]:
    if not facts.has_leader:
        yield HealthFinding("no_leader", "bad", "No master leads, so no job is started.", "jqmaster masters")
    if late := facts.late_leader:
        seen = span(facts.now_ms - late.last_seen_ms)
        text = f"The leader {late.name} is late: it was last heard {seen} ago. No job is started meanwhile."
        figures = {"master": late.name, "seen_at": iso_ms(late.last_seen_ms)}
        yield HealthFinding("late_leader", "bad", text, "jqmaster masters", figures=figures)


def _store(facts: HealthFacts) -> Iterator[HealthFinding]:
    for fault in facts.store_faults:
        text = f"New jobs are refused: {fault.rstrip('.')}."
        yield HealthFinding("store", "bad", text, "jqmaster doctor", figures={"fault": fault})
    if facts.is_less_durable:
        text = f"The store gives only {facts.given_durability}, but {facts.durability} is configured."
        figures = {"wanted": facts.durability, "given": facts.given_durability}
        yield HealthFinding("durability", "bad", text, "jqmaster doctor", figures=figures)
    share = facts.memory_bytes / facts.max_memory_bytes if facts.max_memory_bytes else 0
    if share >= MEMORY_WARN:
        text = f"The store has used {share:.0%} of its memory."
        severity: Severity = "bad" if share >= MEMORY_BAD else "warn"
        used = {"share": round(share, 4), "used": facts.memory_bytes, "most": facts.max_memory_bytes}
        yield HealthFinding("memory", severity, text, "jqmaster stats", figures=used)


def _workers(facts: HealthFacts) -> Iterator[HealthFinding]:
    if not facts.fresh_workers and facts.ready:
        text = f"{_jobs(facts.ready, 'waits', 'wait')}, but no worker is live."
        yield HealthFinding("no_worker", "bad", text, "jqmaster workers", facts.ready, {"count": facts.ready})
        return
    for name, ready in facts.unserved:
        text = f"No live worker runs jobs named {name}: {_jobs(ready, 'waits', 'wait')}."
        yield HealthFinding("orphan", "bad", text, "jqmaster workers", ready, {"name": name, "count": ready})


def _definitions(facts: HealthFacts) -> Iterator[HealthFinding]:
    for one in facts.definitions:
        if one.skips:
            yield _skipping(one)
            continue
        ago = span(facts.now_ms - one.due_ms)
        code = "missed_instant" if one.is_missed else "late_definition"
        severity: Severity = "warn" if one.is_missed else "bad"
        text = (
            f"Definition {one.name} missed its run {ago} ago: it was noticed too late."
            if one.is_missed
            else f"Definition {one.name} was due {ago} ago and has not run."
        )
        command = f"jqmaster definitions runs {shlex.quote(one.name)}"
        figures = {"name": one.name, "due_at": iso_ms(one.due_ms)}
        yield HealthFinding(code, severity, text, command, figures=figures)


def _skipping(one: TroubledDefinition) -> HealthFinding:
    text = f"Definition {one.name} skips its runs, the last {one.skips} in a row, and starts no jobs."
    command = f"jqmaster definitions why {shlex.quote(one.name)}"
    figures = {"name": one.name, "count": one.skips}
    return HealthFinding("skipping_definition", "warn", text, command, figures=figures)


def _calendars(facts: HealthFacts) -> Iterator[HealthFinding]:
    for one in facts.calendars:
        figures = {"name": one.name, "until": one.covers_until.isoformat(), "count": one.definitions}
        yield HealthFinding("calendar_ends", "warn", one.text, one.command, figures=figures)


def _long_wait(facts: HealthFacts) -> Iterator[HealthFinding]:
    one = facts.longest
    if one is None or one.wait_ms < WAIT_WARN_MS or not facts.fresh_workers:
        return
    severity: Severity = "bad" if one.wait_ms >= WAIT_BAD_MS and not one.is_queued else "warn"
    cause = one.cause or "No limit holds it back."
    text = f"A job named {one.name} has waited {span(one.wait_ms)}. {cause}"
    figures = {"name": one.name, "job_id": one.job_id, "wait_ms": one.wait_ms, "cause": one.cause}
    yield HealthFinding("wait", severity, text, f"jqmaster why {one.job_id}", 1, figures)


def _failures(facts: HealthFacts) -> Iterator[HealthFinding]:
    for one in facts.failing:
        kind = f" {one.kind}" if one.kind else ""
        text = f"{_jobs(one.failed)} named {one.name} failed in the last hour ({one.share:.0%}).{kind}"
        command = f"jqmaster failures --name {shlex.quote(one.name)}"
        figures = {"name": one.name, "count": one.failed, "share": round(one.share, 4), "kind": one.kind}
        yield HealthFinding("failing", "warn", text, command, one.failed, figures)
    lately, before = facts.failed_lately, facts.failed_before
    if lately >= RISING_LEAST and lately >= RISING_FACTOR * before:
        text = f"Failures rise: {_jobs(lately)} failed in the last 10 minutes, and {before:.0f} in 10 minutes before."
        figures = {"lately": lately, "before": round(before, 1)}
        yield HealthFinding("rising", "warn", text, "jqmaster failures", lately, figures)


def _silent(facts: HealthFacts) -> Iterator[HealthFinding]:
    if facts.stale_workers:
        text = f"{_count(facts.stale_workers, 'worker is', 'workers are')} silent."
        figures: dict[str, Any] = {"count": facts.stale_workers}
        yield HealthFinding("stale_workers", "warn", text, "jqmaster workers", figures=figures)
    for one in facts.detached_workers:
        held = f" {_jobs(one.held, 'is', 'are')} still assigned to it." if one.held else ""
        text = f"Worker {one.name} is detached: it was last heard {span(facts.now_ms - one.last_seen_ms)} ago.{held}"
        figures = {"worker": one.name, "seen_at": iso_ms(one.last_seen_ms), "count": one.held}
        yield HealthFinding("dead_worker", "warn", text, "jqmaster workers", one.held, figures)
    if facts.stale_masters:
        text = f"{_count(facts.stale_masters, 'master is', 'masters are')} silent."
        figures = {"count": facts.stale_masters}
        yield HealthFinding("stale_masters", "warn", text, "jqmaster masters", figures=figures)
    for fault in facts.duty_faults:
        text = f"A duty of a master fails: {fault.rstrip('.')}."
        yield HealthFinding("duty", "warn", text, "jqmaster stats", figures={"fault": fault})
    if facts.latency_ms >= LATENCY_WARN_MS:
        text = f"The store is slow: it takes {facts.latency_ms:.0f} ms to answer."
        figures = {"latency_ms": facts.latency_ms}
        yield HealthFinding("latency", "warn", text, "jqmaster doctor", figures=figures)


def _backlog(facts: HealthFacts) -> Iterator[HealthFinding]:
    if len(facts.backlog) < 2:
        return
    first, last, minutes = facts.backlog[0], facts.backlog[-1], len(facts.backlog)
    steps = zip(facts.backlog, facts.backlog[1:], strict=False)
    rises = sum(after > before for before, after in steps)
    per_min = abs(last - first) / (minutes - 1)
    figures: dict[str, Any] = {
        "first": first, "last": last, "minutes": minutes, "per_min": round(per_min, 1),
    }  # fmt: skip
    if last - first >= max(MIN_GROWTH, first / 2) and rises >= 2 * minutes / 3:
        full = f" All {_count(facts.slots, 'slot')} of the workers are taken." if _is_full(facts) else ""
        text = f"The backlog grew from {first:,} to {last:,} jobs in {minutes} minutes.{full}"
        # If most jobs are held back by a limit or a pause, they wait because somebody decided so.
        is_decided = 2 * _held(facts) >= last
        severity: Severity = "info" if is_decided else "warn"
        yield HealthFinding("growth", severity, text, "jqmaster names --sort ready", figures=figures)
    elif first - last >= max(MIN_DRAINED, first / DRAINED_ONE_IN) and facts.ready:
        eta_ms = round(60_000 * facts.ready / per_min)
        text = (
            f"{_jobs(facts.ready, 'is', 'are')} ready; the backlog shrinks by {per_min:,.0f} a minute and is empty in "
            f"about {about(eta_ms)}."
        )
        figures |= {"ready": facts.ready, "eta_ms": eta_ms}
        yield HealthFinding("drains", "info", text, "jqmaster names --sort ready", figures=figures)


def _limits(facts: HealthFacts) -> Iterator[HealthFinding]:
    for one in facts.limits:
        if one.value is None:
            who = f"{_jobs(one.held, 'waits', 'wait')} for constraint {one.name}"
        else:
            others = f"{one.waiting:,} of " if one.waiting < one.held else "all "
            who = f"Jobs wait for constraint {one.name}: {others}{one.held:,} for {one.value}"
        command = f"jqmaster constraints show {shlex.quote(one.name)}"
        figures = {
            "name": one.name, "value": one.value, "count": one.waiting, "held": one.held, "slots": one.slots,
            "running": one.running, "eta_ms": one.eta_ms, "opens_at": iso_or_none(one.opens_at_ms),
            "rate": None if one.rate is None else per(*one.rate, one.unit),
            "held_until": iso_or_none(one.held_until_ms), "unit": one.unit or None, "used": one.used,
        }  # fmt: skip
        yield HealthFinding("full", "info", f"{who}{_limit(one, facts.now_ms)}.", command, one.held, figures)


def _pauses(facts: HealthFacts) -> Iterator[HealthFinding]:
    for one in facts.pauses:
        by = f" by {one.by}" if one.by else ""
        since = f" since {iso_ms(one.since_ms)}" if one.kind == "pause" else ""
        reason = f" ({one.reason})" if one.reason else ""
        until = f", until {iso_ms(one.until_ms)}" if one.until_ms else ""
        text = f"Paused{by}{since}{reason}{until}: {one.what}. {_jobs(one.waiting, 'waits', 'wait')}."
        figures = {
            "name": one.name, "of": one.of, "subject": one.subject, "key": one.key, "count": one.waiting, "by": one.by,
            "reason": one.reason, "since_at": iso_ms(one.since_ms), "until_at": iso_or_none(one.until_ms),
        }  # fmt: skip
        yield HealthFinding(one.kind, "info", text, "jqmaster pauses", one.waiting, figures)


_RULES: Final[Sequence[Callable[[HealthFacts], Iterator[HealthFinding]]]] = (
    _masters, _store, _workers, _definitions, _calendars, _long_wait, _failures, _silent, _limits, _pauses, _backlog,
)  # fmt: skip


# --- words


def _limit(one: FullLimit, now_ms: int) -> str:
    """Return a text to append to the jobs that wait for the gate: why the gate is closed, and until when."""
    parts = []
    if one.rate is not None:
        rest = f", {one.used or 0:,} of them used" if one.unit else f"; about {about(one.eta_ms or 0)}"
        parts.append(f" at {per(*one.rate, one.unit)}{rest}")
    if one.slots is not None:
        parts.append(f", with {one.running or 0:,} of {one.slots:,} {one.unit or 'slots'} taken")
    if one.held_until_ms is not None:
        parts.append(f", which a worker asked to hold until {iso_ms(one.held_until_ms)}")
    elif one.opens_at_ms is not None and one.opens_at_ms - now_ms >= 1_000:
        parts.append(f"; the next may start in {about(one.opens_at_ms - now_ms)}")
    return "".join(parts)


def _all_well(facts: HealthFacts) -> str:
    runs = _jobs(facts.running, "runs", "run")
    if not facts.ready:
        return f"{runs}, and none waits." if facts.running else "No job runs or waits."
    oldest = f", the oldest for {span(facts.oldest_wait_ms)}" if facts.oldest_wait_ms else ""
    return f"{runs}, and {_count(facts.ready, 'is', 'are')} ready{oldest}."


def _held(facts: HealthFacts) -> int:
    return sum(one.held for one in facts.limits) + sum(one.waiting for one in facts.pauses)


def _is_full(facts: HealthFacts) -> bool:
    return 0 < facts.slots <= facts.busy


def _jobs(count: int, one: str = "", many: str = "") -> str:
    """Return `1 job waits`, `1,024 jobs wait`."""
    return f"{count:,} {'job' if count == 1 else 'jobs'} {one if count == 1 else many}".rstrip()


def _count(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"
