"""Reads incidents, and marks for charts, from the timeline and the audit log."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from jqmaster.domain.content.content import ContentAccess
from jqmaster.domain.operations.incidents import TimelineIncident, entry_text, incidents_of, title_of
from jqmaster.domain.operations.tally import TOTAL
from jqmaster.domain.operations.timeline import LeaderCause, TimelineEntry, TimelineKind
from jqmaster.errors import NotFoundError
from jqmaster.store.identity.audit import AuditEntry, AuditStore, encode_entry
from jqmaster.store.operations.history import KEEP_MS, STEP_MS, HistoryStore
from jqmaster.store.operations.timeline import TimelineStore

MAX_MARKS: Final = 200
# Changes up to this long before an incident are shown with the incident, because one of them may be the cause.
BEFORE_MS: Final = 10 * 60_000
# Maximum number of minutes that are read for the peaks of one incident.
MAX_MINUTES: Final = 240
# Maximum time from the audit entry about the end of a lead to the beginning of the next lead.
_LEAD_ENDED_WITHIN_MS: Final = 120_000
_PAGES: Final = 5
# Maps the actions of the audit log that become marks to the kind of the mark, and to words for what was done to the
# target. Pauses need no entry, because a pause is stored as a constraint.
_MARKED: Final[Mapping[str, tuple[str, str]]] = {
    "constraint.put": ("constraint", "changed constraint"),
    "constraint.value": ("constraint", "changed a value of constraint"),
    "constraint.delete": ("constraint", "deleted constraint"),
    "settings.change": ("settings", "changed"),
    "definition.pause": ("definition", "paused definition"),
    "definition.resume": ("definition", "resumed definition"),
    "worker.drain": ("worker", "drained worker"),
    "worker.resume": ("worker", "resumed worker"),
    "worker.detach": ("worker", "detached worker"),
    "notice.acknowledge": ("acknowledged", "acknowledged the open alerts of notice"),
}
_OF_CONSTRAINTS: Final = ("constraint", "pause", "resume")


@dataclass(frozen=True, slots=True)
class Mark:
    """A change that charts show on their time axis.

    * `kind`: `deploy`, `leader`, `incident`, `pause`, `resume`, or a kind of `_MARKED`.
    * `until_ms`: the end of an incident. None: it has not ended, or the mark has no end.
    * `matcher`, `reason`: the matcher and the reason of a pause or constraint, as far as the caller may see them.
    * `incident_id`: empty for kinds other than incidents.
    * `entry`: the entry of the timeline. None: the mark comes from the audit log.
    * `action`: the action in the audit log. Empty: the mark comes from the timeline.
    * `did`: the action in words, such as "drained worker". Empty if `action` is empty.
    * `is_new`: whether the action created the constraint.
    * `changed`: the fields of a constraint, or the settings, that the action changed.
    * `name`: the machine and the process of a worker, for actions on workers.
    """

    at_ms: int
    kind: str
    text: str
    subject: str
    by: str = ""
    until_ms: int | None = None
    reason: str = ""
    matcher: Any = None
    incident_id: str = ""
    entry: TimelineEntry | None = None
    action: str = ""
    did: str = ""
    is_new: bool = False
    changed: tuple[str, ...] = ()
    name: str = ""


@dataclass(frozen=True, slots=True)
class Marks:
    """A list of marks. `marks`: the oldest first. `is_whole`: False if marks were left out because there are too
    many."""

    marks: list[Mark]
    is_whole: bool


@dataclass(frozen=True, slots=True)
class IncidentPeaks:
    """Figures of an incident: the sums of failures and retries, and the largest backlog and wait. None: the leader took
    no sample."""

    failed: int
    retried: int
    backlog: int | None
    oldest_wait_ms: int | None


@dataclass(frozen=True, slots=True)
class IncidentStory:
    """One incident. `nearby`: the changes shortly before and during the incident. `peaks`: None if the counts of its
    minutes are no longer kept."""

    incident: TimelineIncident
    nearby: Marks
    peaks: IncidentPeaks | None


class TimelineService:
    """Reads incidents and marks, and acknowledges incidents. Methods raise what the stores raise."""

    def __init__(self, timeline: TimelineStore, audit: AuditStore, history: HistoryStore) -> None:
        self._timeline = timeline
        self._audit = audit
        self._history = history

    async def end_of_lead(self, master_id: str) -> tuple[LeaderCause, str]:
        """Return why this master no longer leads, and the name of the caller who demoted it. The name is empty if
        nobody did."""
        since_ms = await self._history.now_ms() - _LEAD_ENDED_WITHIN_MS
        page = await self._audit.page(
            limit=1, cursor=None, target=master_id, log="changes", since_ms=since_ms
        )
        match page.entries:
            case [AuditEntry(action="master.demote", who=who)]:
                return LeaderCause.DEMOTED, who
            case [AuditEntry(action="master.take_over")]:
                return LeaderCause.SILENT, ""
        return LeaderCause.ENDED, ""

    async def incidents(self, limit: int, *, sees_acts: bool) -> tuple[list[TimelineIncident], int | None]:
        """Return the newest incidents, and the time of the oldest entry of the timeline. None: the timeline is
        empty."""
        entries = await self._timeline.entries()
        happened = [one for one in entries if one.kind is not TimelineKind.ACKNOWLEDGED]
        incidents = incidents_of(entries)[:limit]
        if not sees_acts:
            incidents = list(map(_without_demoter, incidents))
        return incidents, happened[0].at_ms if happened else None

    async def incident(self, incident_id: str, access: ContentAccess, *, sees_acts: bool) -> IncidentStory:
        """Return one incident. `sees_acts`: whether the caller may read the audit log. Raise NotFoundError."""
        entries = await self._timeline.entries()
        incident = _named(incidents_of(entries), incident_id)
        now_ms = await self._history.now_ms()
        until_ms = incident.ended_ms or now_ms
        nearby = await self._marks(
            entries, incident.began_ms - BEFORE_MS, until_ms, access, sees_acts=sees_acts
        )
        # Leave out the incident's own entries, because the incident already contains them.
        others = [mark for mark in nearby.marks if mark.entry not in incident.entries]
        others = [mark for mark in others if mark.kind != "incident"]
        peaks = await self._peaks(incident.began_ms, until_ms, now_ms)
        if not sees_acts:
            incident = _without_demoter(incident)
        return IncidentStory(incident, Marks(others, nearby.is_whole), peaks)

    async def acknowledge(self, incident_id: str, note: str, *, who: str) -> None:
        """Record that somebody takes care of the incident. Raise NotFoundError."""
        incident = _named(incidents_of(await self._timeline.entries()), incident_id)
        now_ms = await self._history.now_ms()
        entry = TimelineEntry(TimelineKind.ACKNOWLEDGED, now_ms, incident.id, label=note, by=who)
        audit_entry = encode_entry(
            who=who, action="incident.acknowledge", target=incident.id, before=None, after={"note": note}
        )
        if not await self._timeline.acknowledge(incident.id, entry, audit_entry):
            raise _unknown(incident_id)

    async def marks(
        self, since_ms: int, until_ms: int | None, access: ContentAccess, *, sees_acts: bool
    ) -> Marks:
        """Return the newest marks between these instants, up to MAX_MARKS. `sees_acts`: whether the caller may read the
        audit log. Other callers see what was changed. They do not see who changed it, the reason, or the jobs that it
        concerns."""
        entries = await self._timeline.entries()
        until_ms = until_ms or await self._history.now_ms()
        return await self._marks(entries, since_ms, until_ms, access, sees_acts=sees_acts)

    async def _marks(
        self,
        entries: Sequence[TimelineEntry],
        since_ms: int,
        until_ms: int,
        access: ContentAccess,
        *,
        sees_acts: bool,
    ) -> Marks:
        found = [
            mark
            for mark in (*_of_incidents(entries), *_of_entries(entries))
            if mark.at_ms <= until_ms and (mark.until_ms or mark.at_ms) >= since_ms
        ]
        changes, is_whole = await self._changes(since_ms, until_ms, access)
        found = sorted([*found, *changes], key=lambda mark: mark.at_ms)
        if not sees_acts:
            found = list(map(_without_author, found))
        return Marks(found[-MAX_MARKS:], is_whole and len(found) <= MAX_MARKS)

    async def _changes(self, since_ms: int, until_ms: int, access: ContentAccess) -> tuple[list[Mark], bool]:
        """Return the marks from the audit log, and whether the search covered the whole period."""
        found: list[Mark] = []
        cursor: str | None = None
        for _ in range(_PAGES):
            page = await self._audit.page(
                limit=MAX_MARKS, cursor=cursor, log="changes", since_ms=since_ms,
                until_ms=until_ms if cursor is None else None,
            )  # fmt: skip
            found += [_change(one, access) for one in page.entries if one.action in _MARKED]
            cursor = page.next_cursor
            if cursor is None or len(found) >= MAX_MARKS:
                break
        return [mark for mark in found if mark.at_ms <= until_ms], cursor is None

    async def _peaks(self, began_ms: int, until_ms: int, now_ms: int) -> IncidentPeaks | None:
        step_ms = STEP_MS["minute"]
        if began_ms < now_ms - KEEP_MS["minute"]:
            return None
        first, last = began_ms // step_ms, until_ms // step_ms
        numbers = range(first, min(last, first + MAX_MINUTES - 1) + 1)
        counts = [one for one in await self._history.series(TOTAL, "minute", numbers) if one]
        backlog = max((one.backlog for one in counts), default=-1)
        oldest_ms = max((one.oldest_wait_ms for one in counts), default=-1)
        return IncidentPeaks(
            sum(one.failed for one in counts),
            sum(one.retried for one in counts),
            backlog if backlog >= 0 else None,
            oldest_ms if oldest_ms >= 0 else None,
        )


def _of_incidents(entries: Sequence[TimelineEntry]) -> list[Mark]:
    return [
        Mark(
            one.began_ms,
            "incident",
            title_of(one.entries),
            "",
            until_ms=one.ended_ms,
            incident_id=one.id,
            entry=one.entries[0],
        )
        for one in incidents_of(entries)
    ]


def _of_entries(entries: Sequence[TimelineEntry]) -> list[Mark]:
    kinds = {TimelineKind.VERSION_NEW: "deploy", TimelineKind.LEADER_CHANGED: "leader"}
    return [
        Mark(one.at_ms, kinds[one.kind], entry_text(one), one.subject, by=one.by, entry=one)
        for one in entries
        if one.kind in kinds
    ]


def _without_author(mark: Mark) -> Mark:
    """Return the mark in the form for callers who may not read the audit log."""
    if mark.entry is not None:
        entry = replace(mark.entry, by="")
        return replace(
            mark, by="", text=entry_text(entry) if mark.kind == "leader" else mark.text, entry=entry
        )
    return replace(
        mark,
        by="",
        text=f"Somebody {mark.did} {mark.name or mark.subject}.",
        reason="",
        matcher=None,
        changed=(),
    )


def _without_demoter(incident: TimelineIncident) -> TimelineIncident:
    """Return the incident in the form for callers who may not read the audit log. It still names the people who take
    care of the incident."""
    return replace(incident, entries=tuple(replace(entry, by="") for entry in incident.entries))


def _change(entry: AuditEntry, access: ContentAccess) -> Mark:
    before, after = access.audited(entry.action, entry.before), access.audited(entry.action, entry.after)
    kind, did = _MARKED[entry.action]
    is_paused, was_paused = _is_paused(after), _is_paused(before)
    if is_paused and not was_paused:
        kind, did = "pause", "began the pause"
    elif was_paused and not is_paused:
        kind, did = "resume", "ended the pause"
    is_new = entry.action == "constraint.put" and entry.before is None and kind == "constraint"
    if is_new:
        did = "created constraint"
    changed = _changed(before, after) if kind in ("constraint", "settings") else ()
    what = f": {', '.join(changed)}" if changed else ""
    shown = after if isinstance(after, Mapping) else before if isinstance(before, Mapping) else {}
    reason = shown.get("reason")
    name = f"{shown['node_id']}:{shown.get('pid')}" if kind == "worker" and shown.get("node_id") else ""
    return Mark(
        entry.at_ms,
        kind,
        f"{entry.who.removeprefix('user:')} {did} {name or entry.target}{what}.",
        entry.target,
        did=did,
        is_new=is_new,
        changed=changed,
        name=name,
        by=entry.who,
        reason=reason if isinstance(reason, str) else "",
        matcher=shown.get("matcher") if kind in _OF_CONSTRAINTS else None,
        action=entry.action,
    )


def _changed(before: Any, after: Any) -> tuple[str, ...]:
    """Return the names of the fields in which two documents differ."""
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return ()
    return tuple(key for key in sorted(before.keys() | after.keys()) if before.get(key) != after.get(key))


def _is_paused(value: Any) -> bool:
    return isinstance(value, Mapping) and value.get("paused") is True


def _named(incidents: Sequence[TimelineIncident], incident_id: str) -> TimelineIncident:
    found = next((one for one in incidents if one.has(incident_id)), None)
    if found is None:
        raise _unknown(incident_id)
    return found


def _unknown(incident_id: str) -> NotFoundError:
    return NotFoundError(f"no incident {incident_id[:64]}", code="unknown_incident")
