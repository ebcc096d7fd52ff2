"""The new-job form builds itself from the schema that workers report for the name."""

import contextlib
import datetime as dt
import enum
import json
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import pytest
from playwright.async_api import Page, expect

from tests.support import real_time
from tests.support.master import Api
from tests.ui.conftest import Screens
from tests.ui.test_core import accessible
from worker_sdk import Tasks
from worker_sdk.tasks.contract import contract_of

pytestmark = [pytest.mark.req("J15", "J18"), pytest.mark.asyncio(loop_scope="session"), real_time.BROWSER]


class Format(enum.Enum):
    PNG = "png"
    WEBP = "webp"


@dataclass
class Crop:
    width: int
    height: int = 10


async def told(api: Api, function: Any, **options: Any) -> str:
    """Have a worker report a task for this function, and return its name."""
    name = f"form.{uuid.uuid4().hex[:8]}"
    contract = contract_of(Tasks().task(name, **options)(function))
    worker = {
        "url": None, "names": [name], "max_jobs": 1, "secret": "s" * 32, "contracts": {name: contract},
    }  # fmt: skip
    assert (await api.call("POST", "/api/workers", worker))[0] == 201
    return name


def thumbnail(
    photo_id: int,
    form: Format = Format.WEBP,
    ratio: Annotated[float | None, msgspec.Meta(description="Width by height.")] = None,
    at: dt.datetime | None = None,
    day: dt.date | None = None,
    *,
    is_sharp: bool = False,
    crop: Crop | None = None,
    title: str = "none",
) -> None: ...


@contextlib.asynccontextmanager
async def form_of(screens: Screens, name: str, locale: str = "en-US") -> AsyncIterator[Page]:
    async with screens.open(f"#/enqueue?name={name}", locale=locale) as page:
        yield page


async def enqueued(page: Page, api: Api) -> dict[str, Any]:
    await page.get_by_role("button", name="Enqueue", exact=True).click()
    job_id = await page.locator(".sent .id").inner_text()
    job: dict[str, Any] = await api.job(job_id)
    return job


async def test_fields_make_the_argument(screens: Screens, api: Api) -> None:
    name = await told(api, thumbnail, timeout=600, max_retry=8, tags=["photos"])
    async with form_of(screens, name) as page:
        await expect(page.get_by_label("photo_id *")).to_be_visible()
        # The task's options are filled in.
        await expect(page.get_by_label("Timeout")).to_have_value("600")
        await expect(page.get_by_label("Tags")).to_have_value("photos")
        await expect(page.locator("fieldset")).to_contain_text("Width by height.")
        await expect(page.locator("fieldset")).to_contain_text('Default: "webp"')
        await accessible(page)
        await page.get_by_label("photo_id").fill("9007199254740993123")
        await page.get_by_label("form", exact=True).select_option("png")
        await page.get_by_label("ratio").fill("1.50")
        await page.get_by_label("at (UTC)").fill("2030-01-02T03:04")
        await page.get_by_label("day").fill("2030-01-05")
        await page.get_by_label("is_sharp").select_option("true")
        await page.get_by_label("crop").fill('{"width": 3}')
        job = await enqueued(page, api)
    assert job["argument"] == {
        "photo_id": 9007199254740993123, "form": "png", "ratio": 1.5, "at": "2030-01-02T03:04:00Z",
        "day": "2030-01-05", "is_sharp": True, "crop": {"width": 3},
    }  # fmt: skip
    assert (job["timeout"], job["max_retry"], job["tags"]) == (600, 8, ["photos"])


async def test_a_value_that_does_not_fit_is_shown_at_its_field(screens: Screens, api: Api) -> None:
    name = await told(api, thumbnail)
    async with contextlib.AsyncExitStack() as stack:
        # A master that checks no arguments previews none.
        assert (await api.call("PATCH", "/api/settings", {"check_arguments": "report"}))[0] == 200
        stack.push_async_callback(api.call, "PATCH", "/api/settings", {"check_arguments": None})
        page = await stack.enter_async_context(form_of(screens, name))
        invalid = page.locator(".field.invalid")
        await expect(page.get_by_label("photo_id")).to_be_visible()
        await expect(invalid).to_have_count(0)
        await page.get_by_role("button", name="Enqueue", exact=True).click()
        await expect(invalid).to_contain_text("photo_id")
        await expect(invalid).to_contain_text("Fill in this field")
        await expect(page.get_by_label("photo_id")).to_be_focused()
        await page.get_by_label("photo_id").fill("seven")
        await expect(invalid).to_contain_text("Enter a whole number")
        await page.get_by_label("photo_id").fill("7")
        await expect(invalid).to_have_count(0)
        await page.get_by_label("crop").fill("{")
        await expect(invalid).to_contain_text("Enter JSON")
        # The schema knows more than the form, and a master reports that before anything is sent.
        await page.get_by_label("crop").fill('{"width": "wide"}')
        await expect(invalid).to_contain_text('"wide" is not of type "integer"')
        await expect(invalid).to_contain_text("crop")
        assert await page.locator(".sent").count() == 0
        await page.get_by_label("crop").fill("")
        assert (await enqueued(page, api))["argument"] == {"photo_id": 7}


async def test_switching_loses_nothing(screens: Screens, api: Api) -> None:
    name = await told(api, thumbnail)
    async with form_of(screens, name) as page:
        fields, raw = (page.get_by_role("button", name=one) for one in ("Fields", "Raw JSON"))
        await page.get_by_label("photo_id").fill("seven")
        await page.get_by_label("title").fill("Dusk")
        await raw.click()
        argument = page.get_by_label("Argument", exact=True)
        assert json.loads(await argument.input_value()) == {"photo_id": "seven", "title": "Dusk"}
        await fields.click()
        await expect(page.get_by_label("photo_id")).to_have_value("seven")
        await raw.click()
        await argument.fill('{"photo_id": 8, "title": null, "at": "2030-01-02T03:04:05+09:00", "more": [1]')
        await fields.click()
        await expect(page.get_by_role("alert")).to_contain_text("Fields cannot show this")
        await argument.press("End")
        await argument.type("}")
        await fields.click()
        await expect(page.get_by_label("photo_id")).to_have_value("8")
        # A value that does not fit its field, and a field missing from the schema, are JSON.
        await expect(page.get_by_label("title")).to_have_value("null")
        await expect(page.get_by_label("at", exact=True)).to_have_value("2030-01-02T03:04:05+09:00")
        await expect(page.get_by_label("more")).to_have_value("[\n  1\n]")
        await expect(page.locator("fieldset")).to_contain_text("does not have this field")
        await raw.click()
        typed = '{"photo_id": 8, "title": null, "at": "2030-01-02T03:04:05+09:00", "more": [1]}'
        await expect(argument).to_have_value(typed)
        # Without a schema, there are no fields. Typed text stays and returns.
        await fields.click()
        await page.get_by_label("photo_id").fill("9")
        await page.get_by_label("Name").fill(f"{name}.other")
        await expect(fields).to_have_count(0)
        assert json.loads(await argument.input_value())["photo_id"] == 9
        await page.get_by_label("Name").fill(name)
        await expect(page.get_by_label("photo_id")).to_have_value("9")


async def test_a_copy_of_a_job_is_shown_in_fields(screens: Screens, api: Api) -> None:
    name = await told(api, thumbnail, max_retry=8)
    job_id = await api.enqueue(name, {"photo_id": 5, "crop": {"width": 2}}, delay=1000)
    async with screens.open(f"#/enqueue?from={job_id}") as page:
        await expect(page.get_by_label("photo_id")).to_have_value("5")
        await expect(page.get_by_label("crop")).to_have_value('{\n  "width": 2\n}')
        await expect(page.get_by_label("Retries")).to_have_value("5")


async def test_an_idempotency_key_enqueues_once(screens: Screens, api: Api) -> None:
    name = await told(api, thumbnail)
    async with form_of(screens, name) as page:
        await page.get_by_label("photo_id").fill("1")
        await page.get_by_text("More options").click()
        await page.get_by_label("Idempotency key").fill("photo:1")
        first = await enqueued(page, api)
        await expect(page.locator(".sent")).to_contain_text("Enqueued.")
        await page.get_by_role("button", name="Enqueue", exact=True).click()
        await expect(page.locator(".sent")).to_contain_text("was enqueued before")
        assert await page.locator(".sent .id").inner_text() == first["id"]
    assert (await api.call("GET", f"/api/jobs?name={name}"))[1]["jobs"][0]["id"] == first["id"]


async def test_the_form_speaks_japanese(screens: Screens, api: Api) -> None:
    name = await told(api, thumbnail)
    async with form_of(screens, name, "ja-JP") as page:
        await expect(page.get_by_role("button", name="生の JSON")).to_be_visible()
        await page.get_by_label("photo_id").fill("x")
        await expect(page.locator(".field.invalid")).to_contain_text("整数を入力してください")


async def test_the_preview_says_how_much_of_a_limit_is_in_use(screens: Screens, api: Api) -> None:
    name = f"nap-{uuid.uuid4().hex[:8]}"
    limit = {"matcher": {"field": "tags", "op": "eq", "value": name}, "concurrency": 1}
    assert (await api.call("PUT", f"/api/constraints/{name}", limit))[0] == 201
    async with screens.open("#/enqueue?name=ui.nap") as page:
        await page.get_by_label("Tags").fill(name)
        badge = page.locator(".preview .badge")
        await expect(badge).to_have_text("0 of 1 in use now")
        job = await api.enqueue("ui.nap", 60, timeout=90, tags=[name])
        await expect(badge).to_have_text("1 of 1 in use now")
        await expect(badge).to_have_class("badge badge-warn")
    assert (await api.call("POST", f"/api/jobs/{job}/cancel"))[0] == 200
    await api.until_state(job, "canceled")
    assert (await api.call("DELETE", f"/api/constraints/{name}"))[0] == 204
