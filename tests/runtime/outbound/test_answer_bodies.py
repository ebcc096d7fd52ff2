"""The room that the bodies of answers share."""

import pytest

from worker_sdk.transport.answer_bodies import BodyRoom

pytestmark = pytest.mark.req("M13")


class Body:
    """A body that arrives in pieces of 10 bytes."""

    def __init__(self, room: BodyRoom) -> None:
        self.room = room
        self.reserved = 0

    def enter(self, reserved: int) -> None:
        self.reserved += reserved

    def receive(self) -> bool:
        is_taken = self.room.take(10, self)
        self.reserved += 10 * is_taken
        return is_taken

    def leave(self) -> None:
        self.room.leave(self.reserved, self)
        self.reserved = 0


def test_bodies_wait_in_the_order_in_which_they_came() -> None:
    room = BodyRoom(30)
    a, b, c, d = (Body(room) for _ in range(4))
    assert [one.receive() for one in (a, a, b, c, d)] == [True, True, True, False, False]
    b.leave()
    assert (c.reserved, d.reserved, room.waiting) == (10, 0, 1)
    d.leave()
    assert room.waiting == 0
    a.leave()
    assert [c.receive(), c.receive(), c.reserved] == [True, True, 30]


def test_bodies_that_fill_the_room_together_end_one_after_the_other() -> None:
    room = BodyRoom(30)
    a, b, c = bodies = [Body(room) for _ in range(3)]
    assert [one.receive() for one in (*bodies, a, b)] == [True, True, True, False, False]
    # Nobody else could go on, so the last one may exceed the total.
    assert [c.receive() for _ in range(3)] == [True, True, True]
    assert (room.waiting, c.reserved) == (2, 40)
    c.leave()
    assert (room.waiting, a.reserved, b.reserved) == (1, 20, 10)
    assert a.receive()
    a.leave()
    assert (room.waiting, b.reserved) == (0, 20)
    b.leave()
    assert [one.receive() for one in bodies] == [True, True, True]


def test_a_piece_that_is_larger_than_the_room_is_read_alone() -> None:
    room = BodyRoom(5)
    a, b = Body(room), Body(room)
    assert [a.receive(), b.receive()] == [True, False]
    a.leave()
    assert (b.reserved, room.waiting) == (10, 0)
