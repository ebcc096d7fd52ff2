"""The fast path for usual jobs, events and results agrees with the models, or leaves the body to them."""

import dataclasses
import struct
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jqmaster.api.encoding.envelopes import read_map
from jqmaster.api.encoding.fast_path import (
    usual_event,
    usual_events,
    usual_job,
    usual_jobs,
    usual_success,
    usual_successes,
)
from jqmaster.api.encoding.validator import ScanLimits
from jqmaster.api.events.schemas import EventRequest
from jqmaster.api.http.endpoint import check
from jqmaster.api.jobs.outcome_schemas import SuccessItem
from jqmaster.api.jobs.schemas import JobRequest
from jqmaster.api.schemas import is_instant
from jqmaster.domain.events.event import Event
from jqmaster.domain.ids import are_ids, new_id
from jqmaster.domain.jobs.job import JobSpec
from jqmaster.domain.jobs.outcome import Outcome
from jqmaster.errors import JqmasterError

LIMITS = ScanLimits(max_nesting=8, max_nodes=200)
JOB_ID = "0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e"
TOKEN = "9f86d081884c7d659a2feaa0c55ad015"
FINISHED_AT = "2026-11-21T04:30:00.123Z"

ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=40)
    | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=10,
)
IDS = st.sampled_from([JOB_ID, JOB_ID + "\n", JOB_ID.upper(), JOB_ID.replace("-7", "-4"), ""])
NUMBERS = st.sampled_from(
    [0, 1, -1, 5.0, 0.0005, 0.001, 1000, 1001, 2**31, -(2**31), True, float("nan"), float("inf"), 7e5]
)
UNIQUE = st.fixed_dictionaries(
    {},
    optional={
        "key": st.sampled_from(["k", "x" * 200, "x" * 201, "é" * 101, "", None]) | ANY,
        "scope": st.sampled_from(["until_start", "until_finished", "window", "for_ever"]) | ANY,
        "ttl_s": NUMBERS | st.none(),
        "on_conflict": st.sampled_from(["reject", "existing", "replace", "drop"]) | ANY,
        "other": NUMBERS,
    },
)
JOBS = st.fixed_dictionaries(
    {"name": st.sampled_from(["mail.send", "a\n", "é", "x" * 200, "x" * 201, ""]) | ANY},
    optional={
        "argument": ANY, "id": IDS | ANY, "priority": NUMBERS | ANY, "max_retry": NUMBERS | ANY,
        "timeout": NUMBERS | ANY,
        "keep_result": st.booleans() | ANY, "delay": NUMBERS, "tags": st.just(["a"]), "other": ANY,
        "unique": UNIQUE | ANY,
    },
)  # fmt: skip
RESULTS = st.fixed_dictionaries(
    {
        "job_id": IDS, "token": st.sampled_from([TOKEN, TOKEN + "\n", TOKEN.upper()]),
        "type": st.sampled_from(["success", "failure"]),
    },
    optional={
        "result": ANY,
        "finished_at": st.sampled_from(
            [FINISHED_AT, "2026-11-21", "2026-02-30T00:00:00Z", "2101-01-01T00:00:00Z"]
        ) | ANY,
    },
)  # fmt: skip


def job_by_the_models(data: bytes) -> JobSpec | None:
    try:
        request = check(JobRequest, read_map(data, frozenset({"argument"}), limits=LIMITS))
    except JqmasterError:
        return None
    return request.to_spec(request.id or "")


def result_by_the_models(data: bytes) -> Outcome | None:
    try:
        fields = read_map(data, frozenset({"result", "error"}), limits=LIMITS)
        return check(SuccessItem, fields).to_outcome()
    except JqmasterError:
        return None


def agree_on_a_job(data: bytes) -> None:
    usual, models = usual_job(data, LIMITS), job_by_the_models(data)
    if usual is not None and models is not None and not models.id:
        models.id = usual.id
    assert usual is None or usual == models


def agree_on_a_result(data: bytes) -> None:
    usual = usual_success(data, LIMITS)
    assert usual is None or usual == result_by_the_models(data)


@given(JOBS)
def test_they_agree_on_every_job(fields: dict[str, Any]) -> None:
    agree_on_a_job(msgpack.packb(fields))


@given(RESULTS)
def test_they_agree_on_every_result(fields: dict[str, Any]) -> None:
    agree_on_a_result(msgpack.packb(fields))


@given(JOBS.map(msgpack.packb), st.data())
def test_they_agree_on_every_broken_job(data: bytes, draw: st.DataObject) -> None:
    at = draw.draw(st.integers(0, len(data) - 1))
    agree_on_a_job(data[:at] + draw.draw(st.binary(max_size=3)) + data[at + draw.draw(st.integers(0, 3)) :])


def bulk(*jobs: bytes) -> bytes:
    return b"\x81" + msgpack.packb("jobs") + bytes((0x90 | len(jobs),)) + b"".join(jobs)


@given(st.lists(JOBS.map(msgpack.packb), max_size=4))
def test_they_agree_on_every_bulk(jobs: list[bytes]) -> None:
    usual = usual_jobs(bulk(*jobs), LIMITS)
    if usual is None:
        assert not jobs or None in [usual_job(job, LIMITS) for job in jobs]
        return
    for spec, job in zip(usual, jobs, strict=True):
        models = job_by_the_models(job)
        assert models is not None
        assert spec == dataclasses.replace(models, id=models.id or spec.id)


@given(st.lists(RESULTS, max_size=4))
def test_they_agree_on_every_report(results: list[dict[str, Any]]) -> None:
    usual = usual_successes(msgpack.packb({"results": results}), LIMITS)
    one_by_one = [usual_success(msgpack.packb(result), LIMITS) for result in results]
    if usual is None:
        assert None in one_by_one
    else:
        assert usual == one_by_one == [result_by_the_models(msgpack.packb(result)) for result in results]
    # Workers write the count in two bytes, because they do not know it when they begin.
    counted = b"\x81\xa7results\xdc" + len(results).to_bytes(2, "big") + b"".join(map(msgpack.packb, results))
    assert usual_successes(counted, LIMITS) == usual


def test_a_report_that_says_something_twice_is_not_usual() -> None:
    item = msgpack.packb(
        {
            "type": "success",
            "job_id": new_id(),
            "token": "0" * 32,
            "finished_at": "2026-01-01T00:00:00.000Z",
            "result": 1,
        }
    )
    counted = b"\x81\xa7results\xdc\x00\x01" + item
    assert usual_successes(counted, LIMITS) is not None
    for broken in (
        b"\x82\xa7results\x90" + counted[1:],
        b"\x81\xa7results\xdd\x00\x00\x00\x01" + item,
        b"\x81\xd9\x07results\x91" + item,
        counted[:12] + bytes((item[0] + 1,)) + item[1:] + b"\xa6result\x01",
        counted + b"\x01",
    ):
        assert usual_successes(broken, LIMITS) is None


@pytest.mark.parametrize(
    "text",
    [
        "1970-01-01T00:00:00.000Z", "1969-12-31T23:59:59.999Z", "2099-12-31T23:59:59.999Z", "2100-01-01T00:00:00.001Z",
        "2026-02-29T00:00:00.000Z", "2026-01-01T24:00:00.000Z", "2026-01-01T00:00:60.000Z", "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:00.000+00:00", "2026-13-01T00:00:00.000Z", "2026-01-01T00:00:00.\u0661\u0661\u0661Z", "now",
    ],
)  # fmt: skip
def test_the_usual_time_is_one_that_the_models_accept(text: str) -> None:
    item = {"type": "success", "job_id": new_id(), "token": "0" * 32, "finished_at": text, "result": 1}
    assert (usual_success(msgpack.packb(item), LIMITS) is not None) == is_instant(text)


EVENTS = st.fixed_dictionaries(
    {"event_type": st.one_of(st.text(max_size=5), st.sampled_from(["order.paid", "a b", "é", "x" * 201, 5]))},
    optional={
        "payload": st.one_of(
            st.none(),
            st.binary(max_size=4),
            st.dictionaries(st.text(max_size=2), st.integers(-(2**63), 2**64 - 1)),
        ),
        "dedupe_key": st.one_of(st.none(), st.text(max_size=3), st.just("k" * 256)),
        "source": st.text(max_size=3),
        "subject": st.one_of(st.text(max_size=3), st.just("s" * 1025)),
        "occurred_at": st.sampled_from(["2026-01-01T00:00:00Z", "now"]),
        "other": st.none(),
    },
)


def event_by_the_models(fields: dict[str, Any]) -> Event | None:
    try:
        read = read_map(msgpack.packb(fields), frozenset({"payload"}), limits=LIMITS)
        request = check(EventRequest, read)
    except JqmasterError:
        return None
    return Event(
        "", request.event_type, request.payload, request.dedupe_key or "", request.source, request.subject
    )


@given(EVENTS)
def test_they_agree_on_every_event(fields: dict[str, Any]) -> None:
    usual = usual_event(msgpack.packb(fields), LIMITS)
    assert usual is None or dataclasses.replace(usual, id="") == event_by_the_models(fields)


@given(st.lists(EVENTS, max_size=4))
def test_they_agree_on_every_batch_of_events(items: list[dict[str, Any]]) -> None:
    usual = usual_events(msgpack.packb({"events": items}), LIMITS)
    if usual is None:
        assert not items or None in [usual_event(msgpack.packb(item), LIMITS) for item in items]
        return
    assert [dataclasses.replace(event, id="") for event in usual] == [
        event_by_the_models(item) for item in items
    ]


def test_the_usual_event_takes_the_short_way() -> None:
    fields = {"event_type": "order.paid", "payload": {"n": 1}, "dedupe_key": "k", "source": "/s"}
    assert usual_event(msgpack.packb(fields), LIMITS) is not None
    twice = msgpack.packb("event_type") + msgpack.packb("a")
    assert usual_event(b"\x82" + twice + twice, LIMITS) is None


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"id": JOB_ID, "argument": {"user_id": 42}, "timeout": 1.5, "max_retry": 0, "keep_result": True},
        {"unique": {}},
        {"unique": {"key": None, "on_conflict": "existing"}, "argument": {"user_id": 42}},
        {"unique": {"key": "user:42", "scope": "window", "ttl_s": 5, "on_conflict": "replace"}},
    ],
)
def test_the_usual_job_takes_the_short_way(fields: dict[str, Any]) -> None:
    assert usual_job(msgpack.packb({"name": "mail.send", **fields}), LIMITS) is not None


def test_the_usual_result_takes_the_short_way() -> None:
    fields = {"job_id": JOB_ID, "token": TOKEN, "type": "success", "finished_at": FINISHED_AT, "result": [1]}
    assert usual_success(msgpack.packb(fields), LIMITS) is not None


def test_a_key_that_comes_twice_is_left_to_the_models() -> None:
    name = msgpack.packb("name") + msgpack.packb("noop")
    assert usual_job(b"\x82" + name + name, LIMITS) is None
    assert usual_jobs(bulk(b"\x82" + name + name), LIMITS) is None
    key = msgpack.packb("key") + msgpack.packb("k")
    unique = b"\x82" + name + msgpack.packb("unique") + b"\x82" + key + key
    assert usual_job(unique, LIMITS) is None
    assert usual_jobs(bulk(unique), LIMITS) is None


def test_a_key_that_comes_twice_is_not_made_up_for_by_a_number_that_is_written_short() -> None:
    name = msgpack.packb("name") + msgpack.packb("n")
    timeout = msgpack.packb("timeout")
    # One is four bytes shorter than with a 64-bit float, the other four bytes longer than with the shortest number.
    short = b"\x82" + name + timeout + b"\xca" + struct.pack(">f", 1.5)
    long = b"\x82" + name + msgpack.packb("priority") + b"\xd2" + bytes(4)
    twice = b"\x83" + name + name + msgpack.packb("id") + msgpack.packb(JOB_ID)
    for jobs in ([short, long], [short, twice], [short, short, twice]):
        assert usual_jobs(bulk(*jobs), LIMITS) is None


def test_an_id_is_none_that_is_two_with_a_line_feed_between() -> None:
    assert are_ids([JOB_ID, JOB_ID])
    assert are_ids([])
    assert not are_ids([f"{JOB_ID}\n{JOB_ID}"])
    assert not are_ids([JOB_ID, ""])
    assert not are_ids([JOB_ID + "\n"])
