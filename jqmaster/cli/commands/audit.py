"""The audit log."""

import sys
import time
from typing import Annotated, Any, Final, NoReturn

import typer

from jqmaster.cli.console import exits
from jqmaster.cli.console.http import MasterSession
from jqmaster.cli.console.times import instant
from jqmaster.cli.declared.constraint_files import canonical_json

_MOST: Final = 500
_EVERY_S: Final = 1.0


def audit(
    http: MasterSession,
    *,
    target: Annotated[
        str | None, typer.Option(help="Show only changes of this target, such as a constraint.")
    ] = None,
    who: Annotated[
        str | None, typer.Option(help="Show only changes by authors with this text in their name.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Show only changes at or after this time.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Show only changes at or before this time.")
    ] = None,
    log: Annotated[
        str | None,
        typer.Option(help="Show only this log: access (logins, tokens, users) or changes (the rest)."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Keep printing new entries as they are written.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of changes to print.")] = 50,
) -> None:
    """Show the changes and their authors, newest first."""
    query = {"target": target, "log": log, "who": who, "since": instant(since), "until": instant(until)}
    if follow:
        if target or log or who or since or until:
            exits.fail(exits.USAGE, "--follow can be combined only with --limit and --json")
        _follow(http, limit=limit)
    http.show_list(
        http.listed("/api/audit", "entries", query=query, limit=limit),
        ("AT", "WHO", "ACTION", "TARGET", "CHANGE"),
        lambda e: (e["at"], e["who"], e["action"], e["target"], _change_text(e["before"], e["after"])),
    )  # fmt: skip


def _follow(http: MasterSession, *, limit: int) -> NoReturn:
    """Print the newest entries, then each new one, until interrupted."""
    page = http.get("/api/audit", {"limit": min(limit, _MOST)})
    after = page["follow_from"]
    entries = page["entries"][::-1]
    while True:
        for e in entries:
            change = _change_text(e["before"], e["after"])
            http.say(e, f"{e['at']}  {e['who']}  {e['action']}  {e['target']}  {change}")
        sys.stdout.flush()
        if len(entries) < _MOST:
            time.sleep(_EVERY_S)
        try:
            page = http.get("/api/audit", {"after": after, "limit": _MOST})
        except typer.Exit as failure:
            # Continue if the master is unreachable, because it may come back. The failed call has printed the
            # reason.
            if failure.exit_code != exits.UNREACHABLE:
                raise
            entries = []
        else:
            entries, after = page["entries"], page["next_cursor"]


def _change_text(before: Any, after: Any) -> str:
    if not isinstance(before, dict) or not isinstance(after, dict):
        return canonical_json(after if before is None else None)
    fields = (field for field in after if canonical_json(before.get(field)) != canonical_json(after[field]))
    return "; ".join(f"{f}: {canonical_json(before.get(f))} -> {canonical_json(after[f])}" for f in fields)
