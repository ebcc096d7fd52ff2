"""The check of events and due instants finds each broken promise, and accepts good histories."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.chaos.checker import check
from tests.chaos.event_load import COLLECTED, EACH, EVEN, LAST
from tests.chaos.history import Call, DefinitionRuns, EndedAttempt, EndState, History
from tests.chaos.instants import Definition
from tests.chaos.test_checker import Story

pytestmark = pytest.mark.req("D7", "D9")
BEGIN = datetime(2026, 3, 2, 10, 0, 30, tzinfo=UTC)


def told(tell: Callable[[Story], None]) -> History:
    story = Story()
    tell(story)
    return story.h


def send(
    s: Story, n: int, at_s: float = 1.0, *, outcome: Any = "done", is_even: bool = True, group: int = 0,
    event_id: str = "", is_repeat: bool = False,
) -> None:  # fmt: skip
    event = {
        "event_type": "chaos.even" if is_even else "chaos.other",
        "payload": {"n": n, "is_even": is_even, "group": group},
    }
    answered = (event_id or f"event-{n}") if outcome == "done" else ""
    verdict = "duplicate" if is_repeat else ""
    s.h.calls.append(
        Call("event", f"key-{n}", at_s, at_s + 0.01, outcome, 202, event, answered, verdict=verdict)
    )


def job(s: Story, name: str, argument: Any, state: str = "succeeded") -> str:
    """Add a definition's job that ran, and return its ID."""
    job_id = f"{name}-{len(s.h.jobs)}"
    claim = s.run(job_id, 2.0 + len(s.h.jobs), 2.1 + len(s.h.jobs))
    s.h.jobs[job_id] = EndState(
        job_id, name, state, argument=argument, attempt=1, token=claim[0], fence=claim[1]
    )
    return job_id


def act(s: Story, *numbers: int, even: bool = True, last: bool = True) -> None:
    """Add everything that the definitions make of events gathered together."""
    for n in numbers:
        job(s, EACH, {"n": n})
        if even:
            job(s, EVEN, {"n": n})
    job(s, COLLECTED, [{"n": n} for n in numbers])
    if last:
        job(s, LAST, {"n": numbers[-1]})


def instants(s: Story, count: int = 3, *, overlap: str = "allow") -> list[dict[str, Any]]:
    """Add a definition due each minute with its records, which may be changed."""
    runs: list[dict[str, Any]] = []
    for n in range(count):
        due = BEGIN.replace(second=0) + timedelta(minutes=n + 1)
        runs.append(
            {"due_at": due.isoformat(), "outcome": "fired", "reason": None, "job_id": job(s, "due", "x")}
        )
    definition = Definition("minutely", overlap, {"every_minutes": 1}, "UTC", 0, BEGIN, BEGIN)
    until = BEGIN.replace(second=20) + timedelta(minutes=count)
    s.h.definitions.append(DefinitionRuns.of(definition, until, until, runs))
    return runs


# --- good ones


def an_event_that_acts_once(s: Story) -> None:
    send(s, 1)
    act(s, 1)


def gathered_events(s: Story) -> None:
    send(s, 1)
    send(s, 2, 1.5)
    act(s, 1, 2)


def an_event_that_two_definitions_take(s: Story) -> None:
    send(s, 1, is_even=False)
    act(s, 1, even=False)


def a_repeat(s: Story) -> None:
    an_event_that_acts_once(s)
    send(s, 1, 3.0, is_repeat=True)


def an_unknown_event(s: Story) -> None:
    send(s, 1, outcome="unknown")


def an_unknown_event_that_acted(s: Story) -> None:
    send(s, 1, outcome="unknown")
    act(s, 1)


def a_last_event_that_is_not_known(s: Story) -> None:
    send(s, 1)
    send(s, 2, 1.001)
    act(s, 1, 2, last=False)
    job(s, LAST, {"n": 1})


def instants_that_fired(s: Story) -> None:
    instants(s)


def an_instant_that_replaced_a_job(s: Story) -> None:
    runs = instants(s, overlap="replace")
    job_id = str(runs[0]["job_id"])
    attempts = (EndedAttempt(1, "canceled"),)
    s.h.jobs[job_id] = replace(s.h.jobs[job_id], state="canceled", attempts=attempts)


GOOD = [
    an_event_that_acts_once, gathered_events, an_event_that_two_definitions_take, a_repeat, an_unknown_event,
    an_unknown_event_that_acted, a_last_event_that_is_not_known, instants_that_fired, an_instant_that_replaced_a_job,
]  # fmt: skip


@pytest.mark.parametrize("tell", GOOD, ids=lambda tell: tell.__name__)
def test_a_good_history_passes(tell: Callable[[Story], None]) -> None:
    assert [str(v) for v in check(told(tell)).violations] == []


# --- bad ones


def an_event_without_a_job(s: Story) -> None:
    send(s, 1)
    act(s, 1)
    s.h.jobs = {job_id: one for job_id, one in s.h.jobs.items() if one.name != EACH}


def an_event_that_a_matcher_missed(s: Story) -> None:
    send(s, 1)
    act(s, 1, even=False)


def a_gathered_event_that_was_lost(s: Story) -> None:
    gathered_events(s)
    for one in [one for one in s.h.jobs.values() if one.name == COLLECTED]:
        s.h.jobs[one.id] = replace(one, argument=[{"n": 2}])


def a_last_event_that_was_lost(s: Story) -> None:
    send(s, 1)
    send(s, 2, 1.5)
    act(s, 1, 2, last=False)
    job(s, LAST, {"n": 1})


def an_event_with_two_jobs(s: Story) -> None:
    an_event_that_acts_once(s)
    job(s, EACH, {"n": 1})


def a_gathered_event_in_two_jobs(s: Story) -> None:
    gathered_events(s)
    job(s, COLLECTED, [{"n": 2}])


def a_gathered_event_twice_in_a_job(s: Story) -> None:
    send(s, 1)
    act(s, 1)
    job(s, COLLECTED, [{"n": 1}, {"n": 1}])


def an_event_of_a_repeat(s: Story) -> None:
    a_repeat(s)
    s.h.calls[-1] = replace(s.h.calls[-1], verdict="")


def an_event_of_two_ids(s: Story) -> None:
    a_repeat(s)
    s.h.calls[-1] = replace(s.h.calls[-1], answered_id="event-other")


def a_refused_event_that_acted(s: Story) -> None:
    send(s, 1, outcome="refused")
    act(s, 1)


def a_job_of_no_event(s: Story) -> None:
    an_event_that_acts_once(s)
    job(s, EACH, {"n": 99})


def a_job_that_did_not_match(s: Story) -> None:
    send(s, 1, is_even=False)
    act(s, 1)


def a_list_that_is_too_long(s: Story) -> None:
    for n in range(6):
        send(s, n, 1.0 + n / 10)
    act(s, *range(6))


def an_instant_without_a_record(s: Story) -> None:
    instants(s).pop(1)


def an_instant_with_two_records(s: Story) -> None:
    runs = instants(s)
    runs.append({**runs[1], "job_id": job(s, "due", "x")})


def a_record_of_no_instant(s: Story) -> None:
    runs = instants(s)
    runs.append({**runs[1], "due_at": (BEGIN.replace(second=0) - timedelta(hours=1)).isoformat(),
                 "job_id": job(s, "due", "x")})  # fmt: skip


def a_job_of_two_instants(s: Story) -> None:
    runs = instants(s)
    runs[1]["job_id"] = runs[0]["job_id"]
    s.h.jobs.pop("due-1")


def an_instant_whose_job_is_gone(s: Story) -> None:
    runs = instants(s)
    s.h.jobs.pop(str(runs[0]["job_id"]))


def a_job_of_no_record(s: Story) -> None:
    instants(s)
    job(s, "due", "x")


def a_canceled_job_that_nothing_replaced(s: Story) -> None:
    an_instant_that_replaced_a_job(s)
    s.h.definitions = [replace(s.h.definitions[0], overlap="allow")]


BAD = [
    ("event lost", an_event_without_a_job), ("event lost", an_event_that_a_matcher_missed),
    ("event lost", a_gathered_event_that_was_lost), ("event lost", a_last_event_that_was_lost),
    ("event acted twice", an_event_with_two_jobs), ("event acted twice", a_gathered_event_in_two_jobs),
    ("event acted twice", a_gathered_event_twice_in_a_job), ("event taken twice", an_event_of_a_repeat),
    ("event taken twice", an_event_of_two_ids), ("refused event acted", a_refused_event_that_acted),
    ("event of nobody", a_job_of_no_event), ("event without a match acted", a_job_that_did_not_match),
    ("collected too many", a_list_that_is_too_long), ("instant", an_instant_without_a_record),
    ("instant", an_instant_with_two_records), ("instant", a_record_of_no_instant), ("instant", a_job_of_two_instants),
    ("instant without its job", an_instant_whose_job_is_gone), ("unexpected", a_job_of_no_record),
    ("canceled by nobody", a_canceled_job_that_nothing_replaced),
]  # fmt: skip


@pytest.mark.parametrize(("name", "tell"), BAD, ids=lambda case: getattr(case, "__name__", ""))
def test_a_bad_history_is_caught_by_name(name: str, tell: Callable[[Story], None]) -> None:
    assert name in check(told(tell)).names()


def test_definitions_are_written_with_the_history(tmp_path: Any) -> None:
    history = told(instants_that_fired)
    history.drained_s = 3.5
    history.save(tmp_path / "history")
    assert check(History.load(tmp_path / "history")).violations == []
    assert History.load(tmp_path / "history").drained_s == 3.5
