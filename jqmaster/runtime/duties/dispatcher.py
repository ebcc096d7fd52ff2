"""From ready to running: claims for the least loaded worker, few pushes per worker at a time, and what comes of it."""

import asyncio
import contextlib
import contextvars
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from jqmaster.clock import Clock
from jqmaster.domain.assignment import MOST_DOUBLINGS, next_assignments
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.outcome import Outcome
from jqmaster.errors import DamagedError, JqmasterError
from jqmaster.lifecycle import BackgroundLoops
from jqmaster.runtime.duties.fleet import Fleet, Member
from jqmaster.runtime.duties.relocation import StaleLeadership
from jqmaster.runtime.outbound.offers import OfferResult, Offers, PutOff, Withheld
from jqmaster.runtime.outbound.worker_client import (
    Delivered,
    MaybeDelivered,
    NotDelivered,
    PushResult,
    Refused,
    WorkerClient,
)
from jqmaster.service.constraints.cache import RuleCache
from jqmaster.service.workers.polls import PollDesk
from jqmaster.store.jobs.claims import Claim, ClaimOrder, ClaimStore, NotClaimed
from jqmaster.store.jobs.leases import LeaseStore
from jqmaster.store.leadership.leadership import Leadership
from jqmaster.store.link.client import Along
from jqmaster.store.link.pages import MAX_PER_CALL
from jqmaster.store.link.wake import (
    ConstraintsChanged,
    GateClosed,
    JobsReady,
    PollOpened,
    SlotsFreed,
    WakeMessage,
    WorkersChanged,
)
from jqmaster.store.workers.polls import reply_of
from jqmaster.store.workers.workers import WorkerStore
from jqmaster.tracing import Tracing

logger = logging.getLogger(__name__)

# Wake-ups make it quick, this makes it sure.
POLL_S: Final = 1.0
# A job that a worker does not take for a reason of its own, while it takes others, is offered again after so long.
PUT_OFF_S: Final = 15.0
# Pushes under way may end before the lead is given up; the next leader is not kept waiting for longer.
FINISH_WITHIN_S: Final = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class _Flight:
    """Claims that are under way."""

    orders: Sequence[tuple[Member, ClaimOrder]]
    sent_at_s: float
    times_ready: int


class _StaleRules(Exception):  # noqa: N818 - an everyday outcome
    """The store has other constraints than those known here."""


class Dispatcher:
    """Component of one leadership. `is_trusted`: whether that still holds, asked before each push. `on_stale` is
    called when the store knows a newer leader. `on_gates` gets ConstraintsChanged when it has other constraints than those
    known here, and GateClosed when one closed that opens by time. `report` takes what a worker says of attempts, as its results do."""

    def __init__(
        self,
        leadership: Leadership,
        *,
        claims: ClaimStore,
        leases: LeaseStore,
        workers: WorkerStore,
        rules: RuleCache,
        fleet: Fleet,
        desk: PollDesk,
        client: WorkerClient,
        report: Callable[[str, Sequence[Outcome]], Awaitable[object]],
        clock: Clock,
        max_push_jobs: int,
        on_stale: Callable[[], None],
        on_gates: Callable[[WakeMessage], None],
        is_trusted: Callable[[], bool] = lambda: True,
        tracing: Tracing | None = None,
    ) -> None:
        self._leadership = leadership
        self._tracing = tracing
        self._claims = claims
        self._leases = leases
        self._workers = workers
        self._fleet = fleet
        self._desk = desk
        self._client = client
        self._report = report
        self._clock = clock
        self.tune(max_push_jobs=max_push_jobs)
        self._rules = rules
        self._on_stale = on_stale
        self._on_gates = on_gates
        self._is_trusted = is_trusted
        self._wake = asyncio.Event()
        self._wants_refresh = True
        self._refreshed_at_s = 0.0
        # Sets of names that had no more ready jobs when last asked, and how often jobs became ready in all.
        self._exhausted: set[tuple[str, ...]] = set()
        self._times_ready = 0
        # Of other sets: how many claims in a row left jobs behind.
        self._plenty: dict[tuple[str, ...], int] = {}
        self._loops = BackgroundLoops("dispatcher")
        self._pushes: set[asyncio.Task[None]] = set()
        # Those that travel with writes of others.
        self._flights: set[_Flight] = set()
        self._landed = asyncio.Event()
        self._is_stopping = False
        self.last_round_s = self.claimed_at_s = clock.monotonic_s()

    def tune(self, *, max_push_jobs: int) -> None:
        """From the next claim on."""
        self._max_push_jobs = max_push_jobs

    async def start(self) -> None:
        self._loops.spawn("rounds", self._run)

    async def stop(self) -> None:
        """Claims nothing more and begins no push; those under way get a moment to end, so that what they say is not
        lost. Of the others the leases tell."""
        began_s = self._clock.monotonic_s()
        self._is_stopping = True
        self._wake.set()
        # A claim that is under way is not cut off: nobody would know of its jobs until their leases end.
        await self._loops.ended(FINISH_WITHIN_S)
        await self._loops.stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, began_s + FINISH_WITHIN_S - self._clock.monotonic_s())):
                while self._flights:
                    self._landed.clear()
                    await self._landed.wait()
        pushes = list(self._pushes)
        if pushes:
            await asyncio.wait(
                pushes, timeout=max(0.0, began_s + FINISH_WITHIN_S - self._clock.monotonic_s())
            )
        for push in pushes:
            push.cancel()
        await asyncio.gather(*pushes, return_exceptions=True)

    def wake(self, message: JobsReady | SlotsFreed | PollOpened | WorkersChanged) -> None:
        """Claim anew: there may be more jobs, or more room for them."""
        match message:
            case SlotsFreed(worker_id, count):
                self._fleet.freed(worker_id, count)
            case PollOpened(worker_id, wait_ms):
                if not self._fleet.polls(worker_id, wait_ms / 1000):
                    self._wants_refresh = True
            case WorkersChanged():
                self._wants_refresh = True
            case JobsReady():
                self._became_ready()
        self._wake.set()

    def _became_ready(self, names: Collection[str] = ()) -> None:
        """Jobs of these names, or of any."""
        self._times_ready += 1
        if names:
            self._exhausted = {others for others in self._exhausted if not _share(others, names)}
        else:
            self._exhausted.clear()

    def along(self, message: WakeMessage, names: Collection[str] = ()) -> Along | None:
        """Claims of what a write makes possible of which `message` would tell; they travel right behind it (see Shard).
        None: nothing could be claimed then as far as is known here, and the message is to be told."""
        if self._is_stopping or not self._is_trusted():
            return None
        match message:
            case SlotsFreed(worker_id, count):
                member = self._fleet.get(worker_id)
                if member is None:
                    return None
                busy = member.busy
                self._fleet.freed(worker_id, count)
                orders = self._orders()
                if not orders:
                    member.busy = busy
            case JobsReady():
                self._became_ready(names)
                orders = self._orders(names)
            case _:
                return None
        return self._claims_along(orders) if orders else None

    def _claims_along(self, orders: Sequence[tuple[Member, ClaimOrder]]) -> Along:
        prepared = self._claims.prepare_claims(
            self._leadership.epoch, [order for _, order in orders], self._rules.current.ruleset.edition
        )
        flight = self._begin(orders)
        self._flights.add(flight)

        def answered(replies: Sequence[tuple[str, list[Any]] | Exception]) -> None:
            try:
                claims = self._claims.read_claims(prepared, replies)
            except Exception as exc:  # an answer that makes no sense; the leases tell what it took
                logger.error("cannot read claims: %s", exc)
                lost()
                return
            try:
                self._land(flight, claims)
            except StaleLeadership:
                self._on_stale()
            except _StaleRules:
                self._on_gates(ConstraintsChanged())
            except Exception as exc:  # the write that it travelled with has nothing to do with it
                logger.warning("cannot dispatch: %s", exc)
            finally:
                is_over()

        def is_over() -> None:
            self._flights.discard(flight)
            self._landed.set()
            self._wake.set()

        def lost() -> None:
            self._lose(flight)
            is_over()

        return Along(prepared.calls, answered, lost)

    async def _run(self) -> None:
        while not self._is_stopping:
            self._wake.clear()
            try:
                await self._round()
                self.last_round_s = self._clock.monotonic_s()
            except StaleLeadership:
                self._on_stale()
                return
            except JqmasterError as exc:
                logger.warning("cannot dispatch: %s", exc.detail)
                await self._clock.sleep(0.2)
                continue
            wait_s = min(POLL_S, self._fleet.next_change_s() or POLL_S)
            try:
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def _round(self) -> None:
        if self._wants_refresh or self._clock.monotonic_s() - self._refreshed_at_s >= POLL_S:
            self._wants_refresh = False
            workers, now_ms = await self._workers.all_with_time()
            self._fleet.refresh(workers, now_ms)
            self._refreshed_at_s = self._clock.monotonic_s()
            self._became_ready()  # nobody may have said so: polling makes it sure
            # Those that nobody runs any more are forgotten.
            self._plenty = {n: self._plenty[n] for n in self._fleet.name_sets() if n in self._plenty}
        while not self._is_stopping and (orders := self._orders()):
            try:
                await self._claim(orders)
            except _StaleRules:
                # Whoever follows them up says so when jobs may be claimed again.
                self._on_gates(ConstraintsChanged())
                return
            self.last_round_s = self._clock.monotonic_s()
            if self._wants_refresh or self.last_round_s - self._refreshed_at_s >= POLL_S:
                # A backlog may keep this busy for long: who came, left or fell silent is looked at all the same.
                self._wake.set()
                return

    def _orders(self, names: Collection[str] = ()) -> list[tuple[Member, ClaimOrder]]:
        """What may be claimed now, in one round trip; only for who runs some of these names, if any are given."""
        candidates = self._fleet.candidates(self._exhausted, self._plenty)
        # No more jobs than one script may handle: the store runs what comes in one go without a pause.
        assignments = next_assignments(
            [c for c in candidates if _share(c.names, names)] if names else candidates,
            max_jobs_per_push=self._max_push_jobs,
            max_jobs=MAX_PER_CALL,
        )
        orders = []
        for assignment in assignments:
            worker_id = assignment.worker_id
            member = self._fleet.get(worker_id)
            assert member
            order = ClaimOrder(worker_id, member.names, assignment.limit, self._desk.holds(worker_id))
            orders.append((member, order))
        return orders

    async def _claim(self, orders: Sequence[tuple[Member, ClaimOrder]]) -> None:
        """Raises, where the store refused one of several, when the others have what they were given."""
        flight = self._begin(orders)
        try:
            claims = await self._claims.claim_each(
                self._leadership.epoch, [order for _, order in orders], self._rules.current.ruleset.edition
            )
        except BaseException:
            self._lose(flight)
            raise
        self._land(flight, claims)

    def _begin(self, orders: Sequence[tuple[Member, ClaimOrder]]) -> _Flight:
        for member, _ in orders:
            member.begin_claim()
        return _Flight(orders, self._clock.monotonic_s(), self._times_ready)

    def _lose(self, flight: _Flight) -> None:
        for member, _ in flight.orders:
            member.end_claim()

    def _land(self, flight: _Flight, claims: Sequence[Claim | NotClaimed | Exception]) -> None:
        """Raises as `_claim` does."""
        # An answer is an answer, whatever it says: the store was asked.
        self.claimed_at_s = self._clock.monotonic_s()
        failed: Exception | None = None
        left_behind: dict[tuple[str, ...], bool] = {}
        for (member, _), claim in zip(flight.orders, claims, strict=True):
            member.end_claim(claim.busy if isinstance(claim, Claim) else None)
        for (member, order), claim in zip(flight.orders, claims, strict=True):
            names = tuple(order.names)
            match claim:
                case DamagedError(detail=detail):
                    # Only those who run these names are held up by it.
                    logger.error("cannot claim for worker %s: %s", order.worker_id, detail)
                    self._exhausted.add(names)
                case Exception():
                    failed = failed or claim
                case NotClaimed():
                    failed = failed or self._cannot_take(member, claim)
                case Claim():
                    # What became ready while the claim was on its way may not have been seen by it.
                    if claim.is_exhausted and flight.times_ready == self._times_ready:
                        self._exhausted.add(names)
                    left_behind[names] = not claim.is_exhausted
                    if claim.opens_in_ms >= 0:
                        self._on_gates(GateClosed())
                    if claim.jobs:
                        self.give(member, claim, flight.sent_at_s)
        self._note_plenty(left_behind)
        if failed:
            raise failed

    def _note_plenty(self, left_behind: Mapping[tuple[str, ...], bool]) -> None:
        for names, is_plenty in left_behind.items():
            if is_plenty:
                self._plenty[names] = min(self._plenty.get(names, 0) + 1, MOST_DOUBLINGS)
            else:
                self._plenty.pop(names, None)

    def _cannot_take(self, member: Member, why: NotClaimed) -> Exception | None:
        """What to raise, where it is not about this worker alone."""
        match why:
            case NotClaimed.STALE_EPOCH:
                return StaleLeadership()
            case NotClaimed.STALE_RULES:
                return _StaleRules()
            case NotClaimed.GONE:
                self._fleet.forget(member.worker.id)
                self._wants_refresh = True
            case NotClaimed.NO_POLL:
                member.polls_until_s = 0.0
            case NotClaimed.FULL:
                member.busy = max(0, member.worker.spec.max_jobs - member.freed_meanwhile)
        return None

    def give(self, member: Member, claim: Claim, claimed_at_s: float) -> None:
        """Begins the push of what was just claimed for a worker, or answers its poll."""
        if member.worker.is_pulling:
            # One poll, one answer; it asks again. Who holds the poll, if it is not this master, was told by the claim.
            member.polls_until_s = 0.0
            if claim.is_ours_to_tell:
                self._answer_poll(member.worker.id, claim)
            return
        member.pushes += 1
        member.breaker.begin_call()
        # A context of its own: claims come along with requests of others.
        push = asyncio.create_task(
            self._push(member, claim, claimed_at_s),
            name=f"push to {member.worker.id}",
            context=contextvars.Context(),
        )
        self._pushes.add(push)
        push.add_done_callback(self._pushes.discard)

    def _answer_poll(self, worker_id: str, claim: Claim) -> None:
        if self._is_trusted():
            self._desk.tell(worker_id, reply_of(self._leadership.number, claim))
        else:
            # This process may have stood still: what the store says by now counts.
            self._desk.look(worker_id)

    async def _push(self, member: Member, claim: Claim, claimed_at_s: float) -> None:
        try:
            if self._tracing is None:
                await self._offer(member, claim, claimed_at_s)
            else:
                await self._traced_offer(self._tracing, member, claim, claimed_at_s)
        except JqmasterError as exc:
            # The leases end by themselves, and the reaper finds them.
            logger.warning("offers to worker %s could not be returned: %s", member.worker.id, exc.detail)
        finally:
            member.pushes -= 1
            # A probe that was cut off has said nothing; without this nobody would ever probe again.
            member.breaker.is_probing = False
            self._wake.set()

    async def _traced_offer(
        self, tracing: Tracing, member: Member, claim: Claim, claimed_at_s: float
    ) -> None:
        jobs = ((job.job_id, job.record.name, job.record.headers) for job in claim.jobs)
        spans = tracing.begin("offer", jobs, {"jqmaster.worker.id": member.worker.id})
        result: OfferResult = Withheld()
        try:
            result = await self._offer(member, claim, claimed_at_s)
        finally:
            tracing.end(spans, type(result).__name__.lower())

    async def _offer(self, member: Member, claim: Claim, claimed_at_s: float) -> OfferResult:
        """Offers until there is an answer or the offer is over: a lost answer may hide a started job, and only the
        same token to the same worker is harmless then. Returns what came of the last part."""

        async def push(part: Claim) -> PushResult:
            return await self._client.push(member.worker, self._leadership.number, part)

        offers = Offers(
            claim,
            push,
            member.breaker,
            self._clock,
            worker_id=member.worker.id,
            over_at_s=claimed_at_s + self._claims.offer_s,
            may_push=self._is_trusted,
            is_stopping=lambda: self._is_stopping,
        )
        result: OfferResult = Withheld()
        async with contextlib.aclosing(offers.results()) as results:
            async for part, result in results:
                elapsed_ms = round((self._clock.monotonic_s() - claimed_at_s) * 1000)
                await self._conclude(member, part, result, claim.now_ms + elapsed_ms)
        return result

    async def _conclude(self, member: Member, claim: Claim, result: OfferResult, now_ms: int) -> None:
        now_s = self._clock.monotonic_s()
        member.is_prompt = isinstance(result, Delivered | Refused | PutOff)
        match result:
            case Delivered(rejections=rejections):
                member.breaker.succeeded()
                # `duplicate`: an earlier run of the job does not end there. The claim is left to its lease, as a pause for
                # this job: returned now, it would come back to the same worker at once.
                refused = {r.job_id: r for r in rejections if r.reason != "duplicate"}
                for rejection in refused.values():
                    self._heed(member, rejection.reason, rejection.retry_after_s, claim, rejection.job_id)
                returned = [(j.job_id, j.token) for j in claim.jobs if j.job_id in refused]
            case NotDelivered(why=why, retry_after_s=retry_after_s):
                if retry_after_s is not None:
                    # It lives, and says when it will take more.
                    member.breaker.succeeded()
                    member.pause(now_s, retry_after_s)
                else:
                    member.breaker.failed(now_s, why)
                logger.warning("push to worker %s: not delivered (%s)", member.worker.id, why)
                returned = [(j.job_id, j.token) for j in claim.jobs]
            case Refused(why=why):
                # It lives, and reads what it is sent.
                member.breaker.succeeded()
                await self._settle_alone(member, claim, "failure", why, now_ms)
                return
            case PutOff(why=why):
                await self._settle_alone(member, claim, "deferred", why, now_ms)
                return
            case Withheld():
                returned = [(j.job_id, j.token) for j in claim.jobs]
            case MaybeDelivered():
                return
        if returned:
            if not await self._leases.return_offers(self._leadership.epoch, member.worker.id, returned):
                self._on_stale()
            self._fleet.freed(member.worker.id, len(returned))
            self._became_ready()

    async def _settle_alone(
        self, member: Member, claim: Claim, ending: Literal["failure", "deferred"], why: str, now_ms: int
    ) -> None:
        """The worker's answer to the push of one job is its word on that attempt."""
        (job,) = claim.jobs
        worker_id = member.worker.id
        logger.warning("worker %s did not take job %s, pushed alone: %s", worker_id, job.job_id, why)
        outcome = Outcome(
            job.job_id,
            job.token,
            ending,
            message=f"the worker did not take the job when it was pushed alone: {why}",
            retry_after_s=PUT_OFF_S if ending == "deferred" else None,
            finished_at=iso_ms(now_ms),
        )
        await self._report(worker_id, [outcome])

    def _heed(
        self, member: Member, reason: str, retry_after_s: float | None, claim: Claim, job_id: str
    ) -> None:
        match reason:
            case "unknown_name":
                name = next((j.record.name for j in claim.jobs if j.job_id == job_id), None)
                if name is not None:
                    member.unknown_names |= {name}
            case _:
                # Also a stale epoch: whether that is so the store says when the offer is returned. A worker's word
                # alone deposes nobody.
                member.pause(self._clock.monotonic_s(), retry_after_s or 0.0)


def _share(some: Collection[str], others: Collection[str]) -> bool:
    return any(name in others for name in some)
