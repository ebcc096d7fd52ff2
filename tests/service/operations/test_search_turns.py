"""Each caller runs a few searches at once, and none waits for another caller's."""

import asyncio

import pytest

from jqmaster.errors import OverloadedError
from jqmaster.service.operations.search_turns import MAX_AT_ONCE, MAX_WAITING, SearchTurns


class Searching:
    """Searches of callers, which end when `end` is set."""

    def __init__(self) -> None:
        self.turns = SearchTurns()
        self.running: list[str] = []
        self.most = 0
        self.end = asyncio.Event()

    async def search(self, who: str) -> None:
        async with self.turns.taken(who):
            self.running.append(who)
            self.most = max(self.most, len(self.running))
            await self.end.wait()
            self.running.remove(who)


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_further_searches_of_a_caller_wait_and_others_do_not() -> None:
    one = Searching()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(3 * MAX_AT_ONCE):
            tasks.create_task(one.search("greedy"))
        await settled()
        tasks.create_task(one.search("modest"))
        await settled()
        assert one.running == ["greedy"] * MAX_AT_ONCE + ["modest"]
        one.end.set()
    assert one.running == []
    assert one.most == MAX_AT_ONCE + 1
    assert one.turns._of_callers == {}


async def test_too_many_that_wait_are_refused_and_leave_nothing_behind() -> None:
    one = Searching()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(MAX_AT_ONCE + MAX_WAITING):
            tasks.create_task(one.search("greedy"))
        await settled()
        with pytest.raises(OverloadedError, match="fewer calls at once"):
            await one.search("greedy")
        one.end.set()
    assert one.turns._of_callers == {}


async def test_a_search_that_is_given_up_while_it_waits_leaves_its_place() -> None:
    one = Searching()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(MAX_AT_ONCE):
            tasks.create_task(one.search("greedy"))
        await settled()
        waiting = asyncio.create_task(one.search("greedy"))
        await settled()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        one.end.set()
    assert one.turns._of_callers == {}
