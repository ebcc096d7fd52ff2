"""Defines benchmarks and the contents of their records."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.load import System

Params = Mapping[str, Any]
Figures = dict[str, float]


@dataclass(frozen=True)
class Scenario:
    """A benchmark. `run(**params)` measures once. `quick`: the parameters for a quick run, which only shows that the
    benchmark works. The values of `group` are:

    * `speed`: the usual figures, which take minutes.
    * `size`: many jobs, which need much memory.
    * `constraints`: the cost of constraints.
    * `change`: changes of the leader.
    * `overload`: more pushes than the system can handle. These benchmarks take long.
    * `example`: the microblog of examples/.
    * `definitions`: definitions with schedules. Each benchmark takes up to three minutes.
    * `challenges`: work that waits for callbacks.
    * `targets`: HTTP endpoints, and the Fireworq gateway.
    * `gathered`: many jobs in one call.
    * `logs`: logs of jobs.
    * `shards`: namespaces, idle and on several stores.
    * `instructions`: numbers of instructions, counted by Valgrind.
    """

    name: str
    run: Callable[..., Figures]
    params: Sequence[Params] = field(default_factory=lambda: [{}])
    quick: Params = field(default_factory=dict)
    group: str = "speed"

    def cases(self, *, is_quick: bool) -> Iterator[Params]:
        """Yield the parameters of each case. A quick run has the same cases with small numbers."""
        seen: list[Params] = []
        for params in self.params:
            given = {**params, **self.quick} if is_quick else dict(params)
            if given not in seen:
                seen.append(given)
                yield given


def label(name: str, params: Params) -> str:
    """Return `name[key=value,…]`. The patterns of `--only` are matched against this text, and it names the row of a
    table."""
    inside = ",".join(f"{key}={value}" for key, value in sorted(params.items()))
    return f"{name}[{inside}]" if inside else name


class Meter:
    """Measures the cost of a `with` block. Call `figures(jobs)` after the block."""

    def __init__(self, system: System) -> None:
        self._system = system
        self.seconds = 0.0
        self._ended_s = 0.0
        self._spent: dict[str, float] = {}
        self._calls: dict[str, int] = {}

    @contextlib.contextmanager
    def running(self) -> Iterator["Meter"]:
        calls, before = self._system.store_calls(), self._system.cpu_s()
        began = time.perf_counter()
        yield self
        self.seconds = time.perf_counter() - began
        self._ended_s = time.monotonic()
        after, calls_after = self._system.cpu_s(), self._system.store_calls()
        self._spent = {kind: after[kind] - before[kind] for kind in after}
        self._calls = {kind: calls_after[kind] - calls[kind] for kind in calls}

    def figures(self, jobs: int, *, seconds: float | None = None, since_s: float | None = None) -> Figures:
        """Return the figures of the block.

        * `seconds`: how long the load took, if the load itself has measured it.
        * `since_s`: when the load began, by the monotonic clock. A pushing process takes a while to start, so the load
          begins later than the block.
        """
        if since_s is not None:
            seconds = self._ended_s - since_s
        split = {f"cpu_us_{kind}": spent / jobs * 1e6 for kind, spent in self._spent.items()}
        return {
            "jobs_per_s": jobs / (seconds or self.seconds),
            "cpu_us": sum(split.values()),
            **split,
            "store_scripts": self._calls["scripts"] / jobs,
            "store_commands": self._calls["commands"] / jobs,
        }


def waits(told: Mapping[str, Any]) -> Figures:
    """Return p50, p99 and the maximum of the waits that a pushing process measured."""
    return {f"{name}_ms": value for name, value in told["waits_ms"].items()}
