"""Tokens and users. Only the digest or hash of a secret is stored."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgpack

from jqmaster.domain.identity.access import Role, Scope
from jqmaster.store import codec
from jqmaster.store.link.scripts import Arg
from jqmaster.store.link.shard import Shard

logger = logging.getLogger(__name__)

MAX_TOKENS: Final = 2_000

MAX_USERS: Final = 2_000


@dataclass(frozen=True, slots=True)
class StoredToken:
    """A stored token.

    * `names`: globs of the job names that the token may push and run. Empty: all.
    * `digest`: SHA-256 of the token.
    * `namespaces`: the namespaces to which it gives access. Empty: all, or only the namespace in whose store it is.
    * `lineage`: ID of the first token in a chain of rotations; empty for the first token itself.
    """

    id: str
    label: str
    scopes: frozenset[Scope]
    names: tuple[str, ...]
    digest: bytes
    created_at_ms: int
    created_by: str
    expires_at_ms: int | None
    lineage: str = ""
    namespaces: tuple[str, ...] = ()

    def is_expired(self, now_ms: int) -> bool:
        return self.expires_at_ms is not None and now_ms >= self.expires_at_ms

    def encode(self) -> bytes:
        return codec.pack(
            {
                "label": self.label,
                "scopes": sorted(self.scopes),
                "names": list(self.names),
                "digest": self.digest,
                "created_at_ms": self.created_at_ms,
                "created_by": self.created_by,
                "expires_at_ms": self.expires_at_ms,
                # Leave out an empty field, because masters of earlier releases cannot read a token with this field.
                **({"lineage": self.lineage} if self.lineage else {}),
                # Masters that do not know this field grant such a token no access at all.
                **({"namespaces": list(self.namespaces)} if self.namespaces else {}),
            }
        )

    @classmethod
    def decode(cls, token_id: str, document: bytes) -> "StoredToken | None":
        """Decode a token. None: it cannot be read, and gives no access."""
        try:
            fields = msgpack.unpackb(document)
            scopes = frozenset(map(Scope, fields.pop("scopes")))
            namespaces = tuple(fields.pop("namespaces", ()))
            names = tuple(fields.pop("names"))
            return cls(id=token_id, scopes=scopes, names=names, namespaces=namespaces, **fields)
        except (KeyError, ValueError, TypeError, AttributeError, msgpack.UnpackException):
            logger.warning("token %s: its entry cannot be read", token_id[:64])
            return None


@dataclass(frozen=True, slots=True)
class StoredUser:
    """A stored user.

    * `role`: the role in all namespaces.
    * `roles`: further roles by namespace.
    * `password`: the argon2id hash, with its parameters and salt.
    * `stored`: the document as it was read.
    """

    name: str
    role: Role
    password: str
    created_at_ms: int
    is_disabled: bool = False
    stored: bytes = b""
    roles: Mapping[str, Role] = field(default_factory=dict)

    def encode(self) -> bytes:
        return codec.pack(
            {
                "role": self.role,
                "password": self.password,
                "created_at_ms": self.created_at_ms,
                "is_disabled": self.is_disabled,
                # Masters that do not know this field refuse the login of such a user.
                **({"roles": dict(self.roles)} if self.roles else {}),
            }
        )

    @classmethod
    def decode(cls, name: str, document: bytes) -> "StoredUser | None":
        """Decode a user. None: the document cannot be read, and the user cannot log in."""
        try:
            fields = msgpack.unpackb(document)
            roles = {namespace: Role(role) for namespace, role in fields.pop("roles", {}).items()}
            return cls(name=name, role=Role(fields.pop("role")), roles=roles, stored=document, **fields)
        except (KeyError, ValueError, TypeError, AttributeError, msgpack.UnpackException):
            logger.warning("user %s: the entry cannot be read", name[:64])
            return None


@dataclass(frozen=True, slots=True)
class Directory:
    """All tokens and users at one store time. `version` grows with each change."""

    version: int
    now_ms: int
    tokens: Mapping[str, StoredToken]
    user_count: int


class CredentialStore:
    """Tokens and users of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._client = shard.client
        self._keys = shard.keys

    async def version(self) -> tuple[int, int]:
        """Return the version, and the store's time in ms."""
        version, time = await self._client.pipeline([("HGET", self._keys.identity, "version"), ("TIME",)])
        return int(version or 0), self._ms(time)

    async def load(self) -> Directory:
        """Return all tokens, and the number of users."""
        k = self._keys
        version, flat, user_count, time = await self._client.pipeline(
            [("HGET", k.identity, "version"), ("HGETALL", k.tokens), ("HLEN", k.users), ("TIME",)]
        )
        tokens = (
            StoredToken.decode(flat[n].decode("utf-8", "replace"), flat[n + 1])
            for n in range(0, len(flat), 2)
        )
        return Directory(
            int(version or 0), self._ms(time), {t.id: t for t in tokens if t is not None}, int(user_count)
        )

    async def token_uses(self) -> dict[str, int]:
        """Return when each token was last used, by ID."""
        return await self._times(self._keys.token_uses)

    async def put_tokens(
        self, changes: Sequence[tuple[str, StoredToken | None, StoredToken | None]], *, access_entry: bytes
    ) -> str:
        """Write all of these changes or none of them. Each change has the ID, the value as it was read, and the new
        value. Return `ok`, `changed` (nothing was written) or `full`.
        """
        k = self._keys
        groups: list[Arg] = []
        for token_id, before, after in changes:
            groups += [token_id, before.encode() if before else "", after.encode() if after else ""]
        word, _ = await self._client.run(
            "put_tokens",
            (k.tokens, k.token_uses, k.identity, k.access),
            (
                self._shard.now_arg,
                access_entry,
                MAX_TOKENS,
                k.wake_channel,
                k.session_prefix,
                k.sessions_prefix,
                *groups,
            ),
        )
        return word

    async def note_uses(self, used_ms: Mapping[str, int]) -> None:
        """Record when tokens were last used, by ID."""
        if used_ms:
            k = self._keys
            args: list[Arg] = [part for use in used_ms.items() for part in use]
            await self._client.run("note_token_uses", (k.tokens, k.token_uses), args)

    async def user(self, name: str) -> StoredUser | None:
        document = await self._client.command("HGET", self._keys.users, name)
        return StoredUser.decode(name, document) if document else None

    async def last_login_ms(self, name: str) -> int | None:
        """Return when the user last logged in."""
        found = await self._client.command("HGET", self._keys.logins, name)
        return int(found) if found else None

    async def users(self) -> list[tuple[StoredUser, int | None]]:
        """Return all users by name, each with the last login."""
        flat = await self._client.command("HGETALL", self._keys.users)
        logins = await self._times(self._keys.logins)
        found = (StoredUser.decode(flat[n].decode(), flat[n + 1]) for n in range(0, len(flat), 2))
        return [(u, logins.get(u.name)) for u in sorted((u for u in found if u), key=lambda u: u.name)]

    async def put_user(
        self,
        name: str,
        before: StoredUser | None,
        after: StoredUser | None,
        *,
        access_entry: bytes,
        kept_session: str = "",
    ) -> str:
        """Create (`before` None), change or remove (`after` None) a user. Return `ok`, `changed` (nothing was done) or
        `full`.

        `kept_session`: digest of the session in which users change their own entry. This session stays open, and their
        other sessions end.
        """
        k = self._keys
        word, _ = await self._client.run(
            "put_user",
            (k.users, k.logins, k.sessions(f"user:{name}"), k.identity, k.access, k.access_folds),
            (
                self._shard.now_arg,
                name,
                before.stored if before else "",
                after.encode() if after else "",
                access_entry,
                MAX_USERS,
                k.wake_channel,
                k.session_prefix,
                kept_session,
                f"password {name}" if kept_session else "",
            ),
        )
        return word

    async def _times(self, key: str) -> dict[str, int]:
        flat = await self._client.command("HGETALL", key)
        return {flat[n].decode("utf-8", "replace"): int(flat[n + 1]) for n in range(0, len(flat), 2)}

    def _ms(self, time: Sequence[bytes]) -> int:
        return self._shard.now() if self._shard.now else int(time[0]) * 1000 + int(time[1]) // 1000
