"""The order in which a push with dependencies is written."""

import pytest

from jqmaster.domain.jobs.predecessors import After, in_order

pytestmark = pytest.mark.req("P9")


def test_each_job_stands_behind_its_predecessors() -> None:
    jobs = [("c", After(("a", "b"))), ("b", After(("a", "elsewhere"))), ("a", None), ("d", None)]
    assert in_order(jobs) == ([2, 3, 1, 0], [])


def test_jobs_in_a_circle_and_behind_one_are_told() -> None:
    jobs = [("a", After(("b",))), ("b", After(("a",))), ("c", After(("b",))), ("d", None)]
    assert in_order(jobs) == ([3], [0, 1, 2])
