"""The web UI in adverse conditions: behind a proxy, with other operators, and with hostile text."""

import asyncio
import contextlib
import re
import secrets
from collections.abc import AsyncIterator
from urllib.parse import quote

import httpx
import pytest
from playwright.async_api import Browser, expect

from jqmaster.api.operations import live, live_feed
from tests.support import real_time
from tests.support.master import Api, master_on
from tests.support.prefix_proxy import behind_prefix
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from tests.ui.conftest import HOSTILE, Screens
from tests.ui.test_core import LATER, accessible, tag

pytestmark = [pytest.mark.req("J15"), pytest.mark.asyncio(loop_scope="session"), real_time.BROWSER]

ADMIN = "the-admins-token-0123456789"
# Characters for names and labels, which do not allow control characters.
LABEL = "<img src=x onerror=alert(1)>"
# How long the page waits for news from the master, by its own clock.
SILENCE_MS = 2_000 * live.PING_S + 5_000


@contextlib.asynccontextmanager
async def _guarded(store_server: StoreServer) -> AsyncIterator[Api]:
    """Yield the admin of a master that requires a login."""
    async with master_on(store_server.url, tokens=[f"admin:{ADMIN}"]) as (master, _):
        api = Api(master.server.url, ADMIN)
        try:
            yield api
        finally:
            await api.http.aclose()


async def test_a_token_that_made_another_is_shown_by_its_label(
    browser: Browser, store_server: StoreServer
) -> None:
    async with _guarded(store_server) as api:
        made = (await api.call("POST", "/api/tokens", {"label": "deploys", "scopes": ["admin"]}))[1]
        deploys = Api(str(api.http.base_url), made["token"])
        assert (await deploys.call("POST", "/api/tokens", {"label": "shop", "scopes": ["push"]}))[0] == 201
        await deploys.http.aclose()
        async with Screens(browser, str(api.http.base_url)).open("icon.svg") as page:
            await page.request.post("/api/session", data={"token": ADMIN})
            await page.goto("/#/access")
            row = page.get_by_role("row").filter(has_text="shop")
            await expect(row.locator("td.col-created .muted")).to_have_text("deploys")
            await page.goto("/#/audit")
            entry = page.locator(".entry").filter(has_text="shop")
            await expect(entry).to_contain_text(f"by token {made['id']}")


async def test_behind_a_proxy_it_is_live_logs_in_and_acts(
    browser: Browser, store_server: StoreServer
) -> None:
    async with (
        _guarded(store_server) as api,
        behind_prefix(str(api.http.base_url), "/some/prefix") as url,
        Screens(browser, url).open("some/prefix/#/jobs") as page,
    ):
        await page.get_by_label("Token", exact=True).fill(ADMIN)
        await page.keyboard.press("Enter")
        await expect(page.locator(".connection")).to_have_text("Live")
        one = await api.enqueue("ui.echo", **LATER)
        await expect(page.locator("tbody tr")).to_have_count(1)
        await page.locator("tbody tr a").first.click()
        await page.get_by_role("button", name="Cancel the job").click()
        await page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
        await expect(page.locator(".big-state")).to_have_text("Canceled")
        assert await api.state(one) == "canceled"


async def test_people_change_their_password_and_end_their_other_logins(
    browser: Browser, store_server: StoreServer
) -> None:
    old, new = "correct horse battery", "seven plums in a hat"
    async with _guarded(store_server) as api:
        status, _ = await api.call("POST", "/api/users", {"name": "ada", "password": old, "role": "viewer"})
        assert status == 201
        url = str(api.http.base_url)
        async with httpx.AsyncClient(base_url=url, trust_env=False) as elsewhere:
            login = await elsewhere.post("/api/session", json={"user": "ada", "password": old})
            assert login.status_code == 201
            async with Screens(browser, url).open("#/jobs") as page:
                await page.get_by_label("User", exact=True).fill("ada")
                await page.get_by_label("Password", exact=True).fill(old)
                await page.keyboard.press("Enter")
                await page.get_by_role("link", name="ada").click()
                await expect(page.get_by_role("heading", level=1)).to_have_text("My account")
                await expect(page.locator("tbody tr")).to_have_count(2)
                await accessible(page)
                await page.get_by_label("Current password").fill(old)
                await page.get_by_label("New password").fill("ada-ada-ada-ada")
                await page.get_by_role("button", name="Change password").click()
                await expect(
                    page.get_by_text("must have at least 5 different characters").first
                ).to_be_visible()
                await page.get_by_label("New password").fill(new)
                await page.get_by_role("button", name="Change password").click()
                await expect(page.get_by_text("The password was changed")).to_be_visible()
                assert (await elsewhere.get("/api/jobs")).status_code == 401
                again = await elsewhere.post("/api/session", json={"user": "ada", "password": new})
                assert again.status_code == 201
                await page.reload()
                await expect(page.locator("tbody tr")).to_have_count(2)
                await page.get_by_role("button", name="End all other logins").click()
                await expect(page.locator("tbody tr")).to_have_count(1)
                assert (await elsewhere.get("/api/jobs")).status_code == 401


async def test_a_session_that_ends_while_one_types_keeps_the_form(
    browser: Browser, store_server: StoreServer
) -> None:
    async with _guarded(store_server) as api:
        job = await api.enqueue("ui.echo", **LATER)
        async with Screens(browser, str(api.http.base_url)).open(f"#/job?id={job}") as page:
            await page.get_by_label("Token", exact=True).fill(ADMIN)
            await page.keyboard.press("Enter")
            await page.get_by_role("button", name="Change…").click()
            form = page.get_by_role("dialog", name="Change the job")
            await form.get_by_label("Priority").fill("-12")
            await page.context.clear_cookies()
            await form.get_by_role("button", name="Save").click()
            login = page.get_by_role("dialog", name="Log in again")
            await expect(login).to_be_visible()
            await accessible(page)
            await login.get_by_label("Token", exact=True).fill(ADMIN)
            await login.get_by_role("button", name="Log in").click()
            await expect(login).to_have_count(0)
            await expect(form.get_by_label("Priority")).to_have_value("-12")
            await form.get_by_role("button", name="Save").click()
            await expect(form).to_have_count(0)
            await expect(page.locator(".connection")).to_have_text("Live")
            assert (await api.job(job))["priority"] == -12
            # Closing the dialog leads to the login page.
            await page.context.clear_cookies()
            # On news of the job, the page reads it again and is refused.
            await api.call("PATCH", f"/api/jobs/{job}", {"priority": -13})
            await expect(login).to_be_visible()
            await page.keyboard.press("Escape")
            await expect(page.get_by_role("heading", level=1)).to_have_text("Log in")


async def test_a_stream_that_falls_silent_without_an_end_is_shown_as_lost_and_opened_anew(
    browser: Browser, store_server: StoreServer
) -> None:
    flows = asyncio.Event()
    flows.set()
    async with (
        master_on(store_server.url) as (master, api),
        behind_prefix(master.server.url, "/here", flows=flows) as url,
        Screens(browser, url).open("here/icon.svg") as page,
    ):
        await page.clock.install()
        await page.goto("/here/#/jobs")
        connection = page.locator(".connection")
        await expect(connection).to_have_text("Live")
        flows.clear()
        await page.clock.fast_forward(SILENCE_MS)
        await expect(connection).to_have_text("Disconnected")
        flows.set()
        await expect(connection).to_have_text("Live")
        await api.enqueue("ui.echo", **LATER)
        await expect(page.locator("tbody tr")).to_have_count(1)


async def test_a_stream_that_only_says_that_it_is_alive_is_not_taken_for_dead(
    browser: Browser, store_server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "PING_S", 0.1)
    monkeypatch.setattr(live_feed, "EVERY_S", 3600.0)
    async with (
        master_on(store_server.url) as (master, _),
        Screens(browser, master.server.url).open("icon.svg") as page,
    ):
        # Counts what the page itself has heard. The browser hears a message earlier than a page that waits for the
        # processor.
        await page.add_init_script(
            """globalThis.heard = [];
            globalThis.EventSource = class extends EventSource {
              addEventListener(name, listener) {
                super.addEventListener(name, (event) => {
                  listener(event);
                  globalThis.heard.push(name);
                });
              }
            };"""
        )
        opened: list[str] = []
        page.on(
            "request", lambda request: opened.append(request.url) if "api/stream" in request.url else None
        )
        await page.clock.install()
        await page.goto("/#/jobs")
        await expect(page.locator(".connection")).to_have_text("Live")
        for _ in range(4):
            before = len(await page.evaluate("heard"))

            async def was_told(before: int = before) -> bool:
                return "alive" in (await page.evaluate("heard"))[before:]

            await wait_until(was_told)
            await page.clock.fast_forward(SILENCE_MS - 5_000)
        # It tells nothing new, which makes the page old, but its stream is not lost.
        await expect(page.locator(".connection")).to_have_text(re.compile(r" old$"))
        await expect(page.locator(".banner")).to_contain_text("The master sends no new data.")
        assert len(opened) == 1
        assert set((await page.evaluate("heard"))[-3:]) == {"alive"}


async def test_actions_that_another_operator_did_before_are_refused_counted_and_told(
    screens: Screens, api: Api
) -> None:
    mark = tag()
    ids = [await api.enqueue("ui.echo", n, tags=[mark], **LATER) for n in range(3)]
    async with screens.open(f"#/jobs?tag={mark}") as page, screens.open(f"#/job?id={ids[0]}") as other:
        await page.get_by_label("Select all").check()
        await expect(page.get_by_text("3 selected")).to_be_visible()
        await page.get_by_role("button", name="Cancel…").click()
        confirm = page.get_by_role("dialog").get_by_role("button", name="Cancel (3)")
        await expect(confirm).to_be_visible()
        await other.get_by_role("button", name="Cancel the job").click()
        await other.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
        await expect(other.locator(".big-state")).to_have_text("Canceled")
        await confirm.click()
        await expect(page.locator(".action", has_text="2 done / 3 · 1 refused").first).to_be_visible()
        assert {await api.state(one) for one in ids} == {"canceled"}
        # If two users save the same constraint, the later one learns that it has changed, and nothing is lost.
        document = {"matcher": {"field": "name", "op": "eq", "value": mark}, "concurrency": 2}
        await api.call("PUT", f"/api/constraints/{mark}", document)
        await page.goto(f"/#/constraints?name={mark}")
        await page.get_by_role("button", name="Edit").click()
        await page.get_by_label("Running at once").fill("9")
        await api.call("PUT", f"/api/constraints/{mark}", {**document, "concurrency": 4})
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("dialog").get_by_role("alert").first).to_be_visible()
        assert (await api.call("GET", f"/api/constraints/{mark}"))[1]["concurrency"] == 4
    assert (await api.call("DELETE", f"/api/constraints/{mark}"))[0] == 204


@pytest.mark.rule("E4.1")
async def test_text_of_others_stays_text_on_the_pages_of_operations(
    browser: Browser, store_server: StoreServer
) -> None:
    async with _guarded(store_server) as api:
        status, worker = await api.call(
            "POST",
            "/api/workers",
            {
                "url": None,
                "names": ["ui.echo"],
                "max_jobs": 1,
                "node_id": LABEL,
                "labels": {LABEL: LABEL},
                "version": "<b onclick=alert(3)>",
                "secret": secrets.token_hex(16),
            },
        )
        assert status == 201, worker
        status, answer = await api.call(
            "PUT",
            "/api/constraints/evil",
            {
                "matcher": {"any": [{"field": "name", "op": "glob", "value": "evil.*"},
                    {"field": "tags", "op": "eq", "value": LABEL}]},
                "key": "argument.host",
                "concurrency": 1,
                "paused": True,
                "overrides": [{"value": HOSTILE, "concurrency": 2}],
            },
        )  # fmt: skip
        assert status in {200, 201}, answer
        held = await api.enqueue("evil.one", {"host": HOSTILE})
        status, token = await api.call("POST", "/api/tokens", {"label": LABEL, "scopes": ["read"]})
        assert status == 201, token
        addresses = {
            "workers": LABEL,
            f"workers?id={worker['worker_id']}": LABEL,
            "constraints": "evil",
            "constraints?name=evil": "<script>alert(2)",
            f"job?id={held}": "<script>alert(2)",
            "audit": LABEL,
            "access": LABEL,
            "settings": "Settings",
            "masters": "Masters",
        }
        async with Screens(browser, str(api.http.base_url)).open("icon.svg") as page:
            await page.request.post("/api/session", data={"token": ADMIN})
            for address, text in addresses.items():
                await page.goto(f"/#/{address}")
                await expect(page.get_by_text(text).first).to_be_visible()
                await expect(page.locator(".loading")).to_have_count(0)
                found = page.locator("#app img, #app script, #app [onerror], #app [onclick]")
                assert await found.count() == 0, address
            # The editor tries the matcher and lists the results.
            await page.goto("/#/constraints?name=evil")
            await page.get_by_role("button", name="Edit").click()
            await expect(page.locator(".preview .chip").first).to_contain_text("onerror=alert(1)")
            await page.keyboard.press("Escape")
            evil = quote(HOSTILE)
            for page_name in ("workers", "constraints", "masters", "audit", "settings", "access"):
                for part in ("id", "name", "q", "target", "cursor", "value", "group"):
                    await page.goto(f"/#/{page_name}?{part}={evil}")
                    await expect(page.get_by_role("heading", level=1)).to_be_visible()
            assert await page.locator("#app img, #app script, #app [onerror]").count() == 0
            assert not re.search("alert", await page.title())


async def test_numbers_with_many_digits_are_read_exactly(screens: Screens) -> None:
    """An answer with a fraction such as 1/6, which is not a long integer, was once not recognised as JSON."""
    text = '{"a":0.16666666666666666,"b":9007199254740993123,"c":"9007199254740993123","d":-1.2345678901234567e-07}'
    async with screens.open("#/jobs") as page:
        found = await page.evaluate(
            "async (text) => { const m = await import(new URL('core/api.js', document.baseURI).href);"
            " const read = m.parseExact(text); return [read.a, String(read.b), read.c, read.d]; }",
            text,
        )
    assert found == [1 / 6, "9007199254740993123", "9007199254740993123", -1.2345678901234567e-07]
