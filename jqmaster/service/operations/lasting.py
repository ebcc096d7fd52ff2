"""Follows findings that come and go under load. A finding is reported only once it lasts."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

T = TypeVar("T")

# A state lasts once this many readings in a row have found it. Under load, it may exist only for a moment.
READINGS_TO_BEGIN: Final = 3
# A lasting state ends after this many readings in a row without it, because a single job may get through.
READINGS_TO_END: Final = 2
# After a longer gap between two readings, nobody knows what happened in between, so the readings begin again.
MAX_GAP_MS: Final = 15_000


@dataclass(frozen=True, slots=True)
class _Seen(Generic[T]):
    last: T
    since_ms: int
    readings: int = 1
    misses: int = 0
    is_reported: bool = False


class Lasting(Generic[T]):
    """Follows named states from reading to reading. The first reading reports all states that it finds, because there
    may be no second reading. A later reading reports a state once it lasts."""

    def __init__(self) -> None:
        self._seen: Mapping[str, _Seen[T]] = {}
        self._read_at_ms: int | None = None

    def follow(self, present: Mapping[str, T], possible: Collection[str], now_ms: int) -> list[tuple[T, int]]:
        """Return the states to report. Each comes as it was last seen, with the time of the first reading that found
        it.

        * `present`: the present states, by name.
        * `possible`: the names of states that may continue although they are not present now. All other absent states
          end at once.
        """
        is_first = self._read_at_ms is None or now_ms - self._read_at_ms > MAX_GAP_MS
        before = {} if is_first else self._seen
        self._read_at_ms = now_ms
        seen = {}
        for name, last in present.items():
            one = before.get(name)
            seen[name] = _Seen(last, now_ms, is_reported=is_first) if one is None else _again(one, last)
        for name, one in before.items():
            lasts = one.readings >= READINGS_TO_BEGIN and one.misses + 1 < READINGS_TO_END
            if name not in present and name in possible and lasts:
                seen[name] = replace(one, misses=one.misses + 1)
        self._seen = seen
        return [(one.last, one.since_ms) for one in seen.values() if one.is_reported]


def _again(one: _Seen[T], last: T) -> _Seen[T]:
    readings = one.readings + 1
    return replace(
        one,
        last=last,
        readings=readings,
        misses=0,
        is_reported=one.is_reported or readings >= READINGS_TO_BEGIN,
    )
