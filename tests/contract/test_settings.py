"""Runtime settings act as if the master had been started with them, and each has its place."""

import contextlib
import enum
import json
import re
import types
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from jqmaster.app import Master
from jqmaster.app.served_store import ServedStore
from jqmaster.app.shard_faults import ShardFaults
from jqmaster.clock import SystemClock, WakeFlag
from jqmaster.config import RULES, Settings
from jqmaster.domain.namespaces.namespace import Namespace
from jqmaster.service.operations.settings_catalog import CATALOG, GROUPS, LOWERED_ONLY, OVERRIDABLE, RUNTIME
from jqmaster.store.health.store_report import StoreReport
from jqmaster.store.keys import Keys
from jqmaster.store.leadership.leadership import Leadership
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.shard import Shard
from jqmaster.store.operations.settings import StoredSettings
from tests.support.master import QUICK
from tests.support.settings import other_values

PLAIN = (int, float, str, bytes, bool, enum.Enum, Path, type(None))
# Settings that handlers read on each use, without a copy.
READ_AT_USE = {
    "heartbeat_interval_s", "check_arguments", "max_argument_bytes", "max_result_bytes", "max_bulk_jobs",
    "max_body_bytes", "max_nesting",
    "max_argument_nodes", "viewers_see_content", "log_level", "previews_per_minute", "max_definitions",
    "max_event_bytes", "max_namespaces", "continue_questions", "continue_pause_s",
}  # fmt: skip


def test_every_setting_has_its_place() -> None:
    placed = [key for keys in GROUPS.values() for key in keys]
    assert sorted(placed) == sorted(Settings.model_fields)
    assert set(Settings.model_fields) >= RUNTIME
    for info in CATALOG.values():
        assert info.effect
        assert info.label
        if info.is_runtime and info.type in ("integer", "number"):
            assert None not in (info.minimum, info.maximum), info.key
        assert not (info.is_runtime and info.is_secret)
    assert {field for rule in RULES for field in rule.fields} <= RUNTIME
    json.dumps([info.default for info in CATALOG.values()])


def test_names_of_settings_are_words_that_people_know() -> None:
    labels = [info.label for info in CATALOG.values()]
    assert len(set(labels)) == len(labels)
    abbreviation = re.compile(
        r"\b(?:max|min|url|ttl|id|tls|oidc|smtp|hsts|cafile|certfile|keyfile|dir|redis)\b", re.ASCII
    )
    assert [label for label in labels if abbreviation.search(label[0].lower() + label[1:])] == []


def values_of(root: object, *, apart: tuple[object, ...] = ()) -> dict[str, Any]:
    """Return every plain value reachable from `root` through our objects but not through `apart`, by its path."""
    found: dict[str, Any] = {}
    seen = set(map(id, apart))

    def fields(value: object) -> Iterator[tuple[str, object]]:
        if isinstance(value, dict):
            yield from ((repr(key), item) for key, item in value.items() if isinstance(key, PLAIN))
        elif isinstance(value, list | tuple):
            yield from ((str(n), item) for n, item in enumerate(value))
        elif isinstance(value, types.FunctionType):
            for n, cell in enumerate(value.__closure__ or ()):
                try:
                    yield f"closure{n}", cell.cell_contents
                except ValueError:
                    continue
        elif isinstance(value, types.MethodType):
            yield "self", value.__self__
        # The state of a flag is not a value of a setting.
        elif type(value).__module__.startswith("jqmaster") and not isinstance(value, Settings | WakeFlag):
            yield from getattr(value, "__dict__", {}).items()
            for cls in type(value).__mro__:
                for name in getattr(cls, "__slots__", ()):
                    if hasattr(value, name):
                        yield name, getattr(value, name)

    def walk(value: object, way: str) -> None:
        if isinstance(value, PLAIN):
            found[way] = value
            return
        if id(value) in seen:
            return
        seen.add(id(value))
        for name, item in fields(value):
            walk(item, f"{way}.{name}")

    walk(root, "")
    return found


@contextlib.asynccontextmanager
async def master_with(**settings: Any) -> AsyncIterator[Master]:
    """Return a built master with the duties of a leader, without starting it."""
    configured = Settings(**{**QUICK, "redis_url": "redis://127.0.0.1:1", **settings})
    client, reserve = (StoreClient("redis://127.0.0.1:1", connections=2) for _ in range(2))
    fields = StoreReport.__dataclass_fields__
    report = object.__new__(StoreReport)
    known: dict[str, Any] = {
        "durability": "fsync",
        "faults": (),
        "memory_used_bytes": 0,
        "memory_max_bytes": 0,
    }
    for name in fields:
        object.__setattr__(report, name, known.get(name))
    clock = SystemClock()
    store = ServedStore(
        "redis://127.0.0.1:1", client, reserve, events=client, report=report, settings=configured, clock=clock
    )
    master = Master(configured, store, Shard(client, Keys("jq"), mark="mark"), clock)
    vars(master)["duties of this test"] = list(
        master.shard.make_duties(Leadership.of(f"1:{'0' * 16}:{master.id}"))
    )
    try:
        yield master
    finally:
        await client.close()
        await reserve.close()


async def started_with(**settings: Any) -> dict[str, Any]:
    async with master_with(**settings) as master:
        return values_of(master)


async def told(changes: dict[str, Any]) -> dict[str, Any]:
    async with master_with() as master:
        master.live._take(StoredSettings(1, changes))
        return values_of(master)


@pytest.mark.req("D15")
async def test_a_setting_that_changed_leaves_a_master_as_if_it_had_been_started_with_it() -> None:
    default, same = await started_with(), await started_with()
    # Settings that differ between any two masters.
    differs = {way for way in default if default[way] != same.get(way)}
    own = {way for way in default if way.startswith(".live._stored.")} | differs
    for key in sorted(RUNTIME):
        changes = other_values(key, QUICK)
        started, changed = await started_with(**changes), await told(changes)
        wrong = {
            way: (value, changed.get(way))
            for way, value in started.items()
            if way not in own and changed.get(way) != value
        }
        assert not wrong, f"{key} is read once, at the start: {wrong}"
        moved = {way for way in started if way not in own and started[way] != default.get(way)}
        assert moved or key in READ_AT_USE, f"{key}: nobody reads it"


@pytest.mark.req("D15", "D29")
async def test_a_setting_of_a_namespace_reaches_all_its_parts_and_nothing_that_namespaces_share() -> None:
    usual = {key: QUICK.get(key, CATALOG[key].default) for key in LOWERED_ONLY}
    async with master_with(**{key: other_values(key, QUICK)[key] for key in usual}) as master:
        clock, store, shared = SystemClock(), master.store, master.shared
        built = master._build_namespace(
            Namespace("shop", "shop"),
            store,
            Shard(store.client, Keys("shop"), mark="mark"),
            ShardFaults(clock, on_fail=lambda _: None, beneath=store.loops),
        )
        duties = list(built.shard.make_duties(Leadership.of(f"1:{'0' * 16}:{master.id}")))
        live = built.shard._shared.live

        apart = (master, master.live, live, shared, shared.policies)
        parts = [built.shard, duties]
        common = [shared.workers, shared.masters, shared.webhooks, shared.targets, shared.mail, shared.bounds]
        of_parts, of_common = (values_of(root, apart=apart) for root in (parts, common))

        def moved(root: object, before: dict[str, Any]) -> set[str]:
            after = values_of(root, apart=apart)
            return {way for way, value in before.items() if after.get(way) != value}

        for key in sorted(OVERRIDABLE):
            changes = {key: usual[key]} if key in usual else other_values(key, QUICK)
            live._take(StoredSettings(1, changes))
            own = moved(parts, of_parts)
            assert own or key in READ_AT_USE, f"{key}: nobody in the namespace reads it"
            live._take(StoredSettings(2, {}))
            master.live._take(StoredSettings(1, changes))
            others = moved(parts, of_parts) - own
            assert not others, f"{key}: a part of the namespace reads that of the installation: {others}"
            assert not moved(common, of_common), f"{key}: all namespaces share what reads it"
            master.live._take(StoredSettings(2, {}))
