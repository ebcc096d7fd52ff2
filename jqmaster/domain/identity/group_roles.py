"""Maps the groups that an identity provider or a login proxy names to roles."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from jqmaster.domain.identity.access import ROLE_SCOPES, Principal, Role
from jqmaster.domain.namespaces.namespace import NAME_PATTERN

# Roles from the highest to the lowest. A person whose groups have several roles gets the highest.
_RANKED: Final = (Role.ADMIN, Role.OPERATOR, Role.VIEWER)


# A group's name may itself contain `=` and `@`, as directory names do (`cn=admins,ou=groups`).
_ENTRY: Final = re.compile(
    rf"(?P<group>.+)=(?P<role>viewer|operator|admin)(@(?P<namespace>{NAME_PATTERN.strip('^$')}))?", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class PersonRoles:
    """The roles of a person: `role` in all namespaces, and further roles in single namespaces."""

    role: Role
    by_namespace: Mapping[str, Role] = field(default_factory=dict)

    def principal(self, name: str, lineage: str = "") -> Principal:
        """Return the person as a caller."""
        return Principal(name, ROLE_SCOPES[self.role], lineage=lineage).with_roles(self.by_namespace)


class GroupRoles:
    """The roles of each group, and the default role of people who are in none of these groups."""

    def __init__(self, entries: Iterable[str] = (), default: str | None = None) -> None:
        """Parse `entries`, each of the form `GROUP=ROLE`, or `GROUP=ROLE@NAMESPACE` for a role in that namespace alone.
        Raise ValueError for an entry of another form, or a group that has different roles in the same place."""
        # By group, then by namespace: the role. "" stands for all namespaces.
        self._roles: dict[str, dict[str, Role]] = {}
        for text in entries:
            group, role, namespace = _parsed(text)
            if self._roles.setdefault(group, {}).setdefault(namespace, role) != role:
                raise ValueError(f"the group {group[:100]} has two roles")
        self._default = Role(default) if default else None

    @property
    def is_empty(self) -> bool:
        """Return whether nobody gets a role."""
        return not self._roles and self._default is None

    def known(self, groups: Iterable[str]) -> list[str]:
        """Return the groups that have a role, each once."""
        return sorted({group for group in groups if group in self._roles})

    def roles_of(self, groups: Iterable[str]) -> PersonRoles | None:
        """Return the highest role of these groups in each place. The default role applies to people who are in no group
        with a role. None: the person has no role."""
        found: dict[str, Role] = {}
        for group in groups:
            for namespace, role in self._roles.get(group, {}).items():
                found[namespace] = min(role, found.get(namespace, role), key=_RANKED.index)
        if not found:
            return PersonRoles(self._default) if self._default else None
        return PersonRoles(found.pop("", Role.NONE), found)


def _parsed(text: str) -> tuple[str, Role, str]:
    """Return the group, its role, and the namespace ("": all) of `GROUP=ROLE` or `GROUP=ROLE@NAMESPACE`. Raise
    ValueError for another form."""
    found = _ENTRY.fullmatch(text)
    if found is None:
        roles = ", ".join(reversed(_RANKED))
        raise ValueError(f"{text[:100]}: expected GROUP=ROLE or GROUP=ROLE@NAMESPACE, with one of {roles}")
    return found["group"], Role(found["role"]), found["namespace"] or ""


def find_claim(claims: Mapping[str, Any], name: str) -> Any:
    """Return a claim by its name, or by its path through nested claims (`realm_access.roles`). None: there is none."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found
