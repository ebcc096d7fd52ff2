"""Calendars under test, and definitions that use them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

from jqmaster.domain.calendars.calendar import CalendarSource
from jqmaster.service.calendars.editor import CalendarEdit, CalendarEditor
from jqmaster.service.calendars.sources import CalendarSources, SourceAnswer
from jqmaster.service.definitions.editor import DefinitionEditor
from jqmaster.store.calendars.calendars import CalendarStore
from jqmaster.store.identity.audit import AuditStore
from tests.service.definitions.test_editor import Edited
from tests.support.store import StoreWorld

DAY_MS = 86_400_000
HOUR_MS = 3_600_000
NO_FIELDS: Mapping[str, Any] = dict.fromkeys(
    ("dates", "ical", "country", "subdivision", "language", "weekend")
)


class Answers(CalendarSources):
    """Sources that answer what a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = SourceAnswer({}, None, None)
        self.asked: list[tuple[CalendarSource, int]] = []

    async def ask(self, source: CalendarSource, year: int) -> SourceAnswer:
        self.asked.append((source, year))
        return self.answer


class Calendars(Edited):
    """A definition `nightly`, and the calendar `office`, of a world that begins on Friday 15 January 2027 at 8:00."""

    def __init__(self, world: StoreWorld) -> None:
        super().__init__(world)
        self.world = world
        self.store = CalendarStore(world.shard)
        self.sources = Answers()

        async def now_ms() -> int:
            return world.now_ms

        self.editor = DefinitionEditor(
            world.definitions, self.definitions.firing, AuditStore(world.shard), now_ms, self.store
        )
        self.calendars = CalendarEditor(self.store, self.sources, self.definitions.firing, now_ms)

    async def off(
        self, *days: str, weekend: Sequence[str] | None = None, name: str = "office", **options: Any
    ) -> CalendarEdit:
        """Let these days be the holidays of a calendar. Their names are `Off` and the day of the month."""
        dates = [{"date": date.fromisoformat(day), "name": f"Off {int(day[-2:])}"} for day in days]
        return await self.calendars.put(
            name, {**NO_FIELDS, "dates": dates, "weekend": weekend}, who="me", **options
        )

    async def on(self, rule: str | None, **fields: Any) -> None:
        """Let the definition use the calendar."""
        days = rule and {"calendar": "office", "rule": rule}
        await self.put(
            **{"schedule": {"daily_at": "02:30"}, "days": days, "skip_late_after_s": 7200.0, **fields}
        )

    async def pass_to(self, text: str, *, fires: bool = True) -> None:
        """Let the time come to this local time of UTC, such as `01-18 12:00`, with a leader that fires each day."""
        target_ms = round(datetime.fromisoformat(f"2027-{text}+00:00").timestamp() * 1000)
        while self.world.now_ms < target_ms:
            self.world.pass_ms(min(HOUR_MS, target_ms - self.world.now_ms))
            if fires:
                await self.definitions.fire()

    async def told(self) -> list[str]:
        """Return each record: its day, outcome, reason, and the day from which it moved."""
        lines = []
        for run in await self.definitions.runs():
            moved = "" if run.moved_from_ms is None else f" from {_day(run.moved_from_ms)}"
            lines.append(
                f"{_day(run.due_at_ms)} {run.outcome} {run.reason_text}{moved}".replace("  ", " ").strip()
            )
        return lines


def _day(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%m-%d}"
