"""Logins of browsers. Only the digest of a session's secret is stored."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgpack

from jqmaster.store import codec
from jqmaster.store.link.scripts import Arg
from jqmaster.store.link.shard import Shard

# Maximum number of sessions of one user or token.
MAX_SESSIONS: Final = 50


@dataclass(frozen=True, slots=True)
class Grant:
    """The identity and the groups of a person from a login provider. `identity` does not change when the person's name
    changes. `groups`: only groups that have a role."""

    identity: str
    groups: tuple[str, ...]

    def encode(self) -> bytes:
        return codec.pack({"identity": self.identity, "groups": list(self.groups)})

    @classmethod
    def decode(cls, document: bytes) -> "Grant | None":
        """Decode a grant. None: it cannot be read, and gives no access."""
        try:
            fields = msgpack.unpackb(document)
            return cls(str(fields["identity"]), tuple(map(str, fields["groups"])))
        except (KeyError, ValueError, TypeError, msgpack.UnpackException):
            return None


@dataclass(frozen=True, slots=True)
class FoundSession:
    """A valid session.

    * `subject`: `user:NAME`, `token:ID`, `config:DIGEST` or `oidc:NAME`.
    * `credential`: the present document of that user or token, or the `Grant` of a login provider. Empty: none.
    """

    subject: str
    until_ms: int
    credential: bytes


@dataclass(frozen=True, slots=True)
class ListedSession:
    """A session in a list. `opened_ms` 0 and `address` empty: a master of an earlier release opened it."""

    digest: str
    opened_ms: int
    used_ms: int
    until_ms: int
    address: str


class SessionStore:
    """Sessions of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._client = shard.client
        self._keys = shard.keys

    async def open(
        self,
        digest: str,
        subject: str,
        proved: bytes,
        *,
        idle_ms: int,
        life_ms: int,
        old_digest: str,
        address: str,
        counted_user: str,
        place: str,
        access_entry: bytes,
        granted: bytes = b"",
        id_token: str = "",
    ) -> int | None:
        """Open a session, and return when it ends at the latest. Return None if the user or token has changed since it
        was verified. `proved`: the verified document. Empty: the user or token is not in this store.
        """
        k = self._keys
        kind, _, name = subject.partition(":")
        word, data = await self._client.run(
            "open_session",
            (
                k.session(digest),
                k.sessions(subject),
                k.users if kind == "user" else k.tokens,
                k.logins,
                k.login_attempts,
                k.access,
                k.access_folds,
            ),
            (
                self._shard.now_arg,
                digest,
                subject,
                name,
                proved,
                idle_ms,
                life_ms,
                MAX_SESSIONS,
                old_digest,
                address,
                counted_user,
                place,
                access_entry,
                k.session_prefix,
                granted,
                id_token,
            ),
        )
        return int(data[0]) if word == "ok" else None

    async def use(self, digest: str, *, idle_ms: int) -> FoundSession | None:
        """Return the session, and restart its idle time. Return None if it does not exist or is over."""
        k = self._keys
        word, data = await self._client.run(
            "use_session", (k.session(digest), k.users, k.tokens), (self._shard.now_arg, idle_ms)
        )
        return FoundSession(data[0].decode(), int(data[1]), data[2]) if word == "ok" else None

    async def id_token(self, digest: str) -> str:
        """Return the ID token from the login of a session. Empty: the login had no ID token. The provider needs the
        token for a logout.
        """
        found = await self._client.command("HGET", self._keys.session(digest), "id_token")
        return found.decode("ascii", "replace") if found else ""

    async def end(self, digest: str, *, access_entry: bytes) -> bool:
        """End a session, and return whether it existed."""
        k = self._keys
        word, _ = await self._client.run(
            "end_session",
            (k.session(digest), k.access, k.access_folds),
            (self._shard.now_arg, digest, k.sessions_prefix, access_entry),
        )
        return word == "ok"

    async def all_of(self, subject: str) -> list[ListedSession]:
        """Return the sessions of a user or token, the newest first."""
        k = self._keys
        digests = [raw.decode() for raw in await self._client.command("ZRANGE", k.sessions(subject), 0, -1)]
        reads: list[tuple[Arg, ...]] = [
            ("HMGET", k.session(digest), "opened_ms", "used_ms", "until_ms", "address") for digest in digests
        ]
        found = [
            ListedSession(
                digest, int(opened or 0), int(used), int(until), (address or b"").decode("utf-8", "replace")
            )
            for digest, (opened, used, until, address) in zip(
                digests, await self._client.pipeline(reads) if reads else (), strict=True
            )
            if used and until
        ]
        return sorted(found, key=lambda session: -session.until_ms)

    async def end_all_of(
        self, subject: str, digests: Sequence[str], *, access_entry: bytes, is_own: bool
    ) -> int:
        """End these sessions of a user or token, or all if `digests` is empty; return their number."""
        k = self._keys
        _, data = await self._client.run(
            "end_sessions",
            (k.sessions(subject), k.access, k.access_folds),
            (
                self._shard.now_arg,
                k.session_prefix,
                f"logout {subject}" if is_own else "",
                access_entry,
                *digests,
            ),
        )
        return int(data[0])
