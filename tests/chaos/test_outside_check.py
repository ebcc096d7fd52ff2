"""The check of outside work and webhooks finds each broken promise, and accepts good histories."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.checker import check
from tests.chaos.history import Call, Delivery, EndedAttempt, EndState, History, Line
from tests.chaos.outside_load import KINDS, OUTSIDE, body_of, draw_outside, opened_with
from tests.chaos.test_checker import Story

pytestmark = pytest.mark.req("P2", "P3", "P6", "M10")
URL = "http://127.0.0.1:9/hook"
Claim = tuple[str, int]


def told(tell: Callable[[Story], None]) -> History:
    story = Story()
    tell(story)
    return story.h


def push(s: Story, job_id: str = "a", *, max_retry: int = 3, **job: Any) -> None:
    s.push(job_id, name=OUTSIDE, max_retry=max_retry, **job)


def open_one(
    s: Story, request: str = "r1", at_s: float = 1.1, *, attempt: int = 1, expect: int = 1, wait_s: float = 30.0,
    job_id: str = "a", worker: int = 1, ending: str = "challenged", end_s: float | None = None,
) -> Claim:  # fmt: skip
    """Add an attempt that hands over its work."""
    claim = s.run(job_id, at_s, end_s or at_s + 0.2, attempt=attempt, worker=worker, ending=ending)
    said = {"request": request, "kind": "once", "expect": expect, "wait_s": wait_s}
    s.h.lines.append(
        Line(
            "opened",
            f"worker-{worker}",
            100 + worker,
            at_s + 0.1,
            job_id,
            attempt,
            *claim,
            detail=json.dumps(said),
        )
    )
    return claim


def answer(
    s: Story, request: str = "r1", body: str = "r1-1", at_s: float = 2.0, *, verdict: str = "taken",
    is_signed: bool = True, job_id: str = "a",
) -> None:  # fmt: skip
    outcome: Any = {"taken": "done", "repeated": "done", "": "unknown"}.get(verdict, "refused")
    told = {"request": request, "body": body, "is_signed": is_signed, "attempt": 1}
    s.h.calls.append(Call("callback", job_id, at_s, at_s + 0.01, outcome, 202, told, verdict=verdict))


def go_on(
    s: Story, *bodies: str, at_s: float = 2.1, attempt: int = 1, worker: int = 2, ending: str = "success",
    end_s: float | None = -1.0, job_id: str = "a",
) -> Claim:  # fmt: skip
    """Add the run of the callbacks."""
    claim = s.run(
        job_id, at_s, at_s + 0.2 if end_s == -1.0 else end_s, attempt=attempt, worker=worker, ending=ending
    )
    s.h.lines = [
        replace(line, detail="callback") if line.what == "start" and line.token == claim[0] else line
        for line in s.h.lines
    ]
    s.h.lines.append(
        Line(
            "callback", f"worker-{worker}", 100 + worker, at_s + 0.01, job_id, attempt, *claim,
            detail=json.dumps(bodies or ["r1-1"]),
        )
    )  # fmt: skip
    return claim


def end(s: Story, state: str = "succeeded", claim: Claim = ("", 0), *outcomes: str, **said: Any) -> None:
    """End the job with the `outcomes` of its attempts, from the first on."""
    attempts = tuple(EndedAttempt(n, outcome) for n, outcome in enumerate(outcomes, 1))
    s.end(state=state, claim=claim, name=OUTSIDE, **{"max_retry": 3, "attempts": attempts, **said})


# --- good ones


def answered_once(s: Story) -> None:
    push(s)
    open_one(s)
    answer(s)
    end(s, "succeeded", go_on(s))


def answered_twice(s: Story) -> None:
    answered_once(s)
    answer(s, at_s=2.05, verdict="repeated")
    answer(s, at_s=9.0, verdict="repeated")


def two_different_answers(s: Story) -> None:
    answered_once(s)
    answer(s, body="r1-other", at_s=2.0, verdict="conflict")


def answered_before_it_was_reported(s: Story) -> None:
    push(s)
    open_one(s, end_s=1.9)
    answer(s, at_s=1.3)
    end(s, "succeeded", go_on(s))


def an_answer_whose_fate_is_not_known(s: Story) -> None:
    push(s)
    open_one(s)
    answer(s, verdict="")
    end(s, "succeeded", go_on(s))


def several_answers(s: Story) -> None:
    push(s)
    open_one(s, expect=2)
    answer(s, body="r1-1")
    answer(s, body="r1-2", at_s=2.5)
    end(s, "succeeded", go_on(s, "r1-1", "r1-2", at_s=2.6))


def never_answered(s: Story) -> None:
    push(s, max_retry=1)
    open_one(s, wait_s=1.0)
    open_one(s, "r2", 5.0, attempt=2, wait_s=1.0)
    end(s, "failed", ("", 0), "callback_timeout", "callback_timeout", attempt=2, failures=2, max_retry=1,
        cause="callback_timeout")  # fmt: skip


def answered_too_late(s: Story) -> None:
    never_answered(s)
    answer(s, at_s=5.5, verdict="over")


def a_failure_and_a_second_challenge(s: Story) -> None:
    push(s)
    open_one(s)
    answer(s)
    go_on(s, ending="failure")
    open_one(s, "r2", 4.0, attempt=2)
    answer(s, "r2", "r2-1", 5.0)
    end(s, "succeeded", go_on(s, "r2-1", at_s=5.1, attempt=2), "failure", attempt=2, failures=1)


def a_worker_that_dies_while_it_runs_the_callback(s: Story) -> None:
    push(s)
    open_one(s)
    answer(s)
    go_on(s, end_s=None)
    s.fault("kill", "worker-2", 2.2, 2.3)
    end(s, "succeeded", go_on(s, at_s=6.0, worker=3), "lost", losses=1)


def a_callback_that_was_lost_before_it_was_started(s: Story) -> None:
    """Its worker died between the claim and the offer, so this loss has no run."""
    push(s)
    open_one(s)
    answer(s)
    end(s, "succeeded", go_on(s, at_s=6.0, worker=3), "lost", losses=1)


def a_worker_that_dies_before_the_callback(s: Story) -> None:
    push(s)
    open_one(s, ending="stopped")
    s.fault("kill", "worker-1", 1.25, 1.4)
    open_one(s, "r2", 6.0, attempt=2, worker=2)
    answer(s, at_s=7.0, verdict="over")
    answer(s, "r2", "r2-1", 7.0)
    end(s, "succeeded", go_on(s, "r2-1", at_s=7.1, attempt=2, worker=3), "lost", attempt=2, losses=1)


def canceled_before_its_callback_ran(s: Story) -> None:
    push(s)
    open_one(s)
    answer(s)
    s.call("cancel", at_s=2.05, state="canceled", was_running=True)
    end(s, "canceled", ("", 0), "canceled")


def a_forged_answer(s: Story) -> None:
    answered_once(s)
    answer(s, body="r1-forged", at_s=1.5, verdict="unsigned", is_signed=False)


def hook(s: Story, job_id: str = "a", at_s: float = 2.0, *, state: str = "succeeded", status: int = 204,
         webhook_id: str = "w1", is_signed: bool = True, own: str = "succeeded") -> None:  # fmt: skip
    s.h.deliveries.append(Delivery(at_s, job_id, webhook_id, state, status, is_signed))
    s.h.own_jobs[webhook_id] = EndState(webhook_id, "jq.webhook", own)


def told_of(s: Story) -> None:
    s.usual(notify_url=URL)
    hook(s)


def told_of_at_the_second_try(s: Story) -> None:
    s.usual(notify_url=URL)
    hook(s, status=500)
    hook(s, at_s=7.0)


def told_of_twice_because_the_master_died(s: Story) -> None:
    told_of(s)
    s.fault("kill", "master-1", 2.0, 3.0, is_leader=True)
    hook(s, at_s=6.0)


GOOD = [
    answered_once, answered_twice, two_different_answers, answered_before_it_was_reported,
    an_answer_whose_fate_is_not_known, several_answers, never_answered, answered_too_late,
    a_failure_and_a_second_challenge, a_worker_that_dies_while_it_runs_the_callback,
    a_worker_that_dies_before_the_callback, a_callback_that_was_lost_before_it_was_started,
    canceled_before_its_callback_ran, a_forged_answer, told_of,
    told_of_at_the_second_try, told_of_twice_because_the_master_died,
]  # fmt: skip


@pytest.mark.parametrize("tell", GOOD, ids=lambda tell: tell.__name__)
def test_a_good_history_has_no_violations(tell: Callable[[Story], None]) -> None:
    assert [str(violation) for violation in check(told(tell)).violations] == []


# --- bad ones


def a_callback_that_was_taken_and_not_run(s: Story) -> None:
    push(s)
    open_one(s)
    answer(s)
    end(s, "succeeded", s.run(start_s=6.0, end_s=6.2, attempt=1))


def a_callback_that_was_forgotten_with_its_attempt(s: Story) -> None:
    push(s)
    open_one(s, ending="stopped")
    answer(s, at_s=1.25)
    s.fault("kill", "worker-1", 1.3, 1.4)
    open_one(s, "r2", 6.0, attempt=2, worker=2)
    answer(s, "r2", "r2-1", 7.0)
    end(s, "succeeded", go_on(s, "r2-1", at_s=7.1, attempt=2, worker=3), "lost", attempt=2, losses=1)


def one_of_several_that_was_forgotten(s: Story) -> None:
    several_answers(s)
    s.h.lines = [replace(line, detail='["r1-1"]') if line.what == "callback" else line for line in s.h.lines]


def one_of_several_that_was_run_twice(s: Story) -> None:
    several_answers(s)
    s.h.lines = [
        replace(line, detail='["r1-1","r1-1"]') if line.what == "callback" else line for line in s.h.lines
    ]


def several_that_ran_when_only_one_was_there(s: Story) -> None:
    several_answers(s)
    s.h.calls = [call for call in s.h.calls if not call.job or call.job.get("body") != "r1-2"]


def a_callback_that_nobody_sent(s: Story) -> None:
    push(s)
    open_one(s)
    end(s, "succeeded", go_on(s))


def a_callback_that_ran_before_it_was_sent(s: Story) -> None:
    push(s)
    open_one(s)
    answer(s, at_s=3.0)
    end(s, "succeeded", go_on(s))


def a_callback_to_a_challenge_that_nobody_opened(s: Story) -> None:
    answered_once(s)
    answer(s, "r9", "r9-1")


def a_refused_callback_that_ran(s: Story) -> None:
    two_different_answers(s)
    s.h.lines = [
        replace(line, detail='["r1-other"]') if line.what == "callback" else line for line in s.h.lines
    ]


def a_late_callback_that_ran(s: Story) -> None:
    push(s)
    open_one(s)
    answer(s, verdict="over")
    end(s, "succeeded", go_on(s))


def a_callback_of_the_former_attempt(s: Story) -> None:
    a_failure_and_a_second_challenge(s)
    s.h.lines = [
        replace(line, detail='["r1-1"]') if line.what == "callback" and line.attempt == 2 else line
        for line in s.h.lines
    ]


def a_callback_that_is_new_twice(s: Story) -> None:
    answered_once(s)
    answer(s, at_s=2.05)


def two_different_callbacks_that_are_taken(s: Story) -> None:
    answered_once(s)
    answer(s, body="r1-other", at_s=2.0)


def a_callback_too_many_of_several(s: Story) -> None:
    several_answers(s)
    answer(s, body="r1-3", at_s=2.0)


def a_callback_that_is_taken_after_its_attempt(s: Story) -> None:
    never_answered(s)
    answer(s, at_s=5.5)


def a_callback_that_is_taken_after_the_end_was_read(s: Story) -> None:
    never_answered(s)
    s.call("view", at_s=9.0, state="failed")
    answer(s, "r2", "r2-1", 10.0)


def a_callback_that_is_taken_after_it_was_over(s: Story) -> None:
    answered_once(s)
    s.h.calls.insert(
        1, replace(s.h.calls[-1], verdict="over", outcome="refused", invoked_s=1.5, returned_s=1.6)
    )


def a_forged_callback_that_is_taken(s: Story) -> None:
    answered_once(s)
    s.h.calls[-1] = replace(s.h.calls[-1], job={**(s.h.calls[-1].job or {}), "is_signed": False})


def a_forged_callback_that_ran(s: Story) -> None:
    a_forged_answer(s)
    s.h.lines = [
        replace(line, detail='["r1-forged"]') if line.what == "callback" else line for line in s.h.lines
    ]


def a_challenge_that_is_opened_again(s: Story) -> None:
    """A worker gets its job without the callback."""
    push(s)
    open_one(s)
    answer(s)
    open_one(s, "r2", 2.1, worker=2)
    answer(s, "r2", "r2-1", 3.0)
    end(s, "succeeded", go_on(s, "r2-1", at_s=3.1, worker=3))


def a_canceled_job_that_opens_its_challenge_again(s: Story) -> None:
    canceled_before_its_callback_ran(s)
    open_one(s, "r2", 2.1, worker=2)


def a_callback_that_ran_twice(s: Story) -> None:
    push(s)
    open_one(s)
    answer(s)
    go_on(s)
    end(s, "succeeded", go_on(s, at_s=4.0, worker=3))


def a_callback_that_a_living_worker_lost(s: Story) -> None:
    a_worker_that_dies_while_it_runs_the_callback(s)
    s.h.faults = []


def a_callback_without_a_challenge(s: Story) -> None:
    answered_once(s)
    s.h.lines = [line for line in s.h.lines if line.what != "opened"]
    s.h.calls = [call for call in s.h.calls if call.kind != "callback"]


def an_answered_challenge_that_expired(s: Story) -> None:
    push(s)
    open_one(s, wait_s=1.0)
    answer(s, at_s=1.5)
    open_one(s, "r2", 5.0, attempt=2)
    answer(s, "r2", "r2-1", 6.0)
    end(s, "succeeded", go_on(s, "r2-1", at_s=6.1, attempt=2), "callback_timeout", attempt=2, failures=1)


def a_challenge_that_expired_early(s: Story) -> None:
    never_answered(s)
    s.h.lines = [
        replace(line, detail=line.detail.replace('"wait_s": 1.0', '"wait_s": 9.0'))
        if line.what == "opened"
        else line
        for line in s.h.lines
    ]


def a_job_that_awaits_its_callback_for_ever(s: Story) -> None:
    push(s)
    open_one(s)
    end(s, "awaiting_callback")


def an_expiry_that_is_not_counted(s: Story) -> None:
    never_answered(s)
    s.h.jobs["a"] = replace(s.h.jobs["a"], failures=1)


def a_challenged_run_that_settled_the_job(s: Story) -> None:
    push(s)
    claim = open_one(s)
    answer(s)
    go_on(s)
    end(s, "succeeded", claim)


def an_end_that_nobody_was_told_of(s: Story) -> None:
    s.usual(notify_url=URL)


def an_end_that_was_never_taken(s: Story) -> None:
    s.usual(notify_url=URL)
    hook(s, status=500)


def a_webhook_that_nobody_asked_for(s: Story) -> None:
    s.usual()
    hook(s)


def a_webhook_of_no_job(s: Story) -> None:
    hook(s, "b")


def a_webhook_of_another_end(s: Story) -> None:
    s.usual(notify_url=URL)
    hook(s, state="failed")


def a_webhook_before_the_end(s: Story) -> None:
    s.usual(notify_url=URL)
    hook(s, at_s=1.05)


def a_webhook_without_a_signature(s: Story) -> None:
    s.usual(notify_url=URL)
    hook(s, is_signed=False)


def a_webhook_that_no_delivery_sent(s: Story) -> None:
    told_of(s)
    s.h.own_jobs.clear()


def two_webhooks_of_one_end(s: Story) -> None:
    told_of(s)
    hook(s, webhook_id="w2")


def a_webhook_that_was_taken_and_came_again(s: Story) -> None:
    told_of(s)
    hook(s, at_s=9.0)


def a_delivery_that_is_not_over(s: Story) -> None:
    told_of(s)
    hook(s, own="retrying")


def a_delivery_that_was_given_up(s: Story) -> None:
    told_of(s)
    hook(s, own="failed")


BAD = [
    ("callback lost", a_callback_that_was_taken_and_not_run),
    ("callback lost", a_callback_that_was_forgotten_with_its_attempt),
    ("wrong number of callbacks", one_of_several_that_was_forgotten),
    ("wrong number of callbacks", one_of_several_that_was_run_twice),
    ("callback of nobody", several_that_ran_when_only_one_was_there),
    ("callback of nobody", a_callback_that_nobody_sent),
    ("callback of nobody", a_callback_that_ran_before_it_was_sent),
    ("callback of nobody", a_callback_to_a_challenge_that_nobody_opened),
    ("refused callback ran", a_refused_callback_that_ran), ("refused callback ran", a_late_callback_that_ran),
    ("callback of another attempt", a_callback_of_the_former_attempt),
    ("callback taken twice", a_callback_that_is_new_twice),
    ("too many callbacks taken", two_different_callbacks_that_are_taken),
    ("too many callbacks taken", a_callback_too_many_of_several),
    ("late callback taken", a_callback_that_is_taken_after_its_attempt),
    ("late callback taken", a_callback_that_is_taken_after_the_end_was_read),
    ("over, and taken", a_callback_that_is_taken_after_it_was_over),
    ("unsigned callback taken", a_forged_callback_that_is_taken),
    ("unsigned callback taken", a_forged_callback_that_ran),
    ("challenge opened again", a_challenge_that_is_opened_again),
    ("challenge opened again", a_canceled_job_that_opens_its_challenge_again),
    ("callback ran twice", a_callback_that_ran_twice),
    ("needless loss", a_callback_that_a_living_worker_lost),
    ("callback without a challenge", a_callback_without_a_challenge),
    ("answered and expired", an_answered_challenge_that_expired),
    ("expired early", a_challenge_that_expired_early), ("not over", a_job_that_awaits_its_callback_for_ever),
    ("miscounted", an_expiry_that_is_not_counted), ("wrong ending", a_challenged_run_that_settled_the_job),
    ("webhook lost", an_end_that_nobody_was_told_of), ("webhook lost", an_end_that_was_never_taken),
    ("webhook of nobody", a_webhook_that_nobody_asked_for), ("webhook of nobody", a_webhook_of_no_job),
    ("wrong end told", a_webhook_of_another_end), ("told before its end", a_webhook_before_the_end),
    ("webhook not signed", a_webhook_without_a_signature),
    ("webhook of no delivery", a_webhook_that_no_delivery_sent),
    ("one end, two webhooks", two_webhooks_of_one_end),
    ("webhook repeated", a_webhook_that_was_taken_and_came_again),
    ("delivery not over", a_delivery_that_is_not_over), ("delivery given up", a_delivery_that_was_given_up),
]  # fmt: skip


@pytest.mark.parametrize(("name", "tell"), BAD, ids=lambda case: getattr(case, "__name__", ""))
def test_a_bad_history_is_caught_by_name(name: str, tell: Callable[[Story], None]) -> None:
    assert name in check(told(tell)).names()


# --- what both sides agree on


def test_challenges_and_webhooks_are_written_with_the_history(tmp_path: Path) -> None:
    history = told(told_of_at_the_second_try)
    answered = told(answered_once)
    history.lines += answered.lines
    history.save(tmp_path / "history")
    read = History.load(tmp_path / "history")
    assert (read.deliveries, read.own_jobs, read.lines) == (
        history.deliveries, history.own_jobs, history.lines,
    )  # fmt: skip


def test_every_way_of_answering_is_drawn_and_told_to_the_challenge() -> None:
    jobs = [draw_outside(random.Random(n), n) for n in range(200)]
    assert {job["argument"]["kind"] for job in jobs} == {*KINDS}
    for job in jobs:
        terms = opened_with(job["argument"])
        assert ("signature" in terms) is (job["argument"]["kind"] == "signed")
        assert terms["expect"] == job["argument"]["expect"]


def test_the_answer_of_a_person_is_told_apart_by_its_comment() -> None:
    assert body_of(b"r1-1") == "r1-1"
    assert body_of(json.dumps({"choice": "approve", "comment": "r1-1"}).encode()) == "r1-1"
