"""The lane of a job, and the table that describes lanes to scripts. A script may have to create a lane of the table."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from jqmaster.domain.constraints.constraint import Gate
from jqmaster.domain.constraints.constraint_set import ConstraintSet
from jqmaster.domain.constraints.lane import Lane
from jqmaster.domain.jobs.job import Job, JobSpec
from jqmaster.domain.matching.fields import JobFields
from jqmaster.domain.matching.requirement import name_of
from jqmaster.errors import DamagedError
from jqmaster.store import codec
from jqmaster.store.link.shard import Shard

_decode = msgspec.msgpack.Decoder().decode
_COUNTS = [bytes((count,)) for count in range(codec.MAX_GATES + 1)]
_ONE_GATE = _COUNTS[1]


class StaleConstraints(Exception):  # noqa: N818 - a value for the service, not an error of the store
    """The constraints have a new edition. The caller must match its jobs again and retry. `is_begun`: the store may
    have carried out some steps of the call.
    """

    def __init__(self, *, is_begun: bool = False) -> None:
        super().__init__()
        self.is_begun = is_begun


def fields_of(job: JobSpec | Job) -> JobFields:
    """Return the fields of a job for matchers. The argument is decoded on first use."""
    return JobFields(
        name=job.name,
        queue=job.queue,
        priority=job.priority,
        tags=job.tags,
        max_retry=job.max_retry,
        timeout_s=job.timeout_ms / 1000,
        keep_result=job.keep_result,
        headers=job.headers,
        argument=job.argument,
        decode=_decode,
    )


def fields_of_record(record: bytes) -> tuple[bytes, JobFields]:
    """Return the lane of a stored job, and its fields: see `fields_of`. Raise DamagedError."""
    return codec.decode_matched(record, _decode)


def lane_of_job(constraints: ConstraintSet, job: Job) -> Lane:
    """Return the lane of a stored job, which must have been read with its argument."""
    return constraints.lane_of_queue(job.queue) or constraints.lane_of(fields_of(job))


async def new_extras(shard: Shard, jobs: Sequence[Job], constraints: ConstraintSet) -> dict[str, bytes]:
    """Return, by job ID, the new extras of stored jobs. Leave out jobs whose weights have not changed since they were
    matched. The jobs must have been read with their arguments.
    """
    found = {}
    for job in jobs:
        weights = constraints.weights_of(fields_of(job))
        if weights != (job.weights or {}):
            record = await shard.client.command("GET", shard.keys.job(job.id))
            found[job.id] = codec.reweighed(record, weights) or b"" if record else b""
    return found


class StoredLane(NamedTuple):
    """A lane as scripts store it.

    * `queue`: see `Lane`.
    * `at`: the gate at which the lane is parked. Empty: it is open.
    * `score`, `member`: its entry in the sorted set of open or parked lanes; an empty member: the lane has no ready
      job.
    * `jobs`: the number of its unfinished jobs.
    """

    queue: str
    edition: int
    group: str
    shared: str
    keyed: str
    at: str
    score: int
    member: str
    jobs: int

    @property
    def name(self) -> str:
        return name_of(self.queue)

    @classmethod
    def read(cls, raw: bytes) -> "StoredLane":
        """Read the stored form. Raise DamagedError."""
        try:
            queue, edition, group, shared, keyed, at, score, member, jobs = raw.decode().split("\n")
            return cls(queue, int(edition), group, shared, keyed, at, int(score), member, int(jobs))
        except ValueError as exc:
            raise DamagedError("a lane cannot be read") from exc


def _packed_gates(count: int, joined: str) -> bytes:
    """Return the `count` keyed gates of a job in the form of its record. `joined`: their IDs in a row."""
    if not count:
        return codec.NO_GATES
    if count > codec.MAX_GATES:
        return codec.GATES_IN_LANE
    return _COUNTS[count] + joined.encode()


def _told(gate: Gate) -> str | tuple[str, str]:
    """Return the text of a keyed gate for the script. It contains the ID of the gate's conditional override, if there
    is one.
    """
    return gate.text if gate.condition is None else (gate.text, gate.condition)


def _known_as(joined: str, keyed: Sequence[Gate]) -> str:
    conditions = [gate.condition for gate in keyed if gate.condition is not None]
    return f"{joined}{conditions}" if conditions else joined


class Placement(NamedTuple):
    """The place of a new job: the number of its lane, its keyed gates as in its record, and its own weights."""

    number: int
    gates: bytes
    weights: Mapping[str, int] | None


class LaneTable:
    """The lanes of one call. Jobs refer to them by number."""

    def __init__(self, *lanes: Lane) -> None:
        # Key: the ID of a base lane. Value: the number of this lane, and a map from keyed gates to the numbers of the
        # other lanes in its group.
        self._bases: dict[bytes, tuple[int, dict[str, int]]] = {}
        self._base_parts: list[tuple[str, str, str, str]] = []
        # The content of the table, in the order in which `packed` returns it for the script.
        self._parts: list[Any] = [self._base_parts]
        self._gates: list[bytes] = []
        # By queue: the number of its lane, and the packed gates. Contains only queues that alone determine the lane.
        self._placed: dict[str, Placement] = {}
        # By queue: the number of its lane. Contains only queues whose jobs differ at most in their weights.
        self._fixed: dict[str, int] = {}
        for lane in lanes:
            self.number(lane)

    def number(self, lane: Lane) -> int:
        """Return the number of a lane, from 1 as in Lua."""
        return self.number_at(lane, lane.keyed)

    def number_at(self, base_lane: Lane, keyed: Sequence[Gate]) -> int:
        """Return the number of the lane of a group that has these keyed gates."""
        base, numbers = self._bases.get(base_lane.base_id) or self._new_base(base_lane)
        joined = keyed[0].id if len(keyed) == 1 else _joined(keyed)
        # Include the conditional overrides, because they may differ between jobs with the same gates.
        known_as = _known_as(joined, keyed) if keyed else joined
        number = numbers.get(known_as)
        if number is None:
            # Fast path: most lanes have at most one keyed gate.
            if len(keyed) == 1:
                gates = _ONE_GATE + joined.encode()
                self._parts += (base, gates, "", _told(keyed[0]))
            else:
                gates = _packed_gates(len(keyed), joined)
                in_lane = joined if gates == codec.GATES_IN_LANE else ""
                self._parts += (base, gates, in_lane, *map(_told, keyed))
            self._gates.append(gates)
            number = numbers[known_as] = len(self._gates)
        return number

    def gates_at(self, number: int) -> bytes:
        """Return the keyed gates of the lane with this number, in the form of a record."""
        return self._gates[number - 1]

    def place(self, constraints: ConstraintSet, spec: JobSpec) -> Placement:
        """Return the place of a new job. `constraints` must be the same in each call."""
        queue = spec.name if spec.requires is None else spec.queue
        placed = self._placed.get(queue)
        if placed is None:
            sole_lane = constraints.lane_of_queue(queue)
            if sole_lane:
                number, weights = self.number(sole_lane), None
            else:
                fields = fields_of(spec)
                number, weights = self._number_of(constraints, fields), constraints.weights_of(fields)
            placed = Placement(number, self.gates_at(number), weights)
            if sole_lane:
                self._placed[queue] = placed
        return placed

    def _number_of(self, constraints: ConstraintSet, fields: JobFields) -> int:
        queue = fields.queue
        number = self._fixed.get(queue)
        if number is None:
            number = self.number_at(*constraints.place_of(fields))
            if constraints.plan(queue).has_fixed_gates:
                self._fixed[queue] = number
        return number

    def _new_base(self, lane: Lane) -> tuple[int, dict[str, int]]:
        self._base_parts.append((lane.base_id.hex(), lane.queue, lane.group, _joined(lane.shared)))
        base = self._bases[lane.base_id] = len(self._base_parts), {}
        return base

    def packed(self) -> bytes:
        """Return the table for `homes.read` of lib/lanes/homes.lua."""
        return codec.pack_raw(self._parts)


class SoleLane(NamedTuple):
    """The lane of one job, in the form of a `LaneTable` with this lane alone."""

    placement: Placement
    packed: bytes


def sole_lane(constraints: ConstraintSet, queue: str) -> SoleLane | None:
    """Return the lane that all jobs of this queue share, or None if the lane also depends on other fields of a job."""
    lane = constraints.lane_of_queue(queue)
    if lane is None:
        return None
    table = LaneTable(lane)
    return SoleLane(Placement(1, table.gates_at(1), None), table.packed())


def _joined(gates: Sequence[Gate]) -> str:
    return "".join([gate.id for gate in gates])
