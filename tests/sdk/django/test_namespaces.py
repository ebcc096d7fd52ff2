"""Backends whose jobs go to another namespace or to another master, from one database."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.db import transaction
from django.test import override_settings

from tests.sdk.django.blog import tasks
from tests.sdk.fake_master import FakeMaster
from tests.support.django_site import BACKEND
from worker_sdk import configure
from worker_sdk.django.tasks_api import task_backends
from worker_sdk.django.worker import django_worker

pytestmark = pytest.mark.req("D29", "D22", "S11")


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker_sdk.outbox.base._MAX_WAIT_S", 0.05)
    # The outbox of an alias outlives a test, and must not leave the next one's rows to the relay.
    monkeypatch.setattr("worker_sdk.outbox.base._REST_S", 0.0)


@pytest.fixture
def elsewhere() -> Iterator[FakeMaster]:
    """Yield the master of another installation."""
    one = FakeMaster(token="other")
    yield one
    one.close()


def backends(**options: dict[str, Any]) -> Any:
    """Return settings with these backends, each with its options."""
    return override_settings(
        TASKS={alias: {"BACKEND": BACKEND, "OPTIONS": given} for alias, given in options.items()}
    )


def sent(master: FakeMaster) -> list[tuple[str, Any]]:
    """Return the namespaces and the first arguments of a master's jobs."""
    return [(master.namespaces[job_id], job["argument"]["args"][0]) for job_id, job in master.jobs.items()]


@pytest.mark.parametrize("relay_of", ["default", "there"])
def test_the_rows_of_backends_with_other_masters_reach_their_own(
    told: FakeMaster, elsewhere: FakeMaster, relay_of: str
) -> None:
    with backends(default={}, there={"master": elsewhere.url, "token": elsewhere.token}):
        told.stop()
        elsewhere.stop()
        with transaction.atomic():
            tasks.add.enqueue(1)
            tasks.add.using(backend="there").enqueue(2)
        told.start()
        elsewhere.start()
        call_command("jq_outbox", "--once", "--backend", relay_of)
        assert (sent(told), sent(elsewhere)) == ([("default", 1)], [("default", 2)])
        # Each pushes to its own master right after a commit, too.
        with transaction.atomic():
            tasks.add.using(backend="there").enqueue_many([[3]])
            tasks.add.enqueue(4)
        call_command("jq_outbox", "--once")
        assert (sent(told)[1:], sent(elsewhere)[1:]) == ([("default", 4)], [("default", 3)])


def test_rows_wait_while_their_backend_is_missing(told: FakeMaster, elsewhere: FakeMaster) -> None:
    options = {"master": elsewhere.url, "token": elsewhere.token}
    with backends(default={}, there=options):
        elsewhere.stop()
        with transaction.atomic():
            tasks.add.using(backend="there").enqueue(1)
        elsewhere.start()
    with backends(default={}), pytest.raises(Exception, match="no backend 'there' of jqmaster any more"):
        call_command("jq_outbox", "--once")
    with backends(default={}, there=options):
        call_command("jq_outbox", "--once")
    assert (sent(told), sent(elsewhere)) == ([], [("default", 1)])


def test_a_backend_has_a_namespace(told: FakeMaster) -> None:
    with backends(
        default={},
        mail={"namespace": "mail"},
        shop={"master": told.url, "token": told.token, "namespace": "shop"},
    ):
        tasks.add.using(backend="mail").enqueue(1)
        with transaction.atomic():
            tasks.add.using(backend="mail").enqueue(2)
            tasks.add.using(backend="shop").enqueue(3)
            tasks.add.enqueue(4)
        assert sorted(sent(told)) == [("default", 4), ("mail", 1), ("mail", 2), ("shop", 3)]
        told.closed = {"mail", "shop"}
        with transaction.atomic():
            tasks.add.using(backend="mail").enqueue(5)
            tasks.add.using(backend="shop").enqueue(6)
        told.closed.clear()
        call_command("jq_outbox", "--once")
        assert sorted(sent(told))[-3:] == [("mail", 5), ("shop", 3), ("shop", 6)]
        told.calls.clear()
        task_backends["mail"].client().status(next(iter(told.jobs)))
        assert told.calls[0][1].startswith("/ns/mail/api/jobs/")


def test_a_relay_of_a_former_release_leaves_rows_for_another_namespace_alone(
    told: FakeMaster, using: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with backends(default={"database": using}, mail={"database": using, "namespace": "mail"}):
        told.closed = {"default", "mail"}
        with transaction.atomic(using=using):
            tasks.add.using(backend="mail").enqueue(1)
            tasks.add.enqueue(2)
        told.closed.clear()
        with monkeypatch.context() as patch:
            # A former release reads rows of format 1.
            patch.setattr("worker_sdk.django.rows.FORMAT", 1)
            call_command("jq_outbox", "--once")
            assert (sent(told), task_backends["default"].outbox.stats().newer) == ([("default", 2)], 1)
        call_command("jq_outbox", "--once")
        assert sent(told) == [("default", 2), ("mail", 1)]


def test_a_worker_works_where_its_backends_enqueue(told: FakeMaster, monkeypatch: pytest.MonkeyPatch) -> None:
    with backends(default={}, mail={"namespace": "mail"}, also={"namespace": "mail"}):
        both = django_worker(["default", "mail", "also"])
        assert (both.master, both.namespaces) == ([told.url], {"default": 1, "mail": 1})
        one = django_worker(["mail", "also"])
        assert (one.master, one.namespaces) == ([f"{told.url}/ns/mail"], None)
        assert django_worker(["default"]).namespaces is None
        assert django_worker(["mail"], namespaces={"shop": 2, "mail": 1}).namespaces == {"shop": 2, "mail": 1}
        configure(url=told.url, token=told.token, namespace="shop")
        assert django_worker(["default", "mail"]).namespaces == {"shop": 1, "mail": 1}
        with pytest.raises(Exception, match="expected NAME or NAME=SHARE"):
            call_command("jq_worker", "--no-reload", "--namespaces", "shop=x")


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"namespace": "Mail"}, "2 to 39 of the characters"),
        ({"namespace": 7}, "not a text"),
        ({"namespace": "mail", "master": "http://a/ns/shop"}, "names the namespace shop"),
    ],
)
def test_a_faulty_namespace_is_named_by_the_checks(options: dict[str, Any], fault: str) -> None:
    with backends(default={"enqueue": "on_commit", **options}):
        problems = [one for one in task_backends["default"].check() if one.id == "jqmaster.E012"]
    assert [fault in one.msg for one in problems] == [True]
    assert problems[0].hint
