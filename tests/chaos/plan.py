"""The faults and their times, fully drawn from a seed before the run begins, so that the seed replays it."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tests.chaos.proxy import Weather


@dataclass(frozen=True, slots=True)
class Scale:
    """The system's size, and its times in seconds."""

    masters: int = 3
    workers: int = 8
    # The last workers, this many of them, are without the SDK and send only what the contract requires. Every second
    # one fetches its jobs instead of having them pushed.
    plain: int = 2
    # The last workers before those, this many of them, fetch their jobs, too.
    pulling: int = 2
    max_jobs: int = 8
    # The time that a worker's jobs have to end after a SIGTERM.
    worker_grace_s: float = 1.0
    lease_s: float = 3.0
    leader_ttl_s: float = 2.0
    heartbeat_s: float = 0.5
    stale_s: float = 2.0
    push_timeout_s: float = 1.0
    store_timeout_s: float = 2.0
    # Mean time between fault starts. At most `at_once` faults hold at a time.
    every_s: float = 2.5
    at_once: int = 3
    # The first is the one of `redis_url`. With several, these many namespaces are spread over them.
    stores: tuple[str, ...] = ("store",)
    namespaces: int = 1

    @property
    def grace_s(self) -> float:
        """The time in which a new leader does not take anything back: see `Grace`."""
        return max(self.lease_s, self.stale_s) + 2.0

    def is_plain(self, number: int) -> bool:
        """Return whether the worker of this number, from 1, is without the SDK."""
        return number > self.workers - self.plain

    def is_pulling(self, number: int) -> bool:
        """Return whether the worker of this number, from 1, fetches its jobs."""
        last_of_sdk = self.workers - self.plain
        if self.is_plain(number):
            return (number - last_of_sdk) % 2 == 0
        return number > last_of_sdk - self.pulling


# Several namespaces on three stores, of which the first holds the registry.
INSTALLATION = Scale(
    workers=5,
    plain=0,
    max_jobs=4,
    # Three masters do the work of sixty, so everything takes longer than in a run with one namespace.
    lease_s=6.0,
    leader_ttl_s=4.0,
    heartbeat_s=1.0,
    stale_s=4.0,
    store_timeout_s=3.0,
    every_s=4.0,
    stores=("store", "store-b", "store-c"),
    namespaces=20,
)
# The values that a user gets.
PRODUCTION = Scale(
    lease_s=15.0, leader_ttl_s=5.0, heartbeat_s=1.0, stale_s=5.0, push_timeout_s=3.0, store_timeout_s=5.0
)


@dataclass(frozen=True, slots=True)
class Powers:
    """The store faults, besides killing and stopping it, that this machine allows; see rig.powers."""

    disk: bool = True
    clock: bool = True


@dataclass(frozen=True, slots=True)
class Planned:
    """A fault at `at_s` from the start of the load, for `for_s`. `target` is as in history.Fault, with `leader` for the
    current leader. `weather` is for link faults."""

    at_s: float
    for_s: float
    kind: str
    target: str
    weather: Weather | None = None
    # The size of a clock step, in seconds.
    step_s: float = 0.0


# (weight, kind, target, shortest and longest duration in seconds)
def _processes(scale: Scale) -> list[tuple[float, str, str, float, float]]:
    ttl_s, lease_s = scale.leader_ttl_s, scale.lease_s
    return [
        (3, "kill", "leader", 0.1, 3.0),
        (3, "term", "leader", 0.1, 2.0),
        (2, "demote", "leader", 0.0, 0.0),
        (1, "kill", "master", 0.1, 4.0),
        # A master of another store answers at this address.
        (2, "stranger", "master", 1.0, 2 * lease_s),
        (3, "stop", "leader", 0.5 * ttl_s, 3 * ttl_s),
        (1, "stop", "master", 0.5 * ttl_s, 2 * ttl_s),
        (4, "kill", "worker", 0.1, 3.0),
        (2, "stop", "worker", 0.1 * lease_s, 0.4 * lease_s),
        (3, "stop", "worker", 1.2 * lease_s, 2.5 * lease_s),
        # A deploy, as often as a crash.
        (4, "term", "worker", 0.1, 2.0),
        (2, "drain", "worker", 1.0, 5.0),
        (2, "detach", "worker", 0.0, 0.0),
        # The worker is cut off, and another process registers at its address.
        (2, "move", "worker", 0.5 * lease_s, 2 * lease_s),
        (2, "kill", "store", 0.1, 2.0),
        (1, "stop", "store", 0.3, 1.0),
        (1, "stop", "store", 1.5, 1.2 * lease_s),
        (2, "memory full", "store", 1.0, 4.0),
        (1, "disk full", "store", 0.5, 2.0),
        # The clock goes back after that time, or never if 0.
        (1, "clock step", "store", 1.0, 5.0),
        (1, "clock step", "store", 0.0, 0.0),
    ]


def _parts_of_installation(scale: Scale) -> list[tuple[float, str, str, float, float]]:
    """Return the rows for several namespaces, each of which is led by some master."""
    ttl_s, lease_s = scale.leader_ttl_s, scale.lease_s
    return [
        (3, "kill", "master", 0.1, 3.0),
        (2, "term", "master", 0.1, 2.0),
        (3, "stop", "master", 0.5 * ttl_s, 3 * ttl_s),
        (2, "kill", "worker", 0.1, 3.0),
        (1, "stop", "worker", 0.1 * lease_s, 0.4 * lease_s),
        (1, "stop", "worker", 1.2 * lease_s, 2.5 * lease_s),
        (4, "kill", "store", 0.1, 2 * lease_s),
        (2, "stop", "store", 0.3, 1.0),
        (4, "stop", "store", 1.5, 2.5 * lease_s),
        (2, "memory full", "store", 1.0, 4.0),
        # All of them end and come back, one after the other.
        (2, "deploy", "masters", 0.0, 0.0),
        (1, "deploy", "workers", 0.0, 0.0),
        (5, "move namespace", "namespace", 0.0, 0.0),
    ]


_LINKS: list[tuple[float, str, Weather, tuple[str, ...], float, float]] = [
    (3, "reset", Weather(), ("worker>masters", "masters>worker", "pushers>masters", "leader>store", "master>store"),
        0.0, 0.0),
    (3, "reset idle", Weather(), ("worker>masters", "masters>worker", "pushers>masters", "leader>store",
        "master>store"), 0.0, 0.0),
    (2, "drop answers", Weather(drop_answers=0.3), ("worker>masters", "masters>worker", "pushers>masters"), 2, 6),
    (1, "drop answers", Weather(drop_answers=0.02), ("leader>store", "master>store"), 2, 5),
    (1, "drop requests", Weather(drop_requests=0.3), ("worker>masters", "masters>worker", "pushers>masters"), 2, 5),
    (1, "cut requests", Weather(cut_requests=0.3), ("worker>masters", "masters>worker", "pushers>masters"), 2, 5),
    (1, "cut answers", Weather(cut_answers=0.3), ("worker>masters", "masters>worker", "pushers>masters"), 2, 5),
    (2, "delay answers", Weather(delay_answers=0.5, delay_s=1.5),
        ("worker>masters", "masters>worker", "pushers>masters"), 2, 6),
    (1, "delay requests", Weather(delay_requests=0.5, delay_s=1.5),
        ("worker>masters", "masters>worker", "pushers>masters"), 2, 6),
    (1, "delay answers", Weather(delay_answers=0.3, delay_s=0.15), ("leader>store", "master>store"), 2, 5),
    (2, "double", Weather(double=0.5), ("worker>masters", "masters>worker", "pushers>masters"), 2, 6),
    (2, "copy later", Weather(copy_later=0.5, delay_s=2.0), ("worker>masters", "masters>worker", "pushers>masters"), 2,
        6),
    (2, "hold answers", Weather(holds_answers=True), ("worker>masters", "masters>worker"), 1, 6),
    (2, "hold requests", Weather(holds_requests=True), ("worker>masters", "masters>worker"), 1, 6),
    (2, "cut off", Weather(holds_requests=True, holds_answers=True),
        ("worker>masters", "leader>store", "master>store"), 1, 6),
]  # fmt: skip
# Nothing passes and neither side is told. Afterwards, the earlier connections stay dead for ever. It lasts six leases.
_SILENT_CUT = (1, "silent cut", Weather(holds_requests=True, holds_answers=True),
    ("worker>masters", "leader>store", "master>store"))  # fmt: skip


# How far the store's clock is stepped. Backward steps are only temporary, because otherwise nothing with a due time
# would end. A job that gets its time while the clock is ahead waits for it afterwards, which bounds the steps that are
# taken back.
FORWARD_S, BACKWARD_S = (2.0, 30.0, 600.0), (-2.0, -30.0, -3600.0)
AHEAD_S = (2.0, 30.0)


def make_plan(seed: int, scale: Scale, duration_s: float, powers: Powers | None = None) -> list[Planned]:
    """Return the faults in starting order. They start after the first second and end before the load does. Faults that
    `powers` do not allow are left out; the rest is unchanged."""
    powers = powers or Powers()
    denied = {kind for kind, has in (("disk full", powers.disk), ("clock step", powers.clock)) if not has}
    return [p for p in _draw(random.Random(seed), scale, duration_s) if p.kind not in denied]


def opening(scale: Scale, duration_s: float) -> list[Planned]:
    """Return a plan for short runs: one of each main kind, spread over the time whatever the seed."""
    weather = {kind: weather for _, kind, weather, _, _, _ in _LINKS}
    wanted: list[tuple[str, str, float]] = [
        ("kill", "worker-1", 0.5),
        ("kill", "leader", 0.5),
        ("double", "masters>worker-2", 2.0),
        ("drop answers", f"worker-{scale.workers - scale.plain}>masters", 2.0),
        ("term", "worker-1", 0.3),
        ("stop", "worker-2", 1.5 * scale.lease_s),
        ("kill", "store", 0.3),
        ("stop", "leader", 1.5 * scale.leader_ttl_s),
        ("reset", "pushers>masters", 0.0),
        ("reset idle", "master-1>store", 0.0),
    ]
    step_s = (duration_s - 1.5 - 1.5 * scale.lease_s) / len(wanted)
    return [
        Planned(1.0 + n * step_s, for_s, kind, target, weather.get(kind))
        for n, (kind, target, for_s) in enumerate(wanted)
    ]


def opening_of_installation(scale: Scale, duration_s: float) -> list[Planned]:
    """Return a plan for short runs with namespaces: one of each main kind, spread over the time whatever the seed."""
    weather = {kind: weather for _, kind, weather, _, _, _ in _LINKS}
    first, second, third = scale.stores
    name = namespace_names(scale.namespaces)[1]
    wanted: list[tuple[str, str, float]] = [
        ("kill", second, 1.5 * scale.lease_s),
        ("move namespace", name, 0.0),
        ("stop", third, 1.5 * scale.lease_s),
        ("kill", "master-1", 0.5),
        ("stop", first, 1.2 * scale.lease_s),
        ("deploy", "workers", 0.0),
        ("cut off", f"master-2>{second}", 1.5 * scale.leader_ttl_s),
        ("memory full", third, 2.0),
        ("deploy", "masters", 0.0),
    ]
    step_s = (duration_s - 3.0) / len(wanted)
    return [
        Planned(1.0 + n * step_s, for_s, kind, target, weather.get(kind))
        for n, (kind, target, for_s) in enumerate(wanted)
    ]


def drill(kind: str, targets: Sequence[str], *, times: int, every_s: float, for_s: float) -> list[Planned]:
    """Return the same fault repeatedly, with recovery time in between, at one target after another."""
    weather = {kind: weather for _, kind, weather, _, _, _ in _LINKS}.get(kind)
    return [Planned(1.0 + n * every_s, for_s, kind, targets[n % len(targets)], weather) for n in range(times)]


def _draw(rng: random.Random, scale: Scale, duration_s: float) -> Iterator[Planned]:
    processes, at_s = _processes(scale), 1.0
    links = [*_LINKS, (*_SILENT_CUT, 6 * scale.lease_s, 6 * scale.lease_s)]
    if scale.namespaces > 1:
        # Only links between masters and stores can be harmed.
        processes = _parts_of_installation(scale)
        links = [
            (weight, kind, weather, ("master>store",), least, most)
            for weight, kind, weather, hits, least, most in links
            if "master>store" in hits
        ]
    busy: dict[str, float] = {}
    while True:
        at_s += rng.expovariate(1 / scale.every_s)
        busy = {target: until_s for target, until_s in busy.items() if until_s > at_s}
        if at_s >= duration_s - 1:
            return
        if len(busy) >= scale.at_once:
            continue
        if rng.random() < 0.5:
            _, kind, hit, least, most = rng.choices(processes, [row[0] for row in processes])[0]
            weather = None
        else:
            _, kind, given, hits, least, most = rng.choices(links, [row[0] for row in links])[0]
            weather, hit = replace(given), rng.choice(hits)
        target = _target(rng, hit, scale)
        for_s = rng.uniform(least, most)
        # Each part has one fault at a time. An absent store is a fault for all.
        if _parts(target) & {part for other in busy for part in _parts(other)} or at_s + for_s > duration_s:
            continue
        busy[target] = at_s + for_s + 0.5
        step_s = 0.0
        if kind == "clock step":
            step_s = rng.choice(AHEAD_S + BACKWARD_S if for_s else FORWARD_S)
        yield Planned(round(at_s, 3), round(for_s, 3), kind, target, weather, step_s)


def _target(rng: random.Random, hit: str, scale: Scale) -> str:
    most = {"worker": scale.workers, "master": scale.masters}

    def one(part: str) -> str:
        if part in most:
            return f"{part}-{rng.randint(1, most[part])}"
        if part == "namespace":
            return namespace_names(scale.namespaces)[rng.randint(1, scale.namespaces - 1)]
        return rng.choice(scale.stores) if part == "store" and len(scale.stores) > 1 else part

    return ">".join(one(part) for part in hit.split(">"))


def namespace_names(count: int) -> list[str]:
    """Return the names of this many namespaces. The first always exists."""
    return ["default", *(f"n{number:02}" for number in range(1, count))]


def _parts(target: str) -> set[str]:
    return {part for part in target.split(">") if part not in ("masters", "pushers")} or {target}
