"""The registry of namespaces, in the shard of the default namespace."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from jqmaster.domain.namespaces.namespace import DEFAULT, Namespace
from jqmaster.errors import ConflictError, DamagedError, FieldError
from jqmaster.store.identity.audit import MAX_ENTRIES
from jqmaster.store.link.shard import Shard
from jqmaster.store.namespaces.documents import (
    VERSION_DIGITS,
    decode_namespace,
    encode_namespace,
    stored_version,
)

logger = logging.getLogger(__name__)

_NO_LIMIT: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class StoredNamespaces:
    """The namespaces of an installation by name, and the version under which they were read (0: none was ever created).
    `damaged`: names whose entries cannot be read. The default namespace is in `namespaces` only if somebody changed
    it."""

    version: int
    namespaces: Mapping[str, Namespace]
    damaged: frozenset[str] = frozenset()


class NamespaceStore:
    """The registry. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._client = shard.client
        self._keys = shard.keys
        self._own_tag = shard.keys.tag.strip("{}:")

    async def load(self) -> StoredNamespaces:
        """Return all namespaces. Report namespaces that cannot be read."""
        k = self._keys
        # Read the version before the entries. If the entries change between both reads, the next check sees a newer
        # version and reads them again.
        version, flat = await self._client.pipeline(
            [("HGET", k.settings, "namespaces"), ("HGETALL", k.namespaces)]
        )
        namespaces, damaged = {}, set()
        for raw_name, raw in zip(flat[::2], flat[1::2], strict=True):
            name = raw_name.decode("utf-8", "replace")
            try:
                namespaces[name] = decode_namespace(name, raw)
            except DamagedError as exc:
                logger.error("%s", exc.detail)
                damaged.add(name)
        return StoredNamespaces(int(version or 0), dict(sorted(namespaces.items())), frozenset(damaged))

    async def get(self, name: str) -> Namespace | None:
        """Return a namespace, or None if the registry has none of this name. Raise DamagedError."""
        raw = await self._client.command("HGET", self._keys.namespaces, name)
        return decode_namespace(name, raw) if raw else None

    async def put(
        self, present: Namespace | None, new: Namespace, audit_entry: bytes, *, max_namespaces: int
    ) -> int | None:
        """Create or change a namespace. Return its version, or None if it was changed since `present` was read.

        Raise ConflictError if another namespace has its tag, or if there are already `max_namespaces`."""
        # Apply no limit to the default namespace: it always exists, so its entry adds no namespace.
        allowed = _NO_LIMIT if new.is_default else max_namespaces
        return await self._write(new.name, present, new, audit_entry, allowed)

    async def remove(self, present: Namespace, audit_entry: bytes) -> bool:
        """Remove a namespace from the registry. Its data stay in the store. Return False if the namespace was changed
        since it was read.
        """
        return await self._write(present.name, present, None, audit_entry, 0) is not None

    async def remove_damaged(self, name: str, audit_entry: bytes) -> bool:
        """Remove an entry that cannot be read. Return False if it was changed meanwhile."""
        raw = await self._client.command("HGET", self._keys.namespaces, name) or b""
        return await self._run(name, raw[:VERSION_DIGITS], None, audit_entry, 0) is not None

    async def _write(
        self,
        name: str,
        present: Namespace | None,
        new: Namespace | None,
        audit_entry: bytes,
        max_namespaces: int,
    ) -> int | None:
        if new and not new.is_default and new.tag == self._own_tag:
            raise tag_taken(new.tag, DEFAULT)
        return await self._run(name, stored_version(present), new, audit_entry, max_namespaces)

    async def _run(
        self,
        name: str,
        version: str | bytes,
        new: Namespace | None,
        audit_entry: bytes,
        max_namespaces: int,
    ) -> int | None:
        k = self._keys
        word, data = await self._client.run(
            "put_namespace",
            (k.namespaces, k.settings, k.audit),
            (self._shard.now_arg, name, version, new.tag if new else "",
             encode_namespace(new) if new else b"", audit_entry, MAX_ENTRIES, max_namespaces, k.wake_channel),
        )  # fmt: skip
        if word == "full":
            raise ConflictError(
                f"there are {max_namespaces} namespaces; no more can be created", code="too_many_namespaces"
            )
        if word == "tag_taken":
            raise tag_taken(new.tag if new else "", data[0].decode())
        return int(data[0]) if word == "ok" else None


def tag_taken(tag: str, holder: str) -> ConflictError:
    """Return the refusal of a tag that another namespace has."""
    rule = f"{tag} is the tag of namespace {holder}; two namespaces never share data, so choose another tag"
    return ConflictError(rule, code="namespace_tag_taken", errors=[FieldError(("tag",), rule)])
