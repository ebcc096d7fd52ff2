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
            "description": "The line, or several of one message. Binary is read as UTF-8, with a mark in place of what "
            'is not; in JSON it is {"$bin": base64}. Colours (`ESC [ … m`) stay; what else acts on a terminal goes.'
        }
    ),
]


_At = Annotated[
    int | float | str,
    WithJsonSchema(
        {
            "description": "When the line was written: milliseconds since 1970 as an integer, seconds as a float (from "
            "10^11 on milliseconds as well), ISO 8601 text with an offset, or a MessagePack timestamp."
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
        description="Number of the line within the claim, from 1. A gap is lines that the worker dropped. A number "
        "that was sent before is not kept twice.",
    )
    at: _At
    level: LogLevel = Field(LogLevel.INFO, strict=False)
    text: _Text


class LogsRequest(Request):
    """Log lines of jobs that the worker runs."""

    entries: list[LogLineRequest] = Field(min_length=1, max_length=handlers.MAX_LINES)


class LogsAnswer(Answer):
    """The answer to log lines."""

    accepted: Count = Field(description="Number of lines of this call that are kept, or were already.")
    dropped: Count = Field(
        description="Number of lines, of any job, that are gone since this call: the oldest, beyond a limit, and "
        "those that the worker left out."
    )
    stale: list[JobId] = Field(
        description="Jobs that the worker does not hold under these tokens. Their lines are not kept; send no more."
    )
    refused: list[ProblemField] = Field(
        description="The faults of entries that are not valid, at most the first 50. The lines of such entries are not "
        "kept; those of the others are. Missing if there are none. If no entry is valid, the answer is 422.",
        json_schema_extra=SINCE,
    )


class LogEntry(Answer):
    """A log line of a job."""

    seq: int = Field(description="Counted from 1 over all attempts. A gap is lines that are gone.")
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
        description="Number of lines of this job that are gone, because there were too many."
    )
    is_last: bool = Field(description="True: the job is over, and no line will follow.")
    is_archived: bool = Field(description="True: these lines come from the archive.")
    log_ref: str | None = Field(
        description="Where the log is, below `log_archive_url`; null while no part of it is in the archive."
    )
