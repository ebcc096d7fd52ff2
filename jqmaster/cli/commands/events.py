"""Commands about events."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from jqmaster.cli.console import output
from jqmaster.cli.console.documents import value_of
from jqmaster.cli.console.groups import CommandGroup
from jqmaster.cli.console.http import MasterSession, path_of
from jqmaster.cli.console.times import instant

app = CommandGroup()

EventArgument = Annotated[str, typer.Argument(metavar="EVENT_ID", help="ID of the event.")]


@app.listing("Events, and the jobs that they started")
def list_events(
    http: MasterSession,
    *,
    event_type: Annotated[
        str | None, typer.Option("--type", help="Only events of this type, or pattern such as 'order.*'.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="Maximum number of events.")] = 20,
) -> None:
    """List the newest events, and the jobs that each started."""
    http.show_list(
        http.listed("/api/events", "events", query={"type": event_type}, limit=limit),
        ("RECEIVED", "TYPE", "EVENT", "STARTED"),
        lambda event: (event["received_at"], event["event_type"], event["event_id"], _started(event)),
    )


@app.command()
def show(http: MasterSession, event_id: EventArgument) -> None:
    """Show an event with its payload."""
    found = http.get(path_of("/api/events", event_id))
    if http.says_json(found):
        return
    output.show_fields(
        (key, value) for key, value in found.items() if key not in ("payload", "runs", "job_ids")
    )
    output.show_fields((("started", _started(found)),))
    print("payload")
    output.show_value(found["payload"])


@app.command()
def send(
    http: MasterSession,
    event_type: Annotated[str, typer.Argument(metavar="TYPE", help="Type of the event, such as order.paid.")],
    payload: Annotated[str, typer.Argument(help="JSON, @FILE with JSON, or - for standard input.")] = "null",
    *,
    dedupe_key: Annotated[
        str | None,
        typer.Option("--key", help="Key of the event. A repeated event with the same key starts nothing."),
    ] = None,
    source: Annotated[str | None, typer.Option(help="Origin of the event.")] = None,
    subject: Annotated[str | None, typer.Option(help="Object that the event is about.")] = None,
    occurred_at: Annotated[
        str | None, typer.Option("--at", help="Time of the event, such as 2026-11-01T00:00:00Z.")
    ] = None,
) -> None:
    """Send an event, and print the jobs that the event starts."""
    body = {
        "event_type": event_type, "payload": value_of(payload, "the payload"), "dedupe_key": dedupe_key,
        "source": source, "subject": subject, "occurred_at": instant(occurred_at),
    }  # fmt: skip
    _say(http, http.post("/api/events", {key: value for key, value in body.items() if value is not None}))


@app.command()
def replay(http: MasterSession, event_id: EventArgument) -> None:
    """Send an event again, as a new event, and print the jobs that the new event starts."""
    _say(http, http.post(path_of("/api/events", event_id, "replay")))


def _say(http: MasterSession, answer: Mapping[str, Any]) -> None:
    if http.says_json(answer):
        return
    output.say(f"{answer['event_id']}  {'known already' if answer['duplicate'] else 'accepted'}")
    for run in answer["runs"]:
        what = run["outcome"] if run["reason"] is None else f"{run['outcome']} ({run['reason']})"
        output.say(f"  {run['definition']}  {what}  {run['job_id'] or '-'}")


def _started(event: Mapping[str, Any]) -> str:
    runs = event["runs"]
    return ", ".join(f"{run['definition']} {run['outcome']}" for run in runs) if runs else "-"
