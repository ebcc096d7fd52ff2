"""Calendars in the store: reading and changing them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from jqmaster.errors import ConflictError, DamagedError
from jqmaster.store.calendars.documents import StoredCalendar, decode_calendar, encode_calendar
from jqmaster.store.identity.audit import MAX_ENTRIES
from jqmaster.store.link.shard import Shard
from jqmaster.store.link.wake import DefinitionsChanged

MAX_CALENDARS: Final = 500
# A refusal names at most this many definitions.
MAX_NAMED: Final = 10


@dataclass(frozen=True, slots=True)
class CalendarChange:
    """One change of one calendar, based on `present`.

    * `new`: None removes it.
    * `audit_entry`: a packed map.
    * `passed_over`: definitions that cannot be read. All other definitions must follow the previous change of the
      calendar before this change is made.
    """

    name: str
    present: StoredCalendar | None
    new: StoredCalendar | None
    audit_entry: bytes
    passed_over: Sequence[str] = ()


class CalendarOutcome(StrEnum):
    """The result of a change."""

    OK = "ok"
    # Somebody else changed the calendar after it was read.
    CHANGED = "changed"
    # Some definitions do not yet follow the calendar's previous change.
    BEHIND = "behind"


class CalendarStore:
    """Calendars of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._client = shard.client
        self._keys = shard.keys
        # By name: the bytes of a calendar, and the calendar decoded from them.
        self._decoded: dict[str, tuple[bytes, StoredCalendar]] = {}

    async def names(self) -> list[str]:
        """Return the names of all calendars, sorted."""
        return sorted(name.decode() for name in await self._client.command("HKEYS", self._keys.calendars))

    async def get(self, names: Iterable[str]) -> dict[str, StoredCalendar]:
        """Return the calendars among these that exist. Raise DamagedError."""
        wanted = sorted(set(names))
        if not wanted:
            return {}
        found = await self._client.command("HMGET", self._keys.calendars, *wanted)
        return {
            name: self._decode(name, raw) for name, raw in zip(wanted, found, strict=True) if raw is not None
        }

    async def readable(self) -> list[StoredCalendar]:
        """Return all calendars that can be read, by name."""
        found: list[StoredCalendar] = []
        for name in await self.names():
            try:
                found += (await self.get([name])).values()
            except DamagedError:
                continue
        return found

    async def users(self) -> dict[str, list[str]]:
        """Return, by calendar, the sorted names of the definitions that use it."""
        flat = await self._client.command("HGETALL", self._keys.definition_calendars)
        pairs = flat.items() if isinstance(flat, dict) else zip(flat[::2], flat[1::2], strict=True)
        users: dict[str, list[str]] = {}
        for definition, calendar in sorted(pairs):
            users.setdefault(calendar.decode(), []).append(definition.decode())
        return users

    async def change(self, change: CalendarChange) -> CalendarOutcome:
        """Make the change. Definitions that use the calendar become due, so that they follow it. Raise ConflictError if
        a calendar to remove is in use, or if there are MAX_CALENDARS others."""
        k, present, new = self._keys, change.present, change.new
        word, data = await self._client.run(
            "put_calendar",
            (k.calendars, k.definition_calendars, k.definition_clocks, k.definitions_due_on_days, k.audit),
            (self._shard.now_arg, change.name, present.etag if present else "",
             encode_calendar(new) if new else b"", change.audit_entry, MAX_ENTRIES, MAX_CALENDARS, MAX_NAMED,
             self._shard.wake_channel, *change.passed_over),
        )  # fmt: skip
        if word == "full":
            raise ConflictError(
                f"there are {MAX_CALENDARS} calendars; no more can be made", code="too_many_calendars"
            )
        if word == "in_use":
            raise ConflictError(_in_use(change.name, data[0], data[1]), code="calendar_in_use")
        if word == "ok":
            self._shard.leader.wake(DefinitionsChanged())
        return CalendarOutcome(word)

    def _decode(self, name: str, raw: bytes) -> StoredCalendar:
        known, stored = self._decoded.get(name, (b"", None))
        if stored is None or raw != known:
            stored = decode_calendar(name, raw)
            self._decoded[name] = raw, stored
        return stored


def _in_use(name: str, count: int, names: Sequence[bytes]) -> str:
    shown = ", ".join(one.decode() for one in sorted(names))
    more = f" and {count - len(names)} more" if count > len(names) else ""
    return f"calendar {name} is in use by the definitions {shown}{more}: change their days first"
