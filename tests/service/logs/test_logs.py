"""Logs of jobs as the services return them."""

import asyncio

import pytest

from jqmaster.clock import SystemClock
from jqmaster.domain.ids import new_id
from jqmaster.domain.logs.lines import LogFigures
from jqmaster.domain.logs.page import LogFilter
from jqmaster.errors import NotFoundError
from jqmaster.service.logs import logs as module
from jqmaster.service.logs.logs import LogReceipt, LogService, SentLine
from tests.support import real_time
from tests.support.jobs import Served, running_kept, succeed
from tests.support.store import LOG_LIMITS

pytestmark = [pytest.mark.req("D17"), real_time.LOOPS]

ALL = LogFilter()


def logs_of(served: Served) -> tuple[LogService, LogFigures]:
    figures = LogFigures()
    return (
        LogService(served.world.logs, served.waiters, SystemClock(), limits=LOG_LIMITS, figures=figures),
        figures,
    )


def sent(first: int, *texts: str, rank: int = 1) -> list[SentLine]:
    return [SentLine(first + n, 5, rank, text) for n, text in enumerate(texts)]


async def test_a_long_poll_returns_with_the_next_line_and_with_the_end(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An answer within the test's time is due to a message from the store.
    monkeypatch.setattr(module, "LOOK_AGAIN_S", 600)
    logs, figures = logs_of(served)
    worker, job = await running_kept(served.world)
    async with served.listening(), asyncio.timeout(60):
        poll = asyncio.create_task(logs.page(job.job_id, 0, limit=9, wanted=ALL, wait_s=60))
        await asyncio.sleep(0)
        assert await logs.save(worker, [(job.job_id, job.token, sent(1, "a", "b"))]) == LogReceipt(2, 0, [])
        page = await poll
        assert [(e.seq, e.text) for e in page.entries] == [(1, "a"), (2, "b")]
        poll = asyncio.create_task(
            logs.page(job.job_id, page.next, limit=9, wanted=LogFilter(least_rank=3), wait_s=60)
        )
        await asyncio.sleep(0)
        await logs.save(worker, [(job.job_id, job.token, sent(3, "quiet"))])
        await succeed(served.world, worker, job)
        served.world.pass_ms(5_000)
        page = await poll
        assert (page.entries, page.is_last, page.next) == ([], True, 3)
    assert (figures.kept, figures.dropped, figures.stale) == (3, 0, 0)


async def test_pages_of_a_long_log_are_read_step_by_step(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jqmaster.store.logs.logs.CHUNKS_PER_READ", 2)
    monkeypatch.setattr(module, "MAX_READS", 2)
    logs, _ = logs_of(served)
    worker, job = await running_kept(served.world)
    for n in range(1, 10):
        await logs.save(worker, [(job.job_id, job.token, sent(n, f"{n}", rank=4 if n == 9 else 1))])

    async def seqs(after: int, wanted: LogFilter = ALL, limit: int = 9, tail: int | None = None) -> list[int]:
        page = await logs.page(job.job_id, after, limit=limit, wanted=wanted, wait_s=0, tail=tail)
        return [e.seq for e in page.entries]

    assert await seqs(0) == [1, 2, 3, 4]
    assert await seqs(0, limit=3) == [1, 2, 3]
    assert await seqs(0, tail=2) == [8, 9]
    assert await seqs(7, tail=5) == [8, 9]
    # A read whose filter selects little does not read everything at once, and does not wait while there is more.
    page = await logs.page(job.job_id, 0, limit=9, wanted=LogFilter(least_rank=4), wait_s=60)
    assert (page.entries, page.next, page.is_last) == ([], 4, False)
    page = await logs.page(job.job_id, 4, limit=9, wanted=LogFilter(least_rank=4), wait_s=60)
    page = await logs.page(job.job_id, page.next, limit=9, wanted=LogFilter(least_rank=4), wait_s=60)
    assert [e.seq for e in page.entries] == [9]
    assert await seqs(0, LogFilter(attempt=2)) == []


async def test_lines_that_were_sent_in_part_before_are_kept_once(served: Served) -> None:
    logs, figures = logs_of(served)
    worker, job = await running_kept(served.world)
    await logs.save(worker, [(job.job_id, job.token, sent(1, "a", "b"))])
    assert await logs.save(worker, [(job.job_id, job.token, sent(2, "b", "c"))]) == LogReceipt(2, 0, [])
    page = await logs.page(job.job_id, 0, limit=9, wanted=ALL, wait_s=0)
    assert [e.text for e in page.entries] == ["a", "b", "c"]
    assert figures.kept == 3


async def test_the_answer_tells_which_lines_a_worker_may_not_save(served: Served) -> None:
    logs, figures = logs_of(served)
    worker, job = await running_kept(served.world)
    for stranger in (new_id(), "no ID"):
        assert await logs.save(stranger, [(job.job_id, job.token, sent(1, "a"))]) == LogReceipt(
            0, 0, [job.job_id]
        )
    assert figures.stale == 1
    assert await logs.save(worker, [(job.job_id, job.token, sent(3, "a"))]) == LogReceipt(1, 2, [])
    for unknown in (new_id(), "no ID"):
        with pytest.raises(NotFoundError):
            await logs.page(unknown, 0, limit=1, wanted=ALL, wait_s=0)
