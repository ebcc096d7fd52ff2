"""Commands about constraints."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from jqmaster.cli.commands import constraint_plans, constraint_tables
from jqmaster.cli.console import exits, output
from jqmaster.cli.console.documents import json_of
from jqmaster.cli.console.groups import CommandGroup, IfMatchOption, NewOption
from jqmaster.cli.console.http import MasterSession
from jqmaster.cli.declared.constraint_calls import CONSTRAINTS, all_constraints, set_paused
from jqmaster.cli.declared.constraint_files import only_one
from jqmaster.cli.declared.limit_tables import of_override, rate_of, reserve_option, shares_option
from jqmaster.domain.constraints.limit_kinds import brief

# Fields that matchers have and constraints do not.
_MATCHER_KINDS = frozenset(("all", "any", "not", "field"))

app = CommandGroup()

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the constraint.")]
ValueOption = Annotated[
    str | None, typer.Option("--value", help="One value of the key: JSON, or plain text if it is not JSON.")
]
FileArgument = Annotated[
    str | None,
    typer.Argument(help="TOML or JSON file with the constraint; - reads JSON from standard input."),
]
MatchOption = Annotated[str | None, typer.Option(help="Matcher as JSON.")]
JobNameOption = Annotated[
    str | None, typer.Option("--job-name", help="Glob of job names, instead of --match.")
]
KeyOption = Annotated[
    str | None, typer.Option(help=("Path in the job. Each value at this path has separate limits."))
]
ConcurrencyOption = Annotated[int | None, typer.Option(help="Maximum number of jobs that run at once.")]
RateOption = Annotated[
    str | None,
    typer.Option(
        metavar="LIMIT/SECONDS",
        help="Maximum number of starts in any window of this many seconds, such as 100/60.",
    ),
]
WeightFromOption = Annotated[
    str | None,
    typer.Option(
        "--weight-from",
        metavar="PATH",
        help="Count units instead of jobs: path of the number of units, such as argument.max_tokens.",
    ),
]
WeightDefaultOption = Annotated[
    float | None, typer.Option("--weight-default", help="Weight of a job without a number at that path.")
]
UnitOption = Annotated[str | None, typer.Option("--unit", help="Name of the unit, such as tokens.")]
MaxBacklogOption = Annotated[
    int | None, typer.Option(help="Maximum number of waiting jobs. A push beyond it is refused.")
]
PausedOption = Annotated[bool, typer.Option("--paused", help="Nothing starts.")]
FairOption = Annotated[bool, typer.Option("--fair", help="Let the values of the key take turns.")]
ShareOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="VALUE=SHARE",
        help="Share of turns of one value of the key, as VALUE=SHARE; *=SHARE for all others. Can be repeated.",
    ),
]
ReserveOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SLOTS:MATCHER",
        help="Reserve slots of the concurrency limit for jobs that match: a matcher (JSON) or a glob of job names.",
    ),
]
AwaitingFreeOption = Annotated[
    bool,
    typer.Option(
        "--awaiting-free", help="Do not count jobs that await callbacks toward the concurrency limit."
    ),
]
ShadowOption = Annotated[
    bool,
    typer.Option(
        "--shadow", help="Only count the starts that the constraint would delay, without delaying them."
    ),
]
DisabledOption = Annotated[bool, typer.Option("--disabled", help="Keep the constraint without effect.")]


@app.listing("Constraints: live limits on sets of jobs")
def list_constraints(http: MasterSession) -> None:
    """List the constraints and their usage."""
    found = all_constraints(http)
    http.show_list(
        found,
        ("NAME", "STATE", "KEY", "LIMITS", "WAITING", "RUNNING", "KEYS"),
        lambda c: (c["name"], _state(c), c["key"], brief(c), *_sums(c), c["usage"]["keys"]),
    )  # fmt: skip
    if not http.as_json and not all(c["usage"]["is_exact"] for c in found):
        output.say("-: too many values to sum up in a list; run `jqmaster constraints show NAME`")


@app.command()
def show(http: MasterSession, name: NameArgument, *, value: ValueOption = None) -> None:
    """Show a constraint, its usage, and the jobs that hold its slots."""
    found = http.get(CONSTRAINTS.path(name), {"value": value})
    if http.says_json(found):
        return
    shown = {field: found[field] for field in ("name", "mode", "key", "max_backlog", "fair", "counts_awaiting",
        "etag", "created_at", "changed_at", "held_until")}  # fmt: skip
    shown["fair"] = bool(found["fair"])
    output.show_fields({**shown, "state": _state(found), "limits": brief(found)}.items())
    output.show_fields(found["usage"].items())
    if found["observed"]:
        output.show_fields(
            [("observed", f"{found['observed']['remaining']} until {found['observed']['until']}")]
        )
    print("matcher")
    output.show_value(found["matcher"])
    if found["overrides"]:
        output.show_table(
            ("OVERRIDE OF", "LIMITS"),
            (
                (json.dumps(of_override(o)), brief(o | {"weight": found["weight"]}))
                for o in found["overrides"]
            ),
        )
    if isinstance(found["fair"], Mapping):
        turns = found["fair"]
        rows = [(json.dumps(one["value"]), one["weight"]) for one in turns["weights"]]
        output.show_table(("WEIGHT OF", "WEIGHT"), [*rows, ("all others", turns["default"])])
    if found.get("reserve"):
        output.show_table(
            ("RESERVED FOR", "SLOTS"),
            ((json.dumps(one["matcher"]), one["concurrency"]) for one in found["reserve"]),
        )
    if keys := ([found["value"]] if found["value"] else found["top_keys"]):
        output.show_table(
            ("VALUE", "WAITING", *_counted_columns(found["weight"]), "LIMITS", "OPENS", "HELD UNTIL"),
            (
                (k["value"], k["waiting"], *_counts(k), brief(k["limits"] | {"weight": found["weight"]}),
                    k["next_opening"], k["held_until"])
                for k in keys
            ),
        )  # fmt: skip
    if found["holders"]:
        output.show_table(
            ("HOLDER", "WORKER", "SINCE", "VALUE"),
            ((h["job_id"], h["worker_id"], h["since"], h["value"]) for h in found["holders"]),
        )


@app.command()
def put(
    http: MasterSession,
    name: NameArgument,
    file: FileArgument = None,
    *,
    match: MatchOption = None,
    job_name: JobNameOption = None,
    key: KeyOption = None,
    concurrency: ConcurrencyOption = None,
    rate: RateOption = None,
    weight_from: WeightFromOption = None,
    weight_default: WeightDefaultOption = None,
    unit: UnitOption = None,
    max_backlog: MaxBacklogOption = None,
    paused: PausedOption = False,
    fair: FairOption = False,
    share: ShareOption = None,
    reserve: ReserveOption = None,
    awaiting_free: AwaitingFreeOption = False,
    shadow: ShadowOption = False,
    disabled: DisabledOption = False,
    new: NewOption = False,
    if_match: IfMatchOption = None,
) -> None:
    """Create or replace a constraint from a file or from options."""
    given: dict[str, Any] = {
        "matcher": json_of(match, "--match") if match else None,
        "key": key,
        "concurrency": concurrency,
        "rate": rate_of(rate, "--rate") if rate else None,
        "max_backlog": max_backlog,
        "weight": _weight_options(weight_from, weight_default, unit),
    }
    if job_name is not None:
        if match:
            exits.fail(exits.USAGE, "give --match or --job-name, not both")
        given["matcher"] = {"field": "name", "op": "glob", "value": job_name}
    body = {field: value for field, value in given.items() if value is not None}
    body |= {field: True for field, is_set in (("paused", paused), ("fair", fair)) if is_set}
    if share:
        body["fair"] = shares_option(share)
    if reserve:
        body["reserve"] = [reserve_option(text) for text in reserve]
    if awaiting_free:
        body["counts_awaiting"] = False
    if disabled:
        body["enabled"] = False
    if shadow:
        body["mode"] = "shadow"
    if file is not None:
        if body:
            exits.fail(exits.USAGE, "give FILE or options, not both")
        body = only_one(file)
        if body.setdefault("name", name) != name:
            exits.fail(exits.USAGE, f"{file} is about {body['name']}, not {name}")
    elif "matcher" not in body:
        exits.fail(exits.USAGE, "give FILE, --match or --job-name")
    is_new, answer = CONSTRAINTS.put(http, name, body, new=new, if_match=if_match)
    _say_done(http, answer, "created" if is_new else "is in force")


CONSTRAINTS.add_delete(app, "Delete a constraint. Jobs that it holds back may start at once.")


@app.command()
def pause(http: MasterSession, name: NameArgument, *, value: ValueOption = None) -> None:
    """Pause the jobs of a constraint, or of one value of its key. Running jobs continue."""
    _say_done(http, set_paused(http, name, value, is_paused=True), "paused")


@app.command()
def resume(http: MasterSession, name: NameArgument, *, value: ValueOption = None) -> None:
    """End the pause of a constraint, or of one value of its key."""
    _say_done(http, set_paused(http, name, value, is_paused=False), "resumed")


@app.command()
def preview(
    http: MasterSession,
    what: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="TOML or JSON file with a constraint or a matcher, - for JSON on standard input, or the JSON itself.",
        ),
    ],
    *,
    limit: Annotated[int, typer.Option(min=0, max=20, help="Maximum number of examples to show.")] = 10,
) -> None:
    """Show which waiting jobs a constraint would apply to, before you create the constraint."""
    wanted = json_of(what, "the matcher") if what.lstrip().startswith("{") else only_one(what)
    if wanted.keys() & _MATCHER_KINDS:
        wanted = {"matcher": wanted}
    body = {"matcher": wanted.get("matcher"), "key": wanted.get("key"), "limit": limit}
    if wanted.get("weight"):
        body |= {field: wanted[field] for field in ("weight", "concurrency", "rate") if wanted.get(field)}
    found = http.post("/api/constraints/preview", body)
    if http.says_json(found):
        return
    output.show_fields(
        (field, found[field]) for field in ("count", "without_key", "distinct_keys", "looked_at", "is_exact")
    )
    if found["units"]:
        output.show_fields(_units_of(found["units"]).items())
    if found["keys"]:
        output.show_table(("VALUE", "JOBS"), ((k["value"], k["count"]) for k in found["keys"]))
    if found["examples"]:
        output.show_table(
            ("ID", "NAME", "STATE", "CREATED"),
            ((j["id"], j["name"], j["state"], j["created_at"]) for j in found["examples"]),
        )


app.command("limits")(constraint_tables.limits)
app.command()(constraint_plans.plan)
app.command()(constraint_plans.apply)


# --- options


def _weight_options(path: str | None, default: float | None, unit: str | None) -> dict[str, Any] | None:
    given = {"from": path, "default": default, "unit": unit}
    return {field: value for field, value in given.items() if value is not None} or None


# --- output


def _say_done(http: MasterSession, constraint: Mapping[str, Any], what: str) -> None:
    http.say(constraint, f"{constraint['name']}  {what}  {constraint['etag']}")


def _units_of(units: Mapping[str, Any]) -> dict[str, object]:
    """Return a text about the weights of the previewed jobs."""
    shown: dict[str, object] = {
        "weight": f"{units['total']:,} {units['unit']} in all",
        "heaviest": f"{units['heaviest']:,} {units['unit']}",
        "by_default": units["by_default"],
        "too_heavy": units["too_heavy"],
    }
    return shown | ({"too_heavy_jobs": ", ".join(units["too_heavy_jobs"])} if units["too_heavy_jobs"] else {})


def _state(constraint: Mapping[str, Any]) -> str:
    if not constraint["enabled"]:
        return "disabled"
    state = "paused" if constraint["paused"] else "shadow" if constraint["mode"] == "shadow" else "enforced"
    return state if constraint["usage"]["in_force"] else f"{state}, not yet in force"


def _counts(of_key: Mapping[str, Any]) -> tuple[object, object]:
    """Return the number of running jobs and the number of starts within the period. If the constraint counts
    units, return the units of these jobs instead."""
    running, started = of_key["running_units"], of_key["units_in_window"]
    return (
        of_key["running"] if running is None else running,
        of_key["starts_in_window"] if started is None else started,
    )


def _counted_columns(weight: Mapping[str, Any] | None) -> tuple[str, str]:
    """Return the column heads for the values of `_counts`."""
    return (f"RUNNING {weight['unit']}", f"STARTED {weight['unit']}") if weight else ("RUNNING", "STARTS")


def _sums(constraint: Mapping[str, Any]) -> tuple[object, object]:
    """Return the numbers of waiting and running jobs as texts. A text is empty if the jobs are not counted.

    If the constraint counts units, return the units of running jobs. If it has only a rate, return the units of
    the starts in the period."""
    usage, weight = constraint["usage"], constraint["weight"]
    if not usage["is_exact"]:
        return "-", "-"
    if weight is None:
        return usage["waiting"], usage["running"]
    counted = usage["units_in_window"] if usage["running_units"] is None else usage["running_units"]
    return usage["waiting"], None if counted is None else f"{counted:,} {weight['unit']}"
