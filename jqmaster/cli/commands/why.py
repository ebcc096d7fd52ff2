"""The command that explains why jobs are not running."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from jqmaster.cli.console import output
from jqmaster.cli.console.http import MasterSession, job_path

# The next step, for verdicts whose own text names none.
_NEXT: Final[Mapping[str, str]] = {
    "no_worker": (
        "start a worker that serves this name, or correct the name; `jqmaster workers` lists the "
        "running workers"
    ),
}


def why(
    http: MasterSession,
    job_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Job ID. Without it: all ready jobs.")
    ] = None,
    *,
    name: Annotated[str | None, typer.Option(help="Ready jobs of this name.")] = None,
    tag: Annotated[str | None, typer.Option(help="Ready jobs with this tag.")] = None,
    batch: Annotated[str | None, typer.Option(metavar="ID", help="Ready jobs of this batch.")] = None,
) -> None:
    """Explain why a job is not running and what must change first. Without an ID, explain why ready jobs wait."""
    if job_id is None:
        _explain_backlog(http, {"name": name, "tag": tag, "batch": batch})
        return
    if name or tag or batch:
        raise typer.BadParameter("a job ID excludes --name, --tag and --batch")
    answer = http.get(job_path(job_id, "why"))
    if http.says_json(answer):
        return
    output.say(f"{job_id} is {answer['state']} (as of {answer['as_of']})")
    for verdict in answer["verdicts"]:
        output.say(f"- {verdict['text']}")
        if remedy := _NEXT.get(verdict["code"]):
            output.say(f"  Next: {remedy}")
    if answer["constraints"]:
        print()
        output.show_table(
            ("CONSTRAINT", "KEY", "VALUE", "NOW", "RUNNING", "STARTS", "WAITING", "OPENS"),
            [_row(use) for use in answer["constraints"]],
        )


def _explain_backlog(http: MasterSession, whose: dict[str, str | None]) -> None:
    answer = http.get("/api/jobs/why", {key: value for key, value in whose.items() if value is not None})
    if http.says_json(answer):
        return
    output.say(answer["text"])
    for cause in answer["causes"]:
        output.say(f"- {cause['text']}, such as {cause['job_id']} ({', '.join(cause['names'])})")


def _row(use: dict[str, Any]) -> tuple[object, ...]:
    rate, weight = use["rate"], use["weight"]
    running, starts = (weight["running"], weight["in_window"]) if weight else (use["running"], use["starts"])
    unit = f" {weight['unit']}" if weight else ""
    now = "passes" if use["passes"] else ", ".join(use["kinds"])
    return (
        use["name"],
        use["key"],
        use["key_value"],
        f"{now} (shadow)" if use["mode"] == "shadow" else now,
        "" if use["concurrency"] is None else f"{_number(running)} of {_number(use['concurrency'])}{unit}",
        ""
        if rate is None
        else f"{_number(starts)} of {_number(rate['limit'])}{unit} in {rate['period_s']:g} s",
        use["waiting"],
        use["opens_at"],
    )


def _number(number: float | None) -> str:
    """Return a number for people. Units may be fractions, and None means that the number is unknown."""
    return "?" if number is None else f"{number:,.12g}"
