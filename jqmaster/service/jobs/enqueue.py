"""Enqueues the jobs of pushers, each exactly once."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final

from jqmaster.config import Durability
from jqmaster.domain.identity.access import Principal
from jqmaster.domain.jobs.job import JobSpec
from jqmaster.errors import FieldError, InvalidError, JqmasterError, after_it_was_done
from jqmaster.live_value import LiveValue
from jqmaster.service.constraints.cache import ConstraintCache
from jqmaster.service.jobs.coalescing import Coalescer
from jqmaster.service.jobs.idempotency import IdempotencyKeys, key_owner, keyed_by_header, keyed_by_job
from jqmaster.service.jobs.push_checks import PushChecks, sorted_positions
from jqmaster.service.jobs.push_pace import PushPace
from jqmaster.service.jobs.reach import CallerReach
from jqmaster.service.jobs.refusals import NOTHING_ACCEPTED, OTHERS_ACCEPTED, error_of
from jqmaster.store.jobs.enqueue import EnqueueStore
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
    refused_jobs,
)
from jqmaster.store.jobs.placement import StaleConstraints
from jqmaster.store.link.pages import MAX_PER_CALL
from jqmaster.tracing import Tracing

# Maximum number of pushes that wait for the store. This allows many thousands of pushes a second. More waiting pushes
# would only wait longer, because the store would be the bottleneck.
MAX_WAITING_ENQUEUES: Final = 5_000
# Getters of attributes that are read for each job of a bulk. `map` with a getter needs no Python frame per job.
_KEY, _AFTER = map(attrgetter, ("key", "after"))


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The answer to one push. `is_new`: whether a job was created. If not, the push is a repeat, or another job holds
    the uniqueness key. In the second case, `conflict` names the effect of the push on that job."""

    job_id: str
    is_new: bool
    conflict: Conflict | None = None


@dataclass(frozen=True, slots=True)
class EnqueuedBulk:
    """The answer to a bulk.

    * `ids`: the ID for each job of the bulk.
    * `conflicts`: by index, the conflicts of jobs whose uniqueness key another job held.
    """

    ids: list[str]
    conflicts: Mapping[int, Conflict]


class EnqueueService:
    """Component: enqueues jobs.

    * `admit(durability)`: returns how many replicas must have a job before it is accepted. It raises an error while new
      jobs are refused. `durability`: None for the configured level.
    * `pace`: slows pushes down.
    * `can_notify`: whether webhooks can be signed.
    * `reach`: decides which jobs and batches a `caller` may name. The caller None is the master itself.
    """

    def __init__(
        self,
        new_jobs: EnqueueStore,
        constraints: ConstraintCache,
        *,
        admit: Callable[[Durability | None], int],
        reach: CallerReach,
        tracing: Tracing | None = None,
        pace: PushPace | None = None,
        can_notify: bool = True,
        admitted: LiveValue[Mapping[Durability | None, int]] | None = None,
        most_per_s: LiveValue[int | None] | None = None,
    ) -> None:
        """Take the stores and the rules for new jobs.

        * `admit`: returns how many replicas must have a new job of a durability level. It raises an error while such
          jobs are refused.
        * `admitted`: the current answers of `admit`, without the levels that it refuses.
        * `most_per_s`: how many jobs may be pushed in a second. None: any number.
        """
        self._new_jobs = new_jobs
        self._constraints = constraints
        self._admit = admit
        self._admitted = admitted or LiveValue({})
        self._most_per_s = most_per_s or LiveValue(None)
        self._reach = reach
        self._tracing = tracing
        self._pace = pace
        self._can_notify = can_notify
        # One coalescer for each number of replicas. Only pushes that need the same number of replicas share a call, so
        # no push waits for more replicas than it needs.
        self._enqueues: dict[int, Coalescer[JobSpec, Outcome]] = {}
        self._keys = IdempotencyKeys(new_jobs.idempotency)
        self._checks = PushChecks(new_jobs.checks)

    async def start(self) -> None:
        """Do nothing: no task runs before the first call."""

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
        """Enqueue a job.

        `idempotency_key`: the key from a header. It is valid for 24 hours and for any job name. The job may have its
        own key instead. Each `caller` has separate idempotency keys.

        Raise:

        * ForbiddenError if the caller may not push jobs of this name,
        * InvalidError if the job names a job or batch that does not exist for the caller,
        * ConflictError if the ID or key was used for another request,
        * NotUniqueError if another job holds the uniqueness key and `on_conflict` is `reject`,
        * RateLimitedError while a constraint lets no more of these jobs wait,
        * StoreUnavailableError while the store is too full or cannot provide `durability`,
        * OutcomeUnknownError if `durability` was not reached in time.
        """
        if spec.notify is not None:
            self._check_notify([spec], ())
        if caller is not None and caller.allows_name is not None:
            await self._check_reach([spec], caller, is_bulk=False)
        replicas = self._admitted.current.get(durability)
        if replicas is None:
            replicas = self._admit(durability)
        if idempotency_key is not None:
            keyed = keyed_by_header(idempotency_key, spec, key_owner(caller))
        elif spec.key:
            keyed = keyed_by_job(spec, key_owner(caller))
        else:
            return await self._enqueue_one(spec, replicas)
        bound = await self._keys.reserve_one(keyed, replicas)
        if bound.was_accepted:
            return Enqueued(bound.job_id, is_new=False, conflict=bound.conflict)
        answer = await self._enqueue_one(replace(spec, id=bound.job_id), replicas)
        with after_it_was_done():
            held = NotUnique(answer.job_id, answer.conflict) if answer.conflict else None
            await self._keys.mark({keyed.key_digest: held}, replicas)
        return answer

    async def bulk(
        self,
        specs: Sequence[JobSpec],
        *,
        caller: Principal | None = None,
        durability: Durability | None = None,
    ) -> EnqueuedBulk:
        """Enqueue jobs together. `caller`: see `one`. Raise what `one` raises, but for the whole bulk:

        * ConflictError names each job, by index, that has a taken ID or an idempotency key of another request.
        * NotUniqueError names each job, by index, whose uniqueness key another job holds. The holder may be an earlier
          job of the bulk.
        * RateLimitedError means that a constraint does not let all of these jobs wait.

        After these errors, no job is accepted, with two exceptions:

        * If another call takes an ID or a key between the check and the write, all other jobs are accepted. The error
          says that they are.
        * If the store fails during a bulk of more than `MAX_PER_CALL` jobs, some of them may be accepted. The error is
          then OutcomeUnknownError.
        """
        self._check_notify(specs, ("jobs",))
        self._check_number(specs)
        await self._check_reach(specs, caller, is_bulk=True)
        replicas = self._admit(durability)
        if any(map(_KEY, specs)):
            return await self._keyed_bulk(specs, key_owner(caller), replicas)
        held = await self._enqueue_all(specs, replicas, range(len(specs)))
        return _bulk_answer([spec.id for spec in specs], held)

    async def check_bulk(
        self,
        specs: Sequence[JobSpec],
        *,
        caller: Principal | None = None,
        durability: Durability | None = None,
    ) -> None:
        """Raise the error that `bulk` would raise now, as far as a read of the store shows it. Only the write checks:

        * backlog limits and idempotency keys,
        * the ID, the uniqueness key and the expiry of jobs with an idempotency key.
        """
        self._check_notify(specs, ("jobs",))
        self._check_number(specs)
        await self._check_reach(specs, caller, is_bulk=True)
        self._admit(durability)
        numbers = [n for n, spec in enumerate(specs) if not spec.key]
        unkeyed = [specs[n] for n in numbers]
        await self._checks.ids(unkeyed, numbers)
        await self._checks.holders(unkeyed, numbers)
        sorted_positions(specs, range(len(specs)))
        await self._checks.predecessors(specs, range(len(specs)))
        await self._checks.expiry(unkeyed, numbers)

    def _check_number(self, specs: Sequence[JobSpec]) -> None:
        """Refuse a push with more jobs than the quota allows in a second, because it would never be accepted."""
        most = self._most_per_s.current
        if most is not None and len(specs) > most:
            rule = f"must have at most {most} jobs, the number that the namespace may push in a second"
            raise InvalidError(
                f"jobs: {rule}; push several times",
                code="push_over_quota",
                errors=[FieldError(("jobs",), rule)],
            )

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
        """Refuse job names that the caller may not push. If the caller may not name a job or a batch, raise the same
        error as for one that does not exist."""
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
        if refused:
            raise error_of(refused, range(len(specs)) if is_bulk else None)

    async def _keyed_bulk(self, specs: Sequence[JobSpec], owner: str, replicas: int) -> EnqueuedBulk:
        keyed = {n: keyed_by_job(spec, owner) for n, spec in enumerate(specs) if spec.key}
        bound = await self._keys.reserve(keyed, replicas)
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
                await self._keys.mark({keyed[n].key_digest: held.get(n) for n in new if n in keyed}, replicas)
        return _bulk_answer([spec.id for spec in made], held)

    async def _enqueue_all(
        self, specs: Sequence[JobSpec], replicas: int, numbers: Sequence[int]
    ) -> dict[int, NotUnique]:
        """Enqueue all jobs. Return, by position, the conflicts of jobs whose uniqueness key another job holds.
        `numbers`: the index of each job in the push."""
        if not any(map(_AFTER, specs)):
            return await self._enqueue_ordered(specs, replicas, numbers)
        order = sorted_positions(specs, numbers)
        held = await self._enqueue_ordered([specs[n] for n in order], replicas, [numbers[n] for n in order])
        return {order[n]: one for n, one in held.items()}

    async def _enqueue_ordered(
        self, specs: Sequence[JobSpec], replicas: int, numbers: Sequence[int]
    ) -> dict[int, NotUnique]:
        await self._checks.ids(specs, numbers)
        # If the whole push fits into one call of the store, the script of that call makes these checks.
        if len(specs) > MAX_PER_CALL:
            await self._checks.holders(specs, numbers)
            await self._checks.predecessors(specs, numbers)
            await self._checks.expiry(specs, numbers)
        try:
            with self._traced(specs):
                outcomes = await self._constraints.under(
                    lambda constraints: self._new_jobs.enqueue(
                        specs,
                        constraints,
                        is_whole=True,
                        replicas=replicas,
                        most_per_s=self._most_per_s.current,
                    )
                )
        except PushRefused as exc:
            raise self._error(exc.refused, numbers, NOTHING_ACCEPTED) from None
        return self._conflicts(outcomes, numbers)

    async def _enqueue_one(self, spec: JobSpec, replicas: int) -> Enqueued:
        if self._tracing is None:
            outcome = await self._coalescer(replicas).submit(spec)
        else:
            with self._traced([spec]):
                outcome = await self._coalescer(replicas).submit(spec)
        if isinstance(outcome, Accepted):
            return Enqueued(spec.id, is_new=outcome is Accepted.NEW)
        held = self._conflicts([outcome], None)[0]
        return Enqueued(held.holder, is_new=False, conflict=held.conflict)

    def _conflicts(self, outcomes: Sequence[Outcome], numbers: Sequence[int] | None) -> dict[int, NotUnique]:
        """Return, by position, the conflicts of jobs that count as accepted although another job holds their uniqueness
        key. If any job was refused, raise the error. `numbers`: see `error_of`."""
        if refused := refused_jobs(outcomes):
            # The checks before the write passed. Since then, a concurrent call has taken an ID, a key or a batch, or a
            # job has expired.
            raise self._error(refused, numbers, OTHERS_ACCEPTED)
        return {n: outcome for n, outcome in enumerate(outcomes) if isinstance(outcome, NotUnique)}

    def _error(
        self, refused: Mapping[int, PushRefusal], numbers: Sequence[int] | None, others: str
    ) -> JqmasterError:
        of_gate = self._constraints.current.of_gate
        named = {
            n: one.of(of_gate(one.gate_id)) if isinstance(one, BacklogFull) else one
            for n, one in refused.items()
        }
        return error_of(named, numbers, others)

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
                return await self._new_jobs.enqueue(
                    specs,
                    self._constraints.current.constraint_set,
                    replicas=replicas,
                    most_per_s=self._most_per_s.current,
                )
            except StaleConstraints:
                await self._constraints.reload()
            return await self._constraints.under(
                lambda constraints: self._new_jobs.enqueue(
                    specs, constraints, replicas=replicas, most_per_s=self._most_per_s.current
                )
            )

        return Coalescer(
            flush,
            max_batch=MAX_PER_CALL,
            max_waiting=MAX_WAITING_ENQUEUES,
            pace=self._pace,
        )


def _bulk_answer(ids: list[str], held: Mapping[int, NotUnique]) -> EnqueuedBulk:
    for n, one in held.items():
        ids[n] = one.holder
    return EnqueuedBulk(ids, {n: held[n].conflict for n in sorted(held)})


def _with_ids(spec: JobSpec, ids: Mapping[str, str]) -> JobSpec:
    """Return the job with other IDs, for itself and its predecessors. `ids` maps each replaced ID to the ID that
    belongs to the job's idempotency key."""
    after = spec.after and replace(spec.after, jobs=tuple(ids.get(one, one) for one in spec.after.jobs))
    return replace(spec, id=ids.get(spec.id, spec.id), after=after)
