"""Namespaces and stores as clients see them."""

from collections.abc import Iterable
from typing import Any

from jqmaster.domain.instant import iso_ms
from jqmaster.domain.namespaces.move import Move
from jqmaster.domain.namespaces.namespace import Namespace
from jqmaster.domain.namespaces.slot import SlotMove, SlotPlace
from jqmaster.service.namespaces.documents import describe
from jqmaster.service.namespaces.moves import MovePlan
from jqmaster.service.namespaces.overview import SeenNamespace
from jqmaster.service.namespaces.places import StorePlace
from jqmaster.service.namespaces.slot_moves import SlotMovePlan


def namespace_view(namespace: Namespace) -> dict[str, Any]:
    """Return a `NamespaceView`."""
    return {**describe(namespace), "version": namespace.version}


def details_view(namespace: Namespace, move: Move | None, fault: str) -> dict[str, Any]:
    """Return a `NamespaceDetails`. `fault`: why the record of the move cannot be read. Empty: the record can be
    read."""
    return {**namespace_view(namespace), "move": move_view(move) if move else None, "move_fault": fault}


def move_view(move: Move) -> dict[str, Any]:
    """Return a `MoveView`."""
    terms = move.terms
    return {
        "source": terms.source,
        "target": terms.target,
        "step": move.step,
        "keys": terms.size.keys,
        "bytes": terms.size.bytes,
        "copied_keys": move.progress.copied,
        "compared_keys": move.progress.compared,
        "stop_s": terms.stop_ms / 1000,
        "reason": move.progress.reason,
        "by": terms.who,
        "aborted_by": move.aborted_by,
        "mover": move.mover_id,
        "began_at": iso_ms(terms.began_at_ms),
        "ended_at": None if move.ended_at_ms is None else iso_ms(move.ended_at_ms),
    }


def plan_view(plan: MovePlan) -> dict[str, Any]:
    """Return a `MovePlanView`."""
    return {
        "name": plan.namespace.name,
        "store": plan.target,
        "dry_run": True,
        "keys": plan.size.keys,
        "bytes": plan.size.bytes,
        "stop_s": plan.size.stop_ms / 1000,
        "keeps_leases": plan.keeps_leases,
    }


def slot_view(namespace: Namespace, place: SlotPlace) -> dict[str, Any]:
    """Return a `SlotView`."""
    return {
        "name": namespace.name,
        "store": namespace.store,
        "slot": place.slot,
        "node": place.address_of(place.node_id) if place.node_id else None,
        "nodes": [
            {
                "id": one.id,
                "address": one.address,
                "has_slot": one.id == place.node_id,
                "used_memory_bytes": one.used_memory_bytes,
                "max_memory_bytes": one.max_memory_bytes or None,
            }
            for one in place.nodes
        ],
        "move": _slot_move_view(place, place.move) if place.move else None,
        "fault": place.fault,
    }


def _slot_move_view(place: SlotPlace, move: SlotMove) -> dict[str, Any]:
    """Return a `SlotMoveView`."""
    return {
        "source": place.address_of(move.source),
        "target": place.address_of(move.target),
        "state": move.state,
        "engine_state": move.engine_state,
        "reason": move.reason,
        "began_at": iso_ms(move.began_at_ms),
        "ended_at": None if move.ended_at_ms is None else iso_ms(move.ended_at_ms),
    }


def slot_plan_view(plan: SlotMovePlan) -> dict[str, Any]:
    """Return a `SlotMovePlanView`."""
    return {
        "name": plan.namespace.name,
        "store": plan.namespace.store,
        "slot": plan.place.slot,
        "source": plan.place.address_of(plan.place.node_id),
        "target": plan.target.address,
        "dry_run": True,
        "keys": plan.size.keys,
        "bytes": plan.size.bytes,
    }


def store_view(place: StorePlace, namespaces: Iterable[Namespace]) -> dict[str, Any]:
    """Return a `StoreView`."""
    return {
        "name": place.name,
        "topology": place.topology,
        "server": place.server,
        "faults": dict(place.faults),
        "used_memory_bytes": place.used_memory_bytes,
        "max_memory_bytes": place.max_memory_bytes,
        "namespaces": [one.name for one in namespaces if one.store == place.name],
    }


def overview_view(seen: SeenNamespace) -> dict[str, Any]:
    """Return an `OverviewEntry`."""
    namespace, figures = seen.namespace, seen.figures
    return {
        "name": namespace.name,
        "title": namespace.title,
        "state": namespace.state,
        "store": namespace.store or None,
        "leader": figures.leader_id if figures else None,
        "ready": figures.ready if figures else None,
        "running": figures.running if figures else None,
        "waiting": figures.waiting if figures else None,
        "oldest_wait_s": figures.oldest_wait_s if figures else None,
        "waiting_quota": _share(figures.waiting, namespace.quotas.waiting_jobs) if figures else None,
        "failures": figures.failures if figures else None,
        "fault": seen.fault or None,
        "failed_move": seen.failed_move or None,
    }


def _share(used: int, quota: int | None) -> float | None:
    return None if quota is None else round(used / quota, 4)
