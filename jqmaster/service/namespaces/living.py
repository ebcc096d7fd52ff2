"""The live masters, as their heartbeats show."""

from jqmaster.domain.operations.master import MasterRecord, Pace
from jqmaster.errors import ConflictError, FieldError
from jqmaster.store.leadership.masters import MasterStore


async def living(masters: MasterStore, pace: Pace, *, least_ms: int = 0) -> list[MasterRecord]:
    """Return the masters of a shard that are not silent. Masters that were heard within `least_ms` always count as
    live. Raise what `StoreClient.run` raises."""
    seen = await masters.look()
    fresh_since_ms = seen.now_ms - max(pace.fresh_ms, least_ms)
    return [one.record for one in seen.seen if one.last_seen_ms >= fresh_since_ms]


async def check_masters(masters: MasterStore, pace: Pace, store: str) -> None:
    """Raise ConflictError if a live master does not know namespaces, or does not have the store."""
    live = await living(masters, pace)
    if old := sorted(f"{one.url} ({one.version})" for one in live if not one.knows_namespaces):
        raise ConflictError(
            f"these masters do not know namespaces: {', '.join(old)}; upgrade or stop them first",
            code="masters_too_old",
        )
    if without := sorted(one.url for one in live if one.stores and store not in one.stores):
        raise ConflictError(
            f"these masters do not have store {store}: {', '.join(without)}; add [stores.{store}] to their "
            "configuration and restart them, or stop them",
            errors=[FieldError(("store",), f"is not configured at {len(without)} of {len(live)} masters")],
        )
