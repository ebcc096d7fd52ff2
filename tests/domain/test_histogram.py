import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jqmaster.domain.histogram import BOUNDS_MS, BUCKETS, Histogram

DURATIONS = st.lists(st.integers(-5, 10**11), max_size=200)


def counted(durations: list[int]) -> Histogram:
    histogram = Histogram()
    for ms in durations:
        histogram.add(ms)
    return histogram


def test_two_buckets_double_the_bound_from_one_millisecond_to_seven_days() -> None:
    assert BOUNDS_MS[:8] == (1, 2, 3, 4, 6, 8, 12, 16)
    assert BOUNDS_MS[-1] > 7 * 86_400_000
    assert all(b <= 2 * a for a, b in itertools.pairwise(BOUNDS_MS))
    assert BUCKETS < 64


@given(DURATIONS)
def test_many_durations_at_once_are_counted_as_each_by_itself(durations: list[int]) -> None:
    one_by_one, at_once = counted(durations), Histogram()
    at_once.add_all(durations)
    assert (at_once.counts, at_once.max_ms, at_once.sum_ms) == (
        one_by_one.counts,
        one_by_one.max_ms,
        one_by_one.sum_ms,
    )


@pytest.mark.req("P8")
@given(DURATIONS, st.floats(0, 1))
def test_a_quantile_is_off_by_less_than_a_bucket(durations: list[int], share: float) -> None:
    histogram = counted(durations)
    (estimate,) = histogram.quantiles_ms(share)
    if not durations:
        assert estimate == 0
        return
    exact = sorted(durations)[max(0, math.ceil(share * len(durations)) - 1)]
    assert estimate <= max(0, *durations)
    if 4 <= exact <= BOUNDS_MS[-1]:
        assert exact / 1.6 - 1 <= estimate <= exact * 1.6 + 1


@given(DURATIONS, DURATIONS)
def test_merged_or_by_way_of_the_store_they_count_the_same(a: list[int], b: list[int]) -> None:
    whole, merged, stored = counted(a + b), counted(a), Histogram()
    merged.merge(counted(b))
    for part in (counted(a), counted(b)):
        stored.add_span(part.span(), part.max_ms)
    assert whole.counts == merged.counts == stored.counts
    assert whole.max_ms == merged.max_ms == stored.max_ms == max([0, *a, *b])
    assert whole.sum_ms == merged.sum_ms
    assert whole.count == len(a) + len(b) == sum(count for _, count in whole.buckets())


def test_quantiles_ascend() -> None:
    histogram = counted([1, 1, 2, 50, 900, 900, 900, 10**7, 10**10])
    found = histogram.quantiles_ms(0.0, 0.5, 0.95, 0.99, 1.0)
    assert found == sorted(found)
    assert found[-1] == 10**10
    assert histogram.buckets()[-1] == (None, 1)


def test_statistics_show_none_until_something_was_counted() -> None:
    histogram = Histogram()
    assert histogram.distribution() is None
    histogram.add(7)
    assert histogram.distribution() == {"count": 1, "p50_ms": 7, "p95_ms": 7, "p99_ms": 7, "max_ms": 7}
