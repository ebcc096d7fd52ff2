"""Search the design of claims, tokens and epochs, and show that each part of it is needed."""

from dataclasses import fields, replace

import pytest

from tests.model.claim_protocol import Protocol, search

# (the mitigation switched off, the others that are off as well, the violation that only it prevented there)
NEEDED = [
    ("offer_ends", (), "two executions at once"),
    ("former_time_is_fenced", (), "two executions at once"),
    ("worker_stops_itself", (), "two executions at once"),
    ("push_repeats_to_same_worker", (), "two executions at once"),
    ("write_is_durable", (), "an acknowledged result was lost"),
    ("epoch_is_checked", (), "a deposed leader acted"),
    ("token_is_checked", ("worker_stops_itself",), "a stale holder's result counted"),
    # A failover that loses writes makes a counter repeat values.
    ("token_is_random", ("write_is_durable",), "a stale holder's result counted"),
    ("epoch_is_random", ("write_is_durable",), "two leaders of one epoch"),
    ("tokens_are_remembered", (), "one claim was started twice"),
    ("absence_is_dated", (), "a start was taken for none"),
    ("stop_is_told", (), "a start was taken for none"),
    ("successor_proves_end", (), "two executions at once"),
    ("trust_ends_first", (), "two leaders at once"),
    ("resign_is_compared", (), "two leaders at once"),
]
BESIDE = sorted({one[1] for one in NEEDED if one[1]})
# The search for the violation of `token_is_checked` takes as long as all others.
LONG = ("worker_stops_itself",)


@pytest.mark.req("M3", "M6", "D2", "D5")
def test_the_protocol_has_no_violation() -> None:
    found, states = search(Protocol())
    assert found == {}
    assert states > 10_000


@pytest.mark.parametrize(("switch", "violation"), [(one[0], one[2]) for one in NEEDED if not one[1]])
def test_without_a_mitigation_its_violation_appears(switch: str, violation: str) -> None:
    """The test above shows that the mitigation prevents it."""
    _assert_appears(Protocol(), switch, violation)


# The cases of one test share the search of a protocol that lacks the same others.
@pytest.mark.parametrize(
    "beside",
    [pytest.param(one, marks=[pytest.mark.long] if one == LONG else []) for one in BESIDE],
    ids="-".join,
)
def test_without_a_mitigation_its_violation_appears_although_others_are_off(beside: tuple[str, ...]) -> None:
    base = replace(Protocol(), **dict.fromkeys(beside, False))
    found, _ = search(base)
    for switch, others, violation in NEEDED:
        if others == beside:
            assert violation not in found
            _assert_appears(base, switch, violation)


def _assert_appears(base: Protocol, switch: str, violation: str) -> None:
    found, _ = search(replace(base, **{switch: False}), until=violation)
    assert violation in found
    assert found[violation]


def test_every_switch_is_shown_to_be_needed() -> None:
    assert {switch for switch, _, _ in NEEDED} == {field.name for field in fields(Protocol)}
