"""The body of a push. Arguments are copied from the pusher's bytes."""

from collections.abc import Sequence
from typing import Final

import msgpack

from jqmaster.domain.challenges.challenge import callback_fields
from jqmaster.store.codec import ClaimedRecord
from jqmaster.store.jobs.claims import Claim, ClaimedJob, PredecessorResult

_PACKER: Final = msgpack.Packer(autoreset=True)
_K: Final = {
    key: msgpack.packb(key)
    for key in (
        "job_id", "attempt", "token", "fence", "phase", "name", "argument", "timeout", "not_after_ms",
    "lease_until_ms", "headers", "checkpoint", "batch", "inputs",
    )
}  # fmt: skip
_INPUT: Final = {key: msgpack.packb(key) for key in ("job_id", "state", "result", "omitted")}
_PHASE_RUN: Final = _K["phase"] + msgpack.packb("run")
# The encoded beginnings of a job's map, indexed by the number of its optional fields.
_DISPATCH_HEADS: Final = [bytes((0x80 | len(_K) - 3 + more,)) + _PHASE_RUN for more in range(4)]
_PHASE_CALLBACK: Final = _K["phase"] + msgpack.packb("callback")


def encode_push(worker_id: str, epoch: int, claim: Claim) -> bytes:
    """Return `{worker_id, epoch, store_time_ms, jobs: [Dispatch…]}` as MessagePack."""
    pack = _PACKER.pack
    token_key, fence_key = _K["token"], _K["fence"]
    shared = b"".join(
        (
            _K["not_after_ms"],
            pack(claim.not_after_ms),
            _K["lease_until_ms"],
            pack(claim.lease_until_ms),
            _K["job_id"],
        )
    )
    parts: list[bytes] = [
        b"\x84", pack("worker_id"), pack(worker_id), pack("epoch"), pack(epoch),
            pack("store_time_ms"), pack(claim.now_ms),
        pack("jobs"), msgpack.Packer().pack_array_header(len(claim.jobs)),
    ]  # fmt: skip
    # Encoded fields by job name, timeout and attempt, because jobs that are claimed together share most fields.
    terms_of: dict[tuple[str, int, int], bytes] = {}
    for job in claim.jobs:
        record = job.record
        kind = (record.name, record.timeout_ms, record.attempt)
        if record.headers or (terms := terms_of.get(kind)) is None:
            terms = _terms(record)
            if not record.headers:
                terms_of[kind] = terms
        if record.has_callback:
            parts += _callback_head(job)
        elif job.checkpoint is None and record.batch is None and job.inputs is None:
            parts.append(_DISPATCH_HEADS[0])
        else:
            more = (job.checkpoint is not None) + (record.batch is not None) + (job.inputs is not None)
            parts.append(_DISPATCH_HEADS[more])
            if job.checkpoint is not None:
                parts += (_K["checkpoint"], pack(job.checkpoint))
            if record.batch is not None:
                parts += (_K["batch"], pack(record.batch))
            if job.inputs is not None:
                parts += (_K["inputs"], encode_inputs(job.inputs))
        parts += (
            shared,
            pack(job.job_id),
            token_key,
            pack(job.token),
            fence_key,
            pack(job.fence),
            terms,
            record.argument,
        )
    return b"".join(parts)


def _terms(record: ClaimedRecord) -> bytes:
    """Return the encoded fields that jobs have in common, followed by the key of the argument."""
    pack = _PACKER.pack
    return b"".join(
        (
            _K["attempt"], pack(record.attempt),
            _K["name"], pack(record.name),
            _K["timeout"], pack(record.timeout_ms / 1000),
            _K["headers"], pack(record.headers),
            _K["argument"],
        )
    )  # fmt: skip


def encode_inputs(inputs: Sequence[PredecessorResult]) -> bytes:
    """Return an encoded list of JobInput. The bytes of each result are copied as they are stored for pushers."""
    parts = [msgpack.Packer().pack_array_header(len(inputs))]
    for one in inputs:
        parts += (
            b"\x84",
            _INPUT["job_id"], _PACKER.pack(one.job_id),
            _INPUT["state"], _PACKER.pack(one.state and str(one.state)),
            _INPUT["result"], one.result or b"\xc0",
            _INPUT["omitted"], _PACKER.pack(None if one.result else str(one.omitted)),
        )  # fmt: skip
    return b"".join(parts)


def _callback_head(job: ClaimedJob) -> list[bytes]:
    """Return the beginning of the map of a job that is pushed with its callbacks."""
    more = callback_fields(job.callbacks)
    if job.checkpoint is not None:
        more["checkpoint"] = job.checkpoint
    if job.record.batch is not None:
        more["batch"] = job.record.batch
    inputs = [] if job.inputs is None else [_K["inputs"], encode_inputs(job.inputs)]
    # The map has the fields of `_K` without its three optional ones, and the fields in `more` and `inputs`.
    parts = [bytes((0x80 | len(_K) - 3 + len(more) + len(inputs) // 2,)), _PHASE_CALLBACK, *inputs]
    for key, value in more.items():
        parts += (_PACKER.pack(key), _PACKER.pack(value))
    return parts
