"""Sessions of browsers."""

import hashlib
import hmac
from dataclasses import dataclass
from typing import Final

from jqmaster.domain.identity.access import ROLE_SCOPES, ConfiguredTokens, Principal, Role, role_of
from jqmaster.domain.identity.group_roles import GroupRoles
from jqmaster.errors import NotFoundError
from jqmaster.live_value import LiveValue
from jqmaster.service.identity.access_entries import entry
from jqmaster.service.identity.directory import IdentityDirectory, principal_of
from jqmaster.service.identity.users import UserService
from jqmaster.store.identity.credentials import StoredToken, StoredUser
from jqmaster.store.identity.sessions import Grant, ListedSession, SessionStore

PROVIDER_PREFIX: Final = "oidc:"
_SECRET_LENGTH: Final = 43


@dataclass(frozen=True, slots=True)
class LoginPolicy:
    """Limits of sessions and logins. A session ends after `session_life_ms`, or earlier if it was not used for
    `session_idle_ms`. `login_attempts`: the maximum number of login attempts of one user per minute."""

    session_life_ms: int
    session_idle_ms: int
    login_attempts: int


@dataclass(frozen=True, slots=True)
class Session:
    """A valid session. A request that changes something must contain `csrf_token`. `is_of_namespace`: whether a
    namespace's own token opened the session. Such a session is valid only in the namespace."""

    principal: Principal
    role: Role | None
    until_ms: int
    csrf_token: str
    subject: str = ""
    digest: str = ""
    is_of_namespace: bool = False

    @property
    def is_by_provider(self) -> bool:
        """Return whether the caller logged in by a login provider."""
        return self.subject.startswith(PROVIDER_PREFIX)


class SessionService:
    """Finds and ends sessions. Methods raise what the store raises."""

    def __init__(
        self,
        store: SessionStore,
        directory: IdentityDirectory,
        users: UserService,
        configured: ConfiguredTokens,
        policy: LiveValue[LoginPolicy],
        *,
        group_roles: GroupRoles | None,
        is_of_namespace: bool = False,
    ) -> None:
        """`group_roles`: maps the groups that a login provider names to roles. None: there is no provider.
        `is_of_namespace`: see `Session`."""
        self._is_of_namespace = is_of_namespace
        self._store = store
        self._directory = directory
        self._users = users
        self._configured = configured
        self._policy = policy
        self._group_roles = group_roles

    async def find(self, secret: str) -> Session | None:
        """Return the session of the browser with this `secret`. Return None if the session is over or its owner has
        lost access."""
        if len(secret) != _SECRET_LENGTH or not secret.isascii():
            return None
        found = await self._store.use(session_digest(secret), idle_ms=self._policy.current.session_idle_ms)
        if found is None:
            return None
        kind, _, name = found.subject.partition(":")
        principal: Principal | None = None
        if kind == "user":
            user = StoredUser.decode(name, found.credential) if found.credential else None
            if user is not None and not user.is_disabled:
                principal = Principal(found.subject, ROLE_SCOPES[user.role]).with_roles(user.roles)
        elif kind == "token":
            token = StoredToken.decode(name, found.credential) if found.credential else None
            if token is not None and not token.is_expired(self._directory.now_ms):
                principal = principal_of(token)
        elif kind == "oidc":
            grant = Grant.decode(found.credential)
            # Derive the role from this master's settings, which may have changed since the login.
            roles = self._group_roles.roles_of(grant.groups) if grant and self._group_roles else None
            if grant is not None and roles is not None:
                principal = roles.principal(found.subject, f"oidc:{grant.identity}")
        else:
            principal = self._configured.find(bytes.fromhex(name))
        if principal is None:
            return None
        return Session(
            principal,
            role_of(principal.scopes),
            found.until_ms,
            csrf_token_of(secret),
            found.subject,
            session_digest(secret),
            self._is_of_namespace,
        )

    async def own(self, session: Session) -> list[ListedSession]:
        """Return all sessions of the person with this session."""
        return await self._store.all_of(session.subject)

    async def end_own(self, session: Session, session_id: str | None) -> None:
        """End one session of the person with this session, or, without `session_id`, all their other sessions. Raise
        NotFoundError."""
        found = await self._store.all_of(session.subject)
        digests = [
            one.digest
            for one in found
            if (one.digest != session.digest if session_id is None else session_id_of(one) == session_id)
        ]
        if session_id is not None and not digests:
            raise NotFoundError(f"no session {session_id[:64]}", code="unknown_session")
        if digests:
            who = session.principal.name
            access_entry = entry(who, "session.end", who, None, {"ended": len(digests)})
            await self._store.end_all_of(session.subject, digests, access_entry=access_entry, is_own=True)

    async def end_all_of(self, name: str, who: str) -> int:
        """End all sessions of a user, and return how many there were. For a person who logged in by a login provider,
        `name` begins with `oidc:`. Raise NotFoundError."""
        is_named = name.startswith(PROVIDER_PREFIX)
        if not is_named:
            await self._users.get(name)
        subject = name if is_named else f"user:{name}"
        access_entry = entry(who, "session.end", subject, None, {"ended": "all"})
        ended = await self._store.end_all_of(subject, (), access_entry=access_entry, is_own=False)
        if is_named and not ended:
            raise NotFoundError(f"{name[:64]} has no login", code="unknown_user")
        return ended

    async def id_token(self, session: Session) -> str:
        """Return the ID token with which a login provider opened the session. Empty: the session was opened in another
        way."""
        return await self._store.id_token(session.digest) if session.is_by_provider else ""

    async def logout(self, secret: str, who: str) -> None:
        """End the session of the browser with this `secret`."""
        await end_session(self._store, session_digest(secret), who)


async def end_session(store: SessionStore, digest: str, who: str) -> None:
    """End the session with this digest, and record the logout in the access log."""
    await store.end(digest, access_entry=entry(who, "session.logout", who, None, None))


def session_id_of(session: ListedSession) -> str:
    """Return an ID for a session. The ID does not reveal the session's secret."""
    return session.digest[:16]


def csrf_token_of(secret: str) -> str:
    """Return the token by which a request proves that it comes from the session's own pages. Another site may make the
    browser send a request, but does not know the token."""
    return hmac.new(secret.encode(), b"csrf", hashlib.sha256).hexdigest()


def session_digest(secret: str) -> str:
    """Return the digest by which the store identifies the session with this secret."""
    return hashlib.sha256(secret.encode()).hexdigest()
