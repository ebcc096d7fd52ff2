"""erase_values.lua and erase_log.lua: what is erased of a job that is over; and what retry.lua and revive.lua say of it
afterwards."""

from dataclasses import replace
from typing import Any

import msgpack
import pytest

from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import FINISHED, JobState
from jqmaster.store.identity.audit import AuditStore, encode_entry
from jqmaster.store.jobs.operator_actions import Refusal, StateConflict, ValueErased
from jqmaster.store.logs.logs import OVER_MS
from jqmaster.store.personal_data.erasure import Erasure, ErasureStore, StoredContent
from tests.store.jobs.test_operator_actions import job_in
from tests.store.logs.test_logs import lines, save, sizes, texts
from tests.support.predecessors import Orders
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("D21")
ENTRY = encode_entry(who="ada", action="job.erase", target="", before=None, after={"fields": ["argument"]})
HEADERS = {"to": "jose@example.com"}


async def content(world: StoreWorld, job_id: str) -> StoredContent:
    found = await ErasureStore(world.shard).read(job_id)
    assert found
    return found


async def erase(world: StoreWorld, job_id: str, **values: Any) -> bool:
    return await ErasureStore(world.shard).erase(await content(world, job_id), Erasure(**values), ENTRY)


def without_argument(found: StoredContent) -> dict[str, Any]:
    extras = {**found.extras, "erased": ["argument"]}
    return {"extras": extras, "argument": msgpack.packb("[erased]")}


@pytest.mark.parametrize("state", sorted(FINISHED))
async def test_in_each_final_state_a_value_is_replaced_and_all_else_stays(
    world: StoreWorld, state: JobState
) -> None:
    job = await job_in(world, state, argument={"a": 1}, tags=("t",), headers=HEADERS)
    found = await content(world, job.id)
    assert await erase(world, job.id, **without_argument(found))
    after = await world.get(job.id)
    assert after == replace(job, argument=msgpack.packb("[erased]"), erased=("argument",))
    (entry,) = (await AuditStore(world.shard).page(limit=1, cursor=None)).entries
    assert (entry.who, entry.action, entry.after) == ("ada", "job.erase", {"fields": ["argument"]})


async def test_other_remains_of_the_value_are_replaced_or_removed(world: StoreWorld) -> None:
    worker, claimed = await world.running(keep_result=True)
    await world.fail(worker, claimed)
    job_id, k = claimed.job_id, world.shard.keys
    await world.redis.hset(k.progress(job_id), mapping={"message": "for José", "at_ms": 1})
    await world.redis.xadd(k.parts(job_id), {"value": b"\xa1x"}, id="1-1")
    found = await content(world, job_id)
    errors = [("[erased]", None)] * len(found.history)
    assert errors
    assert await erase(world, job_id, errors=errors, result=b"new", drops={"progress", "parts", "challenges"})
    after = await content(world, job_id)
    assert [(one.message, one.error, one.outcome) for _, one in after.history] == [
        ("[erased]", None, "failure")
    ]
    assert [one[:8] for one, _ in after.history] == [one[:8] for one, _ in found.history]
    assert after.result == (b"new" if found.result is not None else None)
    assert await world.redis.exists(k.progress(job_id), k.parts(job_id), k.challenges(job_id)) == 0


@pytest.mark.parametrize(
    "state", [JobState.READY, JobState.SCHEDULED, JobState.RUNNING, JobState.RETRYING, JobState.AWAITING_JOBS]
)
async def test_a_job_that_is_not_over_keeps_its_values(world: StoreWorld, state: JobState) -> None:
    job = await job_in(world, state)
    found = await content(world, job.id)
    async with world.unchanged():
        with pytest.raises(StateConflict) as refused:
            await erase(world, job.id, **without_argument(found))
    assert refused.value.state is state


async def test_a_job_that_ran_again_meanwhile_is_read_again(world: StoreWorld) -> None:
    job = await job_in(world, JobState.FAILED)
    found = await content(world, job.id)
    await world.operator_actions.retry(job)
    await world.operator_actions.cancel(job.id)
    store = ErasureStore(world.shard)
    async with world.unchanged():
        assert not await store.erase(found, Erasure(**without_argument(found)), ENTRY)
    assert await erase(world, job.id, **without_argument(await content(world, job.id)))


async def test_a_history_that_grew_is_not_overwritten(world: StoreWorld) -> None:
    job = await job_in(world, JobState.FAILED)
    found = await content(world, job.id)
    await world.redis.rpush(world.shard.keys.history(job.id), found.history[0][0])
    async with world.unchanged():
        erasure = Erasure(errors=[("[erased]", None)])
        assert not await ErasureStore(world.shard).erase(found, erasure, ENTRY)


async def test_a_job_that_is_gone_is_told(world: StoreWorld) -> None:
    job = await job_in(world, JobState.FAILED)
    found = await content(world, job.id)
    await world.operator_actions.delete(job.id)
    async with world.unchanged():
        with pytest.raises(KeyError):
            await ErasureStore(world.shard).erase(found, Erasure(**without_argument(found)), ENTRY)
    assert await ErasureStore(world.shard).read(new_id()) is None


@pytest.mark.parametrize(
    ("path", "may_run"), [("argument.a", False), ("headers.to", False), ("errors", True)]
)
async def test_a_job_without_a_value_that_it_needs_does_not_run_again(
    world: StoreWorld, path: str, may_run: bool
) -> None:
    job = await job_in(world, JobState.FAILED, argument={"a": 1}, headers=HEADERS)
    found = await content(world, job.id)
    assert await erase(world, job.id, extras={**found.extras, "erased": [path]})
    job = await world.get(job.id)
    if may_run:
        await world.operator_actions.retry(job)
        assert (await world.get(job.id)).erased == (path,)
        return
    async with world.unchanged():
        with pytest.raises(ValueErased):
            await world.operator_actions.retry(job)
        assert await world.operator_actions.retry_all([job]) == [Refusal("erased")]


async def test_a_tag_that_says_erased_holds_up_nobody(world: StoreWorld) -> None:
    job = await job_in(world, JobState.FAILED, tags=("erased",), headers={"erased": "erased"})
    await world.operator_actions.retry(job)


async def test_a_skipped_job_without_its_argument_is_not_revived(world: StoreWorld) -> None:
    orders = Orders(world)
    worker, claimed = await world.running()
    ran = [await orders.behind(claimed.job_id), await orders.behind(claimed.job_id)]
    await world.fail(worker, claimed)
    await orders.carry_out()
    assert await orders.states(*ran) == ["skipped", "skipped"]
    assert await erase(world, ran[0], **without_argument(await content(world, ran[0])))
    await world.operator_actions.retry(await world.get(claimed.job_id))
    await orders.carry_out()
    assert await orders.states(*ran) == ["skipped", "awaiting_jobs"]


async def test_the_log_of_a_job_that_is_over_is_erased_and_the_job_stays(world: StoreWorld) -> None:
    worker, job = await world.running()
    store, entry = (
        ErasureStore(world.shard),
        encode_entry(who="ada", action="job.erase_log", target=job.job_id, before=None, after=None),
    )
    await save(world, worker, job, lines(1, "for José"))
    async with world.unchanged():
        with pytest.raises(StateConflict) as refused:
            await store.erase_log(job.job_id, entry)
    assert refused.value.state is JobState.RUNNING
    await world.settlements.settle_success(worker, [(job.job_id, job.token, b"\xc0")])
    world.pass_ms(OVER_MS - 1_000)
    async with world.unchanged():
        assert await store.erase_log(job.job_id, entry) == 1_000
    world.pass_ms(1_000)
    assert await store.erase_log(job.job_id, entry) == 0
    assert await texts(world, job.job_id) == []
    assert await sizes(world) == 0
    assert await world.redis.zscore(world.shard.keys.log_erasures, job.job_id) is None
    (written,) = (await AuditStore(world.shard).page(limit=1, cursor=None)).entries
    assert (written.action, written.target) == ("job.erase_log", job.job_id)
    assert (await world.get(job.job_id)).state is JobState.SUCCEEDED
    async with world.unchanged():
        with pytest.raises(KeyError):
            await store.erase_log(new_id(), entry)


async def test_the_part_of_an_erased_log_that_is_in_the_archive_is_to_be_removed(world: StoreWorld) -> None:
    worker, job = await world.running()
    await save(world, worker, job, lines(1, "for José"))
    await world.settlements.settle_success(worker, [(job.job_id, job.token, b"\xc0")])
    world.pass_ms(OVER_MS)
    await world.redis.hset(world.shard.keys.log(job.job_id), mapping={"archived": 1, "ref": "here"})
    assert await ErasureStore(world.shard).erase_log(job.job_id, ENTRY) == 0
    assert await world.redis.zscore(world.shard.keys.log_erasures, job.job_id) == world.now_ms
