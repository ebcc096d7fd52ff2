"""A group of failures that is resolved in a version, and what opens it again."""

import pytest

from jqmaster.domain.jobs.seen_version import SeenVersion
from jqmaster.domain.jobs.triage import Resolution

pytestmark = pytest.mark.req("P8")

AT = 1_000


def reopened_by(version: str, known: tuple[str, ...], *seen: tuple[str, int]) -> str | None:
    """Return the version that opened a group again. `seen`: versions, and when each failed last."""
    versions = [SeenVersion(one, 1, at, at) for one, at in seen]
    last = max((at for _, at in seen), default=0)
    return Resolution("ada", AT, version, known).reopened_by(versions, last)


def test_old_workers_that_still_run_do_not_reopen_it() -> None:
    assert reopened_by("", ("1.0", "1.1"), ("1.1", AT + 5), ("1.0", AT + 9)) is None
    assert reopened_by("1.2", ("1.1",), ("1.1", AT + 5)) is None
    assert reopened_by("1.2", ("1.1",), ("1.1.9", AT + 5)) is None


def test_a_failure_of_the_version_or_of_a_later_one_reopens_it() -> None:
    assert reopened_by("", ("1.1",), ("1.2", AT + 5), ("1.1", AT + 9)) == "1.2"
    assert reopened_by("1.2", ("1.1",), ("1.2", AT + 5)) == "1.2"
    assert reopened_by("1.9", ("1.1",), ("1.10", AT + 5)) == "1.10"
    assert reopened_by("v2", ("v1",), ("v2.0.1", AT + 5)) == "v2.0.1"


def test_versions_that_are_no_numbers_are_later_if_they_had_not_failed() -> None:
    assert reopened_by("c0ffee", ("beef",), ("beef", AT + 5)) is None
    assert reopened_by("c0ffee", ("beef",), ("c0ffee", AT + 5)) == "c0ffee"
    assert reopened_by("c0ffee", ("beef",), ("deed", AT + 5)) == "deed"


def test_earlier_failures_do_not_matter() -> None:
    assert reopened_by("1.2", ("1.1", "1.2"), ("1.2", AT)) is None


def test_workers_without_versions_reopen_it_with_any_failure() -> None:
    resolution = Resolution("ada", AT, "", ())
    assert resolution.reopened_by((), AT) is None
    assert resolution.reopened_by((), AT + 1) == ""
