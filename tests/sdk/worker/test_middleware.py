"""Middleware around handlers and a worker's life."""

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from tests.sdk.fake_master import FakeMaster
from tests.sdk.worker import isolated_with_dependencies
from tests.support import real_time
from tests.support.waiting import wait_until
from worker_sdk import Context, Discard, IsolatedHandlerError, Middleware, Retry, Tasks, Worker, configure
from worker_sdk.testing import WorkerHarness

pytestmark = real_time.WORKER


class Noted(Middleware):
    """Records its calls."""

    def __init__(self, name: str, notes: list[Any]) -> None:
        self.name = name
        self.notes = notes

    def on_start(self) -> None:
        self.notes.append((self.name, "start"))

    async def on_stop(self) -> None:
        await asyncio.sleep(0)
        self.notes.append((self.name, "stop"))

    def around_job(self, ctx: Context) -> Iterator[None]:
        self.notes.append((self.name, "before", ctx.name))
        try:
            yield
        except BaseException as exc:
            self.notes.append((self.name, type(exc)))
            raise
        self.notes.append((self.name, "after"))


class Ending(Middleware):
    """Runs `end` with the handler's exception, or None."""

    def __init__(self, end: Callable[[BaseException | None], None]) -> None:
        self.end = end

    def around_job(self, ctx: Context) -> Iterator[None]:
        try:
            yield
        except Exception as exc:
            self.end(exc)
            return
        self.end(None)


def worker_with(*middleware: Middleware) -> Worker:
    worker = Worker(middleware=middleware)

    @worker.handler("sync")
    def handle(argument: Any, ctx: Context) -> Any:
        if argument == "fail":
            raise LookupError("no such thing")
        return argument

    @worker.handler("async")
    async def handle_async(argument: Any) -> Any:
        if argument == "fail":
            raise LookupError("no such thing")
        return argument

    worker.handler("isolated", isolated=True)(isolated_with_dependencies.plain)
    return worker


@pytest.mark.req("S7")
@pytest.mark.parametrize("name", ["sync", "async", "isolated"])
async def test_middleware_surrounds_each_kind_of_handler_the_first_one_outermost(name: str) -> None:
    notes: list[Any] = []
    harness = WorkerHarness(worker_with(Noted("a", notes), Noted("b", notes)))
    assert (await harness.run(name, 7)).result == 7
    around = [("a", "before", name), ("b", "before", name), ("b", "after"), ("a", "after")]
    assert notes == [("a", "start"), ("b", "start"), *around, ("b", "stop"), ("a", "stop")]


@pytest.mark.req("S7")
@pytest.mark.parametrize(
    ("name", "kind"), [("sync", LookupError), ("async", LookupError), ("isolated", IsolatedHandlerError)]
)
async def test_middleware_gets_the_exception_of_the_handler(name: str, kind: type[Exception]) -> None:
    notes: list[Any] = []
    ending = await WorkerHarness(worker_with(Noted("a", notes))).run(name, "fail")
    assert ("a", kind) in notes
    assert ending.type == "failure"
    assert ending.fields["error"]["type"] == "LookupError"


async def test_the_failure_of_an_isolated_handler_tells_what_a_master_is_told() -> None:
    seen: list[IsolatedHandlerError] = []

    def end(exc: BaseException | None) -> None:
        assert isinstance(exc, IsolatedHandlerError)
        seen.append(exc)

    await WorkerHarness(worker_with(Ending(end))).run("isolated", "fail")
    assert str(seen[0]) == "LookupError: no such thing"
    assert "no such thing" in seen[0].fields["error"]["traceback"]


@pytest.mark.req("S7")
@pytest.mark.parametrize("name", ["sync", "async", "isolated"])
async def test_middleware_that_swallows_an_exception_does_not_make_a_failure_a_success(name: str) -> None:
    ending = await WorkerHarness(worker_with(Ending(lambda exc: None))).run(name, "fail")
    assert ending.fields["error"]["type"] == "LookupError"


@pytest.mark.req("S7")
@pytest.mark.parametrize("name", ["sync", "async", "isolated"])
async def test_middleware_decides_the_ending_by_raising(name: str) -> None:
    def end(exc: BaseException | None) -> None:
        raise Discard("gone") if exc else Retry(9)

    harness = WorkerHarness(worker_with(Ending(end)))
    assert (await harness.run(name, "fail")).type == "discarded"
    assert (await harness.run(name, 1)).fields["retry_after"] == 9


class Async(Middleware):
    def __init__(self) -> None:
        self.notes: list[Any] = []

    async def around_async_job(self, ctx: Context) -> AsyncIterator[None]:
        await asyncio.sleep(0)
        try:
            yield
        finally:
            await asyncio.sleep(0)
            self.notes.append(ctx.name)

    def around_job(self, ctx: Context) -> Iterator[None]:
        self.notes.append(f"{ctx.name} in {threading.current_thread().name}")
        yield


async def test_async_middleware_surrounds_async_handlers_in_place_of_the_other() -> None:
    one = Async()
    harness = WorkerHarness(worker_with(one))
    await harness.run("async", 1)
    assert one.notes == ["async"]
    await harness.run("async", "fail")
    assert one.notes == ["async", "async"]
    await harness.run("sync", 1)
    assert one.notes[-1] == "sync in jq-handler-1"


async def test_a_timeout_reaches_middleware_as_a_cancellation() -> None:
    notes: list[Any] = []
    worker = Worker(middleware=[Noted("a", notes)])

    @worker.handler("slow")
    async def slow(argument: Any) -> None:
        await asyncio.sleep(60)

    assert (await WorkerHarness(worker).run("slow", timeout=0.05)).fields["reason"] == "timeout"
    assert ("a", asyncio.CancelledError) in notes


class Misbehaving(Middleware):
    """Yields a given number of times."""

    def __init__(self, times: int) -> None:
        self.times = times

    def around_job(self, ctx: Context) -> Iterator[None]:
        for _ in range(self.times):
            yield


class MisbehavingAsync(Misbehaving):
    async def around_async_job(self, ctx: Context) -> AsyncIterator[None]:
        for _ in range(self.times):
            yield


@pytest.mark.req("S7")
@pytest.mark.parametrize(
    ("times", "what"),
    [(0, "{}.around_{}job yields nothing"), (2, "{}.around_{}job yields more than once")],
)
async def test_a_generator_that_does_not_yield_once_fails_the_attempt_and_is_named(
    times: int, what: str
) -> None:
    for name in ("sync", "async", "isolated"):
        ending = await WorkerHarness(worker_with(Misbehaving(times))).run(name, 1)
        assert ending.fields["message"] == f"RuntimeError: {what.format('Misbehaving', '')}"
    ending = await WorkerHarness(worker_with(MisbehavingAsync(times))).run("async", 1)
    assert ending.fields["message"] == f"RuntimeError: {what.format('MisbehavingAsync', 'async_')}"


async def test_an_exception_before_the_yield_fails_the_attempt_without_the_handler() -> None:
    class Refusing(Middleware):
        def around_job(self, ctx: Context) -> Iterator[None]:
            raise PermissionError("not here")
            yield

    notes: list[Any] = []
    for name in ("sync", "async", "isolated"):
        harness = WorkerHarness(worker_with(Noted("a", notes), Refusing(), Noted("b", notes)))
        ending = await harness.run(name, 1)
        assert ending.fields["message"] == "PermissionError: not here"
    assert notes.count(("a", PermissionError)) == 3
    assert not any(note[:2] == ("b", "before") for note in notes)


class NoGenerator(Middleware):
    def around_job(self, ctx: Context) -> Iterator[None]:
        return iter([None])


class HalfAsync(Middleware):
    def around_async_job(self, ctx: Context) -> Any:
        yield


@pytest.mark.req("S7")
def test_a_value_that_is_no_middleware_is_refused_where_it_is_given() -> None:
    with pytest.raises(TypeError, match=r"takes instances: write Noted\(\), not Noted"):
        Worker(middleware=[Noted])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="int is not a subclass of Middleware"):
        Worker(middleware=[7])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="must be a list"):
        Worker(middleware=NoGenerator())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be a list"):
        configure(middleware=NoGenerator)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"NoGenerator.around_job must be a generator that yields once"):
        worker_with(NoGenerator()).assembly()
    with pytest.raises(TypeError, match=r"HalfAsync.around_async_job must be an async generator"):
        worker_with(HalfAsync()).assembly()


@pytest.mark.req("S7")
def test_a_handler_that_nothing_surrounds_is_the_registered_one() -> None:
    class Life(Middleware):
        def on_start(self) -> None: ...

        def around_enqueue(self, job: dict[str, Any]) -> Iterator[None]:
            yield

    tasks = Tasks()

    @tasks.task("a.task")
    def task(number: int) -> int:
        return number

    class OfAsync(Middleware):
        async def around_async_job(self, ctx: Context) -> AsyncIterator[None]:
            yield

    for worker in (worker_with(), worker_with(Life())):
        worker.run_tasks(tasks)
        registry = worker.assembly().registry
        assert registry.names == ["a.task", "async", "isolated", "sync"]
        assert all(registry.get(name) is worker.find(name) for name in registry.names)
    worker = worker_with(OfAsync())
    registry = worker.assembly().registry
    assert registry.get("sync") is worker.find("sync")
    assert registry.get("async") is not worker.find("async")


# --- the life of a worker


async def test_a_worker_starts_its_middleware_before_it_registers_and_stops_it_at_the_end(
    master: FakeMaster, worker: Worker, up: Callable[[], Any]
) -> None:
    notes: list[Any] = []

    class Watching(Noted):
        def on_start(self) -> None:
            assert worker.worker_id is None
            super().on_start()

    worker.middleware = [Watching("a", notes)]

    @worker.handler("echo")
    async def echo(argument: Any) -> Any:
        return argument

    async with worker.running():
        await wait_until(lambda: worker.worker_id)
        job = await master.run("echo", 5)
        await wait_until(lambda: master.result(job["job_id"]))
        assert notes == [("a", "start"), ("a", "before", "echo"), ("a", "after")]
    assert notes[-1] == ("a", "stop")
    async with worker.running():  # again
        pass
    assert notes[-2:] == [("a", "start"), ("a", "stop")]


@pytest.mark.req("S7")
async def test_a_start_that_fails_half_way_stops_what_had_started_and_registers_nothing(
    master: FakeMaster, worker: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    notes: list[Any] = []

    class Failing(Noted):
        def on_start(self) -> None:
            raise ConnectionError("no database")

        async def on_stop(self) -> None:
            notes.append("never")

    class BadEnd(Noted):
        async def on_stop(self) -> None:
            raise OSError("cannot close")

    worker.middleware = [Noted("a", notes), BadEnd("b", notes), Failing("c", notes), Noted("d", notes)]
    worker.handler("echo")(lambda argument: argument)
    with pytest.raises(ConnectionError, match="no database"):
        async with worker.running():
            pass
    assert notes == [("a", "start"), ("b", "start"), ("a", "stop")]
    assert "on_stop of BadEnd failed" in caplog.text
    assert worker.worker_id is None
    assert master.workers == {}


async def test_middleware_of_the_process_is_that_of_a_worker_which_is_given_none() -> None:
    notes: list[Any] = []
    one = Noted("a", notes)
    configure(middleware=[one])
    try:
        assert Worker().middleware == (one,)
        assert Worker(middleware=[]).middleware == ()
    finally:
        configure()
    assert Worker().middleware == ()


async def test_an_isolated_handler_is_surrounded_in_the_worker(caplog: pytest.LogCaptureFixture) -> None:
    pids: list[int] = []

    class Pid(Middleware):
        def around_job(self, ctx: Context) -> Iterator[None]:
            pids.append(os.getpid())
            yield

    worker = Worker(middleware=[Pid()])
    worker.handler("isolated.pid", isolated=True)(isolated_with_dependencies.pid)
    worker.handler("isolated.death", isolated=True)(isolated_with_dependencies.die)
    harness = WorkerHarness(worker)
    assert (await harness.run("isolated.pid")).result not in pids
    assert (await harness.run("isolated.death")).fields["message"].endswith("ended by SIGKILL")
    assert pids == [os.getpid()] * 2
    with caplog.at_level(logging.WARNING):
        assert (await harness.run("isolated.pid", "wait", timeout=0.5)).fields["reason"] == "timeout"
