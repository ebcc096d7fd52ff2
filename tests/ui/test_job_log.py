"""The log on a job's page, in a browser: live, by level, searched, with colours, and as a file."""

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Route, expect

from tests.support import real_time
from tests.support.master import Api
from tests.support.scripted_worker import puller_at
from tests.ui.conftest import HOSTILE, Screens
from tests.ui.test_core import accessible

pytestmark = [pytest.mark.req("D17"), pytest.mark.asyncio(loop_scope="session"), real_time.BROWSER]

AT = 1_800_000_000_000


async def test_lines_have_the_zone_of_the_page_and_the_date_where_a_day_begins(
    screens: Screens, api: Api
) -> None:
    name = f"logs.{uuid.uuid4().hex[:8]}"
    async with puller_at(api, name) as worker:
        job_id = await api.enqueue(name)
        (job,) = await worker.claim()
        claim = {"job_id": job["job_id"], "token": job["token"]}
        # 2027-01-15 14:59:59.987 UTC is one millisecond and a bit before midnight in Tokyo.
        entries = [
            {
                **claim,
                "seq": seq,
                "at": AT + 7 * 3_600_000 - 13 + 20 * (seq - 1),
                "text": "line",
                "level": "info",
            }
            for seq in (1, 2)
        ]
        assert (await api.call("POST", f"/api/workers/{worker.id}/logs", {"entries": entries}))[0] == 200
        async with screens.open(f"#/job?id={job_id}", timezone="Asia/Tokyo") as page:
            log = page.locator(".log-lines")
            times = log.locator(".log-line time")
            await expect(times).to_have_text(["23:59:59.987", "00:00:00.007"])
            await expect(log.locator(".log-gap")).to_have_text(["2027-01-15 · GMT+9", "2027-01-16 · GMT+9"])
            switch = page.get_by_role("button", name="Times: relative, local or UTC")
            await switch.click()
            await switch.click()
            await expect(times).to_have_text(["14:59:59.987", "15:00:00.007"])
            await expect(log.locator(".log-gap")).to_have_text(["2027-01-15 · UTC"])


async def test_a_log_is_followed_selected_searched_and_saved(
    screens: Screens, api: Api, tmp_path: Path
) -> None:
    name = f"logs.{uuid.uuid4().hex[:8]}"
    async with puller_at(api, name) as worker:
        job_id = await api.enqueue(name)
        (job,) = await worker.claim()

        async def send(*entries: dict[str, Any]) -> None:
            claim = {"job_id": job["job_id"], "token": job["token"]}
            sent = {"entries": [{**claim, "at": AT, **entry} for entry in entries]}
            status, problem = await api.call("POST", f"/api/workers/{worker.id}/logs", sent)
            assert status == 200, problem

        async with screens.open(f"#/job?id={job_id}") as page:
            log = page.locator("section.job-log")
            await expect(log).to_contain_text("No lines yet.")
            await send(
                {"seq": 1, "text": "\x1b[31mred\x1b[0m plain", "level": "info"},
                {"seq": 2, "text": HOSTILE, "level": "debug"},
            )
            lines = log.locator(".log-line")
            await expect(lines).to_have_count(2)
            await expect(log.locator(".ansi-fg-1").first).to_have_text("red")
            await expect(lines.nth(1)).to_contain_text("<img src=x onerror=alert(1)>")
            await send({"seq": 5, "text": "it fails", "level": "error"})
            # The line appears within a second, and the page shows what is missing.
            await expect(lines).to_have_count(3)
            await expect(log).to_contain_text("2 lines are missing here.")
            await accessible(page)
            await log.get_by_role("searchbox").fill("RED")
            await expect(lines).to_have_count(1)
            await log.get_by_role("searchbox").fill("nowhere")
            await expect(log).to_contain_text("No line contains this text.")
            await log.get_by_role("searchbox").fill("")
            await log.get_by_role("combobox").select_option("error")
            await expect(lines).to_have_count(1)
            await expect(lines).to_contain_text("it fails")
            await log.get_by_role("combobox").select_option("debug")
            await expect(lines).to_have_count(3)
            async with page.expect_download() as saved:
                await log.get_by_role("button", name="Download").click()
            await (await saved.value).save_as(tmp_path / "log")
            text = await asyncio.to_thread((tmp_path / "log").read_text)
            assert text.splitlines()[-1] == "2027-01-15T08:00:00.000Z 1 error it fails"
            await worker.end(job)
        async with screens.open(f"#/job?id={job_id}", locale="ja") as page:
            await expect(page.locator("section.job-log")).to_contain_text("ここで 2 行が失われました。")


async def test_the_log_of_a_job_that_is_gone_is_shown_from_the_archive(screens: Screens) -> None:
    job_id = str(uuid.uuid4())
    line = {"seq": 1, "attempt": 1, "at": "2027-01-15T08:00:00.000Z", "level": "info", "text": "long ago"}
    found = {
        "state": None, "entries": [line], "next": 1, "last": 1, "dropped": 0, "is_last": True,
        "is_archived": True, "log_ref": f"main/{job_id}/",
    }  # fmt: skip

    async def archived(route: Route) -> None:
        await route.fulfill(json=found)

    async with screens.open() as page:
        await page.goto(f"/#/job?id={job_id}")
        await expect(page.locator("main")).to_contain_text("This job does not exist.")
        await expect(page.locator("section.job-log")).to_have_count(0)
        await page.route(f"**/api/jobs/{job_id}/logs?*", archived)
        await page.reload()
        log = page.locator("section.job-log")
        await expect(log.locator(".log-line")).to_contain_text("long ago")
        await expect(log).to_contain_text("Lines come from the archive of logs.")
        await accessible(page)

        calls: list[str] = []

        async def erased(route: Route) -> None:
            calls.append(route.request.method)
            await route.fulfill(status=204)

        await page.route(f"**/api/jobs/{job_id}/logs", erased)
        await log.get_by_role("button", name="Erase log").click()
        await accessible(page)
        await page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
        await log.get_by_role("button", name="Erase log").click()
        await page.unroute(f"**/api/jobs/{job_id}/logs?*")
        await page.get_by_role("dialog").get_by_role("button", name="Erase log").click()
        await expect(page.get_by_text("Log erased.")).to_be_visible()
        await expect(log).to_have_count(0)
        assert calls == ["DELETE"]


async def test_while_the_archive_is_away_its_fault_and_the_lines_of_the_store_are_shown(
    screens: Screens,
) -> None:
    job_id = str(uuid.uuid4())
    line = {"seq": 3, "attempt": 1, "at": "2027-01-15T08:00:00.000Z", "level": "info", "text": "still here"}
    found = {
        "state": "succeeded", "entries": [line], "next": 3, "last": 3, "dropped": 0, "is_last": True,
        "is_archived": False, "log_ref": f"main/{job_id}/",
    }  # fmt: skip
    problem = {
        "type": "about:blank", "title": "The archive of logs is not available", "status": 503,
        "detail": "cannot list the archive of logs s3://bucket/logs: 403 Forbidden", "code": "archive_unavailable",
        "errors": [], "stored_after": 2,
    }  # fmt: skip

    async def away(route: Route) -> None:
        if "after=0" in route.request.url:
            await route.fulfill(status=503, json=problem)
        else:
            assert "after=2" in route.request.url
            await route.fulfill(json=found)

    async with screens.open() as page:
        await page.route(f"**/api/jobs/{job_id}/logs?*", away)
        await page.goto(f"/#/job?id={job_id}")
        log = page.locator("section.job-log")
        await expect(log.locator(".log-line")).to_contain_text("still here")
        await expect(log.get_by_role("alert")).to_contain_text("s3://bucket/logs: 403 Forbidden")
        await expect(log.get_by_role("button", name="Try again")).to_be_visible()
