"""Django and SQLAlchemy connections are returned after each attempt. Real packages, on SQLite files."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from tests.support import django_site, real_time
from worker_sdk import Context, Depends, Worker
from worker_sdk.middleware import DjangoConnections, SqlAlchemyConnections
from worker_sdk.testing import WorkerHarness
from worker_sdk.worker.context import running_job

pytestmark = [real_time.WORKER, pytest.mark.req("S7")]


@pytest.fixture(scope="module", autouse=True)
def _django() -> None:
    """Set up Django with a database file. `DEBUG` makes it collect queries."""
    django_site.set_up()


def state(_: Any = None) -> list[Any]:
    """Return whether this thread has an open connection, and how many queries Django remembers."""
    return [connection.connection is not None, len(connection.queries)]


def query(_: Any = None) -> list[Any]:
    """Return the state before a query."""
    before = state()
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return before


def django_worker(*middleware: Any) -> Worker:
    worker = Worker(middleware=middleware)

    @worker.handler("async")
    async def run(argument: Any) -> Any:
        return await sync_to_async(query)()

    return worker


async def test_connections_of_django_are_closed_after_async_handlers() -> None:
    harness = WorkerHarness(django_worker(DjangoConnections()))
    for _ in range(2):
        assert (await harness.run("async")).result == [False, 0]
    assert await sync_to_async(state)() == [False, 1]
    # Without the middleware, connections and queries stay.
    harness = WorkerHarness(django_worker())
    await harness.run("async")
    assert (await harness.run("async")).result == [True, 2]
    await WorkerHarness(django_worker(DjangoConnections())).run("async")
    assert (await sync_to_async(state)())[0] is False


async def test_connections_of_django_are_closed_in_the_thread_of_a_def_handler() -> None:
    states: list[list[Any]] = []

    class Looking(DjangoConnections):
        """Checks the state after the end of the attempt, in the same thread."""

        def around_job(self, ctx: Context) -> Iterator[None]:
            query()
            states.append(state())
            try:
                yield from super().around_job(ctx)
            finally:
                states.append(state())

    worker = Worker(middleware=[Looking()])
    worker.handler("query")(lambda argument: query())

    @worker.handler("fail")
    def fail(argument: Any) -> None:
        query()
        raise LookupError

    harness = WorkerHarness(worker)
    assert (await harness.run("query")).result == [False, 0]
    assert (await harness.run("fail")).type == "failure"
    assert states == [[True, 1], [False, 1]] * 2


# --- SQLAlchemy


async def test_scoped_sessions_are_removed_after_each_attempt(tmp_path: Path) -> None:
    engine: Any = create_engine(f"sqlite:///{tmp_path / 'a.db'}")
    sessions: Any = scoped_session(sessionmaker(engine))
    by_job: Any = scoped_session(sessionmaker(engine), scopefunc=running_job.get)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE t (n INTEGER)"))
    worker = Worker(middleware=[SqlAlchemyConnections(sessions, by_job, engine)])

    @worker.handler("sync")
    def sync(argument: Any) -> None:
        sessions.execute(text("INSERT INTO t VALUES (1)"))
        if argument == "commit":
            sessions.commit()
        if argument == "fail":
            raise LookupError

    @worker.handler("async")
    async def run(argument: Any) -> None:
        by_job.execute(text("SELECT 1"))

    def count() -> int:
        with engine.connect() as connection:
            return int(connection.execute(text("SELECT count(*) FROM t")).scalar_one())

    async with WorkerHarness(worker) as harness:
        for argument, rows in (("nothing", 0), ("fail", 0), ("commit", 1)):
            await harness.run("sync", argument)
            assert engine.pool.checkedout() == 0
            assert count() == rows
        pool = engine.pool
        await harness.run("async")
        assert len(by_job.registry.registry) == 0
    assert engine.pool is not pool, "disposed of at the end"


async def test_async_scoped_sessions_are_removed_after_async_handlers(tmp_path: Path) -> None:
    engine: Any = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'a.db'}")
    sessions: Any = async_scoped_session(async_sessionmaker(engine), scopefunc=asyncio.current_task)
    worker = Worker(middleware=[SqlAlchemyConnections(sessions, engine)])

    @worker.handler("async")
    async def run(argument: Any) -> int:
        return int((await sessions.execute(text("SELECT 7"))).scalar_one())

    async with WorkerHarness(worker) as harness:
        assert (await harness.run("async")).result == 7
        assert len(sessions.registry.registry) == 0
        assert engine.pool.checkedout() == 0
    with pytest.raises(TypeError, match="scoped sessions and engines are needed here, not str"):
        SqlAlchemyConnections("sqlite://")


async def test_a_session_as_a_dependency_is_rolled_back_after_a_failure(tmp_path: Path) -> None:
    engine: Any = create_engine(f"sqlite:///{tmp_path / 'a.db'}")
    new_session = sessionmaker(engine)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE t (n INTEGER)"))

    def open_session() -> Iterator[Session]:
        with new_session() as session:
            yield session

    worker = Worker(middleware=[SqlAlchemyConnections(engine)])

    @worker.handler("insert")
    def insert(argument: Any, session: Session = Depends(open_session)) -> None:
        session.execute(text("INSERT INTO t VALUES (1)"))
        if argument == "fail":
            raise LookupError
        session.commit()

    harness = WorkerHarness(worker)
    await harness.run("insert", "fail")
    await harness.run("insert", "commit")
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM t")).scalar_one() == 1
    engine.dispose()
