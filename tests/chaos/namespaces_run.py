"""One chaos run with several namespaces, from start to verdict: see tests/chaos/run.py."""

import asyncio
import contextlib
import itertools
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import aiohttp

from jqmaster.store.health import fsck
from tests.chaos.checker import Report
from tests.chaos.history import Call, History, Silence, Terms
from tests.chaos.hostile_load import Probe
from tests.chaos.load import Mix, Pushers
from tests.chaos.namespaces_check import check_installation
from tests.chaos.namespaces_history import InstallationHistory
from tests.chaos.namespaces_rig import InstallationRig, Space
from tests.chaos.run import Order, end_state, keep, slots, until_over

# The workers of these runs have a handler for plain jobs only: claims, leases and ends are at stake.
PLAIN: Final = Mix(
    poison=0.0, narrow=0.0, blocking=0.0, hostile=0.0, events=0.0, outside=0.0, tasks=0.0, spending=0.0, told=0.0,
    unique=0.1,
)  # fmt: skip
SETTLE_S: Final = 30.0
READY_EVERY_S: Final = 0.25
READY_WITHIN_S: Final = 3.0


async def run_installation(order: Order, directory: Path) -> tuple[InstallationHistory, Report]:
    """The history, saved in `directory` with all logs, and the checker's findings. The rate of `order.mix` is that of
    all namespaces together."""
    history = InstallationHistory(seed=order.seed)
    async with InstallationRig.running(
        directory,
        order.scale,
        order.plan,
        seed=order.seed,
        max_losses=order.max_losses,
        without=order.without,
    ) as rig:
        spaces = list(rig.spaces.values())
        history.masters = dict(zip(rig.master_urls, rig.masters, strict=True))
        mix = replace(order.mix, rate_per_s=order.mix.rate_per_s / len(spaces), clients=1)
        pushers = {one.name: await _pushers(rig, one, mix, order.seed + n) for n, one in enumerate(spaces)}
        probe, ready = (
            Probe({name: master.url for name, master in rig.masters.items()}),
            Readiness(rig, order.seed),
        )
        besides = [probe.run(), ready.run(), rig.note_starvation(history.starved)]
        tasks = [asyncio.create_task(one) for one in besides]
        began_s = time.monotonic()
        async with asyncio.TaskGroup() as group:
            group.create_task(rig.suffer(order.plan, began_s))
            for one in pushers.values():
                group.create_task(one.push_for(order.duration_s))
        ended_s = time.monotonic()
        for beside in tasks[:2]:
            beside.cancel()
        await asyncio.gather(*tasks[:2], return_exceptions=True)
        probe.close()
        await asyncio.gather(*(one.settle(SETTLE_S) for one in pushers.values()))
        await asyncio.gather(*(_drain(rig, one, order.drain_s) for one in spaces))
        await asyncio.gather(*(one.probe_keys(SETTLE_S) for one in pushers.values()))
        drained = await asyncio.gather(*(_drain(rig, one, order.drain_s) for one in spaces))
        tasks[2].cancel()
        for space, is_drained in zip(spaces, drained, strict=True):
            own = History(terms=_terms(order), seed=order.seed, began_s=began_s, load_ended_s=ended_s)
            own.drained_s = time.monotonic() if is_drained else 0.0
            own.calls = [*pushers[space.name].calls, *ready.calls.get(space.name, [])]
            await _read(rig, space, own, history)
            history.namespaces[space.name] = own
        history.silences = [Silence(*silence) for silence in probe.silences]
        history.faults, history.places, history.stuck = rig.faults, rig.places, rig.stuck
        history.epochs = {one.name: one.epochs for one in spaces}
    for name, own in history.namespaces.items():
        for journal in rig.journals_of(name):
            own.take_lines(journal)
    history.save(directory)
    report = check_installation(history)
    keep(report, directory)
    return history, report


def _terms(order: Order) -> Terms:
    scale = order.scale
    return Terms(
        lease_s=scale.lease_s,
        max_losses=order.max_losses,
        masters=scale.masters,
        recovery_s=max(scale.lease_s, scale.leader_ttl_s) + scale.grace_s + 5.0,
    )


async def _pushers(rig: InstallationRig, space: Space, mix: Mix, seed: int) -> Pushers:
    urls = [f"{url}{space.path}" for url in rig.master_urls]
    return Pushers(urls, mix, seed, store_id=await rig.store_id_of(space))


async def _drain(rig: InstallationRig, space: Space, within_s: float) -> bool:
    return await until_over(rig.clients[space.store], within_s, space.keys)


async def _read(rig: InstallationRig, space: Space, own: History, history: InstallationHistory) -> None:
    """Read the end state of a namespace. A store whose data have no mark does not serve them."""
    client, copies = rig.readers[space.store], dict[str, list[str]]()
    for store, other in rig.readers.items():
        if await other.command("EXISTS", space.keys.generation):
            for job_id in await end_state(other, space.keys):
                copies.setdefault(job_id, []).append(store)
    history.copies[space.name] = dict(copies)
    jobs = await end_state(client, space.keys)
    own.jobs = {job_id: job for job_id, job in jobs.items() if not job.name.startswith("jq.")}
    own.own_jobs = {job_id: job for job_id, job in jobs.items() if job.name.startswith("jq.")}
    own.fsck = [f"{f.rule} {f.key} {f.detail}" async for f in fsck.check(client, space.keys)]
    own.slots = await slots(client, space.keys)


class Readiness:
    """Asks one master after the other whether it can serve one namespace after the other. `calls` by namespace; those
    of `default` are about the process."""

    def __init__(self, rig: InstallationRig, seed: int) -> None:
        self._urls = rig.master_urls
        self._paths = {one.name: "" if one.name == "default" else one.path for one in rig.spaces.values()}
        self._rng = random.Random(f"{seed}:ready")
        self.calls: dict[str, list[Call]] = {}

    async def run(self) -> None:
        async with aiohttp.ClientSession(trust_env=False) as session, asyncio.TaskGroup() as group:
            for name in itertools.cycle(self._shuffled()):
                # A master that stands still does not hold up the others.
                group.create_task(self._ask(session, name, self._rng.choice(self._urls)))
                await asyncio.sleep(READY_EVERY_S)

    def _shuffled(self) -> Sequence[str]:
        names = list(self._paths)
        self._rng.shuffle(names)
        return names

    async def _ask(self, session: aiohttp.ClientSession, name: str, url: str) -> None:
        invoked_s, status, said = time.monotonic(), 0, dict[str, Any]()
        with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError, ValueError):
            async with session.get(
                f"{url}{self._paths[name]}/readyz",
                headers={"Accept": "application/json"},
                timeout=aiohttp.ClientTimeout(total=READY_WITHIN_S),
            ) as response:
                said, status = await response.json(content_type=None), response.status
        self.calls.setdefault(name, []).append(
            Call(
                "ready",
                "",
                invoked_s,
                time.monotonic(),
                "done" if status == 200 else "refused" if status else "unknown",
                status,
                url=url,
                code=" ".join(said.get("faults", []))[:200],
            )
        )
