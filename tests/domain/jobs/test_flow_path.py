"""The failures and the critical path of a flow."""

from dataclasses import replace

import pytest

from jqmaster.domain.jobs.flow_path import critical_path, failures
from jqmaster.domain.jobs.job import Cause, Job, JobState
from tests.domain.jobs.test_outcome import JOB

pytestmark = pytest.mark.req("D21")


def job(state: JobState, start_ms: int = 0, end_ms: int = 0, cause: Cause = Cause.NONE) -> Job:
    return replace(JOB, state=state, started_at_ms=start_ms, finished_at_ms=end_ms, cause=cause)


SUCCEEDED, FAILED, SKIPPED = JobState.SUCCEEDED, JobState.FAILED, JobState.SKIPPED


def test_a_flow_breaks_at_what_failed_and_not_at_what_was_skipped_for_it() -> None:
    jobs = {
        "a": job(SUCCEEDED, 1, 10),
        "b": job(FAILED, 11, 30, Cause.ERROR),
        "c": job(FAILED, 11, 20, Cause.TIMEOUT),
        "d": job(SKIPPED, 0, 31, Cause.DEPENDENCY),
        "e": job(JobState.CANCELED, 0, 25, Cause.CANCELED),
        "f": job(SKIPPED, 0, 26, Cause.EXPIRED),
        "g": job(JobState.DISCARDED, 11, 27),
        "h": job(JobState.DISCARDED, 11, 28),
    }
    assert failures(jobs, {"d": ["b", "g"]}) == ["c", "e", "f", "g", "b"]


def test_the_critical_path_follows_the_last_predecessor_back_from_the_last_end() -> None:
    jobs = {
        "load": job(SUCCEEDED, 1, 10),
        "quick": job(SUCCEEDED, 11, 12),
        "slow": job(SUCCEEDED, 11, 50),
        "publish": job(SUCCEEDED, 51, 60),
        "side": job(SUCCEEDED, 11, 40),
        "skipped": job(SKIPPED, 0, 99, Cause.DEPENDENCY),
    }
    before = {
        "quick": ["load"], "slow": ["load"], "side": ["load"], "publish": ["quick", "slow"], "skipped": ["publish"],
    }  # fmt: skip
    assert critical_path(jobs, before) == ["load", "slow", "publish"]


def test_while_a_flow_runs_its_path_leads_through_what_has_run_longest() -> None:
    jobs = {
        "a": job(SUCCEEDED, 1, 10),
        "b": job(JobState.RUNNING, 12),
        "c": job(JobState.RUNNING, 11),
        "d": job(JobState.AWAITING_JOBS),
    }
    assert critical_path(jobs, {"b": ["a"], "c": ["a"], "d": ["b", "c"]}) == ["a", "c", "d"]
    assert critical_path({"d": jobs["d"]}, {}) == []


def test_the_path_of_a_flow_that_is_not_over_goes_on_along_the_longest_chain_that_waits() -> None:
    waits = JobState.AWAITING_JOBS
    jobs = {
        "load": job(SUCCEEDED, 1, 10),
        "check": job(JobState.READY),
        "merge": job(waits),
        "publish": job(waits),
        "note": job(waits),
        "elsewhere": job(waits),
        "after": job(waits),
        "skipped": job(SKIPPED, 0, 11, Cause.DEPENDENCY),
    }
    before = {
        "check": ["load"], "merge": ["check", "load"], "publish": ["merge"], "note": ["load"],
        "after": ["elsewhere"], "skipped": ["load"],
    }  # fmt: skip
    assert critical_path(jobs, before) == ["load", "check", "merge", "publish"]
