"""The complete list of conditions of notices."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class When(StrEnum):
    """The condition of a notice."""

    JOB_FAILED = "job_failed"
    NEW_FAILURE_GROUP = "new_failure_group"
    FAILURE_REOPENED = "failure_reopened"
    CHALLENGE_WAITING = "challenge_waiting"
    CHALLENGE_EXPIRED = "challenge_expired"
    DEFINITION_MISSED = "definition_missed"
    WORKER_LOST = "worker_lost"
    LEADER_CHANGED = "leader_changed"
    BACKLOG_AGE = "backlog_age"
    CONSTRAINT_SATURATED = "constraint_saturated"
    STORE_UNHEALTHY = "store_unhealthy"
    CALENDAR_ENDS = "calendar_ends"
    LOG_ARCHIVE_BEHIND = "log_archive_behind"
    DUTY_FAILING = "duty_failing"
    QUOTA_NEARLY_USED = "quota_nearly_used"
    STORE_DOWN = "store_down"
    NAMESPACE_DOWN = "namespace_down"
    MOVE_FAILED = "move_failed"


# A matcher may read these fields. Fields with content are excluded, because people who are notified about a job may not
# be allowed to see its content.
_OF_JOBS: Final = ("name", "priority", "tags", "max_retry", "timeout", "keep_result")
_OF_NAMES: Final = ("name",)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeCondition:
    """One condition of notices.

    * `is_lasting`: it lasts for a time. One message reports its beginning, and another one its end. All other
      conditions are single occurrences, which are counted.
    * `texts`: two sentences, for the beginning and the end of a lasting condition. For other conditions, the noun in
      singular and plural.
    * `page` and `query`: the page of the web UI with details.
    * `matched`: the fields that matchers may read. Empty: the condition has no names and takes no matcher.
    * `every_s`: the least seconds between two checks, if a check is expensive.
    * `is_of_installation`: it concerns all namespaces. Only notices of the default namespace report it.
    """

    when: When
    texts: tuple[str, str]
    page: str
    query: Mapping[str, str] = field(default_factory=dict)
    is_lasting: bool = False
    matched: tuple[str, ...] = ()
    has_failure_groups: bool = False
    every_s: float = 0.0
    is_of_installation: bool = False


_ALL: Final = (
    NoticeCondition(
        when=When.JOB_FAILED, texts=("job failed", "jobs failed"), page="failures", matched=_OF_JOBS,
        has_failure_groups=True,
    ),
    NoticeCondition(
        when=When.NEW_FAILURE_GROUP, texts=("new kind of failure", "new kinds of failures"), page="failures",
        matched=_OF_JOBS, has_failure_groups=True,
    ),
    NoticeCondition(
        when=When.FAILURE_REOPENED,
        texts=("resolved kind of failure came back", "resolved kinds of failures came back"), page="failures",
        matched=_OF_JOBS, has_failure_groups=True,
    ),
    NoticeCondition(
        when=When.CHALLENGE_WAITING, texts=("question waits for an answer", "questions wait for an answer"),
        page="challenges", query={"state": "processing"}, matched=_OF_JOBS,
    ),
    NoticeCondition(
        when=When.CHALLENGE_EXPIRED,
        texts=("job failed without its callback", "jobs failed without their callbacks"), page="jobs",
        query={"state": "failed"}, matched=_OF_JOBS, has_failure_groups=True,
    ),
    NoticeCondition(
        when=When.DEFINITION_MISSED,
        texts=("instant of a definition missed", "instants of definitions missed"), page="definitions",
        query={"state": "troubled"}, matched=_OF_NAMES, every_s=20.0,
    ),
    NoticeCondition(when=When.WORKER_LOST, texts=("worker detached", "workers detached"), page="workers", every_s=4.0),
    NoticeCondition(when=When.LEADER_CHANGED, texts=("change of leader", "changes of leader"), page="masters"),
    NoticeCondition(
        when=When.BACKLOG_AGE, texts=("Jobs wait too long", "Jobs no longer wait too long"), page="names",
        is_lasting=True, matched=_OF_NAMES,
    ),
    NoticeCondition(
        when=When.CONSTRAINT_SATURATED,
        texts=("Constraints hold jobs back", "Constraints no longer hold jobs back"), page="constraints",
        is_lasting=True, matched=_OF_NAMES,
    ),
    NoticeCondition(
        when=When.STORE_UNHEALTHY, texts=("The store is not healthy", "The store is healthy again"),
        page="overview", is_lasting=True,
    ),
    NoticeCondition(
        when=When.CALENDAR_ENDS, texts=("Calendars have to be renewed", "Calendars are renewed"), page="calendars",
        is_lasting=True, matched=_OF_NAMES,
    ),
    NoticeCondition(
        when=When.LOG_ARCHIVE_BEHIND, texts=("Logs wait for the archive", "Logs no longer wait for the archive"),
        page="masters", is_lasting=True,
    ),
    NoticeCondition(
        when=When.DUTY_FAILING, texts=("Duties of a master fail", "The duties of the master work again"),
        page="overview", is_lasting=True,
    ),
    NoticeCondition(
        when=When.QUOTA_NEARLY_USED,
        texts=("A quota of the namespace is nearly used up", "The quotas of the namespace have room again"),
        page="overview", is_lasting=True,
    ),
    NoticeCondition(
        when=When.STORE_DOWN, texts=("Stores of namespaces are down", "The stores of namespaces work again"),
        page="namespaces", is_lasting=True, matched=_OF_NAMES, is_of_installation=True,
    ),
    NoticeCondition(
        when=When.NAMESPACE_DOWN, texts=("Namespaces are not served", "The namespaces are served again"),
        page="namespaces", is_lasting=True, matched=_OF_NAMES, is_of_installation=True,
    ),
    NoticeCondition(
        when=When.MOVE_FAILED,
        texts=("Moves of namespaces have failed", "No failed move of a namespace is left"),
        page="namespaces", is_lasting=True, matched=_OF_NAMES, is_of_installation=True,
    ),
)  # fmt: skip
CONDITIONS: Final[Mapping[When, NoticeCondition]] = {one.when: one for one in _ALL}
