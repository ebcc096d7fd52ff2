"""Roles of people by the groups that another system puts them into."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from jqmaster.domain.identity.access import Role

# The highest role first. It wins if several groups of a person have roles.
_RANKED: Final = (Role.ADMIN, Role.OPERATOR, Role.VIEWER)


class GroupRoles:
    """The role of each group, and the default role of people who are in none."""

    def __init__(self, entries: Iterable[str] = (), default: str | None = None) -> None:
        """`entries`: each `GROUP=ROLE`. Raise ValueError for an entry of another form, or a group that is named twice
        with different roles."""
        self._roles: dict[str, Role] = {}
        for text in entries:
            # A group's name may itself contain `=`, as directory names do (`cn=admins,ou=groups`).
            group, sign, role = text.rpartition("=")
            if not group or not sign or role not in _RANKED:
                raise ValueError(
                    f"{text[:100]}: expected GROUP=ROLE, with one of {', '.join(reversed(_RANKED))}"
                )
            if self._roles.setdefault(group, Role(role)) != role:
                raise ValueError(f"the group {group[:100]} has two roles")
        self._default = Role(default) if default else None

    @property
    def is_empty(self) -> bool:
        """Return whether these rules give nobody a role."""
        return not self._roles and self._default is None

    def known(self, groups: Iterable[str]) -> list[str]:
        """Return the groups that have a role, each once."""
        return sorted({group for group in groups if group in self._roles})

    def role_of(self, groups: Iterable[str]) -> Role | None:
        """Return the highest role of these groups, or the default; None: they give no role."""
        found = {self._roles[group] for group in groups if group in self._roles}
        return next((role for role in _RANKED if role in found), self._default)


def find_claim(claims: Mapping[str, Any], name: str) -> Any:
    """Return a claim by its name, or by its path through nested ones (`realm_access.roles`); None: there is none."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found
