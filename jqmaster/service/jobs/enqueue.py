"""Enqueues jobs of pushers, each once."""

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final

from jqmaster.config import Durability
from jqmaster.domain.identity.access import LOCAL, Principal
from jqmaster.domain.jobs.job import JobSpec
from jqmaster.domain.jobs.predecessors import MOST_IN_PUSH, in_order
from jqmaster.errors import (
    ConflictError,
    FieldError,
    InvalidError,
    RateLimitedError,
    after_it_was_done,
)
from jqmaster.live_value import LiveValue
from jqmaster.service.constraints.cache import ConstraintCache
from jqmaster.service.jobs.coalescing import Coalescer
from jqmaster.service.jobs.push_pace import PushPace
from jqmaster.service.jobs.reach import CallerReach
from jqmaster.service.jobs.refusals import NOTHING_ACCEPTED, refusal_of_one, refusal_of_some
from jqmaster.store.jobs.enqueue import EnqueueStore, KeyedSpec, KeysTaken
from jqmaster.store.jobs.enqueue_outcomes import (
    Accepted,
    BacklogFull,
    BatchClosed,
    Conflict,
    NotUnique,
    Outcome,
    PredecessorRefused,
    PushRefusal,
    PushRefused,
    refused_for_one_reason,
)
from jqmaster.store.jobs.placement import StaleConstraints
from jqmaster.store.link.pages import MAX_PER_CALL
from jqmaster.tracing import Tracing

IDEMPOTENCY_LIFE_MS: Final = 24 * 3600 * 1000
# This is enough for many thousands of pushes a second. Beyond it the store is the bottleneck, and waits would
# only grow.
MAX_WAITING_ENQUEUES: Final = 5_000
# Each push with an Idempotency-Key makes calls of its own to the store, and must leave connections for
# heartbeats and results.
KEYED_AT_A_TIME: Final = 8
_REUSED: Final = "it was used for another request"
# The most jobs of a cycle that one error names.
MOST_NAMED: Final = 50
# These are read for each job of a bulk; `map` with them needs no Python frame for each job.
_ID, _KEY, _AFTER, _UNIQUE = map(attrgetter, ("id", "key", "after", "unique"))
# A full backlog empties at the pace of its workers.
BACKLOG_RETRY_AFTER_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The answer to one push. `is_new`: a job was created. Otherwise the push is a repeat, or `conflict`
    tells what it did to the job that holds the uniqueness key."""

    job_id: str
    is_new: bool
    conflict: Conflict | None = None


@dataclass(frozen=True, slots=True)
class EnqueuedBulk:
    """The answer to a bulk: the ID for each of its jobs, and the conflicts by index for those whose key
    another job held."""

    ids: list[str]
    conflicts: Mapping[int, Conflict]


class EnqueueService:
    """Component. `admit(durability)`: raises while new jobs are refused; returns how many replicas must have a job
    before it is accepted (`durability`: None for the configured one). `pace`: slows pushes down. `can_notify`: webhooks
    can be signed. `reach`: decides which jobs and batches a `caller` may name. The caller None is the master itself."""

    def __init__(
        self,
        acceptance: EnqueueStore,
        constraints: ConstraintCache,
        *,
        admit: Callable[[Durability | None], int],
        reach: CallerReach,
        tracing: Tracing | None = None,
        pace: PushPace | None = None,
        can_notify: bool = True,
        admitted: LiveValue[Mapping[Durability | None, int]] | None = None,
    ) -> None:
        """`admit` returns the number of replicas that a new job of a level needs, or refuses it. `admitted`: what it
        returns at present, for the levels that it does not refuse."""
        self._acceptance = acceptance
        self._constraints = constraints
        self._admit = admit
        self._admitted = admitted or LiveValue({})
        self._reach = reach
        self._tracing = tracing
        self._pace = pace
        self._can_notify = can_notify
        # By number of replicas, so that no push waits for more replicas than requested.
        self._enqueues: dict[int, Coalescer[JobSpec, Outcome]] = {}
        self._keyed = asyncio.Semaphore(KEYED_AT_A_TIME)

    async def start(self) -> None:
        """Nothing runs before the first call."""

    async def stop(self) -> None:
        for coalescer in self._enqueues.values():
            await coalescer.stop()

    async def one(
        self,
        spec: JobSpec,
        idempotency_key: str | None = None,
        *,
        caller: Principal | None = None,
        durability: Durability | None = None,
    ) -> Enqueued:
        """Enqueue a job. `idempotency_key`: that of a header, which is valid for 24 hours and any name; the
        job may have one of its own instead. Each `caller` has idempotency keys of its own. Raise ForbiddenError
        if the caller may not push jobs of this name, InvalidError if it names what does not exist for it,
        ConflictError if the ID or key was used for another request, NotUniqueError if another job holds the
        uniqueness key and the push asked to be refused then, RateLimitedError while as many jobs wait as a
        constraint allows, StoreUnavailableError while the store is too full or cannot give `durability`,
        OutcomeUnknownError if it did not give it in time."""
        if spec.notify is not None:
            self._check_notify([spec], ())
        if caller is not None and caller.allows_name is not None:
            await self._check_reach([spec], caller, is_bulk=False)
        replicas = self._admitted.current.get(durability)
        if replicas is None:
            replicas = self._admit(durability)
        if idempotency_key is not None:
            # A key has no blanks, so different pairs of caller and key give different texts.
            owner = _key_owner(caller)
            key = f"{owner} {idempotency_key}" if owner else idempotency_key
            keyed = KeyedSpec(_digest(key), spec, IDEMPOTENCY_LIFE_MS)
        elif spec.key:
            keyed = _keyed(spec, _key_owner(caller))
        else:
            return await self._enqueue_one(spec, replicas)
        async with self._keyed:
            try:
                (bound,) = await self._acceptance.reserve_ids([keyed], replicas=replicas)
            except KeysTaken as taken:
                errors = [FieldError(("key",), _REUSED)] if spec.key else []
                raise _key_reused("the idempotency key", errors) from taken
        if bound.was_accepted:
            return Enqueued(bound.job_id, is_new=False, conflict=bound.conflict)
        answer = await self._enqueue_one(replace(spec, id=bound.job_id), replicas)
        with after_it_was_done():
            async with self._keyed:
                held = NotUnique(answer.job_id, answer.conflict) if answer.conflict else None
                await self._acceptance.mark_accepted({keyed.key_digest: held}, replicas=replicas)
        return answer

    async def bulk(
        self,
        specs: Sequence[JobSpec],
        *,
        caller: Principal | None = None,
        durability: Durability | None = None,
    ) -> EnqueuedBulk:
        """Enqueue jobs together; `caller` as for `one`. Raise ConflictError that names each index whose ID is
        taken or whose key was used for another request, NotUniqueError that names each index that is refused
        because another job, perhaps an earlier one of the bulk, holds its uniqueness key, RateLimitedError if
        a constraint has no room for all of them to wait, StoreUnavailableError as `one`. After these errors
        no job is accepted, unless another call took an ID or a key between the check and the write: then all
        other jobs are accepted, and the error says so. If the store fails, some of more than `MAX_PER_CALL`
        jobs may be accepted: OutcomeUnknownError."""
        self._check_notify(specs, ("jobs",))
        await self._check_reach(specs, caller, is_bulk=True)
        replicas = self._admit(durability)
        if any(map(_KEY, specs)):
            return await self._keyed_bulk(specs, _key_owner(caller), replicas)
        held = await self._enqueue_all(specs, replicas, range(len(specs)))
        return _bulk_answer([spec.id for spec in specs], held)

    async def check_bulk(
        self,
        specs: Sequence[JobSpec],
        *,
        caller: Principal | None = None,
        durability: Durability | None = None,
    ) -> None:
        """Raise what `bulk` would raise now, as far as a read of the store shows. Only the write itself checks
        backlog limits and idempotency keys. For jobs with such a key, it alone checks the ID, the uniqueness key and
        the expiry, too."""
        self._check_notify(specs, ("jobs",))
        await self._check_reach(specs, caller, is_bulk=True)
        self._admit(durability)
        numbers = [n for n, spec in enumerate(specs) if not spec.key]
        unkeyed = [specs[n] for n in numbers]
        await self._check_ids(unkeyed, numbers)
        await self._check_holders(unkeyed, numbers)
        _order_of(specs, range(len(specs)))
        await self._check_predecessors(specs, range(len(specs)))
        await self._check_expiry(unkeyed, numbers)

    async def _check_holders(self, specs: Sequence[JobSpec], numbers: Sequence[int]) -> None:
        if any(map(_UNIQUE, specs)) and (holders := await self._acceptance.find_held(specs)):
            held = {n: NotUnique(holder, Conflict.REFUSED) for n, holder in holders.items()}
            raise refusal_of_some(held, numbers, NOTHING_ACCEPTED)

    async def _check_predecessors(self, specs: Sequence[JobSpec], numbers: Sequence[int]) -> None:
        if any(map(_AFTER, specs)) and (refused := await self._acceptance.find_refused(specs)):
            raise refusal_of_some(refused, numbers, NOTHING_ACCEPTED)

    async def _check_expiry(self, specs: Sequence[JobSpec], numbers: Sequence[int]) -> None:
        if expired := await self._acceptance.find_expired(specs):
            raise refusal_of_some(expired, numbers, NOTHING_ACCEPTED)

    def _check_notify(self, specs: Sequence[JobSpec], loc: tuple[str | int, ...]) -> None:
        if self._can_notify:
            return
        for n, spec in enumerate(specs):
            if spec.notify is not None:
                at = (*loc, n, "notify") if loc else ("notify",)
                rule = "the master has no webhook_secrets to sign with"
                raise InvalidError(rule, code="webhooks_off", errors=[FieldError(at, rule)])

    async def _check_reach(
        self, specs: Sequence[JobSpec], caller: Principal | None, *, is_bulk: bool
    ) -> None:
        """Refuse names that the caller may not push. Refuse jobs and batches that the caller may not name with exactly
        the error for unknown ones."""
        if caller is None or caller.allows_name is None:
            return
        self._reach.check_names(caller, specs)
        hidden = await self._reach.hidden_predecessors(caller, specs)
        refused: dict[int, PushRefusal] = {
            n: PredecessorRefused(job_id, is_none=True) for n, job_id in hidden.items()
        }
        asked = {spec.batch for spec in specs if spec.batch is not None}
        if asked and not refused:
            unknown = await self._reach.hidden_batches(caller, asked)
            refused = {
                n: BatchClosed(spec.batch, is_none=True)
                for n, spec in enumerate(specs)
                if spec.batch is not None and spec.batch in unknown
            }
        if refused and is_bulk:
            raise refusal_of_some(refused, range(len(specs)), NOTHING_ACCEPTED)
        if refused:
            raise refusal_of_one(refused[0])

    async def _check_ids(self, specs: Sequence[JobSpec], numbers: Sequence[int]) -> None:
        doubled = _duplicates(specs) if len(set(map(_ID, specs))) < len(specs) else []
        if taken := doubled or await self._acceptance.find_taken(specs):
            raise _ids_taken(specs, taken, numbers, NOTHING_ACCEPTED)

    async def _keyed_bulk(self, specs: Sequence[JobSpec], owner: str, replicas: int) -> EnqueuedBulk:
        keyed = {n: _keyed(spec, owner) for n, spec in enumerate(specs) if spec.key}
        async with self._keyed:
            try:
                bound = await self._acceptance.reserve_ids(list(keyed.values()), replicas=replicas)
            except KeysTaken as taken:
                numbers = list(keyed)
                errors = [FieldError(("jobs", numbers[index], "key"), _REUSED) for index in taken.indexes]
                raise _key_reused(f"{len(errors)} of the idempotency keys", errors) from taken
        known = dict(zip(keyed, bound, strict=True))
        ids = {specs[n].id: one.job_id for n, one in known.items()}
        made = [_with_ids(spec, ids) for spec in specs]
        held = {n: NotUnique(one.job_id, one.conflict) for n, one in known.items() if one.conflict}
        if new := [n for n in range(len(made)) if n not in known or not known[n].was_accepted]:
            held |= {
                new[n]: one
                for n, one in (await self._enqueue_all([made[n] for n in new], replicas, new)).items()
            }
            with after_it_was_done():
                async with self._keyed:
                    marked = {keyed[n].key_digest: held.get(n) for n in new if n in keyed}
                    await self._acceptance.mark_accepted(marked, replicas=replicas)
        return _bulk_answer([spec.id for spec in made], held)

    async def _enqueue_all(
        self, specs: Sequence[JobSpec], replicas: int, numbers: Sequence[int]
    ) -> dict[int, NotUnique]:
        """Enqueue all jobs, and return the conflicts of those whose key another job holds, by position. `numbers`: the
        index of each job in its push."""
        if not any(map(_AFTER, specs)):
            return await self._enqueue_ordered(specs, replicas, numbers)
        order = _order_of(specs, numbers)
        held = await self._enqueue_ordered([specs[n] for n in order], replicas, [numbers[n] for n in order])
        return {order[n]: one for n, one in held.items()}

    async def _enqueue_ordered(
        self, specs: Sequence[JobSpec], replicas: int, numbers: Sequence[int]
    ) -> dict[int, NotUnique]:
        await self._check_ids(specs, numbers)
        # If one call takes the whole push, that call checks it.
        if len(specs) > MAX_PER_CALL:
            await self._check_holders(specs, numbers)
            await self._check_predecessors(specs, numbers)
            await self._check_expiry(specs, numbers)
        try:
            with self._traced(specs):
                outcomes = await self._constraints.under(
                    lambda constraints: self._acceptance.enqueue(
                        specs, constraints, is_whole=True, replicas=replicas
                    )
                )
        except PushRefused as exc:
            raise refusal_of_some(exc.refused, numbers, NOTHING_ACCEPTED) from None
        if outcomes.count(Accepted.NEW) == len(outcomes):
            return {}
        if isinstance(outcomes[0], BacklogFull):
            raise self._backlog_full(outcomes[0])
        # The checks before the write let these pass: a concurrent call took an ID, a key or a batch meanwhile, or time
        # passed.
        others = "all other jobs were accepted"
        if taken := [n for n, outcome in enumerate(outcomes) if outcome is Accepted.TAKEN]:
            raise _ids_taken(specs, taken, numbers, others)
        if refused := refused_for_one_reason(outcomes):
            raise refusal_of_some(refused, numbers, others)
        return {n: outcome for n, outcome in enumerate(outcomes) if isinstance(outcome, NotUnique)}

    async def _enqueue_one(self, spec: JobSpec, replicas: int) -> Enqueued:
        if self._tracing is None:
            outcome = await self._coalescer(replicas).submit(spec)
        else:
            with self._traced([spec]):
                outcome = await self._coalescer(replicas).submit(spec)
        if isinstance(outcome, Accepted):
            if outcome is Accepted.TAKEN:
                raise ConflictError(f"the ID {spec.id} is taken", code="id_taken")
            return Enqueued(spec.id, is_new=outcome is Accepted.NEW)
        if isinstance(outcome, BacklogFull):
            raise self._backlog_full(outcome)
        if isinstance(outcome, NotUnique) and not outcome.is_refusal:
            return Enqueued(outcome.holder, is_new=False, conflict=outcome.conflict)
        raise refusal_of_one(outcome)

    @contextlib.contextmanager
    def _traced(self, specs: Sequence[JobSpec]) -> Iterator[None]:
        if self._tracing is None:
            yield
            return
        spans = self._tracing.begin("enqueue", ((spec.id, spec.name, spec.headers) for spec in specs))
        outcome = "failed"
        try:
            yield
            outcome = "answered"
        finally:
            self._tracing.end(spans, outcome)

    def _coalescer(self, replicas: int) -> Coalescer[JobSpec, Outcome]:
        return self._enqueues.get(replicas) or self._enqueues.setdefault(
            replicas, self._new_coalescer(replicas)
        )

    def _new_coalescer(self, replicas: int) -> Coalescer[JobSpec, Outcome]:
        async def flush(specs: Sequence[JobSpec]) -> list[Outcome]:
            try:
                return await self._acceptance.enqueue(
                    specs, self._constraints.current.constraint_set, replicas=replicas
                )
            except StaleConstraints:
                await self._constraints.reload()
            return await self._constraints.under(
                lambda constraints: self._acceptance.enqueue(specs, constraints, replicas=replicas)
            )

        return Coalescer(
            flush,
            max_batch=MAX_PER_CALL,
            max_waiting=MAX_WAITING_ENQUEUES,
            pace=self._pace,
        )

    def _backlog_full(self, full: BacklogFull) -> RateLimitedError:
        constraint = self._constraints.current.of_gate(full.gate_id)
        which = (
            f"constraint {constraint.name} lets no more than {constraint.max_backlog}"
            if constraint
            else "a constraint lets no more"
        )
        return RateLimitedError(
            f"{which} of these jobs wait; no job was accepted",
            code="backlog_full",
            retry_after_s=BACKLOG_RETRY_AFTER_S,
        )


def _bulk_answer(ids: list[str], held: Mapping[int, NotUnique]) -> EnqueuedBulk:
    for n, one in held.items():
        ids[n] = one.holder
    return EnqueuedBulk(ids, {n: held[n].conflict for n in sorted(held)})


def _with_ids(spec: JobSpec, ids: Mapping[str, str]) -> JobSpec:
    """Return a job with the IDs that keys stand for, in place of its own and those of its predecessors."""
    after = spec.after and replace(spec.after, jobs=tuple(ids.get(one, one) for one in spec.after.jobs))
    return replace(spec, id=ids.get(spec.id, spec.id), after=after)


def _key_owner(caller: Principal | None) -> str:
    """Return the owner of the caller's idempotency keys; all callers of a master without tokens share theirs."""
    return "" if caller is None or caller.name == LOCAL else caller.identity


def _keyed(spec: JobSpec, owner: str) -> KeyedSpec:
    # Names and owners contain no line feed, so the parts cannot be confused. A header's key contains none
    # either, so it never equals this text.
    return KeyedSpec(_digest(f"{owner}\n{spec.name}\n{spec.key}"), spec, spec.key_life_ms)


def _digest(key: str) -> str:
    return hashlib.blake2b(key.encode(), digest_size=16).hexdigest()


def _key_reused(which: str, errors: Sequence[FieldError]) -> ConflictError:
    verb = "were" if which.endswith("keys") else "was"
    return ConflictError(
        f"{which} {verb} used for another request", code="idempotency_key_reused", errors=errors
    )


def _order_of(specs: Sequence[JobSpec], numbers: Sequence[int]) -> list[int]:
    """Return the positions of jobs, sorted so that each comes after its predecessors. Raise InvalidError that names the
    jobs of a cycle, or the job at which the push exceeds the limit of predecessors."""
    named = 0
    for n, spec in enumerate(specs):
        named += len(spec.after.jobs) if spec.after else 0
        if named > MOST_IN_PUSH:
            too_many = f"the jobs of one push can have {MOST_IN_PUSH} predecessors together"
            raise InvalidError(too_many, errors=[FieldError(("jobs", numbers[n], "after"), too_many)])
    ordered, cyclic = in_order([(spec.id, spec.after) for spec in specs])
    if cyclic:
        rule = "the job would wait for itself, directly or over others of this push"
        errors = [FieldError(("jobs", numbers[n], "after"), rule) for n in cyclic[:MOST_NAMED]]
        raise InvalidError(
            f"{len(cyclic)} jobs would wait for each other for ever; no job was accepted", errors=errors
        )
    return ordered


def _duplicates(specs: Sequence[JobSpec]) -> list[int]:
    """Return the positions of jobs whose ID an earlier, different job has."""
    first: dict[str, JobSpec] = {}
    return [
        n
        for n, spec in enumerate(specs)
        if (other := first.setdefault(spec.id, spec)) is not spec and other != spec
    ]


def _ids_taken(
    specs: Sequence[JobSpec], taken: Sequence[int], numbers: Sequence[int], others: str
) -> ConflictError:
    errors = [
        FieldError(("jobs", numbers[n], "id"), f"{specs[n].id} is the ID of another job already")
        for n in taken
    ]
    return ConflictError(f"{len(taken)} of the IDs are taken; {others}", code="id_taken", errors=errors)
