"""Groups of failures that people merged count as one."""

from typing import Any

import pytest

from jqmaster.domain.jobs.failures import HOUR_MS, GroupedFailures
from jqmaster.domain.jobs.merged_failures import joined, with_merged
from jqmaster.domain.jobs.seen_version import SeenVersion
from jqmaster.domain.jobs.triage import AssignedPerson

pytestmark = pytest.mark.req("P8")
DAY_MS = 24 * HOUR_MS


def group(group_id: str, count: int, first_ms: int, last_ms: int, **fields: Any) -> GroupedFailures:
    return GroupedFailures(
        group_id, "work", "error", f"text {group_id}", count, first_ms, last_ms, f"job-{group_id}", **fields
    )


def test_counts_times_hours_and_versions_are_joined_and_the_first_keeps_its_decisions() -> None:
    ada = AssignedPerson("ada", "ada", 1)
    first = group("a", 2, 10, 20, hours={1: 2}, versions=(SeenVersion("1", 2, 10, 20),), assignment=ada)
    other = group(
        "b", 3, 5, 30, hours={1: 1, 2: 2}, versions=(SeenVersion("1", 1, 5, 6), SeenVersion("2", 2, 7, 30))
    )
    whole = joined(first, other)
    assert (whole.id, whole.message, whole.example_job_id, whole.assignment) == ("a", "text a", "job-a", ada)
    assert (whole.count, whole.first_seen_ms, whole.last_seen_ms) == (5, 5, 30)
    assert whole.hours == {1: 3, 2: 2}
    assert whole.versions == (SeenVersion("2", 2, 7, 30), SeenVersion("1", 3, 5, 20))


def test_groups_that_were_merged_over_several_steps_count_in_the_last_one() -> None:
    groups = [group(one, 1, 1, 1) for one in "abcd"]
    (rest, whole) = sorted(with_merged(groups, {"a": "b", "b": "c"}), key=lambda one: one.count)
    assert (rest.id, rest.merged) == ("d", ())
    assert (whole.id, whole.count, {one.id for one in whole.merged}) == ("c", 3, {"a", "b"})


def test_a_group_whose_target_is_gone_and_groups_in_a_circle_stay_by_themselves() -> None:
    groups = [group(one, 1, 1, 1) for one in "ab"]
    for into in ({"a": "gone"}, {"a": "b", "b": "a"}, {}):
        assert with_merged(groups, into) == groups


@pytest.mark.parametrize(
    ("other", "came_back"),
    [
        # It had failed the whole time.
        (group("b", 9, 0, 3 * DAY_MS, hours={2 * 24 + 20: 1}), False),
        # It failed last in the day before.
        (group("b", 9, 0, 3 * DAY_MS - HOUR_MS), False),
        (group("b", 9, 0, DAY_MS), True),
        (group("b", 9, 3 * DAY_MS, 3 * DAY_MS + 5), True),
    ],
)
def test_a_merged_group_came_back_if_no_part_of_it_failed_for_a_day(
    other: GroupedFailures, came_back: bool
) -> None:
    first = group("a", 1, 0, 3 * DAY_MS, regressed_ms=3 * DAY_MS)
    assert bool(joined(first, other).regressed_ms) is came_back
    assert bool(joined(other, first).regressed_ms) is came_back
