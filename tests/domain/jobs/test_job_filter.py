"""Filters of jobs as documents."""

import pytest

from jqmaster.domain.jobs.job import Cause, JobState
from jqmaster.domain.jobs.job_filter import JobFilter
from jqmaster.domain.matching.matcher import parse_matcher

MATCHER = {"field": "argument.pin", "op": "eq", "value": "s1"}


@pytest.mark.parametrize(
    ("wanted", "document"),
    [
        (JobFilter(), {}),
        (JobFilter(name="mail", tag="eu"), {"name": "mail", "tag": "eu"}),
        (JobFilter(state=JobState.FAILED), {"state": "failed"}),
        (JobFilter(matcher=parse_matcher(MATCHER)), {"matcher": MATCHER}),
        (JobFilter(cause=Cause.TIMEOUT, state=JobState.FAILED), {"cause": "timeout", "state": "failed"}),
    ],
)
def test_a_filter_is_read_back_from_its_document(wanted: JobFilter, document: dict[str, object]) -> None:
    assert wanted.document() == document
    assert JobFilter.of_document(document) == wanted


def test_only_a_matcher_of_the_argument_reads_arguments() -> None:
    assert not JobFilter().asks_argument
    assert JobFilter(matcher=parse_matcher(MATCHER)).asks_argument
    assert not JobFilter(matcher=parse_matcher({**MATCHER, "field": "name"})).asks_argument


def test_a_field_of_a_later_version_is_refused() -> None:
    with pytest.raises(TypeError, match="flavour"):
        JobFilter.of_document({"flavour": "sweet"})
