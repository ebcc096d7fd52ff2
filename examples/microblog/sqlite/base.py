"""Django's SQLite, with transactions that do not oversleep their turn."""

import sqlite3
import time
from typing import Any, Final

from django.db import OperationalError
from django.db.backends.sqlite3 import base

_LOOK_EVERY_S: Final = 0.001


class DatabaseWrapper(base.DatabaseWrapper):
    """SQLite has one writer at a time. A waiting writer sleeps for longer each time, up to 100 ms, and others
    take the lock meanwhile. Here a transaction, for which a person waits, looks each millisecond. A job that
    writes one statement goes on waiting in the usual way, and so comes after it."""

    def _start_transaction_under_autocommit(self) -> None:
        timeout_s = self.settings_dict["OPTIONS"].get("timeout", 5)
        deadline_s = time.monotonic() + timeout_s
        connection: Any = self.connection
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            while not self._begin(is_last=time.monotonic() > deadline_s):
                time.sleep(_LOOK_EVERY_S)
        finally:
            connection.execute(f"PRAGMA busy_timeout = {timeout_s * 1000:.0f}")

    def _begin(self, *, is_last: bool) -> bool:
        """Return whether the transaction has begun."""
        try:
            super()._start_transaction_under_autocommit()
        except OperationalError as exc:
            code = getattr(exc.__cause__, "sqlite_errorcode", None)
            if is_last or code is None or code & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            return False
        return True
