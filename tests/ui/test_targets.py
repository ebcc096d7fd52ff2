"""Target pages: the list, one target with its newest answers, and a test that shows request and answer."""

import re
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from tests.support import real_time
from tests.support.endpoint import Request, endpoint, reply
from tests.support.master import master_on
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from tests.ui.conftest import Screens
from tests.ui.test_core import accessible_in_each_look

pytestmark = [
    pytest.mark.req("M13"),
    pytest.mark.asyncio(loop_scope="session"),
    real_time.BROWSER,
]


async def test_a_target_is_watched_tested_and_deleted(browser: Browser, store_server: StoreServer) -> None:
    def answer(request: Request) -> bytes:
        return (
            reply(200, {"seen": request.json}) if request.json != {"bad": 1} else reply(422, {"why": "bad"})
        )

    settings = {"allowed_webhook_networks": "127.0.0.0/8"}
    async with master_on(store_server.url, **settings) as (_, api), endpoint(answer) as to:
        target: dict[str, Any] = {
            "names": ["mail.*"],
            "url": f"{to.url}/jobs/{{name}}",
            "description": "for mails",
        }
        assert (await api.call("PUT", "/api/targets/app", target))[0] == 201
        done = await api.enqueue("mail.send", {"to": "ann"})
        await api.until_state(done, "succeeded")
        failed = await api.enqueue("mail.send", {"bad": 1})
        await api.until_state(failed, "failed")

        async def are_counted() -> bool:
            return len((await api.call("GET", "/api/targets/app"))[1]["figures"]["last"]) == 2

        await wait_until(are_counted, timeout_s=30)
        screens = Screens(browser, str(api.http.base_url))
        async with screens.open("#/targets") as page:
            row = page.locator("tbody tr")
            await expect(row).to_contain_text("app")
            await expect(row).to_contain_text("failed for good")
            await row.click()
            await expect(page.get_by_role("heading", level=1)).to_have_text("app")
            answers = page.locator("section", has=page.locator("#answers"))
            await expect(answers.locator("li").first).to_contain_text("422")
            await expect(answers).to_contain_text('{"seen": {"to": "ann"}}')

            await page.get_by_role("button", name=re.compile("^Send a test")).click()
            dialog = page.get_by_role("dialog")
            await dialog.get_by_label("Argument").fill("{")
            await dialog.get_by_role("button", name="Send", exact=True).click()
            await expect(dialog).to_contain_text("must be JSON")
            await dialog.get_by_label("Argument").fill('{"order": 42}')
            await dialog.get_by_role("button", name="Send", exact=True).click()
            await expect(dialog).to_contain_text("JQ-Test: true")
            await expect(dialog).to_contain_text('{"seen": {"order": 42}}')
            await dialog.get_by_role("button", name="Close").first.click()

            await page.get_by_role("button", name=re.compile("^Delete")).click()
            await dialog.get_by_role("button", name=re.compile("^Delete")).click()
            await expect(page).to_have_url(re.compile("#/targets$"))
        assert (await api.call("GET", "/api/targets/app"))[0] == 404


@pytest.mark.sized
async def test_pages_of_targets_are_accessible_and_fit_a_phone(
    browser: Browser, store_server: StoreServer
) -> None:
    async with master_on(store_server.url) as (_, api):
        target = {"names": ["mail.*"], "url": "https://app.example/jobs/{name}", "description": "d " * 50}
        assert (await api.call("PUT", "/api/targets/app", target))[0] == 201
        for locale in ("en-US", "ja-JP"):
            async with Screens(browser, str(api.http.base_url)).open(locale=locale) as page:
                for address in ("#/targets", "#/targets?name=app", "#/targets?name=no-such"):
                    await page.goto(f"/{address}")
                    await expect(page.get_by_role("heading", level=1)).to_be_visible()
                    await expect(page.locator(".loading")).to_have_count(0)
                    await accessible_in_each_look(page, address)
