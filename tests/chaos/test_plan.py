"""A seed always gives the same plan, with possible faults only."""

from itertools import pairwise

import pytest

from tests.chaos.plan import Powers, Scale, make_plan, opening

SCALE = Scale(masters=3, workers=6)


def test_a_seed_replays_the_plan() -> None:
    assert make_plan(7, SCALE, 600) == make_plan(7, SCALE, 600)
    assert make_plan(7, SCALE, 600) != make_plan(8, SCALE, 600)


@pytest.mark.parametrize("seed", range(5))
def test_a_plan_keeps_within_its_time_and_hits_each_part_once_at_a_time(seed: int) -> None:
    plan = make_plan(seed, SCALE, 1800)
    assert len(plan) > 200
    assert all(p.at_s >= 1 and p.at_s + p.for_s <= 1800 for p in plan)
    assert [p.at_s for p in plan] == sorted(p.at_s for p in plan)
    for target in {p.target for p in plan}:
        ours = [p for p in plan if p.target == target]
        assert all(a.at_s + a.for_s < b.at_s for a, b in pairwise(ours))
    for p in plan:
        assert sum(q.at_s <= p.at_s < q.at_s + q.for_s for q in plan) <= SCALE.at_once + 1


def test_every_kind_of_fault_comes_up() -> None:
    plan = make_plan(1, SCALE, 3600)
    kinds = {p.kind for p in plan}
    assert kinds == {
        "kill", "stop", "term", "stranger", "demote", "drain", "detach", "move", "memory full", "disk full",
        "clock step", "reset", "drop answers", "drop requests", "cut requests", "cut answers", "delay answers",
        "delay requests", "double", "copy later", "hold answers", "hold requests", "cut off", "reset idle",
        "silent cut",
    }  # fmt: skip
    assert {"leader", "store", "leader>store", "pushers>masters"} <= {p.target for p in plan}


def test_a_plan_leaves_out_disturbances_that_the_machine_does_not_allow_and_keeps_the_rest() -> None:
    plan = make_plan(1, SCALE, 3600)
    assert make_plan(1, SCALE, 3600, Powers(disk=False, clock=False)) == [
        p for p in plan if p.kind not in ("disk full", "clock step")
    ]


def test_a_clock_is_stepped_forward_for_good_and_backward_for_a_while_only() -> None:
    steps = [p for p in make_plan(1, SCALE, 36_000) if p.kind == "clock step"]
    assert {p.step_s for p in steps if not p.for_s} == {2.0, 30.0, 600.0}
    assert {p.step_s for p in steps if p.for_s} == {2.0, 30.0, -2.0, -30.0, -3600.0}


def test_the_short_form_has_one_of_each_main_kind() -> None:
    plan = opening(SCALE, 20)
    assert {p.kind for p in plan} == {"kill", "stop", "term", "double", "drop answers", "reset", "reset idle"}
    assert all(p.at_s + p.for_s <= 20 for p in plan)


def test_deploys_are_as_frequent_as_crashes() -> None:
    plan = make_plan(1, SCALE, 36_000)
    for part in ("worker-", "leader"):
        kills, terms = (
            sum(p.kind == kind and p.target.startswith(part) for p in plan) for kind in ("kill", "term")
        )
        assert 0.8 < terms / kills < 1.25


def test_every_second_worker_without_the_sdk_pulls_and_so_do_the_last_ones_with_it() -> None:
    scale = Scale(workers=8, plain=2, pulling=2)
    assert [n for n in range(1, 9) if scale.is_plain(n)] == [7, 8]
    assert [n for n in range(1, 9) if scale.is_pulling(n)] == [5, 6, 8]


def test_a_silent_cut_lasts_for_six_leases() -> None:
    cuts = [p for p in make_plan(1, SCALE, 36_000) if p.kind == "silent cut"]
    assert {p.for_s for p in cuts} == {6 * SCALE.lease_s}
    assert any(p.target == "leader>store" for p in cuts)
