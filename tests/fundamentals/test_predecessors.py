"""Order: a job runs when the jobs that it waits for are over, and gets their results."""

import asyncio

import pytest

from tests.support import long, real_time
from worker_sdk import (
    INJECTED,
    INPUT,
    INPUTS,
    After,
    Context,
    Flow,
    JobSkipped,
    Pusher,
    RefusedError,
    Tasks,
    Worker,
    chain,
    chord,
    group,
    make_job,
)

pytestmark = [real_time.MASTER, pytest.mark.req("P9")]


class Words:
    """Tasks that count words and report what they found."""

    def __init__(self, url: str) -> None:
        self.tasks = Tasks(master=url)

        @self.tasks.task("words.count", max_retry=0)
        async def count(text: str) -> int:
            if not text:
                raise ValueError("no text")
            return len(text.split())

        @self.tasks.task("words.total", keep_result=True)
        async def total(ctx: Context = INJECTED) -> int:
            return sum(ctx.inputs.results_of(self.count))

        @self.tasks.task("words.report", keep_result=True)
        def report(ctx: Context = INJECTED) -> list[str]:
            return [f"{one.state} {one.outcome.message if one.outcome else ''}" for one in ctx.inputs]

        @self.tasks.task("words.double", keep_result=True)
        async def double(number: int = INPUT) -> int:
            return 2 * number

        @self.tasks.task("words.sum", keep_result=True)
        def sum_up(numbers: list[int] = INPUTS, *, start: int = 0) -> int:
            return sum(numbers, start)

        self.count, self.total, self.report = count, total, report
        self.double, self.sum_up = double, sum_up


@pytest.mark.parametrize("pull", [False, True])
async def test_a_job_has_the_results_of_those_for_which_it_waited(url: str, pull: bool) -> None:
    words = Words(url)
    first = await words.count.aenqueue("one two")
    second = await words.count.aenqueue("three")
    last = await words.total.using(after=[first, second]).aenqueue()
    async with Worker(url, tasks=words.tasks, pull=pull).running():
        assert await last.aget(20) == 3
    await words.tasks.aclose()


async def test_a_job_whose_predecessor_fails_is_skipped_unless_it_runs_in_any_case(url: str) -> None:
    words = Words(url)
    first = await words.count.aenqueue("")
    skipped = await words.total.using(after=first).aenqueue()
    report = await words.report.using(after=After([first, skipped], when="finished")).aenqueue()
    assert report.status == "awaiting_jobs"
    async with Worker(url, tasks=words.tasks).running():
        assert await report.aget(20) == ["failed ValueError: no text", "skipped "]
        with pytest.raises(JobSkipped) as told:
            await asyncio.wait_for(skipped.aget(), 20)
        assert (told.value.cause, told.value.skipped_by) == ("dependency", first.id)
    await words.tasks.aclose()


async def test_a_chain_hands_each_result_to_the_next_step(url: str) -> None:
    words = Words(url)
    async with Worker(url, tasks=words.tasks).running():
        handles = await chain(
            words.count.to_job("one two"), words.double.to_job(), words.double.to_job()
        ).aenqueue()
        assert await handles.last.aget(20) == 8
    await words.tasks.aclose()


async def test_threads_enqueue_a_chord_and_its_callback_gets_all_results(url: str) -> None:
    words = Words(url)
    flow = chord([words.count.to_job("x " * n) for n in (1, 2, 3)], words.sum_up.to_job(start=100))
    async with Worker(url, tasks=words.tasks).running():
        handles = await asyncio.to_thread(flow.enqueue)
        assert await asyncio.to_thread(handles.last.get, 20) == 106
    await words.tasks.aclose()


@pytest.mark.sized
async def test_a_large_flow_goes_in_one_call_and_again(url: str, pusher: Pusher) -> None:
    width = long.size(39, 149)
    words = Words(url)
    begin = words.count.to_job("one")
    flow = chain(
        begin,
        group(chord([words.double.to_job() for _ in range(width)], words.sum_up.to_job()) for _ in range(10)),
        words.sum_up.to_job(),
    )
    assert len(flow) == 10 * (width + 1) + 2
    handles = await flow.aenqueue()
    assert handles.last.status == "awaiting_jobs"
    assert [one.id for one in await flow.aenqueue()] == [one.id for one in handles]
    async with Worker(url, tasks=words.tasks, max_jobs=50).running():
        assert await handles.last.aget(60) == 20 * width
    assert (await pusher.status(begin.id))["state"] == "succeeded"
    await words.tasks.aclose()


async def test_a_flow_that_is_refused_leaves_no_job(url: str, pusher: Pusher) -> None:
    words = Words(url)
    flow = Flow()
    first = flow.add(words.count.to_job("one"))
    flow.add(make_job("words.double", max_retry=-1), after=first)
    with pytest.raises(RefusedError, match="max_retry"):
        await flow.aenqueue()
    unknown = words.double.using(after="0199a0c4-0000-7000-8000-000000000001").to_job()
    with pytest.raises(RefusedError, match="no job has the ID"):
        await group(first, unknown).aenqueue()
    with pytest.raises(RefusedError) as refused:
        await pusher.status(first.id)
    assert refused.value.status == 404
    with pytest.raises(ValueError, match="one call takes at most 10,000 jobs"):
        await pusher.enqueue_many([("words.count", "")] * 10_001, in_one_call=True)
    await words.tasks.aclose()
