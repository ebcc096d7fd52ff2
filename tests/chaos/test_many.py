"""The checker of batches, chains and flows refuses each history that breaks a promise, and a short run passes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.chaos.many import prove
from tests.chaos.many_check import History, Line, PlannedBatch, PlannedJob, SeenBatch, SeenJob, check
from tests.support import real_time

FIRST, FAILS = PlannedJob("first", value=1), PlannedJob("fails", "failing")
SECOND = PlannedJob("second", "flaky", 10, ("first",))
SKIPPED = PlannedJob("skipped", after=("fails",))
TIDY = PlannedJob("tidy", value=5, after=("second", "skipped"), when="finished")
GOOD = PlannedBatch("good", (PlannedJob("g1"), PlannedJob("g2")))
BAD = PlannedBatch("bad", (PlannedJob("b1"), PlannedJob("b2", "failing")))
INSIDE = PlannedBatch("inside", (PlannedJob("i1", "failing"),), "outer")
OUTER = PlannedBatch("outer", ())
BOTH = frozenset({"on_complete", "on_success"})
FAILED = frozenset({"on_complete", "on_failure"})


def history() -> History:
    """Return a history in which everything went as planned."""

    def seen(state: str, **members: str) -> SeenBatch:
        counts = {"total": len(members), "unfinished": 0}
        for its in members.values():
            counts[its] = counts.get(its, 0) + 1
        return SeenBatch("complete", counts, members, BOTH if state == "good" else FAILED)

    return History(
        batches=[GOOD, BAD, INSIDE, OUTER],
        jobs=[FIRST, FAILS, SECOND, SKIPPED, TIDY],
        seen_batches={
            "good": seen("good", g1="succeeded", g2="succeeded"),
            "bad": seen("bad", b1="succeeded", b2="failed"),
            "inside": seen("bad", i1="failed"),
            "outer": seen("bad"),
        },
        seen_jobs={
            "first": SeenJob("succeeded", 1),
            "fails": SeenJob("failed"),
            "second": SeenJob("succeeded", 11),
            "skipped": SeenJob("skipped", skipped_by="fails"),
            "tidy": SeenJob("succeeded", 16),
            **{name: SeenJob("succeeded", 1) for name in ("g1", "g2", "b1")},
            **{name: SeenJob("failed") for name in ("b2", "i1")},
        },
        callbacks=[
            ("good", "on_complete", "succeeded"), ("good", "on_success", "succeeded"),
            *((name, when, "succeeded") for name in ("bad", "inside", "outer") for when in sorted(FAILED)),
        ],
        lines=[
            Line(what, job_id)  # type: ignore[arg-type]
            for what, job_id in (
                ("begin", "first"), ("end", "first"), ("begin", "fails"),
                # The first attempt fails, and the second one's worker is killed after the attempt ends.
                ("begin", "second"), ("begin", "second"), ("end", "second"), ("begin", "second"), ("end", "second"),
                ("begin", "tidy"), ("end", "tidy"), ("begin", "g1"), ("end", "g1"), ("begin", "g2"), ("end", "g2"),
                ("begin", "b1"), ("end", "b1"), ("begin", "b2"), ("begin", "i1"), ("begin", "a callback"),
            )
        ],
    )  # fmt: skip


def test_a_history_as_planned_holds() -> None:
    assert check(history()) == []


def _job(job_id: str, **fields: object) -> Callable[[History], None]:
    def change(one: History) -> None:
        one.seen_jobs[job_id] = replace(one.seen_jobs[job_id], **fields)  # type: ignore[arg-type]

    return change


def _batch(batch_id: str, **fields: object) -> Callable[[History], None]:
    def change(one: History) -> None:
        one.seen_batches[batch_id] = replace(one.seen_batches[batch_id], **fields)  # type: ignore[arg-type]

    return change


def _counts(batch_id: str, **counts: int) -> Callable[[History], None]:
    def change(one: History) -> None:
        seen = one.seen_batches[batch_id]
        one.seen_batches[batch_id] = replace(seen, counts={**seen.counts, **counts})

    return change


BREACHES: dict[str, tuple[Callable[[History], object], str]] = {
    "a job is gone": (lambda one: one.seen_jobs.pop("first"), "first: there is no such job"),
    "a job is stuck": (_job("second", state="awaiting_jobs", result=None), "second: stuck, awaiting_jobs"),
    "a job failed that was not to": (_job("g1", state="failed", result=None), "g1: failed, and was to be succeeded"),
    "a skipped one ran to its end": (_job("skipped", state="succeeded"), "skipped: succeeded, and was to be skipped"),
    "inputs were lost": (_job("second", result=10), "second: its result is 10, and was to be 11"),
    "the wrong cause": (_job("skipped", skipped_by="first"), "skipped because of first, which did not fail"),
    "out of order": (
        lambda one: one.lines.insert(0, Line("begin", "second")), "second: began before first had ended",
    ),
    "a skipped one began": (lambda one: one.lines.append(Line("begin", "skipped")), "skipped: ran, and was to be"),
    "nobody ended it": (
        lambda one: one.lines.remove(Line("end", "g1")), "g1: succeeded, and no handler ended it",
    ),
    "a batch is gone": (lambda one: one.seen_batches.pop("good"), "batch good: there is no such batch"),
    "a batch is stuck": (_batch("bad", state="sealed"), "batch bad: stuck, sealed"),
    "a member is missing": (_batch("good", members={"g1": "succeeded"}), "its members are not those that were pushed"),
    "the total is wrong": (_counts("good", total=3), "batch good: total is 3 of 2 jobs"),
    "a count is too high": (_counts("bad", succeeded=2), "batch bad: counts 2 succeeded, and has 1"),
    "a count is left": (_counts("bad", unfinished=1), "batch bad: counts 1 unfinished, and has 0"),
    "a callback twice": (
        lambda one: one.callbacks.append(("good", "on_success", "succeeded")), "on_success was enqueued 2 times",
    ),
    "a callback is missing": (
        lambda one: one.callbacks.remove(("bad", "on_failure", "succeeded")), "bad: on_failure was enqueued 0 times",
    ),
    "a callback too many": (
        lambda one: one.callbacks.append(("outer", "on_success", "succeeded")),
        "outer: on_success was enqueued 1 times",
    ),
    "a callback is stuck": (
        lambda one: one.callbacks.__setitem__(0, ("good", "on_complete", "ready")), "good: its on_complete is ready",
    ),
    "a callback that it does not know of": (
        _batch("good", callbacks=frozenset({"on_complete"})), "good: says that it enqueued ['on_complete']",
    ),
}  # fmt: skip


@pytest.mark.req("S7", "P9")
@pytest.mark.parametrize("breach", BREACHES)
def test_the_checker_refuses(breach: str) -> None:
    one = history()
    do, text = BREACHES[breach]
    do(one)
    assert any(text in broken for broken in check(one)), check(one)


# tests/system/test_batch_kills.py and test_flow_kills.py prove it with fewer kills.
@pytest.mark.long
@pytest.mark.system
@pytest.mark.req("S7", "P9")
@pytest.mark.timeout(400)
@real_time.PROCESSES
async def test_none_is_stuck_and_each_callback_comes_once_although_masters_and_workers_are_killed(
    tmp_path: Path,
) -> None:
    figures = await prove(count=18, kills=2, seed=1, directory=tmp_path)
    assert figures["holds"], figures
    assert sum(figures["kills"].values()) == 4
