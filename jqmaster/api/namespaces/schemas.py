"""HTTP models of namespaces and stores."""

from typing import Annotated, Any

from pydantic import Field

from jqmaster.api.schemas import Answer, Count, Request
from jqmaster.domain.namespaces.namespace import (
    MAX_TITLE,
    NAME_PATTERN,
    STORE_PATTERN,
    TAG_PATTERN,
    NamespaceState,
)
from jqmaster.domain.namespaces.quotas import MOST

NamespaceName = Annotated[str, Field(pattern=NAME_PATTERN, examples=["shop"])]
StoreName = Annotated[str, Field(pattern=STORE_PATTERN, examples=["default"])]
_Tag = Annotated[str, Field(pattern=TAG_PATTERN, examples=["shop"])]


def _quota(name: str, text: str) -> Any:
    return Field(
        None, ge=1, le=MOST[name], description=f"{text} Null: the default of the installation, or no bound."
    )


class QuotasRequest(Request):
    """Bounds of a namespace. The setting `namespace_quotas` has the defaults of the installation."""

    waiting_jobs: int | None = _quota(
        "waiting_jobs",
        "Number of waiting jobs at which pushes and events get 429 `namespace_full`. Masters count once a "
        "second, so more jobs may wait for a moment.",
    )
    waiting_bytes: int | None = _quota(
        "waiting_bytes",
        "Bytes of the records of waiting jobs at which pushes and events get 429 `namespace_full`. A record is the "
        "argument with the other fields of the job. Masters estimate the bytes once a second, from a sample if more "
        "than 256 jobs wait.",
    )
    pushes_per_s: int | None = _quota(
        "pushes_per_s",
        "Number of jobs that may be pushed in one second of the store's clock. Further jobs get 429 "
        "`namespace_rate`. A single push with more jobs than this number gets 422 `push_over_quota`. "
        "Repeats of accepted jobs and events do not count.",
    )
    argument_bytes: int | None = _quota(
        "argument_bytes",
        "Maximum size in bytes of the argument of one job, in MessagePack. A push with a larger argument gets "
        "422 `argument_over_quota`. The setting `max_argument_bytes` also applies.",
    )
    workers: int | None = _quota(
        "workers",
        "Number of workers at which a further registration gets 429 `namespace_full`. Workers that have fallen silent "
        "or are detached do not count.",
    )
    streams: int | None = _quota(
        "streams",
        "Number of live event streams of one master at which a further stream gets 429 `namespace_full`. The "
        "setting `max_streams` also applies.",
    )


class NamespaceRequest(Request):
    """A namespace to create or change."""

    # The domain checks the name and compares it with the path. It reports the faults.
    name: str | None = Field(
        None, max_length=200, description=("If this field is given, it must equal the name in the path.")
    )
    title: str = Field("", max_length=MAX_TITLE, description="Text for people, shown beside the name.")
    store: StoreName | None = Field(
        None,
        description=(
            "Configured store that holds its data. Only a move can change it later. Absent: the store of "
            "`redis_url`."
        ),
    )
    tag: _Tag | None = Field(
        None,
        description=(
            "Hash tag of its keys, like the setting `shard` of an installation. It cannot be changed later. "
            "If the store has data with this tag, the namespace takes them over. If `store` is absent, and only "
            "another store has such data, the request is refused. Absent: the name is the tag, and the store must "
            "not have data with this tag."
        ),
    )
    quotas: QuotasRequest | None = Field(None, description="Absent: the defaults of the installation.")
    state: str | None = Field(
        None,
        max_length=20,
        description=(
            "Ignored. The field is allowed so that clients can send a namespace back as they received it."
        ),
    )
    version: int | None = Field(None, description="Ignored, as `state`.")
    move: dict[str, Any] | None = Field(None, description="Ignored, as `state`.")
    move_fault: str | None = Field(None, max_length=1_000, description="Ignored, as `state`.")


class QuotasView(Answer):
    """Bounds of a namespace. Null: the default of the installation, or no bound."""

    waiting_jobs: int | None = Field(description="Number of waiting jobs at which pushes are refused.")
    waiting_bytes: int | None = Field(description="Bytes of waiting jobs at which pushes are refused.")
    pushes_per_s: int | None = Field(description="Number of jobs that may be pushed in a second.")
    argument_bytes: int | None = Field(description="Bytes that the argument of one job may have.")
    workers: int | None = Field(description="Number of workers that may be registered.")
    streams: int | None = Field(description="Number of live event streams that one master serves.")


class NamespaceView(Answer):
    """A namespace."""

    name: NamespaceName
    title: str
    store: StoreName = Field(description="Configured store that holds its data.")
    tag: _Tag = Field(description="Hash tag of its keys.")
    state: NamespaceState = Field(
        description=(
            "open: masters serve it. closed: an operator closed it; its data stay. moving: its data "
            "are being moved to another store. faulted: reserved, never used."
        )
    )
    quotas: QuotasView
    version: int = Field(
        ge=0,
        description=(
            "Number that grows with each change. 0: nobody has changed the namespace. Value for `If-Match`."
        ),
    )


class NamespaceList(Answer):
    """All namespaces, `default` first and the others by name."""

    namespaces: list[NamespaceView]


class StoreView(Answer):
    """A configured store, as the answering master sees it. Its address and credentials are only in the configuration
    of the masters, and in no answer."""

    name: StoreName
    topology: str = Field(description="single, sentinel or cluster.")
    server: str = Field(
        description=(
            "Kind and version of the server. Empty: the store has not answered since the master started."
        )
    )
    faults: dict[str, str] = Field(
        description=(
            "Failed checks by name, with the reason why the store does not answer (`away`) or takes no new "
            "jobs. Empty: the store works."
        )
    )
    used_memory_bytes: Count | None
    max_memory_bytes: Count | None = Field(description="Null: the store has no limit, or does not show it.")
    namespaces: list[NamespaceName] = Field(
        description=("Names of the namespaces that have their data in this store.")
    )


class StoreList(Answer):
    """The configured stores, `default` first."""

    stores: list[StoreView]


class OverviewEntry(Answer):
    """A namespace with its current figures. All figures are null if its data cannot be read."""

    name: NamespaceName
    title: str
    state: NamespaceState
    store: StoreName | None = Field(
        description=(
            "Null: the namespace's entry in the registry cannot be read, and this master does not "
            "know the state."
        )
    )
    leader: str | None = Field(description="ID of the master that leads. Null: none.")
    ready: Count | None
    running: Count | None
    waiting: Count | None = Field(description="Jobs that wait for any reason, including ready jobs.")
    oldest_wait_s: float | None = Field(
        ge=0,
        description=("Longest wait of a ready job. Null: there is no ready job, or its wait is unknown."),
    )
    waiting_quota: float | None = Field(
        ge=0,
        description="Used share of the quota of waiting jobs. 1: the quota is full. Null: there is no quota.",
    )
    failures: Count | None = Field(description="Attempts that failed in this hour and in the previous hour.")
    fault: str | None = Field(
        description=(
            "Reason why the data cannot be read, or the fault of the namespace's entry in the "
            "registry with its remedy."
        )
    )
    failed_move: str | None = Field(
        description=(
            "Reason why the newest move failed. Shown for a week, or until the next move. Null: the move "
            "did not fail."
        )
    )


class Overview(Answer):
    """All namespaces, `default` first and the others by name."""

    namespaces: list[OverviewEntry]
