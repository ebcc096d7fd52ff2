"""What kind of store is this, and can it keep our promises? Read-only; for the start of a master and for `doctor`."""

import re
import statistics
import time
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from jqmaster.config import Durability, Settings
from jqmaster.errors import StoreUnavailableError, StoreUnfitError

_OLDEST: Final = {"Redis": (7, 0), "Valkey": (7, 2)}
# First releases with the fixes of CVE-2025-49844, 46817, 46818 and 46819 (escapes from the Lua sandbox).
_PATCHED: Final = {
    ("Redis", (7, 2)): 11,
    ("Redis", (7, 4)): 6,
    ("Redis", (8, 0)): 4,
    ("Redis", (8, 2)): 2,
    ("Valkey", (7, 2)): 11,
    ("Valkey", (8, 0)): 6,
    ("Valkey", (8, 1)): 4,
}
_LEVELS: Final[tuple[Durability, ...]] = ("besteffort", "fsync", "fsync+quorum")
# As Redis itself judges a replica by default (min-replicas-max-lag).
_SYNC_LAG_S: Final = 10
_SLOW_MS: Final = 10.0
_CLOCK_OFF_MS: Final = 1000
_MEMORY_HIGH: Final = 0.8


@dataclass(frozen=True, slots=True)
class Finding:
    """`error`: a master refuses to start on it; `warning`: it will hurt one day; `note`: good to know."""

    level: Literal["error", "warning", "note"]
    what: str
    how_to_fix: str


@dataclass(frozen=True, slots=True)
class StoreReport:
    """None: the store does not tell. `durability` is the most that it can give."""

    kind: str
    version: tuple[int, ...]
    role: str
    is_cluster: bool
    is_loading: bool
    has_lua: bool
    appendonly: bool
    appendfsync: str | None
    maxmemory_policy: str
    replicas_in_sync: int
    memory_used_bytes: int
    memory_max_bytes: int
    latency_ms: float
    clock_ahead_ms: float
    durability: Durability
    faults: tuple[Finding, ...]


async def probe(client: Redis, settings: Settings) -> StoreReport:
    """Ask the store about itself, in about ten small calls.

    Raises StoreUnavailableError when it does not answer, StoreUnfitError when it tells nothing at all.
    """
    try:
        return await _probe(client, settings)
    except ResponseError as error:
        raise StoreUnfitError(
            f"the store does not tell about itself: {error}; allow INFO, PING and TIME"
        ) from error
    except (RedisError, OSError) as error:
        raise StoreUnavailableError(f"the store does not answer: {error}") from error


def require(report: StoreReport, settings: Settings) -> None:
    """Raises StoreUnavailableError while the store reads its data, StoreUnfitError when it cannot keep the promises."""
    if report.is_loading:
        raise StoreUnavailableError("the store is reading its data", retry_after_s=1.0)
    errors = [fault for fault in report.faults if fault.level == "error"]
    if errors:
        raise StoreUnfitError("; ".join(f"{fault.what} ({fault.how_to_fix})" for fault in errors))


async def _probe(client: Redis, settings: Settings) -> StoreReport:
    info: dict[str, Any] = await client.info()
    is_loading = bool(info.get("loading"))
    kind = "Valkey" if info.get("server_name") == "valkey" else "Redis"
    version = _version(str(info.get("valkey_version") or info["redis_version"]))
    latency_ms, clock_ahead_ms = await _timing(client)
    appendfsync, skips_fsync = await _fsync_settings(client)
    lua_error = "" if is_loading else await _lua_error(client, settings.shard)
    appendonly = bool(info.get("aof_enabled"))
    replicas = _replicas_in_sync(info)
    durability = _durability(settings, appendonly, appendfsync, skips_fsync=skips_fsync, replicas=replicas)
    report = StoreReport(
        kind=kind,
        version=version,
        role="primary" if info.get("role") == "master" else "replica",
        is_cluster=bool(info.get("cluster_enabled")),
        is_loading=is_loading,
        has_lua=not lua_error,
        appendonly=appendonly,
        appendfsync=appendfsync,
        maxmemory_policy=str(info.get("maxmemory_policy", "")),
        replicas_in_sync=replicas,
        memory_used_bytes=int(info.get("used_memory", 0)),
        memory_max_bytes=int(info.get("maxmemory", 0)),
        latency_ms=latency_ms,
        clock_ahead_ms=clock_ahead_ms,
        durability=durability,
        faults=(),
    )
    faults = [
        *_identity_faults(report, lua_error),
        *_durability_faults(report, settings, skips_fsync=skips_fsync),
        *_health_faults(report, info),
    ]
    order = ("error", "warning", "note")
    faults.sort(key=lambda fault: order.index(fault.level))
    return replace(report, faults=tuple(faults))


async def _timing(client: Redis) -> tuple[float, float]:
    """Median round trip, and how far the store's clock is ahead of ours; both in ms."""
    trips_ms, ahead_ms = [], []
    for _ in range(5):
        sent, sent_s = time.perf_counter(), time.time()
        seconds, microseconds = await client.time()
        trip_s = time.perf_counter() - sent
        trips_ms.append(trip_s * 1000)
        ahead_ms.append((seconds + microseconds / 1e6 - sent_s - trip_s / 2) * 1000)
    return statistics.median(trips_ms), statistics.median(ahead_ms)


async def _fsync_settings(client: Redis) -> tuple[str | None, bool]:
    """`appendfsync` (None: not shown) and whether fsync is left out while the file is rewritten."""
    try:
        found = await client.config_get("*append*fsync*")
    except ResponseError:
        return None, False  # managed stores forbid or rename CONFIG
    config = {_text(name): _text(value) for name, value in found.items()}
    return config.get("appendfsync"), config.get("no-appendfsync-on-rewrite") == "yes"


async def _lua_error(client: Redis, shard: str) -> str:
    """Why scripts cannot run on the keys of the shard, or an empty text."""
    try:
        await client.eval("return redis.call('EXISTS', KEYS[1])", 1, f"{{{shard}}}:probe")
    except ResponseError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _durability(
    settings: Settings, appendonly: bool, appendfsync: str | None, *, skips_fsync: bool, replicas: int
) -> Durability:
    if appendfsync is None:
        declared = settings.declare_durability or "besteffort"
        keeps = appendonly and declared != "besteffort"
    else:
        keeps = appendonly and appendfsync == "always" and not skips_fsync
    if not keeps:
        return "besteffort"
    return "fsync+quorum" if replicas >= settings.quorum_replicas else "fsync"


def _identity_faults(report: StoreReport, lua_error: str) -> list[Finding]:
    faults = []
    oldest = _OLDEST[report.kind]
    dotted = ".".join(map(str, report.version))
    if report.version < oldest:
        faults.append(
            Finding(
                "error", f"{report.kind} {dotted} is too old", f"upgrade to {oldest[0]}.{oldest[1]} or newer"
            )
        )
    elif not _is_patched(report):
        faults.append(
            Finding(
                "warning",
                f"{report.kind} {dotted} may lack the fixes of the Lua escapes of 2025 (CVE-2025-49844)",
                "upgrade, unless your distribution has patched it under this number",
            )
        )
    if report.role == "replica":
        faults.append(Finding("error", "the address is that of a replica", "name the primary in --redis"))
    if not report.has_lua:
        faults.append(
            Finding(
                "error",
                f"scripts cannot run on the keys of the shard: {lua_error}",
                "allow EVAL and EVALSHA to the store's user; on a Cluster let --redis begin with redis+cluster://",
            )
        )
    if report.maxmemory_policy != "noeviction":
        faults.append(
            Finding(
                "error",
                f"a full store would delete jobs (maxmemory-policy {report.maxmemory_policy})",
                "CONFIG SET maxmemory-policy noeviction, and the same in the configuration file",
            )
        )
    return faults


def _durability_faults(report: StoreReport, settings: Settings, *, skips_fsync: bool) -> list[Finding]:
    wanted = settings.durability
    if _LEVELS.index(report.durability) >= _LEVELS.index(wanted):
        if wanted == "besteffort":
            text = "under besteffort a power cut or a killed store can lose accepted jobs"
            return [Finding("note", text, "set durability to fsync (JQMASTER_DURABILITY)")]
        return []
    fixes = []
    if not report.appendonly:
        fixes.append("CONFIG SET appendonly yes")
    if report.appendfsync is None:
        fixes.append(
            "the store does not show its configuration: say what it gives with JQMASTER_DECLARE_DURABILITY, "
            "or be content with JQMASTER_DURABILITY=besteffort"
        )
    elif report.appendfsync != "always":
        fixes.append("CONFIG SET appendfsync always")
    if skips_fsync:
        fixes.append("CONFIG SET no-appendfsync-on-rewrite no")
    if wanted == "fsync+quorum" and report.replicas_in_sync < settings.quorum_replicas:
        fixes.append(f"{settings.quorum_replicas} replicas must be in sync, {report.replicas_in_sync} are")
    what = f"durability {wanted} is configured, the store gives {report.durability}"
    return [Finding("error", what, "; ".join(fixes))]


def _health_faults(report: StoreReport, info: dict[str, Any]) -> list[Finding]:
    faults = []
    if report.is_loading:
        faults.append(Finding("warning", "the store is reading its data", "wait until it has"))
    if report.appendonly and info.get("aof_last_write_status") == "err":
        faults.append(
            Finding("error", "the store cannot write its append-only file", "look at its disk and its log")
        )
    used, most = report.memory_used_bytes, report.memory_max_bytes
    if most and used > most * _MEMORY_HIGH:
        faults.append(
            Finding(
                "warning",
                f"{used / most:.0%} of maxmemory are used",
                "give it more, or shorten the retentions",
            )
        )
    elif not most:
        text = "maxmemory is not set: the system may kill a store that outgrows the machine"
        faults.append(Finding("note", text, "CONFIG SET maxmemory to what the machine can spare"))
    if report.latency_ms > _SLOW_MS:
        text = f"an answer takes {report.latency_ms:.1f} ms"
        faults.append(
            Finding("warning", text, "bring master and store closer, look for slow commands (SLOWLOG GET)")
        )
    if abs(report.clock_ahead_ms) > _CLOCK_OFF_MS:
        text = f"the store's clock differs from ours by {report.clock_ahead_ms / 1000:+.1f} s"
        faults.append(
            Finding("warning", text, "run NTP on both; leases and schedules follow the store's clock")
        )
    return faults


def _is_patched(report: StoreReport) -> bool:
    branch = report.version[:2]
    fixed = _PATCHED.get((report.kind, (branch[0], branch[1])))
    if fixed is not None:
        return report.version >= (*branch, fixed)
    return branch > max(b for kind, b in _PATCHED if kind == report.kind)


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
