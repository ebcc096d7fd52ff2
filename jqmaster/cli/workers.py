"""Commands about workers."""

from typing import Annotated
from urllib.parse import quote

import typer

from jqmaster.cli import exits, output
from jqmaster.cli.http import DEFAULT_MASTER, JsonOption, Master, MasterOption, TokenOption

app = typer.Typer(help="List the registered workers, or give them orders.", invoke_without_command=True)

WorkerArguments = Annotated[list[str], typer.Argument(metavar="ID…", help="Worker IDs.")]


@app.callback()
def list_workers(
    context: typer.Context,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the registered workers, or give them orders."""
    if context.invoked_subcommand is not None:
        return
    with Master(master, token) as http:
        _, answer = http.call("GET", "/api/workers")
    if as_json:
        for worker in answer["workers"]:
            output.say_json(worker)
        return
    output.show_table(
        ("ID", "STATE", "BUSY", "MAX", "NODE", "PID", "URL", "NAMES", "LAST SEEN"),
        (
            (w["id"], w["state"], w["busy"], w["max_jobs"], w["node_id"], w["pid"], w["url"] or "(pulls)", " ".join(w["names"]), w["last_seen_at"])
            for w in answer["workers"]
        ),
    )  # fmt: skip


@app.command()
def drain(
    worker_ids: WorkerArguments,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let workers finish what they run, and give them no more."""
    _order(worker_ids, "drain", Master(master, token), as_json)


@app.command()
def resume(
    worker_ids: WorkerArguments,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give draining workers jobs again."""
    _order(worker_ids, "resume", Master(master, token), as_json)


@app.command()
def detach(
    worker_ids: WorkerArguments,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Cut workers off: what they run is stopped there, counts a loss, and runs elsewhere."""
    _order(worker_ids, "detach", Master(master, token), as_json)


def _order(worker_ids: list[str], order: str, master: Master, as_json: bool) -> None:
    """All are tried; the exit code is that of the last failure."""
    worst = exits.OK
    with master as http:
        for worker_id in worker_ids:
            try:
                _, view = http.call("POST", f"/api/workers/{quote(worker_id, safe='')}/{order}")
            except typer.Exit as ended:
                worst = ended.exit_code
                continue
            if as_json:
                output.say_json(view)
            else:
                output.say(f"{view['id']}  {view['state']}  {view['busy']} of {view['max_jobs']} busy")
    raise typer.Exit(worst)
