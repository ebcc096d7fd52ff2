"""An outbox that writes in transactions of Django."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from asgiref.sync import sync_to_async
from django.db import DEFAULT_DB_ALIAS, DatabaseError, connections, transaction
from django.db.utils import InterfaceError

from worker_sdk.blocks import either_with, with_only
from worker_sdk.django.background import BackgroundPushes
from worker_sdk.outbox.base import Outbox, written_by
from worker_sdk.outbox.relay import SyncOf
from worker_sdk.outbox.rows import Rows, new_transaction
from worker_sdk.outbox.steps import drive
from worker_sdk.outbox.writer import Writer
from worker_sdk.pusher.jobs import JobLike


class DjangoOutbox(Outbox):
    """An outbox in a database of Django.

    * `using`: alias of the database. Each database that you write to needs its own outbox.

    * `in_background`: push right after the commit in a thread of the process, so that a request does not wait for the
      master. Inside jobs, and in tests where callbacks of `on_commit` run before the commit, the calling thread pushes.

    The other arguments are those of `Outbox`. The table comes with the migrations of `worker_sdk.django`.

    For example:

        outbox = DjangoOutbox()
        with outbox.transaction():
            make_thumbnail.enqueue(42)
    """

    def __init__(
        self,
        using: str = DEFAULT_DB_ALIAS,
        *,
        master: str | Sequence[str] | None = None,
        token: str | None = None,
        lease_s: float = 60.0,
        key_ttl: timedelta | None = timedelta(days=1),
        is_direct: bool = True,
        in_background: bool = False,
    ) -> None:
        super().__init__(master=master, token=token, lease_s=lease_s, key_ttl=key_ttl, is_direct=is_direct)
        self.using = using
        self._background = BackgroundPushes(self) if in_background else None

    def _where(self) -> str:
        return f"the database {self.using!r}"

    @with_only("transactions of Django are synchronous: call the block with `sync_to_async`")
    def transaction(self, **options: Any) -> Iterator[None]:
        """Run the block in `transaction.atomic`. Tasks of `worker_sdk.Tasks` that the block enqueues become jobs only
        if the outermost transaction commits.

        * `options`: options of `transaction.atomic`, such as `durable`.

        For example:

            with outbox.transaction(durable=True):
                make_thumbnail.enqueue(42)
        """
        with transaction.atomic(self.using, **options), self.writing():
            yield

    @either_with
    def writing(self) -> Iterator[None]:
        """Write the tasks that the block enqueues as rows in the open transaction, for example in that of
        `ATOMIC_REQUESTS`. Without a transaction, their rows are pushed at once. While autocommit is off, the relay
        pushes them after the commit.

        For example:

            with outbox.writing():
                make_thumbnail.enqueue(42)
        """
        ainsert = sync_to_async(self.insert)
        with written_by(Writer(self, insert=self.insert, ainsert=ainsert)):
            yield

    def add(self, *jobs: JobLike) -> list[str]:
        """Add jobs to the open transaction, and return their IDs.

        * `jobs`: jobs that `make_job` or `Task.to_job` returned, or pairs `(name, argument)`.

        Raise the errors of the database, and TypeError for a value that cannot be sent. For example:

            outbox.add(make_job("thumbnail.make", {"photo_id": 42}))
        """
        return self.add_many(jobs)

    def add_many(self, jobs: Iterable[JobLike]) -> list[str]:
        """Add any number of jobs to the open transaction, and return their IDs.

        * `jobs`: an iterable of jobs that `make_job` or `Task.to_job` returned, or of pairs `(name, argument)`. The
          iterable is read while its jobs are written.

        Raise the errors of the database, and TypeError for a value that cannot be sent. For example:

            outbox.add_many(("thumbnail.make", {"photo_id": number}) for number in range(20))
        """
        return Writer(self, insert=self.insert).write(jobs)

    async def aadd(self, *jobs: JobLike) -> list[str]:
        """Add jobs to the open transaction, and return their IDs. `aadd` does not block the event loop.

        * `jobs`: jobs that `make_job` or `Task.to_job` returned, or pairs `(name, argument)`.

        Raise the errors of the database, and TypeError for a value that cannot be sent. For example:

            await outbox.aadd(make_job("thumbnail.make", {"photo_id": 42}))
        """
        ids: list[str] = await sync_to_async(self.add)(*jobs)
        return ids

    def wait(self, timeout_s: float = 10.0) -> bool:
        """Wait for the pushes in the background, and return whether all have ended.

        * `timeout_s`: longest wait in seconds.

        For example:

            outbox.wait(timeout_s=3)
        """
        return self._background is None or self._background.wait(timeout_s)

    # --- for the rest of the package

    def is_in_transaction(self) -> bool:
        """Return whether code that runs here is in a transaction of the database, without connecting to it.

        With autocommit off, for example by `AUTOCOMMIT: False` in `DATABASES`, code is always in a transaction.

        For example:

            print(outbox.is_in_transaction())
        """
        connection: Any = connections[self.using]
        if connection.in_atomic_block:
            return True
        if connection.connection is None:
            return not connection.settings_dict["AUTOCOMMIT"]
        return not connection.autocommit

    def after_commit(self, callback: Callable[[], object]) -> None:
        """Call `callback` after the commit, as `transaction.on_commit` does. While autocommit is off, Django makes no
        such calls; it makes them once autocommit is on again.

        For example:

            outbox.after_commit(lambda: print("committed"))
        """
        with transaction.atomic(self.using, savepoint=False):
            transaction.on_commit(callback, using=self.using)

    def push_own(self, transaction: str, began_s: float) -> None:
        """Push a transaction right after its commit. If this fails, the relay pushes it."""
        # In a TestCase, push in this thread: callbacks run before the commit, so another thread would not see the rows.
        is_here = self.is_in_a_job_or_recorded() or self.is_in_transaction()
        if self._background is not None and not is_here:
            self._background.add(transaction, began_s)
            return
        try:
            self.note(drive(self.own_steps(transaction, began_s), SyncOf(self)))
        except Exception:
            self.note_error(transaction)

    def in_transaction(self, work: Callable[[Rows], Any]) -> Any:
        from worker_sdk.django.rows import DjangoRows

        rows = DjangoRows(self.using)
        with transaction.atomic(self.using):
            rows.wait_for_writers()
            return work(rows)

    async def ain_transaction(self, work: Callable[[Rows], Any]) -> Any:
        return await sync_to_async(self.in_transaction)(work)

    def read(self, work: Callable[[Rows], Any]) -> Any:
        from worker_sdk.django.rows import DjangoRows

        # Read outside of a transaction if possible. With `transaction_mode = "IMMEDIATE"`, even a transaction that only
        # reads blocks all writers of SQLite.
        try:
            return work(DjangoRows(self.using))
        except DatabaseError:
            # Close a broken connection, as Django does at the end of a transaction. The next read opens a new
            # connection.
            if not self.is_in_transaction():
                connections[self.using].close_if_unusable_or_obsolete()
            raise

    def in_own_transaction(self, work: Callable[[Rows], Any]) -> Any:
        """Run `work` in a transaction that is committed at the end, even with `AUTOCOMMIT: False`.

        For example:

            outbox.in_own_transaction(lambda rows: rows.retry_stuck())
        """
        with self._committed():
            return self.in_transaction(work)

    def own_read(self, work: Callable[[Rows], Any]) -> Any:
        """Run `work`, which only reads, and leave no transaction open.

        For example:

            stats = outbox.own_read(lambda rows: rows.stats())
        """
        with self._committed():
            return self.read(work)

    @contextmanager
    def _committed(self) -> Iterator[None]:
        """Commit at the end of the block if Django does not commit itself, as with `AUTOCOMMIT: False`."""
        connection: Any = connections[self.using]
        is_by_hand = not connection.in_atomic_block and self.is_in_transaction()
        try:
            yield
        except BaseException:
            if is_by_hand:
                try:
                    connection.rollback()
                except (DatabaseError, InterfaceError):
                    connection.close()
            raise
        if is_by_hand:
            connection.commit()

    async def aread(self, work: Callable[[Rows], Any]) -> Any:
        return await sync_to_async(self.read)(work)

    def insert(self, rows: Sequence[tuple[str, bytes]], destination: str | None) -> None:
        """Add a row to the open transaction for each pair (job ID, body), with a destination."""
        from worker_sdk.django.rows import DjangoRows

        connection: Any = connections[self.using]
        with transaction.atomic(self.using, savepoint=False):
            one = self._open(connection, destination)
            DjangoRows(self.using).insert(one.name, rows, one.lease_ms)

    def _open(self, connection: Any, destination: str | None) -> "_OpenInDjango":
        """Return the record of a connection's open transaction. The record pushes the rows after the commit."""
        opened: dict[Any, _OpenInDjango] = connection.__dict__.setdefault("_jqmaster_outbox", {})
        if not connection.run_on_commit:
            # A new transaction has begun, or all rows so far were rolled back.
            opened.clear()
        one = opened.get((self, destination))
        if one is None or one.is_over:
            lease_ms = self.initial_lease_ms(destination)
            name = new_transaction(destination)
            one = _OpenInDjango(self, name, time.monotonic(), lease_ms, is_direct=lease_ms > 0)
            opened[self, destination] = one
            if not connection.commit_on_exit:
                # Autocommit is off, so Django's callbacks do not run at the commit, and perhaps never. Relays may push
                # the rows at once.
                one.lease_ms, one.began_s = 0, float("-inf")
        # Register the callback each time: a savepoint that is rolled back, or a test that captures callbacks, removes
        # some of them.
        transaction.on_commit(one.push, using=self.using)
        return one


@dataclass(eq=False)
class _OpenInDjango:
    """The rows of a transaction for one destination.

    `lease_ms`: time for which relays leave the rows to this process. `is_direct`: this process pushes them.
    """

    outbox: DjangoOutbox
    name: str
    began_s: float
    lease_ms: int
    is_direct: bool
    # Whether the transaction has ended. In a TestCase, it continues after its callbacks have run.
    is_over: bool = False

    def push(self) -> None:
        """Push the rows right after the commit. If this fails, the relay pushes them."""
        if self.is_over:
            return
        self.is_over = True
        if self.is_direct:
            self.outbox.push_own(self.name, self.began_s)
