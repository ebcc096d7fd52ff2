"""The web UI tells the truth: charts without false dips, faults that stay until they are over, live lists."""

import asyncio
import re
import uuid
from typing import Any

import pytest
from playwright.async_api import Browser, Page, Request, Route, expect

from tests.support import real_time
from tests.support.each import for_each
from tests.support.master import PATIENT, Api, master_on
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from tests.ui.conftest import Screens, worker_on
from tests.ui.people import live_queue
from tests.ui.test_core import accessible, picture

pytestmark = [pytest.mark.req("J15"), pytest.mark.asyncio(loop_scope="session"), real_time.BROWSER]

EVERYTHING = {"matcher": {"field": "name", "op": "eq", "value": "nobody.has.this"}}


async def test_a_pause_is_a_fault_until_it_is_over_or_acknowledged(screens: Screens, api: Api) -> None:
    path = "/api/constraints/forgotten"
    values = [{"value": "globex", "paused": True, "concurrency": 1}]
    for body, text in (
        ({**EVERYTHING, "paused": True}, "Constraint forgotten is paused"),
        (
            {**EVERYTHING, "key": "argument.tenant", "concurrency": 5, "overrides": values},
            "1 value is paused",
        ),
    ):
        assert (await api.call("PUT", path, body))[0] in (200, 201)
        async with screens.open() as page:
            fault = page.locator("li.fault").filter(has_text=text)
            await expect(fault).to_be_visible()
            await accessible(page)
            await picture(page, f"fault-{len(text)}")
            await fault.get_by_role("button", name="Acknowledge").click()
            await expect(fault).to_have_count(0)
            await expect(page.get_by_text("1 acknowledged fault")).to_be_visible()
            await page.get_by_role("button", name="Show", exact=True).click()
            await expect(fault).to_be_visible()
            status, _ = await api.call("DELETE", path)
            assert status == 204
            await expect(fault).to_have_count(0)


async def test_a_constraint_that_holds_jobs_back_is_a_fault_with_their_number(
    screens: Screens, api: Api
) -> None:
    name = f"full-{uuid.uuid4().hex[:6]}"
    document = {
        "matcher": {"field": "tags", "op": "eq", "value": name},
        "key": "argument",
        "concurrency": 1,
    }
    assert (await api.call("PUT", f"/api/constraints/{name}", document))[0] == 201
    jobs = [await api.enqueue("ui.nap", 600, timeout=900, tags=[name]) for _ in range(3)]
    async with screens.open() as page:
        fault = page.locator("li.fault").filter(has_text=f"Constraint {name} is full")
        await expect(fault).to_contain_text("at 1 of 1 values: 2 jobs wait for it.", timeout=30_000)
        runbook = fault.get_by_role("link", name="Runbook")
        await expect(runbook).to_have_attribute("href", "runbooks.html#a-constraint-holds-jobs-back")
        await fault.get_by_role("link", name="Constraints").click()
        await expect(page.get_by_text("2 of 2 waiting jobs are held back")).to_be_visible()
        await page.goto("/#/constraints")
        row = page.locator("tbody tr").filter(has_text=name)
        await expect(row).to_contain_text("1 of 1 values closed")
        await expect(row.locator("td.col-held")).to_have_text("2")
        # Pause and resume from the row.
        await row.get_by_role("button", name="Pause").click()
        await page.get_by_role("dialog").get_by_role("button", name="Pause").click()
        await expect(page.locator(".paused-now")).to_be_visible()
        await row.get_by_role("button", name="Resume").click()
        await expect(page.locator(".paused-now")).to_have_count(0)
        await page.goto(f"/#/job?id={jobs[2]}")
        first = page.locator(".verdicts li").first
        await expect(first).to_contain_text("1 of 1 slots are taken")
        await expect(first).not_to_contain_text("T0")
        await page.get_by_role("combobox", name="Language").select_option("ja")
        await expect(first).to_contain_text("1 スロット中 1 スロットを使用中")
        await page.get_by_role("combobox", name="言語").select_option("en")
        for job in jobs:
            await api.call("POST", f"/api/jobs/{job}/cancel")
        await page.goto("/#/overview")
        await expect(fault).to_have_count(0)
    assert (await api.call("DELETE", f"/api/constraints/{name}"))[0] == 204


async def test_a_constraint_whose_opening_has_come_does_not_open_now(screens: Screens, api: Api) -> None:
    name = f"rate-{uuid.uuid4().hex[:6]}"
    document = {
        "matcher": {"field": "tags", "op": "eq", "value": name},
        "rate": {"limit": 1, "period_s": 3600},
    }
    assert (await api.call("PUT", f"/api/constraints/{name}", document))[0] == 201

    async def overdue(route: Route) -> None:
        answer = await (await route.fetch()).json()
        for one in answer.get("constraints", [answer]):
            one["usage"]["next_opening"] = "2026-01-01T00:00:00Z"
        await route.fulfill(json=answer)

    async with screens.open("icon.svg") as page:
        await page.route(re.compile(rf"/api/constraints(/{name})?$"), overdue)
        await page.goto("/#/constraints")
        row = page.locator("tbody tr").filter(has_text=name)
        await expect(row.locator(".col-opens")).to_have_text("opening…")
        await page.goto(f"/#/constraints?name={name}")
        opens = page.locator("dt", has_text="Opens").locator("xpath=following-sibling::dd[1]")
        await expect(opens).to_have_text("opening…")
    assert (await api.call("DELETE", f"/api/constraints/{name}"))[0] == 204


async def test_a_job_names_its_workers_while_they_are_registered(screens: Screens, api: Api) -> None:
    job_id = await api.enqueue("ui.echo")
    await api.until_state(job_id, "succeeded")
    worker_id = (await api.job(job_id))["worker_id"]
    worker = (await api.call("GET", f"/api/workers/{worker_id}"))[1]
    async with screens.open(f"#/job?id={job_id}") as page:
        links = page.locator(f'a[href$="workers?id={worker_id}"]')
        await expect(links).to_have_text([f"{worker['node_id']}:{worker['pid']}"] * 2)

        async def gone(route: Route) -> None:
            await route.fulfill(status=404, json={"title": "Not found", "code": "unknown_worker"})

        await page.route("**/api/workers/*", gone)
        await page.reload()
        await expect(links).to_have_text([f"…{worker_id[-10:]}"] * 2)


@for_each(
    ("state", "words"),
    [
        ("", "latest change first"),
        ("ready", "newest first"),
        ("scheduled", "latest due first"),
        ("succeeded", "latest change first"),
    ],
)
async def test_a_list_says_by_which_instant_it_is_ordered(screens: Screens, state: str, words: str) -> None:
    async with screens.open(f"#/jobs?state={state}") as page:
        order = page.get_by_label("Order").locator("option[value=newest]")
        await expect(order).to_have_text(words)


async def test_the_wait_for_a_rate_is_estimated_from_the_jobs_before(screens: Screens) -> None:
    async with screens.open() as page:
        waits = await page.evaluate("""async () => {
            const { expectedWaitMs } = await import("./jobs/verdicts.js");
            const verdict = { code: "constraint", kinds: ["rate"], limit: 20, period_s: 60,
              opens_at: "2026-01-01T00:00:10Z" };
            const why = (ahead, constraints = []) =>
              ({ as_of: "2026-01-01T00:00:00Z", verdicts: [verdict, ...ahead], constraints });
            const weighted = [{ weight: { unit: "tokens" } }];
            return [expectedWaitMs(verdict, why([{ code: "ahead", count: 385 }])),
                    expectedWaitMs(verdict, why([])),
                    expectedWaitMs(verdict, why([{ code: "ahead", count: 385 }], weighted)),
                    expectedWaitMs({ ...verdict, kinds: ["rate", "paused"] }, why([{ code: "ahead", count: 1 }]))];
        }""")
    assert waits == [10_000 + 19 * 60_000, None, None, None]


async def test_filters_by_time_are_in_the_zone_of_the_reader(screens: Screens) -> None:
    async with screens.open("#/jobs?created_after=2026-01-02T03:04:05Z", timezone="Asia/Tokyo") as page:
        after = page.get_by_label("Created after (GMT+9)")
        await expect(after).to_have_value("2026-01-02T12:04:05")
        await after.fill("2026-01-02T09:00:05")
        await after.press("Enter")
        await expect(page).to_have_url(re.compile(r"created_after=2026-01-02T00%3A00%3A05Z"))
        switch = page.get_by_role("button", name="Times: relative, local or UTC")
        await switch.click()
        await switch.click()
        await expect(page.get_by_label("Created after (UTC)")).to_have_value("2026-01-02T00:00:05")


async def test_a_running_step_is_not_drawn_and_a_dragged_part_leads_to_its_jobs(
    screens: Screens, api: Api
) -> None:
    await api.until_state(await api.enqueue("ui.echo"), "succeeded")
    async with screens.open() as page:
        complete = await page.evaluate("""async () => {
            const { completePoints } = await import("./ui/points.js");
            const at = (s) => new Date(Date.now() - s * 1000).toISOString();
            const points = [{ at: at(150) }, { at: at(90) }, { at: at(30) }];
            return [completePoints({ points, step_s: 60 }).length,
                    completePoints({ points: points.slice(0, 2), step_s: 60 }).length];
        }""")
        assert complete == [2, 2]
        plot = page.locator(".plot .u-over").first
        await expect(plot).to_be_visible()
        await plot.scroll_into_view_if_needed()
        await page.get_by_role("button", name=re.compile("^Failed")).first.click()
        await expect(page.locator("button.legend-item[aria-pressed=false]")).to_have_count(1)
        # The chart is redrawn without the hidden line. A hover waits for it.
        await plot.hover(position={"x": 200, "y": 60})
        box = await plot.bounding_box()
        assert box
        await picture(page, "overview-chart")
        await page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 60)
        await page.mouse.down()
        await page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + 60, steps=5)
        await page.mouse.up()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
        assert re.search(r"finished_after=.*&finished_before=", page.url)


async def test_a_chart_has_no_line_for_the_time_before_the_store_existed(screens: Screens) -> None:
    async with screens.open() as page:
        rates = await page.evaluate("""async () => {
            const { ratesOf } = await import("./ui/points.js");
            const nothing = { backlog: null, succeeded: 0, failed: 0, canceled: 0, skipped: 0, retried: 0 };
            const points = [nothing, nothing, { ...nothing, backlog: 0 }, { ...nothing, succeeded: 120 }, nothing];
            return [ratesOf(points, 60)("succeeded"), ratesOf(points.slice(3), 60)("succeeded"),
                    ratesOf(points.slice(0, 2), 60)("succeeded")];
        }""")
        assert rates == [[None, None, 0, 2, 0], [2, 0], [None, None]]


@pytest.mark.parametrize(("address", "path"), [("#/workers", "/api/workers"), ("#/masters", "/api/masters")])
async def test_lists_that_say_live_are_brought_up_to_date(screens: Screens, address: str, path: str) -> None:
    asked = asyncio.Event()
    calls = 0

    def heard(request: Request) -> None:
        nonlocal calls
        if request.url.endswith(path):
            calls += 1
            if calls >= 3:
                asked.set()

    async with screens.open() as page:
        page.on("request", heard)
        await page.goto(f"/{address}")
        await expect(page.locator("tbody tr").first).to_be_visible()
        await asyncio.wait_for(asked.wait(), 15)


async def test_times_are_relative_local_or_utc(screens: Screens, api: Api) -> None:
    job_id = await api.enqueue("ui.echo", delay=3600)
    async with screens.open(f"#/job?id={job_id}") as page:
        first = page.locator("time").first
        await expect(first).to_be_visible()
        title = await first.get_attribute("title") or ""
        assert title.count(" · ") == 2
        assert title.endswith("UTC")
        switch = page.get_by_role("button", name="Times: relative, local or UTC")
        await switch.click()
        await expect(first).to_have_text(re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \w+"))
        await switch.click()
        await expect(first).to_have_text(re.compile("UTC$"))
    await api.call("POST", f"/api/jobs/{job_id}/cancel")


# Returns the figures of the Overview by their labels, each as it stands there.
FIGURES = """() => {
  const text = (one, selector) => one.querySelector(selector).innerText.trim();
  const tiles = [...document.querySelectorAll(".tile")].map((one) => [
    text(one, ".tile-label"), [text(one, "b"), text(one, ".tile-more")]]);
  const failing = [...document.querySelectorAll("main tbody tr")].find((one) => one.innerText.includes("ui.fail"));
  return {
    tiles: Object.fromEntries(tiles),
    workers: document.querySelector("section[aria-labelledby=workers]").innerText,
    masters: document.querySelector("section[aria-labelledby=masters]").innerText,
    store: document.querySelector("section[aria-labelledby=store]").innerText,
    failing: failing?.innerText ?? "",
  };
}"""
SCHEDULED = 3


async def test_each_figure_of_the_overview_is_that_of_the_api_under_load(
    browser: Browser, store_server: StoreServer
) -> None:
    async with (
        master_on(store_server.url, **PATIENT) as (master, api),
        worker_on(master.server.url).running(),
        live_queue(api),
        Screens(browser, master.server.url).open("#/overview") as page,
    ):
        for _ in range(SCHEDULED):
            await api.enqueue("ui.echo", delay=3600)
        await wait_until(lambda: _failures(api), what="the names tell of a failure")
        for _ in range(3):
            await _compare(page, api)


async def _failures(api: Api) -> dict[str, int]:
    """Return the failed jobs of the last hour by name."""
    names = (await api.call("GET", "/api/names?span=1h&sort=failed&limit=5"))[1]["names"]
    return {one["name"]: one["failed"] for one in names if one["failed"]}


async def _compare(page: Page, api: Api) -> None:
    """Compare the page with the API's answers before and after it was read."""
    before = (await api.call("GET", "/api/stats"))[1]
    least = await _failures(api)

    async def shown() -> Any:
        figures = await page.evaluate(FIGURES)
        at_least = (("Succeeded", before["counts"]["succeeded"]), ("Failed", before["counts"]["failed"]))
        is_newer = all(_number(figures["tiles"][label][0]) >= count for label, count in at_least)
        return is_newer and int(_first(figures["failing"])) >= least["ui.fail"] and figures

    figures = await wait_until(shown, timeout_s=20, what="the page shows what the API told")
    after = (await api.call("GET", "/api/stats"))[1]
    tiles = {label.lower(): texts for label, texts in figures["tiles"].items()}
    for state in ("failed", "succeeded"):
        assert _number(tiles[state][0]) <= after["counts"][state]
    # Nothing else is known exactly of jobs that come and go twenty times a second.
    assert _number(tiles["scheduled"][0]) == SCHEDULED == after["counts"]["scheduled"]
    assert _number(tiles["retrying"][0]) == 0
    most = after["workers"]["max_jobs"]
    assert 0 <= _number(tiles["running"][0]) <= most == 4
    assert tiles["running"][1].endswith(f"of {most} slots")
    assert _number(tiles["ready"][0]) <= 3 * 20
    rates = [one["rates"] for one in (before, after)]
    for label, key, place in (
        ("pushed/s", "pushed", 0),
        ("succeeded", "succeeded", 1),
        ("failed", "failed", 1),
    ):
        told = sorted(one[key] for one in rates)
        assert 0.8 * told[0] - 0.1 <= float(_first(tiles[label][place])) <= 1.25 * told[1] + 0.1, label
    assert int(_first(figures["failing"])) <= (await api.counts())["failed"]
    assert re.search(rf"\b{after['workers']['fresh']}\b", figures["workers"])
    assert f"of {most} slots" in figures["workers"]
    assert "leader" in figures["masters"].lower()
    for text in (after["store"]["server"], after["store"]["durability"]):
        assert text in figures["store"]


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def _first(text: str) -> str:
    """Return the first number of a text."""
    found = re.search(r"\d[\d,.]*", text)
    return found[0].replace(",", "") if found else "0"


async def test_retries_are_not_attempts_and_a_failed_job_has_no_result(screens: Screens) -> None:
    async with screens.open() as page:
        retries, missing = await page.evaluate("""async () => {
            const { retriesText } = await import("./jobs/columns.js");
            const { noResultText } = await import("./jobs/carried.js");
            const job = { max_retry: 1, cause: null };
            const at = "2026-12-01T00:00:00Z";
            return [
                [
                    { ...job, failures: 2, state: "failed", cause: "timeout" },
                    { ...job, failures: 1, state: "failed", cause: "error" },
                    { ...job, failures: 1, state: "failed", cause: "lost" },
                    { ...job, failures: 1, state: "retrying" },
                    { ...job, failures: 3, state: "running" },
                    { ...job, failures: 1, state: "failed", max_retry: 0 },
                ].map(retriesText),
                [
                    { state: "running", finished_at: null }, { state: "succeeded", finished_at: at },
                    { state: "failed", finished_at: at }, { state: "canceled", finished_at: at },
                ].map(noResultText),
            ];
        }""")
    used = "1 of 1 retries used"
    assert retries == [used, "0 of 1 retries used", used, used, used, "no retries"]
    assert missing == [
        "There is no result yet.",
        "The result is no longer kept: somebody fetched it, or its time is over.",
        "The job failed, so it has no result. Its attempts show the error.",
        "The job did not succeed, so it has no result.",
    ]
