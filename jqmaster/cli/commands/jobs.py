"""Commands about jobs."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, NoReturn

import typer

from jqmaster.cli.commands.enqueue import MaxRetryOption, PriorityOption, RunAtOption, TimeoutOption
from jqmaster.cli.console import exits, output
from jqmaster.cli.console.completion import one_of, states
from jqmaster.cli.console.follow import follow as follow_job
from jqmaster.cli.console.follow import stream as stream_parts
from jqmaster.cli.console.groups import confirmed, delete_each, post_each
from jqmaster.cli.console.http import MasterSession, job_path
from jqmaster.cli.console.job_results import print_result
from jqmaster.cli.console.times import instant

JobArgument = Annotated[str, typer.Argument(metavar="ID", help="Job ID.")]
JobArguments = Annotated[list[str], typer.Argument(metavar="ID…", help="Job IDs.")]
YesOption = Annotated[bool, typer.Option("-y", "--yes", help="Do not ask for confirmation.")]


def list_jobs(
    http: MasterSession,
    *,
    state: Annotated[
        str | None,
        typer.Option(
            help="State: scheduled, ready, running, retrying, succeeded, failed, …", autocompletion=states
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            help="Group of states: waiting, running, succeeded or failed.",
            autocompletion=one_of("waiting", "running", "succeeded", "failed"),
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="List jobs with exactly this name.")] = None,
    tag: Annotated[str | None, typer.Option(help="List jobs with this tag.")] = None,
    batch: Annotated[
        str | None, typer.Option(help="List the members of this batch (ID), in the order of their creation.")
    ] = None,
    worker: Annotated[
        str | None, typer.Option(help="List jobs whose latest attempt ran on this worker (ID).")
    ] = None,
    search: Annotated[
        str | None, typer.Option("-q", "--search", help="List jobs with this text in their ID or name.")
    ] = None,
    cause: Annotated[
        str | None, typer.Option(help="List jobs with this cause: error, timeout, lost, …")
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="List jobs with this text in their last error message.")
    ] = None,
    finished_after: Annotated[
        str | None, typer.Option(help="ISO 8601 with an offset, or only a date (UTC).")
    ] = None,
    finished_before: Annotated[str | None, typer.Option(help="As --finished-after.")] = None,
    newest: Annotated[
        bool, typer.Option("--newest", help="Sort by time, newest first, regardless of states and names.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of jobs to print.")] = 50,
) -> None:
    """List jobs by state."""
    query = {
        "state": state,
        "state_group": group,
        "name": name,
        "tag": tag,
        "batch": batch,
        "worker": worker,
        "q": search,
        "cause": cause,
        "text": text,
        "finished_after": instant(finished_after),
        "finished_before": instant(finished_before),
        "order": "newest" if newest else None,
    }
    http.show_list(
        http.listed("/api/jobs", "jobs", query=query, limit=limit),
        ("ID", "NAME", "STATE", "PRIO", "ATTEMPT", "CREATED", "CAUSE"),
        lambda j: (j["id"], j["name"], j["state"], j["priority"], j["attempt"], j["created_at"], j["cause"]),
        more="" if newest else ", and --newest begins with the latest",
    )  # fmt: skip


def job(
    http: MasterSession,
    job_id: JobArgument,
    *,
    follow: Annotated[
        bool,
        typer.Option(
            "-f",
            "--follow",
            help=(
                "Show the progress until the job is over. The exit code is 0 if the job succeeded, and 1 "
                "otherwise."
            ),
        ),
    ] = False,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream",
            help="Print each partial result as a line of JSON until the job is over. Exit code as for --follow.",
        ),
    ] = False,
) -> None:
    """Show one job with its attempts, or follow it until it is over."""
    if stream:
        stream_parts(http, job_id)
    if follow:
        follow_job(http, job_id)
    view = http.get(job_path(job_id))
    if http.says_json(view):
        return
    apart = ("argument", "result", "attempts", "events", "steps", "after", "dependents")
    # Show objects and lists as JSON. Omit false values, because they would hide the important ones.
    output.show_fields(
        (field, json.dumps(value, ensure_ascii=False) if value and isinstance(value, dict | list) else value)
        for field, value in view.items()
        if field not in apart and value is not False
    )
    print("argument")
    output.show_value(view["argument"])
    if view["result"]:
        _show_result(view["result"])
    if view["attempts"]:
        output.show_table(
            ("ATTEMPT", "WORKER", "STARTED", "FINISHED", "OUTCOME", "MESSAGE"),
            (
                (a["attempt"], a["worker_id"], a["started_at"], a["finished_at"], a["outcome"], a["message"])
                for a in view["attempts"]
            ),
        )
    if steps := view.get("steps"):
        output.show_table(
            ("STEP", "ENDED", "SECONDS"), ((one["name"], one["at"], one["took_s"]) for one in steps)
        )
    if view["events"]:
        output.show_table(
            ("AT", "EVENT", "ATTEMPT", "WORKER", "MESSAGE"),
            ((e["at"], e["event"], e["attempt"], e["worker_id"], e["message"]) for e in view["events"]),
        )
    if after := view.get("after"):
        print(f"runs when these have {after['when']}")
        output.show_table(
            ("AFTER", "STATE", "AWAITED"),
            ((one["id"], one["state"], "yes" if one["pending"] else "no") for one in after["jobs"]),
        )
    if dependents := view.get("dependents"):
        output.show_table(("DEPENDENT", "STATE"), ((one["id"], one["state"]) for one in dependents))
        if view["dependents_count"] > len(dependents):
            print(f"and {view['dependents_count'] - len(dependents):,} more")


def _show_result(result: Mapping[str, Any]) -> None:
    """Print a result or an error after the other fields. A traceback keeps its lines. They are indented, so that
    no line looks like another part of the output."""
    if result["type"] == "success":
        print("result")
        output.show_value(result["result"])
        return
    if result["error"] is None:
        # The handler raised nothing, for example because it exceeded its timeout.
        output.say(f"error  {result['reason']}: {result['message']}")
        return
    error = result["error"]
    trace = error.get("traceback") if isinstance(error, dict) else None
    if isinstance(trace, str) and trace:
        print("traceback")
        for line in trace.splitlines():
            output.say(f"  {line}")
        error = {name: value for name, value in error.items() if name != "traceback"}
    print("error")
    output.show_value(error)


def result(
    http: MasterSession,
    job_id: JobArgument,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for the job to end.")] = 0,
) -> None:
    """Fetch the result of a job. The result can be fetched again for 60 s (result_grace_s), and is then deleted."""
    print_result(http, job_id, wait)


def cancel(http: MasterSession, job_ids: JobArguments) -> None:
    """Cancel waiting or running jobs."""
    _each(http, job_ids, "cancel")


def retry(
    http: MasterSession,
    job_ids: JobArguments,
    attempt: Annotated[
        int | None,
        typer.Option(
            min=0,
            help=(
                "Retry only a job with this many attempts. So repeating the command never runs the job twice."
            ),
        ),
    ] = None,
) -> None:
    """Run finished jobs again. Jobs that were skipped because of these jobs wait again."""
    _each(http, job_ids, "retry", None if attempt is None else {"attempt": attempt})


def run(http: MasterSession, job_ids: JobArguments) -> None:
    """Run scheduled or retrying jobs now."""
    _each(http, job_ids, "run")


def delete(http: MasterSession, job_ids: JobArguments, *, yes: YesOption = False) -> None:
    """Delete jobs that are not running, with their results and history."""
    confirmed(f"Delete {len(job_ids)} job{'s' if len(job_ids) > 1 else ''}?", is_given=yes)
    delete_each(http, {job_id: job_path(job_id) for job_id in job_ids}, "deleted")


def set_job(
    http: MasterSession,
    job_id: JobArgument,
    *,
    priority: PriorityOption = None,
    max_retry: MaxRetryOption = None,
    timeout: TimeoutOption = None,
    run_at: RunAtOption = None,
) -> None:
    """Change a waiting job: its priority, time, retries or timeout."""
    given = {"priority": priority, "max_retry": max_retry, "timeout": timeout, "run_at": instant(run_at)}
    changes = {field: value for field, value in given.items() if value is not None}
    if not changes:
        exits.fail(exits.USAGE, "nothing to change; give --priority, --run-at, --max-retry or --timeout")
    _, view = http.call("PATCH", job_path(job_id), body=changes)
    http.say(view, f"{view['id']}  {view['state']}")


def _revival_text(revives: Mapping[str, Any] | None) -> str:
    """Return a text about the effect of a retry on the jobs that were skipped because of the retried job."""
    if not revives:
        return ""
    texts = ("wait again", "stay skipped, because they also need other jobs", "were removed and do not run")
    more = "" if revives["is_complete"] else "at least "
    return "".join(
        f"; {more}{revives[what]} of the jobs behind it {text}"
        for what, text in zip(("jobs", "held", "gone"), texts, strict=True)
        if revives[what]
    )


def _each(http: MasterSession, job_ids: list[str], action: str, body: Any = None) -> NoReturn:
    paths = [job_path(job_id, action) for job_id in job_ids]
    post_each(http, paths, lambda j: f"{j['id']}  {j['state']}{_revival_text(j.get('revives'))}", body=body)
