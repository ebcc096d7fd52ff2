"""`python -m tests.chaos.definitions`: the leader is killed again and again while definitions of every form are due,
and the store's clock is set forward and back.

At the end each due instant must have exactly one run record, and at most one job. The instants are computed here,
minute by minute, by none of the product's code. Prints one JSON line with its figures, and ends with 1 when a promise
is broken.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import redis

from tests.chaos.plan import Planned
from tests.chaos.store import ChaosStore, powers
from tests.support.server import started
from tests.support.waiting import wait_until
from tests.system.test_masters import DEFAULTS, Masters, masters_on

ZONES: Final = (
    "UTC",
    "Asia/Tokyo",
    "Europe/Berlin",
    "America/St_Johns",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
)
OVERLAPS: Final = ("allow", "forbid", "replace", "queue")
DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MINUTE: Final = timedelta(minutes=1)
JITTER_S: Final = 40
# Seconds by which the clock is set; beyond `skip_late_after_s` now and then.
STEPS_S: Final = (0.0, 0.0, 15.0, 45.0, 90.0, 400.0, -10.0, -25.0, -120.0)
LEADS_WITHIN_S: Final = 60.0
# An instant so close to the end may have no record yet.
SETTLED_S: Final = 8.0


@dataclass
class Definition:
    """One definition, and when it was made by the store's clock: between `before` and `after`."""

    name: str
    overlap: str
    schedule: dict[str, Any]
    zone: str
    jitter_s: int = 0
    before: datetime = datetime.min
    after: datetime = datetime.min

    def document(self) -> dict[str, Any]:
        return {
            "job": {"name": "due", "argument": self.name},
            "schedule": self.schedule,
            "time_zone": self.zone,
            "overlap": self.overlap,
            "jitter_s": self.jitter_s,
            "catch_up": "all",
        }


@dataclass
class Verdict:
    """The figures of a run, and what was broken."""

    instants: int = 0
    fired: int = 0
    broken: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)


# --- the instants


def instants(schedule: dict[str, Any], zone: str, after: datetime, until: datetime) -> Iterator[datetime]:
    """Yield the instants of a schedule after `after`, up to and including `until`, both in UTC."""
    minute = after.replace(second=0, microsecond=0)
    if minute <= after:
        minute += MINUTE
    while minute <= until:
        if _is_due(schedule, ZoneInfo(zone), minute):
            yield minute
        minute += MINUTE


def _is_due(schedule: dict[str, Any], zone: ZoneInfo, minute: datetime) -> bool:
    if (every := schedule.get("every_minutes")) is not None:
        return int(minute.timestamp()) // 60 % int(every) == int(schedule.get("offset", 0))
    local = minute.astimezone(zone)
    if local.fold:  # the wall clock shows this time for the second time
        return False
    wall = local.replace(tzinfo=None)
    earlier = (minute - MINUTE).astimezone(zone).replace(tzinfo=None)
    # The times that the clocks skipped are due now; without a change there is this one alone.
    skipped = int((wall - earlier) / MINUTE)
    return any(_matches(schedule, wall - number * MINUTE) for number in range(max(1, skipped)))


def _matches(schedule: dict[str, Any], wall: datetime) -> bool:
    clock = f"{wall.hour:02}:{wall.minute:02}"
    if "hourly_at" in schedule:
        return wall.minute == schedule["hourly_at"]
    if "daily_at" in schedule:
        return bool(clock == schedule["daily_at"])
    if "weekly_on" in schedule:
        return clock == schedule["at"] and DAYS[wall.weekday()] in schedule["weekly_on"]
    minutes, hours, days, months, weekdays = schedule["cron"].split()
    on_day, on_weekday = _in(days, wall.day, 1, 31), _in(weekdays, wall.isoweekday() % 7, 0, 6)
    # As cron has it: two restricted fields for days are alternatives.
    is_day = on_day and on_weekday if "*" in (days[0], weekdays[0]) else on_day or on_weekday
    return (
        _in(minutes, wall.minute, 0, 59)
        and _in(hours, wall.hour, 0, 23)
        and _in(months, wall.month, 1, 12)
        and is_day
    )


def _in(text: str, value: int, least: int, most: int) -> bool:
    for part in text.split(","):
        span, _, step = part.partition("/")
        low, _, high = span.partition("-")
        first = least if low == "*" else int(low)
        last = most if low == "*" or (step and not high) else int(high or low)
        if first <= value <= last and (value - first) % int(step or 1) == 0:
            return True
    return False


# --- the definitions


def definitions(count: int, now: datetime, rng: random.Random) -> list[Definition]:
    """Return definitions of every form. Those of hours, days and weeks are due within the next hour."""
    made = []
    for number in range(count):
        zone = ZONES[number % len(ZONES)]
        soon = (now + timedelta(minutes=rng.randrange(1, 60))).astimezone(ZoneInfo(zone))
        clock = f"{soon.hour:02}:{soon.minute:02}"
        forms: list[dict[str, Any]] = [
            {"every_minutes": 1},
            {"every_minutes": 3, "offset": rng.randrange(3)},
            {"every_minutes": 7},
            {"hourly_at": soon.minute},
            {"daily_at": clock},
            {"weekly_on": [DAYS[soon.weekday()], DAYS[(soon.weekday() + 3) % 7]], "at": clock},
            {"cron": "*/2 * * * *"},
            {"cron": "1-59/4,30 * * * *"},
            {"cron": f"{soon.minute} {soon.hour} * * *"},
            {"cron": f"*/5 * {soon.day} * {(soon.isoweekday() + 2) % 7}"},
            {"cron": f"{rng.randrange(60)},{soon.minute} */1 * {soon.month} *"},
        ]
        made.append(
            Definition(
                f"d{number}", OVERLAPS[number // 2 % 4], forms[number % len(forms)], zone,
                JITTER_S if number % 5 == 4 else 0,
            )
        )  # fmt: skip
    return made


# --- the check


def judge(definition: Definition, runs: Sequence[dict[str, Any]], until: datetime, verdict: Verdict) -> None:
    """Compare the run records of one definition with its instants."""

    def breach(text: str, found: Iterable[datetime]) -> None:
        shown = ", ".join(sorted(one.isoformat() for one in found)[:5])
        if shown:
            verdict.broken.append(f"{definition.name} {definition.schedule}: {text}: {shown}")

    dues = [datetime.fromisoformat(run["due_at"]) for run in runs]
    shifts = {due - due.replace(second=0, microsecond=0) for due in dues}
    if len(shifts) > 1 or any(shift.total_seconds() > definition.jitter_s for shift in shifts):
        verdict.broken.append(f"{definition.name}: its instants are not delayed alike: {sorted(shifts)}")
        return
    shift = next(iter(shifts), timedelta())
    due = Counter(one - shift for one in dues)
    breach("more than one record", (one for one, times in due.items() if times > 1))
    possible = set(
        instants(definition.schedule, definition.zone, definition.before - timedelta(seconds=JITTER_S), until)
    )
    breach("a record of no instant", set(due) - possible)
    settled = until - timedelta(seconds=SETTLED_S + definition.jitter_s)
    wanted = set(instants(definition.schedule, definition.zone, definition.after, settled))
    missing = wanted - set(due)
    if definition.overlap == "queue" and wanted:
        missing.discard(max(wanted))  # it may wait for the end of the job before it
    breach("no record", missing)
    jobs = [run["job_id"] for run in runs if run["outcome"] == "fired"]
    if len(set(jobs)) != len(jobs) or None in jobs:
        verdict.broken.append(f"{definition.name}: a job of more than one instant, or of none")
    verdict.instants += len(wanted)
    verdict.fired += len(jobs)
    verdict.outcomes.update(f"{run['outcome']} {run['reason'] or ''}".strip() for run in runs)


# --- the run


class Rig:
    """Two masters on a store whose clock can be set, and the definitions."""

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
        """Ask whichever master answers."""

        async def answered() -> Any:
            for api in self._masters.apis.values():
                try:
                    status, answer = await api.call(method, path, value)
                except Exception:  # it was just killed, or starts
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
        """Set the clock, and kill the leader a random moment later."""
        step_s = self._rng.choice(STEPS_S) if self._has_clock else 0.0
        if step_s:
            self._store.step_clock(step_s)
            self.steps += 1
        self._latest_s = max(self._latest_s, self._store.offset_s)
        await asyncio.sleep(self._rng.uniform(0.0, 1.5))

        async def leader() -> str | None:
            for name in self._masters.processes:
                roles = await self._masters.seen_by(name)
                if found := next((one for one, role in roles.items() if role == "leader"), None):
                    return found
            return None

        name = await wait_until(leader, timeout_s=LEADS_WITHIN_S, what="a master leads")
        self._masters[name].kill()
        self.kills += 1
        await asyncio.to_thread(self._masters[name].start)

    async def judge(self) -> Verdict:
        """Let the clock reach the latest time that it ever showed, and a minute more, and compare."""
        if self._has_clock:
            self._store.step_clock(self._latest_s - self._store.offset_s + 60.0)
        verdict = Verdict()
        # All are settled when a whole life of the leader has passed since the step.
        await asyncio.sleep(2 * SETTLED_S)
        until = self.now()
        for one in self._made:
            judge(one, await self._runs(one), until, verdict)
        counts = (await self.call("GET", "/api/jobs?name=due&limit=1"))["counts"]
        if (jobs := sum(counts.values())) != verdict.fired:
            verdict.broken.append(f"{jobs} jobs for {verdict.fired} instants that fired")
        return verdict

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
    # The clock goes on by hours: what `replace` canceled has to be there at the end to be counted.
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
        "holds": not verdict.broken,
        "leaders_killed": rig.kills,
        "clock_steps": rig.steps,
        "definitions": count,
        "instants": verdict.instants,
        "outcomes": dict(verdict.outcomes),
        "broken": verdict.broken[:20],
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
