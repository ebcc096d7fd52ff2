"""Settings that were changed at run time: one document with a version, for all masters of a shard."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgpack

from jqmaster.errors import DamagedError
from jqmaster.store import codec
from jqmaster.store.identity.audit import MAX_ENTRIES
from jqmaster.store.link.shard import Shard


@dataclass(frozen=True, slots=True)
class StoredSettings:
    """The changed settings. `version` 0: nobody has changed any. `values`: by name, as they were given."""

    version: int
    values: Mapping[str, Any]


class Versions(NamedTuple):
    """The versions of the documents that masters follow; 0: nobody has changed any."""

    settings: int
    targets: int
    namespaces: int


class SettingsStore:
    """Settings of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._key = shard.keys.settings

    async def versions(self) -> Versions:
        """Return the versions. This takes only one command, because masters whose heartbeats get no answer call it
        twice a second.
        """
        found = await self._shard.client.command("HMGET", self._key, "version", "targets", "namespaces")
        return Versions(*(int(version or 0) for version in found))

    async def load(self) -> StoredSettings:
        """Read the settings. Raise DamagedError if the document cannot be read."""
        # Use HGETALL and not HMGET: `jqmaster export` calls this with the rights of backups, which do not include
        # HMGET.
        flat = await self._shard.client.command("HGETALL", self._key)
        fields = dict(zip(flat[::2], flat[1::2], strict=True))
        version, document = fields.get(b"version"), fields.get(b"document")
        if document is None:
            return StoredSettings(int(version or 0), {})
        try:
            values = msgpack.unpackb(document)
        except (ValueError, msgpack.UnpackException):
            values = None
        if not isinstance(values, dict):
            raise DamagedError("the settings in the store cannot be read")
        return StoredSettings(int(version or 0), values)

    async def put(
        self, expected_version: int, values: Mapping[str, Any], audit_entry: bytes, *, is_access: bool
    ) -> StoredSettings | None:
        """Store settings, and return them as they are stored. Return None if somebody has changed the settings since
        `expected_version`.

        `is_access`: the change belongs in the access log.
        """
        k = self._shard.keys
        word, data = await self._shard.client.run(
            "put_settings",
            (self._key, k.access if is_access else k.audit),
            (self._shard.now_arg, expected_version, codec.pack(dict(values)), audit_entry, MAX_ENTRIES, k.wake_channel),
        )  # fmt: skip
        return StoredSettings(int(data[0]), values) if word == "ok" else None
