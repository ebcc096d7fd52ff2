import re
from dataclasses import replace
from typing import Any

import msgpack
import pytest

from jqmaster.domain.jobs.job import Cause, Job, JobSpec, JobState, RetryPolicy
from jqmaster.domain.jobs.unique import OnConflict, Unique
from jqmaster.errors import OutcomeUnknownError, StoreUnavailableError
from jqmaster.store.health import generation
from jqmaster.store.jobs.enqueue import EnqueueStore
from jqmaster.store.jobs.enqueue_outcomes import Accepted, IdTaken, PushExpired, PushRefused, outcome_of
from jqmaster.store.jobs.idempotency import Bound, KeyedSpec, KeysTaken
from jqmaster.store.jobs.operator_actions import Changes
from jqmaster.store.link.script_modules import LUA, ScriptHeaderError
from jqmaster.store.link.scripts import read_header
from tests.support.constraints import ConstrainedWorld
from tests.support.store import StoreWorld, unconstrained


@pytest.mark.req("J1", "J2", "J3", "J4", "J5", "J6", "J7")
async def test_a_new_job_is_stored_whole_and_ready(world: StoreWorld) -> None:
    spec = world.spec(
        "mail.send", {"a": [1, b"\x00\xff", None]}, priority=-7, max_retry=3, keep_result=True, timeout_ms=250,
        expires_at_ms=world.now_ms + 9, retry=RetryPolicy(0.5, 3.0, 60.0, False), rerun_lost=True,
        tags=("a", "b"), headers={"trace": "x"},
    )  # fmt: skip
    assert await world.acceptance.enqueue([spec]) == [Accepted.NEW]
    assert await world.get(spec.id) == Job(
        id=spec.id, name="mail.send", state=JobState.READY, cause=Cause.NONE, priority=-7, max_retry=3, timeout_ms=250,
        keep_result=True, rerun_lost=True, is_confirmed=False, attempt=0, failures=0, losses=0, returned_offers=0,
        created_at_ms=world.now_ms, due_at_ms=0, expires_at_ms=world.now_ms + 9, started_at_ms=0, finished_at_ms=0,
        not_after_ms=0, fence=0, token="", worker_id="", retry=RetryPolicy(0.5, 3.0, 60.0, False), tags=("a", "b"),
        headers={"trace": "x"}, argument=spec.argument, lane_id=unconstrained("mail.send").id,
    )  # fmt: skip
    k = world.shard.keys
    assert await world.score(world.ready("mail.send"), spec.id) == -7
    assert await world.score(k.expiring, spec.id) == world.now_ms + 9
    lane = unconstrained("mail.send")
    assert set(await world.dump()) == {
        k.leader, k.epoch, k.job(spec.id), world.ready("mail.send"), k.names, k.ready_counts, k.expiring,
        k.lane(lane.id.hex()),
        k.lanes("mail.send"), k.open_groups("mail.send"), k.open_lanes(lane.group),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("when", "state", "due_in_ms"),
    [
        ({"delay_ms": 1}, JobState.SCHEDULED, 1),
        ({"delay_ms": 0}, JobState.READY, None),
        ({"run_at_ms": 5}, JobState.SCHEDULED, 5),
        ({"run_at_ms": 0}, JobState.READY, 0),
        ({"run_at_ms": -5}, JobState.READY, -5),
    ],
)
async def test_a_job_waits_for_its_time_unless_it_has_come(
    world: StoreWorld, when: dict[str, Any], state: JobState, due_in_ms: int | None
) -> None:
    if "run_at_ms" in when:
        when = {"run_at_ms": world.now_ms + when["run_at_ms"]}
    job_id = await world.enqueue(**when)
    job = await world.get(job_id)
    assert (job.state, job.due_at_ms) == (state, 0 if due_in_ms is None else world.now_ms + due_in_ms)
    scheduled = await world.score(world.shard.keys.scheduled, job_id)
    assert scheduled == (job.due_at_ms if state is JobState.SCHEDULED else None)


@pytest.mark.req("M1")
async def test_a_repeat_is_known_and_changes_nothing(world: StoreWorld) -> None:
    for fields in ({}, {"delay_ms": 50}, {"run_at_ms": world.now_ms + 50}, {"headers": {"b": "1", "a": "2"}}):
        spec = world.spec(argument=1, **fields)
        assert await world.acceptance.enqueue([spec]) == [Accepted.NEW]
        world.pass_ms(10)
        async with world.unchanged():
            assert await world.acceptance.enqueue([spec]) == [Accepted.KNOWN]
            assert await world.acceptance.checks.find_taken([spec]) == {}


@pytest.mark.parametrize("unique", [None, Unique(digest="ab" * 16, on_conflict=OnConflict.REPLACE)])
async def test_a_job_that_has_expired_is_refused_and_changes_nothing(
    world: StoreWorld, unique: Unique | None
) -> None:
    if unique:
        await world.enqueue(unique=unique)
    late, fine = (
        world.spec("work", 1, expires_at_ms=world.now_ms, unique=unique),
        world.spec("work", 2, expires_at_ms=world.now_ms + 1),
    )
    expired = PushExpired(world.now_ms)
    async with world.unchanged():
        assert await world.acceptance.enqueue([late]) == [expired]
        with pytest.raises(PushRefused) as refused:
            await world.acceptance.enqueue([fine, late], is_whole=True)
        assert refused.value.refused == {1: expired}
    assert await world.acceptance.checks.find_expired([fine, late]) == {1: expired}
    assert await world.acceptance.enqueue([late, fine]) == [expired, Accepted.NEW]
    world.pass_ms(1)
    assert await world.acceptance.enqueue([fine]) == [Accepted.KNOWN]
    assert await world.acceptance.checks.find_expired([fine]) == {}
    await world.assert_sound()


async def test_a_relative_expiry_is_stored_as_an_instant(world: StoreWorld) -> None:
    spec, other = (
        world.spec("work", expires_ms=90_000),
        world.spec("work", expires_at_ms=world.now_ms + 90_000),
    )
    assert await world.acceptance.enqueue([spec, other]) == [Accepted.NEW, Accepted.NEW]
    until_ms = world.now_ms + 90_000
    for one in (spec, other):
        assert await world.score(world.shard.keys.expiring, one.id) == until_ms
        job = await world.get(one.id)
        assert job is not None
        assert job.expires_at_ms == until_ms
    world.pass_ms(10)
    async with world.unchanged():
        assert await world.acceptance.enqueue([spec]) == [Accepted.KNOWN]


@pytest.mark.parametrize(
    "other",
    [
        {"argument": 2}, {"name": "other"}, {"priority": 1}, {"max_retry": 1}, {"keep_result": True}, {"timeout_ms": 1},
        {"delay_ms": 1}, {"run_at_ms": 1}, {"expires_at_ms": 1}, {"expires_ms": 1},
        {"retry": RetryPolicy(base_s=2)},
        {"rerun_lost": True}, {"tags": ("a",)}, {"headers": {"a": "b"}},
    ],
)  # fmt: skip
async def test_another_request_under_a_taken_id_changes_nothing(
    world: StoreWorld, other: dict[str, Any]
) -> None:
    job_id = await world.enqueue(argument=1)
    async with world.unchanged():
        fields: dict[str, Any] = {"argument": 1, "id": job_id} | other
        spec = world.spec(**fields)
        assert await world.acceptance.enqueue([spec]) == [IdTaken(spec.id)]
        assert await world.acceptance.checks.find_taken([world.spec(), spec]) == {1: IdTaken(spec.id)}


async def test_a_repeat_is_known_whatever_became_of_the_job(world: StoreWorld) -> None:
    spec = world.spec()
    await world.acceptance.enqueue([spec])
    await world.operator_actions.patch(
        await world.get(spec.id), Changes(priority=9, max_retry=1, timeout_ms=1)
    )
    worker = await world.worker()
    (job,) = await world.claim(worker)
    assert await world.acceptance.enqueue([spec]) == [Accepted.KNOWN]
    await world.settlements.settle_success(worker, [(job.job_id, job.token, b"")])
    async with world.unchanged():
        assert await world.acceptance.enqueue([spec]) == [Accepted.KNOWN]


async def test_each_of_a_bulk_is_accepted_by_itself(world: StoreWorld) -> None:
    known, taken = world.spec(argument=1), world.spec(argument=2)
    await world.acceptance.enqueue([known, taken])
    other = world.spec(argument=3, id=taken.id)
    fresh = world.spec(delay_ms=100)
    twin = world.spec(id=fresh.id, argument="differs")
    bulk = [fresh, known, other, fresh, twin]
    assert await world.acceptance.enqueue(bulk) == [
        Accepted.NEW, Accepted.KNOWN, IdTaken(taken.id), Accepted.KNOWN, IdTaken(fresh.id),
    ]  # fmt: skip
    assert (await world.get(taken.id)).argument == taken.argument
    assert (await world.get(fresh.id)).argument == fresh.argument


async def test_bulks_beyond_one_script_call(world: StoreWorld) -> None:
    specs = [world.spec(f"name-{n % 7}", n, priority=n % 5 - 2) for n in range(1_203)]
    assert set(await world.acceptance.enqueue(specs)) == {Accepted.NEW}
    assert set(await world.acceptance.enqueue(specs)) == {Accepted.KNOWN}
    changed = [world.spec(s.name, "x", id=s.id) if n in (3, 700, 1_202) else s for n, s in enumerate(specs)]
    assert await world.acceptance.checks.find_taken(changed) == {
        n: IdTaken(changed[n].id) for n in (3, 700, 1_202)
    }
    assert await world.acceptance.enqueue([]) == []


async def test_nothing_is_enqueued_into_other_data_than_those_that_were_marked(world: StoreWorld) -> None:
    mark_at_start = await generation.mark(world.shard, "mark")
    acceptance = EnqueueStore(replace(world.shard, mark=mark_at_start), world.tally)
    assert await acceptance.enqueue([world.spec()]) == [Accepted.NEW]
    for mark in ("another", None):
        key = world.shard.keys.rules
        await (world.redis.hset(key, "mark", mark) if mark else world.redis.hdel(key, "mark"))
        async with world.unchanged():
            with pytest.raises(StoreUnavailableError) as refused:
                await acceptance.enqueue([world.spec()])
        assert refused.value.code == "store_unfit"
    # A starting master marks the data of an earlier release.
    assert await generation.mark(world.shard, "fresh") == "mark"
    assert await acceptance.enqueue([world.spec()]) == [Accepted.NEW]


async def test_the_longest_name(world: StoreWorld) -> None:
    name = "n" * 200
    job_id = await world.enqueue(name, delay_ms=1)
    world.pass_ms(1)
    assert await world.due.promote(world.epoch, JobState.SCHEDULED) == (1, -1)
    worker = await world.worker(name)
    (job,) = await world.claim(worker, name)
    assert (job.job_id, job.record.name) == (job_id, name)
    await world.leases.return_offers(world.epoch, worker, [(job_id, job.token)])
    await world.operator_actions.cancel(job_id)


async def test_the_leader_is_woken_for_ready_and_for_due_jobs(world: StoreWorld) -> None:
    channel = world.shard.keys.wake_channel
    async with world.published(channel, "ready"):
        await world.enqueue_many(3)
    async with world.published(channel, "due"):
        job_id = await world.enqueue(delay_ms=5)
    async with world.published(channel):
        await world.acceptance.enqueue([world.spec(id=job_id, delay_ms=5)])
    with world.leading_here() as words:
        async with world.published(channel):
            await world.enqueue()
            await world.enqueue(delay_ms=5)
            await world.enqueue(run_at_ms=world.now_ms + 5)
            # The leader looks for due jobs more often than that anyway.
            await world.enqueue(delay_ms=60_000)
    assert words == ["ready", "due", "ready", "due"]


async def test_a_damaged_record_under_the_id_is_a_taken_id(world: StoreWorld) -> None:
    spec = world.spec()
    await world.redis.lpush(world.shard.keys.job(spec.id), "not a record")
    other = world.spec()
    assert await world.acceptance.checks.find_taken([other, spec]) == {1: IdTaken(spec.id)}
    assert await world.acceptance.enqueue([spec, other]) == [IdTaken(spec.id), Accepted.NEW]
    await world.redis.delete(world.shard.keys.job(spec.id))


@pytest.mark.req("M1")
async def test_an_idempotency_key_stands_for_its_first_request(world: StoreWorld) -> None:
    first, again = world.spec(argument=1), world.spec(argument=1)
    assert await world.acceptance.idempotency.reserve_ids([KeyedSpec("d", first, 1_000)]) == [
        Bound(first.id, False)
    ]
    # Its lifetime counts from the first use.
    assert await world.acceptance.idempotency.reserve_ids([KeyedSpec("d", again, 60_000)]) == [
        Bound(first.id, False)
    ]
    assert 0 < await world.redis.pttl(world.shard.keys.idempotency("d")) <= 1_000
    async with world.unchanged():
        with pytest.raises(KeysTaken) as taken:
            await world.acceptance.idempotency.reserve_ids([KeyedSpec("d", world.spec(argument=2), 1)])
    assert taken.value.indexes == [0]
    await world.acceptance.idempotency.mark_accepted({"d": None})
    async with world.unchanged():
        await world.acceptance.idempotency.mark_accepted({"d": None, "another key": None})
    assert await world.acceptance.idempotency.reserve_ids([KeyedSpec("d", again, 60_000)]) == [
        Bound(first.id, True)
    ]


async def test_idempotency_keys_are_reserved_together_or_not_at_all(world: StoreWorld) -> None:
    specs = [world.spec(argument=n) for n in (1, 2, 1, 3)]
    keyed = [KeyedSpec(key, spec, 1_000) for key, spec in zip("abac", specs, strict=True)]
    ids = [specs[n].id for n in (0, 1, 0, 3)]
    assert await world.acceptance.idempotency.reserve_ids(keyed) == [Bound(job_id, False) for job_id in ids]
    other = [
        KeyedSpec("new", specs[0], 1_000),
        KeyedSpec("a", specs[1], 1_000),
        KeyedSpec("c", specs[0], 1_000),
    ]
    async with world.unchanged():
        with pytest.raises(KeysTaken) as taken:
            await world.acceptance.idempotency.reserve_ids(other)
    assert taken.value.indexes == [1, 2]
    doubled = [KeyedSpec("one", specs[0], 1_000), KeyedSpec("one", specs[1], 1_000)]
    async with world.unchanged():
        with pytest.raises(KeysTaken) as taken:
            await world.acceptance.idempotency.reserve_ids(doubled)
    assert taken.value.indexes == [1]


async def test_the_argument_passes_through_unchanged(world: StoreWorld) -> None:
    # A valid encoding that no packer would choose: the bytes must survive, not only the value.
    argument = b"\xdf\x00\x00\x00\x01\xdb\x00\x00\x00\x01k\xd3\x00\x00\x00\x00\x00\x00\x00\x05"
    assert msgpack.unpackb(argument) == {"k": 5}
    spec = world.spec()
    spec.argument = argument
    await world.acceptance.enqueue([spec])
    worker = await world.worker()
    (job,) = await world.claim(worker)
    assert job.record.argument == argument


async def test_ids_that_stand_for_other_requests_are_found(world: StoreWorld) -> None:
    known, other = world.spec(argument=1), world.spec(argument=2)
    assert await world.acceptance.checks.find_taken([known, other]) == {}
    await world.acceptance.enqueue([known, other])
    again = [known, replace(other, argument=msgpack.packb(3)), world.spec()]
    assert await world.acceptance.checks.find_taken(again) == {1: IdTaken(again[1].id)}
    assert await world.acceptance.checks.find_taken([]) == {}


async def test_a_whole_push_of_which_the_rest_failed_is_unknown(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = [world.spec(argument=n) for n in range(501)]
    run_all, calls = world.shard.client.run_all, 0

    async def then_away(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise StoreUnavailableError("the store is away", retry_after_s=1)
        return await run_all(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(world.shard.client, "run_all", then_away)
        with pytest.raises(OutcomeUnknownError, match="the store carried out only a part"):
            await world.acceptance.enqueue(specs, is_whole=True)
    statuses = await world.acceptance.enqueue(specs, is_whole=True)
    assert statuses == [Accepted.KNOWN] * 500 + [Accepted.NEW]


def test_each_outcome_that_the_script_names_is_known_here() -> None:
    text = (LUA / "jobs" / "enqueue" / "enqueue.lua").read_text("utf-8")
    words = re.findall(r"`(\w+)`", read_header(text)["REPLY"])
    assert len(words) == 13
    spec = JobSpec("j", "work", b"\xc0", batch="b")
    outcomes = [outcome_of(word, "other", spec, now_ms=1) for word in words]
    assert len(set(outcomes)) == len(words)
    with pytest.raises(ScriptHeaderError, match="'moved'"):
        outcome_of("moved", "", spec, now_ms=1)


async def test_the_reply_names_only_the_jobs_that_are_not_new(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies: list[Any] = []
    run_all = world.shard.client.run_all

    async def noted(*args: Any, **options: Any) -> Any:
        replies.extend(found := await run_all(*args, **options))
        return found

    monkeypatch.setattr(world.shard.client, "run_all", noted)
    specs = [world.spec(argument=n) for n in range(3)]
    assert await world.acceptance.enqueue(specs[:2]) == [Accepted.NEW] * 2
    assert await world.acceptance.enqueue(specs[1:]) == [Accepted.KNOWN, Accepted.NEW]
    assert replies == [("ok", [world.now_ms, []]), ("ok", [world.now_ms, [0, b"known", b""]])]


async def test_a_job_that_is_pushed_alone_gets_the_lane_that_a_bulk_would_give_it(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jqmaster.store.jobs.enqueue.MAX_KNOWN_NAMES", 2)
    constraints = ConstrainedWorld(world)
    names = ("mail", "video", "mail", "other", "mail")

    async def lanes_are_the_same() -> None:
        alone = [await constraints.enqueue(name=name, argument={"host": "a"}) for name in names]
        together = [world.spec(name, {"host": "a"}) for name in names]
        assert set(await constraints.push(together)) == {Accepted.NEW}
        for one, other in zip(alone, together, strict=True):
            assert (await world.get(one)).lane_id == (await world.get(other.id)).lane_id

    await lanes_are_the_same()
    await constraints.limit(concurrency=2)
    await lanes_are_the_same()
    await constraints.limit(key="argument.host", concurrency=1)
    await lanes_are_the_same()
