"""Positions in partial results, as clients name them."""

import pytest

from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.jobs.parts import BEGINNING, Part, PartPage, PartPosition


@pytest.mark.parametrize("text", ["0-0", "2-17", "4294967295-1000000"])
def test_a_place_is_read_as_it_was_written(text: str) -> None:
    place = PartPosition.parse(text)
    assert str(place) == text


@pytest.mark.parametrize(
    "text", ["", "2", "2-", "-1-2", "2-1-1", "2-1\n", "a-b", "+1-1", "1" * 11 + "-1", "²-1"]
)
def test_any_other_text_is_no_place(text: str) -> None:
    assert PartPosition.parse(text) is None


def test_a_page_ends_behind_its_last_part_or_at_the_beginning_of_a_new_attempt() -> None:
    empty = PartPage(JobState.RUNNING, 2, [], is_full=False)
    assert empty.end(BEGINNING) == empty.end(PartPosition(1, 9)) == PartPosition(2, 0)
    assert empty.end(PartPosition(2, 3)) == PartPosition(2, 3)
    assert PartPage(JobState.RUNNING, 2, [Part(PartPosition(2, 4), b"")], is_full=False).end(BEGINNING) == (
        2,
        4,
    )


def test_a_page_is_the_last_one_where_the_job_is_over_and_nothing_more_is_there() -> None:
    assert PartPage(JobState.FAILED, 1, [], is_full=False).is_last
    assert not PartPage(JobState.FAILED, 1, [], is_full=True).is_last
    assert not PartPage(JobState.RETRYING, 1, [], is_full=False).is_last
