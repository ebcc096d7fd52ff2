"""Enqueue single jobs, and many at once."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from jqmaster.domain.identity.access import Principal
from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import JobSpec, JobState
from jqmaster.errors import ConflictError, OutcomeUnknownError, StoreUnavailableError
from jqmaster.service.jobs.enqueue import Enqueued
from jqmaster.store.jobs.enqueue_outcomes import IdTaken
from jqmaster.store.link.scripts import ScriptCall
from tests.support import real_time
from tests.support.jobs import Served

pytestmark = real_time.LOOPS
A, B = Principal("a", frozenset()), Principal("b", frozenset())


@pytest.mark.req("J1", "M1")
async def test_the_same_id_and_content_again_is_no_second_job(served: Served) -> None:
    spec = served.world.spec(argument=1)
    assert await served.enqueue.one(spec) == Enqueued(spec.id, is_new=True)
    assert await served.enqueue.one(spec) == Enqueued(spec.id, is_new=False)
    assert (await served.world.inspector.counts())[JobState.READY] == 1


@pytest.mark.req("M1")
async def test_the_same_id_with_other_content_is_a_conflict(served: Served) -> None:
    spec = served.world.spec(argument=1)
    await served.enqueue.one(spec)
    with pytest.raises(ConflictError) as conflict:
        await served.enqueue.one(replace(spec, priority=1))
    assert conflict.value.code == "id_taken"
    assert (await served.world.get(spec.id)).priority == 0


@pytest.mark.req("M1")
async def test_an_idempotency_key_stands_for_its_first_request(served: Served) -> None:
    spec = served.world.spec(argument=1)
    first = await served.enqueue.one(spec, "key")
    again = await served.enqueue.one(replace(spec, id=new_id()), "key")
    assert (first.is_new, again) == (True, Enqueued(first.job_id, is_new=False))
    with pytest.raises(ConflictError) as conflict:
        await served.enqueue.one(served.world.spec(argument=2), "key")
    assert conflict.value.code == "idempotency_key_reused"
    assert (await served.world.inspector.counts())[JobState.READY] == 1


@pytest.mark.req("M1", "S7")
async def test_a_key_of_a_job_belongs_to_its_caller_and_name_and_lives_as_long_as_it_says(
    served: Served,
) -> None:
    def spec(**fields: Any) -> JobSpec:
        return replace(served.world.spec(argument=1), key="feed:42:7", **fields)

    first = await served.enqueue.one(spec(key_life_ms=5_000), caller=A)
    assert first.is_new
    assert await served.enqueue.one(spec(), caller=A) == Enqueued(first.job_id, is_new=False)
    for other in (spec(), spec(name="other")):
        answer = await served.enqueue.one(other, caller=B if other.name == "work" else A)
        assert answer.is_new
        assert answer.job_id != first.job_id
    # The key of a header is a different key.
    assert (await served.enqueue.one(replace(spec(), key=""), "feed:42:7", caller=A)).is_new
    with pytest.raises(ConflictError) as conflict:
        await served.enqueue.one(replace(spec(), argument=b"\x02"), caller=A)
    assert (conflict.value.code, conflict.value.errors[0].loc) == ("idempotency_key_reused", ("key",))
    lives = [
        await served.world.redis.pttl(key)
        async for key in served.world.redis.scan_iter(f"{served.world.shard.keys.tag}*idempotency:*")
    ]
    assert sum(life_ms <= 5_000 for life_ms in lives) == 1
    assert sum(86_000_000 < life_ms <= 86_400_000 for life_ms in lives) == 3


@pytest.mark.req("M1", "S7")
async def test_a_bulk_makes_only_the_jobs_whose_keys_are_new(served: Served) -> None:
    def specs() -> list[JobSpec]:
        made = [served.world.spec(argument=n) for n in range(6)]
        return [replace(spec, key=f"k{n}" if n != 5 else "") for n, spec in enumerate(made)]

    first = (await served.enqueue.bulk(specs()[:2])).ids
    ids = (await served.enqueue.bulk(specs())).ids
    assert ids[:2] == first
    assert (await served.world.inspector.counts())[JobState.READY] == 6
    again = (await served.enqueue.bulk(specs()[:5])).ids
    assert again == ids[:5]
    assert (await served.world.inspector.counts())[JobState.READY] == 6
    changed = [replace(spec, argument=b"\x63") if n in (1, 3) else spec for n, spec in enumerate(specs())]
    with pytest.raises(ConflictError) as conflict:
        await served.enqueue.bulk(changed)
    assert conflict.value.code == "idempotency_key_reused"
    assert [error.loc for error in conflict.value.errors] == [("jobs", 1, "key"), ("jobs", 3, "key")]
    taken = replace(specs()[5], id=ids[5], argument=b"\x63")
    with pytest.raises(ConflictError) as conflict:
        await served.enqueue.bulk([*specs()[:2], taken])
    assert [error.loc for error in conflict.value.errors] == [("jobs", 2, "id")]
    assert (await served.world.inspector.counts())[JobState.READY] == 6


@pytest.mark.req("M1")
async def test_concurrent_requests_with_one_key_make_one_job(served: Served) -> None:
    spec = served.world.spec(argument=1)
    answers = await asyncio.gather(
        *[served.enqueue.one(replace(spec, id=new_id()), "key") for _ in range(30)]
    )
    assert len({answer.job_id for answer in answers}) == 1
    assert [answer.is_new for answer in answers].count(True) == 1


async def test_concurrent_requests_share_calls_to_the_store(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    enqueue = served.world.acceptance.enqueue

    async def counted(specs: list) -> list:
        sizes.append(len(specs))
        return await enqueue(specs)

    monkeypatch.setattr(served.enqueue._coalescer(0), "_flush", counted)
    specs = [served.world.spec(argument=n) for n in range(400)]
    answers = await asyncio.gather(*[served.enqueue.one(spec) for spec in specs])
    assert answers == [Enqueued(spec.id, is_new=True) for spec in specs]
    assert len(sizes) <= 40


async def test_a_taken_id_in_a_shared_call_hurts_nobody_else(served: Served) -> None:
    taken = served.world.spec(argument=1)
    await served.enqueue.one(taken)
    specs = [served.world.spec(argument=n) for n in range(5)] + [replace(taken, priority=9)]
    answers = await asyncio.gather(*[served.enqueue.one(s) for s in specs], return_exceptions=True)
    assert answers[:5] == [Enqueued(spec.id, is_new=True) for spec in specs[:5]]
    assert isinstance(answers[5], ConflictError)


@pytest.mark.req("M1")
async def test_a_store_that_takes_no_more_refuses_before_anything_happens(served: Served) -> None:
    served.admits = StoreUnavailableError("full", retry_after_s=1)
    spec = served.world.spec()
    async with served.world.unchanged():
        for refused in (
            served.enqueue.one(spec),
            served.enqueue.one(spec, "key"),
            served.enqueue.bulk([spec]),
        ):
            with pytest.raises(StoreUnavailableError):
                await refused


async def test_an_unknown_outcome_reaches_the_caller_as_such(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unknown(specs: list) -> list:
        raise OutcomeUnknownError("lost", retry_after_s=1)

    monkeypatch.setattr(served.enqueue._coalescer(0), "_flush", unknown)
    with pytest.raises(OutcomeUnknownError):
        await served.enqueue.one(served.world.spec())


@pytest.mark.req("S3")
async def test_a_bulk_is_accepted_in_order_and_again_without_doubling(served: Served) -> None:
    specs = [served.world.spec(argument=n) for n in range(1200)]
    ids = [spec.id for spec in specs]
    assert (await served.enqueue.bulk(specs)).ids == ids
    assert (await served.enqueue.bulk(specs)).ids == ids
    assert (await served.world.inspector.counts())[JobState.READY] == 1200


@pytest.mark.req("M1")
async def test_one_taken_id_refuses_the_whole_bulk_and_is_named(served: Served) -> None:
    specs = [served.world.spec(argument=n) for n in range(700)]
    await served.enqueue.one(replace(specs[3], priority=5))
    await served.enqueue.one(replace(specs[650], priority=5))
    async with served.world.unchanged():
        with pytest.raises(ConflictError) as conflict:
            await served.enqueue.bulk(specs)
    assert [error.loc for error in conflict.value.errors] == [("jobs", 3, "id"), ("jobs", 650, "id")]
    assert specs[3].id in conflict.value.errors[0].msg
    assert "no job was accepted" in conflict.value.detail


async def test_an_id_taken_at_the_last_instant_is_named_and_the_others_are_in(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = [served.world.spec(argument=n) for n in range(3)]
    look = served.world.acceptance.checks.find_taken

    async def overtaken(wanted: Sequence[JobSpec]) -> dict[int, IdTaken]:
        taken = await look(wanted)
        await served.enqueue.one(replace(specs[1], priority=5))
        return taken

    monkeypatch.setattr(served.world.acceptance.checks, "find_taken", overtaken)
    with pytest.raises(ConflictError) as conflict:
        await served.enqueue.bulk(specs)
    assert [error.loc for error in conflict.value.errors] == [("jobs", 1, "id")]
    assert "all other jobs were accepted" in conflict.value.detail
    assert (await served.world.inspector.counts())[JobState.READY] == 3


async def test_a_store_that_fails_within_a_large_bulk_leaves_it_in_doubt_and_a_repeat_completes_it(
    served: Served,
) -> None:
    specs = [served.world.spec(argument=n) for n in range(1200)]
    redis = served.world.redis
    # A step holds 8 MiB: there is room for one step, not for two.
    used = (await redis.info("memory"))["used_memory"]
    before = (await redis.config_get("maxmemory"))["maxmemory"]
    large = [replace(spec, argument=b"\xc5\x40\x00" + b"x" * 0x4000) for spec in specs]
    await redis.config_set("maxmemory", used + 12 * 2**20)
    try:
        with pytest.raises(OutcomeUnknownError):
            await served.enqueue.bulk(large)
        assert 0 < (await served.world.inspector.counts())[JobState.READY] < 1200
    finally:
        await redis.config_set("maxmemory", before)
    assert (await served.enqueue.bulk(large)).ids == [spec.id for spec in large]
    assert (await served.world.inspector.counts())[JobState.READY] == 1200


async def test_a_store_that_is_gone_after_the_first_step_of_a_large_bulk_leaves_it_in_doubt(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = [served.world.spec(argument=n) for n in range(1200)]
    client = served.world.shard.client
    run_all, runs = client.run_all, 0

    async def fails_later(calls: Sequence[ScriptCall], **options: Any) -> list[tuple[str, list[Any]]]:
        nonlocal runs
        runs += 1
        if runs > 1:
            raise StoreUnavailableError("the store is away", retry_after_s=1.0)
        return await run_all(calls, **options)

    monkeypatch.setattr(client, "run_all", fails_later)
    with pytest.raises(OutcomeUnknownError, match="same IDs"):
        await served.enqueue.bulk(specs)
    monkeypatch.undo()
    assert (await served.world.inspector.counts())[JobState.READY] == 500
    assert (await served.enqueue.bulk(specs)).ids == [spec.id for spec in specs]
    assert (await served.world.inspector.counts())[JobState.READY] == 1200


async def test_one_id_for_two_jobs_of_a_bulk_refuses_it(served: Served) -> None:
    spec = served.world.spec(argument=1)
    async with served.world.unchanged():
        with pytest.raises(ConflictError) as conflict:
            await served.enqueue.bulk([spec, served.world.spec(), replace(spec, priority=1)])
    assert [error.loc for error in conflict.value.errors] == [("jobs", 2, "id")]
    assert (await served.enqueue.bulk([spec, spec])).ids == [spec.id, spec.id]
