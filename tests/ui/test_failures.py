"""The failure page: trends, marks, versions, ignoring, splitting, and a retry that counts again."""

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from tests.support import real_time
from tests.support.master import Api, master_on
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from tests.ui.conftest import Screens, worker_on
from tests.ui.test_core import accessible, accessible_in_each_look, picture

pytestmark = [pytest.mark.req("J15", "P8"), pytest.mark.asyncio(loop_scope="session"), real_time.BROWSER]


@pytest_asyncio.fixture(loop_scope="session")
async def failing(store_server: StoreServer) -> AsyncIterator[Api]:
    """Yield a master whose worker has failed three jobs for one reason and one for another."""
    async with master_on(store_server.url) as (master, api), worker_on(master.server.url).running():
        for message in ("disk 1 is full", "disk 2 is full", "disk 3 is full", "KeyError: 'vat_id'"):
            job = await api.enqueue("ui.fail", message, max_retry=0)
            await api.until_state(job, "failed")
        await until_groups(api, 2)
        yield api


async def until_groups(api: Api, count: int) -> list[dict[str, Any]]:
    async def found() -> list[dict[str, Any]] | None:
        groups = (await api.call("GET", "/api/failures"))[1]["groups"]
        return groups if len(groups) == count else None

    return await wait_until(found, what=f"{count} groups of failures")


@pytest.fixture
def its_screens(screens: Screens, failing: Api) -> Screens:
    return Screens(screens.browser, str(failing.http.base_url))


def card(page: Page, text: str) -> Any:
    return page.locator(".group").filter(has_text=text)


async def more(group: Any) -> None:
    """Open the menu with what few people need."""
    await group.locator(".more-menu > summary").click()


async def test_groups_show_their_trend_and_marks_and_fit_a_phone(its_screens: Screens) -> None:
    for is_dark in (False, True):
        async with its_screens.open("#/failures", is_dark=is_dark) as page:
            disk = card(page, "disk <n> is full")
            await expect(disk.locator(".group-count b")).to_have_text("3")
            await expect(disk.get_by_role("img", name=re.compile("Failures per hour"))).to_be_visible()
            await expect(disk).to_contain_text("3 in 24 h")
            await expect(disk.locator(".badge", has_text="new")).to_be_visible()
            await expect(card(page, "KeyError: 'vat_id'")).to_be_visible()
            await accessible(page)
            await picture(page, f"failures-{'dark' if is_dark else 'light'}")
            await page.set_viewport_size({"width": 360, "height": 740})
            await accessible(page)
            await picture(page, f"failures-phone-{'dark' if is_dark else 'light'}")
    async with its_screens.open("#/failures", locale="ja-JP") as page:
        await expect(page.locator("body")).to_contain_text("新規")
        await picture(page, "failures-ja")


async def test_a_group_is_ignored_and_makes_no_fault_until_somebody_stops_that(
    its_screens: Screens, failing: Api
) -> None:
    async with its_screens.open("#/overview") as page:
        fault = page.locator(".fault", has_text="ui.fail")
        await expect(fault).to_have_count(1)
        for text, lasts in (("disk <n> is full", ""), ("KeyError", "2 h")):
            await page.goto("/#/failures")
            await more(card(page, text))
            await card(page, text).get_by_role("button", name="Ignore…").click()
            dialog = page.get_by_role("dialog")
            await dialog.get_by_label("Reason").fill("the disk comes on Monday")
            await dialog.get_by_label("For").fill(lasts)
            await accessible(page)
            await picture(page, "failures-ignore")
            await dialog.get_by_role("button", name="Ignore").click()
            await expect(card(page, text)).to_have_count(0)
        await page.get_by_role("link", name="Ignored").click()
        await expect(card(page, "disk <n> is full")).to_contain_text("the disk comes on Monday")
        await expect(card(page, "disk <n> is full")).to_contain_text("until they change")
        await expect(card(page, "KeyError")).to_contain_text("ends in 1 h 59 min")
        await accessible(page)
        await picture(page, "failures-ignored")
        await page.goto("/#/overview")
        await expect(page.locator(".tiles, .tile").first).to_be_visible()
        await expect(fault).to_have_count(0)
        await page.goto("/#/failures?show=ignored")
        for text in ("disk <n> is full", "KeyError"):
            await more(card(page, text))
            await card(page, text).get_by_role("button", name="Stop ignoring").click()
            await expect(card(page, text)).to_have_count(0)
        await page.goto("/#/audit")
        await expect(page.locator(".entry").first).to_contain_text("no longer ignored")


async def test_failures_are_split_by_name_and_by_version(its_screens: Screens, failing: Api) -> None:
    async with its_screens.open("#/failures") as page:
        split = page.get_by_role("navigation", name="Group by")
        await split.get_by_role("link", name="Name").click()
        await expect(page.get_by_role("heading", level=2)).to_have_text(re.compile("ui.fail 4 failed"))
        await split.get_by_role("link", name="Version").click()
        await expect(page.get_by_role("heading", level=2).first).to_be_visible()
        await accessible(page)
        await picture(page, "failures-split")


async def test_the_count_of_failures_tells_how_many_jobs_are_still_failed(
    its_screens: Screens, failing: Api
) -> None:
    (group,) = [g for g in await until_groups(failing, 2) if "disk" in g["message"]]
    of_group = f"/api/jobs?state=failed&failure_group={group['id']}"
    jobs = (await failing.call("GET", of_group))[1]["jobs"]
    for deleted, words, of_name in (
        (jobs[:1], "2 still failed", "3 still failed"),
        (jobs[1:], "none still failed", "1 still failed"),
    ):
        for job in deleted:
            assert (await failing.call("DELETE", f"/api/jobs/{job['id']}"))[0] == 204
        async with its_screens.open("#/failures") as page:
            disk = card(page, "disk <n> is full")
            await expect(disk.locator(".still")).to_have_text(words)
            await expect(disk.locator(".group-count b")).to_have_text("3")
            await expect(card(page, "KeyError").locator(".still")).to_have_text("1 still failed")
            await picture(page, "failures-still")
            await page.goto("/#/names?name=ui.fail")
            tile = page.locator(".tile", has_text=of_name)
            await expect(tile.locator("b")).to_have_text("4")
            await expect(tile.get_by_role("link")).to_have_attribute(
                "href", re.compile("state=failed&name=ui.fail$")
            )
    async with its_screens.open("#/failures", locale="ja-JP") as page:
        await expect(card(page, "KeyError").locator(".still")).to_have_text("現在も失敗 1 件")


async def test_a_retry_counts_again_before_it_acts(its_screens: Screens, failing: Api) -> None:
    async with its_screens.open("#/failures") as page:
        await card(page, "disk <n> is full").get_by_role("button", name="Retry…").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog.locator(".confirm-count strong")).to_have_text("3")
        # Meanwhile another user deletes one job and another job fails, about which this user was not asked.
        (group,) = [g for g in await until_groups(failing, 2) if "disk" in g["message"]]
        assert (await failing.call("DELETE", f"/api/jobs/{group['example_job_id']}"))[0] == 204
        later = await failing.enqueue("ui.fail", "disk 9 is full", max_retry=0)
        await failing.until_state(later, "failed")
        await dialog.get_by_role("button", name="Retry (3)").click()
        await expect(dialog.get_by_role("alert")).to_contain_text("It was 3 and is now 2")
        await picture(page, "failures-recounted")
        await dialog.get_by_role("button", name="Retry (2)").click()
        await expect(dialog).to_have_count(0)
    assert await failing.state(later) == "failed"


async def test_a_group_is_assigned_and_resolved_until_a_later_version_fails(
    its_screens: Screens, failing: Api
) -> None:
    async with its_screens.open("#/failures") as page:
        disk = card(page, "disk <n> is full")
        await expect(disk).to_contain_text("ui/conftest.py fail")
        dialog = page.get_by_role("dialog")
        await more(disk)
        await disk.get_by_role("button", name="Assign…").click()
        await dialog.get_by_label("Assignee").fill("grace")
        await accessible(page)
        await dialog.get_by_role("button", name="Assign").click()
        await expect(disk.locator(".badge", has_text="grace")).to_be_visible()
        await page.get_by_label("Assignee").fill("grace")
        await expect(page.locator(".group")).to_have_count(1)
        await page.get_by_label("Assignee").fill("")
        await expect(page.locator(".group")).to_have_count(2)
        await disk.get_by_role("button", name="Resolve…").click()
        await accessible(page)
        await picture(page, "failures-resolve")
        await dialog.get_by_label("Resolved in version").fill("9.0")
        await dialog.get_by_role("button", name="Resolve").click()
        await expect(disk).to_have_count(0)
        await page.get_by_role("link", name="Resolved").click()
        await expect(disk).to_contain_text("resolved in 9.0")
        await accessible(page)
        await disk.get_by_role("button", name="Reopen").click()
        await expect(disk).to_have_count(0)
        await page.goto("/#/failures")
        await expect(disk).to_be_visible()
        await page.goto("/#/audit")
        await expect(page.locator(".entry").first).to_contain_text("Failure group reopened")


async def test_a_group_is_merged_into_another_and_split_off_again(its_screens: Screens, failing: Api) -> None:
    async with its_screens.open("#/failures") as page:
        disk, vat = card(page, "disk <n> is full"), card(page, "KeyError: 'vat_id'")
        dialog, toasts = page.get_by_role("dialog"), page.locator(".toasts")
        ask = vat.get_by_role("button", name="Merge…")
        await more(vat)
        await ask.click()
        # No group is chosen for the reader.
        await dialog.get_by_role("button", name="Merge", exact=True).click()
        await expect(dialog.get_by_label("Merge into")).to_be_focused()
        await expect(dialog).to_contain_text("into: ")
        await dialog.get_by_label("Merge into").select_option(label="3 × ValueError: disk <n> is full")
        await accessible_in_each_look(page, "failures-merge")
        await page.set_viewport_size({"width": 1280, "height": 900})
        await dialog.get_by_role("button", name="Merge", exact=True).click()
        await expect(toasts).to_contain_text("Groups merged")
        await expect(page.locator(".group")).to_have_count(1)
        await expect(disk.locator(".group-count b")).to_have_text("4")
        await expect(disk.get_by_role("list", name="Includes")).to_contain_text(
            "1 × ValueError: KeyError: 'vat_id'"
        )
        await accessible_in_each_look(page, "failures-merged")
        # The only group of its name has none to be merged into, and says so.
        await more(disk)
        await disk.get_by_role("button", name="Merge…").click()
        await expect(dialog).to_contain_text("There is no other group of this job name.")
        await dialog.get_by_role("button", name="Close").last.click()
        await disk.get_by_role("button", name="Split off").click()
        await expect(toasts).to_contain_text("Group split off")
        await expect(disk.locator(".group-count b")).to_have_text("3")
        await more(vat)
        await ask.click()
        await dialog.get_by_label("Merge into").select_option(label="3 × ValueError: disk <n> is full")
        await dialog.get_by_role("button", name="Merge", exact=True).click()
        await expect(page.locator(".group")).to_have_count(1)
        await toasts.get_by_role("button", name="Undo").last.click()
        await expect(page.locator(".group")).to_have_count(2)
        await page.goto("/#/audit")
        await expect(page.locator(".entry").first).to_contain_text("Failure group split off")
    async with its_screens.open("#/failures", locale="ja-JP") as page:
        await more(card(page, "vat_id"))
        await card(page, "vat_id").get_by_role("button", name="統合…").click()
        await expect(page.get_by_label("統合先")).to_be_visible()
        await accessible_in_each_look(page, "failures-merge-ja")


async def test_one_sees_whom_a_fault_affects(its_screens: Screens, failing: Api) -> None:
    for locale, button in (("en-US", "Affected…"), ("ja-JP", "影響…")):
        async with its_screens.open("#/failures", locale=locale) as page:
            await more(card(page, "disk <n> is full"))
            await card(page, "disk <n> is full").get_by_role("button", name=button).click()
            dialog = page.get_by_role("dialog")
            await expect(dialog.get_by_role("row")).to_have_count(1 + 3)
            await expect(dialog).to_contain_text('"disk 2 is full"')
            # Texts stand at the left, as in every table.
            value = dialog.get_by_role("rowheader").first
            assert await value.evaluate("(e) => getComputedStyle(e).textAlign") == "start"
            await accessible(page)
            await picture(page, f"failures-affected-{locale}")
            await dialog.locator("input").fill("argument.tenant")
            await page.keyboard.press("Escape")
            await expect(dialog).to_have_count(0)
            await page.evaluate("localStorage.clear()")


async def test_eight_groups_fit_a_screen_and_none_moves_under_the_pointer(
    its_screens: Screens, failing: Api
) -> None:
    codes = [f"HTTP status {400 + n}" for n in range(8)]
    for code in codes:
        job = await failing.enqueue("ui.fail", code, max_retry=0)
        await failing.until_state(job, "failed")
    await until_groups(failing, 10)
    async with its_screens.open("#/failures") as page:
        rows = page.locator(".group")
        await expect(rows).to_have_count(10)
        await picture(page, "failures-dense")
        seen = await rows.evaluate_all(
            "(all) => all.filter((one) => one.getBoundingClientRect().bottom <= innerHeight).length"
        )
        assert seen >= 8, f"{seen} groups are seen at once"
        await rows.first.hover()
        before = await page.locator(".group-message").all_inner_texts()
        job = await failing.enqueue("ui.fail", codes[0], max_retry=0)
        await failing.until_state(job, "failed")
        await expect(card(page, codes[0]).locator(".group-count b")).to_have_text("2")
        assert await page.locator(".group-message").all_inner_texts() == before
