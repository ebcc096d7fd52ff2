"""The microblog's engine: a transaction often checks whether SQLite's lock is free."""

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError

from examples.microblog.sqlite.base import DatabaseWrapper
from tests.support import django_site

django_site.set_up()
pytestmark = [pytest.mark.req("S11"), pytest.mark.system]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "app.sqlite3"
    with sqlite3.connect(found) as connection:
        connection.execute("CREATE TABLE t (n INTEGER)")
    connection.close()
    return found


@pytest.fixture
def wrapper(path: Path) -> Iterator[Any]:
    options = {"transaction_mode": "IMMEDIATE", "timeout": 30}
    settings = {
        "NAME": str(path),
        "OPTIONS": options,
        "AUTOCOMMIT": True,
        "CONN_MAX_AGE": 0,
        "TIME_ZONE": None,
    }
    one = DatabaseWrapper({**settings, "CONN_HEALTH_CHECKS": False, "ENGINE": "examples.microblog.sqlite"})
    yield one
    one.close()


def test_a_transaction_begins_when_the_writer_before_it_ends(wrapper: Any, path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    looks = threading.Event()
    wrapper.ensure_connection()
    begin = wrapper._begin

    def noted(*, is_last: bool) -> bool:
        begun: bool = begin(is_last=is_last)
        looks.set()
        return begun

    wrapper._begin = noted
    ends = threading.Thread(target=lambda: (looks.wait(30), other.execute("COMMIT")))
    ends.start()
    wrapper.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)
    assert wrapper.connection.in_transaction
    wrapper.connection.execute("INSERT INTO t VALUES (1)")
    wrapper.commit()
    ends.join()
    assert wrapper.connection.execute("PRAGMA busy_timeout").fetchone() == (30_000,)
    assert other.execute("SELECT n FROM t").fetchall() == [(1,)]
    other.close()


def test_a_writer_that_does_not_end_is_an_error_as_ever(wrapper: Any, path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    wrapper.settings_dict["OPTIONS"]["timeout"] = 0.02
    with pytest.raises(OperationalError, match="locked"):
        wrapper.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)
    other.close()
