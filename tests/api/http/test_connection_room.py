"""Priorities of connections when there is no room for more."""

from dataclasses import dataclass, field

from jqmaster.api.http.connection_room import ConnectionRoom, RoomLimits
from jqmaster.domain.identity.caller import TrustedProxies
from jqmaster.live_value import LiveValue
from tests.support import real_time

pytestmark = real_time.SOCKETS


@dataclass(eq=False)
class Connection:
    peer: str
    is_answering: bool = False
    gave_way: bool = field(default=False, init=False)

    def close_now(self) -> None:
        self.gave_way = True


def a_room(*, most: int = 32, unproven_share: float = 0.5, address_share: float = 1.0) -> ConnectionRoom:
    limits = RoomLimits.of(max_clients=most, unproven_share=unproven_share, address_share=address_share)
    return ConnectionRoom(TrustedProxies(), LiveValue(limits))


def fill(room: ConnectionRoom, peer: str, count: int) -> list[Connection]:
    connections = [Connection(peer) for _ in range(count)]
    for connection in connections:
        assert room.enter(connection)
    return connections


def test_the_longest_idle_unproven_connection_makes_room() -> None:
    room = a_room()
    first, second, *_ = fill(room, "192.0.2.1", 16)
    room.rest(first)
    fill(room, "192.0.2.1", 1)
    assert (first.gave_way, second.gave_way) == (False, True)
    assert len(room) == 16


def test_a_flooding_caller_makes_room_at_its_own_cost_alone() -> None:
    room = a_room()
    others = [fill(room, f"192.0.2.{n}", 1)[0] for n in range(4)]
    flood = fill(room, "198.51.100.1", 200)
    assert not any(connection.gave_way for connection in others)
    assert sum(not connection.gave_way for connection in flood) == 12
    fill(room, "192.0.2.100", 1)
    assert len(room) == 16


def test_a_whole_ipv6_subnet_floods_as_one() -> None:
    room = a_room()
    other = fill(room, "2001:db8:ffff::1", 1)[0]
    for n in range(200):
        fill(room, f"2001:db8::{n:x}", 1)
    assert not other.gave_way


def test_a_request_that_is_being_answered_is_not_cut_off() -> None:
    room = a_room()
    connections = fill(room, "192.0.2.1", 16)
    for connection in connections:
        connection.is_answering = True
    assert not room.enter(Connection("192.0.2.1"))
    assert not any(connection.gave_way for connection in connections)
    connections[3].is_answering = False
    fill(room, "192.0.2.1", 1)
    assert connections[3].gave_way


def test_a_proven_connection_never_makes_room() -> None:
    room = a_room()
    proven = fill(room, "192.0.2.1", 16)
    assert all(room.prove(connection, is_worker=False) for connection in proven)
    fill(room, "192.0.2.1", 200)
    assert not any(connection.gave_way for connection in proven)


def test_workers_are_limited_by_no_address_and_have_a_reserve() -> None:
    room = a_room(most=64, address_share=0.25)
    callers = fill(room, "192.0.2.1", 16)
    assert all(room.prove(connection, is_worker=False) for connection in callers)
    assert not room.prove(fill(room, "192.0.2.1", 1)[0], is_worker=False)
    assert room.prove(fill(room, "192.0.2.2", 1)[0], is_worker=False)
    for _ in range(49):
        assert room.prove(fill(room, "192.0.2.1", 1)[0], is_worker=True)
    assert not room.prove(fill(room, "192.0.2.1", 1)[0], is_worker=True)


def test_a_connection_that_leaves_is_forgotten() -> None:
    room = a_room(most=64, address_share=0.25)
    for is_worker in (None, False, True):
        for _ in range(3):
            connections = fill(room, "192.0.2.1", 16)
            if is_worker is not None:
                assert all(room.prove(connection, is_worker=is_worker) for connection in connections)
            for connection in connections:
                room.leave(connection)
                room.leave(connection)
    assert len(room) == 0
    assert not room._of_address
    assert not room._unproven_of
