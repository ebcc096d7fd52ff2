"""Charts show what happened where it happened, and are read and zoomed by keyboard."""

import re
from dataclasses import replace

import pytest
from playwright.async_api import Browser, expect

from jqmaster.domain.operations.tally import NameCounts
from jqmaster.domain.operations.timeline import TimelineKind
from jqmaster.store.operations.history import HistoryStore
from tests.support import real_time
from tests.support.master import master_on
from tests.support.server import StoreServer
from tests.ui.conftest import Screens, worker_on
from tests.ui.test_core import accessible, accessible_in_each_look, picture
from tests.ui.test_incidents import Timeline

pytestmark = [pytest.mark.req("D21", "J15"), pytest.mark.asyncio(loop_scope="session"), real_time.BROWSER]

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


async def test_charts_mark_deploys_pauses_and_incidents_and_obey_keys(
    browser: Browser, store_server: StoreServer
) -> None:
    async with master_on(store_server.url) as (master, api):
        timeline, screens = Timeline(master), Screens(browser, master.server.url)
        await timeline.add(TimelineKind.STORE_AWAY, 1200, "store", lasted_s=300)
        await timeline.add(TimelineKind.VERSION_NEW, 600, "2.1", label="mail.send")
        pause = {"job_name": "mail.send", "reason": "too many", "duration_s": 3600}
        assert (await api.call("POST", "/api/pauses", pause))[0] == 201
        limit = {"matcher": {"field": "name", "op": "eq", "value": "mail.send"}, "concurrency": 1}
        for concurrency in (1, 2):
            limit["concurrency"] = concurrency
            assert (await api.call("PUT", "/api/constraints/mails", limit))[0] in (200, 201)
        worker = {
            "url": None,
            "names": ["mail.send"],
            "max_jobs": 1,
            "node_id": "vm-3",
            "pid": 42,
            "secret": "s" * 32,
        }
        worker_id = (await api.call("POST", "/api/workers", worker))[1]["worker_id"]
        assert (await api.call("POST", f"/api/workers/{worker_id}/drain"))[0] == 200
        await api.enqueue("mail.send")
        async with screens.open("#/overview") as page:
            marks = page.locator(".chart-marks").first
            await expect(marks).to_contain_text("local drained worker vm-3:42.")
            await expect(marks).to_contain_text("local created constraint mails.")
            await expect(marks).to_contain_text("local changed constraint mails: concurrency.")
            await expect(marks).to_contain_text(
                "deploy The first worker of version 2.1 registered (mail.send)."
            )
            await expect(marks).to_contain_text("local paused jobs named mail.send. “too many”")
            await expect(
                marks.get_by_role("link", name="The store did not answer for 5 min.")
            ).to_have_attribute("href", re.compile(r"#/incidents\?id="))
            # A band of 5 minutes and a line are drawn on each chart.
            plot = page.locator(".plot").first
            await accessible(page)
            await picture(page, "marks")
            await plot.focus()
            shown = page.locator(".legend-at").first
            last = await shown.text_content()
            for _ in range(3):
                await page.keyboard.press("ArrowLeft")
            await expect(shown).not_to_have_text(last or "")
            await page.keyboard.press("+")
            whole = page.get_by_role("button", name="Show the whole period").first
            await expect(whole).to_be_visible()
            # The zoomed half does not hold the incident of 20 minutes ago any more when zoomed twice.
            await page.keyboard.press("+")
            await expect(marks).not_to_contain_text("The store")
            await page.keyboard.press("Escape")
            await expect(whole).to_have_count(0)
            await expect(marks).to_contain_text("The store")
            await page.keyboard.press("Shift+ArrowLeft")
            await page.keyboard.press("Shift+ArrowLeft")
            await page.keyboard.press("Enter")
            await expect(page).to_have_url(re.compile(r"#/jobs\?finished_after=.*finished_before="))
        async with screens.open("#/overview?compare=1d") as page:
            legend = page.locator(".legend").first
            await expect(legend).to_contain_text("yesterday")
            await page.get_by_role("link", name="last week").click()
            await expect(legend).to_contain_text("last week")
            await page.get_by_role("link", name="7d").click()
            await expect(page).to_have_url(re.compile("span=7d&compare=7d"))
            await expect(legend).to_contain_text("last week")
            await accessible(page)
            await picture(page, "comparison")
        async with screens.open("#/names?name=mail.send") as page:
            await expect(page.locator(".chart-marks")).to_contain_text("version 2.1")
            await expect(page.locator(".chart-marks")).to_have_count(1)


async def test_the_page_of_a_name_compares_with_the_same_hours_of_an_earlier_day(
    browser: Browser, store_server: StoreServer
) -> None:
    async with master_on(store_server.url) as (master, api), worker_on(master.server.url).running():
        services = master.shard.services
        now_ms = await services.store_time_ms()
        for number, (days, ends) in enumerate(((1, 36_000), (7, 72_000)), start=1):
            # The hours around this one, in case the test runs across the end of one.
            for hours in (-1, 0, 1):
                then_ms = now_ms - days * DAY_MS + hours * HOUR_MS
                then = replace(services.link, now=lambda at_ms=then_ms: at_ms)
                history = HistoryStore(then, master_id=f"earlier-{days}-{hours}")
                assert await history.add_counts(number, [("ui.echo", NameCounts(succeeded=ends))])
        job = await api.enqueue("ui.echo", 1)
        await api.until_state(job, "succeeded")
        screens = Screens(browser, master.server.url)
        async with screens.open("#/names?name=ui.echo") as page:
            legend = page.locator("section", has=page.locator("#course")).locator(".legend").first
            earlier = legend.locator(".legend-item", has=page.locator(".dashed"))
            await expect(legend).to_contain_text("Succeeded")
            await expect(earlier).to_have_count(0)
            await page.get_by_role("link", name="yesterday").click()
            await expect(page).to_have_url(re.compile("compare=1d"))
            await expect(earlier).to_have_text(re.compile("^yesterday 10/s$"))
            await page.get_by_role("link", name="last week").click()
            await expect(earlier).to_have_text(re.compile("^last week 20/s$"))
            await accessible_in_each_look(page, "name-compared")
            # Hours of 30 days ago are not kept.
            await page.set_viewport_size({"width": 1280, "height": 900})
            await page.get_by_role("link", name="30d").click()
            await expect(page.get_by_role("link", name="last week")).to_have_count(0)
            await expect(earlier).to_have_count(0)
        async with screens.open("#/names?name=ui.echo&compare=1d", locale="ja-JP") as page:
            await expect(page.locator(".legend").first.locator(".dashed")).to_be_visible()
            await accessible_in_each_look(page, "name-compared-ja")


async def test_the_chart_of_a_name_has_only_marks_that_are_about_it(screens: Screens) -> None:
    async with screens.open() as page:
        about, selected = await page.evaluate("""async () => {
            const { isAbout, selects } = await import("./operations/mark_filter.js");
            const named = (op, value) => ({ field: "name", op, value });
            const argument = { field: "argument.host", op: "eq", value: "x" };
            const mark = (kind, matcher = null, label = "") => ({ kind, matcher, entry: { label } });
            const marks = [
                mark("leader"), mark("incident"), mark("settings"), mark("worker"), mark("definition"),
                mark("deploy", null, "a, mail.send"), mark("deploy", null, "a, b"), mark("deploy", null, "a, +3"),
                mark("pause", named("eq", "mail.send")), mark("pause", named("eq", "b")), mark("constraint"),
            ];
            const matchers = [
                named("glob", "mail.*"), named("glob", "mail?*"), named("glob", "*.csv"), named("glob", "[m]ail.*"),
                named("in", ["a", "mail.send"]), named("ne", "mail.send"), named("exists", true),
                { all: [named("glob", "mail.*"), argument] }, { all: [named("eq", "b"), argument] },
                { any: [named("eq", "mail.send"), argument] }, { any: [named("eq", "b"), named("eq", "c")] },
                { not: named("eq", "b") }, { not: argument },
            ];
            return [marks.map((one) => isAbout(one, "mail.send")),
                    matchers.map((one) => selects(one, "mail.send"))];
        }""")
    assert about == [True, True, True, False, False, True, False, True, True, False, True]
    assert selected == [
        True, True, False, None, True, False, None, None, False, True, False, True, None,
    ]  # fmt: skip
