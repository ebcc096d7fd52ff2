"""Scopes and roles, the form of tokens, and the tokens of the settings."""

import pytest

from jqmaster.domain.identity.access import (
    ROLE_SCOPES,
    ConfiguredTokens,
    Principal,
    Role,
    Scope,
    digest_of,
    make_token,
    role_of,
    token_id_of,
    with_implied,
)

pytestmark = pytest.mark.rule("E1.2")


def test_a_scope_includes_what_it_implies_and_nothing_more() -> None:
    assert with_implied([Scope.PUSH, Scope.WORK]) == {Scope.PUSH, Scope.WORK}
    assert with_implied([Scope.OPERATE]) == {Scope.OPERATE, Scope.READ}
    assert with_implied([Scope.ADMIN]) == set(Scope)
    assert with_implied([]) == set()


@pytest.mark.parametrize("role", [role for role in Role if role is not Role.NONE])
def test_the_scopes_of_a_role_are_shown_as_that_role(role: Role) -> None:
    assert role_of(ROLE_SCOPES[role]) is role


def test_callers_that_cannot_read_have_no_role() -> None:
    assert role_of(frozenset({Scope.PUSH, Scope.WORK})) is None
    assert role_of(ROLE_SCOPES[Role.NONE]) is None


def test_the_identity_survives_a_rotation() -> None:
    rotated = Principal("token:second", frozenset(), lineage="token:first")
    assert rotated.identity == "token:first"
    assert Principal("token:first", frozenset()).identity == "token:first"


def test_a_token_tells_its_scopes_and_id_and_is_found_by_its_digest_alone() -> None:
    token = make_token([Scope.WORK, Scope.PUSH])
    assert token.text.startswith(f"jqm_push-work_{token.id}_")
    assert token.digest == digest_of(token.text.encode())
    assert token_id_of(token.text) == token.id
    assert make_token([Scope.PUSH]).digest != make_token([Scope.PUSH]).digest


def test_a_token_that_was_copied_wrong_is_noticed() -> None:
    text = make_token([Scope.READ]).text
    other = "0" if text[-1] != "0" else "1"
    for wrong in (text[:-1], text[:-1] + other, text.replace("jqm_read", "jqm_push"), "", "Bearer x"):
        assert token_id_of(wrong) is None


def test_configured_tokens_are_found_whether_given_plain_or_as_a_digest() -> None:
    secret = digest_of(b"second").hex()
    tokens = ConfiguredTokens(["push+work:first", f"operate:sha256={secret}"])
    first, second = tokens.find(digest_of(b"first")), tokens.find(digest_of(b"second"))
    assert first == Principal(digest_of(b"first").hex()[:8], frozenset({Scope.PUSH, Scope.WORK}))
    assert second == Principal(secret[:8], frozenset({Scope.OPERATE, Scope.READ}))
    assert tokens.find(digest_of(b"third")) is None
    assert not tokens.is_empty
    assert not tokens.have_admin


def test_tokens_of_this_process_are_found_and_leave_the_settings_empty() -> None:
    tokens = ConfiguredTokens(own_tokens=["admin:mine"])
    assert tokens.is_empty
    assert tokens.have_admin
    found = tokens.find(digest_of(b"mine"))
    assert found
    assert found.scopes == set(Scope)


@pytest.mark.parametrize(
    "text", ["push", "fly:x", "push:", "push:with space", "push:sha256=12", f"push:{'x' * 513}"]
)
def test_a_faulty_token_is_named_by_its_number_and_never_shown(text: str) -> None:
    with pytest.raises(ValueError, match=r"^token 2: ") as refused:
        ConfiguredTokens(["push:good", text])
    assert "with space" not in str(refused.value)
