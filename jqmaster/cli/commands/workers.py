"""Commands about workers."""

from typing import Annotated, NoReturn

import typer

from jqmaster.cli.console import output
from jqmaster.cli.console.groups import list_without_command, order_each
from jqmaster.cli.console.http import DEFAULT_MASTER, JsonOption, Master, MasterOption, TokenOption, path_of

app = typer.Typer(invoke_without_command=True)

WorkerArguments = Annotated[list[str], typer.Argument(metavar="ID…", help="Worker IDs.")]


@app.command("list")
def list_workers(
    *, master: MasterOption = DEFAULT_MASTER, token: TokenOption = None, as_json: JsonOption = False
) -> None:
    """List the registered workers."""
    with Master(master, token) as http:
        _, answer = http.call("GET", "/api/workers")
    output.show_list(
        answer["workers"],
        ("ID", "STATE", "BUSY", "MAX", "NODE", "PID", "URL", "NAMES", "LAST SEEN"),
        lambda w: (w["id"], w["state"], w["busy"], w["max_jobs"], w["node_id"], w["pid"], w["url"] or "(pulls)",
            " ".join(w["names"]), w["last_seen_at"]),
        as_json=as_json,
    )  # fmt: skip


list_without_command(app, list_workers, "The registered workers")


@app.command()
def drain(
    worker_ids: WorkerArguments,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Drain workers: they finish their jobs and get no more."""
    _order(worker_ids, "drain", Master(master, token), as_json)


@app.command()
def resume(
    worker_ids: WorkerArguments,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Resume draining workers: they get jobs again."""
    _order(worker_ids, "resume", Master(master, token), as_json)


@app.command()
def detach(
    worker_ids: WorkerArguments,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Detach workers: their jobs are stopped, count one loss each, and run elsewhere."""
    _order(worker_ids, "detach", Master(master, token), as_json)


def _order(worker_ids: list[str], order: str, master: Master, as_json: bool) -> NoReturn:
    order_each(
        master,
        [path_of("/api/workers", worker_id, order) for worker_id in worker_ids],
        lambda w: f"{w['id']}  {w['state']}  {w['busy']} of {w['max_jobs']} busy",
        as_json=as_json,
    )
