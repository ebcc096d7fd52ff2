"""Results of jobs, and the paths of calls that read them."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

from worker_sdk.errors import NotFinished, UnavailableError
from worker_sdk.masters.masters import MasterAnswer, pause_s
from worker_sdk.shown import without_content

MAX_LONG_POLL_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result of a job.

    * `type`: `success` or `failure`.
    * `finished_at`: end of the last attempt, as ISO 8601.
    * `result`: the handler's return value, if the job succeeded.
    * `reason`: `timeout`, `undecodable`, `invalid_argument` or `other`, if the job failed. The following fields also
      describe the failure.
    * `should_retry`: whether the last failure allowed a retry.
    * `error`: a map of `type`, `message` and `traceback`, if an exception was the reason.
    * `message`: the reason, for people.

    For example:

        result = pusher.result(job_id, wait=10)
        if result is not None and not result.is_success:
            print(result.reason, result.message)
    """

    type: str
    finished_at: str
    result: Any = None
    reason: str | None = None
    should_retry: bool | None = None
    error: Any = None
    message: str | None = None

    def __repr__(self) -> str:
        return without_content(self, "result", "error")

    @property
    def is_success(self) -> bool:
        """Return whether the job succeeded."""
        return self.type == "success"


@dataclass(frozen=True, slots=True)
class JobProgress:
    """Progress of a job, as its worker last reported it.

    * `fraction`: fraction of the work that is done, 0 to 1. None: unknown.
    * `message`: text for people.
    * `at`: the time of the report, in UTC.

    For example:

        told = handle.progress()
        if told is not None:
            print(told.fraction, told.message)
    """

    fraction: float | None
    message: str
    at: datetime


def progress_of(view: Mapping[str, Any]) -> JobProgress | None:
    """Return the progress in a job that `Pusher.status` returned. Return None if no attempt has reported progress."""
    told = view.get("progress")
    if told is None:
        return None
    return JobProgress(told["fraction"], told["message"] or "", datetime.fromisoformat(told["at"]))


def path_of(job_id: str) -> str:
    return f"/api/jobs/{quote(job_id, safe='')}"


def next_poll_in_s(answer: MasterAnswer, end_s: float) -> float:
    """Return the seconds to wait before the next poll: 0 if the last poll waited. A master with too many waiting polls
    answers at once, and states when to poll again."""
    if not answer.retry_after_s:
        return 0.0
    return max(0.0, min(pause_s(1, answer.retry_after_s), end_s - time.monotonic()))


def result_path(job_id: str, end_s: float, timeout_s: float) -> str:
    # Wait for less than the timeout of a call. Otherwise, a long wait would look like a dead master.
    wait_s = max(0.0, min(end_s - time.monotonic(), MAX_LONG_POLL_S, timeout_s * 0.8))
    return f"{path_of(job_id)}/result?wait={wait_s:.3f}"


def not_finished(job_id: str, body: Mapping[str, Any]) -> NotFinished:
    """Return the error for a job that has not ended, from the master's answer. Older masters send no `last_error`."""
    error = body.get("last_error")
    return NotFinished(job_id, str(body.get("state")), None if error is None else str(error))


def result_of(answer: MasterAnswer) -> JobResult | None:
    if not answer.body:
        return None
    known = {field: answer.body[field] for field in JobResult.__slots__ if field in answer.body}
    if not {"type", "finished_at"} <= known.keys():
        raise UnavailableError("a master's answer has an unexpected form")
    return JobResult(**known)
