"""The form of a target in the store."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgpack

from jqmaster.domain.targets.target import BodyForm, HttpTarget, SigningSecret
from jqmaster.errors import DamagedError
from jqmaster.store import codec
from jqmaster.store.named_documents import ETAG_LENGTH

_UNREADABLE: Final = (KeyError, ValueError, TypeError, AttributeError, msgpack.UnpackException)


@dataclass(frozen=True, slots=True)
class StoredTarget:
    """A stored target. `etag` changes with every change."""

    target: HttpTarget
    etag: str
    created_at_ms: int
    changed_at_ms: int
    created_by: str


def encode_target(stored: StoredTarget) -> bytes:
    """Encode a target as it is stored."""
    target = stored.target
    document = {
        "names": list(target.names),
        "url": target.url,
        "url_from": target.url_from,
        "method": target.method,
        "body": str(target.body),
        "headers": dict(target.headers),
        "secret": [target.secret.present, target.secret.previous, target.secret.previous_until_ms],
        "max_running": target.max_running,
        "max_running_per_host": target.max_running_per_host,
        "ok": list(target.ok),
        "final": list(target.final),
        "timeout_s": target.timeout_s,
        "not_ready_for_s": target.not_ready_for_s,
        "allow_hosts": list(target.allow_hosts),
        "description": target.description,
        "created_by": stored.created_by,
        "created_at_ms": stored.created_at_ms,
        "changed_at_ms": stored.changed_at_ms,
    }
    return stored.etag.encode() + codec.pack(document)


def decode_target(name: str, raw: bytes) -> StoredTarget:
    """Decode a stored target. Raise DamagedError."""
    try:
        document: Mapping[str, Any] = msgpack.unpackb(raw[ETAG_LENGTH:])
        target = HttpTarget(
            name=name,
            names=tuple(document["names"]),
            url=document["url"],
            url_from=document["url_from"],
            method=document["method"],
            body=BodyForm(document["body"]),
            headers=dict(document["headers"]),
            secret=SigningSecret(*document["secret"]),
            max_running=document["max_running"],
            max_running_per_host=document["max_running_per_host"],
            ok=tuple(document["ok"]),
            final=tuple(document["final"]),
            timeout_s=document["timeout_s"],
            not_ready_for_s=document["not_ready_for_s"],
            allow_hosts=tuple(document["allow_hosts"]),
            description=document["description"],
        )
        return StoredTarget(
            target,
            raw[:ETAG_LENGTH].decode(),
            document["created_at_ms"],
            document["changed_at_ms"],
            document["created_by"],
        )
    except _UNREADABLE as exc:
        raise DamagedError(f"target {name}: its document cannot be read") from exc
