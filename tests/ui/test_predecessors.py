"""The page of a job that waits for others, in a browser: its predecessors and dependents, and why it was skipped."""

import re
import uuid
from typing import Any

import pytest
from playwright.async_api import expect

from jqmaster.domain.ids import new_id
from tests.support import real_time
from tests.support.master import Api
from tests.ui.conftest import Screens
from tests.ui.test_core import accessible

pytestmark = [
    pytest.mark.req("P9", "J15"),
    pytest.mark.asyncio(loop_scope="session"),
    real_time.BROWSER,
]


async def test_the_page_of_a_job_leads_to_those_before_and_behind_it(screens: Screens, api: Api) -> None:
    # No worker runs jobs of this name.
    name = f"waits.{uuid.uuid4().hex[:8]}"
    first, second, third = new_id(), new_id(), new_id()
    behind = [new_id() for _ in range(11)]
    jobs: list[dict[str, Any]] = [
        {"name": name, "id": first},
        {"name": name, "id": second, "after": {"jobs": [first]}},
        {"name": name, "id": third, "after": {"jobs": [second]}},
        *(
            {"name": name, "id": one, "after": {"jobs": [second, first], "when": "finished"}}
            for one in behind
        ),
    ]
    status, answer = await api.call("POST", "/api/jobs/bulk", {"jobs": jobs})
    assert status == 201, answer
    async with screens.open(f"#/job?id={second}") as page:
        order = page.locator("section.order")
        await expect(order).to_contain_text("Depends on this job:")
        await expect(order.locator("ul").first).to_have_text(
            re.compile(rf"{name} .*…{first[-10:]} Ready awaited")
        )
        await expect(order).to_contain_text("12 jobs depend on this one:")
        await expect(order.locator("ul").nth(1).locator("li")).to_have_count(8)
        await order.get_by_text("4 more").click()
        await expect(order.locator("details li")).to_have_count(4)
        await accessible(page)
        # Why it waits leads to the first cause, by name.
        why = page.locator("section.why")
        await expect(why).to_contain_text(f"Waits for 1 other job: {name}")
        await page.goto(f"/#/job?id={third}")
        await expect(why).to_contain_text(re.compile(f"First cause: {name}.*No worker is registered"))
        await page.goto(f"/#/job?id={second}")
        await order.get_by_role("link", name=name).first.click()
        await expect(page.locator("code.id")).to_have_text(first)
        await expect(order).not_to_contain_text("Runs when")
        await api.call("POST", f"/api/jobs/{first}/cancel")
        await api.until_state(second, "skipped")
        await page.goto(f"/#/job?id={second}")
        word = page.locator(".last-word")
        await expect(word).to_contain_text("Skipped · dependency failed")
        await expect(word).to_contain_text(re.compile(f"First cause: {name}.*…{first[-10:]} Canceled"))
        await expect(page.locator("section.order ul").first).not_to_contain_text("awaited")
    async with screens.open(f"#/job?id={behind[0]}", locale="ja") as page:
        await expect(page.locator("section.order")).to_contain_text("次の 2 件のジョブがすべて終了すると")
    async with screens.open(f"#/job?id={await api.enqueue(name)}") as page:
        await expect(page.locator("dl.facts")).to_be_visible()
        await expect(page.locator("section.order")).to_have_count(0)


async def test_the_first_cause_is_the_first_unfinished_job_in_front_that_waits_for_none(
    screens: Screens,
) -> None:
    async with screens.open() as page:
        causes = await page.evaluate("""async () => {
            const { firstCauseOf } = await import("./jobs/flow_parts.js");
            const job = (id, state, after) => ({ id, state, after });
            const jobs = [job("done", "succeeded", []), job("a", "ready", ["done"]), job("b", "awaiting_jobs", ["a"]),
                          job("c", "awaiting_jobs", ["done", "b", "elsewhere"])];
            return ["c", "a", "done", "x"].map((id) => firstCauseOf({ jobs }, id)?.id ?? null);
        }""")
    assert causes == ["a", None, None, None]
