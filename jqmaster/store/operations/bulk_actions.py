"""Actions on many jobs in the store: the requests, and their progress."""

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import msgpack

from jqmaster.domain.jobs.bulk_action import ActionProgress, ActionState, BulkAction
from jqmaster.domain.jobs.job import ActionKind
from jqmaster.domain.jobs.job_filter import JobFilter
from jqmaster.store import codec
from jqmaster.store.identity.audit import MAX_ENTRIES
from jqmaster.store.link.shard import Shard
from jqmaster.store.link.wake import BulkActionsChanged

logger = logging.getLogger(__name__)

# A finished action stays listed for KEPT_MS, or until MAX_KEPT newer actions have finished.
KEPT_MS: Final = 7 * 86_400_000
MAX_KEPT: Final = 200
# Maximum number of running actions. The number is small, because all actions share the time that the leader has for
# actions.
MAX_RUNNING: Final = 20


@dataclass(frozen=True, slots=True)
class StoredAction:
    """An action. A finished action has no `ids`. `ids_count`: None if a filter selects the jobs."""

    action: BulkAction
    ids_count: int | None
    progress: ActionProgress
    canceled_by: str | None


class ActionStore:
    """Actions of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._client = shard.client
        self._keys = shard.keys

    async def put(self, action: BulkAction, progress: ActionProgress, audit_entry: bytes) -> bool:
        """Store a new action. Return False if too many are under way."""
        k = self._keys
        spec = codec.pack(
            {
                "kind": str(action.kind),
                "filter": action.filter.document() if action.filter is not None else None,
                "ids_count": len(action.ids) if action.ids is not None else None,
                "by": action.by,
                "created_at_ms": action.created_at_ms,
                "priority": action.priority,
                "rate_per_s": action.rate_per_s,
                "stop_at_failure_share": action.stop_at_failure_share,
                # A master of an earlier release cannot read an action with a bound on the number of jobs, and must not
                # carry it out.
                **({} if action.at_most is None else {"at_most": action.at_most}),
            }
        )
        ids = codec.pack(list(action.ids)) if action.ids is not None else b""
        word, _ = await self._client.run(
            "put_action",
            (k.actions, k.running_actions, k.action(action.id), k.audit),
            (self._shard.now_arg, action.id, spec, ids, _packed(progress), audit_entry, MAX_ENTRIES, MAX_RUNNING,
             MAX_KEPT, k.action_prefix, self._shard.wake_channel, "" if action.at_most is None else action.at_most),
        )  # fmt: skip
        if word == "ok":
            self._shard.leader.wake(BulkActionsChanged())
        return word == "ok"

    async def advance(
        self,
        epoch: str,
        action: BulkAction,
        progress: ActionProgress,
        audit_entry: bytes = b"",
        ended: Sequence[str] = (),
    ) -> tuple[str, str | None]:
        """Store the progress of an action. Return two values: `ok`, or `over` if another process ended the action; and
        who asked to cancel it (None: nobody).

        * `audit_entry`: the entry for the end of the action; empty until then.
        * `ended`: the watched jobs whose ends are counted in `progress` for the first time.
        """
        k = self._keys
        word, data = await self._client.run(
            "advance_action",
            (k.epoch, k.running_actions, k.action(action.id), k.audit, k.watched(action.id)),
            (self._shard.now_arg, epoch, action.id, _packed(progress), progress.done, audit_entry, MAX_ENTRIES, KEPT_MS,
             *ended),
        )  # fmt: skip
        return word, (data[0].decode() or None) if word == "ok" else None

    async def done(self, action_id: str) -> int:
        """Return the number of jobs that the action has changed."""
        return int(await self._client.command("HGET", self._keys.action(action_id), "done") or 0)

    async def watched(self, action_id: str) -> set[str]:
        """Return the retried jobs that the action waits for until they end."""
        return {raw.decode() for raw in await self._client.command("SMEMBERS", self._keys.watched(action_id))}

    async def cancel(self, action_id: str, who: str) -> bool:
        """Ask an action to end. Return False if it is over or unknown."""
        k = self._keys
        word, _ = await self._client.run(
            "cancel_action",
            (k.running_actions, k.action(action_id)),
            (action_id, who, self._shard.wake_channel),
        )
        if word == "ok":
            self._shard.leader.wake(BulkActionsChanged())
        return word == "ok"

    async def running(self) -> list[str]:
        """Return the IDs of the actions under way, the oldest first."""
        return sorted(
            raw.decode() for raw in await self._client.command("SMEMBERS", self._keys.running_actions)
        )

    async def newest(self, limit: int) -> list[StoredAction]:
        """Return the actions, newest first."""
        ids = await self._client.command("ZRANGE", self._keys.actions, -limit, -1)
        found = await self.get_all([raw.decode() for raw in reversed(ids)])
        return [stored for stored in found if stored is not None]

    async def get(self, action_id: str, *, with_ids: bool = False) -> StoredAction | None:
        """Return an action. None: unknown, or no longer kept."""
        (stored,) = await self.get_all([action_id], with_ids=with_ids)
        return stored

    async def get_all(
        self, action_ids: Sequence[str], *, with_ids: bool = False
    ) -> list[StoredAction | None]:
        fields = ("spec", "progress", "canceled_by", "done", *(("ids",) if with_ids else ()))
        replies = await self._client.pipeline(
            [("HMGET", self._keys.action(action_id), *fields) for action_id in action_ids]
        )
        return [
            _readable(action_id, reply) if reply[0] is not None else None
            for action_id, reply in zip(action_ids, replies, strict=True)
        ]


def _packed(progress: ActionProgress) -> bytes:
    return codec.pack({**asdict(progress), "state": str(progress.state)})


def _readable(action_id: str, fields: Sequence[Any]) -> StoredAction | None:
    try:
        return _read(action_id, fields)
    except (ValueError, TypeError, KeyError, AttributeError, msgpack.UnpackException):
        # Skip an action that is damaged or that a later version wrote, so that the others are still shown.
        logger.warning("action %s: its record cannot be read", action_id)
        return None


def _read(action_id: str, stored: Sequence[Any]) -> StoredAction:
    spec, progress, canceled_by, done, *ids = stored
    fields: dict[str, Any] = msgpack.unpackb(spec)
    ids_count = fields.pop("ids_count")
    fields["kind"] = ActionKind(fields["kind"])
    if fields["filter"] is not None:
        fields["filter"] = JobFilter.of_document(fields["filter"])
    state: dict[str, Any] = msgpack.unpackb(progress)
    state["state"] = ActionState(state["state"])
    state["done"] = max(state["done"], int(done or 0))
    return StoredAction(
        BulkAction(id=action_id, ids=tuple(msgpack.unpackb(ids[0])) if ids and ids[0] else None, **fields),
        ids_count,
        ActionProgress(**state),
        canceled_by.decode() if canceled_by else None,
    )
