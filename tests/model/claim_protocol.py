"""The claim protocol as a finite machine: one job, two masters, two workers, one failover that loses the last writes.

What is modelled is what the real parts rely on: an offer travels (and may be late), a worker accepts it while it is
not over, a lease is renewed by heartbeats, the leader reclaims, a result names its claim. Time is three facts about
the present claim: its offer may be over, its lease may be over, its worker may have noticed.

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
    epoch_is_random: bool = True  # else a counter, too
    epoch_is_checked: bool = True  # leader scripts compare the epoch
    token_is_checked: bool = True  # results name their claim
    write_is_durable: bool = True  # nothing that was answered is lost in a failover
    offer_ends: bool = True  # the worker refuses an offer after not_after, and nobody reclaims before
    worker_stops_itself: bool = True  # a worker whose lease is over has stopped its job
    push_repeats_to_same_worker: bool = True  # an unanswered push goes nowhere else before the offer is over


class Claim(NamedTuple):
    token: int
    worker: int


class Store(NamedTuple):
    """`job`: ready, running or done. `count` gives counters; `epoch` is that of the newest leadership."""

    job: str = "ready"
    claim: Claim | None = None
    count: int = 0
    epoch: tuple[int, int] = (0, 0)
    done_by: Claim | None = None


class State(NamedTuple):
    store: Store
    backup: Store | None  # what a failover falls back to
    masters: tuple[tuple[int, int] | None, ...]  # the epoch that each one believes to hold
    offers: frozenset[tuple[Claim, bool]]  # under way; True: over
    running: frozenset[tuple[Claim, bool]]  # at workers; True: its lease is over
    accepted: frozenset[Claim]  # offers of which a worker knows that it took them
    lease_over: bool  # of the store's present claim
    offer_over: bool  # of the store's present claim
    drawn: int  # random tokens and nonces drawn so far
    stale_done: bool
    old_leader_acted: bool
    acknowledged: bool


START = State(
    Store(), None, (None, None), frozenset(), frozenset(), frozenset(), False, False, 0, False, False, False
)
MAX_DRAWN = 5


def violation(state: State) -> str | None:
    """What must never be."""
    holders = [epoch for epoch in state.masters if epoch is not None]
    if len(holders) == 2 and holders[0] == holders[1]:
        return "two leaders of one epoch"
    if len({claim.worker for claim, _ in state.running}) == 2:
        return "two executions at once"
    if state.old_leader_acted:
        return "a deposed leader acted"
    if state.stale_done:
        return "a stale holder's result counted"
    if state.acknowledged and state.store.job != "done":
        return "an acknowledged result was lost"
    return None


def steps(state: State, rules: Protocol) -> Iterator[tuple[str, State]]:
    yield from _leaders(state, rules)
    yield from _workers(state, rules)
    yield from _time(state, rules)
    if state.backup is not None:
        # A failover to a replica that lacks the last writes; the leases that it knows are still measured.
        lost = state.backup
        same = lost.claim == state.store.claim
        yield "failover", state._replace(
            store=lost, backup=None, lease_over=state.lease_over if same else False,
            offer_over=state.offer_over if same else False,
        )  # fmt: skip


def _written(state: State, rules: Protocol, store: Store) -> State:
    """A write; unless it is durable, one failover may undo it and what comes after."""
    if rules.write_is_durable or state.backup is not None:
        return state._replace(store=store)
    return state._replace(store=store, backup=state.store)


def _leaders(state: State, rules: Protocol) -> Iterator[tuple[str, State]]:
    store = state.store
    for master, epoch in enumerate(state.masters):
        if epoch is None and state.drawn < MAX_DRAWN:
            nonce = state.drawn + 1 if rules.epoch_is_random else 0
            new = (store.epoch[0] + 1, nonce)
            masters = tuple(new if m == master else e for m, e in enumerate(state.masters))
            yield (
                f"master {master} is elected",
                _written(
                    state._replace(masters=masters, drawn=state.drawn + 1), rules, store._replace(epoch=new)
                ),
            )
        if epoch is None:
            continue
        leads = epoch == store.epoch or not rules.epoch_is_checked
        if leads and store.job == "ready" and state.drawn < MAX_DRAWN:
            for worker in (0, 1):
                number = state.drawn + 1 if rules.token_is_random else store.count + 1
                claim = Claim(number, worker)
                after = state._replace(
                    drawn=state.drawn + 1, lease_over=False, offer_over=False,
                    old_leader_acted=epoch != store.epoch, offers=state.offers | {(claim, False)},
                )  # fmt: skip
                taken = store._replace(job="running", claim=claim, count=store.count + 1)
                yield f"master {master} claims for {worker}", _written(after, rules, taken)
        if leads and store.job == "running" and _may_reclaim(state, rules):
            back = store._replace(job="ready", claim=None)
            after = state._replace(lease_over=False, offer_over=False, old_leader_acted=epoch != store.epoch)
            yield f"master {master} reclaims", _written(after, rules, back)


def _may_reclaim(state: State, rules: Protocol) -> bool:
    """The lease is over; or the offer is, and its worker, which lives, does not have it. Without the rule that an
    unanswered push goes nowhere else, a push without an answer counts as one that did not arrive."""
    claim = state.store.claim
    assert claim is not None
    was_not_taken = claim not in state.accepted
    if state.lease_over:
        return True
    if not was_not_taken:
        return False
    return state.offer_over or not rules.push_repeats_to_same_worker


def _workers(state: State, rules: Protocol) -> Iterator[tuple[str, State]]:
    store = state.store
    for claim, is_over in state.offers:
        without = state.offers - {(claim, is_over)}
        if not (is_over and rules.offer_ends):
            yield (
                f"worker {claim.worker} starts",
                state._replace(
                    offers=without,
                    running=state.running | {(claim, False)},
                    accepted=state.accepted | {claim},
                ),
            )
        yield "an offer is refused or lost", state._replace(offers=without)
    for claim, is_over in state.running:
        without = state.running - {(claim, is_over)}
        is_current = store.job == "running" and store.claim is not None and (
            claim.token == store.claim.token if rules.token_is_checked else True
        )  # fmt: skip
        if is_current:
            # The truth, whatever the tokens say: is this the claim that the store gave out last?
            stale = store.claim != claim
            done = store._replace(job="done", claim=None, done_by=claim)
            after = state._replace(running=without, stale_done=state.stale_done or stale)
            yield f"worker {claim.worker} reports", _written(after, rules, done)
        if store.job == "done" and store.done_by == claim and not state.acknowledged:
            yield "the report is repeated", state._replace(running=without)
        yield f"worker {claim.worker} dies", state._replace(running=without)
    if store.job == "done" and not state.acknowledged:
        yield "the report is acknowledged", state._replace(acknowledged=True)


def _time(state: State, rules: Protocol) -> Iterator[tuple[str, State]]:
    claim = state.store.claim
    for offer in state.offers:
        if not offer[1]:
            # The worker's clock is behind by no more than its margin: it knows before the store does.
            yield (
                "an offer ends for its worker",
                state._replace(offers=state.offers - {offer} | {(offer[0], True)}),
            )
    may_arrive = rules.offer_ends and (claim, False) in state.offers
    if claim is not None and not state.offer_over and not may_arrive:
        yield "the offer ends in the store", state._replace(offer_over=True)
    if claim is not None and state.offer_over and not state.lease_over:
        is_running = any(c == claim and not over for c, over in state.running)
        if not is_running or not rules.worker_stops_itself:
            yield "the lease ends in the store", state._replace(lease_over=True)
    for run in state.running:
        if not run[1]:
            # By its own clock, which runs ahead of the lease by the margin.
            without = state.running - {run}
            if rules.worker_stops_itself:
                yield f"worker {run[0].worker} stops itself", state._replace(running=without)
            else:
                yield "a lease ends unseen", state._replace(running=without | {(run[0], True)})


def search(rules: Protocol, *, until: str = "", limit: int = 500_000) -> tuple[dict[str, list[str]], int]:
    """The shortest trace to each kind of violation, and how many states there are. Violating states end a trace;
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
