"""The configured login provider and login proxies, and the roles that they give."""

from typing import TYPE_CHECKING, Final

from jqmaster.api.http.proxy_login import ProxyLogin, ProxyLoginRules
from jqmaster.clock import Clock
from jqmaster.config import Settings
from jqmaster.domain.identity.caller import TrustedProxies
from jqmaster.domain.identity.group_roles import GroupRoles
from jqmaster.service.identity.provider_logins import ProviderPolicy

if TYPE_CHECKING:
    from jqmaster.net.oidc_provider import OidcProvider

CALLBACK: Final = "api/login/oidc/callback"


def oidc_provider(settings: Settings, clock: Clock) -> "OidcProvider | None":
    """Return the provider, or None if no provider is configured. Raise OSError or ValueError if the secret cannot
    be read."""
    if settings.oidc_issuer is None or settings.oidc_client_id is None:
        return None
    # Import the provider only when it is needed. Most masters have no provider, and start sooner without its
    # libraries.
    from jqmaster.net.oidc_provider import Client, OidcProvider

    return OidcProvider(
        Client(
            settings.oidc_issuer,
            settings.oidc_client_id,
            _secret(settings),
            tuple(settings.oidc_scopes),
            _home(settings) + CALLBACK,
            settings.oidc_cafile,
        ),
        clock.monotonic_s,
    )


def provider_policy(settings: Settings) -> ProviderPolicy | None:
    """Return the roles for people from the provider, or None if no provider is configured. Raise ValueError for faulty
    roles."""
    if settings.oidc_issuer is None:
        return None
    return ProviderPolicy(
        GroupRoles(settings.group_roles, settings.default_role),
        settings.oidc_user_claim,
        settings.oidc_groups_claim,
        settings.oidc_label,
        _home(settings),
    )


def proxy_login(settings: Settings, clock: Clock) -> ProxyLogin | None:
    """Return the login through headers of a proxy, or None if no login proxy is configured. Raise ValueError for
    faulty roles."""
    if settings.login_user_header is None:
        return None
    secret = settings.login_proxy_secret
    rules = ProxyLoginRules(
        settings.login_user_header,
        settings.login_groups_header,
        TrustedProxies(settings.login_proxies),
        TrustedProxies(settings.trusted_proxies),
        secret.get_secret_value() if secret else "",
        GroupRoles(settings.group_roles, settings.default_role),
    )
    return ProxyLogin(rules, clock.monotonic_s)


def _home(settings: Settings) -> str:
    assert settings.public_url is not None, "Settings ask for it"
    return settings.public_url.rstrip("/") + "/"


def _secret(settings: Settings) -> str | None:
    if settings.oidc_client_secret is not None:
        return settings.oidc_client_secret.get_secret_value()
    if settings.oidc_client_secret_file is None:
        return None
    secret = settings.oidc_client_secret_file.read_text().strip()
    if not secret:
        raise ValueError(f"{settings.oidc_client_secret_file} is empty")
    return secret
