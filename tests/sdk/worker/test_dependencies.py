"""Dependencies: values that the worker passes to handlers and tasks."""

import asyncio
import functools
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from tests.sdk.worker import isolated_with_dependencies
from tests.support import real_time
from worker_sdk import Context, Depends, InvalidArgument, Tasks, Worker
from worker_sdk.testing import WorkerHarness

pytestmark = real_time.WORKER


class Notes(list[str]):
    """The events of a test, in order."""


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def worker(notes: Notes) -> Worker:
    """Handlers of each kind, with values that live as long as the worker or the job."""
    worker = Worker()

    async def pool() -> AsyncIterator[str]:
        notes.append("pool opened")
        yield "pool"
        notes.append("pool closed")

    def session(ctx: Context, pool: str = Depends(pool, scope="worker")) -> Iterator[str]:
        notes.append("session opened")
        try:
            yield f"session of {pool} for {ctx.job_id[-1]}"
        except BaseException as exc:
            notes.append(f"session saw {type(exc).__name__}")
            raise
        finally:
            notes.append("session closed")

    def user(session: str = Depends(session)) -> str:
        return f"user by {session}"

    @worker.handler("sync")
    def sync(argument: Any, user: str = Depends(user), *, session: str = Depends(session)) -> list[str]:
        notes.append(threading.current_thread().name)
        if argument == "fail":
            raise LookupError("no such thing")
        return [user, session]

    @worker.handler("async")
    async def run(
        argument: Any, ctx: Context, session: str = Depends(session), user: str = Depends(user)
    ) -> Any:
        if argument == "fail":
            raise LookupError("no such thing")
        if argument == "wait":
            await asyncio.sleep(60)
        return [user, session]

    return worker


@pytest.mark.req("S7")
@pytest.mark.parametrize("name", ["sync", "async"])
async def test_values_are_made_once_in_their_scope_and_cleaned_up(
    worker: Worker, notes: Notes, name: str
) -> None:
    async with WorkerHarness(worker) as harness:
        assert notes == ["pool opened"]
        for number in (0, 1):
            session = f"session of pool for {number}"
            assert (await harness.run(name)).result == [f"user by {session}", session]
    assert [one for one in notes if not one.startswith("jq-")] == [
        "pool opened",
        *["session opened", "session closed"] * 2,
        "pool closed",
    ]


@pytest.mark.req("S7")
@pytest.mark.parametrize("name", ["sync", "async"])
async def test_a_generator_sees_the_exception_of_the_handler_and_is_cleaned_up(
    worker: Worker, notes: Notes, name: str
) -> None:
    ending = await WorkerHarness(worker).run(name, "fail")
    assert ending.fields["error"]["type"] == "LookupError"
    assert notes[-3:] == ["session saw LookupError", "session closed", "pool closed"]


@pytest.mark.req("S7")
async def test_a_cancellation_reaches_the_generators(worker: Worker, notes: Notes) -> None:
    ending = await WorkerHarness(worker).run("async", "wait", timeout=0.05)
    assert ending.fields["reason"] == "timeout"
    assert notes[-3:] == ["session saw CancelledError", "session closed", "pool closed"]


async def test_a_cancellation_while_a_value_is_made_cleans_up_what_was_made(notes: Notes) -> None:
    worker = Worker()

    def first() -> Iterator[int]:
        try:
            yield 1
        finally:
            notes.append("first closed")

    async def second(first: int = Depends(first)) -> int:
        try:
            await asyncio.sleep(60)
        finally:
            notes.append("second canceled")
        return 2

    @worker.handler("job")
    async def job(argument: Any, second: int = Depends(second)) -> None:
        notes.append("never")

    assert (await WorkerHarness(worker).run("job", timeout=0.05)).fields["reason"] == "timeout"
    assert notes == ["second canceled", "first closed"]


async def test_an_exception_of_a_dependency_fails_the_attempt_by_the_policies_of_the_handler(
    notes: Notes,
) -> None:
    worker = Worker()

    def before() -> Iterator[None]:
        yield
        notes.append("before closed")

    def broken(before: None = Depends(before)) -> int:
        raise ConnectionError("no database")

    @worker.handler("sync", discard_on=ConnectionError)
    def sync(argument: Any, broken: int = Depends(broken)) -> None: ...

    @worker.handler("async")
    async def run(argument: Any, broken: int = Depends(broken)) -> None: ...

    harness = WorkerHarness(worker)
    assert (await harness.run("sync")).type == "discarded"
    ending = await harness.run("async")
    assert ending.fields["message"] == "ConnectionError: no database"
    # The exception was raised at the yield, and the rest of the generator did not run.
    assert notes == []


async def test_an_exception_of_a_clean_up_is_logged_and_the_others_are_cleaned_up(
    notes: Notes, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker()

    def good() -> Iterator[None]:
        yield
        notes.append("good closed")

    def bad() -> Iterator[None]:
        yield
        raise OSError("cannot close")

    @worker.handler("sync")
    def sync(argument: Any, good: None = Depends(good), bad: None = Depends(bad)) -> int:
        return 1

    @worker.handler("async")
    async def run(argument: Any, good: None = Depends(good), bad: None = Depends(bad)) -> int:
        return 1

    for name in ("sync", "async"):
        assert (await WorkerHarness(worker).run(name)).result == 1
        assert notes.pop() == "good closed"
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2
    assert all("bad failed after" in message for message in messages)


@pytest.mark.req("S7")
async def test_a_generator_that_does_not_yield_once_is_named(caplog: pytest.LogCaptureFixture) -> None:
    def never() -> Iterator[int]:
        yield from ()

    async def never_async() -> AsyncIterator[int]:
        if caplog is None:
            yield 1

    def twice() -> Iterator[int]:
        yield 1
        yield 2

    async def twice_async() -> AsyncIterator[int]:
        yield 1
        yield 2

    worker = Worker()
    functions: list[Callable[..., Any]] = [never, never_async, twice, twice_async]
    for function in functions:

        @worker.handler(function.__name__)
        async def run(argument: Any, value: Any = Depends(function)) -> Any:
            return value

    @worker.handler("sync.twice")
    def sync(argument: Any, value: int = Depends(twice)) -> int:
        return value

    harness = WorkerHarness(worker)
    for name in ("never", "never_async"):
        message = (await harness.run(name)).fields["message"]
        assert message.endswith(f"{name} yields nothing"), message
        assert message.startswith("RuntimeError: the dependency ")
    for name in ("twice", "twice_async", "sync.twice"):
        caplog.clear()
        assert (await harness.run(name)).result == 1
        assert "yields more than once" in str(caplog.records[0].exc_info)


@pytest.mark.req("S7")
async def test_isolated_handlers_make_all_values_in_their_own_process() -> None:
    worker = Worker()
    worker.handler("session", isolated=True)(isolated_with_dependencies.with_session)
    worker.handler("session.async", isolated=True)(isolated_with_dependencies.with_session_async)
    harness = WorkerHarness(worker)
    for name in ("session", "session.async"):
        told, model_pid, argument, pid = (await harness.run(name, 7)).result
        assert (told, argument) == (name, 7)
        assert model_pid == pid != os.getpid()


# --- tasks


@pytest.mark.req("S7", "S8")
async def test_a_parameter_with_depends_is_no_argument_of_a_task(worker: Worker, notes: Notes) -> None:
    tasks = Tasks()

    async def session(ctx: Context) -> AsyncIterator[str]:
        yield f"session of {ctx.name}"
        notes.append("closed")

    def plain() -> int:
        return 9

    @tasks.task("feed.read")
    async def read(url: str, limit: int = 3, db: str = Depends(session), *, n: int = Depends(plain)) -> str:
        return f"{url} {db} {limit} {n}"

    @tasks.task("feed.count")
    def count(ctx: Context, url: str, /, *, n: int = Depends(plain)) -> str:
        return f"{ctx.name} {url} {n}"

    worker.run_tasks(tasks)
    harness = WorkerHarness(worker)
    assert (await harness.run("feed.read", {"url": "u"})).result == "u session of feed.read 3 9"
    assert (await harness.run("feed.read", {"url": "u", "limit": 4})).result.endswith("4 9")
    assert (await harness.run("feed.count", {"url": "u"})).result == "feed.count u 9"
    assert notes.count("closed") == 2
    assert read.to_job("u", 5)["argument"] == {"url": "u", "limit": 5}
    with pytest.raises(InvalidArgument, match="db: is a dependency, which the worker fills"):
        read.to_job("u", db="x")
    with pytest.raises(InvalidArgument, match="3 were given by position, but at most 2 are accepted"):
        read.to_job("u", 5, "x")
    ending = await harness.run("feed.read", {"url": "u", "db": "x"})
    assert ending.fields["reason"] == "invalid_argument"
    # An ordinary call passes it, as a test would.
    assert await read("u", db="my session", n=1) == "u my session 3 1"


async def test_a_task_may_depend_on_what_has_no_type_that_travels() -> None:
    tasks = Tasks()

    @tasks.task("lock")
    def lock(number: int, lock: threading.Lock = Depends(threading.Lock)) -> bool:
        return lock.acquire(blocking=False)

    assert (await WorkerHarness(Worker(tasks=tasks)).run("lock", {"number": 1})).result is True


async def test_jobs_that_a_dependency_enqueues_go_the_way_of_the_job() -> None:
    tasks = Tasks()

    @tasks.task("log")
    def log(text: str) -> None: ...

    def noting(ctx: Context) -> Iterator[None]:
        log.enqueue(f"begin {ctx.name}")
        yield

    worker = Worker(tasks=tasks)

    @worker.handler("job")
    def job(argument: Any, noting: None = Depends(noting)) -> None: ...

    harness = WorkerHarness(worker)
    await harness.run("job")
    assert [one["argument"] for one in harness.enqueued] == [{"text": "begin job"}]


# --- what cannot be called


class Callable_:
    async def __call__(self, ctx: Context) -> str:
        return ctx.name


async def test_objects_partials_and_classes_are_functions_too() -> None:
    worker = Worker()

    class Client:
        def __init__(self, ctx: Context) -> None:
            self.name = ctx.name

    def add(a: int, b: int) -> int:
        return a + b

    @worker.handler("job")
    async def job(
        argument: Any,
        called: str = Depends(Callable_()),
        client: Client = Depends(Client),
        total: int = Depends(functools.partial(add, 1, b=2)),
        empty: dict[str, int] = Depends(dict),
    ) -> Any:
        return [called, client.name, total, empty]

    assert (await WorkerHarness(worker).run("job")).result == ["job", "job", 3, {}]


def test_depends_takes_a_function_and_a_scope() -> None:
    with pytest.raises(TypeError, match="takes a function, not a str"):
        Depends("db")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="job or worker"):
        Depends(dict, scope="request")  # type: ignore[call-overload]


def assembled(function: Any, *, is_async: bool = False) -> None:
    """Build a worker whose handler depends on `function`."""
    worker = Worker()
    if is_async:

        @worker.handler("job")
        async def run(argument: Any, value: Any = function) -> None: ...
    else:

        @worker.handler("job")
        def sync(argument: Any, value: Any = function) -> None: ...

    worker.assembly()


async def an_async_value() -> int:
    return 1


def of_a_job(ctx: Context) -> str:
    return ctx.name


@pytest.mark.req("S7")
def test_an_async_dependency_of_a_def_handler_is_refused_before_the_worker_starts() -> None:
    with pytest.raises(
        TypeError, match="handler job: the dependency an_async_value is async, and the handler"
    ):
        assembled(Depends(an_async_value))
    assembled(Depends(an_async_value), is_async=True)
    assembled(Depends(an_async_value, scope="worker"))


@pytest.mark.req("S7")
def test_a_dependency_of_the_worker_cannot_need_one_of_a_job() -> None:
    def plain() -> int:
        return 1

    def pool(number: int = Depends(plain)) -> int:
        return number

    with pytest.raises(TypeError, match=r"pool: its scope is worker, so it cannot need .*plain of one job"):
        assembled(Depends(pool, scope="worker"))
    with pytest.raises(TypeError, match=r"of_a_job: .* cannot need the Context of one job"):
        assembled(Depends(of_a_job, scope="worker"))


@pytest.mark.req("S7")
def test_dependencies_in_a_circle_are_refused_and_shown() -> None:
    def first(second: Any = None) -> int:
        return 1

    def second(first: Any = Depends(first)) -> int:
        return 2

    first.__defaults__ = (Depends(second),)
    with pytest.raises(TypeError, match=r"in a circle: .*first → .*second → .*first"):
        assembled(Depends(first))


def test_a_parameter_that_nothing_fills_is_refused() -> None:
    def session(url: str) -> str:
        return url

    with pytest.raises(TypeError, match="session: nothing fills url"):
        assembled(Depends(session))

    def positional(ctx: Context, /) -> str:
        return ctx.name

    with pytest.raises(TypeError, match="ctx cannot be positional-only"):
        assembled(Depends(positional))


def test_parameters_with_depends_stand_after_the_context() -> None:
    worker = Worker()

    def before(argument: Any, db: Any = Depends(dict), ctx: Any = None) -> None: ...
    def by_position(argument: Any, db: Any = Depends(dict), /) -> None: ...

    functions: list[Any] = [before, by_position]
    for function in functions:
        with pytest.raises(TypeError, match="parameters with Depends must come after"):
            worker.handler("job")(function)
        with pytest.raises(
            TypeError, match="task job: put parameters with Depends after all other parameters"
        ):
            Tasks().task("job")(function)


async def test_a_value_of_the_worker_that_cannot_be_made_stops_the_start(notes: Notes) -> None:
    worker = Worker()

    def first() -> Iterator[int]:
        try:
            yield 1
        finally:
            notes.append("first closed")

    async def second(first: int = Depends(first, scope="worker")) -> int:
        raise ConnectionError("no database")

    @worker.handler("job")
    def job(argument: Any, second: int = Depends(second, scope="worker")) -> None: ...

    with pytest.raises(ConnectionError, match="no database"):
        await WorkerHarness(worker).run("job")
    assert notes == ["first closed"]
