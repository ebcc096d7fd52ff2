"""A worker learns whether it can still open files and connections."""

import errno
import logging
import os

import pytest

from worker_sdk.worker.descriptors import NEEDED, RESERVE, Descriptors, is_for_want_of_descriptors


class Table:
    """A table of descriptors with this many free places."""

    def __init__(self, free: int) -> None:
        self.free = free

    def take(self, *_: object) -> int:
        if self.free <= 0:
            raise OSError(errno.EMFILE, "Too many open files")
        self.free -= 1
        return 1000

    def pipe(self) -> tuple[int, int]:
        return self.take(), self.take()

    def give(self, _: int) -> None:
        self.free += 1


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    one = Table(100)
    monkeypatch.setattr(os, "dup", one.take)
    monkeypatch.setattr(os, "pipe", one.pipe)
    monkeypatch.setattr(os, "close", one.give)
    return one


def test_a_reserve_is_kept_and_given_up_when_none_is_free(
    table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    changes: list[bool] = []
    watched = Descriptors(on_change=lambda: changes.append(watched.is_short))
    for _ in range(3):
        watched.look()
        assert (watched.is_short, table.free) == (False, 100 - 1 - RESERVE)
    # Handlers take all.
    table.free = 0
    for _ in range(3):
        watched.look()
        assert (watched.is_short, table.free) == (True, RESERVE)
    table.free = NEEDED - 1
    watched.look()
    assert watched.is_short
    # The handlers give them back.
    table.free = 95
    watched.look()
    assert (watched.is_short, table.free) == (False, 95 - RESERVE)
    assert changes == [True, False]
    assert [record.levelno for record in caplog.records] == [logging.ERROR, logging.WARNING]
    assert "no file descriptors left" in caplog.text
    watched.close()
    assert table.free == 95 + 1


def test_a_handler_that_could_open_nothing_makes_it_short_until_the_next_look(table: Table) -> None:
    watched = Descriptors()
    watched.look()
    watched.note_failure()
    assert watched.is_short
    watched.look()
    assert not watched.is_short


def test_the_cause_is_found_behind_the_errors_of_libraries() -> None:
    wrapped = RuntimeError("no connection")
    wrapped.__cause__ = OSError(errno.EMFILE, "Too many open files")
    assert is_for_want_of_descriptors(wrapped)
    assert is_for_want_of_descriptors(OSError(errno.ENFILE, "Too many open files in system"))
    assert not is_for_want_of_descriptors(OSError(errno.ENOSPC, "No space left on device"))
    endless = ValueError()
    endless.__context__ = KeyError()
    endless.__context__.__context__ = endless
    assert not is_for_want_of_descriptors(endless)
