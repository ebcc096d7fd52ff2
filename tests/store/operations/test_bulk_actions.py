"""put_action.lua, advance_action.lua and cancel_action.lua."""

from dataclasses import replace

import pytest

from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.bulk_action import ActionProgress, ActionState, BulkAction
from jqmaster.domain.jobs.job import ActionKind, Cause, JobState
from jqmaster.domain.jobs.job_filter import JobFilter
from jqmaster.errors import StaleEpochError
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.operations import bulk_actions as actions
from jqmaster.store.operations.bulk_actions import ActionStore
from tests.support.store import StoreWorld

FILTER = JobFilter(
    state=JobState.FAILED, name="mail", cause=Cause.TIMEOUT, finished_after_ms=5, text="refused"
)
ENTRY = encode_entry(who="me", action="jobs.retry", target="x", before=None, after=None)


def action_of(world: StoreWorld, *ids: str, wanted: JobFilter | None = FILTER) -> BulkAction:
    return BulkAction(
        id=new_id(),
        kind=ActionKind.RETRY,
        filter=None if ids else wanted,
        ids=ids or None,
        by="me",
        created_at_ms=world.now_ms,
        rate_per_s=2.5,
        stop_at_failure_share=0.5,
    )


@pytest.mark.req("M9")
async def test_an_action_is_kept_as_it_was_asked_for_and_as_far_as_it_came(world: StoreWorld) -> None:
    store = ActionStore(world.shard)
    by_filter, by_ids = action_of(world), action_of(world, new_id(), new_id())
    for action in (by_filter, by_ids):
        async with world.published(world.shard.keys.wake_channel, "actions"):
            assert await store.put(action, ActionProgress(matched=3), ENTRY)
    assert await store.running() == [by_filter.id, by_ids.id]
    stored = await store.get(by_ids.id, with_ids=True)
    assert stored
    assert (stored.action, stored.ids_count, stored.progress, stored.canceled_by) == (
        by_ids,
        2,
        ActionProgress(matched=3),
        None,
    )
    progress = ActionProgress(matched=3, done=2, cursor="c", watched=[new_id()], pass_number=2)
    assert await store.advance(world.epoch, by_filter, progress) == ("ok", None)
    stored = await store.get(by_filter.id)
    assert stored
    assert (stored.action, stored.ids_count, stored.progress) == (by_filter, None, progress)
    world.pass_ms(1)
    progress.end(ActionState.DONE, world.now_ms)
    assert await store.advance(world.epoch, by_filter, progress, ENTRY) == ("ok", None)
    assert await store.running() == [by_ids.id]
    assert 0 < await world.redis.pttl(world.shard.keys.action(by_filter.id)) <= actions.KEPT_MS
    assert [s.action.id for s in await store.newest(10)] == [by_ids.id, by_filter.id]


async def test_a_bound_is_kept_and_earlier_masters_read_only_actions_without_one(world: StoreWorld) -> None:
    store = ActionStore(world.shard)
    free, bound = action_of(world), replace(action_of(world), at_most=0)
    for action in (free, bound):
        await store.put(action, ActionProgress(), ENTRY)
        stored = await store.get(action.id)
        assert stored is not None
        assert stored.action == action
    specs = [await world.redis.hget(world.shard.keys.action(one.id), "spec") for one in (free, bound)]
    assert [b"at_most" in spec for spec in specs] == [False, True]
    assert await world.redis.hget(world.shard.keys.action(bound.id), "at_most") == b"0"


async def test_the_ids_that_were_given_are_forgotten_at_its_end(world: StoreWorld) -> None:
    store = ActionStore(world.shard)
    action = action_of(world, new_id())
    await store.put(action, ActionProgress(), ENTRY)
    await store.advance(world.epoch, action, ActionProgress(ActionState.DONE), ENTRY)
    stored = await store.get(action.id, with_ids=True)
    assert stored
    assert (stored.action.ids, stored.ids_count) == (None, 1)


async def test_under_a_stale_epoch_and_after_its_end_nothing_changes(world: StoreWorld) -> None:
    store = ActionStore(world.shard)
    action = action_of(world)
    await store.put(action, ActionProgress(), ENTRY)
    stale = await world.reelect()
    async with world.unchanged():
        with pytest.raises(StaleEpochError):
            await store.advance(stale, action, ActionProgress(done=1))
        assert not await store.cancel(new_id(), "me")
    await store.advance(world.epoch, action, ActionProgress(ActionState.DONE), ENTRY)
    async with world.unchanged():
        assert await store.advance(world.epoch, action, ActionProgress(done=1)) == ("over", None)
        assert not await store.cancel(action.id, "me")


async def test_a_wish_to_end_reaches_the_leader(world: StoreWorld) -> None:
    store = ActionStore(world.shard)
    action = action_of(world)
    await store.put(action, ActionProgress(), ENTRY)
    with world.leading_here() as words:
        assert await store.cancel(action.id, "me")
    assert words == ["actions"]
    assert await store.advance(world.epoch, action, ActionProgress()) == ("ok", "me")


async def test_too_many_at_once_are_refused_and_the_oldest_that_are_over_make_room(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "MAX_RUNNING", 2)
    monkeypatch.setattr(actions, "MAX_KEPT", 3)
    store = ActionStore(world.shard)
    goes_on = action_of(world)
    await store.put(goes_on, ActionProgress(), ENTRY)
    over = []
    for _ in range(4):
        world.pass_ms(1)
        over.append(action_of(world))
        assert await store.put(over[-1], ActionProgress(), ENTRY)
        await store.advance(world.epoch, over[-1], ActionProgress(ActionState.DONE), ENTRY)
    assert [s.action.id for s in await store.newest(10)] == [over[3].id, over[2].id, goes_on.id]
    assert await store.get(over[0].id) is None
    assert await store.put(action_of(world), ActionProgress(), ENTRY)
    async with world.unchanged():
        assert not await store.put(action_of(world), ActionProgress(), ENTRY)


async def test_a_record_that_cannot_be_read_hides_no_other(world: StoreWorld) -> None:
    store = ActionStore(world.shard)
    bad, good = action_of(world), action_of(world)
    for action in (bad, good):
        await store.put(action, ActionProgress(), ENTRY)
    await world.redis.hset(world.shard.keys.action(bad.id), "spec", b"\xc1")
    assert [s.action.id for s in await store.newest(10)] == [good.id]


async def test_the_counts_and_the_watch_of_an_action_are_kept_beside_its_progress(world: StoreWorld) -> None:
    store, action = ActionStore(world.shard), action_of(world)
    assert await store.put(action, ActionProgress(), ENTRY)
    assert await store.done(action.id) == 0
    assert await store.watched(action.id) == set()
    await store.advance(world.epoch, action, ActionProgress(done=4))
    await world.redis.sadd(world.shard.keys.watched(action.id), "j1", "j2")
    assert await store.done(action.id) == 4
    await store.advance(world.epoch, action, ActionProgress(done=4), ended=["j1"])
    assert await store.watched(action.id) == {"j2"}
    await store.advance(world.epoch, action, ActionProgress(done=4), ended=["j2"])
