"""Define a benchmark and the contents of its records."""

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
    """A benchmark. `run(**params)` measures once. `quick` replaces parameters in a run that only shows that it works.
    The values of `group`:

    * `speed`: takes minutes.
    * `size`: many jobs, much memory.
    * `constraints`
    * `change`: masters die.
    * `overload`: takes long.
    * `example`: the microblog of examples/.
    * `definitions`: up to three minutes each.
    * `challenges`: work that waits for callbacks.
    * `targets`: HTTP endpoints, and the Fireworq gateway.
    * `gathered`: many jobs in one call.
    * `logs`: logs of jobs.
    * `shards`: namespaces, idle and on several stores.
    * `instructions`: counted by Valgrind.
    """

    name: str
    run: Callable[..., Figures]
    params: Sequence[Params] = field(default_factory=lambda: [{}])
    quick: Params = field(default_factory=dict)
    group: str = "speed"

    def cases(self, *, is_quick: bool) -> Iterator[Params]:
        """Return the parameters of each case. A quick run has the same cases with small numbers."""
        seen: list[Params] = []
        for params in self.params:
            given = {**params, **self.quick} if is_quick else dict(params)
            if given not in seen:
                seen.append(given)
                yield given


def label(name: str, params: Params) -> str:
    """Return `name[key=value,…]`, which `--only` is matched against, and which names the row of a table."""
    inside = ",".join(f"{key}={value}" for key, value in sorted(params.items()))
    return f"{name}[{inside}]" if inside else name


class Meter:
    """Measure the cost of the `with` block; call `figures(jobs)` after it."""

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

        * `seconds`: given if the load itself knows how long it took.
        * `since_s`: when it began, by the monotonic clock; a process that pushes takes a while to start.
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
