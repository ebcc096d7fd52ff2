"""Authentication by tokens with scopes or by browser sessions. If no token and no user exists, callers on this
machine need neither."""

import functools
import hmac
import ipaddress
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

from jqmaster.api.encoding.negotiation import Fields
from jqmaster.api.http.cookies import SessionCookie
from jqmaster.api.http.proxy_login import ProxyLogin, check_proxy_csrf
from jqmaster.config import Settings
from jqmaster.domain.identity.access import LOCAL, ConfiguredTokens, Principal, Scope, digest_of, make_token
from jqmaster.domain.identity.caller import TrustedProxies
from jqmaster.domain.namespaces.namespace import DEFAULT
from jqmaster.errors import (
    ForbiddenError,
    JqmasterError,
    NotFoundError,
    UnauthorizedError,
    UnparsableError,
    unknown_namespace,
)
from jqmaster.service.identity.sessions import Session

__all__ = ["AccessPolicy", "Principal", "Scope"]

_LOCAL: Final = Principal(LOCAL, frozenset(Scope))
# Principal of the worker in this process, as long as the master requires no tokens.
_OWN: Final = Principal(LOCAL, frozenset(Scope), is_own=True)
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_DEFAULT_PORTS: Final = {"http": "80", "https": "443"}

FIRST_TOKEN_FILE: Final = "first_token"  # noqa: S105  a file name
CSRF_FIELD: Final = b"x-csrf-token"


class Credentials(Protocol):
    """Tokens and users that are kept in the store; see `IdentityDirectory`."""

    @property
    def has_any(self) -> bool: ...

    def find(self, token: bytes) -> Principal | None: ...


class Sessions(Protocol):
    """Logins of browsers; see `SessionService`."""

    async def find(self, secret: str) -> Session | None: ...


class AccessPolicy:
    """Decides whether to admit each request before any of its body is read."""

    def __init__(
        self,
        tokens: Iterable[str] | ConfiguredTokens = (),
        *,
        host: str = "127.0.0.1",
        allowed_hosts: Iterable[str] = (),
        public_url: str | None = None,
        has_tls: bool = False,
        credentials: Credentials | None = None,
        sessions: Sessions | None = None,
        own_sessions: Sessions | None = None,
        trusted_proxies: Iterable[str] = (),
        proxy_login: ProxyLogin | None = None,
        namespace: str = DEFAULT,
    ) -> None:
        """Decide on the requests of one namespace.

        * `tokens`: see `ConfiguredTokens`.
        * `host`: the address that the master listens on.
        * `namespace`: the name of the namespace. A caller with a token that is valid only in other namespaces
          does not learn that this one exists.
        * `own_sessions`: logins with the namespace's own tokens. They take precedence over logins of the
          installation.
        * `cookie_of`: `cookie_of(namespace=…)` returns the cookie of the namespace's own logins.
        """
        self._configured = tokens if isinstance(tokens, ConfiguredTokens) else ConfiguredTokens(tokens)
        self._credentials = credentials
        self._sessions = sessions
        self._own_sessions = own_sessions
        self._proxies = TrustedProxies(trusted_proxies)
        self._demands_credentials = not self._configured.is_empty or public_url is not None
        # Used only if people log in through a proxy.
        self.proxy_login: Final = proxy_login
        self._namespace = namespace
        self.cookie = SessionCookie(public_url, has_tls=has_tls)
        self.cookie_of = functools.partial(SessionCookie, public_url, has_tls=has_tls)
        self.own_cookie = self.cookie_of(namespace=namespace) if own_sessions else None
        self._public_origin = _origin(public_url) if public_url else None
        listed = {name.lower().strip("[]").rstrip(".") for name in allowed_hosts}
        self._any_host = not self._configured.is_empty and not listed
        self._hosts = listed | {"localhost", host.lower().strip("[]")}
        if self._public_origin:
            self._hosts.add(self._public_origin[1])

    @classmethod
    def from_settings(
        cls,
        settings: Settings,
        own_tokens: Iterable[str] = (),
        *,
        configured: ConfiguredTokens | None = None,
        credentials: Credentials | None = None,
        sessions: Sessions | None = None,
        own_sessions: Sessions | None = None,
        proxy_login: ProxyLogin | None = None,
        namespace: str = DEFAULT,
    ) -> "AccessPolicy":
        """Return the policy of the settings.

        * `configured`: the result of `configured_tokens`. None: this method calls that function, and raises the
          same errors.
        """
        return cls(
            configured or configured_tokens(settings, own_tokens),
            host=settings.host,
            allowed_hosts=settings.allowed_hosts,
            public_url=settings.public_url,
            has_tls=settings.tls_certfile is not None,
            credentials=credentials,
            sessions=sessions,
            own_sessions=own_sessions,
            trusted_proxies=settings.trusted_proxies,
            proxy_login=proxy_login,
            namespace=namespace,
        )

    @property
    def is_open(self) -> bool:
        """Return whether callers on this machine need no credential because no token and no user exists."""
        return not self._demands_credentials and not (self._credentials and self._credentials.has_any)

    def address(self, fields: Fields, client_host: str | None) -> str:
        """Return the address of the caller: the address that trusted proxies report, or else the peer's address
        (`client_host`; None for a unix socket)."""
        return self._proxies.origin(client_host or "", fields.get(b"x-forwarded-for"))

    async def session(self, fields: Fields) -> Session | None:
        """Return the session that the browser's cookie names, or None.

        The result is also None if two cookies name different sessions, because somebody else may have planted one
        of these cookies in the browser. Each cookie costs a round trip to the store."""
        if self._sessions is None or self.is_open:
            return None
        if self._own_sessions and self.own_cookie:
            own = await _the_one(self._own_sessions, self.own_cookie.candidates(fields))
            if own is not None:
                return own
        return await _the_one(self._sessions, self.cookie.candidates(fields))

    def secrets(self, fields: Fields) -> list[str]:
        """Return the values of the browser's cookies that could be the secret of a session."""
        own = self.own_cookie.candidates(fields) if self.own_cookie else []
        return own + self.cookie.candidates(fields)

    def authorize(
        self,
        method: str,
        fields: Fields,
        client_host: str | None,
        scope: Scope,
        session: Session | None = None,
        *,
        has_effect: bool = False,
        person: Principal | None = None,
        also: Scope | None = None,
        is_of_installation: bool = False,
    ) -> Principal:
        """Return the caller if it has the scope `scope` or the scope `also`.

        * `client_host`: the peer's address, None for a unix socket.
        * `has_effect`: the request has an effect although its method normally has none.
        * `person`: the person whom a proxy names.
        * `is_of_installation`: the request concerns all namespaces.

        Raises:

        * UnparsableError (`bad_host`)
        * UnauthorizedError
        * ForbiddenError (`cross_site`, `csrf`, `local_only`, `forbidden`)
        * NotFoundError (`unknown_namespace`)
        """
        self.check_site(method, fields, has_effect=has_effect)
        principal = self._principal(fields, client_host, session, person)
        if session is not None and principal is session.principal:
            check_csrf(method, fields, session)
        elif person is not None and principal is person and method not in _SAFE_METHODS:
            check_proxy_csrf(fields, CSRF_FIELD)
        if principal.by_namespace is not None:
            is_theirs = is_of_installation and self._namespace == DEFAULT
            principal = principal.at_installation() if is_theirs else self._here(principal)
        if scope not in principal.scopes and also not in principal.scopes:
            either = scope if also is None else f"{scope} or {also}"
            raise ForbiddenError(f"the caller does not have the scope {either}")
        return principal

    def identify(
        self,
        fields: Fields,
        client_host: str | None,
        session: Session | None = None,
        person: Principal | None = None,
    ) -> Principal | None:
        """Return the caller of a public route, or None if the caller is unknown. This method refuses no request."""
        try:
            self.check_host(fields)
            return self.seen_here(self._principal(fields, client_host, session, person))
        except JqmasterError:
            return None

    def seen_here(self, principal: Principal) -> Principal | None:
        """Return a known caller with its scopes in this namespace.

        If the caller has no scope here, return None, because it must not learn that the namespace exists. For
        `default`, return the caller without scopes instead, because everybody knows that `default` exists.
        """
        if principal.by_namespace is None:
            return principal
        try:
            return self._here(principal)
        except NotFoundError:
            return principal if self._namespace == DEFAULT else None

    def check_site(self, method: str, fields: Fields, *, has_effect: bool = False) -> None:
        """Refuse a request that a browser sends for a page of another site. Raises UnparsableError, ForbiddenError."""
        self.check_host(fields)
        # A request with one of these fields comes from a browser, because only browsers send them.
        is_from_page = b"origin" in fields or b"sec-fetch-site" in fields
        if is_from_page and (has_effect or method not in _SAFE_METHODS):
            self._refuse_cross_site(fields)

    def check_host(self, fields: Fields) -> None:
        """Refuse a Host that is not ours. Otherwise, a page could use DNS rebinding to send requests to a master
        on loopback."""
        if self._any_host or self._is_ours(_host_name(fields.get(b"host", b""))):
            return
        raise UnparsableError("the Host header names another server", code="bad_host")

    def check_host_without_token(self, fields: Fields) -> None:
        """Refuse a host name that DNS rebinding may have pointed to this master.

        Use this check for a caller that needs no token although tokens exist. An IP address cannot be rebound."""
        host = _host_name(fields.get(b"host", b""))
        if not (self._is_ours(host) or _is_address(host)):
            raise UnparsableError(
                "without a token, the Host header must be an IP address or a name in `allowed_hosts`",
                code="bad_host",
            )

    def _is_ours(self, host: str) -> bool:
        return host in self._hosts or is_loopback(host)

    def _principal(
        self, fields: Fields, client_host: str | None, session: Session | None, person: Principal | None
    ) -> Principal:
        if (authorization := fields.get(b"authorization")) is not None and not self.is_open:
            return self._authenticate(authorization)
        if person is not None:
            return person
        if session is not None:
            return session.principal
        if not self.is_open:
            raise UnauthorizedError("a bearer token or a login is required")
        if client_host is not None and not is_loopback(client_host):
            raise ForbiddenError(
                "as long as there are no tokens and no users, the master serves only callers on its own "
                "machine",
                code="local_only",
            )
        if authorization is not None:
            known = self._configured.find(digest_of(authorization.partition(b" ")[2].strip()))
            return _OWN if known is not None and known.is_own else _LOCAL
        return _LOCAL

    def _here(self, principal: Principal) -> Principal:
        """Return the caller with its scopes in this namespace. Raise NotFoundError if it has no scope here."""
        members = principal.by_namespace or {}
        found = members.get(self._namespace, principal)
        if not found.scopes:
            raise unknown_namespace(self._namespace)
        # In `default`, keep the list of namespaces to which the caller is restricted, because tokens of the whole
        # installation are managed in `default`.
        if self._namespace != DEFAULT:
            return replace(found, by_namespace=None)
        return replace(found, by_namespace=members, elsewhere=principal.scopes)

    def _authenticate(self, authorization: bytes) -> Principal:
        kind, _, token = authorization.partition(b" ")
        if kind.lower() != b"bearer" or not token:
            raise UnauthorizedError("a bearer token is required")
        token = token.strip()
        if self._credentials is not None:
            found = self._credentials.find(token)
        else:
            found = self._configured.find(digest_of(token))
        if found is None:
            raise (
                UnauthorizedError("the token is not valid")
                if self._namespace == DEFAULT
                else unknown_namespace(self._namespace)
            )
        return found

    def _refuse_cross_site(self, fields: Fields) -> None:
        if fields.get(b"sec-fetch-site") == b"cross-site":
            raise ForbiddenError("requests from other sites are refused", code="cross_site")
        if (origin := fields.get(b"origin")) is None:
            return
        theirs = _origin(origin.decode("latin-1"))
        public = self._public_origin
        is_ours = theirs is not None and (theirs == public or theirs[1:] == _addressed(fields, theirs[0]))
        # If this site uses TLS, refuse pages of our own host without TLS: anybody who can change network traffic
        # can forge such a page.
        is_plain = bool(theirs and public and public[0] == "https" and theirs[:2] == ("http", public[1]))
        if not is_ours or is_plain:
            raise ForbiddenError("requests from other sites are refused", code="cross_site")


async def _the_one(sessions: Sessions, secrets: Iterable[str]) -> Session | None:
    found = [await sessions.find(secret) for secret in secrets]
    valid = [session for session in found if session is not None]
    return valid[0] if len(valid) == 1 else None


def check_csrf(method: str, fields: Fields, session: Session) -> None:
    """Raise ForbiddenError for a change that uses a session without the session's CSRF token: browsers also send
    cookies with requests of other sites."""
    if method in _SAFE_METHODS:
        return
    if not hmac.compare_digest(fields.get(CSRF_FIELD, b""), session.csrf_token.encode()):
        raise ForbiddenError(
            "X-CSRF-Token does not match this session; read it from `GET /api/session`", code="csrf"
        )


def configured_tokens(settings: Settings, own_tokens: Iterable[str] = ()) -> ConfiguredTokens:
    """Return the tokens of the settings and of the token file. If the master needs a first token, also return the
    first token that was generated on this machine.

    `own_tokens` belong to this process. If there are no other tokens, callers still need none.

    Raises ValueError for an unreadable entry. Also raises it if the master does not listen on loopback and there
    is no token (see `generate_first_token`).
    """
    tokens = [token.get_secret_value() for token in settings.tokens]
    if settings.tokens_file is not None:
        tokens += _entries(settings.tokens_file)
    if needs_first_token(settings) and (path := settings.data_dir / FIRST_TOKEN_FILE).exists():
        tokens += _entries(path)
    if not tokens and not is_loopback(settings.host):
        raise ValueError(f"listening on {settings.host} requires tokens, but none are configured")
    return ConfiguredTokens(tokens, own_tokens)


def generate_first_token(settings: Settings) -> str | None:
    """Generate and return the first admin token. Return None if no such token is needed (see `needs_first_token`)
    or if it was generated earlier.

    Only the token's digest is kept (file `first_token` in the data directory, mode 0600). So show the token now:
    nobody can read it later.
    """
    if not needs_first_token(settings):
        return None
    made = make_token({Scope.ADMIN})
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    entry = f"admin:sha256={made.digest.hex()}\n"
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
    return made.text


def needs_first_token(settings: Settings) -> bool:
    """Return whether the master needs a first token: no token is configured, and the network or the callers of a
    proxy can reach the master."""
    is_exposed = settings.public_url is not None or not is_loopback(settings.host)
    return is_exposed and not (settings.tokens or settings.tokens_file)


# Cached because every request checks its peer and its Host.
@functools.lru_cache(maxsize=1024)
def is_loopback(host: str) -> bool:
    """Return whether the name or address always means the local machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _entries(path: Path) -> list[str]:
    lines = (line.strip() for line in path.read_text().splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _origin(url: str) -> tuple[str, str, str] | None:
    """Return scheme, host and port, or None if `url` is not a web address."""
    try:
        parts = urlsplit(url)
        if not parts.hostname:
            return None
        default_port = _DEFAULT_PORTS[parts.scheme]
        return parts.scheme, parts.hostname, str(parts.port or default_port)
    except (ValueError, KeyError):
        return None


def _addressed(fields: Fields, scheme: str) -> tuple[str, str]:
    host = fields.get(b"host", b"")
    return _host_name(host), _host_port(host) or _DEFAULT_PORTS[scheme]


# Cached because most callers always send the same Host. The cache is bounded because callers can make up addresses.
@functools.lru_cache(maxsize=256)
def _host_name(host: bytes) -> str:
    name = host.decode("latin-1").lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0].rstrip(".")


def _host_port(host: bytes) -> str:
    return host.decode("latin-1").rpartition("]")[2].partition(":")[2]
