"""The claim protocol as a finite machine: one job, two masters, two workers, one failover that loses the last writes.

The model has what the real parts rely on: an offer travels (and may be late), a worker accepts it while it is
not over, a lease is renewed by heartbeats, the leader reclaims, a result names its claim. Time is facts about the
present claim (its offer may be over, its lease may be over, its worker may have noticed) and about the leader's lock.
A master may stand still at any point and wake in the middle of what it was doing.

Each mitigation is a switch. The reachable states are searched for violations; with all switches on there is none.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Protocol:
    """True: the mitigation is in force."""

    token_is_random: bool = True  # else a counter in the store, which a failover sets back
    epoch_is_random: bool = True  # otherwise a counter, too
    epoch_is_checked: bool = True  # leader scripts compare the epoch
    token_is_checked: bool = True  # results name their claim
    write_is_durable: bool = True  # nothing that was answered is lost in a failover
    offer_ends: bool = True  # the worker refuses an offer after not_after, and nobody reclaims before
    # a fence refuses an offer from before the store's clock was set back, however young it looks
    former_time_is_fenced: bool = True
    worker_stops_itself: bool = True  # a worker whose lease is over has stopped its job
    push_repeats_to_same_worker: bool = True  # an unanswered push goes nowhere else before the offer ends
    tokens_are_remembered: bool = True  # a worker recognizes an offer that it has already taken
    absence_is_dated: bool = (
        True  # a heartbeat proves that an offer was not taken up only if composed after it was over
    )
    trust_ends_first: bool = (
        True  # a leader believes in its lock for less than the lock's life, from sending the renewal
    )
    resign_is_compared: bool = True  # giving the lock back names the leadership that gives it back
    # leases end early for a new worker at an address only if the former process is known to have ended
    successor_proves_end: bool = True
    stop_is_told: bool = (
        True  # a run that its worker stopped by itself is named once more, so that it counts as begun
    )


class Claim(NamedTuple):
    token: int
    worker: int


class Master(NamedTuple):
    """The leader's beliefs. `mode` is awake, asleep (stopped), or dazed (woken in the middle of a step, before it looks
    at its clock)."""

    epoch: tuple[int, int]
    mode: str = "awake"


class Store(NamedTuple):
    """`job` is ready, running or done. `count` yields counters, `epoch` belongs to the newest leadership, and `lock`
    names the leadership that holds the lock."""

    job: str = "ready"
    claim: Claim | None = None
    count: int = 0  # type: ignore[assignment]  # a field takes the place of the method of tuple
    epoch: tuple[int, int] = (0, 0)
    lock: tuple[int, int] | None = None
    done_by: Claim | None = None


class Beat(NamedTuple):
    """A heartbeat under way: the claim that was current when it was composed, whether its offer had ended by then, and
    whether the heartbeat names it."""

    of: Claim
    is_later: bool
    names_it: bool


class State(NamedTuple):
    store: Store
    backup: Store | None  # the state to which a failover returns
    masters: tuple[Master | None, ...]
    offers: frozenset[tuple[Claim, bool]]  # under way; True: over
    running: frozenset[tuple[Claim, bool]]  # at workers; True: its lease is over
    accepted: frozenset[Claim]  # offers that a worker has taken
    owed: frozenset[Claim]  # those that heartbeats name
    lease_over: bool  # of the store's present claim
    offer_over: bool  # of the store's present claim
    drawn: int  # number of random tokens and nonces so far
    is_silent: bool = False  # the process that got the present claim is gone, and its heartbeats with it
    beat: Beat | None = None
    absent: bool = False  # the store considers it proven that the present claim was never taken up
    resigning: tuple[int, int] | None = None  # a farewell under way
    fault: str = ""  # what must never happen, and just did


START = State(
    Store(), None, (None, None), frozenset(), frozenset(), frozenset(), frozenset(), False, False, 0
)  # fmt: skip
MAX_DRAWN = 4


def violation(state: State) -> str | None:
    """Return a fault that must never occur, or None."""
    if state.fault:
        return state.fault
    believers = [master for master in state.masters if master is not None]
    if len(believers) == 2 and believers[0].epoch == believers[1].epoch:
        return "two leaders of one epoch"
    if sum(master.mode == "awake" for master in believers) == 2:
        return "two leaders at once"
    if len({claim.worker for claim, _ in state.running}) == 2:
        return "two executions at once"
    return None


def steps(state: State, rules: Protocol) -> Iterator[tuple[str, State]]:
    yield from _elections(state, rules)
    yield from _leaders(state, rules)
    yield from _workers(state, rules)
    yield from _heartbeats(state, rules)
    yield from _time(state, rules)
    if state.backup is not None:
        # The failover goes to a replica that lacks the last writes; the leases that it knows still count.
        lost = state.backup
        same = lost.claim == state.store.claim
        after = state._replace(
            store=lost, backup=None, lease_over=state.lease_over and same, offer_over=state.offer_over and same,
            absent=state.absent and same,
        )  # fmt: skip
        yield "failover", after


def _written(state: State, rules: Protocol, store: Store) -> State:
    """Write; unless the write is durable, one failover may undo it and everything after it."""
    if rules.write_is_durable or state.backup is not None:
        return state._replace(store=store)
    return state._replace(store=store, backup=state.store)


def _with_master(state: State, number: int, master: Master | None) -> State:
    return state._replace(masters=tuple(master if n == number else m for n, m in enumerate(state.masters)))


def _elections(state: State, rules: Protocol) -> Iterator[tuple[str, State]]:
    store = state.store
    for number, master in enumerate(state.masters):
        if master is None:
            if store.lock is None and state.drawn < MAX_DRAWN:
                # A random value distinguishes leaderships; a counter does so unless it is set back.
                epoch = (0, state.drawn + 1) if rules.epoch_is_random else (store.epoch[0] + 1, 0)
                elected = _with_master(state, number, Master(epoch))._replace(drawn=state.drawn + 1)
                yield (
                    f"master {number} is elected",
                    _written(elected, rules, store._replace(epoch=epoch, lock=epoch)),
                )
            continue
        if master.mode == "awake":
            yield f"master {number} stands still", _with_master(state, number, master._replace(mode="asleep"))
            if state.resigning is None:
                yield (
                    f"master {number} steps down",
                    _with_master(state, number, None)._replace(resigning=master.epoch),
                )
        elif master.mode == "asleep":
            yield f"master {number} wakes", _with_master(state, number, master._replace(mode="dazed"))
        elif rules.trust_ends_first:
            # The master looks at its clock: the lock may be gone, so it requests the lock again.
            yield f"master {number} sees how late it is", _with_master(state, number, None)
        else:
            yield f"master {number} goes on", _with_master(state, number, master._replace(mode="awake"))
    if state.resigning is not None:
        frees = store.lock is not None and (store.lock == state.resigning or not rules.resign_is_compared)
        after = state._replace(resigning=None)
        yield "the farewell arrives", _written(after, rules, store._replace(lock=None)) if frees else after
    if store.lock is not None:
        believes = any(m is not None and m.epoch == store.lock and m.mode == "awake" for m in state.masters)
        # The holder's own clock, counted from the sending of the renewal, ends its belief before the lock can end.
        if not (believes and rules.trust_ends_first):
            yield "the lock ends", state._replace(store=store._replace(lock=None))


def _leaders(state: State, rules: Protocol) -> Iterator[tuple[str, State]]:
    store = state.store
    for number, master in enumerate(state.masters):
        if master is None or master.mode == "asleep":
            continue
        # A woken leader finishes the step in which it was stopped, and begins no second one.
        before = state if master.mode == "awake" else _with_master(state, number, None)
        is_deposed = master.epoch != store.epoch
        if is_deposed and rules.epoch_is_checked:
            continue
        fault = "a deposed leader acted" if is_deposed else ""
        if store.job == "ready" and state.drawn < MAX_DRAWN:
            for worker in (0, 1):
                token = state.drawn + 1 if rules.token_is_random else store.count + 1
                claim = Claim(token, worker)
                after = before._replace(
                    drawn=state.drawn + 1, lease_over=False, offer_over=False, absent=False, is_silent=False,
                    offers=state.offers | {(claim, False)}, fault=fault,
                )  # fmt: skip
                taken = store._replace(
                    job="running", claim=claim, count=0 if rules.token_is_random else store.count + 1
                )
                yield f"master {number} claims for {worker}", _written(after, rules, taken)
        if store.job == "running" and _may_reclaim(state, rules):
            if state.absent and store.claim in state.accepted:
                fault = fault or "a start was taken for none"
            after = before._replace(lease_over=False, offer_over=False, absent=False, fault=fault)
            yield f"master {number} reclaims", _written(after, rules, store._replace(job="ready", claim=None))


def _may_reclaim(state: State, rules: Protocol) -> bool:
    """Return whether the lease is over, or the offer is proven not to be taken up. Without the rule that an unanswered
    push goes nowhere else, an unanswered push counts as not delivered."""
    if state.lease_over or state.absent:
        return True
    return not rules.push_repeats_to_same_worker and state.store.claim not in state.accepted


def _workers(state: State, rules: Protocol) -> Iterator[tuple[str, State]]:
    store = state.store
    for claim, is_over in state.offers:
        without = state.offers - {(claim, is_over)}
        if not (is_over and rules.offer_ends):
            started = state._replace(
                offers=without,
                running=state.running | {(claim, False)},
                accepted=state.accepted | {claim},
                owed=state.owed | {claim},
            )
            yield f"worker {claim.worker} starts", started
            if not rules.tokens_are_remembered:
                # The answer was lost, and the same offer arrives again.
                again = started._replace(fault="one claim was started twice")
                yield f"worker {claim.worker} gets the offer again and starts", again
        yield "an offer is refused or lost", state._replace(offers=without)
    for claim, is_over in state.running:
        without = state.running - {(claim, is_over)}
        is_current = store.job == "running" and store.claim is not None and (
            claim.token == store.claim.token or not rules.token_is_checked
        )  # fmt: skip
        if is_current:
            # Whatever the tokens say, this is the truth: is it the claim that the store gave out last?
            fault = "" if store.claim == claim else "a stale holder's result counted"
            done = store._replace(job="done", claim=None, done_by=claim)
            yield (
                f"worker {claim.worker} reports",
                _written(state._replace(running=without, fault=fault), rules, done),
            )
        died = state._replace(
            running=without, owed=state.owed - {claim}, is_silent=state.is_silent or claim == store.claim
        )
        yield f"worker {claim.worker} dies", died
    if store.job == "done" and state.backup is not None:
        # The answer was sent, and then comes the failover that forgets the result.
        lost = state.backup.job != "done"
        fault = "an acknowledged result was lost" if lost else ""
        yield (
            "the report is acknowledged; failover",
            state._replace(store=state.backup, backup=None, fault=fault),
        )


def _heartbeats(state: State, rules: Protocol) -> Iterator[tuple[str, State]]:
    """Handle what a heartbeat says by not naming a claim; `_time` handles the claims that are renewed."""
    claim = state.store.claim
    if claim is None:
        return
    if state.beat is None:
        if not state.is_silent:
            beat = Beat(claim, state.offer_over, claim in state.owed)
            yield "a heartbeat is composed", state._replace(beat=beat)
    else:
        # On arrival of the heartbeat, the master sees that the offer is over; only the heartbeat can say whether it was
        # over when the heartbeat was composed.
        says_absent = not state.beat.names_it and state.offer_over and state.beat.of.worker == claim.worker
        is_proof = says_absent and (
            (state.beat.is_later and state.beat.of == claim) if rules.absence_is_dated else True
        )
        yield "the heartbeat arrives", state._replace(beat=None, absent=state.absent or is_proof)


def _time(state: State, rules: Protocol) -> Iterator[tuple[str, State]]:
    claim = state.store.claim
    for offer in state.offers:
        if not offer[1]:
            # The worker's clock lags by no more than its margin, so the worker sees the end before the store does.
            yield (
                "an offer ends for its worker",
                state._replace(offers=state.offers - {offer} | {(offer[0], True)}),
            )
    if not rules.former_time_is_fenced and any(is_over for _, is_over in state.offers):
        young = frozenset((offered, False) for offered, _ in state.offers)
        yield "the store's clock is set back, and the workers hear of it", state._replace(offers=young)
    may_arrive = rules.offer_ends and (claim, False) in state.offers
    if claim is not None and not state.offer_over and not may_arrive:
        yield "the offer ends in the store", state._replace(offer_over=True)
    if claim is not None and not state.lease_over and (state.is_silent or not rules.successor_proves_end):
        # Another process registers at the address of the claim's worker, which has ended or may still live.
        is_running = any(c == claim for c, _ in state.running)
        may_start = any(c == claim for c, _ in state.offers)
        if not (rules.successor_proves_end and (is_running or may_start)):
            yield "a successor registers", state._replace(lease_over=True, offer_over=True)
    if claim is not None and state.offer_over and not state.lease_over:
        is_running = any(c == claim and not over for c, over in state.running)
        if not is_running or not rules.worker_stops_itself:
            yield "the lease ends in the store", state._replace(lease_over=True)
    for run in state.running:
        if not run[1]:
            # The worker goes by its own clock, which runs ahead of the lease by the margin.
            without = state.running - {run}
            if rules.worker_stops_itself:
                owed = state.owed if rules.stop_is_told else state.owed - {run[0]}
                yield f"worker {run[0].worker} stops itself", state._replace(running=without, owed=owed)
            else:
                yield "a lease ends unseen", state._replace(running=without | {(run[0], True)})


def canonical(state: State, rules: Protocol) -> State:
    """Return the state without details that no longer matter, and with its names renumbered: many paths lead to states
    that otherwise do not differ."""
    store, backup = state.store, state.backup
    if store.job == "done" and backup is None and not state.offers:
        # Nothing can start any more.
        return START._replace(store=Store(job="done"), running=state.running, fault=state.fault)
    known = {one.claim for one in (store, backup) if one is not None and one.claim is not None}
    beat = state.beat
    if (
        beat is not None
        and rules.absence_is_dated
        and (beat.of != store.claim or beat.names_it or not beat.is_later)
    ):
        beat = None  # it will prove nothing
    resigning = state.resigning
    locks = {one.lock for one in (store, backup) if one is not None}
    if resigning is not None and rules.resign_is_compared and resigning not in locks:
        resigning = None
    state = state._replace(
        accepted=state.accepted & known, owed=state.owed & known, beat=beat, resigning=resigning
    )
    if rules.token_is_random:
        state = _renumbered(state)
    return state


def _renumbered(state: State) -> State:
    claims = {claim for claim, _ in (*state.offers, *state.running)} | state.accepted
    for one in (state.store, state.backup):
        if one is not None:
            claims |= {claim for claim in (one.claim, one.done_by) if claim is not None}
    if state.beat is not None:
        claims.add(state.beat.of)
    names = {claim: Claim(n, claim.worker) for n, claim in enumerate(sorted(claims), 1)}
    if all(old == new for old, new in names.items()):
        return state

    def of(store: Store) -> Store:
        return store._replace(
            claim=store.claim and names[store.claim], done_by=store.done_by and names[store.done_by], count=0
        )

    return state._replace(
        store=of(state.store), backup=state.backup and of(state.backup),
        offers=frozenset((names[c], over) for c, over in state.offers),
        running=frozenset((names[c], over) for c, over in state.running),
        accepted=frozenset(names[c] for c in state.accepted), owed=frozenset(names[c] for c in state.owed),
        beat=state.beat and state.beat._replace(of=names[state.beat.of]),
    )  # fmt: skip


def search(rules: Protocol, *, until: str = "", limit: int = 500_000) -> tuple[dict[str, list[str]], int]:
    """Return the shortest trace to each kind of violation, and the number of states. A violating state ends its trace;
    the violation `until` ends the search."""
    came_from: dict[State, tuple[State, str] | None] = {START: None}
    queue = deque([START])
    found: dict[str, list[str]] = {}
    while queue:
        state = queue.popleft()
        kind = violation(state)
        if kind is not None:
            found.setdefault(kind, _trace(state, came_from))
            if kind == until:
                break
            continue
        for step, after in steps(state, rules):
            after = canonical(after, rules)
            if after not in came_from:
                came_from[after] = (state, step)
                queue.append(after)
        assert len(came_from) < limit, "the model is larger than it was meant to be"
    return found, len(came_from)


def _trace(state: State, came_from: dict[State, tuple[State, str] | None]) -> list[str]:
    trace = []
    while (before := came_from[state]) is not None:
        state, step = before
        trace.append(step)
    return trace[::-1]
