"""A move of a namespace to another store: its steps, and how long it stops the namespace."""

import math
from dataclasses import dataclass
from typing import Final, Literal, get_args

from jqmaster.domain.namespaces.namespace import NamespaceState

# The steps of a move. Those that are not listed here are final.
# - `announced`: leases are prolonged.
# - `closing`: masters stop serving the namespace.
# - `copying`, `checking`: its data are copied and compared.
# - `returning`: the move failed, and the namespace is opened again in its old store.
MoveStep = Literal["announced", "closing", "copying", "checking", "returning", "done", "failed", "aborted"]
STEPS: Final[tuple[MoveStep, ...]] = get_args(MoveStep)
ENDS: Final = frozenset({"done", "failed", "aborted"})

# Maximum difference between the clocks of the two stores. It is small, because leases and due times are copied
# unchanged.
MAX_CLOCK_DIFFERENCE_MS: Final = 500
# How long the old store keeps its copy after a move: one day.
LEFT_FOR_MS: Final = 24 * 3600 * 1000
# Estimates of the time of a move. Per key: twice the measured CPU time of master and stores for a waiting job. That
# time is 0.12 ms: 0.02 for the copy, 0.04 for the comparison, and the rest for fsck. Large keys add time in proportion
# to their size, and the other steps add a fixed time.
_MS_PER_KEY: Final = 0.25
_MS_PER_MIB: Final = 40.0
_REST_MS: Final = 5_000
# How long the overview shows a failed move.
FAILED_SHOWN_MS: Final = 7 * LEFT_FOR_MS
# The longest lease.
MAX_STOP_MS: Final = 600_000
# A copy may take this share of the free memory. The rest is a reserve, because data may need a little more memory than
# at the source.
_USABLE_MEMORY: Final = 0.8


@dataclass(frozen=True, slots=True)
class MoveSize:
    """The data of a namespace. `bytes`: the memory that the data take, estimated from a sample. `unknown`: keys that
    this release does not know."""

    keys: int
    bytes: int
    unknown: int = 0

    @property
    def stop_ms(self) -> int:
        """Return how long the move is expected to stop the namespace."""
        return math.ceil(_REST_MS + self.keys * _MS_PER_KEY + self.bytes / 2**20 * _MS_PER_MIB)


@dataclass(frozen=True, slots=True)
class MoveTerms:
    """The request for a move.

    * `source`, `target`: stores.
    * `state`: the state of the namespace before the move. The namespace gets it back.
    * `who`: the caller.
    * `stop_ms`: the stop that was announced.
    * `began_at_ms`: by the clock of the registry's store.
    """

    source: str
    target: str
    state: NamespaceState
    who: str
    size: MoveSize
    stop_ms: int
    began_at_ms: int


@dataclass(frozen=True, slots=True)
class MoveProgress:
    """How far a move has come. `copied`, `compared`: numbers of keys. `reason`: why it failed, or what it waits for."""

    copied: int = 0
    compared: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Move:
    """The newest move of a namespace.

    * `number`: how often a master took it over.
    * `mover_id`: the master that works on it.
    * `released`: for each master, the version of the registry with which it stopped serving the namespace.
    * `aborted_by`: who asked to abort it. Empty: nobody.
    * `ended_at_ms`: None while it is under way.
    """

    name: str
    id: str
    number: int
    step: MoveStep
    terms: MoveTerms
    progress: MoveProgress
    mover_id: str = ""
    released: frozenset[tuple[str, int]] = frozenset()
    aborted_by: str = ""
    ended_at_ms: int | None = None

    @property
    def is_under_way(self) -> bool:
        return self.step not in ENDS

    @property
    def failure(self) -> str:
        """Return why the move failed, as a text for people. Empty: it did not fail."""
        if self.step != "failed":
            return ""
        return f"its move to store {self.terms.target} failed: {self.progress.reason}"


@dataclass(frozen=True, slots=True)
class LeftCopy:
    """A copy that a move left in a store. Nobody serves the copy, and it is removed later. `id` and `number`: the move
    that froze the copy, and how often a master had taken over this move."""

    store: str
    tag: str
    id: str
    number: int


def fits(size: MoveSize, used_bytes: int | None, most_bytes: int | None) -> bool:
    """Return whether a store that uses this much of its memory limit has room for the data. A store without a limit
    always has room."""
    if used_bytes is None or not most_bytes:
        return True
    return size.bytes <= (most_bytes - used_bytes) * _USABLE_MEMORY
