"""The ledger: it compares the outcome of each order according to the jobs with the book of the other systems."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

# For each job of an order, the step in the book. Approvals are not in a book.
STEPS: Final = {"order.take": "order", "order.stock": "stock", "order.ship": "shipping"}
FINAL: Final = frozenset({"succeeded", "discarded", "failed", "canceled", "skipped"})


@dataclass
class Ledger:
    """The comparison.

    * `rows`: by step and state, how many orders ended in this state.
    * `faults`: texts about the differences. Empty if the ledger balances.
    """

    rows: Counter[tuple[str, str]] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Return the ledger as a table."""
        states = sorted({state for _, state in self.rows})
        lines = [f"{'':<16}" + "".join(f"{state:>32}" for state in states)]
        names = dict.fromkeys(name for name, _ in self.rows)
        lines += [
            f"{name:<16}" + "".join(f"{self.rows[name, state]:>32,}" for state in states) for name in names
        ]
        return "\n".join(lines)


def compare(jobs: Mapping[tuple[str, int], Mapping[str, Any]], book: Iterable[Mapping[str, Any]]) -> Ledger:
    """Return the ledger.

    * `jobs`: by name and order, the state of each enqueued job at a master: `id`, `state`, and `code` of the last
      failure.
    * `book`: the entries of the other systems.
    """
    ledger = Ledger()
    entries: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for entry in book:
        entries.setdefault((entry["step"], entry["order"]), []).append(entry)
    for (name, order), job in jobs.items():
        state, code = job["state"], job.get("code")
        ledger.rows[name, f"failed {code}" if state == "failed" else state] += 1
        if state not in FINAL:
            ledger.faults.append(f"{name} of order {order} is not over: {state}")
        if (step := STEPS.get(name)) is None:
            continue
        found = entries.pop((step, order), [])
        if len(found) > 1:
            ledger.faults.append(f"{step} has order {order} {len(found)} times")
        for entry in found:
            if entry["key"] != job["id"]:
                ledger.faults.append(f"{step} has order {order} from a job that nobody enqueued")
        outcomes = {entry["outcome"] for entry in found}
        if state == "succeeded" and outcomes != {"done"}:
            ledger.faults.append(f"{name} of order {order} succeeded, and is {_shown(outcomes)} in the book")
        if state == "failed" and outcomes != {code}:
            ledger.faults.append(
                f"{name} of order {order} failed with {code}, and is {_shown(outcomes)} in the book"
            )
        if state == "skipped" and found:
            ledger.faults.append(
                f"{name} of order {order} was skipped, and is {_shown(outcomes)} in the book"
            )
    for (step, order), found in entries.items():
        ledger.faults.append(f"{step} has order {order} {len(found)} times, which nobody enqueued")
    return ledger


def _shown(outcomes: Iterable[str]) -> str:
    return " and ".join(sorted(outcomes)) or "missing"
