"""The form of a batch in the store: one hash, whose counts scripts change in place."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any, Final

import msgpack

from jqmaster.domain.batches.batch import (
    ENDED,
    Batch,
    BatchCallback,
    BatchSpec,
    BatchState,
    CallbackState,
)
from jqmaster.domain.job import DEFAULT_RETRY, JobSpec, RetryPolicy
from jqmaster.errors import DamagedError
from jqmaster.store import codec

_UNREADABLE: Final = (KeyError, ValueError, TypeError, AttributeError, IndexError, msgpack.UnpackException)
# A script refuses a spec that differs from the one that the same ID stands for already.
SPEC_FIELD: Final = "spec"


def encode_spec(spec: BatchSpec) -> bytes:
    """Encode what never changes of a batch. Equal requests have equal bytes."""
    return codec.pack(
        {
            "description": spec.description,
            "tags": spec.tags,
            "callbacks": {
                str(callback): _job_fields(spec.callbacks[callback])
                for callback in BatchCallback
                if callback in spec.callbacks
            },
            "parent": spec.parent,
            "expires_at_ms": spec.expires_at_ms,
            "owner": spec.owner,
        }
    )


def decode_batch(batch_id: str, flat: Sequence[bytes]) -> Batch:
    """Decode the fields and values of a batch. Raise DamagedError."""
    fields = dict(zip(flat[::2], flat[1::2], strict=True))

    def number(name: str) -> int:
        return int(fields.get(name.encode()) or 0)

    try:
        spec = _decode_spec(batch_id, fields[SPEC_FIELD.encode()])
        return Batch(
            spec=spec,
            state=BatchState(fields[b"state"].decode()),
            total=number("total"),
            ended={state: number(state) for state in ENDED},
            deleted=number("deleted"),
            gone=number("gone"),
            children=number("batches"),
            children_succeeded=number("batches_succeeded"),
            children_failed=number("batches_failed"),
            callbacks={
                callback: CallbackState(fields[str(callback).encode()].decode())
                for callback in spec.callbacks
            },
            created_at_ms=number("created_at_ms"),
            completed_at_ms=number("completed_at_ms"),
            canceled_at_ms=number("canceled_at_ms"),
            expires_at_ms=number("expires_at_ms"),
            changes=number("changes"),
        )
    except _UNREADABLE as exc:
        raise DamagedError(f"batch {batch_id}: its fields cannot be read") from exc


def _decode_spec(batch_id: str, raw: bytes) -> BatchSpec:
    document: dict[str, Any] = msgpack.unpackb(raw)
    return BatchSpec(
        id=batch_id,
        description=document["description"],
        tags=tuple(document["tags"]),
        callbacks={
            BatchCallback(callback): _job(fields) for callback, fields in document["callbacks"].items()
        },
        parent=document["parent"],
        expires_at_ms=document["expires_at_ms"],
        owner=document["owner"],
    )


def _job_fields(job: JobSpec) -> dict[str, Any]:
    return {
        "name": job.name,
        "argument": job.argument,
        "priority": job.priority,
        "max_retry": job.max_retry,
        "keep_result": job.keep_result,
        "timeout_ms": job.timeout_ms,
        "delay_ms": job.delay_ms,
        "retry": None if job.retry == DEFAULT_RETRY else astuple(job.retry),
        "rerun_lost": job.rerun_lost,
        "tags": job.tags,
        "headers": dict(sorted(job.headers.items())),
    }


def _job(fields: Mapping[str, Any]) -> JobSpec:
    retry = fields["retry"]
    return JobSpec(
        id="",
        name=fields["name"],
        argument=fields["argument"],
        priority=fields["priority"],
        max_retry=fields["max_retry"],
        keep_result=fields["keep_result"],
        timeout_ms=fields["timeout_ms"],
        delay_ms=fields["delay_ms"],
        retry=DEFAULT_RETRY if retry is None else RetryPolicy(*retry),
        rerun_lost=fields["rerun_lost"],
        tags=tuple(fields["tags"]),
        headers=fields["headers"],
    )
