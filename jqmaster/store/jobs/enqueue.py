"""Enqueues jobs. Each job is accepted once, under the ID that the application chose."""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any, Final

from jqmaster.domain.constraints.constraint_set import MAX_KNOWN_NAMES, NO_CONSTRAINTS, ConstraintSet
from jqmaster.domain.jobs.job import JobSpec
from jqmaster.domain.jobs.predecessors import MAX_IN_PUSH
from jqmaster.domain.operations.tally import Tally
from jqmaster.errors import OutcomeUnknownError, StoreUnavailableError
from jqmaster.store import codec
from jqmaster.store.jobs.enqueue_checks import EnqueueChecks
from jqmaster.store.jobs.enqueue_outcomes import (
    Accepted,
    BacklogFull,
    Outcome,
    PushRefused,
    TooFast,
    outcome_of,
    refused_jobs,
    text_of,
)
from jqmaster.store.jobs.idempotency import IdempotencyStore
from jqmaster.store.jobs.placement import LaneTable, SoleLane, StaleConstraints, sole_lane
from jqmaster.store.link.leader_port import TravellingClaim
from jqmaster.store.link.pages import MAX_PER_CALL
from jqmaster.store.link.scripts import Arg, ScriptCall, load
from jqmaster.store.link.shard import Shard
from jqmaster.store.link.wake import JobDelayed, JobsReady

logger = logging.getLogger(__name__)

# No message is sent for jobs that become due later than this: the leader looks at the shard at least every five
# seconds, and finds them then.
SOON_MS: Final = 6000

# Maximum number of predecessors of all jobs in one call.
PREDECESSORS_PER_CALL: Final = MAX_IN_PUSH
_NOTHING: Final = codec.pack([])
# Passed as the lane table of a call whose only lane is known.
_UNUSED: Final = LaneTable()
# Read these attributes from each job of a bulk. `map` with a getter is fast, because it needs no Python frame per job.
_AFTER, _RUN_AT_MS, _DELAY_MS = map(attrgetter, ("after", "run_at_ms", "delay_ms"))


class EnqueueStore:
    """New jobs of one shard. `tally` counts accepted jobs. `checks` finds refusals before a write; `idempotency` finds
    the jobs behind idempotency keys. All raise what `StoreClient.run` raises."""

    def __init__(self, shard: Shard, tally: Tally) -> None:
        self._shard = shard
        self._tally = tally
        self._client = shard.client
        self._keys = shard.keys
        self.checks = EnqueueChecks(shard)
        self.idempotency = IdempotencyStore(shard)
        # By queue: the lane of a job that was pushed alone. Valid for `_known_constraints` only.
        self._known_constraints = NO_CONSTRAINTS
        self._sole_lanes: dict[str, SoleLane] = {}

    async def enqueue(
        self,
        specs: Sequence[JobSpec],
        constraints: ConstraintSet = NO_CONSTRAINTS,
        *,
        is_whole: bool = False,
        replicas: int | None = None,
        most_per_s: int | None = None,
    ) -> list[Outcome]:
        """Accept jobs, each independently of the others. This takes one round trip, or two if `is_whole` is set and the
        push needs several calls. Predecessors in the same push have to come before their dependents.

        * `is_whole`: refuse all jobs (PushRefused) if the first call finds a full backlog or refuses any job.
        * `replicas`: how many replicas must have the jobs before they count as accepted (None: as many as every write
          needs).
        * `most_per_s`: how many jobs may be pushed within one second, by the store's clock (None: no limit, and the
          jobs are not counted).

        Raise StaleConstraints. Some jobs may have been accepted before it was raised; a repeat reports these as KNOWN.
        Raise StoreUnavailableError if the store was emptied or replaced, for example by FLUSHALL.
        """
        spans = [(0, 1)] if len(specs) == 1 else list(_spans(specs))
        calls = self._enqueue_calls(specs, spans, constraints, is_whole=is_whole, most_per_s=most_per_s)
        # In a whole push, the first call decides whether all jobs are accepted, so send it alone.
        first = calls[:1] if is_whole else calls
        rest = calls[len(first) :]
        claim = None if rest else self._claim_with(specs, replicas)
        replies = await self._client.run_all(first, claim=claim, replicas=replicas)
        if [word for word, _ in replies if word != "ok"]:
            _raise_refusal(replies, most_per_s)
        statuses = _outcomes(replies, specs, spans, most_per_s)
        if is_whole and (refused := refused_jobs(statuses, of_whole_push=True)):
            raise PushRefused(refused)
        self._count_pushed(specs, statuses)
        others: list[Outcome] = []
        if rest:
            claim = self._claim_with(specs, replicas)
            try:
                replies = await self._client.run_all(rest, claim=claim, replicas=replicas)
            except StoreUnavailableError as exc:
                raise OutcomeUnknownError(
                    f"the store carried out only a part; repeat with the same IDs ({exc.detail})",
                    retry_after_s=exc.retry_after_s,
                ) from exc
            _raise_refusal(replies, most_per_s, is_begun=True)
            others = _outcomes(replies, specs, spans[len(first) :], most_per_s)
        run_at_ms, delays_ms = set(map(_RUN_AT_MS, specs)), set(map(_DELAY_MS, specs))
        if claim is None and not all(delays_ms):
            self._shard.leader.wake(JobsReady())
        if run_at_ms != {None} or [ms for ms in delays_ms if 0 < (ms or 0) <= SOON_MS]:
            self._shard.leader.wake(JobDelayed())
        if others:
            self._count_pushed(specs[len(statuses) :], others)
            statuses += others
        if logger.isEnabledFor(logging.DEBUG):
            _log(specs, statuses)
        return statuses

    def _claim_with(self, specs: Sequence[JobSpec], replicas: int | None) -> TravellingClaim | None:
        """Return the leader's claims for the jobs that become ready at once. None: the leader has no such claims."""
        if replicas not in (None, self._client.quorum_replicas):
            # Do not claim in this round trip: claims wait for the usual number of replicas, and this push waits for
            # another number.
            return None
        names = {
            spec.name if spec.requires is None else spec.queue
            for spec in specs
            if spec.run_at_ms is None and not spec.delay_ms
        }
        return self._shard.leader.claim_with(JobsReady(), names) if names else None

    def _count_pushed(self, specs: Sequence[JobSpec], statuses: Sequence[Outcome]) -> None:
        accepted = [
            spec.name for spec, status in zip(specs, statuses, strict=False) if status is Accepted.NEW
        ]
        for name, count in Counter(accepted).items():
            self._tally.of(name).pushed += count

    def _enqueue_calls(
        self,
        specs: Sequence[JobSpec],
        spans: Sequence[tuple[int, int]],
        constraints: ConstraintSet,
        *,
        is_whole: bool,
        most_per_s: int | None,
    ) -> list[ScriptCall]:
        k, now = self._keys, self._shard.now
        wake_channel = "" if self._shard.leader.is_here else k.wake_channel
        calls = []
        own = (
            frozenset(spec.id for spec in specs) if is_whole and any(map(_AFTER, specs)) else frozenset[str]()
        )
        for start, end in spans:
            chunk = specs[start:end]
            sole = self._sole_lane(constraints, specs[0]) if len(specs) == 1 else None
            table = _UNUSED if sole else LaneTable()
            jobs: list[Arg] = []
            uniques = []
            waiting = []
            batches: dict[str, int] = {}
            numbers: list[int] = []
            for number, spec in enumerate(chunk, 1):
                if spec.unique is not None:
                    uniques.append((number, spec.unique))
                if spec.batch is not None:
                    numbers += [0] * (number - 1 - len(numbers))
                    numbers.append(batches.setdefault(spec.batch, len(batches) + 1))
                if spec.after is not None:
                    waiting.append((number, spec.after))
                lane, gates, weights = sole.placement if sole else table.place(constraints, spec)
                terms, digest, rest = codec.encode_new(spec, gates, weights)
                jobs += (spec.id, terms + lane.to_bytes(2, "big"), digest, rest)
            following = Counter[int]()
            if is_whole and start == 0 and not sole and constraints.bounds_backlogs:
                following.update(table.place(constraints, spec)[0] for spec in specs[end:])
            push = "each" if not is_whole else "rest" if start else "whole"
            # In a whole push, the first call also counts the jobs of the later calls.
            later = len(specs) - end if is_whole else 0
            head: tuple[Arg, ...] = (
                "" if now is None else now(), k.tag, wake_channel, constraints.edition, push,
                codec.pack(list(following.items())) if following else _NOTHING,
                sole.packed if sole else table.packed(), self._shard.mark,
                codec.unique_requests(uniques) if uniques else "",
                codec.pack([list(batches), numbers]) if batches else "",
                codec.predecessor_requests(waiting, own) if waiting else "",
                "" if most_per_s is None or push == "rest" else codec.pack((most_per_s, later)),
            )  # fmt: skip
            calls.append(ScriptCall(load("enqueue"), (k.scheduled, k.expiring, k.rules), (*head, *jobs)))
        return calls

    def _sole_lane(self, constraints: ConstraintSet, spec: JobSpec) -> SoleLane | None:
        """Return the lane of a job that is pushed alone, if its queue alone determines it."""
        if self._known_constraints is not constraints:
            self._known_constraints, self._sole_lanes = constraints, {}
        queue = spec.name if spec.requires is None else spec.queue
        found = self._sole_lanes.get(queue)
        if found is None and (found := sole_lane(constraints, queue)):
            if len(self._sole_lanes) >= MAX_KNOWN_NAMES:
                self._sole_lanes.clear()
            self._sole_lanes[queue] = found
        return found


def _raise_refusal(
    replies: Sequence[tuple[str, list[Any]]], most_per_s: int | None, *, is_begun: bool = False
) -> None:
    words = {word for word, _ in replies}
    if "other_data" in words:
        raise StoreUnavailableError(
            "the store's data are gone or were replaced; nothing was enqueued",
            code="store_unfit",
            retry_after_s=5.0,
        )
    if "stale_constraints" in words:
        raise StaleConstraints(is_begun=is_begun or len(words) > 1)
    word, data = replies[0]
    if word == "full":
        raise PushRefused({0: BacklogFull(data[0].decode())})
    if word == "too_fast":
        raise PushRefused({0: TooFast(most_per_s or 0)})


def _outcomes(
    replies: Sequence[tuple[str, list[Any]]],
    specs: Sequence[JobSpec],
    spans: Sequence[tuple[int, int]],
    most_per_s: int | None,
) -> list[Outcome]:
    """Return the outcomes in the replies, each for the jobs of one span."""
    outcomes: list[Outcome] = []
    for (_, (now_ms, told)), (start, end) in zip(replies, spans, strict=False):
        at = len(outcomes)
        outcomes += [Accepted.NEW] * (end - start)
        for n in range(0, len(told), 3):
            index, word, about = told[n : n + 3]
            outcomes[at + index] = outcome_of(
                word.decode(), about.decode(), specs[start + index], now_ms, most_per_s=most_per_s
            )
    return outcomes


def _log(specs: Sequence[JobSpec], outcomes: Sequence[Outcome]) -> None:
    for spec, outcome in zip(specs, outcomes, strict=True):
        logger.debug("job %s (%s): %s", spec.id, spec.name, text_of(outcome))


def _spans(specs: Sequence[JobSpec]) -> Iterator[tuple[int, int]]:
    """Yield the start and end positions of the jobs of each call."""
    if not any(map(_AFTER, specs)):
        for start in range(0, len(specs), MAX_PER_CALL):
            yield start, min(start + MAX_PER_CALL, len(specs))
        return
    start = named = 0
    for n, spec in enumerate(specs):
        more = len(spec.after.jobs) if spec.after else 0
        if n - start == MAX_PER_CALL or (named and named + more > PREDECESSORS_PER_CALL):
            yield start, n
            start, named = n, 0
        named += more
    if start < len(specs):
        yield start, len(specs)
