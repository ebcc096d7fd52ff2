"""Commands about webhooks."""

import base64
import secrets
from typing import Annotated

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.http import (
    DEFAULT_MASTER,
    JsonOption,
    MasterOption,
    MasterSession,
    TokenOption,
    job_path,
    path_of,
)

app = typer.Typer(no_args_is_help=True, help="Webhooks: calls when jobs are over")

JobArgument = Annotated[str, typer.Argument(metavar="JOB_ID", help="ID of the job that is told of.")]
# Standard Webhooks allows 24 to 64.
SECRET_BYTES = 32


@app.command()
def show(
    job_id: JobArgument,
    *,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the deliveries of a job's webhook, that of its newest end first."""
    with MasterSession(master, token) as http:
        _, found = http.call("GET", job_path(job_id, "deliveries"))
    if as_json:
        output.say_json(found["deliveries"])
        return
    for number, one in enumerate(found["deliveries"]):
        if number:
            print()
        output.show_fields((key, value) for key, value in one.items() if key != "attempts")
        for attempt in one["attempts"]:
            print(
                f"attempt {attempt['attempt']}  {attempt['finished_at']}  {attempt['message'] or attempt['outcome']}"
            )
    if not found["deliveries"]:
        output.say("the job has no deliveries")


@app.command()
def resend(
    job_id: JobArgument,
    *,
    delivery: Annotated[str | None, typer.Option(help="ID of the delivery. Default: the newest one.")] = None,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send a webhook again, or now if it waits for its next attempt."""
    with MasterSession(master, token) as http:
        if delivery is None:
            _, found = http.call("GET", job_path(job_id, "deliveries"))
            delivery = next((one["id"] for one in found["deliveries"]), None)
        if delivery is None:
            exits.fail(exits.REFUSED, f"job {job_id} has no deliveries")
        _, answer = http.call("POST", path_of(job_path(job_id, "deliveries"), delivery, "resend"))
    if as_json:
        output.say_json(answer)
    else:
        output.say(f"{answer['id']} is sent again")


@app.command()
def secret() -> None:
    """Make a secret for the setting webhook_secrets, and print it. It is stored nowhere."""
    print("whsec_" + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode())
