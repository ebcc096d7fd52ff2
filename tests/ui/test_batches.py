"""Batch pages: the list, one batch with its actions, and 100,000 members."""

import asyncio
import re
from typing import Any

import pytest
from playwright.async_api import expect

from jqmaster.domain.ids import new_id
from tests.support import long, real_time
from tests.support.master import Api
from tests.ui.conftest import HOSTILE, Screens
from tests.ui.test_core import LATER, accessible, accessible_in_each_look, picture, tag
from tests.ui.test_lists import SHIFTS

pytestmark = [
    pytest.mark.req("D21"),
    pytest.mark.req("S7"),
    pytest.mark.asyncio(loop_scope="session"),
    real_time.BROWSER,
]


async def made(api: Api, **fields: Any) -> str:
    status, answer = await api.call("POST", "/api/batches", fields)
    assert status == 201, answer
    return str(answer["id"])


async def filled(api: Api, jobs: list[dict[str, Any]], **fields: Any) -> str:
    """Create a batch of these jobs and seal it."""
    batch = {"id": new_id(), **fields}
    status, answer = await api.call("POST", "/api/jobs/bulk", {"jobs": jobs, "batch": batch})
    assert status == 201, answer
    return str(batch["id"])


def some(name: str, count: int, **fields: Any) -> list[dict[str, Any]]:
    return [{"name": name, "argument": n, **fields} for n in range(count)]


async def test_an_open_batch_is_watched_sealed_and_canceled(screens: Screens, api: Api) -> None:
    mark = tag()
    batch = await made(
        api,
        description=f"Album {mark}",
        on_success={"name": "ui.echo"},
        on_complete={"name": "ui.cleanup"},
    )
    await api.enqueue("ui.echo", 1, batch=batch)
    waiting = await api.enqueue("ui.echo", 2, batch=batch, **LATER)
    async with screens.open(f"#/batches?q={mark}") as page:
        row = page.locator("tbody tr")
        await expect(row).to_contain_text("1 / 2")
        await expect(row).to_contain_text("Open")
        await row.click()
        await expect(page.get_by_role("heading", level=1)).to_have_text(f"Album {mark}")
        await expect(page).to_have_title(f"50 % · Album {mark} · Batch · jqmaster")
        await expect(page.locator(".verdicts li").first).to_have_text(
            "It is not sealed: its pusher may add further jobs."
        )
        await expect(page.locator(".verdicts")).to_contain_text("1 of 2 jobs is not finished.")
        await expect(page.locator(".batch-counts")).to_contain_text("Scheduled 1")
        callbacks = page.locator("section[aria-labelledby=callbacks]")
        await expect(callbacks.locator("dd").first).to_have_text("ui.echo waiting")
        # A new job appears without a reload.
        await api.enqueue("ui.echo", 3, batch=batch)
        await expect(page.locator(".batch-over")).to_contain_text("2 of 3 jobs finished")
        await page.get_by_role("button", name="Seal").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("1 job is not finished")
        await accessible(page)
        await dialog.get_by_role("button", name="Seal").click()
        await expect(page.locator(".toast")).to_contain_text("Batch sealed.")
        await expect(page.locator(".page-head .badge")).to_have_text("In progress")
        await expect(page.get_by_role("button", name="Seal")).to_have_count(0)
        await page.get_by_role("button", name="Cancel batch").click()
        await expect(dialog).to_contain_text("ui.cleanup is still started")
        await expect(dialog.get_by_role("button", name="Go back")).to_be_focused()
        await dialog.get_by_role("button", name="Cancel batch").click()
        await expect(page.locator(".page-head .badge")).to_have_text("Canceled")
        await api.until_state(waiting, "canceled")
        await expect(callbacks.locator("dd").last).to_have_text("ui.cleanup enqueued")
        await callbacks.get_by_role("link", name="ui.cleanup").click()
        await expect(page.locator("dl.facts").last).to_contain_text("Started by batch")
        await page.locator("dl.facts").last.get_by_role("link", name=batch[-10:]).click()
        await expect(page.get_by_role("heading", level=1)).to_have_text(f"Album {mark}")
        await page.get_by_role("link", name="Canceled 1").click()
        await expect(page.locator("tbody tr")).to_have_count(1)
        await page.locator("tbody tr td.col-name a").click()
        await expect(page.locator("code.id")).to_have_text(waiting)
        await expect(page.locator("dl.facts").last.get_by_role("link", name=batch[-10:])).to_be_visible()
    entries = (await api.call("GET", f"/api/audit?target={batch}"))[1]["entries"]
    assert [entry["action"] for entry in entries] == ["batch.cancel", "batch.seal"]


async def test_failed_jobs_are_found_and_retried_and_the_page_says_why_it_has_not_succeeded(
    screens: Screens, api: Api
) -> None:
    mark = tag()
    jobs = [*some("ui.echo", 30), *some("ui.fail", 2, max_retry=0)]
    batch = await filled(api, jobs, tags=[mark], on_success={"name": "ui.echo"})
    async with screens.open(f"#/batches?tag={mark}") as page:
        row = page.locator("tbody tr")
        await expect(row).to_contain_text("Completed with failures")
        await expect(row.locator("td.col-failed")).to_have_text("2")
        await accessible(page)
        await row.locator("td.col-failed a").click()
        await expect(page.locator("tbody tr")).to_have_count(2)
        await expect(page.locator(".tabs a[aria-current=page]")).to_have_text("Failed 2")
        await expect(page.locator(".why")).to_contain_text("2 failed, so on_success was not started.")
        await expect(page.locator("tbody td.col-argument")).to_have_text(["0", "1"])
        await expect(page.locator("tbody td.col-error")).to_have_text(["ValueError: 0", "ValueError: 1"])
        await page.get_by_role("link", name="All 32").click()
        await expect(page.locator("tbody tr")).to_have_count(25)
        await page.get_by_role("button", name="Next page").click()
        await expect(page.locator("tbody tr")).to_have_count(7)
        # Show its members in the list of jobs, to filter, export and act on them.
        await page.get_by_role("link", name="Filter and export").click()
        await expect(page.locator(".matches")).to_have_text("32 jobs match")
        await expect(page.locator(".chips")).to_contain_text(f"Batch: …{batch[-10:]}")
        await page.get_by_role("link", name="Failed 2").click()
        await expect(page.locator("tbody tr")).to_have_count(2)
        await page.get_by_role("button", name="Clear").click()
        field = page.get_by_role("searchbox", name="Batch ID")
        await expect(field).to_have_value("")
        # The list does not change until the ID is complete.
        await field.press_sequentially(batch[:35])
        await page.wait_for_timeout(600)
        await expect(page).not_to_have_url(re.compile("batch="))
        await field.press_sequentially(batch[35])
        await expect(page.locator(".matches")).to_have_text("2 jobs match")
        await page.goto(f"/#/batches?id={batch}")
        await page.get_by_role("button", name="Retry failed jobs").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("2 failed jobs will run again")
        await dialog.get_by_role("button", name="Retry failed jobs (2)").click()
        await expect(page.locator(".toast")).to_contain_text("The failed jobs are being retried.")

    async def retried() -> bool:
        members = (await api.call("GET", f"/api/batches/{batch}/jobs?state=failed"))[1]["jobs"]
        return [one["attempt"] for one in members] == [2, 2]

    for _ in range(100):
        if await retried():
            break
        await asyncio.sleep(0.1)
    assert await retried()


async def test_a_batch_in_a_batch_leads_to_its_parent(screens: Screens, api: Api) -> None:
    mark = tag()
    outer = await made(api, description=f"Outer {mark}")
    inner = await made(api, description=f"Inner {mark}", batch=outer)
    async with screens.open(f"#/batches?q={mark}") as page:
        await expect(page.locator("tbody tr")).to_have_count(2)
        await page.get_by_role("link", name=f"Inner {mark}").click()
        await page.locator("dl.facts").get_by_role("link", name=outer[-10:]).click()
        await expect(page.get_by_role("heading", level=1)).to_have_text(f"Outer {mark}")
        await expect(page.locator("main")).to_contain_text("1 of 1 batches inside is not complete.")
        await page.get_by_role("button", name="Cancel batch").click()
        await expect(page.get_by_role("dialog")).to_contain_text("This also applies to 1 nested batch.")
        await page.get_by_role("dialog").get_by_role("button", name="Cancel batch").click()
        await expect(page.get_by_role("dialog")).to_have_count(0)
        await page.goto(f"/#/batches?id={inner}")
        await expect(page.locator(".page-head .badge")).to_have_text("Canceled")


@pytest.mark.sized
async def test_pages_of_batches_are_accessible_fit_a_phone_and_keep_still(screens: Screens, api: Api) -> None:
    mark = tag()
    ids = [new_id() for _ in range(3)]
    jobs = [
        {"name": "ui.fail", "argument": "broken", "max_retry": 0},
        *some("ui.echo", 20),
        {"name": "later", "argument": HOSTILE, "id": ids[0], **LATER},
        *({"name": "x" * 100, "id": one, "after": {"jobs": [ids[0]]}} for one in ids[1:]),
    ]
    long = await filled(
        api,
        jobs,
        description=f"{HOSTILE} {'x' * 300}",
        tags=[mark, "<b>x</b>"],
        on_success={"name": "x" * 90},
    )
    await made(api, tags=[mark], description="Nightly import")
    await filled(api, some("ui.echo", 5), tags=[mark], description="Thumbnails of album 7")
    addresses = (f"#/batches?tag={mark}", f"#/batches?id={long}", f"#/batches?id={long}&state=failed")
    for locale in ("en-US", "ja-JP"):
        async with screens.open(locale=locale) as page:
            for address in (*addresses, "#/batches?q=no-such", "#/batches?id=no-such"):
                await page.goto(f"/{address}")
                await expect(page.get_by_role("heading", level=1)).to_be_visible()
                await expect(page.locator(".loading")).to_have_count(0)
                await accessible_in_each_look(page, address.replace(mark, "all").replace(long, "one"))
            assert await page.locator("#app img, #app b:has-text('x') >> nth=99").count() == 0
    live = await made(api, description="Live", tags=[mark])
    for address in (f"#/batches?tag={mark}", f"#/batches?id={live}"):
        async with screens.open(address) as page:
            await expect(page.locator(".loading")).to_have_count(0)
            await expect(page.get_by_role("heading", level=1)).to_be_visible()
            await page.evaluate(SHIFTS)
            for n in range(40):
                await api.enqueue("ui.echo", n, batch=live)
                await asyncio.sleep(0.1)
            await expect(page.locator("main")).to_contain_text(re.compile(r"[48]0 (/|of) [48]0"))
            assert await page.evaluate("window.shifted") < 0.1, await page.evaluate("window.moved")


@pytest.mark.sized
async def test_a_large_batch_is_shown_at_once(screens: Screens, api: Api) -> None:
    thousands = long.size(10, 100)
    batch = await made(api, description="Large")
    for _ in range(thousands):
        jobs = some("ui.idle", 1000, batch=batch)
        assert (await api.call("POST", "/api/jobs/bulk", {"jobs": jobs}))[0] == 201
    async with screens.open("#/overview") as page:
        await expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
        await page.evaluate(
            "(id) => { window.began = performance.now(); location.hash = `#/batches?id=${id}`; }", batch
        )
        await expect(page.locator("tbody tr")).to_have_count(25)
        took = await page.evaluate("performance.now() - window.began")
        await expect(page.locator(".batch-over")).to_contain_text(f"0 of {thousands},000 jobs finished")
        await expect(page.locator(".batch-counts")).to_contain_text(f"Not finished {thousands},000")
        await expect(page.locator("section[aria-labelledby=flow]")).to_have_count(0)
        await page.goto(f"/#/batches?id={batch}&state=failed")
        none = "No job was found so far" if long.IS_LONG else "No job of the batch is in this state"
        await expect(page.locator("main")).to_contain_text(none, timeout=30_000)
        await page.get_by_role("button", name="Cancel batch").click()
        dialog = page.get_by_role("dialog")
        cancel = dialog.get_by_role("button", name=f"Cancel batch ({thousands},000)")
        await expect(cancel).to_be_disabled()
        await dialog.get_by_label("Type").fill(f"{thousands}000")
        await expect(cancel).to_be_enabled()
        await accessible(page)
        await picture(page, "batch-large")
        await page.keyboard.press("Escape")
    print(f"a batch of {thousands},000 jobs is shown within {took:.0f} ms")
    assert took < 15_000
    status, _ = await api.call("POST", f"/api/batches/{batch}/cancel")
    assert status == 202


async def test_the_palette_and_the_keys_lead_to_batches(screens: Screens, api: Api) -> None:
    mark = tag()
    await made(api, description=f"Album {mark}")
    async with screens.open("#/overview") as page:
        await expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
        await page.keyboard.press("g")
        await page.keyboard.press("b")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Batches")
        await page.keyboard.press("Control+k")
        await page.keyboard.type(mark)
        await page.get_by_role("option").filter(has_text=f"Album {mark}").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text(f"Album {mark}")


async def test_failures_come_first_on_the_page_of_a_batch(screens: Screens) -> None:
    async with screens.open() as page:
        states, reasons, callbacks, kinds = await page.evaluate("""async () => {
            const { shownState } = await import("./batches/members.js");
            const { callbackText, failuresFirst } = await import("./batches/parts.js");
            const { errorKinds } = await import("./jobs/error_kinds.js");
            const batch = (failed) => ({ counts: { failed } });
            const error = (n) => `ValueError: photo ${n}`;
            return [
                [["", 2], ["all", 2], ["succeeded", 2], ["nonsense", 0]].map(([s, n]) => shownState(batch(n), s)),
                failuresFirst([{ code: "jobs" }, { code: "failed" }]).map(({ code }) => code),
                ["open", "complete"].map((state) => callbackText({ state }, "waiting")),
                errorKinds([{ name: "a", error: null }, { name: "a", error: error(1) }, { name: "a", error: error(2) },
                            { name: "b", error: error(3) }]),
            ];
        }""")
    assert states == ["failed", "", "succeeded", ""]
    assert reasons == ["failed", "jobs"]
    assert callbacks == ["waiting", "not started"]
    assert [(one["name"], one["error"], one["count"]) for one in kinds] == [
        ("a", "ValueError: photo <n>", 2), ("a", "", 1), ("b", "ValueError: photo <n>", 1),
    ]  # fmt: skip
