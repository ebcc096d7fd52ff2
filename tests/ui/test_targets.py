"""Target pages: the list, one target with its newest answers, its form, and a test that shows request and answer."""

import re
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from tests.support import real_time
from tests.support.endpoint import Request, endpoint, reply
from tests.support.master import master_on
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from tests.support.webhook_receiver import SECRET
from tests.ui.conftest import Screens
from tests.ui.test_core import accessible, accessible_in_each_look

pytestmark = [
    pytest.mark.req("M13"),
    pytest.mark.asyncio(loop_scope="session"),
    real_time.BROWSER,
]


async def test_a_target_is_made_changed_watched_tested_and_deleted(
    browser: Browser, store_server: StoreServer
) -> None:
    def answer(request: Request) -> bytes:
        return (
            reply(200, {"seen": request.json}) if request.json != {"bad": 1} else reply(422, {"why": "bad"})
        )

    settings = {"allowed_webhook_networks": "127.0.0.0/8"}
    async with master_on(store_server.url, **settings) as (_, api), endpoint(answer) as to:

        async def target() -> dict[str, Any]:
            return dict((await api.call("GET", "/api/targets/app"))[1])

        screens = Screens(browser, str(api.http.base_url))
        async with screens.open("#/targets") as page:
            await page.get_by_role("button", name="New target").click()
            dialog = page.get_by_role("dialog")
            save = dialog.get_by_role("button", name="Save")
            await save.click()
            await expect(dialog).to_contain_text("Enter a name")
            await dialog.get_by_label("Name", exact=True).fill("app")
            await dialog.get_by_label("Names", exact=True).fill("mail.*\n\n shop.order ")
            await dialog.get_by_label("URL", exact=True).fill(f"{to.url}/jobs/{{name}}")
            await dialog.get_by_label("Requests at once", exact=True).fill("7")
            await dialog.get_by_text("Answers, limits and headers").click()
            await dialog.get_by_label("Fails for good").fill("4xx, 500")
            await dialog.get_by_label("Further headers").fill("X-Key")
            await accessible(page)
            await save.click()
            await expect(dialog).to_contain_text("a name, a colon and a value")
            await dialog.get_by_label("Further headers").fill("X-Key: top secret")
            await save.click()
            await expect(page.get_by_role("heading", level=1)).to_have_text("app")
            made = await target()
            assert (made["names"], made["url"]) == (["mail.*", "shop.order"], f"{to.url}/jobs/{{name}}")
            assert (made["max_running"], made["ok"], made["final"]) == (7, ["2xx"], ["4xx", 500])
            assert (made["headers"], made["has_secret"], made["timeout"]) == ({"X-Key": "…"}, False, None)

            await page.get_by_role("button", name="Edit").click()
            await dialog.get_by_label("Description").fill("for mails")
            await dialog.get_by_label("Secret").fill(SECRET)
            await save.click()
            await expect(dialog).to_have_count(0)
            changed = await target()
            assert (changed["description"], changed["has_secret"]) == ("for mails", True)
            same = ("names", "url", "method", "body", "max_running", "ok", "final", "headers", "allow_hosts")
            assert [changed[part] for part in same] == [made[part] for part in same]

            done = await api.enqueue("mail.send", {"to": "ann"})
            await api.until_state(done, "succeeded")
            # Hidden values went back as they were shown, and stayed.
            assert to.requests[-1].fields["x-key"] == "top secret"
            failed = await api.enqueue("mail.send", {"bad": 1})
            await api.until_state(failed, "failed")

            async def are_counted() -> bool:
                return len((await target())["figures"]["last"]) == 2

            await wait_until(are_counted, timeout_s=30)
            await page.goto("/#/targets")
            row = page.locator("tbody tr")
            await expect(row).to_contain_text("app")
            await expect(row).to_contain_text("failed for good")
            await expect(row.locator(".col-names")).to_have_text("mail.*, shop.order")
            await row.click()
            await expect(page.get_by_role("heading", level=1)).to_have_text("app")
            answers = page.locator("section", has=page.locator("#answers"))
            await expect(answers.locator("li").first).to_contain_text("422")
            await expect(answers).to_contain_text('{"seen": {"to": "ann"}}')

            await page.get_by_role("button", name=re.compile("^Send a test")).click()
            await dialog.get_by_label("Argument").fill("{")
            await dialog.get_by_role("button", name="Send", exact=True).click()
            await expect(dialog).to_contain_text("must be JSON")
            await dialog.get_by_label("Argument").fill('{"order": 42}')
            await dialog.get_by_role("button", name="Send", exact=True).click()
            await expect(dialog).to_contain_text("JQ-Test: true")
            await expect(dialog).to_contain_text('{"seen": {"order": 42}}')
            await dialog.get_by_role("button", name="Close").first.click()

            # A job may name its own address, and a request may stop being signed.
            await page.get_by_role("button", name="Edit").click()
            await dialog.get_by_label("Address of the requests").select_option("argument")
            await dialog.get_by_label("URL", exact=True).fill("argument.url")
            await dialog.get_by_label("Further headers").fill("")
            await save.click()
            await expect(dialog).to_contain_text("at least one host")
            await dialog.get_by_label("Hosts that jobs may name").fill("*.app.example")
            await dialog.get_by_label("Do not sign requests any more").check()
            await save.click()
            await expect(dialog).to_have_count(0)
            changed = await target()
            assert (changed["url"], changed["allow_hosts"]) == ({"from": "argument.url"}, ["*.app.example"])
            assert not changed["has_secret"]

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
