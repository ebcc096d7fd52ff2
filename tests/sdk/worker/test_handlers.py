"""The three kinds of handlers, and every way for an attempt to end."""

import asyncio
import contextvars
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgpack
import pytest

from tests.sdk.fake_master import FakeMaster
from tests.support import real_time
from tests.support.waiting import wait_until
from worker_sdk import Context, Defer, Discard, Fail, Retry, Worker, discard_on, retry_on

pytestmark = real_time.WORKER

ARGUMENTS = [
    None,
    True,
    -(2**63),
    2**64 - 1,
    1.5,
    "text ✓",
    b"\x00\xff",
    [1, [2, {"a": None}]],
    {"nested": {"list": [1, 2.5, "x", b"y"]}},
    datetime(2026, 11, 21, 4, 30, 0, 123000, UTC),
    msgpack.ExtType(42, b"opaque"),
]


@pytest.mark.req("J3")
@pytest.mark.req("J8")
@pytest.mark.parametrize("argument", ARGUMENTS, ids=repr)
async def test_any_value_reaches_the_handler_and_comes_back(
    master: FakeMaster, worker: Worker, up: Callable[[], Any], argument: Any
) -> None:
    got: list[Any] = []

    @worker.handler("echo")
    async def echo(argument: Any) -> Any:
        got.append(argument)
        return argument

    await up()
    job = await master.run("echo", argument)
    result = await wait_until(lambda: master.result(job["job_id"]))
    assert got == [argument]
    assert result["type"] == "success"
    assert result["result"] == argument
    assert result["token"] == job["token"]
    finished = datetime.fromisoformat(result["finished_at"])
    assert abs(finished.timestamp() * 1000 - master.now_ms()) < 10_000, "in store time, not in local time"


@pytest.mark.req("M3")
@pytest.mark.parametrize("has_factory", [False, True])
async def test_a_handler_runs_in_a_task_of_its_own(
    master: FakeMaster, worker: Worker, up: Callable[[], Any], has_factory: bool
) -> None:
    left_by = contextvars.ContextVar[str]("left_by", default="nobody")
    made: list[Any] = []
    seen: list[tuple[Any, str]] = []

    @worker.handler("note")
    async def note(argument: Any) -> None:
        seen.append((asyncio.current_task(), left_by.get()))
        left_by.set("another job")

    def factory(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> Any:
        made.append(asyncio.Task(work, loop=loop, **options))
        return made[-1]

    if has_factory:
        asyncio.get_running_loop().set_task_factory(factory)
    await up()
    for _ in range(2):
        await master.run("note")
    await wait_until(lambda: len(seen) == 2)
    (first, left_first), (second, left_second) = seen
    assert first is not second
    assert {first.get_name(), second.get_name()} == {"note"}
    assert {left_first, left_second} == {"nobody"}
    assert ({first, second} <= set(made)) is has_factory


@pytest.mark.req("M3")
async def test_the_context_tells_what_a_handler_needs(
    master: FakeMaster, worker: Worker, up: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    seen: dict[str, Any] = {}

    @worker.handler("look")
    async def look(argument: Any, ctx: Context) -> None:
        seen.update(
            id=ctx.job_id, attempt=ctx.attempt, fence=ctx.fence, name=ctx.name, headers=ctx.headers,
            remaining=ctx.remaining(), deadline=ctx.deadline, cancelled=bool(ctx.cancelled) or ctx.cancelled.is_set(),
        )  # fmt: skip
        ctx.logger.warning("here")

    await up()
    job = await master.run("look", attempt=3, headers={"trace": "abc"}, timeout=20)
    await wait_until(lambda: master.result(job["job_id"]))
    assert (seen["id"], seen["attempt"], seen["fence"]) == (job["job_id"], 3, job["fence"])
    assert (seen["name"], seen["headers"], seen["cancelled"]) == ("look", {"trace": "abc"}, False)
    assert 15 < seen["remaining"] <= 20
    assert 15 < (seen["deadline"] - datetime.now(UTC)).total_seconds() <= 20
    record = next(r for r in caplog.records if r.message == "here")
    assert (record.job_id, record.attempt) == (job["job_id"], 3)  # type: ignore[attr-defined]


async def test_sync_handlers_run_in_threads_side_by_side(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    meeting = threading.Barrier(3, timeout=10)

    @worker.handler("meet")
    def meet(argument: int, ctx: Context) -> Any:
        meeting.wait()
        return [argument, threading.current_thread() is threading.main_thread()]

    await up()
    jobs = [master.dispatch("meet", n) for n in range(3)]
    await master.push(*jobs)
    await wait_until(lambda: all(master.result(j["job_id"]) for j in jobs))
    assert [master.results[j["job_id"]][0]["result"] for j in jobs] == [[n, False] for n in range(3)]


@pytest.mark.req("S1")
@pytest.mark.req("J9")
async def test_an_exception_is_a_failure_that_is_retried_and_described(
    master: FakeMaster, worker: Worker, up: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    # pytest captures only valid text, which this message is not.
    caplog.set_level("CRITICAL", "worker_sdk.worker.endings")

    @worker.handler("broken")
    async def broken(argument: Any, ctx: Context) -> None:
        password = "hunter2"  # a local: must not be sent
        assert password
        raise ValueError("no such thing \ud800 " + "x" * 100_000)

    await up()
    job = await master.run("broken")
    result = await wait_until(lambda: master.result(job["job_id"]))
    assert (result["type"], result["reason"], result["should_retry"]) == ("failure", "other", True)
    assert result["message"].startswith("ValueError: no such thing")
    assert len(result["message"].encode()) <= 1_000
    assert result["error"]["type"] == "ValueError"
    assert "in broken" in result["error"]["traceback"] or "raise ValueError" in result["error"]["traceback"]
    assert "worker_sdk" not in result["error"]["traceback"]  # the frames that called the handler
    assert len(msgpack.packb(result["error"])) <= 16 * 1024
    assert "retry_after" not in result


class Gone(Exception):
    pass


class Flaky(Exception):
    pass


@pytest.mark.req("S2", "S12")
@pytest.mark.parametrize(
    ("exception", "attempt", "ending", "retry_after", "logged"),
    [
        (Gone("row 7"), 1, "discarded", None, "INFO"),
        (KeyError("gone too"), 1, "discarded", None, "INFO"),
        (Flaky("a"), 2, True, 4.0, "WARNING"),
        (Flaky("a"), 3, False, None, "ERROR"),
        (TimeoutError("t"), 1, True, 9.0, "WARNING"),
        (OSError("other"), 9, True, None, "ERROR"),
        (Discard("enough"), 1, "discarded", None, None),
        (Fail("hopeless"), 1, False, None, None),
        (Retry(2.5), 1, True, 2.5, None),
        (Retry(), 1, True, None, None),
        (Retry(10.0**9), 1, True, 604_800.0, None),
        (Defer(1), 1, "deferred", 1.0, None),
    ],
    ids=repr,
)
async def test_policies_decide_what_an_exception_means(
    master: FakeMaster,
    worker: Worker,
    up: Callable[[], Any],
    exception: Exception,
    attempt: int,
    ending: bool | str,
    retry_after: float | None,
    logged: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    @worker.handler(
        "policy",
        retry_on=[
            retry_on(Flaky, wait=lambda attempt: attempt * 2.0, attempts=3),
            retry_on(TimeoutError, wait=9),
        ],
        discard_on=[Gone, discard_on(KeyError)],
    )
    def policy(argument: Any) -> None:
        raise exception

    await up()
    caplog.set_level("INFO", "worker_sdk.worker.endings")
    job = await master.run("policy", attempt=attempt)
    result = await wait_until(lambda: master.result(job["job_id"]))
    # A failure is identified by whether it should be retried.
    assert result["type"] == (ending if isinstance(ending, str) else "failure")
    assert result.get("should_retry", ending) is ending
    if ending is not False:
        assert result.get("retry_after") == retry_after
    # The worker's own log has it too, unless the handler asked for exactly that.
    records = [record for record in caplog.records if record.name.startswith("worker_sdk")]
    told = [record for record in records if record.exc_info]
    assert [record.levelname for record in told] == ([logged] if logged else [])
    if told:
        assert told[0].exc_info
        assert told[0].exc_info[1] is exception
        assert told[0].getMessage().startswith(f"policy (job {job['job_id']}, attempt {attempt}) ")
        assert (told[0].job_id, told[0].job_name, told[0].attempt) == (job["job_id"], "policy", attempt)  # type: ignore[attr-defined]


@pytest.mark.req("P1")
async def test_defer_gives_the_job_back_without_a_failure(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    @worker.handler("later")
    async def later(argument: Any) -> None:
        raise Defer(12)

    await up()
    job = await master.run("later")
    result = await wait_until(lambda: master.result(job["job_id"]))
    assert (result["type"], result["retry_after"]) == ("deferred", 12)
    assert "hold" not in result


@pytest.mark.req("J13")
@pytest.mark.parametrize(
    ("hold", "told"),
    [
        ("mail", {"constraint": "mail"}),
        (("hosts", "a.example"), {"constraint": "hosts", "key": "a.example"}),
        (("hosts", None), {"constraint": "hosts", "key": None}),
    ],
)
async def test_a_deferral_may_hold_all_others(
    master: FakeMaster, worker: Worker, up: Callable[[], Any], hold: Any, told: dict[str, Any]
) -> None:
    @worker.handler("later")
    async def later(argument: Any) -> None:
        raise Defer(12, hold=hold)

    await up()
    job = await master.run("later")
    result = await wait_until(lambda: master.result(job["job_id"]))
    assert (result["type"], result["retry_after"], result["hold"]) == ("deferred", 12, told)


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, 2**70, datetime(2026, 1, 1)], ids=lambda v: type(v).__name__
)
async def test_a_result_without_a_form_is_a_failure_that_says_so(
    master: FakeMaster, worker: Worker, up: Callable[[], Any], value: Any
) -> None:
    @worker.handler("odd")
    async def odd(argument: Any) -> Any:
        return value

    @worker.handler("fine")
    async def fine(argument: Any) -> str:
        return "fine"

    await up()
    jobs = [master.dispatch("odd"), master.dispatch("fine")]
    await master.push(*jobs)
    result = await wait_until(lambda: master.result(jobs[0]["job_id"]))
    assert (result["type"], result["should_retry"]) == ("failure", False)
    assert "cannot be sent" in result["message"]
    assert (await wait_until(lambda: master.result(jobs[1]["job_id"])))["result"] == "fine"


@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt(),
        GeneratorExit(),
        asyncio.CancelledError(),
        SystemExit(3),
        BaseExceptionGroup("several", [KeyboardInterrupt(), ValueError()]),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("kind", ["async", "def"])
async def test_no_exception_of_a_handler_ends_the_worker(
    master: FakeMaster, worker: Worker, up: Callable[[], Any], error: BaseException, kind: str
) -> None:
    @worker.handler("async")
    async def raise_it(argument: Any) -> None:
        raise error

    @worker.handler("def")
    def raise_in_thread(argument: Any) -> None:
        raise error

    @worker.handler("beside")
    async def beside(argument: Any) -> str:
        await asyncio.sleep(0.3)
        return "went on"

    await up()
    neighbour = await master.run("beside")
    job = await master.run(kind)
    await wait_until(lambda: master.result(job["job_id"]) and master.result(neighbour["job_id"]))
    result = master.results[job["job_id"]][0]
    assert result["type"] == "failure"
    assert type(error).__name__ in result["message"]
    assert master.results[neighbour["job_id"]][0]["result"] == "went on"


async def test_sys_exit_in_a_handler_fails_the_job_and_not_the_worker(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    @worker.handler("exit.async")
    async def exit_async(argument: Any) -> None:
        sys.exit(3)

    @worker.handler("exit.sync")
    def exit_sync(argument: Any) -> None:
        sys.exit(3)

    await up()
    for name in ("exit.async", "exit.sync"):
        job = await master.run(name)
        result = await wait_until(lambda job=job: master.result(job["job_id"]))
        assert result["message"] == "SystemExit: 3"


@pytest.mark.req("J7")
async def test_an_async_handler_is_cancelled_at_its_timeout(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    ended = asyncio.Event()

    @worker.handler("slow")
    async def slow(argument: Any, ctx: Context) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            assert ctx.cancelled
            ended.set()

    await up()
    began = time.monotonic()
    job = await master.run("slow", timeout=0.15)
    result = await wait_until(lambda: master.result(job["job_id"]))
    assert 0.14 < time.monotonic() - began < 2
    assert ended.is_set()
    assert (result["type"], result["reason"], result["should_retry"]) == ("failure", "timeout", True)


@pytest.mark.req("J7")
async def test_a_thread_that_outlives_its_timeout_is_reported_at_once_and_keeps_its_slot(
    master: FakeMaster, worker: Worker, up: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    may_end = threading.Event()

    began: list[int] = []

    @worker.handler("deaf")
    def deaf(argument: Any, ctx: Context) -> str:
        began.append(ctx.attempt)
        may_end.wait(20)
        return "too late"

    await up()
    job = await master.run("deaf", timeout=0.1)
    result = await wait_until(lambda: master.result(job["job_id"]))
    assert result["reason"] == "timeout"
    assert "its thread is still running" in caplog.text
    assert all(remedy in caplog.text for remedy in ("ctx.cancelled", "isolated=True"))
    await wait_until(lambda: master.beats[-1] == {"running": [], "free": 3})
    # A new claim of the same job does not run beside it, but in its slot when it has ended.
    again = master.dispatch("deaf", job_id=job["job_id"], attempt=2)
    assert (await master.push(again))["accepted"] == [job["job_id"]]
    named = {"running": [{"job_id": job["job_id"], "token": again["token"]}], "free": 3}
    await wait_until(lambda: master.beats[-1] == named)
    assert began == [1]
    may_end.set()
    await wait_until(lambda: master.beats[-1]["free"] == 4)
    assert [one["type"] for one in master.results[job["job_id"]]] == ["failure", "success"]
    assert began == [1, 2]


@pytest.mark.req("M9")
async def test_a_cancel_stops_async_handlers_at_once(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    @worker.handler("endless")
    async def endless(argument: Any, ctx: Context) -> str:
        await ctx.cancelled
        return "polite"

    @worker.handler("asleep")
    async def asleep(argument: Any, ctx: Context) -> None:
        await asyncio.sleep(60)

    await up()
    by_call, by_beat = await master.run("endless"), await master.run("asleep")
    order = {"token": by_call["token"], "epoch": master.epoch}
    assert (await master.send("POST", f"/jobs/{by_call['job_id']}/cancel", order)).status_code == 200
    master.cancel = [{"job_id": by_beat["job_id"], "token": by_beat["token"]}]
    for job in (by_call, by_beat):
        assert (await wait_until(lambda job=job: master.result(job["job_id"])))["type"] == "canceled"
    assert (await master.send("POST", f"/jobs/{by_call['job_id']}/cancel", order)).status_code == 404


@pytest.mark.req("M9")
async def test_a_cancelled_thread_is_waited_for(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    began, may_end = threading.Event(), threading.Event()

    @worker.handler("thread")
    def thread(argument: Any, ctx: Context) -> None:
        began.set()
        assert ctx.cancelled.wait(20)
        may_end.wait(20)

    await up()
    job = await master.run("thread")
    await wait_until(began.is_set)
    order = {"token": job["token"], "epoch": master.epoch}
    assert (await master.send("POST", f"/jobs/{job['job_id']}/cancel", order)).status_code == 200
    beats = len(master.beats)
    await wait_until(lambda: len(master.beats) > beats + 2)
    assert master.result(job["job_id"]) is None
    may_end.set()
    assert (await wait_until(lambda: master.result(job["job_id"])))["type"] == "canceled"


@pytest.mark.req("J18", "M12")
@pytest.mark.parametrize("is_former", [False, True])
async def test_a_worker_tells_the_contracts_of_its_names(
    master: FakeMaster, worker: Worker, up: Callable[[], Any], is_former: bool
) -> None:
    contract = {"version": "2", "argument_schema": {"type": "integer"}, "options": {"timeout": 5}}

    @worker.handler("told", contract=contract)
    async def told(argument: int) -> None: ...

    @worker.handler("plain")
    async def plain(argument: int) -> None: ...

    def refuse(body: Any) -> Any:
        # A master of release 0.2 does this.
        problem = {"code": "invalid", "errors": [{"loc": ["contracts"], "msg": "unknown field"}]}
        return (422, problem, {}) if is_former and "contracts" in body else None

    master.hooks["workers"] = refuse
    await up()
    assert master.worker.get("contracts") == (None if is_former else {"told": contract})
    assert sorted(master.worker["names"]) == ["plain", "told"]


@pytest.mark.req("J16")
async def test_a_handler_enqueues_jobs(master: FakeMaster, worker: Worker, up: Callable[[], Any]) -> None:
    @worker.handler("fan.async")
    async def fan_async(argument: Any, ctx: Context) -> str:
        return await ctx.enqueue("feed.insert", {"n": 1}, priority=3)

    @worker.handler("fan.sync")
    def fan_sync(argument: Any, ctx: Context) -> str:
        return ctx.enqueue("feed.insert", {"n": 2})

    @worker.handler("fan.blocking")
    async def fan_blocking(argument: Any, ctx: Context) -> str:
        return ctx.enqueue_sync("feed.insert", {"n": 3})

    await up()
    for name, n in (("fan.async", 1), ("fan.sync", 2), ("fan.blocking", 3)):
        job = await master.run(name)
        result = await wait_until(lambda job=job: master.result(job["job_id"]))
        assert master.jobs[result["result"]]["argument"] == {"n": n}
        assert master.jobs[result["result"]]["name"] == "feed.insert"


async def test_a_confirmed_start_runs_only_after_the_store_said_yes(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    ran: list[str] = []

    @worker.handler("careful", confirm_start=True)
    async def careful(argument: str) -> None:
        ran.append(argument)

    @worker.handler("careful.sync", confirm_start=True)
    def careful_sync(argument: str) -> None:
        ran.append(argument)

    await up()
    yes, no = master.dispatch("careful", "yes"), master.dispatch("careful", "no")
    in_thread = master.dispatch("careful.sync", "thread")
    master.stale.add(no["token"])
    master.script("start", 503, {"code": "store_unavailable"})
    await master.push(yes, no, in_thread)
    await wait_until(lambda: master.result(yes["job_id"]) and master.result(in_thread["job_id"]))
    await wait_until(lambda: master.beats[-1] == {"running": [], "free": 4})
    assert sorted(ran) == ["thread", "yes"]
    assert master.result(no["job_id"]) is None


def test_names_and_signatures_are_checked_when_a_handler_is_registered() -> None:
    worker = Worker()
    for bad in ("", "a b", "x" * 201, "é"):
        with pytest.raises(ValueError, match="not a name"):
            worker.handler(bad)(lambda argument: None)
    worker.handler("once")(lambda argument: None)
    with pytest.raises(ValueError, match="already"):
        worker.handler("once")(lambda argument: None)
    with pytest.raises(TypeError, match="takes"):
        worker.handler("none")(lambda: None)
    with pytest.raises(TypeError, match="takes"):
        worker.handler("three")(lambda a, b, c: None)
    with pytest.raises(TypeError, match="exception classes"):
        worker.handler("policy", discard_on=["ValueError"])(lambda a: None)  # type: ignore[list-item]
    with pytest.raises(TypeError, match="top level of a module"):
        worker.handler("local", isolated=True)(lambda argument: None)
