"""Units that attempts have used, and the room that other services have left, as handlers tell them."""

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import pytest

from tests.sdk import handlers
from tests.sdk.fake_master import FakeMaster
from tests.support import real_time
from tests.support.waiting import wait_until
from worker_sdk import Context, Defer, Discard, Gather, GatherContext, Tasks, Worker
from worker_sdk.testing import WorkerHarness, drain

pytestmark = [real_time.WORKER, pytest.mark.req("D30")]


async def ending(master: FakeMaster, name: str, argument: Any = None) -> Any:
    job = await master.run(name, argument)
    return await wait_until(lambda: master.result(job["job_id"]))


async def test_the_last_number_of_each_unit_is_reported_however_the_attempt_ends(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    def use(argument: str, ctx: Context) -> str:
        ctx.used(tokens=100, images=1)
        ctx.used(tokens=1812)
        if (
            error := {"fail": OSError(), "discard": Discard("gone"), "defer": Defer(3)}.get(argument)
        ) is not None:
            raise error
        return "done"

    @worker.handler("async")
    async def use_async(argument: str, ctx: Context) -> str:
        await asyncio.sleep(0)
        return use(argument, ctx)

    worker.handler("sync")(use)

    @worker.handler("nothing")
    async def use_nothing(argument: Any, ctx: Context) -> None: ...

    await up()
    for name in ("async", "sync"):
        for argument, kind in (
            ("", "success"),
            ("fail", "failure"),
            ("discard", "discarded"),
            ("defer", "deferred"),
        ):
            told = await ending(master, name, argument)
            assert (told["type"], told["used"]) == (kind, {"tokens": 1812, "images": 1})
    assert "used" not in await ending(master, "nothing")
    assert master.faults == []


async def test_a_report_tells_by_when_the_service_had_counted_the_call(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    """A service counts a call within two seconds, however long it takes to answer."""

    @worker.handler("ask")
    async def ask(how: str, ctx: Context) -> None:
        if how == "slow":
            await asyncio.sleep(2.5)
        if how == "observes":
            ctx.observed("model", remaining=7, resets_s=60)
        elif how != "nothing":
            ctx.used(tokens=1)

    await up()
    began_ms, told = time.time() * 1000, {}
    for how in ("quick", "observes", "nothing", "slow"):
        told[how] = await ending(master, "ask", how)
    called_ms = {how: one["called_at_ms"] for how, one in told.items() if how != "nothing"}
    assert "called_at_ms" not in told["nothing"]
    assert "used" not in told["observes"]
    assert began_ms <= called_ms["quick"] <= called_ms["observes"] <= called_ms["slow"]
    ended_ms = datetime.fromisoformat(told["slow"]["finished_at"]).timestamp() * 1000
    assert called_ms["slow"] <= ended_ms - 400
    assert master.faults == []


async def test_an_isolated_handler_tells_what_it_used_even_if_its_process_dies(master: FakeMaster) -> None:
    handlers.worker.master = master.url
    async with handlers.worker.running():
        await wait_until(lambda: handlers.worker.worker_id)
        await _isolated_ends(master)


async def _isolated_ends(master: FakeMaster) -> None:
    assert (await ending(master, "isolated.used"))["used"] == {"tokens": 1812, "images": 2}
    crashed = await ending(master, "isolated.used", "crash")
    assert (crashed["type"], crashed["used"]) == ("failure", {"tokens": 1812, "images": 2})
    await wait_until(lambda: master.observations)
    observation = master.observations[0]
    assert observation.pop("as_of_ms") > 0
    assert observation == {"constraint": "model", "value": "acme", "remaining": 7, "resets_s": 60}


async def test_a_master_that_does_not_know_the_field_still_gets_the_result(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    @worker.handler("use")
    async def use(argument: Any, ctx: Context) -> str:
        ctx.used(tokens=1812)
        return "done"

    def refuse(body: Any) -> Any:
        if any({"used", "called_at_ms"} & item.keys() for item in body["results"]):
            return 422, {"status": 422, "code": "invalid", "detail": "unknown field", "errors": []}, {}
        return None

    master.hooks["results"] = refuse
    await up()
    told = await ending(master, "use")
    assert (told["type"], told["result"]) == ("success", "done")


async def test_observations_of_one_gate_are_sent_one_at_a_time_and_the_last_one_last(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    @worker.handler("observe")
    def observe(argument: Any, ctx: Context) -> None:
        for remaining in range(100, -1, -1):
            ctx.observed("model", remaining=remaining, resets_s=12.5)
        ctx.observed("other", None, remaining=3, resets_s=0)

    await up()
    await ending(master, "observe")
    # Gates do not wait for each other.
    await wait_until(lambda: any(one["constraint"] == "other" for one in master.observations))
    await wait_until(lambda: any(one["remaining"] == 0 for one in master.observations))
    of_model = [one for one in master.observations if one["constraint"] == "model"]
    assert of_model[-1]["remaining"] == 0
    assert len(of_model) < 50
    assert of_model[-1]["resets_s"] == 12.5
    instants = [one["as_of_ms"] for one in of_model]
    assert instants == sorted(instants)
    assert instants[0] > 0
    assert "value" not in of_model[-1]
    # None is a value of a key.
    assert next(one for one in master.observations if one["constraint"] == "other")["value"] is None


async def test_many_answers_of_an_api_make_few_calls_of_masters(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    @worker.handler("observe")
    async def observe(argument: Any, ctx: Context) -> None:
        for remaining in range(60):
            ctx.observed("model", remaining=remaining, resets_s=60)
            await asyncio.sleep(0.005)

    await up()
    began_s = time.monotonic()
    await ending(master, "observe")
    await wait_until(lambda: master.observations and master.observations[-1]["remaining"] == 59)
    assert len(master.observations) <= (time.monotonic() - began_s) / 0.1 + 2


async def test_gates_do_not_wait_for_each_other(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    """Masters hear of a hundred tenants within a second, and not within ten."""

    @worker.handler("observe")
    async def observe(argument: Any, ctx: Context) -> None:
        for remaining in (9, 8):
            for tenant in range(100):
                ctx.observed("model", tenant, remaining=remaining, resets_s=60)

    await up()
    began_s = time.monotonic()
    await ending(master, "observe")

    def last() -> dict[int, int]:
        return {one["value"]: one["remaining"] for one in master.observations}

    await wait_until(lambda: last() == dict.fromkeys(range(100), 8), what="the last number of each tenant")
    assert time.monotonic() - began_s < 5


async def test_an_observation_that_a_master_refuses_is_dropped_and_others_go_on(
    master: FakeMaster, worker: Worker, up: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    @worker.handler("observe")
    async def observe(argument: str, ctx: Context) -> None:
        ctx.observed(argument, remaining=1, resets_s=1)

    await up()
    master.script("observations", 404, {"status": 404, "code": "not_found", "detail": "no", "errors": []})
    await ending(master, "observe", "unknown")
    await wait_until(lambda: "the observed limit of unknown is not applied" in caplog.text)
    master.script("observations", 503, None)
    await ending(master, "observe", "known")
    await wait_until(lambda: [one["constraint"] for one in master.observations] == ["known"])


@pytest.mark.parametrize("number", [-1, float("nan"), 2e9])
async def test_numbers_out_of_range_are_refused(number: float) -> None:
    tasks = Tasks()

    @tasks.task("use")
    def use(ctx: Context) -> None:
        with pytest.raises(ValueError, match="tokens must be between 0 and"):
            ctx.used(tokens=number)
        with pytest.raises(ValueError, match="remaining must be between 0 and"):
            ctx.observed("model", remaining=number, resets_s=1)
        with pytest.raises(ValueError, match="resets_s must be between 0 and"):
            ctx.observed("model", remaining=1, resets_s=number * 1e9)

    [run] = drain([use.to_job()])
    assert (run.state, run.used, run.observed) == ("succeeded", {}, [])


def test_the_test_kit_keeps_what_the_last_attempt_told() -> None:
    tasks = Tasks()

    @tasks.task("use", max_retry=1)
    def use(ctx: Context) -> None:
        ctx.used(tokens=ctx.attempt)
        ctx.observed("model", "acme", remaining=ctx.attempt, resets_s=1)
        if ctx.attempt == 1:
            raise OSError

    [run] = drain([use.to_job()])
    assert run.used == {"tokens": 2}
    assert [(one.constraint, one.value, one.remaining) for one in run.observed] == [("model", "acme", 2)]


async def test_a_call_of_gathered_jobs_used_equal_shares_unless_it_tells_each() -> None:
    tasks = Tasks()

    @tasks.task("use", gather=Gather(max=10, within_s=0.1))
    def use(numbers: list[int], ctx: GatherContext) -> Sequence[int]:
        ctx.used(tokens=900)
        ctx.jobs[1].used(tokens=1)
        return numbers

    endings = await WorkerHarness(tasks).run_together([use.to_job(number) for number in range(3)])
    assert [one.used for one in endings] == [{"tokens": 300}, {"tokens": 1}, {"tokens": 300}]
