"""Commands about sealed jobs."""

from collections import Counter
from typing import Annotated, Final

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.groups import CommandGroup
from jqmaster.cli.console.http import MasterSession

# Prefix of the tag of sealed jobs. The tag continues with the ID of the key.
TAG_PREFIX: Final = "sealed:"

app = CommandGroup(no_args_is_help=True, help="Sealed jobs, which masters cannot read")


@app.callback()
def _group() -> None: ...


@app.command()
def check(
    http: MasterSession,
    *,
    have: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY_ID", help="ID of a key that the workers have. May be given several times."),
    ] = None,
) -> None:
    """Count the unfinished jobs by the key that sealed them.

    With --have, the exit code is 1 if a job needs a key that is not listed. Workers must keep such a key.
    """
    found: Counter[tuple[str, str]] = Counter()
    for group in ("waiting", "running"):
        for job in http.listed("/api/jobs", "jobs", query={"state_group": group}):
            for tag in job["tags"]:
                if tag.startswith(TAG_PREFIX):
                    found[tag.removeprefix(TAG_PREFIX), job["name"]] += 1
    known = set(have or ())
    http.show_list(
        (
            {"key": key, "name": name, "jobs": count, "is_missing": bool(have) and key not in known}
            for (key, name), count in sorted(found.items())
        ),
        ("KEY", "NAME", "JOBS", "MISSING"),
        lambda one: (one["key"], one["name"], one["jobs"], "yes" if one["is_missing"] else ""),
    )
    missing = sorted({key for key, _ in found} - known) if have else []
    if missing:
        exits.fail(exits.FAILED, f"jobs that are not over need {', '.join(missing)}")
    if not found:
        output.say("no job that is not over is sealed")
