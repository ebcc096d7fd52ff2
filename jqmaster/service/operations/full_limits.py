"""Finds the constraints that hold jobs back, and since when they have held jobs back."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from jqmaster.domain.constraints.weight import units
from jqmaster.domain.content.content import ContentAccess
from jqmaster.domain.matching.paths import Path
from jqmaster.domain.operations.health import WAIT_WARN_MS
from jqmaster.domain.operations.health_facts import FullLimit
from jqmaster.errors import NotFoundError
from jqmaster.service.constraints.reader import ConstraintReader, KeyUsage, Usage
from jqmaster.service.operations.lasting import Lasting
from jqmaster.store.constraints.documents import StoredConstraint

# Maximum number of findings of one kind. If there are more, only the worst ones are shown.
MOST: Final = 20


@dataclass(frozen=True, slots=True)
class HeldGate:
    """A constraint that holds jobs back. `key`: the path of its key. `found` may contain a value of the key that not
    every caller may see."""

    key: Path | None
    found: FullLimit


class FullLimits:
    """Follows the constraints that hold jobs back. `nobody`: the access of a caller that may see no job content."""

    def __init__(self, constraints: ConstraintReader, nobody: ContentAccess) -> None:
        self._constraints = constraints
        self._nobody = nobody
        self._lasting: Lasting[HeldGate] = Lasting()

    async def follow(
        self, constraints: Sequence[tuple[StoredConstraint, Usage]], now_ms: int
    ) -> list[HeldGate]:
        """Return the constraints to report, sorted by the number of jobs that they hold back, the largest number
        first."""
        possible = [(stored, usage) for stored, usage in constraints if not is_paused(stored)]
        full = sorted(
            ((stored, usage) for stored, usage in possible if usage.held),
            key=lambda pair: -(pair[1].held or 0),
        )
        found: dict[str, HeldGate] = {}
        for stored, usage in full[:MOST]:
            constraint = stored.constraint
            gate = None
            # Look up a key value only for the constraint that holds back the most jobs. One constraint may have a
            # thousand gates to read.
            if constraint.key is not None and not found:
                gate = await self._crowded(constraint.name)
            found[constraint.name] = HeldGate(constraint.key, full_limit(stored, usage, gate))
        names = {stored.constraint.name for stored, _ in possible}
        lasting = self._lasting.follow(found, names, now_ms)
        return [
            replace(gate, found=replace(gate.found, since_ms=since_ms))
            if now_ms - since_ms >= WAIT_WARN_MS
            else gate
            for gate, since_ms in sorted(lasting, key=lambda pair: -pair[0].found.held)
        ]

    async def _crowded(self, name: str) -> KeyUsage | None:
        """Return the key value with a closed gate that has the most waiting jobs."""
        try:
            detail = await self._constraints.get(name, None, self._nobody)
        except NotFoundError:
            return None
        return next((one for one in detail.top_keys if one.gate.waiting and not one.gate.is_open), None)


def full_limit(stored: StoredConstraint, usage: Usage, gate: KeyUsage | None) -> FullLimit:
    """Return the limit that the constraint has reached. `gate`: the key value with the most waiting jobs. None: the
    constraint has no key, or the value is unknown."""
    constraint, held = stored.constraint, usage.held or 0
    if gate is None and constraint.key is not None:
        return FullLimit(
            constraint.name,
            held,
            held,
            opens_at_ms=usage.next_opening_ms,
            keys=usage.keys,
            closed_keys=usage.closed_keys,
        )
    limits = gate.limits if gate else constraint.limits_of(None)
    counted = gate.gate if gate else usage
    running: float | None = counted.running
    used: float | None = None
    is_slots = limits.concurrency is not None and (running or 0) >= limits.concurrency
    if constraint.weight is not None:
        running, used = _units(counted.running_units), _units(counted.window_units)
        most_started = limits.rate.limit if limits.rate else None
        is_slots = _share(running, limits.concurrency) >= _share(used, most_started)
    return FullLimit(
        constraint.name,
        held,
        gate.gate.waiting if gate else held,
        value=gate.text if gate else None,
        slots=limits.concurrency if is_slots else None,
        running=running if is_slots else None,
        rate=(limits.rate.limit, limits.rate.period_ms) if limits.rate and not is_slots else None,
        opens_at_ms=gate.gate.opens_at_ms if gate else usage.next_opening_ms,
        held_until_ms=gate.gate.held_until_ms if gate else None,
        unit=constraint.weight.unit if constraint.weight else "",
        used=None if is_slots else used,
        keys=usage.keys,
        closed_keys=usage.closed_keys,
    )


def _units(thousandths: int | None) -> float | None:
    return None if thousandths is None else units(thousandths)


def _share(used: float | None, limit: int | None) -> float:
    """Return the share of a limit that is used, or -1 if there is no such limit."""
    return -1 if limit is None else (used or 0) / limit


def is_paused(stored: StoredConstraint) -> bool:
    """Return whether the constraint is paused, as a whole or for some values of its key."""
    constraint = stored.constraint
    own = [one.limits for one in constraint.overrides] + [one.limits for one in constraint.conditions]
    return bool(constraint.paused) or any(limits.paused for limits in own)
