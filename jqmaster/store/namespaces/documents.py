"""The form of a namespace in the store, and in the copies on disk."""

from collections.abc import Mapping
from typing import Any, Final

import msgpack

from jqmaster.domain.namespaces.namespace import DEFAULT, STATES, Namespace
from jqmaster.domain.namespaces.quotas import QUOTAS, Quotas, quotas_set
from jqmaster.errors import DamagedError
from jqmaster.store import codec

VERSION_DIGITS: Final = 16
_UNREADABLE: Final = (KeyError, ValueError, TypeError, AttributeError, msgpack.UnpackException)


def encode_namespace(namespace: Namespace) -> bytes:
    """Encode the part of an entry after the version and the tag."""
    fields = fields_of(namespace)
    del fields["tag"], fields["version"]
    return codec.pack(fields)


def decode_namespace(name: str, raw: bytes) -> Namespace:
    """Decode a stored namespace. Raise DamagedError."""
    try:
        version, tag, document = raw.split(b" ", 2)
        fields: Mapping[str, Any] = msgpack.unpackb(document)
        return namespace_of(name, {**fields, "tag": tag.decode(), "version": int(version)})
    except _UNREADABLE as exc:
        raise DamagedError(unreadable_entry(name)) from exc


def unreadable_entry(name: str, known: Namespace | None = None) -> str:
    """Return the text for people about an entry that cannot be read, with the remedy. `known`: the namespace as it was
    last read.
    """
    remedy = f"delete it with force (`jqmaster namespaces delete {name[:64]} --force`)"
    if name == DEFAULT:
        return (
            f"namespace {name}: its title and quotas in the registry cannot be read; {remedy}, which removes "
            "nothing else"
        )
    tag, store = (known.tag, known.store) if known else ("TAG", "STORE")
    return (
        f"namespace {name[:64]}: its entry in the registry cannot be read; {remedy}, and create it again with its tag "
        f"(`jqmaster namespaces create {name[:64]} --tag {tag} --store {store}`)"
    )


def stored_version(namespace: Namespace | None) -> str:
    """Return the version at the beginning of a stored namespace. Empty: there is none."""
    return f"{namespace.version:0{VERSION_DIGITS}}" if namespace and namespace.version else ""


def fields_of(namespace: Namespace) -> dict[str, Any]:
    """Return all fields but the name. Quotas that are not set are left out."""
    return {
        "tag": namespace.tag,
        "store": namespace.store,
        "state": namespace.state,
        "title": namespace.title,
        "quotas": quotas_set(namespace.quotas),
        "version": namespace.version,
        **({"stop_ms": namespace.stop_ms} if namespace.stop_ms else {}),
    }


def namespace_of(name: str, fields: Mapping[str, Any]) -> Namespace:
    """Return the namespace of these fields. Fields of a later release are ignored. Raise ValueError, KeyError,
    TypeError or AttributeError if the fields are faulty."""
    state, quotas = fields["state"], fields["quotas"]
    if state not in STATES:
        raise ValueError(state)
    return Namespace(
        name=name,
        tag=str(fields["tag"]),
        store=str(fields["store"]),
        state=state,
        title=str(fields["title"]),
        quotas=Quotas(**{quota: int(quotas[quota]) for quota in QUOTAS if quota in quotas}),
        version=int(fields["version"]),
        stop_ms=int(fields.get("stop_ms", 0)),
    )
