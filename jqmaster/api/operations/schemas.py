"""HTTP models of masters, the audit log, and the state of this process."""

from typing import Any, Literal

from pydantic import Field

from jqmaster.api.schemas import Answer, Count, Timestamp
from jqmaster.config import Durability


class MasterView(Answer):
    """A master process."""

    id: str = Field(description="ID that the process chose when it started.")
    role: Literal["leader", "sub_leader", "follower"] = Field(
        description="The leader dispatches jobs. The sub-leader watches it and takes over next. All masters serve "
        "the whole API."
    )
    state: Literal["fresh", "stale"] = Field(description="fresh: live. stale: no sign of life recently.")
    node_id: str = Field(description="Name of the machine: the setting node_id, or the host name.")
    pid: int
    url: str = Field(description="URL at which other masters reach it.")
    version: str
    started_at: Timestamp
    last_seen_at: Timestamp


class MasterList(Answer):
    """All masters of the store. A master that died is listed for one more minute."""

    masters: list[MasterView] = Field(description="Masters, longest-running first.")
    epoch: int = Field(description="Epoch of the newest leadership. 0 before the first election.")


class DemoteAnswer(Answer):
    """The leader was asked to hand over. When it has finished its current work, usually within a second, the
    other masters elect a new leader."""

    id: str
    epoch: int = Field(description="Epoch of the leadership that ends.")


class AuditEntryView(Answer):
    """One event. `before` is null if the target did not exist. `after` is null if the target no longer exists."""

    id: str
    log: Literal["changes", "access"] = Field(
        description="access: logins, sessions, tokens, users and the access settings. changes: everything else."
    )
    at: Timestamp
    times: int = Field(
        ge=1,
        description="Number of occurrences. Repeated logins, logouts and refused logins share one entry for an hour.",
    )
    since: Timestamp = Field(
        description=("Time of the first occurrence. `at` is the time of the last occurrence.")
    )
    who: str = Field(
        description=(
            "A user: `user:NAME`. A token: `token:ID`, or `token:` with the first 8 digits of its "
            "SHA-256 if the token is from the settings. `local`: neither users nor tokens exist. "
            "`master` with an ID: a master acted by itself. `unknown`: a refused login without a "
            "user name."
        )
    )
    action: str = Field(
        description="constraint.put, constraint.delete, constraint.value, master.demote, master.take_over, "
        "settings.change, session.login, session.refused, session.logout. Future releases may add values."
    )
    target: str = Field(
        description="Object that was changed, such as the name of a constraint or the ID of a master."
    )
    before: Any
    after: Any


class AuditPage(Answer):
    """A page of entries, newest first. The page may have few entries, or none, although more pages follow
    (`next_cursor`).

    With `after`, the oldest entry comes first, and `next_cursor` is the `after` of the next call, now or later.
    """

    entries: list[AuditEntryView]
    next_cursor: str | None = Field(description="Cursor of the next page. Null on the last page.")
    follow_from: str | None = Field(
        description="Only on the first page: the value of `after` that returns entries written from now on."
    )


class Health(Answer):
    """Sign of life of the process."""

    status: Literal["ok"]
    id: str = Field(description="ID of this process, as in the list of masters. A restart changes it.")


class HealthFindingView(Answer):
    """A finding: a fault, or a reason why jobs wait."""

    key: str = Field(
        description=(
            "ID of the finding while it lasts. The ID changes if the finding becomes worse. Older "
            "masters omit this field."
        )
    )
    code: str = Field(description="Kind of the finding. Future releases may add values.")
    severity: Literal["bad", "warn", "info"] = Field(
        description=(
            "bad: jobs do not start, or may be lost. warn: something needs attention. info: jobs "
            "wait because of a decision, such as a limit or a pause, or a worker was replaced."
        )
    )
    text: str = Field(description="The finding and its likely cause, in English.")
    command: str = Field(description="Command that shows more, as the next step.")
    jobs: Count = Field(description="Number of affected jobs, if it is known.")
    figures: dict[str, str | int | float | None] = Field(
        description="Values for translations of the text. There may be more values than the text contains."
    )


class HealthVerdictView(Answer):
    """Health of the whole queue, in words."""

    at: Timestamp | None = Field(description="Store time of the facts. Null if the store does not answer.")
    status: Literal["ok", "waiting", "degraded", "broken"] = Field(
        description=(
            "waiting: jobs wait because of a decision, and nothing is broken. degraded: the worst "
            "finding is a warning. broken: the worst finding is bad."
        )
    )
    text: str = Field(
        description=("The verdict: the text of the worst finding, or a statement that all is well.")
    )
    command: str | None = Field(description="Command of the worst finding. Null if there is none.")
    findings: list[HealthFindingView] = Field(description="Findings, the worst first.")


class Readiness(Answer):
    """State of this master: ready if it makes progress."""

    status: Literal["ready", "not_ready"]
    durability: Durability = Field(
        description=(
            "Durability that a 201 guarantees: the configured level, or a lower level while the "
            "store cannot provide it."
        )
    )
    durability_available: Durability = Field(
        description=(
            "Highest durability that the store provides, according to the latest probe. A push may request "
            "a level up to this one."
        )
    )
    leader: bool = Field(description="True: this master leads.")
    store: str = Field(
        description="`serving`, or the fault of the store. Without scope read, the fault is shown as `not serving`."
    )
    faults: list[str] = Field(
        description=(
            "Faults that prevent readiness, by failed check: process, space, fitness, durability, "
            "leader, store or dispatcher. For a namespace that is not served: the code of the "
            "refusal, such as namespace_faulted. Without the scope read, only these names. Future "
            "releases may add values."
        )
    )
    duty_faults: list[str] = Field(
        description=(
            "Faults that do not prevent readiness: side duties of this master or of the leader that "
            "keep failing, such as notices or the log archive, and other namespaces that are not "
            "served. Without the scope read, only their names."
        )
    )
