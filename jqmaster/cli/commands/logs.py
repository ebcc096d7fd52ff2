"""`jqmaster logs ID`: print the log of a job, and follow it until the job is over."""

import re
import sys
from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from jqmaster.cli.commands.jobs import JobArgument, JobArguments, YesOption
from jqmaster.cli.console import exits, output
from jqmaster.cli.console.follow import asked
from jqmaster.cli.console.groups import confirmed, delete_each
from jqmaster.cli.console.http import MasterSession, job_path
from jqmaster.domain.logs.lines import LogLevel

_PAGE: Final = 5_000
# Time for which the master waits for new lines in one call. It must be shorter than the timeout of a call.
_WAIT_S: Final = 5
_COLOUR: Final = re.compile(r"(\x1b\[[0-9;:]{0,64}m)")
_PLAIN: Final = "\x1b[0m"
# The prefix of each further line of a text that contains line feeds.
_CONTINUED: Final = "\n    | "


def logs(
    http: MasterSession,
    job_id: JobArgument,
    *,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Wait for further lines until the job is over.")
    ] = False,
    level: Annotated[LogLevel, typer.Option(help="Only lines of this level or above.")] = LogLevel.DEBUG,
    attempt: Annotated[int | None, typer.Option(min=1, help="Only lines of this attempt.")] = None,
    tail: Annotated[
        int | None, typer.Option(min=1, help="Begin at most this many lines before the end of the log.")
    ] = None,
) -> None:
    """Print the log of a job, the oldest line first.

    Notes on standard error report missing lines and lines from the archive. If the archive is unavailable, the command
    prints the lines that the store still has, and exits with 5."""
    wanted = {"level": level.value, "attempt": attempt, "tail": tail}
    raise typer.Exit(_print(http, job_id, wanted, is_following=follow))


def erase_log(http: MasterSession, job_ids: JobArguments, *, yes: YesOption = False) -> None:
    """Erase the logs of finished or deleted jobs, even in the archive."""
    confirmed(f"Erase the log{'s' if len(job_ids) > 1 else ''} of {len(job_ids)} for good?", is_given=yes)
    delete_each(http, {job_id: job_path(job_id, "logs") for job_id in job_ids}, "log erased")


def _print(http: MasterSession, job_id: str, wanted: Mapping[str, Any], *, is_following: bool) -> int:
    """Print the log, and return the exit code."""
    after = told = 0
    is_first, is_archive_told, worst = True, False, exits.OK
    while True:
        query = {**wanted, "after": after, "limit": _PAGE}
        if not is_first:
            query |= {"tail": None, "wait": _WAIT_S if is_following else None}
        path = job_path(job_id, "logs")
        try:
            page = asked(http, path, query) if is_following else http.call("GET", path, query=query)[1]
        except typer.Exit as ended:
            stored_after = http.problem.get("stored_after")
            if stored_after is None or stored_after <= after:
                raise
            after, is_first, worst = stored_after, False, ended.exit_code
            output.echo("from the store:", is_error=True)
            continue
        if page["is_archived"] and not is_archive_told:
            output.echo("from the archive of logs:", is_error=True)
            is_archive_told = True
        for entry in page["entries"]:
            if not http.says_json(entry):
                print(_text(entry))
        sys.stdout.flush()
        if page["dropped"] > told and wanted["tail"] is None:
            output.echo(f"{page['dropped'] - told} lines are missing: there were too many", is_error=True)
            told = page["dropped"]
        is_end = page["next"] == after
        after, is_first = page["next"], False
        if page["is_last"] or (is_end and not is_following):
            return worst


def _text(entry: Mapping[str, Any]) -> str:
    """Return a line for people. Keep colours only in a terminal. Indent the text after a line feed, so that no
    text of a handler looks like another line of the log."""
    head = f"{entry['at']} {entry['attempt']} {entry['level']:8}"
    if entry["text"] is None:
        return f"{head} (hidden)"
    parts = _COLOUR.split(entry["text"].replace("\r\n", "\n").replace("\n", _CONTINUED))
    if not sys.stdout.isatty():
        return f"{head} {output.escape_controls(''.join(parts[::2]))}"
    parts[::2] = map(output.escape_controls, parts[::2])
    return f"{head} {''.join(parts)}{_PLAIN if len(parts) > 1 else ''}"
