"""Django's connections after a PostgreSQL crash: a continuing relay reaches the database again."""

from collections.abc import Iterator

import pytest
from django.core.management import call_command
from django.db import OperationalError, connections

from tests.sdk.fake_master import FakeMaster
from tests.support import django_site, real_time
from tests.support.postgres import PostgresServer, postgres_or_skip
from worker_sdk.django import DjangoOutbox
from worker_sdk.django.models import OutboxRow
from worker_sdk.outbox import Relay

pytestmark = [pytest.mark.req("D22", "S11"), real_time.PROCESSES, pytest.mark.system]


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    one = postgres_or_skip()
    django_site.add_postgres("restarted", one.new_database())
    call_command("migrate", database="restarted", run_syncdb=True, verbosity=0)
    yield one
    connections["restarted"].close()
    django_site.remove("restarted")
    one.stop()


def test_a_restart_before_the_commit_pushes_nothing(server: PostgresServer, told: FakeMaster) -> None:
    outbox = DjangoOutbox("restarted")

    def write() -> None:
        with outbox.transaction():
            outbox.add(("n", 1))
            server.restart()

    with pytest.raises(OperationalError):
        write()
    assert not OutboxRow.objects.using("restarted").exists()
    with outbox.transaction():
        outbox.add(("n", 2))
    assert [job["argument"] for job in told.jobs.values()] == [2]
    outbox.close()


def test_a_relay_goes_on_after_a_restart(server: PostgresServer, told: FakeMaster) -> None:
    outbox = DjangoOutbox("restarted", is_direct=False)
    relay = Relay(outbox)
    with outbox.transaction():
        outbox.add(("n", 1), ("n", 2))
    server.restart()
    # One round finds the connection cut.
    with pytest.raises(OperationalError):
        relay.run_once()
    done = relay.run_once()
    assert done is not None
    assert done.pushed == 2
    assert [job["argument"] for job in told.jobs.values()] == [1, 2]
    assert not OutboxRow.objects.using("restarted").exists()
    outbox.close()
