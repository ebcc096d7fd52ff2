"""Unique and debounced jobs."""

import asyncio

import pytest

from tests.support import real_time
from worker_sdk import (
    Context,
    Debounce,
    Duplicate,
    Pusher,
    SyncPusher,
    Tasks,
    Unique,
    Worker,
    is_duplicate,
    is_replaced,
    make_job,
)
from worker_sdk.tasks.contract import contract_of

pytestmark = [real_time.MASTER, pytest.mark.req("S7")]


async def test_a_second_job_is_refused_and_the_first_is_named(pusher: Pusher) -> None:
    first = await pusher.enqueue("report", 42, unique=Unique("user:42"))
    with pytest.raises(Duplicate) as refused:
        await pusher.enqueue("report", 42, unique=Unique("user:42"))
    assert refused.value.job_id == first
    assert refused.value.code == "not_unique"
    await pusher.cancel(first)
    assert await pusher.enqueue("report", 42, unique=Unique("user:42")) != first


async def test_the_id_of_the_existing_job_is_returned(pusher: Pusher) -> None:
    first = await pusher.enqueue("report", 42, unique=Unique(on_conflict="existing"))
    again = await pusher.enqueue("report", 42, unique=Unique(on_conflict="existing"))
    assert (again, is_duplicate(again), is_replaced(again)) == (first, True, False)
    assert not is_duplicate(first)


async def test_a_waiting_job_is_replaced(pusher: Pusher) -> None:
    rule = Unique("k", on_conflict="replace")
    first = await pusher.enqueue("report", "old", unique=rule)
    again = await pusher.enqueue("report", "new", unique=rule)
    assert (again, is_replaced(again)) == (first, True)
    assert (await pusher.status(first))["argument"] == "new"


async def test_a_debounced_job_waits_for_the_last_push(pusher: Pusher) -> None:
    rule = Debounce(wait_s=60, max_s=600, key="post:1")
    first = await pusher.enqueue("index", 1, debounce=rule)
    assert is_replaced(await pusher.enqueue("index", 2, debounce=rule))
    view = await pusher.status(first)
    assert (view["state"], view["argument"]) == ("scheduled", 2)
    assert view["unique"]["debounce"] == {"wait_s": 60, "max_s": 600}


@pytest.mark.req("S3")
async def test_many_jobs_are_judged_one_by_one(url: str, pusher: Pusher) -> None:
    first = await pusher.enqueue("report", 0, unique=Unique("k"))
    jobs = [
        make_job("report", 1),
        make_job("report", 2, unique=Unique("k", on_conflict="existing")),
        make_job("report", 3, unique=Unique("k", on_conflict="replace")),
    ]
    ids = await pusher.enqueue_many(jobs)
    assert ids == [jobs[0]["id"], first, first]
    assert [is_duplicate(one) for one in ids] == [False, True, False]
    assert [is_replaced(one) for one in ids] == [False, False, True]
    refusing = [make_job("report", 4), make_job("report", 5, unique=Unique("k"))]
    with SyncPusher(url) as sync_pusher, pytest.raises(Duplicate) as refused:
        await asyncio.to_thread(sync_pusher.enqueue_many, refusing)
    assert refused.value.job_id == first
    assert list(refused.value.errors[0]["loc"]) == ["jobs", 1, "unique"]


async def test_a_task_is_unique_wherever_it_is_enqueued(url: str, pusher: Pusher) -> None:
    tasks = Tasks(master=url)

    @tasks.task("fill.cache", unique=Unique(on_conflict="existing"))
    async def fill(page: int) -> None: ...

    # Workers report this rule with the contract of the task.
    assert contract_of(fill)["options"]["unique"]["on_conflict"] == "existing"
    first = await fill.aenqueue(1)
    again = await fill.aenqueue(page=1)
    assert (again.id, again.is_duplicate, first.is_duplicate) == (first.id, True, False)
    assert not (await fill.aenqueue(2)).is_duplicate
    with pytest.raises(Duplicate):
        await fill.using(unique=Unique()).aenqueue(1)
    await tasks.aclose()


@pytest.mark.req("J16")
async def test_a_handler_enqueues_unique_jobs(url: str, pusher: Pusher) -> None:
    worker = Worker(url)
    found: list[str] = []

    @worker.handler("outer")
    async def outer(argument: object, ctx: Context) -> str:
        rule = Unique(on_conflict="existing")
        found.extend([await ctx.enqueue("inner", 1, unique=rule) for _ in range(2)])
        return found[1]

    async with worker.running():
        job_id = await pusher.enqueue("outer", keep_result=True)
        result = await pusher.result(job_id, wait=20)
    assert result is not None
    assert found[0] == found[1] == result.result
    assert is_duplicate(found[1])


@pytest.mark.parametrize(
    "fields", [{"scope": "for_ever"}, {"on_conflict": "drop"}, {"scope": "window"}, {"ttl_s": 5.0}]
)
def test_a_rule_that_makes_no_sense_is_refused_where_it_is_written(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"scope|on_conflict"):
        Unique(**fields)  # type: ignore[arg-type]
