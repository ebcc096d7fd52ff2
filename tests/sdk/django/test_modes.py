"""Transactions in every mode of Django: a job whose transaction is rolled back never runs, and any other runs."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from django.db import connections, transaction
from django.db.transaction import TransactionManagementError
from django.test import override_settings

from tests.sdk.django.blog import tasks
from tests.sdk.django.blog.models import Post
from tests.sdk.fake_master import FakeMaster
from tests.support.django_site import tasks as tasks_setting
from worker_sdk.django import DjangoOutbox
from worker_sdk.outbox import Relay

pytestmark = pytest.mark.req("D22", "S11")


class _EndsBadlyError(Exception):
    """Rolls a block back."""


# Each runs a block in a transaction of a database, which ends with its commit or its rollback.
Mode = Callable[[str, bool], AbstractContextManager[None]]


@contextmanager
def _atomic(using: str, commits: bool, **options: Any) -> Iterator[None]:
    try:
        with transaction.atomic(using, **options):
            yield
            if not commits:
                raise _EndsBadlyError
    except _EndsBadlyError:
        pass


def atomic(using: str, commits: bool) -> AbstractContextManager[None]:
    return _atomic(using, commits)


def durable(using: str, commits: bool) -> AbstractContextManager[None]:
    return _atomic(using, commits, durable=True)


@contextmanager
def savepoint(using: str, commits: bool) -> Iterator[None]:
    """The savepoint is released, and the outer transaction decides."""
    with _atomic(using, commits), transaction.atomic(using):
        yield


@contextmanager
def rolled_back_savepoint(using: str, commits: bool) -> Iterator[None]:
    """The outer transaction commits, and the savepoint decides."""
    with transaction.atomic(using), _atomic(using, commits):
        yield


@contextmanager
def flagged(using: str, commits: bool) -> Iterator[None]:
    with transaction.atomic(using):
        yield
        transaction.set_rollback(not commits, using)


@contextmanager
def by_hand(using: str, commits: bool) -> Iterator[None]:
    transaction.set_autocommit(False, using)
    try:
        yield
        (transaction.commit if commits else transaction.rollback)(using)
    finally:
        transaction.set_autocommit(True, using)


@contextmanager
def atomic_by_hand(using: str, commits: bool) -> Iterator[None]:
    """The block ends before the transaction does."""
    with by_hand(using, commits):
        Post.objects.using(using).create(
            text="first, because SQLite begins no transaction before a savepoint"
        )
        with transaction.atomic(using):
            yield


@contextmanager
def never_autocommit(using: str, commits: bool) -> Iterator[None]:
    """`AUTOCOMMIT: False` in DATABASES, and a connection that is not open yet."""
    connection = connections[using]
    connection.close()
    connection.settings_dict["AUTOCOMMIT"] = False
    try:
        yield
        (transaction.commit if commits else transaction.rollback)(using)
        # A relay ends its own transactions.
        Relay(DjangoOutbox(using)).run_once()
        connection.rollback()
    finally:
        connection.close()
        connection.settings_dict["AUTOCOMMIT"] = True


MODES = [
    atomic, durable, savepoint, rolled_back_savepoint, flagged, by_hand, atomic_by_hand, never_autocommit,
]  # fmt: skip
CALLBACKS_RUN = [atomic, durable, savepoint, rolled_back_savepoint, flagged]


def pushed(master: FakeMaster) -> list[Any]:
    return [job["argument"] for job in master.jobs.values()]


def enqueue(kind: str, outbox: DjangoOutbox, number: int) -> None:
    match kind:
        case "task":
            tasks.add.enqueue(number)
        case "tasks":
            tasks.add.enqueue_many([(number,)])
        case _:
            outbox.add(("n", {"args": [number], "kwargs": {}}))


@pytest.mark.parametrize("kind", ["task", "tasks", "outbox"])
@pytest.mark.parametrize("mode", MODES)
def test_a_job_runs_if_its_transaction_commits_and_only_then(
    using: str, told: FakeMaster, mode: Mode, kind: str
) -> None:
    outbox = DjangoOutbox(using)
    with override_settings(TASKS=tasks_setting(database=using)):
        with mode(using, False):
            enqueue(kind, outbox, 1)
            assert pushed(told) == []
        Relay(outbox).run_once()
        assert (pushed(told), outbox.stats().waiting) == ([], 0)
        with mode(using, True):
            enqueue(kind, outbox, 2)
            assert pushed(told) == []
        # Where Django runs no callback, a relay finds the row at once and not after a lease.
        Relay(outbox).run_once()
        assert (pushed(told), outbox.stats().waiting) == ([{"args": [2], "kwargs": {}}], 0)
        enqueue(kind, outbox, 3)
        assert pushed(told)[1:] == [{"args": [3], "kwargs": {}}]
    outbox.close()


def test_a_rollback_leaves_earlier_commits_of_a_connection_without_autocommit_alone(
    using: str, told: FakeMaster
) -> None:
    outbox = DjangoOutbox(using)
    with by_hand(using, commits=False):
        outbox.add(("n", 1))
        transaction.commit(using)
        outbox.add(("n", 2))
    Relay(outbox).run_once()
    assert (pushed(told), outbox.stats().waiting) == ([1], 0)
    outbox.close()


@pytest.mark.parametrize("mode", MODES)
def test_on_commit_and_immediately_keep_their_words(told: FakeMaster, mode: Mode) -> None:
    with override_settings(TASKS=tasks_setting(enqueue="immediately")), mode("default", False):
        tasks.add.enqueue(1)
        assert len(told.jobs) == 1
    told.jobs.clear()
    with override_settings(TASKS=tasks_setting(enqueue="on_commit")):
        if mode in CALLBACKS_RUN:
            with mode("default", False):
                tasks.add.enqueue(2)
            with mode("default", True):
                tasks.add.enqueue(3)
            assert pushed(told) == [{"args": [3], "kwargs": {}}]
        elif mode is not atomic_by_hand:
            # Django would never call back.
            with mode("default", False), pytest.raises(TransactionManagementError, match="set the option"):
                tasks.add.enqueue(4)
            assert pushed(told) == []


def test_outside_of_a_transaction_nothing_connects_to_the_database(told: FakeMaster) -> None:
    connections["default"].close()
    tasks.add.enqueue(1)
    assert (len(told.jobs), connections["default"].connection) == (1, None)


async def test_asynchronous_code_in_a_transaction_of_its_thread(told: FakeMaster) -> None:
    from asgiref.sync import async_to_sync, sync_to_async

    def in_transaction(commits: bool) -> None:
        with atomic("default", commits):
            async_to_sync(tasks.add.aenqueue)(2 if commits else 1)

    await sync_to_async(in_transaction)(False)
    assert pushed(told) == []
    await sync_to_async(in_transaction)(True)
    assert pushed(told) == [{"args": [2], "kwargs": {}}]
    await tasks.add.aenqueue(3)
    assert pushed(told)[1:] == [{"args": [3], "kwargs": {}}]
