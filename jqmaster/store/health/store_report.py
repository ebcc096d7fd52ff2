"""The facts about a store server that matter to masters."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from jqmaster.config import Durability

LEVELS: Final[tuple[Durability, ...]] = ("besteffort", "fsync", "fsync+quorum")


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """One result.

    * `error`: a master does not start, or is not ready.
    * `warning`: a risk.
    * `note`: information.
    * `check`: whether the store fails the configured durability, or the needs of any master.
    """

    level: Literal["error", "warning", "note"]
    what: str
    how_to_fix: str
    check: Literal["fitness", "durability"] = "fitness"


@dataclass(frozen=True, slots=True)
class StoreReport:
    """Facts about a store. None: the store does not show the fact.

    * `durability`: the highest level that it can give; with replicas, this requires that `replicas_needed` of them are
      in sync.
    * `replicas_seen`: the highest number of replicas so far.
    * `rights_missing`: commands that the store's user may not run on the keys and channels of the shard.
    * `has_sharded_channels`: whether messages can be published on one node of a Cluster only.
    * `shared_settings`: settings that matter if others share the server. Empty: not shown.
    """

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
