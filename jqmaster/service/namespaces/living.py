"""The live masters, as their heartbeats show."""

from jqmaster.domain.operations.master import MasterRecord, Pace
from jqmaster.errors import ConflictError
from jqmaster.store.leadership.masters import MasterStore


async def living(masters: MasterStore, pace: Pace, *, least_ms: int = 0) -> list[MasterRecord]:
    """Return the masters of a shard that are not silent. Masters that were heard within `least_ms` always count as
    live. Raise what `StoreClient.run` raises."""
    seen = await masters.look()
    fresh_since_ms = seen.now_ms - max(pace.fresh_ms, least_ms)
    return [one.record for one in seen.seen if one.last_seen_ms >= fresh_since_ms]


async def check_masters(masters: MasterStore, pace: Pace) -> None:
    """Raise ConflictError if a live master does not know namespaces."""
    old = [f"{one.url} ({one.version})" for one in await living(masters, pace) if not one.knows_namespaces]
    if old:
        raise ConflictError(
            f"these masters do not know namespaces: {', '.join(sorted(old))}; upgrade or stop them first",
            code="masters_too_old",
        )
