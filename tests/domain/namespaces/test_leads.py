"""Which master should lead which namespace."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jqmaster.domain.namespaces.leads import BOUND, most_leads, owners, preference

pytestmark = pytest.mark.req("D29")
NAMES = [f"team-{n}" for n in range(100)]
MASTERS = [f"master-{n}" for n in range(5)]


@given(st.sets(st.text(max_size=8), max_size=60), st.sets(st.text(max_size=8), min_size=1, max_size=9))
def test_every_namespace_has_a_master_and_none_has_more_than_its_bound(
    names: set[str], masters: set[str]
) -> None:
    chosen = owners(names, masters)
    assert chosen.keys() == names
    counts = Counter(chosen.values())
    assert counts.keys() <= masters
    mean = len(names) / len(masters)
    assert all(count <= max(BOUND * mean, mean + 1) for count in counts.values())


@pytest.mark.parametrize(("namespaces", "masters", "most"), [(2, 2, 1), (3, 2, 2), (8, 2, 5), (1, 3, 1)])
def test_few_namespaces_are_spread_evenly(namespaces: int, masters: int, most: int) -> None:
    assert most_leads(namespaces, masters) == most


def test_all_masters_compute_the_same_whatever_the_order_in_which_they_learn_it() -> None:
    assert owners(NAMES, MASTERS) == owners(NAMES[::-1], MASTERS[::-1])


def test_nobody_leads_without_masters() -> None:
    assert owners(NAMES, []) == {}


def test_a_master_that_goes_moves_few_leads_of_the_others_and_its_own_to_all_of_them() -> None:
    before, after = owners(NAMES, MASTERS), owners(NAMES, MASTERS[1:])
    gone = {name for name, master in before.items() if master == MASTERS[0]}
    assert {after[name] for name in gone} == set(MASTERS[1:])
    moved = sum(before[name] != after[name] for name in NAMES if name not in gone)
    assert moved <= 15


def test_the_order_of_two_masters_does_not_depend_on_a_third_one() -> None:
    for name in NAMES:
        order = preference(name, MASTERS)
        assert preference(name, MASTERS[1:]) == [one for one in order if one != MASTERS[0]]
