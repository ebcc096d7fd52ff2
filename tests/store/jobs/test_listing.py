"""ready_by_age.lua, running_by_start.lua, and the lists in order of time that are merged from them."""

import base64
import random

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import FINISHED, Job, JobState, StateGroup
from jqmaster.domain.jobs.job_filter import JobFilter
from jqmaster.domain.matching.matcher import parse_matcher
from jqmaster.errors import InvalidError
from jqmaster.store.jobs import listing
from jqmaster.store.jobs.enqueue_outcomes import Accepted
from tests.store.jobs.test_claim import damage
from tests.store.jobs.test_operator_actions import job_in
from tests.support.batches import Batches
from tests.support.store import StoreWorld

AHEAD = (JobState.SCHEDULED, JobState.RETRYING, JobState.AWAITING_CALLBACK)


async def all_pages(
    world: StoreWorld, wanted: JobFilter, limit: int, *, is_backward: bool = False
) -> list[list[Job]]:
    pages, cursor = [], None
    while True:
        page = await world.lists.page(wanted, limit=limit, cursor=cursor, is_backward=is_backward)
        pages.append(page.jobs)
        assert not page.is_partial
        cursor = page.cursor
        if cursor is None:
            return pages


async def listed(
    world: StoreWorld, wanted: JobFilter, limit: int = 50, *, is_backward: bool = False
) -> list[str]:
    pages = await all_pages(world, wanted, limit, is_backward=is_backward)
    assert all(len(page) <= limit for page in pages)
    return [job.id for page in pages for job in page]


def instant_of(job: Job) -> int:
    if job.state in FINISHED:
        return job.finished_at_ms
    if job.state is JobState.RUNNING:
        return job.started_at_ms
    if job.state is JobState.AWAITING_JOBS:
        return job.created_at_ms
    return job.due_at_ms if job.state in AHEAD else int(job.id.replace("-", "")[:12], 16)


@pytest.mark.req("J15")
@pytest.mark.parametrize("limit", [1, 7, 500])
async def test_ready_jobs_are_listed_by_age_across_names_and_priorities(
    world: StoreWorld, limit: int
) -> None:
    chance = random.Random(7)
    ids = [
        await world.enqueue(f"name-{chance.randrange(9)}", priority=chance.randrange(-3, 3))
        for _ in range(120)
    ]
    assert await listed(world, JobFilter(), limit) == ids
    assert await listed(world, JobFilter(), limit, is_backward=True) == ids[::-1]
    of_one = [i for i in ids if (await world.get(i)).name == "name-4"]
    wanted = JobFilter(name="name-4", state=JobState.READY)
    assert await listed(world, wanted, limit, is_backward=True) == of_one[::-1]


@pytest.mark.req("J15")
@pytest.mark.parametrize("limit", [1, 3, 500])
async def test_a_list_of_all_states_is_in_the_order_of_time(world: StoreWorld, limit: int) -> None:
    jobs = []
    for n in range(3):
        for state in random.Random(n).sample(list(JobState), len(JobState)):
            jobs.append(await job_in(world, state, name=f"n-{state}", priority=n))
            world.pass_ms(20)
    behind = sorted((j for j in jobs if j.state not in AHEAD), key=lambda j: (instant_of(j), j.id))
    ahead = sorted((j for j in jobs if j.state in AHEAD), key=lambda j: (instant_of(j), j.id))
    made = {j.id for j in jobs}

    async def shown(wanted: JobFilter, *, is_backward: bool = False) -> list[str]:
        # Ignore the predecessors of jobs that await others.
        return [i for i in await listed(world, wanted, limit, is_backward=is_backward) if i in made]

    assert await shown(JobFilter()) == [j.id for j in [*behind, *ahead]]
    assert await shown(JobFilter(), is_backward=True) == [j.id for j in [*behind[::-1], *ahead[::-1]]]
    for state in JobState:
        of_state = [j.id for j in [*behind, *ahead] if j.state is state]
        assert await shown(JobFilter(state=state)) == of_state
        assert await shown(JobFilter(state=state), is_backward=True) == of_state[::-1]


@pytest.mark.req("J15", "J19")
async def test_a_list_can_begin_at_the_jobs_that_wait_for_an_instant(world: StoreWorld) -> None:
    jobs = []
    for n in range(2):
        for state in JobState:
            jobs.append(await job_in(world, state, name=f"n-{state}", priority=n))
            world.pass_ms(20)
    ahead = sorted((j for j in jobs if j.state in AHEAD), key=lambda j: (instant_of(j), j.id))
    wanted = JobFilter(group=StateGroup.WAITING)
    waiting = [j.id for j in ahead if j.state is not JobState.AWAITING_CALLBACK]
    for is_backward in (False, True):
        cursor = listing.first_ahead(is_backward=is_backward)
        page = await world.lists.page(wanted, limit=50, cursor=cursor, is_backward=is_backward)
        assert [job.id for job in page.jobs] == (waiting[::-1] if is_backward else waiting)
    # A cursor tells how far the list has been read.
    cursor = listing.first_ahead(is_backward=False)
    page = await world.lists.page(wanted, limit=1, cursor=cursor, is_backward=False)
    assert page.cursor is not None
    assert listing.reached_ms(page.cursor) == instant_of(page.jobs[0])


@pytest.mark.req("J15")
async def test_running_jobs_are_listed_by_their_start_and_not_by_their_leases(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "RUNNING_PER_CALL", 3)
    first_worker, second_worker = await world.worker(max_jobs=20), await world.worker(max_jobs=20)
    ids = []
    for n in range(10):
        ids.append(await world.enqueue(priority=-n))
        await world.claim(first_worker if n % 2 else second_worker)
        world.pass_ms(5)
    assert await listed(world, JobFilter(state=JobState.RUNNING), 4) == ids
    assert await listed(world, JobFilter(), 3, is_backward=True) == ids[::-1]


@pytest.mark.req("J15")
async def test_a_page_goes_on_where_the_last_one_ended_though_jobs_move(world: StoreWorld) -> None:
    ids = await world.enqueue_many(10)
    page = await world.lists.page(JobFilter(), limit=4, cursor=None, is_backward=False)
    assert [job.id for job in page.jobs] == ids[:4]
    for job_id in (ids[3], ids[5]):
        await world.operator_actions.delete(job_id)
    page = await world.lists.page(JobFilter(), limit=4, cursor=page.cursor, is_backward=False)
    assert [job.id for job in page.jobs] == [ids[4], *ids[6:9]]
    for job_id in ids[6:]:
        await world.operator_actions.delete(job_id)
    page = await world.lists.page(JobFilter(), limit=4, cursor=page.cursor, is_backward=False)
    assert (page.jobs, page.cursor) == ([], None)


async def test_a_rare_match_costs_bounded_pages(world: StoreWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MAX_LOOKED_AT", 100)
    rare = await world.enqueue(tags=("rare",))
    await world.enqueue_many(250)
    pages = await all_pages(world, JobFilter(tag="rare"), 10, is_backward=True)
    assert [len(page) for page in pages] == [0, 0, 1]
    assert pages[-1][0].id == rare
    page = await world.lists.page(
        JobFilter(tag="rare"), limit=10, cursor=None, is_backward=True, is_late=lambda: True
    )
    assert (page.jobs, page.looked_at) == ([], listing.SHORTEST_STEP)
    assert page.cursor


async def test_more_lanes_and_priorities_than_one_call_takes(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call reads 1,000 runs of one priority; the next goes on within the lane."""
    specs = [world.spec(f"n-{n}", priority=priority) for n in range(2) for priority in range(750)]
    assert set(await world.acceptance.enqueue(specs)) == {Accepted.NEW}
    ids = [spec.id for spec in specs]
    assert await listed(world, JobFilter(), 500) == ids
    assert await listed(world, JobFilter(), 500, is_backward=True) == ids[::-1]
    monkeypatch.setattr(listing, "MAX_LANE_CALLS", 1)
    page = await world.lists.page(JobFilter(), limit=10, cursor=None, is_backward=False)
    assert page.is_partial


async def test_damaged_records_do_not_stop_a_list(world: StoreWorld) -> None:
    ids = await world.enqueue_many(6)
    for job_id, how in zip(ids, ("gone", "wrong type", "no name", "half a name", "version"), strict=False):
        await damage(world, job_id, how)
    assert await listed(world, JobFilter()) == [ids[5]]
    worker = await world.worker()
    await world.claim(worker)
    for job_id in ids[:5]:
        await world.operator_actions.delete(job_id)


@given(raw=st.binary(max_size=80), text=st.text(max_size=30))
def test_hostile_cursors_are_invalid_and_nothing_worse(raw: bytes, text: str) -> None:
    for cursor in (base64.urlsafe_b64encode(raw).decode(), text):
        with pytest.raises(InvalidError):
            listing._decode_cursor(cursor)


@pytest.mark.parametrize("ms", [-(2**63), -1, 0, 2**48, 2**63 - 1])
async def test_a_forged_instant_gives_a_page(world: StoreWorld, ms: int) -> None:
    for state in JobState:
        await job_in(world, state, name=f"n-{state}")
    for section in (0, 1, 7):
        cursor = listing._encode_cursor(section, listing.ListPosition(ms, new_id()))
        for is_backward in (False, True):
            await world.lists.page(JobFilter(), limit=5, cursor=cursor, is_backward=is_backward)


async def test_jobs_are_selected_by_their_argument_however_long(world: StoreWorld) -> None:
    ids = [
        await world.enqueue(argument={"host": host, "text": "x" * size})
        for host in "ab"
        for size in (1, 5_000)
    ]
    wanted = JobFilter(matcher=parse_matcher({"field": "argument.host", "op": "eq", "value": "a"}))
    assert await listed(world, wanted) == ids[:2]


async def test_a_cursor_of_another_kind_is_refused(world: StoreWorld) -> None:
    cursor = base64.urlsafe_b64encode(bytes(listing._POSITION.size)).decode()
    with pytest.raises(InvalidError):
        await world.lists.page(JobFilter(), limit=1, cursor=cursor, is_backward=False)


@pytest.mark.req("J15")
async def test_filters_read_arguments_attempts_and_durations(world: StoreWorld) -> None:
    short = await world.enqueue("a", {"tenant": "globex", "pad": "x"})
    long = await world.enqueue("b", {"tenant": "globex", "pad": "x" * 3_000})
    other = await world.enqueue("c", {"tenant": "initech", "pad": "x" * 3_000})
    worker = await world.worker("a")
    (job,) = await world.claim(worker, "a")
    world.pass_ms(700)
    await world.fail(worker, job)
    of_tenant = parse_matcher({"field": "argument.tenant", "op": "eq", "value": "globex"})
    by_name = parse_matcher({"field": "name", "op": "eq", "value": "c"})
    for wanted, expected in (
        (JobFilter(matcher=of_tenant), {short, long}), (JobFilter(matcher=by_name), {other}),
        (JobFilter(matcher=of_tenant, name="b"), {long}), (JobFilter(min_attempt=1), {short}),
        (JobFilter(min_attempt=2), set()), (JobFilter(min_duration_ms=700), {short}),
        (JobFilter(min_duration_ms=701), set()), (JobFilter(max_duration_ms=700), {short}),
        (JobFilter(max_duration_ms=699), set()), (JobFilter(min_duration_ms=0, state=JobState.READY), set()),
    ):  # fmt: skip
        assert set(await listed(world, wanted)) == expected, wanted
        assert JobFilter.of_document(wanted.document()) == wanted
    # A job that never ran took no time.
    canceled = await world.enqueue("d")
    await world.operator_actions.cancel(canceled)
    assert await listed(world, JobFilter(max_duration_ms=10**9)) == [short]


async def test_short_records_are_read_whole_and_long_ones_not_at_all(world: StoreWorld) -> None:
    short = await world.enqueue("work", "x")
    long = await world.enqueue("work", "x" * 3_000)
    damaged = await world.enqueue()
    await damage(world, damaged, "version")
    found = await world.records.get_short([short, long, damaged, new_id()], 2_000)
    assert {job_id: job.argument for job_id, job in found.items()} == {short: msgpack.packb("x")}
    await world.operator_actions.delete(damaged)


async def test_workers_are_named_by_node_and_process(world: StoreWorld) -> None:
    worker = await world.worker()
    assert await world.workers.names_of([worker, new_id()]) == {worker: "node-1:1"}


@pytest.mark.req("S7", "J15")
@pytest.mark.parametrize("limit", [1, 7, 500])
async def test_the_members_of_a_batch_are_listed_by_their_creation_whatever_their_states(
    world: StoreWorld, limit: int
) -> None:
    batch = await Batches(world).make()
    worker = await world.worker()
    await world.enqueue_many(20)
    members = [await world.enqueue(batch=batch, name=f"n{n % 3}", delay_ms=5000 * (n % 2)) for n in range(30)]
    await world.claim(worker, "n0", limit=2)
    assert await listed(world, JobFilter(batch=batch), limit) == members
    assert await listed(world, JobFilter(batch=batch), limit, is_backward=True) == members[::-1]
    scheduled = JobFilter(batch=batch, state=JobState.SCHEDULED)
    assert await listed(world, scheduled, limit) == members[1::2]
    assert await listed(world, JobFilter(batch=batch, name="n1"), limit) == members[1::3]
    assert await listed(world, JobFilter(batch=new_id()), limit) == []
    assert await listed(world, JobFilter(batch=batch, state=JobState.READY, finished_after_ms=1), limit) == []


@pytest.mark.req("S7", "J15")
async def test_the_members_of_a_batch_are_found_without_looking_at_other_jobs(world: StoreWorld) -> None:
    await world.enqueue_many(300)
    batch = await Batches(world).make()
    await world.enqueue_many(4, batch=batch)
    for wanted in (JobFilter(batch=batch), JobFilter(batch=batch, state=JobState.FAILED)):
        page = await world.lists.page(wanted, limit=50, cursor=None, is_backward=True)
        assert (page.looked_at, page.cursor) == (4, None)
