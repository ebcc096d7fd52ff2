"""Operator tasks with pointer and keys on a live queue: twenty jobs a second, 150 ms per key. Several run at the same
time, like several people on one queue."""

import asyncio
import contextlib
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest
from playwright.async_api import Browser, Locator, Page, expect
from playwright.async_api import Error as PlaywrightError

from jqmaster.app import running_master
from jqmaster.config import Settings
from tests.support import real_time
from tests.support.master import QUICK, Api, forget
from tests.support.ports import free_port
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from tests.ui.conftest import worker_on
from tests.ui.people import KEY_MS, live_queue, logged_in
from worker_sdk import Context, Middleware

pytestmark = [
    pytest.mark.req("J15"),
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(540),
    pytest.mark.long,
    real_time.BROWSER,
]

ADMIN = "the-admins-token-0123456789"
PASSWORD = "correct horse battery staple"
MANY = 500
# How many people work at the same time: the machine has few cores.
PEOPLE = 3
LONG_S = 600


class Slow(Middleware):
    """Slow down each job of a worker."""

    async def around_async_job(self, ctx: Context) -> AsyncIterator[None]:
        await asyncio.sleep(0.1)
        yield


async def typed(control: Locator, text: str) -> None:
    """Type like a person, and check the resulting text."""
    await control.click()
    await control.press_sequentially(text, delay=KEY_MS)
    await expect(control).to_have_value(text)


# --- the tasks, each on the page of a logged-in user


async def why_does_a_job_wait(page: Page, api: Api) -> None:
    await page.goto("/#/jobs?state=ready")
    await typed(page.get_by_label("Name", exact=True), "slow.partner")
    rows = page.locator("tbody tr")
    await expect(page.locator(".matches")).to_have_text("2 jobs match")
    await rows.first.locator("a").first.click()
    first = page.locator(".verdicts .first")
    await expect(first).to_contain_text("Waits for constraint partner: 1 of 1 slots are taken")
    await expect(first).to_contain_text("1 other job waits for it.")
    await page.get_by_role("link", name="Show the constraint").click()
    await expect(page.get_by_text("2 of 2 waiting jobs are held back")).to_be_visible()


async def retry_the_failures_of_the_last_minutes(page: Page, api: Api) -> None:
    await page.goto("/#/jobs?state=failed")
    await typed(page.get_by_label("Name", exact=True), "task.broken")
    await page.get_by_label("Finished in the last").select_option("10m")
    await expect(page.locator(".matches")).to_have_text("3 jobs match")
    await expect(page.locator("tbody tr").first).to_contain_text("card 1 was refused")
    await page.get_by_role("button", name="select all that match").click()
    await page.get_by_role("button", name="Retry…").click()
    await page.get_by_role("dialog").get_by_role("button", name="Retry (3)").click()
    await expect(page.locator(".action").filter(has_text="3 done / 3")).to_be_visible()


async def pause_one_tenant(page: Page, api: Api) -> None:
    await page.goto("/#/constraints?name=tenants")
    await typed(page.get_by_label("Show one value"), "acme")
    row = page.locator(".keys-list > li").filter(has_text="acme")
    await row.get_by_role("button", name=re.compile("^Pause")).click()
    dialog = page.get_by_role("dialog")
    await typed(dialog.get_by_label("Reason"), "invoice run")
    await dialog.get_by_role("button", name="Pause").click()
    await expect(dialog).to_have_count(0)
    await page.get_by_role("link", name="Overview").click()
    fault = page.locator("li.fault").filter(has_text="invoice run")
    await expect(fault).to_contain_text("acme")
    await page.goto("/#/constraints")
    await page.locator(".paused-now li").filter(has_text="acme").get_by_role("button", name="Resume").click()
    await page.get_by_role("link", name="Overview").click()
    await expect(fault).to_have_count(0)


async def see_which_worker_is_slow(page: Page, api: Api) -> None:
    await page.goto("/#/workers")
    slow = page.locator("tbody tr").filter(has=page.locator(".badge", has_text=re.compile("^slow$")))
    await expect(slow).to_have_count(1)
    await expect(slow).to_contain_text("vm-7")
    await page.get_by_role("button", name="Run p50").click()
    await expect(page.locator("tbody tr").first).to_contain_text("vm-7")


async def drain_a_worker(page: Page, api: Api) -> None:
    await page.goto("/#/workers")
    await page.locator("tbody tr").filter(has_text="drain-me").locator("a").first.click()
    await page.get_by_role("button", name="Drain").first.click()
    await expect(page.get_by_role("button", name="Resume")).to_be_visible()
    await page.get_by_role("button", name="Resume").click()
    await expect(page.get_by_role("button", name="Drain").first).to_be_visible()


async def set_the_priority_of_many(page: Page, api: Api) -> None:
    await page.goto("/#/jobs?state=scheduled")
    await typed(page.get_by_label("Tag", exact=True), "nightly")
    await expect(page.locator(".matches")).to_have_text(f"{MANY} jobs match")
    await page.get_by_role("button", name="select all that match").click()
    await page.get_by_role("button", name="Set priority…").click()
    dialog = page.get_by_role("dialog")
    priority = dialog.get_by_label("Priority")
    await priority.fill("")
    await typed(priority, "-40")
    await dialog.get_by_role("button", name=f"Set priority ({MANY})").click()
    await expect(page.locator(".action").filter(has_text=f"{MANY} done / {MANY}")).to_be_visible()
    jobs = (await api.call("GET", "/api/jobs?tag=nightly&limit=5"))[1]["jobs"]
    assert {job["priority"] for job in jobs} == {-40}


async def read_a_nested_argument(page: Page, api: Api) -> None:
    job = await api.enqueue(
        "task.nested",
        {"order": {"lines": [{"sku": "a-1", "blob": b"\x00\x01"}], "big": 2**53 + 1}},
        delay=3600,
    )
    search = page.get_by_role("search").get_by_label("Search jobs")
    await page.goto("/#/overview")
    await typed(search, job)
    await page.keyboard.press("Enter")
    await expect(page.locator(".v-num").get_by_text(str(2**53 + 1))).to_be_visible()
    await page.get_by_role("button", name="Expand all").click()
    await expect(page.locator(".v-text").get_by_text("a-1")).to_be_visible()
    await expect(page.locator(".hex").first).to_contain_text("00 01")


async def find_the_p99_of_a_name(page: Page, api: Api) -> None:
    await page.goto("/#/names")
    await typed(page.get_by_label("Name contains"), "ui.ec")
    await page.locator("tbody tr").filter(has_text="ui.echo").get_by_role("link", name="ui.echo").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("ui.echo")
    wait = page.locator(".card").filter(has=page.get_by_role("heading", name="Wait times"))
    await expect(wait).to_contain_text(re.compile(r"\d (ms|s)"))


async def see_who_changed_a_constraint(page: Page, api: Api) -> None:
    await page.goto("/#/constraints?name=partner")
    changes = page.locator("section").filter(has=page.get_by_role("heading", name="Changes"))
    await expect(changes.locator("li").first).to_contain_text("user:ada")
    await expect(changes.locator("li").first).to_contain_text("concurrency")


async def add_a_viewer(page: Page, api: Api) -> None:
    await page.goto("/#/access")
    await page.get_by_role("button", name="New user").click()
    dialog = page.get_by_role("dialog")
    await typed(dialog.get_by_label("User", exact=True), "vera")
    await typed(dialog.get_by_label("Password", exact=True), PASSWORD)
    await dialog.get_by_label("Role").select_option("viewer")
    await dialog.get_by_role("button", name="Create").or_(dialog.get_by_role("button", name="Add")).click()
    await expect(page.get_by_role("row").filter(has_text="vera")).to_contain_text("viewer")
    async with httpx.AsyncClient(base_url=str(api.http.base_url), trust_env=False) as http:
        login = await http.post("/api/session", json={"user": "vera", "password": PASSWORD})
        assert (login.status_code, login.json()["role"]) == (201, "viewer")


async def send_the_link_of_a_filtered_view(page: Page, api: Api) -> None:
    await page.goto("/#/jobs")
    await typed(page.get_by_label("Tag", exact=True), "shared")
    await expect(page.locator("tbody tr")).to_have_count(2)
    await page.get_by_role("button", name="Copy link").click()
    link = await page.evaluate("navigator.clipboard.readText()")
    other = await page.context.new_page()
    await other.goto(link)
    await expect(other.locator("tbody tr")).to_have_count(2)
    await other.close()


Task = Callable[[Page, Api], Awaitable[None]]
# The longest first.
TASKS: list[Task] = [
    pause_one_tenant,
    read_a_nested_argument,
    add_a_viewer,
    set_the_priority_of_many,
    retry_the_failures_of_the_last_minutes,
    why_does_a_job_wait,
    see_which_worker_is_slow,
    drain_a_worker,
    send_the_link_of_a_filtered_view,
    find_the_p99_of_a_name,
    see_who_changed_a_constraint,
]


async def test_the_tasks_of_an_operator_on_a_live_queue(browser: Browser, store_server: StoreServer) -> None:
    port, shard = free_port(), f"m{uuid.uuid4().hex[:10]}"
    settings = Settings(
        **{**QUICK, "redis_url": store_server.url, "shard": shard, "port": port, "tokens": [f"admin:{ADMIN}"]}
    )
    url = f"http://127.0.0.1:{port}"
    api = Api(url, ADMIN)
    worker = worker_on(url, ADMIN, node_id="drain-me")
    _more_handlers(worker)
    slow = worker_on(url, ADMIN, node_id="vm-7", middleware=[Slow()])
    _more_handlers(slow)
    try:
        async with contextlib.AsyncExitStack() as first, contextlib.AsyncExitStack() as people:
            await first.enter_async_context(running_master(settings))
            async with worker.running(), slow.running():
                await _set_up(api)
                logins = [logged_in(browser, url, "ada", PASSWORD) for _ in range(PEOPLE)]
                pages = [await people.enter_async_context(login) for login in logins]
                async with live_queue(api):
                    await _do_all(pages, api)
            # The last task: the master restarts while a page is open and a form is half completed.
            page, *others = pages
            for other in others:
                await other.goto("about:blank")
            waiting = await api.enqueue("task.nested", {}, delay=3600)
            await page.goto(f"/#/job?id={waiting}")
            await page.get_by_role("button", name="Change…").click()
            await page.get_by_label("Priority").fill("-9")
            await first.aclose()
            await expect(page.locator(".banner")).to_have_count(1)
            async with running_master(settings):
                await expect(page.locator(".banner")).to_have_count(0)
                await page.get_by_role("dialog").get_by_role("button", name="Save").click()
                await expect(page.get_by_role("dialog")).to_have_count(0)
                again = Api(url, ADMIN)
                assert (await again.job(waiting))["priority"] == -9
                await again.http.aclose()
    finally:
        await api.http.aclose()
        await forget(store_server.url, shard)


async def _do_all(pages: list[Page], api: Api) -> None:
    """Have a person at each page do one task after another, and name each failed task."""
    tasks = TASKS.copy()
    failed: list[str] = []

    async def do_next(page: Page) -> None:
        while tasks:
            task = tasks.pop(0)
            try:
                await task(page, api)
            except (AssertionError, PlaywrightError) as error:
                failed.append(f"{task.__name__}: {error}")
                # The next task must start without this one's leftovers.
                await page.reload()

    async with asyncio.TaskGroup() as people:
        for page in pages:
            people.create_task(do_next(page))
    assert not failed, "\n".join(failed)


def _more_handlers(worker: Any) -> None:
    @worker.handler("slow.partner")
    async def partner(argument: Any) -> None:
        await asyncio.sleep(LONG_S)

    @worker.handler("task.broken")
    async def broken(argument: Any) -> None:
        raise ValueError(f"card {argument} was refused")


async def _set_up(api: Api) -> None:
    await api.call("POST", "/api/users", {"name": "ada", "password": PASSWORD, "role": "admin"})
    for name, field, value, more in (
        ("partner", "name", "slow.partner", {"concurrency": 4}),
        ("tenants", "name", "ui.echo", {"key": "argument.tenant", "concurrency": 50}),
    ):
        document = {"matcher": {"field": field, "op": "eq", "value": value}, **more}
        assert (await api.call("PUT", f"/api/constraints/{name}", document))[0] == 201
    async with httpx.AsyncClient(base_url=str(api.http.base_url), trust_env=False) as http:
        session = (await http.post("/api/session", json={"user": "ada", "password": PASSWORD})).json()
        document = {"matcher": {"field": "name", "op": "eq", "value": "slow.partner"}, "concurrency": 1}
        changed = await http.put(
            "/api/constraints/partner", json=document, headers={"X-CSRF-Token": session["csrf_token"]}
        )
        assert changed.status_code == 200, changed.text
    for _ in range(3):
        await api.enqueue("slow.partner", None, timeout=LONG_S * 2)
    for _ in range(3):
        await api.enqueue("task.broken", 1, max_retry=0)
    jobs = [{"name": "task.nightly", "tags": ["nightly"], "delay": 7200.0} for _ in range(MANY)]
    assert (await api.call("POST", "/api/jobs/bulk", {"jobs": jobs}))[0] == 201
    for _ in range(2):
        await api.enqueue("task.nested", {}, tags=["shared"], delay=3600)

    async def is_ready() -> bool:
        counts = await api.counts()
        return counts.get("failed", 0) >= 3 and counts.get("running", 0) >= 1

    await wait_until(is_ready, what="the jobs of the tasks are there")
