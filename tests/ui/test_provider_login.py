"""Somebody logs in by a provider, in a real browser: from the link that was wanted back to the page that it names."""

import pytest
from playwright.async_api import Browser, expect

from jqmaster.app import running_master
from jqmaster.config import Settings
from tests.support import real_time
from tests.support.master import QUICK
from tests.support.oidc_provider import oidc_settings, provider
from tests.support.ports import free_port
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
            # The page of a session that has ended stays; the provider gets a tab of its own.
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
