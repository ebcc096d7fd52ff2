"""Namespaces in the web UI: the page of all of them, the switcher, and the way back to the installation."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from jqmaster.domain.namespaces.quotas import QUOTAS
from jqmaster.service.namespaces.mover import Mover
from tests.support import real_time
from tests.support.namespaces import Installation, installed
from tests.support.server import StoreServer, started
from tests.support.topology import Cluster
from tests.ui.conftest import Screens
from tests.ui.test_core import accessible, accessible_in_each_look

pytestmark = [
    pytest.mark.req("D29"),
    pytest.mark.asyncio(loop_scope="session"),
    real_time.BROWSER,
]


@pytest.fixture
def other() -> Iterator[StoreServer]:
    server = StoreServer()
    with started(server):
        yield server


@pytest_asyncio.fixture(loop_scope="session")
async def one(store_server: StoreServer, other: StoreServer, tmp_path: Path) -> AsyncIterator[Installation]:
    async with installed(store_server, other, tmp_path) as installation:
        yield installation


async def heading(page: Page, text: str) -> None:
    await expect(page.get_by_role("heading", level=1)).to_have_text(text)


async def names(page: Page) -> list[str]:
    """Return the namespaces of the list, in its order."""
    return (
        await page.locator("tbody").first.locator("tr").evaluate_all("rows => rows.map((r) => r.dataset.key)")
    )


async def test_a_namespace_is_created_changed_closed_opened_and_deleted(
    browser: Browser, one: Installation
) -> None:
    api, tag = one.api(), f"{one.master.settings.shard}-shop"
    async with Screens(browser, one.url).open("#/namespaces") as page:
        dialog = page.get_by_role("dialog")
        save = dialog.get_by_role("button", name="Save")
        await expect(page.get_by_text("There is only one namespace.")).to_be_visible()
        await page.get_by_role("button", name="New namespace").click()
        await save.click()
        await expect(dialog).to_contain_text("Enter a name.")
        await dialog.get_by_label("Name", exact=True).fill("Shop")
        await save.click()
        await expect(dialog.locator(".field-error")).to_contain_text("such as shop")
        await dialog.get_by_label("Name", exact=True).fill("shop")
        await dialog.get_by_label("Title").fill("The <b>shop</b>")
        await dialog.get_by_label("Store").select_option("b")
        await dialog.get_by_label("Maximum number of waiting jobs").fill("2")
        await dialog.get_by_label("Largest argument").fill("1000")
        await dialog.get_by_text("Take over data").click()
        await dialog.get_by_label("Tag").fill(tag)
        await accessible(page)
        await save.click()
        await heading(page, "shop")
        made = (await api.call("GET", "/api/namespaces/shop"))[1]
        assert (made["title"], made["store"], made["tag"]) == ("The <b>shop</b>", "b", tag)
        assert made["quotas"] == dict.fromkeys(QUOTAS) | {"waiting_jobs": 2, "argument_bytes": 1000}
        # The switcher appears with the second namespace.
        await expect(page.get_by_role("button", name="Namespace default")).to_be_visible()

        await one.until_served("shop")
        for _ in range(2):
            await one.api("shop").enqueue("work")
        await expect(page.locator(".fault")).to_contain_text("Pushes are refused")
        await page.get_by_role("button", name="Edit").click()
        await dialog.get_by_label("Maximum number of waiting jobs").fill("")
        await save.click()
        await expect(dialog).to_have_count(0)
        quotas = (await api.call("GET", "/api/namespaces/shop"))[1]["quotas"]
        assert quotas == dict.fromkeys(QUOTAS) | {"argument_bytes": 1000}
        await expect(page.locator(".fault")).to_have_count(0)

        await page.get_by_role("button", name="Close").click()
        await dialog.get_by_role("button", name="Close", exact=True).last.click()
        await expect(page.locator(".job-head")).to_contain_text("closed")
        await page.get_by_role("button", name="Open", exact=True).click()
        await expect(page.locator(".job-head")).to_contain_text("open")
        await page.get_by_role("button", name="Close").click()
        await dialog.get_by_role("button", name="Close", exact=True).last.click()
        await page.get_by_role("button", name="Delete").click()
        remove = dialog.get_by_role("button", name="Delete", exact=True)
        await expect(remove).to_be_disabled()
        await dialog.get_by_label("Type shop to delete it").fill("ship")
        await expect(remove).to_be_disabled()
        await dialog.get_by_label("Type shop to delete it").fill("shop")
        await remove.click()
        await expect(dialog).to_contain_text("has 2 unfinished jobs")
        await dialog.get_by_label("Even if it has unfinished jobs").check()
        await remove.click()
        await heading(page, "Namespaces")
        await expect(page.get_by_role("button", name="Namespace default")).to_have_count(0)
    assert (await api.call("GET", "/api/namespaces/shop"))[0] == 404


async def test_a_namespace_is_moved_after_its_stop_was_told(
    browser: Browser, one: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.put("shop")
    await one.until_served("shop")
    job_id = await one.api("shop").enqueue("work")
    copy, may_go_on = Mover._copy, asyncio.Event()

    async def held(self: Mover, source: Any, target: Any) -> None:
        await may_go_on.wait()
        await copy(self, source, target)

    monkeypatch.setattr(Mover, "_copy", held)
    async with Screens(browser, one.url).open("#/namespaces?name=shop") as page:
        dialog = page.get_by_role("dialog")
        for end in ("aborted", "done"):
            await page.get_by_role("button", name="Move…", exact=True).click()
            await expect(dialog.get_by_label("To store")).to_have_value("b")
            await expect(dialog).to_contain_text("Expected stop5 s")
            await accessible(page)
            await dialog.get_by_role("button", name="Move", exact=True).click()
            await expect(dialog).to_have_count(0)
            card = page.locator(".card").filter(has_text="The newest move")
            await expect(card).to_contain_text("copying", timeout=20_000)
            await expect(page.locator(".job-head")).to_contain_text("is being moved")
            await expect(page.get_by_role("button", name="Move…", exact=True)).to_have_count(0)
            await accessible(page)
            if end == "aborted":
                await card.get_by_role("button", name="Abort the move").click()
                await expect(page.get_by_text("The move is being aborted")).to_be_visible()
            may_go_on.set()
            await expect(card.locator("dd").first).to_have_text(end, timeout=20_000)
            await expect(card.get_by_role("button", name="Abort the move")).to_have_count(0)
            may_go_on.clear()
        await expect(page.get_by_text("To storeb")).to_be_visible()
    await one.until_served("shop")
    assert await one.api("shop").state(job_id) == "ready"
    assert (await one.api().call("GET", "/api/namespaces/shop"))[1]["store"] == "b"


async def test_a_namespace_is_moved_to_another_node_of_its_cluster(
    browser: Browser, store_server: StoreServer, tmp_path: Path
) -> None:
    cluster = Cluster()
    with started(cluster):
        async with installed(store_server, cluster, tmp_path) as one:
            await one.put("shop", "b")
            await one.until_served("shop")
            slot = (await one.api().call("GET", "/api/namespaces/shop/slot"))[1]
            source, target = slot["node"], next(n["address"] for n in slot["nodes"] if not n["has_slot"])
            async with Screens(browser, one.url).open("#/namespaces?name=shop") as page:
                card = page.locator(".card").filter(has_text="Node of the Cluster")
                row = card.get_by_role("row").filter(has_text=target)
                await expect(card.get_by_role("row").filter(has_text=source)).to_contain_text(
                    "has the namespace"
                )
                if slot["fault"]:
                    await expect(card).to_contain_text("Valkey 9")
                    await expect(row.get_by_role("button")).to_have_count(0)
                    return
                for end in ("aborted", "done"):
                    for node in cluster.nodes:
                        node.ask("DEBUG", "SLOTMIGRATION", "PREVENT-PAUSE", int(end == "aborted"))
                    await row.get_by_role("button", name="Move here").click()
                    dialog = page.get_by_role("dialog")
                    await expect(dialog).to_contain_text(f"to node {target}?")
                    await expect(dialog).to_contain_text("Keys")
                    await accessible(page)
                    await dialog.get_by_role("button", name="Move", exact=True).click()
                    await expect(dialog).to_have_count(0)
                    if end == "aborted":
                        await expect(card).to_contain_text("the engine copies the data")
                        await accessible(page)
                        await card.get_by_role("button", name="Abort the move").click()
                    await expect(card).to_contain_text(f"{end} from {source} to {target}", timeout=20_000)
                await expect(row).to_contain_text("has the namespace")
                await accessible_in_each_look(page, "#/namespaces?name=shop")
            async with Screens(browser, one.url).open("#/namespaces?name=default") as page:
                await heading(page, "default")
                await expect(page.get_by_text("Node of the Cluster")).to_have_count(0)


async def test_a_move_that_failed_is_told_and_a_damaged_one_is_ended(
    browser: Browser, one: Installation
) -> None:
    await one.put("shop")
    await one.put("calm")
    await one.until_served("shop", "calm")
    link = one.master.shard.services.link
    await link.client.redis.hset(link.keys.move("shop"), "step", "flying")
    async with Screens(browser, one.url).open("#/namespaces") as page:
        fault = page.locator(".fault").first
        await expect(fault).to_contain_text("shop: It works, but the record of the move of namespace shop")
        await expect(page.locator("tbody").first.locator("tr").first).to_contain_text("shop")
        await fault.get_by_role("link", name="shop").click()
        await expect(page.get_by_role("button", name="Move…", exact=True)).to_have_count(0)
        await page.get_by_role("button", name="End the move…", exact=True).click()
        await accessible(page)
        await page.get_by_role("dialog").get_by_role("button", name="End the move", exact=True).click()
        await expect(page.get_by_role("dialog")).to_have_count(0)
        await expect(page.get_by_role("button", name="Move…", exact=True)).to_be_visible()
        await expect(page.locator(".fault")).to_have_count(0)


async def test_a_namespace_that_somebody_has_to_mend_is_told_and_mended(
    browser: Browser, one: Installation
) -> None:
    tag = f"{one.master.settings.shard}-shop"
    await one.put("shop")
    await one.put("mail", state="moving")
    await one.until_served("shop")
    job_id = await one.api("shop").enqueue("work")
    link = one.master.shard.services.link
    await link.client.redis.hset(link.keys.namespaces, "shop", b"damaged")
    await one.master.registry.reload()
    async with Screens(browser, one.url).open("#/namespaces") as page:
        faults = page.locator(".fault")
        await expect(faults).to_have_count(2)
        shop, mail = faults.filter(has_text="shop: "), faults.filter(has_text="mail: ")
        await expect(mail).to_contain_text("is marked as being moved, and no move is under way")
        await expect(shop).to_contain_text(f"jqmaster namespaces create shop --tag {tag} --store default")
        await mail.get_by_role("link", name="mail").click()
        await page.get_by_role("button", name="End the move…", exact=True).click()
        await page.get_by_role("dialog").get_by_role("button", name="End the move", exact=True).click()
        await expect(page.get_by_role("button", name="Open", exact=True)).to_be_visible()
        await page.goto(f"{one.url}/#/namespaces?name=shop")
        await heading(page, "shop")
        await accessible(page)
        await page.get_by_role("button", name="Delete…", exact=True).click()
        dialog = page.get_by_role("dialog")
        await expect(dialog.get_by_role("checkbox")).to_be_checked()
        await dialog.get_by_label("Type shop to delete it").fill("shop")
        await dialog.get_by_role("button", name="Delete", exact=True).click()
        await heading(page, "Namespaces")
    assert (await one.api().call("PUT", "/api/namespaces/shop", {"tag": tag}))[0] == 201
    await one.until_served("shop")
    assert await one.api("shop").state(job_id) == "ready"


async def test_conditions_of_the_installation_are_offered_without_a_namespace_only(
    browser: Browser, one: Installation
) -> None:
    await one.put("shop")
    await one.until_served("shop")
    async with Screens(browser, one.url).open("#/notices") as page:
        for address, offered in ((f"{one.url}/#/notices", 1), (f"{one.url}/ns/shop/#/notices", 0)):
            await page.goto(address)
            await page.get_by_role("button", name="New notice…").first.click()
            when = page.get_by_role("dialog").locator("select[name=when]")
            await expect(when.locator("option[value=job_failed]")).to_have_count(1)
            await expect(when.locator("option[value=store_down]")).to_have_count(offered)
            await page.keyboard.press("Escape")


async def test_one_switches_to_another_namespace_and_comes_back(browser: Browser, one: Installation) -> None:
    await one.put("shop", title="The shop")
    await one.until_served("shop")
    job_id = await one.api("shop").enqueue("shop.work")
    shop = re.escape(f"{one.url}/ns/shop/")
    async with Screens(browser, one.url).open("#/jobs") as page:
        await heading(page, "Jobs")
        await expect(page).to_have_title("Jobs · jqmaster")
        switcher = page.get_by_role("button", name="Namespace default")
        await expect(switcher).to_be_visible()
        # The keys of a page and of the switcher differ by Shift alone.
        await page.keyboard.press("g")
        await page.keyboard.press("Shift+N")
        dialog = page.get_by_role("dialog")
        await expect(dialog.get_by_role("link")).to_have_text(["default", "shop", "All namespaces"])
        await accessible(page)
        await page.keyboard.type("the sh")
        await expect(dialog.get_by_role("link")).to_have_text(["shop", "All namespaces"])
        await page.keyboard.press("Enter")
        # The same page, in the other namespace; its links stay there.
        await expect(page).to_have_url(re.compile(f"{shop}#/jobs$"))
        await expect(page).to_have_title("Jobs · shop · jqmaster")
        await expect(page.locator("tbody")).to_contain_text("shop.work")
        await page.locator("tbody tr").first.click()
        await expect(page).to_have_url(re.compile(f"{shop}#/job\\?id={job_id}"))
        await heading(page, "shop.work")
        await expect(page).to_have_title(re.compile(r"shop\.work .* · shop · jqmaster$"))
        await page.get_by_role("button", name="Cancel the job").click()
        await dialog.get_by_role("button", name="Cancel the job").click()
        await expect(page.locator(".big-state")).to_have_text("Canceled")

        await page.keyboard.press("Control+k")
        await expect(dialog.get_by_role("heading")).to_have_text("Command palette · shop")
        await page.keyboard.type("default")
        await page.get_by_role("option").filter(has_text="Namespace").click()
        await expect(page).to_have_url(f"{one.url}/#/overview")
        await expect(page).to_have_title("Overview · jqmaster")

        # Pages of the installation leave the namespace.
        await page.goto(f"{one.url}/ns/shop/#/access")
        await expect(page.get_by_text("Users belong to the installation.")).to_be_visible()
        await page.get_by_role("link", name="Namespaces", exact=True).click()
        await expect(page).to_have_url(f"{one.url}/#/namespaces")
        await page.get_by_role("link", name="Enter shop").click()
        await expect(page).to_have_url(re.compile(f"{shop}#/overview$"))
        await heading(page, "Overview")
        await page.keyboard.press("g")
        await page.keyboard.press("n")
        await heading(page, "Names")


async def test_a_namespace_overrides_a_setting_and_resets_it(browser: Browser, one: Installation) -> None:
    await one.put("shop")
    await one.until_served("shop")
    assert (await one.api().call("PATCH", "/api/settings", {"max_losses": 5}))[0] == 200
    shop = f"{one.url}/ns/shop/"
    async with Screens(browser, one.url).open("#/overview") as page:
        await page.goto(f"{shop}#/settings?q=max_losses")
        dialog = page.get_by_role("dialog")
        row = page.locator("tr.setting").filter(has_text="max_losses")
        await expect(page.get_by_text("A change here applies only to namespace shop.")).to_be_visible()
        await expect(row.locator(".badge")).to_have_text("installation")
        await row.get_by_role("button", name="Change").click()
        await expect(dialog.get_by_role("button", name="Reset")).to_have_count(0)
        await dialog.get_by_label("max_losses").fill("900")
        await dialog.get_by_role("button", name="Save").click()
        await expect(dialog.locator(".field-error")).to_contain_text("at most 100")
        await dialog.get_by_label("max_losses").fill("8")
        await dialog.get_by_role("button", name="Save").click()
        await expect(row.locator(".badge")).to_have_text("namespace")
        await expect(row.locator(".setting-value")).to_have_text("8")
        await accessible(page)
        assert one.master.live.current.max_losses == 5
        await row.get_by_role("button", name="Change").click()
        await dialog.get_by_role("button", name="Reset to the installation's value (5)").click()
        await expect(row.locator(".badge")).to_have_text("installation")
        await expect(row.locator(".setting-value")).to_have_text("5")
        # A setting of all namespaces is changed at the installation.
        await page.goto(f"{shop}#/settings?q=log_level")
        row = page.locator("tr.setting").filter(has_text="log_level")
        await expect(row).to_contain_text("the same in all namespaces")
        await expect(row.get_by_role("button")).to_have_count(0)
        await page.get_by_role("link", name="Settings of the installation").click()
        await expect(page).to_have_url(f"{one.url}/#/settings")
        await expect(page.get_by_text("A change here applies only")).to_have_count(0)


async def test_the_worst_namespace_is_first_with_its_reason(
    browser: Browser, one: Installation, other: StoreServer
) -> None:
    for name in ("busy", "calm"):
        await one.put(name)
    await one.put("broken", "b")
    await one.put("shut", state="closed")
    await one.until_served("busy", "calm", "broken")
    await one.api("busy").enqueue("work")
    async with Screens(browser, one.url).open("#/namespaces") as page:
        row = page.locator('tbody tr[data-key="busy"]')
        await expect(row.locator(".col-ready")).to_have_text("1")
        await expect(page.locator("th.col-failures span")).to_have_attribute(
            "title", "Failed attempts, this and last hour"
        )
        # Ready jobs are sampled, so how long the first one waits is known a moment later.
        await expect(row.locator(".col-wait")).not_to_have_text("–")
        await expect(page.locator("tbody").first.locator("tr").first).to_contain_text("busy")
        assert (await names(page))[-1] == "shut"
        other.kill()
        await expect(page.locator(".fault").first).to_contain_text(re.compile("^(Critical)?broken: .+"))
        await expect(page.locator("tbody").first.locator("tr").first).to_contain_text("broken")
        found = await names(page)
        assert (found[:2], set(found[2:4]), found[4:]) == (["broken", "busy"], {"calm", "default"}, ["shut"])
        stores = page.locator(".stores")
        await expect(stores.locator(".fault")).to_contain_text("b: ")
        # The others can still be entered.
        await page.get_by_role("link", name="Enter calm").click()
        await heading(page, "Overview")
        await expect(page).to_have_title("Overview · calm · jqmaster")


async def test_one_namespace_alone_needs_no_switcher(screens: Screens) -> None:
    async with screens.open("#/jobs") as page:
        await heading(page, "Jobs")
        await expect(page.locator(".top .namespace")).to_have_count(0)
        await page.keyboard.press("g")
        await page.keyboard.press("Shift+N")
        await heading(page, "Namespaces")


async def test_one_login_is_good_for_all_namespaces(
    browser: Browser, store_server: StoreServer, other: StoreServer, tmp_path: Path
) -> None:
    admin = "the-admins-token-0123456789"
    async with installed(store_server, other, tmp_path, tokens=[f"admin:{admin}"], token=admin) as one:
        await one.put("shop")
        await one.until_served("shop")
        reader = (await one.api().call("POST", "/api/tokens", {"label": "look", "scopes": ["read"]}))[1][
            "token"
        ]
        async with Screens(browser, one.url).open("ns/shop/#/jobs") as page:
            await page.get_by_label("Token", exact=True).fill(reader)
            await page.keyboard.press("Enter")
            await heading(page, "Jobs")
            await page.get_by_role("button", name="Namespace shop").click()
            await page.get_by_role("dialog").get_by_role("link", name="All namespaces").click()
            # Readers see the others, and change nothing.
            await heading(page, "Namespaces")
            await page.locator('tbody tr[data-key="shop"]').click()
            await heading(page, "shop")
            await expect(page.get_by_role("link", name="Enter shop")).to_be_visible()
            await expect(page.get_by_role("group", name="Actions").get_by_role("button")).to_have_count(0)
            await page.get_by_role("button", name="Log out").click()
            await heading(page, "Log in")
            await page.goto(f"{one.url}/ns/shop/#/access")
            await page.get_by_label("Token", exact=True).fill(admin)
            await page.keyboard.press("Enter")
            await heading(page, "Access")
            await page.goto(f"{one.url}/#/namespaces?name=shop")
            await page.get_by_role("button", name="Close").click()
            await page.get_by_role("dialog").get_by_role("button", name="Close", exact=True).last.click()
            await expect(page.locator(".job-head")).to_contain_text("closed")


async def test_a_token_of_a_namespace_logs_in_there_and_sees_nothing_else(
    browser: Browser, store_server: StoreServer, other: StoreServer, tmp_path: Path
) -> None:
    admin = "the-admins-token-0123456789"
    async with installed(store_server, other, tmp_path, tokens=[f"admin:{admin}"], token=admin) as one:
        await one.put("shop")
        await one.until_served("shop")
        made = await one.api("shop").call("POST", "/api/tokens", {"label": "ada", "scopes": ["operate"]})
        async with Screens(browser, one.url).open("ns/shop/#/jobs") as page:
            await page.get_by_label("Token", exact=True).fill(made[1]["token"])
            await page.keyboard.press("Enter")
            await heading(page, "Jobs")
            await expect(page.get_by_role("button", name="Namespace shop")).to_have_count(0)
            await page.goto(f"{one.url}/#/jobs")
            await heading(page, "Log in")
            await page.goto(f"{one.url}/ns/shop/#/jobs")
            await heading(page, "Jobs")
            await page.get_by_role("button", name="Log out").click()
            await heading(page, "Log in")


@pytest.mark.sized
async def test_pages_of_namespaces_are_accessible_and_fit_a_phone(
    browser: Browser, one: Installation
) -> None:
    await one.put("shop", title="The shop " * 10)
    await one.put("shut", state="closed")
    await one.until_served("shop")
    for locale in ("en-US", "ja-JP"):
        async with Screens(browser, one.url).open(locale=locale) as page:
            for address in (
                "#/namespaces",
                "#/namespaces?name=shop",
                "#/namespaces?name=shut",
                "#/namespaces?name=no-such",
                "ns/shop/#/overview",
                "ns/shop/#/access",
            ):
                await page.goto(f"/{address}")
                await expect(page.get_by_role("heading", level=1)).to_be_visible()
                await expect(page.locator(".loading")).to_have_count(0)
                await accessible_in_each_look(page, address)
