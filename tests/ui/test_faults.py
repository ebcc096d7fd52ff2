"""Faults appear on the Overview soon after they begin and stay until they are over: those of a real queue, and those
that a test can only simulate."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from playwright.async_api import Browser, Page, Route, expect

from tests.support import real_time
from tests.support.master import Api, master_on
from tests.support.server import StoreServer
from tests.ui.conftest import Screens, worker_on

pytestmark = [pytest.mark.req("J15"), pytest.mark.asyncio(loop_scope="session"), real_time.BROWSER]

LONG_S = 600
# A fault appears on the Overview within this time.
TOLD_WITHIN_MS = 10_000
# How often the Overview requests constraints.
FULL_MS = 2_500


def named(name: str) -> dict[str, str]:
    return {"field": "name", "op": "eq", "value": name}


async def _put(api: Api, name: str, **document: Any) -> None:
    assert (await api.call("PUT", f"/api/constraints/{name}", document))[0] == 201


async def _delete(api: Api, name: str) -> None:
    assert (await api.call("DELETE", f"/api/constraints/{name}"))[0] == 204


async def test_faults_of_a_queue_are_told_until_they_are_over(
    browser: Browser, store_server: StoreServer
) -> None:
    async with (
        master_on(store_server.url) as (master, api),
        worker_on(master.server.url).running(),
        Screens(browser, master.server.url).open("#/overview") as page,
    ):
        await expect(page.get_by_text("No problems.")).to_be_visible()
        over: dict[str, Callable[[], Awaitable[Any]]] = {}

        await _put(api, "stopped", matcher=named("nobody.has.this"), paused=True)
        over["Constraint stopped is paused"] = lambda: _delete(api, "stopped")

        values = [{"value": "globex", "paused": True}]
        await _put(api, "tenants", matcher=named("nobody.has.that"), key="argument.tenant", overrides=values)
        over["1 value is paused (globex)"] = lambda: _delete(api, "tenants")

        pause = {"job_name": "mail.send", "reason": "the provider is down", "duration_s": 3600}
        status, made = await api.call("POST", "/api/pauses", pause)
        assert status == 201
        over["the provider is down"] = lambda: _delete(api, made["name"])

        await _put(api, "partner", matcher=named("ui.nap"), concurrency=1)
        naps = [await api.enqueue("ui.nap", LONG_S, timeout=2 * LONG_S) for _ in range(2)]
        over["Constraint partner is full: 1 job waits for it."] = lambda: _cancel(api, naps)

        orphan = await api.enqueue("nobody.runs.this")
        over["nobody.runs.this: 1 job waits, but no live worker runs this name."] = lambda: _cancel(
            api, [orphan]
        )

        status, silent = await api.call(
            "POST",
            "/api/workers",
            {"url": None, "names": ["video.encode"], "max_jobs": 1, "node_id": "vm-3", "secret": "s" * 32},
        )
        assert status == 201
        over["Worker vm-3 is detached"] = lambda: api.call("DELETE", f"/api/workers/{silent['worker_id']}")

        for n in range(3):
            await api.until_state(await api.enqueue("ui.fail", f"no {n}", max_retry=0), "failed")

        for text in over:
            await expect(_fault(page, text)).to_be_visible(timeout=TOLD_WITHIN_MS)
        # Failures of the last hour stay for that hour unless acknowledged.
        failing = _fault(page, "ui.fail: 3 failed in the last hour")
        await expect(failing).to_be_visible()
        await failing.get_by_role("button", name="Acknowledge").click()
        await expect(failing).to_have_count(0)
        await asyncio.gather(*(end() for end in over.values()))
        for text in over:
            await expect(_fault(page, text)).to_have_count(0)


NOBODYS = "01a00000-0000-7000-8000-000000000000"
PRETENDED: dict[str, tuple[str, Callable[[Any], object]]] = {
    "no leader": ("No master leads", lambda s: s["masters"].update(leader_id=None)),
    "a silent master": ("1 master is silent.", lambda s: s["masters"].update(stale=1)),
    "a store that is frozen": (
        "Store: the disk is full",
        lambda s: s["store"].update(faults=["the disk is full"]),
    ),
    "less durability": (
        "The store provides only besteffort, but fsync is configured.",
        lambda s: s["store"].update(durability="fsync", durability_available="besteffort"),
    ),
    "little memory": (
        "The store has used 96% of its memory",
        lambda s: s["store"].update(used_memory_bytes=96_000_000, max_memory_bytes=100_000_000),
    ),
    "a slow store": ("The store takes 250 ms to answer.", lambda s: s["store"].update(latency_ms=250.0)),
    "a long wait": (
        "A job mail.send has waited 11 min, although nothing holds it back.",
        lambda s: s.update(oldest_startable={"job_id": NOBODYS, "name": "mail.send", "wait_ms": 11 * 60_000}),
    ),
    "no worker": (
        "7 jobs wait, but no worker is live.",
        lambda s: (s["workers"].update(fresh=0), s["counts"].update(ready=7)),
    ),
}


@contextlib.asynccontextmanager
async def pretended(page: Page) -> AsyncIterator[list[Callable[[Any], object]]]:
    """Let the page see figures as changed by the yielded functions."""
    present: list[Callable[[Any], object]] = []

    async def pretend(route: Route) -> None:
        answer = await route.fetch()
        stats = await answer.json()
        for change in present:
            change(stats)
        await route.fulfill(response=answer, body=json.dumps(stats))

    # Without the stream, the page requests the figures.
    await page.route("**/api/stream", lambda route: route.abort())
    await page.route("**/api/stats", pretend)
    yield present
    await page.unroute_all(behavior="ignoreErrors")


async def test_jobs_that_a_limit_holds_back_are_no_fault_of_their_own(screens: Screens) -> None:
    async with screens.open("icon.svg") as page, pretended(page) as present:
        present[:] = [lambda s: s.update(oldest_wait_ms=65 * 60_000, oldest_startable=None)]
        await page.goto("/#/overview")
        ready = page.locator(".tiles a").filter(has_text="1 h")
        await expect(ready).to_be_visible()
        assert "bad" not in str(await ready.get_attribute("class"))
        await expect(_fault(page, "has waited")).to_have_count(0)


async def test_the_fault_of_a_long_wait_leads_to_the_job(screens: Screens) -> None:
    async with screens.open("icon.svg") as page, pretended(page) as present:
        present[:] = [PRETENDED["a long wait"][1]]
        await page.goto("/#/overview")
        link = _fault(page, "mail.send").get_by_role("link", name="Show the job")
        assert str(await link.get_attribute("href")).endswith(f"job?id={NOBODYS}")


async def test_jobs_that_no_worker_runs_are_one_fault_which_leads_to_them(screens: Screens) -> None:
    async with screens.open() as page:
        orphaned, served, unserved = await page.evaluate(
            """async (job) => {
            const { faultsOf } = await import("./operations/faults.js");
            const stats = {
              masters: { leader_id: "m1", stale: 0 }, workers: { fresh: 1, stale: 0 }, counts: { ready: 3 },
              store: { durability: "fsync", durability_available: "fsync" },
              oldest_startable: { job_id: job, name: "video.encode", wait_ms: 3_600_000 },
            };
            const orphans = [{ name: "video.encode", ready: 3 }];
            const noWorker = { ...stats, workers: { fresh: 0, stale: 0 } };
            return [[stats, orphans], [stats, []], [noWorker, orphans]].map(([seen, some]) => faultsOf(seen, [], some));
        }""",
            NOBODYS,
        )
    assert [(one["code"], one["act"]) for one in orphaned] == [("orphan", "Show the jobs")]
    assert [(one["code"], one["act"]) for one in served] == [("wait", "Show the job")]
    assert [one["code"] for one in unserved] == ["no_worker"]


async def test_the_first_line_counts_the_problems_that_the_page_lists_below(screens: Screens) -> None:
    async with screens.open() as page:
        texts = await page.evaluate("""async () => {
            const { countsInstead } = await import("./operations/health_line.js");
            const [bad, warn, info] = ["bad", "warn", "info"].map((kind) => ({ kind, code: "orphan" }));
            const lists = [[bad, bad, warn, info], [bad], [warn], []];
            return lists.map((faults) => countsInstead({ code: "orphan" }, faults));
        }""")
    assert texts == ["2 critical problems, 1 warning", "1 critical problem", None, None]


async def test_faults_of_store_and_masters_are_told_until_they_are_over(screens: Screens) -> None:
    # Without a worker, it is clear why a job waits long.
    alone = {"no worker"}
    async with screens.open("icon.svg") as page, pretended(page) as present:
        await page.goto("/#/overview")
        await expect(page.locator(".tiles")).to_be_visible()
        for told in (PRETENDED.keys() - alone, alone, set()):
            present[:] = [change for what, (_, change) in PRETENDED.items() if what in told]
            async with asyncio.timeout(TOLD_WITHIN_MS / 1000):
                for what, (text, _) in PRETENDED.items():
                    await expect(_fault(page, text)).to_have_count(int(what in told), timeout=TOLD_WITHIN_MS)


async def test_faults_that_come_and_go_move_nothing(browser: Browser, store_server: StoreServer) -> None:
    async with (
        master_on(store_server.url) as (master, _),
        Screens(browser, master.server.url).open("icon.svg") as page,
        pretended(page) as present,
    ):
        await page.goto("/#/overview")
        tiles = page.locator(".tiles")
        await expect(tiles).to_be_visible()
        await expect(page.locator("main [aria-busy=true]")).to_have_count(0)
        before = await tiles.bounding_box()
        places = []
        for count in (2, 3, 0):
            present[:] = [change for _, change in list(PRETENDED.values())[:count]]
            await expect(page.locator("li.fault")).to_have_count(count, timeout=TOLD_WITHIN_MS)
            places.append(await tiles.bounding_box())
        two, three, none = places
        assert two == before
        # A third fault makes room for itself, and that room stays.
        assert none == three != before


async def test_a_constraint_that_is_full_for_moments_is_no_fault(screens: Screens) -> None:
    constraint: dict[str, Any] = {
        "name": "partner", "key": None, "enabled": True, "mode": "enforce", "paused": False, "overrides": [],
        "matcher": named("ui.nap"), "changed_at": "2026-10-01T00:00:00Z", "etag": "1",
    }  # fmt: skip
    held = [3, 3, 0, 3, 3, 0]
    asked = 0
    lasts = asyncio.Event()

    async def pretend(route: Route) -> None:
        nonlocal asked
        answer = await route.fetch()
        count = 3 if lasts.is_set() else held[asked % len(held)]
        asked += 1
        usage = {"waiting": count, "running": 1, "held": count, "keys": None, "closed_keys": None}
        body = json.dumps({"constraints": [{**constraint, "usage": usage}]})
        await route.fulfill(response=answer, body=body)

    shown = "[...document.querySelectorAll('li.fault')].some((one) => one.textContent.includes('partner'))"
    async with screens.open("icon.svg") as page:
        await page.clock.install()
        await page.route("**/api/constraints", pretend)
        await page.goto("/#/overview")
        await expect(page.locator(".tiles")).to_be_visible()

        async def look() -> bool:
            async with page.expect_response("**/api/constraints"):
                await page.clock.run_for(FULL_MS)
            await page.clock.run_for(100)
            return bool(await page.evaluate(shown))

        for _ in held:
            assert not await look()
        # A busy page may ask more often than this test looks.
        while held[(asked - 1) % len(held)]:
            assert not await look()
        lasts.set()
        before = asked
        while not await look():
            pass
        assert asked - before >= 2


@pytest.mark.req("D32")
async def test_the_first_line_is_the_verdict_on_the_whole_queue_in_both_languages(
    browser: Browser, store_server: StoreServer
) -> None:
    async with master_on(store_server.url) as (master, api), worker_on(master.server.url).running():
        pause = {"job_name": "ui.echo", "reason": "the provider is down"}
        assert (await api.call("POST", "/api/pauses", pause))[0] == 201
        for _ in range(2):
            await api.enqueue("ui.echo")
        screens = Screens(browser, master.server.url)
        for locale, status, words, before in (
            (
                "en-GB",
                "Waiting",
                "jobs named ui.echo. 2 jobs wait. “the provider is down” Nothing is broken.",
                "On the command line:",
            ),
            (
                "ja-JP",
                "待機あり",
                "2 件のジョブが待っています。 “the provider is down” 異常はありません。",
                "コマンドライン:",
            ),
        ):
            async with screens.open("#/overview", locale=locale) as page:
                line = page.locator("p.health")
                await expect(line).to_contain_text(words, timeout=TOLD_WITHIN_MS)
                await expect(line).to_contain_text(status)
                await expect(line.locator("code")).to_have_text("jqmaster pauses")
                await expect(line).to_contain_text(f"{before} jqmaster pauses")


async def test_the_overview_says_that_all_is_well_only_when_it_knows(screens: Screens) -> None:
    held = asyncio.Event()

    async def slow(route: Route) -> None:
        await held.wait()
        await route.continue_()

    async with screens.open("icon.svg") as page:
        await page.route("**/api/constraints", slow)
        await page.goto("/#/overview")
        # The page does not wait long for slow answers.
        await expect(page.locator(".tiles")).to_be_visible()
        await expect(page.get_by_text("No problems.")).to_have_count(0)
        held.set()
        await expect(page.locator(".faults")).not_to_contain_text("Loading")


def _fault(page: Page, text: str) -> Any:
    return page.locator("li.fault").filter(has_text=text)


async def _cancel(api: Api, jobs: list[str]) -> None:
    for job in jobs:
        await api.call("POST", f"/api/jobs/{job}/cancel")
