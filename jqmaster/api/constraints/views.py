"""Constraints, their usage, previews and replays as clients see them."""

from typing import Any

from jqmaster.api.jobs.views import job_summary
from jqmaster.domain.constraints.weight import units
from jqmaster.domain.content.content import ContentAccess
from jqmaster.domain.instant import iso_ms, iso_or_none
from jqmaster.domain.matching.paths import Path
from jqmaster.service.constraints.documents import describe, describe_limits
from jqmaster.service.constraints.preview import Preview, PreviewUnits
from jqmaster.service.constraints.reader import Detail, KeyUsage, Usage
from jqmaster.service.constraints.replay import PastReplay
from jqmaster.store.constraints.documents import StoredConstraint
from jqmaster.store.constraints.usage import GateUsage


def constraint_view(stored: StoredConstraint, access: ContentAccess) -> dict[str, Any]:
    """Return a `ConstraintView`."""
    return {
        **access.constraint(describe(stored.constraint)),
        "values_hidden": access.cover_of(stored.constraint.key) is not None,
        "created_by": stored.created_by,
        "etag": stored.etag,
        "created_at": iso_ms(stored.created_at_ms),
        "changed_at": iso_ms(stored.changed_at_ms),
    }


def constraint_detail(detail: Detail, access: ContentAccess) -> dict[str, Any]:
    """Return a `ConstraintDetail`."""
    key = detail.stored.constraint.key
    return {
        **constraint_view(detail.stored, access),
        "usage": usage_view(detail.usage),
        "held_until": iso_or_none(detail.only_gate.held_until_ms if detail.only_gate else None),
        "observed": _observed(detail.only_gate) if detail.only_gate else None,
        "top_keys": [_key_usage_view(one, key, access) for one in detail.top_keys],
        "value": _key_usage_view(detail.asked, key, access) if detail.asked else None,
        "holders": [
            {
                "job_id": holder.job_id,
                "worker_id": holder.worker_id,
                "since": iso_ms(holder.since_ms),
                "value": access.key_text(key, holder.text) if key else None,
            }
            for holder in detail.holders
        ],
    }


def usage_view(usage: Usage) -> dict[str, Any]:
    """Return a `UsageView`."""
    return {
        "waiting": usage.waiting,
        "running": usage.running,
        "starts_in_window": usage.starts,
        "shadow_delayed": usage.shadow_delayed,
        "next_opening": iso_or_none(usage.next_opening_ms),
        "in_force": usage.is_in_force,
        "keys": usage.keys,
        "held": usage.held,
        "closed_keys": usage.closed_keys,
        "is_exact": usage.is_exact,
        "running_units": _units(usage.running_units),
        "units_in_window": _units(usage.window_units),
    }


def _units(number: int | None) -> int | float | None:
    return None if number is None else units(number)


def _observed(gate: GateUsage) -> dict[str, Any] | None:
    """Return an `ObservedView`."""
    if gate.observed is None or gate.observed_until_ms is None:
        return None
    return {"remaining": units(gate.observed), "until": iso_ms(gate.observed_until_ms)}


def _key_usage_view(one: KeyUsage, key: Path | None, access: ContentAccess) -> dict[str, Any]:
    gate = one.gate
    text = access.key_text(key, one.text)
    return {
        # Hide the ID together with the value, because a reader could use the ID to verify guesses of the value.
        "id": one.value_id if text == one.text else None,
        "value": text,
        "waiting": gate.waiting,
        "running": gate.running,
        "starts_in_window": gate.starts,
        "limits": describe_limits(one.limits),
        "own_limits": None if one.own is None else describe_limits(one.own),
        "running_units": _units(gate.running_units),
        "units_in_window": _units(gate.window_units),
        "observed": _observed(gate),
        "held_until": iso_or_none(gate.held_until_ms),
        "next_opening": iso_or_none(gate.opens_at_ms),
        "is_open": gate.is_open,
    }


def preview_view(preview: Preview, access: ContentAccess, overrides: int = 0) -> dict[str, Any]:
    """Return a `PreviewAnswer`. `overrides`: the number of requested overrides."""
    counts = [preview.overrides.get(i) for i in range(overrides)]
    return {
        "count": preview.count,
        "without_key": preview.without_key,
        "looked_at": preview.looked_at,
        "is_exact": preview.is_exact,
        "examples": [job_summary(job) for job in preview.examples],
        "keys": None
        if preview.keys is None
        else [
            {"value": access.key_text(preview.key, value), "count": count} for value, count in preview.keys
        ],
        "distinct_keys": preview.distinct_keys,
        "overrides": [{"jobs": one.jobs if one else 0, "values": one.values if one else 0} for one in counts],
        "units": _preview_units(preview.units) if preview.units else None,
    }


def _preview_units(found: PreviewUnits) -> dict[str, Any]:
    """Return a `PreviewUnitsView`."""
    return {
        "unit": found.unit,
        "total": units(found.total),
        "heaviest": units(found.heaviest),
        "by_default": found.by_default,
        "too_heavy": found.too_heavy,
        "too_heavy_jobs": found.too_heavy_jobs,
    }


def replay_view(past: PastReplay, access: ContentAccess) -> dict[str, Any]:
    """Return a `ReplayAnswer`."""
    told, key, weight = past.told, past.constraint.key, past.constraint.weight
    return {
        "from": iso_ms(told.from_ms),
        "to": iso_ms(told.to_ms),
        "started": told.started,
        "held": told.held,
        "held_now": told.held_now,
        "most_held": told.most_held,
        "p95_ms": told.p95_ms,
        "longest_ms": told.longest_ms,
        "without_key": past.without_key,
        "keys": None
        if told.keys is None
        else [
            {
                "value": access.key_text(key, one.value.text),
                "started": one.started,
                "held": one.held,
                "longest_ms": one.longest_ms,
            }
            for one in told.keys
        ],
        "distinct_keys": told.distinct_keys,
        "points": [
            {
                "at": iso_ms(point.at_ms),
                "started": point.started,
                "held": point.held,
                "started_units": weight and units(point.started_units),
                "held_units": weight and units(point.held_units),
            }
            for point in told.points
        ],
        "units": weight
        and {
            "unit": weight.unit,
            "started": units(told.started_units),
            "held": units(told.held_units),
            "most_held": units(told.most_held_units),
        },
        "looked_at": past.looked_at,
        "is_whole": past.is_whole,
        "gone": past.gone,
    }
