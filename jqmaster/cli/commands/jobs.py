"""Commands about jobs."""

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.enqueue_lines import enqueue_lines
from jqmaster.cli.console.follow import follow as follow_job
from jqmaster.cli.console.follow import stream as stream_parts
from jqmaster.cli.console.groups import order_each
from jqmaster.cli.console.http import (
    DEFAULT_MASTER,
    JsonOption,
    MasterOption,
    MasterSession,
    TokenOption,
    job_path,
)
from jqmaster.cli.console.times import instant
from jqmaster.domain.jobs.job_terms import MAX_RETRY, TIMEOUT_S

_LONGEST_WAIT_S = 60.0

JobArgument = Annotated[str, typer.Argument(metavar="ID", help="Job ID.")]
JobArguments = Annotated[list[str], typer.Argument(metavar="ID…", help="Job IDs.")]
MaxRetryOption = Annotated[
    int | None,
    typer.Option(help=f"Maximum number of retries after failed runs. New jobs: {MAX_RETRY.default}."),
]
TimeoutOption = Annotated[
    float | None, typer.Option(help=f"Maximum run time in seconds. New jobs: {TIMEOUT_S.default:g}.")
]
RunAtOption = Annotated[str | None, typer.Option(help="ISO 8601 with an offset, or only a date (UTC).")]


def enqueue(
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
            metavar="JSON", help='Backoff, such as {"base_s": 1, "factor": 2, "max_s": 3600, "jitter": true}.'
        ),
    ] = None,
    keep_result: Annotated[
        bool, typer.Option("--keep-result", help="Keep the result. Implied by --wait.")
    ] = False,
    rerun_lost: Annotated[
        bool,
        typer.Option("--rerun-lost", help="Run again when the worker was lost, even with --max-retry 0."),
    ] = False,
    timeout: TimeoutOption = None,
    delay: Annotated[float | None, typer.Option(help="Seconds from now until the job may run.")] = None,
    run_at: RunAtOption = None,
    expires_at: Annotated[
        str | None, typer.Option(help="Skip the job if it still waits at this time (format as --run-at).")
    ] = None,
    expires_s: Annotated[
        float | None, typer.Option("--expires", help="Skip the job if it still waits after so many seconds.")
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
        str | None, typer.Option("--id", help="UUID that you choose. It makes a repeat harmless.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            help="Idempotency key, up to 200 bytes. A repeat with the same key and content makes no second job."
        ),
    ] = None,
    key_ttl: Annotated[
        float | None, typer.Option(help="Seconds for which the key works. Default: 86400.")
    ] = None,
    unique: Annotated[
        str | None,
        typer.Option(
            metavar="JSON",
            help='Uniqueness, such as {"key": "user:42", "scope": "until_finished", "on_conflict": "existing"}.',
        ),
    ] = None,
    debounce: Annotated[
        str | None,
        typer.Option(metavar="JSON", help='Debounce, such as {"key": "post:1", "wait_s": 5, "max_s": 60}.'),
    ] = None,
    batch: Annotated[str | None, typer.Option(help="ID of the batch of which the job is a member.")] = None,
    notify: Annotated[
        str | None,
        typer.Option(help="URL of a webhook to call when the job is over; or JSON: url, on, with_result."),
    ] = None,
    after: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID",
            help="Run when this job has succeeded; if given several times, when all of them have.",
        ),
    ] = None,
    after_finished: Annotated[
        bool, typer.Option("--after-finished", help="With --after: run also when they did not succeed.")
    ] = False,
    wait: Annotated[
        float | None, typer.Option(min=0, help="Wait this many seconds for the result and print it.")
    ] = None,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Enqueue a job and print its ID. With --wait, print its result. With --from, enqueue every job of a file."""
    from jqmaster.domain.ids import new_id

    if after_finished and not after:
        exits.fail(exits.USAGE, "--after-finished needs --after")
    optional = {
        "priority": priority, "max_retry": max_retry, "timeout": timeout, "delay": delay, "tags": tag,
        "run_at": instant(run_at), "expires_at": instant(expires_at), "expires_s": expires_s,
        "headers": dict(map(_header, header)) if header else None, "rerun_lost": rerun_lost or None,
        "requires": dict(map(_header, require)) if require else None,
        "retry": None if retry is None else read_json(retry, "--retry"), "key_ttl": key_ttl,
        "unique": None if unique is None else read_json(unique, "--unique"),
        "debounce": None if debounce is None else read_json(debounce, "--debounce"), "batch": batch,
        "notify": read_json(notify, "--notify") if notify is not None and notify.startswith("{") else None,
        "notify_url": notify if notify is not None and not notify.startswith("{") else None,
        "after": {"jobs": after, "when": "finished" if after_finished else "succeeded"} if after else None,
    }  # fmt: skip
    if source is not None:
        if name is not None or job_id is not None or key is not None or wait is not None:
            exits.fail(
                exits.USAGE, "--from takes names, arguments, IDs and keys from the file, and cannot wait"
            )
        enqueue_lines(source, optional, keep_result, MasterSession(master, token), as_json=as_json)
        return
    if name is None:
        exits.fail(exits.USAGE, "the name of the job is missing; or give a file of jobs with --from")
    body: dict[str, Any] = {field: value for field, value in optional.items() if value is not None}
    # Always send an ID, so that the request can be repeated if its answer gets lost.
    body |= {"id": job_id or new_id(), "name": name, "argument": read_argument(argument)}
    if key is not None:
        body["key"] = key
    if keep_result or wait is not None:
        body["keep_result"] = True
    with MasterSession(master, token) as http:
        try:
            _, answer = http.call("POST", "/api/jobs", body=body)
        except typer.Exit as ended:
            if ended.exit_code == exits.UNREACHABLE:
                output.echo(
                    f"  It may have been enqueued. To be sure, repeat with --id {body['id']}", is_error=True
                )
            raise
        if answer.get("duplicate"):
            output.echo("  No job was made: this job holds the uniqueness key.", is_error=True)
        elif answer.get("replaced"):
            output.echo("  No job was made: this waiting job took its content.", is_error=True)
        if wait is None:
            output.say_json(answer) if as_json else output.say(answer["id"])
        else:
            _print_result(http, answer["id"], wait, as_json)


def list_jobs(
    *,
    state: Annotated[
        str | None, typer.Option(help="State: scheduled, ready, running, retrying, succeeded, failed, …")
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="Group of states: waiting, running, succeeded or failed.")
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
        bool, typer.Option("--newest", help="Sort by time, newest first, across states and names.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of jobs to print.")] = 50,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
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
    with MasterSession(master, token) as http:
        output.show_list(
            http.listed("/api/jobs", "jobs", query=query, limit=limit),
            ("ID", "NAME", "STATE", "PRIO", "ATTEMPT", "CREATED", "CAUSE"),
            lambda j: (j["id"], j["name"], j["state"], j["priority"], j["attempt"], j["created_at"], j["cause"]),
            as_json=as_json,
        )  # fmt: skip


def job(
    job_id: JobArgument,
    *,
    follow: Annotated[
        bool,
        typer.Option(
            "-f",
            "--follow",
            help="Show how far the job is until it is over. Exit code 0 if it went well, else 1.",
        ),
    ] = False,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream",
            help="Print each partial result as a line of JSON until the job is over. Exit code as for --follow.",
        ),
    ] = False,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one job with its attempts, or follow it until it is over."""
    with MasterSession(master, token) as http:
        if stream:
            stream_parts(http, job_id)
        if follow:
            follow_job(http, job_id, as_json=as_json)
        _, view = http.call("GET", job_path(job_id))
    if as_json:
        output.say_json(view)
        return
    apart = ("argument", "attempts", "events", "after", "dependents")
    output.show_fields((field, value) for field, value in view.items() if field not in apart)
    print("argument")
    output.show_value(view["argument"])
    if view["attempts"]:
        output.show_table(
            ("ATTEMPT", "WORKER", "STARTED", "FINISHED", "OUTCOME", "MESSAGE"),
            (
                (a["attempt"], a["worker_id"], a["started_at"], a["finished_at"], a["outcome"], a["message"])
                for a in view["attempts"]
            ),
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


def result(
    job_id: JobArgument,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for the job to end.")] = 0,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fetch the result of a job. Afterwards the master may discard it."""
    with MasterSession(master, token) as http:
        _print_result(http, job_id, wait, as_json)


def cancel(
    job_ids: JobArguments,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Cancel waiting or running jobs."""
    _each(job_ids, "cancel", MasterSession(master, token), as_json)


def retry(
    job_ids: JobArguments,
    attempt: Annotated[
        int | None,
        typer.Option(
            min=0, help="Only if the job has had this many attempts, so that a repeat never runs it twice."
        ),
    ] = None,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run finished jobs again. Jobs that were skipped because of them wait again."""
    order_each(
        MasterSession(master, token),
        [job_path(job_id, "retry") for job_id in job_ids],
        lambda job: f"{job['id']}  {job['state']}{_revival_text(job.get('revives'))}",
        as_json=as_json,
        body=None if attempt is None else {"attempt": attempt},
    )


def run(
    job_ids: JobArguments,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run scheduled or retrying jobs now."""
    _each(job_ids, "run", MasterSession(master, token), as_json)


def delete(
    job_ids: JobArguments,
    *,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask for confirmation.")] = False,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
) -> None:
    """Delete jobs that are not running, with their results and history."""
    if not yes:
        ask_first(f"Delete {len(job_ids)} job{'s' if len(job_ids) > 1 else ''}?")
    worst = exits.OK
    with MasterSession(master, token) as http:
        for job_id in job_ids:
            try:
                http.call("DELETE", job_path(job_id))
            except typer.Exit as ended:
                worst = ended.exit_code
                continue
            output.say(f"{job_id}  deleted")
    raise typer.Exit(worst)


def set_job(
    job_id: JobArgument,
    *,
    priority: Annotated[int | None, typer.Option(help="The lowest number runs first.")] = None,
    max_retry: MaxRetryOption = None,
    timeout: TimeoutOption = None,
    run_at: RunAtOption = None,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change a waiting job: its priority, time, retries or timeout."""
    given = {"priority": priority, "max_retry": max_retry, "timeout": timeout, "run_at": instant(run_at)}
    changes = {field: value for field, value in given.items() if value is not None}
    if not changes:
        exits.fail(exits.USAGE, "nothing to change; give --priority, --run-at, --max-retry or --timeout")
    with MasterSession(master, token) as http:
        _, view = http.call("PATCH", job_path(job_id), body=changes)
    output.say_json(view) if as_json else output.say(f"{view['id']}  {view['state']}")


def ask_first(question: str) -> None:
    """Ask for confirmation at the terminal. End the command if there is none, or the answer is no."""
    if not sys.stdin.isatty():
        exits.fail(exits.USAGE, "there is no terminal for the confirmation; use --yes")
    typer.confirm(question, abort=True)


def read_argument(text: str) -> Any:
    """Return the value of ARGUMENT: JSON itself, or from a file or standard input."""
    try:
        if text == "-":
            text = sys.stdin.read()
        elif text.startswith("@"):
            text = Path(text[1:]).read_text("utf-8")
        return json.loads(text, parse_constant=_refuse_constant)
    except OSError as error:
        exits.fail(exits.USAGE, f"cannot read {error.filename}: {error.strerror}")
    except (ValueError, RecursionError) as error:
        exits.fail(exits.USAGE, f"the argument is not JSON ({error}); text needs quotes: '\"text\"'")


def read_json(text: str, what: str) -> Any:
    """Return the value of an option that takes JSON."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        exits.fail(exits.USAGE, f"{what} is not JSON ({error})")


def _header(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        exits.fail(exits.USAGE, f"--header {text}: expected NAME=VALUE")
    return name, value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _revival_text(revives: Mapping[str, Any] | None) -> str:
    """Return what a retry did to the jobs that had been skipped because of the job."""
    if not revives:
        return ""
    texts = ("wait again", "stay skipped, because they also need other jobs", "were removed and do not run")
    more = "" if revives["is_complete"] else "at least "
    return "".join(
        f"; {more}{revives[what]} of the jobs behind it {text}"
        for what, text in zip(("jobs", "held", "gone"), texts, strict=True)
        if revives[what]
    )


def _each(job_ids: list[str], action: str, master: MasterSession, as_json: bool) -> NoReturn:
    order_each(
        master,
        [job_path(job_id, action) for job_id in job_ids],
        lambda job: f"{job['id']}  {job['state']}",
        as_json=as_json,
    )


def _print_result(http: MasterSession, job_id: str, wait_s: float, as_json: bool) -> None:
    status, answer = _await_result(http, job_id, wait_s)
    if status == 202:
        if as_json:
            output.say_json(answer)
        exits.fail(exits.FAILED, f"job {job_id} is not over: {answer['state']}")
    if answer is None:
        if as_json:
            output.say_json(None)
        exits.fail(
            exits.NOT_FOUND,
            f"no result of job {job_id}: the job is unknown, was discarded, canceled or skipped, or its result was not "
            "kept or is gone",
        )
    is_success = answer["type"] == "success"
    if as_json:
        output.say_json(answer)
    elif is_success:
        output.show_value(answer["result"])
    if not is_success:
        exits.fail(exits.FAILED, f"job {job_id} failed ({answer['reason']}): {answer['message']}")


def _await_result(http: MasterSession, job_id: str, wait_s: float) -> tuple[int, Any]:
    deadline_s = time.monotonic() + wait_s
    while True:
        part_s = max(0.0, min(_LONGEST_WAIT_S, deadline_s - time.monotonic()))
        status, answer = http.call(
            "GET", job_path(job_id, "result"), query={"wait": round(part_s, 3)}, timeout_s=part_s + 30
        )
        if status != 202 or time.monotonic() >= deadline_s:
            return status, answer
