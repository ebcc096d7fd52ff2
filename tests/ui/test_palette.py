"""The command palette at typing speed: exact names, acts on the object of the page, and sentences with durations."""

import asyncio
import re
from datetime import datetime
from typing import Any

import pytest
from playwright.async_api import Page, Route, expect

from tests.support import real_time
from tests.support.master import Api
from tests.support.waiting import wait_until
from tests.ui.conftest import Screens
from tests.ui.test_core import LATER, accessible, accessible_in_each_look, tag

pytestmark = [
    pytest.mark.req("D21"),
    pytest.mark.req("J15"),
    pytest.mark.asyncio(loop_scope="session"),
    real_time.BROWSER,
]

# A person who types quickly.
KEY_MS = 60


async def command(page: Page, text: str) -> None:
    """Open the palette, type a text and press Enter at once."""
    await expect(page.get_by_role("heading", level=1)).to_be_visible()
    await page.keyboard.press("Control+k")
    await expect(page.locator(".palette input")).to_be_focused()
    await page.keyboard.type(text, delay=KEY_MS)
    await page.keyboard.press("Enter")


async def paused(api: Api, reason: str) -> dict[str, Any] | None:
    """Return the pause with this reason, with `minutes`, how long it lasts."""
    found = (await api.call("GET", "/api/constraints"))[1]["constraints"]
    one = next((c for c in found if c["name"].startswith("pause-") and c["reason"] == reason), None)
    if one is None:
        return None
    ends, began = (datetime.fromisoformat(one[at]) for at in ("expires_at", "created_at"))
    return {**one, "minutes": round((ends - began).total_seconds() / 60, 1)}


async def put_constraint(api: Api, name: str) -> None:
    document = {"matcher": {"field": "name", "op": "eq", "value": name}, "concurrency": 5}
    assert (await api.call("PUT", f"/api/constraints/{name}", document))[0] == 201


async def test_enter_after_an_exact_name_opens_it_however_slow_the_master_is(
    screens: Screens, api: Api
) -> None:
    name = f"payments-{tag()}"
    await put_constraint(api, name)

    async def slowly(route: Route) -> None:
        await asyncio.sleep(1.5)
        await route.continue_()

    async with screens.open("#/overview") as page:
        await expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
        await page.route(re.compile(r"/api/(constraints|names|jobs)\b"), slowly)
        await command(page, name)
        await expect(page.get_by_role("heading", level=1)).to_have_text(name)
        # Now the index is there: the name is found before anything is asked again.
        await page.goto("/#/overview")
        await page.keyboard.press("Control+k")
        await page.keyboard.type(name)
        await expect(page.locator(".palette [aria-selected=true]")).to_contain_text(name, timeout=1_000)
        await page.keyboard.press("Escape")
        # A text that names nothing is searched among the jobs.
        await command(page, f"no-{name}")
        await expect(page).to_have_url(re.compile(f"#/jobs\\?q=no-{name}"))
    assert (await api.call("DELETE", f"/api/constraints/{name}"))[0] == 204


async def test_a_sentence_pauses_a_name_for_any_duration(screens: Screens, api: Api) -> None:
    name = tag()
    await api.enqueue(name, **LATER)
    async with screens.open("#/overview") as page:
        await command(page, f"pause {name} 45m because {name} is down")
        await expect(page.locator(".toasts")).to_contain_text(f"Paused: jobs named {name}")
        made = await paused(api, f"{name} is down")
        assert made is not None
        assert made["minutes"] == 45
        assert made["matcher"] == {"field": "name", "op": "eq", "value": name}
        await page.get_by_role("button", name="Undo").click()
        await expect(page.locator(".toasts")).to_contain_text("The pause has ended.")
        # Without a duration it asks.
        await command(page, f"pause {name}")
        await expect(page.get_by_role("dialog")).to_contain_text(f"jobs named {name}")
    async with screens.open("#/overview", locale="ja-JP") as page:
        await command(page, f"{name} を 30 分 停止 ({name} 障害)")
        await expect(page.locator(".toasts")).to_contain_text("一時停止しました")
        made = await paused(api, f"{name} 障害")
        assert made is not None
        assert made["minutes"] == 30
        assert (await api.call("DELETE", f"/api/constraints/{made['name']}"))[0] == 204


async def test_a_sentence_pauses_a_name_that_the_list_of_names_does_not_have_yet(
    screens: Screens, api: Api
) -> None:
    name = tag()
    await api.enqueue(name, **LATER)

    async def older(route: Route) -> None:
        # As it was before this name came, or as far as one page of it goes.
        await route.fulfill(json={"names": [], "next_cursor": None, "span": "hour"})

    async with screens.open("#/overview") as page:
        await page.route(re.compile(r"/api/names\?"), older)
        await command(page, f"pause {name} 45m because {name} is down")
        await expect(page.locator(".toasts")).to_contain_text(f"Paused: jobs named {name}")
        made = await paused(api, f"{name} is down")
        assert made is not None
        assert (await api.call("DELETE", f"/api/constraints/{made['name']}"))[0] == 204
        # A sentence that names nothing is searched among the jobs.
        await command(page, f"pause no-{name} 45m")
        await expect(page).to_have_url(re.compile(f"#/jobs\\?q=pause\\+no-{name}"))


async def test_the_palette_acts_on_the_object_of_the_page(screens: Screens, api: Api) -> None:
    name = tag()
    failed = await api.enqueue("ui.fail", name, max_retry=0)
    await api.until_state(failed, "failed")
    await put_constraint(api, name)
    async with screens.open(f"#/job?id={failed}") as page:
        await expect(page.get_by_role("heading", level=1)).to_have_text("ui.fail")
        await page.keyboard.press("Control+k")
        await expect(page.get_by_role("option", name="This page Retry this job")).to_be_visible()
        await accessible(page)
        await page.keyboard.type("retry this", delay=KEY_MS)
        await page.keyboard.press("Enter")
        await expect(page.locator(".toasts")).to_contain_text("Done")

        async def ran_again() -> bool:
            return bool((await api.call("GET", f"/api/jobs/{failed}"))[1]["attempt"] == 2)

        await wait_until(ran_again, what="the second attempt")
        await page.goto(f"/#/constraints?name={name}")
        await expect(page.get_by_role("heading", level=1)).to_have_text(name)
        await command(page, f"pause 2 h because {name}")
        await expect(page.locator(".toasts")).to_contain_text(f"Paused: jobs of the constraint {name}")
        made = await paused(api, name)
        assert made is not None
        assert made["minutes"] == 120
        assert (await api.call("DELETE", f"/api/constraints/{made['name']}"))[0] == 204
    waiting = await api.enqueue(name, **LATER)
    async with screens.open(f"#/job?id={waiting}", locale="ja-JP") as page:
        await expect(page.get_by_role("heading", level=1)).to_have_text(name)
        await page.keyboard.press("Control+k")
        await expect(page.get_by_role("option", name="このジョブを取り消し")).to_be_visible()
        await accessible_in_each_look(page, "palette-here")
        await page.keyboard.type("このジョブを取り消し")
        await page.keyboard.press("Enter")
        # It asks first, as the button of the page does, and Enter is the safe answer.
        asked = page.get_by_role("dialog", name="このジョブを取り消しますか")
        await expect(asked).to_be_visible()
        await accessible(page)
        await page.keyboard.press("Enter")
        await expect(asked).to_have_count(0)
        assert (await api.call("GET", f"/api/jobs/{waiting}"))[1]["state"] == "scheduled"
        await command(page, "このジョブを取り消し")
        await asked.get_by_role("button", name="ジョブを取り消す").click()
        await expect(page.locator(".toasts")).to_contain_text(waiting)
        await api.until_state(waiting, "canceled")
    assert (await api.call("DELETE", f"/api/constraints/{name}"))[0] == 204
