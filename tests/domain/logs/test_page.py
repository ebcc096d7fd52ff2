"""When the log of a job is complete, and which of its lines a filter selects."""

import pytest

from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.logs.page import LATE_MS, NO_LOG, LogFacts, LogFilter, LogSlice, NumberedLine

pytestmark = pytest.mark.req("D17")


@pytest.mark.parametrize(
    ("state", "over_ms", "facts", "is_full", "is_over"),
    [
        (JobState.RUNNING, 0, LogFacts(last=3), False, False),
        (JobState.RETRYING, 0, NO_LOG, False, False),
        (JobState.FAILED, LATE_MS - 1, LogFacts(last=3), False, False),
        (JobState.FAILED, LATE_MS, LogFacts(last=3), False, True),
        (JobState.FAILED, LATE_MS, LogFacts(last=3), True, False),
        (JobState.SUCCEEDED, 0, NO_LOG, False, False),
    ],
)
def test_a_log_is_over_a_little_after_its_job(
    state: JobState, over_ms: int, facts: LogFacts, is_full: bool, is_over: bool
) -> None:
    assert LogSlice(state, over_ms, 1, facts, [], 3, is_full).is_over is is_over


def test_a_filter_selects_lines_by_level_and_attempt() -> None:
    lines = [
        NumberedLine(n, attempt, 0, rank, "") for n, (attempt, rank) in enumerate([(1, 2), (1, 4), (2, 4)])
    ]

    def selected(**fields: int) -> list[int]:
        return [line.seq for line in lines if LogFilter(**fields).selects(line)]

    assert selected() == [0, 1, 2]
    assert selected(least_rank=3) == [1, 2]
    assert selected(attempt=1) == [0, 1]
    assert selected(least_rank=4, attempt=2) == [2]
