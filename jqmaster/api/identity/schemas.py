"""Logins, tokens and users over HTTP, as pydantic models."""

from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from jqmaster.api.schemas import Answer, Instant, Request, Seconds, Timestamp
from jqmaster.domain.access import Role, Scope
from jqmaster.service.identity.identity import MAX_OVERLAP_S

USER_PATTERN: Final = r"^[a-z0-9][a-z0-9._@-]{0,63}$"
MAX_TTL_S: Final = 10 * 365 * 86_400

UserName = Annotated[str, Field(pattern=USER_PATTERN, examples=["ada"])]
# Whether it is good enough is judged with the user's name, in service/identity/identity.py.
Password = Annotated[
    str,
    Field(
        min_length=1,
        max_length=200,
        description="At least 12 characters, and not one of those that are guessed first.",
    ),
]
Label = Annotated[str, Field(min_length=1, max_length=100, description="For people: what uses it.")]
ScopeName = Literal["push", "work", "read", "operate", "admin"]
RoleName = Literal["viewer", "operator", "admin"]


class LoginRequest(Request):
    """A user with a password, or a token."""

    user: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    password: Annotated[str, Field(max_length=200)] | None = None
    token: Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[!-~]+$")] | None = None

    @model_validator(mode="after")
    def _one_way(self) -> "LoginRequest":
        by_user = self.user is not None and self.password is not None
        if by_user == (self.token is not None) or (self.user is None) != (self.password is None):
            raise ValueError("give user and password, or token")
        return self


class SessionView(Answer):
    """Who the caller is. Nobody: `who`, `role` and `method` are null."""

    who: str | None = Field(description="As the audit log names the caller.")
    role: RoleName | None = Field(
        description="The most that the scopes amount to; null where they do not include read."
    )
    scopes: list[ScopeName]
    method: Literal["local", "token", "session"] | None = Field(
        description="local: no token and no user exists, and the caller is on this machine."
    )
    csrf_token: str | None = Field(description="To be sent as X-CSRF-Token with what a session changes.")
    expires_at: Timestamp | None = Field(description="When the session ends at the latest.")
    login_by_user: bool = Field(description="There are users; otherwise only tokens log in.")


class OwnPasswordRequest(Request):
    """Users change their own password."""

    old_password: Annotated[str, Field(max_length=200)]
    new_password: Password


class OwnSessionView(Answer):
    """A login of the one who asks."""

    id: str
    is_current: bool = Field(description="The one that asks.")
    opened_at: Timestamp | None = Field(description="Null: a master of an earlier release opened it.")
    last_used_at: Timestamp = Field(description="To the minute or so.")
    expires_at: Timestamp
    address: str = Field(description="Where the login came from; empty where it is not known.")


class OwnSessionList(Answer):
    """The newest first."""

    sessions: list[OwnSessionView]


class TokenRequest(Request):
    """A new token. Without an end it holds until it is revoked."""

    label: Label
    scopes: list[ScopeName] = Field(min_length=1, max_length=5)
    names: list[Annotated[str, Field(min_length=1, max_length=200)]] = Field(
        default_factory=list,
        max_length=20,
        description="Only with no other scopes than push and work: patterns (*, ?, [abc]) of the names of jobs that it may push, "
        "cancel and have the results of, and that workers may register for with it.",
    )
    expires_at: Instant | None = None
    ttl_s: Annotated[Seconds, Field(ge=1, le=MAX_TTL_S)] | None = Field(
        None, description="Instead of expires_at."
    )

    @model_validator(mode="after")
    def _one_end(self) -> "TokenRequest":
        if self.expires_at is not None and self.ttl_s is not None:
            raise ValueError("give expires_at or ttl_s, not both")
        return self

    @property
    def scope_set(self) -> list[Scope]:
        return [Scope(name) for name in dict.fromkeys(self.scopes)]


class RotateRequest(Request):
    """The old token holds for `overlap_s` more."""

    overlap_s: Annotated[Seconds, Field(ge=0, le=MAX_OVERLAP_S)] = Field(86_400)


class TokenView(Answer):
    """A token; what opens is not kept."""

    id: str
    label: str
    scopes: list[ScopeName]
    names: list[str] = Field(description="Patterns of the names that it may push and work; empty: all.")
    created_at: Timestamp
    created_by: str
    expires_at: Timestamp | None
    last_used_at: Timestamp | None = Field(description="Written once a minute.")


class NewTokenView(TokenView):
    """A token that was just made."""

    token: str = Field(description="Shown this once.")


class TokenList(Answer):
    """The newest first. Those of the settings are not among them."""

    tokens: list[TokenView]


class UserRequest(Request):
    """A new user."""

    name: UserName
    password: Password
    role: RoleName


class UserPatch(Request):
    """What is left out stays. Any change ends the user's sessions."""

    role: RoleName | None = None
    password: Password | None = None
    is_disabled: bool | None = None

    @model_validator(mode="after")
    def _something(self) -> "UserPatch":
        if self.role is None and self.password is None and self.is_disabled is None:
            raise ValueError("name at least one of role, password, is_disabled")
        return self

    @property
    def new_role(self) -> Role | None:
        return None if self.role is None else Role(self.role)


class UserView(Answer):
    """A user."""

    name: str
    role: RoleName
    created_at: Timestamp
    last_login_at: Timestamp | None
    is_disabled: bool


class UserList(Answer):
    """All users, by name."""

    users: list[UserView]
