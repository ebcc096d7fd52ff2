"""Pauses in the web UI: of a name, a tag, a constraint or one value, with a reason and an end, and their removal."""

import re

import pytest
from playwright.async_api import Page, expect

from tests.support import real_time
from tests.support.master import Api
from tests.ui.conftest import Screens
from tests.ui.test_core import LATER, accessible, picture, tag

pytestmark = [pytest.mark.req("J13", "J15"), pytest.mark.asyncio(loop_scope="session"), real_time.BROWSER]


async def pause(page: Page, reason: str, duration: str = "") -> None:
    """Complete the open dialog and send it."""
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Reason").fill(reason)
    await dialog.get_by_label("For").fill(duration)
    await dialog.get_by_role("button", name="Pause").click()
    await expect(dialog).to_have_count(0)


async def pauses(api: Api) -> dict[str, dict[str, object]]:
    found = (await api.call("GET", "/api/constraints"))[1]["constraints"]
    return {one["reason"]: one for one in found if one["name"].startswith("pause-")}


async def test_one_tenant_whose_name_is_a_number_is_paused_and_keeps_its_limit(
    screens: Screens, api: Api
) -> None:
    name = tag()
    document = {
        "matcher": {"field": "name", "op": "eq", "value": name},
        "key": "argument.tenant",
        "concurrency": 5,
    }
    assert (await api.call("PUT", f"/api/constraints/{name}", document))[0] == 201
    for tenant in ("42", 42, "x" * 300):
        await api.enqueue(name, {"tenant": tenant}, **LATER)
    async with screens.open(f"#/constraints?name={name}") as page:
        rows = page.locator(".keys-list > li")
        await expect(rows).to_have_count(3)
        # The typed text finds both.
        await page.get_by_label("Show one value").fill("42")
        await expect(rows).to_have_count(2)
        row = rows.filter(has_text='"42"')
        await row.get_by_role("button", name="Limit…").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Running at once").fill("2")
        await dialog.get_by_role("button", name="Save").click()
        await expect(row).to_contain_text("2 running at once")
        await row.get_by_role("button", name="Pause").click()
        await pause(page, f"{name}: too many", "1 h")
        await expect(page.get_by_role("status").get_by_role("button", name="Undo")).to_be_visible()
        await expect(row).to_contain_text("2 running at once")
        await page.goto("/#/constraints")
        listed = page.locator(".paused-now li").filter(has_text=name)
        await expect(listed).to_contain_text('argument.tenant = "42"')
        await expect(listed).to_contain_text("1 job waits")
        await accessible(page)
        await picture(page, "paused-now")
        await listed.get_by_role("button", name="Resume").click()
        await expect(listed).to_have_count(0)
    overrides = (await api.call("GET", f"/api/constraints/{name}"))[1]["overrides"]
    assert [(one["value"], one["concurrency"]) for one in overrides] == [("42", 2)]
    assert (await api.call("DELETE", f"/api/constraints/{name}"))[0] == 204


async def test_a_name_and_a_tag_are_paused_from_a_job_and_the_toast_takes_it_back(
    screens: Screens, api: Api
) -> None:
    name, mark = tag(), tag()
    job = await api.enqueue(name, tags=[mark], **LATER)
    async with screens.open(f"#/job?id={job}") as page:
        await page.get_by_role("button", name=f"Pause: jobs named {name}").click()
        await pause(page, f"{name} by name")
        assert (await pauses(api))[f"{name} by name"]["expires_at"] is None
        async with screens.open(f"#/names?q={name}") as names:
            await expect(names.locator("tbody tr").locator(".badge")).to_have_text("paused")
        await page.get_by_role("button", name="Undo").click()
        await expect(page.locator(".toasts")).to_contain_text("The pause has ended.")
        await page.get_by_role("button", name=f"Pause: jobs tagged {mark}").click()
        await pause(page, f"{name} by tag", "15 min")
        assert (await pauses(api))[f"{name} by tag"]["expires_at"] is not None
        await page.get_by_role("button", name="Undo").click()
        await expect(page.get_by_role("button", name="Undo")).to_have_count(0)
    assert not any(reason.startswith(name) for reason in await pauses(api))


async def test_the_page_of_a_paused_job_says_who_paused_it_why_and_until_when(
    screens: Screens, api: Api
) -> None:
    name = tag()
    job = await api.enqueue(name)
    timed = {"job_name": name, "reason": "provider is down", "duration_s": 1800}
    ends = (await api.call("POST", "/api/pauses", timed))[1]
    first = ".verdicts .first"
    async with screens.open(f"#/job?id={job}") as page:
        text = page.locator(first)
        await expect(text).to_contain_text(
            re.compile(r"Paused by .+ until \d\d:\d\d:\d\d .+ \(“provider is down”\)\.")
        )
        await expect(text.get_by_role("link", name="Show the pause")).to_be_visible()
        await expect(text).to_contain_text("ends in 29 min")
    async with screens.open(f"#/job?id={job}", locale="ja") as page:
        await expect(page.locator(first)).to_contain_text(
            re.compile("まで一時停止しています.*「provider is down」")
        )
    await api.call("DELETE", f"/api/constraints/{ends['name']}")
    lasting = (await api.call("POST", "/api/pauses", {"job_name": name}))[1]
    async with screens.open(f"#/job?id={job}") as page:
        await expect(page.locator(first)).to_contain_text("until somebody resumes it.")
    await api.call("DELETE", f"/api/constraints/{lasting['name']}")


async def test_a_job_without_a_worker_shows_the_next_step(screens: Screens, api: Api) -> None:
    job = await api.enqueue(tag())
    async with screens.open(f"#/job?id={job}") as page:
        first = page.locator(".verdicts .first")
        await expect(first).to_contain_text("Start a worker that serves this name, or correct the name.")
        await expect(first.get_by_role("link", name="Show workers for this name")).to_be_visible()


async def test_a_value_that_lets_no_job_start_says_why(screens: Screens) -> None:
    async with screens.open() as page:
        texts = await page.evaluate("""async () => {
            const { closedBy } = await import("./constraints/values.js");
            const limits = { paused: false, concurrency: 2, rate: { limit: 15, period_s: 60 } };
            const key = { is_open: false, held_until: null, running: 0, starts_in_window: 0, limits };
            return [
                { ...key, running: 2 }, { ...key, starts_in_window: 15 },
                { ...key, held_until: "2026-12-01T00:00:00Z" },
                { ...key, limits: { ...limits, paused: true } }, { ...key, is_open: true, running: 2 }, key,
            ].map(closedBy);
        }""")
    assert texts == ["2 of 2 slots taken", "15 of 15 starts used", "A worker asked to hold it", "", "", ""]
