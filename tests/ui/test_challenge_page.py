"""People answer challenges in a real browser: the page at the address of a challenge, with and without a login."""

from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page, expect

from tests.api.challenges.test_forms import FORM
from tests.support import real_time
from tests.support.master import Api
from tests.support.scripted_worker import puller_at
from tests.ui.conftest import HOSTILE, Screens

pytestmark = [pytest.mark.req("P10", "D21"), pytest.mark.asyncio(loop_scope="session"), real_time.BROWSER]

PHONE = 360
LOOKS = [(1280, False), (1280, True), (PHONE, False), (PHONE, True)]
HOSTILE_FORM: dict[str, Any] = {
    "title": f"{HOSTILE} {'wide' * 20}",
    "description": HOSTILE,
    "choices": [{"value": "ok", "label": HOSTILE[:80]}],
    "fields": {
        "type": "object",
        "properties": {
            "a": {"type": "string", "title": HOSTILE, "description": HOSTILE},
            "b": {"type": "string", "enum": [HOSTILE], "title": "B"},
            "c": {"type": "string", "format": "date"},
        },
    },
}


async def look(page: Page) -> None:
    """Nothing is wider than the page, and axe has nothing to say."""
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    found = await Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


async def test_a_person_answers_on_a_phone_in_the_dark_and_at_a_desk_by_day(
    screens: Screens, api: Api
) -> None:
    async with puller_at(api, "people.ask") as worker:
        for width, is_dark in LOOKS:
            opened = await asked(api, worker, "people.ask", form=FORM)
            async with screens.open(
                f"callbacks/{opened['request_id']}", width=width, is_dark=is_dark
            ) as page:
                await expect(page.get_by_role("heading", name="Refund order 42?")).to_be_visible()
                await look(page)
                # The browser itself asks for what is required; Enter sends nothing.
                await page.get_by_role("button", name="Approve").click()
                await page.get_by_label("Amount").press("Enter")
                await expect(page.get_by_role("button", name="Approve")).to_be_visible()
                # The master tells at its field what only it knows.
                await page.get_by_role("button", name="Reject").click()
                await expect(page.get_by_role("alert")).to_contain_text("Comment: is required")
                await look(page)
                await page.get_by_role("alert").get_by_role("link", name="Comment").click()
                await expect(page.get_by_label("Comment")).to_be_focused()
                await page.get_by_label("Comment").fill("It was used.")
                await page.get_by_role("button", name="Reject").click()
                await expect(page.get_by_role("status")).to_contain_text("Your answer is recorded.")
                await expect(page.get_by_text("It was used.")).to_be_visible()
                await look(page)
                await page.get_by_role("link", name="日本語").click()
                await expect(page.get_by_role("status")).to_contain_text("回答済みです。")
                await look(page)
            (job,) = await worker.claim()
            assert b"It was used." in job["callback"]["body"]
            await worker.end(job)


async def test_hostile_texts_do_nothing(screens: Screens, api: Api) -> None:
    async with puller_at(api, "people.hostile") as worker:
        opened = await asked(api, worker, "people.hostile", form=HOSTILE_FORM)
        async with screens.open(f"callbacks/{opened['request_id']}", width=PHONE) as page:
            await look(page)
            await page.get_by_label("Comment").fill(HOSTILE.replace("\x00", ""))
            await page.get_by_role("button").first.click()
            await expect(page.get_by_role("status")).to_be_visible()
            assert await page.locator("img, script").count() == 0
        (job,) = await worker.claim()
        await worker.end(job)


async def asked(api: Api, worker: Any, name: str, **fields: Any) -> dict[str, Any]:
    """An open challenge of a job of this name."""
    job_id = await api.enqueue(name)
    (job,) = await worker.claim()
    request = {"job_id": job_id, "token": job["token"], "timeout_s": 60.0, **fields}
    status, opened = await api.call("POST", f"/api/workers/{worker.id}/challenges", request)
    assert status == 201, opened
    await worker.end(job, "challenged", request_id=opened["request_id"])
    return dict(opened)
