"""The check of steps, gathered and sealed jobs finds each broken promise, and accepts good histories."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgpack
import pytest

from tests.chaos import odd_values
from tests.chaos.checker import check
from tests.chaos.history import Line
from tests.chaos.task_load import (
    GATHERED,
    SEAL,
    SEALED,
    STEPPED,
    draw_task,
    opened,
    readable,
    result_of_step,
    secret_of,
)
from tests.chaos.test_checker import Story, told

pytestmark = pytest.mark.req("S7", "S14")


def line(s: Story, what: str, detail: str, *, attempt: int = 1, fence: int = 1, at_s: float = 1.2) -> None:
    s.h.lines.append(Line(what, "worker-1", 101, at_s, "a", attempt, "", fence, 10, detail))


def stepped(s: Story, *names: str, fence: int = 1, attempt: int = 1) -> None:
    for name in names:
        line(s, "stepped", json.dumps([name, result_of_step(7, name)]), fence=fence, attempt=attempt)


def twice(s: Story, name: str) -> None:
    """A job of this name that a killed worker ran first, and that then succeeded."""
    s.push(name=name)
    s.run(end_s=None)
    s.fault("kill", "worker-1", 2.0, 2.1)
    claim = s.run(start_s=6.0, end_s=6.5, attempt=2, worker=2)
    from tests.chaos.history import EndedAttempt

    s.end(claim=claim, attempt=2, losses=1, name=name, attempts=(EndedAttempt(1, "lost"),))


# --- good ones


def steps_that_go_on_after_a_kill(s: Story) -> None:
    twice(s, STEPPED)
    line(s, "step", "first")
    stepped(s, "first")
    line(s, "step", "second")  # killed before it was saved
    stepped(s, "first", fence=2, attempt=2)
    line(s, "step", "second", fence=2, attempt=2, at_s=6.1)
    stepped(s, "second", fence=2, attempt=2)


def a_checkpoint_after_a_loss(s: Story) -> None:
    twice(s, STEPPED)
    s.h.jobs["a"] = replace(s.h.jobs["a"], losses=0)


def gathered_once_and_then_alone(s: Story) -> None:
    twice(s, GATHERED)
    line(s, "gathered", "5")
    line(s, "gathered", "1", fence=2, attempt=2)


def sealed_and_opened(s: Story) -> None:
    sealed = {"n": 7, "sealed_with": "chaos", "sealed": "00"}
    fence = s.usual(name=SEALED, argument=sealed)[1]
    s.h.jobs["a"].argument.clear()
    s.h.jobs["a"].argument.update(sealed)
    line(s, "unsealed", secret_of(7))
    result = readable(SEAL.sealed({"n": 7, "fence": fence}, "result", "a"))
    s.call("result", at_s=2.0, value={"type": "success", "result": result})


GOOD = [
    a_checkpoint_after_a_loss,
    steps_that_go_on_after_a_kill,
    gathered_once_and_then_alone,
    sealed_and_opened,
]


@pytest.mark.parametrize("tell", GOOD, ids=lambda case: case.__name__)
def test_a_good_history_is_accepted(tell: Callable[[Story], None]) -> None:
    assert [str(one) for one in check(told(tell)).violations] == []


# --- bad ones


def step_ran_again(s: Story) -> None:
    steps_that_go_on_after_a_kill(s)
    line(s, "step", "first", fence=2, attempt=2, at_s=6.1)


def wrong_step_result(s: Story) -> None:
    steps_that_go_on_after_a_kill(s)
    line(s, "stepped", json.dumps(["third", result_of_step(8, "third")]), fence=2, attempt=2)


def retried_together(s: Story) -> None:
    gathered_once_and_then_alone(s)
    line(s, "gathered", "2", fence=2, attempt=2)


def seal_broken(s: Story) -> None:
    sealed_and_opened(s)
    line(s, "unsealed", secret_of(8))


def readable_though_sealed(s: Story) -> None:
    sealed_and_opened(s)
    s.h.jobs["a"].argument["secret"] = secret_of(7)


def sealed_result_of_another_job(s: Story) -> None:
    sealed_and_opened(s)
    result = readable(SEAL.sealed({"n": 7, "fence": 1}, "result", "b"))
    s.call("result", at_s=2.0, value={"type": "success", "result": result})


def a_loss_too_many(s: Story) -> None:
    twice(s, STEPPED)
    s.h.jobs["a"] = replace(s.h.jobs["a"], losses=2)


def a_loss_too_few(s: Story) -> None:
    twice(s, GATHERED)
    s.h.jobs["a"] = replace(s.h.jobs["a"], losses=0)


BAD = [
    ("miscounted", a_loss_too_many), ("miscounted", a_loss_too_few),
    ("step ran again", step_ran_again), ("wrong step result", wrong_step_result),
    ("retried together", retried_together), ("seal broken", seal_broken),
    ("readable though sealed", readable_though_sealed), ("wrong result", sealed_result_of_another_job),
]  # fmt: skip


@pytest.mark.parametrize(("name", "tell"), BAD, ids=lambda case: getattr(case, "__name__", ""))
def test_a_bad_history_is_caught_by_name(name: str, tell: Callable[[Story], None]) -> None:
    assert name in check(told(tell)).names()


# --- the load


def test_pushes_travel_sealed_and_are_read_back_as_they_were_drawn() -> None:
    rng = random.Random(1)
    jobs: dict[str, dict[str, Any]] = {}
    for number in range(200):
        job = draw_task(rng, number)
        jobs[job["name"]] = job
        sent = msgpack.unpackb(odd_values.packed(job))
        assert odd_values.unpacked(msgpack.packb(sent["argument"])) == job["argument"]
        if job["name"] == SEALED:
            assert secret_of(number).encode() not in odd_values.packed(job)
            assert SEAL.opened_argument(sent["argument"], job["id"], SEALED)["secret"] == secret_of(number)
    assert set(jobs) == {STEPPED, GATHERED, SEALED}


def test_results_that_are_not_sealed_stay_as_they_are() -> None:
    assert opened({"n": 1}, "a") == {"n": 1}
    assert opened(None, "a") is None
    assert opened({"sealed_with": "chaos", "sealed": "zz"}, "a") == {}
