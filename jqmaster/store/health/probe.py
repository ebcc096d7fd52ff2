"""Checks the kind of store, and whether it can give the promised durability. Read-only. Used at the start of a master,
for its health checks, and for `doctor`."""

import re
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from redis._parsers.helpers import parse_info
from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from jqmaster.config import Durability, Settings
from jqmaster.errors import StoreUnavailableError, StoreUnfitError
from jqmaster.store.health import rights
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.refusals import told
from jqmaster.store.link.store_faults import explained

_OLDEST: Final = {"Redis": (7, 0), "Valkey": (7, 2)}
# The holes that the releases in PATCHED close, by the kind of server.
HOLES: Final = {
    # Escapes from the Lua sandbox.
    "Redis": "CVE-2025-49844, 46817, 46818 and 46819",
    # Also uses of freed memory and corrupt streams, of May and July 2026; of August, a use of freed memory by
    # scripts, and a way around the rights of a user's keys.
    "Valkey": "CVE-2025-49844, CVE-2026-23479, 25243, 23631, 56684, 63639 and GHSA-fq2f-crmw-q97r",
}
# The first release of each line without these holes. An older line that is not listed has no such release. `make audit`
# also compares the images and the embedded server with this table.
PATCHED: Final = {
    ("Redis", (7, 2)): 11,
    ("Redis", (7, 4)): 6,
    ("Redis", (8, 0)): 4,
    ("Redis", (8, 2)): 2,
    ("Valkey", (7, 2)): 14,
    ("Valkey", (8, 0)): 11,
    ("Valkey", (8, 1)): 10,
    ("Valkey", (9, 0)): 6,
    ("Valkey", (9, 1)): 2,
}
LEVELS: Final[tuple[Durability, ...]] = ("besteffort", "fsync", "fsync+quorum")
# Asked for by name, because for a pattern the store searches all its settings.
_FSYNC_SETTINGS: Final = ("appendfsync", "no-appendfsync-on-rewrite")
# Settings of a shared server, or of a Cluster, with which other users can block the queue. They are read once.
_SHARED_SETTINGS: Final = (
    "busy-reply-threshold", "client-output-buffer-limit", "cluster-require-full-coverage", "maxclients",
    "min-replicas-to-write", "save", "stop-writes-on-bgsave-error", "timeout",
)  # fmt: skip
_LEAST_CLIENTS: Final = 200
_LEAST_BUSY_MS: Final = 1000
_LEAST_IDLE_S: Final = 60
_LEAST_OUTPUT_BYTES: Final = {"normal": 64 * 1024 * 1024, "pubsub": 1024 * 1024}
# The lines of INFO that `_judged` reads. Parsing all of INFO every second would be too expensive.
_WATCHED: Final = (
    b"aof_enabled:", b"aof_last_write_status:", b"connected_slaves:", b"loading:", b"maxmemory:", b"maxmemory_policy:",
    b"role:", b"slave", b"used_memory:",
)  # fmt: skip
# ARGV: for each command the number of its words, then the words; at the end, the number of commands. Returns the
# numbers of the commands that the user may not run.
_DENIED: Final = """
local denied, at = {}, 1
for n = 1, tonumber(ARGV[#ARGV]) do
  local words = tonumber(ARGV[at])
  if not redis.acl_check_cmd(unpack(ARGV, at + 1, at + words)) then denied[#denied + 1] = n end
  at = at + words + 1
end
return denied
"""
# The default of Redis for the same purpose (min-replicas-max-lag).
_SYNC_LAG_S: Final = 10
_SLOW_MS: Final = 10.0
_CLOCK_OFF_MS: Final = 1000
_MEMORY_HIGH: Final = 0.8


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """One result. `error`: a master does not start, or is not ready; `warning`: a risk; `note`: information. `check`:
    whether the store fails the configured durability, or the needs of any master."""

    level: Literal["error", "warning", "note"]
    what: str
    how_to_fix: str
    check: Literal["fitness", "durability"] = "fitness"


@dataclass(frozen=True, slots=True)
class StoreReport:
    """Facts about a store. None: the store does not show it. `durability`: the most that it can give; with replicas,
    this requires that `replicas_needed` of them are in sync. `replicas_seen`: the most replicas seen so far.
    `rights_missing`: commands that the store's user may not run on the keys and channels of the shard.
    `has_sharded_channels`: whether messages can be published on one node of a Cluster only. `shared_settings`: settings
    that matter if others share the server; empty: not shown."""

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
    replicas_seen: int
    replicas_needed: int
    memory_used_bytes: int
    memory_max_bytes: int
    latency_ms: float
    clock_ahead_ms: float
    durability: Durability
    rights_missing: tuple[str, ...]
    has_sharded_channels: bool
    shared_settings: Mapping[str, str]
    faults: tuple[ProbeResult, ...]


async def probe(client: Redis, settings: Settings) -> StoreReport:
    """Ask the store for these facts, in about ten small calls.

    Raises StoreUnavailableError if it does not answer, StoreUnfitError if it shows nothing at all.
    """
    try:
        return await _probe(client, settings)
    except ResponseError as error:
        raise StoreUnfitError(
            f"the store does not tell about itself: {told(error)}; masters need INFO, PING and TIME"
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
                raise flat  # it is away, or reading its data: that says nothing of its settings
            case StoreUnavailableError() | ResponseError():
                pass  # it was shown before, and is not any more
            case Exception():
                raise flat
            case _:
                fsync = _fsync_of(dict(zip(flat[::2], flat[1::2], strict=True)))
    return _judged(before, info, fsync, settings, lua_error="" if before.has_lua else "they could not before")


def require(report: StoreReport, settings: Settings) -> None:
    """Raise StoreUnavailableError while the store loads its data, StoreUnfitError if the report has errors."""
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
    """Return `before`, updated with the present answers of INFO and CONFIG."""
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
    faults = [
        *_identity_faults(report, lua_error),
        *_durability_faults(report, settings, skips_fsync=skips_fsync),
        *_health_faults(report, info),
        *_sharing_faults(report),
    ]
    order = ("error", "warning", "note")
    faults.sort(key=lambda fault: order.index(fault.level))
    return replace(report, faults=tuple(faults))


async def _timing(client: Redis) -> tuple[float, float]:
    """Return the median round trip, and how far the store's clock is ahead of this machine's, both in ms."""
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
    """Return why scripts cannot run on the keys of the shard; empty: they can."""
    try:
        await client.eval("return redis.call('EXISTS', KEYS[1])", 1, f"{{{shard}}}:probe")
    except ResponseError as error:
        return f"{type(error).__name__}: {error}"
    return ""


async def _rights_denied(client: Redis, shard: str) -> tuple[str, ...] | None:
    """Return the commands that the user may not run; None: unknown."""
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


def _identity_faults(report: StoreReport, lua_error: str) -> list[ProbeResult]:
    faults = []
    oldest = _OLDEST[report.kind]
    dotted = ".".join(map(str, report.version))
    if report.version < oldest:
        faults.append(
            ProbeResult(
                "error", f"{report.kind} {dotted} is too old", f"upgrade to {oldest[0]}.{oldest[1]} or newer"
            )
        )
    elif not is_patched(report.kind, report.version):
        branch = report.version[0], report.version[1]
        fixed = PATCHED.get((report.kind, branch))
        newer = f"to {branch[0]}.{branch[1]}.{fixed} or newer" if fixed is not None else "to a newer line"
        faults.append(
            ProbeResult(
                "warning",
                f"{report.kind} {dotted} may lack the fixes of {HOLES[report.kind]}",
                f"upgrade {newer}, unless your distribution has patched it under this number",
            )
        )
    if report.role == "replica":
        faults.append(ProbeResult("error", "the address is that of a replica", "name the primary in --redis"))
    if not report.has_lua:
        faults.append(
            ProbeResult(
                "error",
                f"scripts cannot run on the keys of the shard: {lua_error}",
                "allow EVAL and EVALSHA on these keys to the store's user (deploy/valkey.acl); on a Cluster let "
                "--redis begin with redis+cluster://",
            )
        )
    if report.rights_missing:
        faults.append(
            ProbeResult(
                "error",
                f"the store's user may not use {', '.join(report.rights_missing)} on the keys and channels of the "
                "shard",
                f"ACL SETUSER with {' '.join(f'+{right}' for right in report.rights_missing)}; "
                "deploy/valkey.acl names all that is needed",
            )
        )
    if report.maxmemory_policy != "noeviction":
        faults.append(
            ProbeResult(
                "error",
                f"a full store would delete jobs (maxmemory-policy {report.maxmemory_policy})",
                "CONFIG SET maxmemory-policy noeviction, and the same in the configuration file",
            )
        )
    return faults


def _durability_faults(report: StoreReport, settings: Settings, *, skips_fsync: bool) -> list[ProbeResult]:
    wanted = settings.durability
    if LEVELS.index(report.durability) >= LEVELS.index(wanted):
        if wanted == "besteffort":
            text = "under besteffort a power cut or a killed store can lose accepted jobs"
            return [ProbeResult("note", text, "set durability to fsync (JQMASTER_DURABILITY)", "durability")]
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
    if wanted == "fsync+quorum" and report.replicas_in_sync < report.replicas_needed:
        fixes.append(f"{report.replicas_needed} replicas must be in sync, {report.replicas_in_sync} are")
    what = f"durability {wanted} is configured, the store gives {report.durability}"
    return [ProbeResult("error", what, "; ".join(fixes), "durability")]


def _health_faults(report: StoreReport, info: dict[str, Any]) -> list[ProbeResult]:
    faults = []
    if report.is_loading:
        faults.append(ProbeResult("warning", "the store is reading its data", "wait until it has"))
    if report.appendonly and info.get("aof_last_write_status") == "err":
        faults.append(
            ProbeResult(
                "error", "the store cannot write its append-only file", "look at its disk and its log"
            )
        )
    used, most = report.memory_used_bytes, report.memory_max_bytes
    if most and used > most * _MEMORY_HIGH:
        faults.append(
            ProbeResult(
                "warning",
                f"{used / most:.0%} of maxmemory are used",
                "give it more, or shorten the retentions",
            )
        )
    elif not most:
        text = "maxmemory is not set: the system may kill a store that outgrows the machine"
        faults.append(ProbeResult("note", text, "CONFIG SET maxmemory to what the machine can spare"))
    if report.latency_ms > _SLOW_MS:
        text = f"an answer takes {report.latency_ms:.1f} ms"
        faults.append(
            ProbeResult(
                "warning", text, "bring master and store closer, look for slow commands (SLOWLOG GET)"
            )
        )
    if abs(report.clock_ahead_ms) > _CLOCK_OFF_MS:
        text = f"the store's clock differs from ours by {report.clock_ahead_ms / 1000:+.1f} s"
        faults.append(
            ProbeResult("warning", text, "run NTP on both; leases and schedules follow the store's clock")
        )
    return faults


def _sharing_faults(report: StoreReport) -> list[ProbeResult]:
    """Return warnings about settings with which others on the same server or Cluster can block the queue."""
    shown = report.shared_settings
    found: list[tuple[str, str]] = []

    def number(name: str) -> int | None:
        text = shown.get(name, "")
        return int(text) if text.isdigit() else None

    if report.is_cluster and shown.get("cluster-require-full-coverage") == "yes":
        found.append(
            (
                "the death of one node of the Cluster, whatever it holds, stops all of them "
                "(cluster-require-full-coverage yes)",
                "CONFIG SET cluster-require-full-coverage no on every node",
            )
        )
    if report.is_cluster and not report.is_loading and report.has_lua and not report.has_sharded_channels:
        found.append(
            (
                "each message costs all nodes of the Cluster, because the store's user may not use spublish and "
                "ssubscribe on the channels of the shard",
                "ACL SETUSER with +spublish +ssubscribe on every node, then restart the masters",
            )
        )
    if (clients := number("maxclients")) is not None and clients < _LEAST_CLIENTS:
        found.append(
            (
                f"the store admits {clients} connections (maxclients), and each master needs up to 40",
                f"CONFIG SET maxclients to {_LEAST_CLIENTS} or more",
            )
        )
    if (idle_s := number("timeout")) and idle_s < _LEAST_IDLE_S:
        found.append(
            (f"the store closes connections that are idle for {idle_s} s (timeout)", "CONFIG SET timeout 0")
        )
    if (busy_ms := number("busy-reply-threshold")) and busy_ms < _LEAST_BUSY_MS:
        found.append(
            (
                f"calls are refused as soon as any script takes {busy_ms} ms (busy-reply-threshold)",
                "CONFIG SET busy-reply-threshold 5000",
            )
        )
    if shown.get("stop-writes-on-bgsave-error") == "yes" and shown.get("save"):
        found.append(
            (
                "a snapshot that fails stops all writes (stop-writes-on-bgsave-error yes)",
                'CONFIG SET save "", because the append-only file holds the data; or stop-writes-on-bgsave-error no',
            )
        )
    if (replicas := number("min-replicas-to-write")) and replicas > report.replicas_seen:
        found.append(
            (
                f"no write is accepted without {replicas} replicas (min-replicas-to-write), and there are "
                f"{report.replicas_seen}",
                "attach replicas, or CONFIG SET min-replicas-to-write to how many may be required",
            )
        )
    found += _output_faults(shown.get("client-output-buffer-limit", ""))
    return [
        ProbeResult("warning", what, f"{fix}, and the same in the configuration file") for what, fix in found
    ]


def _output_faults(limits: str) -> list[tuple[str, str]]:
    """Return the faults of output buffer limits, which have, for each class, a hard limit, a soft limit and its
    seconds."""
    words = limits.split()
    return [
        (
            f"the store hangs up on a {kind} connection with {hard} bytes to read (client-output-buffer-limit)",
            f"CONFIG SET client-output-buffer-limit '{kind} 0 0 0', or to {least} bytes or more",
        )
        for kind, hard in zip(words[::4], words[1::4], strict=False)
        if (least := _LEAST_OUTPUT_BYTES.get(kind)) and hard.isdigit() and 0 < int(hard) < least
    ]


def is_patched(kind: str, version: tuple[int, ...]) -> bool:
    """Return whether a server of this version has none of the listed holes."""
    branch = version[0], version[1]
    fixed = PATCHED.get((kind, branch))
    if fixed is not None:
        return version >= (*branch, fixed)
    return branch > max(b for one, b in PATCHED if one == kind)


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
