import struct

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jqmaster.domain.ids import new_id
from jqmaster.runtime.outbound.push_body import encode_push
from jqmaster.store.codec import ClaimedRecord
from jqmaster.store.jobs.claims import Claim, ClaimedJob

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)  # fmt: skip


def job(argument: bytes, **fields: object) -> ClaimedJob:
    given_fields = {"attempt": 1, "timeout_ms": 30_000, "name": "work", "headers": {}} | fields
    return ClaimedJob(new_id(), "ab" * 16, 2**53, ClaimedRecord(argument=argument, **given_fields))  # type: ignore[arg-type]


def claim(*jobs: ClaimedJob) -> Claim:
    return Claim(1_800_000_000_000, len(jobs), 1_800_000_005_000, 1_800_000_015_000, list(jobs))


def as_maps(worker_id: str, epoch: int, one: Claim) -> dict[str, object]:
    return {
        "worker_id": worker_id, "epoch": epoch, "store_time_ms": one.now_ms,
        "jobs": [
            {
                "job_id": j.job_id, "attempt": j.record.attempt, "token": j.token, "fence": j.fence, "phase": "run",
                "name": j.record.name, "argument": msgpack.unpackb(j.record.argument),
                "timeout": j.record.timeout_ms / 1000, "not_after_ms": one.not_after_ms,
                "lease_until_ms": one.lease_until_ms, "headers": j.record.headers,
            }
            for j in one.jobs
        ],
    }  # fmt: skip


@pytest.mark.req("J10")
@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(VALUES, st.integers(1, 2**32 - 1), st.integers(1, 10**10), st.text(min_size=1, max_size=40),
                  st.dictionaries(st.text(max_size=9), st.text(max_size=40), max_size=20)),
        min_size=1, max_size=4,
    )
)  # fmt: skip
def test_a_push_is_the_message_pack_of_the_contract_and_nothing_more(rows: list[tuple]) -> None:
    jobs = [
        job(msgpack.packb(value), attempt=attempt, timeout_ms=timeout_ms, name=name, headers=headers)
        for value, attempt, timeout_ms, name, headers in rows
    ]
    worker_id, one = new_id(), claim(*jobs)
    body = encode_push(worker_id, 1_800_000_000_123, one)
    assert msgpack.unpackb(body) == as_maps(worker_id, 1_800_000_000_123, one)
    # The body is not longer than msgpack's own: every length has its shortest form.
    assert len(body) == len(msgpack.packb(as_maps(worker_id, 1_800_000_000_123, one)))


@pytest.mark.parametrize("count", [1, 15, 16, 200, 500])
def test_any_number_of_jobs_fits(count: int) -> None:
    one = claim(*[job(b"\xc0") for _ in range(count)])
    assert msgpack.unpackb(encode_push("w", 1, one)) == as_maps("w", 1, one)


@pytest.mark.req("J3")
@pytest.mark.parametrize(
    "argument",
    [
        b"\xcb" + struct.pack(">Q", 0x7FF8_0000_DEAD_BEEF),  # NaN with a payload
        b"\xca" + struct.pack(">I", 0xFFC0_0001),
        b"\xc7\x03\x2aabc",  # an unknown ext type
        b"\xd6\xff\x00\x00\x00\x01",  # timestamp
        b"\xd3" + bytes(7) + b"\x01",  # 1 in nine bytes
        b"\x82\xa1b\x01\xa1a\x02",  # unusual order of keys
        b"\xd9\x01a",  # a string with a longer head than necessary
        b"\xcb\x80" + bytes(7),  # minus zero
    ],
)
def test_the_bytes_of_an_argument_pass_unchanged(argument: bytes) -> None:
    body = encode_push("w", 1, claim(job(argument), job(b"\xc3")))
    assert msgpack.packb("argument") + argument + b"\x8b" in body
    assert body.count(argument) == 1 or len(argument) < 6
