"""Measure challenges: how soon a callback reaches its handler, and what an open challenge costs."""

import array
import math
import time
from collections.abc import Callable
from typing import Final

from benchmarks.load import System, running_system
from benchmarks.scenario import Figures, Scenario
from benchmarks.worker import callback_urls_file

PAGE: Final = 500
WITHIN_S: Final = 900.0


def callback(*, challenges: int = 300, rate: int = 20, pull: bool = False) -> Figures:
    """Measure the time in ms from the post of a callback to the start of its handler, one callback at a time."""
    with running_system(pull=pull) as system:
        _enqueue(system, challenges)
        _until(lambda: system.counts()["awaiting_callback"] == challenges)
        urls = callback_urls_file(str(system.waits_file)).read_text().split()
        for url in urls:
            began_s = time.clock_gettime(time.CLOCK_MONOTONIC)
            system.http.post(url, content=repr(began_s)).raise_for_status()
            time.sleep(max(0.0, 1 / rate - (time.clock_gettime(time.CLOCK_MONOTONIC) - began_s)))
        _until(lambda: system.waits_file.stat().st_size == 8 * challenges)
        waited = sorted(array.array("d", system.waits_file.read_bytes()))

    def at(share: float) -> float:
        return waited[min(len(waited) - 1, math.floor(share * len(waited)))] * 1000

    return {"p50_ms": at(0.5), "p99_ms": at(0.99), "max_ms": waited[-1] * 1000}


def open_challenges(*, challenges: int = 100_000) -> Figures:
    """Measure the bytes of the store's memory that an open challenge takes, without its job, and how long it takes to
    open all challenges."""
    with running_system(workers=0) as system:
        _enqueue(system, challenges)
        before = system.store_memory()
        began_s = time.monotonic()
        system.start_worker()
        _until(lambda: system.counts()["awaiting_callback"] == challenges)
        seconds = time.monotonic() - began_s
        return {"bytes": (system.store_memory() - before) / challenges, "opened_per_s": challenges / seconds}


def _enqueue(system: System, count: int) -> None:
    for start in range(0, count, PAGE):
        jobs = [{"name": "challenge"}] * min(PAGE, count - start)
        system.http.post(f"{system.url}/api/jobs/bulk", json={"jobs": jobs}).raise_for_status()


def _until(is_true: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WITHIN_S
    while not is_true():
        if time.monotonic() > deadline_s:
            raise SystemExit("the challenges did not reach the expected state in time")
        time.sleep(0.25)


SCENARIOS: Final = [
    Scenario("callback", callback, params=[{}, {"pull": True}], quick={"challenges": 10}, group="challenges"),
    Scenario("open_challenges", open_challenges, quick={"challenges": 200}, group="challenges"),
]
