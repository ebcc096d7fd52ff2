"""Filters of jobs as documents."""

import pytest

from jqmaster.domain.job import Cause, JobState
from jqmaster.domain.job_filter import JobFilter


@pytest.mark.parametrize(
    ("wanted", "document"),
    [
        (JobFilter(), {}),
        (JobFilter(name="mail", tag="eu"), {"name": "mail", "tag": "eu"}),
        (JobFilter(state=JobState.FAILED), {"state": "failed"}),
        (JobFilter(cause=Cause.TIMEOUT, state=JobState.FAILED), {"cause": "timeout", "state": "failed"}),
    ],
)
def test_a_filter_is_read_back_from_its_document(wanted: JobFilter, document: dict[str, object]) -> None:
    assert wanted.document() == document
    assert JobFilter.of_document(document) == wanted


def test_a_field_of_a_later_version_is_refused() -> None:
    with pytest.raises(TypeError, match="flavour"):
        JobFilter.of_document({"flavour": "sweet"})
