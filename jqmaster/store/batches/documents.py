"""The form of a batch in the store: one hash, whose counts scripts change in place."""

from collections.abc import Sequence
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
from jqmaster.errors import DamagedError
from jqmaster.store import codec
from jqmaster.store.job_documents import job_document, read_job_document

_UNREADABLE: Final = (KeyError, ValueError, TypeError, AttributeError, IndexError, msgpack.UnpackException)
# Scripts compare this field to refuse a request that reuses a batch's ID with a different spec.
SPEC_FIELD: Final = "spec"


def encode_spec(spec: BatchSpec) -> bytes:
    """Encode the part of a batch that never changes. Equal requests have equal bytes."""
    return codec.pack(
        {
            "description": spec.description,
            "tags": spec.tags,
            "callbacks": {
                str(callback): job_document(spec.callbacks[callback])
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
            BatchCallback(callback): read_job_document(job) for callback, job in document["callbacks"].items()
        },
        parent=document["parent"],
        expires_at_ms=document["expires_at_ms"],
        owner=document["owner"],
    )
