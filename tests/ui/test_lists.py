"""Job lists in a browser: what they show, find, count and export, and that nothing in them jumps."""

import asyncio
import contextlib
import csv
import json
import re
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.async_api import Route, expect

from tests.api.challenges.test_forms import FORM
from tests.support import real_time
from tests.support.master import Api
from tests.support.scripted_worker import puller_at
from tests.support.waiting import wait_until
from tests.ui.conftest import Screens
from tests.ui.test_challenge_page import asked
from tests.ui.test_core import accessible, picture

pytestmark = [pytest.mark.req("J15"), pytest.mark.asyncio(loop_scope="session"), real_time.BROWSER]

WATCHED_MS = 12_000
LISTS = [
    "#/overview", "#/jobs", "#/jobs?state=succeeded", "#/jobs?state=failed", "#/names", "#/failures", "#/constraints",
    "#/workers", "#/masters", "#/batches", "#/definitions", "#/definitions?name=lists-timer", "#/events", "#/notices",
    "#/notices?name=lists-notice", "#/challenges",
]  # fmt: skip
# How many pages are open at once.
WATCHED = 8
# It also lists the elements that moved, so that a failure names its cause.
SHIFTS = """() => {
  window.shifted = 0;
  window.moved = [];
  const from = ({node, previousRect: before, currentRect: after}) =>
    `${node?.tagName}.${node?.className}: ${before.y}+${before.height} to ${after.y}+${after.height}`;
  new PerformanceObserver((list) => {
    for (const one of list.getEntries().filter((entry) => !entry.hadRecentInput)) {
      window.shifted += one.value;
      window.moved.push([one.value, ...one.sources.map(from)]);
    }
  }).observe({type: "layout-shift"});
}"""


async def test_a_list_shows_errors_arguments_and_workers_and_leads_back_to_its_row(
    screens: Screens, api: Api
) -> None:
    mark = f"t{uuid.uuid4().hex[:8]}"
    failed = []
    for n in range(40):
        failed.append(await api.enqueue("ui.fail", f"disk {n} is full", tags=[mark], max_retry=0))
        await api.until_state(failed[-1], "failed")
    async with screens.open(f"#/jobs?state=failed&tag={mark}") as page:
        rows = page.locator("tbody tr")
        await expect(rows).to_have_count(40)
        await expect(rows.first).to_contain_text("disk 39 is full")
        await expect(rows.first.locator("td.col-worker")).not_to_have_text("–")
        await expect(rows.first.locator("td.col-argument")).to_contain_text('"disk 39 is full"')
        await expect(page.locator(".matches")).to_have_text("40 jobs match")
        await expect(page).to_have_title("Failed · Jobs (40) · jqmaster")
        await expect(page.locator(".tabs a[aria-current=page] .count")).to_have_text("40")
        await accessible(page)
        await picture(page, "list-failed")
        await page.get_by_role("button", name="Duration").click()
        await expect(page.locator("th[aria-sort=ascending]")).to_contain_text("Duration")
        await page.get_by_role("button", name="Finished").click()
        await expect(rows.first).to_contain_text("disk 0 is full")
        await page.get_by_role("button", name="Copy link").click()
        link = await page.evaluate("navigator.clipboard.readText()")
        assert "state=failed" in link
        assert mark in link
        last = rows.filter(has_text="disk 37 is full")
        await last.locator("td.col-attempt").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("ui.fail")
        await expect(page.locator("details[open] pre")).to_contain_text("ValueError: disk 37 is full")
        await expect(page).to_have_title(f"Failed · ui.fail · …{failed[37][-6:]} · jqmaster")
        await page.go_back()
        await expect(last).to_be_focused()
        assert await page.evaluate("scrollY") > 100


async def test_filters_by_argument_and_time_find_count_and_export(
    screens: Screens, api: Api, tmp_path: Path
) -> None:
    mark = f"t{uuid.uuid4().hex[:8]}"
    for n in range(6):
        argument = {"tenant": "globex" if n % 2 else "initech", "n": n}
        await api.enqueue("ui.echo", argument, tags=[mark], delay=3600)
    async with screens.open(f"#/jobs?state=scheduled&tag={mark}&within=1h") as page:
        await expect(page.locator(".matches")).to_have_text("6 jobs match")
        await page.get_by_role("button", name="More filters").click()
        await page.get_by_label("Argument or header").press_sequentially("argument.tenant", delay=20)
        await page.get_by_label("Value").press_sequentially("globex", delay=20)
        await expect(page.locator(".matches")).to_have_text("3 jobs match")
        await expect(page.locator("tbody tr")).to_have_count(3)
        # Its fields show the filter, so there is no chip for it.
        await expect(page.get_by_label("Value")).to_have_value("globex")
        await picture(page, "list-matcher")
        for kind in ("CSV", "JSON"):
            async with page.expect_download() as started:
                await page.get_by_role("button", name=kind, exact=True).click()
            await (await started.value).save_as(tmp_path / kind)
        with (tmp_path / "CSV").open() as file:
            lines = list(csv.DictReader(file))
        assert [json.loads(line["argument_excerpt"])["tenant"] for line in lines] == ["globex"] * 3
        assert len(json.loads((tmp_path / "JSON").read_text())) == 3
        await page.get_by_role("button", name="Select all").or_(page.get_by_text("take all")).first.click()
        await page.get_by_role("button", name="Cancel").first.click()
        await expect(page.get_by_role("dialog")).to_contain_text("3")
        await page.get_by_role("dialog").get_by_role("button", name="Cancel (3)").click()
        await expect(page.locator("tbody tr")).to_have_count(0)
    async with screens.open(f"#/jobs?tag={mark}&state=scheduled") as page:
        await expect(page.locator("tbody tr")).to_have_count(3)


@pytest.mark.req("D21")
async def test_progress_moves_in_the_list_of_running_jobs_and_on_the_page_of_one(
    screens: Screens, api: Api
) -> None:
    mark = f"t{uuid.uuid4().hex[:8]}"
    job = await api.enqueue("ui.walk", 1000, tags=[mark], timeout=900.0)
    async with screens.open(f"#/jobs?state=running&tag={mark}") as page:
        bar = page.locator("td.col-progress progress")
        await expect(page.locator("td.col-progress")).to_contain_text("row")
        before = float(await bar.get_attribute("value") or 0)
        assert 0 < before < 0.5
        await expect(bar).not_to_have_attribute("value", str(before))
        await accessible(page)
        _, listed = await api.call("GET", f"/api/jobs?tag={mark}&include=progress")
        assert listed["jobs"][0]["progress"]["message"].startswith("row ")
        assert (await api.call("GET", f"/api/jobs?tag={mark}"))[1]["jobs"][0]["progress"] is None
        # The filter appears only in its field.
        await expect(page.get_by_label("Tag", exact=True)).to_have_value(mark)
        await expect(
            page.locator(".chip:visible").filter(has_text=mark).and_(page.locator(".filters *"))
        ).to_have_count(0)
        await page.goto(f"/#/job?id={job}")
        bar = page.get_by_role("progressbar", name="Progress")
        before = float(await bar.get_attribute("value") or 0)
        await expect(bar).not_to_have_attribute("value", str(before))
        # The steps that have ended stand there with their times.
        steps = page.get_by_role("definition").filter(has_text="open the file")
        await expect(steps.locator("time")).to_have_count(1)
        await accessible(page)
    assert (await api.call("POST", f"/api/jobs/{job}/cancel"))[0] == 200
    await api.until_state(job, "canceled")


async def test_a_search_goes_on_by_itself_and_can_be_stopped(screens: Screens, api: Api) -> None:
    mark = f"t{uuid.uuid4().hex[:8]}"
    await api.enqueue("ui.echo", tags=[mark], delay=3600)
    for _ in range(2):
        jobs = [{"name": "ui.many", "delay": 7200, "tags": [f"many-{mark}"]} for _ in range(5_000)]
        assert (await api.call("POST", "/api/jobs/bulk", {"jobs": jobs}))[0] == 201
    # Other tests also leave scheduled jobs.
    total = f"{(await api.call('GET', '/api/jobs/count?state=scheduled'))[1]['count']:,}"
    held = asyncio.Event()
    async with screens.open() as page:
        calls = 0

        async def slow(route: object) -> None:
            nonlocal calls
            calls += 1
            if calls == 3:
                await held.wait()
            await route.continue_()  # type: ignore[attr-defined]

        await page.route("**/api/jobs?*", slow)
        await page.goto(f"/#/jobs?state=scheduled&tag={mark}&order=newest")
        await expect(page.locator(".searching")).to_contain_text(re.compile(rf"Searched [\d,]+ of {total}"))
        await picture(page, "list-search")
        await page.get_by_role("button", name="Stop").click()
        held.set()
        await expect(page.locator(".searching")).to_contain_text(
            re.compile(rf"Stopped after [\d,]+ of {total}")
        )
        await page.get_by_role("button", name="Search again").click()
        await expect(page.locator("tbody tr")).to_have_count(1)
        await expect(page.locator(".searching")).to_contain_text(f"Searched {total}")
    delete = {"action": "delete", "filter": {"tag": f"many-{mark}"}}
    assert (await api.call("POST", "/api/jobs/actions", delete))[0] == 202


async def test_ages_stay_on_one_line_on_a_phone(screens: Screens, api: Api) -> None:
    mark = f"t{uuid.uuid4().hex[:8]}"
    ages_s = (5, 599, 35_999, 86_399, 9 * 86_400 + 80_000, 700 * 86_400)
    ids = [await api.enqueue("task.old", {}, tags=[mark], delay=3600) for _ in ages_s]
    # The list shows the newest first, and may arrive in several parts.
    age_of = dict(zip(reversed(ids), ages_s, strict=True))

    async def grown_old(route: Route) -> None:
        answer = await route.fetch()
        found = await answer.json()
        for job in found["jobs"]:
            job["created_at"] = (datetime.now(UTC) - timedelta(seconds=age_of[job["id"]])).isoformat()
        await route.fulfill(response=answer, body=json.dumps(found))

    async with screens.open("icon.svg") as page:
        await page.set_viewport_size({"width": 390, "height": 844})
        await page.route("**/api/jobs?*", grown_old)
        await page.goto(f"/#/jobs?tag={mark}")
        rows = page.locator("tbody tr")
        await expect(rows).to_have_count(len(ages_s))
        await expect(rows.nth(3)).to_contain_text("23 h ago")
        await expect(rows.nth(5)).to_contain_text("700 d ago")
        heights = await rows.evaluate_all("(rows) => rows.map((row) => row.clientHeight)")
        assert len(set(heights)) == 1, heights


async def test_a_phone_shows_names_and_errors_in_two_lines(screens: Screens, api: Api) -> None:
    mark = f"t{uuid.uuid4().hex[:8]}"
    failed = await api.enqueue("ui.fail", "the disk is full", tags=[mark], max_retry=0)
    await api.until_state(failed, "failed")
    definition = f"after-payment-of-{mark}"
    document = {"kind": "event", "event_type": f"{mark}.paid", "job": {"name": "ui.echo"}}
    assert (await api.call("PUT", f"/api/definitions/{definition}", document))[0] == 201
    assert (await api.call("POST", "/api/events", {"event_type": f"{mark}.paid"}))[0] == 202
    is_whole = "(e) => e.scrollWidth <= e.clientWidth"
    async with screens.open(f"#/jobs?tag={mark}", width=390) as page:
        row = page.locator("tbody tr")
        await expect(row).to_contain_text("the disk is full")
        for column in ("name", "state", "created"):
            assert await row.locator(f"td.col-{column}").evaluate(is_whole), column
        await accessible(page)
        await page.goto(f"/#/events?type={mark}.paid")
        await expect(row.get_by_role("link", name=definition)).to_be_visible()
        assert await row.locator("td.col-started").evaluate(is_whole)
        await accessible(page)


async def test_the_column_of_errors_comes_with_the_first_error(screens: Screens, api: Api) -> None:
    mark = f"t{uuid.uuid4().hex[:8]}"
    await api.until_state(await api.enqueue("ui.echo", "fine", tags=[mark]), "succeeded")
    async with screens.open(f"#/jobs?tag={mark}") as page:
        error = page.get_by_role("columnheader", name="Error")
        await expect(page.locator("tbody tr")).to_have_count(1)
        await expect(error).to_have_count(0)
        failed = await api.enqueue("ui.fail", "broken", tags=[mark], max_retry=0)
        await api.until_state(failed, "failed")
        await expect(error).to_be_visible()
        # The column was chosen, so it stays.
        await page.goto(f"/#/jobs?tag={mark}&state=succeeded&columns=name,error")
        await expect(page.locator("tbody tr")).to_have_count(1)
        await expect(error).to_be_visible()


class Things(NamedTuple):
    """Return the ID of an open batch and the row of an open challenge."""

    batch: str
    challenge: str


@contextlib.asynccontextmanager
async def things_of_lists(api: Api) -> AsyncIterator[Things]:
    """Create one of each object that has a list."""
    timer = {"job": {"name": "ui.echo"}, "schedule": {"every_minutes": 1}, "time_zone": "UTC"}
    event = {"kind": "event", "event_type": "lists.came", "job": {"name": "ui.echo"}}
    notice = {"when": "job_failed", "to": [{"slack": "https://hooks.example/services/one"}]}
    limit = {"matcher": {"field": "name", "op": "eq", "value": "ui.nap"}, "concurrency": 2}
    documents = {
        "definitions/lists-timer": timer,
        "definitions/lists-event": event,
        "notices/lists-notice": notice,
        "constraints/naps": limit,
    }
    batch = (await api.call("POST", "/api/batches", {"description": "Lists of the web UI"}))[1]["id"]
    try:
        for path, document in documents.items():
            status, answer = await api.call("PUT", f"/api/{path}", document)
            assert status == 201, answer
        async with puller_at(api, "lists.ask") as asker:
            await asked(api, asker, "lists.ask", timeout_s=3600.0, form=FORM)
            challenge = (await api.call("GET", "/api/challenges?name=lists.ask"))[1]["challenges"][0]
            yield Things(batch, f"{challenge['job_id']} {challenge['request']}")
            await api.call("POST", f"/api/jobs/{challenge['job_id']}/cancel")
    finally:
        for path in documents:
            await api.call("DELETE", f"/api/{path}")
        await api.call("POST", f"/api/batches/{batch}/cancel")


async def test_every_list_is_left_for_one_thing_and_found_again_at_its_row(
    screens: Screens, api: Api
) -> None:
    async with things_of_lists(api) as made:
        await _leave_and_return(screens, api, made)


async def _leave_and_return(screens: Screens, api: Api, made: Things) -> None:
    event_id = (await api.call("POST", "/api/events", {"event_type": "lists.came"}))[1]["event_id"]
    await api.until_state(await api.enqueue("ui.nap", 0.0), "succeeded")
    worker = (await api.call("GET", "/api/workers"))[1]["workers"][0]
    things = {
        "batches": (made.batch, "Lists of the web UI", "Batches"),
        "challenges": (made.challenge, "lists.ask", "Challenges"),
        "definitions": ("lists-timer", "lists-timer", "Definitions"),
        "events": (event_id, "lists.came", "Events"),
        "notices": ("lists-notice", "lists-notice", "Notices"),
        "constraints": ("naps", "naps", "Constraints"),
        "names": ("ui.nap", "ui.nap", "Names"),
        "workers": (worker["id"], worker["node_id"], "Workers"),
    }
    async with screens.open() as page:
        # Use a small window, so that the list needs scrolling.
        await page.set_viewport_size({"width": 1280, "height": 140})
        for address, (key, name, title) in things.items():
            await page.goto(f"/#/{address}")
            await expect(page).to_have_title(f"{title} · jqmaster")
            row = page.locator(f'tr[data-key="{key}"]')
            await row.scroll_into_view_if_needed()
            await page.evaluate("scrollBy(0, 40)")
            assert await page.evaluate("scrollY") > 0, address
            await row.focus()
            await page.keyboard.press("Enter")
            await expect(page).to_have_title(re.compile(f"{re.escape(name)}.* · jqmaster"))
            await page.go_back()
            await expect(row).to_be_focused()
            assert await page.evaluate("scrollY") > 0, address
            await expect(row).to_be_in_viewport()
            await expect(page).to_have_title(f"{title} · jqmaster")
            # A link to the list starts at its top.
            await page.get_by_role("link", name="Overview").first.click()
            await expect(page).to_have_title("Overview · jqmaster")
            await page.goto(f"/#/{address}")
            await expect(row).to_be_visible()
            await expect(row).not_to_be_focused()


@pytest.mark.long
async def test_nothing_jumps_in_any_list_while_jobs_run(screens: Screens, api: Api) -> None:
    is_over = False
    places = asyncio.Semaphore(WATCHED)

    async def push(batch: str) -> None:
        n = 0
        while not is_over:
            n += 1
            name = "ui.fail" if n % 20 == 0 else "ui.echo" if n % 3 else "ui.nap"
            argument = f"full {n}" if name == "ui.fail" else 0.01 * (n % 7)
            of_batch = {"batch": batch} if n % 4 == 0 else {}
            await api.enqueue(name, argument, max_retry=0, tags=["x" * (n % 30 + 1)], **of_batch)
            if n % 10 == 0:
                await api.call("POST", "/api/events", {"event_type": "lists.came", "payload": {"n": n}})
            await asyncio.sleep(0.05)

    shifts: dict[str, float] = {}
    moved: dict[str, list[object]] = {}

    async def watch(address: str) -> None:
        async with places, screens.open(address) as page:
            await expect(page.locator("main tbody tr, main li").first).to_be_visible()
            # On a slow machine, parts of a page may come late. This watches the loaded page, not the first load.
            await expect(page.locator(".loading, main [aria-busy=true]")).to_have_count(0)
            before = await page.locator("main").inner_text()
            await page.evaluate(SHIFTS)
            await page.wait_for_timeout(WATCHED_MS)
            shifts[address] = await page.evaluate("window.shifted")
            moved[address] = await page.evaluate("window.moved")
            if "jobs" in address:
                assert await page.locator("main").inner_text() != before

    async def leads() -> bool:
        groups = (await api.call("GET", "/api/failures"))[1]["groups"]
        return bool(groups) and re.search(r"\bfull \S", groups[0]["message"]) is not None

    # A group of failures that appears, or becomes the newest, moves to the top once: these lead from the start.
    await api.enqueue("ui.fail", "full 0", max_retry=0)
    await wait_until(leads, what="the group of failures")
    async with things_of_lists(api) as made:
        pushing = asyncio.create_task(push(made.batch))
        try:
            await asyncio.gather(*(watch(address) for address in [*LISTS, f"#/batches?id={made.batch}"]))
        finally:
            is_over = True
            await pushing
    assert {address: moved[address] for address, shift in shifts.items() if shift >= 0.1} == {}
