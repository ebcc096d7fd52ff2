"""Scopes, roles, callers, and the form of tokens."""

import hashlib
import hmac
import re
import secrets
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NamedTuple


class Scope(StrEnum):
    """A right of a caller. `operate` includes `read`; `admin` includes everything."""

    PUSH = "push"
    WORK = "work"
    READ = "read"
    OPERATE = "operate"
    ADMIN = "admin"


class Role(StrEnum):
    """The role of a user."""

    # The user has no rights, except by other roles in single namespaces.
    NONE = "none"
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


_IMPLIED: Final[Mapping[Scope, frozenset[Scope]]] = {
    Scope.OPERATE: frozenset({Scope.READ}),
    Scope.ADMIN: frozenset(Scope),
}
ROLE_SCOPES: Final[Mapping[Role, frozenset[Scope]]] = {
    Role.NONE: frozenset(),
    Role.VIEWER: frozenset({Scope.READ}),
    Role.OPERATOR: frozenset({Scope.READ, Scope.OPERATE, Scope.PUSH}),
    Role.ADMIN: frozenset(Scope),
}

_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,512}")
_DIGEST: Final = re.compile(r"sha256=([0-9a-fA-F]{64})")
# The length of a token's secret: 192 bits cannot be guessed, so storing a fast digest is safe.
_SECRET_BYTES: Final = 24
_OWN_TOKEN: Final = re.compile(r"jqm_[a-z-]{4,40}_([0-9a-f]{12})_[0-9a-f]{48}([0-9a-f]{8})")


# The name of the caller while there are neither users nor tokens. It is anybody on this machine.
LOCAL: Final = "local"


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller.

    * `name`: for the audit log: `local`, `user:NAME`, `token:ID`, or for a configured token the first 8 digits of its
      digest.
    * `identity`: stays the same when a token is rotated.
    * `allows_name`: whether it may push and run jobs of a name. None: all names are allowed.
    * `by_namespace`: the same caller in each namespace where it has other scopes. In all other namespaces, it has
      `scopes`. None: it has `scopes` everywhere.
    * `elsewhere`: the scopes in other namespaces, if `scopes` hold only in the present one.
    """

    name: str
    scopes: frozenset[Scope]
    allows_name: Callable[[str], bool] | None = field(default=None, compare=False)
    lineage: str = ""
    # Whether the token exists only in this process.
    is_own: bool = field(default=False, compare=False)
    by_namespace: "Mapping[str, Principal] | None" = field(default=None, compare=False)
    elsewhere: frozenset[Scope] = field(default=frozenset(), compare=False)

    @property
    def identity(self) -> str:
        return self.lineage or self.name

    def namespaces_with(self, scope: Scope) -> frozenset[str] | None:
        """Return the namespaces in which this caller, as seen in the namespace `default`, has `scope`. None: in all."""
        if self.by_namespace is None or scope in self.elsewhere:
            return None
        return frozenset(name for name, one in self.by_namespace.items() if scope in one.scopes)

    def bound_to(self, namespaces: Iterable[str]) -> "Principal":
        """Return this caller with its scopes in these namespaces, and none elsewhere."""
        return replace(self, scopes=frozenset(), by_namespace=dict.fromkeys(namespaces, self))

    def with_roles(self, roles: "Mapping[str, Role]") -> "Principal":
        """Return this caller with the scopes of these roles by namespace, in addition to its own."""
        if not roles or Scope.ADMIN in self.scopes:
            return self
        members = {
            name: replace(self, scopes=self.scopes | ROLE_SCOPES[role]) for name, role in roles.items()
        }
        return replace(self, by_namespace=members)

    def at_installation(self) -> "Principal":
        """Return this caller with the scopes for operations on the installation. A caller that may read in a namespace
        may also read data of the installation about that namespace. `by_namespace`: the namespaces that the caller may
        see. None: all."""
        if self.by_namespace is None or Scope.READ in self.scopes:
            return replace(self, by_namespace=None)
        readable = {name: one for name, one in self.by_namespace.items() if Scope.READ in one.scopes}
        return replace(self, scopes=frozenset({Scope.READ} if readable else ()), by_namespace=readable)


def with_implied(scopes: Iterable[Scope]) -> frozenset[Scope]:
    """Return the scopes together with the scopes that they include."""
    given = set(scopes)
    return frozenset(given.union(*(_IMPLIED.get(scope, frozenset()) for scope in given)))


def role_of(scopes: frozenset[Scope]) -> Role | None:
    """Return the highest role that these scopes cover, or None if they do not even allow reading."""
    for role, scope in ((Role.ADMIN, Scope.ADMIN), (Role.OPERATOR, Scope.OPERATE), (Role.VIEWER, Scope.READ)):
        if scope in scopes:
            return role
    return None


class NewToken(NamedTuple):
    """A new token. `text` is shown once; only `digest`, its SHA-256, is stored."""

    id: str
    text: str
    digest: bytes


def make_token(scopes: Iterable[Scope]) -> NewToken:
    """Return a new token of the form `jqm_SCOPE-SCOPE_ID_SECRET`, so that scanners recognize leaked tokens. The secret
    ends with a checksum of the whole token."""
    token_id = secrets.token_hex(6)
    text = f"jqm_{'-'.join(sorted(scopes))}_{token_id}_{secrets.token_hex(_SECRET_BYTES)}"
    text += _checksum(text)
    return NewToken(token_id, text, digest_of(text.encode()))


def token_id_of(text: str) -> str | None:
    """Return the ID in a token of the form that `make_token` gives. None: the text has another form or a wrong
    checksum."""
    match = _OWN_TOKEN.fullmatch(text)
    return match[1] if match and hmac.compare_digest(_checksum(text[:-8]), match[2]) else None


def digest_of(token: bytes) -> bytes:
    """Return the SHA-256 of a token."""
    return hashlib.sha256(token).digest()


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


class ConfiguredTokens:
    """The tokens of the settings, as digests."""

    def __init__(self, tokens: Iterable[str] = (), own_tokens: Iterable[str] = ()) -> None:
        """Parse tokens of the form `scope+scope:token` or `scope+scope:sha256=HEX`. Raise ValueError for a faulty
        token, which the error names by its number.

        `own_tokens` belong to this process. If there are no other tokens, callers need no token.
        """
        self._principals = [_parse_token(number, text) for number, text in enumerate(tokens, 1)]
        self.is_empty = not self._principals
        for number, text in enumerate(own_tokens, 1):
            digest, principal = _parse_token(number, text)
            self._principals.append((digest, replace(principal, is_own=True)))

    def find(self, digest: bytes) -> Principal | None:
        """Return the caller whose token has this digest."""
        found = None
        # Compare all tokens. Otherwise the time taken would reveal which token matches, and how much of it.
        for known, principal in self._principals:
            if hmac.compare_digest(known, digest):
                found = principal
        return found

    @property
    def have_admin(self) -> bool:
        """Return whether one of the tokens has scope admin."""
        return any(Scope.ADMIN in principal.scopes for _, principal in self._principals)


def _parse_token(number: int, text: str) -> tuple[bytes, Principal]:
    names, _, token = text.partition(":")
    try:
        scopes = {Scope(name) for name in names.split("+")}
    except ValueError:
        raise ValueError(
            f"token {number}: expected scope+scope:token with scopes {', '.join(Scope)}"
        ) from None
    if match := _DIGEST.fullmatch(token):
        digest = bytes.fromhex(match[1])
    elif _TOKEN.fullmatch(token) and not token.startswith("sha256="):
        digest = digest_of(token.encode())
    else:
        raise ValueError(
            f"token {number}: the token is not 1 to 512 printable ASCII characters or sha256=HEX"
        )
    return digest, Principal(digest.hex()[:8], with_implied(scopes))
