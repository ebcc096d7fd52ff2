"""The last declarations of each source: a file or a module whose constraints, calendars and definitions are applied
together."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgpack

from jqmaster.errors import ConflictError, DamagedError
from jqmaster.store import codec
from jqmaster.store.link.shard import Shard

MAX_SOURCES: Final = 1_000
_UNREADABLE: Final = (ValueError, KeyError, TypeError, msgpack.UnpackException)


@dataclass(frozen=True, slots=True)
class Declaration:
    """The names that a source declared, each with the ETag that it had right after it was applied."""

    source: str
    constraints: Mapping[str, str]
    definitions: Mapping[str, str]
    applied_at_ms: int
    applied_by: str
    calendars: Mapping[str, str] = field(default_factory=dict)


class DeclarationStore:
    """Declarations of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._client = shard.client
        self._keys = shard.keys

    async def all(self) -> list[Declaration]:
        """Return the declarations of all sources, by name. Raise DamagedError."""
        flat = await self._client.command("HGETALL", self._keys.declarations)
        pairs = flat.items() if isinstance(flat, dict) else zip(flat[::2], flat[1::2], strict=True)
        return sorted((_decoded(name.decode(), raw) for name, raw in pairs), key=lambda one: one.source)

    async def put(self, declaration: Declaration) -> None:
        """Replace the declaration of a source; remove a source that declares nothing. Raise ConflictError if there are
        MAX_SOURCES others."""
        is_empty = not (declaration.constraints or declaration.calendars or declaration.definitions)
        word, _ = await self._client.run(
            "put_declaration",
            (self._keys.declarations,),
            (declaration.source, b"" if is_empty else _encoded(declaration), MAX_SOURCES),
        )
        if word == "full":
            raise ConflictError(
                f"there are {MAX_SOURCES} sources of declarations; no more can be made",
                code="too_many_sources",
            )


def _encoded(declaration: Declaration) -> bytes:
    return codec.pack(
        {
            "constraints": dict(declaration.constraints),
            "definitions": dict(declaration.definitions),
            "applied_at_ms": declaration.applied_at_ms,
            "applied_by": declaration.applied_by,
            # The former release cannot read a declaration with this field.
            **({"calendars": dict(declaration.calendars)} if declaration.calendars else {}),
        }
    )


def _decoded(source: str, raw: bytes) -> Declaration:
    try:
        return Declaration(source=source, **msgpack.unpackb(raw))
    except _UNREADABLE as exc:
        raise DamagedError(f"the declaration of {source} cannot be read") from exc
