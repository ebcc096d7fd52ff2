"""Definition pages: create without cron, watch, pause, run, backfill and delete."""

import re
from typing import Any

import pytest
from playwright.async_api import Page, expect

from jqmaster.domain.operations.health_facts import TroubledDefinition
from tests.support import real_time
from tests.support.master import Api
from tests.support.waiting import wait_until
from tests.ui.conftest import Screens
from tests.ui.test_core import accessible, accessible_in_each_look, tag
from tests.ui.test_faults import pretended
from tests.ui.test_lists import SHIFTS

pytestmark = [
    pytest.mark.req("D21"),
    pytest.mark.req("D6"),
    pytest.mark.asyncio(loop_scope="session"),
    real_time.BROWSER,
]
JOB = {"name": "ui.echo", "argument": {"kind": "daily"}}


async def made(api: Api, name: str, **fields: Any) -> dict[str, Any]:
    body = {"job": JOB, "schedule": {"daily_at": "02:30"}, **fields}
    status, view = await api.call("PUT", f"/api/definitions/{name}", body)
    assert status in (200, 201), view
    return dict(view)


async def view_of(api: Api, name: str) -> dict[str, Any]:
    return dict((await api.call("GET", f"/api/definitions/{name}"))[1])


def coming(page: Page) -> Any:
    return page.get_by_role("dialog").locator(".coming tbody tr")


async def test_a_definition_is_made_without_cron_and_shows_its_instants_in_both_zones(
    screens: Screens, api: Api
) -> None:
    name = tag()
    async with screens.open("#/definitions", timezone="America/New_York") as page:
        await page.get_by_role("button", name="New definition").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog.get_by_label("Time zone")).to_have_value("America/New_York")
        await expect(coming(page)).to_have_count(10)
        await dialog.get_by_label("Name", exact=True).fill(name)
        await dialog.get_by_label("Job name").fill("ui.echo")
        await dialog.get_by_label("Argument").fill('{"n": 1.0}')
        await dialog.get_by_label("Time zone").fill("Asia/Tokyo")
        await dialog.get_by_label("Time", exact=True).fill("09:15")
        await expect(coming(page).first).to_contain_text("09:15 (+09:00)")
        # New York is 14 hours behind Tokyo in winter, 13 in summer.
        await expect(coming(page).first).to_contain_text(re.compile("(19|20):15"))
        for way, cell in (
            ("hourly", ":00"), ("weekly", "Mon 20"), ("monthly", "-01 09:15"), ("every", ":"), ("daily", "09:15"),
        ):  # fmt: skip
            await dialog.get_by_label("How often").select_option(way)
            await expect(coming(page)).to_have_count(10)
            await expect(coming(page).nth(9)).to_contain_text(cell)
        await accessible(page)
        await dialog.get_by_label("How often").select_option("cron")
        await dialog.get_by_label("Expression").fill("0 0 31 2 *")
        await expect(dialog.locator(".field.invalid")).to_contain_text("Expression")
        await dialog.get_by_label("Expression").fill("@monthly")
        await expect(dialog.locator(".field.invalid")).to_have_count(0)
        await dialog.get_by_label("How often").select_option("monthly")
        await dialog.get_by_label("Day of the month").select_option("L")
        await dialog.get_by_label("If the earlier job has not finished").select_option("queue")
        await dialog.get_by_role("button", name="Create").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text(name)
        await expect(page.locator("main")).to_contain_text("monthly on the last day at 09:15")
    view = await view_of(api, name)
    assert view["schedule"] == {"cron": "15 9 L * *"}
    assert (view["time_zone"], view["overlap"], view["enabled"]) == ("Asia/Tokyo", "queue", True)
    assert view["job"]["argument"] == {"n": 1.0}
    assert isinstance(view["job"]["argument"]["n"], float)
    assert view["job"]["retry"] == (await view_of_default(api))["job"]["retry"]


async def view_of_default(api: Api) -> dict[str, Any]:
    return await made(api, tag())


async def test_it_is_run_paused_with_a_reason_backfilled_and_deleted(screens: Screens, api: Api) -> None:
    name = tag()
    await made(api, name, schedule={"every_minutes": 60})
    async with screens.open(f"#/definitions?q={name}") as page:
        rows = page.locator("tbody tr")
        await expect(rows).to_have_count(1)
        await expect(rows).to_contain_text("every hour")
        await rows.get_by_role("button", name="Run now").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_role("button", name="Run now").click()
        await expect(page.locator(".toast")).to_contain_text(f"Started {name}")
        await expect(rows.get_by_role("img")).to_have_accessible_name("Last 1: 1 Succeeded")
        await rows.get_by_role("link", name=name).click()
        runs = page.get_by_role("table", name="Runs", exact=True).locator("tbody tr")
        await expect(runs).to_have_count(1)
        await expect(runs).to_contain_text("run by hand")
        await page.get_by_role("button", name="Backfill").click()
        # The dialog starts with the last day and shows how many jobs it would start.
        await expect(dialog.get_by_role("status")).to_contain_text("24 of 24 past runs")
        await dialog.get_by_label("Before").fill("2020-01-01T00:00")
        await expect(dialog.locator(".field.invalid")).to_contain_text("Before")
        await dialog.get_by_label("From").fill("2019-12-31T12:00")
        await expect(dialog.get_by_role("status")).to_contain_text("12 of 12 past runs")
        await dialog.get_by_role("button", name="Cancel").click()
        await dialog.get_by_role("button", name="Discard").click()
        await page.get_by_role("button", name="Backfill").click()
        await dialog.get_by_role("button", name="Start 24 jobs").click()
        await expect(page.locator(".toast").last).to_have_text("Started 24 jobs.")
        # Rows do not move under the pointer.
        await page.mouse.move(0, 0)
        await expect(runs).to_have_count(25)
        await page.get_by_label("Outcome").select_option("missed")
        await expect(page.get_by_text("No run was due yet")).to_be_visible()
        await page.get_by_label("Outcome").select_option("")
        await page.get_by_role("button", name="Pause").click()
        await dialog.get_by_label("Reason").fill("the printer is away")
        await dialog.get_by_role("button", name="Pause").click()
        await expect(page.locator("main")).to_contain_text("the printer is away")
        assert (await view_of(api, name))["enabled"] is False
        await page.get_by_role("button", name="Resume").click()
        await expect(page.get_by_role("button", name="Pause")).to_be_visible()
        job = (await view_of(api, name))["last_run"]["job_id"]
        await page.locator(f"a.id[href*='{job}']").click()
        await page.locator(".facts").get_by_role("link", name=name).click()
        await expect(page.get_by_role("heading", level=1)).to_have_text(name)
        await page.get_by_role("button", name="Delete").click()
        await dialog.get_by_role("button", name="Delete").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Definitions")
    assert (await api.call("GET", f"/api/definitions/{name}"))[0] == 404


async def test_a_backfill_tells_of_how_many_instants_nobody_knows_whether_they_ran(
    screens: Screens, api: Api
) -> None:
    name = tag()
    await made(api, name, schedule={"every_minutes": 60})
    assert (await api.call("POST", f"/api/definitions/{name}/run"))[0] == 201
    # Whatever the former definition of this name ran is not known any more.
    assert (await api.call("DELETE", f"/api/definitions/{name}"))[0] == 204
    await made(api, name, schedule={"every_minutes": 60})
    async with screens.open(f"#/definitions?name={name}") as page:
        dialog = page.get_by_role("dialog")
        await page.get_by_role("button", name="Backfill").click()
        await expect(dialog.locator(".warning")).to_contain_text("whether 24 of these runs started a job")
        await accessible(page)
        start = dialog.get_by_role("button", name="Start 24 jobs")
        await start.click()
        await expect(dialog.get_by_role("alert")).to_contain_text("Begin later, or choose")
        await dialog.get_by_label("Start these jobs, too").check()
        await start.click()
        await expect(page.locator(".toast").last).to_have_text("Started 24 jobs.")


async def test_two_people_change_one_definition_and_both_versions_are_shown(
    screens: Screens, api: Api
) -> None:
    name = tag()
    await made(api, name, description="old", time_zone="Asia/Tokyo")
    async with screens.open(f"#/definitions?name={name}") as page:
        await page.get_by_role("button", name="Edit").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Description").fill("mine")
        await made(api, name, description="theirs", time_zone="Asia/Tokyo", schedule={"daily_at": "03:45"})
        # Others' changes do not touch the form's fields.
        await expect(page.locator("main")).to_contain_text("daily at 03:45")
        await expect(dialog.get_by_label("Time", exact=True)).to_have_value("02:30")
        await dialog.get_by_role("button", name="Save").click()
        conflict = dialog.get_by_role("alert")
        await expect(conflict).to_contain_text("Description")
        await expect(conflict).to_contain_text("theirs")
        await accessible(page)
        await dialog.get_by_role("button", name="Save").click()
        await expect(dialog).to_have_count(0)
    view = await view_of(api, name)
    assert (view["description"], view["schedule"]) == ("mine", {"daily_at": "03:45"})
    assert view["job"]["argument"] == JOB["argument"]


@pytest.mark.sized
async def test_pages_of_definitions_are_accessible_fit_a_phone_and_keep_still(
    screens: Screens, api: Api
) -> None:
    name = tag()
    await made(api, name, schedule={"every_minutes": 1}, time_zone="Asia/Tokyo", description="d " * 50)
    await made(
        api, f"{name}-with-a-long-name" + "x" * 60, schedule={"cron": "*/7 1-5 * * MON-FRI"}, enabled=False
    )
    for _ in range(3):
        await api.call("POST", f"/api/definitions/{name}/run")
    for locale in ("en-US", "ja-JP"):
        async with screens.open(locale=locale) as page:
            for address in (
                f"#/definitions?q={name}",
                f"#/definitions?name={name}",
                "#/definitions?q=no-such",
            ):
                await page.goto(f"/{address}")
                await expect(page.get_by_role("heading", level=1)).to_be_visible()
                await expect(page.locator(".loading")).to_have_count(0)
                await accessible_in_each_look(page, address)
    async with screens.open(f"#/definitions?q={name}") as page:
        await expect(page.locator("tbody tr")).to_have_count(2)
        await page.evaluate(SHIFTS)
        for _ in range(5):
            await api.call("POST", f"/api/definitions/{name}/run")
        await expect(page.locator("tbody tr").first.get_by_role("img")).to_have_accessible_name(
            re.compile("Last ([89]|1.):")
        )
        assert await page.evaluate("window.shifted") < 0.1


async def test_the_palette_and_the_keys_lead_to_definitions(screens: Screens, api: Api) -> None:
    name = tag()
    await made(api, name)
    async with screens.open("#/overview") as page:
        await expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
        await page.keyboard.press("g")
        await page.keyboard.press("d")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Definitions")
        await page.keyboard.press("Control+k")
        await page.keyboard.type(name)
        await page.get_by_role("option").filter(has_text=re.compile(f"^Definition.*{name}")).click()
        await expect(page.get_by_role("heading", level=1)).to_have_text(name)


async def test_the_list_shows_what_schedules_start_or_what_events_start(screens: Screens, api: Api) -> None:
    name = tag()
    await made(api, f"{name}-time")
    await made(api, f"{name}-event", kind="event", schedule=None, event_type="order.*")
    async with screens.open(f"#/definitions?q={name}") as page:
        rows = page.locator("tbody tr")
        await expect(rows).to_have_count(2)
        for kind in ("time", "event"):
            await page.get_by_label("Started by").select_option(kind)
            await expect(rows).to_have_count(1)
            await expect(rows).to_contain_text(f"{name}-{kind}")


async def test_a_fixed_argument_of_null_is_refused_where_it_would_mean_the_payload(
    screens: Screens, api: Api
) -> None:
    async with screens.open("#/definitions") as page:
        await page.get_by_role("button", name="New definition").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Name", exact=True).fill(tag())
        await dialog.get_by_label("Started by").select_option("event")
        await dialog.get_by_label("Event type").fill("order.*")
        await dialog.get_by_label("Job name").fill("ui.echo")
        await dialog.get_by_label("Argument comes from").select_option("fixed")
        await dialog.get_by_label("Argument", exact=True).fill("null")
        await dialog.get_by_role("button", name="Create").click()
        await expect(dialog).to_contain_text("A fixed argument cannot be null.")


async def test_the_overview_tells_of_instants_that_were_missed(
    screens: Screens, monkeypatch: pytest.MonkeyPatch
) -> None:
    due_ms = 1_767_225_600_000
    with pretended(monkeypatch) as changes:
        changes["definitions"] = [
            TroubledDefinition("nightly", True, due_ms),
            TroubledDefinition("other", False, due_ms),
        ]
        async with screens.open("#/overview") as page:
            faults = page.locator(".fault")
            await expect(faults.filter(has_text="Definition nightly missed its run")).to_be_visible()
            await expect(faults.filter(has_text="Definition other was due")).to_be_visible()
            changes["definitions"] = []
            await expect(faults.filter(has_text="Definition")).to_have_count(0)


async def test_a_viewer_sees_definitions_and_changes_nothing(screens: Screens, api: Api) -> None:
    name = tag()
    await made(api, name)

    async def is_listed() -> bool:
        return bool((await api.call("GET", f"/api/definitions?q={name}"))[1]["definitions"])

    await wait_until(is_listed, what="the definition is listed")
    async with screens.open("icon.svg") as page:
        viewer = {
            "who": "user:vera",
            "role": "viewer",
            "scopes": ["read"],
            "method": "session",
            "csrf_token": "x",
        }
        session = (await api.call("GET", "/api/session"))[1]
        await page.route("**/api/session", lambda route: route.fulfill(json=session | viewer))
        await page.goto(f"/#/definitions?q={name}")
        await expect(page.locator("tbody tr")).to_have_count(1)
        await expect(page.locator("main button:visible")).to_have_count(0)
        await page.goto(f"/#/definitions?name={name}")
        await expect(page.get_by_role("heading", level=1)).to_have_text(name)
        await expect(page.get_by_role("button", name="Delete")).to_have_count(0)


async def test_jobs_of_a_definition_that_no_worker_takes_are_told_beside_it(
    screens: Screens, api: Api
) -> None:
    name = tag()
    await made(api, name, job={"name": f"report.{name}"})
    assert (await api.call("POST", f"/api/definitions/{name}/run"))[0] == 201
    told = f"1 not finished: no worker takes report.{name}"
    async with screens.open(f"#/definitions?q={name}") as page:
        await expect(page.locator("tbody tr")).to_contain_text(told)
        await page.goto(f"/#/definitions?name={name}")
        await page.get_by_role("link", name=told).click()
        await page.goto(f"/#/names?q=report.{name}")
        await expect(page.locator("tbody tr")).to_contain_text("no worker")
