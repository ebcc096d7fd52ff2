"""Calls of a master to a login provider."""

import asyncio
import hashlib
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc import jws
from joserfc.jwk import ECKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from jqmaster.errors import ProviderUnavailableError, UnauthorizedError
from jqmaster.net.id_token import verify
from jqmaster.net.oidc_provider import AGAIN_AFTER_S, FRESH_S, KEYS_AGAIN_S, Client, OidcProvider
from tests.support.oidc_provider import CLIENT_ID, CLIENT_SECRET, Provider, provider, serving
from tests.support.ports import free_port

pytestmark = pytest.mark.req("D26")

BACK = "http://127.0.0.1:1/callback"
VERIFIER = "v" * 43
CHALLENGE = urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()


class Asking:
    """A client of a provider, with a clock that stands still."""

    def __init__(self, issuer: str) -> None:
        self.now_s = 0.0
        self.client = OidcProvider(
            Client(issuer, CLIENT_ID, CLIENT_SECRET, ("openid",), BACK), lambda: self.now_s
        )

    async def url(self) -> str:
        return await self.client.authorize_url(state="s", nonce="n", challenge=CHALLENGE)

    async def name(self, one: Provider) -> str:
        """Log in, and return the name of the person."""
        code = parse_qs(urlsplit(await one.return_of(await self.url())).query)["code"][0]
        found = await self.client.identify(
            code,
            verifier=VERIFIER,
            nonce="n",
            named_issuer=one.issuer,
            is_complete=lambda claims: True,
            now_s=one.now_s(),
        )
        return str(found.claims["preferred_username"])


@pytest.fixture
async def one() -> AsyncIterator[Provider]:
    async with provider() as serves:
        yield serves


@pytest.fixture
async def asking(one: Provider) -> AsyncIterator[Asking]:
    made = Asking(one.issuer)
    yield made
    await made.client.stop()


async def test_a_new_key_is_fetched_when_it_signs(one: Provider, asking: Asking) -> None:
    assert [await asking.name(one) for _ in range(3)] == ["ada"] * 3
    assert (one.called.count("discovery"), one.called.count("keys")) == (1, 1)
    one.rotate()
    asking.now_s += KEYS_AGAIN_S
    assert await asking.name(one) == "ada"
    assert one.called.count("keys") == 2
    # A token whose key is not published does not trigger a new read of the keys each time.
    one.spoil = lambda claims, header: header.update(kid="unknown")
    for _ in range(3):
        with pytest.raises(UnauthorizedError, match="not among the provider's keys"):
            await asking.name(one)
    assert one.called.count("keys") == 2
    asking.now_s += KEYS_AGAIN_S
    with pytest.raises(UnauthorizedError, match="not among the provider's keys"):
        await asking.name(one)
    assert one.called.count("keys") == 3


async def test_a_token_without_a_key_id_needs_a_provider_with_one_key(one: Provider, asking: Asking) -> None:
    one.spoil = lambda claims, header: header.pop("kid")
    assert await asking.name(one) == "ada"
    one.published.append(Provider(0).key)
    asking.now_s += FRESH_S
    with pytest.raises(UnauthorizedError, match="several keys"):
        await asking.name(one)


async def test_the_last_answer_of_the_provider_is_used_while_it_is_away() -> None:
    one = Provider(free_port(), person={"preferred_username": "ada"})
    asking = Asking(one.issuer)
    with pytest.raises(ProviderUnavailableError, match="does not answer"):
        await asking.url()
    async with serving(one.app(), one.port):
        # For a moment the next call fails in the same way, without a request.
        with pytest.raises(ProviderUnavailableError):
            await asking.url()
        asking.now_s += AGAIN_AFTER_S
        assert await asking.name(one) == "ada"
    asking.now_s += FRESH_S
    assert (await asking.url()).startswith(f"{one.issuer}/authorize?")
    async with serving(one.app(), one.port):
        asking.now_s += FRESH_S
        assert await asking.name(one) == "ada"
        assert one.called.count("keys") == 2
    await asking.client.stop()


async def test_many_who_begin_at_once_ask_the_provider_once(one: Provider, asking: Asking) -> None:
    await asyncio.gather(*(asking.url() for _ in range(20)))
    assert one.called.count("discovery") == 1


def answers(document: Any) -> Response:
    return document if isinstance(document, Response) else JSONResponse(document)


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (PlainTextResponse("no document"), "not a JSON object"),
        (JSONResponse([1]), "not a JSON object"),
        (JSONResponse({}, status_code=404), "answers 404"),
        (RedirectResponse("http://127.0.0.1:1/elsewhere"), "answers 307"),
        (PlainTextResponse("x" * 300_000), "too large"),
        (PlainTextResponse("[" * 50_000 + "]" * 50_000), "not a JSON object"),
        (PlainTextResponse('{"issuer":' * 20_000 + "1" + "}" * 20_000), "not a JSON object"),
        (PlainTextResponse('{"issuer":' + "9" * 5_000 + "}"), "not a JSON object"),
        ({"issuer": "https://another.example"}, "oidc_issuer must be exactly this URL"),
        ({"issuer": ...}, "lacks endpoints"),
        ({"issuer": ..., "authorization_endpoint": "ftp://x/"}, "not an https URL"),
        ({"issuer": ..., "authorization_endpoint": ["https://x"]}, "not an https URL"),
    ],
)
async def test_a_discovery_document_that_is_of_no_use_is_told(document: Any, told: str) -> None:
    port = free_port()
    issuer = f"http://127.0.0.1:{port}"
    if isinstance(document, dict):
        document = {name: issuer if value is ... else value for name, value in document.items()}

    async def discovery(request: Request) -> Response:
        return answers(document)

    asking = Asking(issuer)
    async with serving(Starlette(routes=[Route("/.well-known/openid-configuration", discovery)]), port):
        with pytest.raises(ProviderUnavailableError, match=told):
            await asking.url()
    await asking.client.stop()


DEEP = b"[" * 50_000 + b"]" * 50_000


@pytest.mark.parametrize("part", ["header", "claims"])
def test_an_id_token_that_is_nested_without_end_is_refused(part: str) -> None:
    key = ECKey.generate_key("P-256")
    if part == "claims":
        token = jws.serialize_compact({"alg": "ES256"}, b'{"sub":' + DEEP + b"}", key, algorithms=["ES256"])
    else:
        header = b'{"alg":"ES256","x":' + DEEP + b"}"
        token = b".".join(urlsafe_b64encode(one).rstrip(b"=") for one in (header, b"{}", b"x")).decode()
    with pytest.raises(UnauthorizedError) as refusal:
        verify(token, [key], issuer="i", client_id="c", nonce="n", now_s=1)
    assert refusal.value.code == "id_token_invalid"
