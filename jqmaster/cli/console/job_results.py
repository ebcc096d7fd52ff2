"""Wait for the result of a job and print it."""

import time
from typing import Any

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.http import MasterSession, job_path

_LONGEST_WAIT_S = 60.0


def print_result(http: MasterSession, job_id: str, wait_s: float) -> None:
    status, answer = _await_result(http, job_id, wait_s)
    is_json = http.says_json(answer)
    if status == 202:
        error = f"; its last attempt failed: {text}" if (text := answer.get("last_error")) else ""
        exits.fail(exits.FAILED, f"job {job_id} is not over: {answer['state']}{error}")
    if answer is None:
        exits.fail(exits.NOT_FOUND, no_result_text(http, job_id))
    if answer["type"] != "success":
        exits.fail(exits.FAILED, f"job {job_id} failed ({answer['reason']}): {answer['message']}")
    if not is_json:
        output.show_value(answer["result"])


def no_result_text(http: MasterSession, job_id: str) -> str:
    """Return the reason why the job has no result. End the command if there is no such job."""
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
