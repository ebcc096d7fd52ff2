"""Logins by an OpenID Connect provider: what a browser meets on the way, and which logins are refused."""

import contextlib
import json
import logging
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import OctKey

from jqmaster.app import Master, running_master
from jqmaster.config import Settings
from tests.support import real_time
from tests.support.master import QUICK, Api, forget, master_on
from tests.support.oidc_provider import CLIENT_ID, CLIENT_SECRET, Provider, oidc_settings, provider
from tests.support.ports import free_port
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = [real_time.MASTER, pytest.mark.req("D26")]

ADMIN_TOKEN = "a-configured-admin-token"
CALLBACK = "/api/login/oidc/callback"
QUESTION = f"#/login?then=callbacks/{'aB3_-x' * 9}"


@dataclass
class Site:
    """A master, its provider, and a browser that follows no redirect by itself."""

    master: Master
    provider: Provider
    browser: httpx.AsyncClient
    admin: Api

    async def begin(self, page: str = "#/jobs?state=failed") -> str:
        """Begin a login and return its address at the provider."""
        response = await self.browser.get("/api/login/oidc", params={"page": page})
        assert response.status_code == 302
        return response.headers["location"]

    async def log_in(self, page: str = "#/jobs?state=failed") -> str:
        """Log in and return where the browser ends up."""
        return await self.come_back(await self.provider.return_of(await self.begin(page)))

    async def come_back(self, address: str) -> str:
        response = await self.browser.get(address)
        assert response.status_code == 302
        return response.headers["location"]

    async def session(self) -> dict[str, Any]:
        return (await self.browser.get("/api/session", headers={"Accept": "application/json"})).json()

    async def refusal(self, page: str = "#/jobs") -> tuple[str, str]:
        """Log in, expect a failure, and return the code that the person sees and the reason in the access log."""
        address = await self.log_in(page)
        assert (await self.session())["who"] is None
        return problem_of(address), (await self.audit())[0]["after"]["reason"]

    async def audit(self) -> list[dict[str, Any]]:
        status, found = await self.admin.call("GET", "/api/audit?log=access")
        assert status == 200
        return found["entries"]


def problem_of(address: str) -> str:
    parts = urlsplit(address)
    path, _, query = parts.fragment.partition("?")
    assert path == "/login", address
    return parse_qs(query)["problem"][0]


@contextlib.asynccontextmanager
async def site(store_url: str, **settings: Any) -> AsyncIterator[Site]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    async with provider() as one, contextlib.AsyncExitStack() as stack:
        configured = {"port": port, "tokens": [f"admin:{ADMIN_TOKEN}"], **oidc_settings(one, url), **settings}
        master, _ = await stack.enter_async_context(master_on(store_url, **configured))
        admin = Api(url, ADMIN_TOKEN)
        stack.push_async_callback(admin.http.aclose)
        browser = await stack.enter_async_context(
            httpx.AsyncClient(base_url=url, trust_env=False, timeout=30)
        )
        yield Site(master, one, browser, admin)


async def test_a_person_logs_in_acts_and_logs_out(store_server: StoreServer) -> None:
    async with site(store_server.url) as here:
        nobody = await here.session()
        assert (nobody["who"], nobody["login_provider"]) == (None, "single sign-on")
        address = await here.log_in()
        assert address == f"{here.browser.base_url}/#/jobs?state=failed".replace("//#", "/#")
        session = await here.session()
        assert (session["who"], session["role"], session["method"]) == ("oidc:ada", "operator", "session")
        fields = {"X-CSRF-Token": session["csrf_token"], "Accept": "application/json"}
        pushed = await here.browser.post("/api/jobs", json={"name": "a"})
        assert (pushed.status_code, pushed.json()["code"]) == (403, "csrf")
        assert (await here.browser.post("/api/jobs", json={"name": "a"}, headers=fields)).status_code == 201
        assert (await here.browser.get("/api/tokens")).status_code == 403
        entry = (await here.audit())[0]
        assert (entry["who"], entry["action"]) == ("oidc:ada", "session.login")
        assert entry["after"] | {"address": ""} == {
            "by": "oidc",
            "role": "operator",
            "groups": ["jobs-operators"],
            "subject": "8f3c",
            "address": "",
        }
        out = await here.browser.delete("/api/session", headers=fields)
        assert out.status_code == 200
        leave = urlsplit(out.json()["logout_url"])
        hints = parse_qs(leave.query)
        assert f"{leave.scheme}://{leave.netloc}{leave.path}" == f"{here.provider.issuer}/logout"
        assert hints["post_logout_redirect_uri"] == [f"{str(here.browser.base_url).rstrip('/')}/"]
        assert hints["id_token_hint"][0].count(".") == 2
        assert (await here.session())["who"] is None


async def test_cookies_of_a_login_are_kept_from_scripts_and_the_code_flow_has_pkce(
    store_server: StoreServer,
) -> None:
    async with site(store_server.url, public_url="https://jobs.example.org/queue") as here:
        begun = await here.browser.get("/api/login/oidc")
        (cookie,) = begun.headers.get_list("set-cookie")
        assert cookie.startswith("__Secure-jqmaster_login=")
        assert cookie.endswith("; Max-Age=600; Path=/queue; HttpOnly; SameSite=Lax; Secure")
        query = parse_qs(urlsplit(begun.headers["location"]).query)
        assert query["redirect_uri"] == [f"https://jobs.example.org/queue{CALLBACK}"]
        assert query["code_challenge_method"] == ["S256"]
        assert query["scope"] == ["openid profile email"]
        assert len({query[name][0] for name in ("state", "nonce", "code_challenge")}) == 3
        # The browser sends the cookie although a page of the provider led here.
        back = urlsplit(await here.provider.return_of(begun.headers["location"]))
        kept = {"Cookie": cookie.partition(";")[0], "Sec-Fetch-Site": "cross-site"}
        done = await here.browser.get(f"{CALLBACK}?{back.query}", headers=kept)
        assert done.headers["location"] == "https://jobs.example.org/queue/#/overview"
        session, dropped = sorted(done.headers.get_list("set-cookie"), key=lambda text: "Max-Age=0" in text)
        assert session.startswith("__Secure-jqmaster_session=")
        assert "SameSite=Strict; Secure" in session
        assert dropped.startswith("__Secure-jqmaster_login=;")


Spoil = Callable[[dict[str, Any], dict[str, Any]], None]


def claim(name: str, value: Any) -> Spoil:
    return lambda claims, header: claims.update({name: value})


def later(**seconds: int) -> Spoil:
    return lambda claims, header: claims.update({name: claims[name] + by for name, by in seconds.items()})


def without(name: str) -> Spoil:
    return lambda claims, header: claims.pop(name)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        pytest.param(claim("nonce", "of another login"), "nonce", id="nonce"),
        pytest.param(without("nonce"), "nonce", id="no nonce"),
        pytest.param(claim("aud", "another"), "aud", id="audience"),
        pytest.param(claim("aud", [CLIENT_ID, "another"]), "several clients", id="several audiences"),
        pytest.param(claim("azp", "another"), "azp", id="authorized party"),
        pytest.param(claim("iss", "http://127.0.0.1:1/realm"), "iss", id="issuer"),
        pytest.param(later(exp=-400), "exp", id="expired"),
        pytest.param(later(iat=-700), "too long ago", id="old"),
        pytest.param(later(iat=120), "future", id="of tomorrow"),
        pytest.param(claim("exp", "never"), "exp", id="no instant"),
        pytest.param(without("sub"), "sub", id="nobody"),
    ],
)
async def test_a_token_that_is_not_for_this_login_lets_nobody_in(
    store_server: StoreServer, spoil: Spoil, reason: str
) -> None:
    async with site(store_server.url) as here:
        here.provider.spoil = spoil
        code, why = await here.refusal()
        assert code == "id_token_invalid"
        assert reason in why


async def test_clocks_may_differ_by_a_minute(store_server: StoreServer) -> None:
    async with site(store_server.url) as here:
        here.provider.spoil = later(iat=50, exp=-340)
        await here.log_in()
        assert (await here.session())["who"] == "oidc:ada"


def encoded(part: dict[str, Any]) -> str:
    return urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


def unsigned(token: str) -> str:
    return f"{encoded({'alg': 'none', 'kid': 'one'})}.{token.split('.')[1]}."


def signed_with_the_secret(token: str) -> str:
    header, key = {"alg": "HS256", "kid": "one"}, OctKey.import_key(CLIENT_SECRET)
    payload = token.split(".")[1]
    claims = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return jwt.encode(header, claims, key)


def altered(token: str) -> str:
    header, payload, signature = token.split(".")
    return f"{header}.{payload}.{signature[:-8]}AAAAAAAA"


async def test_a_token_without_the_providers_signature_lets_nobody_in(store_server: StoreServer) -> None:
    cases: list[Callable[[str], str]] = [
        unsigned,
        signed_with_the_secret,
        altered,
        lambda _: "no token",
        lambda _: "",
    ]
    async with site(store_server.url) as here:
        for number, issues in enumerate(cases):
            here.provider.issues = issues
            code, _ = await here.refusal()
            assert code == "id_token_invalid", number


async def test_a_login_that_this_browser_did_not_begin_is_refused(store_server: StoreServer) -> None:
    async with site(store_server.url) as here:
        # A page could send anybody to the return address of somebody else.
        theirs = await here.provider.return_of(await here.begin())
        here.browser.cookies.clear()
        assert problem_of(await here.come_back(theirs)) == "login_expired"
        await here.begin()
        assert problem_of(await here.come_back(theirs)) == "login_expired"
        assert here.provider.called.count("token") == 0
        for query in ("", "?state=x&code=y", "?code=a&code=b&state=", f"?state={'s' * 3000}", "?%ff=%ff"):
            assert problem_of(await here.come_back(CALLBACK + query)) == "login_expired"
        assert (await here.session())["who"] is None


async def test_a_login_works_once_also_where_the_provider_takes_its_code_twice(
    store_server: StoreServer,
) -> None:
    async with site(store_server.url) as here:
        here.provider.is_single_use = False
        back = await here.provider.return_of(await here.begin())
        kept = dict(here.browser.cookies)
        assert "#/jobs" in await here.come_back(back)
        here.browser.cookies.clear()
        here.browser.cookies.update(kept)
        assert problem_of(await here.come_back(back)) == "login_expired"
        assert (await here.session())["who"] is None


PAGES_OF_OTHERS = [
        "https://evil.example", "//evil.example", "/\\evil.example", "#/login?problem=x", "#/a\r\nSet-Cookie: a=b",
        "#/login", "#/login?then=https://evil.example", "#/login?then=callbacks/../x", f"{QUESTION}x",
        "javascript:alert(1)", "#/" + "x" * 2000, "", "#/\u00e9",
]  # fmt: skip


async def test_a_login_leads_to_a_page_of_the_web_ui_and_nowhere_else(store_server: StoreServer) -> None:
    async with site(store_server.url) as here:
        for page in PAGES_OF_OTHERS:
            here.browser.cookies.clear()
            assert await here.log_in(page) == f"{str(here.browser.base_url).rstrip('/')}/#/overview", page


@pytest.mark.req("P4", "D26")
async def test_a_login_for_a_question_leads_back_to_it(store_server: StoreServer) -> None:
    """The page of a question sends people there if they are not logged in."""
    async with site(store_server.url) as here:
        assert await here.log_in(QUESTION) == f"{str(here.browser.base_url).rstrip('/')}/{QUESTION}"
        assert (await here.session())["who"] == "oidc:ada"


@pytest.mark.req("D29")
async def test_a_login_in_a_namespace_leads_back_to_it(store_server: StoreServer, tmp_path: Path) -> None:
    async with site(store_server.url, data_dir=tmp_path) as here:
        tag, home = f"{here.master.settings.shard}-shop", str(here.browser.base_url).rstrip("/")
        assert (await here.admin.call("PUT", "/api/namespaces/shop", {"tag": tag}))[0] == 201

        async def begun() -> str:
            path = "/ns/shop/api/login/oidc"
            response = await here.browser.get(path, params={"page": "#/jobs?state=failed"})
            return response.headers.get("location", "") if response.status_code == 302 else ""

        address = await wait_until(begun, what="the namespace is served")
        ended = await here.come_back(await here.provider.return_of(address))
        assert ended == f"{home}/ns/shop/#/jobs?state=failed"
        shown = await here.browser.get("/ns/shop/api/session", headers={"Accept": "application/json"})
        assert (shown.json()["who"], shown.json()["role"]) == ("oidc:ada", "operator")
        # A login that fails leads to the login page there, and a forged place nowhere else.
        back = await here.provider.return_of(await begun())
        failed = await here.come_back(back.replace("state=", "state=x"))
        assert failed == f"{home}/ns/shop/#/login?problem=login_expired"
        back = await here.provider.return_of(await begun())
        secret = here.browser.cookies["jqmaster_login"].partition(".")[0]
        here.browser.cookies.clear()
        planted = urlsafe_b64encode(b"ns/../evil/#/jobs").rstrip(b"=").decode()
        here.browser.cookies["jqmaster_login"] = f"{secret}.{planted}"
        assert await here.come_back(back) == f"{home}/#/overview"
    await forget(store_server.url, tag)


async def test_a_forged_cookie_leads_nowhere_else(store_server: StoreServer) -> None:
    async with site(store_server.url) as here:
        back = await here.provider.return_of(await here.begin())
        secret = here.browser.cookies["jqmaster_login"].partition(".")[0]
        here.browser.cookies.clear()
        planted = urlsafe_b64encode(b"https://evil.example/").rstrip(b"=").decode()
        here.browser.cookies["jqmaster_login"] = f"{secret}.{planted}"
        assert (await here.come_back(back)).endswith("/#/overview")


async def test_people_without_a_role_or_a_name_are_not_let_in(store_server: StoreServer) -> None:
    async with site(store_server.url) as here:
        person = here.provider.person
        for groups in ([], ["staff"], "staff", None, 7, [{"jobs-admins": 1}]):
            here.provider.person = person | {"groups": groups}
            assert (await here.refusal())[0] == "no_role"
        assert (await here.audit())[0]["who"] == "oidc:ada"
        for name in (None, "", "a\x00b", "x" * 129, 7):
            here.provider.person = person | {"preferred_username": name}
            assert (await here.refusal())[0] == "no_login_name"


async def test_roles_come_from_nested_claims_a_single_group_or_the_default(store_server: StoreServer) -> None:
    settings: dict[str, Any] = {
        "oidc_groups_claim": "realm_access.roles",
        "oidc_user_claim": "email",
        "default_role": "viewer",
        "group_roles": ["cn=admins,ou=jobs=admin", "ops=operator"],
    }
    async with site(store_server.url, **settings) as here:
        expected: dict[str, dict[str, Any]] = {
            "viewer": {},
            "operator": {"realm_access": {"roles": "ops"}},
            "admin": {"realm_access": {"roles": ["ops", "cn=admins,ou=jobs"]}},
        }
        for role, claims in expected.items():
            here.provider.person = {"email": "ada@example.org", **claims}
            await here.log_in()
            session = await here.session()
            assert (session["who"], session["role"]) == ("oidc:ada@example.org", role)


async def test_claims_that_the_id_token_lacks_are_asked_of_the_userinfo_endpoint(
    store_server: StoreServer,
) -> None:
    async with site(store_server.url) as here:
        here.provider.person = {"preferred_username": "ada"}
        here.provider.userinfo = {"groups": ["jobs-admins"], "preferred_username": "somebody"}
        await here.log_in()
        session = await here.session()
        assert (session["who"], session["role"]) == ("oidc:ada", "admin")
        here.browser.cookies.clear()
        here.provider.userinfo["sub"] = "of another person"
        assert (await here.refusal())[0] == "id_token_invalid"


async def test_a_provider_that_is_away_keeps_only_its_own_logins_out(
    store_server: StoreServer,
) -> None:
    async with provider() as one:
        gone = oidc_settings(one, "http://127.0.0.1:1")
    tokens = [f"admin:{ADMIN_TOKEN}"]
    async with (
        master_on(store_server.url, **gone, tokens=tokens) as (master, _),
        httpx.AsyncClient(base_url=master.server.url, trust_env=False) as browser,
    ):
        begun = await browser.get("/api/login/oidc")
        assert problem_of(begun.headers["location"]) == "provider_unavailable"
        by_token = await browser.post("/api/session", json={"token": ADMIN_TOKEN})
        assert by_token.status_code == 201


async def test_a_provider_that_goes_away_does_not_keep_people_from_logging_out(
    store_server: StoreServer,
) -> None:
    port = free_port()
    one = Provider(free_port(), person={"preferred_username": "ada", "groups": ["jobs-admins"]})
    settings = oidc_settings(one, f"http://127.0.0.1:{port}")
    async with (
        master_on(store_server.url, port=port, **settings, tokens=[f"admin:{ADMIN_TOKEN}"]) as (master, _),
        httpx.AsyncClient(base_url=master.server.url, trust_env=False, timeout=30) as browser,
    ):
        async with one.serving():
            begun = await browser.get("/api/login/oidc")
            back = await one.return_of(begun.headers["location"])
        # The provider went away before it could take the code.
        answer = await browser.get(back)
        assert problem_of(answer.headers["location"]) == "provider_unavailable"
        async with one.serving():
            begun = await browser.get("/api/login/oidc")
            await browser.get(await one.return_of(begun.headers["location"]))
        session = (await browser.get("/api/session")).json()
        assert session["who"] == "oidc:ada"
        out = await browser.delete("/api/session", headers={"X-CSRF-Token": session["csrf_token"]})
        assert out.status_code == 200


async def test_the_errors_of_a_provider_are_told_in_the_log(
    store_server: StoreServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with site(store_server.url) as here:
        here.provider.error = "access_denied"
        assert await here.refusal() == (
            "login_denied",
            "the provider refused the login: 'access_denied'",
        )
        assert "access_denied" in caplog.text
    async with site(store_server.url, oidc_client_secret="another") as here:
        assert await here.refusal() == (
            "login_denied",
            "the provider does not accept the code: invalid_client",
        )
    async with site(store_server.url) as here:
        here.provider.named_issuer = "https://elsewhere.example"
        begun = await here.browser.get("/api/login/oidc")
        assert problem_of(begun.headers["location"]) == "provider_unavailable"
        assert "oidc_issuer must be exactly this URL" in caplog.text


async def test_an_answer_of_another_issuer_is_refused(store_server: StoreServer) -> None:
    async with site(store_server.url) as here:
        back = await here.provider.return_of(await here.begin())
        assert problem_of(await here.come_back(back.replace("iss=", "iss=x"))) == "id_token_invalid"
        back = await here.provider.return_of(await here.begin())
        assert problem_of(await here.come_back(back.replace("iss=", "was="))) == "id_token_invalid"


async def test_the_secret_may_be_in_a_file_and_be_sent_in_the_form(
    store_server: StoreServer, tmp_path: Any
) -> None:
    file = tmp_path / "secret"
    file.write_text(CLIENT_SECRET + "\n")
    async with site(store_server.url, oidc_client_secret=None, oidc_client_secret_file=file) as here:
        here.provider.auth_methods = ("client_secret_post",)
        await here.log_in()
        assert (await here.session())["who"] == "oidc:ada"


@contextlib.asynccontextmanager
async def beside(here: Site, **changed: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Another master on the same data, and a browser with the cookies of the first one. `changed` holds settings; None
    stands for a setting that the other master lacks."""
    named = (
        "redis_url",
        "shard",
        "public_url",
        "oidc_issuer",
        "oidc_client_id",
        "oidc_client_secret",
        "group_roles",
    )
    same = {name: getattr(here.master.settings, name) for name in named} | changed
    own = {"tokens": [f"admin:{ADMIN_TOKEN}"]} | {
        name: value for name, value in same.items() if value is not None
    }
    async with (
        running_master(Settings(**{**QUICK, **own})) as master,
        httpx.AsyncClient(base_url=master.server.url, trust_env=False) as browser,
    ):
        browser.cookies.update(dict(here.browser.cookies))
        yield browser


async def test_any_master_finishes_a_login_and_an_admin_ends_it_everywhere(store_server: StoreServer) -> None:
    async with site(store_server.url) as here:
        back = urlsplit(await here.provider.return_of(await here.begin()))
        async with beside(here) as there:
            done = await there.get(f"{CALLBACK}?{back.query}")
            assert done.status_code == 302
            here.browser.cookies.update(dict(there.cookies))
            assert (await here.session())["who"] == "oidc:ada"
            assert (await here.admin.call("DELETE", "/api/users/oidc:ada/sessions"))[0] == 204
            assert (await there.get("/api/session")).json()["who"] is None
        status, problem = await here.admin.call("DELETE", "/api/users/oidc:ada/sessions")
        assert (status, problem["code"]) == (404, "unknown_user")


@pytest.mark.parametrize(
    ("changed", "role"),
    [
        ({"group_roles": ["jobs-operators=viewer"]}, "viewer"),
        ({"group_roles": ["others=viewer"]}, None),
        ({"oidc_issuer": None, "oidc_client_id": None, "oidc_client_secret": None}, None),
    ],
)
async def test_roles_follow_the_settings_and_end_with_the_provider(
    store_server: StoreServer, changed: dict[str, Any], role: str | None
) -> None:
    async with site(store_server.url) as here:
        await here.log_in()
        async with beside(here, **changed) as there:
            assert (await there.get("/api/session")).json()["role"] == role


async def test_logins_that_fail_again_and_again_have_to_wait(store_server: StoreServer) -> None:
    async with site(store_server.url, login_attempts_per_minute=1) as here:
        for _ in range(5):
            await here.log_in()  # successful logins do not count
        here.provider.error = "access_denied"
        found = [problem_of(await here.log_in()) for _ in range(5)]
        assert found == ["login_denied"] * 3 + ["too_many_logins"] * 2
        assert here.provider.called.count("token") == 5


@pytest.mark.parametrize("has_begun", [False, True])
async def test_pages_of_other_sites_lock_nobody_out(store_server: StoreServer, has_begun: bool) -> None:
    password = "correct horse battery"
    async with site(store_server.url, login_attempts_per_minute=1) as here:
        user = {"name": "ada", "password": password, "role": "operator"}
        assert (await here.admin.call("POST", "/api/users", user))[0] == 201
        if has_begun:
            await here.begin()
        image = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "image"}
        for _ in range(20):
            # A page of another site cannot read the cookie of a login that the browser began.
            found = await here.browser.get(CALLBACK, params={"code": "x", "state": "y"}, headers=image)
            assert problem_of(found.headers["location"]) == "login_expired"
        login = {"user": "ada", "password": password}
        assert (await here.admin.http.post("/api/session", json=login)).status_code == 201
        await here.log_in()
        assert (await here.session())["who"] == "oidc:ada"


async def test_without_a_provider_there_is_no_such_login(store_server: StoreServer) -> None:
    async with master_on(store_server.url) as (_, api):
        for path in ("/api/login/oidc", CALLBACK):
            status, problem = await api.call("GET", path)
            assert (status, problem["code"]) == (404, "no_login_provider")
        assert (await api.call("GET", "/api/session"))[1]["login_provider"] is None
