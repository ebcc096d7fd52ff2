"""Notices in the store: changes by people, and their states, which the leader keeps."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from jqmaster.domain.notices.notice import MAX_NOTICES
from jqmaster.errors import ConflictError, DamagedError
from jqmaster.store.identity.audit import MAX_ENTRIES
from jqmaster.store.link.scripts import Arg
from jqmaster.store.link.shard import Shard
from jqmaster.store.named_documents import new_etag
from jqmaster.store.notices.documents import (
    StoredNotice,
    StoredState,
    StoredWatermarks,
    decode_notice,
    decode_state,
    decode_watermarks,
    encode_notice,
    encode_state,
    encode_watermarks,
)

logger = logging.getLogger(__name__)

# The colon marks a state that belongs to no notice that people created.
WATERMARKS: Final = ":marks"
DEFAULT_STATE: Final = ":default"


@dataclass(frozen=True, slots=True)
class AllNotices:
    """All notices with their states by name, read together. `default`: the state of the built-in notice, which exists
    until somebody creates a notice.
    """

    now_ms: int
    notices: Mapping[str, StoredNotice]
    states: Mapping[str, StoredState]
    default: StoredState
    watermarks: StoredWatermarks


class NoticeStore:
    """Notices of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._client = shard.client
        self._keys = shard.keys
        # By name: the bytes of a notice, and the notice decoded from them. Cached, because the leader reads them often.
        self._decoded: dict[str, tuple[bytes, StoredNotice]] = {}

    async def all(self) -> AllNotices:
        """Return all notices and their states. A notice that cannot be read is reported and omitted. A state that
        cannot be read starts again."""
        k = self._keys
        documents, states, (seconds, microseconds) = await self._client.pipeline(
            [("HGETALL", k.notices), ("HGETALL", k.notice_states), ("TIME",)]
        )
        now_ms = self._shard.now() if self._shard.now else int(seconds) * 1000 + int(microseconds) // 1000
        raw_states = dict(zip((name.decode() for name in states[::2]), states[1::2], strict=True))
        notices: dict[str, StoredNotice] = {}
        for raw_name, raw in zip(documents[::2], documents[1::2], strict=True):
            name = raw_name.decode()
            try:
                notices[name] = self._notice(name, raw)
            except DamagedError as exc:
                logger.error("%s; it sends no messages", exc.detail)
        self._decoded = {name: self._decoded[name] for name in notices}
        watermarks = raw_states.get(WATERMARKS)
        return AllNotices(
            now_ms,
            dict(sorted(notices.items())),
            {name: _state(name, raw_states.get(name)) for name in notices},
            _state(DEFAULT_STATE, raw_states.get(DEFAULT_STATE)),
            decode_watermarks(watermarks) if watermarks else StoredWatermarks(),
        )

    async def get(self, name: str) -> tuple[StoredNotice | None, StoredState]:
        """Return a notice and its state, or None if there is no such notice. Raise DamagedError."""
        k = self._keys
        document, state = await self._client.pipeline(
            [("HGET", k.notices, name), ("HGET", k.notice_states, name)]
        )
        stored = decode_notice(name, document) if document else None
        return stored, _state(name, state)

    async def put(
        self, name: str, present: StoredNotice | None, new: StoredNotice | None, audit_entry: bytes
    ) -> bool:
        """Create, change or remove (`new` None) a notice. Return False if it was changed since it was read. Raise
        ConflictError if there are already MAX_NOTICES."""
        k = self._keys
        word, _ = await self._client.run(
            "put_notice",
            (k.notices, k.notice_states, k.audit),
            (self._shard.now_arg, name, present.etag if present else "", encode_notice(new) if new else b"",
             audit_entry, MAX_ENTRIES, MAX_NOTICES),
        )  # fmt: skip
        if word == "full":
            raise ConflictError(
                f"there are {MAX_NOTICES} notices; no more can be made", code="too_many_notices"
            )
        return word == "ok"

    async def put_states(
        self,
        states: Mapping[str, StoredState],
        watermarks: StoredWatermarks | None = None,
        *,
        epoch: str = "",
    ) -> bool:
        """Replace the states of these notices, and the watermarks, in one step. Each gets a new edition. `epoch` empty:
        the caller is not the leader.

        Return False if a state was changed, or its notice was deleted, after the state had been read. Raise
        StaleEpochError.
        """
        args: list[Arg] = [epoch]
        editions = {name: new_etag() for name in states}
        for name, stored in states.items():
            args += (name, stored.edition, encode_state(editions[name], stored))
        watermarks_edition = new_etag()
        if watermarks is not None:
            args += (
                WATERMARKS,
                watermarks.edition,
                encode_watermarks(watermarks_edition, watermarks.by_condition),
            )
        k = self._keys
        word, _ = await self._client.run("put_notice_states", (k.epoch, k.notices, k.notice_states), args)
        if word != "ok":
            return False
        for name, stored in states.items():
            stored.edition = editions[name]
        if watermarks is not None:
            watermarks.edition = watermarks_edition
        return True

    def _notice(self, name: str, raw: bytes) -> StoredNotice:
        known, stored = self._decoded.get(name, (b"", None))
        if stored is None or known != raw:
            stored = decode_notice(name, raw)
            self._decoded[name] = raw, stored
        return stored


def _state(name: str, raw: bytes | None) -> StoredState:
    if not raw:
        return StoredState()
    try:
        return decode_state(name, raw)
    except DamagedError as exc:
        logger.error("%s; it starts again", exc.detail)
        return StoredState(raw[:16].decode(errors="replace"))
