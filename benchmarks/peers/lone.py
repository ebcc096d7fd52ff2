"""`python -m benchmarks.peers.lone`: run single jobs at a steady rate in this queue and in Sidekiq, in turns.

The program prints, for each round and system, the CPU time of a job in each process, and the time from the push to the
start of the handler. At the end, it prints the ratios of the medians.
"""

import argparse
import array
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from benchmarks.peers.__main__ import PEERS, REDIS, Running, our_system
from benchmarks.scenario import Figures

WARM_UP: Final = 100


def of_sidekiq(jobs: int, rate: int) -> Figures:
    (peer,) = (one for one in PEERS if one.name == "sidekiq")
    if not peer.needs() or not Path(REDIS).exists():
        raise SystemExit("sidekiq, ruby or redis-server is not installed")
    with tempfile.TemporaryDirectory(prefix="jqmaster-peer-") as name, contextlib.ExitStack() as stack:
        running = Running(peer, Path(name), stack)
        running.start_worker()
        running.push(WARM_UP, str(rate))
        running.until(WARM_UP)
        before = running.cpu_s()
        told = running.push(jobs, str(rate))
        running.until(WARM_UP + jobs)
        after = running.cpu_s()
        cpu_s = {"pusher": told["cpu_s"], **{kind: after[kind] - before[kind] for kind in after}}
        return _figures(cpu_s, jobs, running.waits_file)


def of_ours(jobs: int, rate: int) -> Figures:
    with our_system(workers=1) as system:
        waits_file = system.waits_file
        system.push("latency", rate=rate, count=WARM_UP, waits_file=str(waits_file))
        os.truncate(waits_file, 0)
        before = system.cpu_s()
        told = system.push("latency", rate=rate, count=jobs, waits_file=str(waits_file))
        system.until_over()
        after = system.cpu_s()
        kinds = ("master", "worker", "store")
        cpu_s = {"pusher": told["cpu_s"], **{kind: after[kind] - before[kind] for kind in kinds}}
        return _figures(cpu_s, jobs, waits_file)


def _figures(cpu_s: dict[str, float], jobs: int, waits_file: Path) -> Figures:
    waits_s = array.array("d")
    # Wait until all lines are written. A job counts as finished shortly before its line is written.
    for _ in range(100):
        waits_s = array.array("d", waits_file.read_bytes())
        if len(waits_s) >= jobs:
            break
        time.sleep(0.05)
    last = sorted(waits_s[-jobs:])
    split = {f"cpu_us_{kind}": round(value / jobs * 1e6) for kind, value in cpu_s.items()}
    return {
        "cpu_us": sum(split.values()),
        **split,
        "p50_ms": round(1000 * statistics.median(last), 2),
        "p99_ms": round(1000 * last[int(0.99 * len(last))], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.peers.lone", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=int, default=100, help="jobs a second")
    parser.add_argument("--seconds", type=int, default=10)
    given = parser.parse_args()
    jobs = given.rate * given.seconds
    runs: dict[str, list[Figures]] = {"jqmaster": [], "sidekiq": []}
    for _ in range(given.rounds):
        for name, measure in (("jqmaster", of_ours), ("sidekiq", of_sidekiq)):
            runs[name].append(measure(jobs, given.rate))
            json.dump({"peer": name, "rate": given.rate, "jobs": jobs, "figures": runs[name][-1]}, sys.stdout)
            print(flush=True)
    ratios = {
        key: round(statistics.median(o[key] / t[key] for o, t in zip(*runs.values(), strict=True)), 2)
        for key in ("cpu_us", "p50_ms", "p99_ms")
    }
    print(json.dumps({"ratios to sidekiq": ratios}))


if __name__ == "__main__":
    main()
