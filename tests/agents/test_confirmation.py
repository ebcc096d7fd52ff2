"""A token confirms one call, for five minutes, and not more than was foreseen."""

from typing import Any

import pytest

from jqmaster.agents.confirmation import (
    VALID_S,
    ConfirmationError,
    Confirmations,
    Foreseen,
    key_of,
)

pytestmark = pytest.mark.req("D32")

ASKED: dict[str, Any] = {"name": "mail", "cause": "error"}
FOUND = Foreseen("It would run 12 jobs again.", 12)


class Time:
    now_s = 1_000_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def tokens(time: Time) -> Confirmations:
    return Confirmations(key_of("store", b"Bearer secret"), time)


def test_the_same_call_is_confirmed_and_fewer_jobs_than_foreseen_are_fine(tokens: Confirmations) -> None:
    token = tokens.token("retry", ASKED, FOUND)
    assert tokens.check(token, "retry", {**ASKED, "confirm": token}, FOUND) == 12
    same = {"cause": "error", "confirm": token, "name": "mail"}
    assert tokens.check(token, "retry", same, Foreseen("", 11)) == 12


def test_a_lower_bound_confirms_no_number(tokens: Confirmations) -> None:
    token = tokens.token("retry", ASKED, Foreseen("", 12, is_exact=False))
    assert tokens.check(token, "retry", ASKED, Foreseen("", 12)) is None


def test_another_master_with_the_same_key_checks_it(tokens: Confirmations, time: Time) -> None:
    token = tokens.token("retry", ASKED, FOUND)
    Confirmations(key_of("store", b"Bearer secret"), time).check(token, "retry", ASKED, FOUND)


def test_a_token_ends_after_five_minutes(tokens: Confirmations, time: Time) -> None:
    token = tokens.token("retry", ASKED, FOUND)
    time.now_s += VALID_S
    tokens.check(token, "retry", ASKED, FOUND)
    time.now_s += 1
    with pytest.raises(ConfirmationError, match="older than 5 minutes"):
        tokens.check(token, "retry", ASKED, FOUND)


def test_it_refuses_if_the_count_has_grown(tokens: Confirmations) -> None:
    token = tokens.token("retry", ASKED, FOUND)
    with pytest.raises(ConfirmationError, match="now affect 13 jobs, but 12 were confirmed"):
        tokens.check(token, "retry", ASKED, Foreseen("", 13))


def test_it_refuses_if_its_object_was_changed(tokens: Confirmations) -> None:
    token = tokens.token("resume", ASKED, Foreseen("", 1, state="etag-1"))
    with pytest.raises(ConfirmationError, match="changed since"):
        tokens.check(token, "resume", ASKED, Foreseen("", 1, state="etag-2"))


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("cancel", ASKED), ("retry", {**ASKED, "name": "other"}), ("retry", {"name": "mail"})],
)
def test_it_is_for_this_call_only(tokens: Confirmations, tool: str, arguments: dict[str, Any]) -> None:
    token = tokens.token("retry", ASKED, FOUND)
    with pytest.raises(ConfirmationError, match="another call"):
        tokens.check(token, tool, arguments, FOUND)


def test_it_is_for_this_caller_and_store_only(tokens: Confirmations, time: Time) -> None:
    token = tokens.token("retry", ASKED, FOUND)
    for key in (key_of("store", b"Bearer other"), key_of("other", b"Bearer secret")):
        with pytest.raises(ConfirmationError, match="another call"):
            Confirmations(key, time).check(token, "retry", ASKED, FOUND)


@pytest.mark.parametrize("token", ["", "yes", ".", "a.b", "ü.é", "AAAA.AAAA", "true"])
def test_a_text_that_is_no_token_confirms_nothing(tokens: Confirmations, token: str) -> None:
    with pytest.raises(ConfirmationError, match="nothing was done"):
        tokens.check(token, "retry", ASKED, FOUND)
