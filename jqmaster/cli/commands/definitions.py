"""Commands about definitions."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.documents import document_in
from jqmaster.cli.console.groups import list_without_command
from jqmaster.cli.console.http import (
    DEFAULT_MASTER,
    JsonOption,
    MasterOption,
    MasterSession,
    TokenOption,
    path_of,
)
from jqmaster.cli.declared.constraint_calls import if_match_of
from jqmaster.cli.declared.definition_documents import document_of

_PAGE = 500
app = typer.Typer(invoke_without_command=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the definition.")]


@app.command("list")
def list_definitions(
    *, master: MasterOption = DEFAULT_MASTER, token: TokenOption = None, as_json: JsonOption = False
) -> None:
    """List the definitions, when they are due next, and their last runs."""
    with MasterSession(master, token) as http:
        found = all_definitions(http)
    output.show_list(
        found,
        ("NAME", "STATE", "JOB", "STARTED BY", "ZONE", "NEXT", "LAST", "OUTCOME"),
        lambda d: (d["name"], _state(d), d["job"]["name"], _brief(d), d["time_zone"], d["next_due_at"], *_last(d)),
        as_json=as_json,
    )  # fmt: skip


list_without_command(app, list_definitions, "Definitions: jobs that a schedule or events start")


@app.command()
def show(
    name: NameArgument,
    *,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a definition and the job that it starts."""
    with MasterSession(master, token) as http:
        _, found = http.call("GET", _path(name))
    if as_json:
        output.say_json(found)
        return
    output.show_fields(
        (key, value)
        for key, value in found.items()
        if key not in ("job", "last_run", "runs", "schedule", "event_type")
    )
    output.show_fields((("started_by", _brief(found)), ("last_run", " ".join(map(str, _last(found))))))
    print("job")
    output.show_value(found["job"])


@app.command()
def put(
    name: NameArgument,
    file: Annotated[str, typer.Argument(help="TOML or JSON file; - reads JSON from standard input.")],
    *,
    new: Annotated[bool, typer.Option("--new", help="Apply only if no definition has this name.")] = False,
    if_match: Annotated[str | None, typer.Option(help="Only while it has this ETag.")] = None,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create or replace a definition from a file."""
    headers = {"If-None-Match": "*"} if new else if_match_of(if_match)
    with MasterSession(master, token) as http:
        status, answer = http.call("PUT", _path(name), body=document_in(file), headers=headers)
    _say_done(answer, "created" if status == 201 else "is in force", as_json)


@app.command()
def delete(
    name: NameArgument,
    *,
    if_match: Annotated[str | None, typer.Option(help="Only while it has this ETag.")] = None,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
) -> None:
    """Delete a definition and its run records. Jobs that it started stay."""
    with MasterSession(master, token) as http:
        http.call("DELETE", _path(name), headers=if_match_of(if_match))
    output.say(f"{name}  deleted")


@app.command()
def run(name: NameArgument, *, master: MasterOption = DEFAULT_MASTER, token: TokenOption = None) -> None:
    """Start the job of a definition once, now, and print its ID."""
    with MasterSession(master, token) as http:
        _, answer = http.call("POST", _path(name, "run"))
    output.say(answer["id"])


@app.command()
def pause(
    name: NameArgument,
    *,
    reason: Annotated[str, typer.Option(help="Why it is paused, for people.")] = "",
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a definition start no jobs. Its instants are recorded as skipped."""
    with MasterSession(master, token) as http:
        _, answer = http.call("POST", _path(name, "pause"), body={"reason": reason})
    _say_done(answer, "paused", as_json)


@app.command()
def resume(
    name: NameArgument,
    *,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """End a pause."""
    with MasterSession(master, token) as http:
        _, answer = http.call("POST", _path(name, "resume"))
    _say_done(answer, "resumed", as_json)


@app.command()
def runs(
    name: NameArgument,
    *,
    outcome: Annotated[str | None, typer.Option(help="Only fired, skipped or missed ones.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="Most records.")] = 20,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the newest run records of a definition: what became of each due instant."""
    with MasterSession(master, token) as http:
        query = {"outcome": outcome, "limit": str(limit)}
        _, page = http.call("GET", _path(name, "runs"), query=query)
    output.show_list(
        page["runs"],
        ("DUE", "OUTCOME", "REASON", "JOB", "RECORDED"),
        lambda r: (r["due_at"], r["outcome"], r["reason"], r["job_id"], r["recorded_at"]),
        as_json=as_json,
    )


@app.command()
def backfill(
    name: NameArgument,
    begin: Annotated[
        str, typer.Argument(metavar="FROM", help="First instant, such as 2026-11-01T00:00:00Z.")
    ],
    end: Annotated[str, typer.Argument(metavar="TO", help="The instants before this one.")],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count only.")] = False,
    also_forgotten: Annotated[
        bool,
        typer.Option(
            "--also-forgotten",
            help="Start also jobs of instants whose run records are no longer kept; they may have run before.",
        ),
    ] = False,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Start the jobs of past instants that started none."""
    with MasterSession(master, token) as http:
        body = {"from": begin, "to": end, "dry_run": dry_run}
        if also_forgotten:
            body["also_forgotten"] = True
        _, done = http.call("POST", _path(name, "backfill"), body=body)
    if as_json:
        output.say_json(done)
    else:
        output.show_fields(done.items())


@app.command("next")
def next_instants(
    what: Annotated[
        str,
        typer.Argument(metavar="NAME|FILE", help="Name of a definition, or TOML or JSON file with one."),
    ],
    *,
    count: Annotated[int, typer.Option(min=1, max=1000, help="Number of instants.")] = 10,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show when a definition is due next, in its time zone."""
    is_file = what == "-" or what.endswith((".toml", ".json"))
    with MasterSession(master, token) as http:
        body = document_in(what) if is_file else document_of(http.call("GET", _path(what))[1])
        body = {key: value for key, value in body.items() if key != "job"} | {"count": count}
        if not is_file:
            body["name"] = what
        _, answer = http.call("POST", "/api/definitions/preview", body=body)
    output.show_list(
        answer["instants"],
        ("DUE", "LOCAL", "NOTE"),
        lambda i: (i["due_at"], i["local"], i["note"]),
        as_json=as_json,
    )


# --- calls


def all_definitions(http: MasterSession) -> list[dict[str, Any]]:
    """Return every definition."""
    found: list[dict[str, Any]] = []
    cursor = None
    while True:
        query = {"limit": str(_PAGE), "cursor": cursor}
        _, page = http.call("GET", "/api/definitions", query=query)
        found += page["definitions"]
        cursor = page["next_cursor"]
        if cursor is None:
            return found


def _path(name: str, *rest: str) -> str:
    if "/" in name:
        exits.fail(exits.NOT_FOUND, f"no definition {name}: a name has A-Z a-z 0-9 _ . : -")
    return path_of("/api/definitions", name, *rest)


# --- what is shown


def _say_done(definition: Mapping[str, Any], what: str, as_json: bool) -> None:
    if as_json:
        output.say_json(definition)
    else:
        output.say(f"{definition['name']}  {what}  {_next(definition)}")


def _next(definition: Mapping[str, Any]) -> str:
    if definition["kind"] == "event":
        return f"with {definition['event_type']}"
    return f"next {definition['next_due_at'] or 'never'}"


def _state(definition: Mapping[str, Any]) -> str:
    return "enabled" if definition["enabled"] else "paused"


def _brief(definition: Mapping[str, Any]) -> str:
    """Return what starts the definition."""
    if definition["kind"] == "event":
        gathers = [field for field in ("debounce", "collect") if definition[field]]
        return " ".join(["events", definition["event_type"], *gathers])
    return ", ".join(
        f"{field} {','.join(value) if isinstance(value, list) else value}"
        for field, value in definition["schedule"].items()
    )


def _last(definition: Mapping[str, Any]) -> tuple[str, str]:
    run = definition["last_run"]
    if run is None:
        return "-", "-"
    return run["due_at"], run["outcome"] if run["reason"] is None else f"{run['outcome']} ({run['reason']})"
