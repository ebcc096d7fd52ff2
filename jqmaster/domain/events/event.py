"""An event, and its effect on one definition."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import Final, Protocol

from jqmaster.domain.definitions.run import RunOutcome, RunReason
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.matching.fields import EventFields
from jqmaster.domain.matching.packed import decoded

MAX_TEXT: Final = 1024
MAX_DEDUPE_KEY: Final = 255


@dataclass(frozen=True, slots=True)
class Event:
    """An application's message that something has happened. `payload` is one MessagePack value.

    Events with the same `source` and `dedupe_key` are the same event; an event with an empty key is never a repeat.

    * `is_bound`: the token of the sender is bound to names. The key is then compared only with bound events of the same
      type. Otherwise, such a token could suppress events that it may not send.
    * `replay_of`: the event that an operator sent again.
    """

    id: str
    event_type: str
    payload: bytes
    dedupe_key: str = ""
    source: str = ""
    subject: str = ""
    occurred_at_ms: int | None = None
    replay_of: str = ""
    is_bound: bool = False

    @property
    def dedupe_digest(self) -> str:
        """Return a digest that is equal for all repeats of the event; empty for an event without a key."""
        if not self.dedupe_key:
            return ""
        # Begin with the length of the source, so that no other pair of source and key gives the same text.
        text = f"{len(self.source)}\n{self.source}{self.dedupe_key}"
        if self.is_bound:
            # Add the type on a line of its own. A text without a type is never equal: it begins with a digit, and a
            # type contains no line feed.
            text = f"type {self.event_type}\n{text}"
        return blake2b(text.encode(), digest_size=16).hexdigest()

    @property
    def fields(self) -> EventFields:
        """Return the fields that matchers, keys and arguments may read."""
        return EventFields(
            event_id=self.id,
            event_type=self.event_type,
            source=self.source,
            subject=self.subject,
            occurred_at=None if self.occurred_at_ms is None else iso_ms(self.occurred_at_ms),
            payload=self.payload,
            decode=decoded,
        )


class Effect(StrEnum):
    """The effect of an event on a definition at the time of its arrival."""

    FIRED = str(RunOutcome.FIRED)
    SKIPPED = str(RunOutcome.SKIPPED)
    # The event waits in a group, and a job is enqueued later.
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class Started:
    """The effect of an event on one definition. `job_id`: the started job, or the job that a waiting event will
    start."""

    definition: str
    effect: Effect
    reason: RunReason
    job_id: str


class _FigureAnswer(Protocol):
    @property
    def is_duplicate(self) -> bool: ...

    @property
    def started(self) -> Iterable[Started]: ...


class EventFigures:
    """Counts of this process.

    * `events`: the events, by whether they were duplicates.
    * `effects`: the effects of events that were no duplicates. An event has one effect on each definition.
    * `groups`: groups of events that started a job.
    """

    __slots__ = ("effects", "events", "groups")

    def __init__(self) -> None:
        self.events: Counter[bool] = Counter()
        self.effects: Counter[Effect] = Counter()
        self.groups = 0

    def add(self, answers: Iterable[_FigureAnswer]) -> None:
        """Count the answers to events."""
        for answer in answers:
            self.events[answer.is_duplicate] += 1
            if not answer.is_duplicate:
                for started in answer.started:
                    self.effects[started.effect] += 1
