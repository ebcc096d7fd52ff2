"""Claims that a login provider makes about a person."""

from collections.abc import Mapping
from typing import Any


def find_claim(claims: Mapping[str, Any], name: str) -> Any:
    """Return a claim by its name, or by its path through nested ones (`realm_access.roles`); None: there is none."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found
