"""Checks lasting conditions: finds what holds now, and how long it has held."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from jqmaster.clock import Clock
from jqmaster.domain.instant import span
from jqmaster.domain.jobs.reserved_names import RESERVED_PREFIX
from jqmaster.domain.namespaces.troubles import Troubles
from jqmaster.domain.notices.conditions import When
from jqmaster.domain.notices.incident import NoticeIncidentItem
from jqmaster.service.calendars.ending import ending_calendars
from jqmaster.service.constraints.reader import ConstraintReader
from jqmaster.service.notices.findings import MatchableFinding, of_name
from jqmaster.store.calendars.calendars import CalendarStore
from jqmaster.store.operations.history import HistoryStore

# Interval at which all constraints are checked. The check is expensive, because each constraint needs several reads.
CONSTRAINTS_EVERY_S: Final = 10.0
CALENDARS_EVERY_S: Final = 60.0


class LastingConditions:
    """Checks lasting conditions.

    * `store_faults`: returns the current faults of the store by name.
    * `log_due_ms`: returns the time since which the longest-waiting log has waited to be archived. None: no log waits,
      or there is no archive.
    * `duty_faults`: returns the faults of this master's side duties by name.
    * `quotas`: returns a text by name for each quota that is nearly used up.
    * `troubles`: returns the troubles of the installation, and none outside the default namespace.

    The durations of most conditions count from the first check at this master that found them. The ages of waiting jobs
    and logs count from the beginning of their wait. Methods raise what the stores raise."""

    def __init__(
        self,
        history: HistoryStore,
        constraints: ConstraintReader,
        store_faults: Callable[[], Mapping[str, str]],
        log_due_ms: Callable[[], Awaitable[int | None]],
        clock: Clock,
        *,
        duty_faults: Callable[[], Mapping[str, str]],
        quotas: Callable[[], Mapping[str, str]],
        calendars: CalendarStore,
        troubles: Callable[[], Awaitable[Troubles]],
    ) -> None:
        self._calendars = calendars
        self._troubles = troubles
        self._history = history
        self._constraints = constraints
        self._store_faults = store_faults
        self._log_due_ms = log_due_ms
        self._clock = clock
        self._duty_faults = duty_faults
        self._quotas = quotas
        self._since_s: dict[tuple[When, str], float] = {}
        self._saturated: dict[str, str] = {}
        self._ending: dict[str, str] = {}
        self._calendars_at_s = -CALENDARS_EVERY_S
        self._constraints_at_s = -CONSTRAINTS_EVERY_S
        self._looks: Mapping[When, Callable[[int], Awaitable[list[MatchableFinding]]]] = {
            When.BACKLOG_AGE: self._old_backlog,
            When.CONSTRAINT_SATURATED: self._saturated_constraints,
            When.STORE_UNHEALTHY: self._unhealthy_store,
            When.CALENDAR_ENDS: self._ending_calendars,
            When.LOG_ARCHIVE_BEHIND: self._archive_behind,
            When.DUTY_FAILING: self._failing_duties,
            When.QUOTA_NEARLY_USED: self._nearly_used_quotas,
            When.STORE_DOWN: self._stores_down,
            When.NAMESPACE_DOWN: self._namespaces_down,
            When.MOVE_FAILED: self._failed_moves,
        }

    async def look(self, when: When, now_ms: int) -> list[MatchableFinding]:
        """Return the current findings of the condition `when`."""
        return await self._looks[when](now_ms)

    async def _old_backlog(self, now_ms: int) -> list[MatchableFinding]:
        backlog = await self._history.backlog()
        seen = []
        for name, waiting in backlog.names.items() if backlog else ():
            # Do not report jobs that a constraint holds back, because somebody may have paused them.
            if waiting.startable_since_ms and not name.startswith(RESERVED_PREFIX):
                age_ms = max(0, now_ms - waiting.startable_since_ms)
                line = f"{name}: {waiting.ready} ready; a job that may start has waited for {span(age_ms)}"
                seen.append(MatchableFinding(NoticeIncidentItem(name, line, now_ms), of_name(name), age_ms))
        return seen

    async def _saturated_constraints(self, now_ms: int) -> list[MatchableFinding]:
        now_s = self._clock.monotonic_s()
        if now_s >= self._constraints_at_s + CONSTRAINTS_EVERY_S:
            self._constraints_at_s = now_s
            self._saturated = {
                stored.constraint.name: f"{stored.constraint.name}: {usage.held} jobs wait for it"
                for stored, usage in await self._constraints.all()
                if usage.held
            }
        return self._lasting(When.CONSTRAINT_SATURATED, self._saturated, now_ms)

    async def _ending_calendars(self, now_ms: int) -> list[MatchableFinding]:
        now_s = self._clock.monotonic_s()
        if now_s >= self._calendars_at_s + CALENDARS_EVERY_S:
            self._calendars_at_s = now_s
            self._ending = {one.name: one.text for one in await ending_calendars(self._calendars, now_ms)}
        return self._lasting(When.CALENDAR_ENDS, self._ending, now_ms)

    async def _unhealthy_store(self, now_ms: int) -> list[MatchableFinding]:
        return self._lasting(When.STORE_UNHEALTHY, self._store_faults(), now_ms)

    async def _failing_duties(self, now_ms: int) -> list[MatchableFinding]:
        return self._lasting(When.DUTY_FAILING, self._duty_faults(), now_ms)

    async def _nearly_used_quotas(self, now_ms: int) -> list[MatchableFinding]:
        return self._lasting(When.QUOTA_NEARLY_USED, self._quotas(), now_ms)

    async def _stores_down(self, now_ms: int) -> list[MatchableFinding]:
        return self._lasting(When.STORE_DOWN, (await self._troubles()).stores, now_ms)

    async def _namespaces_down(self, now_ms: int) -> list[MatchableFinding]:
        return self._lasting(When.NAMESPACE_DOWN, (await self._troubles()).namespaces, now_ms)

    async def _failed_moves(self, now_ms: int) -> list[MatchableFinding]:
        return self._lasting(When.MOVE_FAILED, (await self._troubles()).moves, now_ms)

    async def _archive_behind(self, now_ms: int) -> list[MatchableFinding]:
        due_ms = await self._log_due_ms()
        lag_ms = 0 if due_ms is None else now_ms - due_ms
        if lag_ms <= 0:
            return []
        line = f"a log has waited for {span(lag_ms)} to be archived; the log of the leading master says why"
        return [
            MatchableFinding(NoticeIncidentItem("log_archive", line, now_ms), of_name("log_archive"), lag_ms)
        ]

    def _lasting(self, when: When, present: Mapping[str, str], now_ms: int) -> list[MatchableFinding]:
        now_s = self._clock.monotonic_s()
        for key in [key for key in self._since_s if key[0] is when and key[1] not in present]:
            del self._since_s[key]
        seen = []
        for name, line in present.items():
            since_s = self._since_s.setdefault((when, name), now_s)
            lasted_ms = round(1000 * (now_s - since_s))
            seen.append(MatchableFinding(NoticeIncidentItem(name, line, now_ms), of_name(name), lasted_ms))
        return seen
