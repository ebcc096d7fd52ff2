"""Partial results: sent in order, one call at a time, and refused if not kept."""

import asyncio
import os
from collections.abc import Callable
from typing import Any

import pytest

from tests.sdk import handlers
from tests.sdk.fake_master import FakeMaster
from tests.support import real_time
from tests.support.waiting import wait_until
from worker_sdk import Context, PartNotKept, Worker

pytestmark = [pytest.mark.req("D21"), real_time.WORKER]


class Keeper:
    """The master's keeper of parts: received parts by token, and the number of calls."""

    def __init__(self, master: FakeMaster, most: int = 1_000) -> None:
        self.values: list[Any] = []
        self.firsts: list[int] = []
        self.most = most
        master.hooks["parts"] = self._keep

    def _keep(self, body: Any) -> Any:
        if len(self.values) + len(body["parts"]) > self.most:
            return 413, {"code": "too_many_parts", "detail": f"at most {self.most} parts"}, {}
        self.firsts.append(body["first"])
        self.values += body["parts"]
        return 200, {"accepted": len(body["parts"])}, {}


async def test_values_arrive_in_order_and_those_that_wait_go_together(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    keeper = Keeper(master)

    @worker.handler("emit")
    async def emit(argument: int, ctx: Context) -> int:
        await asyncio.gather(*(ctx.emit(number) for number in range(argument)))
        await ctx.emit("last")
        return len(keeper.values)

    await up()
    job = await master.run("emit", 500)
    result = await wait_until(lambda: master.result(job["job_id"]))
    # The master has a value when `emit` returns.
    assert (result["type"], result["result"]) == ("success", 501)
    assert keeper.values == [*range(500), "last"]
    assert len(keeper.firsts) < 100
    assert keeper.firsts == sorted(set(keeper.firsts))


async def test_a_sync_handler_waits_until_its_value_is_kept(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    keeper = Keeper(master)
    seen: list[list[Any]] = []

    @worker.handler("emit")
    def emit(argument: object, ctx: Context) -> None:
        for value in (b"\x00", {"rows": [1]}):
            ctx.emit(value)
            seen.append(list(keeper.values))

    await up()
    job = await master.run("emit")
    await wait_until(lambda: master.result(job["job_id"]))
    assert seen == [[b"\x00"], [b"\x00", {"rows": [1]}]]


async def test_a_call_without_an_answer_is_repeated_as_it_was(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    master.script("parts", 503, {"code": "store_unavailable", "detail": "away"})
    keeper = Keeper(master)

    @worker.handler("emit")
    async def emit(argument: object, ctx: Context) -> None:
        await ctx.emit("a")

    await up()
    job = await master.run("emit")
    result = await wait_until(lambda: master.result(job["job_id"]))
    assert (result["type"], keeper.values) == ("success", ["a"])
    sent = [body["first"] for _, path, body in master.calls if path.endswith("/parts")]
    assert len(sent) == 2
    assert len(set(sent)) == 1


async def test_a_refusal_is_an_error_in_the_handler_that_says_why(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    keeper = Keeper(master, most=1)

    @worker.handler("emit")
    async def emit(argument: object, ctx: Context) -> str:
        await ctx.emit("a")
        with pytest.raises(PartNotKept) as caught:
            await ctx.emit("b")
        return str(caught.value)

    await up()
    job = await master.run("emit")
    result = await wait_until(lambda: master.result(job["job_id"]))
    assert (result["result"], keeper.values) == ("at most 1 parts", ["a"])


async def test_a_process_that_a_handler_forks_cannot_emit(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    keeper = Keeper(master)

    @worker.handler("emit")
    def emit(argument: object, ctx: Context) -> int:
        child = os.fork()
        if child == 0:
            try:
                ctx.emit("from the child")
            except PartNotKept:
                os._exit(7)
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    await up()
    job = await master.run("emit")
    result = await wait_until(lambda: master.result(job["job_id"]))
    assert (result["result"], keeper.values) == (7, [])


async def test_an_isolated_handler_emits_too(master: FakeMaster) -> None:
    keeper = Keeper(master, most=3)
    worker = handlers.worker
    worker.master = master.url
    async with worker.running():
        await wait_until(lambda: worker.worker_id)
        job = await master.run("isolated.emit", 3)
        result = await wait_until(lambda: master.result(job["job_id"]))
    assert result["result"] == "at most 3 parts"
    assert keeper.values == [{"n": 0}, {"n": 1}, {"n": 2}]
