"""Selects the findings of conditions for notices."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from jqmaster.domain.jobs.job_terms import MAX_RETRY, PRIORITY, TIMEOUT_S
from jqmaster.domain.matching.fields import JobFields
from jqmaster.domain.notices.incident import NoticeIncidentItem
from jqmaster.domain.notices.notice import Notice
from jqmaster.store import codec

_NOTHING: Final = codec.pack(None)


@dataclass(frozen=True, slots=True)
class MatchableFinding:
    """A finding with the fields that matchers read. `lasted_ms`: how long a lasting condition has held so far."""

    finding: NoticeIncidentItem
    fields: JobFields
    lasted_ms: int = 0


def of_name(name: str) -> JobFields:
    """Return the fields of an object that has only a name."""
    return JobFields(
        name=name,
        priority=PRIORITY.default,
        tags=(),
        max_retry=MAX_RETRY.default,
        timeout_s=TIMEOUT_S.default,
        keep_result=False,
        headers={},
        argument=_NOTHING,
        decode=codec.pack,
    )


def selected(notice: Notice, seen: Iterable[MatchableFinding]) -> Sequence[NoticeIncidentItem]:
    """Return the findings that match the notice and, for a lasting condition, have lasted long enough."""
    least_ms = notice.threshold * 1000 if notice.is_lasting else 0
    matcher = notice.matcher
    return [
        one.finding
        for one in seen
        if one.lasted_ms >= least_ms and (matcher is None or matcher.matches(one.fields))
    ]
