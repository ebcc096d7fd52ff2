"""The leader's copy of the registered workers, at most a second old. This copy decides which workers may take jobs
now."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from jqmaster.clock import Clock
from jqmaster.domain.matching.requirement import SEPARATOR, name_of, queues_for
from jqmaster.domain.why.facts import Reachability
from jqmaster.domain.workers.assignment import Candidate
from jqmaster.domain.workers.breaker import DEFAULT_POLICY, Breaker, BreakerPolicy
from jqmaster.domain.workers.worker import Worker
from jqmaster.live_value import LiveValue

# The shortest pause after a refusal, even if the worker asks for a shorter one. Offering again at once would only load
# the store.
SHORTEST_PAUSE_S: Final = 0.2
# The longest pause after refusals, unless the worker requests a longer pause. The pause doubles with each refusal in a
# row.
LONGEST_OWN_PAUSE_S: Final = 2.0
# Maximum number of pushes under way to one worker. More pushes would only be smaller ones.
MAX_PUSHES: Final = 2
# Marks the names of a worker that delivers to a target. Such a worker gets no callbacks of other workers' jobs. So a
# set of names may be exhausted for it and not for ordinary workers.
_OF_TARGET: Final = (SEPARATOR,)
# Maximum number of names that workers leave to others at once. Each name counts once for each worker. If jobs time out
# on more workers, the workers are hardly the cause.
MAX_LEFT: Final = 32
# A pulling worker with a free slot is expected to poll again within this time.
BETWEEN_POLLS_S: Final = 1.0


@dataclass(slots=True)
class Member:
    """One worker.

    * `busy`: the number of taken slots. It is exact after each claim, and an estimate otherwise.
    * `pushes`: the number of pushes under way.
    * `claims`: the number of claims under way, at most one.
    """

    worker: Worker
    busy: int
    breaker: Breaker = field(default_factory=Breaker)
    paused_until_s: float = 0.0
    # The number of refusals in a row that asked for too short a pause.
    refusals: int = 0
    pushes: int = 0
    # True: the worker answered the last push in time, so it may get two pushes at once.
    is_prompt: bool = False
    claims: int = 0
    freed_meanwhile: int = 0
    # When the current poll of a pulling worker ends.
    polls_until_s: float = 0.0
    unknown_names: frozenset[str] = frozenset()
    # Queues of jobs that require only labels of this worker. Empty for a worker that delivers to a target.
    queues: tuple[str, ...] = ()
    # Names and queues that this worker leaves for now to other workers that have free slots.
    left_to_others: frozenset[str] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names for claims: the names that the worker runs, and the queues whose labels it has."""
        names = self.worker.spec.names + self.queues if self.queues else self.worker.spec.names
        if not self.unknown_names and not self.left_to_others:
            return names
        return tuple(
            name
            for name in names
            if name_of(name) not in self.unknown_names and name not in self.left_to_others
        )

    def begin_claim(self) -> None:
        self.claims += 1
        self.freed_meanwhile = 0

    def end_claim(self, busy: int | None = None) -> None:
        """End a claim after which `busy` slots are in use. The claim may have missed slots that were freed while it was
        in flight. One needless claim is better than an empty slot."""
        self.claims -= 1
        if busy is not None:
            self.busy = max(0, busy - self.freed_meanwhile)

    def can_receive_jobs(self, now_s: float) -> bool:
        """Return whether jobs can reach the worker now; see `Worker.can_receive_jobs`."""
        return self.worker.spec.url is not None or self.polls_until_s > now_s

    def pause(self, now_s: float, seconds: float) -> None:
        """Make the worker no offers for this long. An earlier pause that lasts longer stays."""
        # Count only the first refusal of a pause. A later refusal belongs to another job of the same answer, or to a
        # push that was already under way.
        if now_s >= self.paused_until_s:
            least_s = min(LONGEST_OWN_PAUSE_S, SHORTEST_PAUSE_S * 2 ** min(self.refusals, 10))
            if seconds < least_s:
                self.refusals += 1
                seconds = least_s
        self.paused_until_s = max(self.paused_until_s, now_s + seconds)

    def answered(self) -> None:
        """Note that the worker can be reached."""
        if self.breaker.failures:
            self.breaker.succeeded()

    def took_jobs(self) -> None:
        """Note that the worker accepted jobs, so that its next refusal counts as the first in a row."""
        self.refusals = 0


class Fleet:
    """The leader's copy of the registered workers. No method waits for the store."""

    def __init__(
        self,
        clock: Clock,
        *,
        stale_ms: LiveValue[int],
        breaker: LiveValue[BreakerPolicy] | None = None,
        master_id: str = "",
    ) -> None:
        self._clock = clock
        self._stale_ms = stale_ms
        self._breaker = breaker or LiveValue(DEFAULT_POLICY)
        self._master_id = master_id
        self._members: dict[str, Member] = {}
        # Workers in the process of this master. They get only jobs for which no other worker has room. There is at most
        # one such worker, except for a moment after it has registered again.
        self._companions: list[Member] = []
        # By worker ID and name of jobs, the oldest first: until when the worker leaves these jobs to others (see
        # `leave_ms`).
        self._left: dict[tuple[str, str], float] = {}
        self._queues: frozenset[str] = frozenset()
        # The distinct sets of names and queues of all members. None: to be computed again, because members changed.
        self._registered: set[tuple[str, ...]] | None = None
        self._read_at_s = 0.0
        self._store_time_ms = 0
        # No worker was last heard earlier than this store time.
        self._all_heard_ms = 0
        # The ID of a worker that gets no new jobs, so that it can run a suspect alone.
        self.reserved: str | None = None

    def refresh(self, workers: Iterable[Worker], store_time_ms: int, queues: Collection[str] = ()) -> None:
        """Replace this copy with the present data of the store. `queues`: the queues of jobs that require labels."""
        self._read_at_s = self._clock.monotonic_s()
        self._store_time_ms = store_time_ms
        members = {}
        for worker in workers:
            member = self._members.get(worker.id)
            if member is None:
                member = Member(worker, worker.busy, Breaker(policy=lambda: self._breaker.current))
            else:
                member.worker = worker
                if not (member.pushes or member.claims):
                    member.busy = worker.busy
            # Only a claim clears `polls_until_s`: this snapshot may predate the poll.
            if worker.polls_until_ms > store_time_ms:
                left_s = (worker.polls_until_ms - store_time_ms) / 1000
                member.polls_until_s = max(member.polls_until_s, self._read_at_s + left_s)
            if worker.spec.target:
                member.queues = _OF_TARGET
            elif queues or member.queues:
                member.queues = queues_for(worker.spec.names, worker.spec.labels, queues)
            members[worker.id] = member
        self._members = members
        self._registered = None
        self._queues = frozenset(queues)
        self._companions = [
            member
            for member in members.values()
            if self._master_id and member.worker.companion_of == self._master_id
        ]

    @property
    def is_empty(self) -> bool:
        return not self._members

    def all_heard(self, workers: int, heard_ms: int) -> bool:
        """Note that all registered workers were heard at this store time or later. `workers`: how many there are.
        Return False if some of them are silent, or if they differ from the workers known here."""
        now_ms = self._now_ms(self._clock.monotonic_s())
        if workers != len(self._members) or (workers and heard_ms < now_ms - self._stale_ms.current):
            return False
        self._all_heard_ms = heard_ms
        return True

    def add_queues(self, names: Collection[str]) -> None:
        """Add the queues among these names, which the store may not have reported yet."""
        new = {name for name in names if SEPARATOR in name and name not in self._queues}
        if new:
            self._queues |= new
            self._registered = None
            for member in self._members.values():
                spec = member.worker.spec
                if not spec.target:
                    member.queues = queues_for(spec.names, spec.labels, self._queues)

    def name_sets(self) -> set[tuple[str, ...]]:
        """Return the distinct sets of names that workers run."""
        return {member.names for member in self._members.values()}

    def is_within(self, exhausted: set[tuple[str, ...]]) -> bool:
        """Return whether `exhausted` has the set of names of every worker. Then no claim can find a job. The answer may
        be wrongly False while a worker leaves names to other workers (see `leave`)."""
        if self._registered is None:
            self._registered = {m.worker.spec.names + m.queues for m in self._members.values()}
        return self._registered <= exhausted

    def get(self, worker_id: str) -> Member | None:
        return self._members.get(worker_id)

    def forget(self, worker_id: str) -> None:
        self._members.pop(worker_id, None)
        self._registered = None

    def freed(self, worker_id: str, count: int) -> None:
        """Count `count` ended claims of this worker. An estimate is enough: the claim script counts for itself."""
        if member := self._members.get(worker_id):
            member.busy = max(0, member.busy - count)
            member.freed_meanwhile += count

    def polls(self, worker_id: str, wait_s: float) -> bool:
        """Note that a worker that pulls asks for jobs for the next `wait_s`. Return False if it is not known yet."""
        member = self._members.get(worker_id)
        if member is not None:
            member.polls_until_s = self._clock.monotonic_s() + wait_s
        return member is not None

    def fresh(self) -> list[Worker]:
        """Return the workers that have sent a heartbeat recently and are not detached."""
        now_ms = self._now_ms(self._clock.monotonic_s())
        members = self._members.values()
        return [
            m.worker
            for m in members
            if not m.worker.is_detached
            and (
                m.worker.is_fresh(now_ms, self._stale_ms.current)
                or self._all_heard_ms >= now_ms - self._stale_ms.current
            )
        ]

    def note_run_alone(self, member: Member, job_id: str) -> None:
        """Note that the worker runs this job alone and gets no other. The next refresh reads the same from the
        store."""
        member.busy = 1
        member.worker = replace(member.worker, busy=1, alone_with=job_id)

    def _now_ms(self, now_s: float) -> int:
        return self._store_time_ms + int((now_s - self._read_at_s) * 1000)

    def least_busy(self, name: str) -> Member | None:
        """Return the reserved worker if it takes jobs of this name or queue. Otherwise return the worker of that name
        or queue that runs the fewest jobs."""
        now_s = self._clock.monotonic_s()
        able = [
            m
            for m in self._members.values()
            if name in m.names
            # A busy worker may be between two polls: it polls again once it has a free slot.
            and (m.busy > 0 or m.can_receive_jobs(now_s))
            and self._is_available(m, now_s)
            and m.breaker.state(now_s) == "closed"
        ]
        return min(
            able, key=lambda m: (m.worker.id != self.reserved, m.busy + m.pushes, m.worker.id), default=None
        )

    def _is_available(self, member: Member, now_s: float) -> bool:
        worker, since_ms = member.worker, self._now_ms(now_s) - self._stale_ms.current
        return (
            not (worker.is_draining or worker.is_detached)
            and member.paused_until_s <= now_s
            # Test `open_s` first, because it is cheap and 0 for most breakers.
            and (member.breaker.open_s == 0.0 or member.breaker.admits(now_s))
            and (worker.last_seen_ms >= since_ms or self._all_heard_ms >= since_ms)
        )

    def candidates(
        self,
        exhausted: set[tuple[str, ...]],
        plenty: Mapping[tuple[str, ...], int] | None = None,
        *,
        ready: frozenset[str] = frozenset(),
    ) -> list[Candidate]:
        """Return the workers that may take jobs now.

        * `exhausted`: sets of names without further ready jobs. Workers with such a set are left out.
        * `plenty`: `Candidate.plenty` by set of names.
        * `ready`: names of jobs that become ready. If there are any, workers that run none of them are left out.
        """
        plenty = plenty or {}
        if ready:
            self.add_queues(ready)
        if self.is_within(exhausted):
            return []
        now_s = self._clock.monotonic_s()
        if self._companions:
            self._defer_to_others(now_s)
        if self._left:
            self._leave_to_others(now_s)
        return [
            Candidate(
                worker_id,
                # Offer one more job only, because a half-open breaker lets one job through.
                m.busy + 1
                if m.breaker.open_s > 0.0
                and m.breaker.is_half_open(now_s)
                and m.busy < m.worker.spec.max_jobs
                else m.worker.spec.max_jobs,
                m.busy,
                names,
                plenty.get(names, 0),
            )
            for worker_id, m in self._members.items()
            # Test this first, because most workers of a busy fleet have no room.
            if m.busy < m.worker.spec.max_jobs
            and worker_id != self.reserved
            and m.pushes < (MAX_PUSHES if m.is_prompt else 1)
            and not m.claims
            and m.can_receive_jobs(now_s)
            and self._is_available(m, now_s)
            and (names := m.names)
            and names not in exhausted
            and not (ready and ready.isdisjoint(names))
        ]

    def _defer_to_others(self, now_s: float) -> None:
        """Let the worker in this process leave names to other workers that have room for them. This applies even while
        a push to such a worker is under way. Handlers that others can run must not slow the leader down."""
        left: set[str] = set()
        for member in self._members.values():
            if member not in self._companions and self._has_room(member, now_s):
                left.update(member.names)
        for companion in self._companions:
            companion.left_to_others = frozenset(
                left.intersection(companion.worker.spec.names + companion.queues)
            )

    def leave(self, worker_id: str, name: str, for_s: float) -> None:
        """For this long, let the worker leave jobs of this name to other workers that have room for them."""
        self._left.pop((worker_id, name), None)
        self._left[worker_id, name] = self._clock.monotonic_s() + for_s
        if len(self._left) > MAX_LEFT:
            self._end_leave(next(iter(self._left)))

    def _end_leave(self, pair: tuple[str, str]) -> None:
        del self._left[pair]
        if member := self._members.get(pair[0]):
            member.left_to_others = frozenset()

    def _leave_to_others(self, now_s: float) -> None:
        """Let workers leave the names of `leave` to other workers, except to workers that leave the same names."""
        for pair in [pair for pair, until_s in self._left.items() if until_s <= now_s]:
            self._end_leave(pair)
        left: dict[str, set[str]] = {worker_id: set() for worker_id, _ in self._left}
        others = [
            m for m in self._members.values() if m.busy < m.worker.spec.max_jobs and m not in self._companions
        ]
        for worker_id, name in self._left:
            member = self._members.get(worker_id)
            for queue in member.worker.spec.names + member.queues if member else ():
                if name_of(queue) == name and any(
                    (m.worker.id, name) not in self._left and queue in m.names and self._has_room(m, now_s)
                    for m in others
                ):
                    left[worker_id].add(queue)
        for worker_id, names in left.items():
            if (member := self._members.get(worker_id)) and member not in self._companions:
                member.left_to_others = frozenset(names)

    def _has_room(self, member: Member, now_s: float) -> bool:
        """Return whether a job could go to the worker now, or once a push to it is over."""
        return (
            member.busy < member.worker.spec.max_jobs
            and (not member.worker.is_pulling or member.polls_until_s > now_s - BETWEEN_POLLS_S)
            and self._is_available(member, now_s)
        )

    def takers(self, workers: Iterable[Worker], store_time_ms: int) -> set[str]:
        """Return the names of jobs that could be claimed for any of these workers. `workers`: as just read from the
        store. This copy only adds the names of each worker, and whether pushes to it are under way or paused."""
        now_s = self._clock.monotonic_s()
        names: set[str] = set()
        for worker in workers:
            if (
                not worker.can_receive_jobs(store_time_ms)
                or worker.busy >= worker.spec.max_jobs
                or worker.is_draining
                or worker.is_detached
                or not worker.is_fresh(store_time_ms, self._stale_ms.current)
            ):
                continue
            member = self._members.get(worker.id)
            if member is None:
                names.update(worker.spec.names)
            elif not member.pushes and member.paused_until_s <= now_s and member.breaker.admits(now_s):
                names.update(member.names)
        return names

    def breaker_states(self) -> dict[str, str]:
        """Return the breaker states by worker ID. Workers that pull have no breaker, because nobody calls them."""
        now_s = self._clock.monotonic_s()
        return {
            worker_id: m.breaker.state(now_s)
            for worker_id, m in self._members.items()
            if not m.worker.is_pulling
        }

    def reach(self) -> dict[str, Reachability]:
        """Return the facts about each worker that only this leader knows."""
        now_s = self._clock.monotonic_s()
        return {
            worker_id: Reachability(
                m.breaker.state(now_s),
                max(0, round((m.paused_until_s - now_s) * 1000)),
                m.unknown_names,
                m.breaker.why,
            )
            for worker_id, m in self._members.items()
        }

    def next_change_s(self) -> float | None:
        """Return the seconds until a pause or an open breaker ends. None: there is no pause and no open breaker."""
        now_s = self._clock.monotonic_s()
        instants = [
            at_s
            for m in self._members.values()
            for at_s in (m.paused_until_s, m.breaker.open_until_s)
            if at_s > now_s
        ]
        return min(instants) - now_s if instants else None
