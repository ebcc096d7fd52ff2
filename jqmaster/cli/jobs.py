"""Commands about jobs."""

import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from jqmaster.cli import exits, output
from jqmaster.cli.groups import order_each
from jqmaster.cli.http import DEFAULT_MASTER, JsonOption, Master, MasterOption, TokenOption, job_path

_LONGEST_WAIT_S = 60.0

JobArgument = Annotated[str, typer.Argument(metavar="ID", help="Job ID.")]
JobArguments = Annotated[list[str], typer.Argument(metavar="ID…", help="Job IDs.")]


def enqueue(
    name: Annotated[str, typer.Argument(help="The kind of job; it selects the handler.")],
    argument: Annotated[
        str, typer.Argument(help="JSON; or @FILE with JSON; or - for standard input.")
    ] = "null",
    *,
    priority: Annotated[int | None, typer.Option(help="Smaller runs first.")] = None,
    max_retry: Annotated[int | None, typer.Option(help="How many times a failed run is tried again.")] = None,
    keep_result: Annotated[
        bool, typer.Option("--keep-result", help="Keep the result; implied by --wait.")
    ] = False,
    timeout: Annotated[float | None, typer.Option(help="Seconds that a run may take.")] = None,
    delay: Annotated[float | None, typer.Option(help="Seconds from now.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="May be given several times.")] = None,
    job_id: Annotated[
        str | None, typer.Option("--id", help="A UUIDv7 of your own; makes a repeat harmless.")
    ] = None,
    wait: Annotated[
        float | None, typer.Option(help="Wait this many seconds for the result and print it.")
    ] = None,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Enqueue a job; prints its ID, or with --wait its result."""
    from jqmaster.domain.ids import new_id

    optional = {"priority": priority, "max_retry": max_retry, "timeout": timeout, "delay": delay, "tags": tag}
    body: dict[str, Any] = {field: value for field, value in optional.items() if value is not None}
    # Always with an ID: an answer that got lost can be asked for again.
    body |= {"id": job_id or new_id(), "name": name, "argument": read_argument(argument)}
    if keep_result or wait is not None:
        body["keep_result"] = True
    with Master(master, token) as http:
        try:
            _, answer = http.call("POST", "/api/jobs", body=body)
        except typer.Exit as ended:
            if ended.exit_code == exits.UNREACHABLE:
                typer.echo(f"  It may have been enqueued; to be sure repeat with --id {body['id']}", err=True)
            raise
        if wait is None:
            output.say_json(answer) if as_json else output.say(answer["id"])
        else:
            _print_result(http, answer["id"], wait, as_json)


def list_jobs(
    *,
    state: Annotated[
        str | None, typer.Option(help="scheduled, ready, running, retrying, succeeded, failed, …")
    ] = None,
    name: Annotated[str | None, typer.Option(help="The exact name.")] = None,
    tag: Annotated[str | None, typer.Option()] = None,
    worker: Annotated[str | None, typer.Option(help="ID of the worker of the latest attempt.")] = None,
    search: Annotated[str | None, typer.Option("-q", "--search", help="Part of the ID or name.")] = None,
    cause: Annotated[str | None, typer.Option(help="Ended for this: error, timeout, lost, …")] = None,
    text: Annotated[str | None, typer.Option(help="Part of the message of the last error.")] = None,
    finished_after: Annotated[
        str | None, typer.Option(help="ISO 8601 with an offset, or only a date (UTC).")
    ] = None,
    finished_before: Annotated[str | None, typer.Option(help="As --finished-after.")] = None,
    newest: Annotated[bool, typer.Option("--newest", help="The newest of a state first.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Most jobs to print.")] = 50,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """List jobs by state."""
    query = {
        "state": state,
        "name": name,
        "tag": tag,
        "worker": worker,
        "q": search,
        "cause": cause,
        "text": text,
        "finished_after": instant(finished_after),
        "finished_before": instant(finished_before),
        "order": "newest" if newest else None,
    }
    with Master(master, token) as http:
        output.show_list(
            http.listed("/api/jobs", "jobs", query=query, limit=limit),
            ("ID", "NAME", "STATE", "PRIO", "ATTEMPT", "CREATED", "CAUSE"),
            lambda j: (j["id"], j["name"], j["state"], j["priority"], j["attempt"], j["created_at"], j["cause"]),
            as_json=as_json,
        )  # fmt: skip


def job(
    job_id: JobArgument,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one job with its attempts."""
    with Master(master, token) as http:
        _, view = http.call("GET", job_path(job_id))
    if as_json:
        output.say_json(view)
        return
    apart = ("argument", "attempts", "events")
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


def result(
    job_id: JobArgument,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for the end of the job.")] = 0,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fetch the result of a job; afterwards the master may discard it."""
    with Master(master, token) as http:
        _print_result(http, job_id, wait, as_json)


def cancel(
    job_ids: JobArguments,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Cancel waiting or running jobs."""
    _each(job_ids, "cancel", Master(master, token), as_json)


def retry(
    job_ids: JobArguments,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run finished jobs again."""
    _each(job_ids, "retry", Master(master, token), as_json)


def instant(text: str | None) -> str | None:
    """As the API takes it: a date alone means its first moment, UTC."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        exits.fail(exits.USAGE, f"{text} is no instant; write 2026-11-21 or 2026-11-21T04:30:00Z")
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()


def read_argument(text: str) -> Any:
    """The value of ARGUMENT: JSON itself, or from a file, or from standard input."""
    try:
        if text == "-":
            text = sys.stdin.read()
        elif text.startswith("@"):
            text = Path(text[1:]).read_text("utf-8")
        return json.loads(text, parse_constant=_refuse_constant)
    except OSError as error:
        exits.fail(exits.USAGE, f"cannot read {error.filename}: {error.strerror}")
    except (ValueError, RecursionError) as error:
        exits.fail(exits.USAGE, f"the argument is not JSON ({error}); a text needs its quotes: '\"text\"'")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _each(job_ids: list[str], action: str, master: Master, as_json: bool) -> NoReturn:
    order_each(
        master,
        [job_path(job_id, action) for job_id in job_ids],
        lambda job: f"{job['id']}  {job['state']}",
        as_json=as_json,
    )


def _print_result(http: Master, job_id: str, wait_s: float, as_json: bool) -> None:
    status, answer = _await_result(http, job_id, wait_s)
    if status == 202:
        if as_json:
            output.say_json(answer)
        exits.fail(exits.FAILED, f"job {job_id} is not over: {answer['state']}")
    if answer is None:
        if as_json:
            output.say_json(None)
        exits.fail(exits.NOT_FOUND, f"no result of job {job_id}: unknown, not kept, or discarded")
    is_success = answer["type"] == "success"
    if as_json:
        output.say_json(answer)
    elif is_success:
        output.show_value(answer["result"])
    if not is_success:
        exits.fail(exits.FAILED, f"job {job_id} failed ({answer['reason']}): {answer['message']}")


def _await_result(http: Master, job_id: str, wait_s: float) -> tuple[int, Any]:
    deadline_s = time.monotonic() + wait_s
    while True:
        part_s = max(0.0, min(_LONGEST_WAIT_S, deadline_s - time.monotonic()))
        status, answer = http.call(
            "GET", job_path(job_id, "result"), query={"wait": round(part_s, 3)}, timeout_s=part_s + 30
        )
        if status != 202 or time.monotonic() >= deadline_s:
            return status, answer
