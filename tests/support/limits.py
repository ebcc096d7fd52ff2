"""Constraints in a StoreWorld: made, put in force and followed up as a leader does."""

from typing import Any

from jqmaster.domain.constraint import Constraint, Rate, needs_rematch, new_cid
from jqmaster.domain.matcher import parse_matcher, parse_path
from jqmaster.runtime.relocation import Relocation
from jqmaster.store.rules import Change, StoredConstraint
from tests.support.store import StoreWorld

WORK = {"field": "name", "op": "glob", "value": "*"}


async def make_constraint(
    world: StoreWorld, name: str, *, matcher: Any = None, key: str | None = None, follow_up: bool = True, **limits: Any
) -> Constraint:
    """Makes the constraint or changes it, for all jobs if no matcher is given; `rate` is (limit, period_ms)."""
    rate = limits.pop("rate", None)
    known = (await world.rules.reload()).named(name)
    constraint = Constraint(
        name=name,
        cid=known.constraint.cid if known else new_cid(),
        matcher=parse_matcher(matcher or WORK),
        key=parse_path(key) if key else None,
        rate=Rate(*rate) if rate else None,
        **limits,
    )
    old = known.constraint if known else None
    etag = f"{int(known.etag, 16) + 1:016x}" if known else "0" * 16
    stored = StoredConstraint(constraint, etag, world.now_ms, world.now_ms)
    change = Change(name, known.etag if known else "", stored, old, needs_rematch(old, constraint), b"\x80")
    assert await world.rule_store.change(change)
    if follow_up:
        await put_in_force(world)
    return constraint


async def put_in_force(world: StoreWorld) -> None:
    """What a leader does until everything follows the constraints as they are."""
    rules = await world.rules.reload()
    if rules.settled_edition != rules.ruleset.edition:
        assert await world.rule_store.settle(world.epoch, rules)
        rules = await world.rules.reload()
    for cid, version in await world.rule_store.reopened():
        assert await world.rule_store.reopen(world.epoch, cid, version) is not None
    await open_gates(world)
    relocation = Relocation(world.rule_store, world.epoch, rules)
    while not relocation.is_over:
        await relocation.step()


async def open_gates(world: StoreWorld) -> None:
    """Opens the gates whose time has come."""
    assert await world.rule_store.open_gates(world.epoch) is not None
