"""Models of documents and facts that exist in exports, but not in requests of the API."""

from typing import Annotated

from pydantic import AfterValidator, Field

from jqmaster.api.calendars.schemas import Day, HolidayRequest
from jqmaster.api.schemas import Instant, JobId, Request
from jqmaster.domain.fireworq.queue import FireworqQueue
from jqmaster.domain.identity.access import Role, Scope
from jqmaster.domain.jobs.job import FINISHED, JobState


def _unfinished(state: JobState) -> JobState:
    if state in FINISHED:
        raise ValueError("must be a state of a job that is not over")
    return state


class HeadDocument(Request):
    """The origin of a file: version, shard and instant. `secrets`: whether the file contains secrets."""

    version: str
    shard: str
    exported_at: Instant
    secrets: bool


class EndDocument(Request):
    """The numbers of lines by kind, and the numbers of objects that the export left out."""

    lines: dict[str, int]
    left_out: dict[str, int] = Field(default_factory=dict)


class SettingDocument(Request):
    """A setting that was changed at run time."""

    value: bool | int | float | str | list[str]


class FireworqQueueDocument(Request):
    """A queue of the Fireworq gateway, as its clients defined it. 0 and null mean that the client did not set the
    field."""

    polling_interval: int = 0
    max_workers: int = 0
    max_dispatches_per_second: float | None = None
    max_burst_size: int | None = None

    def to_queue(self, name: str) -> FireworqQueue:
        return FireworqQueue(name, **self.model_dump())


class FireworqRoutingDocument(Request):
    """The queue to which jobs of a category go."""

    queue_name: str


class SlotRuleDocument(Request):
    """The number of slots for workers that run on a node and have these labels."""

    node_id: str
    labels: dict[str, str]
    max_jobs: int = Field(ge=1)
    set_by: str
    set_at: Instant


class UserDocument(Request):
    """A user. If the export has secrets, it contains the argon2id hash of the password."""

    role: Role = Field(strict=False)
    namespaces: dict[str, Annotated[Role, Field(strict=False)]] = Field(default_factory=dict)
    is_disabled: bool = False
    created_at: Instant
    password_hash: str | None = Field(None, pattern=r"^\$argon2id\$")


class TokenDocument(Request):
    """A token. If the export has secrets, it contains the SHA-256 of the token, by which masters recognize it."""

    label: str
    scopes: list[Annotated[Scope, Field(strict=False)]]
    names: list[str] = Field(default_factory=list)
    namespaces: list[str] = Field(default_factory=list)
    created_at: Instant
    created_by: str
    expires_at: Instant | None = None
    lineage: str = ""
    sha256: str | None = Field(None, pattern=r"^[0-9a-f]{64}$")


class ArgumentFacts(Request):
    """An argument that JSON cannot carry unchanged: MessagePack in base64. It replaces the argument of the
    document."""

    argument_packed: str | None = None


class CalendarFacts(Request):
    """The holidays of a calendar, and the last day that its source covered."""

    holidays: list[HolidayRequest]
    covers_until: Day | None = None


class BatchFacts(Request):
    """The progress of a batch."""

    is_sealed: bool = False
    owner: str = ""
    created_at: Instant
    ended: dict[str, int] = Field(default_factory=dict)
    started: list[str] = Field(default_factory=list, description="Callbacks that have already started.")
    arguments_packed: dict[str, str] = Field(default_factory=dict)


class JobFacts(ArgumentFacts):
    """The progress of a job. `over`: predecessors that are over or gone."""

    state: Annotated[JobState, Field(strict=False), AfterValidator(_unfinished)]
    attempt: int = 0
    failures: int = 0
    losses: int = 0
    created_at: Instant
    due_at: Instant | None = None
    definition: str | None = None
    definition_due_at: Instant | None = None
    callback_of: JobId | None = None
    callback: str | None = None
    over: list[JobId] = Field(default_factory=list)
