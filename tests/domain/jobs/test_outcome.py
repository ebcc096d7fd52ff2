from collections.abc import Callable
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jqmaster.domain.jobs.job import DEFAULT_RETRY, TRANSITIONS, Cause, Job, JobState
from jqmaster.domain.jobs.outcome import (
    Decision,
    ExpiryRules,
    NotReadyRecord,
    NotReadyReport,
    OrderlyEnd,
    Outcome,
    Reason,
    Report,
    decide,
    decide_expired,
    decide_not_ready,
    decide_restored,
    decide_unanswered,
    leave_ms,
)
from jqmaster.domain.jobs.retry import AT_ONCE, MAX_FLOOR_MS, backoff_ms

JOB = Job(
    id="j", name="n", state=JobState.RUNNING, cause=Cause.NONE, priority=0, max_retry=2, timeout_ms=30_000,
    keep_result=False, rerun_lost=False, is_confirmed=True, attempt=1, failures=0, losses=0, returned_offers=0,
    created_at_ms=0, due_at_ms=0, expires_at_ms=0, started_at_ms=1_000, finished_at_ms=0, not_after_ms=6_000, fence=1,
    token="t", worker_id="w", retry=DEFAULT_RETRY, tags=(), headers={}, argument=b"", lane_id=bytes(8),
)  # fmt: skip
RULES = ExpiryRules(stale_ms=5_000, max_losses=3, lease_ms=15_000)
JITTER = st.floats(0, 1, exclude_max=True)
JOBS = st.builds(
    lambda **fields: replace(JOB, **fields),
    max_retry=st.integers(0, 4), failures=st.integers(0, 6), losses=st.integers(0, 4), is_confirmed=st.booleans(),
    rerun_lost=st.booleans(),
)  # fmt: skip


def outcome(kind: Report, **fields: object) -> Outcome:
    return Outcome("j", "t", kind, **fields)  # type: ignore[arg-type]


@pytest.mark.req("J8", "M2", "S12")
def test_endings_that_cost_no_retry() -> None:
    assert decide(JOB, outcome("success"), jitter=0.5) == Decision(JobState.SUCCEEDED, "success")
    assert decide(JOB, outcome("handed_back"), jitter=0.5) == Decision(JobState.READY, "handed_back")
    for after, delay_ms in ((None, 0), (0.0, 0), (1.5, 1_500)):
        deferred = decide(JOB, outcome("deferred", retry_after_s=after), jitter=0.5)
        assert deferred == Decision(JobState.SCHEDULED, "deferred", delay_ms=delay_ms)
    assert decide(JOB, outcome("discarded"), jitter=0.5) == Decision(JobState.DISCARDED, "discarded")
    canceled = decide(JOB, outcome("canceled"), jitter=0.5)
    assert canceled == Decision(JobState.CANCELED, "canceled", cause=Cause.CANCELED)


@pytest.mark.req("J7")
def test_a_worker_leaves_jobs_to_others_when_it_may_still_run_one_that_runs_again() -> None:
    back = Decision(JobState.READY, "handed_back")
    assert leave_ms(back) == 15_000
    assert leave_ms(replace(back, state=JobState.SCHEDULED, delay_ms=2_000)) == 17_000
    late = Decision(JobState.RETRYING, "timeout", cause=Cause.TIMEOUT, is_counted=True, delay_ms=5_000)
    assert (leave_ms(late), leave_ms(replace(late, delay_ms=3_600_000))) == (20_000, 75_000)
    for other in (
        replace(late, state=JobState.FAILED),
        Decision(JobState.RETRYING, "retried", cause=Cause.ERROR),
        Decision(JobState.SCHEDULED, "deferred"),
        Decision(JobState.READY, "lost"),
    ):
        assert leave_ms(other) == 0, other


def attempts_within(span_ms: int, again: Callable[[int, int], Decision]) -> int:
    """Return how many attempts begin within a span if each ends at once, and `again` decides on its end.

    `again` gets the number of the attempt and the time.
    """
    now_ms, attempts = 0, 0
    while now_ms < span_ms:
        attempts += 1
        decision = again(attempts, now_ms)
        assert not decision.is_counted
        now_ms += decision.delay_ms
        assert attempts < 10_000, "it spins"
    return attempts


@pytest.mark.req("M2", "P1")
@pytest.mark.parametrize("kind", ["deferred", "handed_back", "not_ready", "mixed"])
@pytest.mark.parametrize("failures", [0, 40])
def test_a_job_that_always_comes_back_at_once_does_not_spin(kind: str, failures: int) -> None:
    def again(attempt: int, now_ms: int) -> Decision:
        job = replace(JOB, max_retry=1_000, attempt=attempt + failures, failures=failures)
        if kind == "not_ready":
            return waits(attempt, now_ms=now_ms, first_s=0.0, max_wait_s=0.0)
        report: Report = (
            "deferred" if kind == "deferred" or (attempt % 2 and kind == "mixed") else "handed_back"
        )
        return decide(job, outcome(report, retry_after_s=0.0), jitter=0.0)

    assert attempts_within(60_000, again) <= 60_000 / MAX_FLOOR_MS + AT_ONCE + 5
    # A first deploy or check costs no time.
    assert [again(attempt, 0).delay_ms for attempt in range(1, AT_ONCE + 1)] == [0] * AT_ONCE


@pytest.mark.req("P1")
def test_a_wait_above_the_floor_is_what_the_handler_asked_for() -> None:
    job = replace(JOB, attempt=500)
    assert decide(job, outcome("deferred", retry_after_s=1.5), jitter=0.5).delay_ms == 1_500
    assert waits(500, first_s=1.5, max_wait_s=1.5).delay_ms == 1_500


@pytest.mark.req("J5", "J9", "M4", "M5")
@given(
    job=JOBS, reason=st.sampled_from(get_args(Reason)), should_retry=st.booleans(), jitter=JITTER,
    after=st.none() | st.floats(0, 100),
)  # fmt: skip
def test_a_failure_is_tried_again_while_retries_are_left(
    job: Job, reason: str, should_retry: bool, jitter: float, after: float | None
) -> None:
    report = outcome("failure", reason=reason, should_retry=should_retry, retry_after_s=after)
    decision = decide(job, report, jitter=jitter)
    cause = Cause.ERROR if reason == "other" else Cause[reason.upper()]
    ending = reason if reason in ("timeout", "callback_timeout") else "failure"
    assert (decision.cause, decision.ending, decision.is_counted) == (cause, ending, True)
    assert not decision.is_loss
    if should_retry and job.failures < job.max_retry and reason not in ("undecodable", "invalid_argument"):
        assert decision.state is JobState.RETRYING
        assert decision.delay_ms == backoff_ms(
            job.retry, job.failures + 1, jitter=jitter, retry_after_s=after
        )
    else:
        assert (decision.state, decision.delay_ms) == (JobState.FAILED, 0)


@given(job=JOBS, kind=st.sampled_from(get_args(Report)), jitter=JITTER)
def test_every_report_leads_where_the_table_allows(job: Job, kind: Report, jitter: float) -> None:
    decision = decide(job, outcome(kind), jitter=jitter)
    assert decision.state in TRANSITIONS[JobState.RUNNING, "settle"]
    assert (decision.cause is Cause.NONE) is (
        kind in ("success", "handed_back", "deferred", "discarded", "challenged")
    )
    assert decision.is_counted is (kind == "failure")


@pytest.mark.req("M3", "M4")
@given(
    job=JOBS, jitter=JITTER, seen_ms=st.integers(0, 60_000), now_ms=st.integers(15_000, 60_000),
    deadline_ms=st.integers(10_000, 80_000), as_of_ms=st.just(0) | st.integers(-1, 60_000),
    found_after_ms=st.integers(0, 30_000),
)  # fmt: skip
def test_an_ended_lease_decides_the_outcome(
    job: Job,
    jitter: float,
    seen_ms: int,
    now_ms: int,
    deadline_ms: int,
    as_of_ms: int,
    found_after_ms: int,
) -> None:
    lease_until_ms = min(now_ms - found_after_ms, deadline_ms)
    decision = decide_expired(
        job,
        now_ms=now_ms,
        deadline_ms=deadline_ms,
        lease_until_ms=lease_until_ms,
        worker_seen_ms=seen_ms,
        worker_as_of_ms=as_of_ms,
        rules=RULES,
        jitter=jitter,
    )
    worker_lives = 0 <= now_ms - seen_ms <= RULES.stale_ms
    proof_ms = job.not_after_ms + RULES.lease_ms
    is_untold = not job.is_confirmed and as_of_ms <= 0 and worker_lives
    if is_untold and (seen_ms <= proof_ms or as_of_ms < 0):
        assert decision is None
        return
    assert decision is not None
    assert decision.state in TRANSITIONS[JobState.RUNNING, "reclaim"]
    assert not (decision.is_counted and decision.is_loss)
    never_started = is_untold or (not job.is_confirmed and as_of_ms > job.not_after_ms)
    if never_started:
        assert decision == Decision(JobState.READY, "returned")
    elif lease_until_ms == deadline_ms and worker_lives:
        timed_out = outcome("failure", reason="timeout")
        assert decision == decide(job, timed_out, jitter=jitter)
    else:
        assert decision.is_loss
        poison = job.losses + 1 >= RULES.max_losses
        may_not_rerun = job.max_retry == 0 and not job.rerun_lost
        lost_for_good = Decision(JobState.FAILED, "lost", cause=Cause.LOST, is_loss=True)
        again = Decision(JobState.READY, "lost", is_loss=True)
        assert decision == (lost_for_good if poison or may_not_rerun else again)


def test_the_edges_of_an_ended_lease() -> None:
    def told(job: Job, **fields: int) -> Decision | None:
        times = {
            "now_ms": 16_000, "deadline_ms": 40_000, "lease_until_ms": 16_000, "worker_seen_ms": 0,
            "worker_as_of_ms": 0,
        } | fields  # fmt: skip
        return decide_expired(job, **times, rules=RULES, jitter=0.0, orderly_end=None)

    def decided(job: Job, **fields: int) -> Decision:
        decision = told(job, **fields)
        assert decision is not None
        return decision

    offer = replace(JOB, is_confirmed=False)
    proof_ms = offer.not_after_ms + RULES.lease_ms
    assert told(offer, now_ms=proof_ms, worker_seen_ms=proof_ms) is None
    assert decided(offer, now_ms=proof_ms + 1, worker_seen_ms=proof_ms + 1).ending == "returned"
    assert decided(offer, now_ms=proof_ms + 1, worker_seen_ms=proof_ms - RULES.stale_ms).is_loss, "silent"
    assert decided(offer, now_ms=proof_ms + 1, worker_seen_ms=proof_ms + 2).is_loss, (
        "by a clock that was set back"
    )
    assert told(offer, now_ms=proof_ms + 1, worker_seen_ms=proof_ms + 1, worker_as_of_ms=-1) is None
    set_back = replace(offer, not_after_ms=offer.not_after_ms + 3_600_000)
    assert decided(set_back, worker_seen_ms=16_000).is_loss, "an hour is longer than any offer"
    assert decided(offer, worker_as_of_ms=offer.not_after_ms).is_loss
    assert decided(offer, worker_as_of_ms=offer.not_after_ms + 1).ending == "returned"
    assert decided(JOB, worker_seen_ms=16_000).ending == "lost"
    overdue = {"now_ms": 40_000, "lease_until_ms": 40_000, "deadline_ms": 40_000}
    assert decided(JOB, **overdue, worker_seen_ms=35_000).ending == "timeout"
    assert decided(JOB, **overdue, worker_seen_ms=34_999).ending == "lost"
    assert decided(JOB, **overdue | {"lease_until_ms": 39_999}, worker_seen_ms=40_000).ending == "lost"
    assert decided(JOB, now_ms=39_999, lease_until_ms=39_999, worker_seen_ms=39_000).ending == "lost"
    assert decided(replace(JOB, losses=1)).state is JobState.READY
    assert decided(replace(JOB, losses=2)).state is JobState.FAILED
    assert decided(replace(JOB, max_retry=0)).state is JobState.FAILED
    assert decided(replace(JOB, max_retry=0, rerun_lost=True)).state is JobState.READY


@pytest.mark.req("M3")
def test_with_one_loss_left_a_job_waits_for_a_worker_to_itself() -> None:
    job = replace(JOB, is_confirmed=True, losses=1)
    facts = {
        "now_ms": 9_000,
        "deadline_ms": 99_000,
        "lease_until_ms": 9_000,
        "worker_seen_ms": 0,
        "worker_as_of_ms": 0,
        "jitter": 0.5,
    }
    waits = decide_expired(job, rules=replace(RULES, alone_wait_ms=700), **facts)  # type: ignore[arg-type]
    assert waits == Decision(JobState.RETRYING, "lost", delay_ms=700, is_loss=True)
    at_once = decide_expired(job, rules=RULES, **facts)  # type: ignore[arg-type]
    assert at_once == Decision(JobState.READY, "lost", is_loss=True)


@pytest.mark.req("M14")
def test_a_lease_of_a_worker_that_left_in_order_is_no_loss() -> None:
    times = {
        "now_ms": 16_000, "deadline_ms": 99_000, "lease_until_ms": 16_000, "worker_seen_ms": 9_000,
        "worker_as_of_ms": 9_000, "jitter": 0.5,
    }  # fmt: skip
    rules = replace(RULES, alone_wait_ms=700)

    def decided(**fields: object) -> Decision | None:
        job = replace(JOB, **fields)  # type: ignore[arg-type]
        return decide_expired(job, rules=rules, orderly_end="announced", **times)  # type: ignore[arg-type]

    again = Decision(JobState.READY, "handed_back")
    assert [decided(losses=losses) for losses in (0, 1, 2, 7)] == [again] * 4
    assert decided(max_retry=0, rerun_lost=True) == again
    # Nobody knows whether its run has ended: it may not be started a second time.
    assert decided(max_retry=0) == Decision(JobState.FAILED, "lost", cause=Cause.LOST, is_loss=True)


@pytest.mark.req("M14")
def test_an_offer_never_began_if_its_worker_announced_its_end_and_left_without_naming_it() -> None:
    def decided(end: OrderlyEnd, *, seen_ms: int = 0, **fields: object) -> Decision | None:
        return decide_expired(
            replace(JOB, **{"max_retry": 0, "is_confirmed": False, **fields}),  # type: ignore[arg-type]
            now_ms=16_000, deadline_ms=99_000, lease_until_ms=16_000, worker_seen_ms=seen_ms, worker_as_of_ms=0,
            rules=RULES, jitter=0.5, orderly_end=end,
        )  # fmt: skip

    lost = Decision(JobState.FAILED, "lost", cause=Cause.LOST, is_loss=True)
    assert decided("left") == Decision(JobState.READY, "returned")
    assert decided("left", is_confirmed=True) == lost
    # It announced its end and was killed: it may have begun what it named in no heartbeat.
    assert decided("announced", seen_ms=9_000) == lost
    # It knows nothing of announcements, and may have given up a result that no master took.
    assert decided("unregistered") == lost
    assert decided("unregistered", max_retry=1) == Decision(JobState.READY, "handed_back")


@pytest.mark.req("P6")
def test_a_job_whose_callback_is_there_never_waits_for_a_worker_to_itself() -> None:
    job = replace(JOB, losses=1, has_challenge=True)
    facts = {
        "now_ms": 9_000,
        "deadline_ms": 99_000,
        "lease_until_ms": 9_000,
        "worker_seen_ms": 0,
        "worker_as_of_ms": 0,
        "jitter": 0.5,
    }
    decision = decide_expired(job, rules=replace(RULES, alone_wait_ms=700), **facts)  # type: ignore[arg-type]
    assert decision == Decision(JobState.READY, "lost", is_loss=True)


def waits(
    times: int, *, since_ms: int = 0, now_ms: int = 0, first_s: float | None = 2.0, **rules: float
) -> Decision:
    """Return the decision about a job that was not ready this many times, with waits from 2 s to 60 s."""
    report = outcome(
        "deferred", retry_after_s=first_s, not_ready=NotReadyReport(**({"max_wait_s": 60.0} | rules))
    )
    return decide_not_ready(report, NotReadyRecord(since_ms, times), now_ms)


@pytest.mark.req("P1")
def test_each_wait_of_a_job_that_is_not_ready_is_twice_as_long_up_to_a_ceiling() -> None:
    delays_ms = [waits(times).delay_ms for times in (1, 2, 3, 5, 6, 31, 32, 10**9)]
    assert delays_ms == [2_000, 4_000, 8_000, 32_000, 60_000, 60_000, 60_000, 60_000]
    assert waits(4) == Decision(JobState.SCHEDULED, "not_ready", delay_ms=16_000)
    # The first wait applies even where the ceiling is lower.
    assert waits(1, max_wait_s=1.0).delay_ms == waits(9, max_wait_s=1.0).delay_ms == 2_000


@pytest.mark.req("P1", "P6")
def test_a_job_that_is_not_ready_for_too_long_fails_and_is_asked_once_more_before() -> None:
    for_s = 100.0
    assert waits(5, now_ms=40_000, for_s=for_s).delay_ms == 32_000
    # The last wait ends when the total time is over.
    assert waits(6, now_ms=90_500, for_s=for_s).delay_ms == 9_500
    assert waits(6, now_ms=99_999, for_s=for_s) == Decision(JobState.SCHEDULED, "not_ready", delay_ms=1)
    assert waits(7, now_ms=100_000, for_s=for_s) == Decision(
        JobState.FAILED, "not_ready", cause=Cause.NOT_READY
    )
    # A wait uses no retry, and a clock that was set back does not make it longer than the rules allow.
    assert not waits(7, now_ms=100_000, for_s=for_s).is_counted
    assert waits(6, since_ms=5_000, now_ms=0, for_s=for_s).delay_ms == 60_000


@pytest.mark.req("P6")
@given(job=JOBS, jitter=JITTER)
def test_a_challenge_without_a_callback_is_a_failed_attempt(job: Job, jitter: float) -> None:
    decision = decide_unanswered(job, jitter=jitter)
    assert (decision.ending, decision.cause, decision.is_counted, decision.is_loss) == (
        "callback_timeout",
        Cause.CALLBACK_TIMEOUT,
        True,
        False,
    )
    assert decision == decide(job, outcome("failure", reason="callback_timeout"), jitter=jitter)
    assert (decision.state is JobState.RETRYING) is (job.failures < job.max_retry)
    assert decision.state in TRANSITIONS[JobState.AWAITING_CALLBACK, "expire_challenge"]


@pytest.mark.req("D31")
def test_a_job_that_ran_when_its_backup_was_taken_begins_again_if_it_may() -> None:
    again = Decision(JobState.READY, "lost")
    assert decide_restored(replace(JOB, max_retry=1)) == again
    assert decide_restored(replace(JOB, max_retry=0, rerun_lost=True)) == again
    assert decide_restored(replace(JOB, max_retry=0)) == Decision(JobState.FAILED, "lost", cause=Cause.LOST)
