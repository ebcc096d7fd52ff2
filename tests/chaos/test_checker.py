"""The checker names the fault of each bad history, and accepts the good ones."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.checker import check
from tests.chaos.history import (
    Call,
    EndedAttempt,
    EndState,
    Epoch,
    Fault,
    History,
    Line,
    Silence,
    Terms,
    read_lines,
    write_line,
)

LEASE_S = 3.0


def token(n: int) -> str:
    return f"{n:032x}"


class Story:
    """Builds a history step by step. Everything not mentioned goes well."""

    def __init__(self) -> None:
        self.h = History(terms=Terms(lease_s=LEASE_S, limits={"narrow": 1}), began_s=0.0, load_ended_s=20.0)
        self._fences = 0
        for n in (1, 2, 3):
            self.life(f"worker-{n}", 0.0, 100 + n)

    def life(self, worker: str, at_s: float, pid: int) -> None:
        self.h.lines.append(Line("life", worker, pid, at_s))

    def push(
        self, job_id: str = "a", at_s: float = 1.0, *, outcome: Any = "done", status: int = 201, **job: Any
    ) -> None:
        content = {"id": job_id, "name": "work", "argument": {"n": 7}, **job}
        answered = job_id if outcome == "done" else ""
        self.h.calls.append(Call("push", job_id, at_s, at_s + 0.01, outcome, status, content, answered))

    def call(
        self, kind: str, job_id: str = "a", at_s: float = 5.0, *, outcome: Any = "done", **said: Any
    ) -> None:
        self.h.calls.append(Call(kind, job_id, at_s, at_s + 0.01, outcome, 200, **said))

    def run(
        self, job_id: str = "a", start_s: float = 1.1, end_s: float | None = 1.3, *, attempt: int = 1, worker: int = 1,
        fence: int = 0, of: str = "", ending: str = "success", epoch: int = 10, life: int = 0,
        offered_s: float | None = None,
    ) -> tuple[str, int]:  # fmt: skip
        """Return the claim's token and fence."""
        self._fences += 1
        fence = fence or self._fences
        of = of or token(fence)
        who: dict[str, Any] = {"worker": f"worker-{worker}", "life": life or 100 + worker}
        claim: dict[str, Any] = {
            "job_id": job_id,
            "attempt": attempt,
            "token": of,
            "fence": fence,
            "epoch": epoch,
        }
        offered_s = start_s if offered_s is None else offered_s
        self.h.lines.append(Line("offer", at_s=offered_s, detail="accepted", **who, **claim))
        self.h.lines.append(Line("start", at_s=start_s, **who, **claim))
        if end_s is not None:
            self.h.lines.append(Line("end", at_s=end_s, detail=ending, **who, **claim))
        return of, fence

    def end(
        self, job_id: str = "a", state: str = "succeeded", claim: tuple[str, int] = ("", 0), **said: Any
    ) -> None:
        said = {"attempt": 1, "argument": {"n": 7}, **said}
        self.h.jobs[job_id] = EndState(
            job_id, said.pop("name", "work"), state, token=claim[0], fence=claim[1], **said
        )

    def fault(self, kind: str, target: str, from_s: float, to_s: float, **said: Any) -> None:
        self.h.faults.append(Fault(kind, target, from_s, to_s, **said))

    def usual(self, job_id: str = "a", at_s: float = 1.0, worker: int = 1, **job: Any) -> tuple[str, int]:
        """Push a job that runs once and succeeds."""
        self.push(job_id, at_s, **job)
        claim = self.run(job_id, at_s + 0.1, at_s + 0.3, worker=worker)
        self.end(job_id, claim=claim, **{k: v for k, v in job.items() if k in ("name", "max_retry")})
        return claim


def told(tell: Callable[[Story], None]) -> History:
    story = Story()
    tell(story)
    return story.h


# --- good ones


def _begun_elsewhere(s: Story, job_id: str, offered_s: float) -> None:
    """Its worker is stopped from 1.1 to 9.0, and begins it as it wakes; it has run elsewhere meanwhile."""
    s.push(job_id)
    first = s.run(job_id, 9.001, 9.002, ending="stopped", offered_s=offered_s)
    s.end(job_id, claim=s.run(job_id, 6.0, 6.1, attempt=2, worker=2, fence=first[1] + 50), attempt=2, losses=1,
          attempts=(EndedAttempt(1, "lost"),))  # fmt: skip


def stopped_as_it_began(s: Story) -> None:
    s.fault("stop", "worker-1", 1.1, 9.0)
    _begun_elsewhere(s, "a", 1.099)


def woke_and_began(s: Story) -> None:
    s.fault("stop", "worker-1", 1.1, 9.0)
    _begun_elsewhere(s, "a", 1.05)


def woke_and_began_two(s: Story) -> None:
    stopped_as_it_began(s)
    _begun_elsewhere(s, "b", 1.098)


def the_usual(s: Story) -> None:
    fence = s.usual()[1]
    s.call("view", at_s=1.2, state="running")
    s.call("result", at_s=2.0, value={"type": "success", "result": {"n": 7, "fence": fence}})
    s.call("view", at_s=3.0, state="succeeded")


def a_blocking_one_that_a_deploy_moves(s: Story) -> None:
    s.push(max_retry=0)
    of, fence = s.run(end_s=None)
    claim: dict[str, Any] = {"job_id": "a", "attempt": 1, "token": of, "fence": fence, "epoch": 10}
    s.h.lines.append(Line("tick", "worker-1", 101, 2.0, **claim))
    s.fault("term", "worker-1", 1.5, 2.6, dead_s=2.1)
    claim_2 = s.run(start_s=2.05, end_s=4.0, attempt=2, worker=2)
    s.end(claim=claim_2, attempt=2, max_retry=0, attempts=(EndedAttempt(1, "handed_back"),))


def a_blocking_one_on_a_cut_worker(s: Story) -> None:
    s.push(name="block")
    s.run(end_s=9.3)
    s.fault("hold answers", "worker-1>masters", 1.2, 9.0)
    s.end(name="block", claim=s.run(start_s=6.0, end_s=6.1, attempt=2, worker=2), attempt=2, losses=1,
          attempts=(EndedAttempt(1, "lost"),))  # fmt: skip


def a_blocking_one_on_a_detached_worker(s: Story) -> None:
    a_blocking_one_on_a_cut_worker(s)
    s.h.faults = [Fault("detach", "worker-1", 1.4, 1.5)]


def a_blocking_one_that_ran_twice(s: Story) -> None:
    s.push(name="block")
    s.run(end_s=9.3)
    s.end(name="block", claim=s.run(start_s=6.0, end_s=6.1, attempt=2, worker=2), attempt=2, losses=1,
          attempts=(EndedAttempt(1, "lost"),))  # fmt: skip


def an_untaken_claim_of_a_stopped_worker(s: Story) -> None:
    s.h.lines.append(Line("registered", "worker-1", 101, 0.5, detail="w1"))
    s.push()
    s.fault("stop", "worker-1", 1.0, 8.0)
    claim = s.run(start_s=8.0, end_s=8.2, attempt=2, worker=2)
    s.end(claim=claim, attempt=2, losses=1, attempts=(EndedAttempt(1, "lost", "w1"),))


def an_untaken_claim_before_a_clock_was_set_back(s: Story) -> None:
    an_untaken_claim_of_a_stopped_worker(s)
    s.h.faults = [Fault("clock step", "store", 2.0, 2.1)]


def an_untaken_claim_of_a_worker_that_left_unannounced(s: Story) -> None:
    an_untaken_claim_of_a_stopped_worker(s)
    s.h.faults = [Fault("term", "worker-1", 1.0, 8.0)]
    s.h.lines.append(Line("left", "worker-1", 101, 1.1, detail="w1"))


def an_untaken_claim_that_waited_again_after_its_worker_left_unannounced(s: Story) -> None:
    an_untaken_claim_of_a_worker_that_left_unannounced(s)
    s.h.jobs["a"] = replace(s.h.jobs["a"], losses=0, attempts=(EndedAttempt(1, "handed_back", "w1"),))


def an_untaken_claim_that_a_draining_worker_refused(s: Story) -> None:
    an_untaken_claim_that_waited_again_after_its_worker_left_unannounced(s)
    s.h.lines[-1] = Line("offer", "worker-1", 101, 1.1, job_id="a", attempt=1, detail="draining")


def an_untaken_claim_that_came_too_late(s: Story) -> None:
    an_untaken_claim_that_a_draining_worker_refused(s)
    s.h.lines[-1] = replace(s.h.lines[-1], detail="too_late")


def a_backfilled_one(s: Story) -> None:
    of, fence = s.run("past")
    claim: dict[str, Any] = {"job_id": "past", "attempt": 1, "token": of, "fence": fence, "epoch": 10}
    s.h.lines.append(Line("backfilled", "worker-1", 101, 1.1, **claim))


def a_master_that_was_away(s: Story) -> None:
    s.h.silences.append(Silence("master-1", 5.0, 15.0))
    s.fault("kill", "master-1", 5.0, 8.0)
    s.fault("stop", "store", 1.0, 2.0)
    s.fault("exit", "master-2", 20.0, 20.2)


def a_discarded_one(s: Story) -> None:
    s.push()
    claim = s.run(ending="discarded")
    s.end(state="discarded", claim=claim, attempts=(EndedAttempt(1, "discarded"),))
    s.call("view", at_s=3.0, state="discarded")


def unknown_and_there(s: Story) -> None:
    s.push(outcome="unknown", status=503)
    s.push(at_s=1.5, status=200)
    s.end(claim=s.run(start_s=1.2))


def unknown_and_not_there(s: Story) -> None:
    s.push(outcome="unknown", status=503)


def refused_and_not_there(s: Story) -> None:
    s.push(outcome="refused", status=422)


def a_counted_failure(s: Story) -> None:
    s.push()
    s.run(ending="failure")
    s.end(claim=s.run(start_s=2.0, end_s=2.1, attempt=2, worker=2), attempt=2, failures=1,
          attempts=(EndedAttempt(1, "failure"),))  # fmt: skip


def retries_used_up(s: Story) -> None:
    s.push(max_retry=0)
    claim = s.run(ending="failure")
    s.end(
        state="failed",
        cause="error",
        claim=claim,
        failures=1,
        max_retry=0,
        attempts=(EndedAttempt(1, "failure"),),
    )


def a_killed_worker(s: Story) -> None:
    s.push()
    s.run(end_s=None)
    s.fault("kill", "worker-1", 1.2, 1.21)
    s.life("worker-1", 2.0, 201)
    s.end(claim=s.run(start_s=6.0, end_s=6.1, attempt=2, worker=1, life=201), attempt=2, losses=1,
          attempts=(EndedAttempt(1, "lost"),))  # fmt: skip


def a_stopped_worker_that_wakes(s: Story) -> None:
    s.push()
    s.run(end_s=9.3, ending="stopped")
    s.fault("stop", "worker-1", 1.2, 9.0)
    s.end(claim=s.run(start_s=6.0, end_s=6.1, attempt=2, worker=2), attempt=2, losses=1,
          attempts=(EndedAttempt(1, "lost"),))  # fmt: skip


def a_cut_worker_that_stops_itself(s: Story) -> None:
    s.push()
    s.run(end_s=4.0, ending="stopped")
    s.fault("hold answers", "worker-1>masters", 1.2, 9.0)
    s.end(claim=s.run(start_s=6.0, end_s=6.1, attempt=2, worker=2), attempt=2, losses=1,
          attempts=(EndedAttempt(1, "lost"),))  # fmt: skip


def a_worker_that_was_not_scheduled(s: Story) -> None:
    s.push()
    s.run(end_s=6.2, ending="stopped")
    s.h.lines.append(Line("stall", "worker-1", 101, 6.1, detail="4.800"))
    s.end(claim=s.run(start_s=6.0, end_s=6.1, attempt=2, worker=2), attempt=2, losses=1,
          attempts=(EndedAttempt(1, "lost"),))  # fmt: skip


def too_many_losses(s: Story) -> None:
    s.push()
    for n in (1, 2, 3):
        s.run(start_s=n * 5.0, end_s=None, attempt=n, worker=n)
        s.fault("kill", f"worker-{n}", n * 5.0 + 0.2, n * 5.0 + 0.3)
    s.end(
        state="failed",
        cause="lost",
        attempt=3,
        losses=3,
        attempts=tuple(EndedAttempt(n, "lost") for n in (1, 2, 3)),
    )


def a_cancel_before_the_start(s: Story) -> None:
    s.push(delay=60)
    s.call("cancel", at_s=2.0, state="canceled")
    s.end(state="canceled", attempt=0)


def a_cancel_of_a_run(s: Story) -> None:
    s.push()
    s.run(end_s=2.2, ending="stopped")
    s.call("cancel", at_s=2.0, state="canceled", was_running=True)
    s.end(state="canceled", attempts=(EndedAttempt(1, "canceled"),))


def a_retry_by_hand(s: Story) -> None:
    s.push()
    s.run()
    s.call("view", at_s=2.0, state="succeeded")
    s.call("retry", at_s=3.0)
    s.end(claim=s.run(start_s=3.1, end_s=3.2, attempt=2), attempt=2, attempts=(EndedAttempt(1, "success"),))


def a_delete(s: Story) -> None:
    s.push()
    s.run()
    s.call("delete", at_s=3.0)


def a_delete_and_another_job_of_that_id(s: Story) -> None:
    a_delete(s)
    s.push(at_s=3.1, argument={"n": 8})
    s.end(claim=s.run(start_s=3.2, end_s=3.3), argument={"n": 8})


def a_delete_that_a_copy_of_it_came_before(s: Story) -> None:
    s.push()
    s.run()
    s.fault("double", "pushers>masters", 2.0, 4.0)
    s.h.calls.append(Call("delete", "a", 3.0, 3.01, "refused", 404))


def a_late_copy_of_a_push_after_the_delete(s: Story) -> None:
    s.fault("copy later", "pushers>masters", 0.5, 2.0)
    a_delete(s)
    s.end(claim=s.run(start_s=3.2, end_s=3.3))


def a_retry_by_hand_that_came_twice(s: Story) -> None:
    s.fault("copy later", "pushers>masters", 2.0, 4.0)
    a_retry_by_hand(s)
    s.end(claim=s.run(start_s=5.1, end_s=5.2, attempt=3), attempt=3,
          attempts=(EndedAttempt(1, "success"), EndedAttempt(2, "success")))  # fmt: skip


def a_retry_that_a_copy_of_it_came_before(s: Story) -> None:
    a_retry_by_hand(s)
    s.fault("double", "pushers>masters", 2.0, 4.0)
    s.h.calls = [replace(c, outcome="refused", status=409) if c.kind == "retry" else c for c in s.h.calls]


def a_delete_that_was_refused_and_whose_copy_came_when_the_job_was_over(s: Story) -> None:
    s.push()
    s.run()
    s.fault("copy later", "pushers>masters", 2.0, 4.0)
    s.h.calls.append(Call("delete", "a", 3.0, 3.01, "refused", 409))


def a_retry_that_was_refused_and_whose_copy_came_when_the_store_was_back(s: Story) -> None:
    a_retry_by_hand(s)
    s.fault("copy later", "pushers>masters", 2.0, 4.0)
    s.h.calls = [replace(c, outcome="refused", status=503) if c.kind == "retry" else c for c in s.h.calls]


def a_push_that_was_refused_and_whose_copy_came_when_there_was_room(s: Story) -> None:
    s.fault("copy later", "pushers>masters", 0.5, 2.0)
    s.push(outcome="refused", status=503)
    s.end(claim=s.run(start_s=2.2, end_s=2.3))


def a_limit_that_is_reached(s: Story) -> None:
    s.usual("a", 1.0, name="narrow")
    s.usual("b", 1.3, worker=2, name="narrow")


def a_store_that_was_away(s: Story) -> None:
    s.usual("a", 1.0)
    s.push("b", 2.0)
    s.fault("stop", "store", 2.1, 12.0)
    s.end("b", claim=s.run("b", 13.0, 13.1))


def leaders_that_follow_each_other(s: Story) -> None:
    s.usual()
    s.h.epochs += [Epoch(1.0, 10, "x", "m1"), Epoch(2.0, 10, "x", "m1"), Epoch(3.0, 11, "y", "m2")]


def a_detached_worker(s: Story) -> None:
    s.push()
    s.run(end_s=1.6, ending="stopped")
    s.fault("detach", "worker-1", 1.4, 1.5)
    s.end(claim=s.run(start_s=2.0, end_s=2.1, attempt=2, worker=2), attempt=2, losses=1,
          attempts=(EndedAttempt(1, "lost"),))  # fmt: skip


def a_worker_that_was_dead_for_long(s: Story) -> None:
    s.push()
    s.run(end_s=None)
    s.fault("kill", "worker-1", 1.2, 15.0, dead_s=1.21)
    s.life("worker-1", 15.0, 201)
    s.end(claim=s.run(start_s=6.0, end_s=6.1, attempt=2, worker=2), attempt=2, losses=1,
          attempts=(EndedAttempt(1, "lost"),))  # fmt: skip


def a_delay_by_a_clock_that_was_set(s: Story) -> None:
    s.push(delay=5)
    s.fault("clock step", "store", 2.0, 2.5)
    s.end(claim=s.run(start_s=3.0, end_s=3.1))


def a_timeout(s: Story) -> None:
    s.push(timeout=2.0, max_retry=0)
    claim = s.run(end_s=3.2, ending="stopped")
    s.end(state="failed", cause="timeout", claim=claim, failures=1, max_retry=0,
          attempts=(EndedAttempt(1, "timeout"),))  # fmt: skip


def a_timeout_by_a_clock_that_was_set(s: Story) -> None:
    s.push(timeout=60.0)
    s.run(end_s=3.0, ending="stopped")
    s.fault("clock step", "store", 2.0, 2.2)
    s.end(claim=s.run(start_s=2.9, end_s=3.5, attempt=2, worker=2), attempt=2, failures=1,
          attempts=(EndedAttempt(1, "timeout"),))  # fmt: skip


def a_clock_that_was_set_before_a_lost_run_was_found(s: Story) -> None:
    s.push(timeout=60.0)
    s.run(end_s=2.0, ending="stopped")
    s.fault("stop", "store", 1.2, 3.0)
    s.fault("clock step", "store", 3.5, 3.6)
    s.end(claim=s.run(start_s=5.0, end_s=5.5, attempt=2, worker=2), attempt=2, failures=1,
          attempts=(EndedAttempt(1, "timeout"),))  # fmt: skip


def odd_values_that_were_judged_well(s: Story) -> None:
    s.usual("a", argument={"n": 7, "odd": "ca7fc00001"})
    s.h.jobs["a"] = replace(s.h.jobs["a"], argument={"n": 7, "odd": "ca7fc00001"})
    s.push("b", outcome="refused", status=422, argument={"n": 7, "odd": "d48000"})


GOOD = [
    a_blocking_one_that_a_deploy_moves, a_blocking_one_on_a_cut_worker, a_blocking_one_on_a_detached_worker,
    an_untaken_claim_of_a_stopped_worker, an_untaken_claim_before_a_clock_was_set_back,
    an_untaken_claim_of_a_worker_that_left_unannounced,
    an_untaken_claim_that_waited_again_after_its_worker_left_unannounced,
    an_untaken_claim_that_a_draining_worker_refused, an_untaken_claim_that_came_too_late, a_backfilled_one,
    a_master_that_was_away,
    odd_values_that_were_judged_well,
    a_timeout_by_a_clock_that_was_set, a_clock_that_was_set_before_a_lost_run_was_found,
    a_detached_worker, a_worker_that_was_dead_for_long, a_delay_by_a_clock_that_was_set, a_timeout,
    stopped_as_it_began,
    a_discarded_one, the_usual, unknown_and_there, unknown_and_not_there, refused_and_not_there, a_counted_failure,
    retries_used_up,
    a_killed_worker, a_stopped_worker_that_wakes, a_cut_worker_that_stops_itself, a_worker_that_was_not_scheduled,
    too_many_losses, a_cancel_before_the_start, a_cancel_of_a_run, a_retry_by_hand, a_delete,
    a_delete_and_another_job_of_that_id, a_limit_that_is_reached,
    a_store_that_was_away, leaders_that_follow_each_other,
    a_delete_that_a_copy_of_it_came_before,
    a_late_copy_of_a_push_after_the_delete,
    a_retry_by_hand_that_came_twice,
    a_retry_that_a_copy_of_it_came_before, a_delete_that_was_refused_and_whose_copy_came_when_the_job_was_over,
    a_retry_that_was_refused_and_whose_copy_came_when_the_store_was_back,
    a_push_that_was_refused_and_whose_copy_came_when_there_was_room,
]  # fmt: skip


@pytest.mark.parametrize("tell", GOOD, ids=lambda tell: tell.__name__)
def test_a_good_history_passes(tell: Callable[[Story], None]) -> None:
    assert [str(v) for v in check(told(tell)).violations] == []


# --- bad ones: (name of the violation, what happened)


def lost(s: Story) -> None:
    s.usual()
    del s.h.jobs["a"]


def lost_after_a_delete_that_was_refused(s: Story) -> None:
    s.push()
    s.run()
    s.h.calls.append(Call("delete", "a", 3.0, 3.01, "refused", 404))


def succeeded_three_times(s: Story) -> None:
    a_retry_by_hand_that_came_twice(s)
    s.h.faults = []


def succeeded_again_though_the_retry_was_refused(s: Story) -> None:
    a_retry_that_a_copy_of_it_came_before(s)
    s.h.faults = []


def lost_before_it_ran(s: Story) -> None:
    s.push()


def undecodable_accepted(s: Story) -> None:
    s.push(argument={"n": 7, "odd": "d48000"})
    s.end(claim=s.run(), argument={"n": 7, "odd": "d48000"})


def undecodable_for_its_worker(s: Story) -> None:
    s.push()
    s.end(state="failed", cause="undecodable", failures=1, attempts=(EndedAttempt(1, "failure"),))


def broke_a_master(s: Story) -> None:
    s.push(outcome="unknown", status=500, argument={"n": 7, "odd": "d48000"})


def not_over(s: Story) -> None:
    s.usual()
    s.h.jobs["a"] = replace(s.h.jobs["a"], state="running")


def unexpected(s: Story) -> None:
    s.end("ghost", state="canceled", attempt=0)


def refused_but_stored(s: Story) -> None:
    s.push(outcome="refused", status=422)
    s.end(claim=s.run())


def another_id(s: Story) -> None:
    s.usual()
    s.h.calls[0] = replace(s.h.calls[0], answered_id="b")


def created_twice(s: Story) -> None:
    s.usual()
    s.push(at_s=1.5, status=201)


def two_contents(s: Story) -> None:
    s.usual()
    s.push(at_s=1.5, status=200, argument={"n": 8})


def deleted_but_stored(s: Story) -> None:
    s.usual()
    s.call("delete")


def changed_argument(s: Story) -> None:
    s.usual()
    s.h.jobs["a"] = replace(s.h.jobs["a"], argument={"n": 8})


def changed_priority(s: Story) -> None:
    s.usual()
    s.h.jobs["a"] = replace(s.h.jobs["a"], priority=3)


def token_started_twice(s: Story) -> None:
    claim = s.usual()
    s.run(start_s=3.0, end_s=3.1, of=claim[0], fence=claim[1])


def token_started_twice_elsewhere(s: Story) -> None:
    claim = s.usual()
    s.run(start_s=3.0, end_s=3.1, of=claim[0], fence=claim[1], worker=2)


def start_of_an_unknown_job(s: Story) -> None:
    s.run("ghost")


def started_too_early(s: Story) -> None:
    s.push(delay=5)
    s.end(claim=s.run(start_s=3.0, end_s=3.1))


def start_not_counted(s: Story) -> None:
    s.usual()
    s.run(start_s=3.0, end_s=3.1, attempt=2, worker=2)


def start_after_the_end(s: Story) -> None:
    s.push()
    s.run(end_s=None)
    s.fault("kill", "worker-1", 1.2, 1.21)
    s.call("view", at_s=2.0, state="succeeded")
    s.end(claim=s.run(start_s=6.0, end_s=6.1, attempt=2, worker=2), attempt=2, losses=1,
          attempts=(EndedAttempt(1, "lost"),))  # fmt: skip


def attempt_started_twice(s: Story) -> None:
    s.push()
    s.run(ending="stopped")
    s.end(claim=s.run(start_s=6.0, end_s=6.1, worker=2))


def fence_went_back(s: Story) -> None:
    s.push()
    s.run(fence=9, ending="failure")
    s.end(claim=s.run(start_s=3.0, end_s=3.1, attempt=2, fence=8), attempt=2, failures=1,
          attempts=(EndedAttempt(1, "failure"),))  # fmt: skip


def fence_given_twice(s: Story) -> None:
    s.usual("a")
    s.push("b")
    s.end("b", claim=s.run("b", fence=1, of=token(99)))


def attempt_went_back(s: Story) -> None:
    s.push()
    s.run(attempt=2, ending="failure")
    s.end(claim=s.run(start_s=3.0, end_s=3.1, attempt=1), attempt=2, failures=1,
          attempts=(EndedAttempt(1, "failure"),))  # fmt: skip


def ran_twice_at_once(s: Story) -> None:
    s.push()
    s.run(end_s=9.3, ending="stopped")
    s.fault("hold answers", "worker-1>masters", 1.2, 9.0)
    s.end(claim=s.run(start_s=6.0, end_s=6.1, attempt=2, worker=2), attempt=2, losses=1,
          attempts=(EndedAttempt(1, "lost"),))  # fmt: skip


def woke_and_went_on(s: Story) -> None:
    s.push()
    s.run(end_s=12.0)
    s.fault("stop", "worker-1", 1.2, 9.0)
    s.end(claim=s.run(start_s=6.0, end_s=6.1, attempt=2, worker=2), attempt=2, losses=1,
          attempts=(EndedAttempt(1, "lost"),))  # fmt: skip


def settled_twice(s: Story) -> None:
    a_counted_failure(s)
    s.h.jobs["a"] = replace(s.h.jobs["a"], attempts=(EndedAttempt(1, "failure"), EndedAttempt(1, "lost")))


def settled_as_lost_and_as_success(s: Story) -> None:
    s.usual()
    s.h.jobs["a"] = replace(s.h.jobs["a"], losses=1, attempts=(EndedAttempt(1, "lost"),))
    s.fault("kill", "worker-1", 1.2, 1.25)


def succeeded_twice(s: Story) -> None:
    s.push()
    s.run()
    s.end(claim=s.run(start_s=3.1, end_s=3.2, attempt=2), attempt=2, attempts=(EndedAttempt(1, "success"),))


def miscounted(s: Story) -> None:
    a_counted_failure(s)
    s.h.jobs["a"] = replace(s.h.jobs["a"], failures=0)


def retried_too_often(s: Story) -> None:
    s.push(max_retry=1)
    for n in (1, 2, 3):
        s.run(start_s=n * 2.0, end_s=n * 2.0 + 0.1, attempt=n, ending="failure")
    s.end(state="failed", cause="error", attempt=3, failures=3, max_retry=1,
          attempts=tuple(EndedAttempt(n, "failure") for n in (1, 2, 3)))  # fmt: skip


def gave_up_early(s: Story) -> None:
    s.push()
    s.run(ending="failure")
    s.end(state="failed", cause="error", failures=1, attempts=(EndedAttempt(1, "failure"),))


def gave_up_after_one_loss(s: Story) -> None:
    s.push()
    s.run(end_s=None)
    s.fault("kill", "worker-1", 1.2, 1.21)
    s.end(state="failed", cause="lost", losses=1, attempts=(EndedAttempt(1, "lost"),))


def lost_too_often(s: Story) -> None:
    too_many_losses(s)
    s.h.jobs["a"] = replace(
        s.h.jobs["a"], losses=4, attempt=4, attempts=tuple(EndedAttempt(n, "lost") for n in (1, 2, 3, 4))
    )


def a_poison_job_that_goes_on(s: Story) -> None:
    too_many_losses(s)
    s.h.jobs["a"] = replace(s.h.jobs["a"], state="skipped")


def ending_of_nothing(s: Story) -> None:
    s.push()
    s.end(
        claim=s.run(start_s=3.0, end_s=3.1, attempt=2),
        attempt=2,
        failures=1,
        attempts=(EndedAttempt(1, "failure"),),
    )


def a_success_that_became_a_failure(s: Story) -> None:
    a_counted_failure(s)
    s.h.lines = [replace(line, detail="success") if line.what == "end" else line for line in s.h.lines]


def attempt_forgotten(s: Story) -> None:
    a_killed_worker(s)
    s.h.jobs["a"] = replace(s.h.jobs["a"], losses=0, attempts=())


def needless_loss(s: Story) -> None:
    a_cut_worker_that_stops_itself(s)
    s.h.faults = []


def needless_loss_by_a_deploy(s: Story) -> None:
    a_blocking_one_that_a_deploy_moves(s)
    s.h.jobs["a"] = replace(s.h.jobs["a"], losses=1, attempts=(EndedAttempt(1, "lost"),))


def ran_twice_at_a_deploy(s: Story) -> None:
    a_blocking_one_that_a_deploy_moves(s)
    s.h.lines = [replace(line, at_s=2.09) if line.what == "tick" else line for line in s.h.lines]


def untaken_claim_counted(s: Story) -> None:
    an_untaken_claim_of_a_stopped_worker(s)
    s.h.faults = [Fault("term", "worker-1", 1.0, 8.0), Fault("kill", "master-1", 1.0, 1.5, is_leader=True)]


def untaken_claim_counted_after_another_worker_left(s: Story) -> None:
    an_untaken_claim_of_a_worker_that_left_unannounced(s)
    s.h.lines[-1] = replace(s.h.lines[-1], detail="w2")


def untaken_claim_handed_back(s: Story) -> None:
    an_untaken_claim_that_waited_again_after_its_worker_left_unannounced(s)
    s.h.lines.pop()


def instant_ran_twice(s: Story) -> None:
    a_backfilled_one(s)
    s.run("past", 9.0, 9.2, worker=2)


def master_stood_still(s: Story) -> None:
    s.usual()
    s.h.silences.append(Silence("master-1", 5.0, 25.0))
    s.fault("kill", "master-1", 5.0, 6.0)


def master_ended_by_itself(s: Story) -> None:
    s.usual()
    s.fault("exit", "master-1", 9.0, 9.2)
    s.fault("kill", "worker-1", 8.0, 8.1)


def needless_loss_by_a_short_stop(s: Story) -> None:
    a_cut_worker_that_stops_itself(s)
    s.h.faults = [Fault("stop", "worker-1", 1.2, 2.2)]


def needless_loss_by_one_master_of_three(s: Story) -> None:
    a_cut_worker_that_stops_itself(s)
    s.h.faults = [Fault("stop", "master-1", 1.2, 9.0, is_leader=True)]


def success_of_nothing(s: Story) -> None:
    s.push()
    s.end(claim=(token(5), 5))


def a_killed_run_that_succeeded(s: Story) -> None:
    s.push()
    s.end(claim=s.run(end_s=None))
    s.fault("kill", "worker-1", 1.2, 1.3)


def stale_result(s: Story) -> None:
    s.push()
    claim = s.run(end_s=3.0)
    s.fault("kill", "worker-2", 1.2, 3.5)
    s.run(start_s=3.1, end_s=None, attempt=2, worker=2)
    s.end(claim=claim, attempt=2, losses=1, attempts=(EndedAttempt(1, "lost"),))
    s.fault("hold answers", "worker-1>masters", 1.2, 3.0)


def skipped_without_a_reason(s: Story) -> None:
    s.push()
    s.end(state="skipped", attempt=0)


def discarded_by_nobody(s: Story) -> None:
    s.push()
    s.end(state="discarded", claim=s.run(ending="failure"), attempts=(EndedAttempt(1, "discarded"),))


def canceled_by_nobody(s: Story) -> None:
    s.push()
    s.end(state="canceled", attempt=0)


def end_undone(s: Story) -> None:
    s.usual()
    s.call("view", at_s=2.0, state="succeeded")
    s.call("view", at_s=3.0, state="running")


def two_ends(s: Story) -> None:
    s.usual()
    s.call("view", at_s=2.0, state="failed")


def wrong_result(s: Story) -> None:
    fence = s.usual()[1]
    s.call("result", value={"type": "success", "result": {"n": 8, "fence": fence}})


def result_of_another_run(s: Story) -> None:
    a_killed_worker(s)
    s.call("result", at_s=8.0, value={"type": "success", "result": {"n": 7, "fence": 1}})


def two_results(s: Story) -> None:
    the_usual(s)
    s.call("result", at_s=4.0, value={"type": "failure", "message": "lost"})


def cancel_undone(s: Story) -> None:
    a_cancel_before_the_start(s)
    s.h.jobs["a"] = replace(s.h.jobs["a"], state="succeeded")


def start_after_cancel(s: Story) -> None:
    s.push()
    s.call("cancel", at_s=2.0, state="canceled")
    s.run(start_s=3.0, end_s=3.1)
    s.end(state="canceled", attempts=(EndedAttempt(1, "canceled"),))


def limit_broken(s: Story) -> None:
    s.usual("a", 1.0, name="narrow")
    s.usual("b", 1.1, worker=2, name="narrow")


def epoch_went_back(s: Story) -> None:
    leaders_that_follow_each_other(s)
    s.h.epochs.append(Epoch(4.0, 10, "x", "m1"))


def epoch_of_two(s: Story) -> None:
    leaders_that_follow_each_other(s)
    s.h.epochs.append(Epoch(4.0, 11, "z", "m3"))


def stale_epoch_obeyed(s: Story) -> None:
    for job_id, epoch, at_s in (("a", 11, 1.0), ("b", 10, 2.0)):
        s.push(job_id, at_s)
        s.end(job_id, claim=s.run(job_id, at_s + 0.1, at_s + 0.2, epoch=epoch))


def stalled(s: Story) -> None:
    s.usual("a", 1.0)
    s.push("b", 2.0)
    s.end("b", claim=s.run("b", 12.0, 12.1))


def stalled_long_after_a_fault(s: Story) -> None:
    s.h.load_ended_s = 60.0
    s.usual("a", 1.0)
    s.push("b", 2.0)
    s.fault("kill", "master-1", 1.5, 1.6, is_leader=True)
    s.end("b", claim=s.run("b", 40.0, 40.1))


def end_without_start(s: Story) -> None:
    s.usual()
    s.h.lines.append(replace(s.h.lines[-1], token=token(77)))


def damaged_journal(s: Story) -> None:
    s.h.damage.append("journal-1:7: half a line")


def findings_of_fsck(s: Story) -> None:
    s.h.fsck.append("membership {jq}:job:a: ready job is in []")


def slot_taken(s: Story) -> None:
    s.h.slots.append("{jq}:slots:abc: 1")


def timed_out_early(s: Story) -> None:
    a_timeout(s)
    s.h.calls.clear()
    s.push(timeout=60.0, max_retry=0)


def timed_out_early_before_the_clock_was_set(s: Story) -> None:
    a_clock_that_was_set_before_a_lost_run_was_found(s)
    s.h.faults = [Fault("clock step", "store", 5.1, 5.2)]


def timed_out_early_long_before_the_clock_was_set(s: Story) -> None:
    timed_out_early(s)
    s.h.faults = [Fault("clock step", "store", 60.0, 60.1)]
    s.h.load_ended_s = 90.0


def ran_on_after_a_clock_was_set(s: Story) -> None:
    a_timeout_by_a_clock_that_was_set(s)
    s.h.lines = [replace(line, at_s=8.0) if line.detail == "stopped" else line for line in s.h.lines]


def ran_twice_without_a_timeout(s: Story) -> None:
    a_timeout_by_a_clock_that_was_set(s)
    s.h.faults = []


def did_not_end(s: Story) -> None:
    s.h.stuck.append("worker-1: not within 45 s after SIGTERM")


def needless_loss_of_a_draining_worker(s: Story) -> None:
    a_cut_worker_that_stops_itself(s)
    s.h.faults = [Fault("drain", "worker-1", 1.2, 9.0)]


def needless_loss_by_a_step_of_the_clock(s: Story) -> None:
    a_cut_worker_that_stops_itself(s)
    s.h.faults = [Fault("clock step", "store", 1.2, 9.0)]


def needless_loss_by_a_demotion(s: Story) -> None:
    a_cut_worker_that_stops_itself(s)
    s.h.faults = [Fault("demote", f"master-{n}", 1.2, 9.0, is_leader=True) for n in (1, 2, 3)]


def ran_twice_after_a_detach(s: Story) -> None:
    a_detached_worker(s)
    s.h.lines = [replace(line, at_s=4.0) if line.detail == "stopped" else line for line in s.h.lines]


BAD = [
    ("timed out early", timed_out_early_before_the_clock_was_set),
    ("timed out early", timed_out_early_long_before_the_clock_was_set),
    ("ran twice at once", ran_on_after_a_clock_was_set), ("ran twice at once", ran_twice_without_a_timeout),
    ("timed out early", timed_out_early), ("did not end", did_not_end),
    ("needless loss", needless_loss_of_a_draining_worker), ("needless loss", needless_loss_by_a_step_of_the_clock),
    ("needless loss", needless_loss_by_a_demotion), ("ran twice at once", ran_twice_after_a_detach),
    ("undecodable accepted", undecodable_accepted), ("undecodable accepted", undecodable_for_its_worker),
    ("broke a master", broke_a_master), ("lost", lost), ("lost", lost_before_it_ran), ("not over", not_over),
    ("unexpected", unexpected),
    ("refused but stored", refused_but_stored), ("another ID", another_id), ("created twice", created_twice),
    ("two contents", two_contents), ("deleted but stored", deleted_but_stored), ("changed", changed_argument),
    ("changed", changed_priority), ("token started twice", token_started_twice),
    ("token started twice", token_started_twice_elsewhere), ("start of an unknown job", start_of_an_unknown_job),
    ("started too early", started_too_early), ("start not counted", start_not_counted),
    ("start after the end", start_after_the_end), ("attempt started twice", attempt_started_twice),
    ("fence went back", fence_went_back), ("fence went back", woke_and_began),
    ("attempt went back", woke_and_began), ("fence went back", woke_and_began_two),
    ("fence given twice", fence_given_twice),
    ("attempt went back", attempt_went_back), ("ran twice at once", ran_twice_at_once),
    ("ran twice at once", a_blocking_one_that_ran_twice),
    ("ran twice at once", woke_and_went_on), ("settled twice", settled_twice),
    ("settled twice", settled_as_lost_and_as_success), ("succeeded twice", succeeded_twice),
    ("miscounted", miscounted), ("retried too often", retried_too_often), ("gave up early", gave_up_early),
    ("gave up early", gave_up_after_one_loss), ("lost too often", lost_too_often),
    ("lost too often", a_poison_job_that_goes_on), ("ending of nothing", ending_of_nothing),
    ("wrong ending", a_success_that_became_a_failure), ("wrong ending", a_killed_run_that_succeeded),
    ("attempt forgotten", attempt_forgotten), ("needless loss", needless_loss),
    ("needless loss", needless_loss_by_a_deploy), ("ran twice at once", ran_twice_at_a_deploy),
    ("untaken claim counted", untaken_claim_counted),
    ("untaken claim counted", untaken_claim_counted_after_another_worker_left),
    ("ending of nothing", untaken_claim_handed_back),
    ("instant ran twice", instant_ran_twice),
    ("master stood still", master_stood_still), ("master ended by itself", master_ended_by_itself),
    ("needless loss", needless_loss_by_a_short_stop), ("needless loss", needless_loss_by_one_master_of_three),
    ("success of nothing", success_of_nothing), ("stale result", stale_result),
    ("skipped without a reason", skipped_without_a_reason), ("canceled by nobody", canceled_by_nobody),
    ("discarded by nobody", discarded_by_nobody),
    ("end undone", end_undone), ("two ends", two_ends), ("wrong result", wrong_result),
    ("wrong result", result_of_another_run), ("two results", two_results), ("cancel undone", cancel_undone),
    ("start after cancel", start_after_cancel), ("limit broken", limit_broken), ("epoch went back", epoch_went_back),
    ("epoch of two", epoch_of_two), ("stale epoch obeyed", stale_epoch_obeyed), ("stalled", stalled),
    ("stalled", stalled_long_after_a_fault), ("end without start", end_without_start),
    ("damaged journal", damaged_journal), ("fsck", findings_of_fsck), ("slot taken", slot_taken),
    ("lost", lost_after_a_delete_that_was_refused),
    ("succeeded twice", succeeded_three_times),
    ("succeeded twice", succeeded_again_though_the_retry_was_refused),
]  # fmt: skip


@pytest.mark.parametrize(("name", "tell"), BAD, ids=lambda case: getattr(case, "__name__", ""))
def test_a_bad_history_is_caught_by_name(name: str, tell: Callable[[Story], None]) -> None:
    assert name in check(told(tell)).names()


def test_there_is_a_bad_history_for_each_kind_of_violation() -> None:
    import re

    from tests.chaos import test_event_check, test_outside_check, test_task_check, test_unique_check

    text = "".join(
        (Path(__file__).parent / f"{name}.py").read_text()
        for name in ("checker", "unique_check", "event_check", "outside_check", "webhook_check", "task_check")
    )
    kinds = set(re.findall(r'Violation\(\s*"([^"]+)"', text))
    bad = [*BAD, *test_event_check.BAD, *test_outside_check.BAD, *test_unique_check.BAD, *test_task_check.BAD]
    assert kinds == {name for name, _ in bad}
    assert len(BAD) >= 30


def test_each_kind_of_violation_is_in_the_documentation() -> None:
    from tests.chaos import test_event_check, test_outside_check, test_task_check, test_unique_check

    text = (Path(__file__).parents[2] / "docs" / "reliability.md").read_text()
    bad = [*BAD, *test_event_check.BAD, *test_outside_check.BAD, *test_unique_check.BAD, *test_task_check.BAD]
    assert [name for name, _ in bad if f"`{name}`" not in text] == []


def test_the_figures_count_what_happened() -> None:
    story = Story()
    a_killed_worker(story)
    story.push("b", 2.0, outcome="unknown", status=503)
    story.fault("kill", "master-2", 3.0, 3.1, is_leader=True)
    story.fault("reset", "worker-3>masters", 4.0, 4.1, bites=0)
    figures = check(story.h).figures
    assert figures["pushes"] == {"done": 1, "unknown": 1}
    assert (figures["jobs_accepted"], figures["starts"], figures["starts_beyond_the_first"]) == (1, 2, 1)
    assert (figures["lost"], figures["duplicate_starts"]) == (0, 0)
    assert (figures["faults_planned"], figures["faults_bitten"]) == (3, 2)
    assert figures["faults"]["kill worker"] == {"planned": 1, "bitten": 1, "bites": 1}
    assert figures["longest_dispatch_gap_s"] == pytest.approx(14.0)
    assert figures["excused"] == {"losses with a killed worker": 1}


def test_the_figures_tell_how_soon_a_killed_workers_jobs_run_again() -> None:
    figures = check(told(a_worker_that_was_dead_for_long)).figures
    assert figures["rerun_after_worker_kill_s"]["max"] == pytest.approx(4.8)
    assert figures["last_try_after_worker_kill_s"] == {"count": 0}
    figures = check(told(too_many_losses)).figures
    assert (
        figures["rerun_after_worker_kill_s"]["count"],
        figures["last_try_after_worker_kill_s"]["count"],
    ) == (1, 1)


def test_a_history_is_written_and_read_back(tmp_path: Path) -> None:
    history = told(a_killed_worker)
    history.epochs.append(Epoch(1.0, 10, "x", "m1"))
    history.fsck.append("something")
    history.save(tmp_path / "history")
    assert History.load(tmp_path / "history") == history


def test_half_a_line_is_told(tmp_path: Path) -> None:
    line = Line("start", "worker-1", 101, 1.0, "a", 1, token(1), 1, 10)
    (tmp_path / "journal").write_bytes(write_line(line) + write_line(line)[:20])
    lines, damage = read_lines(tmp_path / "journal")
    assert lines == [line]
    assert len(damage) == 1
