"""`python -m tests.chaos.proofs NAME`: tests one promise with a figure as often as requested.

Each prints one JSON line of figures, and exits with 1 if one is out of bounds or any promise was broken. Times are
those that a user gets (lease 15 s, leader's lock 5 s), unless `--short`.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, get_args

from jqmaster.config import Durability
from tests.chaos.checker import Report
from tests.chaos.history import History
from tests.chaos.isolation import Isolation, judge
from tests.chaos.load import Mix
from tests.chaos.plan import PRODUCTION, Planned, Scale, drill
from tests.chaos.run import Order, markdown, run, table

# How soon dispatch resumes after the leader's death; how soon a killed worker's jobs run elsewhere.
RESUME_S: Final = 5.0
RERUN_S: Final = 20.0
Figures = dict[str, Any]
# Whether it holds, and its description.
Bound = tuple[bool, str]


@dataclass(frozen=True, slots=True)
class Proof:
    """`make` returns the order for a number of faults; `judge` returns the figures to show and the bounds to hold."""

    promise: str
    times: int
    make: Callable[[int, int, Scale], Order]
    judge: Callable[[History, Figures], tuple[Figures, list[Bound]]]


# --- the leader is killed


def _leader_kill(seed: int, times: int, scale: Scale) -> Order:
    every_s = 2 * scale.leader_ttl_s + 2.0
    plan = drill("kill", ["leader"], times=times, every_s=every_s, for_s=1.0)
    return Order(seed, 1.0 + times * every_s, plan, scale, Mix(poison=0.0))


def _of_leader_kill(history: History, figures: Figures) -> tuple[Figures, list[Bound]]:
    gap = figures["dispatch_gap_at_leader_fault_s"]
    shown = {"leaders_killed": gap["count"], "dispatch_gap_s": gap, "epochs": figures["epochs"]}
    return shown, [
        (gap["count"] > 0, "a leader was killed, or nothing was shown"),
        (gap.get("max", 0.0) < RESUME_S, f"dispatch resumes within {RESUME_S:g} s each time"),
    ]


# --- the leader stands still


def _leader_stop(seed: int, times: int, scale: Scale) -> Order:
    """Yield durations from just too short for a change of leader to three lock lifetimes, with settling time in
    between.
    """
    rng, at_s, plan = random.Random(seed), 1.0, []
    for _ in range(times):
        for_s = round(rng.uniform(0.8, 3.0) * scale.leader_ttl_s, 3)
        plan.append(Planned(round(at_s, 3), for_s, "stop", "leader"))
        at_s += for_s + scale.leader_ttl_s
    return Order(seed, at_s, plan, scale, Mix(poison=0.0))


def _of_leader_stop(history: History, figures: Figures) -> tuple[Figures, list[Bound]]:
    gap = figures["dispatch_gap_at_leader_fault_s"]
    changes = figures["epochs"] - 1
    shown = {
        "leaders_stopped": gap["count"],
        "changes_of_the_lead": changes,
        "stale_let_through": figures["stale_obeyed"],
        "refused_by_workers": figures["refused_by_workers"],
        "dispatch_gap_s": gap,
    }
    return shown, [
        (figures["stale_obeyed"] == 0, "nothing stale gets through"),
        (0 < gap["count"] <= 2 * changes, "every other stop at least costs the lead, or nothing was shown"),
    ]


# --- workers are killed


def _worker_kill(seed: int, times: int, scale: Scale) -> Order:
    """Keep each worker away for longer than the bound: a successor at its address would free its jobs at once."""
    for_s = RERUN_S + 3.0
    # Avoid a crowd, and more than four workers away at once.
    every_s = max(1.2 * scale.stale_s, for_s / 4)
    scale = replace(scale, workers=10, max_jobs=20)
    names = [f"worker-{n}" for n in range(1, scale.workers + 1)]
    plan = drill("kill", names, times=times, every_s=every_s, for_s=for_s)
    mix = Mix(rate_per_s=6.0, long=0.6, long_s=(15.0, 30.0), poison=0.0, canceled=0.0, deleted=0.0)
    return Order(seed, 1.0 + times * every_s + for_s, plan, scale, mix, drain_s=180.0)


def _of_worker_kill(history: History, figures: Figures) -> tuple[Figures, list[Bound]]:
    rerun = figures["rerun_after_worker_kill_s"]
    shown = {
        "workers_killed": sum(f.kind == "kill" and f.bites > 0 for f in history.faults),
        "rerun_s": rerun,
        "last_try_s": figures["last_try_after_worker_kill_s"],
    }
    return shown, [
        (rerun["count"] > 0, "some jobs had to run again, or nothing was shown"),
        (rerun.get("p99", 0.0) <= RERUN_S, f"99 of 100 run elsewhere within {RERUN_S:g} s"),
    ]


# --- long jobs on living workers


def _long_jobs(seed: int, times: int, scale: Scale) -> Order:
    """Run jobs ten times as long as everything that could end them, while the store and the leader come and go. There
    are `times` faults, or as many as fit between the first job's start and the last one's end. Outages are shorter than
    the least remaining lease: without its margin, a heartbeat before and one after, and a second to reconnect."""
    long_s = 10 * max(scale.lease_s, scale.grace_s, scale.leader_ttl_s)
    faults = (
        ("kill", "store"), ("stop", "store"), ("stop", "store"), ("kill", "leader"), ("stop", "leader"),
        ("demote", "leader"),
    )  # fmt: skip
    longest_s = 0.9 * scale.lease_s - 2 * scale.heartbeat_s - 1.0
    rng, at_s, plan = random.Random(seed), 2.0, list[Planned]()
    while len(plan) < times and at_s < long_s:
        kind, target = rng.choice(faults)
        for_s = 0.0 if kind == "demote" else round(rng.uniform(0.1, 1.0) * longest_s, 3)
        plan.append(Planned(round(at_s, 3), for_s, kind, target))
        at_s += for_s + scale.lease_s
    mix = Mix(
        rate_per_s=1.0, long=1.0, narrow=0.0, long_s=(long_s, 1.05 * long_s), poison=0.0, failing=0.0, discarding=0.0,
        delayed=0.0, kept=0.0,
        repeated=0.0, contradicted=0.0, canceled=0.0, viewed=0.0, retried=0.0, deleted=0.0, timeouts_s=(86_400.0,),
        tasks=0.0, spending=0.0,
    )  # fmt: skip
    return Order(seed, at_s, plan, replace(scale, max_jobs=100), mix, drain_s=2.2 * long_s)


def _of_long_jobs(history: History, figures: Figures) -> tuple[Figures, list[Bound]]:
    outages = [f.to_s - f.from_s for f in history.faults if f.target == "store" and f.bites]
    shown = {
        "jobs": figures["jobs_accepted"],
        "shortest_run_s": round(min(_lengths(history), default=0.0), 1),
        "lease_s": history.terms.lease_s,
        "store_outages": len(outages),
        "longest_outage_s": round(max(outages, default=0.0), 1),
        "started_again": figures["starts_beyond_the_first"],
        "losses": figures["losses_recorded"],
    }
    return shown, [
        (figures["starts_beyond_the_first"] == 0, "no job is started a second time"),
        (figures["losses_recorded"] == 0, "no lease is lost"),
        (len(outages) > 0, "the store was away, or nothing was shown"),
    ]


def _lengths(history: History) -> Iterator[float]:
    begun = {line.token: line.at_s for line in history.lines if line.what == "start"}
    for line in history.lines:
        if line.what == "end":
            yield line.at_s - begun[line.token]


PROOFS: Final = {
    "leader-kill": Proof("the leader is killed, and dispatch resumes", 100, _leader_kill, _of_leader_kill),
    "leader-stop": Proof(
        "the leader stands still, and nothing stale gets through", 50, _leader_stop, _of_leader_stop
    ),
    "worker-kill": Proof(
        "a worker is killed, and its jobs run elsewhere", 100, _worker_kill, _of_worker_kill
    ),
    "long-jobs": Proof(
        "a job longer than every lease, on a living worker, starts once", 20, _long_jobs, _of_long_jobs
    ),
}


async def prove(name: str, *, seed: int, times: int, scale: Scale, directory: Path) -> tuple[Figures, Report]:
    """Return the proof's figures, with `holds` and the failed bounds in `broken`."""
    proof = PROOFS[name]
    history, report = await run(proof.make(seed, times, scale), directory)
    shown, bounds = proof.judge(history, report.figures)
    broken = [text for holds, text in bounds if not holds]
    if report.violations:
        broken.append(f"{len(report.violations)} violations, see violations.txt")
    return {"proof": name, "seed": seed, "holds": not broken, **shown, "broken": broken}, report


# --- the primary is isolated, with a master beside it: on a store of several servers, and with a load of its own

ISOLATED: Final = "isolated-primary"
# Each proof's promise and default number of faults.
NAMES: Final = {
    **{name: (proof.promise, proof.times) for name, proof in PROOFS.items()},
    ISOLATED: ("the primary is cut off with a master beside it, and nothing accepted is lost", 20),
}


async def prove_isolated(*, times: int, durability: Durability, directory: Path) -> Figures:
    """Like `prove`, run isolations one after another. With less than fsync+quorum, the proof must fail."""
    async with Isolation.begun(directory, durability) as isolation:
        for number in range(1, times + 1):
            shown, _ = judge([await isolation.isolate()])
            print(f"{number} of {times}: {json.dumps(shown)}", file=sys.stderr, flush=True)
    shown, bounds = judge(isolation.rounds)
    (directory / "figures.md").write_text(markdown(shown))
    broken = [text for holds, text in bounds if not holds]
    return {"proof": ISOLATED, "durability": durability, "holds": not broken, **shown, "broken": broken}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.proofs", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; all if none is given"
    )
    parser.add_argument("--times", type=int, help="faults; each proof has its own default")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--short", action="store_true", help="the shorter times of `make chaos`")
    parser.add_argument(
        "--pull", type=int, default=Scale().pulling, help="how many of the workers fetch their jobs"
    )
    parser.add_argument(
        "--durability",
        choices=get_args(Durability),
        default="fsync+quorum",
        help=f"of {ISOLATED}: with less it shows what is lost",
    )
    parser.add_argument(
        "--out", type=Path, help="directory for logs, histories and figures; a new one is made"
    )
    given = parser.parse_args()
    if unknown := set(given.names) - set(NAMES):
        parser.error(f"no such proof: {', '.join(sorted(unknown))}")
    scale = replace(Scale() if given.short else PRODUCTION, workers=6, plain=0, pulling=given.pull)
    out = given.out or Path(tempfile.mkdtemp(prefix="jqmaster-proofs-"))
    all_hold = True
    for name in given.names or NAMES:
        directory = out / name
        directory.mkdir(parents=True)
        promise, times = NAMES[name]
        print(f"{name}: {promise}; logs and history in {directory}", file=sys.stderr)
        figures = asyncio.run(_prove(name, given, given.times or times, scale, directory))
        print(json.dumps(figures), flush=True)
        (directory / "proof.json").write_text(json.dumps(figures) + "\n")
        all_hold &= figures["holds"]
    return 0 if all_hold else 1


async def _prove(name: str, given: argparse.Namespace, times: int, scale: Scale, directory: Path) -> Figures:
    if name == ISOLATED:
        return await prove_isolated(times=times, durability=given.durability, directory=directory)
    figures, report = await prove(name, seed=given.seed, times=times, scale=scale, directory=directory)
    print(table(report.figures), file=sys.stderr)
    return figures


if __name__ == "__main__":
    sys.exit(main())
