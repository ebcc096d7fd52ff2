"""Django's and the SDK's tasks in Django transactions: they are pushed exactly if the outermost transaction commits."""

from typing import Any

import pytest
from django.db import DatabaseError, connections, transaction
from django.test import Client, TestCase, override_settings

from tests.sdk.django.blog import tasks
from tests.sdk.django.blog.models import Post
from tests.sdk.fake_master import FakeMaster
from tests.support.django_site import tasks as tasks_setting
from worker_sdk import Seal, Tasks
from worker_sdk.django import DjangoOutbox
from worker_sdk.django.models import OutboxRow
from worker_sdk.django.rows import DjangoRows
from worker_sdk.outbox import OutboxStats, Relay
from worker_sdk.testing import recording

pytestmark = pytest.mark.req("D22", "S11")

own = Tasks()
sealed = Tasks(seal=Seal(keys={"2026a": Seal.new_key()}))


@own.task("note")
def note(text: str) -> None: ...


@sealed.task("whisper")
def whisper(text: str) -> None: ...


def pushed(master: FakeMaster) -> list[Any]:
    return [job["argument"] for job in master.jobs.values()]


def rows(using: str = "default") -> int:
    return DjangoOutbox(using).stats().waiting


def test_a_commit_pushes_the_jobs_in_order_and_removes_their_rows(using: str, told: FakeMaster) -> None:
    outbox = DjangoOutbox(using)
    with outbox.transaction():
        Post.objects.using(using).create(text="a")
        first = note.enqueue("a")
        note.many([{"text": "b"}, {"text": "c"}])
        assert (rows(using), pushed(told)) == (3, [])
    assert [one["text"] for one in pushed(told)] == ["a", "b", "c"]
    assert next(iter(told.jobs)) == first.id
    assert (rows(using), told.count("/api/jobs/bulk")) == (0, 1)
    outbox.close()


@pytest.mark.req("S14")
def test_rows_hold_sealed_jobs(using: str, told: FakeMaster) -> None:
    outbox = DjangoOutbox(using)
    with outbox.transaction():
        whisper.enqueue("4111-1111")
        [body] = OutboxRow.objects.using(using).values_list("body", flat=True)
        assert b"4111-1111" not in bytes(body)
    [job] = told.jobs.values()
    assert job["argument"]["sealed_with"] == "2026a"
    assert sealed.seal is not None
    assert sealed.seal.opened_argument(job["argument"], job["id"], "whisper") == {"text": "4111-1111"}
    outbox.close()


def test_rollbacks_and_savepoints_take_their_jobs_along(using: str, told: FakeMaster) -> None:
    outbox = DjangoOutbox(using)

    def fails() -> None:
        with outbox.transaction():
            note.enqueue("lost")
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    with transaction.atomic(using):
        # The transaction's first row is in a savepoint that is rolled back.
        with pytest.raises(KeyError):
            fails()
        outbox.add(note.to_job("a"))
        with pytest.raises(KeyError):
            fails()
        with outbox.transaction():
            note.enqueue("b")
        assert pushed(told) == []
    assert [one["text"] for one in pushed(told)] == ["a", "b"]
    assert rows(using) == 0
    outbox.close()


def test_a_commit_that_fails_pushes_nothing(
    using: str, told: FakeMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise DatabaseError("the server has gone")

    with monkeypatch.context() as patch:
        patch.setattr(connections[using], "_commit", refuse)
        with pytest.raises(DatabaseError), DjangoOutbox(using).transaction():
            note.enqueue("a")
    connections[using].close()
    assert (pushed(told), rows(using)) == ([], 0)


def test_without_a_transaction_rows_are_pushed_at_once(using: str, told: FakeMaster) -> None:
    outbox = DjangoOutbox(using)
    with outbox.writing():
        note.enqueue("a")
        assert pushed(told) == [{"text": "a"}]
    assert rows(using) == 0
    outbox.close()


def test_a_relay_pushes_what_an_outage_left_and_sets_refused_jobs_aside(using: str, told: FakeMaster) -> None:
    outbox = DjangoOutbox(using, is_direct=False)
    with outbox.transaction():
        outbox.add_many(("n", number) for number in range(1_200))
    assert pushed(told) == []
    problem = {
        "status": 422, "code": "invalid", "detail": "no", "errors": [{"loc": ["jobs", 3, "argument"], "msg": "no"}],
    }  # fmt: skip
    told.script("bulk", 422, problem)
    done = Relay(outbox).run_once()
    assert done is not None
    assert (done.pushed, done.set_aside) == (1_199, 1)
    assert pushed(told) == [number for number in range(1_200) if number != 3]
    assert outbox.stats() == OutboxStats(waiting=0, lag_s=0.0, stuck=1, newer=0)
    assert outbox.stuck()[0][1].startswith("422 invalid")
    assert outbox.retry_stuck() == 1
    Relay(outbox).run_once()
    assert (len(told.jobs), Relay(outbox).run_once()) == (1_200, None)
    outbox.close()


def test_rows_of_a_newer_release_are_left_alone_and_told(using: str, told: FakeMaster) -> None:
    outbox = DjangoOutbox(using, is_direct=False)
    with outbox.transaction():
        outbox.add(("n", 1))
    OutboxRow.objects.using(using).update(format=99)
    with outbox.transaction():
        outbox.add(("n", 2))
    Relay(outbox).run_once()
    assert pushed(told) == [2]
    assert outbox.stats() == OutboxStats(waiting=0, lag_s=0.0, stuck=0, newer=1)
    outbox.close()


def test_two_relays_share_the_transactions(using: str, told: FakeMaster) -> None:
    outbox = DjangoOutbox(using, is_direct=False)
    for first in range(0, 600, 200):
        with outbox.transaction():
            outbox.add_many(("n", number) for number in range(first, first + 200))
    # Another relay holds the first transaction.
    with transaction.atomic(using):
        assert len(DjangoRows(using).claim("other", 30_000, 1)) == 1
    Relay(outbox).run_once()
    assert pushed(told) == list(range(200, 600))
    OutboxRow.objects.using(using).update(lease_until_ms=0)
    Relay(outbox).run_once()
    assert (pushed(told)[400:], rows(using)) == (list(range(200)), 0)
    outbox.close()


def test_databases_have_outboxes_of_their_own(told: FakeMaster) -> None:
    from tests.support import django_site

    django_site.migrate("second")
    first, second = DjangoOutbox(), DjangoOutbox("second")

    def fails() -> None:
        with first.transaction():
            first.add(("n", 1))
            with second.transaction():
                second.add(("n", 2))
            assert pushed(told) == [2]
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert (pushed(told), rows("second")) == ([2], 0)
    first.close()
    second.close()


def test_a_task_of_django_is_pushed_after_the_commit(told: FakeMaster) -> None:
    with transaction.atomic():
        result = tasks.add.enqueue(1, b=2)
        assert (rows(), pushed(told)) == (1, [])
        # It waits in the outbox but can already be queried.
        told.script(result.id, 404, {"status": 404, "code": "unknown_job", "detail": "", "errors": []})
        assert tasks.add.get_result(result.id).status == "READY"
    assert pushed(told) == [{"args": [1], "kwargs": {"b": 2}}]
    assert rows() == 0


@pytest.mark.parametrize("mode", ["outbox", "on_commit"])
def test_a_task_of_a_transaction_that_is_rolled_back_is_not_pushed(told: FakeMaster, mode: str) -> None:
    def fails() -> None:
        with transaction.atomic():
            tasks.add.enqueue(1)
            assert pushed(told) == []
            raise KeyError

    with override_settings(TASKS=tasks_setting(enqueue=mode)):
        with pytest.raises(KeyError):
            fails()
        assert (pushed(told), rows()) == ([], 0)
        with transaction.atomic():
            tasks.add.enqueue(2)
        assert pushed(told) == [{"args": [2], "kwargs": {}}]


@pytest.mark.parametrize("mode", ["outbox", "on_commit", "immediately"])
def test_many_calls_follow_their_transaction(told: FakeMaster, mode: str) -> None:
    calls = [(number,) for number in range(1_500)]
    is_held = mode != "immediately"
    with override_settings(TASKS=tasks_setting(enqueue=mode)):
        with transaction.atomic():
            tasks.add.enqueue_many(calls)
            transaction.set_rollback(True)
        assert len(told.jobs) == (0 if is_held else 1_500)
        told.jobs.clear()
        with transaction.atomic():
            results = tasks.add.enqueue_many(calls)
            assert (len(told.jobs), rows()) == (0 if is_held else 1_500, 1_500 if mode == "outbox" else 0)
        assert list(told.jobs) == [result.id for result in results]
        assert [one["args"] for one in pushed(told)] == [[number] for number in range(1_500)]
        assert rows() == 0


@pytest.mark.parametrize("mode", ["outbox", "on_commit", "immediately"])
def test_a_key_that_is_not_text_is_refused_at_the_call(told: FakeMaster, mode: str) -> None:
    """JSON has such keys, but the function would get texts instead."""
    with override_settings(TASKS=tasks_setting(enqueue=mode)), transaction.atomic():
        for refused in (
            lambda: tasks.add.enqueue({1: 2}),
            lambda: tasks.add.enqueue_many([(1,), ({1: 2},)]),
        ):
            with pytest.raises(TypeError, match=r"a key of argument\['args'\]\[0\] is an int"):
                refused()
    assert pushed(told) == []


def test_immediately_means_at_once(told: FakeMaster) -> None:
    with transaction.atomic():
        tasks.elsewhere.enqueue()
        assert len(told.jobs) == 1


def test_a_view_in_a_transaction_pushes_when_it_has_ended_well(told: FakeMaster) -> None:
    client = Client(raise_request_exception=False)
    answer = client.get("/post")
    assert list(told.jobs) == [answer.content.decode()]
    assert client.get("/post?fails=1").status_code == 500
    assert (len(told.jobs), Post.objects.count(), rows()) == (1, 1, 0)


async def test_an_async_view_enqueues(told: FakeMaster) -> None:
    from django.test import AsyncClient

    answer = await AsyncClient().get("/apost")
    assert list(told.jobs) == [answer.content.decode()]


def test_in_a_test_case_jobs_are_recorded_when_the_callbacks_run(told: FakeMaster) -> None:
    seen: list[Any] = []

    class Case(TestCase):
        def runTest(self) -> None:
            with recording() as jobs:
                with self.captureOnCommitCallbacks():
                    tasks.add.enqueue(1)
                    seen.append(len(jobs))
                for number in (2, 3):
                    with self.captureOnCommitCallbacks(execute=True):
                        tasks.add.enqueue(number)
                    seen.append([job["argument"]["args"] for job in jobs])

    Case.setUpClass()
    try:
        Case().debug()
    finally:
        Case.tearDownClass()
        Case.doClassCleanups()
    # The first was never committed and shares the test's transaction with the second.
    assert seen == [0, [[1], [2]], [[1], [2], [3]]]
    assert told.calls == []
