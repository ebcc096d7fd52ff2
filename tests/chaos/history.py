"""The history of a chaos run: every client call, every line of a worker's file, every fault, the end state.

All instants are seconds of CLOCK_MONOTONIC, which all processes of one machine share.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Self

from tests.chaos.instants import Definition
from tests.chaos.spend_load import Edit

# done: the answer confirmed it. refused: certainly without effect. unknown: it may have happened.
Outcome = Literal["done", "refused", "unknown"]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a client, all its repeats on the wire by itself. `kind`: push, event, view, result, cancel, retry,
    delete, callback.

    push: `job` is the map that was sent, `status` 201 or 200 where it was done, `answered_id` the ID in the answer.
    `verdict` where another job held the uniqueness key, which `answered_id` names: refused, duplicate or replaced.
    event: `job` is the event, `job_id` its key, `answered_id` its ID, and `verdict` "duplicate" for a repeat.
    view, cancel: `state` as answered. result: `value` as answered, `state` where it was not there yet.
    callback: `job` says the request ID, the body, whether its signature is right, and the attempt that opened the
    challenge. `verdict` is the answer: taken, repeated, conflict, over, unknown or unsigned; empty: none of these.
    cancel: `was_running` if the answer shows an attempt that the cancel ended.
    """

    kind: str
    job_id: str
    invoked_s: float
    returned_s: float
    outcome: Outcome
    status: int = 0
    job: Mapping[str, Any] | None = None
    answered_id: str = ""
    state: str = ""
    value: Any = None
    was_running: bool = False
    verdict: str = ""
    # The address that was called, and the code of a problem.
    url: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True)
class DefinitionRuns:
    """The run records of a definition by the clock. All times are those of the store, in ISO 8601: it was made between
    `before` and `after`, all was read at `until_text`, and `latest_text` is the latest time that the clock showed."""

    name: str
    overlap: str
    schedule: Mapping[str, Any]
    zone: str
    jitter_s: int
    before: str
    after: str
    until_text: str
    latest_text: str
    runs: Sequence[Mapping[str, Any]] = ()

    @classmethod
    def of(
        cls, one: Definition, until: datetime, latest: datetime, runs: Sequence[Mapping[str, Any]]
    ) -> "DefinitionRuns":
        return cls(
            one.name, one.overlap, one.schedule, one.zone, one.jitter_s, one.before.isoformat(),
            one.after.isoformat(), until.isoformat(), latest.isoformat(), runs,
        )  # fmt: skip

    def definition(self) -> Definition:
        before, after = datetime.fromisoformat(self.before), datetime.fromisoformat(self.after)
        return Definition(
            self.name, self.overlap, dict(self.schedule), self.zone, self.jitter_s, before, after
        )

    def until(self) -> datetime:
        return datetime.fromisoformat(self.until_text)

    def latest(self) -> datetime:
        return datetime.fromisoformat(self.latest_text)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a worker's file. `life` is its process ID.

    life: the process begins. registered: a master gave it the worker ID `detail`. left: it unregisters that worker,
    without having announced its end. offer: it judged a push, `detail` is
    its verdict, `epoch` that of the push. start, end: before and after a handler; `detail` of a start is "callback"
    where it has the callbacks of its challenge, and that of an end success, failure, discarded, challenged or stopped.
    tick: a blocking handler still runs. backfilled: the job belongs to an instant of a backfill. opened: a challenge;
    `detail` is a JSON map of its request ID and what its job's argument says. callback: the bodies that a handler got,
    as a JSON list. step: the function of the step `detail` runs. stepped: its result is saved; `detail` is a JSON list
    of its name and its result. gathered: the job is one of `detail` jobs of a call. unsealed: `detail` is what was
    sealed. stall: it was not scheduled until `at_s`, for `detail` seconds.
    """

    what: str
    worker: str
    life: int
    at_s: float
    job_id: str = ""
    attempt: int = 0
    token: str = ""
    fence: int = 0
    epoch: int = 0
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """`target`: a process (`master-1`, `worker-3`, `store`) or a link (`worker-3>masters`, `masters>worker-3`,
    `master-1>store`, `pushers>masters`). `exit` is a process that ended by itself; `demote`, `drain` and `detach` are
    orders, `term` is SIGTERM. `bites` counts what it really hit: the process that died or stood still, the order that
    was taken, or the messages that were lost, held, or doubled. `is_leader`: it hit the master that led. `dead_s`: the
    process was gone by then (0: at the end)."""

    kind: str
    target: str
    from_s: float
    to_s: float
    bites: int = 1
    is_leader: bool = False
    dead_s: float = 0.0

    @property
    def died_s(self) -> float:
        return self.dead_s or self.to_s


@dataclass(frozen=True, slots=True)
class Delivery:
    """A webhook that the receiver got, and its answer's status."""

    at_s: float
    job_id: str
    webhook_id: str
    state: str
    status: int
    is_signed: bool


@dataclass(frozen=True, slots=True)
class Silence:
    """A time in which a master did not answer whether it is alive."""

    master: str
    from_s: float
    to_s: float


@dataclass(frozen=True, slots=True)
class EndedAttempt:
    """An ended attempt in the store. The successful attempt of a succeeded job does not have its own entry."""

    attempt: int
    outcome: str
    worker_id: str = ""


@dataclass(frozen=True, slots=True)
class EndState:
    """A job in the store at the end of the run. `token` and `fence` belong to its last claim."""

    id: str
    name: str
    state: str
    cause: str = "none"
    argument: Any = None
    priority: int = 0
    attempt: int = 0
    failures: int = 0
    losses: int = 0
    max_retry: int = 5
    token: str = ""
    fence: int = 0
    attempts: tuple[EndedAttempt, ...] = ()


@dataclass(frozen=True, slots=True)
class Epoch:
    """A reading by an observer: the newest epoch, and the lock's holder ("" if free)."""

    at_s: float
    number: int
    nonce: str
    holder: str = ""


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms agreed with the system under test. `limits`: the most jobs of a name at once."""

    lease_s: float = 3.0
    max_losses: int = 3
    masters: int = 3
    limits: Mapping[str, int] = field(default_factory=dict)
    # Without faults, waiting work starts within this time; after one, within `recovery_s` more.
    resume_within_s: float = 5.0
    recovery_s: float = 15.0
    # A stopped process that wakes ends runs that it may not continue within this time.
    wake_s: float = 1.0


@dataclass(slots=True)
class History:
    """`began_s` and `load_ended_s` bound the pushing. `drained_s`: no job was unfinished by then; 0 if that was not
    seen."""

    terms: Terms = field(default_factory=Terms)
    calls: list[Call] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    jobs: dict[str, EndState] = field(default_factory=dict)
    epochs: list[Epoch] = field(default_factory=list)
    definitions: list[DefinitionRuns] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    silences: list[Silence] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)
    # Answers to the hostile tenant, and to backfills, by path and status.
    answers: dict[str, int] = field(default_factory=dict)
    # The masters' own jobs (reserved names), by ID.
    own_jobs: dict[str, EndState] = field(default_factory=dict)
    fsck: list[str] = field(default_factory=list)
    slots: list[str] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    # Processes that did not end when told to.
    stuck: list[str] = field(default_factory=list)
    began_s: float = 0.0
    load_ended_s: float = 0.0
    drained_s: float = 0.0
    seed: int = 0

    def take_lines(self, journal: Path) -> None:
        """Add a worker's file."""
        lines, damage = read_lines(journal)
        self.lines += lines
        self.damage += damage

    def save(self, path: Path) -> None:
        """Write one JSON object per line, its kind first. The file can be searched with grep and read with `load`."""
        with path.open("w") as file:
            names = ("began_s", "load_ended_s", "drained_s", "answers")
            head = {"terms": asdict(self.terms)} | {name: getattr(self, name) for name in names}
            parts: list[tuple[str, Iterable[Any]]] = [
                ("head", [head | {"seed": self.seed}]),
                *((name, map(asdict, getattr(self, name))) for name in _RECORDS),
                ("jobs", map(asdict, self.jobs.values())),
                ("own_jobs", map(asdict, self.own_jobs.values())),
                *((name, getattr(self, name)) for name in _TEXTS),
            ]
            for kind, items in parts:
                for item in items:
                    file.write(json.dumps([kind, item], separators=(",", ":")) + "\n")

    @classmethod
    def load(cls, path: Path) -> Self:
        history = cls()
        for text in path.read_text().splitlines():
            kind, item = json.loads(text)
            if kind == "head":
                history.terms = Terms(**item.pop("terms"))
                for name, value in item.items():
                    setattr(history, name, value)
            elif kind in ("jobs", "own_jobs"):
                attempts = tuple(EndedAttempt(**one) for one in item.pop("attempts"))
                getattr(history, kind)[item["id"]] = EndState(**item, attempts=attempts)
            elif kind in _RECORDS:
                getattr(history, kind).append(_RECORDS[kind](**item))
            else:
                getattr(history, kind).append(item)
        return history


_RECORDS: dict[str, Any] = {"calls": Call, "lines": Line, "faults": Fault, "epochs": Epoch,
    "definitions": DefinitionRuns, "deliveries": Delivery, "silences": Silence, "edits": Edit}  # fmt: skip
_TEXTS = ("fsck", "slots", "damage", "stuck")


def write_line(line: Line) -> bytes:
    """Return the bytes for one write(2) to an O_APPEND file, which keeps lines whole even under SIGKILL."""
    return json.dumps(asdict(line), separators=(",", ":")).encode() + b"\n"


def read_lines(path: Path) -> tuple[list[Line], list[str]]:
    """Return the lines of a worker's file, and those that could not be read."""
    lines, damage = [], []
    for number, text in enumerate(path.read_bytes().splitlines(), 1) if path.exists() else ():
        try:
            lines.append(Line(**json.loads(text)))
        except (ValueError, TypeError) as error:
            damage.append(f"{path.name}:{number}: {error}")
    return lines, damage
