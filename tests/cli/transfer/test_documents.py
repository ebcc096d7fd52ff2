"""A job comes back from its line as it was."""

import datetime
import io
import json
from dataclasses import replace
from typing import Any

import msgpack
import pytest

from jqmaster.cli.transfer import documents, export_files
from jqmaster.cli.transfer.lines import Unknown, parsed, raw_lines, written
from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import (
    FINISHED,
    CallbackOf,
    Cause,
    Job,
    JobSpec,
    JobState,
    Notify,
    Origin,
    RetryPolicy,
)
from jqmaster.domain.jobs.predecessors import After, AfterWhen
from jqmaster.domain.jobs.unique import OnConflict, Unique, UniqueScope, unique_digest

pytestmark = pytest.mark.req("D31")

NOW_MS = 1_800_000_000_000


def job_of(**fields: Any) -> Job:
    given: dict[str, Any] = {
        "id": new_id(), "name": "work", "state": JobState.READY, "cause": Cause.NONE, "priority": 0, "max_retry": 5,
        "timeout_ms": 300_000, "keep_result": False, "rerun_lost": False, "is_confirmed": False, "attempt": 0,
        "failures": 0, "losses": 0, "returned_offers": 0, "created_at_ms": NOW_MS, "due_at_ms": 0, "expires_at_ms": 0,
        "started_at_ms": 0, "finished_at_ms": 0, "not_after_ms": 0, "fence": 0, "token": "", "worker_id": "",
        "retry": RetryPolicy(), "tags": (), "headers": {}, "argument": b"\xc0", "lane_id": b"",
    }  # fmt: skip
    return Job(**{**given, **fields})


def round_trip(job: Job, *, holds_key: bool = True) -> JobSpec:
    line = written("job", job.id, *documents.of_job(job, holds_key=holds_key, over=[]))
    ((number, offset, raw),) = raw_lines(io.BytesIO(line))
    unknown = Unknown(are_skipped=False)
    return export_files.job_of(parsed(number, offset, raw, unknown), unknown).spec


@pytest.mark.parametrize(
    "argument",
    [
        msgpack.packb({"a": [1, 2.5, None, True, "é\u2028\n", -(2**63), 2**64 - 1]}),
        msgpack.packb({"raw": b"\x00\xff"}),
        msgpack.packb({1: "a key that is no text"}),
        msgpack.packb(float("nan")),
        msgpack.packb(1.5, use_single_float=True),
        msgpack.packb(datetime.datetime(2026, 11, 28, tzinfo=datetime.UTC), datetime=True),
        msgpack.packb(msgpack.ExtType(7, b"x")),
        msgpack.packb(list(range(260_000))),
        b"\xd9\x01a",
        b"\xa1\xff",
    ],
    ids=range(10),
)
def test_every_argument_comes_back_byte_for_byte(argument: bytes) -> None:
    assert round_trip(job_of(argument=argument)).argument == argument


def test_an_argument_that_json_carries_is_readable() -> None:
    document, facts = documents.of_job(
        job_of(argument=msgpack.packb({"to": "a@shop.example"})), holds_key=False, over=[]
    )
    line = json.loads(written("job", "x", document, facts))
    assert line["document"]["argument"] == {"to": "a@shop.example"}
    assert "argument_packed" not in line["facts"]


def test_every_term_comes_back() -> None:
    other = new_id()
    job = job_of(
        priority=-3, max_retry=7, timeout_ms=1_500, keep_result=True, rerun_lost=True, tags=("a", "b"),
        headers={"k": "v"}, retry=RetryPolicy(2.0, 3.0, 60.0, jitter=False), requires={"gpu": "1"},
        state=JobState.SCHEDULED, due_at_ms=NOW_MS + 5, expires_at_ms=NOW_MS + 9, batch=other,
        origin=Origin("nightly", NOW_MS), callback_of=CallbackOf(other, "on_success"),
        notify=Notify("https://shop.example/hook?token=1", (JobState.FAILED,), with_result=True),
        after=After((other,), AfterWhen.FINISHED),
    )  # fmt: skip
    spec = round_trip(job)
    same = (
        "id", "name", "argument", "priority", "max_retry", "keep_result", "timeout_ms", "rerun_lost", "tags", "headers",
        "retry", "requires", "batch", "origin", "callback_of", "notify", "after",
    )  # fmt: skip
    assert {field: getattr(spec, field) for field in same} == {field: getattr(job, field) for field in same}
    assert (spec.run_at_ms, spec.expires_at_ms) == (job.due_at_ms, job.expires_at_ms)


def test_no_field_of_a_request_is_forgotten() -> None:
    """A field that is added to jobs must be added here, or be named as one that starts anew."""
    anew = {"delay_ms", "expires_ms", "key", "key_life_ms"}
    carried = {
        "id", "name", "argument", "priority", "max_retry", "keep_result", "timeout_ms", "run_at_ms", "expires_at_ms",
        "retry", "rerun_lost", "tags", "headers", "unique", "origin", "batch", "callback_of", "notify", "after",
        "requires",
    }  # fmt: skip
    assert set(JobSpec.__dataclass_fields__) == carried | anew


@pytest.mark.parametrize("scope", UniqueScope)
@pytest.mark.parametrize("key", ["k", None])
def test_a_key_that_a_job_holds_comes_back(scope: UniqueScope, key: str | None) -> None:
    argument = msgpack.packb({1: 2})
    digest = unique_digest("work", key, argument, lambda raw: msgpack.unpackb(raw, strict_map_key=False))
    ttl_ms = 60_000 if scope is UniqueScope.WINDOW else 0
    unique = Unique(digest, key, scope, OnConflict.REJECT, ttl_ms)
    assert round_trip(job_of(argument=argument, unique=unique)).unique == unique
    assert round_trip(job_of(argument=argument, unique=unique), holds_key=False).unique is None


def test_a_debounced_job_keeps_its_instant_and_replaces_nothing() -> None:
    unique = Unique.debounce(unique_digest("work", "k", b"", msgpack.unpackb), "k", wait_ms=500, max_ms=9_000)
    job = job_of(unique=unique, state=JobState.SCHEDULED, due_at_ms=NOW_MS + 300)
    spec = round_trip(job)
    assert (spec.run_at_ms, spec.delay_ms) == (NOW_MS + 300, None)
    assert spec.unique == replace(unique, on_conflict=OnConflict.EXISTING)


def test_failures_so_far_count() -> None:
    assert round_trip(job_of(max_retry=5, failures=2, attempt=2)).max_retry == 3
    assert round_trip(job_of(max_retry=1, failures=2, attempt=2)).max_retry == 0


@pytest.mark.parametrize("state", [state for state in JobState if state not in FINISHED])
def test_every_state_of_an_unfinished_job_can_be_imported(state: JobState) -> None:
    assert round_trip(job_of(state=state)).name == "work"
