"""PostgreSQL restarts, or its standby takes over, at any point between BEGIN and the acknowledged push: jobs are not
lost or duplicated."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from tests.sdk.fake_master import FakeMaster
from tests.sdk.outbox.conftest import expire, metadata, pushed, rows_of, table
from tests.support import long, real_time
from tests.support.postgres import PostgresServer, postgres_or_skip
from worker_sdk.outbox import Relay
from worker_sdk.outbox.relay import SyncOf
from worker_sdk.outbox.sqlalchemy import SqlAlchemyOutbox

pytestmark = [pytest.mark.req("S11"), real_time.PROCESSES, pytest.mark.system]


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """Return a server for this test alone."""
    one = postgres_or_skip()
    yield one
    one.stop()


@pytest.fixture
def engine(server: PostgresServer) -> Iterator[sa.Engine]:
    one = sa.create_engine(f"postgresql+psycopg://{server.new_database()}")
    metadata.create_all(one)
    yield one
    one.dispose()


@pytest.fixture
def outbox(engine: sa.Engine, master: FakeMaster) -> Iterator[SqlAlchemyOutbox]:
    one = SqlAlchemyOutbox(engine, table=table, master=master.url, token=master.token)
    yield one
    one.close()


def relay_until_empty(outbox: SqlAlchemyOutbox) -> int:
    """Relay like `Relay.run`, which continues after errors. Return the number of failed rounds."""
    failed = 0
    while True:
        try:
            expire(outbox.engine)
            if Relay(outbox).run_once() is None:
                return failed
        except sa.exc.OperationalError:
            failed += 1
            assert failed < 10


def test_a_restart_before_the_commit(
    server: PostgresServer, engine: sa.Engine, outbox: SqlAlchemyOutbox, master: FakeMaster
) -> None:
    def write() -> None:
        with Session(engine) as session, outbox.transaction(session):
            outbox.add(session, ("n", 1))
            server.restart()

    with pytest.raises(sa.exc.OperationalError):
        write()
    assert (pushed(master), rows_of_again(engine)) == ([], 0)
    with Session(engine) as session, outbox.transaction(session):
        outbox.add(session, ("n", 2))
    assert (pushed(master), rows_of(engine)) == ([2], 0)


def test_a_restart_between_the_commit_and_the_push(
    server: PostgresServer,
    engine: sa.Engine,
    outbox: SqlAlchemyOutbox,
    master: FakeMaster,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    push: Callable[..., Any] = outbox.own_steps

    def after_a_restart(*given: Any) -> Any:
        server.restart()
        return push(*given)

    monkeypatch.setattr(outbox, "own_steps", after_a_restart)
    caplog.set_level(logging.ERROR, "worker_sdk.outbox")
    # The transaction is committed, so its writer does not see an error.
    with Session(engine) as session, outbox.transaction(session):
        outbox.add(session, ("n", 1), ("n", 2))
    assert "could not be pushed; it waits for the relay" in caplog.text
    assert (pushed(master), rows_of_again(engine)) == ([], 2)
    relay_until_empty(outbox)
    assert (pushed(master), rows_of(engine)) == ([1, 2], 0)


def test_a_restart_between_the_push_and_the_removal_of_its_rows(
    server: PostgresServer, engine: sa.Engine, master: FakeMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox = SqlAlchemyOutbox(engine, table=table, master=master.url, token=master.token, is_direct=False)
    with Session(engine) as session, outbox.transaction(session):
        ids = outbox.add_many(session, (("n", number) for number in range(1_500)))
    send = SyncOf.push

    def send_and_restart(self: SyncOf, jobs: list[dict[str, Any]], destination: str | None) -> None:
        send(self, jobs, destination)
        if len(jobs) < 1_000:
            monkeypatch.undo()
            server.restart()

    monkeypatch.setattr(SyncOf, "push", send_and_restart)
    assert relay_until_empty(outbox) == 1
    # The second page was pushed twice but is stored once.
    assert (list(master.jobs), rows_of(engine)) == (ids, 0)
    assert master.count("/api/jobs/bulk") == 3
    outbox.close()


@pytest.fixture
def pair(server: PostgresServer) -> Iterator[tuple[PostgresServer, PostgresServer]]:
    """Yield a primary and its standby."""
    standby = server.standby()
    yield server, standby
    standby.stop()


@pytest.mark.parametrize(
    "point", ["before the push", *long.left_out("before the commit", "before the removal")]
)
def test_a_standby_takes_over(
    point: str,
    pair: tuple[PostgresServer, PostgresServer],
    master: FakeMaster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    primary, standby = pair
    user, _, name = primary.new_database().partition("@")
    name = name.partition("/")[2]
    hosts = f"host={primary.host}&host={standby.host}&target_session_attrs=read-write"
    engine = sa.create_engine(f"postgresql+psycopg://{user}@/{name}?{hosts}")
    metadata.create_all(engine)
    outbox = SqlAlchemyOutbox(engine, table=table, master=master.url, token=master.token)
    own_steps, send = outbox.own_steps, SyncOf.push

    def fail_over() -> None:
        monkeypatch.undo()
        primary.crash()
        standby.promote()

    def fail_over_and_push(*given: Any) -> Any:
        fail_over()
        return own_steps(*given)

    def push_and_fail_over(self: SyncOf, jobs: list[dict[str, Any]], destination: str | None) -> None:
        send(self, jobs, destination)
        fail_over()

    if point == "before the push":
        monkeypatch.setattr(outbox, "own_steps", fail_over_and_push)
    elif point == "before the removal":
        monkeypatch.setattr(SyncOf, "push", push_and_fail_over)

    def write() -> None:
        with Session(engine) as session, outbox.transaction(session):
            outbox.add(session, ("n", 1), ("n", 2))
            if point == "before the commit":
                fail_over()

    if point == "before the commit":
        with pytest.raises(sa.exc.OperationalError):
            write()
    else:
        write()
    engine.dispose()
    assert rows_of(engine) == (0 if point == "before the commit" else 2)
    relay_until_empty(outbox)
    assert (pushed(master), rows_of(engine)) == ([] if point == "before the commit" else [1, 2], 0)
    # Writers continue at the new primary.
    with Session(engine) as session, outbox.transaction(session):
        outbox.add(session, ("n", 3))
    assert (pushed(master)[-1], rows_of(engine)) == (3, 0)
    outbox.close()
    engine.dispose()


def rows_of_again(engine: sa.Engine) -> int:
    """Count the rows on a new connection, because the pool's are cut."""
    engine.dispose()
    return rows_of(engine)
