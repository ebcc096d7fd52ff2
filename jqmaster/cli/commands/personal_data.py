"""Commands that find data about a person, and erase values of jobs."""

import sys
from collections import Counter
from typing import Annotated, Any, Final

import typer

from jqmaster.cli.console import output
from jqmaster.cli.console.groups import CommandGroup, confirmed
from jqmaster.cli.console.http import MasterSession, path_of

_SEARCH: Final = "/api/personal-data/search"

app = CommandGroup(no_args_is_help=True, help="Data about a person in jobs, events, failures and notices")


@app.command()
def find(
    http: MasterSession,
    texts: Annotated[
        list[str],
        typer.Argument(metavar="TEXT…", help="Texts that identify the person, such as an email address."),
    ],
    *,
    reason: Annotated[str, typer.Option(help="Reason for the audit log, without names of people.")] = "",
) -> None:
    """Find texts that identify a person, in jobs, events, failures and notices.

    Standard error lists the data that was searched and the data that was not searched. The audit log records the
    search without the texts.
    """
    found: dict[tuple[str, str], dict[str, Any]] = {}
    searched, unread = Counter[str](), Counter[str]()
    part: dict[str, Any] = {"next_cursor": None}
    while True:
        part = http.post(_SEARCH, {"texts": texts, "reason": reason, "cursor": part["next_cursor"]})
        found |= {(one["place"], one["id"]): one for one in part["found"]}
        searched.update(part["searched"])
        unread.update(part["unread"])
        if part["next_cursor"] is None:
            break
        if sys.stderr.isatty():
            output.echo(f"{searched['jobs']} of about {part['total_jobs']} jobs searched", is_error=True)
    http.show_list(
        found.values(),
        ("WHAT", "NAME", "STATE", "WHERE", "ID"),
        lambda one: (one["place"], one["name"], one["state"], _where(one), one["id"]),
    )
    for line in _summary(part, searched, unread):
        output.echo(line, is_error=True)


@app.command()
def erase(
    http: MasterSession,
    job_id: Annotated[str, typer.Argument(metavar="ID", help="ID of the job, which must be over.")],
    fields: Annotated[
        list[str],
        typer.Argument(metavar="FIELD…", help="Paths that `find` shows under WHERE, such as argument.email."),
    ],
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Erase values of a job that is over. The job itself stays. To erase its log, use `jqmaster erase-log`."""
    confirmed(f"Erase {', '.join(fields)} of job {job_id} for good?", is_given=yes)
    job = http.post(path_of("/api/jobs", job_id, "erase"), {"fields": fields})
    http.say(job, f"{job_id}  erased: {', '.join(fields)}")


def _where(found: dict[str, Any]) -> str:
    more = [f"and {found['more_fields']} more"] if found["more_fields"] else []
    return ", ".join([*found["fields"], *more])


def _summary(part: dict[str, Any], searched: Counter[str], unread: Counter[str]) -> list[str]:
    kinds = ("jobs", "log_lines", "events", "failure_groups", "notices")
    lines = ["searched: " + ", ".join(f"{searched[kind]} {kind.replace('_', ' ')}" for kind in kinds)]
    counts = [f"{unread[kind]} {kind.replace('_', ' ')}" for kind in unread if unread[kind]]
    redacted = [f"values at {', '.join(part['redacted'])} (redact_paths)"] if part["redacted"] else []
    return [*lines, "not searched: " + "; ".join([*counts, *redacted, *part["not_searched"]])]
