"""An in-process Django site with outboxes on SQLite, PostgreSQL and MySQL, and a master that records its calls."""

from collections.abc import Iterator

import pytest
from django.core.management import call_command
from django.db import connections

from tests.sdk.fake_master import FakeMaster
from tests.support import django_site
from tests.support.mysql import MySqlServer, mysql_or_skip
from tests.support.postgres import PostgresServer, postgres_or_skip
from worker_sdk import configure


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


# Set up before test modules import models and tasks.
django_site.set_up()


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    from tests.sdk.django.blog.models import Post
    from worker_sdk.django.models import OutboxRow

    django_site.migrate("default")
    yield
    OutboxRow.objects.all().delete()
    Post.objects.all().delete()
    connections.close_all()


@pytest.fixture(params=["sqlite", "postgresql", "mysql"])
def using(request: pytest.FixtureRequest) -> Iterator[str]:
    """Return the alias of a database with the site's tables."""
    if request.param == "sqlite":
        yield "default"
        return
    alias = "other"
    server: PostgresServer | MySqlServer
    if request.param == "postgresql":
        server = request.getfixturevalue("postgres")
        django_site.add_postgres(alias, server.new_database())
    else:
        server = request.getfixturevalue("mysql")
        django_site.add_mysql(alias, server.new_database())
    call_command("migrate", database=alias, run_syncdb=True, verbosity=0)
    yield alias
    connections[alias].close()
    django_site.remove(alias)


@pytest.fixture
def told(master: FakeMaster) -> Iterator[FakeMaster]:
    """Yield the master that receives the site's pushes."""
    configure(url=master.url, token=master.token)
    yield master
    configure()
