from dataclasses import replace

import pytest

from jqmaster.domain.ids import new_id
from jqmaster.domain.matching.requirement import name_of, queue_of
from jqmaster.domain.why.facts import Reachability
from jqmaster.domain.workers.breaker import DEFAULT_POLICY, BreakerPolicy
from jqmaster.domain.workers.worker import Worker, WorkerSpec
from jqmaster.live_value import LiveValue
from jqmaster.runtime.duties.fleet import LONGEST_OWN_PAUSE_S, MAX_LEFT, SHORTEST_PAUSE_S, Fleet
from tests.support.clock import ManualClock

NOW_MS = 1_800_000_000_000


def worker(**fields: object) -> Worker:
    spec = WorkerSpec("http://127.0.0.1:1", ("a", "b"), 4, "n", 1, {}, "1", "s" * 32)
    return replace(Worker(new_id(), spec, NOW_MS, NOW_MS, False, False, 0), **fields)  # type: ignore[arg-type]


def fleet_of(*workers: Worker) -> tuple[Fleet, ManualClock]:
    clock = ManualClock()
    fleet = Fleet(clock, stale_ms=LiveValue(5000))
    fleet.refresh(workers, NOW_MS)
    return fleet, clock


def ids(fleet: Fleet) -> set[str]:
    return {candidate.worker_id for candidate in fleet.candidates(set())}


def test_the_fleet_knows_which_workers_may_take_jobs() -> None:
    able, full = worker(), worker(busy=4)
    pulls = replace(worker(), spec=replace(able.spec, url=None))
    fleet, _ = fleet_of(
        able,
        full,
        pulls,
        worker(is_draining=True),
        worker(is_detached=True),
        worker(last_seen_ms=NOW_MS - 5001),
    )
    assert ids(fleet) == {able.id}


@pytest.mark.req("M8")
def test_one_that_pulls_takes_jobs_only_while_it_asks() -> None:
    pulls = replace(worker(), spec=replace(worker().spec, url=None))
    fleet, clock = fleet_of(pulls)
    assert (ids(fleet), fleet.least_busy("a")) == (set(), None)
    assert fleet.polls(pulls.id, 3.0)
    assert not fleet.polls(new_id(), 3.0)
    assert ids(fleet) == {pulls.id}
    # The store's answer may be older than the worker's poll.
    fleet.refresh([pulls], NOW_MS)
    assert ids(fleet) == {pulls.id}
    clock.jump(3)
    assert ids(fleet) == set()
    asking = replace(pulls, polls_until_ms=NOW_MS + 3_000)
    fleet.refresh([asking], NOW_MS)
    assert ids(fleet) == {pulls.id}
    least_busy = fleet.least_busy("a")
    assert least_busy
    assert least_busy.worker.id == pulls.id
    assert fleet.takers([asking], NOW_MS) == {"a", "b"}
    assert fleet.takers([pulls], NOW_MS) == set()
    assert fleet.breaker_states() == {}


def test_silence_counts_on_between_two_looks_at_the_store() -> None:
    one = worker(last_seen_ms=NOW_MS - 4000)
    fleet, clock = fleet_of(one)
    assert ids(fleet) == {one.id}
    clock.jump(1.1)
    assert ids(fleet) == set()


def test_a_pause_ends_and_is_the_next_change() -> None:
    one = worker()
    fleet, clock = fleet_of(one)
    member = fleet.get(one.id)
    assert member
    assert fleet.next_change_s() is None
    member.pause(clock.monotonic_s(), 3)
    member.pause(clock.monotonic_s(), 0)
    assert (ids(fleet), round(fleet.next_change_s() or 0, 6)) == (set(), 3)
    clock.jump(3)
    assert (ids(fleet), fleet.next_change_s()) == ({one.id}, None)
    member.pause(clock.monotonic_s(), 0)
    assert round(fleet.next_change_s() or 0, 6) == SHORTEST_PAUSE_S


def test_a_worker_that_refuses_again_and_again_is_asked_less_and_less_often() -> None:
    one = worker()
    fleet, clock = fleet_of(one)
    member = fleet.get(one.id)
    assert member

    def pause_s(asked_s: float = 0.0) -> float:
        now_s = clock.monotonic_s()
        # An answer refuses several jobs at a time.
        for _ in range(3):
            member.pause(now_s, asked_s)
        found_s = member.paused_until_s - now_s
        clock.jump(found_s + 0.001)
        return round(found_s, 6)

    assert [pause_s() for _ in range(6)] == [SHORTEST_PAUSE_S, 0.4, 0.8, 1.6, LONGEST_OWN_PAUSE_S, 2.0]
    # A pause that the worker asks for itself is what it gets.
    assert pause_s(7.5) == 7.5
    spent_s, refusals = 0.0, 0
    while spent_s < 60:
        spent_s, refusals = spent_s + pause_s(), refusals + 1
    assert refusals <= 60 / LONGEST_OWN_PAUSE_S + 1
    member.took_jobs()
    assert pause_s() == SHORTEST_PAUSE_S


def test_a_half_open_breaker_lets_one_job_through() -> None:
    one = worker(busy=1)
    fleet, clock = fleet_of(one)
    member = fleet.get(one.id)
    assert member
    for _ in range(5):
        member.breaker.failed(clock.monotonic_s())
    assert (ids(fleet), fleet.breaker_states()) == (set(), {one.id: "open"})
    clock.jump(1)
    (candidate,) = fleet.candidates(set())
    assert (candidate.free, fleet.breaker_states()) == (1, {one.id: "half_open"})
    member.breaker.begin_call()
    assert ids(fleet) == set()


def test_a_refresh_keeps_what_was_learned_and_drops_who_is_gone() -> None:
    one, gone = worker(), worker()
    fleet, _ = fleet_of(one, gone)
    member = fleet.get(one.id)
    assert member
    member.unknown_names = frozenset({"a"})
    fleet.refresh([replace(one, busy=3)], NOW_MS)
    assert fleet.get(one.id) is member
    assert (member.names, member.busy, fleet.get(gone.id)) == (("b",), 3, None)


def test_while_a_push_is_under_way_its_own_count_stands() -> None:
    """The store's answer may be older than the claim."""
    one = worker()
    fleet, _ = fleet_of(one)
    member = fleet.get(one.id)
    assert member
    member.pushes, member.busy = 1, 4
    fleet.refresh([one], NOW_MS)
    assert (member.busy, ids(fleet)) == (4, set())


def test_freed_slots_never_make_a_worker_emptier_than_empty() -> None:
    one = worker(busy=2)
    fleet, _ = fleet_of(one)
    fleet.freed(one.id, 5)
    fleet.freed(new_id(), 5)
    (candidate,) = fleet.candidates(set())
    assert candidate.busy == 0


def test_names_without_ready_jobs_are_passed_by() -> None:
    one = worker()
    other = replace(worker(), spec=replace(one.spec, names=("c",)))
    fleet, _ = fleet_of(one, other)
    assert {c.worker_id for c in fleet.candidates({("a", "b")})} == {other.id}


def test_the_knowledge_of_the_leader_about_each_worker_can_be_read() -> None:
    plain, troubled = worker(), worker()
    fleet, clock = fleet_of(plain, troubled)
    member = fleet.get(troubled.id)
    assert member
    member.pause(clock.monotonic_s(), 2.5)
    member.unknown_names = frozenset({"b"})
    for _ in range(DEFAULT_POLICY.failures_to_open):
        member.breaker.failed(clock.monotonic_s())
    assert fleet.reach() == {
        plain.id: Reachability(),
        troubled.id: Reachability("open", 2500, frozenset({"b"})),
    }
    clock.jump(2.5)
    assert fleet.reach()[troubled.id] == Reachability("half_open", 0, frozenset({"b"}))


def test_a_slot_freed_while_a_claim_is_under_way_is_not_forgotten_over_its_answer() -> None:
    one = worker()
    fleet, _ = fleet_of(one)
    member = fleet.get(one.id)
    assert member
    member.begin_claim()
    assert ids(fleet) == set(), "one claim at a time"
    fleet.freed(one.id, 3)
    member.end_claim(busy=4)
    (candidate,) = fleet.candidates(set())
    assert candidate.free == 3
    member.begin_claim()
    member.end_claim(busy=4)
    assert ids(fleet) == set()


def test_the_worker_that_took_the_last_push_may_get_another_beside_the_next() -> None:
    one = worker()
    fleet, _ = fleet_of(one)
    member = fleet.get(one.id)
    assert member
    member.pushes = 1
    assert ids(fleet) == set(), "nobody knows yet whether it answers"
    member.is_prompt = True
    assert ids(fleet) == {one.id}
    member.pushes = 2
    assert ids(fleet) == set()


@pytest.mark.req("D25")
def test_the_worker_inside_the_leader_gets_what_nobody_else_has_room_for() -> None:
    clock = ManualClock()
    fleet = Fleet(clock, stale_ms=LiveValue(5000), master_id="m")
    companion = worker(companion_of="m")
    both, only_a = worker(), worker()
    only_a = replace(only_a, spec=replace(only_a.spec, names=("a",)))

    def names(*others: Worker) -> dict[str, tuple[str, ...]]:
        fleet.refresh([companion, *others], NOW_MS)
        return {one.worker_id: one.names for one in fleet.candidates(set())}

    assert names() == {companion.id: ("a", "b")}
    assert names(both) == {both.id: ("a", "b")}
    assert names(only_a) == {only_a.id: ("a",), companion.id: ("b",)}
    # When the others are full, silent or draining, only the companion is left.
    assert names(replace(both, busy=4))[companion.id] == ("a", "b")
    assert names(replace(both, is_draining=True))[companion.id] == ("a", "b")
    assert names(replace(both, last_seen_ms=NOW_MS - 5_001))[companion.id] == ("a", "b")
    # A push under way does not count as a lack of room.
    fleet.refresh([companion, both], NOW_MS)
    member = fleet.get(both.id)
    assert member
    member.pushes = 1
    assert ids(fleet) == set()
    member.pushes = 0
    # The companion of another master is an ordinary worker.
    other = worker(companion_of="other")
    assert set(names(other)) == {other.id}


@pytest.mark.req("D25")
def test_a_worker_that_pulls_comes_before_the_companion_also_between_its_polls() -> None:
    clock = ManualClock()
    fleet = Fleet(clock, stale_ms=LiveValue(5000), master_id="m")
    companion = worker(companion_of="m")
    pulls = replace(worker(), spec=replace(worker().spec, url=None))
    fleet.refresh([companion, pulls], NOW_MS)
    assert ids(fleet) == {companion.id}, "it never asked"
    fleet.polls(pulls.id, 3.0)
    assert ids(fleet) == {pulls.id}
    clock.jump(3.5)
    assert ids(fleet) == set()
    clock.jump(1)
    assert ids(fleet) == {companion.id}


def test_members_keep_the_thresholds_that_are_set() -> None:
    policy = LiveValue(BreakerPolicy(2, 3.0, 4.0))
    fleet = Fleet(ManualClock(), stale_ms=LiveValue(5000), breaker=policy)
    one = worker()
    fleet.refresh([one], NOW_MS)
    member = fleet.get(one.id)
    assert member
    member.breaker.failed(0.0)
    policy.current = BreakerPolicy(2, 9.0, 9.0)
    member.breaker.failed(0.0)
    assert member.breaker.open_s == 9.0


def names_of(fleet: Fleet) -> dict[str, tuple[str, ...]]:
    return {one.worker_id: one.names for one in fleet.candidates(set())}


@pytest.mark.req("J7")
def test_a_worker_leaves_a_name_to_others_only_while_they_have_room() -> None:
    stuck, other = worker(), worker()
    fleet, clock = fleet_of(stuck, other)
    fleet.leave(stuck.id, "a", 15.0)
    assert names_of(fleet) == {stuck.id: ("b",), other.id: ("a", "b")}
    for gone in ({"busy": 4}, {"is_draining": True}, {"is_detached": True}, {"last_seen_ms": NOW_MS - 5_001}):
        fleet.refresh([stuck, replace(other, **gone)], NOW_MS)
        assert names_of(fleet) == {stuck.id: ("a", "b")}, gone
    only_b = replace(other, spec=replace(other.spec, names=("b",)))
    fleet.refresh([stuck, only_b], NOW_MS)
    assert names_of(fleet)[stuck.id] == ("a", "b")
    fleet.refresh([stuck, other], NOW_MS)
    assert names_of(fleet)[stuck.id] == ("b",)
    clock.jump(15.0)
    fleet.refresh([stuck, other], NOW_MS)
    assert names_of(fleet)[stuck.id] == ("a", "b")


@pytest.mark.req("J7")
def test_workers_that_leave_the_same_name_do_not_leave_it_to_each_other() -> None:
    one, two, third = worker(), worker(), worker()
    fleet, _ = fleet_of(one, two)
    fleet.leave(one.id, "a", 15.0)
    fleet.leave(two.id, "a", 15.0)
    fleet.leave("unknown", "a", 15.0)
    assert names_of(fleet) == {one.id: ("a", "b"), two.id: ("a", "b")}
    fleet.refresh([one, two, third], NOW_MS)
    assert names_of(fleet) == {one.id: ("b",), two.id: ("b",), third.id: ("a", "b")}


def test_a_worker_leaves_the_queues_of_a_name_as_well() -> None:
    stuck, other = worker(), worker()
    clock = ManualClock()
    fleet = Fleet(clock, stale_ms=LiveValue(5000))
    labelled = [replace(one, spec=replace(one.spec, labels={"zone": "eu"})) for one in (stuck, other)]
    fleet.refresh(labelled, NOW_MS, [queue_of("a", {"zone": "eu"}), queue_of("b", {"zone": "eu"})])
    before = names_of(fleet)[stuck.id]
    fleet.leave(stuck.id, "a", 15.0)
    assert [name_of(name) for name in before] == ["a", "b", "a", "b"]
    assert [name_of(name) for name in names_of(fleet)[stuck.id]] == ["b", "b"]


def test_the_oldest_leave_ends_when_many_workers_leave_names() -> None:
    stuck = [worker() for _ in range(MAX_LEFT + 1)]
    other = worker()
    fleet, _ = fleet_of(*stuck, other)
    for one in stuck:
        fleet.leave(one.id, "a", 15.0)
    found = names_of(fleet)
    assert [one.id for one in stuck if found[one.id] == ("a", "b")] == [stuck[0].id]
