"""Django's SQLite engine, with transactions that check for their turn more often."""

import sqlite3
import time
from typing import Any, Final

from django.db import OperationalError
from django.db.backends.sqlite3 import base

_LOOK_EVERY_S: Final = 0.001


class DatabaseWrapper(base.DatabaseWrapper):
    """SQLite has one writer at a time. A waiting writer sleeps longer after each try, up to 100 ms, and other writers
    take the lock meanwhile. Here, a transaction tries every millisecond, because a person waits for it. A job that
    writes a single statement waits in the usual way, so the transaction comes first."""

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
        """Try to begin a transaction, and return whether it has begun."""
        try:
            super()._start_transaction_under_autocommit()
        except OperationalError as exc:
            code = getattr(exc.__cause__, "sqlite_errorcode", None)
            if is_last or code is None or code & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            return False
        return True
