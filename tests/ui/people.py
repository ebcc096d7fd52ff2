"""People at the web UI: a live queue, users who log in, and keys at the speed of typing."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from playwright.async_api import Browser, Locator, Page, expect

from tests.support.master import Api
from tests.ui.conftest import Screens

JOBS_PER_S = 20
KEY_MS = 150
PASSWORD = "correct horse battery staple"


@contextlib.asynccontextmanager
async def live_queue(api: Api) -> AsyncIterator[None]:
    """Create an endless stream of jobs, some failing, for two tenants whose names look like other things."""

    async def push() -> None:
        number = 0
        while True:
            number += 1
            tenant = ("42", 42, "acme")[number % 3]
            name = "ui.fail" if number % 10 == 0 else "ui.echo"
            argument = "broken" if name == "ui.fail" else {"tenant": tenant}
            await api.enqueue(name, argument, max_retry=0, tags=["typed"])
            await asyncio.sleep(1 / JOBS_PER_S)

    pushing = asyncio.create_task(push())
    try:
        yield
    finally:
        pushing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await pushing


@contextlib.asynccontextmanager
async def logged_in(
    browser: Browser, url: str, user: str, password: str = PASSWORD, *, timezone: str = "UTC"
) -> AsyncIterator[Page]:
    """Yield the page of a logged-in user."""
    async with Screens(browser, url).open("#/overview", timezone=timezone) as page:
        await page.get_by_label("User", exact=True).fill(user)
        await page.get_by_label("Password", exact=True).fill(password)
        await page.keyboard.press("Enter")
        await expect(page.locator(".connection")).to_have_text("Live")
        yield page


async def typed(control: Locator, text: str, *, key_ms: int = KEY_MS) -> None:
    """Type in place of what is there, like a person, and check the resulting text."""
    await control.click()
    await control.press("Control+A")
    await control.press_sequentially(text, delay=key_ms)
    await expect(control).to_have_value(text)
