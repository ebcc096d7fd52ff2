"""Limits on the calls that may wait."""

import contextlib

from jqmaster.live_value import LiveValue
from jqmaster.service.jobs.waiting_places import WaitingPlaces
from jqmaster.shared_bound import SharedBound


def test_clients_leave_connections_to_those_who_do_not_wait_and_workers_a_part_of_their_own() -> None:
    places = WaitingPlaces(SharedBound(LiveValue(64)).portion())
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(places.take()) for _ in range(60)]
        assert taken == [True] * 48 + [False] * 12
        workers = [stack.enter_context(places.take(is_worker=True)) for _ in range(20)]
        assert workers == [True] * 8 + [False] * 12
        assert places.taken == 56
    assert places.taken == 0


def test_the_number_of_places_follows_the_setting() -> None:
    most = LiveValue(16)
    places = WaitingPlaces(SharedBound(most).portion())
    with contextlib.ExitStack() as stack:
        assert all(stack.enter_context(places.take()) for _ in range(12))
        with places.take() as has_place:
            assert not has_place
        most.current = 32
        with places.take() as has_place:
            assert has_place
