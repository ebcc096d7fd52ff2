"""All constraints together. They determine the gates that a job must pass, and so the lane in which it waits."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from jqmaster.domain.constraints.constraint import Constraint, Gate, gate_id, key_of, keyed_gate
from jqmaster.domain.constraints.lane import Lane, unkeyed_lane
from jqmaster.domain.constraints.parts import parts_of
from jqmaster.domain.matching.fields import MISSING, JobFields
from jqmaster.domain.matching.key_value import MAX_KEY_TEXT
from jqmaster.domain.matching.matcher import Matches
from jqmaster.domain.matching.paths import Reader
from jqmaster.domain.matching.requirement import name_of

# The tables of names and lanes need a maximum size, because clients choose the names. A full table is emptied, so that
# it does not keep only old names.
MAX_KNOWN_NAMES: Final = 10_000
MAX_KNOWN_LANES: Final = 10_000
MAX_KNOWN_GATES: Final = 10_000


class _PlanEntry(NamedTuple):
    """One enabled constraint, prepared for the jobs of one name."""

    constraint: Constraint
    # Tests the fields of a job. None: the constraint applies to all jobs of the name.
    matches: Matches | None
    # The constraint's only gate. None: it has a key, and each value of the key has its own gate.
    gate: Gate | None
    # The bit that stands for the gate in a set of shared gates.
    bit: int
    read_key: Reader


class NamePlan:
    """Facts that hold for all jobs of one name. They are known without reading a job."""

    __slots__ = ("has_fixed_gates", "is_decided", "sole_lane", "steps", "weighted")

    def __init__(self, steps: tuple[_PlanEntry, ...]) -> None:
        self.steps = steps
        # The constraints at which jobs of the name may have their own weights.
        self.weighted = tuple(step for step in steps if step.constraint.reads_weight)
        # `has_fixed_gates`: all jobs of the name pass the same gates. `is_decided`: all of them also have the same
        # weight at these gates.
        self.has_fixed_gates = all(step.matches is None and step.gate is not None for step in steps)
        self.is_decided = self.has_fixed_gates and not self.weighted
        # Filled on first use.
        self.sole_lane: Lane | None = None


class ConstraintSet:
    """All constraints at one instant. `edition` distinguishes this set, and the lanes made under it, from others."""

    __slots__ = (
        "_enabled",
        "_gates",
        "_lanes",
        "_plans",
        "bounds_backlogs",
        "constraints",
        "edition",
        "reads",
    )

    def __init__(self, edition: int, constraints: Sequence[Constraint]) -> None:
        self.edition = edition
        self.constraints = tuple(constraints)
        enabled = [part for one in self.constraints if one.enabled for part in parts_of(one)]
        # The fields of a job that the constraints read.
        self.reads = frozenset[str]().union(*(constraint.reads for constraint in enabled))
        # Whether any constraint limits how many jobs may wait.
        self.bounds_backlogs = any(constraint.max_backlog is not None for constraint in enabled)
        gates = [
            None if constraint.key else Gate(gate_id(constraint.cid, None), constraint.cid, "", False)
            for constraint in enabled
        ]
        # Sort the constraints by the IDs of their gates, so that the gates of a job need no sorting.
        pairs = sorted(zip(enabled, gates, strict=True), key=lambda pair: pair[1].id if pair[1] else "")
        self._enabled = [
            _PlanEntry(constraint, constraint.matcher.matches, gate, 1 << i, constraint.key_reader)
            for i, (constraint, gate) in enumerate(pairs)
        ]
        self._plans: dict[str, NamePlan] = {}
        # By queue and set of shared gates: the lane without keyed gates.
        self._lanes: dict[tuple[str, int], Lane] = {}
        # By constraint and value of its key: the gate.
        self._gates: dict[tuple[str, str], Gate] = {}

    def plan(self, queue: str) -> NamePlan:
        """Return the plan for the jobs of a queue: all facts that depend on the name alone."""
        plan = self._plans.get(queue)
        if plan is None:
            if len(self._plans) >= MAX_KNOWN_NAMES:
                self._plans.clear()
            plan = self._plans[queue] = NamePlan(tuple(self._steps(name_of(queue))))
        return plan

    def _steps(self, name: str) -> Iterator[_PlanEntry]:
        for step in self._enabled:
            verdict = step.constraint.matcher.for_name(name)
            if verdict is not False:
                yield step._replace(matches=None if verdict is True else verdict)

    def scan(self, fields: JobFields) -> tuple[int, list[Gate]]:
        """Return the set of shared gates that the job passes, and its keyed gates sorted by ID."""
        return self._scan(self.plan(fields.name), fields)

    def _scan(self, plan: NamePlan, fields: JobFields) -> tuple[int, list[Gate]]:
        shared, keyed = 0, list[Gate]()
        for constraint, matches, gate, bit, read_key in plan.steps:
            if matches is not None and not matches(fields):
                continue
            if gate is not None:
                shared |= bit
            elif (value := read_key(fields)) is not MISSING:
                found = self._gate_at(constraint, value)
                if constraint.conditions:
                    found = found._replace(condition=constraint.condition_of(fields))
                keyed.append(found)
        if len(keyed) > 1:
            keyed.sort()
        return shared, keyed

    def _gate_at(self, constraint: Constraint, value: object) -> Gate:
        """Return the gate of a constraint at one value of its key."""
        # Cache only the gates of short texts, such as hosts and tenants, which recur. Longer texts may be as large as
        # arguments.
        if type(value) is not str or len(value) > MAX_KEY_TEXT:
            return keyed_gate(constraint, value)
        identity = constraint.cid, value
        gate = self._gates.get(identity)
        if gate is None:
            if len(self._gates) >= MAX_KNOWN_GATES:
                self._gates.clear()
            gate = self._gates[identity] = keyed_gate(constraint, value)
        return gate

    def shared_gates(self, shared: int) -> tuple[Gate, ...]:
        """Return the shared gates whose bits `scan` has set, sorted by ID."""
        return tuple(step.gate for step in self._enabled if step.gate is not None and step.bit & shared)

    def gates(self, fields: JobFields) -> tuple[tuple[Gate, ...], tuple[Gate, ...]]:
        """Return the gates without a key that the job must pass, and those with a key, each sorted by ID. Shadow gates
        are included."""
        shared, keyed = self.scan(fields)
        return self.shared_gates(shared), tuple(keyed)

    def matching(self, fields: JobFields) -> list[Constraint]:
        """Return the enabled constraints that apply to the job, in the order given."""
        applying = {
            step.constraint.cid
            for step in self.plan(fields.name).steps
            if (step.matches is None or step.matches(fields))
            and (step.gate is not None or key_of(step.constraint, fields) is not None)
        }
        return [constraint for constraint in self.constraints if constraint.cid in applying]

    def lane_of_queue(self, queue: str) -> Lane | None:
        """Return the lane that all jobs of this queue share. None: the lane depends on other fields of a job. The
        queue of jobs that require no labels is their name."""
        plan = self.plan(queue)
        if plan.sole_lane is None and plan.is_decided:
            plan.sole_lane = self._unkeyed_lane(queue, sum(step.bit for step in plan.steps))
        return plan.sole_lane

    def lane_of(self, fields: JobFields) -> Lane:
        """Return the lane that the job waits in. Callers that have no fields yet try `lane_of_queue` first."""
        lane, keyed = self.place_of(fields)
        return lane.with_keyed(keyed) if keyed else lane

    def place_of(self, fields: JobFields) -> tuple[Lane, Sequence[Gate]]:
        """Return the base lane of the job's group, and the job's keyed gates sorted by ID. `lane_of` combines the
        two."""
        queue = fields.queue
        plan = self.plan(queue)
        if plan.is_decided and (sole_lane := self.lane_of_queue(queue)):
            return sole_lane, ()
        shared, keyed = self._scan(plan, fields)
        lane = self._lanes.get((queue, shared))
        if lane is None:
            if len(self._lanes) >= MAX_KNOWN_LANES:
                self._lanes.clear()
            lane = self._lanes[queue, shared] = self._unkeyed_lane(queue, shared)
        return lane, keyed

    def weights_of(self, fields: JobFields) -> dict[str, int]:
        """Return the job's own weights by cid, in thousandths. At other gates, it has the default weight."""
        found = {}
        for constraint, matches, *_ in self.plan(fields.queue).weighted:
            if matches is None or matches(fields):
                weight = constraint.own_weight(fields)
                if weight is not None:
                    found[constraint.cid] = weight
        return found

    def _unkeyed_lane(self, queue: str, shared: int) -> Lane:
        return unkeyed_lane(queue, self.edition, self.shared_gates(shared))


# The set of constraints while there are none.
NO_CONSTRAINTS: Final = ConstraintSet(0, ())
