"""Counts of batches, as one master made them."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class BatchFigures:
    """`made` counts those of this master's requests; `callbacks`, by callback, the jobs that this master enqueued for
    batches as the leader; `expired` the batches that it canceled for their time."""

    made: int = 0
    expired: int = 0
    callbacks: Counter[str] = field(default_factory=Counter)
