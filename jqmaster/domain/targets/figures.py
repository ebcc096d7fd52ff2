"""Figures of one process about the requests to each target."""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from jqmaster.domain.histogram import Histogram
from jqmaster.domain.targets.answer import DeliveryResult

KEPT_ANSWERS: Final = 20
# The span, up to now, over which rates are computed.
RATE_S: Final = 60
MAX_EXCERPT_CHARS: Final = 500


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """One of the newest answers.

    * `detail`: a text of this service.
    * `excerpt`: the beginning of its body, which is content of the job.
    * `said`: what the endpoint said about the job, which is content, too.
    """

    at_ms: int
    job_id: str
    attempt: int
    result: DeliveryResult
    status: int
    took_ms: int
    detail: str
    excerpt: str = ""
    said: str = ""

    def packed(self) -> list[Any]:
        """Return the answer as other masters read it."""
        return [
            self.at_ms, self.job_id, self.attempt, str(self.result), self.status, self.took_ms, self.detail,
            self.excerpt, self.said,
        ]  # fmt: skip


@dataclass(slots=True)
class TargetFigures:
    """Counts of one target. `calls`: the number of calls by second, from which rates are computed."""

    results: Counter[DeliveryResult] = field(default_factory=Counter)
    took: Histogram = field(default_factory=Histogram)
    last: deque[LastAnswer] = field(default_factory=lambda: deque(maxlen=KEPT_ANSWERS))
    calls: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=RATE_S))

    def add(self, answer: LastAnswer, *, was_sent: bool) -> None:
        """Count the end of a request. A request that was not sent has no duration."""
        self.results[answer.result] += 1
        self.last.append(answer)
        if not was_sent:
            return
        self.took.add(answer.took_ms)
        second = answer.at_ms // 1000
        if self.calls and self.calls[-1][0] == second:
            self.calls[-1] = (second, self.calls[-1][1] + 1)
        else:
            self.calls.append((second, 1))

    def packed(self) -> list[Any]:
        """Return the figures as other masters read them."""
        return [
            {str(result): count for result, count in self.results.items()},
            self.took.span(),
            self.took.max_ms,
            list(self.calls),
            [one.packed() for one in self.last],
        ]


@dataclass(slots=True)
class SummedFigures:
    """The figures of one target at all masters. `per_s`: requests per second, averaged over the last minute."""

    results: Counter[str] = field(default_factory=Counter)
    took: Histogram = field(default_factory=Histogram)
    per_s: float = 0.0
    last: list[LastAnswer] = field(default_factory=list)


def summed(packed: Iterable[Any], now_ms: int) -> SummedFigures:
    """Return the sum of packed figures. Figures that cannot be read are left out."""
    whole = SummedFigures()
    since = now_ms // 1000 - RATE_S
    calls = 0
    for one in packed:
        try:
            results, counts, max_ms, seconds, last, *_ = one
            answers = [
                LastAnswer(
                    at, job_id, attempt, DeliveryResult(result), status, took_ms, detail, excerpt, said
                )
                for at, job_id, attempt, result, status, took_ms, detail, excerpt, said, *_ in last
            ]
            within = sum(count for second, count in seconds if second > since)
            whole.took.add_span(counts, max_ms)
            whole.results.update(results)
        except (ValueError, TypeError, IndexError):
            continue
        calls += within
        whole.last += answers
    whole.per_s = calls / RATE_S
    whole.last = sorted(whole.last, key=lambda answer: -answer.at_ms)[:KEPT_ANSWERS]
    return whole
