"""The choice of the sub-leader, and how long silence may last."""

import pytest

from jqmaster.domain.operations.master import MasterRecord, MasterRole, Pace, SeenMaster, role_of, sub_leader


def seen(master_id: str, node_id: str, started_at_ms: int = 0, last_seen_ms: int = 1000) -> SeenMaster:
    return SeenMaster(MasterRecord(master_id, node_id, 1, "http://m", "1", started_at_ms), last_seen_ms)


@pytest.mark.req("D3")
def test_a_master_on_another_node_stands_by_before_an_older_one_on_the_leaders_own() -> None:
    masters = [seen("leader", "a"), seen("oldest", "a", 1), seen("other", "b", 9)]
    assert sub_leader(masters, "leader", fresh_since_ms=0) == "other"


@pytest.mark.req("D3")
def test_on_the_only_node_the_longest_running_stands_by() -> None:
    masters = [seen("leader", "a"), seen("young", "a", 9), seen("old", "a", 1)]
    assert sub_leader(masters, "leader", fresh_since_ms=0) == "old"


def test_all_choose_the_same_of_two_masters_that_started_at_once() -> None:
    masters = [seen("leader", "a"), seen("m2", "b"), seen("m1", "b")]
    assert sub_leader(masters, "leader", fresh_since_ms=0) == "m1"
    assert sub_leader(masters[::-1], "leader", fresh_since_ms=0) == "m1"


def test_a_silent_master_does_not_stand_by() -> None:
    masters = [seen("leader", "a"), seen("silent", "b", 1, last_seen_ms=499), seen("living", "a", 9)]
    assert sub_leader(masters, "leader", fresh_since_ms=500) == "living"


def test_a_demoted_master_does_not_stand_by() -> None:
    masters = [seen("leader", "a"), seen("demoted", "b", 1), seen("young", "a", 9)]
    assert sub_leader(masters, "leader", fresh_since_ms=0, demoted_id="demoted") == "young"
    assert sub_leader(masters[:2], "leader", fresh_since_ms=0, demoted_id="demoted") is None


def test_nobody_stands_by_alone_or_without_a_leader() -> None:
    assert sub_leader([seen("leader", "a")], "leader", fresh_since_ms=0) is None
    assert sub_leader([seen("m1", "a")], None, fresh_since_ms=0) is None
    assert sub_leader([], None, fresh_since_ms=0) is None


def test_also_a_leader_that_is_not_registered_is_watched() -> None:
    masters = [seen("m2", "a", 2), seen("m1", "b", 1)]
    assert sub_leader(masters, "unregistered", fresh_since_ms=0) == "m1"


def test_roles() -> None:
    roles = [role_of(m, "m1", "m2") for m in ("m1", "m2", "m3")]
    assert roles == [MasterRole.LEADER, MasterRole.SUB_LEADER, MasterRole.FOLLOWER]
    assert role_of("m1", None, None) is MasterRole.FOLLOWER


@pytest.mark.req("D3")
@pytest.mark.parametrize("ttl_s", [0.5, 1.0, 5.0, 60.0])
def test_a_leader_that_lives_is_not_suspected_and_a_dead_one_before_its_lock_runs_out(ttl_s: float) -> None:
    pace = Pace(ttl_s)
    assert pace.suspect_after_s >= 2 * pace.beat_s
    assert pace.fresh_ms >= 3000 * pace.beat_s
    # At worst, its last beat is seen one look late, and so is the end of the time.
    assert pace.suspect_after_s + 2 * pace.look_s < ttl_s
    # A demoted master leaves the lead for a whole life of the lock, and a sub-leader is the first to take it.
    assert pace.hold_ms == ttl_s * 1000
    assert 0 < pace.head_start_s < ttl_s / 10
