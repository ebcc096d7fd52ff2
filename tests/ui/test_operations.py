"""Pages for those who run the system: workers, masters, audit, settings, tokens and users."""

import re
import uuid

import pytest
from playwright.async_api import Browser, expect

from jqmaster.app import running_master
from jqmaster.domain.identity.access import Role
from tests.support import real_time
from tests.support.master import QUICK, Api, GivenSettings, master_on
from tests.support.server import StoreServer, started
from tests.support.waiting import wait_until
from tests.ui.conftest import Screens, worker_on
from tests.ui.test_core import accessible, accessible_in_each_look, tag

pytestmark = [pytest.mark.req("D21"), pytest.mark.asyncio(loop_scope="session"), real_time.BROWSER]


@pytest.mark.sized
@pytest.mark.parametrize("locale", ["en-US", "ja-JP"])
async def test_pages_of_operations_are_accessible_and_fit_a_phone(
    screens: Screens, api: Api, locale: str
) -> None:
    async def registered() -> list[str]:
        return [one["id"] for one in (await api.call("GET", "/api/workers"))[1]["workers"]]

    worker = (await wait_until(registered, what="the worker has registered"))[0]
    addresses: dict[str, str | re.Pattern[str]] = {
        "#/workers": "Workers",
        f"#/workers?id={worker}": re.compile(".+"),
        "#/masters": "Masters",
        "#/audit": "Audit",
        "#/settings": "Settings",
        "#/access": "Access",
    }
    async with screens.open(locale=locale) as page:
        for address, heading in addresses.items():
            await page.goto(f"/{address}")
            if locale == "en-US":
                await expect(page.get_by_role("heading", level=1)).to_have_text(heading)
            else:
                await expect(page.get_by_role("heading", level=1)).to_be_visible()
            await expect(page.locator(".loading")).to_have_count(0)
            await accessible_in_each_look(page, address)
        await page.goto("/#/settings")
        await expect(page.get_by_role("heading", level=2).first).to_be_visible()
        await expect(page.locator("main")).not_to_contain_text("`")


async def test_a_worker_is_drained_resumed_and_what_it_runs_is_seen(screens: Screens, api: Api) -> None:
    job = await api.enqueue("ui.nap", 30.0)
    await api.until_state(job, "running")
    async with screens.open("#/workers") as page:
        # Silent workers of other tests may come first.
        await page.locator("tbody tr").filter(has_text="live").locator("a").first.click()
        await expect(page.locator("tbody").get_by_role("link", name="ui.nap").first).to_be_visible()
        await page.get_by_role("button", name="Drain").click()
        await expect(page.locator("main").get_by_text("draining").first).to_be_visible()
        await page.get_by_role("button", name="Resume").click()
        await expect(page.get_by_role("button", name="Drain")).to_be_visible()
        await page.get_by_role("button", name="Detach…").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog.get_by_role("button", name="Detach")).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(dialog).to_have_count(0)
        # The audit log names who did that.
        await page.goto("/#/audit")
        await expect(page.locator(".entry").first).to_contain_text("Worker resumed")
        await expect(page.locator(".entry").first).to_contain_text(re.compile("draining.*was yes.*is no"))
        await page.locator(".entry a").first.click()
        await expect(page).to_have_url(re.compile("target="))
        await expect(page.locator(".entry")).not_to_have_count(0)
        await page.get_by_label("Who").press_sequentially("nobody", delay=20)
        await expect(page.get_by_text("No changes match.")).to_be_visible()
        await page.get_by_role("link", name="Clear").click()
        await page.get_by_label("From").fill("2026-01-01T00:00:00")
        await expect(page).to_have_url(re.compile("since="))
        await expect(page.locator(".entry")).not_to_have_count(0)
        await page.get_by_label("To", exact=False).last.fill("2026-01-02T00:00:00")
        await expect(page.get_by_text("No changes match.")).to_be_visible()
    await api.call("POST", f"/api/jobs/{job}/cancel")


async def test_a_worker_is_detached_and_registers_anew(screens: Screens, api: Api) -> None:
    worker = worker_on(str(api.http.base_url))
    async with worker.running():
        former = await wait_until(lambda: worker.worker_id, what="the worker has registered")
        async with screens.open(f"#/workers?id={former}") as page:
            await page.get_by_role("button", name="Detach…").click()
            await page.get_by_role("dialog").get_by_role("button", name="Detach").click()
            await expect(page.get_by_role("dialog")).to_have_count(0)
            await wait_until(lambda: worker.worker_id not in ("", former), what="it has registered anew")
            await page.goto("/#/audit")
            await expect(page.locator(".entry").first).to_contain_text("Worker detached")


async def test_a_leader_is_demoted_and_another_master_leads(browser: Browser) -> None:
    server = StoreServer()
    shard = f"m{uuid.uuid4().hex[:10]}"
    with started(server):
        settings = GivenSettings(**{**QUICK, "redis_url": server.url, "shard": shard})
        async with (
            master_on(server.url, shard=shard) as (leader, api),
            running_master(settings) as other,
            Screens(browser, str(api.http.base_url)).open("#/masters") as page,
        ):
            await expect(page.locator("tbody tr")).to_have_count(2)
            await page.get_by_role("button", name="Demote…").click()
            dialog = page.get_by_role("dialog")
            await expect(dialog).to_contain_text("1 other master")
            await dialog.get_by_role("button", name=re.compile("^Demote")).click()
            await expect(dialog).to_have_count(0)
            await wait_until(lambda: other.shard.leader.leadership, what="the other master leads")
            assert not leader.shard.leader.leadership


async def test_a_leader_is_demoted_only_where_another_could_lead(screens: Screens) -> None:
    async with screens.open("#/masters") as page:
        await page.get_by_role("button", name="Demote…").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("0 other masters are live")
        await dialog.get_by_role("button", name=re.compile("^Demote")).click()
        await expect(dialog.get_by_role("alert")).to_contain_text("no_other_master")


async def test_a_setting_is_changed_refused_where_it_is_out_of_range_and_reset(
    screens: Screens, api: Api
) -> None:
    async with screens.open("#/settings?q=max_push_jobs") as page:
        setting = page.locator(".setting").filter(has_text="max_push_jobs")
        await setting.get_by_role("button", name=re.compile("^Change")).click()
        dialog = page.get_by_role("dialog")
        value = dialog.get_by_role("spinbutton")
        await value.fill("0")
        await dialog.get_by_role("button", name="Save").click()
        await expect(dialog.locator(".field-error")).to_be_visible()
        await value.fill("17")
        await dialog.get_by_role("button", name="Save").click()
        await expect(dialog).to_have_count(0)
        await expect(setting.locator(".setting-value")).to_have_text("17")
        await expect(setting).to_contain_text("changed at run time")
        await setting.get_by_role("button", name=re.compile("^Change")).click()
        await dialog.get_by_role("button", name="Reset to the configured value").click()
        await expect(setting).not_to_contain_text("changed at run time")
    settings = (await api.call("GET", "/api/settings"))[1]["settings"]
    assert {one["value"] for one in settings if one["is_secret"]} <= {None}


async def test_tokens_are_shown_once_and_users_rule_who_sees_what(
    store_server: StoreServer, screens: Screens
) -> None:
    """Use a separate master: once it has a user, it requires a login."""
    async with master_on(store_server.url) as (master, _):
        its = Screens(screens.browser, master.server.url)
        secret = uuid.uuid4().hex
        users = master.identity.users
        await users.create("ada", secret, Role.ADMIN, who="test")
        await users.create("vera", secret, Role.VIEWER, who="test")
        async with its.open("#/workers") as page:
            await page.get_by_label("User").fill("vera")
            await page.get_by_label("Password").fill(secret)
            await page.get_by_role("button", name="Log in").click()
            await expect(page.get_by_role("heading", level=1)).to_have_text("Workers")
            navigation = page.locator("nav.side")
            await expect(navigation.get_by_role("link", name="Access")).to_have_count(0)
            await expect(navigation.get_by_role("link", name="Audit")).to_have_count(0)
            await expect(navigation.get_by_role("link", name="Targets").locator("svg")).to_have_count(1)
            await expect(navigation.locator("a:not(:has(svg))")).to_have_count(0)
            await page.goto("/#/settings")
            await expect(page.locator(".setting").first).to_be_visible()
            await expect(page.get_by_role("button", name=re.compile("^Change"))).to_have_count(0)
            await page.goto("/#/masters")
            await expect(page.locator("tbody tr")).to_have_count(1)
            await expect(page.get_by_role("button", name="Demote…")).to_have_count(0)
        async with its.open("#/access") as page:
            await page.get_by_label("User").fill("ada")
            await page.get_by_label("Password").fill(secret)
            await page.get_by_role("button", name="Log in").click()
            await page.get_by_role("button", name="New token").click()
            await page.get_by_label("Label").fill("web app")
            await page.get_by_role("button", name="Create").click()
            await expect(page.locator("dialog pre")).to_contain_text("jqm_push_")
            await page.locator("dialog footer").get_by_role("button", name="Close").click()
            row = page.get_by_role("row").filter(has_text="web app")
            await expect(row).to_contain_text("push")
            await row.get_by_role("button", name="Rotate…").click()
            await page.get_by_role("dialog").get_by_role("button", name="Rotate").click()
            await expect(page.locator("dialog pre")).to_contain_text("jqm_push_")
            await page.locator("dialog footer").get_by_role("button", name="Close").click()
            await row.first.get_by_role("button", name="Revoke…").click()
            await page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
            await expect(row).to_have_count(1)
            row = page.get_by_role("row").filter(has_text="vera")
            await row.get_by_role("button", name="Disable").click()
            await page.get_by_role("dialog").get_by_role("button", name="Disable").click()
            await expect(row).to_contain_text("disabled")
            await row.get_by_role("button", name="Delete…").click()
            await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
            await expect(row).to_have_count(0)


async def test_two_operators_change_one_constraint_and_nobodys_words_are_lost(
    screens: Screens, api: Api
) -> None:
    name = f"c-{uuid.uuid4().hex[:8]}"
    document = {"matcher": {"field": "name", "op": "eq", "value": name}, "key": "argument", "concurrency": 5}
    assert (await api.call("PUT", f"/api/constraints/{name}", document))[0] == 201
    await api.enqueue(name, "x")
    async with (
        screens.open(f"#/constraints?name={name}") as one,
        screens.open(f"#/constraints?name={name}") as two,
    ):
        for page, limit in ((one, "3"), (two, "4")):
            await page.get_by_role("button", name="Edit…", exact=True).click()
            await page.get_by_role("dialog").get_by_label("Running at once").fill(limit)
        await one.get_by_role("button", name="Save").click()
        await expect(one.get_by_role("dialog")).to_have_count(0)
        await two.get_by_role("button", name="Save").click()
        dialog = two.get_by_role("dialog")
        # Both versions are shown; the user chooses one and saves it.
        conflict = dialog.get_by_role("row").filter(has_text="Running at once")
        await expect(conflict.get_by_role("cell")).to_have_text(["5", "4", "3"])
        await expect(dialog.get_by_label("Running at once")).to_have_value("4")
        assert (await api.call("GET", f"/api/constraints/{name}"))[1]["concurrency"] == 3
        await conflict.get_by_role("radio").nth(1).check()
        await expect(dialog.get_by_label("Running at once")).to_have_value("3")
        await dialog.get_by_label("Maximum backlog").fill("1000")
        await dialog.get_by_role("button", name="Save").click()
        await expect(dialog).to_have_count(0)
        saved = (await api.call("GET", f"/api/constraints/{name}"))[1]
        assert (saved["concurrency"], saved["max_backlog"]) == (3, 1000)
        # One value has its own limit; the changes appear below.
        await one.get_by_role("button", name="Limit…").click()
        await one.get_by_role("dialog").get_by_label("Running at once").fill("2")
        await one.get_by_role("dialog").get_by_role("button", name="Save").click()
        await expect(one.get_by_role("button", name="Reset to default")).to_be_visible()
        await expect(one.locator(".diff.is", has_text="3").first).to_be_visible()
    overrides = (await api.call("GET", f"/api/constraints/{name}"))[1]["overrides"]
    assert [(o["value"], o["concurrency"]) for o in overrides] == [("x", 2)]


async def test_the_jobs_of_a_constraint_and_its_changes_are_told_in_words(screens: Screens, api: Api) -> None:
    matcher = {
        "all": [
            {"field": "name", "op": "glob", "value": "mail.*"},
            {"not": {"field": "argument.vip", "op": "exists", "value": True}},
        ]
    }
    status, _ = await api.call("PUT", "/api/constraints/told", {"matcher": matcher, "concurrency": 4})
    assert status == 201
    async with screens.open("#/constraints?name=told") as page:
        card = page.locator("section").filter(has=page.get_by_role("heading", name="Matcher"))
        await expect(card).to_contain_text("All of these match:")
        await expect(card.locator("li")).to_have_text(
            ["name matches the pattern mail.*", "argument.vip not: exists"]
        )
        await expect(card.locator("pre")).to_be_hidden()
        await card.locator("summary").click()
        await expect(card.locator("pre")).to_contain_text('"op": "glob"')
        changes = page.locator("section").filter(has=page.get_by_role("heading", name="Changes"))
        await expect(changes).to_contain_text(
            "All of these match: name matches the pattern mail.*; argument.vip"
        )
    async with screens.open("#/constraints?name=told", locale="ja-JP") as page:
        await expect(page.locator(".changes")).to_contain_text("同時実行数")
        await expect(page.locator(".changes")).to_contain_text("name")
    assert (await api.call("DELETE", "/api/constraints/told"))[0] == 204


async def test_a_matcher_without_a_list_of_conditions_has_no_rows(screens: Screens) -> None:
    async with screens.open() as page:
        found = await page.evaluate(
            """async (texts) => {
              const { ruleOf } = await import("./matching/rule_builder.js");
              return texts.map(ruleOf);
            }""",
            [
                '{"all": 5}',
                '{"any": {"field": "name"}}',
                "null",
                "7",
                '{"all": [{"field": "name", "op": "eq", "value": "a"}]}',
            ],
        )
    row = {"field": "name", "op": "eq", "value": "a", "isNot": False}
    assert found == [None, None, None, None, {"kind": "all", "rows": [row]}]


async def test_the_audit_log_tells_filters_and_limits_in_words(screens: Screens, api: Api) -> None:
    mark = tag()
    document = {
        "matcher": {"field": "name", "op": "glob", "value": f"{mark}.*"},
        "key": "argument.host",
        "rate": {"limit": 15, "period_s": 60.0},
        "overrides": [{"value": "mx.example", "concurrency": 1}],
    }
    assert (await api.call("PUT", f"/api/constraints/{mark}", document))[0] == 201
    body = {
        "action": "cancel",
        "filter": {"name": f"{mark}.none", "state": "ready", "created_after": "2026-01-02T03:04:05Z"},
    }
    status, action = await api.call("POST", "/api/jobs/actions", body)
    assert status == 202
    async with screens.open(f"#/audit?target={mark}", timezone="UTC") as page:
        entry = page.locator(".entry")
        await expect(entry).to_contain_text("15 starts per minute")
        await expect(entry).to_contain_text("mx.example: 1 running at once")
        await expect(entry).not_to_contain_text("{")
        await accessible(page)
        await page.goto(f"/#/audit?target={action['id']}")
        words = f"State: Ready · Name: {mark}.none · Created after: 2026-01-02 03:04:05"
        await expect(entry.last).to_contain_text(words)
        await expect(entry.first).not_to_contain_text("{")
    assert (await api.call("DELETE", f"/api/constraints/{mark}"))[0] == 204
