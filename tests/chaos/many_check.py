"""The checker of batches, chains and flows. It knows of each plan which jobs fail, and so how every other one has to
end, and it uses none of the product's code.

A job is `ok`, `flaky` (its first attempt fails) or `failing` (each does). Its handler writes a line when it begins and
when it ends; the sum of its inputs tells that it was given the results of its predecessors.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

Kind = Literal["ok", "flaky", "failing"]
When = Literal["succeeded", "finished"]
CALLBACKS: Final = ("on_success", "on_complete", "on_failure")
OVER: Final = frozenset({"succeeded", "failed", "skipped", "canceled", "discarded"})


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """`value` is added to its predecessors' results."""

    id: str
    kind: Kind = "ok"
    value: int = 1
    after: tuple[str, ...] = ()
    when: When = "succeeded"


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """`parent` is the batch of which it is a member."""

    id: str
    jobs: tuple[PlannedJob, ...]
    parent: str | None = None


@dataclass(frozen=True, slots=True)
class SeenJob:
    state: str
    result: int | None = None
    skipped_by: str | None = None


@dataclass(frozen=True, slots=True)
class SeenBatch:
    """`counts` come from the batch, `members` are job states from the list of members, and `callbacks` are those
    enqueued."""

    state: str
    counts: Mapping[str, int]
    members: Mapping[str, str]
    callbacks: frozenset[str]


@dataclass(frozen=True, slots=True)
class Line:
    """A handler began or ended the job. Lines are in time order."""

    what: Literal["begin", "end"]
    job_id: str


@dataclass(slots=True)
class History:
    """`callbacks` holds the batch, kind and state of each existing callback job."""

    batches: list[PlannedBatch] = field(default_factory=list)
    jobs: list[PlannedJob] = field(default_factory=list)
    seen_batches: dict[str, SeenBatch] = field(default_factory=dict)
    seen_jobs: dict[str, SeenJob] = field(default_factory=dict)
    callbacks: list[tuple[str, str, str]] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)

    def planned(self) -> dict[str, PlannedJob]:
        return {job.id: job for job in (*self.jobs, *(job for batch in self.batches for job in batch.jobs))}


def expected(jobs: Mapping[str, PlannedJob]) -> dict[str, tuple[str, int | None]]:
    """Return each job's required final state and result."""
    found: dict[str, tuple[str, int | None]] = {}
    # Predecessors come before their dependents.
    for job in jobs.values():
        before = [found[one] for one in job.after]
        if job.when == "succeeded" and any(state != "succeeded" for state, _ in before):
            found[job.id] = ("skipped", None)
        elif job.kind == "failing":
            found[job.id] = ("failed", None)
        else:
            found[job.id] = ("succeeded", job.value + sum(result or 0 for _, result in before))
    return found


def check(history: History) -> list[str]:
    """Return the breaches, or nothing if every promise was kept."""
    planned = history.planned()
    ends = expected(planned)
    return [
        *_jobs(history, ends),
        *_order(history, planned, ends),
        *_batches(history, ends),
        *_callbacks(history, ends),
    ]


def _jobs(history: History, ends: Mapping[str, tuple[str, int | None]]) -> list[str]:
    broken = []
    for job_id, (state, result) in ends.items():
        seen = history.seen_jobs.get(job_id)
        if seen is None:
            broken.append(f"{job_id}: there is no such job")
        elif seen.state not in OVER:
            broken.append(f"{job_id}: stuck, {seen.state}")
        elif seen.state != state:
            broken.append(f"{job_id}: {seen.state}, and was to be {state}")
        elif seen.result != result:
            broken.append(f"{job_id}: its result is {seen.result}, and was to be {result}")
        elif state == "skipped" and ends.get(seen.skipped_by or "", ("", None))[0] != "failed":
            broken.append(f"{job_id}: skipped because of {seen.skipped_by}, which did not fail")
    return broken


def _order(
    history: History, planned: Mapping[str, PlannedJob], ends: Mapping[str, tuple[str, int | None]]
) -> list[str]:
    broken = []
    begun: set[str] = set()
    ended: Counter[str] = Counter()
    for line in history.lines:
        job = planned.get(line.job_id)
        if job is None:
            continue  # a callback
        if line.what == "end":
            ended[job.id] += 1
            continue
        begun.add(job.id)
        broken += [
            f"{job.id}: began before {before} had ended"
            for before in job.after
            if ends[before][0] == "succeeded" and not ended[before]
        ]
    for job_id, (state, _) in ends.items():
        if state == "skipped" and job_id in begun:
            broken.append(f"{job_id}: ran, and was to be skipped")
        if state == "succeeded" and not ended[job_id]:
            broken.append(f"{job_id}: succeeded, and no handler ended it")
    return broken


def _batches(history: History, ends: Mapping[str, tuple[str, int | None]]) -> list[str]:
    broken = []
    for batch in history.batches:
        seen = history.seen_batches.get(batch.id)
        if seen is None:
            broken.append(f"batch {batch.id}: there is no such batch")
            continue
        if seen.state != "complete":
            broken.append(f"batch {batch.id}: stuck, {seen.state}")
        if set(seen.members) != {job.id for job in batch.jobs}:
            broken.append(f"batch {batch.id}: its members are not those that were pushed")
        states = Counter(seen.members.values())
        if seen.counts.get("total") != len(batch.jobs):
            broken.append(f"batch {batch.id}: total is {seen.counts.get('total')} of {len(batch.jobs)} jobs")
        broken += [
            f"batch {batch.id}: counts {seen.counts.get(state, 0)} {state}, and has {states[state]}"
            for state in sorted(OVER | {"unfinished"})
            if seen.counts.get(state, 0) != states[state]
        ]
        if states != Counter(ends[job.id][0] for job in batch.jobs):
            broken.append(f"batch {batch.id}: its jobs are {dict(states)}")
    return broken


def _callbacks(history: History, ends: Mapping[str, tuple[str, int | None]]) -> list[str]:
    broken = []
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for batch_id, callback, state in history.callbacks:
        found[batch_id][callback] += 1
        if state != "succeeded":
            broken.append(f"batch {batch_id}: its {callback} is {state}")
    for batch in history.batches:
        due = _due(batch, history, ends)
        for callback in CALLBACKS:
            count = found[batch.id][callback]
            if count != (callback in due):
                broken.append(f"batch {batch.id}: {callback} was enqueued {count} times")
        seen = history.seen_batches.get(batch.id)
        if seen is not None and seen.callbacks != due:
            broken.append(f"batch {batch.id}: says that it enqueued {sorted(seen.callbacks)}")
    return broken


def _due(batch: PlannedBatch, history: History, ends: Mapping[str, tuple[str, int | None]]) -> frozenset[str]:
    """Return the required callbacks."""
    inside = [one for one in history.batches if one.parent == batch.id]
    fails = any(ends[job.id][0] == "failed" for job in batch.jobs)
    is_good = all(ends[job.id][0] == "succeeded" for job in batch.jobs)
    for one in inside:
        theirs = _due(one, history, ends)
        fails = fails or "on_success" not in theirs
        is_good = is_good and "on_success" in theirs
    due = {"on_complete"}
    if is_good:
        due.add("on_success")
    if fails:
        due.add("on_failure")
    return frozenset(due)
