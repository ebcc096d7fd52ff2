"""The web UI inside a Django site: who may see what, on a WSGI and on an ASGI server, in real processes."""

import asyncio
import hashlib
import hmac
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar, Literal
from urllib.parse import urljoin

import httpx
import pytest

from tests.api.challenges.test_challenges import awaiting
from tests.support import long, real_time
from tests.support.django_ui_site import PASSWORD, PATH, make_site, master_settings, serving_site
from tests.support.master import Api, master_on
from tests.support.ports import free_port
from tests.support.scripted_worker import puller_at
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system, real_time.PROCESSES, pytest.mark.req("D26"), pytest.mark.timeout(240)]


class Person:
    """A browser on the site. The test closes it afterwards."""

    opened: ClassVar[list[httpx.AsyncClient]] = []

    def __init__(self, url: str) -> None:
        self.url = url
        self.http = httpx.AsyncClient(base_url=url, trust_env=False, timeout=60)
        self.opened.append(self.http)

    async def log_in(self, name: str) -> "Person":
        page = await self.http.get("/accounts/login/")
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
        assert token
        form = {"username": name, "password": PASSWORD, "csrfmiddlewaretoken": token[1], "next": PATH}
        answer = await self.http.post("/accounts/login/", data=form)
        assert (answer.status_code, answer.headers["location"]) == (302, PATH), answer.text
        return self

    async def call(self, method: str, path: str, value: Any = None, **headers: str) -> httpx.Response:
        shown = {"Accept": "application/json", "X-CSRF-Token": "by-proxy", **headers}
        return await self.http.request(method, f"{PATH}{path}", json=value, headers=shown)


@pytest.fixture(autouse=True)
async def closed_browsers() -> AsyncIterator[None]:
    """Close all browsers of a test."""
    yield
    while Person.opened:
        await Person.opened.pop().aclose()


@pytest.fixture(params=["asgi", *long.left_out("wsgi")])
async def site(
    request: pytest.FixtureRequest, store_server: StoreServer, tmp_path: Path
) -> AsyncIterator[tuple[str, Api]]:
    """Yield the address of a site and an admin of its master."""
    kind: Literal["wsgi", "asgi"] = request.param
    port = free_port()
    async with master_on(store_server.url, **master_settings(port)) as (master, _):
        # The first master is gone.
        make_site(tmp_path, [f"http://127.0.0.1:{free_port()}", master.server.url])
        admin = Api(master.server.url, "a-token-of-the-admin")
        async with serving_site(tmp_path, port, kind) as url:
            yield url, admin
        await admin.http.aclose()


async def test_users_of_the_site_see_and_do_what_their_permissions_allow(site: tuple[str, Api]) -> None:
    url, admin = site
    nobody = Person(url)
    page = await nobody.http.get(PATH)
    assert (page.status_code, page.headers["location"]) == (302, f"/accounts/login/?next={PATH}")
    assert (await nobody.call("GET", "api/jobs")).status_code == 401
    session = (await nobody.call("GET", "api/session")).json()
    assert (session["who"], session["login_url"]) == (None, f"/accounts/login/?next={PATH}")
    nina, vera, otto, root = [await Person(url).log_in(name) for name in ("nina", "vera", "otto", "root")]
    assert (await nina.http.get(PATH)).status_code == 403
    assert (await nina.call("GET", "api/jobs")).json()["code"] == "no_role"
    roles = [((await one.call("GET", "api/session")).json())["role"] for one in (vera, otto, root)]
    assert roles == ["viewer", "operator", "admin"]
    assert session.keys() == (await vera.call("GET", "api/session")).json().keys()
    page = await vera.http.get(PATH)
    assert page.status_code == 200
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert "set-cookie" not in page.headers
    assert (await vera.http.get(f"{PATH}jobs", headers={"Accept": "text/html"})).headers[
        "location"
    ] == "./#/jobs"
    assert (await vera.call("POST", "api/jobs", {"name": "a"})).status_code == 403
    pushed = await otto.call("POST", "api/jobs", {"name": "a/b.c"})
    assert pushed.status_code == 201
    assert (await vera.call("GET", f"api/jobs/{pushed.json()['id']}")).json()["name"] == "a/b.c"
    assert (await otto.call("GET", "api/tokens")).status_code == 403
    assert (await root.call("GET", "api/tokens")).status_code == 200
    changed = await root.call("PATCH", "api/settings", {"max_push_jobs": 100})
    assert changed.status_code == 200
    status, found = await admin.call("GET", "/api/audit?who=proxy:root")
    assert (status, len(found["entries"])) == (200, 1)


async def test_other_sites_and_forged_names_get_nowhere(site: tuple[str, Api]) -> None:
    url, admin = site
    vera, otto = await Person(url).log_in("vera"), await Person(url).log_in("otto")
    forged = {
        "Remote-User": "root",
        "Remote-Groups": "admin",
        "JQ-Proxy-Secret": "x",
        "Authorization": "Bearer x",
    }
    session = (await vera.call("GET", "api/session", **forged)).json()
    assert (session["who"], session["role"]) == ("proxy:vera", "viewer")
    for headers, code in (
        ({"X-CSRF-Token": ""}, "csrf"),
        ({"Origin": "https://evil.example"}, "cross_site"),
        ({"Origin": "null"}, "cross_site"),
        ({"Sec-Fetch-Site": "cross-site"}, "cross_site"),
    ):
        refused = await otto.call("POST", "api/jobs", {"name": "a"}, **headers)
        assert (refused.status_code, refused.json()["code"]) == (403, code)
    for path in ("api/%2e%2e/healthz", "../healthz", "api/nothing", "pages/../../x"):
        assert (await otto.http.get(f"{PATH}{path}")).status_code in (302, 404), path
    # Requests that bypass the site need more than the master's address.
    direct = await admin.http.get("/api/jobs", headers={"Remote-User": "root", "Authorization": "x"})
    assert direct.status_code == 401
    assert (await otto.http.request("TRACE", PATH)).status_code in (405, 501)
    large = await otto.call("POST", "api/jobs", {"name": "a", "argument": "x" * 3_000_000})
    assert (large.status_code, large.json()["code"]) == (413, "too_large")


async def test_events_flow_while_other_requests_are_served(site: tuple[str, Api]) -> None:
    url, _ = site
    otto = await Person(url).log_in("otto")
    headers = {"Accept": "text/event-stream"}
    seen = b""
    async with otto.http.stream("GET", f"{PATH}api/stream", headers=headers) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        parts = stream.aiter_bytes()
        pushed = await otto.call("POST", "api/jobs", {"name": "of.the.stream"})
        assert pushed.status_code == 201

        async def has_come() -> bool:
            nonlocal seen
            seen += await asyncio.wait_for(anext(parts), 30)
            return b'"ready":1' in seen

        await wait_until(has_come, timeout_s=30, what="the event of the push")


@pytest.mark.parametrize(
    "changed",
    [{"login_proxy_secret": "another"}, None, *long.left_out({"login_proxies": ["127.0.0.9/32"]})],
)
async def test_a_master_that_does_not_know_the_site_serves_none_of_its_users(
    store_server: StoreServer, tmp_path: Path, changed: dict[str, Any] | None
) -> None:
    """A master without any login would allow everything to all of them, because the site calls from its own machine."""
    port = free_port()
    settings = {} if changed is None else master_settings(port) | changed
    async with master_on(store_server.url, **settings) as (master, _):
        make_site(tmp_path, [master.server.url])
        async with serving_site(tmp_path, port, "asgi") as url:
            vera = await Person(url).log_in("vera")
            for path in ("api/jobs", "api/session", ""):
                answer = await vera.call("GET", path)
                assert (answer.status_code, answer.json()["code"]) == (502, "site_unknown")
        assert "does not trust this site to say who the user is" in (tmp_path / "server.log").read_text()


async def test_challenges_are_answered_below_the_site(site: tuple[str, Api]) -> None:
    """Outside systems and people with a link need no login of the site; users answer with theirs, without a script."""
    url, admin = site
    nobody = Person(url)
    nina, vera, otto = [await Person(url).log_in(name) for name in ("nina", "vera", "otto")]
    form = {"title": "Refund?", "choices": [{"value": "approve"}, {"value": "reject"}]}
    page_fields = {"Accept": "text/html", "Origin": url, "Sec-Fetch-Site": "same-origin"}
    async with puller_at(admin) as worker:

        async def over() -> None:
            (job,) = await worker.claim()
            await worker.end(job)

        # An outside system, whose signature is in a header of any name.
        signed = await awaiting(
            admin, worker, signature={"header": "X-Shop", "secret": "s" * 32, "prefix": "sha256="}
        )
        at = signed["callback_url"]
        assert at.startswith(f"{url}{PATH}callbacks/")
        assert (await nobody.http.post(at, content=b"paid")).json()["code"] == "bad_signature"
        right = "sha256=" + hmac.new(b"s" * 32, b"paid", hashlib.sha256).hexdigest()
        told = {"Content-Type": "application/json"}
        progress = await nobody.http.post(f"{at}/progress", content=b'{"fraction": 0.5}', headers=told)
        assert progress.status_code == 204
        # Neither a name nor a credential of the caller's own goes with it.
        forged = {
            "X-Shop": right,
            "Remote-User": "root",
            "Remote-Groups": "admin",
            "Authorization": "Bearer x",
        }
        assert (await nobody.http.post(at, content=b"paid", headers=forged)).status_code == 202
        await over()
        # Everybody who has the link may answer.
        for person in (nobody, nina, otto):
            at = (await awaiting(admin, worker, form=form))["callback_url"]
            page = await person.http.get(at, headers={"Accept": "text/html"})
            assert (page.status_code, "Refund?" in page.text) == (200, True)
            foreign = {**page_fields, "Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
            answer = {"choice": "approve"}
            assert (await person.http.post(at, data=answer, headers=foreign)).status_code == 403
            done = await person.http.post(at, data=answer, headers=page_fields)
            assert done.status_code == 303, done.text
            shown = await person.http.get(urljoin(at, done.headers["location"]), headers=page_fields)
            assert shown.status_code == 200
            await over()
        # Users of the site.
        at = (await awaiting(admin, worker, form=form, audience="users"))["callback_url"]
        path = at.removeprefix(url)
        page = await nobody.http.get(at, headers={"Accept": "text/html"})
        assert (page.status_code, page.headers["location"]) == (302, f"/accounts/login/?next={path}")
        assert (await nobody.http.post(at, json={"choice": "approve"})).status_code == 401
        for person in (nina, vera):
            assert (await person.http.get(at, headers={"Accept": "text/html"})).status_code == 403
            assert (await person.http.post(at, data=answer, headers=page_fields)).status_code == 403
        page = await otto.http.get(at, headers={"Accept": "text/html"})
        assert (page.status_code, "Refund?" in page.text) == (200, True)
        # A browser says where a form comes from; data need what only scripts of the site can send.
        unsaid = {"Accept": "text/html"}
        assert (await otto.http.post(at, data=answer, headers=unsaid)).status_code == 403
        assert (await otto.http.post(at, json=answer)).json()["code"] == "csrf"
        assert (await otto.http.post(at, data=answer, headers=page_fields)).status_code == 303
        _, found = await admin.call("GET", "/api/challenges")
        by = [one["by"] for challenge in found["challenges"] for one in challenge["answers"] or ()]
        assert sorted(by, key=str) == [None, None, "proxy:otto", "proxy:otto"]
