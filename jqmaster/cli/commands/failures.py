"""Groups of final failures: listed, ignored, and no longer ignored."""

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


@app.listing("Final failures, grouped by cause and message")
def failures(
    http: MasterSession,
    *,
    name: Annotated[str | None, typer.Option(help="Show failures of this job name only.")] = None,
    search: Annotated[
        str | None,
        typer.Option("-q", "--search", "--q", help="Show groups whose name or message contains this text."),
    ] = None,
    version: Annotated[
        str | None, typer.Option(help="Show groups that were seen on workers of this version.")
    ] = None,
    is_ignored: Annotated[
        bool | None,
        typer.Option(
            "--ignored/--not-ignored", help="Show ignored groups only, or only others. Default: all."
        ),
    ] = None,
    limit: LimitOption = 50,
) -> None:
    """List final failures, grouped by cause and message, latest first."""
    query = {"name": name, "q": search, "version": version}
    if is_ignored is not None:
        query["ignored"] = "true" if is_ignored else "false"
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
        str | None, typer.Option("--for", metavar="TIME", help="Ignore them for 90s, 30m, 2h or 7d.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Ignore them until this time.")] = None,
) -> None:
    """Ignore groups of failures: they are still counted, but not shown as problems on the Overview.

    Without --for and --until, a group is ignored until it changes: a failure on a new version of workers, one after a
    day without any, or many more an hour than before.
    """
    body = {"reason": reason, "duration_s": duration_s(lasts, until)}
    for group in groups:
        shown = http.post(_path_to(group), body)
        until_text = shown["ignored"]["until"] or "it changes"
        _say(http, shown, f"ignored until {until_text}")


@app.command()
def unignore(http: MasterSession, groups: GroupsArgument) -> None:
    """Stop ignoring groups of failures."""
    for group in groups:
        _, shown = http.call("DELETE", _path_to(group))
        _say(http, shown, "no longer ignored")


def _path_to(group: str) -> str:
    return f"/api/failures/{quote(group, safe='')}/ignore"


def _say(http: MasterSession, shown: Mapping[str, Any], what: str) -> None:
    http.say(shown, f"{shown['id']}  {what}: {shown['name']}: {shown['message']}")


def _marks(group: Mapping[str, Any]) -> str:
    ignored = group.get("ignored")
    return ", ".join([*group.get("marks", ()), *(["ignored"] if ignored and not ignored["ended_by"] else [])])
