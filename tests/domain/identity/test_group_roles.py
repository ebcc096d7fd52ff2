"""The role that a person's groups give, and the search for claims."""

from typing import Any

import pytest

from jqmaster.domain.identity.access import Role
from jqmaster.domain.identity.group_roles import GroupRoles, find_claim

pytestmark = pytest.mark.req("D26")


def test_the_highest_role_of_a_persons_groups_counts() -> None:
    roles = GroupRoles(["a=viewer", "b=admin", "c=operator"])
    assert roles.role_of(["a", "c", "other"]) is Role.OPERATOR
    assert roles.role_of(["c", "b"]) is Role.ADMIN
    assert roles.role_of(["other"]) is None
    assert roles.role_of([]) is None
    assert roles.known(["c", "other", "a", "c"]) == ["a", "c"]
    assert not roles.is_empty


def test_a_default_is_for_those_without_a_group_alone() -> None:
    roles = GroupRoles(["a=viewer"], "operator")
    assert (roles.role_of([]), roles.role_of(["a"])) == (Role.OPERATOR, Role.VIEWER)
    assert GroupRoles().is_empty
    assert not GroupRoles(default="viewer").is_empty


def test_the_name_of_a_group_may_hold_the_sign() -> None:
    assert GroupRoles(["cn=a,ou=b=admin"]).role_of(["cn=a,ou=b"]) is Role.ADMIN


@pytest.mark.parametrize("entry", ["a", "=admin", "a=", "a=owner", ""])
def test_an_entry_of_another_form_is_refused(entry: str) -> None:
    with pytest.raises(ValueError, match="expected GROUP=ROLE"):
        GroupRoles([entry])


def test_a_group_has_one_role() -> None:
    assert GroupRoles(["a=viewer", "a=viewer"]).role_of(["a"]) is Role.VIEWER
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
