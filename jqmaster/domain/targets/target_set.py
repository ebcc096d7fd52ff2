"""All targets together, to find the one that does the jobs of a name."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

from jqmaster.domain.jobs.reserved_names import RESERVED_PREFIX
from jqmaster.domain.matching.glob import compile_glob
from jqmaster.domain.targets.target import MAX_SERVED, HttpTarget, is_pattern


class _Pattern(NamedTuple):
    text: str
    fits: Callable[[str], bool]
    target: str


class TargetSet:
    """Finds the target that serves a name. A name that a target lists has precedence over patterns. A longer pattern
    has precedence over a shorter one. So `mail.*` and `*` may both exist."""

    def __init__(self, targets: Iterable[HttpTarget] = ()) -> None:
        self.targets: Mapping[str, HttpTarget] = {
            target.name: target for target in sorted(targets, key=lambda one: one.name)
        }
        self._exact: dict[str, str] = {}
        patterns = []
        for target in self.targets.values():
            for name in target.names:
                if is_pattern(name):
                    patterns.append(_Pattern(name, compile_glob(name), target.name))
                else:
                    # Keep the first target of a name. Two targets can list the same name only if both were put at the
                    # same moment.
                    self._exact.setdefault(name, target.name)
        self._patterns = sorted(patterns, key=lambda one: (-len(one.text), one.text, one.target))

    def __bool__(self) -> bool:
        return bool(self.targets)

    @property
    def has_patterns(self) -> bool:
        return bool(self._patterns)

    def target_of(self, name: str) -> str | None:
        """Return the name of the target that serves jobs of this name, or None if there is none."""
        if (listed := self._exact.get(name)) is not None:
            return listed
        if not self._patterns or name.startswith(RESERVED_PREFIX):
            return None
        return next((one.target for one in self._patterns if one.fits(name)), None)

    def served(self, known: Collection[str], of_workers: Collection[str] = ()) -> dict[str, tuple[str, ...]]:
        """Return the names that each target serves now.

        * `known`: names that have jobs.
        * `of_workers`: names that ordinary workers serve; patterns leave out these names.
        """
        found: dict[str, list[str]] = {name: [] for name in self.targets}
        for name, target in self._exact.items():
            found[target].append(name)
        if self._patterns:
            for name in sorted(set(known).difference(self._exact, of_workers)):
                target_name = self.target_of(name)
                if target_name is not None and len(found[target_name]) < MAX_SERVED:
                    found[target_name].append(name)
        return {target: tuple(sorted(names)) for target, names in found.items()}

    def other_with(self, target: HttpTarget) -> tuple[str, str] | None:
        """Return a name that another target lists, too, and the name of that target. None: there is none."""
        for other in self.targets.values():
            if other.name != target.name and (both := set(other.names) & set(target.names)):
                return min(both), other.name
        return None


NO_TARGETS: Final = TargetSet()


def share_of(max_running: int, key: str, master_id: str, masters: Sequence[str]) -> int:
    """Return how many of `max_running` requests this master may have under way. The numbers of all masters add up to
    `max_running`. `key`: spreads the remainders of different targets over different masters."""
    if master_id not in masters:
        return 0
    order = sorted(masters, key=lambda one: _rank(key, one))
    whole, rest = divmod(max_running, len(order))
    return whole + (order.index(master_id) < rest)


@dataclass(frozen=True, slots=True)
class Share:
    """This master's part of limits that hold for `masters` together."""

    master_id: str
    masters: tuple[str, ...]

    def of(self, limit: int, key: str) -> int:
        """Return how many of `limit` belong to this master; `key`: see `share_of`."""
        return share_of(limit, key, self.master_id, self.masters)


def _rank(key: str, master_id: str) -> tuple[bytes, str]:
    return blake2b(f"{key} {master_id}".encode(), digest_size=8).digest(), master_id
