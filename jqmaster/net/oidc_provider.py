"""Client of an OpenID Connect provider: discovery, keys, and the exchange of a code for an ID token.

The client calls only the issuer and the endpoints that the issuer's discovery document names. It follows no redirects.
"""

import asyncio
import json
import logging
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote_plus, urlencode, urlsplit

import httpx
from joserfc.jwk import Key

from jqmaster.errors import ProviderUnavailableError, UnauthorizedError
from jqmaster.net.id_token import UnknownKeyError, import_keys, verify
from worker_sdk.transport.tls import client_context

logger = logging.getLogger(__name__)

TIMEOUT_S: Final = 5.0
MAX_ANSWER_BYTES: Final = 256 * 1024
# The discovery document and the keys are read again after this time. If the read fails, the known document and
# keys stay in use.
FRESH_S: Final = 3600.0
# Time after a failure during which callers get the same error at once, instead of waiting for another failure.
AGAIN_AFTER_S: Final = 2.0
# Minimum time between two reads of the keys because of tokens with unknown keys.
KEYS_AGAIN_S: Final = 5.0
_DISCOVERY: Final = "/.well-known/openid-configuration"
_SHOWN_CHARACTERS: Final = 100


@dataclass(frozen=True, slots=True)
class Client:
    """The registration of this client at the provider. Without `secret`, the client is public."""

    issuer: str
    client_id: str
    secret: str | None
    scopes: Sequence[str]
    redirect_uri: str
    cafile: Path | None = None


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Endpoints and features that a discovery document names. `auth_methods`: the methods by which the client may
    authenticate at the token endpoint."""

    authorize: str
    token: str
    keys: str
    userinfo: str | None
    end_session: str | None
    auth_methods: tuple[str, ...]
    names_itself: bool


@dataclass(frozen=True, slots=True)
class Identified:
    """A person whom the provider has identified. `claims`: the claims of the ID token, and of the userinfo
    endpoint if it was called."""

    claims: Mapping[str, Any]
    id_token: str


class OidcProvider:
    """Component: calls the OpenID Connect provider. Methods raise ProviderUnavailableError, or UnauthorizedError if the
    provider refuses or its answer is wrong."""

    def __init__(self, client: Client, monotonic_s: Callable[[], float]) -> None:
        self._client = client
        self._monotonic_s = monotonic_s
        self._http: httpx.AsyncClient | None = None
        self._endpoints: Endpoints | None = None
        self._read_again_s = float("-inf")
        self._failure: ProviderUnavailableError | None = None
        self._keys: list[Key] = []
        self._keys_read_s = float("-inf")
        self._lock = asyncio.Lock()

    @property
    def issuer(self) -> str:
        return self._client.issuer

    async def start(self) -> None:
        """Do nothing. The provider is called only when somebody logs in, so that a master can start while the
        provider is away."""

    async def stop(self) -> None:
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    async def authorize_url(self, *, state: str, nonce: str, challenge: str) -> str:
        """Return the address at the provider where a person logs in. `challenge`: the PKCE challenge, by SHA-256."""
        endpoints = await self._discovered()
        return _with_query(
            endpoints.authorize,
            {
                "response_type": "code",
                "client_id": self._client.client_id,
                "redirect_uri": self._client.redirect_uri,
                "scope": " ".join(self._client.scopes),
                "state": state,
                "nonce": nonce,
                "code_challenge": challenge,
                "code_challenge_method": "S256",
            },
        )

    async def end_session_url(self, id_token: str, back_to: str) -> str | None:
        """Return the address that ends the provider's own session. Return None if there is no such address or the
        provider does not answer."""
        try:
            endpoints = await self._discovered()
        except (ProviderUnavailableError, UnauthorizedError):
            return None
        if endpoints.end_session is None:
            return None
        hint = {"id_token_hint": id_token} if id_token else {}
        return _with_query(
            endpoints.end_session,
            {**hint, "client_id": self._client.client_id, "post_logout_redirect_uri": back_to},
        )

    async def identify(
        self,
        code: str,
        *,
        verifier: str,
        nonce: str,
        named_issuer: str | None,
        is_complete: Callable[[Mapping[str, Any]], bool],
        now_s: int,
    ) -> Identified:
        """Exchange a code, and return the person who logged in. `named_issuer`: the `iss` that came with the code (RFC
        9207). The userinfo endpoint is called only if the claims of the ID token are not complete."""
        endpoints = await self._discovered()
        if named_issuer != self.issuer and (named_issuer is not None or endpoints.names_itself):
            raise UnauthorizedError("the answer names another issuer", code="id_token_invalid")
        answer = await self._exchange(endpoints, code, verifier)
        id_token = answer.get("id_token")
        if not isinstance(id_token, str):
            raise UnauthorizedError(
                "the provider sent no ID token; the scopes must include openid", code="id_token_invalid"
            )
        claims = await self._verified(endpoints, id_token, nonce, now_s)
        if endpoints.userinfo and not is_complete(claims):
            claims = {**await self._userinfo(endpoints.userinfo, answer, claims["sub"]), **claims}
        return Identified(claims, id_token)

    async def _verified(self, endpoints: Endpoints, id_token: str, nonce: str, now_s: int) -> dict[str, Any]:
        for is_last in (False, True):
            keys = await self._current_keys(endpoints.keys, again=is_last)
            try:
                return verify(
                    id_token,
                    keys,
                    issuer=self.issuer,
                    client_id=self._client.client_id,
                    nonce=nonce,
                    now_s=now_s,
                )
            except UnknownKeyError:
                continue  # the provider may have a new key
        raise UnauthorizedError(
            "the ID token is not valid: the key that signed it is not among the provider's keys",
            code="id_token_invalid",
        )

    async def _exchange(self, endpoints: Endpoints, code: str, verifier: str) -> Mapping[str, Any]:
        c = self._client
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": c.redirect_uri,
            "code_verifier": verifier,
        }
        headers = {}
        if c.secret is None:
            form["client_id"] = c.client_id
        elif "client_secret_basic" in endpoints.auth_methods:
            pair = f"{quote_plus(c.client_id)}:{quote_plus(c.secret)}"
            headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        else:
            form |= {"client_id": c.client_id, "client_secret": c.secret}
        status, answer = await self._call("POST", endpoints.token, form=form, headers=headers)
        if status != httpx.codes.OK:
            error = str(answer.get("error", f"status {status}"))[:_SHOWN_CHARACTERS]
            raise UnauthorizedError(f"the provider does not accept the code: {error}", code="login_denied")
        return answer

    async def _userinfo(self, url: str, answer: Mapping[str, Any], subject: str) -> Mapping[str, Any]:
        token = answer.get("access_token")
        if not isinstance(token, str):
            return {}
        status, found = await self._call("GET", url, headers={"Authorization": f"Bearer {token}"})
        if status != httpx.codes.OK:
            raise ProviderUnavailableError(f"the userinfo endpoint of the provider answers {status}")
        if found.get("sub") != subject:
            raise UnauthorizedError("the userinfo endpoint names another person", code="id_token_invalid")
        return found

    async def _discovered(self) -> Endpoints:
        async with self._lock:
            if self._monotonic_s() < self._read_again_s:
                if self._endpoints is not None:
                    return self._endpoints
                if self._failure is not None:
                    raise self._failure
            try:
                self._endpoints = self._endpoints_in(await self._read(self.issuer.rstrip("/") + _DISCOVERY))
                self._read_again_s = self._monotonic_s() + FRESH_S
            except ProviderUnavailableError as exc:
                self._failure = exc
                self._read_again_s = self._monotonic_s() + AGAIN_AFTER_S
                if self._endpoints is None:
                    raise
                logger.warning("the earlier discovery document of the login provider stays in use: %s", exc)
            return self._endpoints

    async def _current_keys(self, url: str, *, again: bool) -> list[Key]:
        async with self._lock:
            age_s = self._monotonic_s() - self._keys_read_s
            if age_s >= (KEYS_AGAIN_S if again else FRESH_S) or not self._keys:
                try:
                    self._keys = import_keys(await self._read(url))
                    self._keys_read_s = self._monotonic_s()
                except ProviderUnavailableError as exc:
                    if not self._keys:
                        raise
                    logger.warning("the earlier keys of the login provider stay in use: %s", exc)
            return self._keys

    def _endpoints_in(self, document: Mapping[str, Any]) -> Endpoints:
        if (named := document.get("issuer")) != self.issuer:
            raise ProviderUnavailableError(
                f"the provider's own issuer URL is {str(named)[:_SHOWN_CHARACTERS]!r}; oidc_issuer must be "
                "exactly this URL"
            )

        def url_of(name: str) -> str | None:
            url = document.get(name)
            if url is None:
                return None
            # A document that was read over https must not name an address without encryption.
            if not isinstance(url, str) or urlsplit(url).scheme not in (
                "https",
                urlsplit(self.issuer).scheme,
            ):
                raise ProviderUnavailableError(
                    f"{name} in the provider's discovery document is not an https URL"
                )
            return url

        authorize, token, keys = (
            url_of(name) for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")
        )
        if authorize is None or token is None or keys is None:
            raise ProviderUnavailableError(
                "the provider's discovery document lacks endpoints of the code flow"
            )
        methods = document.get("token_endpoint_auth_methods_supported")
        return Endpoints(
            authorize,
            token,
            keys,
            url_of("userinfo_endpoint"),
            url_of("end_session_endpoint"),
            tuple(map(str, methods)) if isinstance(methods, list) else ("client_secret_basic",),
            document.get("authorization_response_iss_parameter_supported") is True,
        )

    async def _read(self, url: str) -> Mapping[str, Any]:
        status, document = await self._call("GET", url)
        if status != httpx.codes.OK:
            raise ProviderUnavailableError(f"{url} answers {status}")
        return document

    async def _call(
        self,
        method: str,
        url: str,
        *,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Mapping[str, Any]]:
        """Return the status and the JSON object of the answer. If a refusal is not JSON, its object is empty."""
        if self._http is None:
            self._http = await asyncio.to_thread(_http_client, self._client.cafile)
        fields = {"Accept": "application/json", **(headers or {})}
        body = bytearray()
        try:
            async with (
                asyncio.timeout(2 * TIMEOUT_S),
                self._http.stream(method, url, data=form, headers=fields) as response,
            ):
                async for part in response.aiter_bytes():
                    body += part
                    if len(body) > MAX_ANSWER_BYTES:
                        raise ProviderUnavailableError(f"the answer of {url} is too large")
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as exc:
            reason = str(exc) or type(exc).__name__
            raise ProviderUnavailableError(f"{url} does not answer: {reason[:_SHOWN_CHARACTERS]}") from None
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            document = None
        if isinstance(document, dict):
            return response.status_code, document
        if response.status_code == httpx.codes.OK:
            raise ProviderUnavailableError(f"the answer of {url} is not a JSON object")
        return response.status_code, {}


def _http_client(cafile: Path | None) -> httpx.AsyncClient:
    context = client_context(cafile, None, None).context
    return httpx.AsyncClient(verify=context, timeout=TIMEOUT_S, follow_redirects=False)


def _with_query(url: str, query: Mapping[str, str]) -> str:
    return f"{url}{'&' if urlsplit(url).query else '?'}{urlencode(query)}"
