"""`python -m tests.chaos.many`: batches, chains and flows by the hundred, while masters and workers are killed.

At the end none may be stuck, each callback must exist once, each batch's counts must match its members, and each job
must end as planned (`many_check.py`, which uses none of the product's code). Prints one JSON line with its figures, and
ends with 1 when a promise is broken.
"""

import argparse
import asyncio
import contextlib
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.chaos.many_check import (
    History,
    Kind,
    Line,
    PlannedBatch,
    PlannedJob,
    SeenBatch,
    SeenJob,
    check,
)
from tests.support.processes import Process, running
from tests.support.server import StoreServer, started
from tests.support.waiting import wait_until
from tests.system.test_masters import DEFAULTS, Masters, masters_on
from worker_sdk import Pusher
from worker_sdk.masters.masters import MasterUnreachableError
from worker_sdk.pusher.ids import new_job_id

# Short times, so that interrupted work resumes soon.
SETTINGS: Final = {
    **DEFAULTS,
    "lease_ms": 4000,
    "offer_ms": 1500,
    "heartbeat_interval_s": 0.5,
    "worker_stale_s": 3.0,
    "leader_ttl_s": 2.0,
    # Kills alone must not end a job: the plan decides which ones fail.
    "max_losses": 100,
}
PULLING: Final = (False, False, True)
STUCK_AFTER_S: Final = 300.0
# A killed master answers again within this time.
UP_WITHIN_S: Final = 60.0
PUSHERS: Final = 4
Wire = dict[str, Any]


class Load:
    """Plans each piece of work and pushes it."""

    def __init__(self, pusher: Pusher, seed: int) -> None:
        self._pusher = pusher
        self._rng = random.Random(seed)
        self.history = History()
        self.pushed: Counter[str] = Counter()

    async def push(self, number: int) -> None:
        """Push one batch, chain or flow, chosen by its number."""
        what = ("batch", "chain", "flow")[number % 3]
        if what == "batch":
            await self._push_batch(parent=None)
        else:
            jobs = self._chain() if what == "chain" else self._flow()
            # Record the plan first: jobs accepted without an answer must also end.
            self.history.jobs += jobs
            await self._pusher.enqueue_many([self._wire(job) for job in jobs], in_one_call=True)
        self.pushed[what] += 1

    def _kind(self) -> Kind:
        return self._rng.choices(("ok", "flaky", "failing"), (0.86, 0.07, 0.07))[0]

    def _job(self, after: tuple[str, ...] = (), *, is_last: bool = False) -> PlannedJob:
        when = "finished" if after and (is_last or self._rng.random() < 0.15) else "succeeded"
        return PlannedJob(new_job_id(), self._kind(), self._rng.randrange(100), after, when)  # type: ignore[arg-type]

    def _chain(self) -> list[PlannedJob]:
        jobs: list[PlannedJob] = []
        for _ in range(self._rng.randint(2, 8)):
            jobs.append(self._job(tuple(job.id for job in jobs[-1:])))
        return jobs

    def _flow(self) -> list[PlannedJob]:
        """Return layers in which each job waits for some jobs of the previous layer, then a final job that tidies up
        whatever their outcomes."""
        jobs: list[PlannedJob] = []
        layer: list[PlannedJob] = []
        for _ in range(self._rng.randint(2, 4)):
            ids = [job.id for job in layer]
            layer = [
                self._job(tuple(self._rng.sample(ids, self._rng.randint(1, len(ids)))) if ids else ())
                for _ in range(self._rng.randint(1, 5))
            ]
            jobs += layer
        return [*jobs, self._job(tuple(job.id for job in jobs), is_last=True)]

    def _wire(self, job: PlannedJob, batch: str | None = None, grows: PlannedJob | None = None) -> Wire:
        argument: Wire = {"kind": job.kind, "value": job.value}
        if grows is not None:
            argument["grows"] = {
                "argument": {"kind": grows.kind, "value": grows.value},
                "options": {"id": grows.id, **self._options(grows)},
            }
        wire: Wire = {"name": "many.step", "id": job.id, "argument": argument, **self._options(job)}
        if job.after:
            wire["after"] = {"jobs": list(job.after), "when": job.when}
        if batch is not None:
            wire["batch"] = batch
        return wire

    def _options(self, job: PlannedJob) -> Wire:
        return {
            "rerun_lost": True,
            "keep_result": True,
            "max_retry": 0 if job.kind == "failing" else 50,
            "retry": {"base_s": 0.2, "max_s": 1.0},
        }

    async def _push_batch(self, parent: str | None) -> None:
        batch_id = new_job_id()
        jobs = [self._job() for _ in range(self._rng.randint(0 if parent is None else 1, 8))]
        # A failing job would add no job or several.
        growing = {job.id: self._job() for job in jobs if job.kind == "ok" and self._rng.random() < 0.1}
        planned = PlannedBatch(batch_id, (*jobs, *growing.values()), parent)
        self.history.batches.append(planned)
        await self._pusher.create_batch(
            {
                "id": batch_id,
                **({} if parent is None else {"batch": parent}),
                **{
                    when: self._callback(when, batch_id)
                    for when in ("on_success", "on_complete", "on_failure")
                },
            }
        )
        wires = [self._wire(job, batch_id, growing.get(job.id)) for job in jobs]
        # Push in two parts: members of the first end while the batch is still open.
        middle = len(wires) // 2
        for piece in (wires[:middle], wires[middle:]):
            if piece:
                await self._pusher.enqueue_many(piece)
        if parent is None and self._rng.random() < 0.2:
            await self._push_batch(batch_id)
        await self._pusher.seal_batch(batch_id)

    def _callback(self, when: str, batch_id: str) -> Wire:
        return {
            "name": f"many.{when}", "argument": batch_id, "tags": [batch_id], "rerun_lost": True, "max_retry": 50,
            "retry": {"base_s": 0.2, "max_s": 1.0},
        }  # fmt: skip


class Rig:
    """Two masters, some workers, and the killer."""

    def __init__(self, masters: Masters, directory: Path, seed: int) -> None:
        self._masters = masters
        self._rng = random.Random(seed + 1)
        self._lines = directory / "lines"
        urls = " ".join(process.url for process in masters.processes.values())
        self.workers = [
            Process(
                ["-m", "tests.chaos.many_worker"],
                directory / f"worker-{number}.log",
                MASTERS=urls,
                LINES=str(self._lines),
                PULL=str(int(pull)),
            )
            for number, pull in enumerate(PULLING)
        ]
        self.kills: Counter[str] = Counter()

    async def kill_one(self) -> None:
        """Kill the leader, the other master or a worker, and restart it."""
        what = self._rng.choices(("leader", "master", "worker"), (0.4, 0.15, 0.45))[0]
        if what == "worker":
            process: Process = self._rng.choice(self.workers)
        else:
            names = list(self._masters.processes)
            leader = None
            for name in names:
                roles = await self._masters.seen_by(name)
                leader = next((one for one, role in roles.items() if role == "leader"), leader)
            others = [name for name in names if name != leader]
            process = self._masters[leader if what == "leader" and leader else self._rng.choice(others)]
        process.kill()
        self.kills[what] += 1
        # Do not use `MasterProcess.start`, which waits until ready: the next kill may come before that.
        await asyncio.to_thread(Process.start, process)

    def lines(self) -> list[Line]:
        found = []
        for text in self._lines.read_text().splitlines() if self._lines.exists() else ():
            what, job_id, at_s = text.split()
            found.append((float(at_s), Line(what, job_id)))  # type: ignore[arg-type]
        # Sort by time: lines of different processes may reach the file in another order.
        return [line for _, line in sorted(found, key=lambda pair: pair[0])]


class Reader:
    """Reads the outcome of everything at the end."""

    def __init__(self, pusher: Pusher) -> None:
        self._pusher = pusher
        self._room = asyncio.Semaphore(8)

    async def get(self, path: str, of: str = "") -> Any:
        async with self._room:
            if of:
                return (await self._pusher._call("GET", path, of=of)).body
            # Lists and job results do not name a job at their top level.
            return await self._body_of(path)

    async def _body_of(self, path: str) -> Any:
        # The last killed masters may still be starting.
        end_s = time.monotonic() + UP_WITHIN_S
        while True:
            try:
                return (await self._pusher._client.call("GET", path)).body
            except MasterUnreachableError:
                if time.monotonic() > end_s:
                    raise
                await asyncio.sleep(0.2)

    async def is_over(self) -> bool:
        counts = (await self.get("/api/jobs?limit=1"))["counts"]
        waiting = sum(
            counts.get(state, 0) for state in ("scheduled", "ready", "running", "retrying", "awaiting_jobs")
        )
        if waiting:
            return False
        for state in ("open", "sealed"):
            if (await self.get(f"/api/batches?state={state}&limit=1"))["batches"]:
                return False
        return True

    async def pages(self, path: str, field: str) -> list[Any]:
        items: list[Any] = []
        cursor: str | None = None
        while True:
            more = f"&cursor={cursor}" if cursor else ""
            page = await self.get(f"{path}{more}")
            items += page[field]
            if (cursor := page["next_cursor"]) is None:
                return items

    async def fill(self, history: History) -> None:
        await asyncio.gather(*(self._job(history, job_id) for job_id in history.planned()))
        await asyncio.gather(*(self._batch(history, batch.id) for batch in history.batches))
        for when in ("on_success", "on_complete", "on_failure"):
            for job in await self.pages(f"/api/jobs?name=many.{when}&limit=200", "jobs"):
                history.callbacks.append((job["tags"][0], when, job["state"]))

    async def _job(self, history: History, job_id: str) -> None:
        view = await self.get(f"/api/jobs/{job_id}", of=job_id)
        result = None
        if view["state"] == "succeeded":
            result = (await self.get(f"/api/jobs/{job_id}/result"))["result"]
        skipped_by = view.get("skipped_by") or {}
        history.seen_jobs[job_id] = SeenJob(view["state"], result, skipped_by.get("id"))

    async def _batch(self, history: History, batch_id: str) -> None:
        view = await self.get(f"/api/batches/{batch_id}", of=batch_id)
        members = await self.pages(f"/api/batches/{batch_id}/jobs?limit=200", "jobs")
        history.seen_batches[batch_id] = SeenBatch(
            view["state"],
            view["counts"],
            {job["id"]: job["state"] for job in members},
            frozenset(name for name, one in view["callbacks"].items() if one["state"] == "enqueued"),
        )


async def prove(*, count: int, kills: int, seed: int, directory: Path) -> dict[str, Any]:
    """Return the figures, with `holds` and `broken`."""
    begun_s = time.monotonic()
    store = StoreServer()
    with started(store):
        async with masters_on(store, directory, "a", "b", settings=SETTINGS) as masters:
            rig = Rig(masters, directory, seed)
            urls = [process.url for process in masters.processes.values()]
            with running(*rig.workers):
                async with Pusher(urls, max_wait_s=120) as pusher:
                    load, reader = Load(pusher, seed), Reader(pusher)
                    await _push_and_kill(rig, load, count, kills)
                    stuck = ""
                    try:
                        await wait_until(reader.is_over, timeout_s=STUCK_AFTER_S, what="all of it is over")
                    except AssertionError as exc:
                        # The checker names stuck jobs.
                        stuck = str(exc)
                    await reader.fill(load.history)
            load.history.lines = rig.lines()
    broken = check(load.history)
    if stuck and not broken:
        broken = [stuck]
    planned = load.history.planned()
    return {
        "proof": "many",
        "seed": seed,
        "holds": not broken,
        **{f"{what}s" if what != "batch" else "batches": n for what, n in sorted(load.pushed.items())},
        "batches_inside": sum(batch.parent is not None for batch in load.history.batches),
        "jobs": len(planned),
        "callbacks": len(load.history.callbacks),
        "states": dict(Counter(seen.state for seen in load.history.seen_jobs.values())),
        "runs": sum(line.what == "begin" for line in load.history.lines),
        "kills": dict(rig.kills),
        "took_s": round(time.monotonic() - begun_s),
        "broken_count": len(broken),
        "broken": broken[:20],
    }


async def _push_and_kill(rig: Rig, load: Load, count: int, kills: int) -> None:
    """Push all of the work, with a kill after each share of it."""
    numbers: Iterator[int] = iter(range(count))

    async def push_some() -> None:
        for number in numbers:
            await load.push(number)

    pushing = asyncio.gather(*(push_some() for _ in range(PUSHERS)))
    try:
        for kill in range(1, kills + 1):
            goal = count * kill // (kills + 1)
            while sum(load.pushed.values()) < goal and not pushing.done():
                await asyncio.sleep(0.01)
            await rig.kill_one()
            if kill % 10 == 0:
                print(f"{kill} of {kills} kills", file=sys.stderr, flush=True)
        await pushing
    finally:
        pushing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await pushing
    # Some kills come after the last push, with much still under way.
    await rig.kill_one()
    await rig.kill_one()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.many", description=__doc__)
    parser.add_argument("--count", type=int, default=1_000, help="batches, chains and flows, a third each")
    parser.add_argument("--times", type=int, default=60, help="kills of masters and workers")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="jqmaster-many-"))
    print(f"logs in {directory}", file=sys.stderr, flush=True)
    figures = asyncio.run(prove(count=given.count, kills=given.times, seed=given.seed, directory=directory))
    print(json.dumps(figures), flush=True)
    return 0 if figures["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
