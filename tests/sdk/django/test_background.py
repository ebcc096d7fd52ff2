"""Outbox pushes in a thread: a commit does not wait for the master."""

import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import OperationalError, connections, transaction
from django.test import TestCase, override_settings

from tests.sdk.django.blog import tasks
from tests.sdk.fake_master import FakeMaster
from tests.support import django_site
from tests.support.django_site import tasks as tasks_setting
from worker_sdk.django import DjangoOutbox
from worker_sdk.django.background import BackgroundPushes
from worker_sdk.django.models import OutboxRow
from worker_sdk.outbox import Relay
from worker_sdk.testing import recording

pytestmark = pytest.mark.req("D22", "S11")


def pushed(master: FakeMaster) -> list[Any]:
    return [job["argument"] for job in master.jobs.values()]


def test_a_commit_does_not_wait_for_the_master(
    using: str, told: FakeMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()
    push = BackgroundPushes._push

    def held_up(self: BackgroundPushes, batch: Any) -> None:
        assert goes_on.wait(30)
        push(self, batch)

    monkeypatch.setattr(BackgroundPushes, "_push", held_up)
    outbox = DjangoOutbox(using, in_background=True)
    for number in range(3):
        with outbox.transaction():
            outbox.add(("n", [number, "a"]), ("n", [number, "b"]))
    assert (pushed(told), outbox.wait(0)) == ([], False)
    goes_on.set()
    assert outbox.wait(30)
    # The order is that of the commits. The first was already on its way, the others went together.
    assert pushed(told) == [[number, letter] for number in range(3) for letter in "ab"]
    assert outbox.stats().waiting == 0
    assert told.count("/api/jobs/bulk") <= 2
    outbox.close()


def test_jobs_that_the_thread_cannot_push_are_left_to_the_relay(using: str, told: FakeMaster) -> None:
    outbox = DjangoOutbox(using, in_background=True)
    told.stop()
    with outbox.transaction():
        outbox.add(("n", 1))
    assert outbox.wait(30)
    assert outbox.stats().waiting == 1
    told.start()
    assert Relay(outbox).run_once() is not None
    assert (pushed(told), outbox.stats().waiting) == ([1], 0)
    outbox.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_ends_with_an_error_is_followed_by_another(
    using: str, told: FakeMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox = DjangoOutbox(using, in_background=True)
    ended = threading.Event()

    def fail() -> None:
        monkeypatch.undo()
        ended.set()
        raise OperationalError("the connection cannot be closed")

    monkeypatch.setattr("worker_sdk.django.background.close_old_connections", fail)
    with outbox.transaction():
        outbox.add(("n", 1))
    assert ended.wait(30)
    for thread in threading.enumerate():
        if thread.name == "jqmaster outbox":
            thread.join(30)
    with outbox.transaction():
        outbox.add(("n", 2))
    assert outbox.wait(30)
    assert pushed(told) == [1, 2]
    outbox.close()


def test_a_transaction_whose_lease_is_over_belongs_to_whoever_claims_it(using: str, told: FakeMaster) -> None:
    outbox = DjangoOutbox(using, is_direct=False)
    for number in range(2):
        with outbox.transaction():
            outbox.add(("n", number))
    steps = outbox.steps_of_many([("gone", float("-inf"))])
    assert [type(one).__name__ for one in steps] == ["generator"]
    background = DjangoOutbox(using, in_background=True)
    assert background._background is not None
    background._background.add("gone", float("-inf"))
    assert background.wait(30)
    assert (pushed(told), outbox.stats().waiting) == ([], 2)
    outbox.close()
    background.close()


def test_in_tests_and_in_recordings_pushes_stay_in_their_thread(told: FakeMaster) -> None:
    outbox = DjangoOutbox(in_background=True)
    with recording() as jobs:
        with outbox.transaction():
            outbox.add(("n", 1))
        assert len(jobs) == 1

    class Case(TestCase):
        def runTest(self) -> None:
            with self.captureOnCommitCallbacks(execute=True), outbox.transaction():
                outbox.add(("n", 2))
            assert pushed(told) == [2]

    Case.setUpClass()
    try:
        Case().debug()
    finally:
        Case.tearDownClass()
        Case.doClassCleanups()
    outbox.close()


def test_the_end_of_a_process_waits_for_its_pushes_and_a_fork_has_a_thread_of_its_own(
    told: FakeMaster, tmp_path: Path
) -> None:
    script = f"""
import os
from tests.support import django_site
django_site.set_up()
django_site.migrate("default")
from worker_sdk import configure
from worker_sdk.django import DjangoOutbox
configure(url={told.url!r}, token={told.token!r})
outbox = DjangoOutbox(in_background=True)
with outbox.transaction():
    outbox.add(("n", "parent"))
assert outbox.wait()
from django.db import connections
connections.close_all()
child = os.fork()
with outbox.transaction():
    outbox.add(("n", "end of the parent" if child else "end of the child"))
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(pushed(told)) == ["end of the child", "end of the parent", "parent"]


def test_the_setting_pushes_tasks_in_the_background(
    told: FakeMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []
    push = BackgroundPushes._push

    def noted(self: BackgroundPushes, batch: Any) -> None:
        threads.append(threading.current_thread().name)
        push(self, batch)

    monkeypatch.setattr(BackgroundPushes, "_push", noted)
    with override_settings(TASKS=tasks_setting(push_in_background=True)):
        with transaction.atomic():
            tasks.add.enqueue(2)
        assert tasks.add.get_backend().outbox.wait(30)
    assert pushed(told) == [{"args": [2], "kwargs": {}}]
    assert threads == ["jqmaster outbox"]


def test_a_reader_of_the_outbox_waits_for_no_writer(told: FakeMaster) -> None:
    """`transaction_mode: IMMEDIATE`, as set by sites with SQLite, locks out all others from BEGIN on."""
    name = connections["default"].settings_dict["NAME"]
    django_site.add_sqlite("immediate", str(name), transaction_mode="IMMEDIATE", timeout=0)
    other = sqlite3.connect(name, isolation_level=None)
    try:
        outbox = DjangoOutbox("immediate")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(OperationalError, match="locked"), outbox.transaction():
            pass
        assert Relay(outbox).run_once() is None
        assert (outbox.stats().waiting, outbox.stuck()) == (0, [])
        outbox.close()
    finally:
        other.close()
        connections["immediate"].close()
        django_site.remove("immediate")


@pytest.mark.parametrize("relays", [True, False])
def test_a_claim_of_rows_waits_for_a_writer(relays: bool, told: FakeMaster) -> None:
    """SQLite at once refuses a transaction that has read and then writes while another one writes."""
    outbox = DjangoOutbox(is_direct=False)
    with outbox.transaction():
        outbox.add(("n", 1))
    row = OutboxRow.objects.get()
    name = connections["default"].settings_dict["NAME"]
    other = sqlite3.connect(name, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    ends = threading.Timer(0.1, other.commit)

    def noted(execute: Any, sql: str, *given: Any) -> Any:
        # The other transaction ends while this statement waits.
        if sql.startswith("UPDATE") and ends.ident is None:
            ends.start()
        return execute(sql, *given)

    with connections["default"].execute_wrapper(noted):
        if relays:
            assert Relay(outbox).run_once() is not None
        else:
            assert outbox.in_transaction(lambda rows: rows.claim_one(row.txn, row.token, 1_000))
    ends.join()
    other.close()
    assert pushed(told) == ([1] if relays else [])
    outbox.close()


def test_makemigrations_finds_nothing_to_add() -> None:
    call_command("makemigrations", "jqmaster", check_changes=True, dry_run=True, verbosity=0)
