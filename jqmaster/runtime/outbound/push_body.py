"""The body of a push. Arguments go in as the bytes that the pusher sent."""

from typing import Final

import msgpack

from jqmaster.store.jobs.claims import Claim

_PACKER: Final = msgpack.Packer(autoreset=True)
_K: Final = {
    key: msgpack.packb(key)
    for key in (
        "job_id", "attempt", "token", "fence", "phase", "name", "argument", "timeout", "not_after_ms",
    "lease_until_ms", "headers", "checkpoint",
    )
}  # fmt: skip
_PHASE_RUN: Final = _K["phase"] + msgpack.packb("run")
# A map without a checkpoint, and one with it.
_DISPATCH_HEAD: Final = bytes((0x80 | len(_K) - 1,)) + _PHASE_RUN
_DISPATCH_HEAD_CHECKPOINT: Final = bytes((0x80 | len(_K),)) + _PHASE_RUN


def encode_push(worker_id: str, epoch: int, claim: Claim) -> bytes:
    """`{worker_id, epoch, store_time_ms, jobs: [Dispatch…]}` as MessagePack."""
    pack = _PACKER.pack
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
    for job in claim.jobs:
        record = job.record
        if job.checkpoint is None:
            parts.append(_DISPATCH_HEAD)
        else:
            parts += (_DISPATCH_HEAD_CHECKPOINT, _K["checkpoint"], pack(job.checkpoint))
        parts += (
            shared, pack(job.job_id),
            _K["attempt"], pack(record.attempt),
            _K["token"], pack(job.token),
            _K["fence"], pack(job.fence),
            _K["name"], pack(record.name),
            _K["timeout"], pack(record.timeout_ms / 1000),
            _K["headers"], pack(record.headers),
            _K["argument"], record.argument,
        )  # fmt: skip
    return b"".join(parts)
