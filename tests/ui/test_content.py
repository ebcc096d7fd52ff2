"""Job content in the pages: who sees it, and that redacted values are not copied."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import expect

import jqmaster
from jqmaster.domain.identity.access import Role
from tests.support import real_time
from tests.support.long import IS_LONG
from tests.support.marked import NAME, OPEN, REDACT_PATHS, SECRET, Marked, marked
from tests.support.master import Api, master_on
from tests.support.server import StoreServer
from tests.ui.conftest import Screens

pytestmark = [
    pytest.mark.req("D21"),
    pytest.mark.rule("E6.1"),
    pytest.mark.asyncio(loop_scope="session"),
    real_time.BROWSER,
]

PASSWORD = "a-password-of-this-test"
PAGES = sorted(path.stem for path in (Path(jqmaster.__file__).parent / "web").glob("*/pages/*.js"))


@pytest.mark.sized
async def test_no_page_shows_content_to_viewers_or_what_is_redacted_to_anybody(
    store_server: StoreServer, screens: Screens
) -> None:
    """Use a separate master whose users log in."""
    tokens = ["admin:t-admin"]
    async with master_on(store_server.url, tokens=tokens) as (master, _):
        admin = Api(master.server.url, "t-admin")
        its = Screens(screens.browser, master.server.url)
        for role in Role:
            await master.identity.users.create(f"u-{role}", PASSWORD, role, who="test")
        async with marked(admin) as ids:
            await admin.call("PATCH", "/api/settings", {"redact_paths": list(REDACT_PATHS)})
            for role in Role if IS_LONG else (Role.VIEWER, Role.OPERATOR):
                seen = await marks_on_pages(its, role, ids)
                assert not seen & set(SECRET), (role, seen)
                if role is Role.VIEWER:
                    assert not seen, seen
                else:
                    assert seen >= {
                        "MARKargument",
                        "MARKheader",
                        "MARKresult",
                        "MARKmessage",
                        "MARKoverride",
                    }, seen
            for job_id in (ids.waiting, ids.running):
                await admin.call("POST", f"/api/jobs/{job_id}/cancel")
        await admin.http.aclose()


async def marks_on_pages(screens: Screens, role: Role, ids: Marked) -> set[str]:
    """Return the markers that a user with this role finds on any page."""
    addresses = [
        *(f"#/{page}" for page in PAGES),
        *(f"#/job?id={job_id}" for job_id in ids.jobs),
        *(f"#/constraints?name={name}" for name in ("by-open", "by-secret", "by-header")),
        f"#/enqueue?from={ids.failed}", f"#/names?name={NAME}", f"#/workers?id={ids.worker}", "#/jobs?state=failed",
    ]  # fmt: skip
    seen: set[str] = set()
    async with screens.open("#/workers") as page:
        await page.get_by_label("User").fill(f"u-{role}")
        await page.get_by_label("Password").fill(PASSWORD)
        await page.get_by_role("button", name="Log in").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Workers")
        for address in addresses:
            await page.goto(f"/{address}")
            await expect(page.get_by_role("heading", level=1).first).to_be_visible()
            await expect(page.locator(".loading")).to_have_count(0)
            fields = await page.locator("textarea, input").evaluate_all("all => all.map((one) => one.value)")
            text = await page.content() + json.dumps(fields)
            seen |= {mark for mark in (*OPEN, *SECRET) if mark in text}
    return seen


@pytest_asyncio.fixture(loop_scope="session")
async def redacting(api: Api) -> AsyncIterator[Api]:
    """Yield the session's master with redaction."""
    await api.call("PATCH", "/api/settings", {"redact_paths": ["argument.pin", "headers.x-key"]})
    yield api
    await api.call("PATCH", "/api/settings", {"redact_paths": None})


async def test_redacted_parts_are_not_copied_into_a_new_job(screens: Screens, redacting: Api) -> None:
    carried: dict[str, Any] = {"headers": {"x-key": "k3y", "trace": "t"}, "delay": 1000}
    job_id = await redacting.enqueue("ui.echo", {"pin": "1234", "n": 1}, **carried)
    async with screens.open(f"#/job?id={job_id}") as page:
        await expect(page.locator("main")).to_contain_text("Parts are redacted")
        await expect(page.get_by_role("button", name=re.compile("curl"))).to_have_count(0)
        await page.get_by_role("link", name="Edit and enqueue again").click()
        await expect(page.get_by_role("note")).to_contain_text("missing here")
        await expect(page.get_by_label("Argument")).to_have_value("")
        await expect(page.get_by_label("Headers")).to_have_value("trace: t")
        enqueue = page.get_by_role("button", name="Enqueue", exact=True)
        await enqueue.click()
        await expect(page.locator(".field-error").first).to_contain_text("cannot be copied")
        await page.get_by_label("Argument").fill('{"pin": "[redacted]", "n": 1}')
        await enqueue.click()
        await expect(page.locator(".field-error").first).to_contain_text("placeholder")
        await page.get_by_label("Argument").fill('{"pin": "9999", "n": 1}')
        await enqueue.click()
        await page.get_by_role("button", name="Show the job").click()
        await expect(page.locator("main")).to_contain_text("Parts are redacted")
    await redacting.call("POST", f"/api/jobs/{job_id}/cancel")


@pytest.mark.req("S14")
async def test_a_sealed_value_says_so_and_shows_what_stays_readable(screens: Screens, api: Api) -> None:
    argument = {"sealed_with": "2026b", "sealed": "AQBIT5", "tenant": "acme"}
    job_id = await api.enqueue("ui.echo", argument, delay=1000, tags=["sealed:2026b"])
    async with screens.open(f"#/job?id={job_id}") as page:
        main = page.locator("main")
        await expect(main).to_contain_text("Sealed with 2026b: only pushers and workers that have this key")
        await expect(main).to_contain_text("acme")
        await expect(main).not_to_contain_text("AQBIT5")
        # A copy would be another job, for which the value does not open.
        await expect(page.get_by_role("button", name=re.compile("curl"))).to_have_count(0)
        await page.get_by_role("link", name="Edit and enqueue again").click()
        await expect(page.get_by_role("note")).to_contain_text("redacted, sealed or too large")
        await expect(page.get_by_label("Argument")).to_have_value("")
    await api.call("POST", f"/api/jobs/{job_id}/cancel")


async def test_operators_are_told_which_settings_are_for_admins(
    store_server: StoreServer, screens: Screens
) -> None:
    async with master_on(store_server.url, tokens=["admin:t-admin"]) as (master, _):
        its = Screens(screens.browser, master.server.url)
        await master.identity.users.create("olga", PASSWORD, Role.OPERATOR, who="test")
        async with its.open("#/settings?q=redact_paths") as page:
            await page.get_by_label("User").fill("olga")
            await page.get_by_label("Password").fill(PASSWORD)
            await page.get_by_role("button", name="Log in").click()
            setting = page.locator(".setting").filter(has_text="redact_paths").first
            await expect(setting).to_contain_text("Only an admin")
            await expect(setting.get_by_role("button", name=re.compile("^Change"))).to_have_count(0)
            await page.goto("/#/settings?q=max_push_jobs")
            await expect(
                page.locator(".setting").get_by_role("button", name=re.compile("^Change"))
            ).to_have_count(1)
