"""When a failed attempt is tried again."""

from jqmaster.domain.jobs.job import RetryPolicy


def backoff_ms(policy: RetryPolicy, retry: int, *, jitter: float, retry_after_s: float | None = None) -> int:
    """Return the milliseconds before the `retry`-th retry (from 1).

    `jitter` is uniform in [0, 1): full jitter spreads a storm of failures over the whole interval
    (M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015). A `retry_after_s` that the
    worker asks for may lengthen the wait and never shortens it.
    """
    try:
        ceiling_s = min(policy.max_s, policy.base_s * policy.factor ** (retry - 1))
    except OverflowError:
        # Python's powers overflow instead of saturating. `max_s` applies long before that, unless the base is
        # 0.
        ceiling_s = policy.max_s if policy.base_s > 0 else 0.0
    wait_s = ceiling_s * jitter if policy.jitter else ceiling_s
    return int(max(wait_s, retry_after_s or 0.0) * 1000)
