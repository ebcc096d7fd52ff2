"""Durations in words: what people type into dialogs, in English and Japanese, as a length or as an end."""

import re
from datetime import datetime
from typing import Any

import pytest
from playwright.async_api import expect

from tests.support import real_time
from tests.support.master import Api
from tests.ui.conftest import Screens
from tests.ui.test_core import LATER, accessible, picture, tag

pytestmark = [
    pytest.mark.req("D21"),
    pytest.mark.req("J15"),
    pytest.mark.asyncio(loop_scope="session"),
    real_time.BROWSER,
]

# Sunday, 10:00 UTC: 19:00 in Tokyo.
NOW = "2026-11-29T10:00:00Z"
READ = """async ([texts, now, isUtc]) => {
  const { durationIn } = await import(new URL("core/durations.js", document.baseURI).href);
  return texts.map((text) => {
    const ms = durationIn(text, Date.parse(now), isUtc);
    return ms === Infinity ? "endless" : ms === null ? null : ms / 60_000;
  });
}"""
MINUTES: dict[str, float | str] = {
    "45m": 45, "45 min": 45, "1h30": 90, "1 h 30 min": 90, "1 hour and 30 minutes": 90, "1.5 h": 90, "1,5 h": 90,
    "half an hour": 30, "an hour": 60, "for 2 days": 2880, "2w": 20160, "90s": 1.5, "0": 0, "1 d 2 h": 1560,
    "30 分": 30, "３０分": 30, "30分後": 30, "1時間半": 90, "1時間30分": 90, "半日": 720, "3日間": 4320,
    "forever": "endless", "no end": "endless", "無期限": "endless",
}  # fmt: skip
# The minutes from 10:00 in UTC until then.
UNTIL: dict[str, float] = {
    "until 18:00": 480, "18:00": 480, "until 6pm": 480, "18時まで": 480, "18時半まで": 510, "午後6時30分まで": 510,
    "until 9:00": 1380, "until tomorrow": 840, "until tomorrow 9:00": 1380, "明日9時まで": 1380, "until noon": 120,
    "until mon 9:00": 1380, "月曜日9時まで": 1380, "until sunday": 9480, "until 2026-11-30 09:00": 1380,
}  # fmt: skip
NONE = (
    "", "45", "soon", "5 min 2 h", "10 min 10 min", "45mm", "-5 m", "until", "until 45m", "until 25:00", "18",
    "until 13pm", "10:60", "until 2026-02-30", "until 2025-01-01", "until today",
)  # fmt: skip


async def test_a_text_is_a_length_an_end_or_nothing(screens: Screens) -> None:
    async with screens.open(timezone="Asia/Tokyo") as page:
        assert await page.evaluate(READ, [[*MINUTES], NOW, True]) == [*MINUTES.values()]
        assert await page.evaluate(READ, [[*UNTIL], NOW, True]) == [*UNTIL.values()]
        assert await page.evaluate(READ, [[*NONE], NOW, True]) == [None] * len(NONE)
        # It is 19:00 in Tokyo, so 18:00 is tomorrow's.
        assert await page.evaluate(READ, [["until 18:00", "20:00", "明日0時まで"], NOW, False]) == [
            1380,
            60,
            300,
        ]


@pytest.mark.parametrize("locale", ["en-US", "ja-JP"])
async def test_the_durations_that_the_pages_write_can_be_read(screens: Screens, locale: str) -> None:
    async with screens.open(locale=locale) as page:
        seconds = [90, 900, 3600, 5400, 86_400, 604_800, 2_592_000]
        words: list[str] = await page.evaluate(
            """async (seconds) => {
              const { durationText } = await import(new URL("ui/formats.js", document.baseURI).href);
              return seconds.map((one) => durationText(one * 1000));
            }""",
            seconds,
        )
        assert await page.evaluate(READ, [words, NOW, True]) == [one / 60 for one in seconds]


async def test_a_name_is_paused_for_any_time_and_a_slip_stays_in_the_dialog(
    screens: Screens, api: Api
) -> None:
    name = tag()
    job = await api.enqueue(name, **LATER)
    async with screens.open(f"#/job?id={job}") as page:
        await page.get_by_role("button", name=f"Pause: jobs named {name}").click()
        dialog = page.get_by_role("dialog")
        field = dialog.get_by_label("For")
        await field.fill("45 minuets")
        await dialog.get_by_role("button", name="Pause", exact=True).click()
        await expect(dialog).to_contain_text("Not understood yet")
        await expect(field).to_have_attribute("aria-invalid", "true")
        await accessible(page)
        await dialog.get_by_role("button", name="4 h", exact=True).click()
        await expect(field).to_have_value("4 h")
        await field.fill("45m")
        await expect(dialog).to_contain_text(
            re.compile(r"Until (\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d .*, in 45 min")
        )
        await picture(page, "pause-duration")
        await dialog.get_by_role("button", name="Pause", exact=True).click()
        await expect(dialog).to_have_count(0)
        made = await paused(api, name)
        assert lasts_s(made) == pytest.approx(45 * 60, abs=1)
        await page.get_by_role("button", name="Undo").click()
        await expect(page.locator(".toasts")).to_contain_text("The pause has ended.")


def lasts_s(constraint: dict[str, Any]) -> float:
    """Return how long a pause lasts in seconds, from its creation."""
    created, expires = (datetime.fromisoformat(constraint[at]) for at in ("created_at", "expires_at"))
    return (expires - created).total_seconds()


async def paused(api: Api, name: str) -> dict[str, Any]:
    found = (await api.call("GET", "/api/constraints"))[1]["constraints"]
    (one,) = (
        c
        for c in found
        if c["name"].startswith("pause-") and c["matcher"] == {"field": "name", "op": "eq", "value": name}
    )
    return dict(one)
