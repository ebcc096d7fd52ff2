"""Order: a job runs when those for which it waits are over, and has their results."""

import asyncio

import pytest

from tests.support import real_time
from worker_sdk import INJECTED, After, Context, JobSkipped, Tasks, Worker

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

        self.count, self.total, self.report = count, total, report


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
