"""HTTP models of logs of jobs."""

from typing import Annotated

from pydantic import Field, WithJsonSchema

from jqmaster.api.logs import handlers
from jqmaster.api.schemas import SINCE, Answer, Count, JobId, ProblemField, Request, Timestamp, Token
from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.logs.lines import LogLevel

_Text = Annotated[
    str | bytes,
    WithJsonSchema(
        {
            "description": (
                'One line, or a message of several lines. Binary (in JSON: {"$bin": base64}) is '
                "decoded as UTF-8, with a replacement character for invalid bytes. Colours (`ESC "
                "[ … m`) are kept. Other control sequences for terminals are removed."
            )
        }
    ),
]


_At = Annotated[
    int | float | str,
    WithJsonSchema(
        {
            "description": "Time at which the line was written: milliseconds since 1970 as an integer, "
            "seconds as a float (milliseconds if it is 10^11 or more), ISO 8601 text with an "
            "offset, or a MessagePack timestamp."
        }
    ),
]


class LogLineRequest(Request):
    """A log line of a job that the worker runs."""

    job_id: JobId | None = Field(None, description="If omitted, the value of the previous entry applies.")
    token: Token | None = Field(None, description="If omitted, the value of the previous entry applies.")
    seq: int = Field(
        ge=1,
        le=handlers.MAX_SEQ,
        description=(
            "Number of the line within the claim, from 1. A gap means that the worker dropped lines. A line "
            "with a number that was sent before is not stored again."
        ),
    )
    at: _At
    level: LogLevel = Field(LogLevel.INFO, strict=False)
    text: _Text


class LogsRequest(Request):
    """Log lines of jobs that the worker runs."""

    entries: list[LogLineRequest] = Field(min_length=1, max_length=handlers.MAX_LINES)


class LogsAnswer(Answer):
    """The answer to log lines."""

    accepted: Count = Field(
        description=(
            "Number of lines of this call that are stored now, including lines that an earlier call stored."
        )
    )
    dropped: Count = Field(
        description=(
            "Number of lost lines, of any job: old lines that were removed because of a limit, and lines "
            "that the worker left out."
        )
    )
    stale: list[JobId] = Field(
        description=(
            "Jobs that the worker does not hold under the given tokens. Their lines are not stored. Send no "
            "more lines of these jobs."
        )
    )
    refused: list[ProblemField] = Field(
        description=(
            "The faults of the first invalid entries, at most 50. Lines of invalid entries are not stored. "
            "All other lines are stored. Missing if all entries are valid. If no entry is valid, the answer "
            "is 422."
        ),
        json_schema_extra=SINCE,
    )


class LogEntry(Answer):
    """A log line of a job."""

    seq: int = Field(description="Counted from 1 over all attempts. A gap means that lines were removed.")
    attempt: int
    at: Timestamp
    level: LogLevel
    text: str | None = Field(description="null: the caller may not see job content.")


class LogPage(Answer):
    """Log lines of a job after a position."""

    state: JobState | None = Field(description="null: the job is gone, and its log is in the archive.")
    entries: list[LogEntry]
    next: int = Field(description="Value of `after` for the next call.")
    last: int = Field(description="Number of the newest line.")
    dropped: Count = Field(
        description="Number of lines of this job that were removed because there were too many."
    )
    is_last: bool = Field(description="True: the job is over, and no line will follow.")
    is_archived: bool = Field(description="True: these lines come from the archive.")
    log_ref: str | None = Field(
        description=(
            "Path of the log below `log_archive_url`. Null while no part of the log is in the archive."
        )
    )
