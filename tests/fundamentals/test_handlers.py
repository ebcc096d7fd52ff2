"""Handlers: their arguments, their results, and how they fail."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Any

import httpx
import msgpack
import pytest

from tests.support import real_time
from tests.support.waiting import wait_until
from worker_sdk import Context, Defer, Discard, Fail, Pusher, Retry, UnavailableError, Worker, retry_on

pytestmark = real_time.MASTER


@Worker("http://127.0.0.1:1").handler("stubborn", isolated=True)
def sleep_on(_: Any) -> None:
    """A handler at the top of a module: its process imports it from there."""
    time.sleep(30)


FAST = {"base_s": 0.01, "jitter": False}


@pytest.mark.req("J1")
@pytest.mark.req("J2")
@pytest.mark.req("J8")
@pytest.mark.req("J10")
async def test_a_job_runs_and_its_result_comes_back(url: str, pusher: Pusher) -> None:
    worker = Worker(url)

    @worker.handler("greeting.make")
    async def make_greeting(argument: Any, ctx: Context) -> str:
        return f"Hello {argument['name']}"

    async with worker.running():
        job_id = await pusher.enqueue("greeting.make", {"name": "Ada"}, keep_result=True)
        result = await pusher.result(job_id, wait=10)
    assert result
    assert (result.type, result.result) == ("success", "Hello Ada")
    assert datetime.fromisoformat(result.finished_at).tzinfo is not None


@pytest.mark.req("J3")
@pytest.mark.parametrize(
    "argument",
    [
        None,
        True,
        -(2**63),
        2**64 - 1,
        1.5,
        "text, 日本語",
        b"\x00\xff",
        [1, [2, []]],
        {"a": {"b": None}},
        datetime(2026, 11, 21, 4, 30, 0, 123456, tzinfo=UTC),
        msgpack.ExtType(42, b"ext"),
    ],
    ids=repr,
)
async def test_the_handler_receives_a_value_equal_to_the_pushed_one(
    url: str, pusher: Pusher, argument: Any
) -> None:
    worker = Worker(url)

    @worker.handler("echo")
    async def echo(value: Any) -> Any:
        return value

    async with worker.running():
        result = await pusher.result(await pusher.enqueue("echo", argument, keep_result=True), wait=10)
    assert result
    assert result.result == argument
    assert type(result.result) is type(argument)


@pytest.mark.req("S1")
@pytest.mark.req("J5")
@pytest.mark.req("M4")
async def test_an_exception_retries_the_job_and_every_attempt_is_recorded(url: str, pusher: Pusher) -> None:
    worker = Worker(url)

    @worker.handler("flaky")
    async def flaky(_: Any, ctx: Context) -> int:
        if ctx.attempt < 3:
            raise ConnectionError(f"attempt {ctx.attempt}")
        return ctx.attempt

    async with worker.running():
        job_id = await pusher.enqueue("flaky", retry=FAST, keep_result=True)
        result = await pusher.result(job_id, wait=10)
        job = await pusher.status(job_id)
    assert result
    assert result.result == 3
    assert [(a["attempt"], a["outcome"]) for a in job["attempts"]] == [
        (1, "failure"),
        (2, "failure"),
        (3, "success"),
    ]
    assert job["attempts"][0]["message"] == "ConnectionError: attempt 1"
    assert all(a["worker_id"] and a["started_at"] <= a["finished_at"] for a in job["attempts"])


@pytest.mark.req("J5")
@pytest.mark.req("J9")
async def test_when_the_retries_are_used_up_the_job_has_failed(url: str, pusher: Pusher) -> None:
    worker = Worker(url)

    @worker.handler("broken")
    async def broken(_: Any) -> None:
        raise ValueError("never")

    async with worker.running():
        job_id = await pusher.enqueue("broken", max_retry=2, retry=FAST, keep_result=True)
        result = await pusher.result(job_id, wait=10)
        job = await pusher.status(job_id)
    assert result
    assert (result.type, result.reason, result.message) == ("failure", "other", "ValueError: never")
    assert (job["state"], job["cause"], job["attempt"]) == ("failed", "error", 3)


@pytest.mark.req("S2")
@pytest.mark.req("J9")
async def test_a_deleted_record_ends_the_job_quietly(url: str, pusher: Pusher) -> None:
    worker = Worker(url)

    @worker.handler("user.greet", discard_on=LookupError)
    async def greet(user_id: int) -> None:
        raise LookupError(f"user {user_id} is gone")

    async with worker.running():
        job_id = await pusher.enqueue("user.greet", 42, keep_result=True)
        assert await pusher.result(job_id, wait=10) is None
        job = await pusher.status(job_id)
    assert (job["state"], job["attempt"]) == ("discarded", 1)
    assert job["attempts"][0]["message"] == "LookupError: user 42 is gone"


@pytest.mark.req("S2")
async def test_each_exception_may_have_its_own_number_of_attempts_and_wait(url: str, pusher: Pusher) -> None:
    worker = Worker(url)

    @worker.handler("crawl", retry_on=retry_on(TimeoutError, wait=0.05, attempts=2))
    async def crawl(_: Any) -> None:
        raise TimeoutError("slow site")

    async with worker.running():
        job_id = await pusher.enqueue("crawl", max_retry=10, retry=FAST, keep_result=True)
        assert await pusher.result(job_id, wait=10)
        job = await pusher.status(job_id)
    assert (job["state"], job["attempt"]) == ("failed", 2)


async def test_a_handler_says_itself_how_its_job_goes_on(url: str, pusher: Pusher) -> None:
    worker = Worker(url)

    @worker.handler("choosy")
    async def choosy(how: str, ctx: Context) -> str:
        if ctx.attempt == 1:
            raise {
                "later": Defer(0.05),
                "again": Retry(after_s=0.05),
                "never": Fail("no use"),
                "needless": Discard("no need"),
            }[how]
        return "done"

    async with worker.running():
        ids = {
            how: await pusher.enqueue("choosy", how, keep_result=True)
            for how in ("later", "again", "never", "needless")
        }
        results = {how: await pusher.result(job_id, wait=10) for how, job_id in ids.items()}
        jobs = {how: await pusher.status(job_id) for how, job_id in ids.items()}
    assert results["later"] and results["later"].result == "done"  # noqa: PT018
    assert jobs["later"]["failures"] == 0
    assert jobs["again"]["failures"] == 1
    assert results["never"] and results["never"].message == "no use"  # noqa: PT018
    assert jobs["never"]["state"] == "failed"
    assert results["needless"] is None
    assert (jobs["needless"]["state"], jobs["needless"]["attempt"]) == ("discarded", 1)


@pytest.mark.req("J7")
async def test_a_run_that_exceeds_its_timeout_has_failed(url: str, pusher: Pusher) -> None:
    worker = Worker(url)

    @worker.handler("slow")
    async def slow(_: Any) -> None:
        await asyncio.sleep(30)

    worker.handler("stubborn", isolated=True)(sleep_on)

    async with worker.running():
        for name in ("slow", "stubborn"):
            job_id = await pusher.enqueue(name, timeout=0.3, max_retry=0, keep_result=True)
            result = await pusher.result(job_id, wait=15)
            assert result
            assert (result.type, result.reason) == ("failure", "timeout")
            assert (await pusher.status(job_id))["cause"] == "timeout"


@pytest.mark.req("J16")
async def test_a_handler_enqueues_more_jobs(url: str, pusher: Pusher) -> None:
    worker = Worker(url)

    @worker.handler("parent")
    async def parent(count: int, ctx: Context) -> list[str]:
        return [await ctx.enqueue("child", n, keep_result=True) for n in range(count)]

    @worker.handler("child")
    def child(n: int) -> int:
        return n * n

    async with worker.running():
        result = await pusher.result(await pusher.enqueue("parent", 3, keep_result=True), wait=10)
        assert result
        children = [await pusher.result(job_id, wait=10) for job_id in result.result]
    assert [c.result for c in children if c] == [0, 1, 4]


async def hold_by(url: str, *constraints: tuple[str, dict[str, Any]]) -> None:
    """Create constraints and wait until they apply to every job."""
    async with httpx.AsyncClient(base_url=url, trust_env=False) as http:
        for name, body in constraints:
            assert (await http.put(f"/api/constraints/{name}", json=body)).status_code == 201

        async def in_force() -> bool:
            answer = (await http.get("/api/constraints", headers={"Accept": "application/json"})).json()
            return all(one["usage"]["in_force"] for one in answer["constraints"])

        await wait_until(in_force, what="the constraints are in force")


@pytest.mark.req("J13")
async def test_a_handler_that_met_a_429_holds_all_of_its_host_and_burns_no_retry(
    url: str, pusher: Pusher
) -> None:
    await hold_by(
        url,
        ("hosts", {"matcher": {"field": "name", "op": "eq", "value": "fetch"}, "key": "argument.host",
        "concurrency": 1}),
    )  # fmt: skip
    worker = Worker(url, max_jobs=10)
    calls: list[tuple[str, float]] = []

    @worker.handler("fetch")
    async def fetch(argument: Any) -> None:
        calls.append((argument["host"], time.monotonic()))
        if argument["host"] == "busy" and sum(host == "busy" for host, _ in calls) == 1:
            raise Defer(1.5, hold=("hosts", "busy"))

    busy = [await pusher.enqueue("fetch", {"host": "busy"}, max_retry=0, keep_result=True) for _ in range(3)]
    others = [
        await pusher.enqueue("fetch", {"host": "idle"}, max_retry=0, keep_result=True) for _ in range(3)
    ]
    async with worker.running():
        for job_id in [*others, *busy]:
            result = await pusher.result(job_id, wait=20)
            assert result
            assert result.type == "success"
    starts = {host: [at for called, at in calls if called == host] for host in ("busy", "idle")}
    assert (len(starts["busy"]), len(starts["idle"])) == (4, 3)
    assert starts["busy"][1] - starts["busy"][0] >= 1.4
    assert starts["idle"][-1] < starts["busy"][1]


@pytest.mark.req("J13")
async def test_a_constraint_without_a_key_is_held_by_its_name(url: str, pusher: Pusher) -> None:
    await hold_by(
        url, ("mail", {"matcher": {"field": "name", "op": "glob", "value": "mail.*"}, "paused": False})
    )
    worker = Worker(url, max_jobs=1)
    starts: list[float] = []

    @worker.handler("mail.send")
    async def send(argument: Any) -> None:
        starts.append(time.monotonic())
        if len(starts) == 1:
            raise Defer(1.0, hold="mail")

    ids = [await pusher.enqueue("mail.send", keep_result=True) for _ in range(2)]
    async with worker.running():
        for job_id in ids:
            assert await pusher.result(job_id, wait=20)
    assert starts[1] - starts[0] >= 0.9


@pytest.mark.req("J13")
async def test_a_pusher_waits_while_the_backlog_is_full(url: str, pusher: Pusher) -> None:
    await hold_by(url, ("few", {"matcher": {"field": "name", "op": "eq", "value": "drop"}, "max_backlog": 1}))
    worker = Worker(url)

    @worker.handler("drop")
    async def drop(argument: Any) -> int:
        return int(argument)

    await pusher.enqueue("drop", 1)
    waiting = asyncio.create_task(pusher.enqueue("drop", 2, keep_result=True))
    async with Pusher(url, max_wait_s=0.5) as impatient:
        with pytest.raises(UnavailableError, match="backlog_full") as caught:
            await impatient.enqueue("drop", 3)
        assert caught.value.unknown_ids == []
        with pytest.raises(UnavailableError, match="backlog_full"):
            await impatient.enqueue_many([{"name": "drop", "argument": n} for n in range(2)])
    assert not waiting.done()
    async with worker.running():
        result = await pusher.result(await waiting, wait=20)
    assert result
    assert result.result == 2
