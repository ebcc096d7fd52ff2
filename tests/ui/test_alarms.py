"""A problem is snoozed for a while, and every dialog takes a duration or an end as people write it."""

import re
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from tests.api.definitions.test_definitions import skip
from tests.support import real_time
from tests.support.master import Api, master_on
from tests.support.server import StoreServer
from tests.ui.conftest import Screens
from tests.ui.test_core import accessible, picture

pytestmark = [pytest.mark.req("D21", "J15"), pytest.mark.asyncio(loop_scope="session"), real_time.BROWSER]

MINUTE_MS = 60_000
HOUR_MS = 3_600_000
# 2026-11-28 12:00 in the zone of the page.
NOON = "new Date(2026, 10, 28, 12, 0, 0).getTime()"
# By the text: minutes after noon; None: it is not understood, or past.
ENDS: dict[str, float | None] = {
    "45m": 45,
    "1h 30m": 90,
    "1.5 hours": 90,
    "for 2 days": 2880,
    "90 s": 1.5,
    "30 分": 30,
    "1時間30分": 90,
    "1 時間 30 分": 90,
    "３０分": 30,
    "2日": 2880,
    "until 18:00": 360,
    "18:00": 360,
    "18時まで": 360,
    "18時半": 390,
    "18時15分まで": 375,
    "until 9:00": 21 * 60,
    "tomorrow 9:00": 21 * 60,
    "明日9時": 21 * 60,
    "until 2026-12-01 09:00": 3 * 1440 - 180,
    "2026-11-28": None,
    "25:00": None,
    "45": None,
    "soon": None,
    "0m": None,
    "10 parsecs": None,
    "": None,
}


async def test_durations_and_ends_are_read_as_people_write_them(screens: Screens) -> None:
    async with screens.open("#/overview", timezone="Asia/Tokyo") as page:
        found: dict[str, Any] = await page.evaluate(
            f"""async (texts) => {{
                const {{ endOf }} = await import("./ui/durations.js");
                const noon = {NOON};
                return Object.fromEntries(texts.map((text) => {{
                    const end = endOf(text, noon);
                    return [text, end === null ? null : (end - noon) / {MINUTE_MS}];
                }}));
            }}""",
            list(ENDS),
        )
        assert found == ENDS


async def test_a_snoozed_problem_is_back_when_its_time_is_over(
    browser: Browser, store_server: StoreServer
) -> None:
    async with master_on(store_server.url) as (master, api):
        document = {"matcher": {"field": "name", "op": "eq", "value": "x"}, "paused": True}
        assert (await api.call("PUT", "/api/constraints/stopped", document))[0] == 201
        async with Screens(browser, master.server.url).open("#/overview") as page:
            fault = page.locator(".fault").filter(has_text="Constraint stopped is paused")
            await fault.get_by_role("button", name="Snooze").click()
            dialog = page.get_by_role("dialog")
            await dialog.get_by_label("For, or until").fill("whenever")
            await dialog.get_by_role("button", name="Snooze").click()
            await expect(dialog.locator(".field-error")).to_contain_text("a duration such as 45m")
            await dialog.get_by_role("button", name="2 h").click()
            await expect(dialog.get_by_role("status")).to_have_text(re.compile(r"Until .*, in 2 h"))
            await accessible(page)
            await picture(page, "snooze")
            await dialog.get_by_role("button", name="Snooze").click()
            await expect(fault).to_have_count(0)
            await expect(page.locator(".faults")).to_contain_text("1 problem is snoozed until")
            await page.reload()
            await expect(page.locator(".faults")).to_contain_text("1 problem is snoozed until")
            await page.get_by_role("button", name="Show").click()
            await expect(fault).to_have_count(1)
            await fault.get_by_role("button", name="Snooze").click()
            await dialog.get_by_label("For, or until").fill("2 s")
            await dialog.get_by_role("button", name="Snooze").click()
            await expect(fault).to_have_count(0)
            await expect(fault).to_have_count(1)


async def test_a_pause_is_a_decision_and_says_why_and_until_when(
    browser: Browser, store_server: StoreServer
) -> None:
    async with master_on(store_server.url) as (master, api):
        for name, more in {"a": {}, "b": {"reason": "the bank is closed", "duration_s": 3600}}.items():
            assert (await api.call("POST", "/api/pauses", {"job_name": name, **more}))[0] == 201
        async with Screens(browser, master.server.url).open("#/overview") as page:
            told = page.locator(".fault")
            await expect(told.filter(has_text="jobs named a")).to_have_class(re.compile(r"\binfo\b"))
            explained = told.filter(has_text="jobs named b")
            await expect(explained).to_have_class(re.compile(r"\binfo\b"))
            await expect(explained).to_contain_text("“the bank is closed”")
            await expect(explained).to_contain_text("It ends in")


async def test_a_failure_group_is_ignored_for_as_long_as_was_written(screens: Screens, api: Api) -> None:
    message = "the drawer sticks"
    await api.until_state(await api.enqueue("ui.fail", message, max_retry=0), "failed")
    async with screens.open("#/failures") as page:
        card = page.locator(".group").filter(has_text=message)
        await card.locator(".more-menu > summary").click()
        await card.get_by_role("button", name="Ignore").click()
        await page.get_by_role("dialog").get_by_label("For").fill("45m")
        await page.get_by_role("dialog").get_by_role("button", name="Ignore").click()
        await expect(page.get_by_role("dialog")).to_have_count(0)
    groups = (await api.call("GET", "/api/failures?limit=500"))[1]["groups"]
    (group,) = [one for one in groups if one["message"].endswith(message)]
    assert group["ignored"]["until"] is not None


async def test_a_definition_that_skips_again_and_again_is_told_with_its_cause(
    browser: Browser, store_server: StoreServer
) -> None:
    async with master_on(store_server.url) as (master, api):
        document = {"job": {"name": "report"}, "schedule": {"daily_at": "02:30"}, "overlap": "forbid"}
        assert (await api.call("PUT", "/api/definitions/nightly", document))[0] == 201
        job_id = (await api.call("POST", "/api/definitions/nightly/run"))[1]["id"]
        await skip(master, "nightly", 3)
        screens = Screens(browser, master.server.url)
        async with screens.open("#/overview") as page:
            fault = page.locator(".fault").filter(has_text="Definition nightly has skipped its last 3 runs")
            await expect(fault).to_be_visible()
            await fault.get_by_role("link", name="Definitions").click()
            why = page.get_by_role("region", name="Why it starts no jobs")
            await expect(why).to_contain_text("Its last 3 runs were skipped")
            await expect(why.locator(f"a[href*='{job_id}']")).to_be_visible()
            await expect(why).to_contain_text("Next")
            await accessible(page)
            await picture(page, "definition-skips")
        async with screens.open("#/definitions?name=nightly", locale="ja-JP") as page:
            await expect(page.locator("main")).to_contain_text("直近 3 回の実行がスキップされました")
