"""Targets, and the figures of the requests to them, in the store."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgpack

from jqmaster.domain.targets.target import MAX_TARGETS
from jqmaster.errors import ConflictError, DamagedError
from jqmaster.store import codec
from jqmaster.store.identity.audit import MAX_ENTRIES
from jqmaster.store.link.shard import Shard
from jqmaster.store.targets.documents import StoredTarget, decode_target, encode_target

logger = logging.getLogger(__name__)

# The figures of a master are kept for this long after it has stopped delivering.
FIGURES_KEPT_MS: Final = 300_000


@dataclass(frozen=True, slots=True)
class StoredTargets:
    """All targets by name, and the version under which they were read (0: none was ever created)."""

    version: int
    targets: Mapping[str, StoredTarget]


class TargetStore:
    """Targets of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._client = shard.client
        self._keys = shard.keys

    async def load(self) -> StoredTargets:
        """Return all targets. Report and omit targets that cannot be read."""
        k = self._keys
        # Read the version before the targets. If the targets change between both reads, the next check sees a newer
        # version and reads them again.
        version, documents = await self._client.pipeline(
            [("HGET", k.settings, "targets"), ("HGETALL", k.targets)]
        )
        targets = {}
        for raw_name, raw in zip(documents[::2], documents[1::2], strict=True):
            name = raw_name.decode()
            try:
                targets[name] = decode_target(name, raw)
            except DamagedError as exc:
                logger.error("%s; it gets no jobs", exc.detail)
        return StoredTargets(int(version or 0), dict(sorted(targets.items())))

    async def get(self, name: str) -> StoredTarget | None:
        """Return a target, or None if there is none. Raise DamagedError."""
        document = await self._client.command("HGET", self._keys.targets, name)
        return decode_target(name, document) if document else None

    async def put(
        self, name: str, present: StoredTarget | None, new: StoredTarget | None, audit_entry: bytes
    ) -> bool:
        """Create, change or remove (`new` None) a target. Return False if it was changed since it was read. Raise
        ConflictError if there are already MAX_TARGETS."""
        k = self._keys
        word, _ = await self._client.run(
            "put_target",
            (k.targets, k.settings, k.audit),
            (self._shard.now_arg, name, present.etag if present else "", encode_target(new) if new else b"",
             audit_entry, MAX_ENTRIES, MAX_TARGETS, k.wake_channel),
        )  # fmt: skip
        if word == "full":
            raise ConflictError(
                f"there are {MAX_TARGETS} targets; no more can be made", code="too_many_targets"
            )
        return word == "ok"

    async def names_with_jobs(self) -> list[str]:
        """Return the names that have unfinished jobs."""
        return [raw.decode() for raw in await self._client.command("SMEMBERS", self._keys.names)]

    async def save_figures(self, master_id: str, figures: Mapping[str, Sequence[Any]]) -> None:
        """Store this master's figures by target, for the other masters."""
        if not figures:
            return
        await self._client.run(
            "save_target_figures",
            [self._keys.target_figures(name, master_id) for name in figures],
            [FIGURES_KEPT_MS, *(codec.pack(list(packed)) for packed in figures.values())],
        )

    async def figures(self, names: Sequence[str], master_ids: Sequence[str]) -> dict[str, list[Any]]:
        """Return, by target, the figures that these masters have stored."""
        wanted = [(name, master_id) for name in names for master_id in master_ids]
        replies = await self._client.pipeline(
            [("GET", self._keys.target_figures(name, master_id)) for name, master_id in wanted],
            skip_damaged=True,
        )
        found: dict[str, list[Any]] = {name: [] for name in names}
        for (name, _), raw in zip(wanted, replies, strict=True):
            if raw:
                try:
                    found[name].append(msgpack.unpackb(raw))
                except (ValueError, msgpack.UnpackException):
                    continue  # skip unreadable figures, because their master writes them again soon
        return found
