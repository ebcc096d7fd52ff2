"""Commands about actions on many jobs."""

import sys
import time
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.completion import states
from jqmaster.cli.console.http import MasterSession, path_of
from jqmaster.cli.console.times import instant

_PATH: Final = "/api/jobs/actions"
_LOOK_EVERY_S: Final = 0.5


class BulkCommand(StrEnum):
    CANCEL = "cancel"
    RETRY = "retry"
    DELETE = "delete"
    RUN = "run"
    SET_PRIORITY = "set-priority"


StateOption = Annotated[str | None, typer.Option(help="Select jobs in this state.", autocompletion=states)]
NameOption = Annotated[str | None, typer.Option(help="Select jobs with exactly this name.")]
TagOption = Annotated[str | None, typer.Option(help="Select jobs with this tag.")]
BatchOption = Annotated[str | None, typer.Option(help="Select the members of this batch (ID).")]
WorkerOption = Annotated[
    str | None, typer.Option(help="Select jobs with their latest attempt on this worker (ID).")
]
SearchOption = Annotated[
    str | None, typer.Option("-q", "--search", help="Select jobs with this text in their ID or name.")
]
CauseOption = Annotated[
    str | None,
    typer.Option(
        help="Select jobs with this cause: error, timeout, undecodable, invalid_argument, lost, expired or canceled."
    ),
]
TextOption = Annotated[
    str | None, typer.Option(help="Select jobs with this text in their last error message.")
]
GroupOption = Annotated[str | None, typer.Option(help="Select jobs of this failure group (ID).")]
CreatedAfterOption = Annotated[
    str | None, typer.Option(help="Select jobs by time: ISO 8601 with an offset, or a date (UTC).")
]
CreatedBeforeOption = Annotated[str | None, typer.Option(help="As --created-after.")]
FinishedAfterOption = Annotated[str | None, typer.Option(help="As --created-after.")]
FinishedBeforeOption = Annotated[str | None, typer.Option(help="As --created-after.")]
ActionArgument = Annotated[
    BulkCommand,
    typer.Argument(metavar="ACTION", help="Action: cancel, retry, delete, run or set-priority."),
]
IdsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ID…]", help="Act on up to 1,000 jobs with these IDs instead of a filter."),
]
AllOption = Annotated[bool, typer.Option("--all", help="Act on every job. Required if no filter is given.")]
PriorityOption = Annotated[int | None, typer.Option(help="New priority, for set-priority.")]
RateOption = Annotated[float | None, typer.Option(help="Maximum number of jobs per second.")]
StopShareOption = Annotated[
    float | None,
    typer.Option(help="For retry: stop when more than this share (0 to 1) fails again."),
]
AtMostOption = Annotated[
    int | None,
    typer.Option(
        help=(
            "Change at most this many jobs. If more jobs match now, the action is refused. If more jobs "
            "match later, it stops."
        )
    ),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Count the jobs and change nothing.")]
YesOption = Annotated[bool, typer.Option("-y", "--yes", help="Do not ask for confirmation.")]
WaitOption = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the action is over.")]


def bulk(
    http: MasterSession,
    what: ActionArgument,
    job_ids: IdsArgument = None,
    *,
    state: StateOption = None,
    name: NameOption = None,
    tag: TagOption = None,
    batch: BatchOption = None,
    worker: WorkerOption = None,
    search: SearchOption = None,
    cause: CauseOption = None,
    text: TextOption = None,
    failure_group: GroupOption = None,
    created_after: CreatedAfterOption = None,
    created_before: CreatedBeforeOption = None,
    finished_after: FinishedAfterOption = None,
    finished_before: FinishedBeforeOption = None,
    every: AllOption = False,
    priority: PriorityOption = None,
    rate: RateOption = None,
    stop_at_failure_share: StopShareOption = None,
    at_most: AtMostOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    wait: WaitOption = True,
) -> None:
    """Act on all jobs that a filter selects, or on the given IDs. Count the jobs and ask before beginning."""
    given = {
        "state": state, "name": name, "tag": tag, "batch": batch, "worker": worker, "q": search, "cause": cause,
        "text": text, "failure_group": failure_group, "created_after": instant(created_after),
        "created_before": instant(created_before),
        "finished_after": instant(finished_after), "finished_before": instant(finished_before),
    }  # fmt: skip
    wanted = {field: value for field, value in given.items() if value is not None}
    if job_ids and (wanted or every):
        exits.fail(exits.USAGE, "give either IDs or a filter")
    if not job_ids and not wanted and not every:
        exits.fail(exits.USAGE, "no filter is given; use --all for every job")
    if (priority is None) is (what is BulkCommand.SET_PRIORITY):
        missing = what is BulkCommand.SET_PRIORITY
        exits.fail(
            exits.USAGE,
            "--priority is missing" if missing else "--priority can be used only with set-priority",
        )
    options = {
        "priority": priority, "rate_per_s": rate, "stop_at_failure_share": stop_at_failure_share, "at_most": at_most,
    }  # fmt: skip
    body: dict[str, Any] = {
        "action": what.value.replace("-", "_"),
        **({"ids": job_ids} if job_ids else {"filter": wanted}),
    }
    body |= {field: value for field, value in options.items() if value is not None}
    if dry_run or not yes:
        _count(http, body, is_all=dry_run)
        if dry_run:
            return
        _confirm(http)
    action = http.post(_PATH, body)
    while wait and action["state"] == "running":
        time.sleep(_LOOK_EVERY_S)
        action = _action(http, action["id"])
    _show(http, action)
    if action["state"] not in ("running", "done"):
        raise typer.Exit(exits.FAILED)


def _count(http: MasterSession, body: Mapping[str, Any], *, is_all: bool) -> None:
    """Print the number of jobs that the action would change. `is_all`: the command prints nothing else."""
    counted = http.post(_PATH, {**body, "dry_run": True})
    if is_all and http.says_json(counted):
        return
    least = "" if counted["is_exact"] else "at least "
    # With JSON output, print this on standard error: programs expect one JSON document on standard output.
    action = body["action"].replace("_", " ")
    output.echo(f"{least}{counted['count']} jobs to {action}", is_error=http.as_json)


def _confirm(http: MasterSession) -> None:
    if not sys.stdin.isatty():
        exits.fail(
            exits.USAGE,
            "there is no terminal for the confirmation; use --yes to begin at once, or --dry-run to count only",
        )
    typer.confirm("Begin?", abort=True, err=http.as_json)


def actions(
    http: MasterSession,
    action_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="Show only this action.")] = None,
    *,
    end: Annotated[bool, typer.Option("--end", help="End the action. Its changes so far remain.")] = False,
) -> None:
    """Show actions on many jobs, newest first, or end a running one."""
    if end and action_id is None:
        exits.fail(exits.USAGE, "--end requires the ID of an action")
    if action_id is None:
        listed = http.get(_PATH)["actions"]
    elif end:
        listed = [http.post(path_of(_PATH, action_id, "cancel"))]
    else:
        listed = [_action(http, action_id)]
    http.show_list(
        listed,
        ("ID", "ACTION", "STATE", "DONE", "REFUSED", "MATCHED", "BY", "BEGUN", "MESSAGE"),
        lambda a: (a["id"], a["action"], a["state"], a["done"], a["refused"], a["matched"], a["by"], a["created_at"],
            a["message"]),
    )  # fmt: skip


def _action(http: MasterSession, action_id: str) -> dict[str, Any]:
    found: dict[str, Any] = http.get(path_of(_PATH, action_id))
    return found


def _show(http: MasterSession, action: dict[str, Any]) -> None:
    counts = f"{action['done']} done, {action['refused']} refused"
    again = "" if action["failed_again"] is None else f", {action['failed_again']} failed again"
    message = f" ({action['message']})" if action["message"] else ""
    http.say(action, f"{action['id']}  {action['action']} {action['state']}: {counts}{again}{message}")
