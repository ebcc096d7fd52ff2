"""SIGKILL between BEGIN and the acknowledged push, again and again: `python -m tests.sdk.outbox.kills --count 1000`.

Children write transactions with jobs, or relay, until they are killed at a random moment. In the end the jobs that the
master has are those of the committed transactions.
"""

import argparse
import asyncio
import contextlib
import json
import mmap
import os
import random
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.orm import Session

from tests.sdk.outbox.conftest import expire
from worker_sdk import make_job
from worker_sdk.outbox import Relay
from worker_sdk.outbox.relay import SyncOf
from worker_sdk.outbox.sqlalchemy import SqlAlchemyOutbox, outbox_table

metadata = sa.MetaData()
table = outbox_table(metadata)
committed = sa.Table(
    "committed", metadata, sa.Column("id", sa.Integer, primary_key=True), sa.Column("job_ids", sa.Text)
)
# A short lease, so that relays take over what a killed process still holds.
_LEASE_S: Final = 0.05
# A child works for up to so many times the CPU time of its first transaction, which takes longest, but not for longer
# than that. How long a transaction takes depends on the machine, and on who else uses it.
_WORKS_UP_TO: Final = 2.0
_LONGEST_S: Final = 1.0
_RELAYS: Final = 0.2
_ROLLED_BACK: Final = 0.1
# Where a child is. The parent reads it in shared memory after the kill.
_BETWEEN, _IN_TRANSACTION, _COMMITTING, _COMMITTED, _PUSHING, _ACCEPTED = range(6)
_STAGES: Final = (
    "between transactions",
    "between BEGIN and COMMIT",
    "in COMMIT",
    "before the push",
    "in the push",
    "between the push and the removal of the rows",
)


def outbox_of(database: str, url: str) -> SqlAlchemyOutbox:
    return SqlAlchemyOutbox(sa.create_engine(database), table=table, master=url, lease_s=_LEASE_S)


def write_forever(outbox: SqlAlchemyOutbox, rng: random.Random, stage: mmap.mmap) -> None:
    with Session(outbox.engine) as session:
        event.listen(session, "before_commit", lambda _: note(stage, _COMMITTING))
        event.listen(session, "after_commit", lambda _: note(stage, _COMMITTED))
        while True:
            note(stage, _IN_TRANSACTION)
            write_one(outbox, session, rng)
            note(stage, _BETWEEN)


def write_one(outbox: SqlAlchemyOutbox, session: Session, rng: random.Random) -> None:
    """Write one transaction, which may roll back."""
    jobs = [make_job("n", rng.randrange(1_000)) for _ in range(rng.randint(1, 4))]
    with contextlib.suppress(KeyError), outbox.transaction(session):
        ids = json.dumps([job["id"] for job in jobs])
        session.execute(sa.insert(committed).values(job_ids=ids))
        outbox.add(session, *jobs)
        if rng.random() < _ROLLED_BACK:
            raise KeyError


def relay_forever(outbox: SqlAlchemyOutbox, stage: mmap.mmap) -> None:
    relay = Relay(outbox)
    while True:
        relay.run_once()
        note(stage, _BETWEEN)


def note(stage: mmap.mmap, number: int) -> None:
    stage[0] = number


def note_pushes(stage: mmap.mmap) -> None:
    push = SyncOf.push

    def noted(self: SyncOf, jobs: list[dict[str, Any]]) -> None:
        note(stage, _PUSHING)
        push(self, jobs)
        note(stage, _ACCEPTED)

    SyncOf.push = noted  # type: ignore[method-assign]


def kill_children(url: str, database: str, count: int, seed: int) -> Counter[int]:
    """Run in a process without threads: it forks. Return how many children were killed at each stage."""
    rng = random.Random(seed)
    stage = mmap.mmap(-1, 1)
    killed: Counter[int] = Counter()
    # Statements are compiled once: children inherit them, and spend their short lives in transactions.
    outbox = outbox_of(database, url)
    with Session(outbox.engine) as session:
        write_one(outbox, session, rng)
    Relay(outbox).run_once()
    outbox.engine.dispose()
    works_up_to_s = _WORKS_UP_TO * first_transaction_s(outbox, rng.random())
    note_pushes(stage)
    while killed.total() < count:
        begun, beginning = os.pipe()
        note(stage, _BETWEEN)
        is_relay, child_seed = rng.random() < _RELAYS, rng.random()
        child = os.fork()
        if child == 0:
            try:
                outbox.engine.dispose(close=False)
                with outbox.engine.connect():
                    os.write(beginning, b".")
                if is_relay:
                    relay_forever(outbox, stage)
                write_forever(outbox, random.Random(child_seed), stage)
            finally:
                os._exit(1)
        os.close(beginning)
        os.read(begun, 1)
        os.close(begun)
        wait_for_work(child, rng.uniform(0, works_up_to_s))
        # It may be at work or wait for an answer.
        time.sleep(rng.uniform(0, 0.005))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        # A database that is locked for long ends a child before the signal does.
        if os.WIFSIGNALED(status):
            killed[stage[0]] += 1
        else:
            print("a child ended by itself", file=sys.stderr)
    return killed


def first_transaction_s(outbox: SqlAlchemyOutbox, seed: float) -> float:
    """Return the CPU time of the first transaction of a child, the median of five."""
    times: list[float] = []
    for number in range(5):
        took, taking = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                outbox.engine.dispose(close=False)
                with outbox.engine.connect():
                    began_s = time.process_time()
                with Session(outbox.engine) as session:
                    write_one(outbox, session, random.Random(seed + number))
                os.write(taking, struct.pack("d", time.process_time() - began_s))
            finally:
                os._exit(1)
        os.close(taking)
        times += struct.unpack("d", os.read(took, 8))
        os.close(took)
        os.waitpid(child, 0)
    return statistics.median(times)


def wait_for_work(child: int, work_s: float) -> None:
    """Wait until a child has used so much CPU time from now on: on a busy machine time passes without work."""
    clock = (~child << 3) | 2  # Linux: the CPU time of another process
    enough_s, deadline_s = time.clock_gettime(clock) + work_s, time.monotonic() + _LONGEST_S
    while time.monotonic() < deadline_s:
        try:
            left_s = enough_s - time.clock_gettime(clock)
        except OSError:  # it has ended
            return
        if left_s <= 0:
            return
        # One thread works: it uses no more CPU time than passes.
        time.sleep(max(0.0002, left_s))


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


async def kills(
    url: str, database: str, count: int, seed: int, at_once: int = 1
) -> tuple[list[str], Counter[int]]:
    """Kill `at_once` children at a time, which use a master and an empty database, until `count` have been killed.
    Return the IDs of the jobs of committed transactions, and the number of kills at each stage."""
    engine = sa.create_engine(database)
    metadata.create_all(engine)
    engine.dispose()

    async def some(number: int) -> Counter[int]:
        share = count // at_once + (number < count % at_once)
        arguments = ["--url", url, "--on", database, "--count", str(share), "--seed", str(seed + number)]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.sdk.outbox.kills", *arguments, stdout=subprocess.PIPE
        )
        said, _ = await process.communicate()
        assert process.returncode == 0
        return Counter({int(stage): number for stage, number in json.loads(said).items()})

    killed = sum(await asyncio.gather(*map(some, range(at_once))), Counter[int]())
    return await asyncio.to_thread(finish, url, database), killed


async def jobs_of(api: Any) -> list[str]:
    """The IDs of all jobs of a master."""
    ids: list[str] = []
    cursor = ""
    while True:
        _, answer = await api.call("GET", f"/api/jobs?limit=500{f'&cursor={cursor}' if cursor else ''}")
        ids += [job["id"] for job in answer["jobs"]]
        if not (cursor := answer.get("next_cursor") or ""):
            return ids


async def _by_hand(kind: str, count: int, seed: int, at_once: int) -> bool:
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
            # Masters are not what is tried here: on a busy machine, too, this one goes on leading.
            async with master_on(store.url, leader_ttl_s=10.0) as (master, api):
                began_s = time.monotonic()
                wanted, killed = await kills(master.server.url, database, count, seed, at_once)
                found = await jobs_of(api)
                lost, more = set(wanted) - set(found), set(found) - set(wanted)
                print(
                    f"{kind}: {count} kills in {time.monotonic() - began_s:.0f} s, seed {seed}: {len(wanted)} jobs "
                    f"committed, {len(found)} pushed, lost {len(lost)}, not committed {len(more)}, "
                    f"twice {len(found) - len(set(found))}"
                )
                for stage, where in enumerate(_STAGES):
                    print(f"  killed {where}: {killed[stage]}")
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
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--on", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.url:
        print(json.dumps(kill_children(given.url, given.on, given.count, given.seed)))
    elif not asyncio.run(_by_hand(given.database, given.count, given.seed, given.at_once)):
        sys.exit(1)


if __name__ == "__main__":
    main()
