"""HTTP models of namespaces and stores."""

from typing import Annotated, Any

from pydantic import Field

from jqmaster.api.schemas import Answer, Count, Request
from jqmaster.domain.namespaces.namespace import (
    MAX_ARGUMENT_BYTES,
    MAX_TITLE,
    MAX_WAITING_JOBS,
    NAME_PATTERN,
    STORE_PATTERN,
    TAG_PATTERN,
    NamespaceState,
)

NamespaceName = Annotated[str, Field(pattern=NAME_PATTERN, examples=["shop"])]
StoreName = Annotated[str, Field(pattern=STORE_PATTERN, examples=["default"])]
_Tag = Annotated[str, Field(pattern=TAG_PATTERN, examples=["shop"])]


class QuotasRequest(Request):
    """Bounds of a namespace."""

    waiting_jobs: int | None = Field(
        None,
        ge=1,
        le=MAX_WAITING_JOBS,
        description="Number of waiting jobs at which pushes and events get 429 `namespace_full`. Masters count once a "
        "second, so more may wait for a moment. Null: no bound.",
    )
    argument_bytes: int | None = Field(
        None,
        ge=1,
        le=MAX_ARGUMENT_BYTES,
        description="Bytes that the argument of one job may have, in MessagePack. A push with a larger one gets 422 "
        "`argument_over_quota`. The setting `max_argument_bytes` applies, too. Null: only that.",
    )


class NamespaceRequest(Request):
    """A namespace to create or change."""

    # Checked by the domain, which says what is wrong with it.
    name: str | None = Field(None, max_length=200, description="Must be the name in the path, if given.")
    title: str = Field("", max_length=MAX_TITLE, description="Text for people, shown beside the name.")
    store: StoreName | None = Field(
        None,
        description="Configured store in which its data lie. Fixed once the namespace exists. Absent: the store of "
        "`redis_url`.",
    )
    tag: _Tag | None = Field(
        None,
        description="Hash tag of its keys, as the setting `shard` of an installation. Fixed once the namespace exists. "
        "If the store has data with this tag, the namespace takes them over. Absent: its name, and the store must not "
        "have such data.",
    )
    quotas: QuotasRequest | None = Field(None, description="Absent: no bounds.")
    state: str | None = Field(
        None, max_length=20, description="Ignored, so that a namespace can be sent back as it was shown."
    )
    version: int | None = Field(None, description="Ignored, as `state`.")
    move: dict[str, Any] | None = Field(None, description="Ignored, as `state`.")


class QuotasView(Answer):
    """Bounds of a namespace."""

    waiting_jobs: int | None = Field(description="Number of waiting jobs at which pushes are refused.")
    argument_bytes: int | None = Field(description="Bytes that the argument of one job may have.")


class NamespaceView(Answer):
    """A namespace."""

    name: NamespaceName
    title: str
    store: StoreName = Field(description="Configured store in which its data lie.")
    tag: _Tag = Field(description="Hash tag of its keys.")
    state: NamespaceState = Field(
        description="open: masters serve it. closed: an operator closed it; its data stay. moving: its data are being "
        "moved to another store. faulted: not in use."
    )
    quotas: QuotasView
    version: int = Field(
        ge=0, description="Grows with each change; 0: nobody has changed it. Value for `If-Match`."
    )


class NamespaceList(Answer):
    """All namespaces, `default` first and the others by name."""

    namespaces: list[NamespaceView]


class StoreView(Answer):
    """A configured store, as the master that answers sees it. Its address and credentials are in the configuration of
    the masters, and in no answer."""

    name: StoreName
    topology: str = Field(description="single, sentinel or cluster.")
    server: str = Field(description="Kind and version. Empty: it has not answered since the master started.")
    faults: dict[str, str] = Field(
        description="Why it does not answer (`away`) or takes no new jobs, by failed check. Empty: it works."
    )
    used_memory_bytes: Count | None
    max_memory_bytes: Count | None = Field(description="Null: it has no limit, or does not show it.")
    namespaces: list[NamespaceName] = Field(description="Names of the namespaces whose data lie there.")


class StoreList(Answer):
    """The configured stores, `default` first."""

    stores: list[StoreView]


class OverviewEntry(Answer):
    """A namespace with its present figures. All figures are null if its data cannot be read; `fault` tells why."""

    name: NamespaceName
    title: str
    state: NamespaceState
    store: StoreName
    leader: str | None = Field(description="ID of the master that leads. Null: none.")
    ready: Count | None
    running: Count | None
    waiting: Count | None = Field(description="Jobs that wait, whatever for: ready ones are among them.")
    oldest_wait_s: float | None = Field(
        ge=0, description="How long the first of the ready jobs has waited. Null: none, or it is not known."
    )
    waiting_quota: float | None = Field(
        ge=0,
        description="Share of the quota of waiting jobs that is used: 1 means full. Null: there is no quota.",
    )
    failures: Count | None = Field(description="Attempts that failed in this hour and the one before.")
    fault: str | None


class Overview(Answer):
    """All namespaces, `default` first and the others by name."""

    namespaces: list[OverviewEntry]
