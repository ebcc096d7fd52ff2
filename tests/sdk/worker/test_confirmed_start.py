"""The cost of waiting for the store's confirmation, for a job that requests it."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from tests.support import real_time
from tests.support.waiting import wait_until
from worker_sdk import Context, Worker
from worker_sdk.testing.challenges import KeptChallenges
from worker_sdk.worker.executor import Executor
from worker_sdk.worker.handler_calls import HandlerCalls
from worker_sdk.worker.lease import now_s
from worker_sdk.worker.outcomes import Fields
from worker_sdk.worker.progress import PendingReports
from worker_sdk.worker.run import JobRun, Stop

pytestmark = real_time.WORKER


class Held:
    """An executor with confirmations controlled by the test."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.is_full = False
        self.endings: list[Fields] = []
        self.word: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.is_asked = asyncio.Event()
        self.executor = Executor(
            max_jobs=1,
            settlements=self,
            starts=self,
            pushers=cast(Any, None),
            reports=PendingReports(),
            challenges=KeptChallenges(),
            child_access=([], None),
        )

    def put(self, job_id: str, token: str, fields: Fields) -> None:
        self.endings.append(fields)

    def put_successes(self, ends: Any) -> None:
        raise AssertionError("no job is gathered here")

    async def may_start(self, job_id: str, token: str) -> bool:
        self.is_asked.set()
        return await self.word

    async def take(self, name: str, *, lease_s: float = 60, timeout_s: float = 60) -> JobRun:
        """Return a run that has requested confirmation."""
        handler = self.worker.find(name)
        assert handler is not None
        offer: Any = {
            "job_id": "j", "token": "t", "attempt": 1, "fence": 1, "argument": None, "headers": {},
            "timeout": timeout_s,
        }  # fmt: skip
        run = JobRun(offer, handler, now_s() + lease_s)
        self.executor.start(run, now_s())
        await self.is_asked.wait()
        return run

    def say_yes_but_late(self, after_s: float) -> None:
        """Keep the loop busy, so that it handles the confirmation before its timers."""
        self.word.set_result(True)
        time.sleep(after_s)


@pytest.fixture
def ran() -> list[float]:
    """Return the rest of the timeout at each handler's start."""
    return []


@pytest.fixture
async def held(ran: list[float]) -> AsyncIterator[Held]:
    worker = Worker()

    @worker.handler("async", confirm_start=True)
    async def careful(argument: Any, ctx: Context) -> None:
        ran.append(ctx.remaining())

    @worker.handler("sync", confirm_start=True)
    def careful_sync(argument: Any, ctx: Context) -> None:
        ran.append(ctx.remaining())

    one = Held(worker)
    yield one
    one.executor.close()


@pytest.mark.req("M3")
@pytest.mark.parametrize("name", ["async", "sync"])
async def test_a_confirmation_that_comes_after_the_lease_launches_nothing(
    held: Held, ran: list[float], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched: list[JobRun] = []
    monkeypatch.setattr(HandlerCalls, "launch", lambda calls, run: launched.append(run))
    run = await held.take(name, lease_s=0.05)
    held.say_yes_but_late(0.1)
    await wait_until(lambda: not held.executor.occupying)
    assert (launched, held.endings, run.stopping) == ([], [], Stop.LOST)


@pytest.mark.req("J7")
@pytest.mark.parametrize("name", ["async", "sync"])
async def test_the_wait_for_a_confirmation_counts_as_time_of_the_attempt(
    held: Held, ran: list[float], name: str
) -> None:
    await held.take(name, timeout_s=30)
    held.say_yes_but_late(0.2)
    await wait_until(lambda: held.endings)
    assert 20 < ran[0] <= 29.8


@pytest.mark.req("J7")
@pytest.mark.parametrize("is_word_given", [True, False])
async def test_a_job_whose_time_is_over_before_it_began_is_handed_back(
    held: Held, ran: list[float], is_word_given: bool
) -> None:
    await held.take("async", timeout_s=0.05)
    if is_word_given:
        held.say_yes_but_late(0.1)
    await wait_until(lambda: held.endings)
    assert (ran, held.endings) == ([], [{"type": "handed_back"}])
    assert not held.executor.occupying
