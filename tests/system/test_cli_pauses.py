"""`jqmaster pause`, `resume` and `pauses` as operators use them: real processes against a real master."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support import real_time
from tests.support.cli import Cli
from tests.support.master import Api
from tests.support.scripted_worker import worker_at
from tests.system.test_cli_constraints import FILE, names

pytestmark = [pytest.mark.system, pytest.mark.req("J13"), real_time.PROCESSES]

TENANTS = {
    "matcher": {"field": "name", "op": "eq", "value": "work"},
    "key": "argument.tenant",
    "overrides": [{"value": "old", "paused": True}],
}


@pytest.fixture
def cli(api: Api, tmp_path: Path) -> Cli:
    return Cli(str(api.http.base_url), tmp_path)


async def pauses(api: Api) -> list[dict[str, Any]]:
    found = (await api.call("GET", "/api/constraints"))[1]["constraints"]
    return [one for one in found if one["name"].startswith("pause-")]


async def test_a_name_and_a_tag_are_paused_listed_and_resumed(api: Api, cli: Cli) -> None:
    async with worker_at(api, "mail.send"):
        done = await cli("pause", "mail.send", "--for", "2h", "--reason", "The provider is down.")
    assert (done.code, done.err) == (0, "")
    assert "paused jobs named mail.send until 20" in done.out
    (one,) = await pauses(api)
    left = datetime.fromisoformat(one["expires_at"]) - datetime.fromisoformat(one["created_at"])
    assert abs(left - timedelta(hours=2)) < timedelta(minutes=5)
    end = (datetime.now(UTC) + timedelta(days=2)).isoformat()
    assert (await cli("pause", "--tag", "nightly", "--until", end)).code == 0
    listed = (await cli("pauses")).out
    for text in ("jobs named mail.send", "The provider is down.", "jobs tagged nightly", one["created_by"]):
        assert text in listed, listed
    assert len((await cli("pauses", "--json")).lines()) == 2

    assert "ended" in (await cli("resume", "mail.send")).out
    (other,) = await pauses(api)
    done = await cli("resume", other["name"], "mail.send")
    assert (done.code, done.out, done.err) == (3, f"{other['name']}  ended\n", "No pause of mail.send.\n")
    assert await pauses(api) == []
    assert (await cli("resume", "--tag", "nightly")).code == 3


async def test_a_pause_of_a_name_that_no_worker_has_ever_served_warns(api: Api, cli: Cli) -> None:
    done = await cli("pause", "mail.sned")
    assert (done.code, "paused jobs named mail.sned" in done.out) == (0, True)
    assert done.err == "  No worker has ever served the name mail.sned; is it misspelt?\n"
    assert (await cli("pause", "--tag", "mail.sned")).err == ""


async def test_a_constraint_and_one_value_of_its_key_are_paused_and_resumed(api: Api, cli: Cli) -> None:
    assert (await api.call("PUT", "/api/constraints/tenants", TENANTS))[0] == 201
    for value in ("42", '"42"', "acme"):
        assert (await cli("pause", "--constraint", "tenants", "--value", value)).code == 0
    assert (await cli("pause", "--constraint", "tenants")).code == 0
    begun = [one["matcher"]["all"][1]["value"] for one in await pauses(api) if "all" in one["matcher"]]
    assert {repr(value) for value in begun} == {"42", "'42'", "'acme'"}
    listed = (await cli("pauses")).out
    assert 'constraint tenants at argument.tenant = "old"' in listed
    assert (await cli("resume", "--constraint", "tenants", "--value", "42.0")).code == 0
    left = [one["matcher"] for one in await pauses(api)]
    assert TENANTS["matcher"] in left
    assert sorted(m["all"][1]["value"] for m in left if "all" in m) == ["42", "acme"]
    assert (await cli("resume", "--constraint", "tenants")).code == 0
    assert len(await pauses(api)) == 2, "the values stay paused"
    again = await cli("resume", "--constraint", "tenants")
    assert again.code == 3
    assert "run `jqmaster constraints resume tenants`" in again.err
    assert (await cli("resume", "--constraint", "none")).code == 3


async def test_applying_a_file_with_prune_leaves_pauses_alone(api: Api, cli: Cli) -> None:
    file = cli.file("limits.toml", FILE)
    assert (await cli("constraints", "apply", file)).code == 0
    assert (await cli("pause", "mail.send")).code == 0
    assert (await cli("pause", "--constraint", "api.example.org", "--value", "acme")).code == 0
    before = await pauses(api)
    planned = await cli("constraints", "plan", file, "--prune")
    assert (planned.code, planned.out) == (0, "nothing to change\n")
    assert (await cli("constraints", "plan", file)).out == "nothing to change\n", "a pause is in no file"
    file.write_text('{"constraint": []}')
    file.rename(file.with_suffix(".json"))
    applied = await cli("constraints", "apply", file.with_suffix(".json"), "--prune")
    assert applied.code == 0, applied.err
    assert await names(api) == [one["name"] for one in before]
    assert await pauses(api) == before


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("mail", "--tag", "x"),
        ("mail", "--value", "1"),
        ("mail", "--for", "soon"),
        ("mail", "--for", "1h", "--until", "2999-01-01"),
        ("mail", "--until", "2001-01-01"),
        ("mail", "--until", "tomorrow"),
    ],
)
async def test_a_pause_of_nothing_or_without_a_clear_end_is_refused(
    api: Api, cli: Cli, arguments: tuple[str, ...]
) -> None:
    assert (await cli("pause", *arguments)).code == 2
    assert await pauses(api) == []
