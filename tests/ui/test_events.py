"""Event pages: received events, what they started, and definitions for events, made without JSON."""

import re
from typing import Any

import pytest
from playwright.async_api import expect

from tests.support import real_time
from tests.support.master import Api
from tests.ui.conftest import HOSTILE, Screens
from tests.ui.test_core import accessible, accessible_in_each_look, tag
from tests.ui.test_lists import SHIFTS

pytestmark = [
    pytest.mark.req("D21"),
    pytest.mark.req("D6"),
    pytest.mark.asyncio(loop_scope="session"),
    real_time.BROWSER,
]


async def made(api: Api, name: str, event_type: str, **fields: Any) -> None:
    body = {"kind": "event", "event_type": event_type, "job": {"name": "ui.echo"}, **fields}
    status, view = await api.call("PUT", f"/api/definitions/{name}", body)
    assert status in (200, 201), view


async def sent(api: Api, event_type: str, payload: Any = None, **fields: Any) -> dict[str, Any]:
    status, answer = await api.call(
        "POST", "/api/events", {"event_type": event_type, "payload": payload, **fields}
    )
    assert status == 202, answer
    return dict(answer)


async def test_a_definition_of_events_is_made_without_json_and_shows_what_it_would_make(
    screens: Screens, api: Api
) -> None:
    name, kind = tag(), tag()
    for total in (5, 50):
        await sent(api, f"{kind}.paid", {"order": total * 10, "total": total})
    async with screens.open("#/definitions") as page:
        await page.get_by_role("button", name="New definition").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Name", exact=True).fill(name)
        await dialog.get_by_label("Started by").select_option("event")
        await expect(dialog.locator(".preview")).to_contain_text("Enter an event type")
        await dialog.get_by_label("Event type").fill(f"{kind}.*")
        preview = dialog.locator(".preview tbody tr")
        await expect(preview).to_have_count(2)
        await expect(preview.nth(1)).to_contain_text('{"order":50,"total":5}')
        await dialog.get_by_label("Events of this type", exact=True).select_option("some")
        await dialog.get_by_label("Field 1", exact=True).fill("payload.total")
        await dialog.get_by_label("Operator 1").select_option("ge")
        await dialog.locator(".rule").first.get_by_label("Value 1").fill("10")
        await expect(preview.nth(0)).to_contain_text("yes")
        await expect(preview.nth(1)).to_contain_text("no")
        # Paths come from events of this type.
        paths = await dialog.locator("datalist[id$=fields] option").evaluate_all(
            "all => all.map((o) => o.value)"
        )
        assert {"payload.order", "payload.total"} <= set(paths)
        await dialog.get_by_label("Job name").fill("ui.echo")
        await dialog.get_by_label("Argument comes from").select_option("parts")
        await dialog.get_by_label("Source 1").wait_for()
        await dialog.get_by_label("Argument field 1").fill("number")
        await dialog.locator(".rule").nth(1).get_by_label("Value 1").fill("payload.nothing.")
        await expect(dialog.locator(".field-error").first).to_be_visible()
        await dialog.locator(".rule").nth(1).get_by_label("Value 1").fill("payload.order")
        await dialog.get_by_role("button", name="Add a field").click()
        await dialog.get_by_label("Argument field 2").fill("via")
        await dialog.get_by_label("Source 2").select_option("value")
        await dialog.locator(".rule").nth(1).get_by_label("Value 2").fill("post")
        await expect(preview.nth(0)).to_contain_text('{"number":500,"via":"post"}')
        await dialog.get_by_label("Several events").select_option("collect")
        await dialog.get_by_label("Maximum number of events").fill("3")
        await dialog.get_by_label("Within (s)").fill("2.5")
        await dialog.get_by_label("Separately for each").fill("payload.user")
        await accessible(page)
        await dialog.get_by_role("button", name="Create definition").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text(name)
        await expect(page.locator("main")).to_contain_text("One job for up to 3 events")
        await expect(page.get_by_role("button", name="Run now")).to_have_count(0)
        view = (await api.call("GET", f"/api/definitions/{name}"))[1]
        assert view["matcher"] == {"field": "payload.total", "op": "ge", "value": 10}
        assert view["argument"] == {"number": {"from": "payload.order"}, "via": "post"}
        assert view["collect"] == {"max": 3, "within_s": 2.5, "key": "payload.user"}
        await page.get_by_role("button", name="Edit").click()
        await expect(dialog.get_by_label("Argument field 2")).to_have_value("via")
        await dialog.get_by_label("Several events").select_option("debounce")
        await dialog.get_by_label("Quiet time (s)").fill("1.5")
        await dialog.get_by_label("Argument comes from").select_option("payload")
        await dialog.get_by_label("Events of this type", exact=True).select_option("all")
        await dialog.get_by_role("button", name="Save").click()
        await expect(dialog).to_have_count(0)
        await expect(page.locator("main")).to_contain_text("once no other has come for 1.5 s")
    view = (await api.call("GET", f"/api/definitions/{name}"))[1]
    assert (view["matcher"], view["argument"], view["collect"]) == (None, {"from": "payload"}, None)
    assert view["debounce"] == {"wait_s": 1.5, "max_s": None, "key": "payload.user"}


async def test_an_event_is_sent_shows_what_it_started_and_is_replayed(screens: Screens, api: Api) -> None:
    name, kind = tag(), tag()
    await made(api, name, kind, argument={"order": {"from": "payload.order"}})
    async with screens.open(f"#/definitions?name={name}") as page:
        await page.get_by_role("button", name="Send a test event").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog.get_by_label("Type")).to_have_value(kind)
        await dialog.get_by_label("Payload").fill("{")
        await dialog.get_by_role("button", name="Send an event").click()
        await expect(dialog.locator(".field-error")).to_contain_text("not JSON")
        await dialog.get_by_label("Payload").fill('{"order": 9007199254740993}')
        await dialog.get_by_label("Dedupe key").fill("k1")
        await dialog.get_by_role("button", name="Send an event").click()
        await expect(page.locator(".toast")).to_contain_text("it started 1 job.")
        await expect(page.get_by_role("heading", level=1)).to_have_text(kind)
        effects = page.locator(".effects li")
        await expect(effects).to_contain_text("Succeeded")
        await expect(page.locator("main")).to_contain_text("9007199254740993")
        first = page.url
        await page.get_by_role("button", name="Send one like it").click()
        await dialog.get_by_label("Dedupe key").fill("k1")
        await dialog.get_by_role("button", name="Send an event").click()
        await expect(page.locator(".toast").last).to_contain_text("started nothing new")
        assert page.url == first
        await page.get_by_role("button", name="Replay").click()
        await dialog.get_by_role("button", name="Replay").click()
        await expect(page.get_by_text("Replay of")).to_be_visible()
        assert page.url != first
        await effects.get_by_role("link", name=name).click()
        runs = page.get_by_role("table", name="Runs").locator("tbody tr")
        await expect(runs).to_have_count(2)
        await runs.first.locator("td.col-event a").click()
        await expect(page.get_by_text("Replay of")).to_be_visible()
        await page.goto("/#/events?id=no-such-event")
        await expect(page.locator("main")).to_contain_text("Only the newest events are kept.")


async def test_the_list_is_live_filters_and_tells_what_each_event_started(screens: Screens, api: Api) -> None:
    name, kind = tag(), tag()
    await made(api, name, f"{kind}.paid")
    await sent(api, f"{kind}.made", {"n": 1}, source="/shop", subject="order 1")
    async with screens.open(f"#/events?type={kind}.*") as page:
        rows = page.locator("tbody tr")
        await expect(rows).to_have_count(1)
        await expect(rows).to_contain_text("nothing")
        await sent(api, f"{kind}.paid", {"n": 2})
        await expect(rows).to_have_count(2)
        await expect(rows.first).to_contain_text("started")
        await expect(rows.first).to_contain_text(name)
        # Rows do not move under the pointer.
        await rows.first.hover()
        await sent(api, f"{kind}.paid", {"n": 3})
        await page.get_by_role("button", name="1 new").click()
        await expect(rows).to_have_count(3)
        await page.mouse.move(0, 0)
        await page.get_by_label("Source").fill("/shop")
        await expect(rows).to_have_count(1)
        await expect(rows).to_contain_text("/shop · order 1")
        await page.get_by_label("Source").fill("")
        await page.get_by_label("Definition").fill(name)
        await expect(rows).to_have_count(2)
        await rows.first.get_by_role("link", name=f"{kind}.paid").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text(f"{kind}.paid")
        await page.go_back()
        await expect(rows).to_have_count(2)
        await page.get_by_label("Definition").fill("no-such")
        await expect(page.locator("main")).to_contain_text("No event matches these filters.")


async def test_a_rare_event_is_found_behind_many_others(screens: Screens, api: Api) -> None:
    kind = tag()
    await sent(api, kind, "rare")
    for _ in range(3):
        many = [{"event_type": "ui.noise"}] * 1000
        assert (await api.call("POST", "/api/events", {"events": many}))[0] == 202
    async with screens.open(f"#/events?type={kind}") as page:
        await expect(page.locator("tbody tr")).to_have_count(1)


@pytest.mark.sized
async def test_pages_of_events_are_accessible_fit_a_phone_and_keep_still(screens: Screens, api: Api) -> None:
    name, kind = tag(), tag()
    await made(api, name, f"{kind}*", matcher={"field": "payload.n", "op": "ge", "value": 1})
    await made(api, f"{name}-2", kind, collect={"max": 50, "within_s": 3600})
    long = "x" * 190
    last = await sent(api, kind, {"n": 1, "text": HOSTILE, long: long}, subject=long, source=HOSTILE)
    await sent(api, kind + long[:150], {"n": 0})
    addresses = (f"#/events?type={kind}*", f"#/events?id={last['event_id']}", f"#/definitions?name={name}")
    for locale in ("en-US", "ja-JP"):
        async with screens.open(locale=locale) as page:
            for address in (*addresses, "#/events?type=no-such", "#/events?id=no-such"):
                await page.goto(f"/{address}")
                await expect(page.get_by_role("heading", level=1)).to_be_visible()
                await expect(page.locator(".loading")).to_have_count(0)
                await accessible_in_each_look(page, address)
    async with screens.open(f"#/events?type={kind}*") as page:
        await expect(page.locator("tbody tr")).to_have_count(2)
        await page.evaluate(SHIFTS)
        for n in range(10):
            await sent(api, kind, {"n": n})
        await expect(page.locator("tbody tr")).to_have_count(12)
        assert await page.evaluate("window.shifted") < 0.1


async def test_the_palette_and_the_keys_lead_to_events(screens: Screens, api: Api) -> None:
    kind = tag()
    await sent(api, kind)
    async with screens.open("#/overview") as page:
        await expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
        await page.keyboard.press("g")
        await page.keyboard.press("v")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Events")
        await page.keyboard.press("Control+k")
        await page.keyboard.type(kind)
        await page.get_by_role("option").filter(has_text=re.compile(f"^Event.*{kind}")).click()
        await expect(page.locator("tbody tr")).to_have_count(1)
        await page.keyboard.press("Control+k")
        await page.keyboard.type("Send an event")
        await page.get_by_role("option").filter(has_text="Send an event").first.click()
        await expect(page.get_by_role("dialog").get_by_label("Payload")).to_be_visible()


async def test_a_viewer_sees_events_and_sends_none(screens: Screens, api: Api) -> None:
    kind = tag()
    event = await sent(api, kind, {"n": 1})
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
        for address in (f"#/events?type={kind}", f"#/events?id={event['event_id']}"):
            await page.goto(f"/{address}")
            await expect(page.locator("main")).to_contain_text(kind)
            for button in ("Send", "Replay"):
                await expect(page.get_by_role("button", name=button)).to_have_count(0)
