"""Checks definition promises: each accepted event acts once, and each due instant has one record."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from tests.chaos.event_load import COLLECTED, COLLECTED_MAX, EACH, EVEN, EVENT_DEFINITIONS, LAST, starts_even
from tests.chaos.evidence import Violation, may_be_doubled
from tests.chaos.history import Call, History
from tests.chaos.instants import Verdict, judge


def started_jobs(history: History) -> set[str]:
    """Return the stored job IDs that definitions started, as far as run records and events explain them."""
    found = {
        str(run["job_id"]) for one in history.definitions for run in one.runs if run["outcome"] == "fired"
    }
    return found | {job.id for job in history.jobs.values() if job.name in EVENT_DEFINITIONS}


def replaceable_jobs(history: History) -> set[str]:
    """Return the IDs of jobs that a later instant of their definition may cancel."""
    return {
        str(run["job_id"])
        for one in history.definitions
        if one.overlap == "replace"
        for run in one.runs
        if run["outcome"] == "fired"
    }


def check_definitions(history: History) -> Iterator[Violation]:
    for one in history.definitions:
        verdict = Verdict()
        judge(one.definition(), one.runs, one.until(), verdict, latest=one.latest())
        for breach in verdict.breaches:
            yield Violation("instant", one.name, f"{breach}")
        for run in one.runs:
            if run["outcome"] == "fired" and run["job_id"] not in history.jobs:
                yield Violation(
                    "instant without its job", one.name, f"{run['due_at']}: {run['job_id']} is gone"
                )


def check_events(history: History) -> Iterator[Violation]:
    yield from _Events(history).violations()


class _Events:
    def __init__(self, history: History) -> None:
        self._h = history
        self._calls: dict[int, list[Call]] = defaultdict(list)
        for call in history.calls:
            if call.kind == "event" and call.job is not None:
                self._calls[int(call.job["payload"]["n"])].append(call)
        self._is_accepted = {n for n, calls in self._calls.items() if any(c.outcome == "done" for c in calls)}
        self._is_refused = {
            n
            for n, calls in self._calls.items()
            if all(c.outcome == "refused" and not may_be_doubled(history, c) for c in calls)
        }
        # By job name, how often each event is in a job's argument.
        self._acted: dict[str, Counter[int]] = {name: Counter() for name in EVENT_DEFINITIONS}
        self._lists: list[tuple[str, list[Any]]] = []
        for job in history.jobs.values():
            if job.name in EVENT_DEFINITIONS:
                items = job.argument if job.name == COLLECTED else [job.argument]
                self._lists.append((job.id, items))
                self._acted[job.name].update(int(item["n"]) for item in items)

    def violations(self) -> Iterator[Violation]:
        for job_id, items in self._lists:
            if len(items) > COLLECTED_MAX:
                yield Violation("collected too many", job_id, f"{len(items)} events of {COLLECTED_MAX}")
        for name, acted in self._acted.items():
            for n, times in acted.items():
                yield from self._one(name, n, times)
        for n in self._is_accepted:
            wanted = [EACH, COLLECTED] + ([EVEN] if starts_even(self._event(n)) else [])
            for name in wanted:
                if not self._acted[name][n]:
                    yield Violation("event lost", str(n), f"{name} did not act on it")
            yield from self._answers(n)
        yield from self._last_ones()

    def _one(self, name: str, n: int, times: int) -> Iterator[Violation]:
        if n not in self._calls:
            yield Violation("event of nobody", str(n), f"{name} acted on it")
        elif n in self._is_refused:
            yield Violation("refused event acted", str(n), name)
        elif name == EVEN and not starts_even(self._event(n)):
            yield Violation("event without a match acted", str(n), name)
        if times > 1:
            yield Violation("event acted twice", str(n), f"{times} times in jobs of {name}")

    def _event(self, n: int) -> dict[str, Any]:
        event = self._calls[n][0].job
        assert event is not None
        return dict(event)

    def _answers(self, n: int) -> Iterator[Violation]:
        done = [c for c in self._calls[n] if c.outcome == "done"]
        if len({c.answered_id for c in done}) > 1 or sum(c.verdict != "duplicate" for c in done) > 1:
            yield Violation("event taken twice", str(n), f"{sorted({c.answered_id for c in done})}")

    def _last_ones(self) -> Iterator[Violation]:
        """If it is known which event of a group was last, that event is the argument of a job."""
        groups: dict[int, list[int]] = defaultdict(list)
        for n in self._calls.keys() - self._is_refused:
            groups[self._event(n)["payload"]["group"]].append(n)
        for numbers in groups.values():
            last = max(numbers, key=lambda n: min(c.invoked_s for c in self._calls[n]))
            began_s = min(c.invoked_s for c in self._calls[last])
            before = [c for n in numbers if n != last for c in self._calls[n]]
            if (
                last in self._is_accepted
                and all(
                    c.returned_s < began_s and c.outcome != "unknown" and not may_be_doubled(self._h, c)
                    for c in before
                )
                and not self._acted[LAST][last]
            ):
                yield Violation("event lost", str(last), f"it was the last of its group, and {LAST} has none")
