"""Typing on a live queue does not lose text: the test finds every input of every page and types key by key.

New pages, inputs and dialogs are covered automatically. A button that opens a dialog says so (`aria-haspopup`), and the
number of dialog forms is checked against the sources.
"""

import asyncio
import contextlib
import secrets
from dataclasses import dataclass, field

import pytest
from playwright.async_api import Browser, Locator, Page, expect
from playwright.async_api import TimeoutError as TooLate

from jqmaster.domain.operations.timeline import TimelineKind
from tests.api.challenges.test_forms import FORM
from tests.support import real_time
from tests.support.master import Api, master_on
from tests.support.scripted_worker import puller_at
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from tests.support.web_sources import web_sources
from tests.ui.conftest import worker_on
from tests.ui.people import KEY_MS, live_queue, logged_in
from tests.ui.test_challenge_page import asked
from tests.ui.test_incidents import Timeline

pytestmark = [
    pytest.mark.req("J15"),
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(540),
    pytest.mark.long,
    real_time.BROWSER,
]

ADMIN = "the-admins-token-0123456789"
# How many pages are typed into at once, like several people: most of the time goes into waiting for the next key and
# for news of the queue.
AT_ONCE = 6
PERSON = "jose@example.com"
LATER = {"delay": 3600.0}
# The list of names refreshes after five seconds; every other page is faster.
NEWS_MS = 6_000
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
    if (!e.checkVisibility({ visibilityProperty: true }) || e.matches(':disabled')) return [];
    const isInRow = e.closest('tr, .keys-list > li, .group') !== null;
    return [[index, isInRow ? e.innerText.replace(/ .*/s, '') : e.innerText]];
  });
}"""


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
    with contextlib.suppress(TooLate):
        await page.wait_for_event("response", lambda answer: "/api/" in answer.url, timeout=NEWS_MS)
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


def forms_in_dialogs() -> int:
    """Return how many forms the sources have. Each has different field names, by which the walk tells them apart."""
    return sum(file.read_text().count("<${FormDialog} ") for file in web_sources())


async def test_nothing_that_is_typed_on_a_live_queue_is_lost(
    browser: Browser, store_server: StoreServer
) -> None:
    password = secrets.token_hex(12)
    async with master_on(store_server.url, tokens=[f"admin:{ADMIN}"]) as (master, _):
        api = Api(master.server.url, ADMIN)
        await api.call("POST", "/api/users", {"name": "ada", "password": password, "role": "admin"})
        await api.call("POST", "/api/tokens", {"label": "web app", "scopes": ["push"]})
        document = {
            "matcher": {"field": "name", "op": "eq", "value": "ui.echo"},
            "key": "argument.tenant",
            "concurrency": 50,
        }
        await api.call("PUT", "/api/constraints/tenants", document)
        definition = {"job": {"name": "ui.echo"}, "schedule": {"daily_at": "02:30"}, "time_zone": "UTC"}
        await api.call("PUT", "/api/definitions/nightly", definition)
        notice = {"when": "job_failed", "to": [{"slack": "https://hooks.example/services/one"}]}
        assert (await api.call("PUT", "/api/notices/trouble", notice))[0] == 201
        waiting = await api.enqueue("ui.echo", {"tenant": "42"}, **LATER)
        batch = (await api.call("POST", "/api/batches", {"description": "Album 7"}))[1]["id"]
        await api.enqueue("ui.fail", "x", batch=batch, max_retry=0)
        await api.enqueue("ui.fail", PERSON, max_retry=0)
        incident = await Timeline(master).add(TimelineKind.STORE_AWAY, 60, "store", lasted_s=20)
        forms: set[frozenset[str]] = set()
        inputs: list[str] = []

        async def walk_next(addresses: list[str]) -> None:
            async with logged_in(browser, master.server.url, "ada", password) as page:
                while addresses:
                    await page.goto(f"/{addresses.pop(0)}")
                    await expect(page.get_by_role("heading", level=1)).to_be_visible()
                    await expect(page.locator(".loading")).to_have_count(0)
                    await walk_page(Walk(page, forms, inputs))

        async with (
            worker_on(master.server.url, ADMIN).running(),
            puller_at(api, "people.asked", "system.asked") as asker,
            live_queue(api),
        ):
            await _some_jobs(api)
            # One challenge has a form for people; the other is answered by a system.
            await asked(api, asker, "people.asked", timeout_s=3600.0, form=FORM)
            await asked(api, asker, "system.asked", timeout_s=3600.0)
            async with logged_in(browser, master.server.url, "ada", password) as page:
                pages: list[str] = await page.evaluate(
                    "import(new URL('core/router.js', document.baseURI).href).then((m) => m.PAGES)"
                )
            addresses = [f"#/{name}" for name in pages if name != "job"]
            # The longest first.
            one_each = ["#/constraints?name=tenants", f"#/job?id={waiting}", "#/definitions?name=nightly"]
            one_each += [
                f"#/batches?id={batch}",
                "#/challenges?name=people.asked",
                f"#/incidents?id={incident}",
            ]
            addresses = [*one_each, "#/notices?name=trouble", *addresses]
            async with asyncio.TaskGroup() as people:
                for _ in range(AT_ONCE):
                    people.create_task(walk_next(addresses))
        await api.http.aclose()
    assert len(forms - {frozenset()}) == forms_in_dialogs()
    assert {
        "Priority",
        "Idempotency key",
        "Matcher",
        "Value 1",
        "Current password",
        "Name or message contains",
    } <= set(inputs)


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
        return counts.get("failed", 0) > 0 and counts.get("succeeded", 0) > 10

    await wait_until(failed, what="jobs succeed and fail")
