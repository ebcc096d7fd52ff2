"""`jqmaster take` and `jqmaster done`: run one job in a shell script, with two commands."""

import contextlib
import json
import os
import secrets
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from jqmaster.cli.commands.jobs import JobArgument
from jqmaster.cli.console import exits, output
from jqmaster.cli.console.documents import value_of
from jqmaster.cli.console.http import MasterSession, path_of
from jqmaster.cli.console.taken import TakenJob
from jqmaster.cli.process.holder import leave, settle
from worker_sdk.command_line.interpreter import module_command

_SHORTEST_WAIT_S: Final = 0.25
_SHOWN: Final = ("name", "argument", "attempt", "timeout", "headers")


def take(
    http: MasterSession,
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help="Names of jobs to take.")],
    *,
    wait: Annotated[
        float, typer.Option(min=0, max=86_400, help="Wait at most this many seconds for a job.")
    ] = 0,
    while_pid: Annotated[
        int | None,
        typer.Option(
            "--while",
            metavar="PID",
            help="The process that runs the job. If it ends before `jqmaster done`, the attempt fails. Default:"
            " the script that calls this command.",
        ),
    ] = None,
    terminate: Annotated[
        bool,
        typer.Option(
            "--terminate",
            help=(
                "Send SIGTERM to the process that runs the job when the job is canceled or its lease is over."
            ),
        ),
    ] = False,
) -> None:
    """Take one job and print it as one line of JSON. `jqmaster done` reports its end. Exit code 3: no job came."""
    pid = while_pid or script_pid()
    body = {
        "url": None,
        "names": names,
        "max_jobs": 1,
        "secret": secrets.token_hex(32),
        "pid": pid,
        "labels": {"started_by": "jqmaster take"},
    }
    registered = http.post("/api/workers", body)
    try:
        job = _claimed(http, registered, wait)
    except BaseException:
        http.call("DELETE", path_of("/api/workers", registered["worker_id"]), admit=(404,))
        raise
    if job is None:
        http.call("DELETE", path_of("/api/workers", registered["worker_id"]), admit=(404,))
        exits.fail(exits.NOT_FOUND, f"no job for {', '.join(names)} came in {wait:g} s")
    taken = TakenJob(job["job_id"], job["token"], registered["worker_id"])
    taken.save()
    order = {
        "master": http.url,
        "taken": asdict(taken),
        "interval_s": registered["heartbeat_interval_s"],
        "pid": pid,
        "terminates": terminate,
    }
    if not _is_held(order, http.token):
        settle(http, taken, {"type": "handed_back"})
        leave(http, taken)
        exits.fail(exits.REFUSED, "the lease of the job cannot be renewed; the job was handed back")
    output.say_json({"id": taken.job_id, **{field: job.get(field) for field in _SHOWN}})


def done(
    http: MasterSession,
    job_id: JobArgument,
    *,
    success: Annotated[
        str | None,
        typer.Option(
            metavar="JSON", help="The job succeeded, with this result: JSON, @FILE, or - for standard input."
        ),
    ] = None,
    failure: Annotated[str | None, typer.Option(metavar="MESSAGE", help="The attempt failed.")] = None,
    discard: Annotated[
        str | None, typer.Option(metavar="REASON", help="Nothing was left to do. The job ends as discarded.")
    ] = None,
    defer: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="Run the job again after this time. This does not count as a retry."
        ),
    ] = None,
    retry: Annotated[
        bool, typer.Option("--retry/--no-retry", help="With --failure: allow or forbid a retry of the job.")
    ] = True,
    retry_after: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help=("With --failure: wait at least this long before the retry.")),
    ] = None,
) -> None:
    """Report how a job of `jqmaster take` has ended. Exit code 1 if the report came too late to count."""
    endings: list[dict[str, Any]] = []
    if success is not None:
        endings.append({"type": "success", "result": value_of(success, "the result")})
    if failure is not None:
        endings.append(
            {
                "type": "failure",
                "reason": "other",
                "should_retry": retry,
                "message": failure,
                "retry_after": retry_after,
            }
        )
    if discard is not None:
        endings.append({"type": "discarded", "message": discard})
    if defer is not None:
        endings.append({"type": "deferred", "retry_after": defer})
    if len(endings) != 1:
        exits.fail(exits.USAGE, "give one of --success, --failure, --discard and --defer")
    taken = TakenJob.load(job_id)
    counts = settle(http, taken, endings[0])
    if not counts:
        # Report the end of a canceled job, too, because this frees its slot at once.
        settle(http, taken, {"type": "canceled"})
    leave(http, taken)
    if http.as_json:
        output.say_json({"id": job_id, "counts": counts})
    if not counts:
        exits.fail(
            exits.FAILED, f"the report came too late: job {job_id} was canceled, or its lease was over"
        )


def script_pid() -> int:
    """Return the process ID of the script that runs this command.

    Skip parents that only wrap the command, as in `timeout 60 jqmaster take …`. Also skip subshells of the
    script, as in `$(…)`."""
    pid = os.getppid()
    with contextlib.suppress(OSError, ValueError, IndexError):  # best effort: without /proc, use the parent
        while (parent := _parent_of(pid)) > 1:
            command = _command_of(pid)
            is_wrapper = command[-len(sys.argv) + 1 :] == sys.argv[1:]
            # If the parent has the same command line, continue with the parent: this process is then a subshell,
            # a fork of its shell.
            if not is_wrapper and command != _command_of(parent):
                break
            pid = parent
    return pid


def _parent_of(pid: int) -> int:
    # Split after the last parenthesis: the name of the program is in parentheses, and may contain any characters.
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _command_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text(errors="surrogateescape").rstrip("\0").split("\0")


def _claimed(http: MasterSession, registered: dict[str, Any], wait_s: float) -> dict[str, Any] | None:
    """Return a job and its claim, or None if no job came."""
    path = path_of("/api/workers", registered["worker_id"])
    deadline_s = time.monotonic() + wait_s
    while True:
        left_s = max(deadline_s - time.monotonic(), _SHORTEST_WAIT_S)
        # Limit the wait of a poll to the heartbeat interval, because the worker sends heartbeats only between
        # polls.
        poll_s = max(min(left_s, registered["heartbeat_interval_s"]), _SHORTEST_WAIT_S)
        poll = {"max": 1, "wait": poll_s, "poll_id": secrets.token_hex(8)}
        _, answer = http.call("POST", f"{path}/claim", body=poll, timeout_s=poll_s + 10)
        for job in answer["jobs"]:
            return dict(job)
        if time.monotonic() >= deadline_s:
            return None
        http.call("POST", f"{path}/heartbeat", body={"running": [], "free": 1})


def _is_held(order: dict[str, Any], token: str | None) -> bool:
    """Start the process that holds the job, and return whether that process holds it."""
    environment = dict(os.environ)
    if token:
        environment["JQMASTER_TOKEN"] = token
    holder = subprocess.Popen(  # noqa: S603 - our own command
        module_command("jqmaster.cli.process.holder"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        # Start the process in a new session. It must survive the end of the script and the terminal's signals,
        # because it reports the end of the script.
        start_new_session=True,
        text=True,
    )
    assert holder.stdin
    assert holder.stdout
    with holder.stdin as orders:
        orders.write(json.dumps(order) + "\n")
    with holder.stdout as said:
        is_held = said.readline() == "held\n"
    # Set a return code, because the process outlives this command. Otherwise Python would warn that nobody waits for
    # it.
    holder.returncode = 0
    return is_held
