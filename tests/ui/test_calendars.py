"""Calendar pages: made from a list of days, seen as a year, changed, used by a definition, renewed and deleted."""

import re
from typing import Any

import pytest
from playwright.async_api import expect

from tests.support import real_time
from tests.support.master import Api, master_on
from tests.support.server import StoreServer
from tests.ui.conftest import Screens
from tests.ui.test_core import accessible, tag

pytestmark = [
    pytest.mark.req("D21"),
    pytest.mark.req("D33"),
    pytest.mark.asyncio(loop_scope="session"),
    real_time.BROWSER,
]


async def view_of(api: Api, name: str) -> dict[str, Any]:
    return dict((await api.call("GET", f"/api/calendars/{name}"))[1])


async def test_a_calendar_is_made_changed_with_its_difference_shown_and_deleted(
    screens: Screens, api: Api
) -> None:
    name = tag()
    async with screens.open("#/calendars") as page:
        await page.get_by_role("button", name="New calendar").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Name", exact=True).fill(name)
        await dialog.get_by_label("Holidays from").select_option("dates")
        await dialog.get_by_label("Days", exact=True).fill("2027-01-01 New Year's Day\nfirst of May")
        await (
            dialog.get_by_role("button", name="Create").or_(dialog.get_by_role("button", name="Save")).click()
        )
        await expect(dialog.locator(".field.invalid")).to_contain_text("Line 2")
        await dialog.get_by_label("Days", exact=True).fill("2027-01-01 New Year's Day\n2027-05-01 Labour Day")
        await accessible(page)
        await (
            dialog.get_by_role("button", name="Create").or_(dialog.get_by_role("button", name="Save")).click()
        )
        await expect(page.get_by_role("heading", level=1)).to_have_text(name)
        await page.goto(re.sub(r"#.*", f"#/calendars?name={name}&year=2027", page.url))
        await expect(page.locator("table.month")).to_have_count(12)
        await expect(page.locator("td.holiday")).to_have_count(2)
        await expect(page.locator("td.holiday").first).to_contain_text("New Year's Day")
        await expect(page.locator(".holidays li")).to_have_count(2)
        await accessible(page)
        await page.get_by_role("button", name="The year after").click()
        await expect(page.locator("td.holiday")).to_have_count(0)
        await expect(page.locator("main")).to_contain_text("no holidays in this year")
        await page.get_by_role("button", name="Edit").click()
        await dialog.get_by_label("Days", exact=True).fill(
            "2027-01-01 New Year's Day\n2027-12-24 Christmas Eve"
        )
        await expect(dialog.locator(".preview li")).to_have_count(2)
        await expect(dialog.locator(".preview")).to_contain_text("2027-12-24 Christmas Eve")
        await dialog.get_by_role("button", name="Save").click()
        await expect(dialog).to_have_count(0)
        known = page.locator("dt", has_text="Holidays known until").locator("xpath=following-sibling::dd[1]")
        await expect(known).to_have_text("2027-12-24, the last listed day")
        await page.get_by_role("link", name="Calendars").first.click()
        row = page.locator("tbody tr").filter(has_text=name)
        await expect(row.locator(".col-until")).to_have_text("listed days only")
        await row.get_by_role("link", name=name).click()
        view = await view_of(api, name)
        assert [one["date"] for one in view["dates"]] == ["2027-01-01", "2027-12-24"]
        assert view["weekend"] == ["sat", "sun"]
        await page.get_by_role("button", name="Delete").click()
        await dialog.get_by_role("button", name="Delete").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Calendars")
    assert (await api.call("GET", f"/api/calendars/{name}"))[0] == 404


async def test_a_country_is_renewed_and_shown_in_japanese(screens: Screens, api: Api) -> None:
    pytest.importorskip("holidays")
    name = tag()
    body = {"country": "JP", "language": "ja"}
    status, made = await api.call("PUT", f"/api/calendars/{name}", body)
    assert status == 201, made
    async with screens.open(f"#/calendars?name={name}&year=2027", locale="ja-JP") as page:
        await expect(page.locator("table.month")).to_have_count(12)
        await expect(page.locator("main")).to_contain_text("勤労感謝の日")
        await page.get_by_role("button", name="更新").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("休日の変更はありません")
        await dialog.get_by_role("button", name="更新").click()
        await expect(dialog).to_have_count(0)


async def test_a_definition_gets_a_rule_for_days_off_without_json(screens: Screens, api: Api) -> None:
    calendar, name = tag(), tag()
    dates = [
        {"date": f"{year}-{month:02}-15", "name": "Closed"}
        for year in range(2026, 2032)
        for month in range(1, 13)
    ]
    await api.call("PUT", f"/api/calendars/{calendar}", {"dates": dates, "weekend": []})
    async with screens.open("#/definitions") as page:
        await page.get_by_role("button", name="New definition").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Name", exact=True).fill(name)
        await dialog.get_by_label("Job name").fill("ui.echo")
        await dialog.get_by_label("How often").select_option("monthly")
        await dialog.get_by_label("Day of the month").select_option("15")
        await dialog.get_by_label("Days off").select_option("next_workday")
        await dialog.get_by_label("Calendar", exact=True).select_option(calendar)
        coming = dialog.locator(".coming tbody tr")
        await expect(coming.first).to_contain_text(re.compile("-16 .*moved from .*-15"))
        await dialog.get_by_label("Days off").select_option("skip_holidays")
        await expect(coming.first).to_contain_text("no job: Closed")
        await dialog.get_by_role("button", name="Create").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text(name)
        await expect(page.locator("main")).to_contain_text("Skip holidays and weekends")
        await page.get_by_role("link", name=calendar).click()
        await expect(page.locator("main")).to_contain_text(name)
    _, view = await api.call("GET", f"/api/definitions/{name}")
    assert view["days"] == {"calendar": calendar, "rule": "skip_holidays"}


async def test_without_a_calendar_none_can_be_chosen(screens: Screens, store_server: StoreServer) -> None:
    async with (
        master_on(store_server.url) as (master, _),
        Screens(screens.browser, master.server.url).open("#/definitions") as page,
    ):
        await page.get_by_role("button", name="New definition").first.click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Days off").select_option("skip_holidays")
        await expect(dialog.get_by_label("Calendar", exact=True)).to_be_disabled()
        await expect(dialog).to_contain_text("There is no calendar yet")
