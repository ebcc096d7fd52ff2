"""Login through a provider in a real browser: from the requested link back to the page it names."""

from contextlib import AsyncExitStack

import pytest
from playwright.async_api import Browser, expect

from jqmaster.app import running_master
from jqmaster.config import Settings
from tests.api.challenges.test_challenges import awaiting
from tests.api.challenges.test_forms import FORM, PASSWORD
from tests.support import real_time
from tests.support.master import QUICK, master_on
from tests.support.oidc_provider import oidc_settings, provider
from tests.support.ports import free_port
from tests.support.scripted_worker import puller_at
from tests.support.server import StoreServer
from tests.ui.conftest import Screens

pytestmark = [
    pytest.mark.req("D26"),
    pytest.mark.asyncio(loop_scope="session"),
    real_time.BROWSER,
]


async def test_a_person_logs_in_by_the_provider_and_out_again(
    browser: Browser, store_server: StoreServer
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    async with provider() as one:
        own = oidc_settings(
            one, url, oidc_label="Example ID", port=port, tokens=["admin:a-token-of-the-admin"]
        )
        async with (
            running_master(
                Settings(**{**QUICK, "redis_url": store_server.url, "shard": f"sso{port}", **own})
            ),
            Screens(browser, url).open("#/jobs?state=failed") as page,
        ):
            button = page.get_by_role("link", name="Log in with Example ID")
            await button.click()
            await page.get_by_role("link", name="I am Ada").click()
            await expect(page).to_have_url(f"{url}/#/jobs?state=failed")
            await expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
            await expect(page.locator(".who")).to_contain_text("ada")
            # The page of an ended session stays; the provider gets its own tab.
            await page.context.clear_cookies(name="jqmaster_session")
            dialog = page.get_by_role("dialog")
            await page.evaluate("location.hash = '#/workers'")
            async with page.context.expect_page() as opened:
                await dialog.get_by_role("link", name="Log in with Example ID").click()
            tab = await opened.value
            await tab.get_by_role("link", name="I am Ada").click()
            await expect(tab.locator(".who")).to_contain_text("ada")
            await tab.close()
            await page.bring_to_front()
            await page.evaluate("dispatchEvent(new Event('focus'))")
            await expect(dialog).to_have_count(0)
            await page.get_by_role("button", name="Log out").click()
            await expect(button).to_be_visible()
            assert len(one.logged_out) == 1
            one.person["groups"] = []
            await button.click()
            await page.get_by_role("link", name="I am Ada").click()
            await expect(page.get_by_role("alert")).to_contain_text("have no role here")


@pytest.mark.req("P4", "D26")
@pytest.mark.parametrize("how", ["a provider", "a password"])
async def test_a_person_who_logs_in_for_a_question_comes_back_to_it(
    browser: Browser, store_server: StoreServer, how: str
) -> None:
    port = free_port()
    async with provider() as one, AsyncExitStack() as stack:
        settings = oidc_settings(
            one, f"http://127.0.0.1:{port}", oidc_label="Example ID", port=port, tokens=["admin:token-a"]
        )
        _, api = await stack.enter_async_context(master_on(store_server.url, **settings))
        api.http.headers["authorization"] = "Bearer token-a"
        user = {"name": "grace", "password": PASSWORD, "role": "operator"}
        assert (await api.call("POST", "/api/users", user))[0] == 201
        worker = await stack.enter_async_context(puller_at(api))
        opened = await awaiting(api, worker, form=FORM, audience="users")
        address = f"callbacks/{opened['request_id']}"
        async with Screens(browser, str(api.http.base_url)).open(address) as page:
            await page.get_by_role("link", name="Log in").click()
            if how == "a provider":
                await page.get_by_role("link", name="Log in with Example ID").click()
                await page.get_by_role("link", name="I am Ada").click()
            else:
                await page.get_by_label("User").fill("grace")
                await page.get_by_label("Password").fill(PASSWORD)
                await page.get_by_role("button", name="Log in").click()
            await expect(page.get_by_role("heading", name="Refund order 42?")).to_be_visible()
            who = "oidc:ada" if how == "a provider" else "grace"
            await expect(page.get_by_text(f"You answer as {who}.")).to_be_visible()
            assert page.url.endswith(address)
            await page.get_by_label("Amount").fill("7.5")
            await page.get_by_role("button", name="Approve").click()
            await expect(page.get_by_role("status")).to_contain_text("Your answer is recorded.")
        (job,) = await worker.claim()
        assert job["phase"] == "callback"
        await worker.end(job)
