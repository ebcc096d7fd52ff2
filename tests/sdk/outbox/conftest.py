"""Databases with an outbox, and a master that records what it receives."""

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine

from tests.sdk.fake_master import FakeMaster
from tests.support.mysql import MySqlServer, mysql_or_skip
from tests.support.postgres import PostgresServer, postgres_or_skip
from worker_sdk.outbox.sqlalchemy import SqlAlchemyOutbox, outbox_table

metadata = sa.MetaData()
posts = sa.Table("posts", metadata, sa.Column("id", sa.Integer, primary_key=True), sa.Column("text", sa.Text))
table = outbox_table(metadata)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    server = postgres_or_skip()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def mysql() -> Iterator[MySqlServer]:
    server = mysql_or_skip()
    yield server
    server.stop()


@pytest.fixture
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], str]:
    """Return a function that takes a driver and returns a new database's address."""

    def make(driver: str) -> str:
        if driver.startswith("sqlite"):
            return f"{driver}:///{tmp_path / 'app.db'}"
        kind = "mysql" if driver.startswith("mysql") else "postgres"
        server: PostgresServer | MySqlServer = request.getfixturevalue(kind)
        return f"{driver}://{server.new_database()}"

    return make


@pytest.fixture(params=["sqlite", "postgresql+psycopg", "mysql+pymysql"])
def engine(request: pytest.FixtureRequest, address: Callable[[str], str]) -> Iterator[sa.Engine]:
    # With a pool of one, a push that kept the session's connection would wait for itself.
    one = sa.create_engine(address(request.param), pool_size=1, max_overflow=0, poolclass=sa.QueuePool)
    metadata.create_all(one)
    yield one
    one.dispose()


@pytest.fixture(params=["sqlite+aiosqlite", "postgresql+asyncpg", "postgresql+psycopg", "mysql+asyncmy"])
async def aengine(request: pytest.FixtureRequest, address: Callable[[str], str]) -> AsyncIterator[Any]:
    one = create_async_engine(address(request.param))
    async with one.begin() as connection:
        await connection.run_sync(metadata.create_all)
    yield one
    await one.dispose()


@pytest.fixture
def outbox(engine: sa.Engine, master: FakeMaster) -> SqlAlchemyOutbox:
    return SqlAlchemyOutbox(engine, table=table, master=master.url, token=master.token)


@pytest.fixture
async def aoutbox(aengine: Any, master: FakeMaster) -> AsyncIterator[SqlAlchemyOutbox]:
    one = SqlAlchemyOutbox(aengine, table=table, master=master.url, token=master.token)
    yield one
    await one.aclose()


def pushed(master: FakeMaster) -> list[Any]:
    """Return the arguments of a master's jobs in order of arrival."""
    return [job["argument"] for job in master.jobs.values()]


def rows_of(engine: sa.Engine) -> int:
    with engine.connect() as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()


def expire(engine: sa.Engine) -> None:
    """Expire all leases."""
    with engine.begin() as connection:
        connection.execute(sa.update(table).values(lease_until_ms=0))


@contextlib.contextmanager
def gone(master: FakeMaster) -> Iterator[None]:
    """Prevent all masters from answering in this block."""
    master.stop()
    try:
        yield
    finally:
        master.start()
