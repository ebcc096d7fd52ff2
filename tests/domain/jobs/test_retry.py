import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jqmaster.domain.jobs.job import RetryPolicy
from jqmaster.domain.jobs.retry import backoff_ms

POLICIES = st.builds(
    RetryPolicy,
    base_s=st.floats(0, 86_400),
    factor=st.floats(1, 1e6),
    max_s=st.floats(0, 1e6),
    jitter=st.booleans(),
)
JITTER = st.floats(0, 1, exclude_max=True)


@pytest.mark.req("J5")
@given(policy=POLICIES, retry=st.integers(1, 10**6), jitter=JITTER, after=st.none() | st.floats(0, 1e6))
def test_the_wait_is_within_its_bounds(
    policy: RetryPolicy, retry: int, jitter: float, after: float | None
) -> None:
    wait_ms = backoff_ms(policy, retry, jitter=jitter, retry_after_s=after)
    assert isinstance(wait_ms, int)
    assert int((after or 0) * 1000) <= wait_ms <= max(policy.max_s, after or 0) * 1000


@given(policy=POLICIES, retry=st.integers(1, 200), jitter=JITTER)
def test_the_ceiling_grows_with_each_retry(policy: RetryPolicy, retry: int, jitter: float) -> None:
    steady = RetryPolicy(policy.base_s, policy.factor, policy.max_s, jitter=False)
    assert backoff_ms(steady, retry, jitter=jitter) <= backoff_ms(steady, retry + 1, jitter=0.0)
    assert backoff_ms(policy, retry, jitter=jitter) <= backoff_ms(steady, retry, jitter=0.0)


@given(retry=st.integers(1, 300), factor=st.sampled_from([1.0, 1.01, 1.5, 2.0, 10.0]))
def test_the_wait_follows_the_formula(retry: int, factor: float) -> None:
    policy = RetryPolicy(base_s=0.5, factor=factor, max_s=3_600, jitter=False)
    expected = math.exp(min(math.log(0.5) + (retry - 1) * math.log(factor), math.log(3_600)))
    assert backoff_ms(policy, retry, jitter=0.0) == pytest.approx(expected * 1000, rel=1e-6, abs=1.01)


def test_defaults_double_from_one_second_to_one_hour() -> None:
    policy = RetryPolicy(jitter=False)
    waits = [backoff_ms(policy, n, jitter=0.9) for n in range(1, 15)]
    assert waits[:5] == [1_000, 2_000, 4_000, 8_000, 16_000]
    assert waits[12:] == [3_600_000, 3_600_000]
    assert backoff_ms(RetryPolicy(), 3, jitter=0.25) == 1_000
    assert backoff_ms(RetryPolicy(), 3, jitter=0.25, retry_after_s=1.5) == 1_500
    assert backoff_ms(RetryPolicy(base_s=0, factor=1e300), 9, jitter=0.5) == 0
    assert backoff_ms(RetryPolicy(factor=1e300, jitter=False), 9, jitter=0.5) == 3_600_000
