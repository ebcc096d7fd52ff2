"""The facts from which the health of a queue is judged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from jqmaster.domain.calendars.ending import EndingCalendar
from jqmaster.domain.instant import span


@dataclass(frozen=True, slots=True)
class SilentProcess:
    """A worker or master that gives no sign of life.

    * `held`: the jobs that are still assigned to it.
    * `successor`: the worker that took its place. Empty: none.
    """

    name: str
    last_seen_ms: int
    held: int = 0
    id: str = ""
    successor: str = ""


@dataclass(frozen=True, slots=True)
class LongWait:
    """The job that waits longest although no limit holds it back.

    * `cause`, `cause_code`, `cause_figures`: why it waits, as the text, the code and the values of a verdict. Empty:
      not known.
    * `is_queued`: it waits only because all slots of its workers are taken.
    """

    job_id: str
    name: str
    wait_ms: int
    cause: str = ""
    is_queued: bool = False
    cause_code: str = ""
    cause_figures: Mapping[str, str | int | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FullLimit:
    """A constraint that holds jobs back.

    * `held`: how many jobs it holds back.

    The other fields describe the gate that holds the most jobs:

    * `value`: the value of the key. None: the constraint has no key.
    * `waiting`: how many jobs wait for the gate. The limits that close it follow.
    * `unit`: what the limits count. Empty: jobs.
    * `used`: the units that started within the period of the rate.
    * `keys` and `closed_keys`: how many values of the key are in use, and how many of them are closed (None: not
      known).
    * `since_ms`: since when the constraint has held jobs back without a break, as far as the readings show. None: for
      less than WAIT_WARN_MS.
    """

    name: str
    held: int
    waiting: int
    value: str | None = None
    slots: int | None = None
    running: float | None = None
    rate: tuple[int, int] | None = None
    opens_at_ms: int | None = None
    held_until_ms: int | None = None
    unit: str = ""
    used: float | None = None
    keys: int | None = None
    closed_keys: int | None = None
    since_ms: int | None = None

    @property
    def eta_ms(self) -> int | None:
        """Return the time in which a rate lets all waiting jobs start. Return None if no rate limits them, or if the
        rate counts units: the units of waiting jobs are not summed up.
        """
        return None if self.rate is None or self.unit else self.waiting * self.rate[1] // self.rate[0]


@dataclass(frozen=True, slots=True)
class PausedJobs:
    """A pause.

    * `kind`: a separate pause, a paused constraint, or paused values of a constraint.
    * `of`: by what the paused jobs are selected.
    * `subject`: the name, the tag, the value of `key`, or the constraint. Empty if a matcher selects the jobs.
    * `by`: who made the pause. Empty: unknown.
    * `values`: the number of paused values.
    """

    name: str
    kind: Literal["pause", "paused", "paused_values"]
    of: Literal["name", "tag", "value", "constraint", "matcher"]
    subject: str
    waiting: int
    since_ms: int
    by: str = ""
    reason: str = ""
    until_ms: int | None = None
    key: str = ""
    values: int = 0

    @property
    def what(self) -> str:
        """Return the jobs in words."""
        words = {
            "name": f"jobs named {self.subject}",
            "tag": f"jobs tagged {self.subject}",
            "value": f"jobs with {self.key} = {self.subject}",
            "constraint": f"jobs of constraint {self.subject}",
            "matcher": "jobs that match a condition",
        }
        return words[self.of]


@dataclass(frozen=True, slots=True)
class NewKind:
    """A kind of failure that is new or came back. `version`: the version of the workers, if this version had such a
    failure for the first time within the last hour. Empty: none.
    """

    mark: Literal["new", "regressed"]
    cause: str
    first_seen_ms: int
    version: str = ""

    def text(self, now_ms: int) -> str:
        """Return the kind in a sentence."""
        version = f" on version {self.version} of its workers" if self.version else ""
        if self.mark == "new":
            return f"A new kind of failure ({self.cause}) began {span(now_ms - self.first_seen_ms)} ago{version}."
        return f"A kind of failure ({self.cause}) came back after a day without it{version}."


@dataclass(frozen=True, slots=True)
class FailingJobs:
    """A name whose jobs fail. `kind`: what is new in these failures. None: nothing."""

    name: str
    failed: int
    share: float
    kind: NewKind | None = None


@dataclass(frozen=True, slots=True)
class TroubledDefinition:
    """A definition that missed its newest instant, is late for it, or has skipped the last `skips` instants. `reason`:
    why it skipped the newest one."""

    name: str
    is_missed: bool
    due_ms: int
    skips: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthFacts:
    """The facts about a queue at `now_ms`.

    * `unserved`: names that no live worker runs, each with its ready jobs.
    * `backlog`: ready jobs at the end of each of the last complete minutes. None stands for a minute that is not known;
      the first and the last minute are known. Empty: no minute is known.
    * `failed_before`: the average number of failures in ten minutes, in the time before the last ten minutes.

    Lists begin with the worst."""

    now_ms: int
    ready: int
    running: int
    oldest_wait_ms: int | None
    has_leader: bool
    late_leader: SilentProcess | None
    stale_masters: int
    fresh_workers: int
    stale_workers: int
    busy: int
    slots: int
    detached_workers: Sequence[SilentProcess]
    store_faults: Sequence[str]
    duty_faults: Sequence[str]
    durability: str
    given_durability: str
    is_less_durable: bool
    latency_ms: float
    memory_bytes: int
    max_memory_bytes: int | None
    unserved: Sequence[tuple[str, int]]
    longest: LongWait | None
    limits: Sequence[FullLimit]
    pauses: Sequence[PausedJobs]
    failing: Sequence[FailingJobs]
    failed_lately: int
    failed_before: float
    definitions: Sequence[TroubledDefinition]
    backlog: Sequence[int | None]
    calendars: Sequence[EndingCalendar] = ()
