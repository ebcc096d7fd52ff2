"""HTTP models of logins, tokens and users."""

from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from jqmaster.api.schemas import Answer, Instant, Request, Seconds, Timestamp
from jqmaster.domain.identity.access import Role, Scope
from jqmaster.domain.namespaces.namespace import NAME_PATTERN
from jqmaster.service.identity.tokens import MAX_OVERLAP_S

USER_PATTERN: Final = r"^[a-z0-9][a-z0-9._@-]{0,63}$"
MAX_TTL_S: Final = 10 * 365 * 86_400
# Stands for all namespaces.
ALL: Final = "*"

UserName = Annotated[str, Field(pattern=USER_PATTERN, examples=["ada"])]
# The strength of a password is checked in service/identity/users.py, because the check needs the user's name.
Password = Annotated[
    str,
    Field(
        min_length=1,
        max_length=200,
        description="At least 12 characters. Commonly used passwords are refused.",
    ),
]
Label = Annotated[
    str,
    Field(
        min_length=1, max_length=100, description=("Text for people that says what the token is used for.")
    ),
]
ScopeName = Literal["push", "work", "read", "operate", "admin"]
RoleName = Literal["viewer", "operator", "admin"]
UserRole = Annotated[
    Literal["none", "viewer", "operator", "admin"],
    Field(description="Role in all namespaces. none: the user has only the roles in `namespaces`."),
]
NamespaceRoles = Annotated[dict[Annotated[str, Field(pattern=NAME_PATTERN)], RoleName], Field(max_length=100)]


class LoginRequest(Request):
    """Credentials: a user name with a password, or a token."""

    user: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    password: Annotated[str, Field(max_length=200)] | None = None
    token: Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[!-~]+$")] | None = None

    @model_validator(mode="after")
    def _require_one_credential(self) -> "LoginRequest":
        by_user = self.user is not None and self.password is not None
        if by_user == (self.token is not None) or (self.user is None) != (self.password is None):
            raise ValueError("give user and password, or token")
        return self


class SessionView(Answer):
    """Identity of the caller. Without a valid credential, `who`, `role` and `method` are null."""

    who: str | None = Field(description="The caller, as the audit log names it.")
    role: RoleName | None = Field(
        description="Highest role that the scopes include. Null if they do not include read."
    )
    scopes: list[ScopeName]
    method: Literal["local", "token", "session", "proxy"] | None = Field(
        description="local: neither tokens nor users exist, and the caller is on this machine. proxy: a proxy in front "
        "of the master names the caller."
    )
    csrf_token: str | None = Field(
        description=(
            "Send it in the header X-CSRF-Token with every change, if the caller has a session or is named "
            "by a proxy."
        )
    )
    expires_at: Timestamp | None = Field(description="Latest time at which the session ends.")
    login_by_user: bool = Field(description="True: users exist. Otherwise, only tokens can log in.")
    login_provider: str | None = Field(
        description="Name of the OpenID Connect provider at `GET /api/login/oidc`. Null: none is configured."
    )
    login_url: str | None = Field(
        description="Address at which people log in to the proxy in front of the master. Null: none is configured."
    )
    logout_url: str | None = Field(
        description="Address at which the caller of a proxy logs out. Null: none is configured, or no proxy names the "
        "caller."
    )
    namespaces: list[str] | None = Field(
        description=(
            "At a path without a namespace: the namespaces in which the caller has different scopes. Null: "
            "the caller has the same scopes in all namespaces."
        )
    )
    has_namespaces: bool = Field(
        description=(
            "Whether the installation has more namespaces than `default`. False if the caller is not known."
        )
    )


class LogoutView(Answer):
    """A logout, and the address at which the login provider ends its own session."""

    logout_url: str = Field(
        description="Address at which the provider ends its own session. Open it in the browser."
    )


class OwnPasswordRequest(Request):
    """A user's new password."""

    old_password: Annotated[str, Field(max_length=200)]
    new_password: Password


class OwnSessionView(Answer):
    """A login of the caller."""

    id: str
    is_current: bool = Field(description="True: the session of this request.")
    opened_at: Timestamp | None = Field(
        description="Null if a master of an earlier release opened the session."
    )
    last_used_at: Timestamp = Field(description="Accurate to about a minute.")
    expires_at: Timestamp
    address: str = Field(description="Network address from which the caller logged in. Empty if unknown.")


class OwnSessionList(Answer):
    """The caller's logins, newest first."""

    sessions: list[OwnSessionView]


class TokenRequest(Request):
    """A new token. Without `expires_at` and `ttl_s` it is valid until it is revoked."""

    label: Label
    scopes: list[ScopeName] = Field(min_length=1, max_length=5)
    names: list[Annotated[str, Field(min_length=1, max_length=200)]] = Field(
        default_factory=list,
        min_length=1,
        max_length=20,
        description=(
            "Patterns (*, ?, [abc]) of job names. The token may push, cancel and fetch results of "
            "jobs with these names, and workers may register these names with it. If omitted, all "
            "names are allowed. An empty list is refused. Allowed only if the scopes are push, work "
            "or both."
        ),
    )
    namespaces: list[Annotated[str, Field(pattern=rf"{NAME_PATTERN}|^\*$")]] | None = Field(
        None,
        min_length=1,
        max_length=100,
        description=(
            "Namespaces in which the token has its scopes, or `*` for all. Default: all. In other "
            "namespaces, the token gets 404 `unknown_namespace`. A token with a list cannot change "
            "objects of the installation. Not allowed below `/ns/`, because a token of a namespace "
            "opens only that namespace."
        ),
        examples=[["shop"]],
    )
    expires_at: Instant | None = None
    ttl_s: Annotated[Seconds, Field(ge=1, le=MAX_TTL_S)] | None = Field(
        None, description="Seconds from now until the token expires. Cannot be combined with expires_at."
    )

    @model_validator(mode="after")
    def _one_end(self) -> "TokenRequest":
        if self.expires_at is not None and self.ttl_s is not None:
            raise ValueError("give expires_at or ttl_s, not both")
        if self.namespaces and ALL in self.namespaces and len(self.namespaces) > 1:
            raise ValueError("namespaces: give * alone, or names")
        return self

    @property
    def bound_to(self) -> list[str]:
        """The namespaces that the token opens; empty: all."""
        return [name for name in self.namespaces or () if name != ALL]

    @property
    def scope_set(self) -> list[Scope]:
        return [Scope(name) for name in dict.fromkeys(self.scopes)]


class RotateRequest(Request):
    """A rotation, with the time for which the old token stays valid."""

    overlap_s: Annotated[Seconds, Field(ge=0, le=MAX_OVERLAP_S)] = Field(86_400)


class TokenView(Answer):
    """A token without its secret. The master does not keep the secret."""

    id: str
    label: str
    scopes: list[ScopeName]
    names: list[str] = Field(
        description=(
            "Patterns of the job names for which the token may push jobs and register workers. "
            "Empty: all names."
        )
    )
    namespaces: list[str] = Field(description="Namespaces that the token opens. `*`: all.")
    created_at: Timestamp
    created_by: str
    expires_at: Timestamp | None
    last_used_at: Timestamp | None = Field(description="Updated once per minute.")
    is_replaced: bool = Field(
        description="Whether a rotation has replaced this token. It stays valid until `expires_at`."
    )


class NewTokenView(TokenView):
    """A newly created token."""

    token: str = Field(description="The token itself. It is shown only once.")


class TokenList(Answer):
    """Tokens, newest first. Tokens from the settings are not listed."""

    tokens: list[TokenView]


class UserRequest(Request):
    """A new user."""

    name: UserName
    password: Password
    role: UserRole
    namespaces: NamespaceRoles | None = Field(
        None,
        description="Further roles by namespace. In each namespace, the user's highest role counts.",
        examples=[{"shop": "operator"}],
    )

    @property
    def roles(self) -> dict[str, Role]:
        return {name: Role(role) for name, role in (self.namespaces or {}).items()}


class UserPatch(Request):
    """Changes to a user. Omitted fields stay unchanged. Any change ends the user's sessions."""

    role: UserRole | None = None
    namespaces: NamespaceRoles | None = Field(None, description="Replaces all further roles by namespace.")
    password: Password | None = None
    is_disabled: bool | None = None

    @model_validator(mode="after")
    def _require_any_field(self) -> "UserPatch":
        if {self.role, self.password, self.is_disabled} == {None} and self.namespaces is None:
            raise ValueError("name at least one of role, namespaces, password, is_disabled")
        return self

    @property
    def new_role(self) -> Role | None:
        return None if self.role is None else Role(self.role)

    @property
    def new_roles(self) -> dict[str, Role] | None:
        return (
            None if self.namespaces is None else {name: Role(role) for name, role in self.namespaces.items()}
        )


class UserView(Answer):
    """A user."""

    name: str
    role: UserRole
    namespaces: dict[str, RoleName] = Field(description="Further roles by namespace.")
    created_at: Timestamp
    last_login_at: Timestamp | None
    is_disabled: bool


class UserList(Answer):
    """All users, sorted by name."""

    users: list[UserView]
