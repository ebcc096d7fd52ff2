"""Actions on many jobs: which jobs a caller may change, and when a retry stops by itself."""

from dataclasses import replace
from typing import Any

import pytest

from jqmaster.domain.jobs.bulk_action import (
    ADMITTED,
    MAX_PASSES,
    STOP_LEAST,
    ActionProgress,
    ActionState,
    BulkAction,
)
from jqmaster.domain.jobs.job import ActionKind, Job, JobState
from jqmaster.domain.jobs.job_filter import JobFilter
from tests.domain.why.test_verdict import JOB

BEGAN_MS = JOB.created_at_ms + 1_000


def action(kind: ActionKind, **fields: Any) -> BulkAction:
    fields = {"filter": JobFilter(), "ids": None, **fields}
    return BulkAction("a1", kind, by="user:ada", created_at_ms=BEGAN_MS, **fields)


def job(state: JobState = JobState.FAILED, **fields: Any) -> Job:
    return replace(JOB, state=state, **fields)


@pytest.mark.parametrize("kind", ActionKind)
def test_an_action_touches_jobs_of_its_states_that_are_older_than_itself(kind: ActionKind) -> None:
    one = action(kind, priority=5)
    for state in JobState:
        assert one.touches(job(state)) is (state in ADMITTED[kind])
        assert not one.touches(job(state, created_at_ms=BEGAN_MS + 1))


def test_a_retried_job_that_failed_once_more_is_left_alone() -> None:
    one = action(ActionKind.RETRY)
    assert one.touches(job(finished_at_ms=BEGAN_MS))
    assert not one.touches(job(finished_at_ms=BEGAN_MS + 1))


def test_a_job_that_ran_since_is_not_run_again() -> None:
    one = action(ActionKind.RUN)
    assert one.touches(job(JobState.RETRYING, started_at_ms=BEGAN_MS))
    assert not one.touches(job(JobState.RETRYING, started_at_ms=BEGAN_MS + 1))


def test_a_job_that_has_the_priority_already_is_left_alone() -> None:
    one = action(ActionKind.SET_PRIORITY, priority=7)
    assert one.touches(job(JobState.READY, priority=6))
    assert not one.touches(job(JobState.READY, priority=7))


def test_a_filter_narrows_the_states_and_ids_do_not() -> None:
    assert action(ActionKind.RETRY, filter=JobFilter(state=JobState.CANCELED)).states == (JobState.CANCELED,)
    assert action(ActionKind.DELETE, filter=None, ids=("j",)).states == ADMITTED[ActionKind.DELETE]


def test_only_what_may_be_repeated_goes_through_the_jobs_again() -> None:
    assert action(ActionKind.CANCEL).passes == MAX_PASSES
    assert action(ActionKind.RETRY).passes == 1
    assert action(ActionKind.CANCEL, filter=None, ids=("j",)).passes == 1


def test_the_end_of_an_action_settles_its_progress() -> None:
    progress = ActionProgress(done=3, refused=2, cursor="c", watched=["j"])
    assert not progress.is_over
    progress.end(ActionState.DONE, 5)
    assert progress == ActionProgress(ActionState.DONE, matched=5, done=3, refused=2, finished_at_ms=5)
    assert progress.is_over


def test_an_action_that_ends_early_does_not_know_how_many_it_matched() -> None:
    progress = ActionProgress(done=3)
    progress.end(ActionState.CANCELED, 5, "user:ada wished it")
    assert progress.matched is None
    assert progress.message == "user:ada wished it"


def test_watched_jobs_count_once_they_have_ended() -> None:
    progress = ActionProgress(watched=["waits", "good", "bad", "retries", "gone"])
    assert not progress.note_ended("waits", job(JobState.READY))
    assert progress.note_ended("good", job(JobState.SUCCEEDED))
    assert progress.note_ended("bad", job(JobState.FAILED))
    assert progress.note_ended("retries", job(JobState.RETRYING, failures=1))
    assert progress.note_ended("gone", None)
    assert (progress.watched, progress.ended, progress.failed_again) == (["waits"], 4, 2)


def test_a_retry_stops_when_more_than_its_share_failed_again() -> None:
    progress = ActionProgress(ended=STOP_LEAST - 1, failed_again=STOP_LEAST - 1)
    assert not progress.fails_too_often(0.5), "too few have ended to tell"
    progress.ended, progress.failed_again = STOP_LEAST, STOP_LEAST // 2
    assert not progress.fails_too_often(0.5)
    progress.failed_again += 1
    assert progress.fails_too_often(0.5)
    assert not progress.fails_too_often(None)
