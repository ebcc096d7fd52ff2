"""Counts of the outcomes of due instants, for the metrics of one process."""

from collections import Counter

from jqmaster.domain.definitions.run import RunOutcome
from jqmaster.domain.histogram import Histogram


class FiringFigures:
    """Counts of this process. `outcomes`: of the run records that it wrote. `lateness`: of the instants that fired in
    time, in ms."""

    __slots__ = ("lateness", "outcomes")

    def __init__(self) -> None:
        self.outcomes: Counter[RunOutcome] = Counter()
        self.lateness = Histogram()
