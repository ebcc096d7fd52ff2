"""Groups of events that become one job. The leader closes them and starts their jobs."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgpack

from jqmaster.domain.constraints.constraint_set import NO_CONSTRAINTS, ConstraintSet
from jqmaster.domain.definitions.definition import Definition
from jqmaster.domain.definitions.event_trigger import is_collected
from jqmaster.domain.definitions.run import RunReason
from jqmaster.domain.operations.tally import Tally
from jqmaster.errors import DamagedError
from jqmaster.store.definitions.definitions import KeptRuns
from jqmaster.store.definitions.documents import StoredDefinition, decode_definition
from jqmaster.store.events.events import EventVerdict, job_parts, raise_refusal
from jqmaster.store.jobs.placement import LaneTable
from jqmaster.store.link.scripts import Arg
from jqmaster.store.link.shard import Shard
from jqmaster.store.link.wake import JobsReady, SlotsFreed

logger = logging.getLogger(__name__)

# How long to wait before another attempt to start the job of a group, after a full backlog refused the job.
RETRY_MS: Final = 1000
GROUPS_PER_READ: Final = 100
BYTES_PER_READ: Final = 8 * 1024 * 1024
_PACKER: Final = msgpack.Packer(autoreset=True, use_bin_type=False)


@dataclass(frozen=True, slots=True)
class ClosedGroup:
    """A closed group, with its events and their arguments, oldest first.

    * `id`: the ID of its job.
    * `is_list`: whether the argument of the job is the list of these arguments. Otherwise there is only one event, and
      the job gets its argument.
    """

    id: str
    definition: str
    did: str
    is_list: bool
    event_ids: Sequence[str]
    arguments: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class DueGroups:
    """Due groups. `next_ms`: the time until the next group is due. 0: more are due now. None: no group waits."""

    next_ms: int | None
    found: list[ClosedGroup]


class FoundDefinition(NamedTuple):
    """The definition of a group. `stored`: None if the definition that collected these events was deleted, even if a
    new definition has the same name."""

    etag: str
    stored: StoredDefinition | None


@dataclass(frozen=True, slots=True)
class GroupDecision:
    """The decision about a group. A group whose definition is gone is removed."""

    group: ClosedGroup
    found: FoundDefinition
    verdict: EventVerdict = EventVerdict.SKIPPED
    reason: RunReason = RunReason.NONE
    argument: bytes = b""


class EventGroupStore:
    """Groups of events of one shard. `tally` counts their jobs. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard, tally: Tally) -> None:
        self._shard = shard
        self._tally = tally
        self._client = shard.client
        self._keys = shard.keys

    async def close_due(self, epoch: str) -> DueGroups:
        """Close due groups, as the leader of `epoch`. Log groups that cannot be read, and skip them. Raise
        StaleEpochError.
        """
        k = self._keys
        _, (next_ms, flat) = await self._client.run(
            "close_groups",
            (k.epoch, k.event_groups, k.event_slots),
            (self._shard.now_arg, k.tag, epoch, GROUPS_PER_READ, BYTES_PER_READ),
        )
        found = []
        for n in range(0, len(flat), 2):
            group_id = flat[n].decode()
            try:
                found.append(_decoded(group_id, flat[n + 1]))
            except (KeyError, ValueError, TypeError, IndexError, msgpack.UnpackException):
                logger.error("event group %s cannot be read; its events start no job", group_id)
        return DueGroups(None if next_ms < 0 else next_ms, found)

    async def definitions_of(self, groups: Sequence[ClosedGroup]) -> dict[str, FoundDefinition]:
        """Return the definition of each group, by group ID. Leave out groups whose definition cannot be read."""
        names = [group.definition for group in groups]
        documents = await self._client.command("HMGET", self._keys.definitions, *names)
        found = {}
        for group, raw in zip(groups, documents, strict=True):
            if raw is None:
                found[group.id] = FoundDefinition("", None)
                continue
            try:
                stored = decode_definition(group.definition, raw)
            except DamagedError as exc:
                logger.error("%s; its events wait", exc.detail)
                continue
            is_same = stored.definition.did == group.did
            found[group.id] = FoundDefinition(stored.etag, stored if is_same else None)
        return found

    async def end(
        self,
        endings: Sequence[GroupDecision],
        constraints: ConstraintSet = NO_CONSTRAINTS,
        *,
        epoch: str,
        kept: KeptRuns,
    ) -> list[str]:
        """End at most 100 closed groups in one step, as the leader of `epoch`. Return their outcomes.

        Raises StaleConstraints, StaleEpochError; StoreUnavailableError if the store was emptied or replaced.
        """
        k = self._keys
        table = LaneTable()
        packed: list[Arg] = []
        for ending in endings:
            group, (etag, stored) = ending.group, ending.found
            parts = (b"", b"", b"")
            if stored and ending.verdict is EventVerdict.FIRES:
                parts = job_parts(stored.definition, group.id, ending.argument, table, constraints)
            packed.append(
                _PACKER.pack(
                    (group.id, group.definition, etag,
                     str(stored.definition.overlap) if stored else "", str(ending.verdict) if stored else "gone",
                     str(ending.reason), list(group.event_ids), *parts)
                )
            )  # fmt: skip
        word, data = await self._client.run(
            "fire_groups",
            (k.epoch, k.rules, k.scheduled, k.expiring, k.definitions, k.definition_clocks, k.event_groups),
            (self._shard.now_arg, k.tag, epoch, self._shard.wake_channel, k.finished_channel, constraints.edition,
             table.packed(), self._shard.mark, kept.most, kept.life_ms, RETRY_MS, *packed),
        )  # fmt: skip
        raise_refusal(word)
        became = [status.decode() for status in data[0]]
        self._count(endings, became)
        for worker_id in data[1]:
            self._shard.leader.wake(SlotsFreed(worker_id.decode(), 1))
        return became

    def _count(self, endings: Sequence[GroupDecision], became: Sequence[str]) -> None:
        fired: list[Definition] = [
            ending.found.stored.definition
            for ending, status in zip(endings, became, strict=True)
            if status == "fired" and ending.found.stored
        ]
        for definition in fired:
            self._tally.of(definition.job.name).pushed += 1
        if fired:
            self._shard.leader.wake(JobsReady())


def _decoded(group_id: str, flat: Sequence[bytes]) -> ClosedGroup:
    fields: dict[bytes, Any] = dict(zip(flat[::2], flat[1::2], strict=True))
    numbers = sorted(int(field) for field in fields if field.isdigit())
    members = [msgpack.unpackb(fields[b"%d" % number], raw=True) for number in numbers]
    return ClosedGroup(
        group_id,
        fields[b"definition"].decode(),
        fields[b"did"].decode(),
        is_collected(fields[b"slot"].decode()),
        [event_id.decode() for event_id, _ in members],
        [argument for _, argument in members],
    )
