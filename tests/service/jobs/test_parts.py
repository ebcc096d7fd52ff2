"""Long polls for partial results."""

import asyncio

import pytest

from jqmaster.clock import SystemClock
from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.parts import BEGINNING, PartPosition
from jqmaster.errors import ConflictError, NotFoundError, TooLargeError
from jqmaster.service.jobs import parts as module
from jqmaster.service.jobs.parts import PartService
from tests.store.jobs.test_settle import HANDED_BACK
from tests.support import real_time
from tests.support.jobs import Served, running_kept, succeed
from tests.support.store import PART_LIMITS

pytestmark = [pytest.mark.req("D21"), real_time.LOOPS]


def parts_of(served: Served) -> PartService:
    return PartService(served.world.parts, served.waiters, SystemClock(), PART_LIMITS)


async def test_a_long_poll_returns_with_the_next_part_and_with_the_end(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An answer within the test's time is due to a message from the store.
    monkeypatch.setattr(module, "LOOK_AGAIN_S", 600)
    parts = parts_of(served)
    worker, job = await running_kept(served.world)
    async with served.listening(), asyncio.timeout(30):
        here = PartPosition(1, 0)
        poll = asyncio.create_task(parts.page(job.job_id, here, wait_s=60))
        await asyncio.sleep(0)
        await parts.save(worker, job.job_id, job.token, first=1, values=[b"\x01"])
        page = await poll
        assert [part.value for part in page.parts] == [b"\x01"]
        poll = asyncio.create_task(parts.page(job.job_id, page.end(here), wait_s=60))
        await asyncio.sleep(0)
        await succeed(served.world, worker, job)
        page = await poll
        assert (page.parts, page.is_last) == ([], True)


async def test_a_poll_that_waits_in_vain_gets_an_empty_page(served: Served) -> None:
    _, job = await running_kept(served.world)
    page = await parts_of(served).page(job.job_id, PartPosition(1, 0), wait_s=0.05)
    assert (page.parts, page.is_last) == ([], False)


async def test_a_new_attempt_is_told_before_it_has_parts(served: Served) -> None:
    worker, job = await running_kept(served.world)
    await served.world.fail(worker, job, HANDED_BACK)
    await served.world.claim(worker, job.record.name)
    page = await asyncio.wait_for(parts_of(served).page(job.job_id, PartPosition(1, 7), wait_s=60), 15)
    assert (page.attempt, page.parts) == (2, [])


async def test_parts_that_a_worker_may_not_save_are_refused(served: Served) -> None:
    parts = parts_of(served)
    worker, job = await running_kept(served.world)
    for stranger in (new_id(), "no ID"):
        with pytest.raises(ConflictError) as stale:
            await parts.save(stranger, job.job_id, job.token, first=1, values=[b"\x01"])
        assert stale.value.code == "stale_token"
    with pytest.raises(TooLargeError, match="4 partial results, with 100 bytes in all") as full:
        await parts.save(worker, job.job_id, job.token, first=1, values=[b"\x01"] * 5)
    assert full.value.code == "too_many_parts"
    for unknown in (new_id(), "no ID"):
        with pytest.raises(NotFoundError):
            await parts.page(unknown, BEGINNING, wait_s=0)
