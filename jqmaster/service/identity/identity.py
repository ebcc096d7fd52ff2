"""Identity of callers: the parts that keep tokens, users and sessions, put together."""

from dataclasses import dataclass

from jqmaster.clock import Clock
from jqmaster.domain.access import ConfiguredTokens
from jqmaster.lifecycle import Component
from jqmaster.live_value import LiveValue
from jqmaster.service.identity.admins import AdminGuard
from jqmaster.service.identity.directory import IdentityDirectory
from jqmaster.service.identity.logins import LoginService
from jqmaster.service.identity.passwords import Passwords
from jqmaster.service.identity.sessions import LoginPolicy, SessionService
from jqmaster.service.identity.tokens import TokenService
from jqmaster.service.identity.users import UserService
from jqmaster.store.identity.credentials import CredentialStore
from jqmaster.store.identity.logins import LoginStore
from jqmaster.store.identity.sessions import SessionStore
from jqmaster.store.link.shard import Shard


@dataclass(frozen=True, slots=True)
class Identity:
    """The services on the identity of callers."""

    directory: IdentityDirectory
    passwords: Passwords
    tokens: TokenService
    users: UserService
    sessions: SessionService
    logins: LoginService

    @classmethod
    def on(
        cls,
        shard: Shard,
        clock: Clock,
        configured: ConfiguredTokens,
        policy: LiveValue[LoginPolicy],
        *,
        is_exposed: bool = False,
    ) -> "Identity":
        """`is_exposed`: callers that come from this machine are not trusted for it."""
        store, sessions, logins = CredentialStore(shard), SessionStore(shard), LoginStore(shard)
        directory = IdentityDirectory(store, logins, clock, configured)
        admins = AdminGuard(store, directory, configured, is_exposed=is_exposed)
        passwords = Passwords()
        users = UserService(store, directory, admins, passwords)
        return cls(
            directory,
            passwords,
            TokenService(store, directory, admins),
            users,
            SessionService(sessions, directory, users, configured, policy),
            LoginService(
                logins, sessions, directory=directory, users=users, passwords=passwords, policy=policy
            ),
        )

    def components(self) -> list[Component]:
        """Return what runs, in the order of need."""
        return [self.directory, self.passwords]
