import asyncio
from collections.abc import Sequence

import pytest

from jqmaster.errors import OutcomeUnknownError, OverloadedError
from jqmaster.service.jobs.coalescing import Coalescer
from tests.support import real_time
from tests.support.waiting import wait_until

pytestmark = real_time.LOOPS


class Flushes:
    """Answers each item with itself as text once the gate is open."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.gate = asyncio.Event()
        self.fail_next: Exception | None = None

    async def __call__(self, items: Sequence[int]) -> list[str]:
        self.batches.append(list(items))
        await self.gate.wait()
        if error := self.fail_next:
            self.fail_next = None
            raise error
        return [str(item) for item in items]


def coalescer_of(flushes: Flushes, *, max_batch: int = 100, max_waiting: int = 1000) -> Coalescer[int, str]:
    return Coalescer(flushes, max_batch=max_batch, max_waiting=max_waiting)


def submit(coalescer: Coalescer[int, str], *items: int) -> list[asyncio.Task[str]]:
    return [asyncio.create_task(coalescer.submit(item)) for item in items]


async def test_an_item_goes_out_at_once_when_nothing_is_under_way() -> None:
    flushes = Flushes()
    flushes.gate.set()
    coalescer = coalescer_of(flushes)
    for n in range(3):
        assert await coalescer.submit(n) == str(n)
    assert flushes.batches == [[0], [1], [2]]


async def test_items_that_arrive_while_a_call_is_under_way_go_together_and_in_order() -> None:
    flushes = Flushes()
    coalescer = coalescer_of(flushes)
    tasks = submit(coalescer, 0)
    await wait_until(lambda: flushes.batches)
    tasks += submit(coalescer, *range(1, 8))
    await asyncio.sleep(0)
    assert flushes.batches == [[0]], "one call at a time"
    flushes.gate.set()
    assert await asyncio.gather(*tasks) == [str(n) for n in range(8)]
    assert flushes.batches == [[0], list(range(1, 8))]


async def test_no_batch_is_larger_than_allowed() -> None:
    flushes = Flushes()
    coalescer = coalescer_of(flushes, max_batch=3)
    tasks = submit(coalescer, *range(8))
    flushes.gate.set()
    assert await asyncio.gather(*tasks) == [str(n) for n in range(8)]
    assert [len(batch) for batch in flushes.batches] == [3, 3, 2]


async def test_an_error_reaches_all_of_its_batch_and_nobody_else() -> None:
    flushes = Flushes()
    coalescer = coalescer_of(flushes)
    flushes.fail_next = OutcomeUnknownError("lost")
    first = submit(coalescer, 1, 2)
    await wait_until(lambda: flushes.batches)
    second = submit(coalescer, 3, 4)
    await asyncio.sleep(0)
    flushes.gate.set()
    failed = await asyncio.gather(*first, return_exceptions=True)
    assert [type(error) for error in failed] == [OutcomeUnknownError] * 2
    assert await asyncio.gather(*second) == ["3", "4"]


async def test_too_many_waiting_are_refused_and_told_when_to_come_back() -> None:
    flushes = Flushes()
    coalescer = coalescer_of(flushes, max_batch=1, max_waiting=2)
    tasks = submit(coalescer, 0)
    await wait_until(lambda: flushes.batches)
    tasks += submit(coalescer, 1, 2)
    await asyncio.sleep(0)
    with pytest.raises(OverloadedError) as refused:
        await coalescer.submit(3)
    assert refused.value.retry_after_s
    flushes.gate.set()
    assert await asyncio.gather(*tasks) == ["0", "1", "2"]
    assert await coalescer.submit(4) == "4"


async def test_a_caller_that_goes_away_takes_nothing_from_the_others() -> None:
    flushes = Flushes()
    coalescer = coalescer_of(flushes)
    tasks = submit(coalescer, 0, 1, 2)
    await wait_until(lambda: flushes.batches)
    tasks[1].cancel()
    flushes.gate.set()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert (answers[0], type(answers[1]), answers[2]) == ("0", asyncio.CancelledError, "2")
    assert flushes.batches == [[0, 1, 2]]


async def test_stop_answers_everything_that_was_submitted() -> None:
    flushes = Flushes()
    coalescer = coalescer_of(flushes, max_batch=2)
    await coalescer.start()
    tasks = submit(coalescer, *range(5))
    await wait_until(lambda: flushes.batches)
    stopping = asyncio.create_task(coalescer.stop())
    await asyncio.sleep(0)
    assert not stopping.done()
    flushes.gate.set()
    await stopping
    assert [task.result() for task in tasks] == [str(n) for n in range(5)]


async def test_stop_without_work_returns() -> None:
    await coalescer_of(Flushes()).stop()


async def test_it_works_on_after_a_pause() -> None:
    flushes = Flushes()
    flushes.gate.set()
    coalescer = coalescer_of(flushes)
    assert await asyncio.gather(*submit(coalescer, 1, 2)) == ["1", "2"]
    await coalescer.stop()
    assert await coalescer.submit(3) == "3"


async def test_a_caller_that_finds_nothing_under_way_flushes_its_own_item_without_a_task() -> None:
    flushes = Flushes()
    coalescer = coalescer_of(flushes)
    first = asyncio.create_task(coalescer.lead(0))
    await wait_until(lambda: flushes.batches)
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "coalescer"]
    others = [asyncio.create_task(coalescer.lead(n)) for n in (1, 2)] + submit(coalescer, 3)
    await asyncio.sleep(0)
    assert flushes.batches == [[0]], "one call at a time"
    flushes.gate.set()
    assert await asyncio.gather(first, *others) == [str(n) for n in range(4)]
    assert flushes.batches == [[0], [1, 2, 3]]
    assert await coalescer.lead(4) == "4"


async def test_a_leading_caller_that_fails_or_goes_away_leaves_the_others_to_the_next_flush() -> None:
    flushes = Flushes()
    coalescer = coalescer_of(flushes)
    for ends in (False, True):
        flushes.gate.clear()
        flushes.fail_next = None if ends else OutcomeUnknownError("lost")
        flushes.batches.clear()
        first = asyncio.create_task(coalescer.lead(0))
        await wait_until(lambda: flushes.batches)
        second = asyncio.create_task(coalescer.lead(1))
        await asyncio.sleep(0)
        if ends:
            first.cancel()
        flushes.gate.set()
        (gone,) = await asyncio.gather(first, return_exceptions=True)
        assert isinstance(gone, asyncio.CancelledError if ends else OutcomeUnknownError)
        assert await second == "1"
        assert flushes.batches == [[0], [1]]
