from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jqmaster.domain.workers.assignment import Assignment, Candidate, next_assignments

CANDIDATES = st.lists(
    st.builds(
        Candidate, worker_id=st.uuids().map(str), max_jobs=st.integers(0, 1_000), busy=st.integers(0, 1_100)
    ),
    max_size=12,
    unique_by=lambda c: c.worker_id,
)
CAPS = st.integers(1, 500)


def next_assignment(candidates: Iterable[Candidate], *, max_jobs_per_push: int) -> Assignment | None:
    return next(iter(next_assignments(candidates, max_jobs_per_push=max_jobs_per_push)), None)


@pytest.mark.req("D11")
@given(candidates=CANDIDATES, cap=CAPS)
def test_never_above_max_jobs_never_above_the_cap_and_the_least_loaded_first(
    candidates: list[Candidate], cap: int
) -> None:
    assignment = next_assignment(candidates, max_jobs_per_push=cap)
    free = [c for c in candidates if c.busy < c.max_jobs]
    if not free:
        assert assignment is None
        return
    assert assignment
    chosen = next(c for c in free if c.worker_id == assignment.worker_id)
    assert 1 <= assignment.limit <= min(chosen.free, cap)
    assert all((chosen.load, chosen.worker_id) <= (c.load, c.worker_id) for c in free)


@given(max_jobs=st.integers(1, 1_000), busy=st.integers(0, 999), cap=CAPS, full=st.integers(0, 3))
def test_a_lone_worker_takes_all_it_has_room_for(max_jobs: int, busy: int, cap: int, full: int) -> None:
    busy = min(busy, max_jobs - 1)
    others = [Candidate(f"full-{n}", 5, 5) for n in range(full)]
    assignment = next_assignment([*others, Candidate("w", max_jobs, busy)], max_jobs_per_push=cap)
    assert assignment == Assignment("w", min(max_jobs - busy, cap))


@pytest.mark.req("D11")
@given(candidates=CANDIDATES, cap=CAPS, jobs=st.integers(1, 2_000))
def test_rounds_of_assignment_spread_the_load(candidates: list[Candidate], cap: int, jobs: int) -> None:
    """A worker that was given jobs ends at most its share per push above the others."""
    busy = {c.worker_id: c.busy for c in candidates}
    given_to = set()
    left = jobs
    while left:
        now = [Candidate(c.worker_id, c.max_jobs, busy[c.worker_id]) for c in candidates]
        assignment = next_assignment(now, max_jobs_per_push=cap)
        if assignment is None:
            break
        taken = min(left, assignment.limit)
        busy[assignment.worker_id] += taken
        left -= taken
        given_to.add(assignment.worker_id)
    open_ones = [c for c in candidates if busy[c.worker_id] < c.max_jobs]
    assert not (left and open_ones)
    loads = {c.worker_id: busy[c.worker_id] / c.max_jobs for c in candidates if c.max_jobs}
    sizes = {c.worker_id: c.max_jobs for c in candidates}
    for worker in given_to:
        for other in open_ones:
            share = max(1, sizes[worker] // 8) / sizes[worker]
            if len(open_ones) > 1 or other.worker_id != worker:
                assert loads[worker] <= loads[other.worker_id] + share + 1e-9


def test_beside_others_small_loads_spread() -> None:
    idle = [Candidate("a", 80, 0), Candidate("b", 80, 0)]
    assert next_assignment(idle, max_jobs_per_push=100) == Assignment("a", 10)
    behind = [Candidate("a", 80, 60), Candidate("b", 80, 20)]
    assert next_assignment(behind, max_jobs_per_push=100) == Assignment("b", 50)
    assert next_assignment([], max_jobs_per_push=1) is None


MANY = st.lists(
    st.builds(
        Candidate,
        worker_id=st.uuids().map(str),
        max_jobs=st.integers(0, 300),
        busy=st.integers(0, 310),
        names=st.sampled_from([("a",), ("b",), ("a", "b")]),
        plenty=st.integers(0, 9),
    ),
    max_size=60,
    unique_by=lambda c: c.worker_id,
)


@pytest.mark.req("D11")
@given(candidates=MANY, cap=CAPS, most=st.integers(1, 500))
def test_a_round_gives_each_worker_once_what_it_has_room_for_and_no_more_than_its_bounds_in_all(
    candidates: list[Candidate], cap: int, most: int
) -> None:
    found = next_assignments(candidates, max_jobs_per_push=cap, max_jobs=most)
    by_id = {c.worker_id: c for c in candidates}
    chosen = [by_id[assignment.worker_id] for assignment in found]
    assert len({c.worker_id for c in chosen}) == len(chosen)
    assert chosen == sorted(chosen, key=lambda c: (c.load, c.worker_id))
    assert all(1 <= a.limit <= min(by_id[a.worker_id].free, cap) for a in found)
    # The cap bounds what the first worker may take alone.
    assert sum(a.limit for a in found[1:]) <= max(0, most - found[0].limit) if found else True
    assert bool(found) == any(c.free > 0 for c in candidates)


def test_one_worker_asks_first_and_more_of_them_for_more_while_there_is_plenty() -> None:
    def asked(plenty: int) -> list[int]:
        idle = [Candidate(f"{n:02}", 16, 0, ("work",), plenty) for n in range(40)]
        return [a.limit for a in next_assignments(idle, max_jobs_per_push=100, max_jobs=500)]

    assert [asked(plenty)[0] for plenty in range(5)] == [2, 4, 8, 16, 16]
    assert [len(asked(plenty)) for plenty in range(6)] == [1, 2, 4, 8, 16, 32]
    assert sum(asked(9)) == 500


def test_all_of_many_small_workers_ask_at_once_while_there_is_plenty() -> None:
    idle = [Candidate(f"{n:03}", 2, 0, (), plenty=20) for n in range(200)]
    found = next_assignments(idle, max_jobs_per_push=100, max_jobs=500)
    assert [a.limit for a in found] == [2] * 200


def test_each_set_of_names_asks_for_itself() -> None:
    idle = [Candidate(f"{n}", 10, 0, (f"name-{n}",)) for n in range(5)]
    assert len(next_assignments(idle, max_jobs_per_push=100)) == 5
