"""Skips that nobody chose are counted in a row."""

from jqmaster.domain.definitions.run import RunOutcome, RunReason, RunRecord
from jqmaster.domain.definitions.skips import is_skipping, skips_in_a_row


def run(outcome: RunOutcome, reason: RunReason) -> RunRecord:
    return RunRecord("nightly", 1, outcome, reason, "", 1)


OVERLAP = run(RunOutcome.SKIPPED, RunReason.OVERLAP)
FULL = run(RunOutcome.SKIPPED, RunReason.BACKLOG_FULL)
FIRED = run(RunOutcome.FIRED, RunReason.NONE)
BY_HAND = run(RunOutcome.FIRED, RunReason.MANUAL)
PAUSED = run(RunOutcome.SKIPPED, RunReason.PAUSED)
HOLIDAY = run(RunOutcome.SKIPPED, RunReason.CALENDAR)


def test_three_skips_in_a_row_are_a_fault() -> None:
    assert not is_skipping([])
    assert not is_skipping([OVERLAP, FULL])
    assert is_skipping([OVERLAP, FULL, OVERLAP])
    assert skips_in_a_row([OVERLAP, FULL, FIRED, OVERLAP]) == [OVERLAP, FULL]


def test_a_run_by_hand_does_not_end_the_row() -> None:
    assert is_skipping([OVERLAP, BY_HAND, FULL, OVERLAP])


def test_pauses_and_holidays_are_decisions() -> None:
    assert not is_skipping([PAUSED, PAUSED, PAUSED])
    assert skips_in_a_row([OVERLAP, HOLIDAY, OVERLAP, OVERLAP]) == [OVERLAP]
