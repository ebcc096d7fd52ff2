"""The task that imports. Run it with `jqmaster worker examples.import_csv.tasks:tasks --master URL`."""

import csv
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

from worker_sdk import Context, Tasks

BATCH = 500

tasks = Tasks()


@tasks.task("users.import", timeout=3600, keep_result=True, rerun_lost=True)
def import_users(ctx: Context, file: str, database: str) -> int:
    """Import a CSV file into a table, and return the number of users in the table.

    Each batch is one transaction. If the worker dies before the position after a batch is saved, the batch is imported
    again, and replaces the same rows.
    """
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS users (id INTEGER PRIMARY KEY, name TEXT)")
        for batch in ctx.iterate(batches_of(Path(file)), total=-(-count_rows(Path(file)) // BATCH)):
            with connection:
                connection.executemany("INSERT OR REPLACE INTO users VALUES (?, ?)", batch)
        (count,) = connection.execute("SELECT count(*) FROM users").fetchone()
    return int(count)


def batches_of(file: Path) -> Callable[[int], Iterator[list[list[str]]]]:
    """Return a function that reads the batches of a file, and skips a number of finished batches."""

    def read(done: int) -> Iterator[list[list[str]]]:
        with file.open(newline="") as lines:
            rows = islice(csv.reader(lines), done * BATCH, None)
            while batch := list(islice(rows, BATCH)):
                yield batch

    return read


def count_rows(file: Path) -> int:
    """Return the number of rows in a file."""
    with file.open(newline="") as lines:
        return sum(1 for _ in csv.reader(lines))
