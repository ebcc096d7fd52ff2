"""page.lua and the lists built on it."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jqmaster.domain.jobs.failure_group import failure_group_id
from jqmaster.domain.jobs.job import LISTED, Cause, Job, JobState
from jqmaster.domain.jobs.job_filter import JobFilter
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.errors import InvalidError
from jqmaster.store import codec
from jqmaster.store.health import inspect
from jqmaster.store.jobs.settlements import Settlement
from tests.store.jobs.test_claim import damage
from tests.store.jobs.test_operator_actions import job_in
from tests.support.batches import Batches
from tests.support.store import StoreWorld


async def all_pages(world: StoreWorld, wanted: JobFilter, limit: int) -> list[list[Job]]:
    pages, cursor = [], None
    while True:
        found = await world.inspector.scan(wanted, limit=limit, cursor=cursor)
        pages.append(found.jobs)
        cursor = found.cursor
        if cursor is None:
            return pages


async def one_page(
    world: StoreWorld, wanted: JobFilter, *, limit: int, cursor: str | None
) -> tuple[list[Job], str | None]:
    found = await world.inspector.scan(wanted, limit=limit, cursor=cursor)
    return found.jobs, found.cursor


@pytest.mark.req("J15")
async def test_pages_give_every_job_once_in_order(world: StoreWorld) -> None:
    jobs = [await job_in(world, s, name=f"n-{s}", priority=n) for n, s in enumerate(JobState)]
    jobs += [await world.get(i) for i in await world.enqueue_many(130, "many", priority=3)]
    for limit in (1, 7, 50, 1_000):
        pages = await all_pages(world, JobFilter(), limit)
        assert all(len(page) <= limit for page in pages)
        # The predecessor of the job that awaits others does not count.
        listed = [job.id for page in pages for job in page if job.name != "predecessor"]
        assert sorted(listed) == sorted(job.id for job in jobs)
        order = list(dict.fromkeys([(await world.get(i)).state for i in listed]))
        assert order == list(LISTED)
        many = [job.id for job in jobs[len(JobState) :]]
        assert [job_id for job_id in listed if job_id in set(many)] == many


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
    page, cursor = await one_page(world, JobFilter(), limit=4, cursor=None)
    assert [job.id for job in page] == ids[:4]
    for job_id in (ids[3], ids[5]):
        await world.operator_actions.delete(job_id)
    page, cursor = await one_page(world, JobFilter(), limit=4, cursor=cursor)
    assert [job.id for job in page] == [ids[4], *ids[6:9]]
    # The whole index disappeared meanwhile.
    for job_id in ids:
        if await world.records.get(job_id):
            await world.operator_actions.cancel(job_id)
    page, cursor = await one_page(world, JobFilter(), limit=100, cursor=cursor)
    assert len(page) == 8
    assert cursor is None


async def test_a_lane_that_vanished_is_gone_on_from(world: StoreWorld) -> None:
    first = await world.enqueue("a")
    others = [await world.enqueue("b"), await world.enqueue("c", delay_ms=1)]
    page, cursor = await one_page(world, JobFilter(), limit=1, cursor=None)
    assert [job.id for job in page] == [first]
    await world.operator_actions.delete(first)
    page, _ = await one_page(world, JobFilter(), limit=9, cursor=cursor)
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
    assert set(await world.records.get_without_argument(ids)) == {ids[5]}
    worker = await world.worker()
    await world.claim(worker)
    for job_id in ids[:5]:
        await world.operator_actions.delete(job_id)


async def test_counts_are_those_of_the_indexes(world: StoreWorld) -> None:
    assert await world.inspector.counts() == dict.fromkeys(JobState, 0)
    for n, state in enumerate(JobState):
        for _ in range(n % 3 + 1):
            await job_in(world, state, name=f"n-{state}")
    expected = {state: n % 3 + 1 for n, state in enumerate(JobState)}
    # Each job that awaits others has a predecessor, which is ready.
    expected[JobState.READY] += expected[JobState.AWAITING_JOBS]
    assert await world.inspector.counts() == expected


@pytest.mark.parametrize(
    "cursor",
    ["x", "äö", "AAAA", "=" * 8, base64.urlsafe_b64encode(b"\x05" + bytes(44) + b"epoch").decode()],
)
async def test_a_cursor_that_no_page_gave_is_refused(world: StoreWorld, cursor: str) -> None:
    with pytest.raises(InvalidError) as refused:
        await world.inspector.scan(JobFilter(), limit=1, cursor=cursor)
    assert refused.value.code == "invalid_cursor"


@given(raw=st.binary(max_size=80), text=st.text(max_size=30))
def test_hostile_cursors_are_invalid_and_nothing_worse(raw: bytes, text: str) -> None:
    for cursor in (base64.urlsafe_b64encode(raw).decode(), text):
        with pytest.raises(InvalidError):
            inspect._decode_cursor(cursor, "{t}:")


@pytest.mark.req("J15")
async def test_ends_are_found_by_time_without_looking_at_others(world: StoreWorld) -> None:
    at_ms, ended = [], []
    await world.enqueue_many(40)
    worker = await world.worker(max_jobs=40)
    for job in await world.claim(worker, limit=40):
        world.pass_ms(10)
        at_ms.append(world.now_ms)
        ended.append(job.job_id)
        await world.fail(worker, job)
    waiting = await world.enqueue()
    wanted = JobFilter(finished_after_ms=at_ms[10], finished_before_ms=at_ms[20])
    found = await world.inspector.scan(wanted, limit=50, cursor=None)
    assert [job.id for job in found.jobs] == ended[10:21]
    assert (found.looked_at, found.cursor) == (11, None)
    pages = await all_pages(world, wanted, 4)
    assert [job.id for page in pages for job in page] == [job.id for job in found.jobs]
    found = await world.inspector.scan(JobFilter(created_after_ms=world.now_ms), limit=50, cursor=None)
    assert [job.id for job in found.jobs] == [ended[-1], waiting][1:]
    assert not (await world.inspector.scan(JobFilter(created_before_ms=1), limit=50, cursor=None)).jobs


@pytest.mark.req("J15")
async def test_jobs_are_found_by_what_their_last_error_said(world: StoreWorld) -> None:
    _, never = await world.running("never")
    worker, first = await world.running("mail")
    job = await world.get(first.job_id)
    entry = codec.encode_attempt(job, "failure", "connection to 10.0.0.1 refused", None)
    decision = Decision(JobState.FAILED, "failure", cause=Cause.ERROR, is_counted=True)
    await world.settlements.settle(worker, [Settlement(job.id, first.token, decision, entry, b"x")])
    other_worker, other = await world.running("mail")
    await world.fail(other_worker, other)
    group = failure_group_id("mail", "error", "connection to 192.168.3.4 refused")
    for wanted, expected in (
        (JobFilter(text="refused"), {job.id}), (JobFilter(text="message"), {other.job_id}),
        (JobFilter(text="x"), set()),
        (JobFilter(failure_group=group), {job.id}), (JobFilter(failure_group="0" * 16), set()),
        (JobFilter(failure_group=group, state=JobState.RUNNING), set()), (JobFilter(cause=Cause.LOST), set()),
        (JobFilter(cause=Cause.ERROR), {job.id, other.job_id}), (JobFilter(text="refused", name="never"), set()),
    ):  # fmt: skip
        assert {j.id for page in await all_pages(world, wanted, 10) for j in page} == expected, wanted
    assert await world.state(never.job_id) == JobState.RUNNING


async def test_counting_is_bounded(world: StoreWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.enqueue_many(130, tags=("x",))
    monkeypatch.setattr(inspect, "MAX_LOOKED_AT", 50)
    exact = await world.inspector.count(JobFilter(tag="x"), list(JobState))
    assert (exact.count, exact.is_exact, len(exact.examples)) == (130, True, 5)
    late = await world.inspector.count(JobFilter(tag="x"), list(JobState), is_late=lambda: True)
    assert (late.count, late.is_exact) == (50, False)
    monkeypatch.setattr(inspect, "MAX_COUNTED", 100)
    many = await world.inspector.count(JobFilter(tag="x"), list(JobState))
    assert (many.count, many.is_exact) == (100, False)
    alike = await world.inspector.count(JobFilter(state=JobState.READY), list(JobState))
    assert (alike.count, alike.is_exact) == (130, True)


async def test_names_with_ready_jobs_are_counted(world: StoreWorld) -> None:
    await world.enqueue_many(3, "mail")
    await world.enqueue_many(1, "scan")
    assert await world.inspector.names_ready(10) == {"mail": 3, "scan": 1}
    assert await world.inspector.ready_counts(["scan", "other"]) == {"scan": 1, "other": 0}
    assert await world.inspector.ready_counts([]) == {}


async def test_the_cursor_of_another_list_is_refused(world: StoreWorld) -> None:
    await world.enqueue_many(3)
    _, cursor = await one_page(world, JobFilter(), limit=1, cursor=None)
    with pytest.raises(InvalidError) as refused:
        await world.inspector.scan(JobFilter(), limit=1, cursor=cursor, states=[JobState.FAILED])
    assert refused.value.code == "invalid_cursor"


async def test_the_load_is_what_is_ready_and_what_runs(world: StoreWorld) -> None:
    await world.running("mail")
    await world.enqueue_many(2, "scan")
    assert await world.inspector.load() == (2, 1)


@pytest.mark.req("S7", "J15")
async def test_the_members_of_a_batch_are_scanned_and_counted_by_their_index(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = await Batches(world).make()
    await world.enqueue_many(100)
    members = [await world.enqueue(batch=batch, delay_ms=5000 * (n % 2)) for n in range(12)]
    wanted = JobFilter(batch=batch)
    pages = await all_pages(world, wanted, 5)
    assert [job.id for page in pages for job in page] == members
    found = await world.inspector.scan(wanted, limit=50, cursor=None, states=[JobState.SCHEDULED])
    assert ([job.id for job in found.jobs], found.looked_at) == (members[1::2], 12)
    assert (await world.inspector.count(wanted, [JobState.READY])).count == 6
    counted = await world.inspector.count_members(wanted, is_late=lambda: True)
    assert {state: (one.count, one.is_exact) for state, one in counted.items() if one.count} == {
        JobState.READY: (6, True),
        JobState.SCHEDULED: (6, True),
    }
    monkeypatch.setattr(inspect, "MAX_LOOKED_AT", 5)
    late = await world.inspector.count_members(wanted, is_late=lambda: True)
    assert (sum(one.count for one in late.values()), late[JobState.READY].is_exact) == (5, False)


@pytest.mark.req("S7", "J15")
async def test_a_cursor_of_the_members_of_a_batch_is_of_that_batch_alone(world: StoreWorld) -> None:
    batch, other = await Batches(world).make(), await Batches(world).make()
    await world.enqueue_many(3, batch=batch)
    cursor = (await world.inspector.scan(JobFilter(batch=batch), limit=1, cursor=None)).cursor
    for wanted in (JobFilter(), JobFilter(batch=other)):
        with pytest.raises(InvalidError, match="cursor was not returned"):
            await world.inspector.scan(wanted, limit=1, cursor=cursor)
