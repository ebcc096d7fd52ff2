"""Finds data about a person: searches jobs, and everything that jobs leave behind, for texts that identify the
person."""

import base64
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgpack

from jqmaster.clock import Clock
from jqmaster.domain.content.content import ContentAccess
from jqmaster.domain.content.job_content import JobContent
from jqmaster.domain.jobs.job import FINISHED, JobState
from jqmaster.domain.logs.lines import RANK, LogLevel
from jqmaster.domain.personal_data.identifiers import Identifiers, is_sealed
from jqmaster.errors import InvalidError
from jqmaster.service.jobs.failures import FailureReader
from jqmaster.store.events.events import EventPosition, EventStore
from jqmaster.store.health.inspect import Inspector
from jqmaster.store.notices.notices import NoticeStore
from jqmaster.store.personal_data.holdings import HoldingStore, JobHoldings

# Time after which a call ends. The next call continues where it ended.
SEARCH_WITHIN_S: Final = 0.3
# Maximum number of paths that are returned for one object. Further paths are only counted.
MAX_PATHS: Final = 20
_EVENTS_PER_READ: Final = 100
_PLACES: Final = ("jobs", "events", "failure_groups", "notices")
_NEWEST: Final = 2**52


class _SearchPosition(NamedTuple):
    """The position at which the next call continues: the number of a place in `_PLACES`, a cursor within the place, and
    the number of objects at the cursor that are done."""

    place: int = 0
    cursor: str = "0"
    done: int = 0


@dataclass(frozen=True, slots=True)
class FoundObject:
    """An object that contains one of the texts.

    * `place`: the kind of the object: job, event, failure_group or notice.
    * `state`: the state of a job. None: the object is not a job.
    * `paths`: the paths at which the object contains a text, up to MAX_PATHS.
    * `more`: the number of further paths.
    """

    place: str
    id: str
    name: str
    paths: Sequence[str]
    more: int = 0
    state: JobState | None = None

    @property
    def is_over(self) -> bool:
        """Return whether the object is a job that has ended, so that its values can be erased."""
        return self.state in FINISHED


@dataclass(slots=True)
class SearchOutcome:
    """The outcome of one call.

    * `searched`: the numbers of searched objects, by kind: `jobs`, `log_lines`, `events`, `failure_groups`, `notices`.
    * `unread`: the numbers of objects that the call could not search, by kind: `sealed_values`, `damaged_jobs`,
      `archived_logs`.

    * `total_jobs`: the number of all jobs.
    * `cursor`: for the next call. None: the search is complete.
    """

    found: list[FoundObject] = field(default_factory=list)
    searched: Counter[str] = field(default_factory=Counter)
    unread: Counter[str] = field(default_factory=Counter)
    total_jobs: int = 0
    cursor: str | None = None


class PersonalDataSearch:
    """Searches for texts, one part in each call. Methods raise what the stores raise."""

    def __init__(
        self,
        holdings: HoldingStore,
        clock: Clock,
        *,
        events: EventStore,
        failures: FailureReader,
        notices: NoticeStore,
        inspector: Inspector,
    ) -> None:
        self._holdings = holdings
        self._events = events
        self._failures = failures
        self._notices = notices
        self._inspector = inspector
        self._clock = clock

    async def part(
        self, identifiers: Identifiers, access: ContentAccess, cursor: str | None
    ) -> SearchOutcome:
        """Search the next part. `access`: the caller's access. Values that are redacted for the caller are not
        searched. Raise InvalidError for a cursor that no call has returned."""
        at = _SearchPosition() if cursor is None else _decode(cursor)
        part = SearchOutcome(total_jobs=sum((await self._inspector.counts()).values()))
        ends_at_s = self._clock.monotonic_s() + SEARCH_WITHIN_S
        search = _Search(identifiers, access, part)
        steps = (self._jobs, self._events_step, self._failure_groups, self._notices_step)
        while True:
            following = await steps[at.place](search, at)
            if following is not None:
                at = following
            elif at.place + 1 < len(_PLACES):
                at = _SearchPosition(at.place + 1)
            else:
                return part
            if self._clock.monotonic_s() >= ends_at_s:
                part.cursor = _encode(at)
                return part

    async def _jobs(self, search: "_Search", at: _SearchPosition) -> _SearchPosition | None:
        # Finish a step once it has begun: if it were read again, the store could return other jobs.
        ids, following = await self._holdings.ids(at.cursor)
        async for jobs, damaged in self._holdings.jobs(ids):
            search.part.unread["damaged_jobs"] += damaged
            for one in jobs:
                await self._job(search, one)
        return _SearchPosition(at.place, following) if following else None

    async def _job(self, search: "_Search", one: JobHoldings) -> None:
        content = JobContent(search.access, one.job)
        paths = list(search.of_job(one, content))
        if one.has_log and await self._log_has(search, one.job.id, content):
            paths.append("log")
        search.part.searched["jobs"] += 1
        if paths:
            job = one.job
            search.found("job", job.id, job.name, paths, job.state)

    async def _log_has(self, search: "_Search", job_id: str, content: JobContent) -> bool:
        has, after = False, 0
        while (read := await self._holdings.log(job_id, after)) is not None:
            lines, facts, following = read
            search.part.unread["archived_logs"] += not after and facts.archived > 0
            search.part.searched["log_lines"] += len(lines)
            for line in lines:
                is_error = line.rank >= RANK[LogLevel.ERROR]
                has = has or search.is_in(content.log_line(line.text, is_error=is_error))
            if following is None:
                break
            after = following
        return has

    async def _events_step(self, search: "_Search", at: _SearchPosition) -> _SearchPosition | None:
        received_ms = int(at.cursor) or _NEWEST
        page = await self._events.page(EventPosition(received_ms, at.done), _EVENTS_PER_READ)
        for stored in page.events:
            event = stored.event
            payload = search.access.redactor.encoded("argument", event.payload)
            paths = list(search.in_encoded("payload", payload))
            texts = {"subject": event.subject, "source": event.source, "dedupe_key": event.dedupe_key}
            paths += [name for name, text in texts.items() if search.is_in(text)]
            if paths:
                search.found("event", event.id, event.event_type, paths)
        search.part.searched["events"] += len(page.events)
        place = page.next_position
        return None if place is None else _SearchPosition(at.place, str(place.received_at_ms), place.passed)

    async def _failure_groups(self, search: "_Search", at: _SearchPosition) -> _SearchPosition | None:
        groups = await self._failures.groups(search.access)
        for shown in await self._failures.shown(groups, search.access):
            group = shown.group
            texts = {
                "message": None if shown.is_hidden else shown.message,
                "ignored.reason": group.ignore.reason if group.ignore else None,
                "assigned.assignee": group.assignment.assignee if group.assignment else None,
            }
            paths = [name for name, text in texts.items() if search.is_in(text)]
            if paths:
                search.found("failure_group", group.id, group.name, paths)
        search.part.searched["failure_groups"] += len(groups)
        return None

    async def _notices_step(self, search: "_Search", at: _SearchPosition) -> _SearchPosition | None:
        states = await self._notices.all()
        for name, stored in states.states.items():
            state = stored.state
            paths = [
                "incidents"
                for one in state.incidents.values()
                if search.is_in(one.key) or any(search.is_in(line.text) for line in one.lines)
            ][:1]
            messages = [*state.pending, *state.recent]
            paths += [
                "messages"
                for one in messages
                if search.is_in(one.key) or any(search.is_in(line[0]) for line in one.lines)
            ][:1]
            if paths:
                search.found("notice", name, name, paths)
        search.part.searched["notices"] += len(states.states)
        return None


class _Search:
    """One call of a search: the texts to find, the caller's access, and the findings so far."""

    def __init__(self, identifiers: Identifiers, access: ContentAccess, part: SearchOutcome) -> None:
        self._identifiers = identifiers
        self.access = access
        self.part = part

    def is_in(self, text: str | None) -> bool:
        return text is not None and self._identifiers.occur_in(text)

    def in_encoded(self, root: str, encoded: bytes | None) -> Iterator[str]:
        """Yield the paths at which an encoded value contains one of the texts. `encoded`: None if the caller may not
        see the value."""
        if encoded is None:
            return
        value = _decoded(encoded)
        self.part.unread["sealed_values"] += is_sealed(value)
        yield from self._identifiers.paths_in(root, value)

    def found(
        self, place: str, object_id: str, name: str, paths: Sequence[str], state: JobState | None = None
    ) -> None:
        unique = list(dict.fromkeys(paths))
        more = max(0, len(unique) - MAX_PATHS)
        self.part.found.append(FoundObject(place, object_id, name, unique[:MAX_PATHS], more, state))

    def of_job(self, one: JobHoldings, content: JobContent) -> Iterator[str]:
        """Yield the paths at which one of the texts occurs in a job or in what the job left behind. The log is not
        searched here."""
        job = one.job
        yield from self.in_encoded("argument", content.argument())
        yield from self._identifiers.paths_in("headers", content.headers())
        if any(map(self.is_in, job.tags)):
            yield "tags"
        if self.is_in(content.unique_key()):
            yield "unique_key"
        for attempt in one.attempts:
            error = content.error(attempt)
            values = () if error is None else self._identifiers.paths_in("errors", _decoded(error))
            if self.is_in(content.message(attempt)) or any(True for _ in values):
                yield "errors"
        if one.result is not None:
            yield from self._of_result(content.result(one.result))
        if self.is_in(content.text(one.progress)) or self._holds(one.checkpoint, content):
            yield "progress"
        if any(self._holds_part(part, content) for part in one.parts):
            yield "parts"
        if self._holds(one.challenges, content):
            yield "challenges"

    def _of_result(self, encoded: bytes | None) -> Iterator[str]:
        result = None if encoded is None else _decoded(encoded)
        if not isinstance(result, dict):
            return
        self.part.unread["sealed_values"] += is_sealed(result.get("result"))
        yield from self._identifiers.paths_in("result", result.get("result"))
        failure = {key: result.get(key) for key in ("message", "error")}
        if any(True for _ in self._identifiers.paths_in("errors", failure)):
            yield "errors"

    def _holds(self, encoded: bytes | None, content: JobContent) -> bool:
        shown = None if encoded is None else content.value(encoded)
        return any(True for _ in self.in_encoded("value", shown))

    def _holds_part(self, encoded: bytes, content: JobContent) -> bool:
        return any(True for _ in self.in_encoded("value", content.part(encoded)))


def _decoded(encoded: bytes) -> Any:
    """Return the decoded value. If it cannot be decoded, return the bytes themselves, which are compared as text."""
    try:
        return msgpack.unpackb(encoded, strict_map_key=False, unicode_errors="surrogateescape", timestamp=0)
    except Exception:  # an earlier release may have stored such a value
        return encoded


def _encode(at: _SearchPosition) -> str:
    return base64.urlsafe_b64encode(bytes(msgpack.packb([at.place, at.cursor, at.done]))).decode()


def _decode(cursor: str) -> _SearchPosition:
    try:
        place, within, done = msgpack.unpackb(base64.urlsafe_b64decode(cursor))
        at = _SearchPosition(int(place), str(int(within)), int(done))
    except (ValueError, TypeError, msgpack.UnpackException):
        raise InvalidError("cursor: must be the next_cursor of a search for personal data") from None
    if not (0 <= at.place < len(_PLACES) and int(at.cursor) >= 0 and at.done >= 0):
        raise InvalidError("cursor: must be the next_cursor of a search for personal data")
    return at
