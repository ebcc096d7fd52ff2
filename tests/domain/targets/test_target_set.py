"""Which target serves a name, and how masters share its slots."""

import pytest

from jqmaster.domain.targets.target import MAX_SERVED, HttpTarget
from jqmaster.domain.targets.target_set import NO_TARGETS, Share, TargetSet, share_of

pytestmark = pytest.mark.req("M13")


def target(name: str, *names: str) -> HttpTarget:
    return HttpTarget(name, names, url="http://a.example/")


SET = TargetSet([target("all", "*"), target("mail", "mail.*", "send"), target("bulk", "mail.bulk.*", "b")])


def test_listed_names_come_before_patterns_and_long_patterns_before_short_ones() -> None:
    found = [SET.target_of(name) for name in ("send", "mail.a", "mail.bulk.a", "x", "jq.mail", "b")]
    assert found == ["mail", "mail", "bulk", "all", None, "bulk"]
    assert NO_TARGETS.target_of("x") is None
    assert not NO_TARGETS
    assert SET.has_patterns


def test_patterns_leave_names_to_workers() -> None:
    served = SET.served(["mail.a", "mail.b", "x", "send"], of_workers=["mail.b", "send"])
    assert served == {"all": ("x",), "mail": ("mail.a", "send"), "bulk": ("b",)}
    assert TargetSet([target("a", "x")]).served(["y"]) == {"a": ("x",)}
    assert TargetSet([target("a", "m*")]).served(["y"]) == {"a": ()}


def test_a_pattern_serves_a_bounded_number_of_names() -> None:
    served = TargetSet([target("all", "*")]).served([f"n{n}" for n in range(MAX_SERVED + 5)])
    assert len(served["all"]) == MAX_SERVED


def test_a_name_that_another_target_lists_is_found() -> None:
    assert SET.other_with(target("new", "x", "send")) == ("send", "mail")
    assert SET.other_with(target("mail", "send")) is None
    assert SET.other_with(target("new", "mail.b*")) is None


def test_masters_share_the_slots_exactly() -> None:
    for slots in (1, 2, 3, 7, 50):
        shares = [share_of(slots, "shop", one, ["a", "b", "c"]) for one in "abc"]
        assert sum(shares) == slots
        assert max(shares) - min(shares) <= 1
    assert share_of(5, "shop", "z", ["a"]) == 0
    single = {key: [share_of(1, key, one, ["a", "b"]) for one in "ab"] for key in map(str, range(20))}
    assert {tuple(shares) for shares in single.values()} == {(0, 1), (1, 0)}


def test_a_limit_that_is_smaller_than_the_number_of_masters_is_kept_exactly() -> None:
    masters = ("a", "b", "c")
    for limit in (1, 2, 4):
        parts = [Share(one, masters).of(limit, "shop http://host") for one in masters]
        assert sum(parts) == limit
