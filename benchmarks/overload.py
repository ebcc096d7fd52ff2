"""Measure a storm of pushes far beyond the throughput: how many jobs get through, what they cost, and whether all of
them end."""

import statistics
import threading
import time
from typing import Any, Final

import httpx

from benchmarks.load import System, running_system
from benchmarks.scenario import Figures, Scenario, waits

SAMPLE_S: Final = 0.5


class Watch:
    """Checks the memory of the master twice a second, and how soon it answers a worker."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self.rss_mib: list[float] = []
        self.heartbeats_ms: list[float] = []
        self.failures = 0

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        # Register a separate worker that runs no jobs, and measure its heartbeats.
        with httpx.Client(base_url=self._system.url, trust_env=False, timeout=30) as client:
            registration: dict[str, Any] = {
                "url": None, "names": ["nothing"], "max_jobs": 1, "node_id": "watch", "pid": 1, "labels": {},
                "version": "1", "secret": "s" * 64,
            }  # fmt: skip
            worker_id = client.post("/api/workers", json=registration).raise_for_status().json()["worker_id"]
            while not self._is_over.wait(SAMPLE_S):
                began = time.perf_counter()
                try:
                    answer = client.post(
                        f"/api/workers/{worker_id}/heartbeat", json={"running": [], "free": 0}
                    )
                    self.failures += answer.status_code != 200
                except httpx.HTTPError:
                    self.failures += 1
                self.heartbeats_ms.append((time.perf_counter() - began) * 1000)
                resident = sum(one.memory_info().rss for one in self._system.master_processes())
                self.rss_mib.append(resident / 2**20)


def overload(
    *,
    minutes: float = 10,
    connections: int = 256,
    times_peak: float = 5,
    obeys: bool = True,
    bulk: int = 1,
    appendfsync: str = "always",
) -> Figures:
    """Measure the peak rate of jobs end to end. Then send POSTs of `bulk` jobs each at `times_peak` times this rate,
    while one worker runs jobs. `obeys`: whether pushers wait as long as Retry-After says. The goodput is the number of
    jobs that end in a second."""
    with running_system(appendfsync=appendfsync) as system:
        system.push("single", count=1_000, connections=32, argument_bytes=100)
        system.until_over()
        count = 10_000 if minutes >= 1 else 1_000
        kind = "single" if bulk == 1 else "bulk"
        count *= 1 if bulk == 1 else 2
        pushed = system.push(
            kind, count=count, argument_bytes=100, **({"connections": 32} if bulk == 1 else {})
        )
        system.until_over()
        peak = count / (time.monotonic() - pushed["began_s"])
        with Watch(system) as watch:
            told = system.push(
                "storm",
                seconds=minutes * 60,
                connections=connections,
                rate=peak * times_peak / bulk,
                jobs=bulk,
                argument_bytes=100,
                obeys=obeys,
            )
            left = system.unfinished()
            seconds = time.monotonic() - told["began_s"]
        answers: dict[str, int] = told["answers"]
        accepted = answers.get("201", 0) * bulk
        goodput = (accepted - left) / seconds
        began = time.perf_counter()
        system.until_over(timeout_s=1800)
        stats = system.counts()
        drained_s = time.perf_counter() - began
        half = len(watch.rss_mib) // 2
        return {
            "peak_per_s": peak,
            "goodput_per_s": goodput,
            "goodput_percent": 100 * goodput / peak,
            "accepted": accepted,
            "refused_429": answers.get("429", 0),
            "refused_503": answers.get("503", 0),
            "unanswered": answers.get("0", 0),
            "failed": stats["failed"],
            "left_at_end": left,
            "drained_s": drained_s,
            "rss_mib_start": watch.rss_mib[0],
            "rss_mib_max": max(watch.rss_mib),
            "rss_mib_second_half_growth": max(watch.rss_mib[half:])
            - statistics.median(watch.rss_mib[:half] or [0]),
            "heartbeat_failures": watch.failures,
            "heartbeat_p50_ms": statistics.median(watch.heartbeats_ms),
            "heartbeat_max_ms": max(watch.heartbeats_ms),
            **waits(told),
        }


SCENARIOS: Final = [
    Scenario(
        "overload",
        overload,
        [{"obeys": True}, {"obeys": False}, {"bulk": 100, "connections": 64, "minutes": 2}],
        quick={"minutes": 0.1, "connections": 64},
        group="overload",
    )
]
