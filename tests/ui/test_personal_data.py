"""The page of personal data: a search that tells how far it is, and the erasure of what it found."""

from typing import Any

import pytest
from playwright.async_api import expect

from tests.support import real_time
from tests.support.master import Api, master_on
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from tests.ui.conftest import Screens, worker_on
from tests.ui.test_core import accessible_in_each_look

pytestmark = [pytest.mark.req("D21", "J15"), pytest.mark.asyncio(loop_scope="session"), real_time.BROWSER]

JOSE = "jose@example.com"


async def over(api: Api, name: str, argument: Any, state: str) -> str:
    job_id = await api.enqueue(name, argument, max_retry=0, keep_result=True)
    await api.until_state(job_id, state)
    return job_id


async def test_a_person_is_found_and_erased_with_the_keyboard(
    browser: Any, store_server: StoreServer
) -> None:
    async with master_on(store_server.url) as (master, api), worker_on(master.server.url).running():
        done = await over(api, "ui.echo", {"to": JOSE, "yen": 3}, "succeeded")
        failed = await over(api, "ui.fail", f"no such person: {JOSE}", "failed")
        waiting = await api.enqueue("later", {"to": JOSE}, delay=600)
        screens = Screens(browser, master.server.url)
        async with screens.open("#/overview") as page:
            await expect(page.get_by_role("heading", level=1)).to_be_visible()
            await page.keyboard.press("g")
            await page.keyboard.press("x")
            await expect(page.get_by_role("heading", name="Personal data")).to_be_visible()
            await page.get_by_label("Texts that identify the person").fill(f"{JOSE}\n70041")
            await page.get_by_label("Reason").fill("request 1042")
            await page.keyboard.press("Enter")
            rows = page.locator("#found ~ .table-box tbody tr")
            row = rows.filter(has_text=done)
            await expect(row).to_contain_text("argument.to")
            await expect(row).to_contain_text("result.to")
            await expect(rows.filter(has_text=failed)).to_contain_text("errors")
            await expect(rows.filter(has_text=waiting)).to_contain_text("argument.to")
            # A job that waits needs its values.
            await expect(rows.filter(has_text=waiting).get_by_role("button")).to_have_count(0)
            await expect(page.get_by_text("backups, exports and other copies of the store")).to_be_visible()
            await accessible_in_each_look(page, "#/personal_data")
            await row.get_by_role("button", name="Erase…").click()
            dialog = page.get_by_role("dialog")
            await expect(dialog).to_contain_text("the job cannot be retried")
            await dialog.get_by_label("result.to").uncheck()
            await dialog.get_by_role("button", name="Erase", exact=True).click()
            await expect(page.get_by_text("1 value erased")).to_be_visible()
            await expect(row).not_to_contain_text("argument.to")
            await expect(row).to_contain_text("result.to")
        job = await api.job(done)
        assert (job["argument"], job["erased"]) == ({"to": "[erased]", "yen": 3}, ["argument.to"])
        async with screens.open(f"#/job?id={done}") as page:
            await expect(page.get_by_text("Erased values")).to_be_visible()
            await page.get_by_role("button", name="Retry", exact=True).click()
            await expect(page.get_by_text("cannot run again")).to_be_visible()

        async def searches() -> list[dict[str, Any]]:
            entries = (await api.call("GET", "/api/audit"))[1]["entries"]
            return [one for one in entries if one["action"] == "personal_data.search"]

        (entry,) = await wait_until(searches, what="the search is in the audit log")
        assert entry["after"] == {"texts": 2, "reason": "request 1042"}


async def test_only_admins_see_the_page_in_the_menu_and_it_speaks_japanese(
    browser: Any, store_server: StoreServer
) -> None:
    async with master_on(store_server.url) as (master, _):
        screens = Screens(browser, master.server.url)
        async with screens.open("#/personal_data", locale="ja-JP") as page:
            await expect(page.get_by_role("heading", name="個人データ")).to_be_visible()
            await page.get_by_label("個人を特定する文字列").fill("ab")
            await page.get_by_role("button", name="検索", exact=True).click()
            await expect(page.locator(".field-error, .error-box").first).to_be_visible()
