"""Workers by worker, machine, version and label: their figures, outliers, and draining a set of them."""

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import expect

from jqmaster.domain.operations.tally import Tally
from tests.support import real_time
from tests.support.master import Api, master_on
from tests.support.scripted_worker import ScriptedWorker
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from tests.ui.conftest import Screens
from tests.ui.test_core import accessible, picture

pytestmark = [
    pytest.mark.req("D10", "D14", "D21"), pytest.mark.asyncio(loop_scope="session"), real_time.BROWSER
]  # fmt: skip

# Machine, version and label of each worker, the run time of its attempts in ms, and how many succeeded and failed.
FLEET: list[tuple[str, str, dict[str, str], int, int, int]] = [
    ("web-1", "1.4.2", {"zone": "a"}, 80, 400, 2),
    ("web-1", "1.4.2", {"zone": "a"}, 90, 380, 1),
    ("web-2", "1.4.2", {"zone": "b"}, 85, 410, 0),
    ("web-3", "1.5.0", {"zone": "b"}, 700, 120, 30),
]


class Fleet:
    """A master with the workers of `FLEET`, which pull and send their own heartbeats, and their counts."""

    def __init__(self, api: Api, tally: Tally) -> None:
        self.api = api
        self.tally = tally
        self.workers: list[ScriptedWorker] = []

    async def register(self) -> None:
        for number, (node, version, labels, *_) in enumerate(FLEET):
            worker = ScriptedWorker(self.api, ("mail.send", "report"), 10)
            status, answer = await worker.register(
                url=None, node_id=node, pid=100 + number, version=version, labels=labels
            )
            assert status == 201
            worker.id = answer["worker_id"]
            self.workers.append(worker)

    async def count(self) -> None:
        for worker, (*_, run_ms, succeeded, failed) in zip(self.workers, FLEET, strict=True):
            counts = self.tally.on(worker.id)
            counts.succeed(run_ms, succeeded)
            counts.failed += failed

        async def told() -> bool:
            listed = (await self.api.call("GET", "/api/workers"))[1]["workers"]
            return all(worker["figures"]["succeeded"] > 0 for worker in listed)

        await wait_until(told, timeout_s=20, what="the counts are in the store")

    async def states(self) -> dict[str, str]:
        return {w["id"]: w["state"] for w in (await self.api.call("GET", "/api/workers"))[1]["workers"]}


@pytest_asyncio.fixture(loop_scope="session")
async def fleet(store_server: StoreServer) -> AsyncIterator[Fleet]:
    # Without heartbeats, the workers stay as registered for the whole test.
    async with master_on(store_server.url, worker_stale_s=600.0, lease_ms=600_000) as (master, api):
        one = Fleet(api, master.shard.services.tally)
        await one.register()
        yield one


@pytest.fixture
def its_screens(screens: Screens, fleet: Fleet) -> Screens:
    return Screens(screens.browser, str(fleet.api.http.base_url))


async def test_the_slow_and_the_failing_stand_out_by_worker_machine_version_and_label(
    its_screens: Screens, fleet: Fleet
) -> None:
    await fleet.count()
    async with its_screens.open("#/workers") as page:
        rows = page.locator("tbody tr")
        await expect(rows).to_have_count(4)
        odd = rows.filter(has_text="web-3:103")
        await expect(odd).to_contain_text("slow")
        await expect(odd).to_contain_text("failing")
        await expect(odd.locator("td.col-failed_share")).to_have_text("30 (20%)")
        await expect(page.get_by_text("Failed attempts include those lost with the worker.")).to_be_visible()
        await expect(page.locator(".badge:visible", has_text=re.compile("^(slow|failing)$"))).to_have_count(2)
        await expect(odd.locator("span[title*='more than twice']:visible")).to_have_count(2)
        await accessible(page)
        await picture(page, "workers-figures")
        await page.get_by_role("button", name="Run p50").click()
        await expect(rows.first).to_contain_text("web-3")
        for by, first in (("Machine", "web-1"), ("Version", "1.4.2"), ("Label", "zone=a")):
            await page.get_by_role("navigation", name="Group by").get_by_role("link", name=by).click()
            await expect(page.locator("tbody tr").first).to_contain_text(first)
            await accessible(page)
            await picture(page, f"workers-by-{by.lower()}")
        await page.get_by_role("link", name="Version").click()
        await expect(rows.filter(has_text="1.5.0")).to_contain_text("slow")
        await page.get_by_role("link", name="1.4.2", exact=True).click()
        await expect(rows).to_have_count(3)
        await expect(page.locator(".chips")).to_contain_text("Version: 1.4.2")
        await page.set_viewport_size({"width": 390, "height": 844})
        await accessible(page)
        await picture(page, "workers-phone")
    async with its_screens.open(f"#/workers?id={fleet.workers[3].id}", is_dark=True) as page:
        card = page.locator("section.card", has_text="Last five minutes")
        await expect(card).to_contain_text("30 (20%)")
        await expect(card).to_contain_text("Slow: the median run time is more than twice")
        await accessible(page)
        await picture(page, "worker-figures")
    async with its_screens.open("#/workers?by=version", locale="ja-JP") as page:
        await expect(page.locator("tbody tr").first).to_contain_text("1.4.2")
        await expect(page.locator("body")).to_contain_text("低速")
        await picture(page, "workers-ja")


async def test_all_workers_of_a_version_are_drained_counted_down_and_resumed(
    its_screens: Screens, fleet: Fleet
) -> None:
    api = fleet.api
    jobs: list[dict[str, Any]] = []
    for worker in fleet.workers[:2]:
        await api.enqueue("report", timeout=600)
        jobs += await worker.claim(1)
    async with its_screens.open("#/workers?by=version") as page:
        await page.get_by_role("button", name="Drain: 1.4.2").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog.locator(".confirm-count")).to_have_text("3 workers will be drained.")
        await expect(dialog).to_contain_text("2 jobs run on them now.")
        await accessible(page)
        await picture(page, "workers-drain")
        assert "draining" not in (await fleet.states()).values(), "it was only counted"
        await dialog.get_by_role("button", name="Drain (3)").click()
        drains = page.get_by_role("region", name="Draining workers")
        await expect(drains).to_contain_text("3 workers draining")
        await expect(drains).to_contain_text("2 jobs left")
        await expect(drains).to_contain_text("longest running for")
        await accessible(page)
        await picture(page, "workers-draining")
        await fleet.workers[0].end(jobs[0])
        await expect(drains).to_contain_text("1 job left")
        await fleet.workers[1].end(jobs[1])
        await expect(drains).to_contain_text("Drained: safe to stop")
        await page.locator(".toast").get_by_role("button", name="Undo").click()
        await expect(drains).to_have_count(0)
        assert set((await fleet.states()).values()) == {"fresh"}


async def test_selected_workers_are_drained_and_resumed_later(its_screens: Screens, fleet: Fleet) -> None:
    async with its_screens.open("#/workers") as page:
        await page.get_by_role("checkbox", name="Select web-2:102").check()
        await page.get_by_role("checkbox", name="Select web-3:103").check()
        await page.get_by_role("button", name="Drain 2 workers…").click()
        await page.get_by_role("dialog").get_by_role("button", name="Drain (2)").click()
        await page.reload()
        drains = page.get_by_role("region", name="Draining workers")
        await expect(drains).to_contain_text("2 workers draining")
        await drains.get_by_role("button", name="Resume 2 workers").click()
        await expect(drains).to_have_count(0)
        assert set((await fleet.states()).values()) == {"fresh"}


@pytest.mark.req("D24", "D21")
async def test_slots_are_set_kept_listed_and_removed(its_screens: Screens, fleet: Fleet) -> None:
    worker = fleet.workers[0]
    async with its_screens.open(f"#/workers?id={worker.id}") as page:
        await page.get_by_role("button", name="Change slots").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Slots").fill("3")
        await dialog.get_by_label("Also after a restart").check()
        await accessible(page)
        await picture(page, "worker-slots")
        await dialog.get_by_role("button", name="Set slots").click()
        await expect(dialog).to_have_count(0)
        await expect(page.locator("dl.facts").first).to_contain_text(f"(registered with {worker.max_jobs})")
    async with its_screens.open("#/workers") as page:
        rules = page.get_by_role("region", name="Kept slots")
        await expect(rules.locator("tbody tr")).to_have_count(1)
        await accessible(page)
        await rules.get_by_role("button", name="Remove").click()
        await expect(rules).to_have_count(0)
        await page.get_by_role("button", name=re.compile("Change slots: ")).first.click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Slots").fill("5")
        await dialog.get_by_role("button", name="Set slots").click()
        await expect(dialog).to_have_count(0)
    _, answer = await fleet.api.call("GET", "/api/workers")
    assert 5 in [one["max_jobs"] for one in answer["workers"]]
