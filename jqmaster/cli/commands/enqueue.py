"""`jqmaster enqueue`: enqueue a job, or all jobs of a file."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.documents import json_of, pairs_of, value_of
from jqmaster.cli.console.enqueue_lines import enqueue_lines
from jqmaster.cli.console.http import MasterSession
from jqmaster.cli.console.job_results import print_result
from jqmaster.cli.console.times import instant
from jqmaster.domain.jobs.job_terms import MAX_RETRY, TIMEOUT_S
from worker_sdk.transport.certain_refusals import had_no_effect

# The panels in the help of `enqueue`.
_TIME = "Time"
_RETRIES = "Retries"
_REPEATS = "Repeats"
_OTHERS = "Other jobs"

NameArgument = Annotated[
    str | None, typer.Argument(help="Kind of job. It selects the handler.", show_default=False)
]
ArgumentArgument = Annotated[str, typer.Argument(help="JSON, @FILE with JSON, or - for standard input.")]
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
RunAtOption = Annotated[
    str | None, typer.Option(help="ISO 8601 with an offset, or only a date (UTC).", rich_help_panel=_TIME)
]
PriorityOption = Annotated[int | None, typer.Option(help="The lowest number runs first.")]
RetryOption = Annotated[
    str | None,
    typer.Option(
        metavar="JSON",
        help='Backoff, such as {"base_s": 1, "factor": 2, "max_s": 3600, "jitter": true}.',
        rich_help_panel=_RETRIES,
    ),
]
KeepResultOption = Annotated[bool, typer.Option("--keep-result", help="Keep the result. Implied by --wait.")]
RerunLostOption = Annotated[
    bool,
    typer.Option(
        "--rerun-lost",
        help="Run the job again if its worker is lost, even with --max-retry 0.",
        rich_help_panel=_RETRIES,
    ),
]
DelayOption = Annotated[
    float | None, typer.Option(help="Seconds from now until the job may run.", rich_help_panel=_TIME)
]
ExpiresAtOption = Annotated[
    str | None,
    typer.Option(
        help="Skip the job if it still waits at this time (format as --run-at).", rich_help_panel=_TIME
    ),
]
ExpiresOption = Annotated[
    float | None,
    typer.Option(
        "--expires", help="Skip the job if it still waits after this many seconds.", rich_help_panel=_TIME
    ),
]
HeaderOption = Annotated[
    list[str] | None, typer.Option(metavar="NAME=VALUE", help="May be given several times.")
]
TagOption = Annotated[list[str] | None, typer.Option(help="May be given several times.")]
RequireOption = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="Label that the worker must have. May be given several times."),
]
FromOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="FILE",
        help="Enqueue every job of this JSON lines file; - reads standard input.",
    ),
]
IdOption = Annotated[
    str | None,
    typer.Option(
        "--id",
        help="UUID that you choose. It makes repeating the command safe.",
        rich_help_panel=_REPEATS,
    ),
]
KeyOption = Annotated[
    str | None,
    typer.Option(
        help=(
            "Idempotency key, up to 200 bytes. A repeat with the same key and content creates no second job."
        ),
        rich_help_panel=_REPEATS,
    ),
]
KeyTtlOption = Annotated[
    float | None,
    typer.Option(help="Seconds for which the key works. Default: 86400.", rich_help_panel=_REPEATS),
]
UniqueOption = Annotated[
    str | None,
    typer.Option(
        metavar="JSON",
        help='Uniqueness, such as {"key": "user:42", "scope": "until_finished", "on_conflict": "existing"}.',
        rich_help_panel=_REPEATS,
    ),
]
DebounceOption = Annotated[
    str | None,
    typer.Option(
        metavar="JSON",
        help='Debounce, such as {"key": "post:1", "wait_s": 5, "max_s": 60}.',
        rich_help_panel=_REPEATS,
    ),
]
BatchOption = Annotated[
    str | None,
    typer.Option(help="ID of the batch to which the job belongs.", rich_help_panel=_OTHERS),
]
NotifyOption = Annotated[
    str | None,
    typer.Option(help="URL of a webhook to call when the job is over; or JSON: url, on, with_result."),
]
AfterOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ID",
        help=(
            "Run when this job has succeeded. If given several times, run when all of these jobs have "
            "succeeded."
        ),
        rich_help_panel=_OTHERS,
    ),
]
AfterFinishedOption = Annotated[
    bool,
    typer.Option(
        "--after-finished",
        help="With --after: run the job even if those jobs did not succeed.",
        rich_help_panel=_OTHERS,
    ),
]
WaitOption = Annotated[
    float | None, typer.Option(min=0, help="Wait this many seconds for the result and print it.")
]


def enqueue(
    http: MasterSession,
    name: NameArgument = None,
    argument: ArgumentArgument = "null",
    *,
    priority: PriorityOption = None,
    max_retry: MaxRetryOption = None,
    retry: RetryOption = None,
    keep_result: KeepResultOption = False,
    rerun_lost: RerunLostOption = False,
    timeout: TimeoutOption = None,
    delay: DelayOption = None,
    run_at: RunAtOption = None,
    expires_at: ExpiresAtOption = None,
    expires_s: ExpiresOption = None,
    header: HeaderOption = None,
    tag: TagOption = None,
    require: RequireOption = None,
    source: FromOption = None,
    job_id: IdOption = None,
    key: KeyOption = None,
    key_ttl: KeyTtlOption = None,
    unique: UniqueOption = None,
    debounce: DebounceOption = None,
    batch: BatchOption = None,
    notify: NotifyOption = None,
    after: AfterOption = None,
    after_finished: AfterFinishedOption = False,
    wait: WaitOption = None,
) -> None:
    """Enqueue a job and print its ID. With --wait, print its result. With --from, enqueue all jobs of a file."""
    from jqmaster.domain.ids import new_id

    optional = {
        "after": _after_of(after, is_finished_enough=after_finished), **_notify_fields(notify),
        "priority": priority, "max_retry": max_retry, "timeout": timeout, "delay": delay, "tags": tag,
        "run_at": instant(run_at), "expires_at": instant(expires_at), "expires_s": expires_s,
        "headers": pairs_of(header or (), "--header") or None, "rerun_lost": rerun_lost or None,
        "requires": pairs_of(require or (), "--require") or None,
        "retry": None if retry is None else json_of(retry, "--retry"), "key_ttl": key_ttl,
        "unique": None if unique is None else json_of(unique, "--unique"),
        "debounce": None if debounce is None else json_of(debounce, "--debounce"), "batch": batch,
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
    # Always send an ID, so that the request can be repeated if the answer is lost.
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
        print_result(http, answer["id"], wait)


def _after_of(job_ids: list[str] | None, *, is_finished_enough: bool) -> dict[str, Any] | None:
    if is_finished_enough and not job_ids:
        exits.fail(exits.USAGE, "--after-finished needs --after")
    return {"jobs": job_ids, "when": "finished" if is_finished_enough else "succeeded"} if job_ids else None


def _notify_fields(notify: str | None) -> dict[str, Any]:
    """Return the field of the request for the webhook: `notify_url`, or `notify` if the option is JSON."""
    if notify is None:
        return {}
    return {"notify": json_of(notify, "--notify")} if notify.startswith("{") else {"notify_url": notify}


def _enqueued(http: MasterSession, body: Mapping[str, Any]) -> dict[str, Any]:
    """Enqueue a job and return the answer. Print a hint if the outcome is uncertain or no new job was created."""
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
