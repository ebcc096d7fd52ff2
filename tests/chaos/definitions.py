"""`python -m tests.chaos.definitions`: the leader is killed again and again while definitions of every form are due,
and the store's clock is set forward and back.

At the end each due instant must have exactly one run record, and at most one job. The instants are those of
`instants.py`, which uses none of the product's code. Prints one JSON line of figures, and exits with 1 if a promise is
broken.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import httpx
import redis

from tests.chaos.instants import SETTLED_S, Definition, Verdict, definitions, judge
from tests.chaos.plan import Planned
from tests.chaos.store import ChaosStore, powers
from tests.support.server import started
from tests.support.waiting import wait_until
from tests.system.test_masters import DEFAULTS, Masters, masters_on

# Seconds by which the clock is set, sometimes beyond `skip_late_after_s`.
STEPS_S: Final = (0.0, 0.0, 15.0, 45.0, 90.0, 400.0, -10.0, -25.0, -120.0)
LEADS_WITHIN_S: Final = 60.0
MAX_READINGS: Final = 10


class Rig:
    """Two masters on a store with a settable clock, and the definitions."""

    def __init__(self, store: ChaosStore, masters: Masters, seed: int) -> None:
        self._store = store
        self._masters = masters
        self._rng = random.Random(seed)
        self._made: list[Definition] = []
        self._has_clock = powers().clock
        self._latest_s = 0.0
        self.kills = 0
        self.steps = 0

    def now(self) -> datetime:
        with closing(redis.Redis.from_url(self._store.url)) as client:
            reply: Any = client.time()
        return datetime.fromtimestamp(reply[0] + reply[1] / 1e6, UTC)

    async def call(self, method: str, path: str, value: Any = None) -> Any:
        """Ask any master that answers."""

        async def answered() -> Any:
            for api in self._masters.apis.values():
                try:
                    status, answer = await api.call(method, path, value)
                except Exception:  # it was just killed, or is starting
                    continue
                if status in (200, 201):
                    return answer
            return None

        return await wait_until(answered, timeout_s=60, what=f"{method} {path} is answered")

    async def define(self, count: int) -> None:
        self._made = definitions(count, self.now(), self._rng)
        for one in self._made:
            one.before = self.now()
            await self.call("PUT", f"/api/definitions/{one.name}", one.document())
            one.after = self.now()

    async def kill_leader(self) -> None:
        """Set the clock, and kill the leader after a short random delay."""
        step_s = self._rng.choice(STEPS_S) if self._has_clock else 0.0
        if step_s:
            self._store.step_clock(step_s)
            self.steps += 1
        self._latest_s = max(self._latest_s, self._store.offset_s)
        await asyncio.sleep(self._rng.uniform(0.0, 1.5))

        name = await wait_until(self._leader, timeout_s=LEADS_WITHIN_S, what="a master leads")
        self._masters[name].kill()
        self.kills += 1
        await asyncio.to_thread(self._masters[name].start)

    async def _leader(self) -> str | None:
        """Return the leader. For a while, the list shows a killed leader at its successor's address."""
        for name, api in self._masters.apis.items():
            try:
                status, answer = await api.call("GET", "/api/masters")
                own_id = await self._masters.id_of(name)
            except httpx.TransportError:  # it was just killed, or is starting
                continue
            if status == 200 and any(
                (one["id"], one["role"]) == (own_id, "leader") for one in answer["masters"]
            ):
                return name
        return None

    async def judge(self) -> Verdict:
        """Let the clock pass the latest time it ever showed by a minute, and compare."""
        if self._has_clock:
            self._store.step_clock(self._latest_s - self._store.offset_s + 60.0)
        # All instants are settled once the leader's whole lifetime has passed since the step.
        await asyncio.sleep(2 * SETTLED_S)
        for _ in range(MAX_READINGS):
            jobs = await self._jobs()
            verdict = Verdict()
            until = self.now()
            for one in self._made:
                runs = await self._runs(one)
                judge(one, runs, until, verdict, latest=self.now())
            # An instant that fired during the reading has a job, but its record may be missing from the reading.
            if await self._jobs() == jobs:
                break
        if jobs != verdict.fired:
            verdict.breaches.append(f"{jobs} jobs for {verdict.fired} instants that fired")
        return verdict

    async def _jobs(self) -> int:
        return sum((await self.call("GET", "/api/jobs?name=due&limit=1"))["counts"].values())

    async def _runs(self, one: Definition) -> list[dict[str, Any]]:
        runs: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            more = f"&cursor={cursor}" if cursor else ""
            page = await self.call("GET", f"/api/definitions/{one.name}/runs?limit=200{more}")
            runs += page["runs"]
            if (cursor := page["next_cursor"]) is None:
                return runs


async def prove(*, kills: int, count: int, seed: int, directory: Path) -> dict[str, Any]:
    """Return the figures, with `holds` and `broken`."""
    store = ChaosStore([Planned(0.0, 0.0, "clock step", "store")] if powers().clock else [])
    # The clock advances by hours, and jobs that `replace` canceled must still be there at the end to be counted.
    kept = {"definition_runs_max": 10_000, "retention_succeeded_s": 30 * 86_400}
    settings = {**DEFAULTS, "leader_ttl_s": 2.0, **kept}
    with started(store):
        async with masters_on(store, directory, "a", "b", settings=settings) as masters:
            rig = Rig(store, masters, seed)
            await rig.define(count)
            while rig.kills < kills:
                await rig.kill_leader()
                if rig.kills % 50 == 0:
                    print(f"{rig.kills} of {kills} kills", file=sys.stderr, flush=True)
            verdict = await rig.judge()
    return {
        "proof": "definitions",
        "seed": seed,
        "holds": not verdict.breaches,
        "leaders_killed": rig.kills,
        "clock_steps": rig.steps,
        "definitions": count,
        "instants": verdict.instants,
        "outcomes": dict(verdict.outcomes),
        "broken": verdict.breaches[:20],
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.definitions", description=__doc__)
    parser.add_argument("--times", type=int, default=1_000, help="kills of the leader")
    parser.add_argument("--definitions", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="jqmaster-definitions-"))
    figures = asyncio.run(
        prove(kills=given.times, count=given.definitions, seed=given.seed, directory=directory)
    )
    print(json.dumps(figures), flush=True)
    return 0 if figures["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
