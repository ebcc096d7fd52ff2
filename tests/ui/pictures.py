"""`make pictures`: write pictures of every page on a busy system to docs/ui/all, those of the repository to docs/ui, and
docs/ui.md that shows the latter.

Needs Chromium and, of the extra `bench`, Pillow.
"""

import argparse
import asyncio
import contextlib
import io
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from playwright.async_api import Browser, Page, async_playwright, expect

from tests.ui.busy_objects import add_objects
from tests.ui.busy_system import PASSWORD, USER, BusySystem, busy_system
from tests.ui.conftest import CHROMIUM

ROOT = Path(__file__).parents[2]
DESKTOP = (1280, 900)
PHONE = (390, 844)
# Cut longer pages here, because a picture that needs scrolling does not show anything at a glance.
MAX_HEIGHT = {DESKTOP[0]: 1300, PHONE[0]: 1300}
SETTLED_MS = 900
# The pictures of the repository. All others are taken anew by whoever wants to see them.
KEPT = (
    "overview-light-1280", "overview-dark-1280", "overview-light-390", "jobs-light-1280", "why-light-1280",
    "failed-job-light-1280", "flow-light-1280", "failures-light-1280", "constraint-light-1280",
    "constraint-editor-light-1280", "definition-light-1280", "workers-light-1280",
)  # fmt: skip
Steps = Callable[[Page], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Shot:
    """One page. `purpose` is one sentence. `is_window` limits the height to the window, for dialogs and scrolled pages."""

    slug: str
    title: str
    purpose: str
    address: str
    steps: Steps | None = None
    is_window: bool = False
    is_logged_in: bool = True


SHORT_PATHS = r"""() => {
  const texts = document.createTreeWalker(document.querySelector(".job-log"), NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode;
    text.data = text.data.replace(/"\/[^"]*\/(?=worker_sdk\/|tests\/)/g, '"/app/');
  }
}"""


async def _bulk(page: Page) -> None:
    await page.get_by_label("Select all").first.check()
    await page.get_by_role("button", name="select all that match").click()
    await page.get_by_role("button", name="Retry…").click()
    await page.get_by_role("dialog").get_by_role("button", name="Retry").wait_for()


async def _edit(page: Page) -> None:
    await page.get_by_role("button", name="Edit").first.click()
    await page.get_by_role("dialog").locator(".preview strong").wait_for()


async def _closed(page: Page) -> None:
    """Fold the stack traces, which contain local folders, and shorten their paths in the log."""
    for summary in await page.locator("details[open] > summary").all():
        await summary.click()
    await page.locator(".log-line").first.wait_for()
    await page.evaluate(SHORT_PATHS)


async def _log(page: Page) -> None:
    await page.locator(".log-line").nth(3).wait_for()
    await page.locator("section.job-log").evaluate(
        "(e) => e.scrollIntoView({block: 'start'}) || scrollBy(0, -70)"
    )


async def _graph(page: Page) -> None:
    await page.locator(".flow-node").nth(4).wait_for()
    await page.locator(".flow-box").evaluate("(e) => e.scrollIntoView({block: 'center'})")


async def _form(page: Page) -> None:
    await page.get_by_role("button", name="Edit…").first.click()
    await page.get_by_role("dialog").get_by_role("button", name="Save").wait_for()


async def _palette(page: Page) -> None:
    await page.keyboard.press("Control+k")
    await page.keyboard.type("pause mail.send 45m because the provider is down")
    await page.locator(".palette [aria-selected=true]").wait_for()


async def _person(page: Page) -> None:
    await page.get_by_label("Texts that identify the person").fill("customer3@example.com")
    await page.get_by_label("Reason").fill("request 1042")
    await page.get_by_role("button", name="Search", exact=True).click()
    await page.locator("#found").wait_for()


async def _preview(page: Page) -> None:
    await page.get_by_label("Name").fill("mail.send")
    await page.get_by_label("Argument").fill(
        '{"host": "mx.example.com", "to": "ada@example.com", "template": "order_sent"}'
    )
    await page.locator(".preview").get_by_text("mail-per-host").first.wait_for()


def shots(ids: dict[str, str]) -> list[Shot]:
    """Return all pictures in the order of docs/ui.md."""
    return [
        Shot("overview", "Overview", "Faults come first, followed by waiting, running and failed jobs, with rates and times.", "#/overview"),
        Shot("jobs", "Jobs", "Find jobs by state, name, tag, batch, time, error or worker. The filters are part of the address, so a link shows others the same list.\n\n"
            "Lists are in the order of time across names and states. If a search finds few jobs, it continues by itself, and shows how far it has come.\n"
            "Filters match a value of the argument or a header, the last minutes, or the time since the last deploy. **Copy link** keeps filters and\n"
            "columns, and **CSV** and **JSON** export up to 10,000 of the matching jobs.", "#/jobs"),
        Shot("many-jobs", "Many jobs at once", "Cancel, retry, delete, run or reprioritize selected jobs, or all jobs that match. The page counts the jobs before the action begins.", "#/jobs?state=failed", _bulk, is_window=True),
        Shot("why", "Why a job waits", "A waiting job shows what has to change first, which jobs hold the slots, and when the constraint opens.", f"#/job?id={ids['held']}"),
        Shot("failed-job", "A job that failed", "The page shows the last error, each attempt with worker, times and stack trace, and the job's content. You can retry, change or enqueue the job again.", f"#/job?id={ids['failed']}", _closed),
        Shot("job-log", "The log of a job", "Shows the log lines of a job live, in colour. Filter them by level, search them, or save them as a file.", f"#/job?id={ids['done']}", _log, is_window=True),
        Shot("flow", "A flow", "Jobs that wait for one another, as a graph or a waterfall. The page opens at the first failure, with its error. `n` leads to the next failure, and you can retry each failed job. Labels distinguish jobs of one name by their key or argument.", f"#/job?id={ids['flow']}", _graph, is_window=True),
        Shot("failed-flow", "A flow that failed", "The failure with its error comes first. The jobs that were skipped because of it are red, and the other jobs are faded.", f"#/job?id={ids['failed_flow']}", _graph, is_window=True),
        Shot("batches", "Batches", "Jobs that belong together: how many are over, which failed, and which callbacks start when all are over.", "#/batches"),
        Shot("batch", "One batch", "The page shows the jobs of the batch by state, the reason why it is not complete, and the jobs that it starts. You can seal or cancel it, retry its failed jobs, and find its members among all jobs.", f"#/batches?id={ids['batch']}"),
        Shot("challenge", "A question to a person", "A job that waits for people has a page at its own address, without scripts. There, people approve, reject, fill in a few fields and comment.", f"/callbacks/{ids['question']}"),
        Shot("challenges", "Challenges", "The page lists the questions to other systems and to people, with their states. Operators answer from the row.", "#/challenges"),
        Shot("asked-job", "A job that waits for an answer", "The page of the job shows the question, its time, the people who may answer, and the answers.", f"#/job?id={ids['asked']}"),
        Shot("failures", "Failures", "Failures at the same place in the code form one group with its count, its trend over a day, the versions of its workers and an example. New and returned groups are marked. You can do the following with a group:\n\n* Retry its jobs. The page first counts them again.\n* Assign it to a person.\n* See which values of the argument it affects.\n* Resolve it in a version. A failure in a later version reopens it.\n* Merge it into another group of its name, and split it off again.\n* Ignore it for a time, or until it changes. Then it is not a fault on the Overview.", "#/failures"),
        Shot("names", "Names", "Each job name with its counts, success rate, wait times and run times.", "#/names"),
        Shot("name", "One name", "The history of one job name, with the distribution of its wait and run times.",
            "#/names?name=mail.send"),
        Shot("constraints", "Constraints", "Limits on sets of jobs, with their usage and the number of jobs that they hold back.",
            "#/constraints"),
        Shot("constraint", "One constraint", "The values with the most waiting jobs, the holders of slots, and the next opening. You can pause the constraint or one value.", "#/constraints?name=mail-per-host"),
        Shot("constraint-editor", "The editor of a constraint",
            "While you type, the editor shows the waiting jobs to which the constraint would apply. It can also replay the last hour under its limits.",
            "#/constraints?name=mail-per-host", _edit, is_window=True),
        Shot("definitions", "Definitions", "Jobs that start by the clock: the next instant of each definition, the outcomes of its last 30 runs, and the lateness of the last run. Pause a definition, or run it now, from its row.",
            "#/definitions"),
        Shot("definition", "One definition", "The next ten instants in its time zone and in yours, and one record for each past instant with its outcome, its lateness and its job. You can set a schedule without cron, and the editor shows the next instants while you type. A backfill first shows how many jobs it will start.", "#/definitions?name=hourly-report"),
        Shot("definition-editor", "The editor of a definition", "Choose times without cron. The next runs are shown while you type, in the time zone of the definition and in yours.", "#/definitions?name=hourly-report", _form, is_window=True),
        Shot("calendars", "Calendars", "Holidays and workdays that definitions follow, and the last day of each calendar.", "#/calendars"),
        Shot("calendar", "One calendar", "The days off by month, and the definitions that follow the calendar.", "#/calendars?name=shop-holidays"),
        Shot("events", "Events", "The newest events, and the jobs that each of them started. Filter by type, source and definition, send a test event, or replay an event.", "#/events"),
        Shot("event", "One event", "The content of the event, the definitions that matched, and the jobs that it started.", f"#/events?id={ids['event']}"),
        Shot("notices", "Notices", "Messages to people about failed jobs, old backlogs, detached workers and other conditions: by mail, Slack or webhooks.", "#/notices"),
        Shot("notice", "One notice", "Open alerts, messages and their deliveries. You can test, mute and change the notice, and acknowledge alerts.", "#/notices?name=failed-jobs"),
        Shot("notice-editor", "The editor of a notice", "Choose the condition, the jobs, the recipients and the frequency of a notice.", "#/notices?name=failed-jobs", _form, is_window=True),
        Shot("targets", "Targets", "Addresses to which jobs go as HTTP requests, without a worker.", "#/targets"),
        Shot("workers", "Workers", "All workers with their load, rate, run times and failures, by worker, machine, version or label. The page marks workers that are silent, or slower or failing more often than others with the same names. Drain all workers of a worker group or a selection at once, and see how many jobs are left.",
            "#/workers"),
        Shot("worker", "One worker", "The worker's jobs, figures, names and address. You can drain, resume or detach it.",
            f"#/workers?id={ids['worker']}"),
        Shot("masters", "Masters", "The leader, the other masters and the store. You can hand the lead to another master.", "#/masters"),
        Shot("namespaces", "Namespaces", "All namespaces, the worst first, and their stores.", "#/namespaces"),
        Shot("incidents", "Incidents", "Present and past incidents, with their events, their duration, and the person who takes care of each.", "#/incidents"),
        Shot("incident", "One incident", "Shows the events of the incident in order, and the changes shortly before it.", f"#/incidents?id={ids['incident']}"),
        Shot("enqueue", "Enqueue", "A form for one job, with a field for each parameter in the contract of the workers. "
            "Before you send the job, the form previews the constraints that will apply.", "#/enqueue", _preview),
        Shot("audit", "Audit", "All changes, with their author, the old value and the new one. Filter them by target, author and time.", "#/audit"),
        Shot("settings", "Settings", "Every setting with its description. You can change run-time settings here, on all masters within a second.", "#/settings"),
        Shot("access", "Access", "Tokens for programs, and users with their roles. A token is shown only once.",
            "#/access"),
        Shot("personal-data", "Personal data", "Searches the data of jobs for a person, and erases values and logs.", "#/personal_data", _person),
        Shot("account", "Your account", "Change your password, and end your other logins.", "#/account"),
        Shot("palette", "The command palette", "Opens the page or object that you name, and understands sentences.", "#/overview", _palette, is_window=True),
        Shot("login", "Log in", "Log in with a user name or with a token.", "#/overview", is_logged_in=False),
    ]  # fmt: skip


async def take(
    system: BusySystem, browser: Browser, into: Path, *, is_whole: bool = False, only: Sequence[str] = ()
) -> None:
    """Write `SLUG-{light,dark}-{1280,390}.webp`, to the folder `all` if the repository does not keep it. With `is_whole`,
    write full-height PNGs for inspection. `only` lists slugs."""
    (into / "all").mkdir(parents=True, exist_ok=True)
    for size in (DESKTOP, PHONE):
        for theme in ("light", "dark"):
            async with _context(system, browser, size, theme) as (page, guest):
                for shot in shots(system.ids):
                    if only and shot.slug not in only:
                        continue
                    where = page if shot.is_logged_in else guest
                    try:
                        data, overflow = await _picture(where, shot, size, is_whole=is_whole)
                    except Exception as fault:
                        print(f"{shot.slug} {theme} {size[0]}: {fault}")
                        continue
                    if overflow > 0:
                        print(f"{shot.slug} {theme} {size[0]}: {overflow} px wider than the window")
                    name = f"{shot.slug}-{theme}-{size[0]}"
                    if is_whole:
                        (into / f"{name}.png").write_bytes(data)
                    else:
                        folder = into if name in KEPT else into / "all"
                        (folder / f"{name}.webp").write_bytes(await asyncio.to_thread(_packed, data))


@contextlib.asynccontextmanager
async def _context(
    system: BusySystem, browser: Browser, size: tuple[int, int], theme: str
) -> AsyncIterator[tuple[Page, Page]]:
    """Yield a page of a logged-in user and one without a login."""
    contexts = [
        await browser.new_context(
            base_url=system.url,
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if theme == "dark" else "light",
            locale="en-US",
            device_scale_factor=1 if size == DESKTOP else 1.5,
        )
        for _ in range(2)
    ]
    try:
        answer = await contexts[0].request.post("/api/session", data={"user": USER, "password": PASSWORD})
        assert answer.ok, await answer.text()
        pages = [await context.new_page() for context in contexts]
        for page in pages:
            page.set_default_timeout(8000)
        yield pages[0], pages[1]
    finally:
        for context in contexts:
            await context.close()


async def _picture(page: Page, shot: Shot, size: tuple[int, int], *, is_whole: bool) -> tuple[bytes, int]:
    """Return a PNG, and how much wider the page is than the window."""
    await page.set_viewport_size({"width": size[0], "height": size[1]})
    # A different query reloads the page, so that nothing is left of the previous picture.
    await page.goto(f"/?{shot.slug}{shot.address}" if shot.address.startswith("#") else shot.address)
    await page.get_by_role("heading", level=1).wait_for()
    await expect(page.locator(".loading")).to_have_count(0)
    if shot.steps:
        await shot.steps(page)
    await page.wait_for_timeout(SETTLED_MS)
    overflow = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
    if not shot.is_window:
        tall = await page.evaluate("document.documentElement.scrollHeight")
        height = max(size[1], tall if is_whole else min(tall, MAX_HEIGHT[size[0]]))
        await page.set_viewport_size({"width": size[0], "height": height})
        await page.wait_for_timeout(SETTLED_MS // 3)
    return await page.screenshot(), int(overflow)


def _packed(data: bytes) -> bytes:
    """Encode losslessly: text stays sharp, and a picture is about 40 kB."""
    out = io.BytesIO()
    Image.open(io.BytesIO(data)).convert("RGB").save(out, "WEBP", lossless=True, quality=80, method=4)
    return out.getvalue()


# --- docs/ui.md

INTRODUCTION = """# The web UI

Every master serves the web UI at its own address: `http://127.0.0.1:8080/` after `jqmaster serve`. You need not install
anything, and the pages load nothing from other servers. All data are live. The pictures show a shop's queue with two masters
and three workers. One of the workers has just fallen silent. `make pictures` takes these pictures, and pictures of all other
pages into `docs/ui/all`.

* **Access**: without tokens and users, everybody on the machine may do everything. With users, people log in, and their role
  decides what they may do: a viewer sees data, an operator acts, and an admin also manages access. See [security.md](security.md).
* **Addresses**: filters, pages and objects are part of the address, so every view has a link. The UI also works below a path of
  a proxy.
* **Keys**: `?` lists the shortcuts. `/` finds a job by ID or name, `g` and a letter opens a page, and `j`, `k`, `x` and
  `Enter` work in lists.
* **Command palette** (`Ctrl K`): it opens the page or object that you name, acts on the object of the page, and understands
  sentences such as `pause mail.send 45m because the provider is down`.
* **Appearance**: choose light or dark, relative times, local time or UTC, and English or Japanese at the upper right. Until you choose, the UI
  uses the settings of your browser.
* **Problems**: the Overview lists current faults and long waits until they are over. They are the findings of `jqmaster health`, so
  the Overview and the command always agree. If you acknowledge a problem, it is hidden until it comes back. You can also snooze it
  (`45m`, `until 18:00`).
* **Charts**: they mark deploys, pauses, changes and incidents, and compare with yesterday or last week. Arrow keys move through
  time, Shift and arrow keys mark a range, and Enter opens the jobs of this range. `+` and `-` zoom.
* **Incidents**: the page of an [incident](incidents.md) shows its events, earlier changes, and the person who takes care of it.
* **Personal data**: admins search the data of jobs for a person, and [erase](personal_data.md) values and logs.
* **Namespaces**: the page lists all [namespaces](growth.md), the worst first, and their stores. If there is more than one namespace,
  the header names the current one, and `g N` (with Shift) switches to another. Every page and link of a namespace is below
  `/ns/NAME/`.
* **Sessions**: if your session ends, you log in again in a dialog, and the form keeps your text.
* **API**: the [HTTP API](../openapi/) can do everything that the UI does. You can copy lists, jobs and forms as `curl`
  commands.
"""


def document(all_shots: Sequence[Shot]) -> str:
    """Return docs/ui.md: what each page is for, with its pictures, if the repository keeps some."""
    parts = (
        "\n\n".join(part for part in (f"## {shot.title}", shot.purpose, _images(shot)) if part) + "\n"
        for shot in all_shots
    )
    return "\n".join((INTRODUCTION, *parts))


def _images(shot: Shot) -> str:
    """Return the page in the reader's theme, if both are kept, beside its phone version."""
    found = []
    for size, width, where in ((DESKTOP, "72%", "on a desktop"), (PHONE, "24%", "on a phone")):
        light, dark = (f"{shot.slug}-{theme}-{size[0]}" for theme in ("light", "dark"))
        if light in KEPT:
            image = f'<img src="ui/{light}.webp" alt="{shot.title} {where}" width="{width}" valign="top">'
            source = f'<source media="(prefers-color-scheme: dark)" srcset="ui/{dark}.webp">'
            found.append(f"<picture>{source}{image}</picture>" if dark in KEPT else image)
    return "\n".join(found)


async def _main(minutes: float, into: Path) -> None:
    async with busy_system(minutes, prepare=add_objects) as system, async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        await take(system, browser, into / "ui")
        await browser.close()
        (into / "ui.md").write_text(document(shots(system.ids)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="make pictures", description=__doc__)
    parser.add_argument("--minutes", type=float, default=4, help="how long the system works before")
    parser.add_argument("--into", type=Path, default=ROOT / "docs", help="folder of ui.md and ui/")
    options = parser.parse_args()
    # The handlers fail loudly on purpose. Job logs keep their lines.
    logging.getLogger().addHandler(logging.NullHandler())
    asyncio.run(_main(options.minutes, options.into))
