"""Commands about jobs."""

import json
import time
from collections.abc import Mapping
from typing import Annotated, Any, NoReturn

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.completion import one_of, states
from jqmaster.cli.console.documents import json_of, pairs_of, value_of
from jqmaster.cli.console.enqueue_lines import enqueue_lines
from jqmaster.cli.console.follow import follow as follow_job
from jqmaster.cli.console.follow import stream as stream_parts
from jqmaster.cli.console.groups import confirmed, delete_each, post_each
from jqmaster.cli.console.http import MasterSession, job_path
from jqmaster.cli.console.times import instant
from jqmaster.domain.jobs.job_terms import MAX_RETRY, TIMEOUT_S
from worker_sdk.transport.certain_refusals import had_no_effect

_LONGEST_WAIT_S = 60.0

# The panels in the help of `enqueue`.
_TIME = "Time"
_RETRIES = "Retries"
_REPEATS = "Repeats"
_OTHERS = "Other jobs"

JobArgument = Annotated[str, typer.Argument(metavar="ID", help="Job ID.")]
JobArguments = Annotated[list[str], typer.Argument(metavar="ID…", help="Job IDs.")]
MaxRetryOption = Annotated[
    int | None,
    typer.Option(
        help=f"Maximum number of retries after failed runs. New jobs: {MAX_RETRY.default}.",
        rich_help_panel=_RETRIES,
    ),
]
TimeoutOption = Annotated[
    float | None,
    typer.Option(
        help=f"Maximum run time in seconds. New jobs: {TIMEOUT_S.default:g}.", rich_help_panel=_TIME
    ),
]
YesOption = Annotated[bool, typer.Option("-y", "--yes", help="Do not ask for confirmation.")]
RunAtOption = Annotated[
    str | None, typer.Option(help="ISO 8601 with an offset, or only a date (UTC).", rich_help_panel=_TIME)
]


def enqueue(
    http: MasterSession,
    name: Annotated[
        str | None, typer.Argument(help="Kind of job. It selects the handler.", show_default=False)
    ] = None,
    argument: Annotated[str, typer.Argument(help="JSON, @FILE with JSON, or - for standard input.")] = "null",
    *,
    priority: Annotated[int | None, typer.Option(help="The lowest number runs first.")] = None,
    max_retry: MaxRetryOption = None,
    retry: Annotated[
        str | None,
        typer.Option(
            metavar="JSON",
            help='Backoff, such as {"base_s": 1, "factor": 2, "max_s": 3600, "jitter": true}.',
            rich_help_panel=_RETRIES,
        ),
    ] = None,
    keep_result: Annotated[
        bool, typer.Option("--keep-result", help="Keep the result. Implied by --wait.")
    ] = False,
    rerun_lost: Annotated[
        bool,
        typer.Option(
            "--rerun-lost",
            help="Run the job again if its worker is lost, even with --max-retry 0.",
            rich_help_panel=_RETRIES,
        ),
    ] = False,
    timeout: TimeoutOption = None,
    delay: Annotated[
        float | None, typer.Option(help="Seconds from now until the job may run.", rich_help_panel=_TIME)
    ] = None,
    run_at: RunAtOption = None,
    expires_at: Annotated[
        str | None,
        typer.Option(
            help="Skip the job if it still waits at this time (format as --run-at).", rich_help_panel=_TIME
        ),
    ] = None,
    expires_s: Annotated[
        float | None,
        typer.Option(
            "--expires", help="Skip the job if it still waits after this many seconds.", rich_help_panel=_TIME
        ),
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="May be given several times.")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(help="May be given several times.")] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="Label that the worker must have. May be given several times."
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Enqueue every job of this JSON lines file; - reads standard input.",
        ),
    ] = None,
    job_id: Annotated[
        str | None,
        typer.Option(
            "--id",
            help="UUID that you choose. It makes repeating the command safe.",
            rich_help_panel=_REPEATS,
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            help="Idempotency key, up to 200 bytes. Repeating it with the same content makes no second job.",
            rich_help_panel=_REPEATS,
        ),
    ] = None,
    key_ttl: Annotated[
        float | None,
        typer.Option(help="Seconds for which the key works. Default: 86400.", rich_help_panel=_REPEATS),
    ] = None,
    unique: Annotated[
        str | None,
        typer.Option(
            metavar="JSON",
            help='Uniqueness, such as {"key": "user:42", "scope": "until_finished", "on_conflict": "existing"}.',
            rich_help_panel=_REPEATS,
        ),
    ] = None,
    debounce: Annotated[
        str | None,
        typer.Option(
            metavar="JSON",
            help='Debounce, such as {"key": "post:1", "wait_s": 5, "max_s": 60}.',
            rich_help_panel=_REPEATS,
        ),
    ] = None,
    batch: Annotated[
        str | None,
        typer.Option(help="ID of the batch of which the job is a member.", rich_help_panel=_OTHERS),
    ] = None,
    notify: Annotated[
        str | None,
        typer.Option(help="URL of a webhook to call when the job is over; or JSON: url, on, with_result."),
    ] = None,
    after: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID",
            help="Run when this job has succeeded; if given several times, when all of them have.",
            rich_help_panel=_OTHERS,
        ),
    ] = None,
    after_finished: Annotated[
        bool,
        typer.Option(
            "--after-finished",
            help="With --after: run the job even if those jobs did not succeed.",
            rich_help_panel=_OTHERS,
        ),
    ] = False,
    wait: Annotated[
        float | None, typer.Option(min=0, help="Wait this many seconds for the result and print it.")
    ] = None,
) -> None:
    """Enqueue a job and print its ID. With --wait, print its result. With --from, enqueue all jobs of a file."""
    from jqmaster.domain.ids import new_id

    if after_finished and not after:
        exits.fail(exits.USAGE, "--after-finished needs --after")
    optional = {
        "priority": priority, "max_retry": max_retry, "timeout": timeout, "delay": delay, "tags": tag,
        "run_at": instant(run_at), "expires_at": instant(expires_at), "expires_s": expires_s,
        "headers": pairs_of(header or (), "--header") or None, "rerun_lost": rerun_lost or None,
        "requires": pairs_of(require or (), "--require") or None,
        "retry": None if retry is None else json_of(retry, "--retry"), "key_ttl": key_ttl,
        "unique": None if unique is None else json_of(unique, "--unique"),
        "debounce": None if debounce is None else json_of(debounce, "--debounce"), "batch": batch,
        "notify": json_of(notify, "--notify") if notify is not None and notify.startswith("{") else None,
        "notify_url": notify if notify is not None and not notify.startswith("{") else None,
        "after": {"jobs": after, "when": "finished" if after_finished else "succeeded"} if after else None,
    }  # fmt: skip
    if source is not None:
        if name is not None or job_id is not None or key is not None or wait is not None:
            exits.fail(
                exits.USAGE, "--from takes names, arguments, IDs and keys from the file, and cannot wait"
            )
        enqueue_lines(http, source, optional, keep_result)
        return
    if name is None:
        exits.fail(exits.USAGE, "the name of the job is missing; or give a file of jobs with --from")
    body: dict[str, Any] = {field: value for field, value in optional.items() if value is not None}
    # Always send an ID: if the answer is lost, the request can then be repeated.
    body |= {
        "id": job_id or new_id(),
        "name": name,
        "argument": value_of(argument, "the argument", "; text needs quotes: '\"text\"'"),
    }
    if key is not None:
        body["key"] = key
    if keep_result or wait is not None:
        body["keep_result"] = True
    answer = _enqueued(http, body)
    if wait is None:
        http.say(answer, answer["id"])
    else:
        _print_result(http, answer["id"], wait)


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
        str | None, typer.Option("-q", "--search", help="List jobs whose ID or name contains this text.")
    ] = None,
    cause: Annotated[
        str | None, typer.Option(help="List jobs with this cause: error, timeout, lost, …")
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="List jobs whose last error message contains this text.")
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
            help="Show the progress until the job is over. Exit code 0 if the job succeeded, else 1.",
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
    """Print a result or an error after the other fields. A traceback keeps its lines, but they are indented, so that no
    line looks like another part of the output."""
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
    """Fetch the result of a job. It can be fetched again for 60 s (result_grace_s), and is then deleted."""
    _print_result(http, job_id, wait)


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
            help="Retry only a job with this many attempts, so that repeating the command never runs it twice.",
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
    priority: Annotated[int | None, typer.Option(help="The lowest number runs first.")] = None,
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


def _enqueued(http: MasterSession, body: Mapping[str, Any]) -> dict[str, Any]:
    """Enqueue a job and return the answer. Print hints if the outcome is uncertain, or if no new job was made."""
    try:
        answer: dict[str, Any] = http.post("/api/jobs", body)
    except typer.Exit as ended:
        problem = http.problem
        is_certain = had_no_effect(int(problem.get("status") or 0), str(problem.get("code", "")))
        if ended.exit_code == exits.UNREACHABLE and http.was_sent and not is_certain:
            output.echo(
                f"  It may have been enqueued. To be sure, repeat with --id {body['id']}", is_error=True
            )
        raise
    if answer.get("duplicate"):
        output.echo("  No job was made: this job holds the uniqueness key.", is_error=True)
    elif answer.get("replaced"):
        output.echo("  No job was made: this waiting job got the new content.", is_error=True)
    return answer


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


def _print_result(http: MasterSession, job_id: str, wait_s: float) -> None:
    status, answer = _await_result(http, job_id, wait_s)
    is_json = http.says_json(answer)
    if status == 202:
        error = f"; its last attempt failed: {text}" if (text := answer.get("last_error")) else ""
        exits.fail(exits.FAILED, f"job {job_id} is not over: {answer['state']}{error}")
    if answer is None:
        exits.fail(exits.NOT_FOUND, _no_result_text(http, job_id))
    if answer["type"] != "success":
        exits.fail(exits.FAILED, f"job {job_id} failed ({answer['reason']}): {answer['message']}")
    if not is_json:
        output.show_value(answer["result"])


def _no_result_text(http: MasterSession, job_id: str) -> str:
    """Return why there is no result of the job. End the command if there is no such job."""
    status, job = http.call("GET", job_path(job_id), admit=(403,))
    if status == 403:
        return f"there is no result of job {job_id}; the scope read is needed to see its state"
    state = job["state"]
    if state not in ("succeeded", "failed"):
        return f"job {job_id} was {state}, so it has no result; `jqmaster job {job_id}` shows more"
    if not job["keep_result"]:
        return f"job {job_id} {state}, but its result was not kept: enqueue such jobs with keep_result"
    return f"job {job_id} {state}, but its result is gone: it was fetched earlier, or has expired"


def _await_result(http: MasterSession, job_id: str, wait_s: float) -> tuple[int, Any]:
    deadline_s = time.monotonic() + wait_s
    while True:
        part_s = max(0.0, min(_LONGEST_WAIT_S, deadline_s - time.monotonic()))
        status, answer = http.call(
            "GET", job_path(job_id, "result"), query={"wait": round(part_s, 3)}, timeout_s=part_s + 30
        )
        if status != 202 or time.monotonic() >= deadline_s:
            return status, answer
