"""Logins of people, their roles, and the audit log."""

import ipaddress
import re
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from jqmaster.config.listening import ListeningSettings
from jqmaster.config.values import DAY_S, Networks, Words

PROXY_URL = r"^(https?:/)?/[^/\\\s][^\s]*$"
_HEADER = r"^[A-Za-z0-9-]{1,64}$"
# Headers that cannot carry a user's name: they have another meaning, or any caller may send them.
_OTHER_HEADERS = {
    "authorization",
    "cookie",
    "host",
    "origin",
    "x-forwarded-for",
    "x-csrf-token",
    "jq-proxy-secret",
}
_GROUP_ROLE = re.compile(r".+=(viewer|operator|admin)(@[a-z][a-z0-9-]{1,38})?", re.DOTALL)


class LoginSettings(ListeningSettings):
    """Logins of people, with passwords or through another system."""

    oidc_issuer: str | None = Field(
        None,
        pattern=r"^https?://[^/?#@\s]+(/[^?#\s]*)?$",
        description=(
            "Issuer URL of the OpenID Connect provider through which people log in to the web UI. "
            "It must be exactly the URL that the provider itself uses. Needs `oidc_client_id` and "
            "`public_url`. The provider must allow the redirect URI "
            "`PUBLIC_URL/api/login/oidc/callback`. Default: no login by a provider."
        ),
    )
    oidc_client_id: str | None = Field(
        None, min_length=1, max_length=500, description="Client ID of this service at the provider."
    )
    oidc_client_secret: SecretStr | None = Field(
        None,
        description=(
            "Secret of the client at the provider. If neither this setting nor "
            "`oidc_client_secret_file` is set, the client is public and uses only PKCE."
        ),
    )
    oidc_client_secret_file: Path | None = Field(
        None, description="File that holds the secret of the client at the provider."
    )
    oidc_cafile: Path | None = Field(
        None,
        description="CA certificates (PEM) that sign the provider's certificate. Default: the system's CA "
        "certificates.",
    )
    oidc_scopes: Words = Field(
        default_factory=lambda: ["openid", "profile", "email"],
        max_length=50,
        description="Scopes that the login requests from the provider. They must include `openid`.",
    )
    oidc_user_claim: str = Field(
        "preferred_username",
        min_length=1,
        max_length=200,
        description=(
            "Claim with the name of the person for the audit log and the web UI. Choose a claim "
            "that is unique and that people cannot change themselves, or `sub`."
        ),
    )
    oidc_groups_claim: str = Field(
        "groups",
        min_length=1,
        max_length=200,
        description="Claim that lists the person's groups. Dots lead through nested claims: `realm_access.roles`.",
    )
    oidc_label: str = Field(
        "single sign-on",
        min_length=1,
        max_length=50,
        description="Name of the provider on the login page: `Log in with …`.",
    )
    login_user_header: str | None = Field(
        None,
        pattern=_HEADER,
        description=(
            "Header in which a proxy names the person who has logged in to the proxy, such as "
            "`X-Forwarded-User` or `Remote-User`. Needs `login_proxies` and `public_url`. Default: "
            "no header is trusted."
        ),
    )
    login_groups_header: str | None = Field(
        None,
        pattern=_HEADER,
        description="Header in which the proxy lists the person's groups, separated by commas, such as "
        "`X-Forwarded-Groups`.",
    )
    login_proxies: Networks = Field(
        default_factory=list,
        description=(
            "Networks of the proxies to which people log in, such as `10.0.0.7/32`. A request's "
            "headers count only if it comes from these proxies, either directly or only through "
            "`trusted_proxies`. In all other requests, the headers are ignored, and a log line says "
            "so. Each proxy must replace the headers that callers send."
        ),
    )
    login_proxy_secret: SecretStr | None = Field(
        None,
        description=(
            "Secret that the proxy must send in the header `JQ-Proxy-Secret`. Set it if other "
            "programs can call from the address of the proxy, for example on a shared machine."
        ),
    )
    proxy_login_url: str | None = Field(
        None,
        pattern=PROXY_URL,
        description="Address at which people log in to the proxy, such as `/oauth2/start`. The login page shows it.",
    )
    proxy_logout_url: str | None = Field(
        None,
        pattern=PROXY_URL,
        description="Address at which people log out of the proxy, such as `/oauth2/sign_out`. The web UI shows it.",
    )
    group_roles: Words = Field(
        default_factory=list,
        max_length=1000,
        description=(
            "Roles of the groups that the provider or the proxy names, as `GROUP=ROLE`, or as "
            "`GROUP=ROLE@NAMESPACE` for a role in only that namespace. The roles are viewer, "
            "operator and admin. The highest role of a person counts."
        ),
    )
    default_role: Literal["viewer", "operator", "admin"] | None = Field(
        None,
        description="Role of people who are in no group of `group_roles`. Default: they cannot log in.",
    )
    login_attempts_per_minute: int = Field(
        10,
        ge=1,
        le=1000,
        description=(
            "Maximum number of failed logins per user and minute. Three times as many are allowed "
            "per address. Further attempts get 429. Browsers in which the user has logged in before "
            "count separately."
        ),
    )
    failed_registrations_per_minute: int = Field(
        60,
        ge=1,
        le=100_000,
        description=(
            "Maximum number of worker registrations per caller (token and address) and minute that "
            "fail to prove their address. Further registrations get 429."
        ),
    )
    stale_tokens_s: float = Field(
        300.0,
        ge=5,
        le=DAY_S,
        description=(
            "While the store of `redis_url` does not answer, namespaces of other stores accept "
            "tokens of the installation for this long if their only scopes are push and work. "
            "Nobody can revoke such a token during this time. Tokens with other scopes are accepted "
            "for 5 s."
        ),
    )
    viewers_see_content: bool = Field(
        False,
        description=(
            "Show job content to callers that have only the scope read (role viewer). Job content "
            "means arguments, headers, results, error values and messages, and the values of "
            "constraint keys."
        ),
    )

    audit_export: str | None = Field(
        None,
        min_length=1,
        description=(
            "Destination to which the audit log is written continuously, as JSON lines: `stdout`, "
            "or a file, which may be rotated. Only the leader writes, so configure this setting on "
            "every master. Default: not exported."
        ),
    )

    @field_validator("group_roles")
    @classmethod
    def _are_group_roles(cls, entries: list[str]) -> list[str]:
        for entry in entries:
            if not _GROUP_ROLE.fullmatch(entry):
                raise ValueError(
                    f"{entry[:100]}: expected GROUP=ROLE or GROUP=ROLE@NAMESPACE, with viewer, operator or admin"
                )
        return entries

    @field_validator("login_proxies")
    @classmethod
    def _are_proxies(cls, networks: list[str]) -> list[str]:
        for text in networks:
            if ipaddress.ip_network(text).prefixlen == 0:
                raise ValueError(
                    f"{text} trusts every address, so anybody could claim to be an admin: name the proxy's addresses"
                )
        return networks

    @model_validator(mode="after")
    def _has_whole_logins(self) -> "LoginSettings":
        if fault := self._oidc_fault() or self._proxy_fault():
            raise ValueError(fault)
        return self

    def _oidc_fault(self) -> str | None:
        if self.oidc_issuer is None:
            needless = [
                name
                for name in ("oidc_client_id", "oidc_client_secret", "oidc_client_secret_file", "oidc_cafile")
                if getattr(self, name) is not None
            ]
            return f"{needless[0]} requires oidc_issuer" if needless else None
        if self.oidc_client_id is None:
            return "oidc_issuer requires oidc_client_id"
        if self.public_url is None:
            return "oidc_issuer requires public_url, because the provider redirects people to it"
        if self.oidc_client_secret and self.oidc_client_secret_file:
            return "set oidc_client_secret or oidc_client_secret_file, not both"
        if "openid" not in self.oidc_scopes:
            return "oidc_scopes must include openid"
        if not self.group_roles and self.default_role is None:
            return (
                "oidc_issuer requires group_roles or default_role: otherwise nobody can log in through "
                "the provider"
            )
        host = urlsplit(self.oidc_issuer).hostname or ""
        if not self.oidc_issuer.startswith("https://") and host not in ("localhost", "127.0.0.1", "::1"):
            return "oidc_issuer must begin with https://, except on this machine"
        return None

    def _proxy_fault(self) -> str | None:
        if self.login_user_header is None:
            needless = (
                "login_groups_header",
                "login_proxies",
                "login_proxy_secret",
                "proxy_login_url",
                "proxy_logout_url",
            )
            found = next((name for name in needless if getattr(self, name)), None)
            return f"{found} requires login_user_header" if found else None
        for name in (self.login_user_header, self.login_groups_header or ""):
            if name.lower() in _OTHER_HEADERS:
                return f"{name} names no person and no groups"
        if not self.login_proxies:
            return "login_user_header requires login_proxies, the proxies that may send it"
        if self.public_url is None:
            return "login_user_header requires public_url, the address of the proxy"
        if not self.group_roles and self.default_role is None:
            return "login_user_header requires group_roles or default_role: otherwise nobody has a role"
        return None
