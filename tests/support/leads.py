"""Leads of shards, as tests renew them."""

from jqmaster.store.leadership.leadership import Leadership, LeadershipStore, Renewed


async def renewed(store: LeadershipStore, leadership: Leadership, *, ttl_ms: int) -> Renewed:
    """Renew a lock once, and return the outcome."""
    ((_, data),) = await store._shard.client.run_joined([store.renewal(leadership, ttl_ms=ttl_ms)])
    assert isinstance(data, list), data
    (outcome,) = data[0]
    return Renewed(outcome)
