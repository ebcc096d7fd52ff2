"""Assembles the services for tokens, users, sessions and logins."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jqmaster.clock import Clock, DueTime, SharedRests
from jqmaster.domain.identity.access import ConfiguredTokens, token_id_of
from jqmaster.lifecycle import Component
from jqmaster.live_value import LiveValue
from jqmaster.service.identity.admins import AdminGuard
from jqmaster.service.identity.directory import IdentityDirectory
from jqmaster.service.identity.logins import LoginService
from jqmaster.service.identity.passwords import Passwords
from jqmaster.service.identity.provider_logins import ProviderLogins, ProviderPolicy
from jqmaster.service.identity.sessions import LoginPolicy, Session, SessionService
from jqmaster.service.identity.tokens import TokenService
from jqmaster.service.identity.users import UserService
from jqmaster.store.identity.credentials import CredentialStore
from jqmaster.store.identity.logins import LoginStore
from jqmaster.store.identity.sessions import SessionStore
from jqmaster.store.link.shard import Shard

if TYPE_CHECKING:
    from jqmaster.net.oidc_provider import OidcProvider


@dataclass(frozen=True, slots=True)
class OwnLogins:
    """Logins with a namespace's own tokens. The sessions of these logins are in the namespace's store, and are valid
    only in the namespace."""

    directory: IdentityDirectory
    logins: LoginService
    sessions: SessionService

    def knows(self, token: str) -> bool:
        """Return whether the namespace has a token with the ID of this token. The login itself checks whether the token
        is valid."""
        token_id = token_id_of(token)
        return token_id is not None and token_id in self.directory.tokens


@dataclass(frozen=True, slots=True)
class Identity:
    """The services for the identity of callers. `own`: logins with a namespace's own tokens. None: this is the default
    namespace."""

    directory: IdentityDirectory
    passwords: Passwords
    tokens: TokenService
    users: UserService
    sessions: SessionService
    logins: LoginService
    provider_logins: ProviderLogins | None = None
    own: OwnLogins | None = None

    def sessions_of(self, session: Session) -> SessionService:
        """Return the service that keeps this session."""
        return self.own.sessions if self.own and session.is_of_namespace else self.sessions

    @classmethod
    def on(
        cls,
        shard: Shard,
        clock: Clock,
        configured: ConfiguredTokens,
        policy: LiveValue[LoginPolicy],
        *,
        is_exposed: bool = False,
        rests: SharedRests | None = None,
        fresh: DueTime | None = None,
        provider: "OidcProvider | None" = None,
        provider_policy: ProviderPolicy | None = None,
        starts_blind: bool = False,
    ) -> "Identity":
        """Build the services for a shard.

        * `is_exposed`: whether callers from this machine also need a token.
        * `provider`: logs people in by the rules of `provider_policy`. None: there is no provider.
        * `fresh` and `starts_blind`: see `IdentityDirectory`.
        """
        store, sessions, logins = CredentialStore(shard), SessionStore(shard), LoginStore(shard)
        directory = IdentityDirectory(
            store, logins, clock, configured, rests=rests, fresh=fresh, starts_blind=starts_blind
        )
        admins = AdminGuard(store, directory, configured, is_exposed=is_exposed)
        passwords = Passwords()
        users = UserService(store, directory, admins, passwords)
        login_service = LoginService(
            logins, sessions, directory=directory, users=users, passwords=passwords, policy=policy
        )
        return cls(
            directory,
            passwords,
            TokenService(store, directory, admins),
            users,
            SessionService(
                sessions,
                directory,
                users,
                configured,
                policy,
                group_roles=provider_policy.group_roles if provider_policy else None,
            ),
            login_service,
            ProviderLogins(provider, provider_policy, login_service, directory)
            if provider and provider_policy
            else None,
        )

    def components(self) -> list[Component]:
        """Return the components, each after those that it needs."""
        return [
            self.directory,
            self.passwords,
            *([self.provider_logins.provider] if self.provider_logins else []),
        ]
