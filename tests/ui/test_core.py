"""The shell and the job pages as people use them: look, find and act by pointer and keyboard, in both themes and
languages."""

import json
import os
import re
import shlex
import uuid
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, expect

from jqmaster.api.personal_data.handlers import NOT_SEARCHED
from jqmaster.app import running_master
from jqmaster.config import Settings
from tests.support import real_time
from tests.support.long import IS_LONG
from tests.support.master import QUICK, Api, forget, master_on
from tests.support.ports import free_port
from tests.support.server import StoreServer
from tests.support.web_sources import web_sources
from tests.ui.conftest import HOSTILE, Screens

pytestmark = [pytest.mark.req("J15"), pytest.mark.asyncio(loop_scope="session"), real_time.BROWSER]

LATER = {"delay": 3600.0}
# A folder for inspecting page pictures, which CI keeps.
SCREENSHOTS = os.environ.get("JQMASTER_SCREENSHOTS")
PHONE = 360
# An answer without the many rules that the page satisfies. In `make test`, the first rows of a table and the first jobs
# of a flow stand for all: the contrast of each text takes most of the time. Its colours are those of the English page
# in any language.
VIOLATIONS = """(isWhole) => axe.run(
  isWhole ? document : {exclude: [["tbody tr:nth-child(n+6)"], [".flow-node:nth-of-type(n+20)"]]},
  {
    resultTypes: ["violations"],
    rules: {"color-contrast": {enabled: isWhole || document.documentElement.lang === "en"}},
  },
).then((found) => found.violations)"""
LOOKS: list[tuple[int, Literal["light", "dark"]]] = [
    (1280, "dark"), (1280, "light"), (PHONE, "dark"), (PHONE, "light"),
]  # fmt: skip


def tag() -> str:
    """Return a tag that only this test's jobs have."""
    return f"t{uuid.uuid4().hex[:8]}"


async def accessible(page: Page) -> None:
    """Assert that axe has no findings and the page is not wider than the window."""
    if not await page.evaluate("'axe' in globalThis"):
        await page.evaluate(Axe().axe_script)
    # Rows of the former query are dimmed until those of the next arrive.
    await expect(page.locator(".outdated")).to_have_count(0)
    violations = await page.evaluate(VIOLATIONS, IS_LONG)
    assert [(v["id"], [n["html"][:200] for n in v["nodes"]][:3]) for v in violations] == []
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def accessible_in_each_look(page: Page, address: str) -> None:
    """Assert that axe has no findings in either theme, on desktop and phone, and that the page fits a phone. In
    `make test`, each theme and each width is one of two looks of the English page. The Japanese one has the same
    elements, but other texts, for which a phone has the least room: there it only has to fit."""
    number = re.sub(r"\W+", "-", address).strip("-")
    is_english = await page.evaluate("document.documentElement.lang") == "en"
    usual = LOOKS[1:3] if is_english or IS_LONG else LOOKS[2:3]
    for width, theme in LOOKS if is_english and IS_LONG else usual:
        await page.set_viewport_size({"width": width, "height": 900 if width > PHONE else 740})
        await page.emulate_media(color_scheme=theme)
        if is_english or IS_LONG:
            await accessible(page)
        await picture(page, f"{number}-{theme}-{width}")
        assert await page.evaluate("document.documentElement.scrollWidth") <= width, address


async def picture(page: Page, name: str) -> None:
    if SCREENSHOTS:
        await page.screenshot(path=Path(SCREENSHOTS) / f"{name}.png", full_page=True)


@pytest.mark.sized
@pytest.mark.parametrize("locale", ["en-US", "ja-JP"])
async def test_pages_are_accessible_and_fit_a_phone(screens: Screens, api: Api, locale: str) -> None:
    waiting = await api.enqueue("ui.echo", {"deep": [{"n": 1}]}, tags=["short"], **LATER)
    failed = await api.enqueue("ui.fail", "broken", max_retry=0)
    await api.until_state(failed, "failed")
    addresses = {
        "#/overview": "Overview",
        "#/jobs": "Jobs",
        "#/jobs?state=failed&text=nothing-has-this": "Jobs",
        f"#/job?id={waiting}": "ui.echo",
        f"#/job?id={failed}": "ui.fail",
        "#/enqueue?name=ui.echo": "Enqueue",
        "#/login": "Log in",
        "#/names": "Names",
        "#/names?name=ui.fail": "ui.fail",
        "#/failures": "Failures",
        "#/constraints": "Constraints",
    }
    async with screens.open(locale=locale) as page:
        for address, heading in addresses.items():
            await page.goto(f"/{address}")
            if locale == "en-US":
                await expect(page.get_by_role("heading", level=1)).to_have_text(heading)
            else:
                await expect(page.get_by_role("heading", level=1)).to_be_visible()
            await expect(page.locator(".loading")).to_have_count(0)
            await accessible_in_each_look(page, address)


@pytest.mark.rule("E4.1")
async def test_text_from_outside_stays_text(screens: Screens, api: Api) -> None:
    """Rows 113 and 114: test job content and every part of every address."""
    content = {HOSTILE: [HOSTILE, {"$bin": HOSTILE}, {"$ext": [1, HOSTILE]}], "b": b"<script>"}
    waiting = await api.enqueue("ui.echo", content, tags=["<b>x</b>"], headers={"k": HOSTILE}, **LATER)
    failed = await api.enqueue("ui.fail", HOSTILE + "x" * 200_000, max_retry=0)
    await api.until_state(failed, "failed")
    async with screens.open("#/jobs") as page:
        before = await page.evaluate("document.scripts.length")
        await page.goto(f"/#/job?id={waiting}")
        await expect(page.get_by_text("<script>alert(2)").first).to_be_visible()
        await expect(page.locator(".escape").get_by_text("\\u202e", exact=True).first).to_be_visible()
        await page.get_by_role("button", name="JSON", exact=True).click()
        await expect(page.locator(".value-body pre")).to_contain_text("onerror=alert(1)")
        await page.goto(f"/#/job?id={failed}")
        await expect(page.locator(".last-word")).to_contain_text("<img src=x onerror=alert(1)>")
        await page.goto(f"/#/enqueue?from={waiting}")
        await expect(page.get_by_label("Argument")).to_have_value(re.compile("onerror"))
        evil = quote(HOSTILE)
        for address in (
            "#/" + evil,
            *(
                f"#/{name}?{part}={evil}"
                for name in ("jobs", "job", "enqueue", "overview", "names", "failures", "constraints")
                for part in ("q", "id", "name", "state", "cursor", "span", "from", "order", "failure_group")
            ),
            f"#/jobs?created_after={evil}&text={evil}&tag={evil}&worker={evil}",
        ):
            await page.goto(f"/{address}")
            await expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert await page.locator("#app img, #app script, #app [onerror]").count() == 0
        assert await page.evaluate("document.scripts.length") == before


async def test_many_jobs_are_found_counted_and_canceled_by_keyboard(screens: Screens, api: Api) -> None:
    mark = tag()
    ids = [await api.enqueue("ui.echo", n, tags=[mark], **LATER) for n in range(5)]
    async with screens.open() as page:
        await expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
        await page.keyboard.press("g")
        await page.keyboard.press("j")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
        await page.get_by_label("Tag", exact=True).fill(mark)
        await expect(page).to_have_url(re.compile(f"tag={mark}"))
        rows = page.locator("tbody tr")
        await expect(rows).to_have_count(5)
        # The address alone shows the same list.
        await page.reload()
        await expect(rows).to_have_count(5)
        await page.keyboard.press("j")
        await page.keyboard.press("x")
        await page.keyboard.press("j")
        await page.keyboard.press("x")
        await expect(page.get_by_text("2 selected")).to_be_visible()
        await page.get_by_role("button", name="Cancel…").click()
        dialog = page.get_by_role("dialog")
        # An extra Enter has no effect.
        await expect(dialog.get_by_role("button", name="Go back")).to_be_focused()
        await accessible(page)
        await page.keyboard.press("Tab")
        await expect(dialog.get_by_role("button", name="Cancel (2)")).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("2 done / 2")).to_be_visible()
        assert [await api.state(one) for one in ids].count("canceled") == 2
        # All that match the filter: counted first, with the filter shown.
        await page.get_by_role("button", name="select all that match").click()
        await page.get_by_role("button", name="Delete…").click()
        await expect(dialog.get_by_text(mark)).to_be_visible()
        await dialog.get_by_role("button", name="Delete (5)").click()
        await expect(page.get_by_text("No jobs match these filters.")).to_be_visible()
    assert (await api.call("GET", f"/api/jobs?tag={mark}"))[1]["jobs"] == []


@pytest.mark.parametrize(
    "fields",
    [
        {"unique": {"scope": "until_start", "on_conflict": "existing"}},
        {"unique": {"key": "user:42", "scope": "window", "on_conflict": "replace", "ttl_s": 900}},
        {"debounce": {"key": "post:1", "wait_s": 600, "max_s": 3600}},
        {},
    ],
)
async def test_a_job_copied_as_curl_is_as_unique_as_it_was(
    screens: Screens, api: Api, fields: dict[str, Any]
) -> None:
    job_id = await api.enqueue("ui.echo", tag(), **({} if "debounce" in fields else LATER), **fields)
    async with screens.open(f"#/job?id={job_id}") as page:
        await page.locator("summary", has_text="Copy").click()
        await page.get_by_role("button", name="Copy as curl").click()
        words = shlex.split(await page.evaluate("navigator.clipboard.readText()"))
    body = json.loads(words[words.index("-d") + 1])
    assert {field: value for field, value in body.items() if field in ("unique", "debounce")} == fields


async def test_a_job_is_read_changed_run_and_enqueued_again(screens: Screens, api: Api) -> None:
    big = 9007199254740993123
    carried = {"n": big, "b": b"\x00\x01binary", "text": "日本"}
    one = await api.enqueue("ui.echo", carried, keep_result=True, headers={"trace": "1"}, **LATER)
    async with screens.open(f"#/job?id={one}") as page:
        await expect(page.locator(".verdicts .first")).to_contain_text("Scheduled")
        await expect(page.locator(".v-num").get_by_text(str(big))).to_be_visible()
        await expect(page.locator(".hex")).to_contain_text("00 01 62 69 6e 61 72 79")
        await page.get_by_role("button", name="Change…").click()
        await page.get_by_label("Priority").fill("-7")
        await page.get_by_role("dialog").get_by_role("button", name="Save").click()
        await expect(page.get_by_role("dialog")).to_have_count(0)
        assert (await api.job(one))["priority"] == -7
        await page.get_by_role("button", name="Run now").click()
        await expect(page.locator(".big-state")).to_have_text("Succeeded")
        await expect(page.get_by_role("heading", name="Result")).to_be_visible()
        await page.get_by_role("button", name="Copy as JSON").first.click()
        assert str(big) in await page.evaluate("navigator.clipboard.readText()")
        await page.get_by_role("link", name="Edit and enqueue again").click()
        argument = page.get_by_role("textbox", name="Argument")
        await expect(argument).to_have_value(re.compile(str(big)))
        await argument.fill("{broken")
        await page.get_by_role("button", name="Enqueue", exact=True).click()
        await expect(page.locator(".field-error")).to_contain_text("not JSON")
        await argument.fill(json.dumps({"n": big + 2}))
        await page.get_by_role("button", name="Enqueue", exact=True).click()
        await page.get_by_role("button", name="Show the job").click()
        await expect(page.locator(".v-num").get_by_text(str(big + 2)).first).to_be_visible()
        await page.get_by_role("button", name="Delete").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")


async def test_a_problem_names_the_field_and_the_constraints_are_told_before(
    screens: Screens, api: Api
) -> None:
    name = tag()
    await api.call(
        "PUT",
        f"/api/constraints/{name}",
        {"matcher": {"field": "name", "op": "eq", "value": name}, "key": "argument.host", "concurrency": 2},
    )
    async with screens.open("#/enqueue") as page:
        await page.get_by_label("Name").fill(name)
        await page.get_by_label("Argument").fill('{"host": "a.example"}')
        preview = page.locator(".preview")
        await expect(preview).to_contain_text("2 running at once")
        await expect(preview).to_contain_text("argument.host = a.example")
        await page.get_by_label("Priority").fill("1.5")
        await expect(page.locator(".field.invalid")).to_contain_text("Priority")
        await page.get_by_role("button", name="Enqueue", exact=True).click()
        await expect(page.locator("form .error-box")).to_contain_text("Not valid")
    assert (await api.call("DELETE", f"/api/constraints/{name}"))[0] == 204


async def test_a_constraint_is_made_tried_paused_and_deleted(screens: Screens, api: Api) -> None:
    name = tag()
    await api.enqueue(name, {"host": "a"}, **LATER)
    async with screens.open("#/constraints") as page:
        await page.get_by_role("button", name="New constraint").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Name").fill(name)
        await dialog.get_by_role("button", name="JSON").click()
        await dialog.get_by_label("Matcher").fill(json.dumps({"field": "name", "op": "eq", "value": name}))
        await dialog.get_by_label("Key", exact=True).fill("argument.host")
        await expect(dialog.locator(".preview")).to_contain_text("1 job")
        await dialog.get_by_label("Running at once").fill("0")
        await dialog.get_by_role("button", name="Create").click()
        await expect(dialog.locator(".field.invalid")).to_contain_text("Running at once")
        await dialog.get_by_label("Running at once").fill("2")
        await dialog.get_by_label("Ends").fill("2099-12-30T12:00:00")
        await accessible(page)
        await dialog.get_by_role("button", name="Create").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text(name)
        await expect(page.locator(".keys-list")).to_contain_text("1 waiting, 0 running")
        assert (await api.call("GET", f"/api/constraints/{name}"))[1]["expires_at"].startswith("2099-12-30")
        await page.get_by_role("button", name="Pause").first.click()
        await dialog.get_by_role("button", name="Pause").click()
        await expect(page.locator(".paused-now")).to_contain_text("1 job waits")
        await page.locator(".paused-now").get_by_role("button", name="Resume").click()
        await expect(page.locator(".paused-now")).to_have_count(0)
        await page.get_by_role("button", name="Delete").click()
        await dialog.get_by_role("button", name="Delete").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Constraints")
    assert (await api.call("GET", f"/api/constraints/{name}"))[0] == 404


@pytest.mark.req("D30")
async def test_turns_by_weight_reserved_slots_and_limits_by_condition_need_no_json(
    screens: Screens, api: Api
) -> None:
    name = tag()
    for tenant in ("acme", "acme", "umbrella"):
        await api.enqueue(name, {"tenant": tenant, "plan": "pro"}, **LATER)
    document = {
        "matcher": {"field": "name", "op": "eq", "value": name},
        "key": "argument.tenant",
        "concurrency": 5,
        "overrides": [{"value": "acme", "concurrency": 7}],
    }
    await api.call("PUT", f"/api/constraints/{name}", document)
    async with screens.open(f"#/constraints?name={name}") as page:
        await page.get_by_role("button", name="Edit").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Fair between values").check()
        weights, reserve, conditions = (
            dialog.get_by_role("group", name=title, exact=True)
            for title in ("Shares of turns", "Reserved slots", "Limits by condition")
        )
        await weights.get_by_role("button", name="Add").click()
        await weights.get_by_label("Value 1").fill("acme")
        await weights.get_by_label("Share 1").fill("10")
        await reserve.get_by_role("button", name="Add").click()
        await reserve.get_by_label("Value 1").fill("pro")
        await reserve.get_by_label("Slots 1").fill("2")
        await conditions.get_by_role("button", name="Add").click()
        await conditions.get_by_label("Value 1").fill("pro")
        await conditions.get_by_label("Running at once 1").fill("50")
        await expect(dialog.locator(".preview")).to_contain_text("3 waiting jobs, 2 values")
        await dialog.get_by_role("button", name="Save").click()
        await expect(dialog).to_have_count(0)
        await expect(page.get_by_role("main")).to_contain_text("Limits by condition")
    changed = (await api.call("GET", f"/api/constraints/{name}"))[1]
    plan = {"field": "argument.plan", "op": "eq", "value": "pro"}
    assert changed["fair"] == {"weights": [{"value": "acme", "weight": 10}], "default": 1}
    assert changed["reserve"] == [{"matcher": plan, "concurrency": 2}]
    assert [(one["value"], one.get("match"), one["concurrency"]) for one in changed["overrides"]] == [
        ("acme", None, 7),
        (None, plan, 50),
    ]


@pytest.mark.req("D30")
async def test_the_weight_of_waiting_jobs_is_shown_before_a_constraint_counts_it(
    screens: Screens, api: Api
) -> None:
    name = tag()
    for argument in ({"tokens": 3_000}, {"tokens": 41_200}, {}):
        await api.enqueue(name, argument, **LATER)
    async with screens.open("#/constraints") as page:
        await page.get_by_role("button", name="New constraint").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_role("button", name="JSON").click()
        await dialog.get_by_label("Matcher").fill(json.dumps({"field": "name", "op": "eq", "value": name}))
        preview = dialog.locator(".preview")
        await expect(preview).to_contain_text("3 jobs")
        await dialog.get_by_label("Count units: path of the number").fill("argument.tokens")
        await dialog.get_by_label("Weight without a number").fill("500")
        await dialog.get_by_label("Unit, such as tokens").fill("tokens")
        await expect(preview).to_contain_text("44,700 tokens in all; the heaviest job: 41,200")
        await expect(preview).to_contain_text("1 job has no number at argument.tokens and weighs 500")
        await expect(preview.locator(".field-error")).to_have_count(0)
        await dialog.get_by_label("Rate limit: starts").fill("40000")
        await dialog.get_by_label("per (seconds)").fill("60")
        await expect(preview).to_contain_text(
            "1 job is heavier than a limit: it starts when nothing else is counted."
        )
        await expect(preview.locator(".field-error a")).to_have_count(1)
        await accessible(page)


async def test_a_form_changes_no_instant_that_nobody_touched(screens: Screens, api: Api) -> None:
    name, ends_at = tag(), "2099-12-30T12:00:00.250Z"
    document = {"matcher": {"field": "name", "op": "eq", "value": name}, "concurrency": 1}
    await api.call("PUT", f"/api/constraints/{name}", document | {"expires_at": ends_at})
    async with screens.open(f"#/constraints?name={name}") as page:
        await page.get_by_role("button", name="Edit").click()
        dialog = page.get_by_role("dialog")
        # The master refuses an invalid time and names the field. It must not become "no end".
        await dialog.get_by_label("Ends").fill("12026-01-01T00:00:00")
        await dialog.get_by_role("button", name="Save").click()
        await expect(dialog.locator(".field.invalid")).to_contain_text("Ends")
        await dialog.get_by_role("button", name="Cancel").click()
        await dialog.get_by_role("button", name="Discard").click()
        await page.get_by_role("button", name="Edit").click()
        await dialog.get_by_label("Running at once").fill("2")
        await dialog.get_by_role("button", name="Save").click()
        await expect(dialog).to_have_count(0)
    changed = (await api.call("GET", f"/api/constraints/{name}"))[1]
    assert (changed["concurrency"], changed["expires_at"]) == (2, ends_at)


async def test_options_of_a_job_that_are_seldom_used_are_folded_while_they_are_empty(
    screens: Screens, api: Api
) -> None:
    async with screens.open("#/enqueue") as page:
        key = page.get_by_label("Idempotency key")
        await expect(key).to_be_hidden()
        await page.get_by_text("More options").click()
        await key.fill("k")
        await expect(key).to_be_visible()
        # A collapsed field with a problem opens.
        await page.get_by_label("Headers").fill("no colon")
        await page.get_by_text("More options").click()
        await page.get_by_role("button", name="Enqueue", exact=True).click()
        await expect(page.locator(".field.invalid", has_text="Headers")).to_be_visible()
    copied = await api.enqueue(tag(), None, headers={"trace": "1"}, **LATER)
    async with screens.open(f"#/enqueue?from={copied}") as page:
        await expect(page.get_by_label("Headers")).to_have_value("trace: 1")
        await expect(page.get_by_label("Headers")).to_be_visible()


async def test_the_editor_replays_the_last_hour_under_a_constraint(screens: Screens, api: Api) -> None:
    name = tag()
    # Enqueue them one by one, so that a concurrency limit of one does not hold any of them.
    for _ in range(2):
        await api.until_state(await api.enqueue("ui.echo", tags=[name]), "succeeded")
    async with screens.open("#/constraints") as page:
        await page.get_by_role("button", name="New constraint").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_role("button", name="JSON").click()
        await dialog.get_by_label("Matcher").fill(json.dumps({"field": "tags", "op": "eq", "value": name}))
        replay = dialog.locator(".replay")
        await dialog.get_by_label("Running at once").fill("1")
        await replay.get_by_role("button", name="Replay the last hour").click()
        await expect(replay).to_contain_text("None of the 2 jobs that started would have been held.")
        await expect(replay).to_contain_text("stored job")
        await dialog.get_by_label("Paused").check()
        await expect(replay).to_contain_text("The form has changed since.")
        await replay.get_by_role("button", name="Replay the last hour").click()
        await expect(replay).to_contain_text("2 of 2 jobs would have been held.")
        await expect(replay).to_contain_text("2 of them would still wait.")
        await accessible(page)
        await picture(page, "replay")
    constraints = (await api.call("GET", "/api/constraints"))[1]["constraints"]
    assert name not in json.dumps(constraints)


async def test_rows_keep_still_under_the_pointer(screens: Screens, api: Api) -> None:
    mark = tag()
    first = await api.enqueue("ui.echo", tags=[mark], **LATER)
    async with screens.open(f"#/jobs?tag={mark}&order=newest") as page:
        rows = page.locator("tbody tr")
        await expect(rows).to_have_count(1)
        await rows.first.hover()
        for _ in range(2):
            await api.enqueue("ui.echo", tags=[mark], **LATER)
        button = page.get_by_role("button", name="2 new")
        await expect(button).to_be_visible()
        await expect(rows).to_have_count(1)
        # Rows are updated in place.
        await api.call("POST", f"/api/jobs/{first}/cancel")
        await expect(rows.first).to_contain_text("Canceled")
        await button.click()
        await expect(rows).to_have_count(3)


async def test_the_page_goes_on_after_its_master_died(browser: Browser, store_server: StoreServer) -> None:
    port, shard = free_port(), f"m{uuid.uuid4().hex[:10]}"
    settings = Settings(**{**QUICK, "redis_url": store_server.url, "shard": shard, "port": port})
    screens = Screens(browser, f"http://127.0.0.1:{port}")
    first = running_master(settings)
    await first.__aenter__()
    async with screens.open("#/jobs") as page:
        try:
            await expect(page.locator(".connection")).to_have_text("Live")
        finally:
            await first.__aexit__(None, None, None)
        await expect(page.locator(".banner")).to_be_visible()
        async with running_master(settings) as again:
            api = Api(again.server.url)
            await api.enqueue("ui.echo", **LATER)
            await expect(page.locator(".banner")).to_have_count(0)
            await expect(page.locator("tbody tr")).to_have_count(1)
            await api.http.aclose()
    await forget(store_server.url, shard)


async def test_a_role_that_may_only_look_logs_in_where_it_wanted_to_go_and_finds_no_actions(
    browser: Browser, store_server: StoreServer
) -> None:
    async with master_on(store_server.url, tokens=["admin:the-admins-token-0123456789"]) as (master, _):
        api = Api(master.server.url, "the-admins-token-0123456789")
        status, viewer = await api.call("POST", "/api/tokens", {"label": "eyes", "scopes": ["read"]})
        assert status == 201, viewer
        one = await api.enqueue("ui.echo", {"secret": 1}, **LATER)
        screens = Screens(browser, master.server.url)
        async with screens.open(f"#/job?id={one}") as page:
            await expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
            await page.get_by_label("Token", exact=True).fill("wrong")
            await page.keyboard.press("Enter")
            await expect(page.locator(".error-box")).to_be_visible()
            await page.get_by_label("Token", exact=True).fill(viewer["token"])
            await page.keyboard.press("Enter")
            await expect(page.get_by_role("heading", level=1)).to_have_text("ui.echo")
            await expect(page.get_by_text("You may not see this.")).to_be_visible()
            await expect(page.get_by_role("button", name="Run now")).to_have_count(0)
            await expect(page.get_by_role("button", name="Delete")).to_have_count(0)
            await expect(page.get_by_role("link", name="Enqueue")).to_have_count(0)
            await page.goto("/#/jobs")
            await expect(page.locator("tbody tr")).to_have_count(1)
            await expect(page.locator("input[type=checkbox]")).to_have_count(0)
            await page.get_by_role("button", name="Log out").click()
            await expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
            # Operators act with the cookie and its CSRF token.
            await page.goto(f"/#/job?id={one}")
            await page.get_by_label("Token", exact=True).fill("the-admins-token-0123456789")
            await page.keyboard.press("Enter")
            await page.get_by_role("button", name="Cancel the job").click()
            await page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
            await expect(page.locator(".big-state")).to_have_text("Canceled")
        await api.http.aclose()


async def test_every_text_is_there_in_both_languages(screens: Screens) -> None:
    async with screens.open("#/jobs", locale="ja-JP") as page:
        await expect(page.get_by_role("heading", level=1)).to_have_text("ジョブ")
        texts: dict[str, dict[str, str]] = await page.evaluate(
            """Promise.all(["english", "japanese"].map((name) =>
              import(new URL(`lang/${name}.js`, document.baseURI).href).then((m) => m.default)))
              .then(([en, ja]) => ({ en, ja }))"""
        )
        await page.get_by_role("combobox", name="言語").select_option("en")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
    english, japanese = texts["en"], texts["ja"]
    # Masters return English texts for settings (tests/contract/test_plain_words.py checks that the Japanese ones
    # match).
    of_settings = {key for key in japanese if re.match(r"settings\.(label|effect|group)\.", key)}
    # The same holds for what a search for personal data leaves out.
    left_out = {key for key in japanese if key.startswith("personal.not.")}
    assert {key.removeprefix("personal.not.") for key in left_out} == set(NOT_SEARCHED)
    assert english.keys() == japanese.keys() - of_settings - left_out
    for key, text in english.items():
        places = set(re.findall(r"{\w+}", text))
        assert places == set(re.findall(r"{\w+}", japanese[key])), key
    used = {
        key for path in web_sources() for key in re.findall(r'\bt(?:Or)?\(\s*"([^"]+)"', path.read_text())
    }
    assert used - english.keys() == set()


async def test_the_command_palette_finds_pages_names_and_jobs_and_runs_actions(
    screens: Screens, api: Api
) -> None:
    name = tag()
    job = await api.enqueue(name, **LATER)
    async with screens.open("#/overview") as page:
        await expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
        await page.keyboard.press("Control+k")
        palette = page.get_by_role("combobox", name="Search pages")
        await expect(palette).to_be_focused()
        await page.keyboard.type("settings")
        await expect(page.locator(".palette [aria-selected=true]")).to_contain_text("Settings")
        await accessible(page)
        await picture(page, "palette")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Settings")
        await page.keyboard.press("Control+k")
        await page.keyboard.type(name)
        await page.get_by_role("option").filter(has_text=job[-10:]).click()
        await expect(page).to_have_url(re.compile(job))
        # An action asks for confirmation, as everywhere.
        await page.keyboard.press("Control+k")
        await page.keyboard.type(name)
        await page.get_by_role("option", name=f"Pause {name}").click()
        await expect(page.get_by_role("dialog")).to_contain_text(f"jobs named {name}")
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("dialog")).to_have_count(0)


async def test_the_progress_of_an_action_stays_when_one_leaves_the_page(screens: Screens, api: Api) -> None:
    mark = tag()
    for _ in range(7):  # No other action in these tests covers as many.
        await api.enqueue("ui.echo", tags=[mark], **LATER)
    async with screens.open(f"#/jobs?tag={mark}&state=scheduled") as page:
        await page.get_by_role("button", name="select all that match").click()
        await page.get_by_role("button", name="Set priority…").click()
        dialog = page.get_by_role("dialog")
        # The count depends on the typed priority: all of them have 0.
        await expect(dialog.locator(".confirm-count")).to_contain_text("0")
        await dialog.get_by_label("Priority").fill("-5")
        await dialog.get_by_role("button", name="Set priority (7)").click()
        await page.get_by_role("link", name="Settings").click()
        await expect(page.get_by_text("7 done / 7")).to_be_visible()
    jobs = (await api.call("GET", f"/api/jobs?tag={mark}"))[1]["jobs"]
    assert [job["priority"] for job in jobs] == [-5] * 7


async def test_a_matcher_is_built_of_rows_and_keeps_the_types_of_values(screens: Screens, api: Api) -> None:
    name = tag()
    await api.enqueue(name, {"tenant": "42", "size": 7}, **LATER)
    await api.enqueue(name, {"tenant": 42, "size": 7}, **LATER)
    async with screens.open("#/constraints") as page:
        await page.get_by_role("button", name="New constraint").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Name").fill(name)
        await dialog.get_by_label("Value 1").fill(name)
        await expect(dialog.locator(".preview")).to_contain_text("2 jobs")
        await dialog.get_by_role("button", name="Add a condition").click()
        await dialog.get_by_label("Field 2").fill("argument.tenant")
        # A number stays a number; in quotes, it is text.
        await dialog.get_by_label("Value 2").fill('"42"')
        await expect(dialog.locator(".preview")).to_contain_text("1 job")
        await accessible(page)
        await picture(page, "rule-builder")
        await dialog.get_by_role("button", name="JSON").click()
        written = json.loads(await dialog.get_by_label("Matcher").input_value())
        assert written["all"][1] == {"field": "argument.tenant", "op": "eq", "value": "42"}
        await dialog.get_by_role("button", name="Builder").click()
        await expect(dialog.get_by_label("Value 2")).to_have_value('"42"')
        await dialog.get_by_label("Running at once").fill("1")
        await dialog.get_by_role("button", name="Create").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text(name)
    stored = (await api.call("GET", f"/api/constraints/{name}"))[1]
    assert stored["matcher"] == written
    assert (await api.call("DELETE", f"/api/constraints/{name}"))[0] == 204
