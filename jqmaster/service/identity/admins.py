"""Guards the last administrator: an installation that has had an administrator always keeps one."""

from collections.abc import Sequence

from jqmaster.domain.identity.access import ConfiguredTokens, Role, Scope
from jqmaster.errors import ConflictError
from jqmaster.service.identity.directory import IdentityDirectory
from jqmaster.store.identity.credentials import CredentialStore, StoredToken, StoredUser


class AdminGuard:
    """Refuses changes after which nobody could administer the installation. Methods raise ConflictError
    (`first_must_be_admin`, `last_admin`)."""

    def __init__(
        self,
        store: CredentialStore,
        directory: IdentityDirectory,
        configured: ConfiguredTokens,
        *,
        is_exposed: bool,
    ) -> None:
        """`is_exposed`: whether callers from this machine also need a token."""
        self._store = store
        self._directory = directory
        self._configured = configured
        self._is_exposed = is_exposed

    def check_first(self, *, is_admin: bool) -> None:
        """Refuse a first user or token without admin rights, because it could not create others."""
        if self._configured.is_empty and not self._directory.has_any and not is_admin:
            raise ConflictError(
                "the first user or token must have admin rights and must not expire, because from then on every "
                "caller must log in",
                code="first_must_be_admin",
            )

    async def check_last(
        self,
        *,
        without_user: str | None = None,
        without_token: str | None = None,
        changed: StoredUser | None = None,
    ) -> None:
        """Refuse a removal or a change that would leave no admin. `changed`: the new version of the user
        `without_user`.

        The check is not atomic, so two concurrent removals can both pass. In this case, a token in the configuration
        restores access.
        """
        if self._configured.have_admin:
            return
        await self._directory.reload()
        tokens = list(self._directory.tokens.values())
        users = [user for user, _ in await self._store.users()]
        left_tokens = [token for token in tokens if token.id != without_token]
        left_users = [user for user in users if user.name != without_user]
        if changed:
            left_users.append(changed)
        is_open_then = (
            not left_tokens and not left_users and self._configured.is_empty and not self._is_exposed
        )
        if _has_admin(tokens, users) and not _has_admin(left_tokens, left_users) and not is_open_then:
            raise ConflictError(
                "this would leave no administrator: create another admin first", code="last_admin"
            )


def _has_admin(tokens: Sequence[StoredToken], users: Sequence[StoredUser]) -> bool:
    return any(
        Scope.ADMIN in token.scopes and token.expires_at_ms is None and not token.namespaces
        for token in tokens
    ) or any(user.role is Role.ADMIN and not user.is_disabled for user in users)
