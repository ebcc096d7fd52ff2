"""Examples of bodies about namespaces, and of stores between which they move."""

from typing import Any, Final

from jqmaster.spec.examples.values import MASTER_ID, NOW_MS

_NAMESPACE: Final[dict[str, Any]] = {
    "name": "shop",
    "title": "The shop",
    "store": "b",
    "tag": "shop",
    "state": "open",
    "quotas": {
        "waiting_jobs": 100_000,
        "waiting_bytes": None,
        "pushes_per_s": 500,
        "argument_bytes": 65_536,
        "workers": None,
        "streams": None,
    },
    "version": NOW_MS,
}
_MOVE: Final[dict[str, Any]] = {
    "source": "b",
    "target": "c",
    "step": "copying",
    "keys": 120_000,
    "bytes": 58_720_256,
    "copied_keys": 48_000,
    "compared_keys": 0,
    "stop_s": 31.2,
    "reason": "",
    "by": "user:ada",
    "aborted_by": "",
    "mover": MASTER_ID,
    "began_at": "2026-11-21T04:30:00.000Z",
    "ended_at": None,
}
_CLUSTER_NODE: Final[dict[str, Any]] = {
    "id": "9e88b8531cee32aab65bab42fa5b33ef48e5c2db",
    "address": "10.0.0.1:6379",
    "has_slot": True,
    "used_memory_bytes": 48_123_904,
    "max_memory_bytes": 2_147_483_648,
}
_SLOT_MOVE: Final[dict[str, Any]] = {
    "source": "10.0.0.1:6379",
    "target": "10.0.0.3:6379",
    "state": "moving",
    "engine_state": "snapshotting",
    "reason": "",
    "began_at": "2026-11-21T04:30:00.000Z",
    "ended_at": None,
}
_STORE: Final[dict[str, Any]] = {
    "name": "b",
    "topology": "single",
    "server": "valkey 9.1.0",
    "faults": {},
    "used_memory_bytes": 48_123_904,
    "max_memory_bytes": 2_147_483_648,
    "namespaces": ["shop"],
}
_OVERVIEW_ENTRY: Final[dict[str, Any]] = {
    "name": "shop",
    "title": "The shop",
    "state": "open",
    "store": "b",
    "leader": MASTER_ID,
    "ready": 12,
    "running": 40,
    "waiting": 230,
    "oldest_wait_s": 1.4,
    "waiting_quota": 0.0023,
    "failures": 3,
    "fault": None,
    "failed_move": None,
}

EXAMPLES: Final[dict[str, Any]] = {
    "QuotasRequest": {"waiting_jobs": 100_000},
    "QuotasView": {"waiting_jobs": 100_000, "argument_bytes": 65_536},
    "NamespaceRequest": {"title": "The shop", "store": "b", "quotas": {"waiting_jobs": 100_000}},
    "NamespaceView": _NAMESPACE,
    "MoveRequest": {"store": "c", "dry_run": True},
    "SlotMoveRequest": {"node": "10.0.0.3:6379", "dry_run": True},
    "SlotMovePlanView": {
        "name": "shop",
        "store": "c",
        "slot": 8113,
        "source": "10.0.0.1:6379",
        "target": "10.0.0.3:6379",
        "dry_run": True,
        "keys": 120_000,
        "bytes": 58_720_256,
    },
    "ClusterNodeView": _CLUSTER_NODE,
    "SlotMoveView": _SLOT_MOVE,
    "SlotView": {
        "name": "shop",
        "store": "c",
        "slot": 8113,
        "node": "10.0.0.1:6379",
        "nodes": [
            _CLUSTER_NODE,
            {
                **_CLUSTER_NODE,
                "id": "61f46ba46cf0371be39e4b434aa697fea2dafd14",
                "address": "10.0.0.3:6379",
                "has_slot": False,
            },
        ],
        "move": _SLOT_MOVE,
        "fault": "",
    },
    "MovePlanView": {
        "name": "shop",
        "store": "c",
        "dry_run": True,
        "keys": 120_000,
        "bytes": 58_720_256,
        "stop_s": 31.2,
        "keeps_leases": True,
    },
    "NamespaceDetails": {**_NAMESPACE, "state": "moving", "move": _MOVE, "move_fault": ""},
    "NamespaceList": {"namespaces": [_NAMESPACE]},
    "StoreView": _STORE,
    "StoreList": {"stores": [_STORE]},
    "OverviewEntry": _OVERVIEW_ENTRY,
    "Overview": {"namespaces": [_OVERVIEW_ENTRY]},
}
