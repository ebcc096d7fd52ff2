"""Judges the facts about a store server: what is wrong with it, and how to fix that."""

from typing import Any, Final

from jqmaster.config import Settings
from jqmaster.store.health.store_report import LEVELS, ProbeResult, StoreReport

_OLDEST: Final = {"Redis": (7, 0), "Valkey": (7, 2)}
# By kind of server: the security holes that the releases in PATCHED close.
HOLES: Final = {
    # All four are escapes from the Lua sandbox.
    "Redis": "CVE-2025-49844, 46817, 46818 and 46819",
    # The same escapes from the sandbox, and holes that became known later:
    #
    # * May and July 2026: uses of freed memory, and corrupt streams.
    # * August 2026: a use of freed memory by scripts, and a bypass of the rights on keys.
    "Valkey": "CVE-2025-49844, CVE-2026-23479, 25243, 23631, 56684, 63639 and GHSA-fq2f-crmw-q97r",
}

# By kind and line of server: the first release without these holes. A line that is not listed has no such release.
# `make audit` also compares the images and the embedded server with this table.
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
_MIN_CLIENTS: Final = 200
_MIN_BUSY_MS: Final = 1000
_MIN_IDLE_S: Final = 60
_MIN_OUTPUT_BYTES: Final = {"normal": 64 * 1024 * 1024, "pubsub": 1024 * 1024}
_SLOW_MS: Final = 10.0
_CLOCK_OFF_MS: Final = 1000
_MEMORY_HIGH: Final = 0.8


def faults_of(
    report: StoreReport, info: dict[str, Any], settings: Settings, *, lua_error: str, skips_fsync: bool
) -> tuple[ProbeResult, ...]:
    """Return the faults that the report and the answer of INFO show, the worst first."""
    faults = [
        *_identity_faults(report, lua_error),
        *_durability_faults(report, settings, skips_fsync=skips_fsync),
        *_health_faults(report, info),
        *_sharing_faults(report),
    ]
    order = ("error", "warning", "note")
    return tuple(sorted(faults, key=lambda fault: order.index(fault.level)))


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
                f"upgrade {newer}, unless your distribution has patched this version",
            )
        )
    if report.role == "replica":
        faults.append(ProbeResult("error", "the address is that of a replica", "name the primary in --redis"))
    if not report.has_lua:
        faults.append(
            ProbeResult(
                "error",
                f"scripts cannot run on the keys of the shard: {lua_error}",
                "let the store's user run EVAL and EVALSHA on these keys (deploy/valkey.acl); on a Cluster, "
                "--redis must begin with redis+cluster://",
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
            "the store does not show its configuration: declare its durability with JQMASTER_DECLARE_DURABILITY, "
            "or accept the risk with JQMASTER_DURABILITY=besteffort"
        )
    elif report.appendfsync != "always":
        fixes.append("CONFIG SET appendfsync always")
    if skips_fsync:
        fixes.append("CONFIG SET no-appendfsync-on-rewrite no")
    if wanted == "fsync+quorum" and report.replicas_in_sync < report.replicas_needed:
        fixes.append(f"{report.replicas_needed} replicas must be in sync, {report.replicas_in_sync} are")
    what = f"durability {wanted} is configured, but the store gives {report.durability}"
    return [ProbeResult("error", what, "; ".join(fixes), "durability")]


def _health_faults(report: StoreReport, info: dict[str, Any]) -> list[ProbeResult]:
    faults = []
    if report.is_loading:
        faults.append(ProbeResult("warning", "the store is loading its data", "wait until it has finished"))
    if report.appendonly and info.get("aof_last_write_status") == "err":
        faults.append(
            ProbeResult("error", "the store cannot write its append-only file", "check its disk and its log")
        )
    used, most = report.memory_used_bytes, report.memory_max_bytes
    if most and used > most * _MEMORY_HIGH:
        faults.append(
            ProbeResult(
                "warning",
                f"{used / most:.0%} of maxmemory is used",
                "raise maxmemory, or shorten the retentions",
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
    """Return warnings about settings that let other users of the same server or Cluster block the queue."""
    shown = report.shared_settings
    found: list[tuple[str, str]] = []

    def number(name: str) -> int | None:
        text = shown.get(name, "")
        return int(text) if text.isdigit() else None

    if report.is_cluster and shown.get("cluster-require-full-coverage") == "yes":
        found.append(
            (
                "the loss of any one node stops the whole Cluster (cluster-require-full-coverage yes)",
                "CONFIG SET cluster-require-full-coverage no on every node",
            )
        )
    if report.is_cluster and not report.is_loading and report.has_lua and not report.has_sharded_channels:
        found.append(
            (
                "each message is sent to all nodes of the Cluster, because the store's user may not use spublish and "
                "ssubscribe on the channels of the shard",
                "ACL SETUSER with +spublish +ssubscribe on every node, then restart the masters",
            )
        )
    if (clients := number("maxclients")) is not None and clients < _MIN_CLIENTS:
        found.append(
            (
                f"the store admits {clients} connections (maxclients), and each master needs up to 40",
                f"CONFIG SET maxclients to {_MIN_CLIENTS} or more",
            )
        )
    if (idle_s := number("timeout")) and idle_s < _MIN_IDLE_S:
        found.append(
            (f"the store closes connections that are idle for {idle_s} s (timeout)", "CONFIG SET timeout 0")
        )
    if (busy_ms := number("busy-reply-threshold")) and busy_ms < _MIN_BUSY_MS:
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
                "attach replicas, or CONFIG SET min-replicas-to-write to the number that writes may require",
            )
        )
    found += _output_faults(shown.get("client-output-buffer-limit", ""))
    return [
        ProbeResult("warning", what, f"{fix}, and the same in the configuration file") for what, fix in found
    ]


def _output_faults(limits: str) -> list[tuple[str, str]]:
    """Return the faults of the output buffer limits. `limits`: four words for each class of connections: its name, its
    hard limit, its soft limit, and for how many seconds the soft limit may be exceeded."""
    words = limits.split()
    return [
        (
            f"the store closes a {kind} connection with {hard} unread bytes (client-output-buffer-limit)",
            f"CONFIG SET client-output-buffer-limit '{kind} 0 0 0', or to {least} bytes or more",
        )
        for kind, hard in zip(words[::4], words[1::4], strict=False)
        if (least := _MIN_OUTPUT_BYTES.get(kind)) and hard.isdigit() and 0 < int(hard) < least
    ]


def is_patched(kind: str, version: tuple[int, ...]) -> bool:
    """Return whether a server of this version has none of the listed holes."""
    branch = version[0], version[1]
    fixed = PATCHED.get((kind, branch))
    if fixed is not None:
        return version >= (*branch, fixed)
    return branch > max(b for one, b in PATCHED if one == kind)
