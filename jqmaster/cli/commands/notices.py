"""Commands about notices."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.groups import CommandGroup, NamedObjects
from jqmaster.cli.console.http import MasterSession
from jqmaster.cli.console.times import duration_s

app = CommandGroup()
notices = NamedObjects("notice", "/api/notices")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the notice.")]


@app.listing("Notices: who is notified when something goes wrong, by mail, Slack or webhook")
def list_notices(http: MasterSession) -> None:
    """List the notices, their recipients and their open incidents."""
    http.show_list(
        http.get("/api/notices")["notices"],
        ("NAME", "WHEN", "TO", "MUTED UNTIL", "OPEN", "LAST TOLD"),
        lambda n: (n["name"], _when(n), _to(n), n["muted_until"] or "-", len(n["incidents"]), _last(n)),
    )


@app.command()
def show(http: MasterSession, name: NameArgument) -> None:
    """Show a notice, its open incidents, and the newest messages."""
    found = http.get(notices.path(name))
    if http.says_json(found):
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


notices.add_put(app)
notices.add_delete(app, "Delete a notice.")


@app.command("test")
def send_test(http: MasterSession, name: NameArgument) -> None:
    """Send a test message to all destinations of a notice."""
    answer = http.post(notices.path(name, "test"))
    http.say(
        answer,
        f"{answer['message_id']} is about to be sent; `jqmaster jobs --tag notice:{name}` shows how it went",
    )


@app.command()
def mute(
    http: MasterSession,
    name: NameArgument,
    *,
    lasts: Annotated[
        str | None, typer.Option("--for", help=("Mute for this time, such as 90s, 30m, 2h or 7d."))
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Mute until this instant, such as 2026-11-22T08:00:00Z.")
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="Unmute the notice.")] = False,
) -> None:
    """Mute a notice, so that it sends no messages for some time."""
    seconds = duration_s(lasts, until)
    if off == (seconds is not None):
        exits.fail(exits.USAGE, "give one of --for, --until and --off")
    end = None if seconds is None else (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
    answer = http.post(notices.path(name, "mute"), {"until": end})
    muted = answer["muted_until"]
    http.say(answer, f"{name}  {f'muted until {muted}' if muted else 'no longer muted'}")


@app.command()
def ack(
    http: MasterSession,
    name: NameArgument,
    *,
    key: Annotated[str | None, typer.Option(help="Key of one incident. Default: all open incidents.")] = None,
) -> None:
    """Acknowledge open incidents, so that they cause no more messages until they are over."""
    answer = http.post(notices.path(name, "acknowledge"), {"key": key})
    http.say(answer, f"{name}  {answer['acknowledged']} incidents acknowledged")


# --- output


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
