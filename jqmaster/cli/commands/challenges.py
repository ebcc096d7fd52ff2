"""Commands about challenges."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.completion import one_of
from jqmaster.cli.console.documents import json_or_text, pairs_of, value_of
from jqmaster.cli.console.groups import CommandGroup
from jqmaster.cli.console.http import MasterSession, job_path, path_of

app = CommandGroup()

_SHOWN_APART: Final = ("meta", "progress", "form", "answers")

JobArgument = Annotated[str, typer.Argument(metavar="JOB_ID", help="ID of the job.")]


@app.listing("Challenges: work that other systems or people do")
def list_challenges(
    http: MasterSession,
    *,
    state: Annotated[
        str | None,
        typer.Option(
            help="Only challenges in this state: processing, succeeded, failed, expired or void.",
            autocompletion=one_of("processing", "succeeded", "failed", "expired", "void"),
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Only challenges of jobs with this name.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of challenges.")] = 20,
) -> None:
    """List the newest challenges."""
    http.show_list(
        http.listed("/api/challenges", "challenges", query={"state": state, "name": name}, limit=limit),
        ("OPENED", "STATE", "CALLBACKS", "NAME", "JOB", "REQUEST", "DUE", "PEOPLE"),
        lambda one: (one["opened_at"], one["state"], _callbacks(one), one["name"], one["job_id"], one["request"],
                     one["due_at"] or "-", one.get("audience") or "-"),
    )  # fmt: skip


@app.command()
def show(http: MasterSession, job_id: JobArgument) -> None:
    """Show the challenges of a job, the newest first."""
    page = http.get(job_path(job_id, "challenges"))
    if http.says_json(page["challenges"]):
        return
    for number, one in enumerate(page["challenges"]):
        if number:
            print()
        output.show_fields((key, value) for key, value in one.items() if key not in _SHOWN_APART)
        if one["progress"]:
            output.show_fields((("progress", _progress(one["progress"])),))
        if one["meta"] is not None:
            print("meta")
            output.show_value(one["meta"])
        _show_form(one)
    if not page["challenges"]:
        output.say("the job opened no challenge")


@app.command()
def answer(
    http: MasterSession,
    job_id: JobArgument,
    payload: Annotated[
        str | None,
        typer.Argument(
            help="JSON, @FILE with JSON, or - for standard input. Default: null. Not for a challenge with a form."
        ),
    ] = None,
    *,
    choice: Annotated[str | None, typer.Option(help="Choice of the form, such as approve.")] = None,
    comment: Annotated[str, typer.Option(help="Comment on the choice.")] = "",
    fields: Annotated[
        list[str] | None, typer.Option("--field", metavar="NAME=VALUE", help="Value of a field of the form.")
    ] = None,
    request: Annotated[
        str | None, typer.Option(help="`request` of the challenge. Default: the open challenge.")
    ] = None,
) -> None:
    """Answer a challenge: in place of the outside system, or as a person who may answer its form."""
    if payload is not None and (choice is not None or comment or fields):
        exits.fail(exits.USAGE, "give the callback as JSON, or --choice with --comment and --field")
    page = http.get(job_path(job_id, "challenges"))
    found = _selected(page["challenges"], request)
    if found is None and request is None:
        exits.fail(exits.NOT_FOUND, f"no challenge of job {job_id} is open")
    if choice is not None or comment or fields:
        body: Any = _form_answer(found, choice, comment, fields or [])
    elif payload is None and found is not None and found.get("form"):
        choices = ", ".join(one["value"] for one in found["form"]["choices"])
        exits.fail(exits.USAGE, f"people answer this challenge: give --choice, one of {choices}")
    else:
        body = None if payload is None else value_of(payload, "the answer")
    path = path_of(job_path(job_id, "challenges"), request or (found or {})["request"], "callback")
    _, receipt = http.call("POST", path, text=json.dumps(body))
    http.say(receipt, "the same callback came before" if receipt["repeated"] else "answered")


def _selected(challenges: Sequence[Mapping[str, Any]], request: str | None) -> Mapping[str, Any] | None:
    """Return the challenge that `request` names, or the open challenge of the job."""
    for one in challenges:
        if one["request"] == request if request is not None else one["state"] == "processing":
            return one
    return None


def _form_answer(
    found: Mapping[str, Any] | None, choice: str | None, comment: str, fields: Sequence[str]
) -> dict[str, Any]:
    """Return the answer to a form. The master checks it."""
    if choice is None:
        exits.fail(exits.USAGE, "an answer to a form needs --choice")
    if found is not None and found.get("audience") is None:
        exits.fail(
            exits.USAGE, "another system answers this challenge, not a person: give its callback as JSON"
        )
    properties = (((found or {}).get("form") or {}).get("fields") or {}).get("properties") or {}
    values = {}
    for name, value in pairs_of(fields, "--field").items():
        is_text = properties.get(name, {}).get("type", "string") == "string"
        values[name] = value if is_text else json_or_text(value)
    return {"choice": choice, "comment": comment, "values": values}


def _show_form(one: Mapping[str, Any]) -> None:
    if form := one.get("form"):
        print(f"asks  {output.escape_controls(form['title'])}")
        choices = ", ".join(f"{choice['value']} ({choice['label']})" if choice["label"] else choice["value"]
                            for choice in form["choices"])  # fmt: skip
        print(f"choices  {output.escape_controls(choices)}")
        if form["description"]:
            print(output.escape_controls(form["description"]))
        if form["fields"]:
            print("fields")
            output.show_value(form["fields"])
    for answer in one.get("answers") or ():
        by = answer["by"] or "somebody with the link"
        text = f"answered  {answer['at']} {answer['choice']} by {by} from {answer['address']}"
        print(output.escape_controls(text + (f": {answer['comment']}" if answer["comment"] else "")))


def _callbacks(one: Mapping[str, Any]) -> str:
    return f"{one['received']}/{one['expect']}"


def _progress(told: Mapping[str, Any]) -> str:
    share = "" if told["fraction"] is None else f"{told['fraction']:.0%} "
    return f"{share}{told['message'] or ''} ({told['at']})"
