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


def test_without_roles_by_namespace_a_scope_holds_in_all_of_them() -> None:
    assert Principal("ada", frozenset({Scope.READ})).namespaces_with(Scope.READ) is None
    of_default = Principal("ada", frozenset({Scope.READ}), by_namespace={}, elsewhere=frozenset({Scope.READ}))
    assert of_default.namespaces_with(Scope.READ) is None
    assert of_default.namespaces_with(Scope.OPERATE) == set()


def test_roles_add_scopes_in_their_namespaces_alone() -> None:
    ada = Principal("ada", frozenset({Scope.PUSH}))
    assert ada.with_roles({}) is ada
    member = ada.with_roles({"shop": Role.OPERATOR, "mail": Role.VIEWER})
    assert member.scopes == {Scope.PUSH}
    assert member.namespaces_with(Scope.OPERATE) == {"shop"}
    assert member.namespaces_with(Scope.READ) == {"shop", "mail"}
    assert member.namespaces_with(Scope.PUSH) == {"shop", "mail"}
    admin = Principal("root", frozenset({Scope.ADMIN}))
    assert admin.with_roles({"shop": Role.VIEWER}) is admin, "it has every scope everywhere"


def test_a_bound_caller_has_its_scopes_in_its_namespaces_and_none_elsewhere() -> None:
    bound = Principal("token:a", frozenset({Scope.READ, Scope.PUSH})).bound_to(["shop"])
    assert bound.scopes == set()
    assert bound.namespaces_with(Scope.PUSH) == {"shop"}
    assert bound.namespaces_with(Scope.OPERATE) == set()


def test_at_the_installation_a_caller_reads_about_the_namespaces_that_it_may_read() -> None:
    everywhere = Principal(
        "ada", frozenset({Scope.READ}), by_namespace={"shop": Principal("ada", frozenset())}
    )
    assert everywhere.at_installation().by_namespace is None
    member = Principal("ada", frozenset()).with_roles({"shop": Role.VIEWER, "mail": Role.NONE})
    at_installation = member.at_installation()
    assert at_installation.scopes == {Scope.READ}
    assert set(at_installation.by_namespace or ()) == {"shop"}
    pushes = Principal("token:a", frozenset({Scope.PUSH})).bound_to(["shop"]).at_installation()
    assert (pushes.scopes, pushes.by_namespace) == (set(), {})
