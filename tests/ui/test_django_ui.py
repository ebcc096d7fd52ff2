"""A Django site's user works with its web UI in a real browser."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from jqmaster.app import running_master
from jqmaster.config import Settings
from tests.support import long, real_time
from tests.support.django_ui_site import PASSWORD, PATH, make_site, master_settings, serving_site
from tests.support.master import QUICK
from tests.support.ports import free_port
from tests.support.server import StoreServer
from tests.ui.conftest import Screens

pytestmark = [
    pytest.mark.req("D26"),
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(240),
    real_time.BROWSER,
]


@pytest.mark.parametrize("kind", ["wsgi", *long.left_out("asgi")])
async def test_a_user_of_the_site_works_in_it(
    browser: Browser, store_server: StoreServer, tmp_path: Path, kind: str
) -> None:
    port = free_port()
    own = {**QUICK, **master_settings(port), "redis_url": store_server.url, "shard": f"dj{port}"}
    async with running_master(Settings(**own)) as master:
        make_site(tmp_path, [master.server.url])
        async with (
            serving_site(tmp_path, port, "wsgi" if kind == "wsgi" else "asgi") as url,
            Screens(browser, url).open(PATH[1:]) as page,
        ):
            await page.get_by_label("Name").fill("otto")
            await page.get_by_label("Password").fill(PASSWORD)
            await page.get_by_role("button", name="Enter").click()
            await expect(page).to_have_url(f"{url}{PATH}")
            await expect(page.locator(".who")).to_have_text("otto")
            await expect(page.locator(".connection")).to_have_text("Live")
            await page.goto(f"{PATH}#/enqueue")
            await page.get_by_label("Name").fill("mail.send")
            await page.get_by_role("button", name="Enqueue", exact=True).click()
            await expect(page.locator(".sent")).to_be_visible()
            await page.goto(f"{PATH}#/jobs")
            await expect(page.locator("tbody tr")).to_have_count(1)
            # A page named by its path is found below the site's path.
            await page.goto(f"{PATH}workers")
            await expect(page).to_have_url(f"{url}{PATH}#/workers")
            await page.context.clear_cookies(name="sessionid")
            await page.goto(f"{PATH}#/jobs")
            await page.reload()
            await expect(page.get_by_role("button", name="Enter")).to_be_visible()
