"""Collected and debounced events become one job, whichever master dies in between."""

import msgpack
import pytest

from jqmaster.domain.definitions.run import job_id_of_event
from jqmaster.domain.jobs.job import JobState
from jqmaster.errors import StaleEpochError
from jqmaster.store.events.events import EventVerdict
from jqmaster.store.events.groups import GroupDecision
from tests.support.constraints import ConstrainedWorld, constraint
from tests.support.events import RUNS, Events, event
from tests.support.store import START_MS, StoreWorld


@pytest.fixture
def events(world: StoreWorld) -> Events:
    return Events(world)


@pytest.mark.req("D6")
async def test_collected_events_become_one_job_with_their_list(world: StoreWorld, events: Events) -> None:
    definition = await events.define(collect=(100, 5000))
    first = await events.send(payload=1)
    for n in range(2, 21):
        world.pass_ms(10)
        received = await events.send(payload=n)
        assert [(str(one.effect), one.job_id) for one in received.started] == [
            ("waiting", first.started[0].job_id)
        ]
    await events.end_due()
    assert await events.jobs() == []
    assert await events.runs() == []
    world.now_ms = START_MS + 5000
    await events.end_due()
    assert await events.arguments() == [list(range(1, 21))]
    (job,) = await events.jobs()
    assert job.id == first.started[0].job_id == job_id_of_event(definition.did, first.event_id)
    assert await events.outcomes() == [("fired", "collected")] * 20
    assert {run.job_id for run in await events.runs()} == {job.id}
    assert (world.tally.of("work").pushed, events.figures.groups) == (1, 1)
    # The next event opens a new group.
    again = await events.send(payload=21)
    assert again.started[0].job_id != job.id


@pytest.mark.req("D6")
async def test_so_many_events_or_bytes_end_a_group_at_once(world: StoreWorld) -> None:
    events = Events(world, max_argument_bytes=100)
    await events.define(collect=(3, 5000))
    with world.leading_here() as words:
        await events.intake.many([event(payload=n) for n in range(7)])
    assert "events" in words
    await events.end_due()
    assert await events.arguments() == [[0, 1, 2], [3, 4, 5]]
    for n in range(2):
        await events.send(payload=str(n) * 60)
    await events.end_due()
    world.pass_ms(5000)
    await events.end_due()
    assert await events.arguments() == [[0, 1, 2], [3, 4, 5], [6, "0" * 60], ["1" * 60]]


@pytest.mark.req("D6")
async def test_each_value_of_the_key_is_gathered_by_itself(world: StoreWorld, events: Events) -> None:
    await events.define(collect=(10, 1000), key="payload.user", argument={"from": "payload.n"})
    for n in range(6):
        await events.send(payload={"user": n % 2, "n": n} if n < 4 else {"n": n})
    world.pass_ms(1000)
    await events.end_due()
    assert sorted(await events.arguments()) == [[0, 2], [1, 3], [4, 5]]


@pytest.mark.req("D6")
async def test_the_last_of_debounced_events_starts_the_job(world: StoreWorld, events: Events) -> None:
    await events.define(debounce=(1000, 2500))
    for n in range(3):
        await events.send(payload=n)
        await events.end_due()
        world.pass_ms(900)
    assert await events.jobs() == []
    # 2,700 ms after the first event, its bound is over, though the last event came 900 ms ago.
    await events.end_due()
    assert await events.arguments() == [2]
    assert await events.outcomes() == [("skipped", "debounced")] * 2 + [("fired", "debounced")]
    await events.send(payload=3)
    world.pass_ms(999)
    await events.end_due()
    assert await events.arguments() == [2]
    world.pass_ms(1)
    await events.end_due()
    assert await events.arguments() == [2, 3]


@pytest.mark.req("D6")
async def test_a_leader_that_dies_between_closing_and_ending_loses_nothing(
    world: StoreWorld, events: Events
) -> None:
    await events.define(collect=(10, 1000))
    await events.intake.many([event(payload=n) for n in range(3)])
    world.pass_ms(1000)
    due = await events.groups.close_due(world.epoch)
    assert [len(group.event_ids) for group in due.found] == [3]
    # The leader dies here; meanwhile an event opens a new group.
    await events.send(payload=3)
    old = await world.reelect()
    definitions = await events.groups.definitions_of(due.found)
    ending = GroupDecision(
        due.found[0], definitions[due.found[0].id], EventVerdict.FIRES, argument=msgpack.packb([0])
    )
    async with world.unchanged():
        with pytest.raises(StaleEpochError):
            await events.groups.close_due(old)
        with pytest.raises(StaleEpochError):
            await events.groups.end([ending], epoch=old, kept=RUNS)
    await events.end_due()
    await events.end_due()
    assert await events.arguments() == [[0, 1, 2]]
    # A leader that got no answer repeats the step.
    async with world.unchanged():
        assert await events.groups.end([ending], epoch=world.epoch, kept=RUNS) == ["gone"]
    world.pass_ms(1000)
    await events.end_due()
    assert await events.arguments() == [[0, 1, 2], [3]]
    assert len(await events.runs()) == 4


@pytest.mark.req("D6")
async def test_a_group_follows_its_definition(world: StoreWorld, events: Events) -> None:
    await events.define("edited", collect=(10, 1000))
    await events.define("paused", collect=(10, 1000))
    await events.define("gone", collect=(10, 1000))
    await events.define("remade", collect=(10, 1000))
    await events.intake.many([event(payload=n) for n in range(2)])
    world.pass_ms(1000)
    due = await events.groups.close_due(world.epoch)
    read = await events.groups.definitions_of(due.found)
    await events.define("edited", debounce=(1000, None), job={"priority": 7})
    await events.define("paused", collect=(10, 1000), enabled=False)
    await events.remove("gone")
    await events.remove("remade")
    await events.define("remade")
    endings = [GroupDecision(group, read[group.id], EventVerdict.FIRES) for group in due.found]
    async with world.unchanged():
        became = await events.groups.end(endings, epoch=world.epoch, kept=RUNS)
    assert became == ["changed"] * 4
    await events.end_due()
    (job,) = await events.jobs()
    assert (job.priority, await events.arguments()) == (7, [[0, 1]])
    assert await events.outcomes("paused") == [("skipped", "paused")] * 2
    assert await events.runs("gone") == await events.runs("remade") == []
    assert await world.redis.exists(world.shard.keys.event_groups) == 0


@pytest.mark.req("D6")
async def test_a_group_waits_for_room(world: StoreWorld, events: Events) -> None:
    constraints = ConstrainedWorld(world)
    await constraints.put(constraint(max_backlog=1))
    await events.define(collect=(10, 1000))
    blocker = await constraints.enqueue()
    await events.send(payload=1)
    world.pass_ms(1000)
    await events.end_due()
    assert await events.runs() == []
    await world.operator_actions.cancel(blocker)
    await events.end_due()
    assert await events.runs() == []
    world.pass_ms(1000)
    await events.end_due()
    assert await events.outcomes() == [("fired", "collected")]


@pytest.mark.req("D6")
async def test_the_job_of_a_group_is_judged_by_overlap(world: StoreWorld, events: Events) -> None:
    await events.define("forbid", collect=(10, 1000), overlap="forbid")
    await events.define("replace", collect=(10, 1000), overlap="replace")
    for _ in range(2):
        await events.send()
        world.pass_ms(1000)
        await events.end_due()
    assert await events.outcomes("forbid") == [("fired", "collected"), ("skipped", "overlap")]
    assert await events.outcomes("replace") == [("fired", "collected")] * 2
    states = [await world.state(run.job_id) for run in await events.runs("replace")]
    assert states == [JobState.CANCELED, JobState.READY]


@pytest.mark.req("D6")
async def test_an_edit_from_one_kind_of_group_to_the_other_loses_no_event(
    world: StoreWorld, events: Events
) -> None:
    await events.define(debounce=(1000, None))
    await events.send(payload=1)
    await events.define(collect=(10, 1000))
    await events.send(payload=2)
    await events.define(debounce=(1000, None))
    await events.send(payload=3)
    world.pass_ms(1000)
    await events.end_due()
    assert sorted(await events.outcomes()) == [
        ("fired", "collected"),
        ("fired", "debounced"),
        ("skipped", "debounced"),
    ]
    assert sorted(await events.arguments(), key=str) == [3, [2]]


async def test_fsck_finds_what_no_leader_would_end(world: StoreWorld, events: Events) -> None:
    await events.define(collect=(10, 1000))
    group = (await events.send()).started[0].job_id
    k = world.shard.keys
    await world.redis.zrem(k.event_groups, group)
    await world.redis.hdel(k.event_bodies, (await events.send("user.made")).event_id)
    await world.redis.sadd(k.event_definitions, "nobody")
    found = {finding.rule for finding in await world.findings()}
    assert found == {"event"}
    assert len(await world.findings()) == 3
    await world.redis.zadd(k.event_groups, {group: 1, "lost": 1})
    assert [f.detail for f in await world.findings() if "lost" in f.detail] == ["group lost has no events"]
    await world.redis.delete(k.events, k.event_bodies)
    await world.redis.zrem(k.event_groups, "lost")
    await world.redis.srem(k.event_definitions, "nobody")


@pytest.mark.req("D6")
@pytest.mark.parametrize("kind", ["collect", "debounce"])
async def test_an_event_opens_a_new_group_where_that_of_its_slot_was_lost(
    world: StoreWorld, events: Events, kind: str
) -> None:
    await events.define(**({"collect": (10, 1000)} if kind == "collect" else {"debounce": (1000, None)}))
    k = world.shard.keys
    lost = (await events.send(payload=0)).started[0].job_id
    await world.redis.delete(k.event_group(lost))
    group = (await events.send(payload=1)).started[0].job_id
    assert group != lost
    await world.assert_sound()
    # A group that lost only a part of its data still has its events.
    await world.redis.hdel(k.event_group(group), "since")
    other = (await events.send(payload=2)).started[0].job_id
    assert other not in (group, lost)
    await events.end_due()
    assert await events.arguments() == [[1] if kind == "collect" else 1]
    world.pass_ms(1000)
    await events.end_due()
    assert await events.arguments() == ([[1], [2]] if kind == "collect" else [1, 2])


async def test_groups_whose_events_or_definition_cannot_be_read_wait_for_people(
    world: StoreWorld, events: Events, caplog: pytest.LogCaptureFixture
) -> None:
    await events.define("a", collect=(10, 1000))
    await events.define("b", collect=(10, 1000))
    k = world.shard.keys
    groups = {one.definition: one.job_id for one in (await events.send()).started}
    await world.redis.hset(k.event_group(groups["a"]), "1", b"\xc1")
    document = await world.redis.hget(k.definitions, "b")
    await world.redis.hset(k.definitions, "b", b"damaged")
    world.pass_ms(1000)
    assert await events.grouping.end_due(world.epoch) is None
    assert f"event group {groups['a']} cannot be read" in caplog.text
    assert "definition b: its document cannot be read; its events wait" in caplog.text
    assert await events.jobs() == []
    await world.redis.hset(k.definitions, "b", document)
    assert await events.grouping.end_due(world.epoch) == 0
    assert [job.id for job in await events.jobs()] == [groups["b"]]
    await world.redis.delete(k.event_group(groups["a"]), k.event_groups)
