"""The audit log: changes and logins. The scripts that make the changes write the entries.

There are two logs with separate limits, so that a flood of changes does not push access events out. `access` has
logins, sessions, tokens, users and the settings of access. `changes` has everything else. Readers see them as one.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import msgpack

from jqmaster.errors import InvalidError
from jqmaster.store import codec
from jqmaster.store.link.scripts import ScriptCall, load
from jqmaster.store.link.shard import Shard

Log = Literal["changes", "access"]
LOGS: Final[tuple[Log, ...]] = get_args(Log)

# The approximate number of changes that are kept. The limits of the access log are in lua/lib/identity/access_log.lua.
MAX_ENTRIES: Final = 100_000
# Maximum number of entries that a page reads. The next page continues after these entries.
MAX_LOOKED_AT: Final = 2_000
# Maximum number of entries that a page reads while it has found no entry. With a lower limit, a flood of changes could
# hide a rare entry, such as a refused login.
MAX_SEARCHED: Final = 20_000
MAX_BYTES_SEARCHED: Final = 16 << 20
ENTRIES_PER_READ: Final = 200
# Maximum delay between an event and the entry that counts its repeats: see lua/lib/identity/access_log.lua.
MAX_LATE_MS: Final = 2 * 3_600_000
# The action that is shown for an entry that cannot be read.
DAMAGED: Final = "damaged"
_START: Final = "0-0"
_POSITION: Final = re.compile(r"[0-9]{1,19}-[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One entry. `before`: None if the object was created; `after`: None if it was removed.

    `times` counts repeats that share this entry: the first at `since_ms`, the last at `at_ms`.
    """

    id: str
    log: Log
    at_ms: int
    who: str
    action: str
    target: str
    before: Any
    after: Any
    times: int = 1
    since_ms: int | None = None


# Returns whether a reader may see the entry.
Sight = Callable[[AuditEntry], bool]


@dataclass(frozen=True, slots=True)
class AuditEntries:
    """A page of entries. `next_cursor`: None if there are no older entries. `follow_from`: the cursor with which
    `AuditStore.after` continues after the newest entry.
    """

    entries: list[AuditEntry]
    next_cursor: str | None
    follow_from: str | None = None


def encode_entry(
    *, who: str, action: str, target: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> bytes:
    """Encode the entry that a script writes together with the change."""
    return codec.pack({"who": who, "action": action, "target": target, "before": before, "after": after})


class AuditStore:
    """The audit log of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._client = shard.client
        self._keys: Mapping[Log, str] = {"changes": shard.keys.audit, "access": shard.keys.access}

    async def write(self, entry: bytes) -> None:
        """Write an entry about an action that no script records."""
        await self.write_all([entry])

    async def write_all(self, entries: Sequence[bytes]) -> None:
        """Write each entry as `write` does, in one round trip."""
        script, keys = load("write_audit"), (self._keys["changes"],)
        await self._client.run_all(
            [ScriptCall(script, keys, (self._shard.now_arg, entry, MAX_ENTRIES)) for entry in entries]
        )

    async def page(
        self,
        *,
        limit: int,
        cursor: str | None,
        target: str | None = None,
        log: Log | None = None,
        who: str | None = None,
        since_ms: int | None = None,
        until_ms: int | None = None,
        is_shown: Sight | None = None,
    ) -> AuditEntries:
        """Return up to `limit` entries, the newest first.

        * `who`: a part of the author's name; upper and lower case are equal.
        * `since_ms`, `until_ms`: inclusive.
        * `is_shown`: whether the reader may see an entry. None: all.

        A page may be short although its cursor continues. It is empty only after MAX_SEARCHED entries or
        MAX_BYTES_SEARCHED. Raise InvalidError for an invalid cursor.
        """
        positions: Mapping[Log, str] = {}
        if cursor is not None:
            positions = _positions(cursor, is_upper_bound=True)
        elif until_ms is not None:
            positions = dict.fromkeys(LOGS, f"{until_ms + MAX_LATE_MS}-0")
        wanted = _Wanted(target, who.casefold() if who else "", since_ms, until_ms, is_shown)
        logs = _NewestFirst([_Backwards(one, positions.get(one)) for one in LOGS if log in (None, one)])
        found: list[AuditEntry] = []
        is_over = False
        while not logs.are_searched(MAX_LOOKED_AT if found else MAX_SEARCHED):
            await logs.read(self._client, self._keys)
            is_over = logs.ends_before(since_ms)
            if is_over or len(found) == limit:
                break
            if entry := wanted.entry(*logs.take()):
                found.append(entry)
        is_from_newest = cursor is None and log is None and until_ms is None
        return AuditEntries(
            found, None if is_over else logs.cursor(), _cursor(logs.newest) if is_from_newest else None
        )

    async def after(self, cursor: str, *, limit: int, is_shown: Sight | None = None) -> AuditEntries:
        """Return up to `limit` entries after the cursor, the oldest first. `next_cursor` continues from there.
        `is_shown`: as in `page`; a filtered page may be short or empty although there are more entries.

        Raises InvalidError for an invalid cursor.
        """
        positions = dict(_positions(cursor, is_upper_bound=False))
        replies = await self._client.pipeline(
            [("XRANGE", self._keys[log], f"({positions[log]}", "+", "COUNT", limit) for log in LOGS]
        )
        found = [
            (log, raw.decode(), fields)
            for log, entries in zip(LOGS, replies, strict=True)
            for raw, fields in entries
        ]
        found = sorted(found, key=lambda one: position_parts(one[1]))[:limit]
        positions |= {log: position for log, position, _ in found}
        entries = [decode_entry(*one) for one in found]
        return AuditEntries([one for one in entries if is_shown is None or is_shown(one)], _cursor(positions))


class _Backwards:
    """One log, read backwards from the newest entry."""

    def __init__(self, log: Log, position: str | None) -> None:
        self.log = log
        self.position = position
        self.is_over = False
        self.bytes_read = 0
        # The entries that were read, oldest first: the next one to return is the last one in the list.
        self.entries: list[tuple[str, list[bytes]]] = []

    async def read(self, client: Any, key: str) -> None:
        end = "+" if self.position is None else f"({self.position}"
        entries = await client.command("XREVRANGE", key, end, "-", "COUNT", ENTRIES_PER_READ)
        self.is_over = len(entries) < ENTRIES_PER_READ
        self.entries = [(raw.decode(), fields) for raw, fields in reversed(entries)]
        self.bytes_read += sum(len(field) for _, fields in entries for field in fields)

    def order(self) -> tuple[int, int]:
        return position_parts(self.entries[-1][0])


class _NewestFirst:
    """Several logs, read as one from the newest entry on."""

    def __init__(self, logs: Sequence[_Backwards]) -> None:
        self._logs = logs
        self._taken = 0
        self._last = ""
        self.newest: dict[Log, str] = {}

    @property
    def _unread(self) -> list[_Backwards]:
        return [log for log in self._logs if not log.entries and not log.is_over]

    @property
    def _left(self) -> list[_Backwards]:
        return [log for log in self._logs if log.entries]

    def are_searched(self, most: int) -> bool:
        """Return whether more entries exist although the search has reached its limit: `most` entries, or
        MAX_BYTES_SEARCHED.
        """
        is_large = sum(log.bytes_read for log in self._logs) >= MAX_BYTES_SEARCHED
        return bool((self._taken >= most and (self._unread or self._left)) or (is_large and self._unread))

    async def read(self, client: Any, keys: Mapping[Log, str]) -> None:
        """Read more entries where needed, so that the next entry is known."""
        for log in self._unread:
            await log.read(client, keys[log.log])
            self.newest.setdefault(log.log, log.entries[-1][0] if log.entries else _START)

    def ends_before(self, since_ms: int | None) -> bool:
        """Return whether all entries that are left are older than `since_ms`."""
        return not self._left or (since_ms is not None and self._next().order()[0] < since_ms)

    def take(self) -> tuple[Log, str, list[bytes]]:
        log = self._next()
        self._taken += 1
        self._last, fields = log.entries.pop()
        log.position = self._last
        return log.log, self._last, fields

    def cursor(self) -> str:
        """Return where the next page continues. If the page took nothing from a log, the cursor excludes entries that
        were added to this log since, because they are newer than the page."""
        taken = {log.log: log.position for log in self._logs if log.position}
        return _cursor({one: taken.get(one, _after(self._last)) for one in LOGS})

    def _next(self) -> _Backwards:
        return max(self._left, key=_Backwards.order)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The filter of a page. `author`: text that the author's name must contain, in the form of `str.casefold`."""

    target: str | None
    author: str
    since_ms: int | None
    until_ms: int | None
    is_shown: Sight | None

    def entry(self, log: Log, position: str, fields: list[bytes]) -> AuditEntry | None:
        """Return the entry, or None if it is not wanted."""
        # Search for the bytes of the target first, because that is cheaper than decoding each entry.
        target = (self.target or "").encode("utf-8", "surrogatepass")
        if not any(target in field for field in fields):
            return None
        entry = decode_entry(log, position, fields)
        is_wanted = (
            self.target in (None, entry.target)
            and self.author in entry.who.casefold()
            and (self.since_ms is None or entry.at_ms >= self.since_ms)
            and (self.until_ms is None or entry.at_ms <= self.until_ms)
            and (self.is_shown is None or self.is_shown(entry))
        )
        return entry if is_wanted else None


def changes_of(entries: Iterable[tuple[bytes, list[bytes]]]) -> set[tuple[str, str]]:
    """Return, for these stream entries, the kind of the changed object (the first word of the action) and its
    target."""
    found = (decode_entry("changes", position.decode(), fields) for position, fields in entries)
    return {(entry.action.partition(".")[0], entry.target) for entry in found}


def _cursor(positions: Mapping[Log, str]) -> str:
    return "_".join(positions[log] for log in LOGS)


def _positions(cursor: str, *, is_upper_bound: bool) -> Mapping[Log, str]:
    parts = cursor.split("_")
    if not all(map(_POSITION.fullmatch, parts)) or len(parts) not in (1, len(LOGS)):
        raise InvalidError("cursor was not returned by an earlier page", code="invalid_cursor")
    if len(parts) == 1:  # a master of the previous release, which had only one log, wrote this cursor
        parts += [_after(parts[0]) if is_upper_bound else parts[0]]
    return dict(zip(LOGS, parts, strict=True))


def position_parts(position: str) -> tuple[int, int]:
    """Return a stream's position as numbers that can be compared."""
    ms, _, number = position.partition("-")
    return int(ms), int(number)


def _after(position: str) -> str:
    ms, number = position_parts(position)
    return f"{ms}-{number + 1}"


def decode_entry(log: Log, position: str, flat: list[bytes]) -> AuditEntry:
    """Decode an entry of a stream. An entry that cannot be read gets the action `damaged`."""
    entry_id = position if log == "changes" else f"{position}-{log}"
    try:
        fields = dict(zip(flat[::2], flat[1::2], strict=True))
        times, since_ms = int(fields.get(b"times", 1)), int(fields.get(b"since_ms", 0))
        return AuditEntry(
            entry_id, log, int(fields[b"at_ms"]), **msgpack.unpackb(fields[b"entry"], timestamp=3),
            times=times, since_ms=since_ms or None,
        )  # fmt: skip
    except (KeyError, ValueError, TypeError, msgpack.UnpackException):
        # Return an unreadable entry as damaged, so that readers see it and the entries around it.
        return AuditEntry(entry_id, log, int(position.partition("-")[0]), "", DAMAGED, "", None, None)
