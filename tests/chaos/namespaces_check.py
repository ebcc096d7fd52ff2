"""The checker of a run with several namespaces. Each namespace has to keep every promise by itself, with the faults of
its own parts as the only excuses; and nothing of one may appear in another, or in two stores.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, zip_longest
from typing import Any, Final

from tests.chaos.checker import MASTER_START_S, Report, check
from tests.chaos.evidence import READING_S, Violation
from tests.chaos.history import Call, Epoch, Fault, History
from tests.chaos.namespaces_history import HARNESS, InstallationHistory

# A namespace serves again so long after its store has come back, or its way to it.
BACK_S: Final = 8.0
# A call that waits is answered this late at most by a master that is well.
ANSWER_S: Final = 1.9
MOVE: Final = "move namespace"
DEFAULT: Final = "default"
CALLED: Final = ("push", "view", "result", "cancel", "retry", "delete", "ready")


def check_installation(history: InstallationHistory) -> Report:
    """All invariants and figures."""
    checker = _Checker(history)
    reports = {name: check(checker.seen_by(name)) for name in history.namespaces}
    violations = [
        replace(found, subject=f"{name}: {found.subject}")
        for name, report in reports.items()
        for found in report.violations
    ]
    violations += [Violation("did not end", "process", text) for text in history.stuck]
    for name in history.namespaces:
        violations += [*checker.copies(name), *checker.leaders(name), *checker.refusals(name)]
    violations += checker.strangers()
    return Report(violations, checker.figures(reports, violations))


class _Checker:
    def __init__(self, history: InstallationHistory) -> None:
        self._h = history
        self._absences = {
            name: [(f.from_s, self._is_back_s(f)) for f in history.faults if f.target == name]
            for name in set(history.masters.values())
        }

    def seen_by(self, name: str) -> History:
        """Return the namespace's history with the faults that may concern it, as if there were no other."""
        own = self._h.namespaces[name]
        starved = [Fault("starved", one.master, one.from_s, one.to_s) for one in self._h.starved]
        faults = [seen for fault in (*self._h.faults, *starved) if (seen := self._seen(fault, name))]
        # A store from which the namespace was moved keeps the last epoch that it had there.
        firsts = [
            b
            for seen in self._h.epochs.get(name, {}).values()
            for a, b in pairwise([None, *seen])
            if b and (a is None or a.number != b.number)
        ]
        epochs = sorted(firsts, key=lambda epoch: epoch.at_s)
        return replace(
            own, faults=faults, epochs=epochs, silences=self._h.silences if name == DEFAULT else []
        )

    def _seen(self, fault: Fault, name: str) -> Fault | None:
        if fault.kind == MOVE:
            return replace(fault, target="store") if fault.target == name else None
        parts = fault.target.split(">")
        if parts[-1].startswith("store"):
            if not self._concerns(fault, parts[-1], name):
                return None
            return replace(fault, target=">".join([*parts[:-1], "store"]))
        if parts[0] in self._absences:
            # Why it ended is judged once, beside the store of the registry.
            kind = "kill" if fault.kind == "exit" and name != DEFAULT else fault.kind
            return replace(fault, kind=kind, to_s=self._is_up_s(fault))
        return fault

    def _concerns(self, fault: Fault, store: str, name: str) -> bool:
        return store in self._h.stores_of(name, fault.from_s, fault.to_s)

    def _is_up_s(self, fault: Fault) -> float:
        """Return when a master's fault is over. It does not start while the store of the registry is away."""
        away = [(f.from_s, f.to_s) for f in self._h.faults if f.target.split(">")[-1] == self._h.control]
        to_s = fault.to_s
        for from_s, until_s in sorted(away):
            if fault.kind != "stop" and from_s - BACK_S <= to_s < until_s:
                to_s = until_s
        return to_s

    def _is_back_s(self, fault: Fault) -> float:
        return self._is_up_s(fault) + (BACK_S if fault.kind == "stop" else MASTER_START_S)

    # --- invariants

    def copies(self, name: str) -> Iterator[Violation]:
        """Each accepted job is in exactly one store. `check` says whether it is in none."""
        for job_id, stores in self._h.copies.get(name, {}).items():
            if len(stores) > 1:
                yield Violation("in two stores", f"{name}: {job_id}", ", ".join(sorted(stores)))

    def strangers(self) -> Iterator[Violation]:
        """No namespace has a job of another, and none runs there."""
        pushed = {
            call.job_id: name
            for name, history in self._h.namespaces.items()
            for call in history.calls
            if call.kind == "push"
        }
        for name, history in self._h.namespaces.items():
            for job_id in {*history.jobs, *(line.job_id for line in history.lines if line.what == "start")}:
                if (owner := pushed.get(job_id, name)) != name:
                    yield Violation("in another namespace", f"{name}: {job_id}", f"pushed to {owner}")

    def leaders(self, name: str) -> Iterator[Violation]:
        """No epoch is given twice, in whichever store, and no two stores are led at once."""
        epochs = self._h.epochs.get(name, {})
        led: list[tuple[float, float, str, str]] = []
        for store, seen in epochs.items():
            led += [
                (a.at_s, b.at_s if b else float("inf"), store, a.holder)
                for a, b in zip_longest(seen, seen[1:])
                if a.holder
            ]
        led.sort()
        for one, other in pairwise(led):
            if one[2] != other[2] and other[0] < one[1] - READING_S and not self._stood_still(one[2], one[1]):
                yield Violation("led in two stores", name, f"{one[2]} and {other[2]} at {other[0]:.3f}")
        owners: dict[int, Epoch] = {}
        for epoch in (epoch for seen in epochs.values() for epoch in seen):
            if (first := owners.setdefault(epoch.number, epoch)).nonce != epoch.nonce:
                yield Violation("epoch of two", f"{name}: {epoch.number}", f"{first.nonce} and {epoch.nonce}")

    def _stood_still(self, store: str, at_s: float) -> bool:
        """Return whether the observer could not see a lock go, because its store was away until then."""
        return any(f.target == store and f.from_s <= at_s <= f.to_s + 1.0 for f in self._h.faults)

    def refusals(self, name: str) -> Iterator[Violation]:
        """A call fails only for a fault of the namespace's own store, of the master that was called, of the way between
        them, or while the namespace moves."""
        for call in self._h.namespaces[name].calls:
            if call.kind in CALLED and _has_failed(call) and not self._is_explained(name, call):
                what = f"{call.status} {call.code}".strip() if call.status else "no answer"
                yield Violation(
                    "refused for another's fault",
                    f"{name}: {call.job_id or call.kind}",
                    f"{what} of {self._master_of(call)} at {call.invoked_s:.3f} after "
                    f"{call.returned_s - call.invoked_s:.3f} s",
                )

    def _is_explained(self, name: str, call: Call) -> bool:
        master = self._master_of(call)
        # Any master may have led the namespace, which is not ready until the next one leads.
        masters = self._absences if call.kind == "ready" else {master: self._absences.get(master, [])}
        spans = [span for of in masters.values() for span in of]
        spans += [
            (fault.from_s, self._over_s(fault, master) + BACK_S)
            for fault in self._h.faults
            if self._may_refuse(fault, name, None if call.kind == "ready" else master)
        ]
        if call.returned_s - call.invoked_s > ANSWER_S:
            spans += [(one.from_s, one.to_s) for one in self._h.starved if one.master in (master, HARNESS)]
        return any(a - READING_S <= call.returned_s and call.invoked_s <= b for a, b in spans)

    def _over_s(self, fault: Fault, master: str) -> float:
        """Return when this master no longer suffers from a fault. It learns from the registry that a move is over."""
        over_s = fault.to_s
        if fault.kind == MOVE:
            ways = (self._h.control, f"{master}>{self._h.control}")
            for from_s, to_s in sorted((f.from_s, f.to_s) for f in self._h.faults if f.target in ways):
                if from_s - BACK_S <= over_s < to_s:
                    over_s = to_s
        return over_s

    def _may_refuse(self, fault: Fault, name: str, master: str | None) -> bool:
        """Return whether the fault keeps this master, or any, from its work for the namespace."""
        if fault.kind == MOVE:
            return fault.target == name
        source, _, sink = fault.target.rpartition(">")
        is_on_its_way = not source or master in (None, source)
        return sink.startswith("store") and is_on_its_way and self._concerns(fault, sink, name)

    def _master_of(self, call: Call) -> str:
        return self._h.masters.get(call.url.partition("/ns/")[0], call.url)

    # --- figures

    def figures(self, reports: dict[str, Report], violations: list[Violation]) -> dict[str, Any]:
        """Return sums over all namespaces, and each one's main numbers."""
        each = [report.figures for report in reports.values()]
        failed = Counter(
            f"{call.status} {call.code}".strip()
            for history in self._h.namespaces.values()
            for call in history.calls
            if call.kind in CALLED and _has_failed(call)
        )
        names = Counter(violation.name for violation in violations)
        faults = Counter(f"{f.kind} {_kind_of(f.target)}" for f in self._h.faults if f.bites)
        return {
            "seed": self._h.seed,
            "load_s": max((one["load_s"] for one in each), default=0),
            "namespaces": len(each),
            **{key: sum(one[key] for one in each) for key in _SUMS},
            "states": dict(sum((Counter(one["states"]) for one in each), Counter[str]())),
            "pushes": dict(sum((Counter(one["pushes"]) for one in each), Counter[str]())),
            "excused": dict(sum((Counter(one["excused"]) for one in each), Counter[str]())),
            "epochs": sum(one["epochs"] for one in each),
            "ready_asked": sum(c.kind == "ready" for h in self._h.namespaces.values() for c in h.calls),
            "failed_calls": dict(failed.most_common()),
            "faults_planned": len(self._h.faults),
            "faults_bitten": sum(faults.values()),
            "faults_by_kind": dict(sorted(faults.items())),
            "moved": len(self._h.places) - len(each),
            "longest_dispatch_gap_s": max((one["longest_dispatch_gap_s"] for one in each), default=0.0),
            "longest_silence_s": round(max((s.to_s - s.from_s for s in self._h.silences), default=0.0), 3),
            "starved_s": dict(self._starved()),
            "violations": dict(names),
        }

    def _starved(self) -> Counter[str]:
        found = Counter[str]()
        for one in self._h.starved:
            found[one.master] += round(one.to_s - one.from_s)
        return found


_SUMS: Final = (
    "jobs_accepted", "jobs_stored", "starts", "lost", "unexpected", "settled_twice", "starts_beyond_the_first",
    "duplicate_starts", "ran_twice_at_once", "stale_obeyed", "losses_recorded",
)  # fmt: skip


def _has_failed(call: Call) -> bool:
    return call.outcome != "done" and (call.status in (0, 429) or call.status >= 500)


def _kind_of(target: str) -> str:
    """Return the kind of a target without the numbers of masters and workers, and without names of namespaces."""
    if target.startswith("n"):
        return "namespace"
    return ">".join(part.rstrip("0123456789").rstrip("-") for part in target.split(">"))
