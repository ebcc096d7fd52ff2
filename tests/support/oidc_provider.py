"""A small OpenID Connect provider over real HTTP. Tests may spoil its tokens."""

import asyncio
import base64
import contextlib
import functools
import hashlib
import secrets
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote_plus, urlencode

import httpx
import uvicorn
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from tests.support.ports import free_port
from tests.support.waiting import wait_until

CLIENT_ID = "jobs"
CLIENT_SECRET = "a secret: with / odd + characters"


@functools.cache
def _key(kid: str) -> RSAKey:
    """Return the same key to all providers of a test process. To make one takes as long as a test."""
    return RSAKey.generate_key(2048, {"kid": kid, "use": "sig", "alg": "RS256"})


@dataclass
class Provider:
    """`person`: the claims of the next person to log in. `spoil` changes claims and header of the ID tokens.
    `userinfo`: claims that only the userinfo endpoint returns. `issues`: the signed token or a substitute.
    """

    port: int
    person: dict[str, Any] = field(default_factory=dict)
    spoil: Callable[[dict[str, Any], dict[str, Any]], None] = lambda claims, header: None
    userinfo: dict[str, Any] = field(default_factory=dict)
    issues: Callable[[str], str] = lambda token: token
    named_issuer: str | None = None
    error: str | None = None
    auth_methods: tuple[str, ...] = ("client_secret_basic",)
    is_single_use: bool = True
    key: RSAKey = field(default_factory=lambda: _key("one"))
    published: list[RSAKey] = field(default_factory=list)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    called: list[str] = field(default_factory=list)
    logged_out: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.published = [self.key]

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.port}/realm"

    def rotate(self) -> None:
        """Sign with a new key, and publish only that one."""
        self.key = _key(secrets.token_hex(4))
        self.published = [self.key]

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/realm/.well-known/openid-configuration", self._discovery),
                Route("/realm/authorize", self._authorize),
                Route("/realm/login", self._login),
                Route("/realm/token", self._token, methods=["POST"]),
                Route("/realm/keys", self._keys),
                Route("/realm/userinfo", self._userinfo),
                Route("/realm/logout", self._logout),
            ]
        )

    async def _discovery(self, request: Request) -> Response:
        self.called.append("discovery")
        return JSONResponse(
            {
                "issuer": self.named_issuer or self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
                "userinfo_endpoint": f"{self.issuer}/userinfo",
                "end_session_endpoint": f"{self.issuer}/logout",
                "token_endpoint_auth_methods_supported": self.auth_methods,
                "authorization_response_iss_parameter_supported": True,
            }
        )

    async def _authorize(self, request: Request) -> Response:
        """The page where a person would type a password."""
        query = dict(request.query_params)
        assert query["client_id"] == CLIENT_ID
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        return HTMLResponse(f'<title>Provider</title><a href="/realm/login?{urlencode(query)}">I am Ada</a>')

    async def _login(self, request: Request) -> Response:
        query = dict(request.query_params)
        back = {"state": query["state"], "iss": self.issuer, "session_state": "of the provider"}
        if self.error:
            back["error"] = self.error
        else:
            back["code"] = secrets.token_urlsafe(16)
            self.codes[back["code"]] = query
        return RedirectResponse(f"{query['redirect_uri']}?{urlencode(back)}", status_code=302)

    async def _token(self, request: Request) -> Response:
        self.called.append("token")
        form = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        if not self._is_client(request, form):
            return JSONResponse({"error": "invalid_client"}, status_code=401)
        begun = self.codes.get(form["code"])
        if self.is_single_use:
            self.codes.pop(form["code"], None)
        verifier = form.get("code_verifier", "").encode()
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier).digest()).rstrip(b"=").decode()
        if (
            begun is None
            or challenge != begun["code_challenge"]
            or form["redirect_uri"] != begun["redirect_uri"]
        ):
            return JSONResponse({"error": "invalid_grant"}, status_code=400)
        now_s = self.now_s()
        claims = {
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "iat": now_s,
            "exp": now_s + 300,
            "nonce": begun["nonce"],
            "sub": "8f3c",
            **self.person,
        }
        header: dict[str, Any] = {"alg": "RS256", "kid": self.key.kid}
        self.spoil(claims, header)
        return JSONResponse(
            {
                "access_token": "access",
                "token_type": "Bearer",
                "id_token": self.issues(jwt.encode(header, claims, self.key)),
            }
        )

    def _is_client(self, request: Request, form: dict[str, str]) -> bool:
        if "client_secret_basic" in self.auth_methods:
            _, _, encoded = request.headers.get("authorization", "").partition(" ")
            user, _, secret = base64.b64decode(encoded).decode().partition(":")
            return (unquote_plus(user), unquote_plus(secret)) == (CLIENT_ID, CLIENT_SECRET)
        return (form.get("client_id"), form.get("client_secret")) == (CLIENT_ID, CLIENT_SECRET)

    async def _keys(self, request: Request) -> Response:
        self.called.append("keys")
        odd: list[Any] = [{"kty": "of the future"}, {"kty": "oct", "k": "c2VjcmV0"}, "no key"]
        return JSONResponse({"keys": [*odd, *KeySet(list(self.published)).as_dict()["keys"]]})

    async def _userinfo(self, request: Request) -> Response:
        self.called.append("userinfo")
        assert request.headers["authorization"] == "Bearer access"
        return JSONResponse({"sub": "8f3c", **self.userinfo})

    async def _logout(self, request: Request) -> Response:
        self.logged_out.append(dict(request.query_params))
        return RedirectResponse(request.query_params["post_logout_redirect_uri"], status_code=302)

    async def return_of(self, url: str) -> str:
        """Log in at the provider's address `url` like a browser, and return the address it redirects to."""
        async with httpx.AsyncClient(trust_env=False) as http:
            response = await http.get(url.replace("/authorize?", "/login?"))
        assert response.status_code == 302
        return response.headers["location"]

    def serving(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Serve on the port."""
        return serving(self.app(), self.port)

    @staticmethod
    def now_s() -> int:
        """Return the provider's time."""
        return int(time.time())


@contextlib.asynccontextmanager
async def serving(app: Starlette, port: int) -> AsyncIterator[None]:
    """Serve `app` in this process."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_config=None, lifespan="off"))
    task = asyncio.create_task(server.serve())
    await wait_until(lambda: server.started)
    try:
        yield
    finally:
        server.should_exit = True
        await task


@contextlib.asynccontextmanager
async def provider() -> AsyncIterator[Provider]:
    """Yield a running provider and a person with a role."""
    one = Provider(free_port())
    one.person = {"preferred_username": "ada", "groups": ["staff", "jobs-operators"]}
    async with one.serving():
        yield one


def oidc_settings(one: Provider, public_url: str, **more: Any) -> dict[str, Any]:
    """Return the settings of a master at `public_url` whose users log in through this provider."""
    return {
        "public_url": public_url,
        "oidc_issuer": one.issuer,
        "oidc_client_id": CLIENT_ID,
        "oidc_client_secret": CLIENT_SECRET,
        "group_roles": ["jobs-operators=operator", "jobs-admins=admin"],
        **more,
    }
