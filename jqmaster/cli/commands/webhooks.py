"""Commands about webhooks."""

import base64
import secrets
from typing import Annotated

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.groups import CommandGroup
from jqmaster.cli.console.http import MasterSession, job_path, path_of

app = CommandGroup(no_args_is_help=True, help="Webhooks: calls when jobs are over")

JobArgument = Annotated[
    str, typer.Argument(metavar="JOB_ID", help="ID of the job to which the webhook belongs.")
]
# Length of a new secret. Standard Webhooks allows 24 to 64 bytes.
SECRET_BYTES = 32


@app.command()
def show(http: MasterSession, job_id: JobArgument) -> None:
    """Show the deliveries of a job's webhook, newest first."""
    found = http.get(job_path(job_id, "deliveries"))
    if http.says_json(found["deliveries"]):
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
    http: MasterSession,
    job_id: JobArgument,
    *,
    delivery: Annotated[str | None, typer.Option(help="ID of the delivery. Default: the newest one.")] = None,
) -> None:
    """Send a webhook again. If it waits for its next attempt, send it now."""
    if delivery is None:
        found = http.get(job_path(job_id, "deliveries"))
        delivery = next((one["id"] for one in found["deliveries"]), None)
    if delivery is None:
        exits.fail(exits.NOT_FOUND, f"job {job_id} has no deliveries")
    answer = http.post(path_of(job_path(job_id, "deliveries"), delivery, "resend"))
    http.say(answer, f"{answer['id']} is sent again")


@app.command()
def secret() -> None:
    """Generate a secret for the setting webhook_secrets, and print it. The secret is not stored."""
    print("whsec_" + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode())
