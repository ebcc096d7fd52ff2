"""Counts of events and of what they started, for the metrics of one process."""

from collections import Counter
from collections.abc import Iterable
from typing import Protocol

from jqmaster.domain.events.event import Effect, Started


class _FigureAnswer(Protocol):
    @property
    def is_duplicate(self) -> bool: ...

    @property
    def started(self) -> Iterable[Started]: ...


class EventFigures:
    """Counts of this process. `events`: by whether they were duplicates. `effects`: of other events, one for each
    definition. `groups`: groups of events that started a job."""

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
