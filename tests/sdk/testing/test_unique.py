"""Unique and debounced jobs in the test kit: the same decisions as by a master."""

from typing import Any

import pytest

from worker_sdk import Debounce, Duplicate, Tasks, Unique, is_duplicate, is_replaced
from worker_sdk.testing import drain, inline, recording

pytestmark = pytest.mark.req("S7", "S9")

tasks = Tasks()
log: list[Any] = []


@pytest.fixture(autouse=True)
def _empty() -> None:
    log.clear()


@tasks.task("note", keep_result=True)
def note(word: str, number: int = 0) -> str:
    log.append((word, number))
    return word


@tasks.task("twice")
def twice(word: str) -> None:
    rule = Unique("inner", on_conflict="existing")
    log.append([note.using(unique=rule).enqueue(word).is_duplicate for _ in range(2)])


def test_a_second_job_is_refused_until_the_first_has_ended() -> None:
    with recording() as jobs:
        first = note.using(unique=Unique("k")).enqueue("a")
        with pytest.raises(Duplicate) as refused:
            note.using(unique=Unique("k")).enqueue("b")
        assert refused.value.job_id == first.id
        note.using(unique=Unique("other")).enqueue("c")
        assert [job.arguments["word"] for job in jobs] == ["a", "c"]
        drain(jobs)
        assert not note.using(unique=Unique("k")).enqueue("b").is_duplicate
    assert log == [("a", 0), ("c", 0)]


def test_name_and_argument_are_the_default_key() -> None:
    rule = Unique(on_conflict="existing")
    with recording():
        first = note.using(unique=rule).enqueue("a", 1)
        assert note.using(unique=rule).enqueue(number=1, word="a").id == first.id
        assert note.using(unique=rule).enqueue("a", 2).id != first.id


def test_a_waiting_job_is_replaced() -> None:
    rule = Unique("k", on_conflict="replace")
    with recording() as jobs:
        first = note.using(unique=rule).enqueue("a")
        again = note.using(unique=rule).enqueue("b")
        assert (again.id, again.is_replaced, again.is_duplicate) == (first.id, True, False)
        assert [(job.id, job.arguments["word"]) for job in jobs] == [(first.id, "b")]
        assert [run.result for run in drain(jobs)] == ["b"]


def test_a_debounced_job_runs_once_with_the_last_argument() -> None:
    with recording() as jobs:
        for n in range(3):
            note.using(debounce=Debounce(wait_s=5, key="k")).enqueue("a", n)
        note.using(delay=2).enqueue("first")
        runs = drain(jobs)
    assert log == [("first", 0), ("a", 2)]
    assert [run.at_s for run in runs] == [2.0, 5.0]


def test_inline_each_job_is_over_before_the_next() -> None:
    with inline():
        for word in "ab":
            assert not note.using(unique=Unique("k")).enqueue(word).is_duplicate
        with_window = Unique("w", scope="window", ttl_s=60, on_conflict="existing")
        first = note.using(unique=with_window).enqueue("c")
        again = note.using(unique=with_window).enqueue("d")
        assert (again.id, again.is_duplicate, again.get()) == (first.id, True, "c")
        twice.enqueue("e")
    assert log == [("a", 0), ("b", 0), ("c", 0), ("e", 0), ("e", 0), [False, False]]


def test_many_are_judged_one_by_one() -> None:
    rule = Unique("k", on_conflict="existing")
    with recording() as jobs:
        handles = note.many([note.using(unique=rule).to_job("a"), note.using(unique=rule).to_job("b")])
        assert [handle.is_duplicate for handle in handles] == [False, True]
        assert len(jobs) == 1
    assert not is_duplicate("plain")
    assert not is_replaced("plain")
