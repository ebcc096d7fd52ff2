"""Checks the kind of the store, and whether the store can give the promised durability. Read-only. Masters use it at
their start and for their health checks, and `doctor` uses it, too.
"""

import re
import statistics
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from redis._parsers.helpers import parse_info
from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from jqmaster.config import Durability, Settings
from jqmaster.errors import StoreUnavailableError, StoreUnfitError
from jqmaster.store.health import rights
from jqmaster.store.health.probe_faults import faults_of
from jqmaster.store.health.store_report import StoreReport
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.refusals import told
from jqmaster.store.link.store_faults import explained

# Listed one by one, because for a pattern the store would search all its settings.
_FSYNC_SETTINGS: Final = ("appendfsync", "no-appendfsync-on-rewrite")
# With these settings, other users of a shared server or of a Cluster can block the queue. They are read once.
_SHARED_SETTINGS: Final = (
    "busy-reply-threshold", "client-output-buffer-limit", "cluster-require-full-coverage", "maxclients",
    "min-replicas-to-write", "save", "stop-writes-on-bgsave-error", "timeout",
)  # fmt: skip
# `_judged` reads only these lines of INFO. Parsing all of them every second would be too expensive.
_WATCHED: Final = (
    b"aof_enabled:", b"aof_last_write_status:", b"connected_slaves:", b"loading:", b"maxmemory:", b"maxmemory_policy:",
    b"role:", b"slave", b"used_memory:",
)  # fmt: skip
# A script that returns the numbers of the commands that the user may not run. ARGV: for each command the number of its
# words, then the words; at the end, the number of commands.
_DENIED: Final = """
local denied, at = {}, 1
for n = 1, tonumber(ARGV[#ARGV]) do
  local words = tonumber(ARGV[at])
  if not redis.acl_check_cmd(unpack(ARGV, at + 1, at + words)) then denied[#denied + 1] = n end
  at = at + words + 1
end
return denied
"""
# The lag up to which a replica counts as in sync. Redis uses the same default for this purpose (min-replicas-max-lag).
_SYNC_LAG_S: Final = 10


async def probe(client: Redis, settings: Settings) -> StoreReport:
    """Ask the store for these facts, in about ten small calls.

    Raises StoreUnavailableError if the store does not answer, StoreUnfitError if it does not report its state at all.
    """
    try:
        return await _probe(client, settings)
    except ResponseError as error:
        raise StoreUnfitError(
            f"the store does not report its state: {told(error)}; masters need INFO, PING and TIME"
        ) from error
    except (RedisError, OSError) as error:
        url = settings.redis_url.get_secret_value() if settings.redis_url else ""
        text = explained(error, is_tls="rediss" in url.partition("://")[0])
        raise StoreUnavailableError(f"the store does not answer: {text}") from error


async def look_again(client: StoreClient, settings: Settings, before: StoreReport) -> StoreReport:
    """Return the report with the facts that may have changed since `before`, read in one round trip. Raises what
    `StoreClient` raises.
    """
    commands: list[tuple[str, ...]] = [("INFO", "memory", "persistence", "replication")]
    if before.appendfsync is not None:
        commands.append(("CONFIG", "GET", *_FSYNC_SETTINGS))
    answer, *shown = await client.ask_each(commands)
    if isinstance(answer, Exception):
        raise answer
    info: dict[str, Any] = parse_info(  # type: ignore[no-untyped-call]
        b"\r\n".join(line for line in answer.splitlines() if line.startswith(_WATCHED))
    )
    fsync: tuple[str | None, bool] = (None, False)
    for flat in shown:
        match flat:
            case StoreUnavailableError() if "permission" not in flat.detail:
                raise flat  # the store is unreachable or loading its data, so its settings remain unknown
            case StoreUnavailableError() | ResponseError():
                pass  # the setting was shown before, but is not shown now
            case Exception():
                raise flat
            case _:
                fsync = _fsync_of(dict(zip(flat[::2], flat[1::2], strict=True)))
    return _judged(before, info, fsync, settings, lua_error="" if before.has_lua else "they could not before")


def require(report: StoreReport, settings: Settings) -> None:
    """Raise StoreUnavailableError while the store loads its data, StoreUnfitError if the report has errors."""
    if report.is_loading:
        raise StoreUnavailableError("the store is loading its data", retry_after_s=1.0)
    errors = [fault for fault in report.faults if fault.level == "error"]
    if errors:
        raise StoreUnfitError("; ".join(f"{fault.what} ({fault.how_to_fix})" for fault in errors))


async def _probe(client: Redis, settings: Settings) -> StoreReport:
    info: dict[str, Any] = await client.info()
    is_loading = bool(info.get("loading"))
    kind = "Valkey" if info.get("server_name") == "valkey" else "Redis"
    version = _version(str(info.get("valkey_version") or info["redis_version"]))
    latency_ms, clock_ahead_ms = await _timing(client)
    lua_error = "" if is_loading else await _lua_error(client, settings.shard)
    denied = None if is_loading or lua_error else await _rights_denied(client, settings.shard)
    is_cluster = bool(info.get("cluster_enabled"))
    blank = StoreReport(
        kind=kind,
        version=version,
        role="",
        is_cluster=is_cluster,
        is_loading=is_loading,
        has_lua=not lua_error,
        appendonly=False,
        appendfsync=None,
        maxmemory_policy="",
        replicas_in_sync=0,
        replicas_seen=0,
        replicas_needed=0,
        memory_used_bytes=0,
        memory_max_bytes=0,
        latency_ms=latency_ms,
        clock_ahead_ms=clock_ahead_ms,
        durability="besteffort",
        rights_missing=tuple(right for right in denied or () if right not in rights.OPTIONAL),
        has_sharded_channels=is_cluster and denied is not None and rights.SHARDED.isdisjoint(denied),
        shared_settings=await _shared_settings(client),
        faults=(),
    )
    return _judged(blank, info, await _fsync_settings(client), settings, lua_error=lua_error)


def _judged(
    before: StoreReport,
    info: dict[str, Any],
    fsync: tuple[str | None, bool],
    settings: Settings,
    *,
    lua_error: str,
) -> StoreReport:
    """Return the report `before`, updated with the present answers of INFO and CONFIG."""
    appendfsync, skips_fsync = fsync
    appendonly = bool(info.get("aof_enabled"))
    in_sync = _replicas_in_sync(info)
    seen = max(before.replicas_seen, int(info.get("connected_slaves", 0)))
    needed = settings.quorum_replicas or max(1, (seen + 1) // 2)
    keeps = _keeps_writes(settings, appendonly, appendfsync, skips_fsync=skips_fsync)
    with_replicas: Durability = "fsync+quorum" if in_sync >= needed else "fsync"
    report = replace(
        before,
        role="primary" if info.get("role") == "master" else "replica",
        is_loading=bool(info.get("loading")),
        appendonly=appendonly,
        appendfsync=appendfsync,
        maxmemory_policy=str(info.get("maxmemory_policy", "")),
        replicas_in_sync=in_sync,
        replicas_seen=seen,
        replicas_needed=needed,
        memory_used_bytes=int(info.get("used_memory", 0)),
        memory_max_bytes=int(info.get("maxmemory", 0)),
        durability=with_replicas if keeps else "besteffort",
    )
    faults = faults_of(report, info, settings, lua_error=lua_error, skips_fsync=skips_fsync)
    return replace(report, faults=faults)


async def _timing(client: Redis) -> tuple[float, float]:
    """Return the median round trip, and how far the store's clock is ahead of this machine's clock, both in ms."""
    trips_ms, ahead_ms = [], []
    for _ in range(5):
        sent, sent_s = time.perf_counter(), time.time()
        seconds, microseconds = await client.time()
        trip_s = time.perf_counter() - sent
        trips_ms.append(trip_s * 1000)
        ahead_ms.append((seconds + microseconds / 1e6 - sent_s - trip_s / 2) * 1000)
    return statistics.median(trips_ms), statistics.median(ahead_ms)


async def _fsync_settings(client: Redis) -> tuple[str | None, bool]:
    """Return `appendfsync` (None: not shown), and whether the store skips fsync during a rewrite of its file."""
    try:
        return _fsync_of(await client.config_get(*_FSYNC_SETTINGS))
    except ResponseError:
        return None, False  # managed stores forbid or rename CONFIG


def _fsync_of(found: Mapping[Any, Any]) -> tuple[str | None, bool]:
    config = {_text(name): _text(value) for name, value in found.items()}
    return config.get("appendfsync"), config.get("no-appendfsync-on-rewrite") == "yes"


async def _shared_settings(client: Redis) -> dict[str, str]:
    try:
        found: Mapping[Any, Any] = await client.config_get(*_SHARED_SETTINGS)
    except ResponseError:
        return {}  # managed stores forbid or rename CONFIG
    return {_text(name): _text(value) for name, value in found.items()}


async def _lua_error(client: Redis, shard: str) -> str:
    """Return why scripts cannot run on the keys of the shard. Empty: they can."""
    try:
        await client.eval("return redis.call('EXISTS', KEYS[1])", 1, f"{{{shard}}}:probe")
    except ResponseError as error:
        return f"{type(error).__name__}: {error}"
    return ""


async def _rights_denied(client: Redis, shard: str) -> tuple[str, ...] | None:
    """Return the commands that the user may not run. None: unknown."""
    samples = rights.samples(shard)
    words = [word for _, command in samples for word in (str(len(command)), *command)]
    try:
        denied = await client.eval(_DENIED, 0, *words, str(len(samples)))
    except ResponseError:
        return None  # a store without ACLs, or one that imitates Redis
    return tuple(samples[n - 1][0] for n in denied)


def _keeps_writes(
    settings: Settings, appendonly: bool, appendfsync: str | None, *, skips_fsync: bool
) -> bool:
    """Return whether a write is on the disk before it is answered."""
    if appendfsync is None:
        return appendonly and settings.declare_durability in ("fsync", "fsync+quorum")
    return appendonly and appendfsync == "always" and not skips_fsync


def _replicas_in_sync(info: dict[str, Any]) -> int:
    replicas = [
        value for name, value in info.items() if re.fullmatch(r"slave\d+", name) and isinstance(value, dict)
    ]
    return sum(
        r.get("state") == "online" and int(r.get("lag", _SYNC_LAG_S + 1)) <= _SYNC_LAG_S for r in replicas
    )


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
