"""Commands about workers."""

import sys
import time
from collections.abc import Mapping
from typing import Annotated, Any, Final, NoReturn

import typer

from jqmaster.cli.commands.stats import duration
from jqmaster.cli.console.documents import pairs_of
from jqmaster.cli.console.groups import CommandGroup, delete_each, post_each
from jqmaster.cli.console.http import MasterSession, path_of
from jqmaster.cli.console.state_words import state_word

app = CommandGroup()

_FIGURES: Final = ("JOBS/S", "RUN P50", "P99", "FAILED", "MARKS")
WorkerArguments = Annotated[list[str], typer.Argument(metavar="ID…", help="Worker IDs.")]
SetArguments = Annotated[list[str] | None, typer.Argument(metavar="ID…", help="Worker IDs.")]
VersionOption = Annotated[str | None, typer.Option(help="All workers of this version.")]
NodeOption = Annotated[str | None, typer.Option(help="All workers of this machine.")]
LabelOption = Annotated[
    str | None, typer.Option(metavar="NAME=VALUE", help="All workers with this value of a label.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only count the workers and their jobs.")]

# The pause between two counts of the remaining jobs.
_COUNT_DOWN_S: Final = 1.0
_DONE: Final = {"drain": "draining", "resume": "resumed"}


@app.listing("The registered workers")
def list_workers(http: MasterSession) -> None:
    """List the registered workers."""
    http.show_list(
        http.get("/api/workers")["workers"],
        ("ID", "STATE", "BUSY", "MAX", *_FIGURES, "NODE", "PID", "URL", "NAMES", "LAST SEEN"),
        lambda w: (w["id"], state_word(w["state"]), w["busy"], w["max_jobs"], *_figures(w), w["node_id"], w["pid"],
            w["url"] or "(pulls)", " ".join(w["names"]), w["last_seen_at"]),
    )  # fmt: skip


@app.command("groups")
def list_groups(
    http: MasterSession,
    by: Annotated[str, typer.Option(help="Group the workers by node, version or label.")] = "node",
) -> None:
    """List machines, versions or labels with the figures of their workers.

    The figures cover the last five minutes. `slow` and `failing` compare workers with other workers that serve
    the same names.
    """
    http.show_list(
        http.get("/api/workers/groups", {"by": by})["groups"],
        (by.upper(), "LIVE", "SILENT", "DRAINING", "DETACHED", "BUSY", "MAX", *_FIGURES),
        lambda g: (f"{g['label']}={g['value']}" if g["label"] else g["value"], *g["workers"].values(), g["busy"],
            g["max_jobs"], *_figures(g)),
    )  # fmt: skip


@app.command()
def drain(
    http: MasterSession,
    worker_ids: SetArguments = None,
    *,
    version: VersionOption = None,
    node: NodeOption = None,
    label: LabelOption = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the workers run no more jobs, and count down.")
    ] = False,
    dry_run: DryRunOption = False,
) -> None:
    """Drain workers: they finish their jobs and get no more.

    Name workers, or select all of a version, a machine or a label.
    """
    selection = _selection(worker_ids, version, node, label)
    if selection is None:
        if wait or dry_run:
            raise typer.BadParameter("--wait and --dry-run need --version, --node or --label")
        _order(http, worker_ids or [], "drain")
    answer = _order_set(http, "drain", selection, dry_run=dry_run)
    if wait and not dry_run:
        _count_down(http, set(answer["worker_ids"]))


@app.command()
def resume(
    http: MasterSession,
    worker_ids: SetArguments = None,
    *,
    version: VersionOption = None,
    node: NodeOption = None,
    label: LabelOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Resume draining workers: they get jobs again.

    Name workers, or select all of a version, a machine or a label.
    """
    selection = _selection(worker_ids, version, node, label)
    if selection is None:
        if dry_run:
            raise typer.BadParameter("--dry-run needs --version, --node or --label")
        _order(http, worker_ids or [], "resume")
    _order_set(http, "resume", selection, dry_run=dry_run)


@app.command()
def detach(http: MasterSession, worker_ids: WorkerArguments) -> None:
    """Detach workers: their jobs are stopped and run elsewhere. Each job counts one loss."""
    _order(http, worker_ids, "detach")


@app.command()
def slots(
    http: MasterSession,
    max_jobs: Annotated[
        str,
        typer.Argument(
            metavar="SLOTS", help="1 to 1000, or `own` for the number that each worker has configured."
        ),
    ],
    worker_ids: WorkerArguments,
    *,
    keep: Annotated[
        bool,
        typer.Option(
            "--keep",
            help="Also apply this to workers that register later from the same machine with the same labels.",
        ),
    ] = False,
) -> None:
    """Set how many jobs workers may run at a time. Running jobs are not stopped."""
    if max_jobs != "own" and not max_jobs.isdecimal():
        raise typer.BadParameter("SLOTS is a number or `own`")
    body = {"max_jobs": None if max_jobs == "own" else int(max_jobs), "keep": keep}
    _order(http, worker_ids, "slots", body)


@app.command("slot-rules")
def slot_rules(http: MasterSession) -> None:
    """List the slot rules.

    Each rule sets the slots of the workers that run on one machine and have certain labels."""
    http.show_list(
        http.get("/api/slot-rules")["slot_rules"],
        ("ID", "NODE", "LABELS", "SLOTS", "SET BY", "SET AT"),
        lambda r: (r["id"], r["node_id"], " ".join(f"{k}={v}" for k, v in r["labels"].items()), r["max_jobs"],
            r["set_by"], r["set_at"]),
    )  # fmt: skip


@app.command("drop-slot-rule")
def drop_slot_rule(
    http: MasterSession, rule_id: Annotated[str, typer.Argument(metavar="ID", help="ID of the rule.")]
) -> None:
    """Remove a slot rule. Workers keep their slots until they register again."""
    delete_each(http, {rule_id: path_of("/api/slot-rules", rule_id)}, "removed")


def _standing(w: dict[str, Any]) -> str:
    return f"{w['id']}  {state_word(w['state'])}  {w['busy']} of {w['max_jobs']} busy"


def _order(http: MasterSession, worker_ids: list[str], order: str, body: Any = None) -> NoReturn:
    paths = [path_of("/api/workers", worker_id, order) for worker_id in worker_ids]
    post_each(http, paths, _standing, body=body)


def _selection(
    worker_ids: list[str] | None, version: str | None, node: str | None, label: str | None
) -> dict[str, Any] | None:
    """Return the selection in the form of the API. None: the command names the workers individually."""
    chosen: dict[str, Any] = {}
    if version is not None:
        chosen["version"] = version
    if node is not None:
        chosen["node_id"] = node
    if label is not None:
        ((name, value),) = pairs_of([label], "--label").items()
        chosen["label"] = {"name": name, "value": value}
    if bool(chosen) == bool(worker_ids):
        raise typer.BadParameter("give worker IDs, or --version, --node and --label")
    return chosen or None


def _order_set(
    http: MasterSession, order: str, selection: dict[str, Any], *, dry_run: bool
) -> dict[str, Any]:
    answer: dict[str, Any] = http.post(f"/api/workers/{order}", {**selection, "dry_run": dry_run})
    did = f"would {order}" if dry_run else _DONE[order]
    workers, jobs = _counted(answer["count"], "worker"), _counted(answer["jobs"], "running job")
    http.say(answer, f"{did} {workers} with {jobs}")
    return answer


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _count_down(http: MasterSession, worker_ids: set[str]) -> None:
    told = None
    while True:
        answer = http.get("/api/workers")
        left = sum(w["busy"] for w in answer["workers"] if w["id"] in worker_ids)
        if left != told:
            # Print on standard error, because standard output is for programs.
            print(f"{_counted(left, 'job')} left", file=sys.stderr, flush=True)
            told = left
        if left == 0:
            return
        time.sleep(_COUNT_DOWN_S)


def _figures(shown: Mapping[str, Any]) -> tuple[object, ...]:
    """Return the cells of the figures of a worker or of a group. The cells are empty if a master of release 0.2
    answered, because it does not know the figures."""
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
