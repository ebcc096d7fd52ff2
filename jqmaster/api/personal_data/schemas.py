"""HTTP models of the search for data about a person, and of the erasure of values."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from jqmaster.api.schemas import Answer, Count, Request
from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.personal_data.erasure import ROOTS
from jqmaster.domain.personal_data.identifiers import MAX_IDENTIFIERS, MAX_LENGTH, MIN_LENGTH

MAX_REASON = 500
MAX_FIELDS = 50

Identifier = Annotated[
    str, StringConstraints(min_length=MIN_LENGTH, max_length=MAX_LENGTH, strip_whitespace=True)
]


class PersonalDataRequest(Request):
    """The texts to look for."""

    texts: list[Identifier] = Field(
        min_length=1,
        max_length=MAX_IDENTIFIERS,
        description=(
            "Texts that identify a person, such as an email address and a customer number. The "
            "search ignores letter case and full-width forms."
        ),
    )
    reason: str = Field(
        "",
        max_length=MAX_REASON,
        description="Reason for the audit log, such as the number of a request. Do not name a person.",
    )
    cursor: str | None = Field(None, max_length=200, description="`next_cursor` of the previous answer.")


class PersonalDataMatch(Answer):
    """An object that holds one of the texts."""

    place: Literal["job", "event", "failure_group", "notice"]
    id: str = Field(description="ID of the job, event or failure group, or name of the notice.")
    name: str = Field(description="Name of the job or notice, or type of the event.")
    state: JobState | None = Field(description="State of the job. Null for other objects.")
    fields: list[str] = Field(
        description=(
            "Places of the text, at most 20: paths such as `argument.email`, or parts of the object, such "
            "as `errors` or `log`."
        )
    )
    more_fields: Count = Field(description="Number of further places in the object.")
    erasable: bool = Field(
        description=("True: the object is a finished job, so its values and its log can be erased.")
    )


class PersonalDataSearched(Answer):
    """Numbers of the objects that this call searched."""

    jobs: Count
    log_lines: Count
    events: Count
    failure_groups: Count
    notices: Count


class PersonalDataUnread(Answer):
    """Numbers of objects that this call found but could not search."""

    sealed_values: Count = Field(description="Values that only their workers can read.")
    damaged_jobs: Count = Field(description="Jobs that cannot be read. `fsck` lists them.")
    archived_logs: Count = Field(description="Logs of jobs that are at least partly in the archive.")


class PersonalDataAnswer(Answer):
    """The result of one part of the search."""

    found: list[PersonalDataMatch] = Field(
        description=("A later part of the search may return an object again.")
    )
    searched: PersonalDataSearched
    unread: PersonalDataUnread
    total_jobs: Count = Field(description="Number of all jobs, for the progress of the search.")
    redacted: list[str] = Field(description="The setting `redact_paths`: values there are not searched.")
    not_searched: list[str] = Field(description="Places that no part of the search reads, as English texts.")
    next_cursor: str | None = Field(description="Pass it to the next call. Null: the search is complete.")


class EraseRequest(Request):
    """The values to erase."""

    fields: list[Annotated[str, StringConstraints(min_length=1, max_length=1_000)]] = Field(
        min_length=1,
        max_length=MAX_FIELDS,
        description=(
            "Paths in `argument`, `headers` or `result`, such as `argument.email` or "
            "`argument.lines[0].name`. `argument` or `result` alone stands for all of it. Also "
            "allowed: "
            f"{', '.join(f'`{root}`' for root in ROOTS if root not in ('argument', 'headers', 'result'))}."
        ),
    )
