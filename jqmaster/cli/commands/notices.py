"""Commands about notices."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
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
from jqmaster.cli.console.times import duration_s
from jqmaster.cli.declared.constraint_calls import if_match_of

# The parts of a notice that people write.
FIELDS = (
    "when", "matcher", "threshold", "to", "group_by", "at_most_every_s", "muted_until", "description",
)  # fmt: skip

app = typer.Typer(invoke_without_command=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the notice.")]


@app.command("list")
def list_notices(
    *, master: MasterOption = DEFAULT_MASTER, token: TokenOption = None, as_json: JsonOption = False
) -> None:
    """List the notices, whom they tell, and what is open."""
    with MasterSession(master, token) as http:
        found = all_notices(http)
    output.show_list(
        found,
        ("NAME", "WHEN", "TO", "MUTED UNTIL", "OPEN", "LAST TOLD"),
        lambda n: (n["name"], _when(n), _to(n), n["muted_until"] or "-", len(n["incidents"]), _last(n)),
        as_json=as_json,
    )


list_without_command(app, list_notices, "Notices: who is told of what goes wrong, by mail, Slack or webhook")


@app.command()
def show(
    name: NameArgument,
    *,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a notice, its open incidents, and the newest messages."""
    with MasterSession(master, token) as http:
        _, found = http.call("GET", _path(name))
    if as_json:
        output.say_json(found)
        return
    hidden = ("to", "incidents", "pending", "recent")
    output.show_fields((key, value) for key, value in found.items() if key not in hidden)
    output.show_fields([("to", _to(found))])
    for one in found["incidents"]:
        known = f", acknowledged by {one['acknowledged_by']}" if one["acknowledged_by"] else ""
        output.say(f"open: {one['count']} since {one['began_at']} {one['key']}{known}")
        for line in one["lines"]:
            output.say(f"    {line['count']} × {line['text']}  {line['job_id'] or ''}")
    for one in found["pending"]:
        output.say(f"about to be sent: {one['kind']}, {one['count']}")
    for one in found["recent"]:
        output.say(f"sent at {one['at']}: {one['kind']}, {one['count']} {one['key']}")


@app.command()
def put(
    name: NameArgument,
    file: Annotated[str, typer.Argument(help="TOML or JSON file; - reads JSON from standard input.")],
    *,
    new: Annotated[bool, typer.Option("--new", help="Apply only if no notice has this name.")] = False,
    if_match: Annotated[str | None, typer.Option(help="Only while it has this ETag.")] = None,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create or replace a notice from a file."""
    headers = {"If-None-Match": "*"} if new else if_match_of(if_match)
    with MasterSession(master, token) as http:
        status, answer = http.call("PUT", _path(name), body=document_in(file), headers=headers)
    if as_json:
        output.say_json(answer)
    else:
        output.say(f"{answer['name']}  {'created' if status == 201 else 'is in force'}")


@app.command()
def delete(
    name: NameArgument,
    *,
    if_match: Annotated[str | None, typer.Option(help="Only while it has this ETag.")] = None,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
) -> None:
    """Delete a notice."""
    with MasterSession(master, token) as http:
        http.call("DELETE", _path(name), headers=if_match_of(if_match))
    output.say(f"{name}  deleted")


@app.command("test")
def send_test(
    name: NameArgument, *, master: MasterOption = DEFAULT_MASTER, token: TokenOption = None
) -> None:
    """Send a test message to all destinations of a notice."""
    with MasterSession(master, token) as http:
        _, answer = http.call("POST", _path(name, "test"))
    output.say(
        f"{answer['message_id']} is about to be sent; `jqmaster jobs --tag notice:{name}` shows how it went"
    )


@app.command()
def mute(
    name: NameArgument,
    *,
    lasts: Annotated[str | None, typer.Option("--for", help="How long: 90s, 30m, 2h, 7d.")] = None,
    until: Annotated[
        str | None, typer.Option(help="Until this instant, such as 2026-11-22T08:00:00Z.")
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="Mute it no longer.")] = False,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a notice send no messages for a while."""
    seconds = duration_s(lasts, until)
    if off == (seconds is not None):
        exits.fail(exits.USAGE, "give one of --for, --until and --off")
    end = None if seconds is None else (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
    with MasterSession(master, token) as http:
        _, answer = http.call("POST", _path(name, "mute"), body={"until": end})
    if as_json:
        output.say_json(answer)
    else:
        muted = answer["muted_until"]
        output.say(f"{name}  {f'muted until {muted}' if muted else 'no longer muted'}")


@app.command()
def ack(
    name: NameArgument,
    *,
    key: Annotated[str | None, typer.Option(help="Key of one incident. Default: all that are open.")] = None,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
) -> None:
    """Say that somebody takes care: no more messages about the open incidents until they are over."""
    with MasterSession(master, token) as http:
        _, answer = http.call("POST", _path(name, "acknowledge"), body={"key": key})
    output.say(f"{name}  {answer['acknowledged']} incidents acknowledged")


# --- calls


def all_notices(http: MasterSession) -> list[dict[str, Any]]:
    """Return every notice."""
    _, answer = http.call("GET", "/api/notices")
    found: list[dict[str, Any]] = answer["notices"]
    return found


def document_of(view: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a request holds of a notice as the master shows it."""
    return {field: view[field] for field in FIELDS}


def _path(name: str, *rest: str) -> str:
    if "/" in name:
        exits.fail(exits.NOT_FOUND, f"no notice {name}: a name has A-Z a-z 0-9 _ . : -")
    return path_of("/api/notices", name, *rest)


# --- what is shown


def _when(notice: Mapping[str, Any]) -> str:
    return f"{notice['when']} ≥ {notice['threshold']}"


def _to(notice: Mapping[str, Any]) -> str:
    shown = []
    for one in notice["to"]:
        if one.get("mail"):
            shown += one["mail"]
        else:
            shown.append(one.get("webhook") or one.get("slack"))
    return ", ".join(shown)


def _last(notice: Mapping[str, Any]) -> str:
    return notice["recent"][0]["at"] if notice["recent"] else "-"
