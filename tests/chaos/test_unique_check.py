"""The check of unique pushes finds each broken promise, and accepts good histories."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.chaos.checker import check
from tests.chaos.history import Call, EndedAttempt, History, Line
from tests.chaos.test_checker import Story, token

pytestmark = pytest.mark.req("S7")


def push(
    s: Story, job_id: str, at_s: float, *, key: str | None = "k", scope: str = "until_finished",
    on_conflict: str = "existing", n: int = 7, verdict: str = "", holder: str = "", outcome: Any = "done",
    **fields: Any,
) -> None:  # fmt: skip
    """Add a push with a key and its answer: its own job, or a verdict that names the holder."""
    unique: dict[str, Any] = {"key": key, "scope": scope, "on_conflict": on_conflict}
    if scope == "window":
        unique["ttl_s"] = 5.0
    content = {"id": job_id, "name": "work", "argument": {"n": n}, **({"unique": unique} | fields)}
    if "debounce" in fields:
        del content["unique"]
    status = {"": 201, "refused": 409}.get(verdict, 200)
    outcome = "refused" if verdict == "refused" else outcome
    answered = (holder or job_id) if outcome != "unknown" else ""
    s.h.calls.append(
        Call("push", job_id, at_s, at_s + 0.01, outcome, status, content, answered, verdict=verdict)
    )


def ran(s: Story, job_id: str, start_s: float, end_s: float, *, n: int = 7, worker: int = 1) -> None:
    s.end(job_id, claim=s.run(job_id, start_s, end_s, worker=worker), argument={"n": n})


def told(tell: Callable[[Story], None]) -> History:
    story = Story()
    tell(story)
    return story.h


# --- good ones


def one_after_the_other(s: Story) -> None:
    push(s, "a", 1.0)
    ran(s, "a", 1.1, 2.0)
    s.call("view", "a", 2.5, state="succeeded")
    push(s, "b", 3.0)
    ran(s, "b", 3.1, 3.2)


def a_duplicate(s: Story) -> None:
    push(s, "a", 1.0)
    ran(s, "a", 1.1, 3.0)
    push(s, "b", 2.0, verdict="duplicate", holder="a")


def a_refused_one(s: Story) -> None:
    push(s, "a", 1.0)
    ran(s, "a", 1.1, 3.0)
    push(s, "b", 2.0, on_conflict="reject", verdict="refused", holder="a")


def other_keys_at_once(s: Story) -> None:
    push(s, "a", 1.0, key="x")
    push(s, "b", 1.0, key="y")
    push(s, "c", 1.0, key=None, n=1)
    push(s, "d", 1.0, key=None, n=2)
    for job_id, n in (("a", 7), ("b", 7), ("c", 1), ("d", 2)):
        ran(s, job_id, 1.1, 3.0, n=n)


def replaced(s: Story) -> None:
    push(s, "a", 1.0, delay=2.0)
    push(s, "b", 2.0, on_conflict="replace", n=8, verdict="replaced", holder="a", delay=2.0)
    ran(s, "a", 4.1, 4.2, n=8)


def debounced(s: Story) -> None:
    rule = {"key": "k", "wait_s": 2.0, "max_s": 3.0}
    push(s, "a", 1.0, debounce=rule)
    push(s, "b", 2.5, n=8, verdict="replaced", holder="a", debounce=rule)
    ran(s, "a", 4.1, 4.2, n=8)


def a_key_until_the_start(s: Story) -> None:
    push(s, "a", 1.0, scope="until_start")
    ran(s, "a", 1.1, 9.0)
    push(s, "b", 2.0, scope="until_start")
    ran(s, "b", 2.1, 3.0, worker=2)


def offer(s: Story, job_id: str, at_s: float, detail: str, fence: int) -> None:
    """Add what a worker answered to an offer that it did not take."""
    s.h.lines.append(
        Line("offer", "worker-1", 101, at_s, job_id=job_id, attempt=1, token=token(fence), fence=fence, epoch=10,
             detail=detail)
    )  # fmt: skip


def a_job_that_gave_way(s: Story) -> None:
    push(s, "a", 1.0, scope="until_start")
    push(s, "b", 2.0, scope="until_start")
    offer(s, "a", 2.3, "busy", 900)
    s.end("a", "skipped", attempt=0, cause="superseded")
    ran(s, "b", 2.4, 3.0, worker=2)


def a_slow_offer_that_was_taken(s: Story) -> None:
    push(s, "a", 1.0, scope="until_start")
    push(s, "b", 2.0, scope="until_start")
    ran(s, "a", 3.2, 9.0)
    ran(s, "b", 2.4, 3.0, worker=2)


def a_job_that_was_lost_with_its_worker(s: Story) -> None:
    push(s, "a", 1.0, scope="until_start")
    push(s, "b", 2.0, scope="until_start")
    ran(s, "b", 2.4, 3.0, worker=2)
    claim = s.run("a", 9.0, 9.1, attempt=2)
    s.end("a", attempt=2, claim=claim, losses=1, attempts=(EndedAttempt(1, "lost", "w"),))
    s.fault("kill", "worker-3", 1.5, 1.6, dead_s=1.6)


def a_key_that_came_back(s: Story) -> None:
    push(s, "a", 1.0, scope="until_start")
    push(s, "b", 2.0, scope="until_start")
    offer(s, "a", 2.3, "busy", 900)
    s.call("cancel", "b", 2.2, state="canceled")
    s.end("b", "canceled", attempt=0)
    ran(s, "a", 2.6, 3.0)


def a_key_that_came_back_from_the_last_of_two(s: Story) -> None:
    push(s, "a", 1.0, scope="until_start")
    push(s, "b", 2.0, scope="until_start")
    ran(s, "b", 2.1, 2.15, worker=2)
    push(s, "c", 2.2, scope="until_start")
    offer(s, "a", 2.4, "busy", 900)
    s.call("cancel", "c", 2.3, state="canceled")
    s.end("c", "canceled", attempt=0)
    ran(s, "a", 2.6, 3.0)


def a_window_that_outlives_its_job(s: Story) -> None:
    push(s, "a", 1.0, scope="window")
    ran(s, "a", 1.1, 1.2)
    s.call("view", "a", 2.0, state="succeeded")
    push(s, "b", 3.0, scope="window", verdict="duplicate", holder="a")
    push(s, "c", 7.0, scope="window")
    ran(s, "c", 7.1, 7.2)


def a_window_of_a_clock_that_was_set(s: Story) -> None:
    push(s, "a", 1.0, scope="window")
    ran(s, "a", 1.1, 1.2)
    s.fault("clock step", "store", 1.5, 1.6)
    push(s, "b", 2.0, scope="window")
    ran(s, "b", 2.1, 2.2)


def a_key_of_a_canceled_job(s: Story) -> None:
    push(s, "a", 1.0, delay=5.0)
    s.call("cancel", "a", 2.0, state="canceled")
    s.end("a", "canceled", attempt=0)
    push(s, "b", 3.0)
    ran(s, "b", 3.1, 3.2)


def an_unknown_replacement(s: Story) -> None:
    push(s, "a", 1.0, delay=2.0)
    push(s, "b", 2.0, on_conflict="replace", n=8, outcome="unknown", delay=2.0)
    ran(s, "a", 4.1, 4.2, n=8)


def a_repeat_that_made_the_job(s: Story) -> None:
    push(s, "a", 1.0)
    ran(s, "a", 1.1, 2.0)
    push(s, "b", 1.5, verdict="duplicate", holder="a")
    push(s, "b", 3.0)
    ran(s, "b", 3.1, 3.2)


GOOD = [
    one_after_the_other, a_duplicate, a_refused_one, other_keys_at_once, replaced, debounced, a_key_until_the_start,
    a_job_that_gave_way, a_slow_offer_that_was_taken, a_job_that_was_lost_with_its_worker,
    a_key_that_came_back, a_key_that_came_back_from_the_last_of_two,
    a_window_that_outlives_its_job, a_window_of_a_clock_that_was_set, a_key_of_a_canceled_job,
    an_unknown_replacement, a_repeat_that_made_the_job,
]  # fmt: skip


@pytest.mark.parametrize("tell", GOOD, ids=lambda tell: tell.__name__)
def test_a_good_history_passes(tell: Callable[[Story], None]) -> None:
    assert [str(v) for v in check(told(tell)).violations] == []


# --- bad ones


def two_unfinished_jobs(s: Story) -> None:
    push(s, "a", 1.0)
    ran(s, "a", 1.1, 5.0)
    push(s, "b", 2.0)
    ran(s, "b", 6.0, 6.1)


def two_running_jobs_of_equal_arguments(s: Story) -> None:
    push(s, "a", 1.0, key=None)
    ran(s, "a", 1.1, 5.0)
    push(s, "b", 2.0, key=None)
    ran(s, "b", 2.1, 2.2, worker=2)


def a_key_that_an_attempt_freed(s: Story) -> None:
    push(s, "a", 1.0)
    s.run("a", 1.1, 1.2, ending="failure")
    s.end("a", claim=s.run("a", 5.0, 5.1, attempt=2), attempt=2, failures=1)
    push(s, "b", 2.0)
    ran(s, "b", 2.1, 2.2)


def a_window_that_was_cut_short(s: Story) -> None:
    push(s, "a", 1.0, scope="window")
    ran(s, "a", 1.1, 1.2)
    push(s, "b", 3.0, scope="window")
    ran(s, "b", 3.1, 3.2)


def two_waiting_jobs_until_their_start(s: Story) -> None:
    push(s, "a", 1.0, scope="until_start", delay=3.0)
    push(s, "b", 2.0, scope="until_start", delay=3.0)
    ran(s, "a", 4.1, 4.2)
    ran(s, "b", 5.1, 5.2)


def two_waiting_jobs_after_an_offer_in_vain(s: Story) -> None:
    push(s, "a", 1.0, scope="until_start")
    push(s, "b", 2.0, scope="until_start")
    offer(s, "a", 2.3, "busy", 900)
    ran(s, "a", 2.4, 2.5)
    ran(s, "b", 2.6, 3.0)


def two_waiting_jobs_after_the_death_of_a_leader(s: Story) -> None:
    push(s, "a", 1.0, scope="until_start")
    push(s, "b", 2.0, scope="until_start")
    ran(s, "b", 2.1, 2.2)
    ran(s, "a", 9.0, 9.1)


def two_debounced_jobs(s: Story) -> None:
    rule = {"key": "k", "wait_s": 2.0, "max_s": 9.0}
    push(s, "a", 1.0, debounce=rule)
    push(s, "b", 2.0, debounce=rule)
    ran(s, "a", 3.1, 3.2)
    ran(s, "b", 4.1, 4.2)


def a_key_that_stays_with_a_finished_job(s: Story) -> None:
    push(s, "a", 1.0)
    ran(s, "a", 1.1, 1.2)
    s.call("view", "a", 2.0, state="succeeded")
    push(s, "b", 3.0, verdict="duplicate", holder="a")


def a_key_that_is_taken_when_all_is_over(s: Story) -> None:
    push(s, "a", 1.0)
    ran(s, "a", 1.1, 1.2)
    s.h.drained_s = 19.0
    push(s, "b", 21.0, on_conflict="reject", verdict="refused", holder="a")


def a_key_that_stays_after_the_start(s: Story) -> None:
    push(s, "a", 1.0, scope="until_start")
    ran(s, "a", 1.1, 9.0)
    push(s, "b", 2.0, scope="until_start", verdict="duplicate", holder="a")


def a_window_that_does_not_end(s: Story) -> None:
    push(s, "a", 1.0, scope="window")
    ran(s, "a", 1.1, 1.2)
    s.call("view", "a", 2.0, state="succeeded")
    push(s, "b", 7.0, scope="window", verdict="duplicate", holder="a")


def a_key_that_a_cancel_did_not_free(s: Story) -> None:
    push(s, "a", 1.0, delay=5.0)
    s.call("cancel", "a", 2.0, state="canceled")
    s.end("a", "canceled", attempt=0)
    push(s, "b", 3.0, verdict="duplicate", holder="a")


def a_holder_of_another_key(s: Story) -> None:
    push(s, "a", 1.0, key="x")
    ran(s, "a", 1.1, 3.0)
    push(s, "b", 2.0, key="y", verdict="duplicate", holder="a")


def a_holder_that_came_later(s: Story) -> None:
    push(s, "b", 2.0, verdict="duplicate", holder="a")
    push(s, "a", 3.0)
    ran(s, "a", 3.1, 3.2)


def refused_though_it_asked_for_the_existing_one(s: Story) -> None:
    a_refused_one(s)
    s.h.calls = [replace(c, job={**(c.job or {}), "unique": {**c.job["unique"], "on_conflict": "existing"}})
                 if c.job else c for c in s.h.calls]  # fmt: skip


def replaced_after_its_start(s: Story) -> None:
    push(s, "a", 1.0)
    ran(s, "a", 1.1, 5.0)
    push(s, "b", 2.0, on_conflict="replace", verdict="replaced", holder="a")


def started_before_its_new_time(s: Story) -> None:
    replaced(s)
    s.h.lines = [replace(line, at_s=3.0) if line.what in ("start", "offer") else line for line in s.h.lines]


def a_replacement_that_was_lost(s: Story) -> None:
    replaced(s)
    s.h.jobs["a"] = replace(s.h.jobs["a"], argument={"n": 7})


def content_of_nobody(s: Story) -> None:
    replaced(s)
    s.h.jobs["a"] = replace(s.h.jobs["a"], argument={"n": 9})


def a_duplicate_that_was_stored(s: Story) -> None:
    a_duplicate(s)
    s.end("b", claim=s.run("b", 5.0, 5.1, of=token(50), fence=50))


BAD = [
    ("key held twice", two_unfinished_jobs), ("key held twice", two_running_jobs_of_equal_arguments),
    ("key held twice", a_key_that_an_attempt_freed), ("key held twice", a_window_that_was_cut_short),
    ("key held twice", two_waiting_jobs_until_their_start), ("key held twice", two_debounced_jobs),
    ("key held twice", two_waiting_jobs_after_an_offer_in_vain),
    ("key held twice", two_waiting_jobs_after_the_death_of_a_leader),
    ("key not freed", a_key_that_stays_with_a_finished_job), ("key not freed", a_key_that_is_taken_when_all_is_over),
    ("key not freed", a_key_that_stays_after_the_start), ("key not freed", a_window_that_does_not_end),
    ("key not freed", a_key_that_a_cancel_did_not_free), ("wrong holder", a_holder_of_another_key),
    ("wrong holder", a_holder_that_came_later),
    ("wrong verdict", refused_though_it_asked_for_the_existing_one),
    ("started job replaced", replaced_after_its_start), ("started too early", started_before_its_new_time),
    ("replacement lost", a_replacement_that_was_lost), ("changed", content_of_nobody),
    ("refused but stored", a_duplicate_that_was_stored),
]  # fmt: skip


@pytest.mark.parametrize(("name", "tell"), BAD, ids=lambda case: getattr(case, "__name__", ""))
def test_a_bad_history_is_caught_by_name(name: str, tell: Callable[[Story], None]) -> None:
    assert name in check(told(tell)).names()
