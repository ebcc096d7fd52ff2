"""Notice pages: create without JSON, test, mute, acknowledge and delete; a job's webhook and links."""

import re
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from tests.support import real_time
from tests.support.master import Api, master_on
from tests.support.server import StoreServer
from tests.support.webhook_receiver import SECRET, Answer, receiver
from tests.ui.conftest import Screens
from tests.ui.test_core import accessible, accessible_in_each_look, tag

pytestmark = [
    pytest.mark.req("M5"),
    pytest.mark.asyncio(loop_scope="session"),
    real_time.BROWSER,
]
# Nothing listens on this address, and webhooks may not go there.
SLACK = "http://127.0.0.1:9/services/credential"


async def view_of(api: Api, name: str) -> dict[str, Any]:
    return dict((await api.call("GET", f"/api/notices/{name}"))[1])


async def test_a_notice_is_made_changed_tested_muted_and_deleted(screens: Screens, api: Api) -> None:
    name = tag()
    async with screens.open("#/notices") as page:
        await page.get_by_role("button", name="New notice").click()
        dialog = page.get_by_role("dialog")
        await accessible(page)
        await dialog.get_by_label("Name", exact=True).fill(name)
        await dialog.get_by_label("Triggers on").select_option("backlog_age")
        await dialog.get_by_label("Slack").fill(f"{SLACK}\n{SLACK}-2")
        await dialog.get_by_label("Applies to").select_option("some")
        await dialog.get_by_label("Value 1").fill("x")
        await accessible(page)
        await dialog.get_by_role("button", name="JSON").click()
        matcher = dialog.get_by_label("Matcher")
        await expect(matcher).to_have_value(re.compile('"value": "x"'))
        await matcher.fill("{")
        await dialog.get_by_role("button", name="Save").click()
        await expect(dialog).to_contain_text("not JSON")
        # After a refused save, one goes on where something has to change.
        await expect(matcher).to_be_focused()
        await matcher.fill('{"field": "name", "op": "eq", "value": "x"}')
        await dialog.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text(name)
        await expect(page.locator("section", has=page.locator("#incidents"))).to_have_text(
            re.compile(r"^\s*Open alerts\s*No alert is open\.\s*$")
        )
        made = await view_of(api, name)
        assert (made["when"], made["threshold"], len(made["to"])) == ("backlog_age", 60, 2)
        assert made["matcher"] == {"field": "name", "op": "eq", "value": "x"}
        await expect(page.locator(".rule-text")).to_have_text("name is x")
        await expect(page.locator("main")).not_to_contain_text("credential")

        await page.get_by_role("button", name="Edit").click()
        await dialog.get_by_label("Description").fill("for the night")
        await dialog.get_by_role("button", name="Save").click()
        await expect(dialog).to_have_count(0)
        changed = await view_of(api, name)
        # The addresses were sent back as shown.
        assert (changed["description"], changed["to"]) == ("for the night", made["to"])

        await page.get_by_role("button", name="Send a test").click()
        await expect(page.get_by_text("Test of")).to_be_visible()
        await expect(page.locator("section", has=page.locator("#messages"))).to_contain_text("test")
        await page.get_by_role("button", name=re.compile("^Mute(…)?$")).click()
        await dialog.get_by_label("For how long").fill("15 min")
        await dialog.get_by_role("button", name="Mute").click()
        await expect(page.get_by_role("button", name="Unmute")).to_be_visible()
        assert (await view_of(api, name))["muted_until"] is not None
        await page.get_by_role("button", name="Unmute").click()
        await expect(page.get_by_role("button", name=re.compile("^Mute(…)?$"))).to_be_visible()
        await page.get_by_role("button", name="Delete").click()
        await dialog.get_by_role("button", name="Delete").click()
        await expect(page).to_have_url(re.compile("#/notices$"))
        assert (await api.call("GET", f"/api/notices/{name}"))[0] == 404


async def test_a_notice_says_which_of_its_messages_arrived(
    browser: Browser, store_server: StoreServer
) -> None:
    settings: dict[str, Any] = {"webhook_secrets": SECRET, "allowed_webhook_networks": "127.0.0.0/8"}
    async with master_on(store_server.url, **settings) as (_, api), receiver(Answer(200)) as to:
        notice = {"when": "job_failed", "to": [{"webhook": to.url}, {"webhook": "http://127.0.0.1:1/away"}]}
        assert (await api.call("PUT", "/api/notices/arrived", notice))[0] == 201
        assert (await api.call("POST", "/api/notices/arrived/test"))[0] == 202
        await to.until(1)
        async with Screens(browser, str(api.http.base_url)).open("#/notices?name=arrived") as page:
            for state, word in (("succeeded", "Succeeded"), ("failed", "Failed")):
                link = page.locator(".deliveries").get_by_role("link", name=word)
                await expect(link).to_have_text(re.compile(rf"^\s*1\s+{word}\s*$"))
                await expect(link).to_have_attribute(
                    "href", re.compile(f"tag=notice%3Aarrived&state={state}$")
                )


@pytest.mark.sized
async def test_pages_of_notices_are_accessible_and_fit_a_phone(screens: Screens, api: Api) -> None:
    name = tag()
    notice = {"when": "job_failed", "to": [{"slack": SLACK}], "description": "d " * 50, "group_by": "name"}
    assert (await api.call("PUT", f"/api/notices/{name}", notice))[0] == 201
    assert (await api.call("POST", f"/api/notices/{name}/test"))[0] == 202
    for locale in ("en-US", "ja-JP"):
        async with screens.open(locale=locale) as page:
            for address in ("#/notices", f"#/notices?name={name}", "#/notices?name=no-such"):
                await page.goto(f"/{address}")
                await expect(page.get_by_role("heading", level=1)).to_be_visible()
                await expect(page.locator(".loading")).to_have_count(0)
                await accessible_in_each_look(page, address)
    assert (await api.call("DELETE", f"/api/notices/{name}"))[0] == 204


@pytest.mark.req("M10", "D28")
async def test_a_job_shows_its_webhook_and_its_links(browser: Browser, store_server: StoreServer) -> None:
    settings: dict[str, Any] = {
        "webhook_secrets": SECRET,
        "allowed_webhook_networks": "127.0.0.0/8",
        "link_templates": "Log_lines=https://logs.example/?job={job_id}",
    }
    async with master_on(store_server.url, **settings) as (_, api), receiver(Answer(500), Answer(200)) as to:
        job_id = await api.enqueue("work", delay=600.0, notify_url=to.url)
        assert (await api.call("POST", f"/api/jobs/{job_id}/cancel"))[0] == 200
        await to.until(1)
        async with Screens(browser, str(api.http.base_url)).open(f"#/job?id={job_id}") as page:
            link = page.get_by_role("link", name="Log lines")
            await expect(link).to_have_attribute("href", f"https://logs.example/?job={job_id}")
            card = page.locator("section", has=page.locator("#deliveries"))
            await expect(card).to_contain_text("status 500")
            await expect(card).not_to_contain_text("k1")
            await accessible(page)
            await card.get_by_role("button", name="Send again").click()
            await to.until(2)
            await expect(card).to_contain_text("Succeeded")
