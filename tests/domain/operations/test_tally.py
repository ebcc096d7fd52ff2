import pytest

from jqmaster.domain.jobs.job import Cause, JobState
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.domain.operations.tally import MAX_MESSAGES, OTHER, OTHER_MESSAGES, Tally

FAILED = Decision(JobState.FAILED, "failure", cause=Cause.ERROR, is_counted=True)


@pytest.mark.req("P8", "S12")
def test_each_end_of_an_attempt_is_counted_once_as_what_it_is() -> None:
    tally = Tally()
    ends = [
        FAILED,
        Decision(JobState.FAILED, "lost", cause=Cause.LOST, is_loss=True),
        Decision(JobState.RETRYING, "failure", cause=Cause.ERROR, is_counted=True),
        Decision(JobState.RETRYING, "lost", is_loss=True),
        Decision(JobState.READY, "lost", is_loss=True),
        Decision(JobState.READY, "handed_back"),
        Decision(JobState.SCHEDULED, "deferred"),
        Decision(JobState.CANCELED, "canceled", cause=Cause.CANCELED),
        Decision(JobState.DISCARDED, "discarded"),
    ]
    for n, decision in enumerate(ends):
        tally.ended("work", decision, job_id=f"job-{n}", message="m", run_ms=None if decision.is_loss else 7)
    counts = tally.of("work")
    assert (counts.failed, counts.retried, counts.lost) == (2, 3, 3)
    assert (counts.handed_back, counts.deferred, counts.canceled, counts.succeeded) == (1, 1, 1, 0)
    assert counts.discarded == 1
    # These attempts ended by themselves.
    assert counts.run.count == 3
    failures = tally.take().failures
    assert {key: (f.count, f.example_job_id) for key, f in failures.items()} == {
        ("work", Cause.ERROR, "m", ""): (1, "job-0"),
        ("work", Cause.LOST, "m", ""): (1, "job-1"),
    }


def test_it_is_empty_until_something_is_counted_and_again_when_all_of_it_is_taken() -> None:
    tally = Tally()
    assert not tally.has_any()
    tally.of("work").pushed += 1
    assert tally.has_any()
    tally.on("worker").succeed(3, jobs=1)
    tally.take()
    assert tally.has_any()
    tally.take_workers()
    assert not tally.has_any()


def test_taken_counts_go_on_since_the_start() -> None:
    tally = Tally()
    for _ in range(3):
        tally.of("work").pushed += 2
        tally.claimed("work", [5])
        tally.succeeded("work", 9)
        tally.sampled("", 4, 100)
        tally.sampled("", 2, 200)
        batch = tally.take()
        assert (batch.names["work"].pushed, batch.names["work"].wait.count) == (2, 1)
        assert (batch.names[""].backlog, batch.names[""].oldest_wait_ms) == (4, 200)
    tally.of("work").pushed += 1
    whole = tally.since_start()
    assert set(whole) == {"work"}
    assert (whole["work"].pushed, whole["work"].succeeded, whole["work"].run.sum_ms) == (7, 3, 27)
    whole["work"].pushed = 0
    assert tally.since_start()["work"].pushed == 7
    tally.sampled("", 1, 1)
    assert set(tally.since_start()) == {"work"}, "all names together are no name"
    assert set(tally.take().names) == {"", "work"}
    assert not tally.take().names


def test_names_and_messages_are_bounded_and_nothing_is_lost() -> None:
    tally = Tally(max_names=3)
    for n in range(10):
        tally.of(f"name-{n}").pushed += 1
    assert {name: c.pushed for name, c in tally.since_start().items()} == {
        "name-0": 1, "name-1": 1, "name-2": 1, OTHER: 7,
    }  # fmt: skip
    tally.take()
    tally.of("another").pushed += 1
    assert tally.since_start()[OTHER].pushed == 8
    for n in range(3 * MAX_MESSAGES):
        tally.ended("work", FAILED, job_id="j", message=f"message {n}")
    failures = tally.take().failures
    assert len(failures) == MAX_MESSAGES + 1
    assert failures["work", Cause.ERROR, OTHER_MESSAGES, ""].count == 2 * MAX_MESSAGES
    for n in range(3 * MAX_MESSAGES):
        tally.ended(f"work-{n}", FAILED, job_id="j", message="message")
    assert len(tally.take().failures) <= 2 * MAX_MESSAGES
