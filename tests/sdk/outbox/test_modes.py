"""Transactions in every mode of SQLAlchemy: a job whose transaction is rolled back never runs, and any other runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from tests.sdk.fake_master import FakeMaster
from tests.sdk.outbox.conftest import pushed
from worker_sdk import Tasks
from worker_sdk.outbox import AsyncRelay, Relay
from worker_sdk.outbox.sqlalchemy import SqlAlchemyOutbox

pytestmark = pytest.mark.req("S11")

tasks = Tasks()


@tasks.task("note")
def note(text: str) -> None: ...


# Each runs a block in a transaction, which ends as `end` says: with its commit or its rollback.
Mode = Callable[[SqlAlchemyOutbox, sa.Engine, str], Any]


@contextmanager
def autobegin(outbox: SqlAlchemyOutbox, engine: sa.Engine, end: str) -> Iterator[None]:
    with Session(engine) as session:
        with outbox.writing(session):
            yield
        getattr(session, end)()


@contextmanager
def begun(outbox: SqlAlchemyOutbox, engine: sa.Engine, end: str) -> Iterator[None]:
    with Session(engine, autobegin=False) as session:
        session.begin()
        with outbox.writing(session):
            yield
        getattr(session, end)()


@contextmanager
def nested(outbox: SqlAlchemyOutbox, engine: sa.Engine, end: str) -> Iterator[None]:
    with Session(engine) as session:
        session.execute(sa.text("SELECT 1"))
        with outbox.transaction(session):
            yield
        getattr(session, end)()


@contextmanager
def joined(outbox: SqlAlchemyOutbox, engine: sa.Engine, end: str) -> Iterator[None]:
    """The caller's connection has a transaction, which the commit of the session does not end."""
    with engine.connect() as connection:
        outer = connection.begin()
        with Session(connection) as session, outbox.transaction(session):
            yield
        getattr(outer, end)()


@contextmanager
def joined_as_savepoint(outbox: SqlAlchemyOutbox, engine: sa.Engine, end: str) -> Iterator[None]:
    with engine.connect() as connection:
        outer = connection.begin()
        if engine.dialect.name == "sqlite":
            # Its driver begins no transaction before a savepoint.
            connection.exec_driver_sql("BEGIN")
        with (
            Session(connection, join_transaction_mode="create_savepoint") as session,
            outbox.writing(session),
        ):
            yield
            session.commit()
        getattr(outer, end)()


@contextmanager
def on_a_connection(outbox: SqlAlchemyOutbox, engine: sa.Engine, end: str) -> Iterator[None]:
    """The session begins the transaction of the caller's connection, and so ends it."""
    with engine.connect() as connection, Session(connection) as session, outbox.writing(session):
        yield
        getattr(session, end)()


MODES = [autobegin, begun, nested, joined, joined_as_savepoint, on_a_connection]


@pytest.fixture
def engine(request: pytest.FixtureRequest, engine: sa.Engine) -> sa.Engine:
    # A connection of the caller is in use while the session pushes.
    return _wider(engine)


def _wider(engine: sa.Engine) -> sa.Engine:
    engine.pool._max_overflow = 1  # type: ignore[attr-defined]
    return engine


@pytest.mark.parametrize("mode", MODES)
def test_a_job_runs_if_its_transaction_commits_and_only_then(
    outbox: SqlAlchemyOutbox, engine: sa.Engine, master: FakeMaster, mode: Mode
) -> None:
    with mode(outbox, engine, "rollback"):
        note.enqueue("lost")
        assert pushed(master) == []
    Relay(outbox).run_once()
    assert pushed(master) == []
    with mode(outbox, engine, "commit"):
        note.enqueue("kept")
        assert pushed(master) == []
    # Where nobody tells of the commit, a relay finds the row at once and not after a lease.
    Relay(outbox).run_once()
    assert pushed(master) == [{"text": "kept"}]
    assert outbox.stats().waiting == 0
    outbox.close()


@pytest.mark.parametrize("level", ["engine", "connection"])
@pytest.mark.parametrize("end", ["commit", "rollback", "close"])
def test_with_autocommit_there_is_no_transaction_and_the_job_runs(
    outbox: SqlAlchemyOutbox, engine: sa.Engine, master: FakeMaster, level: str, end: str
) -> None:
    free = engine.execution_options(isolation_level="AUTOCOMMIT")
    with Session(free if level == "engine" else engine) as session, outbox.writing(session):
        if level == "connection":
            session.connection(execution_options={"isolation_level": "AUTOCOMMIT"})
        note.enqueue("a")
        note.enqueue("b")
        getattr(session, end)()
        assert pushed(master) == [{"text": "a"}, {"text": "b"}]
    assert outbox.stats().waiting == 0
    with Session(free) as session, outbox.writing(session):
        note.enqueue("c")
        # Long before the session ends, a relay may take it.
        Relay(outbox).run_once()
        assert pushed(master)[2:] == [{"text": "c"}]
    assert len(master.jobs) == 3
    outbox.close()


@pytest.mark.parametrize("mode", ["transaction", "autobegin", "nested", "autocommit"])
async def test_sessions_of_asyncio_do_the_same(
    aoutbox: SqlAlchemyOutbox, aengine: Any, master: FakeMaster, mode: str
) -> None:
    engine = aengine.execution_options(isolation_level="AUTOCOMMIT") if mode == "autocommit" else aengine
    for text, end in (("lost", "rollback"), ("kept", "commit")):
        async with AsyncSession(engine) as session:
            if mode == "nested":
                await session.execute(sa.text("SELECT 1"))
            if mode == "transaction":
                await session.begin()
            if mode == "nested":
                async with aoutbox.atransaction(session):
                    await note.aenqueue(text)
            else:
                with aoutbox.awriting(session):
                    await note.aenqueue(text)
            await getattr(session, end)()
        await AsyncRelay(aoutbox).run_once()
    wanted = ["lost", "kept"] if mode == "autocommit" else ["kept"]
    assert [one["text"] for one in pushed(master)] == wanted
    assert (await aoutbox.astats()).waiting == 0
