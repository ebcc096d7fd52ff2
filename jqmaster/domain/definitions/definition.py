"""A definition: the job that it starts, and the instants or events that start it."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from typing import Final
from zoneinfo import ZoneInfo

from jqmaster.domain.calendars.calendar import Calendar
from jqmaster.domain.definitions.days import (
    DAY_MS,
    MAX_MOVED_A_DAY,
    NO_PLAN,
    DayPlan,
    Days,
    chosen,
    day_of,
    first_day,
    is_too_frequent,
    local_time,
    moved,
    next_day_in,
    start_of,
)
from jqmaster.domain.definitions.event_trigger import EventTrigger
from jqmaster.domain.definitions.refusal import DefinitionError
from jqmaster.domain.definitions.schedule import Occurrence, Schedule
from jqmaster.domain.definitions.time_zone import zone_named
from jqmaster.domain.jobs.job import JobSpec

NAME_PATTERN: Final = r"^[A-Za-z0-9_.:\-]{1,100}$"
MAX_DESCRIPTION: Final = 1000
MAX_REASON: Final = 500
MAX_JITTER_S: Final = 24 * 3600
MAX_SKIP_LATE_AFTER_S: Final = 30 * 24 * 3600
SKIP_LATE_AFTER_S: Final = 300.0
MAX_CATCH_UP: Final = 1000
DEFAULT_CATCH_UP: Final = 100
DID_LENGTH: Final = 16
# Maximum number of days ahead that are searched for the next instant that starts a job.
MAX_DAYS_AHEAD: Final = 800
# The beginning of the year 9999. Dates end in that year, so no later day is counted.
_LAST_MS: Final = 253_370_764_800_000

_NAME: Final = re.compile(NAME_PATTERN.replace("$", r"\Z"))
_DID: Final = re.compile(rf"[0-9a-f]{{{DID_LENGTH}}}")


class Kind(StrEnum):
    """The source of a definition's instants."""

    TIME = "time"
    EVENT = "event"


class Overlap(StrEnum):
    """The rule for an instant that comes while the job of an earlier instant is unfinished."""

    ALLOW = "allow"
    # An instant is skipped while an earlier job is unfinished.
    FORBID = "forbid"
    # An earlier job is canceled if it waits, and asked to end if it runs.
    REPLACE = "replace"
    # The instant waits until the earlier job is finished. A later instant replaces a waiting one.
    QUEUE = "queue"


class CatchUp(StrEnum):
    """Which instants still fire if they are noticed too late."""

    SKIP = "skip"
    LATEST = "latest"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class TimeTrigger:
    """The instants of a definition of kind `time`. A faulty trigger raises DefinitionError.

    `ends_at_ms` is the first instant that no longer counts. Jitter delays every instant of a definition by
    the same fraction of `jitter_ms`.
    """

    schedule: Schedule
    time_zone: str = "UTC"
    starts_at_ms: int | None = None
    ends_at_ms: int | None = None
    jitter_ms: int = 0
    skip_late_after_ms: int = round(SKIP_LATE_AFTER_S * 1000)
    catch_up: CatchUp = CatchUp.LATEST
    max_catch_up: int = DEFAULT_CATCH_UP
    days: Days | None = None
    zone: ZoneInfo = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "zone", zone_named(self.time_zone))
        if None not in (self.starts_at_ms, self.ends_at_ms) and self.ends_at_ms <= self.starts_at_ms:  # type: ignore[operator]
            raise DefinitionError(("ends_at",), "must be later than starts_at")
        if not 0 <= self.jitter_ms <= MAX_JITTER_S * 1000:
            raise DefinitionError(("jitter_s",), f"must be from 0 to {MAX_JITTER_S}")
        if not 1000 <= self.skip_late_after_ms <= MAX_SKIP_LATE_AFTER_S * 1000:
            raise DefinitionError(("skip_late_after_s",), f"must be from 1 to {MAX_SKIP_LATE_AFTER_S}")
        if not 1 <= self.max_catch_up <= MAX_CATCH_UP:
            raise DefinitionError(("max_catch_up",), f"must be from 1 to {MAX_CATCH_UP}")
        if self.days and self.days.is_moving and is_too_frequent(self.schedule, self.zone):
            raise DefinitionError(
                ("days", "rule"),
                f"moves at most {MAX_MOVED_A_DAY} instants a day, because all of them start jobs on the same workday; "
                "use skip_holidays, or a schedule that is due less often",
            )

    def instants(self, after_ms: int) -> Iterator[Occurrence]:
        """Yield the instants of the schedule after `after_ms`, between `starts_at_ms` and `ends_at_ms`."""
        if self.starts_at_ms is not None:
            after_ms = max(after_ms, self.starts_at_ms - 1)
        for occurrence in self.schedule.occurrences(after_ms, self.zone):
            if self.ends_at_ms is not None and occurrence.at_ms >= self.ends_at_ms:
                return
            yield occurrence

    def planned(self, after_ms: int, plan: DayPlan) -> Iterator[Occurrence]:
        """Yield the instants after `after_ms` at the times to which the calendar of `plan` moves them. Leave out
        instants that are done."""
        days, calendar = self.days, plan.calendar
        if days is None or not days.is_moving:
            left = (one for one in self.instants(after_ms) if not plan.is_done(one.at_ms))
            yield from left if days is None else chosen(left, days.rule, _known(calendar), self.zone)
            return
        calendar = _known(calendar)
        day = first_day(calendar, local_time(after_ms, self.zone).date())
        found = (one for one in self.instants(start_of(day, self.zone) - 1) if not plan.is_done(one.at_ms))
        for one in moved(found, days.rule, calendar, self.zone):
            if one.at_ms > after_ms:
                yield one


@dataclass(frozen=True, slots=True)
class Definition:
    """A job, and the instants or events that start it. A faulty definition raises DefinitionError.

    * `did`: the ID of this incarnation. A definition that is deleted and created again starts its own jobs.
    * `job`: its ID is empty.
    * `reason`: tells people why the definition is paused.
    """

    name: str
    did: str
    job: JobSpec
    trigger: TimeTrigger | EventTrigger
    enabled: bool = True
    description: str = ""
    overlap: Overlap = Overlap.ALLOW
    reason: str = ""

    def __post_init__(self) -> None:
        if not _NAME.match(self.name):
            raise DefinitionError(("name",), "must be 1 to 100 of A-Z a-z 0-9 _ . : -")
        if not _DID.fullmatch(self.did):
            raise DefinitionError(("did",), f"must be {DID_LENGTH} hexadecimal digits")
        if len(self.description) > MAX_DESCRIPTION:
            raise DefinitionError(("description",), f"longer than {MAX_DESCRIPTION} characters")
        if self.kind is Kind.EVENT and self.overlap is Overlap.QUEUE:
            raise DefinitionError(
                ("overlap",), "queue is for kind time; use a constraint with concurrency 1, or collect"
            )
        if len(self.reason) > MAX_REASON:
            raise DefinitionError(("reason",), f"longer than {MAX_REASON} characters")

    @property
    def kind(self) -> Kind:
        return Kind.TIME if isinstance(self.trigger, TimeTrigger) else Kind.EVENT

    @property
    def calendar(self) -> str:
        """Return the name of its calendar; empty if it has none."""
        days = self.trigger.days if isinstance(self.trigger, TimeTrigger) else None
        return days.calendar if days else ""

    @property
    def of_time(self) -> TimeTrigger:
        """Return the trigger of a definition of kind `time`."""
        assert isinstance(self.trigger, TimeTrigger)
        return self.trigger

    @property
    def of_events(self) -> EventTrigger:
        """Return the trigger of a definition of kind `event`."""
        assert isinstance(self.trigger, EventTrigger)
        return self.trigger

    @property
    def delay_ms(self) -> int:
        """Return the jitter of this definition: the delay of all its instants."""
        if not isinstance(self.trigger, TimeTrigger) or not self.trigger.jitter_ms:
            return 0
        digest = blake2b(self.name.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") % self.trigger.jitter_ms

    def due_after(self, after_ms: int, plan: DayPlan = NO_PLAN) -> Iterator[Occurrence]:
        """Yield the instants after `after_ms` at which the definition is due, with their jitter. Yield none if events
        start the definition. `plan`: needed for a definition with `days`."""
        if not isinstance(self.trigger, TimeTrigger):
            return
        trigger, delay_ms = self.trigger, self.delay_ms
        begin_ms = after_ms - delay_ms
        if trigger.days is None and not plan.done:
            for occurrence in trigger.instants(begin_ms):
                yield occurrence._replace(at_ms=occurrence.at_ms + delay_ms)
            return
        for occurrence in trigger.planned(begin_ms, plan):
            yield _delayed(occurrence, delay_ms)

    def next_due_ms(self, after_ms: int, plan: DayPlan = NO_PLAN) -> int | None:
        """Return the first instant after `after_ms` at which the definition is due, even if a calendar skips it.
        None: there is none."""
        occurrence = next(self.due_after(after_ms, plan), None)
        return occurrence.at_ms if occurrence else None

    def next_firing_ms(self, after_ms: int, plan: DayPlan = NO_PLAN) -> int | None:
        """Return the first instant after `after_ms` that no calendar leaves out. None: there is none, or none within
        MAX_DAYS_AHEAD days."""
        if not isinstance(self.trigger, TimeTrigger) or self.trigger.days is None:
            return self.next_due_ms(after_ms, plan)
        first_ms = self.next_due_ms(after_ms, plan)
        if first_ms is None:
            return None
        found = self.firing_after(after_ms, first_ms + MAX_DAYS_AHEAD * DAY_MS, plan)
        occurrence = next(found, None)
        return occurrence.at_ms if occurrence else None

    def firing_after(self, after_ms: int, until_ms: int, plan: DayPlan = NO_PLAN) -> Iterator[Occurrence]:
        """Yield the instants after `after_ms`, up to `until_ms`, that no calendar leaves out. Days that the calendar
        leaves out cost next to nothing, however often the schedule is due on them."""
        found = self.due_after(after_ms, plan)
        while (occurrence := next(found, None)) is not None and occurrence.at_ms <= until_ms:
            if occurrence.left_out:
                found = self.due_after(
                    max(occurrence.at_ms, self._resumes_ms(occurrence, until_ms, plan)), plan
                )
            else:
                yield occurrence

    def _resumes_ms(self, occurrence: Occurrence, until_ms: int, plan: DayPlan) -> int:
        """Return the last instant before the next day on which jobs may start. `occurrence`: an instant on a day that
        the calendar leaves out."""
        zone, delay_ms = self.of_time.zone, self.delay_ms
        day = day_of(occurrence._replace(at_ms=occurrence.at_ms - delay_ms), zone)
        last = local_time(min(until_ms, _LAST_MS), zone).date()
        day = next_day_in(self.of_time.days, plan.calendar, day, last)
        return start_of(day, zone) + delay_ms - 1


def _delayed(occurrence: Occurrence, delay_ms: int) -> Occurrence:
    origin_ms = occurrence.moved_from_ms
    return occurrence._replace(
        at_ms=occurrence.at_ms + delay_ms, moved_from_ms=None if origin_ms is None else origin_ms + delay_ms
    )


def _known(calendar: Calendar | None) -> Calendar:
    assert calendar is not None
    return calendar


def new_did() -> str:
    """Return a random ID that distinguishes a definition from earlier ones of the same name."""
    return os.urandom(DID_LENGTH // 2).hex()
