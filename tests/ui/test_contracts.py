"""The page of a name shows the contracts reported by its workers."""

import uuid

import pytest
from playwright.async_api import expect

from tests.support import real_time
from tests.support.master import Api
from tests.ui.conftest import Screens
from tests.ui.test_core import accessible

pytestmark = [pytest.mark.req("J15", "J18"), pytest.mark.asyncio(loop_scope="session"), real_time.BROWSER]


async def test_the_page_of_a_name_shows_its_contracts_and_what_is_wrong_with_them(
    screens: Screens, api: Api
) -> None:
    name = f"told.{uuid.uuid4().hex[:8]}"
    for version, field in (("1", "user_id"), ("2", "account_id")):
        contract = {"version": version, "argument_schema": {"required": [field]}, "options": {"timeout": 7}}
        worker = {
            "url": None,
            "names": [name],
            "max_jobs": 1,
            "secret": "s" * 32,
            "contracts": {name: contract},
        }
        assert (await api.call("POST", "/api/workers", worker))[0] == 201
    async with screens.open(f"#/names?name={name}") as page:
        card = page.locator("section", has=page.get_by_role("heading", name="Contracts"))
        # These workers do not send heartbeats.
        await expect(card).to_contain_text("No live worker runs jobs of this name.")
        await expect(card.locator("summary").filter(has_text="Version")).to_have_count(2)
        await expect(card).to_contain_text("account_id")
        await accessible(page)
