"""Workers' calls to a master."""

import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from jqmaster.domain.constraint import gate_id
from jqmaster.domain.ids import is_id, new_id
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.job import CONTINUED, Job, JobState
from jqmaster.domain.key_value import key_value
from jqmaster.domain.outcome import Decision, HoldOrder, Outcome, decide
from jqmaster.domain.worker import Worker, WorkerSpec
from jqmaster.errors import ConflictError, after_it_was_done, unknown_worker
from jqmaster.service.constraints.cache import RuleCache
from jqmaster.service.workers.registrations import Registrations
from jqmaster.store import codec
from jqmaster.store.constraints.constraints import Rules
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.jobs.records import RecordStore
from jqmaster.store.jobs.settlements import Hold, Settlement, SettlementStore
from jqmaster.store.workers.workers import Commanded, Heartbeat, WorkerStore

logger = logging.getLogger(__name__)

# A longer message is cut: it is for people, and every failed attempt keeps one.
MAX_MESSAGE: Final = 1_000


WorkerOrder = Literal["drain", "resume", "detach"]
TellWorker = Callable[[str, WorkerOrder], Awaitable[None]]

_CHANGES: Final[Mapping[WorkerOrder, Mapping[str, Any]]] = {
    "drain": {"draining": True},
    "resume": {"draining": False},
    "detach": {"detached_by": "operator"},
}


@dataclass(frozen=True, slots=True)
class Registration:
    worker_id: str
    epoch: int
    store_time_ms: int


class WorkerService:
    """`tell(worker_id, order)` gives a worker an order at once; where it fails, the answer to the next heartbeat tells.
    `rng` gives the jitter of retries."""

    def __init__(
        self,
        workers: WorkerStore,
        rules: RuleCache,
        registrations: Registrations,
        *,
        settlements: SettlementStore,
        records: RecordStore,
        tell: TellWorker,
        rng: random.Random | None = None,
    ) -> None:
        self._workers = workers
        self._settlements = settlements
        self._records = records
        self._rules = rules
        self._registrations = registrations
        self._tell = tell
        self._rng = rng or random.Random()  # noqa: S311 - spreads retries, guards nothing

    async def register(self, spec: WorkerSpec, owner: str = "", *, caller: str = "") -> Registration:
        """A new worker ID, which belongs to the caller named `owner`; `caller`: see `caller_of`.

        Raises AddressRefusedError when whoever serves the URL does not know the secret, RateLimitedError when that was so
        too often with this owner and caller.
        """
        if spec.url is not None:
            await self._registrations.check(spec.url, spec.secret, f"{owner}, {caller}")
        worker_id = new_id()
        now_ms, epoch = await self._workers.register(worker_id, spec, owner)
        logger.info(
            "worker %s registered: %s at %s", worker_id, ", ".join(spec.names[:5]), spec.url or "(pulls)"
        )
        if spec.url is not None:
            self._registrations.note(spec.url)
        return Registration(worker_id, epoch, now_ms)

    async def heartbeat(
        self,
        worker_id: str,
        claims: Sequence[tuple[str, str]],
        free: int,
        as_of_ms: int = 0,
        *,
        asks_to_continue: bool = False,
    ) -> Heartbeat:
        """`as_of_ms`: store time, or less, when the claims were listed. Raise NotFoundError when the worker is not (any more) registered."""
        answer = await self._workers.renew(worker_id, claims, free, as_of_ms) if is_id(worker_id) else None
        if answer is None:
            raise unknown_worker(worker_id)
        if asks_to_continue and answer.detached_by == "silence":
            return await self._let_continue(worker_id, claims, answer)
        return answer

    async def _let_continue(
        self, worker_id: str, claims: Sequence[tuple[str, str]], answer: Heartbeat
    ) -> Heartbeat:
        """It was silent, and is not: its leases have just been renewed, so what it runs is nobody else's."""
        held = [claim for claim in claims if claim not in answer.lost and claim not in answer.to_cancel]
        worker = await self._workers.get(worker_id)
        jobs = await self._records.get_without_argument([job_id for job_id, _ in held])
        silent_since = iso_ms(worker.silent_since_ms) if worker and worker.silent_since_ms else "a while ago"
        message = f"its worker was detached, silent since {silent_since}; it came back, asked, and goes on"
        entries = [
            (job_id, token, codec.encode_attempt(jobs[job_id], CONTINUED, message, None))
            for job_id, token in held
            if job_id in jobs
        ]
        if not await self._workers.go_on(worker_id, entries):
            return answer
        logger.warning("worker %s, silent since %s, goes on with %d jobs", worker_id, silent_since, len(held))
        return replace(answer, detached_by=None)

    # --- orders of people

    async def drain(self, worker_id: str, who: str) -> Worker:
        """It takes no more jobs and finishes those that it runs. Raise NotFoundError, ConflictError (detached)."""
        return await self._command("drain", self._workers.drain, worker_id, who)

    async def resume(self, worker_id: str, who: str) -> Worker:
        """Give the worker jobs again. Raise NotFoundError, ConflictError (detached)."""
        return await self._command("resume", self._workers.resume, worker_id, who)

    async def detach(self, worker_id: str, who: str) -> Worker:
        """Detach the worker: its jobs run elsewhere when it has stopped them, or when their leases end. Raise NotFoundError."""
        return await self._command("detach", self._workers.detach, worker_id, who)

    async def _command(
        self,
        order: WorkerOrder,
        command: Callable[[str, bytes], Awaitable[Commanded]],
        worker_id: str,
        who: str,
    ) -> Worker:
        before = await self.get(worker_id)
        entry = encode_entry(
            who=who,
            action=f"worker.{order}",
            target=worker_id,
            before=_standing(before),
            after={**_standing(before), **_CHANGES[order]},
        )
        match await command(worker_id, entry):
            case Commanded.UNKNOWN:
                raise unknown_worker(worker_id)
            case Commanded.DETACHED:
                raise ConflictError(
                    f"worker {worker_id} is detached; it will register again by itself",
                    code="worker_detached",
                )
            case Commanded.NEW:
                logger.warning("worker %s: %s, by %s", worker_id, order, who)
        await self._tell(worker_id, order)
        with after_it_was_done():
            return await self.get(worker_id)

    async def confirm_start(
        self, worker_id: str, claims: Sequence[tuple[str, str]]
    ) -> tuple[list[str], list[str]]:
        """Job IDs that may start, and those whose token is stale. Raise NotFoundError where the worker is not registered."""
        if not is_id(worker_id):
            raise unknown_worker(worker_id)
        verdicts = await self._settlements.confirm_start(worker_id, claims)
        return _split([job_id for job_id, _ in claims], verdicts)

    async def results(self, worker_id: str, outcomes: Sequence[Outcome]) -> tuple[list[str], list[str]]:
        """Job IDs whose outcome counts (or did before), and those whose token is stale. Raise NotFoundError where the worker is not registered."""
        if not is_id(worker_id):
            raise unknown_worker(worker_id)
        succeeded = [o for o in outcomes if o.type == "success"]
        others = [o for o in outcomes if o.type != "success"]
        accepted: list[str] = []
        stale: list[str] = []
        if succeeded:
            verdicts = await self._settlements.settle_success(
                worker_id, [(o.job_id, o.token, codec.encode_result(o)) for o in succeeded]
            )
            accepted, stale = _split([o.job_id for o in succeeded], verdicts)
        if others:
            settlements = await self._decide(others)
            if not settlements:
                await self.get(worker_id)  # no script is called that would find out
            verdicts = await self._settlements.settle(worker_id, settlements)
            more_accepted, more_stale = _split([s.job_id for s in settlements], verdicts)
            accepted, stale = accepted + more_accepted, stale + more_stale
            known = {s.job_id for s in settlements}
            stale += [o.job_id for o in others if o.job_id not in known]
        return accepted, stale

    async def _decide(self, outcomes: Sequence[Outcome]) -> list[Settlement]:
        jobs = await self._records.get_without_argument([o.job_id for o in outcomes])
        # Only who asks for a hold needs the constraints, and then as they are now.
        rules = await self._rules.reload() if any(o.hold for o in outcomes) else None
        settlements = []
        for outcome in outcomes:
            job = jobs.get(outcome.job_id)
            if job is None:
                continue
            decision = decide(job, outcome, jitter=self._rng.random())
            message = outcome.message[:MAX_MESSAGE]
            settlements.append(
                Settlement(
                    outcome.job_id,
                    outcome.token,
                    decision,
                    codec.encode_attempt(job, decision.ending, message, outcome.error),
                    _final_result(decision, outcome),
                    _hold(rules, outcome.hold, decision.delay_ms) if rules and outcome.hold else None,
                    name=job.name,
                    message=message,
                )
            )
        return settlements

    async def leave(self, worker_id: str) -> None:
        """Unregister a worker; jobs that it still holds end with their leases. Raise NotFoundError."""
        if not (is_id(worker_id) and await self._workers.forget(worker_id)):
            raise unknown_worker(worker_id)
        logger.info("worker %s left", worker_id)

    async def get(self, worker_id: str) -> Worker:
        """Return a worker. Raise NotFoundError."""
        worker = await self._workers.get(worker_id) if is_id(worker_id) else None
        if worker is None:
            raise unknown_worker(worker_id)
        return worker

    async def held(self, worker_id: str) -> list[Job]:
        """Return the jobs that it holds and that can be read, the oldest first."""
        job_ids = await self._workers.claims(worker_id)
        jobs = await self._records.get_without_argument(job_ids)
        return [jobs[job_id] for job_id in job_ids if job_id in jobs]

    async def all(self) -> list[Worker]:
        return await self._workers.all()


def _standing(worker: Worker) -> dict[str, Any]:
    """Return the facts about a worker for its audit entry, so that people can identify it."""
    spec = worker.spec
    return {
        "url": spec.url,
        "node_id": spec.node_id,
        "pid": spec.pid,
        "draining": worker.is_draining,
        "detached_by": worker.detached_by,
    }


def _hold(rules: Rules, order: HoldOrder, for_ms: int) -> Hold | None:
    """Return the gate to hold; None if it does not exist: the deferral still counts, as a worker need not know the current constraints."""
    stored = rules.named(order.constraint)
    fault = ""
    if stored is None or not stored.constraint.enabled:
        fault = "there is no such constraint, or it is not enabled"
    elif (stored.constraint.key is not None) is not order.has_key:
        fault = "it has no key" if order.has_key else "it has a key, and no value is named"
    if stored is None or fault:
        logger.warning("a hold of constraint %.100r is ignored: %s", order.constraint, fault)
        return None
    value = key_value(order.key) if order.has_key else None
    return Hold(gate_id(stored.constraint.cid, value), for_ms)


def _final_result(decision: Decision, outcome: Outcome) -> bytes:
    return codec.encode_result(outcome) if decision.state is JobState.FAILED else b""


def _split(job_ids: Sequence[str], verdicts: Sequence[bool]) -> tuple[list[str], list[str]]:
    if all(verdicts):
        return list(job_ids), []
    pairs = list(zip(job_ids, verdicts, strict=True))
    return [job_id for job_id, ok in pairs if ok], [job_id for job_id, ok in pairs if not ok]
