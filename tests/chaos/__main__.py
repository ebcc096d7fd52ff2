"""`python -m tests.chaos`: the long form. Exits with 1 if a promise was broken."""

import argparse
import asyncio
import secrets
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from tests.chaos.checker import Report, check
from tests.chaos.history import History
from tests.chaos.load import Mix
from tests.chaos.namespaces_check import check_installation
from tests.chaos.namespaces_history import InstallationHistory
from tests.chaos.namespaces_run import PLAIN, run_installation
from tests.chaos.plan import INSTALLATION, PRODUCTION, Scale, drill, make_plan
from tests.chaos.run import Order, run, table
from tests.chaos.store import powers

SHOWN = 50


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="length of the load")
    parser.add_argument("--seed", type=int, help="of the plan; a random one is drawn and printed")
    parser.add_argument("--masters", type=int, default=Scale().masters)
    parser.add_argument("--workers", type=int)
    parser.add_argument(
        "--pull", type=int, default=Scale().pulling, help="how many of the workers fetch their jobs"
    )
    parser.add_argument(
        "--namespaces",
        type=int,
        default=1,
        help="with more than one, they lie on three stores: see namespaces_run",
    )
    parser.add_argument("--rate", type=float, default=Mix().rate_per_s, help="pushes per second")
    parser.add_argument("--every", type=float, help="mean seconds between faults")
    parser.add_argument("--lease", type=float, help="seconds")
    parser.add_argument("--ttl", type=float, help="of the leader's lock, in seconds")
    parser.add_argument(
        "--production", action="store_true", help="times as a user gets them, instead of shorter ones"
    )
    parser.add_argument(
        "--drill",
        nargs=4,
        metavar=("KIND", "TARGET", "TIMES", "SECONDS"),
        help="instead of a drawn plan: this fault (`kill leader 100 1`) each --every seconds",
    )
    parser.add_argument(
        "--without", default="", help="take memory, age or stop away from workers: the checker must notice"
    )
    parser.add_argument("--out", type=Path, help="directory for logs, history and figures; a new one is made")
    parser.add_argument("--plan", action="store_true", help="show the plan of the seed and end")
    parser.add_argument(
        "--check", type=Path, help="check a history that was kept (with namespaces: its directory), and end"
    )
    given = parser.parse_args()
    if given.check:
        if InstallationHistory.is_in(given.check):
            return _tell(check_installation(InstallationHistory.load(given.check)))
        return _tell(check(History.load(given.check)))
    seed = given.seed if given.seed is not None else secrets.randbelow(1_000_000)
    is_installation = given.namespaces > 1
    base = PRODUCTION if given.production else INSTALLATION if is_installation else Scale()
    scale = replace(
        base,
        masters=given.masters,
        workers=given.workers or base.workers,
        pulling=given.pull,
        lease_s=given.lease or base.lease_s,
        leader_ttl_s=given.ttl or base.leader_ttl_s,
        every_s=given.every or base.every_s,
        **({"stores": INSTALLATION.stores, "namespaces": given.namespaces} if is_installation else {}),
    )
    load_s = given.minutes * 60
    if given.drill:
        kind, target, times, for_s = given.drill
        plan = drill(kind, [target], times=int(times), every_s=scale.every_s, for_s=float(for_s))
        load_s = 1.0 + int(times) * scale.every_s
    else:
        able = powers()
        plan = make_plan(seed, scale, load_s, able)
        for has, what in (
            (able.disk, "a full disk (needs root)"),
            (able.clock, "clock steps (need faketime, and a server that runs under it)"),
        ):
            if not has:
                print(f"missing here: {what}", flush=True)
    if given.plan:
        for planned in plan:
            print(f"{planned.at_s:9.3f}  {planned.for_s:6.3f} s  {planned.kind:<15} {planned.target}")
        return 0
    directory = given.out or Path(tempfile.mkdtemp(prefix="jqmaster-chaos-"))
    directory.mkdir(parents=True, exist_ok=True)
    print(
        f"seed {seed}: {len(plan)} faults in {load_s:g} s; logs and history in {directory}",
        flush=True,
    )
    mix = replace(PLAIN if is_installation else Mix(), rate_per_s=given.rate)
    order = Order(seed, load_s, plan, scale, mix, without=given.without)
    _, report = asyncio.run(run_installation(order, directory) if is_installation else run(order, directory))
    return _tell(report)


def _tell(report: Report) -> int:
    print(table(report.figures))
    for violation in report.violations[:SHOWN]:
        print(violation)
    if len(report.violations) > SHOWN:
        print(f"… and {len(report.violations) - SHOWN} more")
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
