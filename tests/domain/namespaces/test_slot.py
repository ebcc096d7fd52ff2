"""Where a slot is, and the state of its move."""

import pytest

from jqmaster.domain.namespaces.slot import ClusterNode, SlotMove, SlotPlace, state_of

NODE = ClusterNode("id-1", "10.0.0.1:6379", 1, 0, may_evict=False)


@pytest.mark.parametrize(
    ("engine_state", "state"),
    [
        ("success", "done"),
        ("failed", "failed"),
        ("cancelled", "aborted"),
        ("waiting-to-snapshot", "moving"),
        ("a word of a later engine", "moving"),
    ],
)
def test_each_word_of_the_engine_has_a_state(engine_state: str, state: str) -> None:
    assert state_of(engine_state) == state


def test_a_move_is_under_way_until_it_has_ended() -> None:
    move = SlotMove("a", "b", "moving", "snapshotting", "", is_alone=True, began_at_ms=1, ended_at_ms=None)
    assert move.is_under_way
    ended = SlotMove("a", "b", "failed", "failed", "why", is_alone=True, began_at_ms=1, ended_at_ms=2)
    assert not ended.is_under_way


def test_a_node_is_known_by_its_address_and_by_its_id() -> None:
    place = SlotPlace(7, "id-1", [NODE], None, "")
    assert place.node("id-1") is place.node("10.0.0.1:6379") is NODE
    assert place.node("10.0.0.2:6379") is None
    assert place.address_of("id-1") == "10.0.0.1:6379"
    assert place.address_of("id-2") == "id-2", "a node that does not answer"
