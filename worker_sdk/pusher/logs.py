"""Lines of the logs of jobs, and the paths of calls that read them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal
from urllib.parse import urlencode

from worker_sdk.pusher.results import MAX_LONG_POLL_S, path_of
from worker_sdk.shown import without_content

JobLogLevel = Literal["debug", "info", "warning", "error", "critical"]
# The levels of log lines, from the lowest to the highest.
LEVELS: Final[tuple[JobLogLevel, ...]] = ("debug", "info", "warning", "error", "critical")


@dataclass(frozen=True, slots=True)
class JobLogLine:
    """A line of the log of a job.

    * `seq`: number of the line, counted from 1 over all attempts. A gap means that lines are missing.
    * `attempt`: number of the attempt that wrote it.
    * `at`: the time at which it was written, in UTC.
    * `level`: `debug`, `info`, `warning`, `error` or `critical`.
    * `text`: the line, or the lines of one message. None: the token may not read the content of jobs.

    For example:

        warnings = [line.text for line in handle.logs(level="warning")]
    """

    seq: int
    attempt: int
    at: datetime
    level: JobLogLevel
    text: str | None

    def __repr__(self) -> str:
        return without_content(self, "text")


def logs_path(
    job_id: str,
    after: int,
    wait_s: float,
    timeout_s: float,
    *,
    level: JobLogLevel | None,
    attempt: int | None,
    tail: int | None,
) -> str:
    query: dict[str, Any] = {"after": after, "level": level, "attempt": attempt, "tail": tail}
    if wait_s > 0:
        # The answer must arrive within the timeout of a call, as for results.
        query["wait"] = f"{min(wait_s, MAX_LONG_POLL_S, timeout_s * 0.8):.3f}"
    return f"{path_of(job_id)}/logs?{urlencode({k: v for k, v in query.items() if v is not None})}"


def line_of(fields: Any) -> JobLogLine:
    return JobLogLine(
        fields["seq"],
        fields["attempt"],
        datetime.fromisoformat(fields["at"]),
        fields["level"],
        fields["text"],
    )
