"""Causes for which many ready jobs wait: the verdicts on some of them, merged, with counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from jqmaster.domain.instant import about, per
from jqmaster.domain.why.verdict import ByConstraint, Verdict

# Maximum number of names that a cause lists.
MAX_NAMES: Final = 5
_WAITS: Final[Mapping[str, str]] = {
    "no_worker": "without a worker",
    "no_matching_worker": "without a worker that has their labels",
    "workers_unavailable": "for a free worker",
    "no_leader": "until a master is elected leader",
    "rules_changing": "for changed constraints to take effect",
    "index_missing": "outside the index, which the leader repairs",
    "expired": "about to be skipped, because they have expired",
}
_OTHERS: Final = "for other jobs to start first"


@dataclass(frozen=True, slots=True)
class WaitCause:
    """A cause for which `count` jobs wait. `verdict` explains one of them, the job `job_id`. `names`: the names of some
    of the jobs."""

    count: int
    verdict: Verdict
    job_id: str
    names: tuple[str, ...]

    @property
    def paused_by(self) -> str:
        """Return who paused the jobs. Empty: nobody did, or it is not known."""
        return self.verdict.paused_by if isinstance(self.verdict, ByConstraint) else ""

    @property
    def eta_ms(self) -> int | None:
        """Return the time in which a rate lets all of these jobs start, or None if no rate limits them."""
        if not isinstance(self.verdict, ByConstraint) or self.verdict.kind.name != "rate":
            return None
        limit, _, period_s = self.verdict.kind.use(self.verdict.gate)
        if self.verdict.gate.is_weighted or limit is None or period_s is None:
            return None
        return round(1000 * self.count * period_s / limit)

    @property
    def text(self) -> str:
        """Return the count and the cause: `880 for mail-per-host at globex (60/min, about 15 min)`."""
        if not isinstance(self.verdict, ByConstraint):
            return f"{self.count:,} {_WAITS.get(self.verdict.code, _OTHERS)}"
        constraint, gate = self.verdict.constraint, self.verdict.gate
        at = "" if constraint.key is None else f" at {gate.value}"
        limit, used, period_s = self.verdict.kind.use(gate)
        if self.verdict.kind.name == "paused":
            by = f" by {self.paused_by.removeprefix('user:')}" if self.paused_by else ""
            reason = f": {constraint.reason}" if constraint.reason else ""
            how = f"paused{by}{reason}"
            if self.verdict.is_pause:
                return f"{self.count:,} {how}"
        elif self.eta_ms is not None and limit is not None and period_s is not None:
            how = f"{per(limit, round(period_s * 1000))}, about {about(self.eta_ms)}"
        elif limit is not None:
            how = f"{used or 0:,} of {limit:,} {gate.unit or 'slots'} taken"
        else:
            how = "held back by a worker"
        return f"{self.count:,} for {constraint.name}{at} ({how})"


def merged(causes: Sequence[WaitCause]) -> list[WaitCause]:
    """Return the causes, the one with the most jobs first. Causes are merged if people would see no difference."""
    found: dict[tuple[object, ...], WaitCause] = {}
    for one in causes:
        key = _identity(one.verdict)
        if (same := found.get(key)) is not None:
            names = tuple(dict.fromkeys((*same.names, *one.names)))[:MAX_NAMES]
            one = replace(same, count=same.count + one.count, names=names)
        found[key] = one
    return sorted(found.values(), key=lambda one: -one.count)


def _identity(verdict: Verdict) -> tuple[object, ...]:
    if isinstance(verdict, ByConstraint):
        # Compare the IDs of gates. Their values may be hidden, so gates with different limits would look alike.
        return verdict.code, verdict.constraint.name, verdict.gate.gate_id, verdict.kind.name
    return (_WAITS.get(verdict.code, _OTHERS),)


def summary(ready: int, *, is_exact: bool, examined: int, causes: Sequence[WaitCause]) -> str:
    """Return the causes in one sentence. `examined`: how many of the ready jobs the causes cover."""
    if not ready:
        return "No job waits to start."
    least = "" if is_exact else "at least "
    jobs = f"{least}{ready:,} {'job waits' if ready == 1 else 'jobs wait'}"
    jobs = f"{jobs[0].upper()}{jobs[1:]}"
    told = ", ".join(one.text for one in causes)
    if not told:
        return f"{jobs}."
    if examined < ready:
        return f"{jobs}. {examined:,} of them: {told}."
    return f"{jobs}: {told}."
