"""People whom a proxy in front of the master has logged in and names in headers."""

import hmac
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from jqmaster.api.encoding.negotiation import Fields
from jqmaster.domain.identity.access import Principal
from jqmaster.domain.identity.caller import TrustedProxies
from jqmaster.domain.identity.group_roles import GroupRoles
from jqmaster.errors import ForbiddenError

logger = logging.getLogger(__name__)

SECRET_FIELD: Final = b"jq-proxy-secret"
# The value of a header that the web UI sends with each change. Only scripts of the master's own pages can send
# this header.
CSRF_TOKEN: Final = "by-proxy"  # noqa: S105  no secret
PREFIX: Final = "proxy:"
MAX_NAME: Final = 128
_WARN_EVERY_S: Final = 60.0
_FORWARDED_FOR: Final = b"x-forwarded-for"


@dataclass(frozen=True, slots=True)
class ProxyLoginRules:
    """The headers of the login proxies, and the roles of people.

    * `proxies`: the networks of the login proxies.
    * `between`: the networks of other proxies between the login proxies and the master.
    * `secret`: the secret by which the login proxies prove themselves. Empty: no proof is required.
    """

    user_header: str
    groups_header: str | None
    proxies: TrustedProxies
    between: TrustedProxies
    secret: str
    roles: GroupRoles


class ProxyLogin:
    """Identifies the caller by the headers of a request."""

    def __init__(self, rules: ProxyLoginRules, monotonic_s: Callable[[], float]) -> None:
        self._user_field = rules.user_header.lower().encode()
        self._groups_field = (rules.groups_header or "").lower().encode()
        self._single = {self._user_field, self._groups_field, SECRET_FIELD}
        self._rules = rules
        self._monotonic_s = monotonic_s
        self._warn_at_s = float("-inf")

    def person(
        self, headers: Iterable[tuple[bytes, bytes]], fields: Fields, client_host: str | None
    ) -> Principal | None:
        """Return the person whom a login proxy names. Return None if no proxy names anybody. If the proxy is not
        trusted, log this and return None.

        * `headers`: the headers as received.
        * `fields`: the headers with repeated fields joined.

        Raise ForbiddenError (`no_role`, `no_login_name`).
        """
        if self._user_field not in fields:
            return None
        if fault := self._fault(headers, fields, client_host):
            self._warn(fault, client_host)
            return None
        name = _text(fields[self._user_field])
        if not 0 < len(name) <= MAX_NAME or not name.isprintable():
            raise ForbiddenError("the proxy gives the person no usable name", code="no_login_name")
        groups = [group.strip() for group in _text(fields.get(self._groups_field, b"")).split(",")]
        roles = self._rules.roles.roles_of(groups)
        if roles is None:
            raise ForbiddenError(f"{name} is in no group that has a role", code="no_role")
        return roles.principal(PREFIX + name)

    def _fault(
        self, headers: Iterable[tuple[bytes, bytes]], fields: Fields, client_host: str | None
    ) -> str | None:
        rules = self._rules
        if not rules.proxies.have_forwarded(client_host or "", fields.get(_FORWARDED_FOR), rules.between):
            return "the request did not come through a network of login_proxies"
        if rules.secret and not hmac.compare_digest(fields.get(SECRET_FIELD, b""), rules.secret.encode()):
            return "the request lacks the secret of the proxy"
        # Refuse a header that occurs twice: the proxy may have added its header without removing the caller's
        # header.
        names = [name for name, _ in headers if name in self._single]
        if len(names) != len(set(names)):
            return "a header of the login occurs twice"
        return None

    def _warn(self, fault: str, client_host: str | None) -> None:
        now_s = self._monotonic_s()
        if now_s < self._warn_at_s:
            return
        self._warn_at_s = now_s + _WARN_EVERY_S
        logger.warning(
            "the header %s of a request from %s is ignored: %s",
            self._rules.user_header,
            client_host or "a unix socket",
            fault,
        )


def check_proxy_csrf(fields: Fields, field: bytes) -> None:
    """Raise ForbiddenError for a change that a browser sends for a page of another site. The proxy does not
    detect such requests."""
    if fields.get(field) != CSRF_TOKEN.encode():
        raise ForbiddenError(f"X-CSRF-Token must be {CSRF_TOKEN!r}, as `GET /api/session` says", code="csrf")


def _text(value: bytes) -> str:
    try:
        return value.decode("utf-8").strip()
    except UnicodeDecodeError:
        return value.decode("latin-1").strip()
