"""Counts of batches, as one master made them."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class BatchFigures:
    """`made`: batches that requests to this master made. `callbacks`: the jobs that this master enqueued for
    batches as the leader, by callback. `expired`: the batches that it canceled because their time was up."""

    made: int = 0
    expired: int = 0
    callbacks: Counter[str] = field(default_factory=Counter)
