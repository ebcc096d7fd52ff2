"""Leads of shards, as tests renew them."""

from jqmaster.store.leadership.leadership import Leadership, LeadershipStore


async def renewed(store: LeadershipStore, leadership: Leadership, *, ttl_ms: int) -> bool:
    """Renew a lock once, and return whether it is still held."""
    ((word, _),) = await store._shard.client.run_all([store.renewal(leadership, ttl_ms=ttl_ms)])
    return word == "ok"
