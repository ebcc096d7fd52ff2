"""Operator tasks with pointer and keys on a live queue: twenty jobs a second, 150 ms per key. Several people do them at
the same time on one queue. API calls only prepare a task and check its effect."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from playwright.async_api import Browser, Locator, Page, expect
from playwright.async_api import Error as PlaywrightError

from jqmaster.app import Master
from jqmaster.domain.ids import new_id
from jqmaster.domain.workers.worker_figures import MIN_ATTEMPTS
from tests.api.challenges.test_forms import FORM
from tests.api.definitions.test_definitions import skip
from tests.support import real_time
from tests.support.mail_server import MailServer, mail_server
from tests.support.master import PATIENT, Api, forget, master_on
from tests.support.ports import free_port
from tests.support.scripted_worker import ScriptedWorker, puller_at
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from tests.ui.conftest import worker_on
from tests.ui.people import PASSWORD, live_queue, logged_in, typed
from tests.ui.test_challenge_page import asked
from worker_sdk import Context, Middleware, Worker

pytestmark = [
    pytest.mark.req("D21", "J15"),
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(300),
    real_time.BROWSER,
]

ADMIN = "the-admins-token-0123456789"
MANY = 163
# How many people work at the same time: the machine has few cores.
PEOPLE = 2
LONG_S = 600
# A label of one of the two workers: the other one has no long jobs, and can be drained.
SLOW_LINE = {"line": "slow"}

ONCALL = "oncall@shop.example"


@dataclass
class Queue:
    """A live queue that several people look after. `broken` holds what fails for now."""

    master: Master
    api: Api
    url: str
    browser: Browser
    mails: MailServer
    asker: ScriptedWorker
    broken: set[Any] = field(default_factory=set)


class Slow(Middleware):
    """Slow down each job of a worker."""

    async def around_async_job(self, ctx: Context) -> AsyncIterator[None]:
        await asyncio.sleep(0.1)
        yield


def toast(page: Page, text: str | re.Pattern[str]) -> Locator:
    return page.locator(".toast").filter(has_text=text).last


# --- jobs: each task begins on any page of a logged-in user


async def why_does_a_job_wait(page: Page, queue: Queue) -> None:
    await page.goto("/#/jobs?state=ready")
    await typed(page.get_by_label("Name", exact=True), "slow.partner")
    rows = page.locator("tbody tr")
    await expect(page.locator(".matches")).to_have_text("2 jobs match")
    await rows.first.locator("a").first.click()
    first = page.locator(".verdicts .first")
    await expect(first).to_contain_text("Waits for constraint partner: 1 of 1 slots are taken")
    await expect(first).to_contain_text(
        "The constraint holds back 2 jobs, including those that are not due yet."
    )
    await page.get_by_role("link", name="Show the constraint").click()
    await expect(page.get_by_text("2 of 2 waiting jobs are held back")).to_be_visible()


async def retry_the_failures_of_the_last_minutes(page: Page, queue: Queue) -> None:
    await page.goto("/#/jobs?state=failed")
    await typed(page.get_by_label("Name", exact=True), "task.broken")
    await page.get_by_label("Finished in the last").select_option("10m")
    await expect(page.locator(".matches")).to_have_text("3 jobs match")
    await expect(page.locator("tbody tr").first).to_contain_text("card 1 was refused")
    await page.get_by_role("button", name="select all that match").click()
    await page.get_by_role("button", name="Retry…").click()
    await page.get_by_role("dialog").get_by_role("button", name="Retry (3)").click()
    await expect(page.locator(".action").filter(has_text="3 done / 3")).to_be_visible()


async def set_the_priority_of_many(page: Page, queue: Queue) -> None:
    await page.goto("/#/jobs?state=scheduled")
    await typed(page.get_by_label("Tag", exact=True), "nightly")
    await expect(page.locator(".matches")).to_have_text(f"{MANY} jobs match")
    await page.get_by_role("button", name="select all that match").click()
    await page.get_by_role("button", name="Set priority…").click()
    dialog = page.get_by_role("dialog")
    await typed(dialog.get_by_label("Priority"), "-40")
    await dialog.get_by_role("button", name=f"Set priority ({MANY})").click()
    await expect(page.locator(".action").filter(has_text=f"{MANY} done / {MANY}")).to_be_visible()
    jobs = (await queue.api.call("GET", "/api/jobs?tag=nightly&limit=5"))[1]["jobs"]
    assert {job["priority"] for job in jobs} == {-40}


async def read_a_nested_argument(page: Page, queue: Queue) -> None:
    job = await queue.api.enqueue(
        "task.nested",
        {"order": {"lines": [{"sku": "a-1", "blob": b"\x00\x01"}], "big": 2**53 + 1}},
        delay=3600,
    )
    await page.goto("/#/overview")
    await page.get_by_role("search").get_by_label("Search jobs").click()
    # As people paste an ID. All of them have one clipboard here.
    await page.keyboard.insert_text(job)
    await page.keyboard.press("Enter")
    await expect(page.locator(".v-num").get_by_text(str(2**53 + 1))).to_be_visible()
    await page.get_by_role("button", name="Expand all").click()
    await expect(page.locator(".v-text").get_by_text("a-1")).to_be_visible()
    await expect(page.locator(".hex").first).to_contain_text("00 01")


async def find_the_p99_of_a_name(page: Page, queue: Queue) -> None:
    await page.goto("/#/names")
    await typed(page.get_by_label("Name contains"), "ui.ec")
    await page.locator("tbody tr").filter(has_text="ui.echo").get_by_role("link", name="ui.echo").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("ui.echo")
    wait = page.locator(".card").filter(has=page.get_by_role("heading", name="Wait times"))
    await expect(wait).to_contain_text(re.compile(r"p99\D*[\d.,]+ (ms|s)"))


async def send_the_link_of_a_filtered_view(page: Page, queue: Queue) -> None:
    await page.goto("/#/jobs")
    await typed(page.get_by_label("Tag", exact=True), "shared")
    await expect(page.locator("tbody tr")).to_have_count(2)
    await page.get_by_role("button", name="Copy link").click()
    link = await page.evaluate("navigator.clipboard.readText()")
    other = await page.context.new_page()
    await other.goto(link)
    await expect(other.locator("tbody tr")).to_have_count(2)
    await other.close()


async def follow_a_log_and_find_its_error(page: Page, queue: Queue) -> None:
    job = await queue.api.enqueue("task.talks", None, timeout=LONG_S)
    await page.goto(f"/#/job?id={job}")
    log = page.locator("section.job-log")
    await expect(log).to_contain_text("line 40 of the import")
    await typed(log.get_by_role("searchbox"), "refused")
    await expect(log.locator(".log-line")).to_have_count(1)
    await expect(log.locator(".log-line")).to_contain_text("the bank refused card 7")
    await typed(log.get_by_role("searchbox"), " ")
    await log.get_by_label("From level").select_option("error")
    await expect(log.locator(".log-line")).to_have_count(1)
    # It goes on while somebody looks.
    await log.get_by_label("From level").select_option("debug")
    before = await log.locator(".log-line").count()
    await expect(log.locator(".log-line").nth(before)).to_be_visible()


# --- limits and workers


async def pause_one_tenant(page: Page, queue: Queue) -> None:
    await page.goto("/#/constraints?name=tenants")
    await typed(page.get_by_label("Show one value"), "acme")
    row = page.locator(".keys-list > li").filter(has_text="acme")
    await row.get_by_role("button", name=re.compile("^Pause")).click()
    dialog = page.get_by_role("dialog")
    await typed(dialog.get_by_label("Reason"), "invoice run")
    await dialog.get_by_role("button", name="Pause", exact=True).click()
    await expect(dialog).to_have_count(0)
    await page.get_by_role("link", name="Overview").click()
    fault = page.locator("li.fault").filter(has_text="invoice run")
    await expect(fault).to_contain_text("acme")
    await page.goto("/#/constraints")
    await page.locator(".paused-now li").filter(has_text="acme").get_by_role("button", name="Resume").click()
    await page.get_by_role("link", name="Overview").click()
    await expect(fault).to_have_count(0)


async def pause_for_thirty_minutes_and_take_it_back(page: Page, queue: Queue) -> None:
    await page.goto("/#/names?name=ui.fail")
    await page.get_by_role("button", name=re.compile("^Pause")).first.click()
    dialog = page.get_by_role("dialog")
    await typed(dialog.get_by_label("Reason"), "GDPR")
    await typed(dialog.get_by_label("For"), "30m")
    await expect(dialog).to_contain_text("in 30 min")
    await dialog.get_by_role("button", name="Pause", exact=True).click()
    await expect(dialog).to_have_count(0)

    async def is_there() -> bool:
        found = (await queue.api.call("GET", "/api/constraints"))[1]["constraints"]
        return any(one["name"].startswith("pause-") and one["reason"] == "GDPR" for one in found)

    assert await is_there()
    await toast(page, "ui.fail").get_by_role("button", name="Undo").click()
    await expect(toast(page, "The pause has ended.")).to_be_visible()

    # The words may still be those of an earlier pause.
    async def is_over() -> bool:
        return not await is_there()

    await wait_until(is_over, what="the pause is taken back")


async def see_which_worker_is_slow(page: Page, queue: Queue) -> None:
    await page.goto("/#/workers")
    slow = page.locator("tbody tr").filter(has=page.locator(".badge", has_text=re.compile("^slow$")))
    await expect(slow).to_have_count(1, timeout=60_000)
    await expect(slow).to_contain_text("vm-7")
    await page.get_by_role("button", name="Run p50").click()
    await expect(page.locator("tbody tr").first).to_contain_text("vm-7")


async def drain_a_version(page: Page, queue: Queue) -> None:
    await page.goto("/#/workers")
    await page.get_by_role("navigation", name="Group by").get_by_role("link", name="Version").click()
    row = page.locator("tbody tr").filter(has_text="1.9.0")
    await row.get_by_role("button", name=re.compile("^Drain")).click()
    await page.get_by_role("dialog").get_by_role("button", name=re.compile("^Drain")).click()
    told = page.get_by_text("Drained: safe to stop.")
    await expect(told).to_be_visible()
    await page.get_by_role("button", name=re.compile("^Resume")).first.click()
    await expect(told).to_have_count(0)


async def see_who_changed_a_constraint(page: Page, queue: Queue) -> None:
    await page.goto("/#/constraints?name=partner")
    changes = page.locator("section").filter(has=page.get_by_role("heading", name="Changes"))
    await expect(changes.locator("li").first).to_contain_text("ada")
    await expect(changes.locator("li").first).to_contain_text("concurrency")


# --- definitions, events, batches and flows


async def run_a_job_on_weekdays_in_tokyo(page: Page, queue: Queue) -> None:
    await page.goto("/#/definitions")
    await page.get_by_role("button", name="New definition").click()
    dialog = page.get_by_role("dialog")
    await typed(dialog.get_by_label("Name", exact=True), "payroll")
    await dialog.get_by_label("How often").select_option("weekly")
    await dialog.get_by_role("button", name="Mon–Fri").click()
    # Both are there already, for somebody in Tokyo.
    await expect(dialog.get_by_label("Time zone")).to_have_value("Asia/Tokyo")
    await expect(dialog.get_by_label("Time", exact=True)).to_have_value("02:30")
    await typed(dialog.get_by_label("Job name"), "ui.echo")
    coming = dialog.locator(".coming tbody tr")
    await expect(coming).to_have_count(10)
    for text in await coming.all_text_contents():
        assert re.match(r"(Mon|Tue|Wed|Thu|Fri) \S+ 02:30 \(\+09:00\)", text), text
    await dialog.get_by_role("button", name="Create").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("payroll")
    made = (await queue.api.call("GET", "/api/definitions/payroll"))[1]
    days = ["mon", "tue", "wed", "thu", "fri"]
    assert (made["schedule"], made["time_zone"]) == ({"weekly_on": days, "at": "02:30"}, "Asia/Tokyo")


async def see_why_a_definition_did_not_run(page: Page, queue: Queue) -> None:
    document = {"job": {"name": "task.nobody"}, "schedule": {"daily_at": "02:30"}, "overlap": "forbid"}
    assert (await queue.api.call("PUT", "/api/definitions/reports", document))[0] == 201
    job = (await queue.api.call("POST", "/api/definitions/reports/run"))[1]["id"]
    await skip(queue.master, "reports", 3)
    await page.goto("/#/overview")
    fault = page.locator(".fault").filter(has_text="Definition reports has skipped its last 3 runs")
    await fault.get_by_role("link", name="Definitions").click()
    why = page.get_by_role("region", name="Why it starts no jobs")
    await expect(why).to_contain_text("the earlier job had not finished")
    await expect(why).to_contain_text("No worker is registered")
    await why.locator(f"a[href*='{job}']").click()
    await expect(page.locator("code.id")).to_have_text(job)


async def send_a_test_event(page: Page, queue: Queue) -> None:
    document = {"kind": "event", "event_type": "order.paid", "job": {"name": "ui.echo"}}
    assert (await queue.api.call("PUT", "/api/definitions/receipts", document))[0] == 201
    event = {"event_type": "order.paid", "payload": {"order": 17, "total": 99}}
    assert (await queue.api.call("POST", "/api/events", event))[0] == 202
    await page.goto("/#/definitions?name=receipts")
    await page.get_by_role("button", name="Send a test event").click()
    dialog = page.get_by_role("dialog")
    # It begins with the newest event of this type.
    await expect(dialog.get_by_label("Payload")).to_have_value(re.compile('"order": 17'))
    await typed(dialog.get_by_label("Payload"), '{"order": 18}')
    await dialog.get_by_role("button", name="Send an event").click()
    await expect(toast(page, "it started 1 job.")).to_be_visible()
    await expect(page.locator(".effects li")).to_contain_text("Succeeded")


async def retry_the_failed_jobs_of_a_batch(page: Page, queue: Queue) -> None:
    queue.broken |= {"photo 3", "photo 9"}
    jobs = [{"name": "task.photo", "argument": f"photo {n}", "max_retry": 0} for n in range(40)]
    held = [{"name": "task.held", "argument": n} for n in range(2)]
    publish = {"name": "ui.echo", "argument": "the album"}
    batches = []
    for some, text in ((jobs, "Photos of album 7"), (held, "Invoices of May")):
        batch = {"id": new_id(), "description": text, "on_success": publish}
        status, _ = await queue.api.call("POST", "/api/jobs/bulk", {"jobs": some, "batch": batch})
        assert status == 201
        batches.append(batch["id"])
    await page.goto("/#/batches")
    await typed(page.get_by_label("ID or description contains"), "invoices")
    await page.get_by_role("link", name="Invoices of May").click()
    why = page.locator(".why")
    await expect(why).to_contain_text(re.compile("2 paused by .*: May is not closed"))
    await page.goto("/#/batches")
    await typed(page.get_by_label("ID or description contains"), "album")
    await page.get_by_role("link", name="Photos of album 7").click()
    await expect(page.locator(".why")).to_contain_text("2 failed, so on_success was not started")
    await expect(page.locator(".why")).to_contain_text("2 × OSError: photo <n> is cut off")
    queue.broken.clear()
    await page.get_by_role("button", name="Retry failed jobs").click()
    await page.get_by_role("dialog").get_by_role("button", name="Retry failed jobs (2)").click()
    await expect(page.locator(".batch-over")).to_contain_text("40 of 40 jobs finished")
    callbacks = page.locator("section[aria-labelledby=callbacks]")
    await expect(callbacks).to_contain_text("ui.echo enqueued")


async def mend_a_flow_of_sixty_jobs(page: Page, queue: Queue) -> None:
    """Three stages of 20, 20 and 19 jobs and one at the end; two of the middle fail."""
    stages = [[new_id() for _ in range(count)] for count in (20, 20, 19, 1)]
    jobs: list[dict[str, Any]] = []
    for stage, ids in enumerate(stages):
        for n, one in enumerate(ids):
            before = [stages[0][n]] if stage == 1 else [stages[1][n]] if stage == 2 else stages[2]
            after = {"after": {"jobs": before}} if stage else {}
            jobs.append(
                {"name": "flow.step", "id": one, "argument": f"step {stage}.{n}", "max_retry": 0, **after}
            )
    queue.broken |= {"step 1.7", "step 1.11"}
    batch = {"id": new_id(), "description": "ETL of 60 jobs"}
    assert (await queue.api.call("POST", "/api/jobs/bulk", {"jobs": jobs, "batch": batch}))[0] == 201
    await queue.api.until_state(stages[3][0], "skipped", timeout_s=60)
    await page.goto("/#/batches")
    await typed(page.get_by_label("ID or description contains"), "etl")
    await page.get_by_role("link", name="ETL of 60 jobs").click()
    told = page.get_by_role("region", name="Failures of the flow")
    await expect(told).to_contain_text("Failure 1 of 2: flow.step")
    await expect(told).to_contain_text(re.compile(r"step 1\.(7|11) is cut off"))
    seen = [await page.locator(".flow-node.is-failure").get_attribute("data-key")]
    await told.get_by_role("button", name="Next failure").click()
    await expect(told).to_contain_text("Failure 2 of 2:")
    seen.append(await page.locator(".flow-node.is-failure").get_attribute("data-key"))
    assert set(seen) == {stages[1][7], stages[1][11]}
    queue.broken.clear()
    for _ in seen:
        await told.get_by_role("button", name="Retry from here").first.click()
        await expect(toast(page, "runs again")).to_be_visible()
        await page.wait_for_timeout(0)
        await page.keyboard.press("n")
    await expect(page.locator(".batch-over")).to_contain_text("60 of 60 jobs finished")
    await expect(told).to_have_count(0)


# --- people, tokens and notices


async def add_a_viewer(page: Page, queue: Queue) -> None:
    await page.goto("/#/access")
    await page.get_by_role("button", name="New user").click()
    dialog = page.get_by_role("dialog")
    await typed(dialog.get_by_label("User", exact=True), "vera")
    await typed(dialog.get_by_label("Password", exact=True), PASSWORD)
    await dialog.get_by_label("Role").select_option("viewer")
    await dialog.get_by_role("button", name="Add").click()
    await expect(page.get_by_role("row").filter(has_text="vera")).to_contain_text("viewer")
    async with httpx.AsyncClient(base_url=queue.url, trust_env=False) as http:
        login = await http.post("/api/session", json={"user": "vera", "password": PASSWORD})
        assert (login.status_code, login.json()["role"]) == (201, "viewer")


async def rotate_a_token(page: Page, queue: Queue) -> None:
    made = (await queue.api.call("POST", "/api/tokens", {"label": "Grafana", "scopes": ["read"]}))[1]
    await page.goto("/#/access")
    rows = page.get_by_role("row").filter(has_text="Grafana")
    await rows.get_by_role("button", name="Rotate").click()
    dialog = page.get_by_role("dialog")
    await typed(dialog.get_by_label("Overlap"), "2h")
    await dialog.get_by_role("button", name="Rotate").click()
    token = dialog.locator("code, pre").last
    await expect(token).not_to_be_empty()
    text = (await token.text_content() or "").strip()
    await dialog.get_by_role("button", name="Close").last.click()
    await expect(rows).to_have_count(2)
    # One sees which of the two is the old one.
    await expect(rows.filter(has_text="replaced")).to_have_count(1)
    await expect(rows.filter(has_text="replaced")).to_contain_text("in 2 h")
    for one in (made["token"], text):
        other = Api(queue.url, one)
        assert (await other.call("GET", "/api/jobs?limit=1"))[0] == 200
        await other.http.aclose()


async def answer_a_question_on_a_phone(_: Page, queue: Queue) -> None:
    """Without a login, and without scripts."""
    opened = await asked(queue.api, queue.asker, "people.asked", timeout_s=LONG_S, form=FORM)
    context = await queue.browser.new_context(
        base_url=queue.url, viewport={"width": 390, "height": 844}, java_script_enabled=False
    )
    try:
        page = await context.new_page()
        await page.goto(f"/callbacks/{opened['request_id']}")
        await expect(page.get_by_role("heading", name="Refund order 42?")).to_be_visible()
        amount = page.get_by_label("Amount")
        await expect(amount).to_have_attribute("inputmode", "decimal")
        await typed(amount, "7.5")
        await page.get_by_role("button", name="Approve").click()
        await expect(page.get_by_role("status")).to_contain_text("Your answer is recorded.")
    finally:
        await context.close()


async def be_told_of_one_name_by_mail(page: Page, queue: Queue) -> None:
    await page.goto("/#/notices")
    await page.get_by_role("button", name="New notice").click()
    dialog = page.get_by_role("dialog")
    await typed(dialog.get_by_label("Name", exact=True), "payments")
    await dialog.get_by_label("Applies to").select_option("some")
    await typed(dialog.get_by_label("Value 1"), "payment.capture")
    await typed(dialog.get_by_label("Mail"), ONCALL)
    await dialog.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("payments")
    await expect(page.locator("main")).to_contain_text("name is payment.capture")
    await page.get_by_role("button", name="Send a test").click()
    await expect(toast(page, "Test of payments sent.")).to_be_visible()
    assert [address for address, _ in await queue.mails.until(1)] == [ONCALL]
    await page.get_by_role("button", name="Mute").click()
    await dialog.get_by_role("button", name="2 h", exact=True).click()
    await dialog.get_by_role("button", name="Mute", exact=True).click()
    await expect(page.get_by_role("button", name="Unmute")).to_be_visible()
    made = (await queue.api.call("GET", "/api/notices/payments"))[1]
    assert made["matcher"] == {"field": "name", "op": "eq", "value": "payment.capture"}
    assert made["muted_until"] is not None


async def erase_what_a_person_left(page: Page, queue: Queue) -> None:
    person = "jose@example.com"
    job = await queue.api.enqueue("ui.echo", {"to": person, "yen": 3}, keep_result=True)
    await queue.api.until_state(job, "succeeded")
    await page.goto("/#/overview")
    await page.keyboard.press("g")
    await page.keyboard.press("x")
    await typed(page.get_by_label("Texts that identify the person"), person)
    await typed(page.get_by_label("Reason"), "request 7")
    await page.get_by_role("button", name="Search", exact=True).click()
    row = page.locator("tbody tr").filter(has_text=job)
    await row.get_by_role("button", name="Erase…").click()
    await page.get_by_role("dialog").get_by_role("button", name="Erase", exact=True).click()
    await expect(toast(page, "2 values erased")).to_be_visible()
    assert (await queue.api.job(job))["argument"] == {"to": "[erased]", "yen": 3}
    # One can also delete the whole job, and is told.
    await row.get_by_role("link").first.click()
    await page.get_by_role("button", name="Delete…").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    await expect(toast(page, "Deleted the job ui.echo.")).to_be_visible()
    assert (await queue.api.call("GET", f"/api/jobs/{job}"))[0] == 404


Task = Callable[[Page, Queue], Awaitable[None]]
# The longest first.
TASKS: dict[str, list[Task]] = {
    "jobs": [
        follow_a_log_and_find_its_error,
        set_the_priority_of_many,
        retry_the_failures_of_the_last_minutes,
        why_does_a_job_wait,
        send_the_link_of_a_filtered_view,
        read_a_nested_argument,
        find_the_p99_of_a_name,
    ],
    "limits and workers": [
        see_which_worker_is_slow,
        pause_one_tenant,
        pause_for_thirty_minutes_and_take_it_back,
        drain_a_version,
        see_who_changed_a_constraint,
    ],
    "definitions, batches and flows": [
        mend_a_flow_of_sixty_jobs,
        retry_the_failed_jobs_of_a_batch,
        run_a_job_on_weekdays_in_tokyo,
        send_a_test_event,
        see_why_a_definition_did_not_run,
    ],
    "people and notices": [
        add_a_viewer,
        be_told_of_one_name_by_mail,
        erase_what_a_person_left,
        rotate_a_token,
        answer_a_question_on_a_phone,
    ],
}


@pytest.mark.parametrize("about", list(TASKS))
async def test_operators_do_their_tasks_on_a_live_queue(
    browser: Browser, store_server: StoreServer, about: str
) -> None:
    async with live(browser, store_server) as queue, contextlib.AsyncExitStack() as people:
        if about in ("jobs", "limits and workers"):
            await _limit_and_fail(queue.api)
        # With the first user, everybody logs in.
        logins = [
            logged_in(browser, queue.url, "ada", PASSWORD, timezone="Asia/Tokyo") for _ in range(PEOPLE)
        ]
        pages = [await people.enter_async_context(login) for login in logins]
        await _do_all(TASKS[about], pages, queue)


async def test_a_form_outlives_the_restart_of_its_master(browser: Browser, store_server: StoreServer) -> None:
    settings: dict[str, Any] = {
        **PATIENT,
        "port": free_port(),
        "shard": "restarted",
        "tokens": [f"admin:{ADMIN}"],
    }
    try:
        async with contextlib.AsyncExitStack() as first:
            master, _ = await first.enter_async_context(master_on(store_server.url, **settings))
            api, url = Api(master.server.url, ADMIN), master.server.url
            await api.call("POST", "/api/users", {"name": "ada", "password": PASSWORD, "role": "admin"})
            waiting = await api.enqueue("task.nested", {}, delay=3600)
            async with logged_in(browser, url, "ada") as page:
                await page.goto(f"/#/job?id={waiting}")
                await page.get_by_role("button", name="Change…").click()
                await typed(page.get_by_label("Priority"), "-9")
                await first.aclose()
                await expect(page.locator(".banner")).to_have_count(1)
                async with master_on(store_server.url, **settings):
                    await expect(page.locator(".banner")).to_have_count(0)
                    await page.get_by_role("dialog").get_by_role("button", name="Save").click()
                    await expect(page.get_by_role("dialog")).to_have_count(0)
                    again = Api(url, ADMIN)
                    assert (await again.job(waiting))["priority"] == -9
                    await again.http.aclose()
            await api.http.aclose()
    finally:
        await forget(store_server.url, "restarted")


@contextlib.asynccontextmanager
async def live(browser: Browser, store_server: StoreServer) -> AsyncIterator[Queue]:
    """Yield a queue with two workers, one of them slow, somebody who asks people, and jobs all the time."""
    async with contextlib.AsyncExitStack() as stack:
        mails = await stack.enter_async_context(mail_server())
        master, _ = await stack.enter_async_context(
            master_on(
                store_server.url,
                **PATIENT,
                tokens=[f"admin:{ADMIN}"],
                smtp_url=f"smtp://127.0.0.1:{mails.port}",
                mail_from="jqmaster@shop.example",
            )
        )
        url = master.server.url
        api = Api(url, ADMIN)
        stack.push_async_callback(api.http.aclose)
        await api.call("POST", "/api/users", {"name": "ada", "password": PASSWORD, "role": "admin"})
        asker = await stack.enter_async_context(puller_at(api, "people.asked"))
        queue = Queue(master, api, url, browser, mails, asker)
        workers = (
            worker_on(url, ADMIN, node_id="vm-1", version="1.9.0"),
            worker_on(url, ADMIN, node_id="vm-7", version="2.0.0", labels=SLOW_LINE, middleware=[Slow()]),
        )
        for worker in workers:
            _more_handlers(worker, queue.broken)
            await stack.enter_async_context(worker.running())
        pause = {"job_name": "task.held", "reason": "May is not closed"}
        assert (await api.call("POST", "/api/pauses", pause))[0] == 201
        await stack.enter_async_context(live_queue(api))
        yield queue


async def _do_all(tasks: list[Task], pages: list[Page], queue: Queue) -> None:
    """Have a person at each page do one task after another, and name each failed task."""
    left = tasks.copy()
    failed: list[str] = []

    async def do_next(page: Page) -> None:
        while left:
            task = left.pop(0)
            try:
                await task(page, queue)
            except (AssertionError, PlaywrightError) as error:
                failed.append(f"{task.__name__}: {error}")
                # The next task must start without this one's leftovers.
                await page.reload()

    async with asyncio.TaskGroup() as people:
        for page in pages:
            people.create_task(do_next(page))
    assert not failed, "\n".join(failed)


def _more_handlers(worker: Worker, broken: set[Any]) -> None:
    @worker.handler("slow.partner")
    async def partner(argument: Any) -> None:
        await asyncio.sleep(LONG_S)

    @worker.handler("task.broken")
    async def refuse(argument: Any) -> None:
        raise ValueError(f"card {argument} was refused")

    @worker.handler("task.talks")
    async def talk(argument: Any, ctx: Context) -> None:
        for number in range(1, 41):
            ctx.logger.info("line %d of the import", number)
        ctx.logger.error("the bank refused card 7")
        for number in range(LONG_S):
            ctx.logger.debug("waits for %d s", number)
            await asyncio.sleep(1)

    @worker.handler("task.photo")
    @worker.handler("flow.step")
    async def step(argument: str) -> None:
        if argument in broken:
            raise OSError(f"{argument} is cut off")


async def _limit_and_fail(api: Api) -> None:
    """Create limits, one changed by a user, jobs that wait for them, and jobs that fail."""
    for name, field_name, value, more in (
        ("partner", "name", "slow.partner", {"concurrency": 4}),
        ("tenants", "name", "ui.echo", {"key": "argument.tenant", "concurrency": 50}),
    ):
        document = {"matcher": {"field": field_name, "op": "eq", "value": value}, **more}
        assert (await api.call("PUT", f"/api/constraints/{name}", document))[0] == 201
    async with httpx.AsyncClient(base_url=str(api.http.base_url), trust_env=False) as http:
        session = (await http.post("/api/session", json={"user": "ada", "password": PASSWORD})).json()
        document = {"matcher": {"field": "name", "op": "eq", "value": "slow.partner"}, "concurrency": 1}
        changed = await http.put(
            "/api/constraints/partner", json=document, headers={"X-CSRF-Token": session["csrf_token"]}
        )
        assert changed.status_code == 200, changed.text
    for _ in range(3):
        await api.enqueue("slow.partner", None, timeout=LONG_S * 2, requires=SLOW_LINE)
    for _ in range(3):
        await api.enqueue("task.broken", 1, max_retry=0)
    jobs: list[dict[str, Any]] = [
        {"name": "task.nightly", "tags": ["nightly"], "delay": 7200.0} for _ in range(MANY)
    ]
    # A worker is compared with others after so many attempts.
    jobs += [{"name": "ui.echo", "requires": SLOW_LINE}] * MIN_ATTEMPTS
    assert (await api.call("POST", "/api/jobs/bulk", {"jobs": jobs}))[0] == 201
    for _ in range(2):
        await api.enqueue("task.nested", {}, tags=["shared"], delay=3600)

    async def is_ready() -> bool:
        counts = await api.counts()
        return counts.get("failed", 0) >= 3 and counts.get("running", 0) >= 1

    await wait_until(is_ready, what="the jobs of the tasks are there")
