"""Typing on a live queue does not lose text: the tests find every input of every page and type key by key.

New pages, inputs and dialogs are covered automatically: pages and forms are counted in the sources. A button that opens
a dialog says so (`aria-haspopup`). `make test` types faster than people do; `make test-long` types as they do.
"""

import asyncio
import contextlib
import re
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from jqmaster.app import Master
from jqmaster.domain.operations.timeline import TimelineKind
from tests.api.challenges.test_forms import FORM
from tests.support import long, real_time
from tests.support.master import PATIENT, Api, master_on
from tests.support.scripted_worker import ScriptedWorker, puller_at
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from tests.support.web_sources import WEB, web_sources
from tests.ui import people
from tests.ui.conftest import ELSEWHERE, worker_on
from tests.ui.people import PASSWORD, live_queue, logged_in
from tests.ui.test_challenge_page import asked
from tests.ui.test_incidents import Timeline

pytestmark = [
    pytest.mark.req("J15"),
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(300),
    pytest.mark.sized,
    real_time.BROWSER,
]

ADMIN = "the-admins-token-0123456789"
KEY_MS = long.size(25, people.KEY_MS)
# How many pages are typed into at once, like several people.
AT_ONCE = 2
PERSON = "jose@example.com"
LATER = {"delay": 3600.0}
NEWS_MS = 10_000
# The answers that news bring are drawn within this time.
DRAWN_MS = 100
# So long a changed form may take to ask whether it shall be discarded.
ASKED_MS = 1_000
TEXTS = {"number": "4217", "datetime-local": "11222026083000A", "password": "correct horse"}
# Type the second half before the first, to expose a refresh that moves the caret.
HALVES = ("cd", "ab")
TYPED = "input:not([type=checkbox], [type=radio], [type=file]), textarea, select, input[type=checkbox]"

# A choice may reveal further controls.
CHOICES = ("select-one", "checkbox")
# Each of these queries all controls in one call. One by one, each new control would cost a walk over all others.
LABEL = """const labelOf = (e) =>
    e.getAttribute('aria-label') || e.labels?.[0]?.firstChild?.textContent?.trim() || e.name || e.id;"""
# Returns [index, label, type] of each control that a person can use.
USABLE = f"""(controls) => {{ {LABEL}
  return controls.flatMap((e, index) => {{
    const usable = e.checkVisibility({{ visibilityProperty: true }}) && !e.matches(':disabled');
    const choosesRow = e.type === 'checkbox' && e.closest('table, .conflict') !== null;
    return usable && !choosesRow ? [[index, labelOf(e), e.type]] : [];
  }});
}}"""
# Returns [label, value] of each control.
SHOWN = f"""(controls) => {{ {LABEL}
  const valueOf = (e) => e.type !== 'checkbox' ? e.value : e.checked ? 'True' : 'False';
  return controls.map((e) => [labelOf(e), valueOf(e)]);
}}"""
# Returns [index, name] of each usable button. All rows of a list have the same button, whose first word is its name.
# The first button beside the rows stands for all of them.
OPENERS = """(buttons) => {
  let hasRowAction = false;
  return buttons.flatMap((e, index) => {
    if (e.classList.contains('row-action')) {
      if (hasRowAction) return [];
      hasRowAction = true;
    }
    const isShown = e.closest('details.more-menu') ?? e;
    if (!isShown.checkVisibility({ visibilityProperty: true }) || e.matches(':disabled')) return [];
    const isInRow = e.closest('tr, .keys-list > li, .group') !== null;
    return [[index, isInRow ? e.textContent.trim().replace(/ .*/s, '') : e.textContent.trim()]];
  });
}"""


# The streams of the page, of which the last is open.
STREAMS = """globalThis.streams = [];
globalThis.EventSource = class extends EventSource {
  constructor(...given) {
    super(...given);
    streams.push(this);
  }
};"""


@dataclass
class Walk:
    """One person on a page, and the inputs that all of them have typed into."""

    page: Page
    forms: set[frozenset[str]] = field(default_factory=set)
    inputs: list[str] = field(default_factory=list)


async def type_into(page: Page, control: Locator, kind: str) -> str:
    """Type like a person, and return the expected text."""
    if kind == "datetime-local":
        # A click would select one of its parts.
        await control.focus()
        await control.press_sequentially(TEXTS[kind], delay=KEY_MS)
        await page.keyboard.press("Tab")
        return "2026-11-22T08:30"
    await control.click()
    await page.keyboard.press("Control+A")
    if kind in TEXTS:
        await page.keyboard.type(TEXTS[kind], delay=KEY_MS)
        return TEXTS[kind]
    first, second = HALVES
    await page.keyboard.type(first, delay=KEY_MS)
    await page.keyboard.press("Control+Home")
    await page.keyboard.type(second, delay=KEY_MS)
    return second + first


async def news(page: Page) -> None:
    """Break the stream. Once it is back, the page loads all its data again."""
    async with page.expect_response(
        lambda answer: "/api/" in answer.url and "stream" not in answer.url, timeout=NEWS_MS
    ):
        await page.evaluate("streams.at(-1).onerror()")
    await expect(page.locator(".connection")).to_have_text("Live")
    await page.wait_for_timeout(DRAWN_MS)


async def fill_all(walk: Walk, scope: Locator) -> None:
    """Type into every control below `scope`, wait for news of the queue, and check that the typed text is still there.
    Choices come first, because they may reveal further controls."""
    page = walk.page
    for folded in await scope.locator("details.more:not([open]) > summary").all():
        await folded.click()
    controls = scope.locator(TYPED)
    typed: dict[str, str] = {}

    async def untouched() -> list[tuple[int, str, str]]:
        return [one for one in await controls.evaluate_all(USABLE) if one[1] not in typed]

    while found := await untouched():
        for index, label, kind in found:
            if label in typed:
                continue
            control = controls.nth(index)
            if kind == "select-one":
                wanted = await control.evaluate("(e) => e.options[e.options.length - 1].value")
                await control.select_option(wanted)
            elif kind == "checkbox":
                await control.click()
                wanted = str(await control.is_checked())
            else:
                wanted = await type_into(page, control, kind)
            typed[label] = wanted
            walk.inputs.append(label)
            if kind in CHOICES:
                # It may show or hide other controls and thereby change their positions.
                break
    if not typed:
        return
    await news(page)
    # Compare by label: a page may redraw the control, and its new contents count.
    shown: dict[str, list[str]] = {}
    for label, value in await controls.evaluate_all(SHOWN):
        shown.setdefault(label, []).append(value)
    lost = {
        label: (shown.get(label), wanted)
        for label, wanted in typed.items()
        if not any(value.startswith(wanted) for value in shown.get(label, []))
    }
    assert lost == {}, page.url


async def walk_dialogs(walk: Walk) -> None:
    """Open every dialog of the page once, type into it, and leave it. Changed forms ask before they are discarded."""
    page = walk.page
    done: set[str] = set()

    async def opener() -> tuple[str, Locator] | None:
        buttons = page.locator("main button[aria-haspopup=dialog]")
        for index, name in await buttons.evaluate_all(OPENERS):
            if name not in done:
                return name, buttons.nth(index)
        return None

    while found := await opener():
        name, button = found
        done.add(name)
        menu = button.locator("xpath=ancestor::details[contains(@class, 'more-menu')][not(@open)]/summary")
        if await menu.count():
            await menu.click()
        await button.click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_be_visible()
        await expect(dialog.get_by_text("Counting")).to_have_count(0)
        names = await dialog.locator("form [name]").evaluate_all("(all) => all.map((e) => e.name)")
        # New and changed constraints share a form, in which only a new one gets its name. A new definition also needs
        # its kind.
        walk.forms.add(frozenset(names) - {"name", "kind"})
        await fill_all(walk, dialog)
        for other_way in await dialog.locator("button[aria-pressed=false]").all():
            await other_way.click()
            await fill_all(walk, dialog)
        await page.keyboard.press("Escape")
        # A changed form asks a moment later.
        discard = dialog.get_by_role("button", name="Discard changes")
        with contextlib.suppress(AssertionError):
            await expect(discard).to_be_visible(timeout=ASKED_MS)
            await discard.click()
        await expect(dialog).to_have_count(0)


class Part(NamedTuple):
    """Pages that are typed into together. `rooms`: those whose forms they open."""

    pages: tuple[str, ...]
    rooms: tuple[str, ...]


# Words of an address in capitals stand for what `_make` makes.
PARTS = {
    "jobs": Part(
        ("jobs", "job?id=JOB", "failures", "names", "enqueue", "batches", "batches?id=BATCH", "workers?id=WORKER",
         "workers"),
        ("jobs", "workers"),
    ),
    "limits": Part(("constraints?name=tenants", "constraints", "events"), ("constraints", "events")),
    "definitions": Part(
        ("definitions?name=nightly", "definitions", "calendars", "challenges?name=people.asked", "challenges"),
        ("definitions", "calendars", "challenges"),
    ),
    "people": Part(
        ("access", "notices?name=trouble", "notices", "targets", "personal_data", "audit", "account", "login"),
        ("identity", "notices", "targets", "personal_data"),
    ),
    "operations": Part(
        ("settings", "overview", "incidents?id=INCIDENT", "incidents", "masters", "namespaces"),
        ("operations", "namespaces"),
    ),
}  # fmt: skip
# Forms that pages of other rooms open, too, by their fields.
SHARED = {
    "constraints": frozenset({"reason", "lasts"}),
    "events": frozenset({"event_type", "payload", "source", "subject", "dedupe_key", "occurred_at"}),
}


FORM_DIALOG = re.compile(r"<\$\{FormDialog\}\s")


def forms_of(*rooms: str) -> int:
    """Return how many forms in dialogs the sources of these rooms have. Each has other fields than the others."""
    return sum(
        len(FORM_DIALOG.findall(file.read_text()))
        for file in web_sources()
        if file.relative_to(WEB).parts[0] in rooms
    )


async def test_every_page_and_every_form_belongs_to_a_part() -> None:
    text = (WEB / "core" / "router.js").read_text()
    listed = re.search(r"PAGES = .*?\[(.*?)\]", text, re.DOTALL)
    assert listed
    pages = {page.partition("?")[0] for part in PARTS.values() for page in part.pages}
    assert pages == set(re.findall(r'"(\w+)"', listed[1]))
    assert forms_of(*(room for part in PARTS.values() for room in part.rooms)) == sum(
        len(FORM_DIALOG.findall(file.read_text())) for file in web_sources()
    )


@pytest.mark.parametrize("name", list(PARTS))
async def test_nothing_that_is_typed_on_a_live_queue_is_lost(
    browser: Browser, store_server: StoreServer, name: str
) -> None:
    part = PARTS[name]
    forms: set[frozenset[str]] = set()
    inputs: list[str] = []
    async with master_on(store_server.url, **PATIENT, tokens=[f"admin:{ADMIN}"]) as (master, _):
        api = Api(master.server.url, ADMIN)
        await api.call("POST", "/api/users", {"name": "ada", "password": PASSWORD, "role": "admin"})
        worker = worker_on(master.server.url, ADMIN)
        async with worker.running(), puller_at(api, "people.asked", "system.asked") as asker, live_queue(api):
            made = await _make(master, api, asker)
            left = [re.sub(r"=([A-Z]+)$", lambda word: f"={made[word[1]]}", page) for page in part.pages]

            async def walk_next() -> None:
                async with logged_in(browser, master.server.url, "ada") as page:
                    await page.add_init_script(STREAMS)
                    await page.reload()
                    while left:
                        await page.goto(f"/#/{left.pop(0)}")
                        await expect(page.get_by_role("heading", level=1)).to_be_visible()
                        await expect(page.locator(".loading")).to_have_count(0)
                        await expect(page.locator(".connection")).to_have_text("Live")
                        await walk_page(Walk(page, forms, inputs))

            async with asyncio.TaskGroup() as walking:
                for _ in range(AT_ONCE):
                    walking.create_task(walk_next())
        await api.http.aclose()
    others = {fields for room, fields in SHARED.items() if room not in part.rooms}
    found = forms - {frozenset()} - others
    assert len(found) == forms_of(*part.rooms), sorted(map(sorted, found))
    assert len(set(inputs)) > 5


async def _make(master: Master, api: Api, asker: ScriptedWorker) -> dict[str, str]:
    """Make one of each thing that has a page; return what stands for the words of addresses."""
    await api.call("POST", "/api/tokens", {"label": "web app", "scopes": ["push"]})
    definition = {"job": {"name": "ui.echo"}, "schedule": {"daily_at": "02:30"}, "time_zone": "UTC"}
    matcher = {"field": "name", "op": "eq", "value": "ui.echo"}
    notice = {
        "when": "job_failed",
        "to": [{"slack": "https://hooks.example/services/one"}],
        "matcher": matcher,
    }
    for path, document in (
        ("constraints/tenants", {"matcher": matcher, "key": "argument.tenant", "concurrency": 50}),
        ("definitions/nightly", definition),
        ("notices/trouble", notice),
    ):
        assert (await api.call("PUT", f"/api/{path}", document))[0] == 201
    waiting = await api.enqueue("ui.echo", {"tenant": "42"}, **LATER)
    batch = (await api.call("POST", "/api/batches", {"description": "Album 7"}))[1]["id"]
    await api.enqueue("ui.fail", "x", batch=batch, max_retry=0)
    await api.enqueue("ui.fail", PERSON, max_retry=0)
    # A group of failures that the others can be merged into.
    await api.enqueue("ui.fail", ELSEWHERE, max_retry=0)
    incident = await Timeline(master).add(TimelineKind.STORE_AWAY, 60, "store", lasted_s=20)
    # One challenge has a form for people; the other is answered by a system.
    await asked(api, asker, "people.asked", timeout_s=3600.0, form=FORM)
    await asked(api, asker, "system.asked", timeout_s=3600.0)
    await _some_jobs(api)
    return {"JOB": waiting, "BATCH": batch, "INCIDENT": incident, "WORKER": asker.id}


async def walk_page(walk: Walk) -> None:
    page = walk.page
    if "#/personal_data" in page.url:
        # Only what a search has found can be erased.
        await page.get_by_label("Texts that identify the person").fill(PERSON)
        await page.get_by_role("button", name="Search", exact=True).click()
        await expect(page.get_by_role("button", name="Erase…").first).to_be_visible()
    choose = page.get_by_role("button", name="select all that match")
    if await choose.count():
        await choose.click()
    await walk_dialogs(walk)
    for more in await page.locator("main button[aria-expanded=false]").all():
        await more.click()
    await fill_all(walk, page.locator("main"))


async def _some_jobs(api: Api) -> None:
    async def failed() -> bool:
        counts = await api.counts()
        return counts.get("failed", 0) > 2 and counts.get("succeeded", 0) > 10

    await wait_until(failed, what="jobs succeed and fail")
