"""Measure the microblog of examples/ under load. A job fills the feed of each follower, while other people go on
posting."""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks.scenario import Figures, Scenario
from examples.microblog.__main__ import database
from examples.microblog.system import FEEDS_AT_ONCE, running_site
from examples.microblog.visitor import Visitor
from examples.stdlib.__main__ import free_port

_LOOK_EVERY_S: Final = 2.0


def feed_inserts(
    *,
    jobs: int = 100_000,
    postgres: bool = False,
    rate: float = 10.0,
    alone_s: float = 20.0,
    most_s: float = 600.0,
    workers: int = 2,
    at_once: int | None = FEEDS_AT_ONCE,
) -> Figures:
    """Post once to `jobs` followers. Measure until the last follower has the post, or `most_s` have passed. Another
    account posts `rate` times a second, during this time and for `alone_s` before it.

    * `p50_ms`, `p99_ms`: the times of the other account's requests while the feeds are filled.
    * `alone_…`: the same figures for the time before.
    """
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory,
        database(Path(directory), "" if postgres else None) as address,
        running_site(
            Path(directory),
            address,
            (free_port(0), free_port(0), free_port(0)),
            workers=workers,
            followers=jobs,
            at_once=at_once,
        ) as site,
        Visitor(site.url, "ada") as ada,
        Visitor(site.url, "reader1") as other,
    ):
        # Do not measure the first requests, which open connections.
        _post_until(other, rate, lambda passed_s: passed_s > 2)
        alone = _post_until(other, rate, lambda passed_s: passed_s > alone_s)
        request_s = ada.post("Hello")
        looked_s = time.monotonic()

        def is_over(passed_s: float) -> bool:
            nonlocal looked_s
            if passed_s > most_s:
                return True
            if time.monotonic() - looked_s < _LOOK_EVERY_S:
                return False
            looked_s = time.monotonic()
            return int(ada.progress()["feeds"]) >= jobs

        beside = _post_until(other, rate, is_over)
        found = ada.progress()
        return {
            "feeds": found["feeds"],
            "jobs_per_s": found["feeds"] / found["last_s"],
            "request_ms": request_s * 1000,
            "first_ms": found["first_s"] * 1000,
            "last_s": found["last_s"],
            **_figures("", beside),
            **_figures("alone_", alone),
        }


def _post_until(visitor: Visitor, rate: float, is_over: Callable[[float], bool]) -> list[float]:
    """Post `rate` times a second until `is_over` returns true. Return the time of each request in seconds. `is_over`
    gets the seconds that have passed."""
    times: list[float] = []
    began_s = time.monotonic()
    while not is_over(time.monotonic() - began_s):
        times.append(visitor.post("Tea"))
        # If a request takes longer than its turn, the next requests are late. No requests are added to make up for the
        # delay.
        due_s = began_s + len(times) / rate
        time.sleep(max(0.0, due_s - time.monotonic()))
    return times


def _figures(prefix: str, times: list[float]) -> Figures:
    parts = statistics.quantiles(times, n=100, method="inclusive")
    return {
        f"{prefix}requests": len(times),
        f"{prefix}p50_ms": parts[49] * 1000,
        f"{prefix}p99_ms": parts[98] * 1000,
    }


SCENARIOS: Final = [
    Scenario(
        "feed_inserts",
        feed_inserts,
        [{}, {"postgres": True}],
        quick={"jobs": 200, "alone_s": 1.0, "most_s": 60.0},
        group="example",
    ),
]
