"""Repeated SIGKILL between BEGIN and the acknowledged push: `python -m tests.sdk.outbox.kills --count 1000`.

Children write transactions with jobs, or relay, until killed at a random moment. In the end, the master's jobs must be
those of the committed transactions. Some children use SQLAlchemy and push right after the commit, others use Django,
whose thread pushes while the next transaction is written (`push_in_background`).
"""

import argparse
import asyncio
import contextlib
import json
import logging
import mmap
import os
import random
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.orm import Session

from tests.sdk.outbox.conftest import expire
from worker_sdk import Tasks
from worker_sdk.outbox import Relay
from worker_sdk.outbox.base import Outbox
from worker_sdk.outbox.relay import SyncOf
from worker_sdk.outbox.sqlalchemy import SqlAlchemyOutbox, outbox_table

metadata = sa.MetaData()
table = outbox_table(metadata)
committed = sa.Table(
    "committed", metadata, sa.Column("id", sa.Integer, primary_key=True), sa.Column("job_ids", sa.Text)
)
tasks = Tasks()


@tasks.task("n")
def note_number(number: int) -> None: ...


# A short lease lets relays take over what a killed process still holds.
_LEASE_S: Final = 0.05
# A child works for at most this multiple of the CPU time of its first transaction, which takes longest, and at most
# _LONGEST_S. The time of a transaction depends on the machine and its other users.
_WORKS_UP_TO: Final = 2.0
_LONGEST_S: Final = 1.0
_RELAYS: Final = 0.2
_ROLLED_BACK: Final = 0.1
# Transactions with rows that name their namespace. Each has two parts, which are pushed one after the other.
_NAMED: Final = 0.4
# A child's current place. The parent reads it from shared memory after the kill.
_BETWEEN, _IN_TRANSACTION, _COMMITTING, _COMMITTED, _PUSHING, _ACCEPTED = range(6)
_STAGES: Final = (
    "between transactions",
    "between BEGIN and COMMIT",
    "in COMMIT",
    "before the push",
    "in the push",
    "between the push and the removal of the rows",
)
# The bytes of the shared memory: for the main thread and a background pusher.
_MAIN, _BACKGROUND = range(2)


def note(stage: mmap.mmap, number: int) -> None:
    stage[_MAIN if threading.current_thread() is threading.main_thread() else _BACKGROUND] = number


class Writer(Protocol):
    """Writes transactions with jobs to the outbox table. The parent creates it, and children use it."""

    outbox: Outbox

    def begin(self, stage: mmap.mmap) -> None:
        """Connect in a child, without using anything of the parent."""

    def write_one(self, rng: random.Random) -> None:
        """Write one transaction, which may roll back."""

    def close(self) -> None:
        """Close the connections to the database."""


class BySqlAlchemy:
    """Pushes directly after the commit."""

    def __init__(self, database: str, url: str) -> None:
        self.outbox: SqlAlchemyOutbox = outbox_of(database, url)
        self._session = Session(self.outbox.engine)

    def begin(self, stage: mmap.mmap) -> None:
        self.outbox.engine.dispose(close=False)
        self._session = Session(self.outbox.engine)
        event.listen(self._session, "before_commit", lambda _: note(stage, _COMMITTING))
        event.listen(self._session, "after_commit", lambda _: note(stage, _COMMITTED))
        with self.outbox.engine.connect():
            pass

    def write_one(self, rng: random.Random) -> None:
        with contextlib.suppress(KeyError), self.outbox.transaction(self._session):
            ids = json.dumps(enqueue_some(rng))
            self._session.execute(sa.insert(committed).values(job_ids=ids))
            may_roll_back(rng)

    def close(self) -> None:
        self._session.close()
        self.outbox.engine.dispose()


class ByDjango:
    """Pushes in a thread while it writes the next transactions."""

    def __init__(self, database: str, url: str) -> None:
        set_django_up(database)
        from worker_sdk.django import DjangoOutbox

        self._url = url
        # The thread starts in children, because the parent forks and must not have one.
        self.outbox: Outbox = DjangoOutbox(master=url, lease_s=_LEASE_S)

    def begin(self, stage: mmap.mmap) -> None:
        from django.db import connection

        from worker_sdk.django import DjangoOutbox

        self.outbox = DjangoOutbox(master=self._url, lease_s=_LEASE_S, in_background=True)
        connection.ensure_connection()
        one: Any = connection
        commit = one.commit

        def noted() -> None:
            note(stage, _COMMITTING)
            commit()
            note(stage, _COMMITTED)

        one.commit = noted

    def write_one(self, rng: random.Random) -> None:
        from django.db import connection

        outbox: Any = self.outbox
        with contextlib.suppress(KeyError), outbox.transaction():
            ids = json.dumps(enqueue_some(rng))
            with connection.cursor() as cursor:
                cursor.execute("INSERT INTO committed (job_ids) VALUES (%s)", [ids])
            may_roll_back(rng)
        # Like requests, leave time for other writers.
        time.sleep(rng.uniform(0, 0.005))

    def close(self) -> None:
        from django.db import connections

        connections.close_all()


WRITERS: Final[dict[str, Any]] = {"sqlalchemy": BySqlAlchemy, "django": ByDjango}


def set_django_up(database: str) -> None:
    """Set Django up with a database that has the tables of `metadata`."""
    import django
    from django.conf import settings

    address = sa.make_url(database)
    vendor = address.get_backend_name()
    engine = "sqlite3" if vendor == "sqlite" else vendor
    if vendor == "mysql":
        import pymysql

        pymysql.install_as_MySQLdb()
    settings.configure(
        DATABASES={
            "default": {
                "ENGINE": f"django.db.backends.{engine}",
                "NAME": address.database,
                "USER": address.username or "",
                "HOST": address.host or "",
                "PORT": address.port or "",
                "OPTIONS": {"timeout": 30} if vendor == "sqlite" else {},
            }
        },
        INSTALLED_APPS=[*(["django_tasks"] if django.VERSION < (6, 0) else []), "worker_sdk.django"],
        SECRET_KEY="of tests alone",
        USE_TZ=True,
    )
    django.setup()


def outbox_of(database: str, url: str) -> SqlAlchemyOutbox:
    return SqlAlchemyOutbox(sa.create_engine(database), table=table, master=url, lease_s=_LEASE_S)


def enqueue_some(rng: random.Random) -> list[str]:
    """Enqueue jobs in the open transaction, some of them by the name of a namespace. Return their IDs."""
    numbers = [rng.randrange(1_000) for _ in range(rng.randint(1, 4))]
    by_name = rng.randint(0, len(numbers)) if rng.random() < _NAMED else 0
    parts = (note_number, numbers[by_name:]), (note_number.using(namespace="default"), numbers[:by_name])
    return [one.id for task, some in parts if some for one in task.many([{"number": one} for one in some])]


def may_roll_back(rng: random.Random) -> None:
    """Raise KeyError when the transaction should roll back."""
    if rng.random() < _ROLLED_BACK:
        raise KeyError


def write_forever(writer: Writer, rng: random.Random, stage: mmap.mmap) -> None:
    while True:
        note(stage, _IN_TRANSACTION)
        writer.write_one(rng)
        note(stage, _BETWEEN)


def relay_forever(outbox: Outbox, stage: mmap.mmap) -> None:
    relay = Relay(outbox)
    while True:
        relay.run_once()
        note(stage, _BETWEEN)


def note_pushes(stage: mmap.mmap) -> None:
    from worker_sdk.django.background import BackgroundPushes

    push, push_batch = SyncOf.push, BackgroundPushes._push

    def noted(self: SyncOf, jobs: list[dict[str, Any]], destination: str | None) -> None:
        note(stage, _PUSHING)
        push(self, jobs, destination)
        note(stage, _ACCEPTED)

    def noted_batch(self: BackgroundPushes, batch: list[tuple[str, float]]) -> None:
        push_batch(self, batch)
        note(stage, _BETWEEN)

    SyncOf.push = noted  # type: ignore[method-assign]
    BackgroundPushes._push = noted_batch  # type: ignore[method-assign]


def kill_children(url: str, database: str, count: int, seed: int, writers: Sequence[str]) -> Counter[str]:
    """Run in a process without threads, because it forks. Return how many children were killed at each place."""
    rng = random.Random(seed)
    stage = mmap.mmap(-1, 2)
    killed: Counter[str] = Counter()
    # Statements are compiled once. Children inherit them, and spend their short lives in transactions.
    of = {name: WRITERS[name](database, url) for name in writers}
    for writer in of.values():
        writer.write_one(rng)
        Relay(writer.outbox).run_once()
        writer.close()
    works_up_to_s = {
        name: _WORKS_UP_TO * first_transaction_s(writer, stage, rng.random()) for name, writer in of.items()
    }
    note_pushes(stage)
    while killed.total() < count:
        begun, beginning = os.pipe()
        stage[:] = bytes([_BETWEEN, _BETWEEN])
        is_relay, child_seed, name = rng.random() < _RELAYS, rng.random(), rng.choice(writers)
        child = os.fork()
        if child == 0:
            try:
                writer = of[name]
                writer.begin(stage)
                os.write(beginning, b".")
                if is_relay:
                    relay_forever(writer.outbox, stage)
                write_forever(writer, random.Random(child_seed), stage)
            finally:
                os._exit(1)
        os.close(beginning)
        os.read(begun, 1)
        os.close(begun)
        wait_for_work(child, rng.uniform(0, works_up_to_s[name]))
        # It may be working or waiting for an answer.
        time.sleep(rng.uniform(0, 0.005))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        # A long database lock ends a child before the signal does.
        if os.WIFSIGNALED(status):
            # If a thread is pushing, count that instead of the main thread's place.
            where = _STAGES[stage[_BACKGROUND] or stage[_MAIN]]
            killed[f"{name}, {'relay' if is_relay else 'writer'}: {where}"] += 1
        else:
            print("a child ended by itself", file=sys.stderr)
    return killed


def first_transaction_s(writer: Writer, stage: mmap.mmap, seed: float) -> float:
    """Return the median CPU time of five children's first transactions."""
    times: list[float] = []
    for number in range(5):
        took, taking = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                writer.begin(stage)
                began_s = time.process_time()
                writer.write_one(random.Random(seed + number))
                outbox: Any = writer.outbox
                if hasattr(outbox, "wait"):
                    outbox.wait()
                os.write(taking, struct.pack("d", time.process_time() - began_s))
            finally:
                os._exit(1)
        os.close(taking)
        times += struct.unpack("d", os.read(took, 8))
        os.close(took)
        os.waitpid(child, 0)
    return statistics.median(times)


def wait_for_work(child: int, work_s: float) -> None:
    """Wait until a child has used this much more CPU time: on a busy machine, time passes without work."""
    clock = (~child << 3) | 2  # Linux: the CPU time of another process
    enough_s, deadline_s = time.clock_gettime(clock) + work_s, time.monotonic() + _LONGEST_S
    while time.monotonic() < deadline_s:
        try:
            left_s = enough_s - time.clock_gettime(clock)
        except OSError:  # the child has ended
            return
        if left_s <= 0:
            return
        # A single working thread cannot use more CPU time than passes.
        time.sleep(max(0.0002, left_s))


def finish(url: str, database: str) -> list[str]:
    """Relay the rows that killed processes left, and return the job IDs of committed transactions."""
    outbox = outbox_of(database, url)
    while outbox.stats().waiting:
        expire(outbox.engine)
        Relay(outbox).run_once()
    with outbox.engine.connect() as connection:
        found = [json.loads(ids) for ids in connection.execute(sa.select(committed.c.job_ids)).scalars()]
    outbox.close()
    outbox.engine.dispose()
    return [job_id for ids in found for job_id in ids]


async def kills(
    url: str, database: str, count: int, seed: int, at_once: int = 1, writers: Sequence[str] = tuple(WRITERS)
) -> tuple[list[str], Counter[str]]:
    """Kill children, `at_once` at a time, until `count` have been killed. They use a master and an initially empty
    database. Return the job IDs of committed transactions, and the number of kills at each place."""
    engine = sa.create_engine(database)
    metadata.create_all(engine)
    engine.dispose()

    async def some(number: int) -> Counter[str]:
        share = count // at_once + (number < count % at_once)
        arguments = ["--url", url, "--on", database, "--count", str(share), "--seed", str(seed + number)]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.sdk.outbox.kills", *arguments, "--writers", *writers),
            stdout=subprocess.PIPE,
        )
        try:
            said, _ = await process.communicate()
        finally:
            # If one fails, end the others.
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode == 0
        return Counter(json.loads(said))

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(some(number)) for number in range(at_once)]
    killed = sum((task.result() for task in tasks), Counter[str]())
    return await asyncio.to_thread(finish, url, database), killed


async def jobs_of(api: Any) -> list[str]:
    """Return the IDs of all of a master's jobs."""
    ids: list[str] = []
    cursor = ""
    while True:
        _, answer = await api.call("GET", f"/api/jobs?limit=500{f'&cursor={cursor}' if cursor else ''}")
        ids += [job["id"] for job in answer["jobs"]]
        if not (cursor := answer.get("next_cursor") or ""):
            return ids


async def _by_hand(kind: str, count: int, seed: int, at_once: int, writers: Sequence[str]) -> bool:
    """Return whether the jobs are those of the committed transactions."""
    from tests.support.master import master_on
    from tests.support.mysql import mysql_or_skip
    from tests.support.postgres import postgres_or_skip
    from tests.support.server import StoreServer

    store = StoreServer()
    store.start()
    driver, start = {
        "sqlite": ("sqlite", None),
        "postgresql": ("postgresql+psycopg", postgres_or_skip),
        "mysql": ("mysql+pymysql", mysql_or_skip),
    }[kind]
    server = None if start is None else start()
    try:
        with tempfile.TemporaryDirectory() as directory:
            place = f"/{Path(directory) / 'app.db'}" if server is None else server.new_database()
            database = f"{driver}://{place}"
            # Masters are not under test here: this one must keep leading even on a busy machine.
            async with master_on(store.url, leader_ttl_s=10.0) as (master, api):
                began_s = time.monotonic()
                wanted, killed = await kills(master.server.url, database, count, seed, at_once, writers)
                found = await jobs_of(api)
                lost, more = set(wanted) - set(found), set(found) - set(wanted)
                print(
                    f"{kind}: {count} kills in {time.monotonic() - began_s:.0f} s, seed {seed}: {len(wanted)} jobs "
                    f"committed, {len(found)} pushed, lost {len(lost)}, not committed {len(more)}, "
                    f"twice {len(found) - len(set(found))}"
                )
                for where, number in sorted(killed.items()):
                    print(f"  {where}: {number}")
                for job_id in sorted(lost | more)[:20]:
                    print(f"  {'lost' if job_id in lost else 'not committed'}: {job_id}")
                return sorted(found) == sorted(wanted)
    finally:
        store.stop()
        if server is not None:
            server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--at-once", type=int, default=4, help="children at a time")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--database", choices=["sqlite", "postgresql", "mysql"], default="sqlite")
    parser.add_argument(
        "--writers", nargs="+", choices=list(WRITERS), default=list(WRITERS), help="kinds of children"
    )
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--on", help=argparse.SUPPRESS)
    given = parser.parse_args()
    # Otherwise each child would warn that nobody serves these jobs.
    logging.getLogger("worker_sdk.pusher.unserved").setLevel(logging.ERROR)
    if given.url:
        print(json.dumps(kill_children(given.url, given.on, given.count, given.seed, given.writers)))
    elif not asyncio.run(_by_hand(given.database, given.count, given.seed, given.at_once, given.writers)):
        sys.exit(1)


if __name__ == "__main__":
    main()
