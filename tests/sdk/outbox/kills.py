"""SIGKILL between BEGIN and the acknowledged push, again and again: `python -m tests.sdk.outbox.kills --count 1000`.

Children write transactions with jobs, or relay, until they are killed at a random moment. In the end the jobs that the
master has are those of the committed transactions.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.orm import Session

from tests.sdk.outbox.conftest import expire
from worker_sdk import make_job
from worker_sdk.outbox import Relay
from worker_sdk.outbox.sqlalchemy import SqlAlchemyOutbox, outbox_table

metadata = sa.MetaData()
table = outbox_table(metadata)
committed = sa.Table(
    "committed", metadata, sa.Column("id", sa.Integer, primary_key=True), sa.Column("job_ids", sa.Text)
)
# A short lease, so that relays take over what a killed process still holds.
_LEASE_S: Final = 0.05
# A child writes or relays for so much CPU time, which is several transactions, but not for longer than that.
_WORKS_UP_TO_S: Final = 0.02
_LONGEST_S: Final = 1.0
_RELAYS: Final = 0.2
_ROLLED_BACK: Final = 0.1


def outbox_of(database: str, url: str) -> SqlAlchemyOutbox:
    return SqlAlchemyOutbox(sa.create_engine(database), table=table, master=url, lease_s=_LEASE_S)


def write_forever(outbox: SqlAlchemyOutbox, rng: random.Random) -> None:
    with Session(outbox.engine) as session:
        while True:
            write_one(outbox, session, rng)


def write_one(outbox: SqlAlchemyOutbox, session: Session, rng: random.Random) -> None:
    """Write one transaction, which may roll back."""
    jobs = [make_job("n", rng.randrange(1_000)) for _ in range(rng.randint(1, 4))]
    with contextlib.suppress(KeyError), outbox.transaction(session):
        ids = json.dumps([job["id"] for job in jobs])
        session.execute(sa.insert(committed).values(job_ids=ids))
        outbox.add(session, *jobs)
        if rng.random() < _ROLLED_BACK:
            raise KeyError


def relay_forever(outbox: SqlAlchemyOutbox) -> None:
    relay = Relay(outbox)
    while True:
        relay.run_once()


def kill_children(url: str, database: str, count: int, seed: int) -> None:
    """Run in a process without threads: it forks."""
    rng = random.Random(seed)
    # Statements are compiled once: children inherit them, and spend their short lives in transactions.
    outbox = outbox_of(database, url)
    with Session(outbox.engine) as session:
        write_one(outbox, session, rng)
    Relay(outbox).run_once()
    outbox.engine.dispose()
    for _ in range(count):
        begun, beginning = os.pipe()
        is_relay, child_seed = rng.random() < _RELAYS, rng.random()
        child = os.fork()
        if child == 0:
            try:
                outbox.engine.dispose(close=False)
                with outbox.engine.connect():
                    os.write(beginning, b".")
                if is_relay:
                    relay_forever(outbox)
                write_forever(outbox, random.Random(child_seed))
            finally:
                os._exit(1)
        os.close(beginning)
        os.read(begun, 1)
        os.close(begun)
        wait_for_work(child, rng.uniform(0, _WORKS_UP_TO_S))
        # It may be at work or wait for an answer.
        time.sleep(rng.uniform(0, 0.005))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        # A database that is locked for long ends a child before the signal does.
        if not os.WIFSIGNALED(status):
            print("a child ended by itself", file=sys.stderr)


def wait_for_work(child: int, work_s: float) -> None:
    """Wait until a child has used so much CPU time from now on: on a busy machine time passes without work."""
    clock = (~child << 3) | 2  # Linux: the CPU time of another process
    enough_s, deadline_s = time.clock_gettime(clock) + work_s, time.monotonic() + _LONGEST_S
    while time.monotonic() < deadline_s:
        try:
            if time.clock_gettime(clock) >= enough_s:
                return
        except OSError:  # it has ended
            return
        time.sleep(0.0005)


def finish(url: str, database: str) -> list[str]:
    """Relay what the dead left, and return the IDs of the jobs of committed transactions."""
    outbox = outbox_of(database, url)
    while outbox.stats().waiting:
        expire(outbox.engine)
        Relay(outbox).run_once()
    with outbox.engine.connect() as connection:
        found = [json.loads(ids) for ids in connection.execute(sa.select(committed.c.job_ids)).scalars()]
    outbox.close()
    outbox.engine.dispose()
    return [job_id for ids in found for job_id in ids]


async def kills(url: str, database: str, count: int, seed: int) -> list[str]:
    """Do all of it against a master and an empty database. Return the IDs of the jobs of committed transactions."""
    engine = sa.create_engine(database)
    metadata.create_all(engine)
    engine.dispose()
    arguments = ["--url", url, "--on", database, "--count", str(count), "--seed", str(seed)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.sdk.outbox.kills", *arguments, stdout=subprocess.DEVNULL
    )
    assert await process.wait() == 0
    return await asyncio.to_thread(finish, url, database)


async def jobs_of(api: Any) -> list[str]:
    """The IDs of all jobs of a master."""
    ids: list[str] = []
    cursor = ""
    while True:
        _, answer = await api.call("GET", f"/api/jobs?limit=500{f'&cursor={cursor}' if cursor else ''}")
        ids += [job["id"] for job in answer["jobs"]]
        if not (cursor := answer.get("next_cursor") or ""):
            return ids


async def _by_hand(kind: str, count: int, seed: int) -> bool:
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
            async with master_on(store.url) as (master, api):
                began_s = time.monotonic()
                wanted = await kills(master.server.url, database, count, seed)
                found = await jobs_of(api)
                lost, more = set(wanted) - set(found), set(found) - set(wanted)
                print(
                    f"{kind}: {count} kills in {time.monotonic() - began_s:.0f} s, seed {seed}: {len(wanted)} jobs "
                    f"committed, {len(found)} pushed, lost {len(lost)}, not committed {len(more)}, "
                    f"twice {len(found) - len(set(found))}"
                )
                return sorted(found) == sorted(wanted)
    finally:
        store.stop()
        if server is not None:
            server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--database", choices=["sqlite", "postgresql", "mysql"], default="sqlite")
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--on", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.url:
        kill_children(given.url, given.on, given.count, given.seed)
    elif not asyncio.run(_by_hand(given.database, given.count, given.seed)):
        sys.exit(1)


if __name__ == "__main__":
    main()
