"""The outbox for SQLAlchemy 2, with sessions of threads and of asyncio."""

import sys
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

try:
    import sqlalchemy as sa
except ImportError as _missing:
    raise ImportError(
        'the outbox in a database needs SQLAlchemy: install "jqmaster-sdk[sqlalchemy]"', name="sqlalchemy"
    ) from _missing
from sqlalchemy import event
from sqlalchemy.orm import Session, SessionTransaction

from worker_sdk.blocks import async_with_only, either_with, with_only
from worker_sdk.outbox.base import Outbox, written_by
from worker_sdk.outbox.relay import AsyncOf, SyncOf
from worker_sdk.outbox.rows import Rows, new_transaction
from worker_sdk.outbox.sqlalchemy_rows import SqlRows
from worker_sdk.outbox.steps import adrive, drive
from worker_sdk.outbox.writer import Writer
from worker_sdk.pusher.jobs import JobLike

if TYPE_CHECKING:
    # Import these for type checkers only: at run time they need greenlet, which synchronous sessions do not need.
    from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

TABLE: Final = "jqmaster_outbox"
_BIG: Final = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def outbox_table(metadata: sa.MetaData, *, name: str = TABLE, schema: str | None = None) -> sa.Table:
    """Add the table of an outbox to a MetaData, for `create_all` and Alembic, and return it.

    * `metadata`: the MetaData, such as `Base.metadata`.
    * `name`, `schema`: place of the table.

    For example:

        table = outbox_table(sqlalchemy.MetaData(), name="jobs_to_push")
    """
    return sa.Table(
        name,
        metadata,
        sa.Column("seq", _BIG, primary_key=True, autoincrement=True),
        sa.Column("txn", sa.String(32), nullable=False),
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("format", sa.SmallInteger, nullable=False),
        sa.Column("body", sa.LargeBinary(2**24 - 1), nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("token", sa.String(32), nullable=False),
        sa.Column("lease_until_ms", sa.BigInteger, nullable=False),
        sa.Column("error", sa.Text, nullable=True),
        sa.Index(f"{name}_txn_seq", "txn", "seq"),
        schema=schema,
        # Keep SQLite from reusing the number of a deleted row.
        sqlite_autoincrement=True,
    )


class SqlAlchemyOutbox(Outbox):
    """An outbox in a database that SQLAlchemy reaches.

    * `engine`: an `Engine` or an `AsyncEngine`. Relays and pushes after a commit use it.
    * `table`: a table that `outbox_table` returned. Default: a table with the default name in a separate MetaData.

    The other arguments are those of `Outbox`.

    For example:

        outbox = SqlAlchemyOutbox(engine)
        with outbox.transaction(session):
            make_thumbnail.enqueue(42)
    """

    def __init__(
        self,
        engine: "sa.Engine | AsyncEngine",
        *,
        table: sa.Table | None = None,
        master: str | Sequence[str] | None = None,
        token: str | None = None,
        lease_s: float = 60.0,
        key_ttl: timedelta | None = timedelta(days=1),
        is_direct: bool = True,
    ) -> None:
        super().__init__(master=master, token=token, lease_s=lease_s, key_ttl=key_ttl, is_direct=is_direct)
        self.engine: Any = engine
        self.is_async = _is_of_asyncio(engine, "AsyncEngine")
        self.table = outbox_table(sa.MetaData()) if table is None else table

    def _where(self) -> str:
        # SQLAlchemy's repr of the URL leaves out the password.
        return f"{self.table.fullname} in {self.engine.url!r}"

    # --- the table

    def create_table(self) -> None:
        """Create the table if it is missing. An application with migrations creates it in a migration instead.

        Raise the errors of the database, and TypeError for an engine of the other kind. For example:

            outbox.create_table()
        """
        with self._sync_engine().begin() as connection:
            self.table.create(connection, checkfirst=True)

    async def acreate_table(self) -> None:
        """Create the table if it is missing. An application with migrations creates it in a migration instead.
        `acreate_table` is for an `AsyncEngine`.

        Raise the errors of the database, and TypeError for an engine of the other kind. For example:

            await outbox.acreate_table()
        """
        async with self._async_engine().begin() as connection:
            await connection.run_sync(lambda sync: self.table.create(sync, checkfirst=True))

    # --- transactions

    @with_only("for an AsyncSession, write `async with outbox.atransaction(session)`")
    def transaction(self, session: Session) -> Iterator[Session]:
        """Run the block in a transaction of a session. Tasks that the block enqueues become jobs only if the
        transaction commits.

        * `session`: the session. If it is in a transaction already, the block is a savepoint in it, and the jobs are
          pushed after the outer commit.

        At the end of the block, the transaction commits, and the jobs are pushed. An exception rolls the transaction
        back, and no job is enqueued.

        Raise the errors of the database, and TypeError for a session of the other kind. For example:

            with outbox.transaction(session):
                make_thumbnail.enqueue(42)
        """
        given: object = session
        if _is_of_asyncio(given, "AsyncSession"):
            raise TypeError("an AsyncSession needs `async with outbox.atransaction(session)`")
        if session.in_transaction():
            _begin_before_savepoint(session)
            begun = session.begin_nested()
        else:
            begun = session.begin()
        with begun, self.writing(session):
            yield session

    @either_with
    def writing(self, session: Session) -> Iterator[Session]:
        """Write the tasks that the block enqueues as rows in the transactions of a session. The block does not commit.

        * `session`: the session. You commit it, in the block or after it.

        For example:

            with outbox.writing(session):
                make_thumbnail.enqueue(42)
            session.commit()
        """
        tied = self._tied(session)
        with written_by(Writer(self, insert=tied.insert)):
            yield session

    def add(self, session: Session, *jobs: JobLike) -> list[str]:
        """Add jobs to the transaction of a session, and return their IDs.

        * `session`: the session.
        * `jobs`: jobs that `make_job` or `Task.to_job` returned.

        Raise the errors of the database, and TypeError for a value that cannot be sent. For example:

            outbox.add(session, make_thumbnail.to_job(42))
            session.commit()
        """
        return self.add_many(session, jobs)

    def add_many(self, session: Session, jobs: Iterable[JobLike]) -> list[str]:
        """Add any number of jobs to the transaction of a session, and return their IDs.

        * `session`: the session.
        * `jobs`: an iterable of jobs that `make_job` or `Task.to_job` returned. It is read while its rows are written.

        Raise the errors of the database, and TypeError for a value that cannot be sent. For example:

            outbox.add_many(session, (make_thumbnail.to_job(number) for number in range(20)))
            session.commit()
        """
        return Writer(self, insert=self._tied(session).insert).write(jobs)

    @async_with_only("for a Session, write `with outbox.transaction(session)`")
    async def atransaction(self, session: "AsyncSession") -> "AsyncIterator[AsyncSession]":
        """Run the block in a transaction of a session. Tasks that the block enqueues become jobs only if the
        transaction commits. `atransaction` is for an `AsyncSession`: enqueue with `aenqueue` and `amany`.

        * `session`: the session. If it is in a transaction already, the block is a savepoint in it, and the jobs are
          pushed after the outer commit.

        At the end of the block, the transaction commits, and the jobs are pushed. An exception rolls the transaction
        back, and no job is enqueued.

        Raise the errors of the database, and TypeError for a session of the other kind. For example:

            async with outbox.atransaction(session):
                await make_thumbnail.aenqueue(42)
        """
        if session.in_transaction():
            await session.run_sync(_begin_before_savepoint)
            begun = session.begin_nested()
        else:
            begun = session.begin()
        async with begun:
            with self.awriting(session):
                yield session

    @either_with
    def awriting(self, session: "AsyncSession") -> "Iterator[AsyncSession]":
        """Write the tasks that the block enqueues as rows in the transactions of a session. The block does not commit.
        `awriting` is for an `AsyncSession`: enqueue with `aenqueue` and `amany`.

        * `session`: the session. You commit it, in the block or after it.

        For example:

            async with outbox.awriting(session):
                await make_thumbnail.aenqueue(42)
            await session.commit()
        """
        with written_by(self._awriter(session)):
            yield session

    async def aadd(self, session: "AsyncSession", *jobs: JobLike) -> list[str]:
        """Add jobs to the transaction of a session, and return their IDs. `aadd` does not block the event loop.

        * `session`: the session.
        * `jobs`: jobs that `make_job` or `Task.to_job` returned.

        Raise the errors of the database, and TypeError for a value that cannot be sent. For example:

            await outbox.aadd(session, make_thumbnail.to_job(42))
            await session.commit()
        """
        return await self.aadd_many(session, jobs)

    async def aadd_many(
        self, session: "AsyncSession", jobs: Iterable[JobLike] | AsyncIterable[JobLike]
    ) -> list[str]:
        """Add any number of jobs to the transaction of a session, and return their IDs. `aadd_many` does not block the
        event loop.

        * `session`: the session.
        * `jobs`: an iterable, or an async one, of jobs that `make_job` or `Task.to_job` returned. It is read while
          its rows are written.

        Raise the errors of the database, and TypeError for a value that cannot be sent. For example:

            await outbox.aadd_many(session, (make_thumbnail.to_job(number) for number in range(20)))
            await session.commit()
        """
        return await self._awriter(session).awrite(jobs)

    # --- for the rest of the package

    def in_transaction(self, work: Callable[[Rows], Any]) -> Any:
        with self._sync_engine().begin() as connection:
            return work(SqlRows(connection, self.table))

    async def ain_transaction(self, work: Callable[[Rows], Any]) -> Any:
        async with self._async_engine().begin() as connection:
            return await connection.run_sync(lambda sync: work(SqlRows(sync, self.table)))

    def _sync_engine(self) -> sa.Engine:
        engine: sa.Engine = self.engine
        if self.is_async:
            raise TypeError(
                "this outbox has an AsyncEngine: use the methods with an extra a before their name, such as aadd"
            )
        return engine

    def _async_engine(self) -> "AsyncEngine":
        engine: AsyncEngine = self.engine
        if not self.is_async:
            raise TypeError(
                "this outbox has a synchronous Engine: use methods without the prefix a, such as add instead of aadd"
            )
        return engine

    def _awriter(self, session: "AsyncSession") -> Writer:
        tied = self._tied(session.sync_session)

        async def insert(rows: Sequence[tuple[str, bytes]], destination: str | None) -> None:
            await session.run_sync(lambda _: tied.insert(rows, destination))

        return Writer(self, ainsert=insert)

    def _tied(self, session: Session) -> "_SessionBinding":
        found = session.info.get(self)
        if found is None:
            found = session.info[self] = _SessionBinding(self, session)
        tied: _SessionBinding = found
        return tied

    def push_own(self, transaction: str, began_s: float) -> None:
        """Push a transaction right after its commit. If this fails, the relay pushes it."""
        try:
            self.note(drive(self.own_steps(transaction, began_s), SyncOf(self)))
        except Exception:
            self.note_error(transaction)

    async def apush_own(self, transaction: str, began_s: float) -> None:
        """Push a transaction right after its commit. If this fails, the relay pushes it. `apush_own` does not block the
        event loop."""
        try:
            self.note(await adrive(self.own_steps(transaction, began_s), AsyncOf(self)))
        except Exception:
            self.note_error(transaction)


@dataclass(slots=True)
class _Open:
    """The rows of a transaction for one destination. `is_direct`: this process pushes them after the commit."""

    name: str
    began_s: float
    is_direct: bool
    connection: sa.Connection
    is_committed: bool = False
    # Whether relays may take the rows as soon as they can see them.
    is_shared: bool = False


class _SessionBinding:
    """Ties an outbox to a session: writes rows in its transaction, and pushes them after its commit."""

    def __init__(self, outbox: SqlAlchemyOutbox, session: Session) -> None:
        self._outbox = outbox
        self._session = session
        # The rows that the open transaction has inserted, by destination.
        self._opened: dict[str | None, _Open] = {}
        event.listen(session, "after_commit", self._on_commit)
        event.listen(session, "after_transaction_end", self._on_end)

    def insert(self, rows: Sequence[tuple[str, bytes]], destination: str | None) -> None:
        """Add a row for each pair (job ID, body)."""
        lease_ms = self._outbox.initial_lease_ms(destination)
        connection = self._session.connection()
        one = self._opened.get(destination)
        if one is None:
            name = new_transaction(destination)
            one = self._opened[destination] = _Open(name, time.monotonic(), lease_ms > 0, connection)
            # If the caller passed a connection to the session, the session may end before the transaction. No event
            # would then report the commit.
            one.is_shared = connection is self._session.get_bind()
        table = SqlRows(connection, self._outbox.table)
        table.insert(one.name, rows, lease_ms if one.is_direct and not one.is_shared else 0)
        if not one.is_committed and not _is_transaction_open(connection):
            # In AUTOCOMMIT mode, the statement has already committed the rows, and no rollback can remove them.
            one.is_committed = True
            if not one.is_shared:
                one.is_shared = True
                table.lease([one.name], one.name, 0)

    def _on_commit(self, session: Session) -> None:
        # Ignore the release of a savepoint, which triggers this event, too.
        if self._opened and session.get_nested_transaction() is None:
            for one in self._opened.values():
                # If the caller began the transaction on its own connection, the session's commit does not end it.
                one.is_committed = one.is_committed or not one.connection.in_transaction()

    def _on_end(self, session: Session, ended: SessionTransaction) -> None:
        # Push only after the session has returned its connection, so that a pool of one connection is enough.
        if ended.parent is not None or not self._opened:
            return
        opened, self._opened = self._opened, {}
        for one in opened.values():
            if one.is_committed and one.is_direct:
                self._push(one)

    def _push(self, one: _Open) -> None:
        if one.is_shared:
            # The lease of the rows has ended. An old start time makes the push claim them again.
            one.began_s = float("-inf")
        if self._outbox.is_async:
            from sqlalchemy.util import await_only

            # Event handlers of an AsyncSession may await, so wait for the push: the commit returns after it.
            await_only(self._outbox.apush_own(one.name, one.began_s))
        else:
            self._outbox.push_own(one.name, one.began_s)


def _is_of_asyncio(value: object, kind: str) -> bool:
    """Return whether a value is an instance of this class of `sqlalchemy.ext.asyncio`. If that module is not imported,
    it is not."""
    module = sys.modules.get("sqlalchemy.ext.asyncio")
    return module is not None and isinstance(value, getattr(module, kind, ()))


def _begin_before_savepoint(session: Session) -> None:
    """Begin a transaction before a savepoint in SQLite. The driver begins a transaction only before a write, and
    without a transaction, releasing the savepoint would commit."""
    connection = session.connection()
    if connection.dialect.name == "sqlite" and not _is_transaction_open(connection):
        connection.exec_driver_sql("BEGIN")


def _is_transaction_open(connection: sa.Connection) -> bool:
    """Return whether the connection has a transaction open. Call this after a statement that writes, because SQLite's
    driver begins no transaction before it.

    The driver is asked, because many options of the engine, the connection or the driver can turn autocommit on.
    """
    driver: Any = connection.connection.driver_connection
    if (is_open := getattr(driver, "in_transaction", None)) is not None:  # sqlite3, aiosqlite
        return bool(is_open)
    if callable(ask := getattr(driver, "is_in_transaction", None)):  # asyncpg
        return bool(ask())
    if (status := getattr(getattr(driver, "info", None), "transaction_status", None)) is not None:  # psycopg
        return bool(status)
    if callable(ask := getattr(driver, "get_autocommit", None)):  # drivers of MySQL
        return not ask()
    return bool(connection.get_execution_options().get("isolation_level") != "AUTOCOMMIT")


__all__ = ["TABLE", "SqlAlchemyOutbox", "outbox_table"]
