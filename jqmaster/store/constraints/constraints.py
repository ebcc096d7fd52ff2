"""Constraints in the store: their documents, the limits that scripts read, and what follows a change of them.

All methods raise what `StoreClient.run` raises.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgpack

from jqmaster.domain.constraint import Constraint, Limits, Mode, Override, gate_id
from jqmaster.domain.job import TIMED
from jqmaster.domain.key_value import key_value
from jqmaster.domain.limit_kinds import KINDS, PER_VALUE
from jqmaster.domain.matcher import parse_matcher, parse_path
from jqmaster.domain.ruleset import Ruleset
from jqmaster.errors import ConflictError, DamagedError
from jqmaster.store import codec
from jqmaster.store.identity.audit import MAX_ENTRIES
from jqmaster.store.jobs.placement import LaneTable, StoredLane, lane_of_job
from jqmaster.store.jobs.records import HEAD_READ
from jqmaster.store.link.pages import (
    GATES_PER_CALL,
    LANES_PER_READ,
    MAX_PER_CALL,
    RECORDS_PER_READ,
    pages,
    scanned,
)
from jqmaster.store.link.scripts import Arg
from jqmaster.store.link.shard import Shard
from jqmaster.store.link.wake import ConstraintsChanged

logger = logging.getLogger(__name__)

ETAG_LENGTH: Final = 16
MAX_CONSTRAINTS: Final = 1000
GATES_PER_PRUNING: Final = 500
# A page that is read, one that is matched, and two in the store: it goes from one to the next without a wait.
PAGES_AT_ONCE: Final = 4
NO_LANES: Final[Mapping[str, "OldLane"]] = {}


@dataclass(frozen=True, slots=True)
class StoredConstraint:
    """`etag` changes with every change."""

    constraint: Constraint
    etag: str
    created_at_ms: int
    changed_at_ms: int


@dataclass(frozen=True, slots=True)
class Rules:
    """All constraints at one instant. `version` counts every change, the ruleset's `edition` those that have jobs
    matched again; `settled_edition` is the one in force."""

    version: int
    settled_edition: int
    stored: tuple[StoredConstraint, ...]
    ruleset: Ruleset

    def named(self, name: str) -> StoredConstraint | None:
        return next((s for s in self.stored if s.constraint.name == name), None)

    def of_gate(self, gate: str) -> Constraint | None:
        """Return the constraint that a gate belongs to."""
        return next((s.constraint for s in self.stored if gate.startswith(s.constraint.cid)), None)


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one constraint, made on what was read as `expected_etag` (empty: there was none).

    `new` None removes it. `is_rematched`: every unfinished job has to be matched again. `audit_entry` is a packed map.
    """

    name: str
    expected_etag: str
    new: StoredConstraint | None
    old: Constraint | None
    is_rematched: bool
    audit_entry: bytes


async def _nothing() -> None:
    return None


class OldLane(NamedTuple):
    """A lane of an older edition."""

    id: str
    name: str


class Moved(NamedTuple):
    """Number of jobs that moved to other lanes. -1, and so false: the constraints changed meanwhile."""

    jobs: int

    def __bool__(self) -> bool:
        return self.jobs >= 0


@dataclass(slots=True)
class _Found:
    """A job that may have to move. `old`: the lane in which it was found ready; `record`: None if it was not read, or
    cannot be."""

    job_id: str
    old: OldLane | None
    record: bytes | None = None


class RuleStore:
    """Constraints of one shard."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._client = shard.client
        self._keys = shard.keys

    # --- reading

    async def versions(self) -> tuple[int, int, int]:
        """Version, edition, and the edition in force."""
        version, edition, settled = await self._client.command(
            "HMGET", self._keys.rules, "version", "edition", "settled"
        )
        return int(version or 0), int(edition or 0), int(settled or 0)

    async def load(self) -> Rules:
        """Return the constraints as they are. A constraint whose document cannot be read is omitted, and reported by fsck: what was
        matched before stays behind its gates."""
        _, (version, edition, settled, flat) = await self._client.run(
            "load_rules", (self._keys.rules, self._keys.constraints), ()
        )
        stored = []
        for n in range(0, len(flat), 2):
            try:
                stored.append(decode_constraint(flat[n].decode(), flat[n + 1]))
            except DamagedError as exc:
                logger.error("%s; it applies to no new job", exc.detail)
        stored.sort(key=lambda s: s.constraint.name)
        return Rules(version, settled, tuple(stored), Ruleset(edition, [s.constraint for s in stored]))

    # --- changing

    async def change(self, change: Change) -> bool:
        """False when somebody else changed it since it was read. Raise ConflictError when there are as many as may be."""
        k, new = self._keys, change.new
        cid = new.constraint.cid if new else ""
        old_cid = (
            change.old.cid
            if change.old and (new is None or change.old.cid != cid or not new.constraint.enabled)
            else ""
        )
        limits: list[Arg] = []
        overrides: list[Arg] = []
        if new and new.constraint.enabled:
            limits, overrides = _limit_fields(new.constraint), _override_fields(new.constraint)
        word, _ = await self._client.run(
            "put_constraint",
            (k.rules, k.constraints, k.limits(cid), k.limits(old_cid), k.overrides(cid), k.overrides(old_cid), k.reopened,
             k.counted, k.audit),
            (self._shard.now_arg, change.name, change.expected_etag, _encode(new) if new else b"", cid, old_cid,
             int(change.is_rematched), change.audit_entry, MAX_ENTRIES, MAX_CONSTRAINTS, k.wake_channel,
             codec.pack(limits), codec.pack(overrides)),
        )  # fmt: skip
        if word == "full":
            raise ConflictError(
                f"there are {MAX_CONSTRAINTS} constraints; no more can be made", code="too_many_constraints"
            )
        self._shard.leader.wake(ConstraintsChanged())
        return word == "ok"

    # --- following a change up (leader only)

    async def settle(self, epoch: str, rules: Rules) -> bool:
        """Give every running job the slots that the constraints demand, then put the edition in force. False: they changed
        meanwhile."""
        # Nothing is claimed until then, so that no other job can begin to run.
        running = [raw.decode() for raw in await self._client.command("ZRANGE", self._keys.running, 0, -1)]
        if not await self.move(epoch, rules, running):
            return False
        word, _ = await self._client.run(
            "settle_rules", (self._keys.epoch, self._keys.rules), (epoch, rules.ruleset.edition)
        )
        return word == "ok"

    async def move(
        self, epoch: str, rules: Rules, job_ids: Sequence[str], lanes: Mapping[str, "OldLane"] = NO_LANES
    ) -> "Moved":
        """Put unfinished jobs into the lanes that the rules give them; `lanes` tells where those were found that are
        ready. While the store moves one page, another is matched and a third is read."""
        reads_argument = "argument" in rules.ruleset.reads
        parts = pages(job_ids, RECORDS_PER_READ if reads_argument else MAX_PER_CALL)

        async def move_pages() -> int:
            count = 0
            # The first to end leaves no page to the others: there is none, or no reason to move it.
            with contextlib.closing(parts):
                for part in parts:
                    found = await self._find(rules.ruleset, part, lanes, reads_argument)
                    moved = await self._relane(epoch, rules, *_placed(rules.ruleset, found))
                    if not moved:
                        return -1
                    count += moved.jobs
            return count

        outcomes = await asyncio.gather(*(move_pages() for _ in range(PAGES_AT_ONCE)), return_exceptions=True)
        counts = []
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
            counts.append(outcome)
        return Moved(-1 if -1 in counts else sum(counts))

    async def _relane(self, epoch: str, rules: Rules, table: LaneTable, args: Sequence[Arg]) -> "Moved":
        if not args:
            return Moved(0)
        k = self._keys
        word, data = await self._client.run(
            "relane",
            (k.epoch, k.rules, k.damaged),
            (self._shard.now_arg, k.tag, epoch, rules.ruleset.edition, table.packed(), *args),
        )
        return Moved(data[0] if word == "ok" else -1)

    async def _find(
        self, ruleset: Ruleset, job_ids: Sequence[str], lanes: Mapping[str, "OldLane"], reads_argument: bool
    ) -> "list[_Found]":
        """Read the records of those jobs whose names do not decide where they wait."""
        found = [_Found(job_id, lanes.get(job_id)) for job_id in job_ids]
        unread = [one for one in found if not (one.old and ruleset.lane_of_name(one.old.name))]
        if unread and reads_argument:
            records = await self._client.command("MGET", *[self._keys.job(one.job_id) for one in unread])
        else:
            records = await self._client.pipeline(
                [("GETRANGE", self._keys.job(one.job_id), 0, HEAD_READ - 1) for one in unread],
                skip_damaged=True,
            )
        for one, record in zip(unread, records, strict=True):
            one.record = await self._whole_head(one.job_id, record) if record else None
        return found

    async def _whole_head(self, job_id: str, record: bytes) -> bytes | None:
        """Return the record, read again where its extras reach beyond what was read; None where it is damaged."""
        try:
            if len(record) == HEAD_READ and codec.head_length(job_id, record) > HEAD_READ:
                record = await self._client.command("GET", self._keys.job(job_id))
        except DamagedError:
            return None
        return record

    async def older_lanes(self, edition: int) -> list["OldLane"]:
        """Lanes of older editions, those first whose jobs would be the next to start."""
        lanes: list[OldLane] = []
        for raw in await self._client.command("SMEMBERS", self._keys.names):
            name = raw.decode()
            found = await self._client.command("ZRANGEBYSCORE", self._keys.lanes(name), "-inf", f"({edition}")
            lanes += [OldLane(lane.decode(), name) for lane in found]
        order: dict[OldLane, tuple[bool, int, str]] = {}
        for page in pages(lanes, MAX_PER_CALL):
            replies = await self._client.pipeline([("GET", self._keys.lane(lane.id)) for lane in page])
            for lane, raw in zip(page, replies, strict=True):
                order[lane] = (True, 0, "")
                # One that is gone or cannot be read comes last; scripts make it anew.
                with contextlib.suppress(DamagedError):
                    stored = StoredLane.read(raw or b"")
                    order[lane] = (bool(stored.at) or not stored.member, stored.score, stored.member)
        return sorted(lanes, key=order.__getitem__)

    async def ready_in(self, lanes: Sequence["OldLane"], count: int) -> list[list[str]]:
        """Return the first `count` jobs of each."""
        replies = await self._client.pipeline(
            [("ZRANGE", self._keys.ready(lane.id), 0, count - 1) for lane in lanes]
        )
        return [[raw.decode() for raw in reply] for reply in replies]

    async def waiting_for_time(self) -> AsyncIterator[list[str]]:
        """Yield pages of the jobs that wait for a time; those that were there all along are all among them."""
        for index in (self._keys.index(state) for state in TIMED):
            async for flat in scanned(self._client, "ZSCAN", index, count=RECORDS_PER_READ):
                for page in pages([raw.decode() for raw in flat[::2]], MAX_PER_CALL):
                    yield page

    async def prune(self, epoch: str, lanes: Sequence[str]) -> None:
        """Remove those of the lanes that have no unfinished job."""
        for page in pages(lanes, LANES_PER_READ):
            await self._client.run("prune_lanes", (self._keys.epoch,), (self._keys.tag, epoch, *page))

    async def counted(self) -> list[str]:
        """Return the constraints about which data may be kept, including deleted ones."""
        return sorted(raw.decode() for raw in await self._client.command("SMEMBERS", self._keys.counted))

    async def prune_gates(self, epoch: str, cid: str, cursor: str) -> tuple[int, str]:
        """Remove the data of gates that nothing needs any more, from one page of them; return how many, and where the next
        page begins ("0": that was the last)."""
        k = self._keys
        _, data = await self._client.run(
            "prune_gates",
            (k.epoch, k.counted, k.shadowed, k.gates(cid), k.served(cid), k.crowded(cid), k.limits(cid)),
            (k.tag, epoch, cid, cursor, GATES_PER_PRUNING),
        )  # fmt: skip
        return int(data[0]), data[1].decode()

    async def lane_pages(self) -> AsyncIterator[list[str]]:
        """Yield all lanes of all names, in pages."""
        for name in await self._client.command("SMEMBERS", self._keys.names):
            key = self._keys.lanes(name.decode())
            async for flat in scanned(self._client, "ZSCAN", key, count=LANES_PER_READ):
                yield [raw.decode() for raw in flat[::2]]

    async def reopened(self) -> list[tuple[str, int]]:
        """Return the constraints whose gates have to be checked again, and since which version."""
        flat = await self._client.command("ZRANGE", self._keys.reopened, 0, -1, "WITHSCORES")
        return [(flat[n].decode(), int(flat[n + 1])) for n in range(0, len(flat), 2)]

    async def reopen(self, epoch: str, cid: str, version: int) -> bool:
        """Let parked lanes at the gates of this constraint be checked again; True if there was
        any."""
        has_opened = False
        closed = scanned(self._client, "SSCAN", self._keys.closed, count=MAX_PER_CALL, match=f"{cid}*")
        async for found in closed:
            for page in pages([raw.decode() for raw in found], GATES_PER_CALL):
                has_opened = (await self.open_gates(epoch, page))[1] or has_opened
        await self._client.run(
            "end_reopening", (self._keys.epoch, self._keys.reopened), (epoch, cid, version)
        )
        return has_opened

    async def open_gates(self, epoch: str, gates: Sequence[str] = ()) -> tuple[int, bool]:
        """Opens these and those whose time has come. Milliseconds until the next one opens by time (-1: none), and
        whether jobs may start that could not before."""
        k = self._keys
        while True:
            _, data = await self._client.run(
                "open_gates",
                (k.epoch, k.gates_due, k.holds),
                (self._shard.now_arg, k.tag, epoch, GATES_PER_CALL, *gates),
            )
            by_time, next_ms, has_opened = data
            if by_time < GATES_PER_CALL:
                return next_ms, bool(has_opened)
            gates = ()


def _limit_fields(constraint: Constraint) -> list[Arg]:
    counted = constraint.counted
    fields: dict[str, Arg | None] = {"mode": str(constraint.mode)}
    for kind in KINDS:
        fields |= kind.script_fields(getattr(constraint, kind.name))
    fields |= {
        "has_overrides": int(bool(constraint.overrides)),
        "tracks_slots": int(counted.slots),
        "tracks_starts": int(counted.starts),
    }
    return [part for name, value in fields.items() if value is not None for part in (name, str(value))]


def _override_fields(constraint: Constraint) -> list[Arg]:
    fields: list[Arg] = []
    for override in constraint.overrides:
        parts = [
            part
            for kind in PER_VALUE
            for part in kind.script_fields(getattr(override.limits, kind.name)).values()
        ]
        text = ",".join("" if part is None else str(part) for part in parts)
        fields += (gate_id(constraint.cid, key_value(override.value)), text)
    return fields


def _encode(stored: StoredConstraint) -> bytes:
    c = stored.constraint
    document = {
        "cid": c.cid,
        "enabled": c.enabled,
        "mode": str(c.mode),
        "matcher": c.matcher.document,
        "key": None if c.key is None else str(c.key),
        **{kind.name: kind.pack(getattr(c, kind.name)) for kind in KINDS},
        "overrides": [
            [o.value, *(kind.pack(getattr(o.limits, kind.name)) for kind in PER_VALUE)] for o in c.overrides
        ],
        "created_at_ms": stored.created_at_ms,
        "changed_at_ms": stored.changed_at_ms,
    }
    return stored.etag.encode() + codec.pack(document)


def decode_constraint(name: str, raw: bytes) -> StoredConstraint:
    """Decode a stored constraint. Raise DamagedError."""
    try:
        document: dict[str, Any] = msgpack.unpackb(raw[ETAG_LENGTH:])
        key = document["key"]
        constraint = Constraint(
            name=name,
            cid=document["cid"],
            matcher=parse_matcher(document["matcher"]),
            enabled=document["enabled"],
            mode=Mode(document["mode"]),
            key=None if key is None else parse_path(key),
            overrides=tuple(_override(value, limits) for value, *limits in document["overrides"]),
            # A document of a former release lacks the kinds that came later.
            **{kind.name: kind.unpack(document[kind.name]) for kind in KINDS if kind.name in document},
        )
        return StoredConstraint(
            constraint, raw[:ETAG_LENGTH].decode(), document["created_at_ms"], document["changed_at_ms"]
        )
    except (KeyError, ValueError, TypeError, AttributeError, msgpack.UnpackException) as exc:
        raise DamagedError(f"constraint {name}: its document cannot be read") from exc


def _override(value: object, limits: Sequence[Any]) -> Override:
    if len(limits) > len(PER_VALUE):
        raise ValueError("an override has limits of a later release")
    parts = zip(PER_VALUE, limits, strict=False)
    return Override(value, Limits(**{kind.name: kind.unpack(part) for kind, part in parts}))


def _placed(ruleset: Ruleset, found: Sequence[_Found]) -> tuple[LaneTable, list[Arg]]:
    """Return the arguments of relane.lua for the jobs that have to move."""
    table, args = LaneTable(), list[Arg]()
    for one in found:
        lane = ruleset.lane_of_name(one.old.name) if one.old else None
        if one.old and lane:
            args += (one.job_id, bytes.fromhex(one.old.id), table.number(lane))
            continue
        try:
            job = codec.decode_matched(one.record) if one.record else None
        except DamagedError:
            job = None
        if job:
            lane = lane_of_job(ruleset, job)
            # The lane of an older edition is never that of the present one, and to compute the latter's ID costs a digest.
            is_older = one.old is not None and bytes.fromhex(one.old.id) == job.lane_id
            if is_older or job.lane_id not in (lane.base_id, lane.id):
                args += (one.job_id, job.lane_id, table.number(lane))
        elif one.old:
            args += (one.job_id, bytes.fromhex(one.old.id), 0)
    return table, args
