"""Commands about challenges."""

import json
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.groups import list_without_command
from jqmaster.cli.console.http import (
    DEFAULT_MASTER,
    JsonOption,
    Master,
    MasterOption,
    TokenOption,
    job_path,
    path_of,
)

app = typer.Typer(invoke_without_command=True)

JobArgument = Annotated[str, typer.Argument(metavar="JOB_ID", help="ID of the job.")]


@app.command("list")
def list_challenges(
    *,
    state: Annotated[
        str | None,
        typer.Option(help="Only those in this state: processing, succeeded, failed, expired or void."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Only those of jobs with this name.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Most challenges.")] = 20,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the newest challenges."""
    with Master(master, token) as http:
        query = {"state": state, "name": name}
        found = list(http.listed("/api/challenges", "challenges", query=query, limit=limit))
    output.show_list(
        found,
        ("OPENED", "STATE", "CALLBACKS", "NAME", "JOB", "REQUEST", "DUE"),
        lambda one: (one["opened_at"], one["state"], _callbacks(one), one["name"], one["job_id"], one["request"],
                     one["due_at"] or "-"),
        as_json=as_json,
    )  # fmt: skip


list_without_command(app, list_challenges, "Challenges: work that other systems do")


@app.command()
def show(
    job_id: JobArgument,
    *,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the challenges of a job, the newest first."""
    with Master(master, token) as http:
        _, page = http.call("GET", job_path(job_id, "challenges"))
    if as_json:
        output.say_json(page["challenges"])
        return
    for number, one in enumerate(page["challenges"]):
        if number:
            print()
        output.show_fields((key, value) for key, value in one.items() if key not in ("meta", "progress"))
        if one["progress"]:
            output.show_fields((("progress", _progress(one["progress"])),))
        if one["meta"] is not None:
            print("meta")
            output.show_value(one["meta"])
    if not page["challenges"]:
        output.say("the job opened no challenge")


@app.command()
def answer(
    job_id: JobArgument,
    payload: Annotated[
        str | None, typer.Argument(help="JSON; - reads it from standard input. None: null.")
    ] = None,
    *,
    request: Annotated[
        str | None, typer.Option(help="`request` of the challenge. Default: the one that is open.")
    ] = None,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer a challenge in the place of the outside system."""
    body = _parsed(payload)
    with Master(master, token) as http:
        if request is None:
            _, page = http.call("GET", job_path(job_id, "challenges"))
            request = next(
                (one["request"] for one in page["challenges"] if one["state"] == "processing"), None
            )
        if request is None:
            exits.fail(exits.REFUSED, f"no challenge of job {job_id} is open")
        path = path_of(job_path(job_id, "challenges"), request, "callback")
        _, receipt = http.call("POST", path, text=json.dumps(body))
    if as_json:
        output.say_json(receipt)
    else:
        output.say("the same callback came before" if receipt["repeated"] else "answered")


def _parsed(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(sys.stdin.read() if text == "-" else text)
    except (ValueError, RecursionError) as error:
        exits.fail(exits.REFUSED, f"the answer is not JSON: {error}")


def _callbacks(one: Mapping[str, Any]) -> str:
    return f"{one['received']}/{one['expect']}"


def _progress(told: Mapping[str, Any]) -> str:
    share = "" if told["fraction"] is None else f"{told['fraction']:.0%} "
    return f"{share}{told['message'] or ''} ({told['at']})"
