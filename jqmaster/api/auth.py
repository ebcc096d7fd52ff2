"""Who may call: bearer tokens with scopes, or, where none is configured, whoever is on this machine."""

import hashlib
import hmac
import ipaddress
import os
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from jqmaster.api.wire import Fields
from jqmaster.config import Settings
from jqmaster.errors import ForbiddenError, JqmasterError, UnauthorizedError, UnparsableError


class Scope(StrEnum):
    """What a token allows. `operate` includes `read`, `admin` everything."""

    PUSH = "push"
    WORK = "work"
    READ = "read"
    OPERATE = "operate"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller: `name` for the audit log (`local`, or the first 8 digits of the token's digest)."""

    name: str
    scopes: frozenset[Scope]


_IMPLIED: Final = {Scope.OPERATE: {Scope.READ}, Scope.ADMIN: set(Scope)}
_LOCAL: Final = Principal("local", frozenset(Scope))
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,512}")
_DIGEST: Final = re.compile(r"sha256=([0-9a-fA-F]{64})")
_DEFAULT_PORTS: Final = {"http": "80", "https": "443"}

FIRST_TOKEN_FILE: Final = "first_token"  # noqa: S105  a file name


class AccessPolicy:
    """Decides on each request before anything of it is read."""

    def __init__(
        self, tokens: Iterable[str] = (), *, host: str = "127.0.0.1", allowed_hosts: Iterable[str] = ()
    ) -> None:
        """`tokens`: `scope+scope:token` or `scope+scope:sha256=HEX`; ValueError names the faulty one by its number.

        `host`: the address that the master listens on.
        """
        self._principals = [_parse_token(number, text) for number, text in enumerate(tokens, 1)]
        listed = {name.lower().strip("[]").rstrip(".") for name in allowed_hosts}
        self._any_host = bool(self._principals) and not listed
        self._hosts = listed | {"localhost", host.lower().strip("[]")}

    @classmethod
    def from_settings(cls, settings: Settings, own_tokens: Iterable[str] = ()) -> "AccessPolicy":
        """Tokens of the settings and their file; off loopback also the first token that was made here. `own_tokens` are
        of this process: where nobody else needs a token they do not either.

        ValueError: an unreadable entry, or an address off loopback without any token (see `generate_first_token`).
        """
        tokens = [token.get_secret_value() for token in settings.tokens]
        if settings.tokens_file is not None:
            tokens += _entries(settings.tokens_file)
        if needs_first_token(settings) and (path := settings.data_dir / FIRST_TOKEN_FILE).exists():
            tokens += _entries(path)
        if not tokens and not is_loopback(settings.host):
            raise ValueError(f"listening on {settings.host} demands tokens, and none is configured")
        if tokens:
            tokens += own_tokens
        return cls(tokens, host=settings.host, allowed_hosts=settings.allowed_hosts)

    def authorize(self, method: str, fields: Fields, client_host: str | None, scope: Scope) -> Principal:
        """The caller, if it may do what asks for `scope`. `client_host`: the peer's address, None for a unix socket.

        Raises UnparsableError (`bad_host`), UnauthorizedError, ForbiddenError (`cross_site`, `local_only`, `forbidden`).
        """
        self.check_host(fields)
        if method not in _SAFE_METHODS:
            _refuse_cross_site(fields)
        principal = self._principal(fields, client_host)
        if scope not in principal.scopes:
            raise ForbiddenError(f"the token does not have the scope {scope}")
        return principal

    def identify(self, fields: Fields, client_host: str | None) -> Principal | None:
        """The caller of what is open to anybody; None where it is not known, which refuses nothing."""
        try:
            self.check_host(fields)
            return self._principal(fields, client_host)
        except JqmasterError:
            return None

    def check_host(self, fields: Fields) -> None:
        """Refuse a Host that is not ours, lest a page on a rebound name talks to a master on loopback."""
        if self._any_host:
            return
        host = _host_name(fields.get(b"host", b""))
        if host not in self._hosts and not is_loopback(host):
            raise UnparsableError("the Host header names another server", code="bad_host")

    def _principal(self, fields: Fields, client_host: str | None) -> Principal:
        if self._principals:
            return self._authenticate(fields.get(b"authorization", b""))
        if client_host is not None and not is_loopback(client_host):
            raise ForbiddenError("without configured tokens only this machine is served", code="local_only")
        return _LOCAL

    def _authenticate(self, authorization: bytes) -> Principal:
        kind, _, token = authorization.partition(b" ")
        if kind.lower() != b"bearer" or not token:
            raise UnauthorizedError("a bearer token is needed")
        digest = hashlib.sha256(token.strip()).digest()
        found = None
        # All are compared, so that the time does not tell which one, or how much of it, fits.
        for known, principal in self._principals:
            if hmac.compare_digest(known, digest):
                found = principal
        if found is None:
            raise UnauthorizedError("the token is not valid")
        return found


def generate_first_token(settings: Settings) -> str | None:
    """An admin token for an address off loopback without any; None where it is not needed or was made before.

    Only its digest is kept (`first_token` in the data directory, mode 0600): show it now, it cannot be read again.
    """
    if not needs_first_token(settings):
        return None
    secret = secrets.token_hex(24)
    token = f"jqm_admin_{secrets.token_hex(4)}_{secret}"
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    entry = f"admin:sha256={hashlib.sha256(token.encode()).hexdigest()}\n"
    try:
        descriptor = os.open(
            settings.data_dir / FIRST_TOKEN_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
        )
    except FileExistsError:
        return None
    with open(descriptor, "w") as file:
        file.write(entry)
        file.flush()
        os.fsync(file.fileno())
    return token


def needs_first_token(settings: Settings) -> bool:
    """Whether the master would be open to the network: listening off loopback with no token configured."""
    return not (settings.tokens or settings.tokens_file or is_loopback(settings.host))


def is_loopback(host: str) -> bool:
    """Whether the name or address means this machine to everybody."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


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
        digest = hashlib.sha256(token.encode()).digest()
    else:
        raise ValueError(
            f"token {number}: the token is not 1 to 512 printable ASCII characters or sha256=HEX"
        )
    for scope in list(scopes):
        scopes |= _IMPLIED.get(scope, set())
    return digest, Principal(digest.hex()[:8], frozenset(scopes))


def _entries(path: Path) -> list[str]:
    lines = (line.strip() for line in path.read_text().splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _refuse_cross_site(fields: Fields) -> None:
    if fields.get(b"sec-fetch-site") == b"cross-site":
        raise ForbiddenError("requests of other sites change nothing here", code="cross_site")
    if (origin := fields.get(b"origin")) is None:
        return
    host = fields.get(b"host", b"")
    try:
        parts = urlsplit(origin.decode("latin-1"))
        default_port = _DEFAULT_PORTS[parts.scheme]
        theirs = (parts.hostname, str(parts.port or default_port))
        same = theirs == (_host_name(host), _host_port(host) or default_port)
    except (ValueError, KeyError):
        same = False
    if not same:
        raise ForbiddenError("requests of other sites change nothing here", code="cross_site")


def _host_name(host: bytes) -> str:
    name = host.decode("latin-1").lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0].rstrip(".")


def _host_port(host: bytes) -> str:
    return host.decode("latin-1").rpartition("]")[2].partition(":")[2]
