"""Incidents: they combine similar findings of a condition into few messages with correct counts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from jqmaster.domain.notices.notice import GroupBy, Notice

# The first message about occurrences is delayed this long, so that it includes further occurrences.
GATHER_MS: Final = 10_000
MAX_LINES: Final = 10
# While a condition lasts, the time at which it was last seen is updated this often. Its end is known with this
# precision.
SEEN_EVERY_MS: Final = 30_000
# Groups beyond this number share one incident.
MAX_INCIDENTS: Final = 50
OTHERS: Final = "others"
# Maximum number of messages that views show.
MAX_RECENT: Final = 10


class MessageKind(StrEnum):
    """The occasion of a message."""

    FIRST = "first"
    # There were further findings since the last message.
    MORE = "more"
    # A lasting condition has ended.
    OVER = "over"
    # An operator asked for a test message.
    TEST = "test"


@dataclass(frozen=True, slots=True)
class NoticeIncidentItem:
    """One finding of a condition. `line`: a short text, which is equal for similar findings."""

    name: str
    line: str
    at_ms: int
    job_id: str = ""
    failure_group: str = ""


@dataclass(slots=True)
class Line:
    """Similar findings. The job `job_id` is an example."""

    text: str
    count: int
    job_id: str = ""


@dataclass(slots=True)
class NoticeIncident:
    """Findings of one group that belong together.

    * `told_ms`: the time of the last message; 0 if there is none yet.
    * `is_present`: the last check found the lasting condition.
    * `is_over`: the last message reported its end.
    * `acknowledged_by`: empty if nobody has acknowledged it.
    """

    key: str
    began_ms: int
    last_ms: int
    count: int = 0
    lines: list[Line] = field(default_factory=list)
    told_count: int = 0
    told_ms: int = 0
    is_present: bool = True
    is_over: bool = False
    acknowledged_by: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One message.

    * `count` and `new`: findings since the incident began, and since the last message.
    * `lines`: text, count and example of the most frequent findings.
    """

    id: str
    kind: MessageKind
    at_ms: int
    key: str = ""
    count: int = 0
    new: int = 0
    began_ms: int = 0
    last_ms: int = 0
    lines: tuple[tuple[str, int, str], ...] = ()
    asked_by: str = ""


@dataclass(slots=True)
class NoticeState:
    """The state of a notice: open incidents by key, messages to send, and the newest sent messages."""

    incidents: dict[str, NoticeIncident] = field(default_factory=dict)
    pending: list[Message] = field(default_factory=list)
    recent: list[Message] = field(default_factory=list)

    def add(self, notice: Notice, findings: Iterable[NoticeIncidentItem]) -> None:
        """Count findings of a condition that is not lasting."""
        for found in findings:
            incident = self._incident(_key(notice, found), found.at_ms)
            incident.began_ms = min(incident.began_ms, found.at_ms)
            incident.last_ms = max(incident.last_ms, found.at_ms)
            incident.count += 1
            _add_line(incident, found)

    def look(self, notice: Notice, findings: Sequence[NoticeIncidentItem], now_ms: int) -> None:
        """Update the incidents of a lasting condition. `findings`: all present findings."""
        groups: dict[str, list[NoticeIncidentItem]] = {}
        for found in findings:
            groups.setdefault(_key(notice, found), []).append(found)
        present: set[str] = set()
        for key, group in groups.items():
            incident = self._incident(key, group[0].at_ms)
            if incident.is_over and not incident.is_present:
                incident.began_ms = group[0].at_ms
                incident.lines = []
            is_told = incident.told_ms > 0 and not incident.is_over
            if not is_told and incident.key not in present:
                incident.lines, incident.count = [], 0
            present.add(incident.key)
            if now_ms >= incident.last_ms + SEEN_EVERY_MS:
                incident.last_ms = now_ms
            # Do not count further findings of a reported incident. Otherwise, every check would write it to the store.
            for found in () if is_told else group:
                incident.count += 1
                _add_line(incident, found)
        for incident in self.incidents.values():
            incident.is_present = incident.key in present

    def advance(self, notice: Notice, now_ms: int) -> list[Message]:
        """Close incidents that are over, and return the messages that are due, without IDs. They are not added to
        `pending`."""
        due = []
        is_muted = notice.is_muted(now_ms)
        for key, incident in list(self.incidents.items()):
            if _is_closed(notice, incident, now_ms):
                del self.incidents[key]
                continue
            kind = (
                _due_lasting(notice, incident, now_ms)
                if notice.is_lasting
                else _due(notice, incident, now_ms)
            )
            if kind is None:
                continue
            is_told = not (is_muted or incident.acknowledged_by)
            if is_told:
                due.append(_message(incident, kind, now_ms))
            # A lasting condition may begin while the notice is muted. If it still lasts when the mute ends, it is
            # reported then. Nothing else is reported later.
            if is_told or not (notice.is_lasting and kind is MessageKind.FIRST):
                incident.told_ms, incident.told_count = now_ms, incident.count
                incident.is_over = kind is MessageKind.OVER
        return due

    def sent(self, messages: Sequence[Message]) -> None:
        """Move these messages from `pending` to `recent`, because the jobs that deliver them have been enqueued."""
        ids = {message.id for message in messages}
        self.pending = [message for message in self.pending if message.id not in ids]
        self.recent = [*self.recent, *messages][-MAX_RECENT:]

    def _incident(self, key: str, at_ms: int) -> NoticeIncident:
        if key not in self.incidents and len(self.incidents) >= MAX_INCIDENTS:
            key = OTHERS
        return self.incidents.setdefault(key, NoticeIncident(key, at_ms, at_ms))


def _is_closed(notice: Notice, incident: NoticeIncident, now_ms: int) -> bool:
    """Return whether there is nothing more to report about the incident."""
    every_ms = notice.at_most_every_s * 1000
    is_quiet = incident.told_ms > 0 and now_ms >= incident.told_ms + every_ms
    if notice.is_lasting:
        return not incident.is_present and (not incident.told_ms or (incident.is_over and is_quiet))
    if incident.told_ms:
        return is_quiet and incident.count == incident.told_count
    return incident.count < notice.threshold and now_ms >= incident.began_ms + every_ms


def _due(notice: Notice, incident: NoticeIncident, now_ms: int) -> MessageKind | None:
    if incident.told_ms:
        is_time = now_ms >= incident.told_ms + notice.at_most_every_s * 1000
        return MessageKind.MORE if is_time and incident.count > incident.told_count else None
    is_time = incident.count >= notice.threshold and now_ms >= incident.began_ms + GATHER_MS
    return MessageKind.FIRST if is_time else None


def _due_lasting(notice: Notice, incident: NoticeIncident, now_ms: int) -> MessageKind | None:
    is_time = now_ms >= incident.told_ms + notice.at_most_every_s * 1000
    if not incident.told_ms or (incident.is_over and is_time):
        return MessageKind.FIRST if incident.is_present else None
    is_end = not incident.is_present and not incident.is_over and is_time
    return MessageKind.OVER if is_end else None


def _message(incident: NoticeIncident, kind: MessageKind, now_ms: int) -> Message:
    most = sorted(incident.lines, key=lambda line: -line.count)
    return Message(
        id="",
        kind=kind,
        at_ms=now_ms,
        key=incident.key,
        count=incident.count,
        new=incident.count - incident.told_count,
        began_ms=incident.began_ms,
        last_ms=incident.last_ms,
        lines=tuple((line.text, line.count, line.job_id) for line in most),
    )


def _key(notice: Notice, found: NoticeIncidentItem) -> str:
    match notice.group_by:
        case GroupBy.NAME:
            return found.name
        case GroupBy.FAILURE_GROUP:
            return found.failure_group
    return ""


def _add_line(incident: NoticeIncident, found: NoticeIncidentItem) -> None:
    for line in incident.lines:
        if line.text == found.line:
            line.count += 1
            line.job_id = found.job_id or line.job_id
            return
    if len(incident.lines) < MAX_LINES:
        incident.lines.append(Line(found.line, 1, found.job_id))
