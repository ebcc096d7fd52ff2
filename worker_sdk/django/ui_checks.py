"""System checks of the web UI in a Django site, each with its remedy."""

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from django.apps import apps
from django.conf import settings
from django.core import checks

from worker_sdk.django.ui_settings import OPTIONS, ui_settings

_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_AUTH: Final = "django.contrib.auth.middleware.AuthenticationMiddleware"


def problems_of_ui(app_configs: Any, **_: Any) -> list[checks.CheckMessage]:
    """Return the faults of the setting `JQMASTER_UI`."""
    return list(_problems()) if hasattr(settings, "JQMASTER_UI") else []


def _problems() -> Iterator[checks.CheckMessage]:
    if unknown := sorted(settings.JQMASTER_UI.keys() - OPTIONS):
        yield checks.Error(
            f"JQMASTER_UI: unknown options: {', '.join(unknown)}.",
            hint=f"Use {', '.join(sorted(OPTIONS))}.",
            id="jqmaster.E007",
        )
    if not apps.is_installed("django.contrib.auth") or _AUTH not in settings.MIDDLEWARE:
        yield checks.Error(
            "JQMASTER_UI: the site has no logins.",
            hint=f'Add "django.contrib.auth" and "django.contrib.sessions" to INSTALLED_APPS, {_AUTH!r} to MIDDLEWARE.',
            id="jqmaster.E008",
        )
    try:
        known = ui_settings()
        role: Any = known.role
        if not callable(role):
            raise ImportError(f"{role!r} cannot be called")
    except ImportError as exc:
        yield checks.Error(
            f"JQMASTER_UI: role is not a function: {exc}",
            hint="Name a function of a user that returns viewer, operator, admin or None, or leave role out.",
            id="jqmaster.E009",
        )
        return
    if not known.secret:
        yield checks.Warning(
            "JQMASTER_UI: no secret is set, so any process at the address of the site can act as any user.",
            hint="Set secret, and login_proxy_secret of the masters, to the same random text.",
            id="jqmaster.W003",
        )
    for url in known.masters:
        parts = urlsplit(url)
        if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            yield checks.Warning(
                f"JQMASTER_UI: {url} is called without encryption.",
                hint="Use https, or make sure that nobody else can reach the network.",
                id="jqmaster.W004",
            )
