"""Commands about groups of final failures: list, ignore, assign, resolve and merge them."""

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

import typer

from jqmaster.cli.commands.stats import LimitOption
from jqmaster.cli.console.groups import CommandGroup
from jqmaster.cli.console.http import MasterSession
from jqmaster.cli.console.times import duration_s

app = CommandGroup()

GroupsArgument = Annotated[
    list[str], typer.Argument(metavar="GROUP…", help="IDs of groups, as `jqmaster failures` lists them.")
]


@app.listing("Final failures, grouped by cause and place in the code")
def failures(
    http: MasterSession,
    *,
    name: Annotated[str | None, typer.Option(help="Show failures of this job name only.")] = None,
    search: Annotated[
        str | None,
        typer.Option("-q", "--search", "--q", help="Show groups with this text in their name or message."),
    ] = None,
    version: Annotated[
        str | None, typer.Option(help="Show groups with failures on workers of this version.")
    ] = None,
    is_ignored: Annotated[
        bool | None,
        typer.Option(
            "--ignored/--not-ignored",
            help=("Show only ignored groups, or only groups that are not ignored. Default: all."),
        ),
    ] = None,
    is_resolved: Annotated[
        bool | None,
        typer.Option(
            "--resolved/--not-resolved",
            help=("Show only resolved groups, or only groups that are not resolved. Default: all."),
        ),
    ] = None,
    assignee: Annotated[
        str | None, typer.Option(help="Show groups that are assigned to this person.")
    ] = None,
    limit: LimitOption = 50,
) -> None:
    """List final failures, grouped by cause and place in the code, latest first."""
    query = {"name": name, "q": search, "version": version, "assignee": assignee}
    for part, wanted in (("ignored", is_ignored), ("resolved", is_resolved)):
        if wanted is not None:
            query[part] = "true" if wanted else "false"
    http.show_list(
        http.listed("/api/failures", "groups", query=query, limit=limit),
        ("LAST SEEN", "FIRST SEEN", "COUNT", "24 H", "MARKS", "NAME", "CAUSE", "MESSAGE", "FOR EXAMPLE",
         "GROUP"),
        lambda g: (g["last_seen_at"], g["first_seen_at"], g["count"], sum(g.get("trend", ())), _marks(g),
            g["name"], g["cause"], g["message"], g["example_job_id"], g["id"]),
    )  # fmt: skip


@app.command()
def ignore(
    http: MasterSession,
    groups: GroupsArgument,
    *,
    reason: Annotated[str, typer.Option(help="Why, for people.")] = "",
    lasts: Annotated[
        str | None,
        typer.Option("--for", metavar="TIME", help="Ignore the groups for this time: 90s, 30m, 2h or 7d."),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Ignore the groups until this time.")
    ] = None,
) -> None:
    """Ignore groups of failures. Their failures still count, but the Overview does not show them as problems.

    Without --for and --until, a group is ignored until it changes. It changes if a failure occurs on a new
    version of workers or after a day without failures, or if failures become much more frequent.
    """
    body = {"reason": reason, "duration_s": duration_s(lasts, until)}
    for group in groups:
        shown = http.post(_path_to(group, "ignore"), body)
        until_text = shown["ignored"]["until"] or "it changes"
        _say(http, shown, f"ignored until {until_text}")


@app.command()
def unignore(http: MasterSession, groups: GroupsArgument) -> None:
    """Stop ignoring groups of failures."""
    for group in groups:
        _, shown = http.call("DELETE", _path_to(group, "ignore"))
        _say(http, shown, "no longer ignored")


@app.command()
def assign(
    http: MasterSession,
    groups: GroupsArgument,
    *,
    to: Annotated[str, typer.Option("--to", metavar="PERSON", help="Person who takes care of the groups.")],
) -> None:
    """Assign groups of failures to a person."""
    for group in groups:
        shown = http.post(_path_to(group, "assign"), {"assignee": to})
        _say(http, shown, f"assigned to {shown['assigned']['assignee']}")


@app.command()
def unassign(http: MasterSession, groups: GroupsArgument) -> None:
    """Remove the assignment of groups of failures."""
    for group in groups:
        _, shown = http.call("DELETE", _path_to(group, "assign"))
        _say(http, shown, "no longer assigned")


@app.command()
def resolve(
    http: MasterSession,
    groups: GroupsArgument,
    *,
    version: Annotated[
        str,
        typer.Option("--in", metavar="VERSION", help="Version of the workers. Default: the next version."),
    ] = "",
) -> None:
    """Resolve groups of failures.

    A group reopens if the failure occurs on a worker of that version or a later version."""
    for group in groups:
        shown = http.post(_path_to(group, "resolve"), {"version": version})
        _say(http, shown, f"resolved in {shown['resolved']['version'] or 'the next version'}")


@app.command()
def reopen(http: MasterSession, groups: GroupsArgument) -> None:
    """Open resolved groups of failures again."""
    for group in groups:
        _, shown = http.call("DELETE", _path_to(group, "resolve"))
        _say(http, shown, "open again")


@app.command()
def merge(
    http: MasterSession,
    groups: GroupsArgument,
    *,
    into: Annotated[
        str, typer.Option("--into", metavar="GROUP", help="Group into which the others are merged.")
    ],
) -> None:
    """Merge groups of failures into another group with the same job name."""
    for group in groups:
        shown = http.post(_path_to(group, "merge"), {"into": into})
        _say(http, shown, f"now contains {group}")


@app.command()
def split(http: MasterSession, groups: GroupsArgument) -> None:
    """Undo the merge of groups of failures."""
    for group in groups:
        _, shown = http.call("DELETE", _path_to(group, "merge"))
        _say(http, shown, "is a separate group again")


def _path_to(group: str, call: str) -> str:
    return f"/api/failures/{quote(group, safe='')}/{call}"


def _say(http: MasterSession, shown: Mapping[str, Any], what: str) -> None:
    http.say(shown, f"{shown['id']}  {what}: {shown['name']}: {shown['message']}")


def _marks(group: Mapping[str, Any]) -> str:
    ignored, resolved = group.get("ignored"), group.get("resolved")
    marks = [*group.get("marks", ())]
    if ignored and ignored["ended_by"] is None:
        marks.append("ignored")
    if resolved:
        marks.append("resolved" if resolved["reopened_by"] is None else "came back")
    return ", ".join(marks)
