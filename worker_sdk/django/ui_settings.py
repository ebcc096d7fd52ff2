"""The setting `JQMASTER_UI`: addresses of the masters, and roles of users."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings
from django.utils.module_loading import import_string

ROLES: Final = ("viewer", "operator", "admin")
OPTIONS: Final = frozenset({"master", "secret", "user_header", "groups_header", "role"})


@dataclass(frozen=True, slots=True)
class UiSettings:
    """The settings in force. `role`: a function that returns the role of a user, or None if the user may not see
    jobs."""

    masters: tuple[str, ...]
    secret: str
    user_header: str
    groups_header: str
    role: Callable[[Any], str | None]


def ui_settings() -> UiSettings:
    """Return the settings in force. Raise ImportError for a `role` that cannot be imported."""
    given = getattr(settings, "JQMASTER_UI", {})
    named = given.get("master") or os.environ.get("JQMASTER_URL") or "http://127.0.0.1:8080"
    role = given.get("role", role_by_permissions)
    return UiSettings(
        masters=tuple(named.split() if isinstance(named, str) else named),
        secret=given.get("secret") or os.environ.get("JQMASTER_LOGIN_PROXY_SECRET", ""),
        user_header=given.get("user_header", "Remote-User"),
        groups_header=given.get("groups_header", "Remote-Groups"),
        role=import_string(role) if isinstance(role, str) else role,
    )


def role_by_permissions(user: Any) -> str | None:
    """Return the role that Django's permissions give: `jqmaster.view_jobs`, `jqmaster.operate_jobs` and
    `jqmaster.administer_jobs`. Superusers have all these permissions."""
    for role, permission in (
        ("admin", "jqmaster.administer_jobs"),
        ("operator", "jqmaster.operate_jobs"),
        ("viewer", "jqmaster.view_jobs"),
    ):
        if user.has_perm(permission):
            return role
    return None


def role_of(user: Any) -> str | None:
    """Return the role of a user, or None if the user has no role or is not logged in."""
    if not user.is_authenticated or not user.is_active:
        return None
    role = ui_settings().role(user)
    if role is not None and role not in ROLES:
        raise ValueError(
            f"JQMASTER_UI['role'] returned {role!r}; expected one of {', '.join(ROLES)}, or None"
        )
    return role
