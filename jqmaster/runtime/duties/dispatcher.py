"""Decide which jobs to claim for which worker, and when. `ClaimOffers` takes the claimed jobs to the worker."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from jqmaster.clock import TICK_S, Clock, WakeFlag
from jqmaster.domain.workers.assignment import MAX_DOUBLINGS, next_assignments
from jqmaster.errors import DamagedError, JqmasterError, StaleEpochError
from jqmaster.lifecycle import BackgroundLoops
from jqmaster.live_value import LiveValue
from jqmaster.runtime.duties.claim_offers import ClaimOffers
from jqmaster.runtime.duties.fleet import Fleet, Member
from jqmaster.runtime.duties.given_jobs import GivenJobs
from jqmaster.service.constraints.cache import ConstraintCache
from jqmaster.service.workers.polls import HeldPolls
from jqmaster.store.jobs.claims import Claim, ClaimStore, NotClaimed, WantedClaim
from jqmaster.store.leadership.leadership import Leadership
from jqmaster.store.link.leader_port import ReportedSlots, TravellingClaim, Trigger
from jqmaster.store.link.pages import MAX_PER_CALL
from jqmaster.store.link.wake import (
    ConstraintsChanged,
    GateClosed,
    JobsReady,
    LeftToOthers,
    PollOpened,
    QueueOpened,
    SlotsFreed,
    WakeMessage,
    WorkersChanged,
)
from jqmaster.store.operations.looks import Look
from jqmaster.store.workers.polls import PollReply
from jqmaster.store.workers.workers import WorkerStore

logger = logging.getLogger(__name__)

# How often to check for work without a message, because messages can be lost.
POLL_S: Final = 1.0
# How often to check for work while looks at the shard show whether there is work.
LOOKED_POLL_S: Final = 3.0
# How often to check for work while looks also show that there are no workers. The dispatcher then rests.
RESTING_POLL_S: Final = 60.0
# Ignore a look at the shard that is older than this.
LOOK_LIVES_S: Final = 10.0
# After this long without a claim, claim even if looks find no ready jobs: the store's counts may be wrong.
DOUBT_S: Final = 30.0
# How long the dispatcher waits, when it stops, for its claims and pushes that are under way.
FINISH_WITHIN_S: Final = 0.5

Wanted = Sequence[tuple[Member, WantedClaim]]


@dataclass(frozen=True, slots=True, eq=False)
class _PendingClaims:
    """Claims that the store has not answered yet.

    * `takers`: the workers that may get jobs in the answers to their reports.
    * `given`: the jobs that workers get in this way, by worker ID.
    """

    wanted: Wanted
    sent_at_s: float
    times_ready: int
    takers: Collection[str]
    given: dict[str, PollReply] = field(default_factory=dict)


class _StaleConstraints(Exception):  # noqa: N818 - an everyday outcome
    """The store has another edition of the constraints than this master."""


class Dispatcher:
    """A duty of one leadership: claims jobs for workers.

    * `is_trusted`: whether the leadership still holds.
    * `on_stale`: called when the store has a newer leader.
    * `notify`: gets ConstraintsChanged when the store has another edition. Gets GateClosed when a gate was closed that
      will open at a known time.
    """

    def __init__(
        self,
        leadership: Leadership,
        offers: ClaimOffers,
        *,
        claims: ClaimStore,
        workers: WorkerStore,
        constraints: ConstraintCache,
        fleet: Fleet,
        held_polls: HeldPolls,
        clock: Clock,
        max_push_jobs: LiveValue[int],
        on_stale: Callable[[], None],
        notify: Callable[[WakeMessage], None],
        is_trusted: Callable[[], bool] = lambda: True,
    ) -> None:
        self._leadership = leadership
        self._offers = offers
        self._claims = claims
        self._workers = workers
        self._fleet = fleet
        self._held_polls = held_polls
        self._clock = clock
        self._max_push_jobs = max_push_jobs
        self._constraints = constraints
        self._on_stale = on_stale
        self._notify = notify
        self._is_trusted = is_trusted
        self._wake = WakeFlag()
        self._wants_refresh = True
        self._refreshed_at_s = 0.0
        self._poll_s = POLL_S
        # The time of the last look, if that look found no ready jobs.
        self._idle_at_s = float("-inf")
        # Sets of names for which the last claim left no ready jobs.
        self._exhausted: set[tuple[str, ...]] = set()
        self._times_ready = 0
        # For each set of names that is not exhausted, the number of claims in a row that left jobs behind.
        self._plenty: dict[tuple[str, ...], int] = {}
        self._given = GivenJobs(
            fleet,
            clock,
            lambda member, claim, at_s, is_in_doubt: self.give(member, claim, at_s, is_in_doubt=is_in_doubt),
        )
        self._loops = BackgroundLoops("dispatcher", is_vital=True)
        # Claims under way that are sent with the writes of other callers.
        self._travelling: set[_PendingClaims] = set()
        self._arrived = WakeFlag()
        self._is_stopping = False
        self._last_round_s = self.claimed_at_s = clock.monotonic_s()
        self._is_resting = False

    async def start(self) -> None:
        self._loops.spawn("rounds", self._run)

    async def stop(self) -> None:
        """Stop claiming and pushing. Calls under way get a moment to finish, so that their answers are not lost."""
        ends_at_s = self._clock.monotonic_s() + FINISH_WITHIN_S
        self._is_stopping = True
        self._offers.stop_repeats()
        self._wake.set()
        # Do not cancel claims that are under way: their jobs would be lost until the leases expire.
        await self._loops.ended(FINISH_WITHIN_S)
        await self._loops.stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, ends_at_s - self._clock.monotonic_s())):
                while self._travelling:
                    self._arrived.clear()
                    await self._arrived.wait()
        await self._offers.stop(max(0.0, ends_at_s - self._clock.monotonic_s()))

    def wake(
        self, message: JobsReady | QueueOpened | SlotsFreed | LeftToOthers | PollOpened | WorkersChanged
    ) -> None:
        """Claim again, because there may be more jobs, or more room for them."""
        match message:
            case SlotsFreed(worker_id, count):
                self._fleet.freed(worker_id, count)
            case LeftToOthers(worker_id, for_ms, name):
                self._fleet.leave(worker_id, name, for_ms / 1000)
            case PollOpened(worker_id, wait_ms):
                if not self._fleet.polls(worker_id, wait_ms / 1000):
                    self._wants_refresh = True
            case WorkersChanged():
                self._wants_refresh = True
            case QueueOpened(queue):
                self._fleet.add_queues([queue])
                self._became_ready([queue])
            case JobsReady():
                self._became_ready()
        self._wake_if_useful()

    def take_look(self, look: Look) -> None:
        """Use the result of a look at the shard. While jobs are ready, or workers may have changed, poll every
        `POLL_S`, because messages may have been lost. Otherwise poll less often, and claim nothing."""
        now_s = self._clock.monotonic_s()
        self._poll_s = LOOKED_POLL_S if look.workers or not self._fleet.is_empty else RESTING_POLL_S
        self._idle_at_s = float("-inf") if look.is_ready else now_s
        is_known = self._fleet.all_heard(look.workers, look.now_ms - look.silent_ms)
        if (look.is_ready or not is_known) and now_s - self._refreshed_at_s >= POLL_S - TICK_S:
            self._wants_refresh = True
            self._wake.set()

    def be_blind(self) -> None:
        """Poll every `POLL_S`, because the last look failed or gets no answer."""
        self._poll_s = POLL_S
        self._idle_at_s = float("-inf")
        if self._clock.monotonic_s() - self._refreshed_at_s >= POLL_S - TICK_S:
            self._wake.set()

    @property
    def last_round_s(self) -> float:
        """Return when the last round ended. While the dispatcher rests, return the present time."""
        return self._clock.monotonic_s() if self._is_resting else self._last_round_s

    @property
    def is_idle(self) -> bool:
        """Return whether the last look found no ready jobs."""
        return self._clock.monotonic_s() - self._idle_at_s < LOOK_LIVES_S

    def _wake_if_useful(self) -> None:
        """Begin a round if the names of some worker may have ready jobs. Without this check, each lone job would cost
        three rounds that claim nothing."""
        if self._wants_refresh or not self._fleet.is_within(self._exhausted):
            self._wake.set()

    def _became_ready(self, names: Iterable[str] = ()) -> None:
        """Note that jobs of these names, or of any name, became ready."""
        self._times_ready += 1
        if ready := frozenset(names):
            self._exhausted = {others for others in self._exhausted if ready.isdisjoint(others)}
        else:
            self._exhausted.clear()

    # --- claims that travel with a write (see LeaderPort)

    def claim_with(self, trigger: Trigger, names: Collection[str] = ()) -> TravellingClaim | None:
        """See `LeaderPort.claim_with`."""
        if self._is_stopping or not self._is_trusted():
            return None
        wanted: Wanted
        # Workers that receive the claimed jobs in the answer to their report.
        takers: set[str] = set()
        match trigger:
            case JobsReady():
                self._became_ready(names)
                wanted = self._wanted_claims(names)
            case _:
                for one in trigger:
                    if one.newest_fence is not None:
                        if one.has_answer:
                            takers.add(one.worker_id)
                        if one.worker_id in self._given.silent:
                            self._given.heard(one.worker_id, one.newest_fence)
                # Check this first, because it is the usual case after a lone job: nothing is ready, so no claim is
                # needed.
                wanted = () if self._fleet.is_within(self._exhausted) else self._claims_of_freed(trigger)
        return self._travelling_claim(wanted, takers) if wanted else None

    def _claims_of_freed(self, freed: Sequence[ReportedSlots]) -> Wanted:
        """Return the claims to make once these slots are free. If there are no claims, do not count the slots as free
        yet: a later message reports them."""
        busy = [(m, m.busy) for one in freed if (m := self._fleet.get(one.worker_id)) is not None]
        if not busy:
            return ()
        for one in freed:
            self._fleet.freed(one.worker_id, one.count)
        wanted = self._wanted_claims()
        if not wanted:
            for member, slots in busy:
                member.busy = slots
        return wanted

    def _travelling_claim(self, wanted: Wanted, takers: Collection[str]) -> TravellingClaim:
        prepared = self._claims.prepare_claims(
            self._leadership.epoch,
            [claim for _, claim in wanted],
            self._constraints.current.constraint_set.edition,
        )
        pending = self._begin_claims(wanted, takers)
        self._travelling.add(pending)

        def on_replies(replies: Sequence[tuple[str, list[Any]] | Exception]) -> None:
            try:
                claims = self._claims.read_claims(prepared, replies)
            except Exception as exc:  # invalid reply: the leases of the claimed jobs will expire
                logger.error("cannot read claims: %s", exc)
                on_failure()
                return
            try:
                self._take_claims(pending, claims)
            except StaleEpochError:
                self._on_stale()
            except _StaleConstraints:
                self._notify(ConstraintsChanged())
            except Exception as exc:  # the write that carried the claims must not fail
                logger.warning("cannot dispatch: %s", exc)
            finally:
                end()

        def on_failure() -> None:
            self._end_claims_unanswered(pending)
            end()

        def end() -> None:
            self._travelling.discard(pending)
            self._arrived.set()
            self._wake_if_useful()

        def on_overtaken() -> None:
            # The claims ran before the write. So they saw neither the jobs of the write nor the slots that it freed.
            # Claim again.
            self._became_ready()
            self._wants_refresh = True
            self._wake.set()

        return TravellingClaim(
            prepared.calls,
            on_replies,
            on_failure,
            pending.given,
            on_no_answer=lambda: self._given.unanswered(pending.given),
            on_overtaken=on_overtaken,
        )

    # --- claims of the dispatcher's own rounds

    async def _run(self) -> None:
        while not self._is_stopping:
            self._wake.clear()
            try:
                await self._round()
                self._last_round_s = self._clock.monotonic_s()
            except StaleEpochError:
                self._on_stale()
                return
            except JqmasterError as exc:
                logger.warning("cannot dispatch: %s", exc.detail)
                await self._clock.sleep(0.2)
                continue
            poll_in_s = max(0.0, self._refreshed_at_s + self._poll_s - self._clock.monotonic_s())
            wait_s = min(poll_in_s, self._fleet.next_change_s() or self._poll_s)
            self._is_resting = wait_s > LOOKED_POLL_S
            # Do not call `wait_for_event` here: each lone job waits at this point, and fewer calls are cheaper.
            try:
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
            except TimeoutError:
                pass
            if self._is_resting:
                self._is_resting, self._last_round_s = False, self._clock.monotonic_s()

    async def _round(self) -> None:
        now_s = self._clock.monotonic_s()
        if not self._wants_refresh and self.is_idle and self._fleet.is_empty:
            # Skip reading the fleet: if there were workers, the last look would have found them.
            self._refreshed_at_s = now_s
        if self._wants_refresh or now_s - self._refreshed_at_s >= POLL_S:
            self._wants_refresh = False
            seen = await self._workers.fleet()
            self._fleet.refresh(seen.workers, seen.now_ms, seen.queues)
            self._refreshed_at_s = self._clock.monotonic_s()
            if not self.is_idle or self._refreshed_at_s - self.claimed_at_s >= DOUBT_S:
                self._became_ready()  # a message may have been lost, so assume ready jobs
            if self._given.silent:
                self._given.push_overdue()
            # Forget sets of names that no worker runs any more.
            self._plenty = {n: self._plenty[n] for n in self._fleet.name_sets() if n in self._plenty}
        while not self._is_stopping and (wanted := self._wanted_claims()):
            try:
                await self._claim(wanted)
            except _StaleConstraints:
                # Stop the round. The constraint keeper notifies the dispatcher when jobs may be claimed again.
                self._notify(ConstraintsChanged())
                return
            self._last_round_s = self._clock.monotonic_s()
            if self._wants_refresh or self._last_round_s - self._refreshed_at_s >= POLL_S:
                # A backlog may keep this loop busy for long. Stop the loop, so that the next round refreshes the fleet
                # and notices workers that came, left or fell silent.
                self._wake.set()
                return

    def _wanted_claims(self, names: Iterable[str] = ()) -> list[tuple[Member, WantedClaim]]:
        """Return the claims to make now, in one round trip. `names`: if given, only for workers that run some of these
        names."""
        candidates = self._fleet.candidates(self._exhausted, self._plenty, ready=frozenset(names))
        if not candidates:
            return []
        # Limit these claims together to the jobs of one script: the store executes scripts that arrive together without
        # a pause.
        assignments = next_assignments(
            candidates,
            max_jobs_per_push=self._max_push_jobs.current,
            max_jobs=MAX_PER_CALL,
        )
        wanted = []
        for assignment in assignments:
            worker_id = assignment.worker_id
            member = self._fleet.get(worker_id)
            assert member
            is_held = member.worker.spec.url is None and self._held_polls.holds(worker_id)
            one = WantedClaim(worker_id, member.names, assignment.limit, is_held)
            wanted.append((member, one))
        return wanted

    async def _claim(self, wanted: Wanted) -> None:
        """Make these claims. Raise what `_take_claims` and the store raise."""
        pending = self._begin_claims(wanted)
        try:
            claims = await self._claims.claim_each(
                self._leadership.epoch,
                [claim for _, claim in wanted],
                self._constraints.current.constraint_set.edition,
            )
        except BaseException:
            self._end_claims_unanswered(pending)
            raise
        self._take_claims(pending, claims)

    # --- answers to claims

    def _begin_claims(self, wanted: Wanted, takers: Collection[str] = ()) -> _PendingClaims:
        for member, _ in wanted:
            member.begin_claim()
        return _PendingClaims(wanted, self._clock.monotonic_s(), self._times_ready, takers)

    def _end_claims_unanswered(self, pending: _PendingClaims) -> None:
        for member, _ in pending.wanted:
            member.end_claim()

    def _take_claims(self, pending: _PendingClaims, claims: Sequence[Claim | NotClaimed | Exception]) -> None:
        """Offer each claim to its worker. If the store refused a claim, raise its error after the other claims are
        offered."""
        # Any answer counts, because it shows that the store was reached.
        self.claimed_at_s = self._clock.monotonic_s()
        failed: Exception | None = None
        left_behind: dict[tuple[str, ...], bool] = {}
        for (member, _), claim in zip(pending.wanted, claims, strict=True):
            member.end_claim(claim.busy if isinstance(claim, Claim) else None)
        for (member, one), claim in zip(pending.wanted, claims, strict=True):
            names = tuple(one.names)
            match claim:
                case DamagedError(detail=detail):
                    # The error concerns only workers that run these names, so let the other claims proceed.
                    logger.error("cannot claim for worker %s: %s", one.worker_id, detail)
                    self._exhausted.add(names)
                case Exception():
                    failed = failed or claim
                case NotClaimed():
                    failed = failed or self._take_refusal(member, claim)
                case Claim():
                    # The claim may have missed jobs that became ready while it was in flight.
                    if claim.is_exhausted and pending.times_ready == self._times_ready:
                        self._exhausted.add(names)
                    left_behind[names] = not claim.is_exhausted
                    if claim.opens_in_ms >= 0:
                        self._notify(GateClosed())
                    if not claim.jobs:
                        continue
                    if one.worker_id in pending.takers and (reply := self._offers.reply_with(member, claim)):
                        pending.given[one.worker_id] = reply
                        self._given.note(one.worker_id, claim, pending.sent_at_s)
                    else:
                        self.give(member, claim, pending.sent_at_s)
        self._note_plenty(left_behind)
        if failed:
            raise failed

    def give(self, member: Member, claim: Claim, claimed_at_s: float, *, is_in_doubt: bool = False) -> None:
        """Offer a claim to its worker; see `ClaimOffers.begin`."""
        push = self._offers.begin(member, claim, claimed_at_s, self._became_ready, is_in_doubt=is_in_doubt)
        if push:
            # Once the push is over, the worker may get another push.
            push.add_done_callback(lambda _: self._wake_if_useful())

    def _note_plenty(self, left_behind: Mapping[tuple[str, ...], bool]) -> None:
        for names, is_plenty in left_behind.items():
            if is_plenty:
                self._plenty[names] = min(self._plenty.get(names, 0) + 1, MAX_DOUBLINGS)
            else:
                self._plenty.pop(names, None)

    def _take_refusal(self, member: Member, why: NotClaimed) -> Exception | None:
        """Handle a refused claim. Return the error to raise, or None if the refusal concerns only this worker."""
        match why:
            case NotClaimed.STALE_CONSTRAINTS:
                return _StaleConstraints()
            case NotClaimed.GONE:
                self._fleet.forget(member.worker.id)
                self._wants_refresh = True
            case NotClaimed.NO_POLL:
                member.polls_until_s = 0.0
            case NotClaimed.DAMAGED:
                logger.error(
                    "cannot claim for worker %s: one of its keys has the wrong type; `jqmaster fsck` names it",
                    member.worker.id,
                )
                # Treat this worker as full, so that it does not keep other workers of the same names from getting jobs.
                member.busy = member.worker.spec.max_jobs
            case NotClaimed.FULL:
                member.busy = max(0, member.worker.spec.max_jobs - member.freed_meanwhile)
        return None
