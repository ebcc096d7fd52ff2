"""Lists, creates, rotates and revokes tokens of callers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from jqmaster.domain.identity.access import Principal, Scope, make_token
from jqmaster.domain.matching.glob import compile_glob
from jqmaster.errors import ConflictError, FieldError, ForbiddenError, InvalidError, NotFoundError, invalid
from jqmaster.service.identity.access_entries import audited_token, entry
from jqmaster.service.identity.admins import AdminGuard
from jqmaster.service.identity.directory import IdentityDirectory
from jqmaster.store.identity.credentials import CredentialStore, StoredToken

MAX_OVERLAP_S: Final = 30 * 86_400
# An expired token stays listed for this long, so that people can see why a client stopped working. After that, it is
# removed when a token is created.
KEEP_EXPIRED_MS: Final = 30 * 86_400_000


@dataclass(frozen=True, slots=True)
class ListedToken:
    """A token as administrators see it. `is_replaced`: whether a rotation has created its successor."""

    token: StoredToken
    last_used_ms: int | None
    is_replaced: bool


class TokenService:
    """Manages tokens. Methods raise what the store raises."""

    def __init__(self, store: CredentialStore, directory: IdentityDirectory, admins: AdminGuard) -> None:
        self._store = store
        self._directory = directory
        self._admins = admins

    async def all(self, caller: Principal) -> list[ListedToken]:
        """Return the tokens that the caller may manage, newest first."""
        await self._directory.reload()
        uses = {**await self._store.token_uses(), **self._directory.used_ms}
        managed = [
            token for token in self._directory.tokens.values() if _may_manage(caller, token.namespaces)
        ]
        tokens = sorted(managed, key=lambda t: (-t.created_at_ms, t.id))
        newest: dict[str, str] = {}
        for token in tokens:
            newest.setdefault(token.lineage or token.id, token.id)
        return [
            ListedToken(token, uses.get(token.id), newest[token.lineage or token.id] != token.id)
            for token in tokens
        ]

    async def create(
        self,
        *,
        label: str,
        scopes: Sequence[Scope],
        names: Sequence[str],
        ttl_ms: int | None,
        expires_at_ms: int | None,
        namespaces: Sequence[str] = (),
        caller: Principal,
    ) -> tuple[str, StoredToken]:
        """Create a token. Return its text, which cannot be read again, and its entry. `namespaces`: the namespaces in
        which the token is valid. Empty: all.

        Raise InvalidError, ConflictError (`too_many_tokens`, `first_must_be_admin`), and ForbiddenError if the caller
        is not an admin of all these namespaces.
        """
        await self._directory.reload()
        if not _may_manage(caller, namespaces):
            rule = (
                f"must be among {', '.join(sorted(caller.by_namespace or ()))}, where the caller is an admin"
            )
            raise ForbiddenError(f"namespaces: {rule}", errors=[FieldError(("namespaces",), rule)])
        who = caller.name
        if names and not set(scopes) <= {Scope.PUSH, Scope.WORK}:
            raise InvalidError(
                "only a token with the scopes push, work or both can have names",
                errors=[FieldError(("names",), "allowed only with the scopes push and work")],
            )
        for index, pattern in enumerate(names):
            try:
                compile_glob(pattern)
            except ValueError as exc:
                raise invalid([FieldError(("names", index), str(exc))]) from None
        if ttl_ms is not None:
            expires_at_ms = self._directory.read_at_ms + ttl_ms
        if expires_at_ms is not None and expires_at_ms <= self._directory.read_at_ms:
            raise invalid([FieldError(("expires_at",), "must lie in the future")])
        lasts = expires_at_ms is None
        self._admins.check_first(is_admin=Scope.ADMIN in scopes and lasts and not namespaces)
        text, token = self._new(label, frozenset(scopes), tuple(names), expires_at_ms, who)
        token = replace(token, namespaces=tuple(dict.fromkeys(namespaces)))
        access_entry = entry(who, "token.create", token.id, None, audited_token(token))
        forgotten: list[tuple[str, StoredToken | None, StoredToken | None]] = [
            (old.id, old, None)
            for old in self._directory.tokens.values()
            if old.is_expired(self._directory.read_at_ms - KEEP_EXPIRED_MS)
        ]
        await self._put([(token.id, None, token), *forgotten[:100]], access_entry)
        return text, token

    async def rotate(self, token_id: str, *, overlap_ms: int, caller: Principal) -> tuple[str, StoredToken]:
        """Replace a token by a new token with the same rights. Return the text and the entry of the new token. Raise
        NotFoundError, ConflictError.

        The old token stays valid for `overlap_ms`. The new token gets the lifetime that the old token had when it was
        created.
        """
        await self._directory.reload()
        old, who = self._get(token_id, caller), caller.name
        now_ms = self._directory.read_at_ms
        if old.is_expired(now_ms):
            raise ConflictError("the token has expired; create a new one", code="token_expired")
        expires_at_ms = None if old.expires_at_ms is None else now_ms + old.expires_at_ms - old.created_at_ms
        text, token = self._new(old.label, old.scopes, old.names, expires_at_ms, who)
        token = replace(token, lineage=old.lineage or old.id, namespaces=old.namespaces)
        ends_ms = min(now_ms + overlap_ms, old.expires_at_ms or now_ms + overlap_ms)
        access_entry = entry(
            who, "token.rotate", old.id, audited_token(old), audited_token(token) | {"id": token.id}
        )
        ended = replace(old, expires_at_ms=ends_ms) if overlap_ms else None
        await self._put([(token.id, None, token), (old.id, old, ended)], access_entry)
        return text, token

    async def revoke(self, token_id: str, caller: Principal) -> None:
        """Revoke a token. The revocation takes effect at this master at once, and at the other masters within
        `TRUSTED_S`. Raise NotFoundError, ConflictError (`last_admin`)."""
        await self._directory.reload()
        old, who = self._get(token_id, caller), caller.name
        await self._admins.check_last(without_token=token_id)
        access_entry = entry(who, "token.revoke", old.id, audited_token(old), None)
        await self._put([(old.id, old, None)], access_entry)

    def _new(
        self,
        label: str,
        scopes: frozenset[Scope],
        names: tuple[str, ...],
        expires_at_ms: int | None,
        who: str,
    ) -> tuple[str, StoredToken]:
        made = make_token(scopes)
        now_ms = self._directory.read_at_ms
        return made.text, StoredToken(made.id, label, scopes, names, made.digest, now_ms, who, expires_at_ms)

    def _get(self, token_id: str, caller: Principal) -> StoredToken:
        token = self._directory.tokens.get(token_id)
        if token is None or not _may_manage(caller, token.namespaces):
            raise NotFoundError(f"no token {token_id[:64]}", code="unknown_token")
        return token

    async def _put(
        self, changes: Sequence[tuple[str, StoredToken | None, StoredToken | None]], access_entry: bytes
    ) -> None:
        word = await self._store.put_tokens(changes, access_entry=access_entry)
        if word == "full":
            raise ConflictError("there are too many tokens; revoke some", code="too_many_tokens")
        if word == "changed":
            raise ConflictError(
                "another caller changed the token at the same time; read it again", code="changed_meanwhile"
            )
        await self._directory.reload_after_change()


def _may_manage(caller: Principal, namespaces: Sequence[str]) -> bool:
    """Return whether the caller may create, replace and revoke tokens that are valid in these namespaces. Empty: tokens
    that are valid in all namespaces. An admin of only some namespaces may manage tokens that are valid only in
    these."""
    if caller.by_namespace is None:
        return True
    administered = {name for name, one in caller.by_namespace.items() if Scope.ADMIN in one.scopes}
    return bool(namespaces) and administered.issuperset(namespaces)
