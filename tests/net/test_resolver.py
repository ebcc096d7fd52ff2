"""Names are resolved without holding up anything else."""

import asyncio
import threading
from typing import Any

import pytest

from jqmaster.net.resolver import MAX_LOOKUPS, Resolver
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("M13")


class SlowNames:
    """A resolver of the system that answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers = threading.Event()

    def look_up(self, host: str, port: int) -> list[Any]:
        self.asked.append(host)
        self.answers.wait(20)
        if host == "bad.example":
            raise OSError("no such name")
        return [(None, None, 6, "", ("192.0.2.1", port))]


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> SlowNames:
    names = SlowNames()
    monkeypatch.setattr("jqmaster.net.resolver.look_up", names.look_up)
    return names


async def test_slow_names_leave_the_other_threads_alone(slow: SlowNames) -> None:
    resolver = Resolver()
    lookups = [asyncio.create_task(resolver.addresses(f"n{n}.example", 443)) for n in range(2 * MAX_LOOKUPS)]
    try:
        await wait_until(lambda: len(slow.asked) == MAX_LOOKUPS, what="all threads wait")
        assert await asyncio.wait_for(asyncio.to_thread(lambda: 1), 5) == 1
    finally:
        slow.answers.set()
    assert [await one for one in lookups] == [["192.0.2.1"]] * len(lookups)


async def test_lookups_that_nobody_waits_for_any_more_are_dropped(slow: SlowNames) -> None:
    """Only those that a thread has begun go on."""
    resolver = Resolver()
    begun = [asyncio.create_task(resolver.addresses(f"n{n}.example", 443)) for n in range(MAX_LOOKUPS)]
    await wait_until(lambda: len(slow.asked) == MAX_LOOKUPS, what="all threads wait")
    queued = [asyncio.create_task(resolver.addresses(f"late{n}.example", 443)) for n in range(100)]
    kept = [asyncio.create_task(resolver.addresses("kept.example", 443)) for _ in range(2)]
    await asyncio.sleep(0)
    for one in [*begun, *queued, kept[0]]:
        one.cancel()
    await asyncio.gather(*begun, *queued, kept[0], return_exceptions=True)
    again = asyncio.create_task(resolver.addresses("late0.example", 443))
    shared = asyncio.create_task(resolver.addresses("n0.example", 443))
    await asyncio.sleep(0)
    slow.answers.set()
    assert await asyncio.gather(kept[1], again, shared) == [["192.0.2.1"]] * 3
    assert sorted(slow.asked[MAX_LOOKUPS:]) == ["kept.example", "late0.example"]


async def test_a_name_is_looked_up_once_at_a_time(slow: SlowNames) -> None:
    resolver = Resolver()
    lookups = [asyncio.create_task(resolver.addresses("a.example", 443)) for _ in range(5)]
    failing = asyncio.create_task(resolver.addresses("bad.example", 443))
    await wait_until(lambda: len(slow.asked) == 2, what="both names are asked for")
    lookups[0].cancel()
    failing.cancel()
    slow.answers.set()
    assert [await one for one in lookups[1:]] == [["192.0.2.1"]] * 4
    assert slow.asked.count("a.example") == 1
    with pytest.raises(OSError, match="no such name"):
        await resolver.addresses("bad.example", 443)
    assert await resolver.addresses("a.example", 443) == ["192.0.2.1"]
