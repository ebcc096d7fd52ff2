"""One chaos run from start to verdict: load, faults, healing, the last job's end, reading the store, checking the
history."""

import asyncio
import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp

from jqmaster.errors import JqmasterError
from jqmaster.store import codec
from jqmaster.store.health import fsck
from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from tests.chaos import odd_values
from tests.chaos.backfill_load import BACKFILLED, Backfiller, backfill_document
from tests.chaos.checker import Report, check
from tests.chaos.event_load import event_documents, time_definitions
from tests.chaos.forked_pusher import read_calls
from tests.chaos.history import DefinitionRuns, EndedAttempt, EndState, History, Silence, Terms
from tests.chaos.hostile_load import HOSTILE, HostileTenant, Probe
from tests.chaos.instants import Definition
from tests.chaos.load import Mix, Pushers
from tests.chaos.outside_load import OutsideSystem
from tests.chaos.plan import Planned, Scale
from tests.chaos.rig import STORE, Rig
from tests.chaos.spend_load import WIDEST, LimitEditor
from tests.chaos.webhook_load import hooks

MAIN = Keys("jq")
NARROW = 3
# At most this many jobs named `narrow` run at a time.
NARROW_RULE = {"matcher": {"field": "name", "op": "eq", "value": "narrow"}, "concurrency": NARROW}
# The name prefix of the masters' own jobs.
RESERVED = "jq."
CALL_WITHIN_S = 30.0
PAGE = 500


@dataclass(frozen=True, slots=True)
class Order:
    """The parts and length of a run. All jobs must be over within `drain_s` of the last fault. `without`: see
    chaos_worker."""

    seed: int
    duration_s: float
    plan: list[Planned]
    scale: Scale = field(default_factory=Scale)
    mix: Mix = field(default_factory=Mix)
    max_losses: int = 3
    drain_s: float = 90.0
    without: str = ""


async def run(order: Order, directory: Path) -> tuple[History, Report]:
    """The history, saved in `directory` with all logs, and the checker's findings."""
    scale = order.scale
    terms = Terms(
        lease_s=scale.lease_s,
        max_losses=order.max_losses,
        masters=scale.masters,
        limits={"narrow": NARROW},
        # A lost lease is noticed after its end and the reaper's grace.
        recovery_s=max(scale.lease_s, scale.leader_ttl_s) + scale.grace_s + 5.0,
    )
    history = History(terms=terms, seed=order.seed)
    async with (
        Rig.running(
            directory, scale, order.plan, seed=order.seed, max_losses=order.max_losses, without=order.without
        ) as rig,
        contextlib.AsyncExitStack() as stack,
    ):
        await _put(rig, "constraints/narrow", NARROW_RULE)
        for name, document in event_documents().items():
            await _put(rig, f"definitions/{name}", document)
        await _put(rig, f"definitions/{BACKFILLED}", backfill_document())
        made = await _define(rig, order.seed)
        store_id = await rig.store_id()
        receiver = await stack.enter_async_context(hooks(order.seed))
        pushers = Pushers(rig.master_urls, order.mix, order.seed, store_id=store_id, notify_url=receiver.url)
        outside = OutsideSystem(rig.journals, rig.master_urls, order.seed, store_id=store_id)
        answering = asyncio.create_task(outside.run())
        probe = Probe({name: master.url for name, master in rig.masters.items()})
        hostile = HostileTenant(rig.master_urls, order.seed)
        backfiller = Backfiller(rig.master_urls, order.seed, await _now(rig))
        editor = LimitEditor([master.url for master in rig.masters.values()], order.seed)
        assert await editor.put(*WIDEST)
        besides = [asyncio.create_task(one.run()) for one in (probe, hostile, backfiller, editor)]
        history.began_s = time.monotonic()
        async with rig.forked_pusher(order.duration_s) as forked_calls, asyncio.TaskGroup() as group:
            group.create_task(rig.suffer(order.plan, history.began_s))
            group.create_task(pushers.push_for(order.duration_s))
        history.load_ended_s = time.monotonic()
        for beside in besides:
            beside.cancel()
        await asyncio.gather(*besides, return_exceptions=True)
        probe.close()
        await editor.finish()
        history.edits = editor.edits
        history.silences = [Silence(*silence) for silence in probe.silences]
        history.answers = hostile.statuses | {f"backfill {k}": n for k, n in backfiller.statuses.items()}
        pushers.take_over(read_calls(forked_calls))
        await pushers.settle(30.0)
        await until_over(rig.client, order.drain_s)
        for one in made:
            await _call(rig, "POST", f"definitions/{one.name}/pause", {})
        if await until_over(rig.client, order.drain_s):
            history.drained_s = time.monotonic()
        await pushers.probe_keys(30.0)
        await until_over(rig.client, order.drain_s)
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)
        history.definitions = await _runs(rig, made)
        reader = rig.readers[STORE]
        jobs = await end_state(reader)
        history.jobs = {i: job for i, job in jobs.items() if not job.name.startswith((RESERVED, HOSTILE))}
        history.own_jobs = {i: job for i, job in jobs.items() if job.name.startswith(RESERVED)}
        history.deliveries = receiver.deliveries()
        history.fsck = [f"{f.rule} {f.key} {f.detail}" async for f in fsck.check(reader, MAIN)]
        history.slots = await slots(reader)
        history.calls = pushers.calls + outside.calls
        history.faults, history.epochs = rig.faults, rig.epochs
        history.stuck = rig.stuck
        journals = rig.journals()
    for journal in journals:
        history.take_lines(journal)
    history.save(directory / "history.jsonl")
    report = check(history)
    keep(report, directory)
    return history, report


def keep(report: Report, directory: Path) -> None:
    """Write the findings of a checker."""
    (directory / "figures.json").write_text(json.dumps(report.figures, indent=1) + "\n")
    (directory / "figures.md").write_text(markdown(report.figures))
    (directory / "violations.txt").write_text("".join(f"{v}\n" for v in report.violations))


async def _put(rig: Rig, path: str, document: Mapping[str, Any]) -> None:
    await _call(rig, "PUT", path, document)


async def _call(rig: Rig, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
    """Ask each master in turn, without links, until one does it."""
    end_s = time.monotonic() + CALL_WITHIN_S
    said = ""
    async with aiohttp.ClientSession(trust_env=False) as session:
        while time.monotonic() < end_s:
            for master in rig.masters.values():
                with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
                    async with session.request(method, f"{master.url}/api/{path}", json=body) as response:
                        if response.status < 300:
                            return await response.json()
                        said = await response.text()
            await asyncio.sleep(0.2)
    raise AssertionError(f"{method} {path}: {said}")


async def _define(rig: Rig, seed: int) -> list[Definition]:
    """Create the clock definitions."""
    made = time_definitions(await _now(rig), seed)
    for one in made:
        one.before = await _now(rig)
        await _put(rig, f"definitions/{one.name}", one.document())
        one.after = await _now(rig)
    return made


async def _now(rig: Rig) -> datetime:
    """Return the store's time."""
    now_s, micros = await rig.client.command("TIME")
    return datetime.fromtimestamp(int(now_s) + int(micros) / 1e6, UTC)


async def _runs(rig: Rig, made: Sequence[Definition]) -> list[DefinitionRuns]:
    """Return run records of the clock definitions."""
    found, until = [], await _now(rig)
    latest = until + timedelta(seconds=rig.store.ahead_s)
    for one in made:
        runs: list[Any] = []
        cursor: str | None = ""
        while cursor is not None:
            page = await _call(
                rig, "GET", f"definitions/{one.name}/runs?limit=200" + (f"&cursor={cursor}" if cursor else "")
            )
            runs += page["runs"]
            cursor = page["next_cursor"]
        found.append(DefinitionRuns.of(one, until, latest, runs))
    return found


async def until_over(client: StoreClient, within_s: float, keys: Keys = MAIN) -> bool:
    """Wait until all jobs are over, no event is gathered, all ends are reported, and no instant is due. Return False on
    timeout; the checker then reports the rest."""
    waiting = (
        keys.scheduled, keys.retrying, keys.running, keys.awaiting_callback, keys.follow_ups, keys.event_groups,
    )  # fmt: skip
    end_s = time.monotonic() + within_s
    while time.monotonic() < end_s:
        with contextlib.suppress(JqmasterError):
            *sets, ready, due, now = await client.pipeline(
                [
                    *[("ZCARD", key) for key in waiting],
                    ("HVALS", keys.ready_counts),
                    ("ZRANGE", keys.definitions_due, 0, 0, "WITHSCORES"),
                    ("TIME",),
                ]
            )
            is_due = bool(due) and float(due[1]) < int(now[0]) * 1000.0
            if not any(sets) and not is_due and not any(int(count) for count in ready):
                return True
        await asyncio.sleep(0.1)
    return False


async def end_state(client: StoreClient, keys: Keys = MAIN) -> dict[str, EndState]:
    """Return every job in the store."""
    found = {}
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


async def slots(client: StoreClient, keys: Keys = MAIN) -> list[str]:
    """Return the slots that workers still hold."""
    return [key for page in await _pages(client, keys.slots_prefix) for key in page]


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
    """Return a text for people with the numbers of figures.json."""
    rows = _rows(figures)
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def markdown(figures: dict[str, Any]) -> str:
    """Return the same as Markdown for docs/reliability.md."""
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
