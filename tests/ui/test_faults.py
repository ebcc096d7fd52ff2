"""Faults appear on the Overview soon after they begin and stay until they are over: those of a real queue, and those
that a test can only simulate."""

import asyncio
import contextlib
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from playwright.async_api import Browser, Page, Route, expect

from jqmaster.domain.operations.health import judge
from jqmaster.domain.operations.health_facts import LongWait
from jqmaster.service.operations import health
from tests.support import real_time
from tests.support.findings import as_answered, one_of_each
from tests.support.master import Api, master_on
from tests.support.server import StoreServer
from tests.ui.conftest import Screens, worker_on

pytestmark = [pytest.mark.req("J15"), pytest.mark.asyncio(loop_scope="session"), real_time.BROWSER]

LONG_S = 600
# A fault appears on the Overview within this time.
TOLD_WITHIN_MS = 10_000


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
        over["No live worker runs jobs named nobody.runs.this: 1 waits."] = lambda: _cancel(api, [orphan])

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
        failing = _fault(page, "3 jobs named ui.fail failed in the last hour")
        await expect(failing).to_be_visible()
        await failing.get_by_role("button", name="Acknowledge").click()
        await expect(failing).to_have_count(0)
        await asyncio.gather(*(end() for end in over.values()))
        for text in over:
            await expect(_fault(page, text)).to_have_count(0)


NOBODYS = "01a00000-0000-7000-8000-000000000000"
PRETENDED: dict[str, tuple[str, dict[str, Any]]] = {
    "no leader": ("No master leads", {"has_leader": False}),
    "a silent master": ("1 master is silent.", {"stale_masters": 1}),
    "a store that is frozen": (
        "New jobs are refused: the disk is full",
        {"store_faults": ["the disk is full"]},
    ),
    "less durability": (
        "The store provides only besteffort, but fsync is configured.",
        {"durability": "fsync", "given_durability": "besteffort", "is_less_durable": True},
    ),
    "little memory": (
        "The store has used 96% of its memory",
        {"memory_bytes": 96_000_000, "max_memory_bytes": 100_000_000},
    ),
    "a slow store": ("The store is slow: it takes 250 ms to answer.", {"latency_ms": 250.0}),
    "a long wait": (
        "A job named mail.send has waited 11 min, although nothing holds it back.",
        {"longest": LongWait(NOBODYS, "mail.send", 11 * 60_000), "fresh_workers": 1},
    ),
    "no worker": ("7 jobs wait, but no worker is live.", {"fresh_workers": 0, "ready": 7}),
}


@contextlib.contextmanager
def pretended(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Let the master judge its facts as changed by the yielded dictionary."""
    changes: dict[str, Any] = {}
    with monkeypatch.context() as patch:
        patch.setattr(health, "judge", lambda facts: judge(replace(facts, **changes)))
        yield changes


async def is_agreed(page: Page) -> None:
    """Assert that the badge of the first line says what the worst row says."""
    row, badge = await page.evaluate(
        """() => {
          const kinds = ["bad", "warn", "info", "ok"];
          const worst = (selector) => kinds.find((kind) => document.querySelector(selector + kind));
          return [worst("li.fault.") ?? "ok", worst("p.health .badge-")];
        }"""
    )
    assert row == badge


async def test_jobs_that_a_limit_holds_back_are_no_fault_of_their_own(screens: Screens) -> None:
    async def held_back(route: Route) -> None:
        answer = await route.fetch()
        stats = await answer.json() | {"oldest_wait_ms": 65 * 60_000, "oldest_startable": None}
        await route.fulfill(response=answer, body=json.dumps(stats))

    async with screens.open("icon.svg") as page:
        # Without the stream, the page requests the figures.
        await page.route("**/api/stream", lambda route: route.abort())
        await page.route("**/api/stats", held_back)
        await page.goto("/#/overview")
        ready = page.locator(".tiles a").filter(has_text="1 h")
        await expect(ready).to_be_visible()
        assert "bad" not in str(await ready.get_attribute("class"))
        await expect(_fault(page, "has waited")).to_have_count(0)


async def test_the_fault_of_a_long_wait_leads_to_the_job_and_colors_its_tile(
    screens: Screens, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pretended(monkeypatch) as changes:
        changes |= PRETENDED["a long wait"][1]
        async with screens.open("#/overview") as page:
            fault = _fault(page, "mail.send")
            await expect(fault).to_have_class(re.compile(r"\bbad\b"), timeout=TOLD_WITHIN_MS)
            link = fault.get_by_role("link", name="Show the job")
            assert str(await link.get_attribute("href")).endswith(f"job?id={NOBODYS}")
            await expect(page.locator(".tiles a").first).to_have_class(re.compile(r"\bbad\b"))
            # If the job waits only for a free slot, nothing is broken, neither in the row nor in the badge.
            changes["longest"] = replace(changes["longest"], cause="All are full.", is_queued=True)
            await expect(fault).to_have_class(re.compile(r"\bwarn\b"), timeout=TOLD_WITHIN_MS)
            await expect(page.locator("p.health")).to_contain_text("Degraded")


async def test_the_first_line_counts_the_problems_that_the_page_lists_below(screens: Screens) -> None:
    async with screens.open() as page:
        texts = await page.evaluate("""async () => {
            const { countsOf } = await import("./operations/health_line.js");
            const [bad, warn, info] = ["bad", "warn", "info"].map((severity) => ({ severity }));
            return [[bad, bad, warn, info], [bad], [warn], []].map(countsOf);
        }""")
    assert texts == ["2 critical problems, 1 warning", "1 critical problem", None, None]


async def test_faults_of_store_and_masters_are_told_until_they_are_over(
    browser: Browser, store_server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without a worker, it is clear why a job waits long.
    alone = {"no worker"}
    async with (
        master_on(store_server.url) as (master, _),
        Screens(browser, master.server.url).open("#/overview") as page,
    ):
        with pretended(monkeypatch) as changes:
            for told in (PRETENDED.keys() - alone, {"a slow store"}, alone, set[str]()):
                changes.clear()
                for what in told:
                    changes |= PRETENDED[what][1]
                async with asyncio.timeout(TOLD_WITHIN_MS / 1000):
                    for what, (text, _) in PRETENDED.items():
                        await expect(_fault(page, text)).to_have_count(
                            int(what in told), timeout=TOLD_WITHIN_MS
                        )
                await is_agreed(page)


async def test_each_finding_has_its_text_in_both_languages_and_leads_to_its_cause(screens: Screens) -> None:
    findings = [as_answered(finding) for finding in one_of_each().values()]
    told = {}
    for locale in ("en-GB", "ja-JP"):
        async with screens.open(locale=locale) as page:
            told[locale] = await page.evaluate(
                """async (findings) => {
                const { findingText, linkOf } = await import("./operations/findings.js");
                return findings.map((one) => [findingText(one), linkOf(one)?.href ?? ""]);
                }""",
                findings,
            )
    for finding, (english, link), (japanese, _) in zip(findings, *told.values(), strict=True):
        for text in (english, japanese):
            assert not re.search(r"[{}]|undefined|null|NaN|health\.", text), text
        assert english != japanese
        assert re.search(r"[\u3040-\u30ff]", japanese), japanese
        # No English sentence of the master is left in it.
        assert not re.search(r"[a-z]+ [a-z]+ [a-z]+", japanese.replace("the disk is full", "")), japanese
        # Nothing of the page shows more of these than the first line does.
        assert bool(link) is (finding["code"] not in {"durability", "memory", "latency", "store_away"})
    links = {finding["code"]: link for finding, (_, link) in zip(findings, told["en-GB"], strict=True)}
    assert links["orphan"] == "#/jobs?state=ready&name=mail"
    assert links["dead_worker"] == links["replaced_worker"] == "#/workers?id=w-7"
    texts = {finding["code"]: text for finding, (text, _) in zip(findings, told["en-GB"], strict=True)}
    ago = r"last heard .* ago"
    for code, expected in {
        "late_leader": rf"The leader node-1 is late: {ago}\.|The leader node-1 is late: last heard in .*\.",
        "dead_worker": r"Worker node-2:7 is detached: last heard .*, 3 jobs still assigned\.",
        "replaced_worker": r"Worker node-2:7 ended, last heard .*; node-2:8 took its place\.",
        "growth": r"The backlog grew from 200 to 650 jobs in 10 minutes\.",
        "failing": r"42 jobs named mail failed in the last hour \(6%\)\. A new kind of failure \(timeout\) began .* on "
        r"version 2\.3 of its workers\.",
        "wait": r"A job named mail has waited 11 min\. None of the 2 live workers for jobs named mail takes a job now: "
        r"1 full, 1 draining\.",
        "skipping_definition": r"Definition nightly has skipped its last 3 runs and starts no jobs: .*\.",
        "full": r"Constraint mails is full at 2 of 5 values: 9 jobs wait for it\. 4 of them wait for globex\. "
        r"1 of 1 slots are taken\. It has held jobs for .*\.",
        "pause": r"Paused: jobs named mail, .* by .*ana\. 340 jobs wait\. “deploy” It ends .*\.",
        "paused": r"Constraint mails is paused; last changed .*\. 340 jobs wait\. “deploy” It ends .*\.",
        "paused_values": r"Constraint mails: 1 value is paused \(globex\); last changed .*\. 340 jobs wait\. .*",
    }.items():
        assert re.fullmatch(expected, texts[code]), (code, texts[code])


async def test_faults_that_come_and_go_move_nothing(
    browser: Browser, store_server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        master_on(store_server.url) as (master, _),
        Screens(browser, master.server.url).open("#/overview") as page,
    ):
        tiles = page.locator(".tiles")
        await expect(tiles).to_be_visible()
        await expect(page.locator("main [aria-busy=true]")).to_have_count(0)
        before = await tiles.bounding_box()
        places = []
        with pretended(monkeypatch) as changes:
            for count in (2, 3, 0):
                changes.clear()
                for _, more in list(PRETENDED.values())[:count]:
                    changes |= more
                await expect(page.locator("li.fault")).to_have_count(count, timeout=TOLD_WITHIN_MS)
                places.append(await tiles.bounding_box())
        two, three, none = places
        assert two == before
        # A third fault makes room for itself, and that room stays.
        assert none == three != before


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
                "by local. 2 jobs wait. “the provider is down” Nothing is broken.",
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
        await page.route("**/api/health", slow)
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
