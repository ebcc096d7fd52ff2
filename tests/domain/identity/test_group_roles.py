"""The role that a person's groups give, and the search for claims."""

from typing import Any

import pytest

from jqmaster.domain.identity.access import Role
from jqmaster.domain.identity.group_roles import GroupRoles, PersonRoles, find_claim

pytestmark = pytest.mark.req("D26")


def test_the_highest_role_of_a_persons_groups_counts() -> None:
    roles = GroupRoles(["a=viewer", "b=admin", "c=operator"])
    assert roles.roles_of(["a", "c", "other"]) == PersonRoles(Role.OPERATOR)
    assert roles.roles_of(["c", "b"]) == PersonRoles(Role.ADMIN)
    assert roles.roles_of(["other"]) is None
    assert roles.roles_of([]) is None
    assert roles.known(["c", "other", "a", "c"]) == ["a", "c"]
    assert not roles.is_empty


def test_a_default_is_for_those_without_a_group_alone() -> None:
    roles = GroupRoles(["a=viewer"], "operator")
    assert [roles.roles_of([]), roles.roles_of(["a"])] == [
        PersonRoles(Role.OPERATOR),
        PersonRoles(Role.VIEWER),
    ]
    assert GroupRoles().is_empty
    assert not GroupRoles(default="viewer").is_empty


def test_the_name_of_a_group_may_hold_the_sign() -> None:
    assert GroupRoles(["cn=a,ou=b=admin"]).roles_of(["cn=a,ou=b"]) == PersonRoles(Role.ADMIN)


@pytest.mark.req("D29")
def test_a_group_may_have_roles_in_single_namespaces() -> None:
    roles = GroupRoles(
        ["a=viewer", "a=operator@shop", "b=viewer@shop", "b=admin@mail", "x@y=viewer@mail"], "viewer"
    )
    assert roles.roles_of(["a", "b"]) == PersonRoles(Role.VIEWER, {"shop": Role.OPERATOR, "mail": Role.ADMIN})
    # The default is for people in no group.
    assert roles.roles_of(["b"]) == PersonRoles(Role.NONE, {"shop": Role.VIEWER, "mail": Role.ADMIN})
    assert roles.roles_of(["x@y"]) == PersonRoles(Role.NONE, {"mail": Role.VIEWER})
    assert GroupRoles(["b=admin@mail"]).known(["b", "c"]) == ["b"]
    with pytest.raises(ValueError, match="two roles"):
        GroupRoles(["a=viewer@shop", "a=admin@shop"])


@pytest.mark.parametrize(
    "entry", ["a", "=admin", "a=", "a=owner", "", "a=admin@", "a=admin@Shop", "a=admin@s"]
)
def test_an_entry_of_another_form_is_refused(entry: str) -> None:
    with pytest.raises(ValueError, match="expected GROUP=ROLE"):
        GroupRoles([entry])


def test_a_group_has_one_role() -> None:
    assert GroupRoles(["a=viewer", "a=viewer"]).roles_of(["a"]) == PersonRoles(Role.VIEWER)
    with pytest.raises(ValueError, match="two roles"):
        GroupRoles(["a=viewer", "a=admin"])


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("groups", ["a"]),
        ("realm_access.roles", ["b"]),
        ("https://example.org/roles", ["c"]),
        ("realm_access", {"roles": ["b"]}),
        ("groups.a", None),
        ("none", None),
        ("realm_access.none.roles", None),
    ],
)
def test_a_claim_is_found_by_name_or_path(name: str, found: Any) -> None:
    claims = {"groups": ["a"], "realm_access": {"roles": ["b"]}, "https://example.org/roles": ["c"]}
    assert find_claim(claims, name) == found
