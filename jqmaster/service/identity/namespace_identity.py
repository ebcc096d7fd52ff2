"""The identity of callers in a namespace, which has tokens of its own besides the users and tokens of the
installation."""

from dataclasses import dataclass, replace

from jqmaster.clock import Clock, DueTime, SharedRests
from jqmaster.domain.identity.access import ConfiguredTokens, Principal
from jqmaster.errors import StoreUnavailableError
from jqmaster.live_value import LiveValue
from jqmaster.service.identity.admins import AdminGuard
from jqmaster.service.identity.directory import IdentityDirectory
from jqmaster.service.identity.identity import Identity, OwnLogins
from jqmaster.service.identity.logins import LoginService
from jqmaster.service.identity.sessions import LoginPolicy, SessionService, end_session
from jqmaster.service.identity.tokens import TokenService
from jqmaster.store.identity.credentials import CredentialStore, StoredUser
from jqmaster.store.identity.logins import LoginStore
from jqmaster.store.identity.sessions import SessionStore
from jqmaster.store.link.shard import Shard


class NamespaceCredentials:
    """The tokens that are valid in a namespace: the namespace's own tokens, which are in its store, and the tokens of
    the installation. If the store of the installation does not answer, its tokens with only the scopes push and work
    are still accepted for `stale_tokens_s`."""

    def __init__(
        self, own: IdentityDirectory, installation: IdentityDirectory, stale_tokens_s: LiveValue[float]
    ) -> None:
        self._own = own
        self._installation = installation
        self._stale_tokens_s = stale_tokens_s

    @property
    def has_any(self) -> bool:
        """Return whether this master knows any token or user, of the namespace or of the installation."""
        return self._own.has_any or self._installation.has_any

    def find(self, token: bytes) -> Principal | None:
        """Return the caller with this token, or None if the token is not valid here. This takes no round trip to the
        store.

        Raise StoreUnavailableError if it is unknown whether the token was revoked.
        """
        unknown: StoreUnavailableError | None = None
        try:
            if (found := self._own.find(token)) is not None:
                return found
        except StoreUnavailableError as exc:
            unknown = exc
        found = self._installation.find(token, pushers_trusted_s=self._stale_tokens_s.current)
        if found is None and unknown is not None:
            raise unknown
        return found


class NamespaceAdminGuard(AdminGuard):
    """The guard of a namespace. While the installation has users or tokens, the namespace needs no admin of its own."""

    def __init__(
        self,
        store: CredentialStore,
        own: IdentityDirectory,
        configured: ConfiguredTokens,
        *,
        installation: IdentityDirectory,
        is_exposed: bool,
    ) -> None:
        super().__init__(store, own, configured, is_exposed=is_exposed)
        self._installation = installation

    def check_first(self, *, is_admin: bool) -> None:
        if not self._installation.has_any:
            super().check_first(is_admin=is_admin)

    async def check_last(
        self,
        *,
        without_user: str | None = None,
        without_token: str | None = None,
        changed: StoredUser | None = None,
    ) -> None:
        if not self._installation.has_any:
            await super().check_last(without_user=without_user, without_token=without_token, changed=changed)


async def end_own_session(shard: Shard, digest: str, who: str) -> None:
    """End a session that a token of a namespace opened. `shard`: the shard of the namespace. `who`: the caller who has
    logged in instead."""
    await end_session(SessionStore(shard), digest, who)


@dataclass(frozen=True, slots=True)
class NamespaceIdentity:
    """The identity services of a namespace.

    * `directory`: the component with the namespace's own tokens.
    * `services`: the services that the API uses.
    * `credentials`: the tokens that are valid in the namespace.
    """

    directory: IdentityDirectory
    services: Identity
    credentials: NamespaceCredentials

    @classmethod
    def on(
        cls,
        shard: Shard,
        clock: Clock,
        installation: Identity,
        configured: ConfiguredTokens,
        *,
        is_exposed: bool,
        rests: SharedRests | None = None,
        fresh: DueTime | None = None,
        stale_tokens_s: LiveValue[float],
        policy: LiveValue[LoginPolicy],
    ) -> "NamespaceIdentity":
        """Build the identity services of a namespace.

        * `configured`: the tokens in the settings, which belong to the installation.
        * `fresh`: see `IdentityDirectory`.
        * `stale_tokens_s`: see `NamespaceCredentials`.
        """
        store, logins, sessions = CredentialStore(shard), LoginStore(shard), SessionStore(shard)
        directory = IdentityDirectory(store, logins, clock, ConfiguredTokens(), rests=rests, fresh=fresh)
        own = OwnLogins(
            directory,
            LoginService(
                logins,
                sessions,
                directory=directory,
                users=installation.users,
                passwords=installation.passwords,
                policy=policy,
            ),
            SessionService(
                sessions,
                directory,
                installation.users,
                ConfiguredTokens(),
                policy,
                group_roles=None,
                is_of_namespace=True,
            ),
        )
        admins = NamespaceAdminGuard(
            store, directory, configured, installation=installation.directory, is_exposed=is_exposed
        )
        return cls(
            directory,
            replace(installation, tokens=TokenService(store, directory, admins), own=own),
            NamespaceCredentials(directory, installation.directory, stale_tokens_s),
        )
