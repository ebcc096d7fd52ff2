"""One chaos run from start to verdict: load, faults, healing, the last job over, the store read, the history
checked."""

import asyncio
import contextlib
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jqmaster.errors import JqmasterError
from jqmaster.store import codec
from jqmaster.store.health import fsck
from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from tests.chaos import odd_values
from tests.chaos.checker import Report, check
from tests.chaos.forked_pusher import read_calls
from tests.chaos.history import EndedAttempt, EndState, History, Terms, read_lines
from tests.chaos.load import Mix, Pushers
from tests.chaos.plan import Planned, Scale
from tests.chaos.rig import Rig

NARROW = 3
PAGE = 500


@dataclass(frozen=True, slots=True)
class Order:
    """The parts and the length of a run. `drain_s`: all jobs must be over so long after the last fault. `without`:
    see chaos_worker."""

    seed: int
    duration_s: float
    plan: list[Planned]
    scale: Scale = field(default_factory=Scale)
    mix: Mix = field(default_factory=Mix)
    max_losses: int = 3
    drain_s: float = 90.0
    without: str = ""


async def run(order: Order, directory: Path) -> tuple[History, Report]:
    """The history, saved in `directory` beside all logs, and what the checker says of it."""
    scale = order.scale
    terms = Terms(
        lease_s=scale.lease_s,
        max_losses=order.max_losses,
        masters=scale.masters,
        limits={"narrow": NARROW},
        # A lost lease is seen after its end and the grace of the reaper.
        recovery_s=max(scale.lease_s, scale.leader_ttl_s) + scale.grace_s + 5.0,
    )
    history = History(terms=terms, seed=order.seed)
    async with Rig.running(
        directory, scale, order.plan, seed=order.seed, max_losses=order.max_losses, without=order.without
    ) as rig:
        await _limit(rig)
        pushers = Pushers(rig.master_urls, order.mix, order.seed, store_id=await rig.store_id())
        history.began_s = time.monotonic()
        async with rig.forked_pusher(order.duration_s) as forked_calls, asyncio.TaskGroup() as group:
            group.create_task(rig.suffer(order.plan, history.began_s))
            group.create_task(pushers.push_for(order.duration_s))
        history.load_ended_s = time.monotonic()
        pushers.take_over(read_calls(forked_calls))
        await pushers.settle(30.0)
        await _until_over(rig.client, order.drain_s)
        history.jobs = await end_state(rig.client)
        history.fsck = [f"{f.rule} {f.key} {f.detail}" async for f in fsck.check(rig.client, Keys("jq"))]
        history.slots = await _slots(rig.client)
        history.calls, history.faults, history.epochs = pushers.calls, rig.faults, rig.epochs
        history.stuck = rig.stuck
        journals = rig.journals()
    for journal in journals:
        lines, damage = read_lines(journal)
        history.lines += lines
        history.damage += damage
    history.save(directory / "history.jsonl")
    report = check(history)
    (directory / "figures.json").write_text(json.dumps(report.figures, indent=1) + "\n")
    (directory / "figures.md").write_text(markdown(report.figures))
    (directory / "violations.txt").write_text("".join(f"{v}\n" for v in report.violations))
    return history, report


async def _limit(rig: Rig) -> None:
    """Jobs named `narrow` run NARROW at a time."""
    import aiohttp

    rule = {"matcher": {"field": "name", "op": "eq", "value": "narrow"}, "concurrency": NARROW}
    url = next(iter(rig.masters.values())).url
    async with (
        aiohttp.ClientSession(trust_env=False) as session,
        session.put(f"{url}/api/constraints/narrow", json=rule) as response,
    ):
        assert response.status == 201, await response.text()


async def _until_over(client: StoreClient, within_s: float) -> None:
    """Until no job waits or runs any more, or the time is over: then the checker tells of those."""
    keys = Keys("jq")
    end_s = time.monotonic() + within_s
    while time.monotonic() < end_s:
        with contextlib.suppress(JqmasterError):
            *sets, ready = await client.pipeline(
                [("ZCARD", keys.scheduled), ("ZCARD", keys.retrying), ("ZCARD", keys.running),
                    ("HVALS", keys.ready_counts)]
            )  # fmt: skip
            if not any(sets) and not any(int(count) for count in ready):
                return
        await asyncio.sleep(0.1)


async def end_state(client: StoreClient) -> dict[str, EndState]:
    """Every job that the store has."""
    keys, found = Keys("jq"), {}
    for page in await _pages(client, keys.job_prefix):
        ids = [key.removeprefix(keys.job_prefix) for key in page]
        records = await client.pipeline([("GET", key) for key in page])
        histories = await client.pipeline([("LRANGE", keys.history(job_id), 0, -1) for job_id in ids])
        for job_id, record, entries in zip(ids, records, histories, strict=True):
            if record is not None:
                found[job_id] = _end_state(job_id, record, entries)
    return found


def _end_state(job_id: str, record: bytes, entries: list[bytes]) -> EndState:
    job = codec.decode_job(job_id, record)
    attempts = [codec.decode_attempt(entry) for entry in entries]
    return EndState(
        id=job_id,
        name=job.name,
        state=str(job.state),
        cause=job.cause.name.lower(),
        argument=odd_values.unpacked(job.argument),
        priority=job.priority,
        attempt=job.attempt,
        failures=job.failures,
        losses=job.losses,
        max_retry=job.max_retry,
        token=job.token,
        fence=job.fence,
        attempts=tuple(EndedAttempt(a.attempt, a.outcome or "", a.worker_id) for a in attempts),
    )


async def _slots(client: StoreClient) -> list[str]:
    return [key for page in await _pages(client, Keys("jq").slots_prefix) for key in page]


async def _pages(client: StoreClient, prefix: str) -> list[list[str]]:
    names: set[str] = set()
    cursor = b"0"
    while True:
        cursor, keys = await client.command("SCAN", cursor, "MATCH", f"{prefix}*", "COUNT", PAGE)
        names.update(key.decode() for key in keys)
        if cursor == b"0":
            break
    ordered = sorted(names)
    return [ordered[n : n + PAGE] for n in range(0, len(ordered), PAGE)]


def table(figures: dict[str, Any]) -> str:
    """Return a text for people; the same numbers as figures.json."""
    rows = _rows(figures)
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def markdown(figures: dict[str, Any]) -> str:
    """The same for docs/reliability.md."""
    rows = [f"| {name.replace('_', ' ')} | {value} |" for name, value in _rows(figures)]
    return "\n".join(["| figure | value |", "|---|---|", *rows, ""])


def _rows(figures: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [(name, _text(value)) for name, value in figures.items() if name != "faults"]
    return rows + [
        (f"fault: {name}", f"{f['bitten']} of {f['planned']} bit, {f['bites']} hits")
        for name, f in figures.get("faults", {}).items()
    ]


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {count}" for name, count in value.items()) or "none"
    return str(value)
