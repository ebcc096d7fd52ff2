"""Bounds that the namespaces of a process share."""

from jqmaster.live_value import LiveValue
from jqmaster.shared_bound import Portion, SharedBound


def filled(portion: Portion) -> int:
    """Return how much the portion holds once it gets no more."""
    while portion.has_room():
        portion.take()
    return portion.taken


def test_a_single_namespace_may_take_all() -> None:
    bound = SharedBound(LiveValue(100))
    portion = bound.portion()
    assert filled(portion) == 100
    portion.give(40)
    assert (portion.taken, bound.taken) == (60, 60)
    assert filled(portion) == 100


def test_a_busy_namespace_leaves_room_to_those_that_hold_little() -> None:
    bound = SharedBound(LiveValue(100))
    hot, also_hot, quiet, other = (bound.portion() for _ in range(4))
    assert filled(hot) == 75
    assert filled(also_hot) == 18
    # Each one gets a portion of what is left, and a namespace with nothing gets whatever is free.
    assert filled(quiet) >= 5
    assert filled(other) >= 1
    assert bound.taken <= 100


def test_two_busy_namespaces_get_equal_parts_as_places_come_free() -> None:
    bound = SharedBound(LiveValue(700))
    first, second, _ = bound.portion(), bound.portion(), bound.portion()
    filled(first)
    for _ in range(2_000):
        for portion in (first, second):
            if portion.has_room():
                portion.take()
        # The oldest calls end first, whoever made them.
        for portion in (first, second):
            if portion.taken > 250:
                portion.give(5)
    assert abs(first.taken - second.taken) < 30
    assert 50 < 700 - bound.taken < 250


def test_the_last_place_goes_to_a_namespace_that_holds_none() -> None:
    bound = SharedBound(LiveValue(2))
    hot, quiet = bound.portion(), bound.portion()
    assert filled(hot) == 1
    assert filled(quiet) == 1
    assert not hot.has_room()


def test_a_namespace_that_is_gone_takes_no_portion() -> None:
    bound = SharedBound(LiveValue(8))
    portion, other = bound.portion(), bound.portion()
    assert filled(portion) == 6
    del other
    assert filled(portion) == 8


def test_a_bound_follows_its_setting_and_the_share_of_it_that_may_be_used() -> None:
    most = LiveValue(8)
    portion = SharedBound(most).portion()
    assert [portion.has_room(size, of=0.5) for size in (4, 5)] == [True, False]
    most.current = 16
    assert portion.has_room(8, of=0.5)
