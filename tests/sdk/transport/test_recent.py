"""Entries are remembered for a limited time."""

from worker_sdk.transport.recent import NonceCache, RecentMap


def test_a_key_is_remembered_for_its_time_and_then_forgotten() -> None:
    recent: RecentMap[str] = RecentMap(40.0)
    recent.put({"a": "A"}, 0.0)
    for now_s in (0.0, 15.0, 39.9):
        assert recent.known(["a", "x"], now_s) == {"a": "A"}
    assert recent.known(["a"], 61.0) == {}
    recent.put({"b": "B"}, 61.0)
    assert recent.known(["b"], 10_000.0) == {}, "also after a long silence"


def test_a_longer_time_is_taken_and_a_shorter_one_is_not() -> None:
    recent: RecentMap[str] = RecentMap(4.0)
    recent.keep_for(40.0)
    recent.keep_for(1.0)
    recent.put({"a": "A"}, 0.0)
    recent.put({"b": "B"}, 1.5)
    assert recent.known(["b", "x"], 35.0) == {"b": "B"}


def test_memory_is_bounded_by_what_is_remembered() -> None:
    recent: RecentMap[str] = RecentMap(4.0)
    for n in range(1_000):
        recent.put({str(n): ""}, float(n))
    assert sum(len(one) for one in recent._slices) <= 6


def test_a_nonce_counts_once_within_its_window() -> None:
    cache = NonceCache(300)
    now_ms = 1_000_000_000
    assert cache.is_fresh("n", now_ms, now_ms)
    assert not cache.is_fresh("n", now_ms, now_ms + 299_000)
    assert cache.is_fresh("n", now_ms + 100_000, now_ms + 100_000), "another instant: another signature"


def test_old_nonces_go_when_their_instants_are_refused_anyway() -> None:
    cache = NonceCache(300)
    for n in range(1_000):
        assert cache.is_fresh(str(n), n * 10_000, n * 10_000)
    assert cache._count < 100


def test_a_full_cache_refuses_the_oldest_instants_and_never_forgets() -> None:
    cache = NonceCache(300, max_nonces=100)
    now_ms = 3_000_000
    seen = []
    for n in range(150):
        timestamp_ms = now_ms + n * 1_000
        if cache.is_fresh(str(n), timestamp_ms, now_ms + 150_000):
            seen.append((str(n), timestamp_ms))
    assert cache._count <= 101
    assert len(seen) == 150, "newer ones are taken"
    assert not any(cache.is_fresh(nonce, at_ms, now_ms + 150_000) for nonce, at_ms in seen)
