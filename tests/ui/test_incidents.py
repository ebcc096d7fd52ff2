"""Incidents are told on one page within seconds and by name, and are over when nothing is left to do."""

import asyncio
import re
import signal
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from jqmaster.app import Master
from jqmaster.domain.operations.timeline import (
    KnownState,
    LeaderCause,
    TimelineEntry,
    TimelineKind,
)
from tests.api.operations.test_masters import follower_of
from tests.support import real_time
from tests.support.master import Api, master_on
from tests.support.scripted_worker import worker_at
from tests.support.server import StoreServer, started
from tests.support.waiting import wait_until
from tests.ui.conftest import Screens
from tests.ui.test_core import accessible, picture

pytestmark = [pytest.mark.req("D21"), pytest.mark.asyncio(loop_scope="session"), real_time.BROWSER]

TOLD_WITHIN_MS = 10_000
STALL_S = 20
DAY_MS = 86_400_000


@dataclass
class Timeline:
    """Writes entries as the leader of a master does."""

    master: Master

    async def add(self, kind: TimelineKind, ago_s: float, subject: str, **fields: Any) -> str:
        """Add an entry that ended this long ago; return its ID."""
        services, leadership = self.master.shard.services, self.master.shard.leader.leadership
        assert leadership
        now_ms, store = await services.store_time_ms(), services.timeline_store
        at_ms = now_ms - round(1000 * ago_s)
        if "lasted_s" in fields:
            fields["since_ms"] = at_ms - 1000 * fields.pop("lasted_s")
        marks = await wait_until(store.known, what="the leader has begun the timeline")
        assert isinstance(marks, KnownState)
        await store.note(leadership.epoch, marks, [TimelineEntry(kind, at_ms, subject, **fields)])
        return (await store.entries())[-1].id


async def story(page: Page) -> list[str]:
    return await page.locator("#story + .story li > span:nth-of-type(2)").all_text_contents()


async def test_an_incident_is_one_story_with_links_causes_and_who_takes_care(
    browser: Browser, store_server: StoreServer
) -> None:
    async with master_on(store_server.url) as (master, api):
        timeline, screens = Timeline(master), Screens(browser, master.server.url)
        old_s = 2 * DAY_MS / 1000
        old = await timeline.add(TimelineKind.STORE_AWAY, old_s, "store", lasted_s=42)
        await timeline.add(TimelineKind.VERSION_NEW, 150, "2.1", label="mail.send")
        waiting = await api.enqueue("mail.send")
        new = await timeline.add(TimelineKind.STORE_AWAY, 100, "store", lasted_s=20)
        await timeline.add(
            TimelineKind.LEADER_CHANGED, 99, "m2", label="rack-2:7", before="rack-1:7", cause=LeaderCause.SILENT,
        )  # fmt: skip
        await timeline.add(TimelineKind.WORKER_LOST, 90, "w1", label="node-1:7", count=2, lasted_s=8)
        await timeline.add(TimelineKind.JOBS_RETURNED, 80, "w1", label="node-1:7", count=2)
        await timeline.add(TimelineKind.BACKLOG_OLD, 10, "mail.send", label=waiting, count=40, lasted_s=60)
        pause = {"tag": "acme", "reason": "too many", "duration_s": 3600}
        assert (await api.call("POST", "/api/pauses", pause))[0] == 201
        definition = {"job": {"name": "mail.send"}, "schedule": {"daily_at": "02:30"}, "time_zone": "UTC"}
        assert (await api.call("PUT", "/api/definitions/nightly", definition))[0] == 201
        assert (await api.call("POST", "/api/definitions/nightly/pause", {"reason": "late"}))[0] == 200
        async with screens.open("#/incidents") as page:
            first = page.locator(".incidents > li").first
            await expect(first).to_contain_text(
                "Store unreachable → Leader changed → Worker detached → Jobs taken back → Backlog grew"
            )
            await expect(first).to_contain_text("ongoing")
            await expect(page.locator(".incidents > li")).to_have_count(2)
            lately = page.locator("#lately ~ .story")
            await expect(lately).to_contain_text("local paused jobs tagged acme. “too many”")
            await expect(lately).to_contain_text("The first worker of version 2.1 registered (mail.send).")
            await expect(lately).to_contain_text("local paused definition nightly.")
            await expect(lately).not_to_contain_text("store did not answer for 42 s")
            await accessible(page)
            await picture(page, "incidents")
            await first.get_by_role("link").click()
            await expect(page.get_by_role("heading", level=1)).to_contain_text(
                "Store unreachable → Leader changed"
            )
            assert await story(page) == [
                "The store did not answer for 20 s.",
                "Master rack-2:7 took over from rack-1:7, which had fallen silent.",
                "Worker node-1:7 fell silent and was detached. It held 2 jobs.",
                "2 jobs of worker node-1:7 were taken back.",
                "The backlog grew: 40 jobs were waiting, the oldest (mail.send) for 1 min.",
            ]
            await expect(page.locator("#story + .story").get_by_role("link", name="Job")).to_have_attribute(
                "href", f"#/job?id={waiting}"
            )
            await expect(page.locator("#nearby + .story")).to_contain_text("version 2.1")
            await page.get_by_role("button", name="Acknowledge").click()
            await page.get_by_label("Note").fill("restarting rack-1")
            await page.get_by_role("dialog").get_by_role("button", name="Acknowledge").click()
            await expect(page.locator("main")).to_contain_text("local acknowledged it. restarting rack-1")
            await timeline.add(TimelineKind.BACKLOG_OVER, 0, "mail.send")
            await expect(page.locator("main")).to_contain_text(re.compile(r"All clear after \d min"))
            await accessible(page)
            await picture(page, "incident")
        async with screens.open(f"#/incidents?id={new}", locale="ja-JP") as page:
            await expect(page.locator("main")).to_contain_text("ストアが20 秒応答しませんでした。")
            await expect(page.locator("main")).to_contain_text(
                "local が確認済みにしました。restarting rack-1"
            )
        async with screens.open(f"#/incidents?id={old}") as page:
            await expect(page.locator("main")).to_contain_text(
                "The counts of this incident are no longer known"
            )
            await page.goto("/#/incidents?id=1-0")
            await expect(page.locator(".error-box")).to_contain_text("no incident 1-0")


@pytest.mark.long
async def test_a_stall_a_killed_worker_a_demoted_leader_and_a_pause_are_told_by_name(
    browser: Browser,
) -> None:
    """Nothing is left that needs nobody."""
    store = StoreServer()
    with started(store):
        async with (
            master_on(store.url, node_id="rack-1", lease_ms=5_000) as (first, api),
            follower_of(store.url, first, node_id="rack-2", lease_ms=5_000) as (second, _),
            Screens(browser, first.server.url).open("#/overview") as overview,
            Screens(browser, first.server.url).open("#/incidents") as incidents,
        ):
            await wait_until(first.shard.services.timeline_store.known, what="the timeline has begun")
            await expect(overview.locator(".all-well")).to_be_visible()
            await stall(store, overview, incidents)
            await lose_a_worker(api, [first, second], overview, incidents)
            async with worker_at(api, "mail.send"):
                # Its successor runs, so nobody has to act.
                await expect(overview.locator(".fault.bad")).to_have_count(0, timeout=TOLD_WITHIN_MS)
                await demote(api, incidents)
                pause = {"tag": "acme", "reason": "GDPR review", "duration_s": 3600}
                assert (await api.call("POST", "/api/pauses", pause))[0] == 201
                told = overview.locator(".fault").filter(has_text="tagged acme")
                await expect(told).to_contain_text("GDPR review", timeout=TOLD_WITHIN_MS)
                await expect(incidents.locator("#lately ~ .story")).to_contain_text(
                    "local paused jobs tagged acme. “GDPR review”", timeout=TOLD_WITHIN_MS
                )
                await expect(overview.locator(".fault.bad")).to_have_count(0)
                await expect(overview.locator(".fault.warn")).to_have_count(0)
                await expect(incidents.locator(".incidents > li").filter(has_text="ongoing")).to_have_count(0)


async def stall(store: StoreServer, overview: Page, incidents: Page) -> None:
    store.signal(signal.SIGSTOP)
    try:
        async with asyncio.timeout(STALL_S + TOLD_WITHIN_MS / 1000):
            for page in (overview, incidents):
                line = page.locator("main > :first-child .banner")
                await expect(line).to_contain_text("The store does not answer.", timeout=TOLD_WITHIN_MS)
            # The length of the stall is what is tested.
            await asyncio.sleep(STALL_S)
    finally:
        store.signal(signal.SIGCONT)
    one = incidents.locator(".incidents > li").filter(has_text="Store unreachable")
    await expect(one).to_have_count(1, timeout=TOLD_WITHIN_MS)
    await expect(one).to_contain_text("over")
    for page in (overview, incidents):
        await expect(page.locator(".banner")).to_have_count(0)
    await expect(overview.locator(".fault.bad")).to_have_count(0, timeout=TOLD_WITHIN_MS)


async def lose_a_worker(api: Api, masters: list[Master], overview: Page, incidents: Page) -> None:
    def duties() -> Any:
        return next((one.shard.duties for one in masters if one.shard.duties), None)

    async with worker_at(api, "mail.send") as lost:
        await wait_until(
            lambda: (d := duties()) and d.grace.is_over, timeout_s=30, what="the grace period is over"
        )
        lost.is_silent = lost.is_deaf = True
        fault = overview.locator(".fault").filter(has_text=re.compile("silent|dead|node-1"))
        await expect(fault.first).to_be_visible(timeout=TOLD_WITHIN_MS)
        told = incidents.locator(".incidents > li").filter(has_text="Worker detached")
        await expect(told).to_have_count(1, timeout=TOLD_WITHIN_MS)
    await told.get_by_role("link").click()
    await expect(incidents.locator("#story + .story")).to_contain_text("Worker node-1:1 fell silent")
    await incidents.go_back()


async def demote(api: Api, incidents: Page) -> None:
    masters = (await api.call("GET", "/api/masters"))[1]["masters"]
    leader = next(one for one in masters if one["role"] == "leader")
    assert (await api.call("POST", f"/api/masters/{leader['id']}/demote"))[0] == 202
    before = f"local demoted {leader['node_id']}:{leader['pid']}."
    await expect(incidents.locator("#lately ~ .story")).to_contain_text(before, timeout=TOLD_WITHIN_MS)
