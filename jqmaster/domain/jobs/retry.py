"""The waits before a job is tried again."""

from typing import Final

from jqmaster.domain.jobs.job import RetryPolicy

# A job may return to the queue at once this often without a failure, as in a series of deploys.
AT_ONCE: Final = 3
# After these returns, the first wait has at least this length. Each further wait is twice as long, up to MAX_FLOOR_MS.
_FIRST_FLOOR_MS: Final = 100
MAX_FLOOR_MS: Final = 1_000


def floor_ms(repeats: int) -> int:
    """Return the shortest wait, in milliseconds, of a job that has come back `repeats` times without a failure.

    Such attempts use no retry. Without this wait, a job could come back at once for ever.
    """
    if repeats < AT_ONCE:
        return 0
    # Limit the exponent: 2 ** 10 times the first wait is far above the maximum.
    return int(min(MAX_FLOOR_MS, _FIRST_FLOOR_MS * 2 ** min(repeats - AT_ONCE, 10)))


def backoff_ms(policy: RetryPolicy, retry: int, *, jitter: float, retry_after_s: float | None = None) -> int:
    """Return the milliseconds before the `retry`-th retry (from 1).

    `jitter` is uniform in [0, 1): full jitter spreads a storm of failures over the whole interval
    (M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015). A `retry_after_s` that the
    worker asks for may lengthen the wait and never shortens it.
    """
    try:
        ceiling_s = min(policy.max_s, policy.base_s * policy.factor ** (retry - 1))
    except OverflowError:
        # The power is too large for a float, so `max_s` is the smaller number. With a base of 0, there is no wait.
        ceiling_s = policy.max_s if policy.base_s > 0 else 0.0
    wait_s = ceiling_s * jitter if policy.jitter else ceiling_s
    return int(max(wait_s, retry_after_s or 0.0) * 1000)
