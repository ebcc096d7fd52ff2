"""Commands about workers."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, NoReturn

import typer

from jqmaster.cli.commands.stats import duration
from jqmaster.cli.console import output
from jqmaster.cli.console.groups import list_without_command, order_each
from jqmaster.cli.console.http import DEFAULT_MASTER, JsonOption, Master, MasterOption, TokenOption, path_of

app = typer.Typer(invoke_without_command=True)

_FIGURES: Final = ("JOBS/S", "RUN P50", "P99", "FAILED", "MARKS")
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
        ("ID", "STATE", "BUSY", "MAX", *_FIGURES, "NODE", "PID", "URL", "NAMES", "LAST SEEN"),
        lambda w: (w["id"], w["state"], w["busy"], w["max_jobs"], *_figures(w), w["node_id"], w["pid"],
            w["url"] or "(pulls)", " ".join(w["names"]), w["last_seen_at"]),
        as_json=as_json,
    )  # fmt: skip


list_without_command(app, list_workers, "The registered workers")


@app.command("groups")
def list_groups(
    by: Annotated[
        str, typer.Option(help="What the workers of a group have in common: node, version or label.")
    ] = "node",
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """List machines, versions or labels with the figures of their workers.

    The figures cover the last five minutes. `slow` and `failing` compare with others that serve the same names.
    """
    with Master(master, token) as http:
        _, answer = http.call("GET", "/api/workers/groups", query={"by": by})
    output.show_list(
        answer["groups"],
        (by.upper(), "FRESH", "STALE", "DRAINING", "DETACHED", "BUSY", "MAX", *_FIGURES),
        lambda g: (f"{g['label']}={g['value']}" if g["label"] else g["value"], *g["workers"].values(), g["busy"],
            g["max_jobs"], *_figures(g)),
        as_json=as_json,
    )  # fmt: skip


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


def _figures(shown: Mapping[str, Any]) -> tuple[object, ...]:
    """Return the cells of the figures of a worker or of a group; empty where a master of release 0.2 answered."""
    figures = shown.get("figures")
    if figures is None:
        return ("",) * len(_FIGURES)
    run = figures["run"] or {}
    share = figures["failed_share"]
    return (
        f"{figures['attempts_per_s']:.1f}",
        duration(run.get("p50_ms")),
        duration(run.get("p99_ms")),
        f"{figures['failed']} ({share:.1%})" if share else figures["failed"],
        ", ".join(figures["marks"]),
    )
