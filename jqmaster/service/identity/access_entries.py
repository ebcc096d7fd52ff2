"""Encodes entries of the access log about changes of tokens, users and sessions."""

from typing import Any

from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.identity.credentials import StoredToken, StoredUser


def entry(
    who: str, action: str, target: str, before: dict[str, Any] | None, after: dict[str, Any] | None
) -> bytes:
    """Encode an entry for the access log."""
    return encode_entry(who=who, action=action, target=target, before=before, after=after)


def audited_token(token: StoredToken) -> dict[str, Any]:
    """Return the fields of a token that the access log shows."""
    return {
        "label": token.label,
        "scopes": sorted(token.scopes),
        "names": list(token.names),
        **({"namespaces": list(token.namespaces)} if token.namespaces else {}),
        "expires_at_ms": token.expires_at_ms,
    }


def audited_user(user: StoredUser) -> dict[str, Any]:
    """Return the fields of a user that the access log shows."""
    roles = {name: str(role) for name, role in user.roles.items()}
    return {
        "role": str(user.role),
        **({"namespaces": roles} if roles else {}),
        "is_disabled": user.is_disabled,
    }
