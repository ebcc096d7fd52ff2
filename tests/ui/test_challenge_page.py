"""People answer challenges in a real browser, on the page at a challenge's address, with and without a login."""

import json
import re
from contextlib import AsyncExitStack
from typing import Any
from uuid import uuid4

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, expect

from tests.api.challenges.test_challenges import awaiting
from tests.api.challenges.test_forms import FORM, PASSWORD
from tests.support import real_time
from tests.support.master import Api, master_on
from tests.support.scripted_worker import puller_at
from tests.support.server import StoreServer
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
    """Assert that nothing is wider than the page and axe has no findings."""
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
                # The browser itself requires the fields, so Enter does not send the form.
                await page.get_by_role("button", name="Approve").click()
                await page.get_by_label("Amount").press("Enter")
                await expect(page.get_by_role("button", name="Approve")).to_be_visible()
                # The field shows an error that only the master can find.
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


async def test_a_user_logs_in_and_comes_back_to_the_question(
    browser: Browser, store_server: StoreServer
) -> None:
    async with master_on(store_server.url, tokens=["admin:token-a"]) as (_, api), AsyncExitStack() as stack:
        api.http.headers["authorization"] = "Bearer token-a"
        user = {"name": "ada", "password": PASSWORD, "role": "operator"}
        assert (await api.call("POST", "/api/users", user))[0] == 201
        worker = await stack.enter_async_context(puller_at(api))
        opened = await awaiting(api, worker, form=FORM, audience="users")
        screens = Screens(browser, str(api.http.base_url))
        address = f"callbacks/{opened['request_id']}"
        async with screens.open(address) as page:
            await expect(page.get_by_role("heading")).to_have_text("Please log in to see this question.")
            await look(page)
            await page.get_by_role("link", name="Log in").click()
            await page.get_by_label("User").fill("ada")
            await page.get_by_label("Password").fill(PASSWORD)
            await page.get_by_role("button", name="Log in").click()
            await expect(page.get_by_role("heading", name="Refund order 42?")).to_be_visible()
            due = re.compile(r"Answer by \d{4}-\d\d-\d\d \d\d:\d\d UTC \(in \d+ (s|min|h|days)\)\.")
            await expect(page.locator("main")).to_contain_text(due)
            await expect(page.get_by_text("You answer as ada.")).to_be_visible()
            assert page.url.endswith(address)
            # A logged-in person continues at once, as after a login by a provider.
            await page.goto(f"/#/login?then=callbacks/{opened['request_id']}")
            await expect(page.get_by_role("heading", name="Refund order 42?")).to_be_visible()
            await page.get_by_label("Amount").fill("7.5")
            await page.get_by_role("button", name="Approve").click()
            await expect(page.get_by_role("status")).to_contain_text("Your answer is recorded.")
            await expect(page.get_by_role("listitem")).to_contain_text("by ada")


@pytest.mark.req("P4")
async def test_the_page_of_challenges_lists_them_and_people_answer_there(screens: Screens, api: Api) -> None:
    name = f"people.list.{uuid4().hex[:8]}"
    async with puller_at(api, name) as worker:
        await asked(api, worker, name, form={**FORM, "title": "Refund order 77?"})
        async with screens.open(f"#/challenges?name={name}") as page:
            row = page.get_by_role("row").filter(has_text="Refund order 77?")
            await expect(row).to_contain_text("anybody with the link")
            for width, is_dark in LOOKS:
                await page.set_viewport_size({"width": width, "height": 900})
                await page.emulate_media(color_scheme="dark" if is_dark else "light")
                await look(page)
            await page.set_viewport_size({"width": 1280, "height": 900})
            await row.get_by_role("button", name="Answer").click()
            dialog = page.get_by_role("dialog")
            await look(page)
            await dialog.get_by_label("Choice").select_option("approve")
            await dialog.get_by_label("Comment").fill("Fine.")
            await dialog.get_by_label("Amount").fill("101")
            await dialog.get_by_role("button", name="Answer").click()
            await expect(dialog.get_by_text("must be at most 100").first).to_be_visible()
            await dialog.get_by_label("Amount").fill("7.5")
            await dialog.get_by_role("button", name="Answer").click()
            await expect(dialog).to_have_count(0)
            (job,) = await worker.claim()
            answer = json.loads(job["callback"]["body"])
            assert (answer["choice"], answer["values"]["amount"], answer["by"]) == ("approve", 7.5, "local")
            await worker.end(job)
            await expect(row).to_contain_text("Succeeded")
            await page.get_by_label("State").select_option("processing")
            await expect(row).to_have_count(0)
            await page.goto(f"/#/job?id={job['job_id']}")
            section = page.get_by_role("region", name="Challenges")
            await expect(section).to_contain_text("Refund order 77?")
            await expect(section).to_contain_text("Fine.")
            await expect(section).to_contain_text("local")
            await look(page)


async def asked(api: Api, worker: Any, name: str, **fields: Any) -> dict[str, Any]:
    """Open a challenge of a job with this name."""
    job_id = await api.enqueue(name)
    (job,) = await worker.claim()
    request = {"job_id": job_id, "token": job["token"], "timeout_s": 60.0, **fields}
    status, opened = await api.call("POST", f"/api/workers/{worker.id}/challenges", request)
    assert status == 201, opened
    await worker.end(job, "challenged", request_id=opened["request_id"])
    return dict(opened)
