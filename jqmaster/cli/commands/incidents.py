"""Commands about incidents."""

from typing import Annotated, Any

import typer

from jqmaster.cli.console.groups import CommandGroup
from jqmaster.cli.console.http import MasterSession, path_of

_MOST = 200

app = CommandGroup()


@app.listing("Incidents of the store, the masters and the workers")
def list_incidents(
    http: MasterSession,
    *,
    limit: Annotated[int, typer.Option(min=1, max=_MOST, help="Maximum number of incidents to print.")] = 20,
) -> None:
    """List incidents, newest first."""
    http.show_list(
        http.get("/api/incidents", {"limit": limit})["incidents"],
        ("ID", "BEGAN", "ENDED", "WHAT", "ACKNOWLEDGED"),
        lambda one: (one["id"], one["began_at"], one["ended_at"], one["title"], _people(one)),
        limit=limit,
    )


@app.command()
def show(
    http: MasterSession,
    incident_id: Annotated[str, typer.Argument(metavar="ID", help="ID of the incident.")],
) -> None:
    """Show one incident: what happened, and which changes were made around that time."""
    one = http.get(path_of("/api/incidents", incident_id))
    lines = [one["title"], ""]
    lines += [f"{entry['since']}  {entry['text']}" for entry in one["entries"]]
    lines += [f"{one['ended_at']}  All clear." if one["ended_at"] else "It is not over."]
    lines += [f"{entry['at']}  {entry['text']}" for entry in one["acknowledged"]]
    if one["nearby"]:
        lines += ["", "Changes during the incident and in the ten minutes before it:"]
        lines += [f"{mark['at']}  {mark['text']}" for mark in one["nearby"]]
    http.say(one, "\n".join([*lines, "", _counts(one["peaks"])]))


@app.command()
def ack(
    http: MasterSession,
    incident_id: Annotated[str, typer.Argument(metavar="ID", help="ID of the incident.")],
    *,
    note: Annotated[str, typer.Option(help="Note for others, such as the next step.")] = "",
) -> None:
    """Acknowledge an incident, to show that you take care of it."""
    one = http.post(path_of("/api/incidents", incident_id, "acknowledge"), {"note": note})
    http.say(one, f"{incident_id}  acknowledged")


def _people(incident: dict[str, Any]) -> str:
    return ", ".join(dict.fromkeys(entry["by"] for entry in incident["acknowledged"]))


def _counts(peaks: dict[str, Any] | None) -> str:
    if peaks is None:
        return "The counts are gone: counts by the minute are kept for 24 hours."
    counts = f"{peaks['retried']} attempts were retried, {peaks['failed']} jobs failed"
    return (
        f"{counts}, at most {peaks['backlog']} were ready." if peaks["backlog"] is not None else f"{counts}."
    )
