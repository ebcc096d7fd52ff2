"""Search the design of claims, tokens and epochs, and show that each part of it is needed."""

from dataclasses import fields, replace
from functools import cache

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
# The search for its violation takes as long as all others.
LONG = "token_is_checked"


@cache
def violations(rules: Protocol) -> tuple[dict[str, list[str]], int]:
    return search(rules)


@pytest.mark.req("M3", "M6", "D2", "D5")
def test_the_protocol_has_no_violation() -> None:
    found, states = violations(Protocol())
    assert found == {}
    assert states > 10_000


@pytest.mark.parametrize(
    ("switch", "beside", "violation"),
    [pytest.param(*one, marks=[pytest.mark.long] if one[0] == LONG else []) for one in NEEDED],
)
def test_without_a_mitigation_its_violation_appears(
    switch: str, beside: tuple[str, ...], violation: str
) -> None:
    base = replace(Protocol(), **dict.fromkeys(beside, False))
    assert violation not in violations(base)[0]
    found, _ = search(replace(base, **{switch: False}), until=violation)
    assert violation in found
    assert found[violation]


def test_every_switch_is_shown_to_be_needed() -> None:
    assert {switch for switch, _, _ in NEEDED} == {field.name for field in fields(Protocol)}
