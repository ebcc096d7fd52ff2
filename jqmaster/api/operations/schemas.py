"""How masters, the audit log and the state of this process are shown."""

from typing import Any, Literal

from pydantic import Field

from jqmaster.api.schemas import Answer, Timestamp
from jqmaster.config import Durability


class MasterView(Answer):
    """A master process."""

    id: str = Field(description="Made at its start.")
    role: Literal["leader", "sub_leader", "follower"] = Field(
        description="The leader dispatches; the sub-leader watches it and is the next; all serve the whole API."
    )
    state: Literal["fresh", "stale"] = Field(description="Stale: no sign of life lately.")
    node_id: str = Field(description="The machine, by the setting node_id or its host name.")
    pid: int
    url: str = Field(description="Where other masters reach it.")
    version: str
    started_at: Timestamp
    last_seen_at: Timestamp


class MasterList(Answer):
    """The masters of the store; one that died is listed for a minute."""

    masters: list[MasterView] = Field(description="The longest running first.")
    epoch: int = Field(description="Of the newest leadership; 0 before the first.")


class DemoteAnswer(Answer):
    """The leader was told; the others elect as soon as it has ended its work, in less than a second as a rule."""

    id: str
    epoch: int = Field(description="Of the leadership that ends.")


class AuditEntryView(Answer):
    """One event. `before` null: there was nothing; `after` null: nothing is left."""

    id: str
    log: Literal["changes", "access"] = Field(
        description="access: logins, sessions, tokens, users and the settings of access, which are kept apart from all other "
        "changes."
    )
    at: Timestamp
    times: int = Field(
        ge=1,
        description="How often it happened. Repeated logins, logouts and refused logins share an entry for an hour.",
    )
    since: Timestamp = Field(description="The first of these times; `at` is the last.")
    who: str = Field(
        description="`user:NAME`; `token:ID`, or for a token of the settings the first 8 digits of its SHA-256; `local` where "
        "neither users nor tokens exist; `master` and an ID where a master acted by itself; `unknown` for a refused login that "
        "named no user."
    )
    action: str = Field(
        description="constraint.put, constraint.delete, constraint.value, master.demote, master.take_over, settings.change, "
        "session.login, session.refused, session.logout; more may come."
    )
    target: str = Field(
        description="What was changed, such as the name of a constraint or the ID of a master."
    )
    before: Any
    after: Any


class AuditPage(Answer):
    """Newest first. A page may be short, even empty, while `next_cursor` says that there is more.

    With `after`: the oldest first, and `next_cursor` is where the next call goes on, now or later.
    """

    entries: list[AuditEntryView]
    next_cursor: str | None = Field(description="Null: that was all.")
    follow_from: str | None = Field(
        description="On the first page: the value of `after` that gives what is written from now on."
    )


class Health(Answer):
    """The process answers."""

    status: Literal["ok"]
    id: str = Field(description="Of this process, as in the list of masters; another one after a restart.")


class Readiness(Answer):
    """Whether this master makes progress."""

    status: Literal["ready", "not_ready"]
    durability: Durability = Field(
        description="What a 201 promises here: the configured level, or less while the store does not give it."
    )
    durability_available: Durability = Field(
        description="The most that the store gives, as last probed: what a push may ask for."
    )
    leader: bool = Field(description="Whether this master leads.")
    store: str = Field(
        description="`serving`, or what is wrong with it; without scope read `not serving` says no more."
    )
    faults: list[str] = Field(
        description="What is in the way; without scope read only the names of the checks that failed: process, space, "
        "fitness, durability, leader, store, dispatcher; more may come."
    )
