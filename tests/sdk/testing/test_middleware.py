"""The test kit runs middleware and dependencies."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from worker_sdk import INJECTED, Context, Depends, EnqueueRefused, Middleware, Tasks, Worker, configure
from worker_sdk.testing import drain, inline, recording

pytestmark = pytest.mark.req("S7", "S9")

notes: list[Any] = []
tasks = Tasks()


class Loop:
    """A value bound to its event loop, like a pool."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()


async def pool() -> AsyncIterator[Loop]:
    notes.append("pool opened")
    yield Loop()
    await asyncio.sleep(0)
    notes.append("pool closed")


def session(ctx: Context, pool: Loop = Depends(pool, scope="worker")) -> Iterator[str]:
    yield ctx.name
    notes.append("session closed")


@tasks.task("read", keep_result=True)
async def read(
    number: int, *, pool: Loop = Depends(pool, scope="worker"), name: str = Depends(session)
) -> str:
    same = pool.loop is asyncio.get_running_loop()
    return f"{name} {number} {same}"


@tasks.task("count", keep_result=True)
def count(number: int, *, name: str = Depends(session)) -> int:
    if number < 0:
        raise LookupError("negative")
    return number


@tasks.task("fan")
async def fan(numbers: int, ctx: Context = INJECTED) -> None:
    await ctx.enqueue("raw", numbers)
    await count.amany({"number": number} for number in range(numbers))


@tasks.task("alone", isolated=True, keep_result=True)
def alone(number: int, *, name: str = Depends(session)) -> str:
    return name


class Noted(Middleware):
    async def on_start(self) -> None:
        await asyncio.sleep(0)
        notes.append("start")

    def on_stop(self) -> None:
        notes.append("stop")

    def around_job(self, ctx: Context) -> Iterator[None]:
        try:
            yield
        except Exception as exc:
            notes.append((ctx.name, str(exc)))
            raise
        notes.append(ctx.name)

    def around_enqueue(self, job: dict[str, Any]) -> Iterator[None]:
        if job["argument"] == {"number": 13}:
            raise EnqueueRefused("unlucky")
        job["headers"] = {"by": "noted"}
        yield


@pytest.fixture(autouse=True)
def configured() -> Iterator[None]:
    notes.clear()
    configure(middleware=[Noted()])
    yield
    configure()


LIFE = ["start", "pool opened"]
END = ["pool closed", "stop"]


def test_recorded_jobs_pass_the_middleware_and_a_refused_one_is_not_recorded() -> None:
    with recording() as jobs:
        count.enqueue(1)
        with pytest.raises(EnqueueRefused, match="unlucky"):
            count.enqueue(13)
        with pytest.raises(EnqueueRefused, match="unlucky"):
            count.many([{"number": 2}, {"number": 13}])
    assert jobs.only(count).arguments == {"number": 1}
    assert jobs[0]["headers"] == {"by": "noted"}
    assert jobs[0].task is count
    assert notes == []


def test_drained_jobs_run_in_one_life_of_a_worker() -> None:
    with recording() as jobs:
        read.enqueue(1)
        read.enqueue(2)
        count.enqueue(3)
        drained = drain(jobs)
    assert [run.result for run in drained] == ["read 1 True", "read 2 True", 3]
    ran = ["session closed", "read", "session closed", "read", "session closed", "count"]
    assert notes == [*LIFE, *ran, *END]


def test_inline_jobs_run_in_one_life_of_a_worker_that_ends_with_the_block() -> None:
    with inline():
        assert read.enqueue(1).get() == "read 1 True"
        assert count.enqueue(2).get() == 2
        assert alone.enqueue(3).get() == "alone"
        assert "stop" not in notes
        with pytest.raises(LookupError, match="negative"):
            count.using(max_retry=0).enqueue(-1)
    assert notes[:2] == LIFE
    assert notes[-2:] == END
    assert ("count", "negative") in notes


async def test_inline_jobs_of_an_async_test_run_in_its_loop() -> None:
    with inline():
        handles = await asyncio.gather(*(read.aenqueue(number) for number in range(3)))
        assert [await handle.aget() for handle in handles] == [f"read {number} True" for number in range(3)]
        assert await (await count.aenqueue(2)).aget() == 2
        assert count.enqueue(4).get() == 4
    assert notes[:2] == LIFE
    for _ in range(5):
        await asyncio.sleep(0)
    assert notes[-2:] == END
    assert notes.count("start") == 1


def test_an_async_function_that_enqueues_by_a_blocking_call_does_not_hang() -> None:
    inner = Tasks()

    @inner.task("outer", keep_result=True)
    async def outer(*, pool: Loop = Depends(pool, scope="worker")) -> str:
        return read.enqueue(5).get()

    with inline():
        assert outer.enqueue().get() == "read 5 False"
    assert notes.count("pool opened") == 1


def test_jobs_that_jobs_enqueue_pass_the_middleware_of_the_worker() -> None:
    class Other(Middleware):
        def around_enqueue(self, job: dict[str, Any]) -> Iterator[None]:
            job["tags"] = ["other"]
            yield

    worker = Worker(tasks=tasks, middleware=[Other()])

    @worker.handler("raw")
    def raw(argument: int) -> int:
        return argument

    with recording() as jobs:
        fan.enqueue(2)
        drained = drain(jobs, worker=worker)
    assert [run.job["name"] for run in drained] == ["fan", "raw", "count", "count"]
    assert drained[0].job["headers"] == {"by": "noted"}
    assert [run.job.get("tags") for run in drained] == [None, ["other"], ["other"], ["other"]]
    assert "start" not in notes


def test_a_start_that_fails_is_told_to_the_test() -> None:
    class Failing(Noted):
        async def on_start(self) -> None:
            raise ConnectionError("no database")

    configure(middleware=[Noted(), Failing()])
    with recording() as jobs:
        count.enqueue(1)
        with pytest.raises(ConnectionError, match="no database"):
            drain(jobs)
    assert notes == ["start", "stop"]


def test_dependencies_that_cannot_be_called_are_told_to_the_test() -> None:
    odd = Tasks()

    async def value() -> int:
        return 1

    @odd.task("odd")
    def job(*, value: int = Depends(value)) -> None: ...

    with inline(), pytest.raises(TypeError, match=r"value is async, and the handler is a def"):
        job.enqueue()
