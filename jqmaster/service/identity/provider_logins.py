"""Logins by an OpenID Connect provider: the authorization code flow with PKCE, state and nonce.

The browser keeps one secret in a cookie, and everything that a pending login needs is derived from this secret. So any
master can finish a login that another master began. A stranger who begins many logins uses no memory.
"""

import base64
import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jqmaster.domain.identity.group_roles import GroupRoles, find_claim
from jqmaster.errors import ForbiddenError, JqmasterError, ProviderUnavailableError, UnauthorizedError
from jqmaster.service.identity.directory import IdentityDirectory
from jqmaster.service.identity.logins import LoginService
from jqmaster.service.identity.sessions import PROVIDER_PREFIX
from jqmaster.store.identity.sessions import Grant

if TYPE_CHECKING:  # most masters have no provider, and without these libraries they start faster
    from jqmaster.net.oidc_provider import Identified, OidcProvider

logger = logging.getLogger(__name__)

HOME: Final = "#/overview"
MAX_NAME: Final = 128
# A longer ID token is not stored. A logout at the provider then cannot send it as a hint, and some providers ask the
# person to confirm the logout.
MAX_ID_TOKEN: Final = 16 * 1024
_COOKIE: Final = re.compile(r"([A-Za-z0-9_-]{43})\.([A-Za-z0-9_-]{0,1600})")
_PAGE: Final = re.compile(r"#/[!-~]{0,1000}")
# `LedTo` as text: the digest of the browser's own session, the place of the namespace, and the page.
_LED_TO: Final = re.compile(r"(?:([0-9a-f]{64}) )?(?:ns/([a-z][a-z0-9-]{1,38})/)?(.*)", re.DOTALL)
# The address of the login page for somebody who came to answer a question. After the login, the page opens the
# question.
_QUESTION: Final = re.compile(r"#/login\?then=callbacks/[A-Za-z0-9_-]{54}")
_MAX_CODE: Final = 4096


@dataclass(frozen=True, slots=True)
class ProviderPolicy:
    """The rules by which people get a role and a name. `label`: the name of the provider. `home_url`: the address of
    the web UI."""

    group_roles: GroupRoles
    user_claim: str
    groups_claim: str
    label: str
    home_url: str


class Begun(NamedTuple):
    """A login that has begun. `url`: the address at the provider to which the browser is sent. `cookie`: the cookie
    that the browser keeps."""

    url: str
    cookie: str


class LedTo(NamedTuple):
    """The place in the web UI where a login was begun, and to which it returns.

    * `namespace`: empty for the web UI of the installation.
    * `page`: the page that the browser requested. It is not checked yet.
    * `own_session`: the digest of the session that a token of the namespace opened in this browser. Empty: there is no
      such session.
    """

    namespace: str
    page: str
    own_session: str

    @property
    def place(self) -> str:
        """Return the path of the namespace's web UI, relative to the web UI of the installation."""
        return f"ns/{self.namespace}/" if self.namespace else ""


class Returned(NamedTuple):
    """The parameters with which the provider sent the browser back."""

    code: str
    state: str
    issuer: str | None
    error: str


class ProviderLogins:
    """Begins and finishes logins. Methods raise ProviderUnavailableError, and what the store raises."""

    def __init__(
        self,
        provider: "OidcProvider",
        policy: ProviderPolicy,
        logins: LoginService,
        directory: IdentityDirectory,
    ) -> None:
        self.provider = provider
        self.policy = policy
        self._logins = logins
        self._directory = directory

    async def begin(self, page: str, prefix: str = "", *, own_session: str = "") -> Begun:
        """Begin a login that leads to `page` of the web UI, such as `#/jobs?state=failed`.

        * `prefix`: `/ns/NAME` for the web UI of a namespace.
        * `own_session`: see `LedTo`.
        """
        secret = secrets.token_urlsafe(32)
        try:
            url = await self.provider.authorize_url(
                state=_derived(secret, "state"),
                nonce=_derived(secret, "nonce"),
                challenge=_encoded(hashlib.sha256(_derived(secret, "verifier").encode()).digest()),
            )
        except ProviderUnavailableError as exc:
            logger.warning("nobody can log in by the provider: %s", exc)
            raise
        own = f"{own_session} " if own_session else ""
        return Begun(url, f"{secret}.{_encoded(f'{own}{place_below(prefix)}{_page_of(page)}'.encode())}")

    def page_of(self, cookie: str | None) -> str:
        """Return the page to which a login leads, relative to the address of the web UI."""
        led_to = self.led_to(cookie)
        return led_to.place + _page_of(led_to.page)

    def led_to(self, cookie: str | None) -> LedTo:
        """Return the namespace, the page and the session in the browser's cookie."""
        kept = _COOKIE.fullmatch(cookie or "")
        found = _LED_TO.fullmatch(_decoded(kept[2]) if kept else "")
        return LedTo(found[2] or "", found[3], found[1] or "") if found else LedTo("", "", "")

    async def finish(
        self, returned: Returned, cookie: str | None, *, address: str, replaces: str | None
    ) -> str:
        """Finish a login, and return the cookie of the new session. `replaces`: the browser's earlier session cookie.

        Raise UnauthorizedError (`login_expired`, `login_denied`, `id_token_invalid`), ForbiddenError (`no_role`,
        `no_login_name`), RateLimitedError. The access log gets each refusal with its reason.
        """
        who = "unknown"
        try:
            secret = _begun_here(returned.state, cookie)
            # A page of another site can make a browser send this request. So count only answers to logins that this
            # browser began. Otherwise, a page of another site could lock out everybody at the browser's address.
            await self._logins.count_attempt(address)
            found = await self._identify(returned, secret)
            who = f"{PROVIDER_PREFIX}{self._name(found.claims)}"
            return await self._admit(who, found, state=returned.state, address=address, replaces=replaces)
        except JqmasterError as exc:
            await self._logins.refused(who, "oidc", address, exc.detail)
            raise

    async def logout_url(self, id_token: str) -> str | None:
        """Return the address at which the provider ends its own session. None: the provider cannot end it."""
        return await self.provider.end_session_url(id_token, self.policy.home_url)

    async def _identify(self, returned: Returned, secret: str) -> "Identified":
        if returned.error or not returned.code or len(returned.code) > _MAX_CODE:
            reason = returned.error[:100] or "it sent no code"
            raise UnauthorizedError(f"the provider refused the login: {reason!r}", code="login_denied")
        return await self.provider.identify(
            returned.code,
            verifier=_derived(secret, "verifier"),
            nonce=_derived(secret, "nonce"),
            named_issuer=returned.issuer,
            is_complete=self._is_complete,
            now_s=self._directory.now_ms // 1000,
        )

    async def _admit(
        self, who: str, found: "Identified", *, state: str, address: str, replaces: str | None
    ) -> str:
        groups = _texts(find_claim(found.claims, self.policy.groups_claim))
        roles = self.policy.group_roles.roles_of(groups)
        if roles is None:
            raise ForbiddenError(
                f"no group in the claim {self.policy.groups_claim} has a role ({len(groups)} groups)",
                code="no_role",
            )
        known = self.policy.group_roles.known(groups)
        subject = str(found.claims["sub"])
        identity = hashlib.sha256(f"{self.provider.issuer}\0{subject}".encode()).hexdigest()[:32]
        after = {
            "by": "oidc",
            "role": str(roles.role),
            **({"namespaces": dict(roles.by_namespace)} if roles.by_namespace else {}),
            "groups": known[:20],
            "subject": subject[:255],
            "address": address,
        }
        return await self._logins.by_provider(
            who.removeprefix(PROVIDER_PREFIX),
            Grant(identity, tuple(known)),
            found.id_token if len(found.id_token) <= MAX_ID_TOKEN else "",
            after,
            state=state,
            replaces=replaces,
        )

    def _is_complete(self, claims: Mapping[str, Any]) -> bool:
        names = self.policy.user_claim, self.policy.groups_claim
        return all(find_claim(claims, name) is not None for name in names)

    def _name(self, claims: Mapping[str, Any]) -> str:
        name = find_claim(claims, self.policy.user_claim)
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME or not name.isprintable():
            raise ForbiddenError(
                f"the claim {self.policy.user_claim} is missing, or is not a printable text of at most {MAX_NAME} "
                "characters",
                code="no_login_name",
            )
        return name


def _begun_here(state: str, cookie: str | None) -> str:
    """Return the secret of the login that this browser has begun. Raise UnauthorizedError (`login_expired`) if it has
    begun no login with this state."""
    match = _COOKIE.fullmatch(cookie or "")
    if match is None:
        raise UnauthorizedError(
            "this browser has not begun a login, or began it too long ago", code="login_expired"
        )
    if not hmac.compare_digest(_derived(match[1], "state").encode(), state.encode()):
        raise UnauthorizedError("the state does not belong to this browser's login", code="login_expired")
    return match[1]


def _derived(secret: str, purpose: str) -> str:
    return _encoded(hmac.new(secret.encode(), purpose.encode(), hashlib.sha256).digest())


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> str:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("ascii")
    except ValueError:
        return ""


def place_below(prefix: str) -> str:
    """Return the path of the web UI of a namespace, relative to the address of the web UI. `prefix`: `/ns/NAME`."""
    return f"{prefix.lstrip('/')}/" if prefix else ""


def _page_of(text: str) -> str:
    """Return `text` if it is a page of the web UI, and otherwise the home page. So a login never leads to another
    site."""
    is_page = _PAGE.fullmatch(text) and not text.startswith("#/login")
    return text if is_page or _QUESTION.fullmatch(text) else HOME


def _texts(value: Any) -> list[str]:
    """Return the texts in the value of a claim. The value may be a list or a single text."""
    if isinstance(value, str):
        return [value]
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
