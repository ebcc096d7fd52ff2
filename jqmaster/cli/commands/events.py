"""Commands about events."""

import json
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.groups import list_without_command
from jqmaster.cli.console.http import (
    DEFAULT_MASTER,
    JsonOption,
    MasterOption,
    MasterSession,
    TokenOption,
    path_of,
)

app = typer.Typer(invoke_without_command=True)

EventArgument = Annotated[str, typer.Argument(metavar="EVENT_ID", help="ID of the event.")]


@app.command("list")
def list_events(
    *,
    event_type: Annotated[
        str | None, typer.Option("--type", help="Only events of this type, or pattern such as 'order.*'.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="Most events.")] = 20,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the newest events, and what each started."""
    found: list[dict[str, Any]] = []
    query = {"type": event_type, "limit": str(limit), "cursor": None}
    with MasterSession(master, token) as http:
        while len(found) < limit:
            _, page = http.call("GET", "/api/events", query=query)
            found += page["events"]
            query["cursor"] = page["next_cursor"]
            if page["next_cursor"] is None:
                break
    output.show_list(
        found[:limit],
        ("RECEIVED", "TYPE", "EVENT", "STARTED"),
        lambda event: (event["received_at"], event["event_type"], event["event_id"], _started(event)),
        as_json=as_json,
    )


list_without_command(app, list_events, "Events, and the jobs that they started")


@app.command()
def show(
    event_id: EventArgument,
    *,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show an event with its payload."""
    with MasterSession(master, token) as http:
        _, found = http.call("GET", path_of("/api/events", event_id))
    if as_json:
        output.say_json(found)
        return
    output.show_fields(
        (key, value) for key, value in found.items() if key not in ("payload", "runs", "job_ids")
    )
    output.show_fields((("started", _started(found)),))
    print("payload")
    output.show_value(found["payload"])


@app.command()
def send(
    event_type: Annotated[str, typer.Argument(metavar="TYPE", help="Type of the event, such as order.paid.")],
    payload: Annotated[
        str | None, typer.Argument(help="JSON; - reads it from standard input. None: null.")
    ] = None,
    *,
    dedupe_key: Annotated[
        str | None, typer.Option("--key", help="A repeat with the same key starts nothing.")
    ] = None,
    source: Annotated[str | None, typer.Option(help="Origin of the event.")] = None,
    subject: Annotated[str | None, typer.Option(help="The object that it is about.")] = None,
    occurred_at: Annotated[
        str | None, typer.Option("--at", help="Time of the event, such as 2026-11-01T00:00:00Z.")
    ] = None,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send an event, and tell what it starts."""
    body = {
        "event_type": event_type, "payload": _parsed(payload), "dedupe_key": dedupe_key, "source": source,
        "subject": subject, "occurred_at": occurred_at,
    }  # fmt: skip
    with MasterSession(master, token) as http:
        _, answer = http.call(
            "POST", "/api/events", body={key: value for key, value in body.items() if value is not None}
        )
    _say(answer, as_json)


@app.command()
def replay(
    event_id: EventArgument,
    *,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send an event once more, as a new one, and tell what it starts."""
    with MasterSession(master, token) as http:
        _, answer = http.call("POST", path_of("/api/events", event_id, "replay"))
    _say(answer, as_json)


def _parsed(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(sys.stdin.read() if text == "-" else text)
    except (ValueError, RecursionError) as error:
        exits.fail(exits.REFUSED, f"the payload is not JSON: {error}")


def _say(answer: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        output.say_json(answer)
        return
    output.say(f"{answer['event_id']}  {'known already' if answer['duplicate'] else 'accepted'}")
    for run in answer["runs"]:
        what = run["outcome"] if run["reason"] is None else f"{run['outcome']} ({run['reason']})"
        output.say(f"  {run['definition']}  {what}  {run['job_id'] or '-'}")


def _started(event: Mapping[str, Any]) -> str:
    runs = event["runs"]
    return ", ".join(f"{run['definition']} {run['outcome']}" for run in runs) if runs else "-"
