"""Commands about definitions."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from jqmaster.cli.console import output
from jqmaster.cli.console.completion import one_of
from jqmaster.cli.console.documents import document_in
from jqmaster.cli.console.groups import CommandGroup, NamedObjects
from jqmaster.cli.console.http import MasterSession
from jqmaster.cli.console.times import instant
from jqmaster.cli.declared.definition_documents import document_of

app = CommandGroup()
definitions = NamedObjects("definition", "/api/definitions")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the definition.")]


def _next(definition: Mapping[str, Any]) -> str:
    if definition["kind"] == "event":
        return f"with {definition['event_type']}"
    return f"next {definition['next_due_at'] or 'never'}"


@app.listing("Definitions: jobs that a schedule or events start")
def list_definitions(http: MasterSession) -> None:
    """List the definitions, their next instants and their last runs."""
    http.show_list(
        all_definitions(http),
        ("NAME", "STATE", "JOB", "STARTED BY", "ZONE", "NEXT", "LAST", "OUTCOME"),
        lambda d: (d["name"], _state(d), d["job"]["name"], _brief(d), d["time_zone"], d["next_due_at"], *_last(d)),
    )  # fmt: skip


@app.command()
def show(http: MasterSession, name: NameArgument) -> None:
    """Show a definition and the job that it starts."""
    found = http.get(definitions.path(name))
    if http.says_json(found):
        return
    output.show_fields(
        (key, value)
        for key, value in found.items()
        if key not in ("job", "last_run", "runs", "schedule", "event_type")
    )
    output.show_fields((("started_by", _brief(found)), ("last_run", " ".join(map(str, _last(found))))))
    print("job")
    output.show_value(found["job"])


definitions.add_put(app, _next)
definitions.add_delete(app, "Delete a definition and its run records. Jobs that it started stay.")


@app.command()
def run(http: MasterSession, name: NameArgument) -> None:
    """Start the job of a definition once, now, and print its ID."""
    answer = http.post(definitions.path(name, "run"))
    http.say(answer, answer["id"])


@app.command()
def pause(
    http: MasterSession,
    name: NameArgument,
    *,
    reason: Annotated[str, typer.Option(help="Reason for the pause, for people.")] = "",
) -> None:
    """Pause a definition, so that it starts no jobs. Its instants are recorded as skipped."""
    answer = http.post(definitions.path(name, "pause"), {"reason": reason})
    http.say(answer, f"{answer['name']}  paused  {_next(answer)}")


@app.command()
def resume(http: MasterSession, name: NameArgument) -> None:
    """End the pause of a definition."""
    answer = http.post(definitions.path(name, "resume"))
    http.say(answer, f"{answer['name']}  resumed  {_next(answer)}")


@app.command()
def runs(
    http: MasterSession,
    name: NameArgument,
    *,
    outcome: Annotated[
        str | None,
        typer.Option(
            help="Only records with this outcome: fired, skipped or missed.",
            autocompletion=one_of("fired", "skipped", "missed"),
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="Maximum number of records.")] = 20,
) -> None:
    """List the newest run records of a definition: the outcome of each due instant."""
    http.show_list(
        http.get(definitions.path(name, "runs"), {"outcome": outcome, "limit": limit})["runs"],
        ("DUE", "OUTCOME", "REASON", "JOB", "RECORDED"),
        lambda r: (r["due_at"], r["outcome"], r["reason"], r["job_id"], r["recorded_at"]),
        limit=limit,
    )


@app.command()
def why(http: MasterSession, name: NameArgument) -> None:
    """Explain why a definition starts no jobs, and name its next instant."""
    answer = http.get(definitions.path(name, "why"))
    due = f" Next instant: {answer['next_due_at']}." if answer["next_due_at"] else ""
    http.say(answer, answer["text"] + due)


@app.command()
def backfill(
    http: MasterSession,
    name: NameArgument,
    begin: Annotated[
        str, typer.Argument(metavar="FROM", help="First instant, such as 2026-11-01T00:00:00Z.")
    ],
    end: Annotated[
        str, typer.Argument(metavar="TO", help=("End of the range: only instants before this one."))
    ],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count only.")] = False,
    also_forgotten: Annotated[
        bool,
        typer.Option(
            "--also-forgotten",
            help=(
                "Also start jobs for instants without run records, because old records are deleted. Such "
                "jobs may have run before."
            ),
        ),
    ] = False,
) -> None:
    """Start jobs for past instants that have not started a job."""
    body: dict[str, Any] = {"from": instant(begin), "to": instant(end), "dry_run": dry_run}
    if also_forgotten:
        body["also_forgotten"] = True
    done = http.post(definitions.path(name, "backfill"), body)
    if not http.says_json(done):
        output.show_fields(done.items())


@app.command("next")
def next_instants(
    http: MasterSession,
    what: Annotated[
        str,
        typer.Argument(metavar="NAME|FILE", help="Name of a definition, or TOML or JSON file with one."),
    ],
    *,
    count: Annotated[int, typer.Option(min=1, max=1000, help="Number of instants.")] = 10,
) -> None:
    """Show the next instants of a definition, in its time zone."""
    is_file = what == "-" or what.endswith((".toml", ".json"))
    body = document_in(what) if is_file else document_of(http.get(definitions.path(what)))
    body = {key: value for key, value in body.items() if key != "job"} | {"count": count}
    if not is_file:
        body["name"] = what
    answer = http.post("/api/definitions/preview", body)
    http.show_list(
        answer["instants"],
        ("DUE", "LOCAL", "NOTE"),
        lambda i: (i["due_at"], i["local"], i["note"]),
    )


# --- reading from the API


def all_definitions(http: MasterSession) -> list[dict[str, Any]]:
    """Return every definition."""
    return list(http.listed("/api/definitions", "definitions"))


# --- output


def _state(definition: Mapping[str, Any]) -> str:
    return "enabled" if definition["enabled"] else "paused"


def _brief(definition: Mapping[str, Any]) -> str:
    """Return the schedule or the events that start the definition."""
    if definition["kind"] == "event":
        gathers = [field for field in ("debounce", "collect") if definition[field]]
        return " ".join(["events", definition["event_type"], *gathers])
    return ", ".join(
        f"{field} {','.join(value) if isinstance(value, list) else value}"
        for field, value in definition["schedule"].items()
    )


def _last(definition: Mapping[str, Any]) -> tuple[str, str]:
    run = definition["last_run"]
    if run is None:
        return "-", "-"
    return run["due_at"], run["outcome"] if run["reason"] is None else f"{run['outcome']} ({run['reason']})"
