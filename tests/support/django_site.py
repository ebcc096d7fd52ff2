"""Django settings for test processes. Django reads them only once."""

import atexit
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

BACKEND: Final = "worker_sdk.django.JqmasterBackend"


def tasks(**options: Any) -> dict[str, Any]:
    """Return the `TASKS` setting with options for the default backend."""
    commands = {"commands": ["greet"]}
    return {
        "default": {"BACKEND": BACKEND, "QUEUES": ["default", "mail"], "OPTIONS": {**commands, **options}},
        "other": {"BACKEND": BACKEND, "OPTIONS": {"enqueue": "immediately"}},
    }


def set_up() -> None:
    """Set Django up once."""
    import django
    from django.conf import settings

    if settings.configured:
        return
    directory = Path(tempfile.mkdtemp(prefix="jqdj"))
    # The settings and databases belong to this process until it ends.
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    backport = ["django_tasks"] if django.VERSION < (6, 0) else []
    settings.configure(
        DATABASES={
            "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(directory / "db.sqlite3")},
            "second": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(directory / "second.sqlite3")},
        },
        DEBUG=True,
        SECRET_KEY="of tests alone",
        USE_TZ=True,
        ROOT_URLCONF="tests.sdk.django.urls",
        ALLOWED_HOSTS=["*"],
        INSTALLED_APPS=[*backport, "worker_sdk.django", "tests.sdk.django.blog"],
        TASKS=tasks(),
    )
    django.setup()


def migrate(alias: str) -> None:
    """Create missing tables."""
    from django.core.management import call_command
    from django.db import connections

    if "jqmaster_outbox" not in connections[alias].introspection.table_names():
        call_command("migrate", database=alias, run_syncdb=True, verbosity=0)


def add_postgres(alias: str, address: str) -> None:
    """Add the PostgreSQL database `user@host:port/name` under an alias."""
    _add(alias, address, "django.db.backends.postgresql")


def add_mysql(alias: str, address: str) -> None:
    """Add the MySQL or MariaDB database `user@host:port/name` under an alias."""
    import pymysql

    # Django imports MySQLdb. PyMySQL offers the same interface and needs no compiler.
    pymysql.install_as_MySQLdb()
    _add(alias, address, "django.db.backends.mysql")


def add_sqlite(alias: str, path: str, **options: Any) -> None:
    """Add an SQLite file under an alias, with Django options."""
    from django.db import connections

    settings = {"ENGINE": "django.db.backends.sqlite3", "NAME": path, "OPTIONS": options}
    connections.settings[alias] = connections.configure_settings({"default": {}, alias: settings})[alias]


def _add(alias: str, address: str, engine: str) -> None:
    from django.db import connections

    user, _, rest = address.partition("@")
    host_and_port, _, name = rest.partition("/")
    host, _, port = host_and_port.partition(":")
    connections.settings[alias] = connections.configure_settings(
        {
            "default": {},
            alias: {"ENGINE": engine, "NAME": name, "USER": user, "HOST": host, "PORT": port},
        }
    )[alias]


def remove(alias: str) -> None:
    """Remove a database."""
    from django.db import connections

    del connections[alias]
    del connections.settings[alias]
