"""The health of the whole queue in words: what is wrong or waits, the likely cause, and the next step."""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from jqmaster.domain.instant import about, iso_ms, iso_or_none, per, span
from jqmaster.domain.operations.health_facts import (
    FullLimit,
    HealthFacts,
    SilentProcess,
    TroubledDefinition,
)

Severity = Literal["info", "warn", "bad"]
# The status `waiting` means that nothing is broken. Jobs wait because of a limit or a pause that somebody set.
HealthStatus = Literal["ok", "waiting", "degraded", "broken"]
FindingCode = Literal[
    "calendar_ends", "dead_worker", "drains", "durability", "duty", "failing", "full", "growth", "late_definition",
    "late_leader", "latency", "memory", "missed_instant", "no_leader", "no_worker", "orphan", "pause", "paused",
    "paused_values", "replaced_worker", "rising", "skipping_definition", "stale_masters", "stale_workers", "store",
    "store_away", "wait",
]  # fmt: skip

WAIT_WARN_MS: Final = 60_000
WAIT_BAD_MS: Final = 600_000
MEMORY_WARN: Final = 0.8
MEMORY_BAD: Final = 0.95
LATENCY_WARN_MS: Final = 100
# A name counts as failing if at least FAILING_LEAST of its attempts fail, and at least this share of all its attempts.
FAILING_SHARE: Final = 0.05
FAILING_LEAST: Final = 3
# Failures are rising if the last ten minutes had at least RISING_LEAST of them. This number must also be at least
# RISING_FACTOR times the average of ten earlier minutes.
RISING_LEAST: Final = 10
RISING_FACTOR: Final = 2
# The backlog is growing if it has at least this many more jobs than ten minutes ago, and at least 1.5 times as many.
MIN_GROWTH: Final = 100
# The backlog is draining if it has lost at least MIN_DRAINED jobs in ten minutes, and at least one of DRAINED_ONE_IN
# jobs.
MIN_DRAINED: Final = 20
DRAINED_ONE_IN: Final = 20

# Findings that only report: no job waits because of them.
_REPORTS: Final[frozenset[FindingCode]] = frozenset({"replaced_worker"})
_ORDER: Final[Mapping[Severity, int]] = {"bad": 0, "warn": 1, "info": 2}
_STATUS: Final[Mapping[Severity, HealthStatus]] = {"bad": "broken", "warn": "degraded", "info": "waiting"}


@dataclass(frozen=True, slots=True)
class HealthFinding:
    """One thing that is wrong or waits.

    * `text`: the finding in whole sentences.
    * `command`: the next step.
    * `jobs`: the number of jobs that it concerns.
    * `figures`: the values in the text.
    * `subject`: tells findings of one code apart.
    """

    code: FindingCode
    severity: Severity
    text: str
    command: str
    jobs: int = 0
    figures: Mapping[str, Any] = field(default_factory=dict)
    subject: str = ""

    @property
    def key(self) -> str:
        """Return an identifier that stays the same while the finding lasts. It changes if the finding becomes
        worse, so that people who have acknowledged it see it again."""
        return f"{self.code} {self.subject}".rstrip()


@dataclass(frozen=True, slots=True)
class HealthVerdict:
    """The health of the queue.

    * `text`: the first finding, or a statement that all is well.
    * `command`: the next step, if there is one.
    * `findings`: the worst first.
    """

    status: HealthStatus
    text: str
    command: str | None
    findings: Sequence[HealthFinding]


def judge(facts: HealthFacts) -> HealthVerdict:
    """Return the verdict on these facts."""
    found = [finding for rule in _RULES for finding in rule(facts)]
    # Sorting is stable, so equal findings stay in the order of the rules. Faults should be fixed in this order.
    found.sort(key=_place)
    if not found or found[0].code in _REPORTS:
        return HealthVerdict("ok", f"{_all_well(facts)} Nothing is broken.", None, tuple(found))
    first = found[0]
    text = f"{first.text} Nothing is broken." if first.severity == "info" else first.text
    return HealthVerdict(_STATUS[first.severity], text, first.command, found)


def _place(one: HealthFinding) -> tuple[int, bool, int]:
    return _ORDER[one.severity], one.code in _REPORTS, -one.jobs if one.severity == "info" else 0


def is_failing(failed: int, success_share: float | None) -> bool:
    """Return whether a name with so many failed jobs, and this share of successes, counts as failing."""
    return failed >= FAILING_LEAST and success_share is not None and 1 - success_share >= FAILING_SHARE


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
        yield HealthFinding("late_leader", "bad", text, "jqmaster masters", 0, figures, late.id)


def _store(facts: HealthFacts) -> Iterator[HealthFinding]:
    for fault in facts.store_faults:
        text = f"New jobs are refused: {fault.rstrip('.')}."
        yield HealthFinding("store", "bad", text, "jqmaster doctor", 0, {"fault": fault}, fault)
    if facts.is_less_durable:
        text = f"The store provides only {facts.given_durability} durability, but {facts.durability} is configured."
        figures = {"wanted": facts.durability, "given": facts.given_durability}
        yield HealthFinding("durability", "bad", text, "jqmaster doctor", figures=figures)
    share = facts.memory_bytes / facts.max_memory_bytes if facts.max_memory_bytes else 0
    if share >= MEMORY_WARN:
        text = f"The store has used {share:.0%} of its memory."
        severity: Severity = "bad" if share >= MEMORY_BAD else "warn"
        used = {"share": round(share, 4), "used": facts.memory_bytes, "most": facts.max_memory_bytes}
        yield HealthFinding("memory", severity, text, "jqmaster stats", 0, used, severity)


def _workers(facts: HealthFacts) -> Iterator[HealthFinding]:
    if not facts.fresh_workers and facts.ready:
        text = f"{_jobs(facts.ready, 'waits', 'wait')}, but no worker is live."
        yield HealthFinding("no_worker", "bad", text, "jqmaster workers", facts.ready, {"count": facts.ready})
        return
    for name, ready in facts.unserved:
        text = f"No live worker runs jobs named {name}: {_jobs(ready, 'waits', 'wait')}."
        yield HealthFinding(
            "orphan", "bad", text, "jqmaster workers", ready, {"name": name, "count": ready}, name
        )


def _definitions(facts: HealthFacts) -> Iterator[HealthFinding]:
    for one in facts.definitions:
        if one.skips:
            yield _skipping(one)
            continue
        ago = span(facts.now_ms - one.due_ms)
        code: FindingCode = "missed_instant" if one.is_missed else "late_definition"
        severity: Severity = "warn" if one.is_missed else "bad"
        text = (
            f"Definition {one.name} missed its run {ago} ago: it was noticed too late."
            if one.is_missed
            else f"Definition {one.name} was due {ago} ago and has not run."
        )
        command = f"jqmaster definitions runs {shlex.quote(one.name)}"
        figures = {"name": one.name, "due_at": iso_ms(one.due_ms)}
        yield HealthFinding(code, severity, text, command, 0, figures, f"{one.name} {one.due_ms}")


def _skipping(one: TroubledDefinition) -> HealthFinding:
    text = f"Definition {one.name} skips its runs, the last {one.skips} in a row, and starts no jobs."
    command = f"jqmaster definitions why {shlex.quote(one.name)}"
    figures = {"name": one.name, "count": one.skips, "reason": one.reason}
    return HealthFinding("skipping_definition", "warn", text, command, 0, figures, one.name)


def _calendars(facts: HealthFacts) -> Iterator[HealthFinding]:
    for one in facts.calendars:
        figures = {"name": one.name, "until": one.covers_until.isoformat(), "count": one.definitions}
        yield HealthFinding("calendar_ends", "warn", one.text, one.command, 0, figures, one.name)


def _long_wait(facts: HealthFacts) -> Iterator[HealthFinding]:
    one = facts.longest
    if one is None or one.wait_ms < WAIT_WARN_MS or not facts.fresh_workers:
        return
    # A finding of `_unserved` already reports jobs that no worker runs.
    if any(one.name == name for name, _ in facts.unserved):
        return
    severity: Severity = "bad" if one.wait_ms >= WAIT_BAD_MS and not one.is_queued else "warn"
    cause = one.cause or "No limit holds it back."
    text = f"A job named {one.name} has waited {span(one.wait_ms)}. {cause}"
    figures = {
        **one.cause_figures, "name": one.name, "job_id": one.job_id, "wait_ms": one.wait_ms, "cause": one.cause,
        "cause_code": one.cause_code or None,
    }  # fmt: skip
    yield HealthFinding("wait", severity, text, f"jqmaster why {one.job_id}", 1, figures, severity)


def _failures(facts: HealthFacts) -> Iterator[HealthFinding]:
    for one in facts.failing:
        kind = one.kind.text(facts.now_ms) if one.kind else ""
        text = (
            f"{_jobs(one.failed)} named {one.name} failed in the last hour ({one.share:.0%}). {kind}".rstrip()
        )
        command = f"jqmaster failures --name {shlex.quote(one.name)}"
        figures = {"name": one.name, "count": one.failed, "share": round(one.share, 4), "kind": kind}
        if one.kind:
            began_at = iso_ms(one.kind.first_seen_ms)
            figures |= {
                "mark": one.kind.mark, "cause": one.kind.cause, "began_at": began_at, "version": one.kind.version,
            }  # fmt: skip
        yield HealthFinding("failing", "warn", text, command, one.failed, figures, one.name)
    lately, before = facts.failed_lately, facts.failed_before
    if lately >= RISING_LEAST and lately >= RISING_FACTOR * before:
        text = f"Failures rise: {_jobs(lately)} failed in the last 10 minutes. Before, the average was {before:.0f}."
        figures = {"lately": lately, "before": round(before, 1)}
        yield HealthFinding("rising", "warn", text, "jqmaster failures", lately, figures)


def _silent(facts: HealthFacts) -> Iterator[HealthFinding]:
    if facts.stale_workers:
        text = f"{_count(facts.stale_workers, 'worker is', 'workers are')} silent."
        figures: dict[str, Any] = {"count": facts.stale_workers}
        yield HealthFinding("stale_workers", "warn", text, "jqmaster workers", figures=figures)
    for one in facts.detached_workers:
        yield _detached(one, facts.now_ms)
    if facts.stale_masters:
        text = f"{_count(facts.stale_masters, 'master is', 'masters are')} silent."
        figures = {"count": facts.stale_masters}
        yield HealthFinding("stale_masters", "warn", text, "jqmaster masters", figures=figures)
    for fault in facts.duty_faults:
        text = f"A duty of a master fails: {fault.rstrip('.')}."
        yield HealthFinding("duty", "warn", text, "jqmaster stats", 0, {"fault": fault}, fault)
    if facts.latency_ms >= LATENCY_WARN_MS:
        text = f"The store is slow: it takes {facts.latency_ms:.0f} ms to answer."
        figures = {"latency_ms": facts.latency_ms}
        yield HealthFinding("latency", "warn", text, "jqmaster doctor", figures=figures)


def _detached(one: SilentProcess, now_ms: int) -> HealthFinding:
    seen = f"last heard {span(now_ms - one.last_seen_ms)} ago"
    figures = {
        "worker": one.name, "id": one.id, "seen_at": iso_ms(one.last_seen_ms), "count": one.held,
        "successor": one.successor or None,
    }  # fmt: skip
    command, subject = "jqmaster workers", one.id or one.name
    if one.successor:
        text = f"Worker {one.name} ended ({seen}), and {one.successor} took its place."
        return HealthFinding("replaced_worker", "info", text, command, 0, figures, subject)
    held = f" {_jobs(one.held, 'is', 'are')} still assigned to it." if one.held else ""
    text = f"Worker {one.name} is detached: it was {seen}.{held}"
    # The jobs of the worker neither run nor start elsewhere until their leases end. Without jobs, it delays nothing.
    severity: Severity = "bad" if one.held else "warn"
    return HealthFinding("dead_worker", severity, text, command, one.held, figures, subject)


def _backlog(facts: HealthFacts) -> Iterator[HealthFinding]:
    if len(facts.backlog) < 2:
        return
    first, last, minutes = facts.backlog[0], facts.backlog[-1], len(facts.backlog)
    if first is None or last is None:
        return
    steps = zip(facts.backlog, facts.backlog[1:], strict=False)
    rises = sum(before is not None and after is not None and after > before for before, after in steps)
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
            "keys": one.keys, "closed_keys": one.closed_keys, "since_at": iso_or_none(one.since_ms),
        }  # fmt: skip
        yield HealthFinding(
            "full", "info", f"{who}{_limit(one, facts.now_ms)}.", command, one.held, figures, one.name
        )


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
            "values": one.values,
        }  # fmt: skip
        # A pause is a decision, and no fault. Report it anyway, because a forgotten pause looks like a stopped queue.
        subject = f"{one.name} {one.since_ms}"
        yield HealthFinding(one.kind, "info", text, "jqmaster pauses", one.waiting, figures, subject)


_RULES: Final[Sequence[Callable[[HealthFacts], Iterator[HealthFinding]]]] = (
    _masters, _store, _workers, _definitions, _calendars, _long_wait, _failures, _silent, _limits, _pauses, _backlog,
)  # fmt: skip


# --- words


def _limit(one: FullLimit, now_ms: int) -> str:
    """Return why the gate is closed, and until when, as the end of a sentence about the jobs that wait for it."""
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
