"""Counts per key, in bounded memory."""

from jqmaster.domain.identity.quota import WINDOW_S, Quota


def test_each_key_is_counted_by_itself_for_a_minute() -> None:
    quota = Quota()
    assert [quota.add("a", 100.0), quota.add("a", 101.0), quota.add("b", 102.0)] == [1, 2, 1]
    assert quota.left_s(130.0) == 30.0
    assert (quota.count("a", 159.0), quota.count("a", 160.0)) == (2, 0)
    assert quota.add("a", 100.0 + WINDOW_S) == 1


def test_new_keys_find_room_whatever_was_counted_before() -> None:
    quota = Quota(max_counted=100)
    for n in range(10_000):
        assert quota.add(f"made up {n}", 0.0) == 1
    assert quota.add("somebody new", 0.0) == 1
    assert quota.count("somebody new", 0.0) == 1
    assert len(quota._counts) == len(quota._keys) == 100
