"""The outbox with thread-based SQLAlchemy sessions works without greenlet, which SQLAlchemy 2.1 no longer installs."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.sdk.fake_master import FakeMaster

PROGRAM = """
import sys

sys.modules["greenlet"] = None  # an import of it fails
import sqlalchemy as sa
from sqlalchemy.orm import Session
from worker_sdk import Tasks
from worker_sdk.outbox import Relay
from worker_sdk.outbox.sqlalchemy import SqlAlchemyOutbox

address, master, token = sys.argv[1:]
tasks = Tasks()

@tasks.task("post.distribute")
def distribute(post_id: int) -> None: ...

engine = sa.create_engine(address)
for is_direct in (True, False):
    outbox = SqlAlchemyOutbox(engine, master=master, token=token, is_direct=is_direct)
    outbox.create_table()
    with Session(engine) as session, outbox.transaction(session):
        distribute.enqueue(1 if is_direct else 2)
    print(outbox.stats().waiting)
relay = Relay(outbox)
while outbox.stats().waiting:
    relay.run_once()
try:
    outbox.transaction(object()).__enter__()
except AttributeError:
    print("no session")
"""


@pytest.mark.req("S11")
def test_sessions_of_threads_need_no_greenlet(master: FakeMaster, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, f"sqlite:///{tmp_path / 'app.db'}", master.url, master.token],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout.split("\n")) == (0, ["0", "1", "no session", ""]), done.stderr
    assert [job["argument"] for job in master.jobs.values()] == [{"post_id": 1}, {"post_id": 2}]
