# Shows: Depends
import sqlite3
from collections.abc import Iterator

from worker_sdk import Depends, Tasks
from worker_sdk.testing import inline

tasks = Tasks()


def open_database() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    try:
        yield connection
    finally:
        connection.close()  # after the attempt, however it ended


@tasks.task("answer.compute", keep_result=True)
def compute(number: int, *, db: sqlite3.Connection = Depends(open_database)) -> int:
    (answer,) = db.execute("SELECT ? * 2", (number,)).fetchone()
    return int(answer)


with inline():
    assert compute.enqueue(21).get() == 42  # `db` does not travel with the job
