"""Changes of constraints at the service level: incarnations, editions, and changes in between."""

from typing import Any

import pytest

from jqmaster.clock import SystemClock
from jqmaster.domain.constraints.constraint import Constraint, GateLimits
from jqmaster.domain.content.content import full_access
from jqmaster.errors import (
    InvalidError,
    NotFoundError,
    OutcomeUnknownError,
    OverloadedError,
    PreconditionFailedError,
    StoreUnavailableError,
)
from jqmaster.live_value import LiveValue
from jqmaster.service.constraints.documents import RESERVED_NAMES, draft_of
from jqmaster.service.constraints.editor import ConstraintEditor
from jqmaster.service.constraints.key_values import KeyValues
from jqmaster.service.constraints.preview import Previews
from jqmaster.service.constraints.reader import AskedValue, ConstraintReader
from jqmaster.service.named_objects import ANYHOW, MAX_TRIES, Precondition
from jqmaster.store.constraints.constraints import Change, ConstraintSnapshot
from jqmaster.store.constraints.usage import UsageStore
from tests.support.constraints import preview_turns
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("J13")

WORK = {"field": "name", "op": "eq", "value": "work"}
NOTHING: dict[str, Any] = {
    "enabled": True, "mode": "enforce", "key": None, "concurrency": None, "rate": None, "paused": None,
    "max_backlog": None,
    "fair": False, "counts_awaiting": True, "overrides": [],
}  # fmt: skip


ALL = full_access([])


def document(**fields: Any) -> dict[str, Any]:
    return {**NOTHING, "matcher": WORK, **fields}


@pytest.fixture
def reader(world: StoreWorld) -> ConstraintReader:
    usage = UsageStore(world.shard, world.records)
    clock = SystemClock()
    previews = Previews(world.lanes, usage, clock, preview_turns(clock))
    return ConstraintReader(world.constraints, usage, world.gates, previews)


@pytest.fixture
def editor(world: StoreWorld) -> ConstraintEditor:
    async def now_ms() -> int:
        return world.now_ms

    usage = UsageStore(world.shard, world.records)
    values = KeyValues(usage, world.lanes, SystemClock())
    return ConstraintEditor(
        world.rule_store, world.constraints, usage, now_ms, values, audience=LiveValue(ALL)
    )


async def changes(world: StoreWorld) -> tuple[int, int]:
    """Return how often version and edition were raised; time stands still, so each is one more than the last."""
    version, edition, _ = await world.rule_store.versions()
    return version - world.now_ms + 1, edition - world.now_ms + 1


async def put(editor: ConstraintEditor, **fields: Any) -> Constraint:
    stored, _ = await editor.put("c1", document(**fields), "me", ALL)
    return stored.constraint


async def test_counts_are_kept_for_as_long_as_the_gates_are_the_same(
    editor: ConstraintEditor, world: StoreWorld
) -> None:
    first = await put(editor, concurrency=1)
    assert await changes(world) == (1, 1)
    # A new limit of a kind that is already counted applies at once, and no job is matched again.
    second = await put(editor, concurrency=2)
    assert (second.cid, await changes(world)) == (first.cid, (2, 1))
    third = await put(editor, concurrency=2, rate={"limit": 1, "period_s": 1})
    assert (third.cid, await changes(world)) == (first.cid, (3, 2))
    # A new key has new gates: counts at the old gates say nothing about them.
    fourth = await put(editor, concurrency=2, key="argument.host")
    assert fourth.cid != first.cid
    assert await changes(world) == (4, 3)
    off = await put(editor, concurrency=2, key="argument.host", enabled=False)
    assert await changes(world) == (5, 3)
    assert off.cid != fourth.cid
    await editor.delete("c1", "me")
    assert await changes(world) == (6, 3)


async def test_a_put_that_changes_nothing_writes_nothing(editor: ConstraintEditor, world: StoreWorld) -> None:
    await put(editor, concurrency=1)
    async with world.unchanged():
        stored, is_new = await editor.put("c1", document(concurrency=1), "other", ALL)
    assert not is_new
    assert stored.constraint.concurrency == 1


class Interrupted:
    """Somebody else changes the constraint `times` times, each time between the read and the write."""

    def __init__(self, editor: ConstraintEditor, world: StoreWorld, times: int, limit: int = 5) -> None:
        self._limit = limit
        self._times = times
        self._world = world
        self._change = world.rule_store.change
        self._editor = editor

    async def __call__(self, change: Change) -> bool:
        if self._times > 0:
            self._times -= 1
            self._world.rule_store.change = self._change  # type: ignore[method-assign]
            await self._editor.put_value(
                "c1", AskedValue(self._times), GateLimits(concurrency=self._limit), "other", ALL
            )
            self._world.rule_store.change = self  # type: ignore[method-assign]
        return await self._change(change)


async def test_a_change_in_between_is_not_lost(editor: ConstraintEditor, world: StoreWorld) -> None:
    await put(editor, concurrency=1, key="argument.host")
    world.rule_store.change = Interrupted(editor, world, 3)  # type: ignore[method-assign]
    stored = await editor.put_value("c1", AskedValue("mine"), GateLimits(concurrency=4), "me", ALL)
    assert {o.value for o in stored.constraint.overrides} == {0, 1, 2, "mine"}


async def test_a_change_in_between_breaks_what_was_demanded(
    editor: ConstraintEditor, reader: ConstraintReader, world: StoreWorld
) -> None:
    stored, _ = await editor.put("c1", document(concurrency=1, key="argument.host"), "me", ALL)
    world.rule_store.change = Interrupted(editor, world, 1)  # type: ignore[method-assign]
    demands = Precondition(match=frozenset({stored.etag}))
    with pytest.raises(PreconditionFailedError):
        await editor.put("c1", document(concurrency=9, key="argument.host"), "me", ALL, demands)
    found = (await reader.get("c1", None, ALL)).stored.constraint
    assert (found.concurrency, [o.value for o in found.overrides]) == (1, [0])


async def test_changes_without_end_are_given_up(editor: ConstraintEditor, world: StoreWorld) -> None:
    await put(editor, concurrency=1, key="argument.host")
    world.rule_store.change = Interrupted(editor, world, MAX_TRIES)  # type: ignore[method-assign]
    with pytest.raises(OverloadedError):
        await editor.put("c1", document(concurrency=9), "me", ALL)
    world.rule_store.change = Interrupted(editor, world, MAX_TRIES, limit=6)  # type: ignore[method-assign]
    with pytest.raises(OverloadedError):
        await editor.delete("c1", "me")


async def test_it_is_in_force_when_every_job_has_been_matched(
    editor: ConstraintEditor, reader: ConstraintReader, world: StoreWorld
) -> None:
    job_id = await world.enqueue()
    await put(editor, concurrency=1)
    assert not (await reader.get("c1", None, ALL)).usage.is_in_force
    constraints: ConstraintSnapshot = await world.constraints.reload()
    assert await world.lanes.settle(world.epoch, constraints)
    assert not (await reader.get("c1", None, ALL)).usage.is_in_force
    (lane,) = await world.lanes.older_lanes(constraints.constraint_set.edition)
    assert await world.lanes.move(world.epoch, constraints, [job_id], {job_id: lane})
    await world.lanes.prune(world.epoch, [lane.id])
    usage = (await reader.get("c1", None, ALL)).usage
    assert not usage.is_in_force  # nobody has looked at its gates since
    assert usage.waiting == 1
    for cid, version in await world.gates.reopened():
        await world.gates.reopen(world.epoch, cid, version)
    assert (await reader.get("c1", None, ALL)).usage.is_in_force
    ((_, listed),) = await reader.all()
    assert listed.is_in_force


async def test_unknown_names_and_values(editor: ConstraintEditor, reader: ConstraintReader) -> None:
    for call in (
        reader.get("none", None, ALL), editor.delete("none", "me"),
        editor.put_value("none", AskedValue(1), GateLimits(paused=True), "me", ALL),
    ):  # fmt: skip
        with pytest.raises(NotFoundError):
            await call
    await put(editor, concurrency=1)
    with pytest.raises(InvalidError):
        await reader.get("c1", AskedValue(None), ALL)
    with pytest.raises(InvalidError):
        await editor.put_value("c1", AskedValue(1), GateLimits(paused=True), "me", ALL, demands=ANYHOW)


async def test_the_last_override_gone_leaves_a_constraint_that_is_open(editor: ConstraintEditor) -> None:
    await put(
        editor,
        key="argument.host",
        overrides=[{"value": "a", "concurrency": None, "rate": None, "paused": True}],
    )
    stored = await editor.put_value("c1", AskedValue("a"), GateLimits(), "me", ALL)
    assert (stored.constraint.overrides, stored.constraint.paused) == ((), False)


@pytest.mark.parametrize("name", sorted(RESERVED_NAMES))
def test_a_name_with_a_meaning_in_paths_is_refused(name: str) -> None:
    with pytest.raises(InvalidError) as caught:
        draft_of(name, document(concurrency=1))
    assert caught.value.errors[0].loc == ("name",)


async def test_a_put_whose_condition_leaves_other_jobs_no_slot_beside_the_reserve_is_refused(
    editor: ConstraintEditor,
) -> None:
    pro, free = ({"field": "argument.plan", "op": "eq", "value": plan} for plan in ("pro", "free"))
    fields = {"key": "argument.host", "concurrency": 10, "reserve": [{"matcher": pro, "concurrency": 5}]}
    few = {"match": free, "concurrency": 5, "rate": None, "paused": False}
    with pytest.raises(InvalidError, match="not valid") as caught:
        await put(editor, **fields, overrides=[few])
    assert [one.loc for one in caught.value.errors] == [("overrides",)]
    await put(editor, **fields, overrides=[{**few, "concurrency": 6}])


@pytest.mark.parametrize("action", ["put", "delete"])
async def test_a_store_that_fails_after_the_change_leaves_no_doubt_that_it_was_made(
    world: StoreWorld, editor: ConstraintEditor, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    await put(editor, concurrency=5)
    change = world.rule_store.change

    async def away() -> Any:
        raise StoreUnavailableError("the store does not answer")

    async def change_then_fail(one: Change) -> bool:
        monkeypatch.setattr(world.rule_store, "versions", away)
        return await change(one)

    with monkeypatch.context() as patch:
        patch.setattr(world.rule_store, "change", change_then_fail)
        with pytest.raises(
            OutcomeUnknownError, match="the change was made, but then: the store does not answer"
        ):
            await (put(editor, concurrency=7) if action == "put" else editor.delete("c1", "me"))
    monkeypatch.undo()
    stored = (await world.rule_store.load()).named("c1")
    assert (stored and stored.constraint.concurrency) == (7 if action == "put" else None)
