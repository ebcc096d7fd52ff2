"""page.lua and the lists built on it."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jqmaster.domain.job import Job, JobState
from jqmaster.domain.job_filter import JobFilter
from jqmaster.errors import InvalidError
from jqmaster.store import inspect
from tests.store.test_claim import damage
from tests.store.test_steering import job_in
from tests.support.store import StoreWorld


async def all_pages(world: StoreWorld, wanted: JobFilter, limit: int) -> list[list[Job]]:
    pages, cursor = [], None
    while True:
        jobs, cursor = await world.inspector.page(wanted, limit=limit, cursor=cursor)
        pages.append(jobs)
        if cursor is None:
            return pages


@pytest.mark.req("J15")
async def test_pages_give_every_job_once_in_order(world: StoreWorld) -> None:
    jobs = [await job_in(world, s, name=f"n-{s}", priority=n) for n, s in enumerate(JobState)]
    jobs += [await world.get(i) for i in await world.enqueue_many(130, "many", priority=3)]
    for limit in (1, 7, 50, 1_000):
        pages = await all_pages(world, JobFilter(), limit)
        assert all(len(page) <= limit for page in pages)
        listed = [job.id for page in pages for job in page]
        assert sorted(listed) == sorted(job.id for job in jobs)
        order = list(dict.fromkeys([(await world.get(i)).state for i in listed]))
        assert order == list(inspect._ORDER)
        ready = [i for i in listed if i in {j.id for j in jobs[8:]}]
        assert ready == [j.id for j in jobs[8:]]


async def test_filters_select_and_combine(world: StoreWorld) -> None:
    first = await world.enqueue("mail.send", tags=("x", "y"))
    second = await world.enqueue("mail.drop", tags=("x",), delay_ms=5)
    worker, running = await world.running("crawl")
    for wanted, expected in (
        (JobFilter(name="mail.send"), {first}), (JobFilter(tag="x"), {first, second}), (JobFilter(tag="z"), set()),
        (JobFilter(q="mail"), {first, second}), (JobFilter(q=second[-9:]), {second}),
        (JobFilter(worker=worker), {running.job_id}), (JobFilter(state=JobState.READY), {first}),
        (JobFilter(state=JobState.SCHEDULED, worker=worker), set()),
        (JobFilter(state=JobState.READY, name="mail.drop"), set()),
        (JobFilter(state=JobState.SCHEDULED, name="mail.drop", tag="x", q="drop"), {second}),
    ):  # fmt: skip
        pages = await all_pages(world, wanted, 10)
        assert {job.id for page in pages for job in page} == expected, wanted


@pytest.mark.req("J15")
async def test_a_page_goes_on_where_the_last_one_ended_though_jobs_move(world: StoreWorld) -> None:
    ids = await world.enqueue_many(10, delay_ms=1)
    page, cursor = await world.inspector.page(JobFilter(), limit=4, cursor=None)
    assert [job.id for job in page] == ids[:4]
    for job_id in (ids[3], ids[5]):
        await world.jobs.delete(job_id)
    page, cursor = await world.inspector.page(JobFilter(), limit=4, cursor=cursor)
    assert [job.id for job in page] == [ids[4], *ids[6:9]]
    # The whole index vanished meanwhile.
    for job_id in ids:
        if await world.jobs.get(job_id):
            await world.jobs.cancel(job_id)
    page, cursor = await world.inspector.page(JobFilter(), limit=100, cursor=cursor)
    assert len(page) == 8
    assert cursor is None


async def test_a_lane_that_vanished_is_gone_on_from(world: StoreWorld) -> None:
    first = await world.enqueue("a")
    others = [await world.enqueue("b"), await world.enqueue("c", delay_ms=1)]
    page, cursor = await world.inspector.page(JobFilter(), limit=1, cursor=None)
    assert [job.id for job in page] == [first]
    await world.jobs.delete(first)
    page, _ = await world.inspector.page(JobFilter(), limit=9, cursor=cursor)
    assert [job.id for job in page] == others


async def test_a_rare_match_costs_bounded_pages(world: StoreWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect, "MAX_LOOKED_AT", 100)
    await world.enqueue_many(250)
    rare = await world.enqueue(tags=("rare",))
    pages = await all_pages(world, JobFilter(tag="rare"), 10)
    assert [len(page) for page in pages] == [0, 0, 1]
    assert pages[-1][0].id == rare


async def test_damaged_records_do_not_stop_a_list(world: StoreWorld) -> None:
    ids = await world.enqueue_many(6)
    for job_id, how in zip(ids, ("gone", "wrong type", "no name", "half a name", "version"), strict=False):
        await damage(world, job_id, how)
    (page,) = await all_pages(world, JobFilter(), 10)
    assert [job.id for job in page] == [ids[5]]
    assert set(await world.jobs.get_without_argument(ids)) == {ids[5]}
    worker = await world.worker()
    await world.claim(worker)
    for job_id in ids[:5]:
        await world.jobs.delete(job_id)


async def test_counts_are_those_of_the_indexes(world: StoreWorld) -> None:
    assert await world.inspector.counts() == dict.fromkeys(JobState, 0)
    for n, state in enumerate(JobState):
        for _ in range(n % 3 + 1):
            await job_in(world, state, name=f"n-{state}")
    counts = await world.inspector.counts()
    assert counts == {state: n % 3 + 1 for n, state in enumerate(JobState)}


@pytest.mark.parametrize(
    "cursor",
    ["x", "äö", "AAAA", "=" * 8, base64.urlsafe_b64encode(b"\x05" + bytes(44) + b"epoch").decode()],
)
async def test_a_cursor_that_no_page_gave_is_refused(world: StoreWorld, cursor: str) -> None:
    with pytest.raises(InvalidError) as refused:
        await world.inspector.page(JobFilter(), limit=1, cursor=cursor)
    assert refused.value.code == "invalid_cursor"


@given(raw=st.binary(max_size=80), text=st.text(max_size=30))
def test_hostile_cursors_are_invalid_and_nothing_worse(raw: bytes, text: str) -> None:
    for cursor in (base64.urlsafe_b64encode(raw).decode(), text):
        with pytest.raises(InvalidError):
            inspect._decode_cursor(cursor, "{t}:")
