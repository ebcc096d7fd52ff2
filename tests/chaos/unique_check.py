"""Checks unique-push promises: one job holds a key at a time, and the key is free once that job releases it."""

import functools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
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
from tests.chaos.history import Call, History, Line
from tests.chaos.unique_load import key_of, rule_of

# The modes that can produce each answer. A debounce replaces.
ALLOWED: Final = {"refused": {"reject"}, "duplicate": {"existing", "replace"}, "replaced": {"replace"}}
Span = tuple[float, float]


def check_unique(history: History, runs_of: RunsOf) -> Iterator[Violation]:
    pushes: dict[str, list[Call]] = defaultdict(list)
    others: dict[str, list[Call]] = defaultdict(list)
    for call in history.calls:
        if call.kind != "push":
            others[call.job_id].append(call)
        elif call.job is not None and rule_of(call.job):
            pushes[key_of(call.job)].append(call)
    offers: dict[str, list[Line]] = defaultdict(list)
    for line in history.lines:
        if line.what == "offer":
            offers[line.job_id].append(line)
    for key, calls in pushes.items():
        yield from _Key(history, runs_of, others, offers, key, calls).violations()


class _Key:
    """All events of one key. `calls` are its pushes, `others` the further calls by job, and `offers` what workers
    answered to offers of each job."""

    def __init__(
        self,
        history: History,
        runs_of: RunsOf,
        others: dict[str, list[Call]],
        offers: dict[str, list[Line]],
        key: str,
        calls: list[Call],
    ) -> None:
        self._h = history
        self._runs_of = runs_of
        self._others = others
        self._offers = offers
        self._key = key
        self._calls = calls
        self._of: dict[str, list[Call]] = defaultdict(list)
        for call in calls:
            self._of[call.job_id].append(call)
        first = calls[0].job
        assert first is not None
        rule = rule_of(first)
        assert rule is not None
        self._scope = "until_start" if "wait_s" in rule else str(rule["scope"])
        self._ttl_s = float(rule.get("ttl_s") or 0.0)
        self._wait_s = float(rule.get("wait_s") or first.get("delay") or 0.0)
        self._max_s = float(rule.get("max_s") or 0.0)

    def violations(self) -> Iterator[Violation]:
        spans = {job_id: self._held(job_id) for job_id in self._of if job_id in self._h.jobs}
        yield from self._holders(spans)
        if self._scope == "until_start":
            yield from self._came_back(list(spans))
        for call in self._calls:
            if call.verdict:
                yield from self._verdict(call)
        for job_id in spans:
            yield from self._content(job_id)

    # --- who held it for certain

    def _created(self, job_id: str) -> Span:
        """Return bounds for the time when the job was created."""
        calls = self._of[job_id]
        known = [c.returned_s for c in calls if c.outcome == "done" and not c.verdict]
        known += [run.start_s for run in self._runs_of.get(job_id, ())]
        return min(c.invoked_s for c in calls), min(known, default=float("inf"))

    def _unfinished_until(self, job_id: str) -> float:
        """Return the time until which the job was certainly unfinished: its end was written later."""
        job, runs = self._h.jobs[job_id], self._runs_of.get(job_id, ())
        last: Run | None = next((run for run in runs if run.token == job.token), None)
        until_s = self._created(job_id)[1]
        if last is not None:
            # An attempt ended by masters may have been over while its handler still ran.
            is_own_end = job.state in ("succeeded", "discarded") or job.cause == "error"
            until_s = max(until_s, last.end_s if is_own_end else last.start_s)
        return min([until_s, *(c.invoked_s for c in self._cancels(job_id))])

    def _cancels(self, job_id: str) -> list[Call]:
        """Return the calls that may have canceled it."""
        return [
            c
            for c in self._others[job_id]
            if c.kind == "cancel" and (c.outcome != "refused" or may_be_doubled(self._h, c))
        ]

    def _held(self, job_id: str) -> list[Span]:
        """Return the times in which it certainly held the key."""
        from_s, by_s = self._created(job_id)
        if self._scope == "until_start":
            spans = [self._waited(call, from_s) for call in self._replacements(job_id)]
            own = min(self._of[job_id], key=lambda call: call.invoked_s)
            if by_s < float("inf"):
                spans.append((by_s, self._waited(own, from_s)[1]))
            canceled_s = min((c.invoked_s for c in self._cancels(job_id)), default=float("inf"))
            spans = [(a, min(b, canceled_s)) for a, b in spans]
        else:
            until_s = self._unfinished_until(job_id)
            end_s = from_s + self._ttl_s - READING_S
            if self._scope == "window" and not clock_was_stepped(self._h, from_s, end_s):
                until_s = max(until_s, end_s)
            spans = [(by_s, until_s)]
        return [span for span in spans if span[1] > span[0]]

    def _waited(self, call: Call, created_s: float) -> Span:
        """Return the time after a push in which its job cannot have started."""
        end_s = call.invoked_s + self._wait_s
        if self._max_s:
            end_s = min(end_s, created_s + self._max_s)
        if clock_was_stepped(self._h, created_s, end_s):
            return call.returned_s, call.returned_s
        return call.returned_s, end_s - READING_S

    def _replacements(self, job_id: str) -> list[Call]:
        return [c for c in self._calls if c.verdict == "replaced" and c.answered_id == job_id]

    def _holders(self, spans: dict[str, list[Span]]) -> Iterator[Violation]:
        for (a, held_a), (b, held_b) in combinations(spans.items(), 2):
            both = [(max(x[0], y[0]), min(x[1], y[1])) for x in held_a for y in held_b]
            if shared := next((span for span in both if span[1] - span[0] > READING_S), None):
                yield Violation("key held twice", self._key, f"by {a} and {b} at {shared[0]:.3f}")
        made = [c for c in self._calls if c.outcome == "done" and c.status == 201]
        for call in made:
            for job_id, held in spans.items():
                if job_id != call.job_id and any(
                    begin_s < call.invoked_s and call.returned_s < end_s for begin_s, end_s in held
                ):
                    yield Violation(
                        "key held twice", self._key, f"{call.job_id} was made while {job_id} held it"
                    )

    # --- offers in vain

    def _came_back(self, job_ids: Sequence[str]) -> Iterator[Violation]:
        """Check that a job whose key others took during its offer starts from that offer or never, unless the last of
        them did not do its work: if it waits again, two jobs wait with one key."""
        made = [c for c in self._calls if c.outcome == "done" and c.status == 201]
        for job_id in job_ids:
            if any(call.kind == "retry" for call in self._others[job_id]):
                continue
            offers = sorted(self._offers[job_id], key=lambda line: line.at_s)
            taken = next((line for line in offers if line.detail == "accepted"), None)
            if taken is None or self._may_have_begun_before(job_id, taken.attempt):
                continue
            first = taken.at_s
            refused_s = max(
                (o.at_s for o in offers if o.at_s < first and o.detail != "accepted"), default=0.0
            )
            # No offer lasts longer than half of a lease.
            latest_s = max(refused_s, first - self._h.terms.lease_s / 2)
            created_s = self._created(job_id)[1]
            takers = [c for c in made if created_s < c.invoked_s and c.returned_s < latest_s - READING_S]
            begun_s = max((c.invoked_s for c in takers), default=0.0)
            last = [c for c in takers if c.returned_s >= begun_s]
            if last and not any(self._may_have_failed(call, first) for call in last):
                detail = f"{job_id} was offered again although {last[0].job_id} had been made"
                yield Violation("key held twice", self._key, detail)

    def _may_have_begun_before(self, job_id: str, attempt: int) -> bool:
        """Return whether an earlier attempt ended with its worker: nobody knows whether the job had begun there."""
        return any(
            entry.attempt < attempt and entry.outcome in ("lost", "handed_back")
            for entry in self._h.jobs[job_id].attempts
        )

    def _may_have_failed(self, call: Call, until_s: float) -> bool:
        """Return whether the job of this push may have ended without its work done, which gives a key back."""
        job = self._h.jobs.get(call.job_id)
        return (
            job is None
            or job.state in ("failed", "canceled", "skipped")
            or self._is_vague(call)
            or clock_was_stepped(self._h, call.invoked_s, until_s)
        )

    # --- what pushers were told

    def _verdict(self, call: Call) -> Iterator[Violation]:
        assert call.job is not None
        rule: Any = call.job.get("unique") or {"on_conflict": "replace"}
        if rule["on_conflict"] not in ALLOWED[call.verdict]:
            yield Violation("wrong verdict", call.job_id, f"{call.verdict} with {rule['on_conflict']}")
        holder = call.answered_id
        if holder not in self._of or holder not in self._h.jobs or self._created(holder)[0] > call.returned_s:
            yield Violation(
                "wrong holder", call.job_id, f"{call.verdict} for {holder}, which has no such key"
            )
            return
        if self._let_go(holder, call) < call.invoked_s:
            yield Violation("key not freed", self._key, f"{call.job_id} was {call.verdict} for {holder}")
        starts = [run.start_s for run in self._runs_of.get(holder, ())]
        if call.verdict != "replaced" or not starts:
            return
        if starts[0] < call.invoked_s - READING_S:
            yield Violation("started job replaced", holder, f"by {call.job_id}")
        begin_s, end_s = self._waited(call, self._created(holder)[0])
        if begin_s < starts[0] < end_s:
            yield Violation("started too early", holder, f"{end_s - starts[0]:.3f} s before its new time")

    def _let_go(self, job_id: str, call: Call) -> float:
        """Return by when the job had certainly released the key for `call`, or infinity if unknown."""
        over = [self._h.drained_s] if self._h.drained_s and self._h.jobs[job_id].state in FINISHED else []
        over += [c.returned_s for c in self._others[job_id] if c.outcome == "done" and c.state in FINISHED]
        if self._scope == "until_start":
            over += [run.start_s + READING_S for run in self._runs_of.get(job_id, ())]
        over_s = min(over, default=float("inf"))
        if self._scope != "window":
            return over_s
        if clock_was_stepped(self._h, self._created(job_id)[0], call.returned_s):
            return float("inf")
        return max(over_s, self._created(job_id)[1] + self._ttl_s + READING_S)

    # --- what the job became

    def _content(self, job_id: str) -> Iterator[Violation]:
        """Check its argument: it must come from the newest push that was told to have replaced it."""
        stored = self._h.jobs[job_id].argument
        sources = [*self._of[job_id], *self._replacements(job_id), *self._perhaps]
        fitting = [call for call in sources if call.job and call.job["argument"] == stored]
        if not fitting:
            yield Violation("changed", job_id, f"{stored!r} is of no push of {self._key}")
            return
        newest = max(self._replacements(job_id), key=lambda call: call.invoked_s, default=None)
        if newest is None or any(call.job_id == newest.job_id for call in fitting):
            return
        if all(
            call.returned_s < newest.invoked_s and not self._is_vague(call) for call in self._all_of(fitting)
        ):
            yield Violation("replacement lost", job_id, f"{newest.job_id} replaced it, and it is {stored!r}")

    def _all_of(self, calls: Sequence[Call]) -> list[Call]:
        ids = {call.job_id for call in calls}
        return [call for call in self._calls if call.job_id in ids]

    @functools.cached_property
    def _perhaps(self) -> list[Call]:
        """Return the pushes that may have replaced any job of the key unseen."""
        return [call for call in self._calls if self._is_vague(call)]

    def _is_vague(self, call: Call) -> bool:
        return call.outcome == "unknown" or may_be_doubled(self._h, call)
