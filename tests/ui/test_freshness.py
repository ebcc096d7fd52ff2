"""Each page says how old its figures are, and names what does not answer."""

import asyncio
import re
import signal
from typing import Literal

import pytest
from playwright.async_api import Browser, Page, Route, expect

from tests.support import real_time
from tests.support.master import master_on
from tests.support.server import StoreServer, started
from tests.ui.conftest import Screens
from tests.ui.test_core import accessible
from tests.ui.test_faults import is_agreed

pytestmark = [pytest.mark.req("D21"), pytest.mark.asyncio(loop_scope="session"), real_time.BROWSER]

# From the stop of the store on: people must know within this time.
TOLD_WITHIN_MS = 10_000
AWAY = "The store does not answer."
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


async def is_told(page: Page, timeout_ms: float = TOLD_WITHIN_MS) -> None:
    """Assert that the first line names the store, and that everything on the page counts as old."""
    line = page.locator("main > :first-child .banner")
    await expect(line).to_contain_text(AWAY, timeout=timeout_ms)
    await expect(line).to_contain_text("Critical")
    await expect(line).to_contain_text(re.compile(r"the state as of \d\d:\d\d:\d\d"))
    await expect(page.locator("main.is-old")).to_have_count(1)
    await expect(page.locator(".connection")).to_have_text(re.compile(r"^\d+ s old$"))


async def test_a_store_that_does_not_answer_is_the_first_line_of_every_page(browser: Browser) -> None:
    store = StoreServer()
    with started(store):
        async with master_on(store.url) as (master, api):
            screens = Screens(browser, master.server.url)
            await api.enqueue("ui.echo", run_at="2099-01-01T00:00:00Z")
            document = {"matcher": {"field": "name", "op": "eq", "value": "x"}, "paused": True}
            assert (await api.call("PUT", "/api/constraints/stopped", document))[0] == 201
            async with (
                screens.open("#/overview") as overview,
                screens.open("#/jobs", locale="ja-JP") as jobs,
                screens.open("#/workers") as workers,
            ):
                for page in (overview, jobs, workers):
                    await expect(page.locator(".connection.ok")).to_have_count(1)
                    await expect(page.locator("main.is-old")).to_have_count(0)
                known = overview.locator("li.fault", has_text="Constraint stopped is paused")
                away = overview.locator(
                    "li.fault", has_text="The store does not answer, so no job is accepted"
                )
                await expect(known).to_be_visible(timeout=TOLD_WITHIN_MS)
                store.signal(signal.SIGSTOP)
                try:
                    await asyncio.gather(
                        is_told(overview),
                        is_told(workers),
                        expect(jobs.locator(".banner")).to_contain_text(
                            "ストアが応答していません。", timeout=TOLD_WITHIN_MS
                        ),
                    )
                    # Earlier findings stay below the worst one, and are as old as the page says.
                    await expect(away).to_be_visible(timeout=TOLD_WITHIN_MS)
                    await expect(known).to_be_visible()
                    await is_agreed(overview)
                    # The age stands at each figure, and says more from second to second.
                    tile = overview.locator(".tile").first
                    age = await tile.evaluate("(one) => getComputedStyle(one, '::after').content")
                    assert re.fullmatch(r'"\d+ s old"', age)
                    link = overview.get_by_role("link", name="Runbook")
                    await expect(link.first).to_have_attribute(
                        "href", "runbooks.html#the-store-does-not-answer"
                    )
                    # People who look for the cause can read it in either theme.
                    for theme in THEMES:
                        await overview.emulate_media(color_scheme=theme)
                        await accessible(overview)
                    # Another page that is opened meanwhile says the same.
                    await workers.goto("/#/constraints")
                    await expect(workers.get_by_role("heading", level=1)).to_have_text("Constraints")
                    await is_told(workers)
                finally:
                    store.signal(signal.SIGCONT)
                for page in (overview, jobs, workers):
                    await expect(page.locator(".banner")).to_have_count(0)
                    await expect(page.locator("main.is-old")).to_have_count(0)
                    await expect(page.locator(".connection.ok")).to_have_count(1)
                await expect(away).to_have_count(0, timeout=TOLD_WITHIN_MS)
                await expect(known).to_be_visible()


async def test_a_list_that_cannot_be_loaded_again_says_how_old_it_is(screens: Screens) -> None:
    async def refuse(route: Route) -> None:
        await route.fulfill(status=500, json={"title": "It failed", "code": "internal_error"})

    async with screens.open("#/workers") as page:
        await expect(page.locator(".connection")).to_have_text("Live")
        await expect(page.locator("tbody tr").first).to_be_visible()
        await page.route("**/api/workers", refuse)
        box = page.locator(".error-box")
        await expect(box).to_contain_text("Below is the last answer, from")
        await expect(page.locator(".connection")).to_have_text("Partly old")
        await expect(page.locator("tbody tr").first).to_be_visible()
        await page.unroute("**/api/workers")
        await expect(box).to_have_count(0)
        await expect(page.locator(".connection")).to_have_text("Live")
