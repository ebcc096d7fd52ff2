"""Counts of batches in one master."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class BatchFigures:
    """Counts of this master. `made`: batches that its requests created. `callbacks`: jobs that it enqueued for batches
    as the leader, by callback. `expired`: batches that it canceled because they had expired."""

    made: int = 0
    expired: int = 0
    callbacks: Counter[str] = field(default_factory=Counter)
