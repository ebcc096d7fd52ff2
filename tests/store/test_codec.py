import struct
from dataclasses import fields
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import Attempt, Cause, Job, JobSpec, JobState, Origin, RetryPolicy
from jqmaster.domain.jobs.outcome import Outcome
from jqmaster.errors import DamagedError
from jqmaster.store import codec

LANE = bytes(range(8))
# Gates as scripts write them: none, in the lane, two.
GATES = (codec.NO_GATES, codec.GATES_IN_LANE, b"\x02" + bytes(range(2 * codec.GATE_BYTES)))
INT64 = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text("abcXYZ019_.:/-", min_size=1, max_size=200)
TEXT = st.text(max_size=20)
FINITE = st.floats(0, 1e6)
SPECS = st.builds(
    JobSpec,
    id=st.just("01890a5d-ac96-774b-bcce-b302099a8057"), name=NAMES, argument=st.binary(min_size=1, max_size=50),
    priority=st.integers(-(2**31), 2**31 - 1), max_retry=st.integers(0, 2**32 - 1), keep_result=st.booleans(),
    timeout_ms=st.integers(1, 2**40), expires_at_ms=st.none() | st.integers(1, 2**45),
    retry=st.builds(RetryPolicy, base_s=FINITE, factor=FINITE, max_s=FINITE, jitter=st.booleans()),
    rerun_lost=st.booleans(), tags=st.lists(TEXT, max_size=4).map(tuple),
    headers=st.dictionaries(TEXT, TEXT, max_size=4),
)  # fmt: skip
WEIGHTS = st.none() | st.dictionaries(
    st.sampled_from(["ff00aa11", "ff00aa12"]), st.integers(0, 10**12), min_size=1
)
HEADS = st.tuples(
    *[st.integers(0, 2**32 - 1)] * 2, *[st.integers(0, 2**16 - 1)] * 2, *[INT64] * 5,
    st.binary(min_size=16, max_size=16), st.binary(min_size=16, max_size=16),
)  # fmt: skip


def record_of(
    spec: JobSpec,
    head: tuple[object, ...],
    state: JobState,
    cause: Cause,
    gates: bytes = codec.NO_GATES,
    weights: dict[str, int] | None = None,
) -> bytes:
    terms, digest, rest = codec.encode_new(spec, gates, weights)
    whole = codec.HEAD.pack(
        codec.VERSION, codec.STATE_CODES[state], terms[32], cause, *head, 0, 0, 0, 0, 0, b"", b""
    )
    return whole[:88] + terms[:32] + digest + LANE + rest


@pytest.mark.req("J2", "J3", "J4", "J5", "J6", "J7")
@given(
    spec=SPECS, head=HEADS, state=st.sampled_from(JobState), cause=st.sampled_from(Cause), gates=st.sampled_from(GATES),
    weights=WEIGHTS,
)  # fmt: skip
def test_an_encoded_job_is_decoded(
    spec: JobSpec,
    head: tuple[object, ...],
    state: JobState,
    cause: Cause,
    gates: bytes,
    weights: dict[str, int] | None,
) -> None:
    record = record_of(spec, head, state, cause, gates, weights)
    job = codec.decode_job(spec.id, record)
    assert job.weights == weights
    for name in ("name", "argument", "priority", "max_retry", "keep_result", "timeout_ms", "retry", "rerun_lost",
                 "tags", "headers"):  # fmt: skip
        assert getattr(job, name) == getattr(spec, name)
    assert job.lane_id == LANE
    assert job.expires_at_ms == (spec.expires_at_ms or 0)
    assert (job.state, job.cause) == (state, cause)
    assert (job.attempt, job.failures, job.losses, job.returned_offers) == head[:4]
    assert (job.due_at_ms, job.started_at_ms, job.finished_at_ms, job.not_after_ms, job.fence) == head[4:9]
    assert bytes.fromhex(job.token or "00" * 16) == head[9]
    assert codec.id_bytes(job.worker_id or codec.id_text(bytes(16))) == head[10]
    cut = codec.head_length(spec.id, record)
    assert codec.decode_job(spec.id, record[:cut]).argument == b""
    assert record[cut:] == spec.argument
    claimed = codec.decode_claimed(record)
    ready_since_ms = max(job.due_at_ms, job.created_at_ms) if job.due_at_ms or not job.attempt else 0
    assert claimed == codec.ClaimedRecord(
        job.attempt + 1, spec.timeout_ms, spec.name, dict(spec.headers), spec.argument, ready_since_ms
    )


@given(one=SPECS, other=SPECS)
def test_digests_are_equal_where_requests_are(one: JobSpec, other: JobSpec) -> None:
    same = all(getattr(one, f.name) == getattr(other, f.name) for f in fields(JobSpec))
    assert (codec.encode_new(one)[1] == codec.encode_new(other, GATES[2])[1]) is same


@given(spec=SPECS, cut=st.integers(0, 400), weights=WEIGHTS)
def test_a_record_that_was_cut_short_is_damaged_or_lacks_argument_alone(
    spec: JobSpec, cut: int, weights: dict[str, int] | None
) -> None:
    record = record_of(spec, (0,) * 9 + (b"", b""), JobState.READY, Cause.NONE, weights=weights)
    kept = codec.head_length(spec.id, record)
    short = record[: min(cut, len(record))]
    if len(short) >= kept:
        assert codec.decode_job(spec.id, short).argument == short[kept:]
        return
    for read in (lambda: codec.decode_job(spec.id, short), lambda: codec.decode_claimed(short)):
        with pytest.raises(DamagedError):
            read()


@given(
    garbage=st.binary(max_size=400), head=st.binary(min_size=134, max_size=134), extras=st.binary(max_size=60)
)
def test_hostile_bytes_are_damaged_and_nothing_worse(garbage: bytes, head: bytes, extras: bytes) -> None:
    plausible = (
        bytes((codec.VERSION, 2)) + head + b"\x01n\x00" + struct.pack(">I", len(extras)) + extras + b"\xc0"
    )
    for record in (garbage, bytes((codec.VERSION,)) + garbage, plausible, plausible[:138] + garbage):
        for read in (
            lambda r: codec.decode_job("j", r), codec.decode_claimed, lambda r: codec.head_length("j", r),
            codec.decode_attempt,
        ):  # fmt: skip
            try:
                value = read(record)
            except DamagedError:
                continue
            if isinstance(value, Job):
                assert all(isinstance(tag, str) for tag in value.tags)


@pytest.mark.parametrize(
    "extras",
    [
        [["t"], {"h": 1}, [1, 2, 3, True]], [[1], {}, [1, 2, 3, True]], ["t", [], [1, 2, 3, True]], [[], {}, [1, 2, 3]],
        [[], {}, ["x", 2, 3, True]], [[], {}], 7, [None, {}, [1, 2, 3, True]],
        {"tags": [1]}, {"tags": None}, {"headers": ["h"]}, {"headers": {"h": 1}}, {"retry": 1},
        {"retry": {"base_s": "x"}}, {1: 2},
    ],
)  # fmt: skip
def test_extras_of_the_wrong_shape_are_damaged(extras: object) -> None:
    packed = msgpack.packb(extras)
    record = (
        codec.HEAD.pack(codec.VERSION, 2, *[0] * 11, b"", b"", *[0] * 5, b"", b"")
        + b"\x01n"
        + codec.NO_GATES
        + struct.pack(">I", len(packed))
    )
    for read in (lambda r: codec.decode_job("j", r), codec.decode_claimed):
        with pytest.raises(DamagedError):
            read(record + packed + b"\xc0")


def with_extras(record: bytes, extras: object) -> bytes:
    """Replace the extras in the record of a job with a short name and without gates or extras."""
    packed = msgpack.packb(extras)
    at = codec.HEAD_SIZE + 1 + record[codec.HEAD_SIZE] + 1
    assert record[at : at + 4] == bytes(4)
    return record[:at] + struct.pack(">I", len(packed)) + packed + record[at + 4 :]


PLAIN = record_of(JobSpec("j", "n", b"\xc0"), (0,) * 9 + (b"", b""), JobState.READY, Cause.NONE)


@pytest.mark.req("M12")
@pytest.mark.parametrize(
    ("extras", "tags", "headers", "retry"),
    [
        ({}, (), {}, RetryPolicy()),
        ({"tags": ["a"]}, ("a",), {}, RetryPolicy()),
        ({"headers": {"h": "v"}, "later": {"x": [1]}}, (), {"h": "v"}, RetryPolicy()),
        ({"retry": {"factor": 3, "later": 1}, "later": None}, (), {}, RetryPolicy(factor=3.0)),
        (
            {"retry": {"base_s": 4.0, "factor": 3.0, "max_s": 2.0, "jitter": False}, "tags": ["a", "b"],
            "headers": {"h": "v"}},
            ("a", "b"), {"h": "v"}, RetryPolicy(4.0, 3.0, 2.0, False),
        ),
    ],
)  # fmt: skip
def test_extras_as_a_map_are_read_and_unknown_keys_ignored(
    extras: object, tags: tuple[str, ...], headers: dict[str, str], retry: RetryPolicy
) -> None:
    record = with_extras(PLAIN, extras)
    job = codec.decode_job("j", record)
    assert (job.tags, job.headers, job.retry, job.argument) == (tags, headers, retry, b"\xc0")
    assert (codec.decode_claimed(record).headers, codec.decode_claimed(record).argument) == (headers, b"\xc0")
    lane_id, matched = codec.decode_matched(record, bytes)
    assert (matched.tags, matched.headers, matched.argument) == (tags, headers, b"\xc0")
    assert lane_id == job.lane_id


@pytest.mark.req("M12")
@given(spec=SPECS)
def test_a_job_is_written_in_the_former_form_while_that_holds_all_of_it(spec: JobSpec) -> None:
    rest = codec.encode_new(spec)[2]
    at = 1 + rest[0] + 1
    (length,) = struct.unpack_from(">I", rest, at)
    retry = spec.retry
    expected = [list(spec.tags), dict(spec.headers), [retry.base_s, retry.factor, retry.max_s, retry.jitter]]
    if length:
        assert msgpack.unpackb(rest[at + 4 : at + 4 + length]) == expected
    else:
        assert expected == [[], {}, [1.0, 2.0, 3600.0, True]]


@pytest.mark.req("M12")
@given(spec=SPECS)
def test_a_job_with_an_added_field_is_written_as_a_map_and_read_back(spec: JobSpec) -> None:
    def colour_of(one: JobSpec) -> str | None:
        return "red" if one.priority < 0 else None

    added_extras = codec.added_extras

    def with_colour(one: JobSpec) -> dict[str, Any]:
        return added_extras(one) | ({"colour": "red"} if colour_of(one) else {})

    before = codec.encode_new(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "added_extras", with_colour)
        after = codec.encode_new(spec)
        record = record_of(spec, (0,) * 9 + (b"", b""), JobState.READY, Cause.NONE)
    if colour_of(spec) is None:
        # The digest is the same, too: masters of both releases recognize a repeat.
        assert after == before
        return
    assert after[1] != before[1]
    at = codec.HEAD_SIZE + 1 + record[codec.HEAD_SIZE] + 1
    stored = msgpack.unpackb(record[at + 4 : codec.head_length("j", record)])
    assert stored.pop("colour") == "red"
    assert all(stored.values())
    job = codec.decode_job("j", record)
    assert (job.tags, job.headers, job.retry, job.argument) == (
        spec.tags, spec.headers, spec.retry, spec.argument,
    )  # fmt: skip


@pytest.mark.req("M12")
def test_a_job_without_added_fields_has_no_extras() -> None:
    plain = JobSpec(id=new_id(), name="n", argument=b"\xc0")
    assert codec.added_extras(plain) == {}
    assert codec.encode_new(plain)[2] == b"\x01n" + codec.NO_GATES + bytes(4) + b"\xc0"


@pytest.mark.req("M12")
def test_a_cause_of_a_later_release_is_an_error() -> None:
    record = PLAIN[:1] + bytes((codec.STATE_CODES[JobState.FAILED], 0, 99)) + PLAIN[4:]
    assert codec.decode_job("j", record).cause is Cause.ERROR


@pytest.mark.req("M12")
def test_members_that_a_later_release_adds_to_a_history_entry_are_ignored() -> None:
    entry = struct.pack(">q", 9) + msgpack.packb([1, "w", 2, "failure", "", None, "SOLD_OUT", "later"])
    assert codec.decode_attempt(entry) == Attempt(1, "w", 2, 9, "failure", None, None, "SOLD_OUT")


def test_an_unknown_version_or_state_is_damaged() -> None:
    spec = JobSpec("j", "n", b"\xc0")
    record = record_of(spec, (0,) * 9 + (b"", b""), JobState.READY, Cause.NONE)
    for at, value in ((0, codec.VERSION - 1), (0, codec.VERSION + 1), (0, 0), (1, 99), (1, 0)):
        broken = record[:at] + bytes((value,)) + record[at + 1 :]
        with pytest.raises(DamagedError):
            codec.decode_job("j", broken)


@given(spec=SPECS, ending=TEXT, message=TEXT, error=st.none() | st.binary(max_size=20), now_ms=INT64)
def test_an_attempt_is_read_back(
    spec: JobSpec, ending: str, message: str, error: bytes | None, now_ms: int
) -> None:
    job = codec.decode_job(
        "j", record_of(spec, (7, 0, 0, 0, 0, 55, 0, 0, 0, b"", b"w" * 16), JobState.RUNNING, Cause.NONE)
    )
    entry = struct.pack(">q", now_ms) + codec.encode_attempt(job, ending, message, error)
    assert codec.decode_attempt(entry) == Attempt(
        7, job.worker_id, 55, now_ms, ending, message or None, error
    )


@pytest.mark.req("J8", "J9")
def test_a_result_holds_the_bytes_that_the_worker_sent() -> None:
    raw = b"\xd3\x00\x00\x00\x00\x00\x00\x00\x05"  # 5, as no packer writes it
    success = codec.encode_result(
        Outcome("j", "t", "success", result=raw, finished_at="2026-11-21T04:30:00.123Z")
    )
    assert raw in success
    assert msgpack.unpackb(success) == {
        "type": "success",
        "finished_at": "2026-11-21T04:30:00.123Z",
        "result": 5,
    }
    failure = codec.encode_result(
        Outcome(
            "j", "t", "failure", reason="timeout", should_retry=False, error=raw, message="m", finished_at="f"
        )
    )
    assert raw in failure
    assert msgpack.unpackb(failure) == {
        "type": "failure", "finished_at": "f", "reason": "timeout", "should_retry": False, "message": "m", "error": 5,
    }  # fmt: skip
    nothing = codec.encode_result(Outcome("j", "t", "success", finished_at="f"))
    assert msgpack.unpackb(nothing)["result"] is None


def test_small_readers() -> None:
    assert codec.epoch_number(b"17:nonce") == codec.epoch_number("17:nonce") == 17
    assert codec.epoch_number("") == 0
    assert codec.state_of(9) is JobState.SKIPPED
    assert msgpack.unpackb(codec.pack({"a": [1]})) == {"a": [1]}


def test_claimed_jobs_with_equal_extras_have_headers_of_their_own() -> None:
    for size in (1, 2_000):
        headers = {"trace": "x" * size}
        record = with_extras(PLAIN, {"headers": headers, "batch": new_id()})
        first = codec.decode_claimed(record)
        first.headers["trace"] = "changed"
        again = codec.decode_claimed(record)
        assert (again.headers, again.batch) == (headers, first.batch)
        assert first.batch is not None


ADDED = ("origin", "after", "batch", "callback_of", "notify", "requires", "weights", "erased", "unique")


@pytest.mark.parametrize("name", ADDED)
@pytest.mark.parametrize("has_added", [False, True], ids=["former form", "newer form"])
def test_a_header_named_like_an_added_field_is_a_header(name: str, has_added: bool) -> None:
    origin = Origin("nightly", 7) if has_added and name != "origin" else None
    batch = "b1" if has_added and name == "origin" else None
    spec = JobSpec(
        id="01890a5d-ac96-774b-bcce-b302099a8057", name="work", argument=b"\xc0", headers={name: "text"},
        origin=origin, batch=batch,
    )  # fmt: skip
    for flags in (0, codec.FLAG_UNIQUE | codec.FLAG_FOLLOWED):
        record = bytearray(record_of(spec, (0,) * 9 + (bytes(16), bytes(16)), JobState.READY, Cause.NONE))
        record[2] |= flags
        job = codec.decode_job(spec.id, bytes(record))
        assert (job.headers, job.origin, job.batch) == ({name: "text"}, origin, batch)
        assert (job.after, job.callback_of, job.requires, job.weights) == (None, None, None, None)
        assert (job.notify, job.erased, job.unique) == (None, (), None)
    assert codec.extras_fields(bytes(record))["headers"] == {name: "text"}


@pytest.mark.parametrize("garbage", [b"", b"x", bytes(200)])
def test_each_reader_of_a_part_tells_a_record_that_it_cannot_read(garbage: bytes) -> None:
    for read in (codec.extras_fields, codec.keyed_gates):
        with pytest.raises(DamagedError):
            read(garbage[: codec.HEAD_SIZE])
