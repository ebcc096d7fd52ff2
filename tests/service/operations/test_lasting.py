"""Which full constraints are reported: those that stay full, until they are free again."""

import pytest

from jqmaster.service.operations.lasting import MAX_GAP_MS, READINGS_TO_BEGIN, Lasting

pytestmark = pytest.mark.req("D32")

EVERY_MS = 2_500


class _Readings:
    """Readings at regular intervals."""

    def __init__(self) -> None:
        self._lasting: Lasting[int] = Lasting()
        self.now_ms = 0

    def __call__(self, *held: int, possible: tuple[str, ...] = ("mails",)) -> list[list[tuple[int, int]]]:
        """Read once for each number of held jobs."""
        found = []
        for count in held:
            self.now_ms += EVERY_MS
            found.append(self._lasting.follow({"mails": count} if count else {}, possible, self.now_ms))
        return found


def test_the_first_reading_reports_each_full_constraint() -> None:
    assert _Readings()(3) == [[(3, EVERY_MS)]]


def test_a_constraint_full_for_moments_is_reported_only_by_the_first_reading() -> None:
    first, *later = _Readings()(3, 3, 0, 3, 3, 0, 3, 0)
    assert first
    assert not any(later[1:])


def test_a_constraint_that_stays_full_is_reported_after_some_readings_and_since_when() -> None:
    readings = _Readings()
    readings(0)
    assert [bool(found) for found in readings(1, 2, 3, 4)] == [False, False, True, True]
    assert readings(5) == [[(5, 2 * EVERY_MS)]]
    assert READINGS_TO_BEGIN == 3


def test_a_single_job_that_gets_through_ends_nothing() -> None:
    readings = _Readings()
    readings(0, 3, 3, 3)
    assert readings(0, 4, 0, 0) == [[(3, 2 * EVERY_MS)], [(4, 2 * EVERY_MS)], [(4, 2 * EVERY_MS)], []]


def test_a_constraint_that_was_deleted_paused_or_disabled_ends_at_once() -> None:
    readings = _Readings()
    readings(0, 3, 3, 3)
    assert readings(0, possible=()) == [[]]


def test_after_a_long_pause_the_readings_begin_again() -> None:
    readings = _Readings()
    readings(0, 3, 3, 3)
    readings.now_ms += MAX_GAP_MS
    assert readings(6) == [[(6, readings.now_ms)]]
