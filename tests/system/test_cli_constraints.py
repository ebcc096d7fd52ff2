"""`jqmaster constraints` and `jqmaster audit` as operators use them: real processes against a real master."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import real_time
from tests.support.cli import Cli
from tests.support.master import Api

pytestmark = [pytest.mark.system, pytest.mark.req("J13"), real_time.PROCESSES]

FILE = """
[[constraint]]
name = "api.example.org"
key = "argument.tenant"
concurrency = 4
rate = {limit = 100, period_s = 60}
matcher = {field = "argument.host", op = "eq", value = "api.example.org"}
overrides = [{value = "acme", concurrency = 8}]

[[constraint]]
name = "reports"
paused = true

[constraint.matcher]
all = [{field = "name", op = "glob", value = "report.*"}, {field = "argument.night", op = "exists"}]
"""


@pytest.fixture
def cli(api: Api, tmp_path: Path) -> Cli:
    return Cli(str(api.http.base_url), tmp_path)


async def names(api: Api) -> list[str]:
    return [c["name"] for c in (await api.call("GET", "/api/constraints"))[1]["constraints"]]


async def test_a_file_is_planned_applied_changed_and_pruned(api: Api, cli: Cli) -> None:
    file = cli.file("limits.toml", FILE)
    planned = await cli("constraints", "plan", file)
    assert planned.code == 6
    assert "+ api.example.org" in planned.out
    assert "concurrency: 4" in planned.out
    assert await names(api) == []

    applied = await cli("constraints", "apply", file, "--json")
    assert (applied.code, applied.err) == (0, "")
    assert [(step["action"], step["name"]) for step in applied.lines()] == [
        ("create", "api.example.org"),
        ("create", "reports"),
    ]
    again = await cli("constraints", "plan", file)
    assert (again.code, again.out) == (0, "nothing to change\n")
    assert "nothing to change" in (await cli("constraints", "apply", file)).out

    await api.call(
        "POST", "/api/constraints/reports/values", {"value": 1}
    )  # without a key: refused, no change
    await api.call(
        "PUT", "/api/constraints/other", {"matcher": {"field": "name", "op": "exists"}, "paused": True}
    )
    file.write_text(FILE.replace("concurrency = 4", "concurrency = 5"))
    planned = await cli("constraints", "plan", file, "--json")
    assert planned.code == 6
    (step,) = planned.lines()
    assert (step["action"], step["before"]["concurrency"], step["after"]["concurrency"]) == ("change", 4, 5)
    pruned = await cli("constraints", "plan", file, "--prune")
    assert "- other" in pruned.out
    assert "concurrency: 4 -> 5" in pruned.out
    planned = await cli("constraints", "plan", file)
    assert f"not in {file}, kept without --prune: other\n" in planned.out
    assert (await cli("constraints", "apply", file)).code == 0
    assert await names(api) == ["api.example.org", "other", "reports"]
    assert (await cli("constraints", "apply", file, "--prune")).code == 0
    assert await names(api) == ["api.example.org", "reports"]


async def test_an_edit_in_between_stops_an_apply_and_says_so(
    api: Api, cli: Cli, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The edit must fall between the read and the write, so the command runs in this process."""
    import typer

    from jqmaster.cli.commands import constraint_plans
    from jqmaster.cli.console.http import MasterSession
    from jqmaster.cli.declared import constraint_calls

    await cli("constraints", "apply", cli.file("limits.toml", FILE))
    file = cli.file(
        "limits.toml",
        FILE.replace("concurrency = 4", "concurrency = 5").replace("paused = true", "max_backlog = 1"),
    )
    look = constraint_calls.all_constraints
    loop = asyncio.get_running_loop()

    def look_and_be_overtaken(http: Any) -> list[dict[str, Any]]:
        found = look(http)
        change = api.call("POST", "/api/constraints/api.example.org/values", {"value": "x", "paused": True})
        asyncio.run_coroutine_threadsafe(change, loop).result(timeout=30)
        return found

    monkeypatch.setattr(constraint_plans, "all_constraints", look_and_be_overtaken)
    with pytest.raises(typer.Exit) as ended, MasterSession(str(api.http.base_url), None) as session:
        await asyncio.to_thread(constraint_plans.apply, session, str(file))
    assert ended.value.exit_code == 4
    said = capsys.readouterr().err
    assert "precondition_failed" in said
    assert "Stopped at api.example.org: 0 of 2 changes were made" in said
    _, reports = await api.call("GET", "/api/constraints/reports")
    assert reports["paused"]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.toml", "[[constraint", "neither TOML"),
        ("a.json", "{", "neither TOML"),
        ("a.json", "[1]", "no list of constraints"),
        ("a.toml", "[[constraint]]\nmatcher = {}", "has no name"),
        ("a.toml", FILE + FILE.replace("api.example.org", "x"), "has the same name as an earlier one: reports"),
        ("a.toml", "", "has no constraints"),
        ("a.toml", FILE.replace("paused = true", ""), "\n  has no limit"),
        ("a.toml", FILE.replace("concurrency = 4", "concurrency = 0"), "concurrency: must be 1 or more"),
        ("a.toml", FILE.replace('op = "eq"', 'op = "like"'), "matcher.op: unknown op"),
        ("a.toml", FILE.replace("concurrency = 4", "concurency = 4"), "concurency: unknown field; did you mean"),
        ("a.toml", FILE.replace("concurrency = 4", "concurrency = 2026-01-01"), "constraint api.example.org"),
    ],
)  # fmt: skip
async def test_a_file_with_a_fault_changes_nothing(
    api: Api, cli: Cli, name: str, text: str, said: str
) -> None:
    file = cli.file(name, text)
    for command in ("plan", "apply"):
        done = await cli("constraints", command, file)
        assert done.code == 2, done
        assert said in done.err
        assert "Traceback" not in done.err
    assert await names(api) == []


async def test_one_is_put_shown_paused_resumed_and_deleted(api: Api, cli: Cli) -> None:
    done = await cli(
        "constraints",
        "put",
        "c1",
        "--job-name",
        "work",
        "--key",
        "argument.host",
        "--rate",
        "10/1.5",
        "--fair",
        "--new",
    )
    assert (done.code, "c1  created" in done.out) == (0, True)
    assert (
        await cli("constraints", "put", "c1", "--job-name", "work", "--concurrency", "1", "--new")
    ).code == 4
    await api.call("POST", "/api/constraints/c1/values", {"value": "a", "concurrency": 2})
    await api.enqueue("work", {"host": "a"})

    assert (await cli("constraints", "pause", "c1", "--value", "a")).code == 0
    assert (await cli("constraints", "pause", "c1", "--value", "7")).code == 0
    assert (await cli("constraints", "pause", "c1")).code == 0
    (found,) = (await cli("constraints", "show", "c1", "--json")).lines()
    assert found["paused"]
    assert found["fair"]
    assert found["rate"] == {"limit": 10, "period_s": 1.5}
    assert found["overrides"] == [
        {"value": "a", "concurrency": 2, "rate": None, "paused": True},
        {"value": 7, "concurrency": None, "rate": None, "paused": True},
    ]
    shown = await cli("constraints", "show", "c1")
    assert shown.code == 0
    for text in ("paused", "10 in 1.5 s", "fair", '"glob"', "2 at once"):
        assert text in shown.out
    assert (await cli("constraints", "resume", "c1", "--value", "a")).code == 0
    assert (await cli("constraints", "resume", "c1", "--value", "7")).code == 0
    assert (await cli("constraints", "resume", "c1")).code == 0
    (found,) = (await cli("constraints", "show", "c1", "--value", "a", "--json")).lines()
    assert found["overrides"] == [{"value": "a", "concurrency": 2, "rate": None, "paused": False}]
    assert found["value"]["limits"]["concurrency"] == 2
    listed = await cli("constraints", "list")
    assert "c1" in listed.out
    assert [c["name"] for c in (await cli("constraints", "list", "--json")).lines()] == ["c1"]

    assert (await cli("constraints", "delete", "c1", "--if-match", "old")).code == 4
    assert (await cli("constraints", "delete", "c1")).code == 0
    for command in ("show", "delete", "pause"):
        assert (await cli("constraints", command, "c1")).code == 3
    log = (await cli("audit", "--target", "c1", "--json")).lines()
    assert [entry["action"].partition(".")[2] for entry in reversed(log)] == [
        "put", "value", "value", "value", "put", "value", "value", "put", "delete",
    ]  # fmt: skip
    assert (await cli("audit", "--who", "nobody", "--json")).lines() == []
    assert (await cli("audit", "--until", "2001-01-01", "--json")).lines() == []
    assert len((await cli("audit", "--since", "2001-01-01", "--target", "c1", "--json")).lines()) == len(log)
    table = await cli("audit", "--limit", "2")
    assert (table.code, table.out.count("constraint.")) == (0, 2)


async def test_a_list_has_sums_or_says_where_they_are(api: Api, cli: Cli) -> None:
    every = {"field": "name", "op": "eq", "value": "work"}
    await api.call("PUT", "/api/constraints/few", {"matcher": every, "key": "argument.few", "concurrency": 1})
    await api.call(
        "PUT", "/api/constraints/many", {"matcher": every, "key": "argument.many", "concurrency": 1}
    )
    jobs = [{"name": "work", "argument": {"few": n % 2, "many": n}} for n in range(1000)]
    assert (await api.call("POST", "/api/jobs/bulk", {"jobs": jobs}))[0] == 201
    listed = await cli("constraints", "list")
    assert listed.code == 0
    (few,) = (line for line in listed.out.splitlines() if line.startswith("few "))
    (many,) = (line for line in listed.out.splitlines() if line.startswith("many "))
    assert few.split()[-3:] == ["1000", "0", "2"]
    assert many.split()[-3:] == ["-", "-", "1000"]
    assert "jqmaster constraints show NAME" in listed.out


async def test_a_file_with_one_constraint_is_put_and_previewed(api: Api, cli: Cli) -> None:
    await api.enqueue("work", {"host": "a"})
    one = {
        "matcher": {"field": "name", "op": "eq", "value": "work"},
        "key": "argument.host",
        "concurrency": 1,
    }
    file = cli.file("one.json", json.dumps(one))
    previewed = await cli("constraints", "preview", file)
    assert previewed.code == 0
    assert "count" in previewed.out
    (found,) = (await cli("constraints", "preview", "-", "--json", stdin=json.dumps([one]))).lines()
    assert (found["count"], found["keys"]) == (1, [{"value": "a", "count": 1}])
    assert await names(api) == []
    assert (await cli("constraints", "put", "c1", file)).code == 0
    assert await names(api) == ["c1"]
    assert (
        await cli("constraints", "put", "c1", cli.file("n.json", json.dumps({**one, "name": "c2"})))
    ).code == 2


async def test_a_matcher_is_previewed_from_everywhere(api: Api, cli: Cli) -> None:
    await api.enqueue("work", {"host": "a"})
    await api.enqueue("other")
    matcher = json.dumps({"field": "name", "op": "eq", "value": "work"})
    constraint = json.dumps({"matcher": json.loads(matcher), "key": "argument.host", "concurrency": 1})
    for text in (
        matcher,
        f" {matcher}",
        f'{{"not": {{"not": {matcher}}}}}',
        f'{{"all": [{matcher}]}}',
        constraint,
    ):
        for what, stdin in ((text, ""), ("-", text), (cli.file("m.json", text), "")):
            done = await cli("constraints", "preview", what, "--json", stdin=stdin)
            assert (done.code, done.err) == (0, ""), text
            (found,) = done.lines()
            assert found["count"] == 1
            assert found["keys"] == ([{"value": "a", "count": 1}] if "key" in text else None)
    table = await cli("constraints", "preview", matcher)
    assert "count" in table.out
    assert await names(api) == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("preview", "{"), 2),
        (("preview", '{"not":' * 10_000), 2),
        (("preview", "{}"), 2),
        (("preview", '{"field": "name"}'), 2),
        (("preview", "missing.json"), 2),
        (("put", "c1"), 2),
        (("put", "c1", "--match", "{"), 2),
        (("put", "c1", "--match", "{}"), 2),
        (("put", "c1", "--match", "{}", "--job-name", "x"), 2),
        (("put", "c1", "--job-name", "x"), 2),
        (("put", "c1", "--job-name", "x", "--rate", "5"), 2),
        (("put", "c1", "--job-name", "x", "--rate", "a/b"), 2),
        (("put", "c1", "--job-name", "x", "--concurrency", "0"), 2),
        (("put", "c1", "missing.toml"), 2),
        (("put", "c1", "missing.toml", "--paused"), 2),
        (("plan", "missing.toml"), 2),
        (("show", "c1/../c2"), 3),
        (("nothing",), 2),
    ],
)
async def test_mistakes_have_their_exit_codes(cli: Cli, arguments: tuple[str, ...], code: int) -> None:
    done = await cli("constraints", *arguments)
    assert done.code == code, done
    assert "Traceback" not in done.err


async def test_texts_of_others_do_not_drive_the_terminal(api: Api, cli: Cli) -> None:
    matcher = {"field": "name", "op": "eq", "value": "\x1b[31mwork"}
    await api.call(
        "PUT", "/api/constraints/c1", {"matcher": matcher, "key": "argument.host", "concurrency": 1}
    )
    await api.call("POST", "/api/constraints/c1/values", {"value": "\x1b]0;x\x07", "paused": True})
    for arguments in (("constraints", "show", "c1"), ("constraints", "list"), ("audit",)):
        done = await cli(*arguments)
        assert done.code == 0
        assert "\x1b" not in done.out


async def test_a_table_sets_limits_and_weights_of_many_values_and_counts_them_before(
    api: Api, cli: Cli
) -> None:
    body = {
        "matcher": {"field": "name", "op": "eq", "value": "work"},
        "key": "argument.tenant",
        "concurrency": 2,
        "overrides": [{"match": {"field": "argument.plan", "op": "eq", "value": "pro"}, "concurrency": 9}],
    }
    await api.call("PUT", "/api/constraints/tenants", body)
    for tenant in ("acme", "acme", "umbrella", "other"):
        await api.enqueue("work", {"tenant": tenant})
    file = cli.file("limits.csv", "value,concurrency,weight\nacme,80,10\numbrella,,3\nnobody,5,\n")
    tried = await cli("constraints", "limits", "tenants", file, "--dry-run")
    assert "3 values would get other limits or weights; 3 waiting jobs of 2 of these values" in tried.out
    before = (await api.call("GET", "/api/constraints/tenants"))[1]
    assert (before["fair"], len(before["overrides"])) == (False, 1)
    assert (await cli("constraints", "limits", "tenants", file)).code == 0
    after = (await api.call("GET", "/api/constraints/tenants"))[1]
    assert after["fair"] == {
        "weights": [{"value": "acme", "weight": 10}, {"value": "umbrella", "weight": 3}],
        "default": 1,
    }
    assert [(one["value"], one["concurrency"]) for one in after["overrides"]] == [
        ("acme", 80),
        ("nobody", 5),
        (None, 9),
    ]
    fewer = cli.file("fewer.json", '{"acme": 81}')
    replaced = await cli("constraints", "limits", "tenants", fewer, "--replace", "--json")
    assert replaced.lines()[0]["changed_values"] == 3
    shown = (await cli("constraints", "show", "tenants")).out
    assert "81 at once" in shown
    assert "nobody" not in shown
    assert (await cli("constraints", "put", "plain", "--job-name", "x", "--concurrency", "3",
                      "--reserve", "1:mail.*")).code == 0  # fmt: skip
    refused = await cli("constraints", "limits", "plain", file)
    assert refused.code == 2
    assert "plain has no key" in refused.err


@pytest.mark.req("D30")
async def test_constraints_that_count_units_are_shown_in_units(api: Api, cli: Cli) -> None:
    options = "--weight-from", "argument.tokens", "--weight-default", "500", "--unit", "tokens"
    made = await cli("constraints", "put", "model", "--job-name", "ask", "--rate", "40000/60", *options)
    assert made.code == 0
    made = await cli(
        "constraints", "put", "pool", "--job-name", "ask", "--key", "argument.tenant",
        "--concurrency", "9000", *options,
    )  # fmt: skip
    assert made.code == 0, made.err
    for argument in ({"tokens": 3_000, "tenant": "acme"}, {"tokens": 41_200, "tenant": "acme"}):
        await api.enqueue("ask", argument)
    listed = [line.split() for line in (await cli("constraints")).out.splitlines()]
    assert next(line[-2:] for line in listed if line[0] == "model") == ["0", "tokens"]
    shown = (await cli("constraints", "show", "pool")).out
    for text in ("RUNNING tokens", "STARTED tokens", "9000 tokens at once"):
        assert text in shown
    file = cli.file(
        "draft.json",
        json.dumps(
            {
                "matcher": {"field": "name", "op": "eq", "value": "ask"},
                "rate": {"limit": 40_000, "period_s": 60},
                "weight": {"from": "argument.tokens", "unit": "tokens"},
            }
        ),
    )
    previewed = (await cli("constraints", "preview", file)).out
    assert "44,200 tokens in all" in previewed
    assert ["too_heavy", "1"] in [line.split() for line in previewed.splitlines()]
