"""Commands about batches."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from jqmaster.cli.console import output
from jqmaster.cli.console.completion import one_of
from jqmaster.cli.console.groups import CommandGroup
from jqmaster.cli.console.http import MasterSession, path_of

app = CommandGroup()

BatchArgument = Annotated[str, typer.Argument(metavar="BATCH_ID", help="ID of the batch.")]
_ENDED = ("succeeded", "discarded", "failed", "canceled", "skipped", "deleted")


@app.listing("Batches: jobs that belong together")
def list_batches(
    http: MasterSession,
    *,
    state: Annotated[
        str | None,
        typer.Option(
            help="Only batches in this state: open, sealed or complete.",
            autocompletion=one_of("open", "sealed", "complete"),
        ),
    ] = None,
    tag: Annotated[str | None, typer.Option(help="Only batches with this tag.")] = None,
    search: Annotated[
        str | None, typer.Option("--search", "-q", help="Text in the ID or description.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="Maximum number of batches.")] = 20,
) -> None:
    """List the newest batches and their progress."""
    http.show_list(
        http.listed(
            "/api/batches", "batches", query={"state": state, "tag": tag, "q": search}, limit=limit
        ),
        ("CREATED", "BATCH", "STATE", "DONE", "FAILED", "DESCRIPTION"),
        lambda b: (
            b["created_at"], b["id"], _state_of(b), _done(b), b["counts"]["failed"], b["description"],
        ),
    )  # fmt: skip


@app.command()
def show(http: MasterSession, batch_id: BatchArgument) -> None:
    """Show a batch: its counts, its callbacks, and the jobs that it waits for."""
    batch = http.get(path_of("/api/batches", batch_id))
    if http.says_json(batch):
        return
    answer = http.get(path_of("/api/batches", batch_id, "why"))
    _show(batch)
    for reason in answer["reasons"]:
        output.say(f"waits  {reason['text']}")
    if answer["jobs"]:
        output.show_table(
            ("JOB", "NAME", "STATE", "ATTEMPT"),
            [(job["id"], job["name"], job["state"], job["attempt"]) for job in answer["jobs"]],
            title="the oldest jobs that are not over",
        )


@app.command()
def seal(http: MasterSession, batch_id: BatchArgument) -> None:
    """Seal a batch: it is complete when all of its jobs are over."""
    _act(http, batch_id, "seal")


@app.command()
def cancel(http: MasterSession, batch_id: BatchArgument) -> None:
    """Cancel a batch and all of its jobs that are not over."""
    _act(http, batch_id, "cancel")


@app.command()
def retry(http: MasterSession, batch_id: BatchArgument) -> None:
    """Retry the failed jobs of a batch."""
    _act(http, batch_id, "retry")


def _act(http: MasterSession, batch_id: str, action: str) -> None:
    batch = http.post(path_of("/api/batches", batch_id, action))
    if not http.says_json(batch):
        _show(batch)


def _show(batch: Mapping[str, Any]) -> None:
    counts, nested = batch["counts"], batch["batches"]
    output.show_fields(
        (
            ("batch", batch["id"]),
            ("state", _state_of(batch)),
            ("description", batch["description"]),
            ("tags", ", ".join(batch["tags"])),
            ("done", _done(batch)),
            *((state, counts[state] or None) for state in _ENDED),
            *((state, counts.get(state) or None) for state in ("running", "ready", "retrying", "scheduled")),
            ("no longer kept", counts.get("gone") or None),
            (
                "batches",
                f"{nested['total']} ({nested['succeeded']} succeeded, {nested['failed']} failed)"
                if nested["total"]
                else None,
            ),
            ("member of", batch["batch"]),
            *((field, batch[field]) for field in ("created_at", "completed_at", "canceled_at", "expires_at")),
            *(
                (name, f"{callback['name']}  {callback['state']}  {callback['job_id']}")
                for name, callback in batch["callbacks"].items()
                if callback
            ),
        )
    )


def _done(batch: Mapping[str, Any]) -> str:
    counts = batch["counts"]
    return f"{counts['total'] - counts['unfinished']} of {counts['total']}"


def _state_of(batch: Mapping[str, Any]) -> str:
    return f"{batch['state']}, canceled" if batch["canceled_at"] else str(batch["state"])
