"""Commands about batches."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from jqmaster.cli.console import output
from jqmaster.cli.console.groups import list_without_command
from jqmaster.cli.console.http import (
    DEFAULT_MASTER,
    JsonOption,
    MasterOption,
    MasterSession,
    TokenOption,
    path_of,
)

app = typer.Typer(invoke_without_command=True)

BatchArgument = Annotated[str, typer.Argument(metavar="BATCH_ID", help="ID of the batch.")]
_ENDED = ("succeeded", "discarded", "failed", "canceled", "skipped", "deleted")


@app.command("list")
def list_batches(
    *,
    state: Annotated[
        str | None, typer.Option(help="Only batches in this state: open, sealed or complete.")
    ] = None,
    tag: Annotated[str | None, typer.Option(help="Only batches with this tag.")] = None,
    search: Annotated[
        str | None, typer.Option("--search", "-q", help="Text in the ID or description.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="Most batches.")] = 20,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the newest batches, and how far they are."""
    found: list[dict[str, Any]] = []
    query = {"state": state, "tag": tag, "q": search, "limit": str(limit), "cursor": None}
    with MasterSession(master, token) as http:
        while len(found) < limit:
            _, page = http.call("GET", "/api/batches", query=query)
            found += page["batches"]
            query["cursor"] = page["next_cursor"]
            if page["next_cursor"] is None:
                break
    output.show_list(
        found[:limit],
        ("CREATED", "BATCH", "STATE", "DONE", "FAILED", "DESCRIPTION"),
        lambda batch: (
            batch["created_at"],
            batch["id"],
            _state_of(batch),
            _done(batch),
            batch["counts"]["failed"],
            batch["description"],
        ),
        as_json=as_json,
    )


list_without_command(app, list_batches, "Batches: jobs that belong together")


@app.command()
def show(
    batch_id: BatchArgument,
    *,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a batch: its counts, its callbacks, and what it waits for."""
    with MasterSession(master, token) as http:
        _, batch = http.call("GET", path_of("/api/batches", batch_id))
        if as_json:
            output.say_json(batch)
            return
        _, answer = http.call("GET", path_of("/api/batches", batch_id, "why"))
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
def seal(
    batch_id: BatchArgument,
    *,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Seal a batch: it is complete when all of its jobs are over."""
    _act(batch_id, "seal", master, token, as_json)


@app.command()
def cancel(
    batch_id: BatchArgument,
    *,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Cancel a batch and all of its jobs that are not over."""
    _act(batch_id, "cancel", master, token, as_json)


@app.command()
def retry(
    batch_id: BatchArgument,
    *,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Retry the failed jobs of a batch."""
    _act(batch_id, "retry", master, token, as_json)


def _act(batch_id: str, action: str, master: str, token: Any, as_json: bool) -> None:
    with MasterSession(master, token) as http:
        _, batch = http.call("POST", path_of("/api/batches", batch_id, action))
    if as_json:
        output.say_json(batch)
        return
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
